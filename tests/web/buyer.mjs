// One buyer's purchases and orders together, and what is shown of sales, with a service and a view that a test plays.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { Problem } from '../../clients/web/index.js';
import { createBuyer } from '../../web/shop/buyer.js';
import { LIST } from '../../web/shop/orders.js';
import { onlyOurs } from '../../web/shop/ours.js';
import { STATE } from '../../web/shop/purchase.js';
import { createSales } from '../../web/shop/sales.js';
import { createVouchers } from '../../web/shop/vouchers.js';

const NOW = Date.parse('2030-01-01T00:00:00Z');
const ID = '01a1ff71-fdd4-746e-a972-2a140b584401';
const FIRST = '/orders?limit=20';
const order = (status, changes) => ({ id: ID, voucher_id: '7', quantity: 1, status, ...changes });
const at = (seconds) => new Date(NOW + seconds * 1000).toISOString();
const voucher = (changes) => ({
    id: '7',
    title: 'Tea',
    price_cents: 990,
    currency: 'CNY',
    stock: 5,
    remaining: 5,
    limit: 1,
    ticket: false,
    work_bits: 0,
    offer: 1,
    begin_at: at(-60),
    end_at: at(3600),
    phase: 'on_sale',
    ...changes,
});

const opened = [];
after(() => opened.forEach((one) => one.end()));

async function until(condition) {
    for (let turns = 0; turns < 2000 && !condition(); turns++) {
        await new Promise(setImmediate);
    }
    assert.ok(condition(), String(condition));
}

function memory(items = {}) {
    const kept = new Map(Object.entries(items));
    return {
        kept,
        get: (key) => kept.get(key) ?? null,
        set: (key, value) => kept.set(key, value),
        remove: (key) => kept.delete(key),
        getJson: (key) => (kept.has(key) ? JSON.parse(kept.get(key)) : null),
        setJson: (key, value) => kept.set(key, JSON.stringify(value)),
    };
}

// `answers`: path -> body, Problem, or a function that gives one.
function scene({ answers = {}, user = 'alice', local = memory(), now = NOW, pagesAtFirst } = {}) {
    const here = { answers, local, asked: [], shown: [], changes: [], now };
    const clock = { now: () => here.now, room: () => 0, monotonic: () => here.monotonic ?? 0, atLeast() {}, hasJumped: () => false };
    const vouchers = createVouchers(() => 0, () => []);
    const api = onlyOurs({
        call: async (path, options) => {
            here.asked.push(path);
            const found = here.answers[path];
            const answer = await (typeof found === 'function' ? found(options) : found);
            if (answer === undefined || answer instanceof Problem) {
                throw answer ?? new Error(`asked for ${path}`);
            }
            return { status: 200, body: answer };
        },
    });
    here.buyer = createBuyer({
        user,
        api,
        clock,
        local,
        vouchers,
        shown: async () => {},
        random: () => 0.5,
        onPurchase: (id) => here.shown.push(id),
        onOrder: (one, before) => here.changes.push([one?.status, before?.status]),
    });
    opened.push(here.buyer);
    const cards = new Map();
    const view = {
        state: null,
        said: [],
        seen: () => [...cards.keys()],
        addCards: (some) =>
            some.forEach(({ id }) =>
                cards.set(id, {
                    render: (what, phase, purchase, won, other) => Object.assign(cards.get(id), { what, phase, won, other }),
                    focus: () => {
                        view.focused = id;
                    },
                    renderDue: (due) => {
                        cards.get(id).due = due;
                        return Infinity;
                    },
                    renderClock: (what, phase, time) => (what.beginMs > time ? what.beginMs : what.endMs) - time,
                }),
            ),
        card: (id) => cards.get(id),
        renderFound: (found) => Object.assign(view, found),
        arrange: (ids) => Object.assign(view, { arranged: ids }),
        onScreen: () => here.onScreen ?? [],
        renderMore: (hasMore, isBusy) => Object.assign(view, { hasMore, isBusy }),
        renderVouchersState: (state, readAt) => {
            Object.assign(view, { state, readAt });
        },
        announce: (text) => view.said.push(text),
    };
    here.vouchers = vouchers;
    here.view = view;
    here.cards = cards;
    here.sales = createSales({
        api,
        clock,
        vouchers,
        view,
        voice: { say: (key) => key },
        random: () => 0.5,
        onRead() {},
        purchase: (id) => here.buyer.purchase(id),
        orderOf: (id) => here.buyer.orderOf(id),
        prepare: (id) => here.buyer.purchase(id).prepare(),
        pagesAtFirst,
        makeLive: ({ read, wanted }) => ({
            adjust() {},
            hurry: () => {
                here.hurries = (here.hurries ?? 0) + 1;
            },
            read,
            wanted,
        }),
    });
    here.wanted = () => here.sales.live.wanted();
    here.readList = () => here.sales.live.read();
    return here;
}

