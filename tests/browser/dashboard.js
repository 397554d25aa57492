// The operators' dashboard: it shows the service's data, its actions are confirmed first and apply to the voucher
// shown, and its token lives as long as the tab.

import assert from 'node:assert/strict';

import { axe, setVisibility } from './browser.js';
import { appears, hasText, requests } from './scene.js';
import { setting, until } from './site.js';

export const FOLLOW_MS = 20000;
const CALLS_PER_S = 10;
const WINDOW_S = 6;

/** `token`: of another operator than the stack's. */
export async function dashboard(scene, { init, token, ...options } = {}) {
    const context = await scene.visitor({ viewport: { width: 1200, height: 900 }, ...options });
    await init?.(context);
    const page = await scene.open(context, '/admin/ui');
    await logIn(page, token);
    return page;
}

async function logIn(page, token = setting('SECKILL_ADMIN_TOKEN')) {
    const form = page.locator('form[data-login]');
    await form.locator('input').first().fill(token);
    await form.getByRole('button').first().click();
}

/** A voucher's row of the table, with its panels. */
export const card = (page, voucher, state) =>
    page.locator(`tbody[data-voucher="${voucher}"]${state ? `[data-state="${state}"]` : ''}`);

/** Opens the panel `details` or `settlement`, unless it is open. */
export async function opened(page, voucher, name) {
    const panel = card(page, voucher).locator(`[data-${name}]`);
    await appears(card(page, voucher), 'the voucher');
    if (!(await panel.isVisible())) {
        await card(page, voucher).locator(`button[data-action="${name}"]`).click();
    }
    await panel.waitFor({ state: 'visible' });
    return panel;
}

const IN_ROW = ['pause', 'resume', 'details', 'settlement'];

export async function action(page, voucher, name) {
    if (!IN_ROW.includes(name)) {
        await opened(page, voucher, 'details');
    }
    return card(page, voucher).locator(`button[data-action="${name}"]`);
}

const dialog = (page) => page.locator('dialog[data-confirm][open]');

/** Presses the button of an action, and confirms it in the dialog. */
async function confirmed(page, voucher, name, fill) {
    await (await action(page, voucher, name)).click();
    await appears(dialog(page), 'the question before it is done');
    if (fill !== undefined) {
        await dialog(page).locator('input[inputmode="numeric"], input[type="number"]').first().fill(String(fill));
    }
    await doIt(page).click();
}

const doIt = (page) => dialog(page).locator('button[type="submit"]');

const stateOf = async (scene, voucher) => (await scene.api.shown(voucher)).state;

async function logsIn(scene) {
    const voucher = await scene.voucher({ title: 'A tea set', stock: 40 });
    const context = await scene.visitor();
    const page = await scene.open(context, '/admin/ui');
    await logIn(page, 'not-the-token-of-anybody');
    await appears(page.locator('form[data-login] [role="alert"]:not(:empty)'), 'that the token is wrong');
    assert.equal(await page.locator('[data-vouchers] tbody').count(), 0);
    await logIn(page);
    await hasText(card(page, voucher), /A tea set/, 'the voucher');
    await hasText(card(page, voucher).locator('[data-remaining]'), /40/, 'remaining');
    await scene.api.buy(voucher, scene.user());
    await hasText(card(page, voucher).locator('[data-remaining]'), /39/, 'remaining', FOLLOW_MS);
    await appears(page.locator('[data-instance]'), 'the instance');
    const kept = () => page.evaluate(() => JSON.stringify([localStorage, document.cookie, location.href]));
    assert.ok(!(await kept()).includes(setting('SECKILL_ADMIN_TOKEN')), 'the token is kept');
    await page.reload();
    await hasText(card(page, voucher), /A tea set/, 'the voucher after a reload');
    const other = await scene.open(context, '/admin/ui'); // a tab of its own
    await appears(other.locator('form[data-login]:visible'), 'the login, in another tab');
    await page.locator('[data-logout]').click();
    await page.reload();
    await appears(page.locator('form[data-login]:visible'), 'the login, after logging out');
    assert.equal(await page.locator('[data-vouchers] tbody').count(), 0);
    const session = await page.evaluate(() => JSON.stringify(sessionStorage));
    assert.ok(!session.includes(setting('SECKILL_ADMIN_TOKEN')), 'the token is kept after logging out');
}

