// What stays in sight of a buyer: the orders, what is to be paid, the place on the page, the end of a sale, and how old
// the page is.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { appears, bound, buyButton, card, ends, hasText, isOff, leaves, order, requests, shows } from './scene.js';
import { Instance, moment, until } from './site.js';

const PHONE = { width: 390, height: 700 };
const TALL = { width: 900, height: 1200 };
const SECOND_MS = bound(1000);

const summary = (page) => page.locator('#summary');
const trouble = (page) => page.locator('#trouble');
const isInSight = (locator) =>
    locator.evaluate((element) => {
        const { top, bottom, left, right } = element.getBoundingClientRect();
        const [x, y] = [(left + right) / 2, (top + bottom) / 2];
        return top >= 0 && bottom <= innerHeight && element.contains(document.elementFromPoint(x, y));
    });

async function ordersStayInSight(scene) {
    const vouchers = [await scene.voucher({ price_cents: 1250, limit: 3 }), await scene.voucher({ title: 'A lamp' })];
    const user = scene.user();
    const page = await scene.shop(user, { viewport: PHONE });
    await shows(page, vouchers[0], 'on_sale');
    assert.ok(await summary(page).isHidden(), 'orders that there are not');
    await card(page, vouchers[0]).locator('select').selectOption('2');
    for (const [i, voucher] of vouchers.entries()) {
        await buyButton(page, voucher).click();
        await ends(page, voucher, 'won');
        await hasText(summary(page), new RegExp(`^My orders \\(${i + 1}\\), to pay within 1[45]:[0-5]\\d$`), 'the orders in sight');
    }
    for (const to of ['scrollTo(0, 0)', 'scrollTo(0, 1e6)', 'scrollTo(0, 300)']) {
        await page.evaluate(to);
        assert.ok(await isInSight(summary(page)), `the orders are out of sight after ${to}`);
    }
    await summary(page).focus();
    await page.keyboard.press('Enter');
    const [bought] = (await scene.api.orders(user)).filter(({ quantity }) => quantity === 2);
    await until('the orders on screen', () => isInSight(page.locator('#orders-title')));
    assert.match(await order(page, bought.id).innerText(), new RegExp(`25\\.00[^]*${bought.id}`), 'an order without id or total');
}

async function wonCardPays(scene) {
    const voucher = await scene.voucher({ price_cents: 1250 });
    const user = scene.user();
    const page = await scene.shop(user);
    await buyButton(page, voucher).click();
    await ends(page, voucher, 'won');
    const pay = card(page, voucher).getByRole('link', { name: /^Pay .*12\.50: A tea set$/ });
    await appears(pay, 'a way to pay on the card');
    await pay.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: /^pay/i }).click();
    await until('the order paid', async () => (await scene.api.orders(user))[0].status === 'paid');
    await page.goto('/');
    await hasText(card(page, voucher).locator('[data-outcome]'), /paid/, 'the outcome of a paid order');
    assert.ok(await pay.isHidden(), 'a paid order can still be paid');
}

async function backToTheSamePlace(scene) {
    const vouchers = [];
    for (let i = 0; i < 6; i++) {
        vouchers.push(await scene.voucher({ title: `Cup ${i}` }));
    }
    const page = await scene.shop(scene.user(), { viewport: PHONE });
    await shows(page, vouchers[1], 'on_sale');
    await buyButton(page, vouchers[1]).click();
    await ends(page, vouchers[1], 'won');
    const pay = card(page, vouchers[1]).locator('a[data-pay]');
    await pay.scrollIntoViewIfNeeded();
    const place = async () => (await card(page, vouchers[1]).boundingBox())?.y;
    const before = await place();
    assert.ok(await page.evaluate(() => scrollY > 300), 'the test stands at the top');
    await pay.click();
    await hasText(page.locator('main'), /\d/, 'the amount to pay');
    await page.goBack();
    await appears(order(page), 'the order');
    await until(`the card at ${before} px`, async () => Math.abs((await place()) - before) <= 2, 3000);
}

/** Two buyers: one takes the last unit and gives it back; both pages follow within a second, after many other cards. */
async function returnsAreFollowed(scene) {
    const voucher = await scene.voucher({ stock: 1 });
    for (let i = 0; i < 6; i++) {
        await scene.voucher({ title: `Cup ${i}` });
    }
    const hers = await scene.shop(scene.user('alice'), { viewport: PHONE });
    const his = await scene.shop(scene.user('bob'), { viewport: TALL });
    await shows(his, voucher, 'on_sale');
    const before = await his.locator('article').evaluateAll((all, id) => all.findIndex(({ dataset }) => dataset.voucher === id), voucher);
    assert.ok(before >= 6 && (await isInSight(card(his, voucher))), `on screen after ${before} other cards`);
    await buyButton(hers, voucher).click();
    await ends(hers, voucher, 'won');
    await Promise.all([hers, his].map((page) => shows(page, voucher, 'sold_out', SECOND_MS)));
    await summary(hers).click();
    await order(hers).locator('button[data-cancel]').click();
    const answer = hers.waitForResponse((response) => /\/cancel$/.test(new URL(response.url()).pathname));
    await hers.locator('dialog[open]').getByRole('button').last().click();
    await answer;
    const onSale = (page) => appears(card(page, voucher, 'on_sale'), 'the unit that was returned', SECOND_MS);
    await Promise.all([hers, his].map(onSale)); // also where the card is not on screen
    await leaves(his, voucher, 1);
}