test('a purchase that is kept and whose order the service has', async () => {
    const record = { key: 'k', quantity: 1, at: NOW, state: 'won', outcome: { code: 'won', orderId: ID } };
    const here = scene({
        local: memory({ 'seckill.try.alice.7': JSON.stringify(record) }),
        answers: { [FIRST]: { orders: [order('paid')], complete: true } },
    });
    here.vouchers.put(voucher());
    assert.equal(here.buyer.purchase('7').outcome().code, 'won');
    here.buyer.start();
    await until(() => here.buyer.orders.state() === LIST.READY);
    assert.equal(here.buyer.purchase('7').outcome().code, 'won');
    assert.deepEqual(here.asked, [FIRST]);
});

test('a card that was won says at once, not with the next second, until when to pay', async () => {
    const record = { key: 'k', quantity: 1, at: NOW, state: 'won', outcome: { code: 'won', orderId: ID } };
    const here = scene({
        local: memory({ 'seckill.try.alice.7': JSON.stringify(record) }),
        answers: { '/vouchers': { vouchers: [voucher()], can_sell: true }, [FIRST]: { orders: [order('unpaid')], complete: true } },
    });
    await here.readList();
    assert.equal(here.cards.get('7').due, undefined);
    here.buyer.start();
    await until(() => here.buyer.orders.state() === LIST.READY);
    here.sales.render('7');
    assert.equal(here.cards.get('7').due.id, ID);
});

test('a purchase that is kept and is not theirs is forgotten, but not while that cannot be known', async () => {
    const record = { key: 'k', quantity: 1, at: NOW, state: 'won', outcome: { code: 'won', orderId: ID } };
    const here = scene({
        local: memory({ 'seckill.try.alice.7': JSON.stringify(record) }),
        answers: {
            [FIRST]: new Problem('UNAVAILABLE', { status: 503 }),
            [`/orders/${ID}`]: new Problem('NOT_FOUND', { status: 404 }),
        },
    });
    here.vouchers.put(voucher());
    here.buyer.purchase('7');
    here.buyer.start();
    await until(() => here.buyer.orders.state() === LIST.UNREADABLE);
    assert.equal(here.buyer.purchase('7').state(), STATE.WON);
    here.answers[FIRST] = { orders: [], complete: true };
    here.buyer.read();
    await until(() => here.buyer.purchase('7').state() === STATE.IDLE);
    assert.equal(here.buyer.orders.state(), LIST.EMPTY);
});

test('a try that leaving the page has interrupted goes on by itself only where it is known whose it is', async () => {
    const record = { key: 'k', quantity: 1, at: NOW, state: 'asking', outcome: { code: null } };
    for (const [user, state, asked] of [
        ['alice', STATE.WON, ['/seckill/7']],
        [null, STATE.UNKNOWN, []],
    ]) {
        const local = memory({ [`seckill.try.${user ?? ''}.7`]: JSON.stringify(record) });
        const here = scene({ user, local, answers: { '/seckill/7': order('unpaid') } });
        here.vouchers.put(voucher());
        here.buyer.purchase('7');
        await until(() => here.buyer.purchase('7').state() === state);
        assert.deepEqual(here.asked, asked);
    }
});

