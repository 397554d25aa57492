// What the dashboard decides without a browser: points that are kept, when something is asked again, whether the stores
// agree, what a form says, and what an answer means.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';

import { isAway, isGood, mayRepeat, wordsFor, wordsForRead } from '../../web/admin/answer.js';
import { createAdminApi, createKeys } from '../../web/admin/api.js';
import { booksOf } from '../../web/admin/books.js';
import { createLately } from '../../web/admin/lately.js';
import { createPoller } from '../../web/admin/poller.js';
import { createSeen, healthOf } from '../../web/admin/instances.js';
import { pathOf, stepOf, thinned } from '../../web/admin/plot.js';
import { moneyOf, ordersOf, sentencesOf, unitsOf } from '../../web/admin/sentences.js';
import { POINTS_MAX, createSeries } from '../../web/admin/series.js';
import { centsOf, changesOf, fieldsOf, localTime, priceText, termsOf, timeOf, wholeOf } from '../../web/admin/terms.js';
import { gradeOf, heldOf, KINDS, receiversBehind, STOPS, troublesOf } from '../../web/admin/troubles.js';
import { reasons, words } from '../../web/admin/words.js';

// ---- series ----

test('a series keeps its last points, and no more', () => {
    const series = createSeries(['a', 'b']);
    for (let at = 1; at <= 2 * POINTS_MAX; at++) {
        series.push(at, { a: at });
    }
    const [times, a, b] = series.columns();
    assert.deepEqual([times.length, a.length, b.length], [POINTS_MAX, POINTS_MAX, POINTS_MAX]);
    assert.deepEqual([times[0], times.at(-1), a.at(-1), b.at(-1)], [POINTS_MAX + 1, 2 * POINTS_MAX, 2 * POINTS_MAX, null]);
});

test('time goes forward; a gap is a point without values', () => {
    const series = createSeries(['a']);
    series.gap(1);
    series.push(5, { a: 0 });
    series.push(5, { a: 1 });
    series.push(4, { a: 2 });
    series.gap(6);
    assert.deepEqual(series.columns(), [[5, 6], [0, null]]);
    series.clear();
    assert.deepEqual(series.columns(), [[], []]);
});

// ---- poller ----

// A clock that tests turn. settled(): all promises that can go on have gone on.
function clockwork() {
    let now = 0, timers = [];
    const settled = () => new Promise((resolve) => setImmediate(resolve));
    return {
        timers: {
            now: () => now,
            set: (f, ms) => (timers.push({ f, at: now + ms }), timers[timers.length - 1]),
            clear: (timer) => (timers = timers.filter((other) => other !== timer)),
        },
        waiting: () => timers.map(({ at }) => at - now),
        async turn(ms) {
            now += ms;
            const due = timers.filter(({ at }) => at <= now);
            timers = timers.filter(({ at }) => at > now);
            due.forEach(({ f }) => f());
            await settled();
        },
        settled,
    };
}

function asker() {
    const asked = [];
    return { asked, ask: () => new Promise((resolve) => asked.push(resolve)) };
}

test('one question at a time, and a period from its beginning to the next', async () => {
    const clock = clockwork(), { asked, ask } = asker();
    const poller = createPoller({ ask, every_ms: 2000, timers: clock.timers });
    poller.start();
    poller.wake();
    await clock.turn(500);
    assert.equal(asked.length, 1);
    assert.deepEqual(clock.waiting(), []);
    asked[0](true);
    await clock.settled();
    assert.deepEqual(clock.waiting(), [0]); // it was woken meanwhile
    await clock.turn(0);
    await clock.turn(300);
    asked[1](true);
    await clock.settled();
    assert.deepEqual(clock.waiting(), [1700]);
    await clock.turn(1700);
    assert.equal(asked.length, 3);
});

test('never more than once a second', async () => {
    const clock = clockwork(), { asked, ask } = asker();
    createPoller({ ask, every_ms: 10, timers: clock.timers }).start();
    asked[0](true);
    await clock.settled();
    assert.deepEqual(clock.waiting(), [1000]);
});

test('silent while hidden, at once when shown', async () => {
    const clock = clockwork(), { asked, ask } = asker();
    let visible = true;
    const poller = createPoller({ ask, every_ms: 1000, visible: () => visible, timers: clock.timers });
    poller.start();
    asked[0](true);
    await clock.settled();
    visible = false;
    await clock.turn(60000);
    assert.equal(asked.length, 1);
    assert.deepEqual(clock.waiting(), []);
    visible = true;
    poller.wake();
    assert.equal(asked.length, 2);
});

test('less often without answers, as before with one, and an error is none', async () => {
    const clock = clockwork();
    let good = false, count = 0;
    const error = console.error;
    console.error = () => {};
    const ask = () => (count++ === 0 ? Promise.reject(new Error('broken')) : Promise.resolve(good));
    createPoller({ ask, every_ms: 1000, timers: clock.timers }).start();
    const waits = [];
    for (let i = 0; i < 6; i++) {
        await clock.settled();
        waits.push(clock.waiting()[0]);
        await clock.turn(clock.waiting()[0]);
    }
    console.error = error;
    assert.deepEqual(waits, [1000, 2000, 4000, 5000, 5000, 5000]);
    good = true;
    await clock.turn(clock.waiting()[0]);
    assert.deepEqual(clock.waiting(), [1000]);
});

test('what is stopped stays so', async () => {
    const clock = clockwork(), { asked, ask } = asker();
    const poller = createPoller({ ask, every_ms: 1000, timers: clock.timers });
    poller.start();
    poller.stop();
    poller.wake();
    asked[0](true);
    await clock.settled();
    poller.wake();
    assert.deepEqual([asked.length, clock.waiting().length], [1, 0]);
});

