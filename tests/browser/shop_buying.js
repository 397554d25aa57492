// A buyer's actions, and every outcome of a purchase.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { slowNetwork } from './browser.js';
import { appears, buyButton, card, ends, hasText, isOff, leaves, order, overtaken, requests, shows } from './scene.js';
import { holdStock, Instance, moment, ROOT, until } from './site.js';

const POST = /^POST \/seckill\//;
const EXTENDED_MS = 40000; // twice a time to pay, and the moment that the page gives the service

async function winsAndPays(scene) {
    const voucher = await scene.voucher({ stock: 3, price_cents: 1250 });
    const user = scene.user('alice');
    const page = await scene.shop();
    await page.getByRole('textbox').first().fill(user);
    await page.keyboard.press('Enter');
    await shows(page, voucher, 'on_sale');
    await leaves(page, voucher, 3);
    await hasText(card(page, voucher), /12\.50/, 'the price');
    await buyButton(page, voucher).click();
    await ends(page, voucher, 'won');
    const [bought] = await scene.api.orders(user);
    assert.equal(bought.voucher_id, voucher);
    await appears(order(page, bought.id, 'unpaid'), 'the order in the list');
    await hasText(order(page, bought.id).locator('[data-left]'), /1[45]:[0-5]\d/, 'the time to pay');
    await leaves(page, voucher, 2);

    await order(page, bought.id).locator('a[data-pay]').click();
    await page.waitForURL((url) => url.pathname === '/pay' && url.searchParams.get('order') === bought.id);
    await hasText(page.locator('main'), /12\.50/, 'the amount to pay');
    await page.getByRole('button', { name: /^pay/i }).click();
    await until('the order paid', async () => (await scene.api.order(bought.id, user)).status === 'paid');
    await page.goto('/');
    await appears(order(page, bought.id, 'paid'), 'the paid order in the list');
    assert.equal(await order(page, bought.id).locator('a[data-pay], button[data-cancel]').count(), 0, 'paid, and still to pay');
    const { payments } = await scene.api.order(bought.id, user);
    assert.deepEqual(payments.map((one) => one.reference), [`demo-${bought.id}`]);
}

async function cancelsAndAnotherBuys(scene) {
    const voucher = await scene.voucher({ stock: 1 });
    const [alice, bob] = [scene.user('alice'), scene.user('bob')];
    const hers = await scene.shop(alice);
    const his = await scene.shop(bob);
    await shows(his, voucher, 'on_sale');
    await buyButton(hers, voucher).click();
    await ends(hers, voucher, 'won');
    await shows(his, voucher, 'sold_out');

    await order(hers).locator('button[data-cancel]').click();
    await confirmIfAsked(hers);
    await appears(order(hers, undefined, 'cancelled'), 'the cancelled order');
    await shows(his, voucher, 'on_sale');
    await buyButton(his, voucher).click();
    await ends(his, voucher, 'won');
    await appears(order(his, undefined, 'unpaid'), "the other's order");
    await shows(hers, voucher, 'sold_out');
}

/** A page may ask for confirmation before it cancels an order. */
async function confirmIfAsked(page) {
    const dialog = page.locator('dialog[open]');
    if (await dialog.isVisible()) {
        await dialog.getByRole('button').last().click();
    }
}

async function secondTabIsTold(scene) {
    const voucher = await scene.voucher({ stock: 3 });
    const user = scene.user();
    const context = await scene.visitor({ user });
    const first = await scene.open(context);
    const second = await scene.open(context);
    await shows(second, voucher, 'on_sale');
    await buyButton(first, voucher).click();
    await ends(first, voucher, 'won');
    const [bought] = await scene.api.orders(user);
    await second.bringToFront();
    if (!(await card(second, voucher).locator('[data-code="already_ordered"]').isVisible())) {
        await buyButton(second, voucher).click();
    }
    await ends(second, voucher, 'already_ordered');
    await appears(card(second, voucher).locator(`[data-outcome] a[href*="${bought.id}"]`), 'a link to the order');
    assert.equal((await scene.api.orders(user)).length, 1);
}