test('an accepted order is followed once, for the list and for its purchase', async () => {
    let settle;
    const path = `/orders/${ID}?wait=20&while=pending`;
    const here = scene({
        answers: {
            [FIRST]: { orders: [], complete: true },
            '/seckill/7': order('pending'),
            [path]: () =>
                new Promise((resolve) => {
                    settle = resolve;
                }),
        },
    });
    here.vouchers.put(voucher());
    here.buyer.start();
    here.buyer.purchase('7').press(1);
    await until(() => here.buyer.purchase('7').state() === STATE.FOLLOWING && settle !== undefined);
    assert.equal(here.buyer.orders.get(ID).status, 'pending');
    settle(order('unpaid'));
    await until(() => here.buyer.purchase('7').outcome().code === 'won');
    assert.equal(here.asked.filter((one) => one === path).length, 1);
    assert.equal(here.buyer.orders.get(ID).status, 'unpaid');
});

test('already ordered elsewhere: the order comes into the list', async () => {
    let mine = [];
    const here = scene({
        answers: {
            [FIRST]: () => ({ orders: mine, complete: true }),
            '/seckill/7': new Problem('ALREADY_ORDERED', { status: 409, body: { order_id: ID } }),
        },
    });
    here.vouchers.put(voucher());
    here.buyer.start();
    await until(() => here.buyer.orders.state() === LIST.EMPTY);
    mine = [order('unpaid')];
    here.buyer.purchase('7').press(1);
    await until(() => here.buyer.orders.get(ID) !== undefined);
    assert.equal(here.buyer.purchase('7').outcome().code, 'already_ordered');
});

test('an order of another voucher in the scope: it comes into the list as that one, and its end frees this one', async () => {
    let mine = [];
    const refusal = new Problem('ALREADY_ORDERED', { status: 409, body: { order_id: ID, voucher_id: '7' } });
    const here = scene({
        answers: {
            '/vouchers': { vouchers: [voucher({ title: 'Size 41' }), voucher({ id: '9', scope: '7' })] },
            [FIRST]: () => ({ orders: mine, complete: true }),
            '/seckill/9': refusal,
            [`/orders/${ID}/cancel`]: order('cancelled'),
        },
    });
    await here.readList();
    here.buyer.start();
    await until(() => here.buyer.orders.state() === LIST.EMPTY);
    mine = [order('unpaid')];
    here.sales.press('9', 1);
    await until(() => here.buyer.orders.get(ID) !== undefined);
    assert.equal(here.buyer.purchase('9').outcome().code, 'other_ordered');
    assert.equal(here.buyer.purchase('7').state(), STATE.WON);
    here.sales.renderAll();
    const shown = (id) => [here.cards.get(id).won?.id, here.cards.get(id).other];
    assert.deepEqual([shown('7'), shown('9')], [[ID, undefined], [undefined, 'Size 41']]);
    await here.buyer.cancel(ID);
    assert.deepEqual(['7', '9'].map((id) => here.buyer.purchase(id).state()), [STATE.IDLE, STATE.IDLE]);
});

test('an order that is won is read again when its time to pay is over', async () => {
    const won = order('unpaid', { expires_at: new Date(NOW).toISOString() });
    const here = scene({ answers: { [FIRST]: { orders: [], complete: true }, '/seckill/7': won } });
    here.vouchers.put(voucher());
    here.buyer.start();
    await until(() => here.buyer.orders.state() === LIST.EMPTY);
    here.answers[FIRST] = { orders: [order('expired')], complete: true };
    here.buyer.purchase('7').press(1);
    await until(() => here.buyer.purchase('7').state() === STATE.WON);
    const before = here.asked.length;
    await new Promise((resolve) => setTimeout(resolve, 600));
    assert.equal(here.asked.length, before + 1);
    assert.equal(here.buyer.purchase('7').state(), STATE.IDLE);
});

test('orders that cannot be read are asked for again, after Retry-After', async () => {
    const here = scene({ answers: { [FIRST]: new Problem('RATE_LIMITED', { status: 429, retryAfterMs: 1000 }) } });
    here.buyer.start();
    await until(() => here.buyer.orders.state() === LIST.UNREADABLE);
    await new Promise((resolve) => setTimeout(resolve, 600)); // without it: after 300 ms
    assert.deepEqual(here.asked, [FIRST]);
});