// ---- lately ----

// A part of the page that keeps its rows as texts.
function section() {
    const list = { rows: [], replaceChildren: (...rows) => (list.rows = rows) };
    const hint = { textContent: '' };
    const made = () => ({
        dataset: {},
        texts: [],
        getAttribute: () => null,
        setAttribute() {},
        addEventListener() {},
        append(...texts) {
            this.texts.push(...texts);
        },
    });
    globalThis.document = { createElement: made };
    return { list, hint, querySelector: (name) => (name === '[data-events]' ? list : hint) };
}

const moves = (from, count) =>
    Array.from({ length: count }, (_, i) => ({ order_id: `order-${from + i}`, voucher_id: '7', type: 'moved', status: 'paid',
        at: new Date(1e12 + (from + i) * 1000).toISOString(), by: 'shop' }));

test('what happened lately is read from the end of the feed, one page at a time, and from the end again where that is too slow', async () => {
    const at = section(), asked = [];
    const answers = [
        { events: moves(1, 60), next: 'a' },
        { events: [], next: 'a' },
        { events: moves(61, 2), next: 'b' },
        { events: moves(63, 100), next: 'c' },
        { events: moves(900, 60), next: 'd' },
        { events: moves(960, 1), next: 'e' },
        { events: [{ ...moves(961, 1)[0], type: 'payment_to_refund' }], next: 'f' },
        { events: [{ ...moves(962, 1)[0], type: 'extended', status: 'unpaid' }], next: 'g' },
    ];
    const lately = createLately({
        section: at,
        speech: { say: (key, values) => `${key} ${values?.order ?? ''}`, name: (_, name) => name, moment: String, tag: () => 'en' },
        call: async (path) => (asked.push(path), { status: 200, body: answers.shift() }),
    });
    const newest = async () => (await lately.ask(), at.list.rows[0]?.texts[1]);
    assert.equal(await newest(), ' event_moved order-60 ');
    assert.equal(at.list.rows.length, 60);
    assert.equal(await newest(), ' event_moved order-60 ');
    assert.equal(await newest(), ' event_moved order-62 ');
    await lately.ask(); // a full page: there is more
    assert.equal(await newest(), ' event_moved order-959 ');
    assert.equal(await newest(), ' event_moved order-960 ');
    assert.equal(await newest(), ' event_payment_to_refund order-961 ');
    assert.equal(await newest(), ' event_extended order-962 ');
    const ends = ['last=60', 'limit=100&after=a', 'limit=100&after=a', 'limit=100&after=b', 'last=60', ...['d', 'e', 'f'].map((after) => `limit=100&after=${after}`)];
    assert.deepEqual(asked, ends.map((end) => `/admin/events?only=moves&${end}`));
    assert.equal(at.hint.textContent, '');
    delete globalThis.document;
});

test('what was not read is not "nothing"', async () => {
    const at = section();
    const answers = [answer(503, 'UNAVAILABLE'), answer(0), { status: 200, body: { events: [], next: 'a' } }, answer(503, 'OVERLOADED')];
    const lately = createLately({
        section: at,
        speech: { say: (key) => key, name: (_, name) => name, moment: String, tag: () => 'en' },
        call: async () => answers.shift(),
    });
    const hints = [];
    for (const ask of [lately.say, lately.ask, lately.ask, lately.ask, lately.ask]) {
        await ask();
        hints.push(at.hint.textContent);
    }
    assert.deepEqual(hints, ['reading', 'unread', 'unread', 'lately_none', 'overloaded']);
    delete globalThis.document;
});

// ---- books ----

const voucher = (remaining, stock, journal, state = 'open') => ({ remaining, redis: { state, stock, journal } });

test('stores that agree are even, with orders on the way they move', () => {
    assert.deepEqual(booksOf(voucher(5, 5, 0)), { state: 'even', drift: 0, journal: 0, checks: 0 });
    assert.deepEqual(booksOf(voucher(5, 3, 2)), { state: 'moving', drift: -2, journal: 2, checks: 0 });
    assert.equal(booksOf(voucher(5, 5, 2)).state, 'moving');
});

test('drift is what stays in two checks at rest', () => {
    const first = booksOf(voucher(5, 7, 0));
    assert.equal(first.state, 'moving');
    const second = booksOf(voucher(5, 7, 0), first);
    assert.deepEqual(second, { state: 'differs', drift: 2, journal: 0, checks: 2 });
    assert.equal(booksOf(voucher(5, 7, 0), second).checks, 3);
    assert.equal(booksOf(voucher(5, 6, 0), second).checks, 1);
    assert.equal(booksOf(voucher(5, 6, 0), first).state, 'moving');
    assert.equal(booksOf(voucher(5, 7, 0), booksOf(voucher(5, 7, 1))).state, 'moving');
});

test('without Redis there is nothing to compare', () => {
    for (const redis of [undefined, { state: 'unknown' }, { state: 'missing' }, { state: 'loading', stock: 1, journal: 0 }]) {
        assert.equal(booksOf({ remaining: 5, redis }).state, 'unknown');
    }
});

// ---- what keeps a sale from selling, or the books from balancing ----

const frame = (gauges, more) => ({ gauges: { reactors: 2, reactors_ready: 2, redis_links: 4, postgresql_links: 6, journal_oldest: 0,
    round_age: 1, tickets_on: 1, orders: 0, ...gauges }, servers: [], differing: [], ...more });
