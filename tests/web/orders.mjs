// The list of orders: "could not be read" is never "you have nothing".
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Problem } from '../../clients/web/index.js';
import { createOrders, LIST } from '../../web/shop/orders.js';

const order = (n, status = 'unpaid') => ({
    id: `01a1ff71-0000-7000-8000-${String(n).padStart(12, '0')}`,
    voucher_id: '7',
    quantity: 1,
    status,
});

// `answers`: path -> body, Problem, or a list of them one after the other.
function scene(answers) {
    const asked = [];
    const told = [];
    const api = {
        call: async (path) => {
            asked.push(path);
            const answer = await (Array.isArray(answers[path]) ? answers[path].shift() : answers[path]);
            if (answer === undefined || answer instanceof Error) {
                throw answer ?? new Error(`asked for ${path}`);
            }
            return { body: answer };
        },
    };
    const orders = createOrders({
        api,
        wait: async () => {},
        random: () => 0.5,
        onChange: (one, before) => told.push([one, before]),
    });
    return { orders, asked, told, answers };
}

const FIRST = '/orders?limit=20';
const page = (orders, more) => ({ orders, complete: true, ...more });

test('before it is read it is loading, then empty or ready', async () => {
    const { orders, answers } = scene({ [FIRST]: page([]) });
    assert.equal(orders.state(), LIST.LOADING);
    await orders.read();
    assert.equal(orders.state(), LIST.EMPTY);
    answers[FIRST] = page([order(2), order(1, 'paid')]);
    await orders.read();
    assert.equal(orders.state(), LIST.READY);
    assert.deepEqual(
        orders.all().map((one) => one.id),
        [order(2).id, order(1).id],
    );
});

test('could not be read: is not empty, and keeps what was there', async () => {
    const { orders, answers } = scene({ [FIRST]: new Problem('UNAVAILABLE', { status: 503 }) });
    await orders.read();
    assert.equal(orders.state(), LIST.UNREADABLE);
    answers[FIRST] = page([order(1)]);
    await orders.read();
    answers[FIRST] = new Problem('NO_ANSWER');
    await orders.read();
    assert.equal(orders.state(), LIST.UNREADABLE);
    assert.equal(orders.all().length, 1);
    assert.equal(orders.why(), 'NO_ANSWER');
});

test('nothing found, but not all places read: is not empty', async () => {
    const { orders } = scene({ [FIRST]: page([], { complete: false }) });
    await orders.read();
    assert.equal(orders.state(), LIST.READY);
    assert.equal(orders.isComplete(), false);
});

test('a list that does not have all orders takes none away', async () => {
    const { orders, answers } = scene({ [FIRST]: page([order(2), order(1, 'pending')]) });
    await orders.read();
    answers[FIRST] = page([order(2)], { complete: false });
    await orders.read();
    assert.equal(orders.all().length, 2);
    answers[FIRST] = page([order(2)]);
    await orders.read();
    assert.equal(orders.all().length, 1);
});

test('an order that was just won is there at once, and an older list does not take it away', async () => {
    const { orders, answers } = scene({ [FIRST]: page([]) });
    await orders.read();
    let answer;
    answers[FIRST] = new Promise((resolve) => {
        answer = resolve;
    });
    const reading = orders.read();
    orders.put(order(5));
    answer(page([]));
    await reading;
    assert.equal(orders.state(), LIST.READY);
    assert.equal(orders.all().length, 1);
});

test('an answer that is older than what is known does not take an order back', () => {
    for (const [status, ...older] of [
        ['unpaid', 'pending'],
        ['paid', 'unpaid', 'pending'],
        ['cancelled', 'unpaid', 'pending'],
        ['cancelled', 'waiting'],
        ['unpaid', 'waiting'],
        ['refunded', 'paid', 'unpaid'],
    ]) {
        const { orders } = scene({});
        [status, ...older].forEach((one) => orders.put(order(1, one)));
        assert.equal(orders.get(order(1).id).status, status);
    }
});

test('a list that was asked for before an order was cancelled does not bring it back', async () => {
    let answer;
    const { orders } = scene({
        [FIRST]: new Promise((resolve) => {
            answer = resolve;
        }),
        [`/orders/${order(1).id}/cancel`]: order(1, 'cancelled'),
    });
    orders.put(order(1));
    const reading = orders.read();
    await orders.cancel(order(1).id);
    answer(page([order(1)]));
    await reading;
    assert.equal(orders.get(order(1).id).status, 'cancelled');
});

test('each order is told of once, and when it changes', async () => {
    const { orders, answers, told } = scene({ [FIRST]: page([order(1)]) });
    await orders.read();
    await orders.read();
    answers[FIRST] = page([order(1, 'paid')]);
    await orders.read();
    const changes = told.filter(([one]) => one !== null).map(([one, before]) => [one.status, before?.status]);
    assert.deepEqual(changes, [
        ['unpaid', undefined],
        ['paid', 'unpaid'],
    ]);
});