async function oneOfAScope(scene) {
    const first = await scene.voucher({ title: 'A shoe, size 41' });
    const other = await scene.voucher({ title: 'A shoe, size 42', scope: first });
    const user = scene.user();
    const page = await scene.shop(user);
    await shows(page, other, 'on_sale');
    const article = page.getByRole('group', { name: /^One article/ }).filter({ has: card(page, first) });
    await appears(article, 'the sizes under one heading');
    const ids = await article.locator('article').evaluateAll((all) => all.map(({ dataset }) => dataset.voucher));
    assert.deepEqual(ids, [first, other], 'the sizes of the article');
    await buyButton(page, first).click();
    await ends(page, first, 'won');
    const [bought] = await scene.api.orders(user);
    await buyButton(page, other).click();
    assert.match(await ends(page, other, 'other_ordered'), /size 41/, 'which size was ordered');
    await appears(card(page, other).locator(`[data-outcome] a[href="#order-${bought.id}"]`), 'a link to the order');
    assert.equal((await scene.api.orders(user)).length, 1);
    await order(page, bought.id).locator('button[data-cancel]').click();
    await confirmIfAsked(page);
    await appears(card(page, other).locator('[data-outcome]:not([data-code])'), 'the other size as free again');
}

async function soldOut(scene) {
    const voucher = await scene.voucher({ stock: 1, more_at: moment(1800) });
    const context = await scene.visitor({ user: scene.user() });
    const page = await scene.open(context);
    await shows(page, voucher, 'on_sale');
    await overtaken(context, '**/seckill/*', () => scene.api.buy(voucher, scene.user('faster')));
    await buyButton(page, voucher).click();
    const told = await ends(page, voucher, 'sold_out');
    assert.match(told, /\w+ \w+/, 'sold out, in words');
    await shows(page, voucher, 'sold_out');
    await leaves(page, voucher, 0);
    await hasText(card(page, voucher), /More units come .*\d\d:\d\d:\d\d/, 'when more units come');
    assert.ok(await isOff(buyButton(page, voucher)), 'the button is on');
    const late = await scene.shop(scene.user());
    await shows(late, voucher, 'sold_out');
}

async function placeInTheLine(scene) {
    const voucher = await scene.voucher({ stock: 1, waitlist: 2 });
    const [user, first] = [scene.user(), scene.user('first')];
    await scene.api.buy(voucher, scene.user('faster'));
    const before = await scene.api.join(voucher, first);
    const [page, late] = [await scene.shop(user), await scene.shop(scene.user('late'))];
    await shows(page, voucher, 'sold_out');
    await hasText(card(page, voucher).locator('[data-line]'), /\d waits? in the line/, 'how many wait');
    await hasText(buyButton(page, voucher), /^Join the line$/, 'the way into the line');
    const polled = requests(page, /^GET \/orders\/./);
    await buyButton(page, voucher).click();
    assert.match(await ends(page, voucher, 'in_line'), /1 before you/, 'the place on the card');
    assert.ok(await isOff(buyButton(page, voucher)), 'who waits can buy');
    const [place] = await scene.api.orders(user);
    const shown = order(page, place.id, 'waiting').locator('[data-place]');
    await hasText(shown, /1 before you/, 'the place');
    await shows(late, voucher, 'sold_out');
    await buyButton(late, voucher).click();
    assert.match(await ends(late, voucher, 'waitlist_full'), /line is full/);

    await scene.api.must('POST', `/orders/${before.id}/cancel`, { user: first });
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange'))); // as when the page is seen again
    await hasText(shown, /you are the first/, 'the new place');
    await order(page, place.id).locator('button[data-cancel]').click();
    await confirmIfAsked(page);
    await appears(order(page, place.id, 'cancelled'), 'the order that left the line');
    await hasText(buyButton(page, voucher), /^Join the line$/, 'the way back into the line');
    assert.equal((await scene.api.order(place.id, user)).reason, 'LEFT');
    assert.deepEqual(polled, [], 'a place is polled');
}

async function firesOnce(scene) {
    const voucher = await scene.voucher({ stock: 5 });
    const page = await scene.shop(scene.user());
    await shows(page, voucher, 'on_sale');
    await slowNetwork(page, { latency: 600 });
    const sent = requests(page, POST);
    await buyButton(page, voucher).dblclick();
    await buyButton(page, voucher).press('Enter');
    await buyButton(page, voucher).press(' ');
    await ends(page, voucher, ['won', 'already_ordered']); // any of several attempts may arrive first
    assert.equal(sent.length, 1, `sent: ${sent}`);
    await ends(page, voucher, 'won');
}

