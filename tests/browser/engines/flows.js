// The main flows of shop and dashboard, for any engine (drivers.js). They find elements by the documented data
// attributes.

import assert from 'node:assert/strict';

import { moment, setting, until } from '../site.js';

/** Waits for an element. */
const appears = (driver, selector, what = selector) =>
    until(what, () => driver.run((wanted) => document.querySelector(wanted) !== null, selector));

/** Waits until an element can be used. */
const isOn = (driver, selector) =>
    until(`${selector}, on`, () =>
        driver.run((wanted) => {
            const found = document.querySelector(wanted);
            return found !== null && found.getClientRects().length > 0 && found.getAttribute('aria-disabled') !== 'true';
        }, selector));

async function press(driver, selector) {
    await isOn(driver, selector);
    await driver.click(selector);
}

async function enter(driver, selector, text) {
    await isOn(driver, selector);
    await driver.fill(selector, text);
}

const card = (voucher, rest = '') => `article[data-voucher="${voucher}"]${rest}`;
const order = (id, status) => `li[data-order="${id}"][data-status="${status}"]`;

async function shop({ driver, url, user }) {
    await driver.open(`${url}/`);
    await appears(driver, '#identity:not([hidden])', 'who buys');
    if (await driver.run(() => document.getElementById('login').hidden)) {
        await press(driver, '#change');
    }
    await enter(driver, '#name', user);
    await press(driver, '#login button');
}

/** Buys, and gives the order's id. */
async function wins(scene, voucher) {
    await press(scene.driver, card(voucher, ' [data-buy]'));
    await appears(scene.driver, card(voucher, ' [data-outcome][data-code="won"]'), 'the outcome won');
    const orders = await scene.api.orders(scene.user);
    return orders.find(({ voucher_id }) => voucher_id === voucher).id;
}

/** A sale opens, others buy, one buys and pays. */
async function buysAndPays(scene) {
    const { driver, api } = scene;
    const voucher = await scene.voucher({ begin_at: moment(10) });
    await shop(scene);
    await appears(driver, card(voucher, '[data-state="upcoming"]'), 'a sale that has not begun');
    await appears(driver, card(voucher, '[data-state="on_sale"]'), 'the sale, open');
    await api.buy(voucher, `${scene.user}-other`);
    await appears(driver, card(voucher, ' [data-remaining="4"]'), 'the unit that another buyer has taken');
    const id = await wins(scene, voucher);
    await appears(driver, order(id, 'unpaid'), 'the order');
    await press(driver, card(voucher, ' a[data-pay]'));
    await press(driver, '[data-pay-state="payable"] #pay');
    await appears(driver, '[data-pay-state="paid"]', 'the payment');
    await press(driver, '#back');
    await appears(driver, order(id, 'paid'), 'the paid order');
}

async function cancels(scene) {
    const { driver } = scene;
    const voucher = await scene.voucher();
    await shop(scene);
    const id = await wins(scene, voucher);
    await press(driver, `${order(id, 'unpaid')} [data-cancel]`);
    await press(driver, 'dialog[open] #confirm-yes');
    await appears(driver, order(id, 'cancelled'), 'the cancelled order');
    await appears(driver, card(voucher, ' [data-remaining="5"]'), 'the unit that was returned');
}

async function pauses(scene) {
    const { driver } = scene;
    const voucher = await scene.voucher();
    const row = `tbody[data-voucher="${voucher}"]`;
    await driver.open(`${scene.url}/admin/ui`);
    await enter(driver, '#token', setting('SECKILL_ADMIN_TOKEN'));
    await press(driver, 'form[data-login] button');
    for (const [action, state] of [['pause', 'paused'], ['resume', 'open']]) {
        await press(driver, `${row} [data-action="${action}"]`);
        await press(driver, 'dialog[data-confirm][open] button[type="submit"]');
        await until(`the sale ${state}`, async () => (await scene.api.shown(voucher)).state === state);
        await appears(driver, `${row}[data-state="${state}"]`, `the sale ${state}, on the dashboard`);
    }
    await press(driver, '[data-logout]');
}

/** By its last id the service ends for good what EventSource would open again for ever. */
async function eventSourceStops(scene) {
    const { driver, api } = scene;
    const voucher = await scene.voucher();
    await driver.open(`${scene.url}/web/help.html`);
    await driver.run((path) => {
        const { dataset } = document.body;
        const source = new EventSource(path);
        dataset.states = '';
        source.onmessage = ({ data }) => (dataset.states += ` ${JSON.parse(data).state}`);
        source.onerror = () => (dataset.source = source.readyState);
    }, `/vouchers/${voucher}/events`);
    await appears(driver, 'body[data-states=" open"]', 'the first state');
    await api.admin('POST', `/admin/vouchers/${voucher}/close`);
    await appears(driver, 'body[data-states=" open closed"][data-source="2"]', 'the end of the stream');
}

/** What the document asks for early is not asked for again. */
async function asksOnce({ driver, url }) {
    await driver.open(`${url}/`);
    await appears(driver, '[data-vouchers-state="ready"], [data-vouchers-state="empty"]', 'the list');
    const counts = await driver.run(() =>
        ['/vouchers', '/web/settings.json'].map((path) => performance.getEntriesByName(new URL(path, location.href).href).length));
    assert.deepEqual(counts, driver.name === 'webkit' ? [2, 2] : [1, 1]); // WebKit does not use what was preloaded
}

export const FLOWS = [
    ['a sale opens, a buyer wins and pays', buysAndPays],
    ['a buyer cancels', cancels],
    ['an operator pauses and resumes a sale', pauses],
    ['an EventSource of a sale that is over stops', eventSourceStops],
    ['what is asked for early is asked for once', asksOnce],
];
