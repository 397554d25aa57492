// The shop page's presentation: languages, narrow screens, keyboard, colours, and its texts when it has no data.

import assert from 'node:assert/strict';

import { axe } from './browser.js';
import { appears, beside, buyButton, card, ends, hasText, isStream, leaves, order, priceBesideState, shows } from './scene.js';
import { moment, until } from './site.js';

const NARROW = { width: 320, height: 640 };
const CHINESE = /[一-鿿]/;

async function bothLanguages(scene) {
    const voucher = await scene.voucher({ stock: 1 });
    const user = scene.user();
    const context = await scene.visitor({ user, locale: 'zh-CN' });
    const page = await scene.open(context);
    await shows(page, voucher, 'on_sale');
    const language = () => page.locator('html').getAttribute('lang');
    assert.equal(await language(), 'zh-CN', "the browser's language");
    assert.match(await buyButton(page, voucher).innerText(), CHINESE);
    await buyButton(page, voucher).click();
    assert.match(await ends(page, voucher, 'won'), CHINESE);

    const toEnglish = page.locator('button[lang="en"]');
    assert.match(await toEnglish.innerText(), /English/);
    await toEnglish.click();
    await appears(page.locator('html[lang="en"]'), 'English, by hand');
    await shows(page, voucher, 'sold_out');
    assert.deepEqual(await chineseLeft(page), [], 'Chinese on an English page');
    await page.reload();
    await appears(page.locator('html[lang="en"]'), 'English after a reload');
    await page.locator('button[lang="zh-CN"]').click();
    await appears(page.locator('html[lang="zh-CN"]'), 'Chinese, by hand');

    const asked = await scene.open(context, '/?lang=en');
    assert.equal(await asked.locator('html').getAttribute('lang'), 'en', '?lang=en');
    const english = await scene.shop(scene.user(), { locale: 'de-DE' });
    assert.equal(await english.locator('html').getAttribute('lang'), 'en', 'of a language that the page does not speak');
}

/** Texts with Chinese characters, except the switch, which names the other language in that language. */
async function chineseLeft(page) {
    const texts = await page.locator('header, main').allInnerTexts();
    const lines = texts.join('\n').split('\n');
    return lines.filter((line) => CHINESE.test(line) && !/^\s*中文\s*$/.test(line));
}

async function narrowScreen(scene) {
    const open = await scene.voucher({ title: 'A tea set with a name that is much longer than a phone is wide', price_cents: 123456789 });
    const soon = await scene.voucher({ title: 'Unbreakable'.repeat(5), begin_at: moment(90000), end_at: moment(180000) });
    for (const locale of ['en-GB', 'zh-CN']) {
        const user = scene.user('a-name-that-is-as-long-as-a-name');
        const page = await scene.shop(user, { viewport: NARROW, locale, hasTouch: true });
        await shows(page, open, 'on_sale');
        await shows(page, soon, 'upcoming');
        await fits(page);
        await buyButton(page, open).click();
        await ends(page, open, 'won');
        await appears(order(page, undefined, 'unpaid'), 'the order');
        await fits(page);
        const target = await buyButton(page, open).boundingBox();
        assert.ok(target.height >= 24 && target.x >= 0 && target.x + target.width <= NARROW.width, 'the button to buy');
        await page.goto(await order(page).locator('a[data-pay]').getAttribute('href'));
        await hasText(page.locator('main'), /\d/, 'the amount');
        await fits(page);
    }
}

async function fits(page) {
    const { scrollWidth, clientWidth } = await page.evaluate(() => {
        const { scrollWidth, clientWidth } = document.documentElement;
        return { scrollWidth, clientWidth };
    });
    assert.ok(scrollWidth <= clientWidth, `${page.url()} is ${scrollWidth} px wide on ${clientWidth}`);
}