async function survivesReload(scene) {
    const voucher = await scene.voucher();
    const user = scene.user();
    const page = await scene.shop(user);
    await buyButton(page, voucher).click();
    await ends(page, voucher, 'won');
    const [bought] = await scene.api.orders(user);
    const sent = requests(page, POST);
    await page.reload();
    await ends(page, voucher, ['won', 'already_ordered']);
    await appears(order(page, bought.id, 'unpaid'), 'the order in the list');
    assert.deepEqual(sent, [], 'a reload buys');
}

async function acceptedIsFollowed(scene) {
    const own = await scene.instance({ SECKILL_CONFIRM_TIMEOUT_MS: '300' });
    const voucher = await scene.voucher();
    const user = scene.user();
    const page = await scene.shop(user, { at: own.url });
    await shows(page, voucher, 'on_sale');
    const release = await holdStock(voucher);
    try {
        await buyButton(page, voucher).click();
        await ends(page, voucher, 'accepted');
        await page.reload(); // the page continues to follow an accepted order
        await ends(page, voucher, 'accepted');
    } finally {
        await release();
    }
    await ends(page, voucher, 'won');
    await appears(order(page, undefined, 'unpaid'), 'the order in the list');
}

/** Other purchases at the instance, whatever their outcome. */
function purchases(url, voucher, users) {
    const post = (user) => fetch(`${url}/seckill/${voucher}`, { method: 'POST', headers: { 'X-User-Id': user } });
    return Promise.all(users.map(post));
}

async function tooFast(scene) {
    const own = await scene.instance({ SECKILL_USER_RATE: '1' });
    const [voucher, another] = [await scene.voucher(), await scene.voucher({ title: 'A lamp' })];
    const user = scene.user();
    const context = await scene.visitor({ user, at: own.url });
    const page = await scene.open(context);
    await shows(page, voucher, 'on_sale');
    await overtaken(context, '**/seckill/*', () => purchases(own.url, another, [user, user]));
    await buyButton(page, voucher).click();
    await ends(page, voucher, 'too_fast');
    await ends(page, voucher, 'won');
}

async function triesAgain(scene) {
    const own = await scene.instance({ SECKILL_PURCHASE_RATE: '1' });
    const voucher = await scene.voucher();
    const context = await scene.visitor({ user: scene.user(), at: own.url });
    const page = await scene.open(context);
    await shows(page, voucher, 'on_sale');
    const sent = [];
    page.on('response', (answer) => {
        if (POST.test(`POST ${new URL(answer.url()).pathname}`)) {
            sent.push({ at: performance.now(), status: answer.status(), after: answer.headers()['retry-after'] });
        }
    });
    const others = [1, 2, 3].map((i) => scene.user(`other${i}`));
    await overtaken(context, '**/seckill/*', () => purchases(own.url, voucher, others));
    await buyButton(page, voucher).click();
    await ends(page, voucher, 'retrying');
    await ends(page, voucher, 'won');
    assert.equal(sent[0].status, 503);
    const wanted = Number(sent[0].after) * 1000;
    assert.ok(wanted > 0 && sent[1].at - sent[0].at >= wanted - 50, 'tried again before Retry-After');
}

// The order exists, but its answer does not arrive: a gateway's time-out, and then a login that has expired.
async function lostAnswer(scene) {
    const voucher = await scene.voucher();
    const user = scene.user();
    const context = await scene.visitor({ user });
    const page = await scene.open(context);
    await shows(page, voucher, 'on_sale');
    const answers = [
        { status: 408, contentType: 'text/html', body: '<p>Request Time-out</p>' },
        { status: 401, json: { code: 'UNAUTHENTICATED' } },
    ];
    await context.route('**/seckill/*', async (route) => {
        const answer = answers.shift();
        await route.fetch();
        await route.fulfill(answer);
    });
    await buyButton(page, voucher).click();
    await ends(page, voucher, 'unknown');
    await context.unroute('**/seckill/*');
    await buyButton(page, voucher).click();
    await ends(page, voucher, 'won');
    assert.equal((await scene.api.orders(user)).length, 1);
}

