// Pages that wait: for the opening, for an instance that is down, for an operator's change. The server's time is this
// machine's clock, which the test reads; the test sets the client's clock.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import { setVisibility, shiftClock, slowNetwork } from './browser.js';
import { appears, bound, buyButton, card, ends, hasText, isOff, isStream, leaves, mark, order, overtaken, requests, shows } from './scene.js';
import { moment, until } from './site.js';

const HOUR_MS = 3600 * 1000;
const EARLY_MS = 50; // clocks are read in ms, and timers may be rounded
const LATE_MS = bound(1500); // after the opening, on a machine that runs all of this at once
const FOLLOW_MS = bound(2000);
const EVENT_SOURCE_MS = 10000; // it comes back after 3 s

const countdown = (page, voucher) => card(page, voucher).locator('[data-countdown]');

/** Waits for the opening on a page, buys at once, and checks the times of both. */
async function opensInTime(scene, page, voucher, beginAt, { late = LATE_MS, notReloaded = async () => {} } = {}) {
    const begin = Date.parse(beginAt);
    await shows(page, voucher, 'on_sale', begin - Date.now() + late + 5000);
    const opened = Date.now() - begin;
    await buyButton(page, voucher).click();
    await ends(page, voucher, 'won');
    const bought = Date.now() - begin;
    await notReloaded(); // a reload would explain a delay
    assert.ok(opened >= -EARLY_MS, `opened ${-opened} ms early`);
    assert.ok(opened <= late, `opened ${opened} ms late`);
    assert.ok(bought <= 2 * late, `bought ${bought} ms after the opening`);
}