test('after older orders could not be read, the list is read again', async () => {
    const here = scene({
        answers: {
            [FIRST]: { orders: [order('paid')], complete: true, next: 'c' },
            [`${FIRST}&cursor=c`]: new Problem('NO_ANSWER'),
        },
    });
    here.buyer.start();
    await until(() => here.buyer.orders.state() === LIST.READY);
    const { length } = here.asked;
    await here.buyer.readMore();
    assert.equal(here.buyer.orders.state(), LIST.UNREADABLE);
    await until(() => here.buyer.orders.state() === LIST.READY);
    assert.deepEqual(here.asked.slice(length), [`${FIRST}&cursor=c`, FIRST]);
});

test("a gateway's JSON with 200 is no order, no list of orders, and no page of sales", async () => {
    const busy = { code: 500, msg: 'busy', id: 'r-1', status: 'error' };
    let tries = 0;
    const here = scene({
        answers: {
            [FIRST]: busy,
            '/seckill/7': () => (tries++ === 0 ? busy : order('unpaid')),
            '/vouchers': { vouchers: [voucher()], next: 'a' },
            '/vouchers?cursor=a': busy,
        },
    });
    await here.readList();
    await here.sales.readMore();
    assert.deepEqual([here.view.state, here.view.isBusy], ['stale', false]);
    here.buyer.start();
    await until(() => here.buyer.orders.state() === LIST.UNREADABLE);
    here.answers[FIRST] = { orders: [], complete: true };
    here.buyer.purchase('7').press(1);
    await new Promise((resolve) => setTimeout(resolve, 600));
    assert.equal(here.buyer.purchase('7').state(), STATE.WON);
    assert.equal(here.buyer.orders.state(), LIST.READY);
    assert.deepEqual(here.buyer.orders.all(), [order('unpaid')]);
});

test('giving back: the purchase is over and may be tried again; other tabs are told', async () => {
    const here = scene({
        answers: {
            '/seckill/7': order('unpaid'),
            [`/orders/${ID}/cancel`]: order('cancelled'),
            [FIRST]: { orders: [order('unpaid')], complete: true },
        },
    });
    here.vouchers.put(voucher());
    here.buyer.purchase('7').press(1);
    await until(() => here.buyer.purchase('7').state() === STATE.WON);
    assert.equal(await here.buyer.cancel(ID), true);
    assert.equal(here.buyer.purchase('7').state(), STATE.IDLE);
    assert.ok(here.local.kept.has('seckill.changed'));
    assert.ok(!here.local.kept.has('seckill.try.alice.7'));
    here.answers[`/orders/${ID}/cancel`] = new Problem('UNAVAILABLE', { status: 503 });
    assert.equal(await here.buyer.cancel(ID), false);
});

test('a place in the line is read with the list, now and then, and is not waited for', async () => {
    const place = (n) => order('waiting', { place: n });
    const here = scene({
        answers: {
            [FIRST]: { orders: [], complete: true },
            '/seckill/7': place(2),
            [`/orders/${ID}/cancel`]: order('cancelled', { reason: 'LEFT' }),
        },
    });
    here.vouchers.put(voucher());
    here.buyer.start();
    await until(() => here.buyer.orders.state() === LIST.EMPTY);
    here.buyer.purchase('7').press(1, true);
    await until(() => here.buyer.purchase('7').state() === STATE.IN_LINE);
    here.answers[FIRST] = { orders: [place(1)], complete: true };
    await new Promise((resolve) => setTimeout(resolve, 600));
    assert.deepEqual(here.asked, [FIRST, '/seckill/7']);
    here.buyer.read(); // as when the page is seen again
    await until(() => here.buyer.orderOf('7').place === 1);
    assert.ok(here.changes.some(([status, before]) => status === 'waiting' && before === 'waiting'), 'not shown');
    assert.equal(await here.buyer.cancel(ID), true);
    assert.equal(here.buyer.purchase('7').state(), STATE.IDLE);
    assert.deepEqual(here.asked, [FIRST, '/seckill/7', FIRST, `/orders/${ID}/cancel`]);
});

test('a place that is kept and is not theirs is forgotten', async () => {
    const record = { key: 'k', quantity: 1, at: NOW, state: 'in_line', outcome: { code: 'in_line', orderId: ID } };
    const here = scene({
        local: memory({ 'seckill.try.alice.7': JSON.stringify(record) }),
        answers: {
            [FIRST]: { orders: [], complete: true },
            [`/orders/${ID}`]: new Problem('NOT_FOUND', { status: 404 }),
        },
    });
    here.vouchers.put(voucher());
    assert.equal(here.buyer.purchase('7').state(), STATE.IN_LINE);
    here.buyer.start();
    await until(() => here.buyer.purchase('7').state() === STATE.IDLE);
});