async function severalOrders(scene) {
    const vouchers = [await scene.voucher({ title: 'A kettle', pay_within_s: 2 }), await scene.voucher({ title: 'A lamp' })];
    const user = scene.user();
    const page = await scene.shop(user);
    for (const voucher of vouchers) {
        await buyButton(page, voucher).click();
        await ends(page, voucher, 'won');
    }
    const bought = await scene.api.orders(user);
    assert.equal(bought.length, 2);
    const brief = bought.find((one) => one.voucher_id === vouchers[0]);
    await hasText(order(page, brief.id), /A kettle/, 'the title');
    await appears(order(page, brief.id, 'expired'), 'the order that was not paid in time');
    const lasting = bought.find((one) => one.voucher_id === vouchers[1]);
    await appears(order(page, lasting.id, 'unpaid'), 'the other order');
}

// Its end is another one when the page asks for the order at the end that it knows.
async function timeToPayEnds(scene) {
    const user = scene.user();
    const id = await scene.api.buy(await scene.voucher({ pay_within_s: 8 }), user);
    const page = await scene.shop(user, { path: `/pay?order=${id}` });
    const shown = (state) => page.locator(`[data-pay-state="${state}"]`);
    await appears(shown('payable'), 'the order as one to be paid');
    await scene.api.admin('POST', `/orders/${id}/extend`, { reference: `x-${user}`, extend_s: 6 });
    await appears(shown('over'), 'the order as over', EXTENDED_MS);
    assert.ok(await page.locator('#pay').isHidden(), 'an order that is over can still be paid');
}

// A gateway's own 404 says nothing about the order.
async function gatewayIsNotBelieved(scene) {
    const user = scene.user();
    const id = await scene.api.buy(await scene.voucher(), user);
    const page = await scene.shop(user);
    const isOrder = (url) => url.pathname === `/orders/${id}`;
    await page.route(isOrder, (route) => route.fulfill({ status: 404, contentType: 'text/html', body: '<h1>Not found</h1>' }));
    await page.goto(`/pay?order=${id}`);
    const shown = (state) => page.locator(`[data-pay-state="${state}"]`);
    await appears(shown('unreadable'), "the gateway's page as no answer");
    await page.unroute(isOrder);
    await appears(shown('payable'), 'the order, behind a gateway that is well again');
}

/** An instance of its own that takes users' tokens, and what makes them. */
async function tokenInstance(scene) {
    const own = new Instance();
    scene.instances.push(own);
    const keys = join(own.folder, 'keys');
    writeFileSync(keys, `k1 HS256 ${Buffer.from('a-key-of-the-browser-tests-only!').toString('base64url')}\n`);
    const env = { SECKILL_TOKEN_KEYS: keys, SECKILL_TOKEN_ISSUER: 'login', SECKILL_TOKEN_AUDIENCE: 'shop' };
    own.env = { ...env, SECKILL_AUTH: 'token' };
    await own.run();
    const tokenOf = (name) =>
        String(execFileSync(join(ROOT, 'build/seckill'), ['token', name, '600'], { env: { ...process.env, ...env } })).trim();
    return { at: own.url, tokenOf };
}

async function tokenOfFragment(scene) {
    const { at, tokenOf } = await tokenInstance(scene);
    const user = scene.user('token');
    const token = tokenOf(user);
    const voucher = await scene.voucher();
    const context = await scene.visitor({ at });
    const page = await scene.open(context, `/#token=${token}`);
    await shows(page, voucher, 'on_sale');
    assert.equal(new URL(page.url()).hash, '', 'the token is still in the address bar');
    await buyButton(page, voucher).click();
    await ends(page, voucher, 'won');
    await page.reload();
    await appears(order(page, undefined, 'unpaid'), 'the order, after a reload');
    const kept = await page.evaluate(() => JSON.stringify(localStorage));
    assert.ok(!kept.includes(token), 'the token is kept beyond the tab');
    const stranger = scene.user('stranger'), link = `/#token=${tokenOf(stranger)}`;
    const buysAs = (one, name) => one.getByText(`You buy as ${name}`, { exact: true });
    await page.goto('about:blank'); // else the address would change within the page
    await page.goto(link);
    await appears(order(page, undefined, 'unpaid'), 'the order, after a link with the token of another user');
    assert.equal(new URL(page.url()).hash, '', 'the token of another user is still in the address bar');
    assert.equal(await buysAs(page, stranger).count(), 0, 'a link has made another user of the buyer');

    const newTab = await scene.open(context, link);
    await shows(newTab, voucher, 'on_sale');
    assert.equal(await buysAs(newTab, stranger).count(), 0, 'a link in a new tab has made another user of the buyer');
    await hasText(newTab.locator('main'), new RegExp(`a login of ${stranger}, but ${user} is logged in`), 'whose link it is');
    await newTab.getByRole('button', { name: `Buy as ${stranger}` }).click();
    await appears(buysAs(newTab, stranger), 'the login that was wanted');
    await buyButton(newTab, voucher).click();
    await ends(newTab, voucher, 'won');
    assert.equal(await newTab.getByRole('button', { name: 'Buy as' }).count(), 0, 'the login is still offered');
}