async function pausesAndResumes(scene) {
    const voucher = await scene.voucher();
    const page = await dashboard(scene);
    await appears(card(page, voucher), 'the voucher');
    const sent = requests(page, /^POST \/admin\//);
    await (await action(page, voucher, 'pause')).click();
    await appears(dialog(page), 'the question before it is done');
    scene.faults.push(...(await axe(page)));
    await page.keyboard.press('Escape');
    await until('the dialog closed', async () => (await dialog(page).count()) === 0);
    assert.deepEqual(sent, [], 'done without being confirmed');
    assert.equal(await stateOf(scene, voucher), 'open');

    await confirmed(page, voucher, 'pause');
    await until('the sale paused', async () => (await stateOf(scene, voucher)) === 'paused');
    await appears(card(page, voucher, 'paused'), 'the voucher as paused', FOLLOW_MS);
    await confirmed(page, voucher, 'resume');
    await until('the sale resumed', async () => (await stateOf(scene, voucher)) === 'open');
    await appears(card(page, voucher, 'open'), 'the voucher as open', FOLLOW_MS);
    await hasText(page.locator('[data-events]'), /resumed/i, 'what happened lately', FOLLOW_MS);
}

async function conflictIsShown(scene) {
    const voucher = await scene.voucher();
    const page = await dashboard(scene);
    await appears(card(page, voucher), 'the voucher');
    await (await action(page, voucher, 'pause')).click();
    await appears(dialog(page), 'the question before it is done');
    await scene.api.admin('PATCH', `/admin/vouchers/${voucher}`, { title: 'Another operator was here' });
    const refused = page.waitForResponse((answer) => answer.status() === 412);
    await doIt(page).click();
    await refused.catch(() => assert.fail('no 412: the change of another operator was overrun'));
    await hasText(page.locator('body'), /changed|VERSION_CHANGED/i, 'the conflict');
    assert.equal(await stateOf(scene, voucher), 'open');
    await page.keyboard.press('Escape');
    await until('the dialog closed', async () => (await dialog(page).count()) === 0);
    await hasText(card(page, voucher), /Another operator was here/, 'the voucher as it is now', FOLLOW_MS);
    await confirmed(page, voucher, 'pause');
    await until('the sale paused', async () => (await stateOf(scene, voucher)) === 'paused');
}

async function stockAndClose(scene) {
    const voucher = await scene.voucher({ stock: 2 });
    const page = await dashboard(scene);
    await appears(card(page, voucher), 'the voucher');
    await confirmed(page, voucher, 'stock', 38);
    await until('more stock', async () => (await scene.api.shown(voucher)).stock === 40);
    await hasText(card(page, voucher).locator('[data-remaining]'), /40/, 'remaining', FOLLOW_MS);
    await confirmed(page, voucher, 'reconcile');
    await until('the voucher rebuilt', async () => (await scene.api.shown(voucher)).redis?.state === 'open');
    await confirmed(page, voucher, 'close');
    await until('the sale closed', async () => (await stateOf(scene, voucher)) === 'closed');
}

// A line has points, and each chart its newest values as text, which is what a screen reader has.
async function charts(scene) {
    const voucher = await scene.voucher({ stock: 100 });
    const page = await dashboard(scene);
    await opened(page, voucher, 'details'); // its units are followed, whatever else is on sale
    const drawn = (name) => page.locator(`[data-chart="${name}"] svg path.line`).first();
    for (const name of ['answers', 'committed', 'left']) {
        await until(`a line of ${name}`, async () => /^M[\d.,]+L/.test((await drawn(name).getAttribute('d').catch(() => null)) ?? ''), FOLLOW_MS);
    }
    await hasText(page.locator('[data-chart="left"] svg'), /100/, 'a number at the axis', FOLLOW_MS);
    const colour = await page.evaluate(() => getComputedStyle(document.querySelector('[data-chart="answers"] path.line')).stroke); // it is drawn anew each second
    assert.match(colour, /^rgb\((?!0, 0, 0\))/, 'the colour of a line');
    const texts = await page.locator('[data-metric]').allInnerTexts();
    assert.ok(texts.length >= 4 && texts.some((text) => /\d/.test(text)), `values in text: ${texts}`);
}

async function darkAndNarrow(scene) {
    const voucher = await scene.voucher();
    for (const options of [{ colorScheme: 'dark', locale: 'zh-CN' }, { viewport: { width: 390, height: 800 } }]) {
        const page = await dashboard(scene, options);
        await appears(card(page, voucher), 'the voucher');
        if (options.viewport) {
            const wide = await page.evaluate(() => document.documentElement.scrollWidth);
            assert.ok(wide <= 390, `${wide} px wide on 390`);
        }
    }
}

// The requests that docs/pages.md promises for a dashboard, however many vouchers there are. A measuring window may
// include the start of one more period.
async function asksLittle(scene) {
    const vouchers = [];
    for (let i = 0; i < 7; i++) {
        vouchers.push(await scene.voucher());
    }
    const page = await dashboard(scene);
    await appears(card(page, vouchers[0]), 'the voucher');
    await opened(page, vouchers[0], 'details');
    await opened(page, vouchers[0], 'settlement');
    await opened(page, vouchers[1], 'details');
    const sent = requests(page, /./);
    await page.waitForTimeout(WINDOW_S * 1000);
    assert.ok(sent.length > WINDOW_S, `${sent.length} calls in ${WINDOW_S} s`);
    assert.ok(sent.length <= (WINDOW_S + 1) * CALLS_PER_S, `asks too much: ${sent.length} calls in ${WINDOW_S} s`);
}

async function hiddenIsSilent(scene) {
    const voucher = await scene.voucher();
    const page = await dashboard(scene);
    await appears(card(page, voucher), 'the voucher');
    await page.evaluate(setVisibility, 'hidden');
    await page.waitForTimeout(3000); // a round in progress may end
    const sent = requests(page, /./);
    await page.waitForTimeout(2500);
    assert.deepEqual(sent, [], 'a hidden dashboard asks');
    await page.evaluate(setVisibility, 'visible');
    await until('the dashboard to ask again', () => sent.length > 0, FOLLOW_MS);
}

async function nothingToBuy(scene) {
    const road = await scene.redisRoad();
    const own = await scene.instance({ SECKILL_REDIS_URL: road.url });
    const voucher = await scene.voucher({ stock: 40 });
    const page = await dashboard(scene, { at: own.url });
    const left = card(page, voucher).locator('[data-remaining]');
    const bar = () => card(page, voucher).locator('[data-bar]').evaluate((meter) => meter.value);
    await hasText(left, /^40$/, 'remaining');
    road.cut();
    await hasText(left, /^\D+$/, 'remaining without Redis', FOLLOW_MS);
    await appears(card(page, voucher, 'away'), 'the voucher as one that cannot sell', FOLLOW_MS);
    assert.equal(await bar(), 0, 'the bar without Redis');
    road.mend();
    await hasText(left, /^40$/, 'remaining with Redis again', FOLLOW_MS);
    await scene.api.admin('POST', `/admin/vouchers/${voucher}/close`);
    await appears(card(page, voucher, 'closed'), 'the voucher as closed', FOLLOW_MS);
    await hasText(left, /^0$/, 'remaining of a closed sale', FOLLOW_MS);
    assert.equal(await bar(), 0, 'the bar of a closed sale');
    const text = await card(page, voucher).innerText();
    assert.ok(!/of 40 left/.test(text), `a closed sale: ${text}`);
}

export const tests = [
    { name: 'dashboard: without Redis, and of a closed sale, nothing can be bought', answers: [503], run: nothingToBuy },
    { name: 'dashboard: log in', answers: [401, 403], run: logsIn },
    { name: 'dashboard: pause and resume, confirmed', run: pausesAndResumes },
    { name: 'dashboard: a conflict of two operators', answers: [412], run: conflictIsShown },
    { name: 'dashboard: more stock, rebuild, close', answers: [503], run: stockAndClose },
    { name: 'dashboard: charts', run: charts },
    { name: 'dashboard: dark, and on a phone', run: darkAndNarrow },
    { name: 'dashboard: ten calls a second at most', run: asksLittle },
    { name: 'dashboard: a hidden tab is silent', run: hiddenIsSilent },
];