/** On a card the price and the state share a row, and so do the quantity and its label. */
async function sharedRows(scene) {
    const voucher = await scene.voucher({ price_cents: 19900, limit: 2 });
    const dear = await scene.voucher({ price_cents: 123456789, limit: 2 });
    for (const [locale, state] of [['en-GB', 'On sale now'], ['zh-CN', '正在抢购']]) {
        const page = await scene.shop(scene.user(), { locale });
        for (const width of [320, 390, 1280]) {
            for (const one of [voucher, dear]) {
                await shows(page, one, 'on_sale');
                await priceBesideState(page, one, state, [width]);
                const at = card(page, one);
                await beside(at.locator('label'), at.getByRole('combobox'), `at ${width} px, ${locale}`);
            }
            await fits(page);
        }
    }
}

async function keyboardOnly(scene) {
    const voucher = await scene.voucher();
    const page = await scene.shop();
    await shows(page, voucher, 'on_sale');
    const user = scene.user();
    await tabTo(page, page.getByRole('textbox').first());
    await page.keyboard.type(user);
    await page.keyboard.press('Enter');
    await tabTo(page, buyButton(page, voucher));
    assert.ok(await isFocusShown(page), 'the focus cannot be seen');
    await page.keyboard.press('Enter');
    await ends(page, voucher, 'won');
    await announced(page, voucher);
    await appears(order(page, undefined, 'unpaid'), 'the order');
    await tabTo(page, order(page).locator('button[data-cancel]'));
    await page.keyboard.press('Enter');
    if (await page.locator('dialog[open]').isVisible()) {
        await tabTo(page, page.locator('dialog[open]').getByRole('button').last());
        await page.keyboard.press('Enter');
    }
    await appears(order(page, undefined, 'cancelled'), 'the cancelled order');
    assert.notEqual(await page.evaluate(() => document.activeElement.tagName), 'BODY', 'the focus is lost');
}

async function tabTo(page, target) {
    for (let presses = 0; presses < 60; presses++) {
        if (await target.evaluate((element) => element === document.activeElement)) {
            return;
        }
        await page.keyboard.press('Tab');
    }
    throw new Error(`the tab key does not lead to ${target}`);
}

function isFocusShown(page) {
    return page.evaluate(() => {
        const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(document.activeElement);
        return (outlineStyle !== 'none' && parseFloat(outlineWidth) > 0) || boxShadow !== 'none';
    });
}

/** The outcome is in a live region, or a copy of it is. */
async function announced(page, voucher) {
    const live = await card(page, voucher).locator('[data-outcome]').first().evaluate((outcome) => {
        const regions = '[aria-live="polite"], [aria-live="assertive"], [role="status"], [role="alert"], output';
        const said = [...document.querySelectorAll(regions)].map((region) => region.textContent.trim());
        return outcome.closest(regions) !== null || said.some((text) => text !== '' && outcome.textContent.includes(text));
    });
    assert.ok(live, 'the outcome is not announced');
}

async function lightAndDark(scene) {
    const vouchers = [
        await scene.voucher({ stock: 3 }),
        await scene.voucher({ stock: 1 }),
        await scene.voucher({ begin_at: moment(7200), end_at: moment(9000) }),
        await scene.voucher({ title: 'A lamp' }),
    ];
    await scene.api.buy(vouchers[1], scene.user('faster'));
    let page;
    for (const colorScheme of ['light', 'dark']) {
        page = await scene.shop(scene.user(), { colorScheme, locale: colorScheme === 'dark' ? 'zh-CN' : 'en-GB' });
        await shows(page, vouchers[1], 'sold_out');
        await shows(page, vouchers[2], 'upcoming');
        await buyButton(page, vouchers[0]).click();
        await ends(page, vouchers[0], 'won');
        const [red, green, blue] = await page.evaluate(() => {
            const colour = getComputedStyle(document.body).backgroundColor;
            return (colour === 'rgba(0, 0, 0, 0)' ? getComputedStyle(document.documentElement).backgroundColor : colour)
                .match(/[\d.]+/g).map(Number);
        });
        assert.equal(red + green + blue < 384, colorScheme === 'dark', `${colorScheme}: rgb(${red}, ${green}, ${blue})`);
        scene.faults.push(...(await axe(page)));
    }
    await scene.api.admin('POST', `/admin/vouchers/${vouchers[3]}/pause`);
    await shows(page, vouchers[3], 'paused');
}

