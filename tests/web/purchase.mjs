// One buyer's try, with a service whose answers each test writes down.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { AGAIN, judge, Problem } from '../../clients/web/index.js';
import { createPurchase, STATE } from '../../web/shop/purchase.js';

const NOW = Date.parse('2030-01-01T00:00:00Z');
const ID = '01a1ff71-fdd4-746e-a972-2a140b584401';
const order = (status, changes) => ({ id: ID, voucher_id: '7', user_id: 'alice', quantity: 1, status, ...changes });
const refused = (code, status, details = {}) => new Problem(code, { status, ...details });
const busy = () => refused('OVERLOADED', 503, { retryAfterMs: 1000 });

// `answers`: what is answered one after the other: an order, a Problem, or a promise of one; the last one again and
// again.
function scene({ answers = [], ticket = false, record = null, tickets = [], followed } = {}) {
    const here = {
        sent: [],
        waits: [],
        states: [],
        orders: [],
        record,
        ticketsAsked: 0,
        keys: 0,
        now: NOW,
        voucher: { id: '7', ticket, offer: 1 },
    };
    const next = async (list) => {
        const answer = await (list.length > 1 ? list.shift() : list[0]);
        if (answer instanceof Error) {
            throw answer;
        }
        return answer;
    };
    here.purchase = createPurchase({
        voucher: () => here.voucher,
        now: () => here.now,
        store: {
            load: () => here.record,
            save: (kept) => {
                here.record = kept === null ? null : structuredClone(kept);
            },
        },
        api: {
            call: async (path, request) => {
                here.sent.push({ path, ...request });
                return { body: await next(answers) };
            },
        },
        getTicket: async () => {
            here.ticketsAsked++;
            return next(tickets);
        },
        followOrder: async () => followed ?? null,
        wait: async (ms) => {
            here.waits.push(ms);
        },
        newKey: () => `key-${++here.keys}`,
        random: () => 0.5,
        onChange: () => here.states.push(here.purchase.state()),
        onOrder: (shown) => here.orders.push(shown),
    });
    here.settled = async () => {
        for (let turns = 0; turns < 500; turns++) {
            await null;
        }
        return here.purchase.outcome().code;
    };
    here.press = (quantity = 1) => {
        here.purchase.press(quantity);
        return here.settled();
    };
    return here;
}

test('won', async () => {
    const here = scene({ answers: [order('unpaid')] });
    assert.equal(await here.press(2), 'won');
    assert.deepEqual(here.states, [STATE.ASKING, STATE.WON]);
    assert.equal(here.sent[0].path, '/seckill/7');
    assert.deepEqual(here.sent[0].json, { quantity: 2 });
    assert.equal(here.sent[0].headers['Idempotency-Key'], 'key-1');
    assert.equal(here.purchase.outcome().orderId, ID);
    assert.deepEqual(here.orders, [order('unpaid')]);
});

test('a press while a try is under way does nothing', async () => {
    let answer;
    const here = scene({
        answers: [
            new Promise((resolve) => {
                answer = resolve;
            }),
        ],
    });
    assert.equal(here.purchase.press(1), true);
    assert.equal(here.purchase.press(1), false);
    await here.settled();
    assert.equal(here.purchase.press(1), false);
    answer(order('unpaid'));
    assert.equal(await here.settled(), 'won');
    assert.equal(here.sent.length, 1);
});

test('a press after a win asks nothing, and says that it is theirs already', async () => {
    const here = scene({ answers: [order('unpaid')] });
    await here.press();
    assert.equal(await here.press(), 'already_ordered');
    assert.equal(here.sent.length, 1);
});