const kindsOf = ({ away_ms = null, gauges, more, instances = [{ name: 'a:1', state: 'alive', gone_ms: 0 }], ticketed = [], differing = [], troubles = [], receivers = [] }) =>
    troublesOf({ away_ms, frames: [frame(gauges, more)], instances, shown: { ticketed, differing }, troubles, receivers }).map(({ kind }) => kind);
const found = (frames, troubles = null) => troublesOf({ away_ms: null, frames, instances: null, shown: null, troubles });

test('nothing is wrong where nothing is', () => {
    assert.deepEqual(kindsOf({}), []);
    assert.deepEqual(found([]), []);
    assert.deepEqual(kindsOf({ ticketed: ['9'] }), []); // its tickets are on
    assert.deepEqual(kindsOf({ gauges: { tickets_on: 0 } }), []); // nothing asks for one
});

test('each trouble is seen', () => {
    const letters = [{ voucher_id: '7', title: 'Tea', what: 'DEAD_LETTERS', count: 2 }];
    const late = [{ voucher_id: '8', title: 'Tea', what: 'EXPIRY_LATE', late_s: 90 }];
    const cases = [
        ['service_away', { away_ms: 1, gauges: { redis_links: 0 } }],
        ['redis_away', { gauges: { redis_links: 3, reactors_ready: 1 } }],
        ['postgresql_away', { gauges: { postgresql_links: 5 } }],
        ['not_ready', { gauges: { reactors_ready: 1 } }],
        ['tickets_off', { gauges: { tickets_on: 0 }, ticketed: ['9'] }],
        ['books_differ', { more: { differing: ['9'] } }],
        ['books_differ', { differing: ['9'] }],
        ['dead_letters', { troubles: letters }],
        ['instance_missed', { instances: [{ name: 'a:1', state: 'missed', gone_ms: 9000 }] }],
        ['expiry_late', { troubles: late }],
        ['expiry_held', { troubles: [{ what: 'EXPIRY_HELD', since: '2026-01-31T12:00:00.000Z', by: 'ann' }] }],
        ['journal_old', { gauges: { journal_oldest: 61 } }],
        ['audit_stalls', { gauges: { round_age: 31 } }],
        ...['webhook_stopped', 'webhook_failing', 'webhook_behind'].map((kind) => [kind, { receivers: [{ kind, receiver: 'shop', since: 1 }] }]),
    ];
    for (const [kind, state] of cases) {
        assert.deepEqual(kindsOf(state), [kind], JSON.stringify(state));
    }
    assert.deepEqual([...new Set(cases.map(([kind]) => kind))].sort(), [...KINDS].sort());
    const [sum] = found([frame()], [...letters, { ...letters[0], voucher_id: '6', count: 1 }]);
    assert.deepEqual(sum, { kind: 'dead_letters', values: { count: 3 }, vouchers: ['7', '6'] });
});

const NOON = Date.parse('2026-01-31T12:00:00.000Z');

// Each shard lists a hold of all vouchers.
test('expiry that is held is a line for all vouchers and one for single ones, by whom and since the first', () => {
    const hold = (voucher_id, s, by) => ({ ...(voucher_id && { voucher_id, title: 'Tea' }), what: 'EXPIRY_HELD', since: `2026-01-31T12:00:0${s}.000Z`, by });
    const troubles = [hold('9', 3, 'ann'), hold('8', 2, 'bob'), hold('7', 4, 'ann'), hold(undefined, 1, 'ann'), hold(undefined, 0, 'ann')];
    assert.deepEqual(found([frame()], troubles), [
        { kind: 'expiry_held', values: { names: ['ann'], since: NOON }, vouchers: [] },
        { kind: 'expiry_held', values: { names: ['ann', 'bob'], since: NOON + 2000 }, vouchers: ['9', '8', '7'] }]);
    assert.deepEqual(kindsOf({ gauges: { postgresql_links: 0 }, troubles }), ['postgresql_away', 'expiry_held', 'expiry_held']); // it is nothing that follows
    assert.deepEqual(heldOf([{ voucher_id: '6', what: 'EXPIRY_LATE' }, ...troubles]), ['9', '8', '7', undefined, undefined]);
});

const before = (ms) => new Date(NOON - ms).toISOString();
const receiver = (name, state, unsent_ms, more) => ({ name, state, since: before(3e6), tries: 0,
    ...(unsent_ms === null ? {} : { unsent_since: before(unsent_ms) }), ...more });

test('receivers that take what is sent are not named, others each in a line with why', () => {
    const well = [receiver('idle', 'sending', null), receiver('shop', 'sending', 60000)];
    assert.deepEqual(receiversBehind([], NOON), []);
    assert.deepEqual(receiversBehind(well, NOON), []);
    const behind = receiversBehind([...well, receiver('slow', 'sending', 60001), receiver('old', 'stopped', 9000, { why: 'answered 410' }),
        receiver('pay', 'failing', 50, { why: 'answered 500' }), receiver('mail', 'failing', 70, { why: 'no answer' })], NOON);
    const lines = troublesOf({ away_ms: null, frames: [frame()], instances: null, shown: null, troubles: null, receivers: behind });
    assert.deepEqual(lines.map(({ kind, values }) => [kind, values.receiver, NOON - values.since, values.why]), [
        ['webhook_stopped', 'old', 9000, 'answered 410'], ['webhook_failing', 'pay', 50, 'answered 500'],
        ['webhook_failing', 'mail', 70, 'no answer'], ['webhook_behind', 'slow', 60001, undefined]]);
});