test('what another tab writes is heard', async () => {
    const here = scene({ answers: { [FIRST]: { orders: [], complete: true } } });
    here.vouchers.put(voucher());
    here.buyer.purchase('7');
    here.local.setJson('seckill.try.alice.7', {
        key: 'k',
        quantity: 1,
        at: NOW,
        state: 'won',
        outcome: { code: 'won', orderId: ID },
    });
    here.buyer.overhear('seckill.try.alice.7');
    here.buyer.overhear('seckill.try.bob.7');
    here.buyer.overhear(null);
    assert.equal(here.buyer.purchase('7').outcome().code, 'already_ordered');
});

// ---- sales ----

test('the list: cards, and none is no trouble', async () => {
    const here = scene({ answers: { '/vouchers': { vouchers: [] } } });
    await here.readList();
    assert.equal(here.view.state, 'empty');
    here.answers['/vouchers'] = { vouchers: [voucher()] };
    await here.readList();
    assert.equal(here.view.state, 'ready');
    assert.equal(here.cards.get('7').phase, 'on_sale');
});

test('a list that the service could not read as a whole is not "nothing is on sale"', async () => {
    const here = scene({ answers: { '/vouchers': { vouchers: [], complete: false } } });
    await here.readList();
    assert.equal(here.view.state, 'partial');
    here.answers['/vouchers'] = { vouchers: [voucher()], complete: false };
    await here.readList();
    assert.equal(here.view.state, 'partial');
    here.answers['/vouchers'] = { vouchers: [voucher()] };
    await here.readList();
    assert.equal(here.view.state, 'ready');
});

test('what could not be read is said, and is not "nothing is on sale"', async () => {
    const here = scene({ answers: { '/vouchers': new Problem('NO_ANSWER') } });
    await assert.rejects(here.readList());
    assert.equal(here.view.state, 'unreadable');
    here.answers['/vouchers'] = { vouchers: [voucher()] };
    await here.readList();
    here.answers['/vouchers'] = new Problem('NO_ANSWER');
    await assert.rejects(here.readList());
    assert.equal(here.view.state, 'stale');
    assert.equal(here.cards.get('7').phase, 'on_sale');
});

test('a browser without a network says so without an attempt, and since when', async () => {
    const here = scene({ answers: { '/vouchers': { vouchers: [voucher()] } } });
    here.sales.setOnline(false);
    assert.equal(here.view.state, null);
    await here.readList();
    here.now = NOW + 5000;
    here.sales.setOnline(false);
    assert.deepEqual([here.view.state, here.view.readAt], ['offline', NOW]);
    here.sales.setOnline(true);
    assert.equal(here.hurries, 1);
    await here.readList();
    assert.deepEqual([here.view.state, here.view.readAt], ['ready', NOW + 5000]);
});

test('as many pages are read at first as there were', async () => {
    const answers = { '/vouchers': page(30, 2, 'a'), '/vouchers?cursor=a': page(28, 2, 'b'), '/vouchers?cursor=b': page(26, 1) };
    const here = scene({ answers, pagesAtFirst: 2 });
    await here.readList();
    assert.deepEqual([[...here.cards.keys()], here.view.hasMore, here.sales.state().pages], [['30', '29', '28', '27'], true, 2]);
    here.asked.length = 0;
    await here.readList();
    assert.deepEqual(here.asked, ['/vouchers']);
});

test('what a buyer gives back is followed first, on screen or not', async () => {
    const here = scene({ answers: { '/vouchers': page(30, 3) } });
    await here.readList();
    here.onScreen = ['29', '28'];
    here.sales.follow('30');
    assert.deepEqual(here.wanted(), ['30', '29', '28']);
    assert.equal(here.hurries, 1);
    here.monotonic = 20000;
    assert.deepEqual(here.wanted(), ['29', '28']);
    here.vouchers.hear('29', { remaining: 5, phase: 'upcoming' });
    here.vouchers.get('29').beginMs = NOW + 3600 * 1000;
    here.sales.tick();
    assert.deepEqual(here.wanted(), ['28', '29']); // it changes later
});