for (const [code, status, outcome] of [
    ['SOLD_OUT', 409, 'sold_out'],
    ['PAUSED', 409, 'paused'],
    ['ENDED', 409, 'ended'],
    ['UNKNOWN_VOUCHER', 404, 'ended'],
    ['ARCHIVED', 410, 'ended'],
    ['UNAUTHENTICATED', 401, 'error'],
    ['INVALID', 422, 'error'],
    ['TOO_MANY_ORDERS', 409, 'too_many'],
    ['WAITLIST_FULL', 409, 'waitlist_full'],
    ['OFFER_CHANGED', 409, 'offer_changed'],
    ['SOMETHING_NEW', 400, 'error'],
]) {
    test(`refused: ${code}`, async () => {
        const here = scene({ answers: [refused(code, status)] });
        assert.equal(await here.press(), outcome);
        assert.equal(here.purchase.state(), STATE.REFUSED);
        assert.equal(here.sent.length, 1);
    });
}

test('after a refusal a new try has a new key', async () => {
    const here = scene({ answers: [refused('SOLD_OUT', 409), order('unpaid')] });
    await here.press();
    assert.equal(await here.press(), 'won');
    assert.deepEqual(
        here.sent.map(({ headers }) => headers['Idempotency-Key']),
        ['key-1', 'key-2'],
    );
});

test('too few left: says how many', async () => {
    const here = scene({ answers: [refused('NOT_ENOUGH', 409, { body: { left: 2 } })] });
    assert.equal(await here.press(3), 'not_enough');
    assert.equal(here.purchase.outcome().left, 2);
});

test('already ordered is a win, with the order', async () => {
    const here = scene({ answers: [refused('ALREADY_ORDERED', 409, { body: { order_id: ID } })] });
    assert.equal(await here.press(), 'already_ordered');
    assert.equal(here.purchase.state(), STATE.WON);
    assert.equal(here.purchase.outcome().orderId, ID);
});

test('an order of another voucher in the scope is none of this one, which may be tried again', async () => {
    const other = (voucher_id) => refused('ALREADY_ORDERED', 409, { body: { order_id: ID, voucher_id } });
    const own = scene({ answers: [other('7')] });
    assert.equal(await own.press(), 'already_ordered');
    const here = scene({ answers: [new Problem('NO_ANSWER'), other('9'), order('unpaid')] });
    assert.equal(await here.press(), 'other_ordered');
    const { orderId, voucherId } = here.purchase.outcome();
    assert.deepEqual([here.purchase.state(), orderId, voucherId], [STATE.REFUSED, ID, '9']);
    assert.equal(await here.press(), 'won');
    assert.equal(here.keys, 2);
});

test('where the outcome is not known the same try is asked again, after Retry-After', async () => {
    const here = scene({
        answers: [
            new Problem('NO_ANSWER'),
            busy(),
            refused('NOT_OURS', 502),
            refused('INTERNAL', 500),
            order('unpaid'),
        ],
    });
    assert.equal(await here.press(), 'won');
    assert.equal(new Set(here.sent.map(({ headers }) => headers['Idempotency-Key'])).size, 1);
    assert.equal(here.sent.length, 5);
    assert.ok(here.waits[1] >= 1000);
    assert.ok(here.waits.every((ms) => ms > 0));
});

test('too fast: waits, then asks again', async () => {
    const here = scene({ answers: [refused('RATE_LIMITED', 429, { retryAfterMs: 1000 }), order('unpaid')] });
    here.purchase.press(1);
    assert.equal(await here.settled(), 'won');
    assert.ok(here.waits[0] >= 1000);
});

test('it gives up in the end, and then it is not known; asking again keeps the key', async () => {
    const here = scene({ answers: [busy()] });
    assert.equal(await here.press(), 'unknown');
    const { length } = here.sent;
    assert.ok(length > 3 && length < 20);
    await here.press();
    assert.equal(here.keys, 1);
    assert.equal(here.sent.length, 2 * length);
});