test('of the shards of a receiver the worst is said, and of equals the oldest', () => {
    const rows = [receiver('shop', 'failing', 50, { shard: 0, why: 'a' }), receiver('shop', 'failing', 70, { shard: 1, why: 'b' }),
        receiver('shop', 'sending', 90000, { shard: 2 }), receiver('shop', 'failing', 60, { shard: 3, why: 'c' })];
    assert.deepEqual(receiversBehind(rows, NOON), [{ kind: 'webhook_failing', receiver: 'shop', since: NOON - 70, why: 'b' }]);
    const stopped = receiversBehind([...rows, receiver('shop', 'stopped', 5, { shard: 4, why: 'd' })], NOON);
    assert.deepEqual(stopped.map(({ kind, why }) => [kind, why]), [['webhook_stopped', 'd']]);
});

test('a difference is named once, and none that a dead letter explains', () => {
    const letters = [{ voucher_id: '7', title: 'Tea', what: 'DEAD_LETTERS', count: 2 }];
    const differ = troublesOf({ away_ms: null, frames: [frame({}, { differing: ['8', '9'] })], instances: [], shown: { ticketed: [], differing: ['7', '9', '10'] },
        troubles: letters })[0];
    assert.deepEqual(differ, { kind: 'books_differ', values: {}, vouchers: ['8', '9', '10'] });
});

// src/app/reactor.c counts a link of a reactor once, if it is up to all servers.
test('several servers of a store do not make a healthy one look short, and the one that is away is named', () => {
    const servers = (up) => ['0', '1', '2'].map((server, i) => ({ store: 'postgresql', server, up: up[i] }));
    const of = (up, gauges) => found([frame(gauges, { servers: servers(up) })]);
    assert.deepEqual(of([2, 2, 2], {}), []);
    assert.deepEqual(of([2, 2, 0], { postgresql_links: 0 }), [{ kind: 'postgresql_away', values: { servers: ['2'], waiting: 0, age_s: 0 }, vouchers: [] }]);
});

test('how many orders wait for PostgreSQL, and since when', () => {
    const frames = [frame({ postgresql_links: 0, orders: 40 }), frame({ postgresql_links: 0, orders: 2, journal_oldest: 75 })];
    const [away] = found(frames);
    assert.deepEqual(away, { kind: 'postgresql_away', values: { servers: [], waiting: 42, age_s: 75 }, vouchers: [] });
});

test('while a store is away, what follows from that is not said', () => {
    const late = [{ voucher_id: '8', title: 'Tea', what: 'EXPIRY_LATE', late_s: 90 }];
    const old = { journal_oldest: 61, round_age: 31 };
    assert.deepEqual(kindsOf({ gauges: { redis_links: 0, ...old }, troubles: late }), ['redis_away']);
    assert.deepEqual(kindsOf({ gauges: { postgresql_links: 0, ...old }, troubles: late }), ['postgresql_away']);
    assert.deepEqual(kindsOf({ gauges: old, troubles: late }), ['expiry_late', 'journal_old', 'audit_stalls']);
});

test('the line is as bad as what it says', () => {
    const grade = (...kinds) => gradeOf(kinds.map((kind) => ({ kind })));
    assert.equal(gradeOf(null), 'unknown');
    assert.equal(grade(), 'well');
    assert.equal(grade('dead_letters', 'expiry_late'), 'books');
    assert.equal(grade('expiry_held'), 'books');
    assert.equal(grade('postgresql_away', 'dead_letters'), 'waits'); // buyers get 202
    for (const kind of STOPS.filter((one) => one !== 'postgresql_away')) {
        assert.equal(grade(kind), 'stops');
        assert.equal(grade(kind, 'postgresql_away'), 'stops');
    }
});

test('each trouble has its words, and the stops come first', () => {
    for (const kind of KINDS) {
        for (const key of ['name', 'trouble', 'do', 'more']) {
            assert.ok(words.en[`${key}_${kind}`] && words.zh[`${key}_${kind}`], `${key}_${kind}`);
        }
    }
    assert.deepEqual(KINDS.slice(0, STOPS.length), STOPS);
});

// ---- instances ----

const session = (name, more) => ({ id: 'x', name, version: '1', started_at: '2026-01-31T12:00:00.000Z', ttl_ms: 3000, renewed_ago_ms: 300, ...more });
const statesOf = (seen, rows, now_ms) => Object.fromEntries(seen.take(rows, now_ms).map(({ name, state }) => [name, state]));

test('sessions of one process are one instance, and one that has not reported is none', () => {
    const older = { started_at: '2026-01-31T11:00:00.000Z', renewed_ago_ms: 2000 };
    const rows = [session('a:1', older), session('a:1'), { id: 'y' }, session('a:1', { renewed_ago_ms: 2000 }), session('a:1', older), session('b:1')];
    const seen = createSeen().take(rows, 0);
    assert.deepEqual(seen.map(({ name, threads, state, started_at }) => [name, threads, state, started_at]),
        [['a:1', 2, 'alive', '2026-01-31T12:00:00.000Z'], ['b:1', 1, 'alive', '2026-01-31T12:00:00.000Z']]);
});