async function endedSaysSo(scene) {
    const voucher = await scene.voucher({ end_at: moment(15) });
    const page = await scene.shop(scene.user());
    await shows(page, voucher, 'on_sale');
    await shows(page, voucher, 'ended');
    const text = await card(page, voucher).innerText();
    assert.match(text, /has ended/, 'an ended sale does not say so');
    assert.doesNotMatch(text, /\bleft\b|\d:\d\d/, 'an ended sale counts on');
    assert.ok(await card(page, voucher).locator('.bar').isHidden(), 'an ended sale has a bar');
    assert.ok(await isOff(buyButton(page, voucher)), 'the button is on after the end');
}

async function freeNeedsNoPayment(scene) {
    const voucher = await scene.voucher({ price_cents: 0 });
    const page = await scene.shop(scene.user());
    await shows(page, voucher, 'on_sale');
    assert.match(await card(page, voucher).innerText(), /Free/);
    await buyButton(page, voucher).click();
    assert.match(await ends(page, voucher, 'won'), /nothing to pay/);
    await appears(order(page, undefined, 'unpaid'), 'the order');
    assert.equal(await page.locator('a[data-pay]:visible').count(), 0, 'a free item is to be paid');
    assert.equal(await summary(page).innerText(), 'My orders (1)');
}

async function pausedStays(scene) {
    const voucher = await scene.voucher({ title: 'A kettle' });
    await scene.api.admin('POST', `/admin/vouchers/${voucher}/pause`);
    const page = await scene.shop(scene.user()); // which has never seen it on sale
    await shows(page, voucher, 'paused');
    assert.match(await card(page, voucher).innerText(), /has paused this sale/, 'a paused sale does not say so');
    assert.ok(await isOff(buyButton(page, voucher)), 'the button is on while the sale is paused');
}

async function offlineIsSaid(scene) {
    const voucher = await scene.voucher();
    const context = await scene.visitor({ user: scene.user(), viewport: PHONE });
    const page = await scene.open(context);
    await shows(page, voucher, 'on_sale');
    await page.evaluate(() => scrollTo(0, 1e6));
    const sent = requests(page, /^GET \/vouchers$/);
    await context.setOffline(true);
    await hasText(trouble(page), /^You are offline\. What you see is from \d\d:\d\d:\d\d\.$/, 'offline', SECOND_MS);
    assert.deepEqual(sent, [], 'found out by an attempt');
    assert.ok(await isInSight(trouble(page)), 'offline is out of sight');
    await context.setOffline(false);
    await hasText(trouble(page), /^$/, 'online');
}

async function staleIsSaid(scene) {
    const voucher = await scene.voucher();
    const context = await scene.visitor({ user: scene.user() });
    const page = await scene.open(context);
    await shows(page, voucher, 'on_sale');
    await context.route((url) => /^\/(vouchers|orders)/.test(url.pathname), (route) => route.abort('connectionreset'));
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange'))); // as when the page is seen again
    await hasText(trouble(page), /cannot be reached. What you see is from \d\d:\d\d:\d\d/, 'what is stale');
    await appears(page.locator('[data-vouchers-state="stale"]'), 'the list as stale');
}

async function wayToALogin(scene) {
    const own = new Instance();
    scene.instances.push(own);
    const keys = join(own.folder, 'keys');
    writeFileSync(keys, `k1 HS256 ${Buffer.from('a-key-of-the-browser-tests-only!').toString('base64url')}\n`);
    own.env = {
        SECKILL_AUTH: 'token',
        SECKILL_TOKEN_KEYS: keys,
        SECKILL_TOKEN_ISSUER: 'login',
        SECKILL_TOKEN_AUDIENCE: 'shop',
        SECKILL_DEMO: 'off',
        SECKILL_LOGIN_URL: 'https://shop.example/login?back=sale',
    };
    await own.run();
    const voucher = await scene.voucher();
    const page = await scene.shop(undefined, { at: own.url, viewport: PHONE });
    const login = page.getByRole('link', { name: 'Log in' });
    await shows(page, voucher, 'on_sale');
    assert.ok(await isInSight(login), 'the login is out of sight');
    assert.equal(await login.getAttribute('href'), 'https://shop.example/login?back=sale');
    await buyButton(page, voucher).click();
    assert.ok(await login.evaluate((element) => element === document.activeElement), 'a buyer without a login is not led to one');

    const demo = await scene.shop();
    await shows(demo, voucher, 'on_sale');
    await demo.getByRole('link', { name: 'Choose a name' }).click();
    assert.ok(await demo.getByRole('textbox').first().evaluate((element) => element === document.activeElement));
}

export const tests = [
    { name: 'my orders stay in sight', run: ordersStayInSight },
    { name: 'a won card can be paid', run: wonCardPays },
    { name: 'back leads to the same place', run: backToTheSamePlace },
    { name: 'taken and returned units are followed within a second', alone: true, run: returnsAreFollowed },
    { name: 'a sale that has ended says so', run: endedSaysSo },
    { name: 'a free item needs no payment', run: freeNeedsNoPayment },
    { name: 'a paused sale stays, and says so', run: pausedStays },
    { name: 'offline is said without an attempt', answers: ['net'], run: offlineIsSaid },
    { name: 'stale data says since when', answers: ['net'], run: staleIsSaid },
    { name: 'a way to a login', run: wayToALogin },
];