// P7: what is lost may have been carried out, and only the service can tell that there is no order.
for (const [name, lost] of [
    ['no answer', new Problem('NO_ANSWER')],
    ["a gateway's time-out", refused('NOT_OURS', 504)],
    ['a 201 that was cut short', refused('NOT_OURS', 201)],
    ["a gateway's 408", refused('NOT_OURS', 408)],
    ['UNAVAILABLE', refused('UNAVAILABLE', 503)],
]) {
    test(`${name} is asked again, and then only what the service knows of the order is a refusal`, async () => {
        for (const [last, outcome] of [
            [refused('SOLD_OUT', 409), 'sold_out'],
            [refused('ENDED', 409), 'ended'],
            [refused('UNAUTHENTICATED', 401), 'unknown'],
            [refused('CROSS_SITE', 403), 'unknown'],
            [refused('INVALID', 422), 'unknown'],
            [refused('ARCHIVED', 410), 'unknown'],
            [refused('TICKETS_OFF', 503), 'unknown'],
            [refused('RATE_LIMITED', 429), 'unknown'],
            [refused('NOT_OURS', 403), 'unknown'],
        ]) {
            const here = scene({ answers: [lost, last] });
            assert.equal(await here.press(), outcome, last.message);
        }
    });
}

test("a page of somebody else's is no refusal, whatever its status", async () => {
    for (const status of [200, 201, 204, 400, 401, 403, 404, 409]) {
        const here = scene({ answers: [refused('NOT_OURS', status)] });
        assert.equal(await here.press(), 'unknown', `${status}`);
    }
});

test('after a reload in the middle of a try its outcome is not known, either', async () => {
    const first = scene({ answers: [new Promise(() => {})] });
    await first.press();
    const second = scene({ record: first.record, answers: [refused('UNAUTHENTICATED', 401)] });
    second.purchase.resume();
    assert.equal(await second.settled(), 'unknown');
});

test('not started: a moment early is waited for, an hour is not', async () => {
    const soon = scene({ answers: [refused('NOT_STARTED', 409, { retryAfterMs: 1000 }), order('unpaid')] });
    assert.equal(await soon.press(), 'won');
    assert.ok(soon.waits[0] >= 1000);
    const late = scene({ answers: [refused('NOT_STARTED', 409, { retryAfterMs: 3600000 })] });
    assert.equal(await late.press(), 'not_started');
    assert.equal(late.purchase.state(), STATE.REFUSED);
});

test('accepted: followed to its end', async () => {
    const won = scene({ answers: [order('pending')], followed: order('unpaid') });
    assert.equal(await won.press(), 'won');
    assert.ok(won.states.includes(STATE.FOLLOWING));
    const lost = scene({ answers: [order('pending')], followed: order('refused', { reason: 'SOLD_OUT' }) });
    assert.equal(await lost.press(), 'sold_out');
    const odd = scene({ answers: [order('pending')], followed: order('refused', { reason: 'GRANT_LOST' }) });
    assert.equal(await odd.press(), 'error');
    assert.equal(odd.purchase.outcome().why, 'refused');
});

const joined = async (answers, more) => {
    const here = scene({ answers, ...more });
    here.purchase.press(1, true);
    await here.settled();
    return here;
};

test('a place in the line is neither a win nor under way, and a press asks nothing', async () => {
    const here = await joined([order('waiting', { place: 3 })]);
    assert.deepEqual(here.states, [STATE.ASKING, STATE.IN_LINE]);
    assert.deepEqual(here.sent[0].json, { quantity: 1, wait: true });
    const { code, orderId } = here.purchase.outcome();
    assert.deepEqual([code, orderId, here.purchase.isUnderWay()], ['in_line', ID, false]);
    assert.equal(here.purchase.press(1), false);
    assert.equal(here.purchase.press(1, true), false);
    assert.equal(here.sent.length, 1);
});

test('a place survives a reload, other tabs are told, and leaving ends it', async () => {
    const { record } = await joined([order('waiting')]);
    const again = scene({ record });
    again.purchase.resume();
    const other = scene({ record });
    other.purchase.overhear();
    for (const { purchase, sent } of [again, other]) {
        assert.deepEqual([purchase.state(), purchase.outcome().orderId, sent], [STATE.IN_LINE, ID, []]);
    }
    again.purchase.learn(order('cancelled', { reason: 'LEFT' }));
    assert.deepEqual([again.purchase.state(), again.record], [STATE.IDLE, null]);
    other.purchase.forget(ID);
    assert.equal(other.purchase.state(), STATE.IDLE);
});