test('one that fell silent is missed, one that left is gone, and one that comes back is alive', () => {
    const seen = createSeen();
    assert.deepEqual(statesOf(seen, [session('a:1'), session('b:1'), session('c:1')], 0), { 'a:1': 'alive', 'b:1': 'alive', 'c:1': 'alive' });
    assert.deepEqual(statesOf(seen, [session('a:1'), session('b:1', { renewed_ago_ms: 1600 }), session('c:1')], 1000), { 'a:1': 'alive', 'b:1': 'silent', 'c:1': 'alive' });
    assert.deepEqual(statesOf(seen, [session('a:1')], 2000), { 'a:1': 'alive', 'b:1': 'missed', 'c:1': 'gone' });
    assert.equal(seen.take([session('a:1')], 6000).find(({ name }) => name === 'b:1').gone_ms, 5000);
    assert.deepEqual(statesOf(seen, [session('a:1'), session('b:1', { started_at: '2026-01-31T12:10:00.000Z' })], 7000), { 'a:1': 'alive', 'b:1': 'alive', 'c:1': 'gone' });
    assert.deepEqual(statesOf(seen, [session('a:1')], 16 * 60 * 1000), { 'a:1': 'alive' });
});

test('while the list cannot be read nothing is known of any, and none is missed for it', () => {
    const seen = createSeen();
    assert.deepEqual(statesOf(seen, null, 0), {});
    statesOf(seen, [session('a:1'), session('b:1', { renewed_ago_ms: 2000 })], 0);
    assert.deepEqual(statesOf(seen, null, 1000), { 'a:1': 'unknown', 'b:1': 'unknown' });
    assert.deepEqual(statesOf(seen, [session('a:1')], 2000), { 'a:1': 'alive', 'b:1': 'gone' });
});

test('how one is, is known of those that have answered', () => {
    const one = { state: 'alive', started_at: '2026-01-31T12:00:00.123Z' };
    const of = (gauges) => healthOf(one, [frame(gauges, { process: Date.parse(one.started_at) / 1000 })]);
    assert.equal(healthOf(one, []), 'alive');
    assert.equal(healthOf({ ...one, state: 'unknown' }, [frame({}, { process: 5 })]), 'unknown');
    assert.deepEqual([of({}), of({ reactors_ready: 1 }), of({ redis_links: 3 }), of({ postgresql_links: 5 })], ['ready', 'unready', 'redis_away', 'postgresql_away']);
});

test('each state of an instance has its word', () => {
    for (const state of ['alive', 'silent', 'missed', 'gone', 'unknown', 'ready', 'unready', 'redis_away', 'postgresql_away']) {
        assert.ok(words.en[`health_${state}`] && words.zh[`health_${state}`], state);
    }
});

// ---- plot ----

test('a line breaks where nothing is known, and a point between two gaps is drawn', () => {
    assert.equal(pathOf([[0, 5], [1, 6], [2, 7]]), 'M0,5L1,6L2,7');
    assert.equal(pathOf([[0, 5], [1, 6], [2, null], [3, 7], [4, 8]]), 'M0,5L1,6M3,7L4,8');
    assert.equal(pathOf([[10, null], [20, 6], [30, null]]), 'M18,6h4');
    assert.equal(pathOf([]), '');
});

test('of points that fall together the highest stays, and no gap is lost', () => {
    assert.deepEqual(thinned([0, 1, 2, 3, 4], [5, 9, 1, 7, 3], 2), [[0, 9], [2, 7], [4, 3]]);
    assert.deepEqual(thinned([0, 0.1, 0.2, 0.3], [5, null, null, 7], 2), [[0, 5], [0.1, null], [0.3, 7]]);
    assert.deepEqual(thinned([0, 10], [5, 6], 2), [[0, 5], [10, 6]]);
    const xs = Array.from({ length: 3600 }, (_, i) => i / 12);
    assert.ok(thinned(xs, xs.map((x) => x % 7), 2).length <= 151);
});

test('an axis has few steps, of 1, 2 or 5', () => {
    assert.deepEqual([[100, 5], [99, 5], [101, 5], [0.07, 4], [1, 1], [7e8, 4]].map(([most, count]) => stepOf(most, count)), [20, 20, 50, 0.02, 1, 2e8]);
    assert.deepEqual([stepOf(3, 6), stepOf(3, 6, true), stepOf(30, 6, true)], [0.5, 1, 5]);
    for (let most = 0.001; most < 1e9; most *= 1.7) {
        assert.ok(most / stepOf(most, 4) <= 4.01 && most / stepOf(most, 4) > 1.5, String(most));
    }
});

// ---- a settlement ----

const said = (report) => sentencesOf({ at: '2026-01-31T12:00:00.000Z', missing: {}, wrong: {}, ...report },
    { say: (key, values) => `${key} ${values?.count ?? values?.time ?? values?.is ?? ''}`.trim(), moment: () => 'T', age: (s) => `${s}s` });

test('a settlement is sentences, and none of its codes', () => {
    assert.deepEqual(said({ verdict: 'balanced' }), [{ text: 'verdict_balanced T', grade: 'good' }]);
    const open = said({ verdict: 'open', missing: { SALE_ON: 80637, UNPAID: 3, REDIS: 1 } });
    assert.deepEqual(open.map(({ text }) => text), ['verdict_open T', 'missing_SALE_ON 80637s', 'missing_UNPAID 3', 'missing_REDIS']);
    const wrong = said({ verdict: 'wrong', wrong: { UNITS: { is: 4, should_be: 5 } } });
    assert.deepEqual(wrong.map(({ text, grade }) => [text, grade]), [['verdict_wrong T', 'bad'], ['wrong_UNITS 4', 'bad']]);
    for (const name of ['SALE_ON', 'UNPAID', 'JOURNAL', 'PENDING', 'DEAD_LETTERS', 'REDIS']) {
        assert.ok(words.en[`missing_${name}`] ?? words.en[`missing_${name}.other`], name);
    }
    for (const name of ['UNITS', 'LIVE_ORDERS', 'DUPLICATES', 'REDIS_STOCK', 'REDIS_BUYERS']) {
        assert.ok(words.en[`wrong_${name}`], name);
    }
});