test('a search reads on, and finds words of title and description in any order', async () => {
    const lamp = voucher({ id: '26', title: 'Desk Lamp', description: 'with a shade of silk' });
    const here = scene({
        answers: { '/vouchers': page(30, 2, 'a'), '/vouchers?cursor=a': { vouchers: [lamp], next: 'b' }, '/vouchers?cursor=b': page(25, 1) },
    });
    await here.readList();
    await here.sales.arrange({ search: 'SILK lamp', sort: 'open' });
    assert.deepEqual([here.view.found, here.view.count, here.view.said], [['26'], 4, ['announce.found']]);
    assert.deepEqual(here.sales.state(), { search: 'SILK lamp', sort: 'open', pages: 3 });
    await here.sales.arrange({ search: 'sofa', sort: 'open' });
    assert.deepEqual(here.view.found, []);
    await here.sales.arrange({ search: '', sort: 'open' });
    assert.equal(here.view.found.length, 4);
});

test('in the order of their ends, those that have ended last', async () => {
    const ends = { 1: 500, 2: 100, 3: 300, 4: -5 };
    const vouchers = Object.entries(ends).map(([id, s]) => voucher({ id, end_at: at(s) }));
    const here = scene({ answers: { '/vouchers': { vouchers } } });
    await here.readList();
    await here.sales.arrange({ search: '', sort: 'end' });
    assert.deepEqual(here.view.arranged, ['2', '3', '1', '4']);
    await here.sales.arrange({ search: '', sort: 'open' });
    assert.deepEqual(here.view.arranged, ['3', '2', '1', '4']);
});

test('a voucher that leaves the list is asked for by itself', async () => {
    const here = scene({
        answers: { '/vouchers': { vouchers: [voucher()] }, '/vouchers/7': voucher({ phase: 'paused' }) },
    });
    await here.readList();
    here.answers['/vouchers'] = { vouchers: [] };
    await here.readList();
    assert.equal(here.cards.get('7').phase, 'paused');
    assert.deepEqual(here.view.said, ['announce.paused']);
    here.answers['/vouchers/7'] = new Problem('UNKNOWN_VOUCHER', { status: 404 });
    await here.readList();
    assert.equal(here.cards.get('7').phase, 'ended');
    const { length } = here.asked;
    await here.readList();
    assert.equal(here.asked.length, length + 1, 'asks for what is over');
});

test('it opens by time alone, and a moment before that a ticket is got and the list read', async () => {
    const here = scene({ answers: { '/vouchers': { vouchers: [voucher({ phase: 'upcoming', begin_at: at(70), ticket: true })] } } });
    await here.readList();
    assert.equal(here.cards.get('7').phase, 'upcoming');
    here.sales.press('7', 1);
    assert.equal(here.buyer.purchase('7').outcome().code, 'not_started');
    assert.deepEqual(here.asked, ['/vouchers']);
    here.now = NOW + 12000;
    here.sales.tick();
    assert.deepEqual(here.view.said, ['announce.minute']);
    here.now = NOW + 30000;
    here.sales.tick();
    here.now = NOW + 31000;
    here.sales.tick();
    assert.deepEqual(here.asked, ['/vouchers', '/vouchers/7/ticket'], 'once, also after a tap');
    here.now = NOW + 69990;
    assert.ok(here.sales.tick() <= 10);
    here.now = NOW + 70000;
    here.sales.tick();
    assert.equal(here.cards.get('7').phase, 'on_sale');
    assert.equal(here.buyer.purchase('7').outcome().code, null);
    assert.deepEqual(here.view.said, ['announce.minute', 'announce.ten', 'announce.on_sale']);
    assert.equal(here.hurries, 1);
});

const page = (from, count, next) => ({
    vouchers: Array.from({ length: count }, (_, i) => voucher({ id: String(from - i) })),
    next,
});