async function opensAtTheSecond(scene) {
    const begin = moment(10);
    const voucher = await scene.voucher({ begin_at: begin });
    const page = await scene.shop(scene.user());
    await shows(page, voucher, 'upcoming');
    const notReloaded = await mark(page);
    const sent = requests(page, /^POST \/seckill\//);
    assert.equal(await countdown(page, voucher).getAttribute('role'), 'timer');
    assert.ok(['off', null].includes(await countdown(page, voucher).getAttribute('aria-live')), 'the timer is read out');
    const first = await countdown(page, voucher).innerText();
    await until('the countdown to run', async () => (await countdown(page, voucher).innerText()) !== first);
    assert.ok(await isOff(buyButton(page, voucher)), 'the button is on before the start');
    await buyButton(page, voucher).click({ force: true }); // disabled, but still clickable by force
    assert.deepEqual(sent, [], 'bought before the start');
    await opensInTime(scene, page, voucher, begin, { notReloaded });
    assert.equal(sent.length, 1);
}

/** Of "01:02:03". */
function secondsOf(text) {
    return text.match(/\d+/g).reduce((sum, part) => sum * 60 + Number(part), 0);
}

function clockIsOff(byMs) {
    return async (scene) => {
        const begin = moment(10);
        const voucher = await scene.voucher({ begin_at: begin });
        const page = await scene.shop(scene.user(), { init: [shiftClock, byMs] });
        await shows(page, voucher, 'upcoming');
        const left = (Date.parse(begin) - Date.now()) / 1000;
        const shown = secondsOf(await countdown(page, voucher).innerText());
        assert.ok(Math.abs(shown - left) < 2, `${shown} s shown, ${left.toFixed(1)} s left`);
        await opensInTime(scene, page, voucher, begin);
        const text = await order(page, undefined, 'unpaid').locator('[data-left]').innerText();
        assert.match(text, /1[45]:[0-5]\d/, 'the time to pay, by the wrong clock');
    };
}

async function slowNetworkOpens(scene) {
    const begin = moment(14);
    const voucher = await scene.voucher({ begin_at: begin });
    const context = await scene.visitor({ user: scene.user() });
    const page = await context.newPage();
    await slowNetwork(page);
    await page.goto('/', { waitUntil: 'commit' });
    await shows(page, voucher, 'upcoming');
    await opensInTime(scene, page, voucher, begin, { late: 2000 });
}

async function instanceRestarts(scene) {
    const own = await scene.instance();
    const begin = moment(11);
    const [soon, now] = [await scene.voucher({ begin_at: begin }), await scene.voucher({ title: 'A kettle', stock: 2 })];
    const page = await scene.shop(scene.user(), { at: own.url });
    await shows(page, soon, 'upcoming');
    await shows(page, now, 'on_sale');
    const notReloaded = await mark(page);
    await own.stop();
    await scene.api.buy(now, scene.user('other'));
    await sleep(500);
    await own.run();
    await opensInTime(scene, page, soon, begin);
    await leaves(page, now, 1);
    await scene.api.admin('POST', `/admin/vouchers/${now}/pause`);
    await shows(page, now, 'paused');
    await notReloaded();
}

async function pauseIsFollowed(scene) {
    const voucher = await scene.voucher();
    const page = await scene.shop(scene.user());
    await shows(page, voucher, 'on_sale');
    await scene.api.admin('POST', `/admin/vouchers/${voucher}/pause`);
    await shows(page, voucher, 'paused', FOLLOW_MS);
    assert.ok(await isOff(buyButton(page, voucher)), 'the button is on while the sale is paused');
    await scene.api.admin('POST', `/admin/vouchers/${voucher}/resume`);
    await shows(page, voucher, 'on_sale', FOLLOW_MS);
    await scene.api.admin('POST', `/admin/vouchers/${voucher}/stock`, { add: 7 });
    await leaves(page, voucher, 12, FOLLOW_MS);
    await scene.api.admin('POST', `/admin/vouchers/${voucher}/close`);
    await shows(page, voucher, 'ended', FOLLOW_MS);
}

async function withoutStreams(scene) {
    const voucher = await scene.voucher({ stock: 3 });
    const context = await scene.visitor({ user: scene.user() });
    await context.route(isStream, (route) => route.abort()); // like a proxy that blocks streams
    const page = await scene.open(context);
    await shows(page, voucher, 'on_sale');
    await scene.api.buy(voucher, scene.user('other'));
    await leaves(page, voucher, 2);
}

/** For context.addInitScript: notes each number of units that a card shows. */
function noteUnits() {
    globalThis.units = [];
    new MutationObserver(() => {
        for (const one of document.querySelectorAll('[data-remaining]')) {
            const text = `${one.closest('article').dataset.voucher}: ${one.dataset.remaining}`;
            globalThis.units.push(...(globalThis.units.includes(text) ? [] : [text]));
        }
    }).observe(document, { subtree: true, childList: true, attributes: true });
}

/** After Back a browser takes what its cache has, whatever its age. */
async function backIsFresh(scene) {
    const voucher = await scene.voucher({ stock: 5 });
    const page = await scene.shop(scene.user(), { init: [noteUnits] });
    await leaves(page, voucher, 5);
    await page.goto('/web/settings.json');
    await scene.api.buy(voucher, scene.user('other'));
    const inList = async () => (await scene.api.must('GET', '/vouchers')).vouchers.find(({ id }) => id === voucher).remaining;
    await until('the purchase in the list', async () => (await inList()) === 4);
    await page.goBack();
    await leaves(page, voucher, 4);
    const shown = await page.evaluate(() => globalThis.units);
    assert.ok(!shown.includes(`${voucher}: 5`), 'after Back the page shows the units of the first visit');
}

/** A page's own EventSource, which opens again whatever has ended, stops for a sale that is over. */
async function eventSourceStops(scene) {
    const vouchers = [await scene.voucher(), await scene.voucher()];
    const page = await scene.shop();
    await page.evaluate((ids) => {
        globalThis.sources = [`${ids[0]}/events`, `events?ids=${ids}`].map((path) => {
            const source = new EventSource(`/vouchers/${path}`);
            source.onmessage = ({ data }) => (source.states = [...(source.states ?? []), JSON.parse(data).state]);
            return source;
        });
    }, vouchers);
    const states = () => page.evaluate(() => globalThis.sources.map(({ states = [] }) => states));
    await until('a state of each', async () => (await states()).map(({ length }) => length).join() === '1,2');
    for (const voucher of vouchers) {
        await scene.api.admin('POST', `/admin/vouchers/${voucher}/close`);
    }
    const isClosed = () => page.evaluate(() => globalThis.sources.every(({ readyState }) => readyState === EventSource.CLOSED));
    await until('the end of both', isClosed, EVENT_SOURCE_MS);
    assert.deepEqual(await states(), [['open', 'closed'], ['open', 'open', 'closed', 'closed']]);
}

async function hiddenIsSilent(scene) {
    const voucher = await scene.voucher({ stock: 5 });
    const page = await scene.shop(scene.user());
    await shows(page, voucher, 'on_sale');
    await page.evaluate(setVisibility, 'hidden');
    await sleep(500); // requests in progress may end
    const sent = requests(page, /./);
    const shown = await card(page, voucher).locator('[data-remaining]').innerText();
    await scene.api.buy(voucher, scene.user('other'));
    await sleep(3000);
    assert.deepEqual(sent, [], 'a hidden page asks');
    assert.equal(await card(page, voucher).locator('[data-remaining]').innerText(), shown, 'a hidden page listens');
    await page.evaluate(setVisibility, 'visible');
    await leaves(page, voucher, 4);
}

async function pausedUnderClick(scene) {
    const voucher = await scene.voucher();
    const context = await scene.visitor({ user: scene.user() });
    const page = await scene.open(context);
    await shows(page, voucher, 'on_sale');
    await overtaken(context, '**/seckill/*', () => scene.api.admin('POST', `/admin/vouchers/${voucher}/pause`));
    await buyButton(page, voucher).click();
    await ends(page, voucher, 'paused');
    await shows(page, voucher, 'paused');
    await scene.api.admin('POST', `/admin/vouchers/${voucher}/resume`);
    await shows(page, voucher, 'on_sale');
    await buyButton(page, voucher).click();
    await ends(page, voucher, 'won');
    await appears(order(page, undefined, 'unpaid'), 'the order');
}

async function redisAway(scene) {
    const road = await scene.redisRoad();
    const own = await scene.instance({ SECKILL_REDIS_URL: road.url });
    const voucher = await scene.voucher({ stock: 40 });
    const page = await scene.shop(scene.user(), { at: own.url });
    await shows(page, voucher, 'on_sale');
    await leaves(page, voucher, 40);
    road.cut();
    await shows(page, voucher, 'unknown');
    assert.doesNotMatch(await card(page, voucher).innerText(), /\bleft\b(?! is not known)|Buy now/, 'units can be bought without Redis');
    assert.ok(await isOff(buyButton(page, voucher)), 'the button is on without Redis');
    road.mend();
    await shows(page, voucher, 'on_sale');
    await leaves(page, voucher, 40);
    await scene.api.admin('POST', `/admin/vouchers/${voucher}/close`);
    await shows(page, voucher, 'ended');
    assert.doesNotMatch(await card(page, voucher).innerText(), /\bleft\b/, 'units of a closed sale can be bought');
}

// What a new page needs comes from the memory of the instance.
async function postgresqlAway(scene) {
    const voucher = await scene.voucher({ stock: 40, title: 'Tea at night' });
    const road = await scene.postgresqlRoad();
    const own = await scene.instance({ SECKILL_DATABASE_URL: road.url, SECKILL_REACTORS: '1' });
    const list = async () => (await fetch(`${own.url}/vouchers`)).json();
    await list(); // it waits behind the documents of the vouchers
    road.cut();
    await until('a list without PostgreSQL', async () => (await list()).stale === true);
    const page = await scene.shop(scene.user(), { at: own.url });
    await shows(page, voucher, 'on_sale');
    await hasText(card(page, voucher), /Tea at night/, 'the title');
    await leaves(page, voucher, 40);
    await buyButton(page, voucher).click();
    await ends(page, voucher, 'accepted');
    await leaves(page, voucher, 39);
    road.mend();
    await ends(page, voucher, 'won');
    await appears(order(page, undefined, 'unpaid'), 'the order');
}

export const tests = [
    { name: 'without PostgreSQL a page opens and sells', answers: [503, 'net'], run: postgresqlAway },
    { name: 'without Redis, and after the end, nothing can be bought', answers: [503, 'net'], run: redisAway },
    { name: 'not yet, then opens at the second', run: opensAtTheSecond },
    { name: "the client's clock is an hour ahead", run: clockIsOff(HOUR_MS) },
    { name: "the client's clock is an hour behind", run: clockIsOff(-HOUR_MS) },
    { name: 'a slow network', run: slowNetworkOpens },
    { name: 'an instance restarts while the page waits', answers: ['net', 503], run: instanceRestarts },
    // A page has a few streams, and polls for the rest of the screen every other second. With other tests' sales on the
    // screen, too, two seconds are not promised.
    { name: 'pause, resume and more stock are followed within two seconds', alone: true, run: pauseIsFollowed },
    { name: 'a sale that is paused under the click', answers: [409], run: pausedUnderClick },
    { name: 'an EventSource of a sale that is over stops', run: eventSourceStops },
    { name: 'after Back the list is a new one', run: backIsFresh },
    { name: 'without streams', answers: ['net'], run: withoutStreams },
    { name: 'a hidden shop page is silent', run: hiddenIsSilent },
];