test('of units and orders, what is not there is left out', () => {
    const units = { offered: 10, added: 0, taken_away: 2, sold: 0, kept: 0, held: 0, remaining: 8 };
    assert.deepEqual(unitsOf(units), [['units_offered', 10], ['units_taken_away', 2], ['units_sold', 0], ['units_remaining', 8]]);
    const states = ['unpaid', 'paid', 'cancelled', 'expired', 'refunded_restocked', 'refunded_kept', 'refused', 'held'];
    const orders = Object.fromEntries(states.map((state) => [state, { orders: state === 'expired' ? 3 : 0 }]));
    assert.deepEqual(ordersOf({ orders }), [['unpaid', 0], ['paid', 0], ['expired', 3]]);
    assert.ok(states.every((state) => words.en[`orders_${state}`]));
});

test('money is what was paid, is owed, and was given back, by currency', () => {
    const sums = (payments, total_cents) => ({ payments, total_cents });
    const report = { payments_accepted: { CNY: sums(2, 1980), USD: sums(1, 300) }, payments_to_refund: { CNY: sums(1, 990) }, payments_refunded: {} };
    assert.deepEqual(moneyOf(report), [['accepted', 'CNY', sums(2, 1980)], ['accepted', 'USD', sums(1, 300)], ['to_refund', 'CNY', sums(1, 990)]]);
});

// ---- the form ----

test('a price is its digits', () => {
    const prices = { '9.90': 990, 9.9: 990, 0: 0, '19,99': 1999, ' 5 ': 500, '0.07': 7 };
    for (const [text, cents] of Object.entries(prices)) {
        assert.equal(centsOf(text), cents, text);
    }
    for (const text of ['', '-1', '1.234', '1e3', '.5', 'x', '12345678901']) {
        assert.equal(centsOf(text), null, text);
    }
});

test('a currency has the digits that it has', () => {
    const centsIn = (price, currency) => termsOf(form({ price, currency })).terms?.price_cents;
    assert.deepEqual(['EUR', 'jpy', 'kwd', '', 'NONE'].map((currency) => centsIn('9', currency)), [900, 9, 9000, 900, 900]);
    assert.deepEqual([centsIn('9900', 'HUF'), centsIn('9900', ' huf '), centsIn('1.5', 'IQD')], [990000, 990000, 1500]);
    assert.deepEqual([centsOf('1500', 0), centsOf('1.5', 0), centsOf('1.5', 3)], [1500, null, 1500]);
    assert.deepEqual([centsOf('1,000', 3), centsOf('1,000', 0), centsOf('1,5', 3), centsOf('1,5')], [null, null, null, 150]);
});

test('whole numbers from a least one on', () => {
    assert.deepEqual([wholeOf(' 12 ', 1), wholeOf('0', 0)], [12, 0]);
    assert.deepEqual(['0', '', '1.5', '-3', '1e2', '9'.repeat(13)].map((text) => wholeOf(text, 1)), Array(6).fill(null));
});

test('a time goes into the field and out of it', () => {
    const ms = Date.UTC(2026, 0, 31, 12, 0, 5);
    assert.equal(timeOf(localTime(ms)), '2026-01-31T12:00:05.000Z');
    assert.deepEqual([timeOf(''), timeOf('soon')], [null, null]);
});

const form = (changed) => ({
    title: 'Tea', stock: '100', price: '1.00', currency: '', begin: '2026-01-31T12:00:00', end: '2026-01-31T13:00:00',
    more: '', waitlist: '', scope: '', limit: '', orders_per_user: '', pay_within: '', extend: '', ticket: false, work_bits: '', description: '', picture: '', ...changed,
});

test('a form becomes terms; what is empty is left to the service', () => {
    const { terms } = termsOf(form({}));
    assert.deepEqual(Object.keys(terms), ['title', 'stock', 'price_cents', 'begin_at', 'end_at', 'more_at', 'waitlist', 'ticket', 'work_bits', 'description', 'picture']);
    assert.deepEqual([terms.stock, terms.price_cents, terms.waitlist, terms.ticket, terms.work_bits], [100, 100, 0, false, 0]);
    const more = termsOf(form({ limit: '2', orders_per_user: '4', pay_within: '0', extend: '0', currency: ' eur ', scope: ' 7 ' })).terms;
    assert.deepEqual([more.limit, more.orders_per_user, more.pay_within_s, more.extend_s, more.currency, more.scope], [2, 4, 0, 0, 'EUR', '7']);
});

test('a voucher goes into the form and out of it, and only what is another is sent', () => {
    const row = { title: 'Tea', stock: 5, price_cents: 1250, currency: 'CNY', begin_at: '2026-01-31T12:00:00.250Z', end_at: '2026-01-31T13:00:00.000Z',
        limit: 2, scope: '7', orders_per_user: 3, pay_within_s: 900, extend_s: 120, ticket: true, work_bits: 3, version: 4 };
    const { terms } = termsOf(fieldsOf(row));
    assert.deepEqual(changesOf(row, terms), {});
    assert.deepEqual(changesOf(row, termsOf({ ...fieldsOf(row), title: 'Cup', ticket: false, stock: '9' }).terms), { title: 'Cup', ticket: false });
    assert.deepEqual(changesOf(row, termsOf({ ...fieldsOf(row), orders_per_user: '5', extend: '0' }).terms), { orders_per_user: 5, extend_s: 0 });
    assert.deepEqual([priceText(1250), priceText(7), priceText(1500, 0), priceText(1500, 3)], ['12.50', '0.07', '1500', '1.500']);
});