test('what becomes of a place: a unit, or the end of the sale', async () => {
    for (const [last, state, code] of [
        [order('unpaid'), STATE.WON, 'won'],
        [order('refused', { reason: 'SOLD_OUT' }), STATE.REFUSED, 'line_over'],
    ]) {
        const here = await joined([order('waiting')]);
        here.purchase.learn(order('waiting', { place: 1 }));
        here.purchase.learn(last);
        assert.deepEqual([here.purchase.state(), here.purchase.outcome().code], [state, code]);
    }
});

test('an order of before that waits is no win once it is read', async () => {
    const here = await joined([refused('ALREADY_ORDERED', 409, { body: { order_id: ID } })]);
    assert.equal(here.purchase.state(), STATE.WON);
    here.purchase.learn(order('waiting'));
    assert.deepEqual([here.purchase.state(), here.purchase.outcome().code], [STATE.IN_LINE, 'in_line']);
});

test('a lost answer of the line is asked for under its key, with wait, whatever the quantity is now', async () => {
    const first = await joined([new Promise(() => {})]);
    const reloaded = scene({ record: first.record, answers: [order('waiting')] });
    reloaded.purchase.resume();
    assert.equal(await reloaded.settled(), 'in_line');
    const here = await joined([busy()]);
    assert.equal(here.purchase.outcome().code, 'unknown');
    await here.press(3);
    assert.equal(here.keys, 1);
    for (const { headers, json } of [...reloaded.sent, ...here.sent]) {
        assert.deepEqual([headers['Idempotency-Key'], json], ['key-1', { quantity: 1, wait: true }]);
    }
});

test('who joins while a purchase is not answered asks under its key', async () => {
    const open = scene({ answers: [new Promise(() => {})] });
    await open.press();
    const here = await joined([order('waiting')], { record: open.record });
    assert.equal(here.sent[0].headers['Idempotency-Key'], open.record.key);
    assert.deepEqual(here.sent[0].json, { quantity: 1, wait: true });
});

test('a ticket is got first, and used again', async () => {
    const ticket = { text: 'T', offer: 1, expiresMs: NOW + 300000 };
    const here = scene({ ticket: true, tickets: [ticket], answers: [refused('SOLD_OUT', 409), order('unpaid')] });
    await here.press();
    assert.equal(await here.press(), 'won');
    assert.equal(here.ticketsAsked, 1);
    assert.equal(here.sent[1].headers['X-Seckill-Ticket'], 'T');
});

test('a ticket that is not good any more is replaced, also where none was known to be needed', async () => {
    for (const code of ['TICKET_REQUIRED', 'TICKET_INVALID']) {
        const ticket = { text: 'T', offer: 1, expiresMs: NOW + 300000 };
        const here = scene({ tickets: [ticket], answers: [refused(code, 403), order('unpaid')] });
        assert.equal(await here.press(), 'won');
        assert.equal(here.sent[0].headers['X-Seckill-Ticket'], undefined);
        assert.equal(here.sent[1].headers['X-Seckill-Ticket'], 'T');
    }
});

test('a ticket that cannot be got is tried again', async () => {
    const ticket = { text: 'T', offer: 1, expiresMs: NOW + 300000 };
    const here = scene({
        ticket: true,
        tickets: [refused('LOADING', 503, { retryAfterMs: 1000 }), ticket],
        answers: [order('unpaid')],
    });
    assert.equal(await here.press(), 'won');
});