test('more pages: shown when they are asked for, and read again as far as they are on screen', async () => {
    const here = scene({
        answers: {
            '/vouchers': page(30, 2, 'a='),
            '/vouchers?cursor=a%3D': page(28, 2, 'b'),
            '/vouchers?cursor=b': page(26, 1),
        },
    });
    await here.readList();
    assert.deepEqual([...here.cards.keys()], ['30', '29']);
    assert.equal(here.view.hasMore, true);
    const first = here.sales.readMore();
    assert.equal(here.view.isBusy, true);
    await Promise.all([first, here.sales.readMore()]); // a second press is none
    assert.deepEqual([...here.cards.keys()], ['30', '29', '28', '27']);
    assert.deepEqual([here.view.focused, here.view.isBusy, here.view.said], ['28', false, ['announce.more']]);
    await here.readList(); // which does not lead back
    await here.sales.readMore();
    assert.deepEqual([here.view.focused, here.view.hasMore], ['26', false]);
    await here.sales.readMore();
    here.asked.length = 0;
    await here.readList();
    assert.deepEqual(here.asked, ['/vouchers']);
    here.onScreen = ['28', '29'];
    here.answers['/vouchers/28'] = voucher({ id: '28', remaining: 0, phase: 'sold_out' });
    await here.readList();
    assert.deepEqual(here.asked, ['/vouchers', '/vouchers', '/vouchers/28']);
    assert.equal(here.cards.get('28').phase, 'sold_out');
});

test('a page that cannot be read is said, and can be asked for again', async () => {
    const here = scene({
        answers: { '/vouchers': page(30, 1, 'a'), '/vouchers?cursor=a': new Problem('OVERLOADED', { status: 503 }) },
    });
    await here.readList();
    await here.sales.readMore();
    assert.deepEqual([here.view.state, here.view.hasMore, here.view.isBusy], ['stale', true, false]);
    assert.deepEqual(here.view.said, []);
    here.answers['/vouchers?cursor=a'] = page(29, 1);
    await here.sales.readMore();
    assert.deepEqual([here.view.state, [...here.cards.keys()]], ['ready', ['30', '29']]);
});

test('of many that have left the list each has its turn', async () => {
    const here = scene({ answers: { '/vouchers': page(30, 12) } });
    await here.readList();
    here.answers['/vouchers'] = page(30, 0);
    for (let id = 19; id <= 30; id++) {
        here.answers[`/vouchers/${id}`] = voucher({ id: String(id), phase: 'paused' });
    }
    here.asked.length = 0;
    for (let round = 0; round < 3; round++) {
        await here.readList();
    }
    assert.equal(new Set(here.asked).size, 1 + 12);
    assert.equal(here.asked.length, 3 * (1 + 5));
});

test('where a line is open, a press on what is sold out joins it, for one unit', async () => {
    const sent = [];
    const line = voucher({ remaining: 0, phase: 'sold_out', limit: 3, waitlist: 5, waiting: 2 });
    const here = scene({
        answers: {
            '/vouchers': { vouchers: [{ ...line, waitlist: 0 }] },
            '/seckill/7': ({ json }) => (sent.push(json), order('waiting', { place: 2 })),
        },
    });
    await here.readList();
    here.sales.press('7', 3); // nobody joins it any more
    assert.equal(here.buyer.purchase('7').outcome().code, 'sold_out');
    here.answers['/vouchers'] = { vouchers: [line] };
    await here.readList();
    here.sales.press('7', 3);
    await until(() => here.buyer.purchase('7').state() === STATE.IN_LINE);
    here.sales.renderAll();
    assert.equal(here.cards.get('7').won.place, 2);
    here.answers['/vouchers'] = { vouchers: [{ ...line, remaining: 1, phase: 'on_sale' }] };
    await here.readList();
    here.sales.press('7', 3); // who waits has an order
    assert.deepEqual(sent, [{ quantity: 1, wait: true }]);
});

test('a press asks only where the sale is on', async () => {
    const here = scene({
        answers: { '/vouchers': { vouchers: [voucher({ remaining: 0, phase: 'sold_out' })] }, '/seckill/7': order('unpaid') },
    });
    await here.readList();
    here.sales.press('7', 1);
    assert.equal(here.buyer.purchase('7').outcome().code, 'sold_out');
    assert.deepEqual(here.asked, ['/vouchers']);
    here.answers['/vouchers'] = { vouchers: [voucher({ remaining: 1 })] };
    await here.readList();
    assert.equal(here.buyer.purchase('7').outcome().code, null);
    here.sales.press('7', 1);
    await until(() => here.buyer.purchase('7').state() === STATE.WON);
});