test('a time of more units is set, kept, changed and removed', () => {
    const row = { title: 'Tea', stock: 5, price_cents: 1250, currency: 'CNY', begin_at: '2026-01-31T12:00:00.000Z', end_at: '2026-01-31T13:00:00.000Z',
        limit: 2, orders_per_user: 3, pay_within_s: 900, extend_s: 120, ticket: false, work_bits: 0 };
    const more_at = '2026-01-31T12:30:00.000Z';
    const changes = (voucher, changed = {}) => changesOf(voucher, termsOf({ ...fieldsOf(voucher), ...changed }).terms);
    assert.deepEqual(changes(row), {});
    assert.deepEqual(changes(row, { more: localTime(Date.parse(more_at)) }), { more_at });
    assert.deepEqual(changes({ ...row, more_at: '2026-01-31T12:30:00.250Z' }), {});
    assert.deepEqual(changes({ ...row, more_at: '2026-01-31T12:31:00.000Z' }, { more: localTime(Date.parse(more_at)) }), { more_at });
    assert.deepEqual(changes({ ...row, more_at }, { more: '' }), { more_at: '' });
});

test('a line is opened, kept, bounded and closed', () => {
    const row = { title: 'Tea', stock: 5, price_cents: 1250, currency: 'CNY', begin_at: '2026-01-31T12:00:00.000Z', end_at: '2026-01-31T13:00:00.000Z',
        limit: 2, orders_per_user: 3, pay_within_s: 900, extend_s: 120, ticket: false, work_bits: 0 };
    const changes = (voucher, changed = {}) => changesOf(voucher, termsOf({ ...fieldsOf(voucher), ...changed }).terms);
    const line = { ...row, waitlist: 20, waiting: 3 };
    assert.deepEqual([fieldsOf(row).waitlist, fieldsOf(line).waitlist], ['', '20']);
    assert.deepEqual([changes(row), changes(line), changes({ ...line, waitlist: 0 })], [{}, {}, {}]);
    assert.deepEqual([changes(row, { waitlist: '7' }), changes(line, { waitlist: '7' })], [{ waitlist: 7 }, { waitlist: 7 }]);
    assert.deepEqual([changes(line, { waitlist: '' }), changes(line, { waitlist: '0' })], [{ waitlist: 0 }, { waitlist: 0 }]);
});

test('a time in the hour that comes twice is no change', () => {
    const zone = process.env.TZ;
    process.env.TZ = 'Europe/Berlin';
    const row = { title: 'Tea', stock: 5, price_cents: 1250, currency: 'EUR', begin_at: '2026-10-25T00:30:00Z', end_at: '2026-10-25T01:45:00Z',
        limit: 2, orders_per_user: 3, pay_within_s: 900, extend_s: 120, ticket: true, work_bits: 3 };
    const { terms } = termsOf({ ...fieldsOf(row), title: 'Cup' });
    assert.equal(terms.end_at, '2026-10-25T00:45:00.000Z');
    assert.deepEqual(changesOf(row, terms), { title: 'Cup' });
    if (zone === undefined) {
        delete process.env.TZ;
    } else {
        process.env.TZ = zone;
    }
});

// What the service refuses is said in its own words; these are for readers of Chinese.
test('each reason of a field has words in Chinese', () => {
    const source = ['terms.c', 'creation.c', 'moves.c'].map((name) => readFileSync(new URL(`../../src/api/${name}`, import.meta.url), 'utf8')).join('');
    const details = [...source.matchAll(/\.detail =\s+"([^"]+)"/g)].map(([, text]) => text);
    assert.ok(details.length > 10);
    const shown = details.filter((text) => !/100000000000000|three letters|the order in the path|from 1 to 100000000$|from 1 to 86400$/.test(text)); // of payments, and of a form of its own
    assert.deepEqual(shown.filter((text) => reasons[text] === undefined), []);
});

test('what is wrong in a form is named', () => {
    assert.deepEqual(termsOf(form({ title: ' ', stock: 'x', limit: '0' })).wrong, ['title', 'stock', 'limit']);
    const wrong = termsOf(form({ more: '?', waitlist: 'x', orders_per_user: '0', extend: '-1' })).wrong;
    assert.deepEqual(wrong, ['more_at', 'waitlist', 'orders_per_user', 'extend_s']);
    assert.ok(wrong.every((name) => words.en[`must_${name}`] && words.zh[`must_${name}`]));
    assert.deepEqual(termsOf(form({ end: '2026-01-31T12:00:00' })).wrong, ['end_at']);
});

// ---- answers ----

const answer = (status, code = null, body = {}) => ({ status, code, body });

test('each answer has words in both languages', () => {
    const codes = ['FORBIDDEN', 'VERSION_CHANGED', 'WRONG_STATE', 'BELOW_SOLD', 'LOADING', 'UNREADABLE', 'SCOPES_OFF', 'ANOTHER'];
    for (const [key] of [answer(0), answer(502), ...codes.map((code) => answer(409, code))].map(wordsFor)) {
        assert.ok(words.en[key] && words.zh[key], key);
    }
    assert.equal(wordsFor(answer(412, 'VERSION_CHANGED'))[0], 'changed');
    assert.equal(wordsFor(answer(403, 'FORBIDDEN'))[0], 'forbidden');
    assert.equal(wordsFor(answer(503, 'SCOPES_OFF'))[0], 'scopes_off');
    assert.deepEqual(wordsFor(answer(409, 'BELOW_SOLD', { left: 3 })), ['below_sold', { left: 3 }]);
    assert.equal(wordsForRead(answer(503, 'UNAVAILABLE'))[0], 'unread'); // nothing was done, whose outcome may be unknown
    assert.equal(wordsForRead(answer(403, 'FORBIDDEN'))[0], 'forbidden');
    const errors = [{ pointer: '/stock', detail: 'too large' }];
    assert.deepEqual(wordsFor(answer(422, 'INVALID', { errors })), ['form_refused', { errors: '/stock too large' }]);
});