test('another place in the line is told of, the same one is not', async () => {
    const waiting = (place) => ({ ...order(1, 'waiting'), place });
    const { orders, answers, told } = scene({ [FIRST]: page([waiting(3)]) });
    for (const place of [3, 3, 1]) {
        answers[FIRST] = page([waiting(place)]);
        await orders.read();
    }
    const places = told.filter(([one]) => one !== null).map(([one, before]) => [one.place, before?.place]);
    assert.deepEqual(places, [[3, undefined], [1, 3]]);
});

test('pages', async () => {
    const { orders, answers } = scene({
        [FIRST]: page([order(9), order(8)], { next: 'c1' }),
        [`${FIRST}&cursor=c1`]: [new Problem('NO_ANSWER'), page([order(3)])],
    });
    await orders.read();
    assert.ok(orders.hasMore());
    await orders.readMore();
    assert.equal(orders.state(), LIST.UNREADABLE);
    assert.ok(orders.hasMore());
    await orders.readMore();
    assert.ok(!orders.hasMore());
    assert.equal(orders.all().length, 3);
    answers[FIRST] = page([order(9)], { next: 'c2' });
    await orders.read();
    assert.deepEqual(
        orders.all().map((one) => one.id),
        [order(9).id, order(8).id, order(3).id],
        'what older pages have brought stays',
    );
    assert.ok(!orders.hasMore(), 'all are known');
    answers[FIRST] = page([order(30), order(29)], { next: 'c3' });
    await orders.read();
    assert.ok(orders.hasMore(), 'there may be others between them');
});

test('a pending order at the end of the page hides no older ones', async () => {
    const { orders } = scene({ [FIRST]: page([order(9), order(10, 'pending')], { next: 'c' }) });
    orders.put(order(10, 'pending'));
    await orders.read();
    assert.ok(orders.hasMore());
});

test('older orders can be shown once a shard is back', async () => {
    const { orders, answers } = scene({ [FIRST]: page([order(9), order(3)], { complete: false }) });
    await orders.read();
    answers[FIRST] = page([order(10), order(9)], { next: 'c' });
    await orders.read();
    assert.ok(orders.hasMore());
});

test('more than a page: once the last was read, there is nothing more to show', async () => {
    const numbers = Array.from({ length: 22 }, (_, i) => order(22 - i));
    const { orders } = scene({
        [FIRST]: page(numbers.slice(0, 20), { next: 'c' }),
        [`${FIRST}&cursor=c`]: page(numbers.slice(20)),
    });
    await orders.read();
    await orders.readMore();
    await orders.read();
    assert.ok(!orders.hasMore());
});

test("another user's orders go with the list", async () => {
    const { orders, answers } = scene({ [FIRST]: page([order(2), order(1)]) });
    await orders.read();
    answers[FIRST] = page([order(4)]);
    await orders.read();
    assert.deepEqual(
        orders.all().map((one) => one.id),
        [order(4).id],
    );
});

test('one that is pending is followed to its end, whatever fails meanwhile', async () => {
    const { id } = order(1);
    const path = `/orders/${id}?wait=20&while=pending`;
    const { orders } = scene({
        [path]: [
            new Problem('UNAVAILABLE', { status: 503 }),
            order(1, 'pending'),
            new Problem('NO_ANSWER'),
            order(1, 'unpaid'),
        ],
    });
    assert.equal((await orders.follow(id)).status, 'unpaid');
    const gone = scene({ [path]: new Problem('NOT_FOUND', { status: 404 }) });
    assert.equal(await gone.orders.follow(id), null);
});

test('where the service has no place for one more that waits, the order is asked for without', async () => {
    const { id } = order(1);
    const full = new Problem('OVERLOADED', { status: 503, retryAfterMs: 1000 });
    const { orders, asked } = scene({
        [`/orders/${id}?wait=20&while=pending`]: [full, full, full],
        [`/orders/${id}`]: [order(1, 'pending'), full, order(1, 'unpaid')],
    });
    assert.equal((await orders.follow(id)).status, 'unpaid');
    assert.equal(asked.length, 6);
});

test('a second one that is pending does not take a second connection', async () => {
    const [one, other] = [order(1), order(2)];
    let answer;
    const { orders, asked } = scene({
        [`/orders/${one.id}?wait=20&while=pending`]: new Promise((resolve) => {
            answer = resolve;
        }),
        [`/orders/${other.id}`]: [order(2, 'pending'), order(2, 'unpaid')],
    });
    const first = orders.follow(one.id);
    assert.equal((await orders.follow(other.id)).status, 'unpaid');
    answer(order(1, 'unpaid'));
    await first;
    assert.equal(asked.filter((path) => path.includes('wait')).length, 1);
});

test('cancelling tells what became of it, or fails', async () => {
    const { id } = order(1);
    const { orders, answers } = scene({ [`/orders/${id}/cancel`]: order(1, 'cancelled') });
    assert.equal((await orders.cancel(id)).status, 'cancelled');
    answers[`/orders/${id}/cancel`] = new Problem('UNAVAILABLE', { status: 503 });
    await assert.rejects(orders.cancel(id), Problem);
});