test('where tickets are off the buyer is told at once, and nothing is asked again', async () => {
    for (const known of [true, false]) {
        const off = refused('TICKETS_OFF', 503);
        const here = scene({ ticket: known, tickets: [off], answers: [off] });
        assert.equal(await here.press(), 'error');
        assert.equal(here.purchase.outcome().why, 'tickets');
        assert.equal(here.ticketsAsked + here.sent.length, 1);
    }
});

test('a ticket that was got ahead of time is there at the press', async () => {
    const ticket = { text: 'T', offer: 1, expiresMs: NOW + 300000 };
    const here = scene({ ticket: true, tickets: [ticket], answers: [order('unpaid')] });
    await here.purchase.prepare();
    await here.press();
    assert.equal(here.ticketsAsked, 1);
    assert.ok(!here.states.includes(STATE.TICKET));
});

test('a reload: what was won is still won, and nothing is asked', async () => {
    const first = scene({ answers: [order('unpaid')] });
    await first.press();
    const second = scene({ record: first.record });
    second.purchase.resume();
    assert.equal(await second.settled(), 'won');
    assert.equal(second.purchase.outcome().orderId, ID);
    assert.deepEqual(second.sent, []);
});

test('a reload in the middle: the same try goes on under its key', async () => {
    const first = scene({ answers: [new Promise(() => {})] });
    await first.press(2);
    const second = scene({ record: first.record, answers: [order('unpaid')] });
    second.purchase.resume();
    assert.equal(await second.settled(), 'won');
    assert.equal(second.sent[0].headers['Idempotency-Key'], 'key-1');
    assert.deepEqual(second.sent[0].json, { quantity: 2 });
});

test('a reload: a refusal has had its time', async () => {
    const first = scene({ answers: [refused('UNAUTHENTICATED', 401)] });
    assert.equal(await first.press(), 'error');
    const second = scene({ record: first.record });
    second.purchase.resume();
    assert.equal(second.purchase.state(), STATE.IDLE);
});

test('hours later it does not buy by itself, and a day later it has forgotten', async () => {
    const first = scene({ answers: [new Promise(() => {})] });
    await first.press();
    const later = scene({ record: first.record, answers: [order('unpaid')] });
    later.now = NOW + 3600 * 1000;
    later.purchase.resume();
    assert.equal(await later.settled(), 'unknown');
    assert.deepEqual(later.sent, []);
    const next = scene({ record: first.record });
    next.now = NOW + 24 * 3600 * 1000;
    next.purchase.resume();
    assert.equal(next.purchase.state(), STATE.IDLE);
});

test('what is kept may be anything', () => {
    for (const record of [
        null,
        7,
        'x',
        [],
        {},
        { key: 'k', state: 'flying', quantity: 1, outcome: {} },
        { key: 'k', state: 'won', quantity: 1 },
        { key: 'k', state: 'won', quantity: 1, outcome: null },
        { key: 'k', state: 'won', quantity: 1, outcome: { code: 'of a newer version' } },
        { key: 'k', state: 'refused', quantity: 1, outcome: { code: 'error', why: 'something' } },
        { key: 'k', state: 'constructor', quantity: 1, outcome: {} },
    ]) {
        const here = scene({ record });
        here.purchase.resume();
        here.purchase.overhear();
        assert.equal(here.purchase.state(), STATE.IDLE);
    }
});

test('another tab of the same buyer is told, and joins a try that is under way', async () => {
    const first = scene({ answers: [order('unpaid')] });
    await first.press();
    const second = scene({ record: first.record });
    second.purchase.overhear();
    assert.equal(await second.settled(), 'already_ordered');
    const open = scene({ answers: [new Promise(() => {})] });
    await open.press();
    const joins = scene({ record: open.record, answers: [order('unpaid')] });
    await joins.press();
    assert.equal(joins.sent[0].headers['Idempotency-Key'], open.record.key);
    const other = scene({
        record: open.record,
        answers: [refused('ALREADY_ORDERED', 409, { body: { order_id: ID } })],
    });
    await other.press(2);
    assert.equal(other.keys, 1, 'another quantity is another try');
});