test('away is no answer; a refusal is one', () => {
    assert.ok([answer(0), answer(502), answer(503, 'SHUTTING_DOWN')].every(isAway));
    assert.ok(![answer(503, 'UNAVAILABLE'), answer(403, 'FORBIDDEN'), answer(200)].some(isAway));
    assert.ok([answer(0), answer(503, 'LOADING'), answer(504)].every(mayRepeat));
    assert.ok(![answer(412, 'VERSION_CHANGED'), answer(403, 'FORBIDDEN')].some(mayRepeat));
    assert.ok(isGood(answer(201)) && !isGood(answer(304)));
});

test('a key stays with its request', () => {
    const keyOf = createKeys();
    const first = keyOf('{"add":1}');
    assert.match(first, /^[!-~]{1,255}$/);
    assert.equal(keyOf('{"add":1}'), first);
    assert.notEqual(keyOf('{"add":2}'), first);
    assert.notEqual(keyOf('{"add":1}'), first);
});

test('a call carries the token, the key and the ETag, and never throws', async () => {
    const sent = [];
    let ended = 0, next = { ok: true, status: 200, headers: new Map([['ETag', '"3"']]), text: async () => '{"a":1}' };
    const fetch = async (path, request) => {
        sent.push({ path, ...request });
        if (next === null) {
            throw new TypeError('no network');
        }
        return next;
    };
    const call = createAdminApi({ token: 'secret', ended: () => ended++, fetch });
    const good = await call('/x', { method: 'POST', json: '{}', key: 'k', etag: '"2"' });
    assert.deepEqual([good.status, good.body, good.etag], [200, { a: 1 }, '"3"']);
    assert.equal(sent[0].headers.Authorization, 'Bearer secret');
    assert.deepEqual([sent[0].headers['Idempotency-Key'], sent[0].headers['If-Match']], ['k', '"2"']);
    next = { ok: false, status: 401, headers: new Map(), text: async () => '{"code":"UNAUTHENTICATED"}' };
    assert.equal((await call('/x')).code, 'UNAUTHENTICATED');
    assert.equal(ended, 1);
    assert.ok(!('If-Match' in sent[1].headers));
    next = { ok: false, status: 502, headers: new Map(), text: async () => '<html>' };
    assert.equal((await call('/x')).code, null);
    next = null;
    assert.equal((await call('/x')).status, 0);
});

test('both languages have the same words, with the same values in them', () => {
    const values = (text) => [...text.matchAll(/\{\w+\}/g)].map(([name]) => name).sort();
    assert.deepEqual(Object.keys(words.zh), Object.keys(words.en));
    for (const [key, text] of Object.entries(words.en)) {
        assert.deepEqual(values(words.zh[key]), values(text), key);
    }
});

// What is put together at run time ('state_' and a state) is not seen here.
test('every word that is asked for is there', () => {
    const web = new URL('../../web/', import.meta.url);
    const sources = readdirSync(new URL('admin/', web)).map((name) => readFileSync(new URL(`admin/${name}`, web), 'utf8'));
    const page = readFileSync(new URL('admin.html', web), 'utf8');
    const asked = [
        ...sources.flatMap((text) => [...text.matchAll(/\bsay\('(\w+)'/g)]),
        ...page.matchAll(/data-say="(\w+)"/g),
    ].map(([, key]) => key);
    assert.ok(asked.length > 50);
    const missing = asked.filter((key) => !(key in words.en) && !(`${key}.other` in words.en));
    assert.deepEqual(missing, []);
});

test('the page loads ahead all that its script leads to', () => {
    const web = new URL('../../web/', import.meta.url);
    const page = readFileSync(new URL('admin.html', web), 'utf8');
    const ahead = [...page.matchAll(/modulepreload" href="\/web\/([\w/]+\.js)"/g)].map(([, path]) => path).sort();
    const found = new Set();
    const visit = (path) => {
        for (const [, other] of readFileSync(new URL(path, web), 'utf8').matchAll(/from '(\.[^']+)'/g)) {
            const next = new URL(other, new URL(path, web)).href.slice(web.href.length);
            if (next.startsWith('admin/') && !found.has(next)) {
                found.add(next);
                visit(next);
            }
        }
    };
    visit('admin/main.js');
    assert.deepEqual(ahead.filter((path) => path.startsWith('admin/')), [...found].sort());
});

test('nothing needs what the Content-Security-Policy forbids', () => {
    const forbidden = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\sstyle="|\son[a-z]+="|https?:/;
    const web = new URL('../../web/', import.meta.url);
    const names = ['admin.html', 'admin.css', ...readdirSync(new URL('admin/', web)).map((name) => `admin/${name}`)];
    assert.deepEqual(names.filter((name) => forbidden.test(readFileSync(new URL(name, web), 'utf8'))), []);
    for (const bad of ['a.innerHTML = b', '<p style="a">', '<p onclick="b()">', 'from "https://x"']) {
        assert.match(bad, forbidden);
    }
});