async function unreadableIsNotEmpty(scene) {
    const voucher = await scene.voucher();
    const user = scene.user();
    const context = await scene.visitor({ user });
    const cut = (route) => route.abort('connectionreset');
    const isOrders = (url) => /^\/orders(\/|$)/.test(url.pathname);
    await context.route(isOrders, cut);
    const page = await scene.open(context);
    const state = (name) => page.locator(`[data-orders-state="${name}"]`);
    await shows(page, voucher, 'on_sale');
    await appears(state('unreadable'), 'orders that could not be read');
    const unreadable = (await state('unreadable').first().innerText()).trim();
    await context.unroute(isOrders, cut);
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange'))); // else it waits longer and longer
    const read = page.locator('[data-orders-state="empty"], [data-orders-state="ready"]'); // ready: of many vouchers
    await appears(read, 'no orders, once they can be read');
    const empty = (await read.first().innerText()).trim();
    assert.notEqual(unreadable, empty);
    assert.match(unreadable, /not|n't/i);

    await buyButton(page, voucher).click();
    await ends(page, voucher, 'won');
    await appears(state('ready'), 'the order in the list');
    await context.route(isOrders, cut);
    await page.reload();
    await appears(state('unreadable'), 'orders that could not be read, after a reload');
}

async function vouchersUnreadable(scene) {
    const context = await scene.visitor({ user: scene.user() });
    const isList = (url) => /^\/vouchers(\/|$)/.test(url.pathname);
    const cut = (route) => route.abort('connectionreset');
    await context.route(isList, cut);
    const page = await scene.open(context);
    await appears(page.locator('[data-vouchers-state="unreadable"]'), 'sales that could not be read');
    const voucher = await scene.voucher();
    await context.unroute(isList, cut);
    await shows(page, voucher, 'on_sale');
}

async function morePages(scene) {
    const first = await scene.voucher({ stock: 9 });
    const later = [await scene.voucher(), await scene.voucher()];
    const context = await scene.visitor({ user: scene.user() });
    await context.route(isStream, (route) => route.abort()); // what is read is to be enough
    await context.route((url) => url.pathname === '/vouchers', (route) => {
        const url = new URL(route.request().url());
        url.searchParams.set('limit', String(later.length));
        return route.fallback({ url: url.href });
    });
    const page = await scene.open(context);
    const more = page.getByRole('button', { name: 'Show more sales' });
    await appears(page.locator('[data-vouchers-state="ready"]'), 'the first page');
    assert.equal(await card(page, first).count(), 0, 'all are there without being asked for');
    for (let presses = 0; presses < 40 && (await card(page, first).count()) === 0; presses++) {
        await appears(more, 'the button for more sales');
        await tabTo(page, more);
        await page.keyboard.press('Enter');
        await until('the focus on what is new', () =>
            page.evaluate(() => document.activeElement.closest('article') !== null || document.activeElement.id === 'vouchers'));
    }
    await shows(page, first, 'on_sale');
    await scene.api.buy(first, scene.user('other'));
    await leaves(page, first, 8);
    await buyButton(page, first).click();
    await ends(page, first, 'won');
}

/** Digits behind the point are those of ISO 4217; this browser's own are others for every tenth currency. */
async function money(scene) {
    const forint = await scene.voucher({ price_cents: 990000, currency: 'HUF' });
    const dinar = await scene.voucher({ price_cents: 990000, currency: 'IQD' });
    const page = await scene.shop();
    await hasText(card(page, forint), /HUF\s9,900\.00(?!\d)/, 'the price in forints');
    await hasText(card(page, dinar), /IQD\s990\.000(?!\d)/, 'the price in dinars');
    const [count, wrong] = await page.evaluate(async () => {
        const { CURRENCIES, digitsOf, formatMoney } = await import('/web/client/money.js');
        const { centsOf } = await import('/web/admin/terms.js');
        const typed = (currency, locale) => formatMoney(765, currency, locale).match(/[\d.]+$/)[0];
        const isWrong = (currency) => ['en', 'zh-CN'].some((locale) => centsOf(typed(currency, locale), digitsOf(currency)) !== 765);
        return [CURRENCIES.length, CURRENCIES.filter(isWrong)];
    });
    assert.deepEqual([count > 150, wrong], [true, []], 'currencies that do not read back');
}

/** For context.addInitScript: takes away what the oldest browsers of docs/pages.md do not have. */
function takeNewerAway() {
    const newer = [
        [Object, 'hasOwn', 'groupBy'],
        [Array.prototype, 'at', 'findLast', 'findLastIndex', 'toSorted', 'toReversed', 'toSpliced', 'with'],
        [String.prototype, 'at', 'replaceAll', 'isWellFormed'],
        [Promise, 'any', 'try', 'withResolvers'],
        [AbortSignal, 'any', 'abort', 'timeout'],
        [AbortSignal.prototype, 'reason', 'throwIfAborted'],
        [globalThis, 'structuredClone', 'reportError', 'scheduler', 'WeakRef', 'FinalizationRegistry', 'AggregateError'],
        [Crypto.prototype, 'randomUUID'],
    ];
    for (const [from, ...names] of newer) {
        names.forEach((name) => delete from[name]);
    }
}

async function olderBrowser(scene) {
    const voucher = await scene.voucher();
    const page = await scene.shop(scene.user(), { init: [takeNewerAway] });
    await shows(page, voucher, 'on_sale');
    await buyButton(page, voucher).click();
    await ends(page, voucher, 'won');
    await order(page, undefined, 'unpaid').locator('button[data-cancel]').click();
    await page.locator('dialog[open]').getByRole('button').last().click();
    await appears(order(page, undefined, 'cancelled'), 'the cancelled order');
    await page.goto(`/pay?order=${await order(page).getAttribute('data-order')}`);
    await appears(page.locator('[data-pay-state="over"]'), 'the order on the payment page');
}

/** An engine that cannot read the script: here nothing can. */
async function tooOldBrowser(scene) {
    const context = await scene.visitor();
    await context.route(/\/(shop|pay|admin\/main|help\/main)\.js$/, (route) => route.fulfill({ contentType: 'text/javascript', body: '?' }));
    await Promise.all(['/', '/pay', '/admin/ui', '/web/help.html'].map(async (path) => {
        const page = await scene.open(context, path);
        await page.getByText(/needs JavaScript, and Chrome or Android WebView \d+/).waitFor();
        await page.getByText(/需要 JavaScript，以及 Chrome/).waitFor();
    }));
    const wrong = scene.faults.splice(0).filter((fault) => !/uncaught: SyntaxError/.test(fault));
    assert.deepEqual(wrong, []);
    const fine = await scene.shop();
    await appears(fine.locator('[data-vouchers-state="ready"], [data-vouchers-state="empty"]'), 'the list');
    assert.equal(await fine.getByText(/needs JavaScript/).count(), 0, 'a page that runs says that it does not');
}

export const tests = [
    { name: 'an older browser', run: olderBrowser },
    { name: 'a browser that is too old is told so', run: tooOldBrowser },
    { name: 'prices have the digits of their currency', run: money },
    { name: 'both languages', answers: [409], run: bothLanguages },
    { name: 'on a screen of 320 px', run: narrowScreen },
    { name: 'a card on three screens', run: sharedRows },
    { name: 'by keyboard alone', run: keyboardOnly },
    { name: 'more sales than one page has', answers: ['net'], run: morePages },
    { name: 'light and dark', run: lightAndDark },
    { name: 'orders that could not be read are not "no orders"', answers: ['net'], run: unreadableIsNotEmpty },
    { name: 'sales that could not be read are asked for again', answers: ['net'], run: vouchersUnreadable },
];