test('the list of orders is the truth', async () => {
    const elsewhere = scene();
    elsewhere.purchase.learn(order('paid'));
    assert.equal(elsewhere.purchase.outcome().code, 'already_ordered');
    const here = scene({ answers: [order('unpaid'), order('unpaid')] });
    await here.press();
    here.purchase.learn(order('paid'));
    assert.equal(here.purchase.outcome().code, 'won');
    here.purchase.learn(order('cancelled', { id: 'another' }));
    assert.equal(here.purchase.state(), STATE.WON);
    here.purchase.learn(order('expired'));
    assert.equal(here.purchase.state(), STATE.IDLE);
    assert.equal(here.record, null);
    await here.press();
    here.purchase.forget(ID);
    assert.equal(here.purchase.state(), STATE.IDLE);
    const unknown = scene({ answers: [busy()] });
    await unknown.press();
    unknown.purchase.learn(order('unpaid'));
    assert.equal(unknown.purchase.state(), STATE.WON);
});

test('an order that is settled before its try hears of it', async () => {
    const here = scene({ answers: [order('pending')], followed: order('unpaid') });
    here.purchase.press(1);
    while (here.purchase.state() !== STATE.FOLLOWING) {
        await null;
    }
    here.purchase.learn(order('unpaid'));
    assert.equal(await here.settled(), 'won');
});

test('when the buyer has changed nothing more is asked in the name of the one before', async () => {
    let answer;
    const here = scene({
        answers: [
            new Promise((resolve) => {
                answer = resolve;
            }),
            order('unpaid'),
        ],
    });
    here.purchase.press(1);
    await here.settled();
    here.purchase.end();
    answer(busy());
    await here.settled();
    assert.equal(here.sent.length, 1);
    assert.equal(here.record.state, STATE.WAITING);
    let ticket;
    const slow = scene({
        ticket: true,
        tickets: [
            new Promise((resolve) => {
                ticket = resolve;
            }),
        ],
        answers: [order('unpaid')],
    });
    slow.purchase.press(1);
    await slow.settled();
    slow.purchase.end();
    ticket({ text: 'T', offer: 1, expiresMs: NOW + 300000 });
    await slow.settled();
    assert.deepEqual(slow.sent, []);
});

test('an accepted order that there is not, against all promises, is not waited for for ever', async () => {
    const here = scene({ answers: [order('pending')], followed: null });
    await here.press();
    assert.equal(here.purchase.state(), STATE.IDLE);
});

test('what another tab has written of its own try stays', async () => {
    const other = scene({ answers: [new Promise(() => {})] });
    await other.press();
    const here = scene({ record: other.record });
    here.purchase.refuse('not_started');
    here.purchase.forgive();
    assert.equal(here.record.state, STATE.ASKING);
});

test('why the button does nothing, until the voucher can be bought', async () => {
    const here = scene();
    here.purchase.refuse('not_started');
    assert.equal(here.purchase.outcome().code, 'not_started');
    assert.equal(here.record, null);
    assert.deepEqual(here.sent, []);
    here.purchase.forgive();
    assert.equal(here.purchase.state(), STATE.IDLE);
    const full = await joined([refused('WAITLIST_FULL', 409)]);
    full.purchase.forgive();
    assert.equal(full.purchase.state(), STATE.IDLE);
    const error = scene({ answers: [refused('SOMETHING_NEW', 400)] });
    await error.press();
    error.purchase.forgive();
    assert.equal(error.purchase.outcome().code, 'error');
});

test('every refusal is judged, and only a clear one ends a try', () => {
    assert.equal(judge(new Problem('NO_ANSWER')).outcome, AGAIN);
    for (const status of [429, 500, 502, 503, 504]) {
        assert.equal(judge(new Problem('ANY', { status })).outcome, AGAIN);
    }
});

test('an impossible move is a fault, and is thrown', () => {
    const here = scene();
    here.purchase.learn(order('unpaid'));
    assert.throws(() => here.purchase.learn(order('flying')));
});