/** For context.addInitScript: Android's WebView until its app turns DOM storage on, and a browser that blocks it. */
function withoutStorage(blocks) {
    for (const area of ['localStorage', 'sessionStorage']) {
        const get = () => {
            if (blocks) {
                throw new DOMException('denied', 'SecurityError');
            }
            return null;
        };
        Object.defineProperty(globalThis, area, { get });
    }
}

async function noStorage(scene) {
    const { at, tokenOf } = await tokenInstance(scene);
    const voucher = await scene.voucher();
    for (const blocks of [false, true]) {
        const path = `/#token=${tokenOf(scene.user('token'))}`;
        const page = await scene.shop(undefined, { at, path, init: [withoutStorage, blocks] });
        await shows(page, voucher, 'on_sale');
        await buyButton(page, voucher).click();
        await ends(page, voucher, 'won');
        await appears(order(page, undefined, 'unpaid'), 'the order');
    }
    const named = await scene.shop(undefined, { init: [withoutStorage, true] });
    await named.getByRole('textbox').first().fill(scene.user());
    await named.getByRole('textbox').first().press('Enter');
    await shows(named, voucher, 'on_sale');
    await buyButton(named, voucher).click();
    await ends(named, voucher, 'won');
}

async function ticketWithWork(scene) {
    const own = await scene.instance({ SECKILL_TICKET_SECRET: 'the-ticket-secret-of-these-tests' });
    const voucher = await scene.voucher({ ticket: true, work_bits: 12 });
    const page = await scene.shop(scene.user(), { at: own.url });
    await shows(page, voucher, 'on_sale');
    await buyButton(page, voucher).click();
    await ends(page, voucher, 'won');
}

async function endedSale(scene) {
    const voucher = await scene.voucher({ end_at: moment(10) });
    const page = await scene.shop(scene.user());
    await shows(page, voucher, 'on_sale');
    await shows(page, voucher, 'ended');
}

export const tests = [
    { name: 'a buyer logs in, wins and pays', run: winsAndPays },
    { name: 'one cancels, and another gets the unit', answers: [503], run: cancelsAndAnotherBuys }, // reopened: LOADING at first
    { name: 'a second tab of the same buyer is told so', answers: [409], run: secondTabIsTold },
    { name: 'one order of the sizes of an article', answers: [409], run: oneOfAScope },
    { name: 'sold out', answers: [409], run: soldOut },
    { name: 'a place in the line is joined, shown and left', answers: [409], run: placeInTheLine },
    { name: 'the button cannot be fired twice', run: firesOnce },
    { name: 'the result survives a reload', answers: [409], run: survivesReload },
    { name: 'an accepted order is followed to its end', run: acceptedIsFollowed },
    { name: 'too fast', answers: [409, 429], run: tooFast },
    { name: 'tries again after Retry-After', answers: [503], run: triesAgain },
    { name: 'a lost answer is no refusal', answers: [401, 408], run: lostAnswer },
    { name: 'several orders, and one that is not paid in time', run: severalOrders },
    { name: 'the payment page ends with the time to pay', run: timeToPayEnds },
    { name: 'the payment page does not believe a gateway', answers: [404], run: gatewayIsNotBelieved },
    { name: "the token of the page's fragment", run: tokenOfFragment },
    { name: 'a browser without storage', run: noStorage },
    { name: 'a ticket that takes work', answers: [403], run: ticketWithWork },
    { name: 'the end of a sale', run: endedSale },
];
