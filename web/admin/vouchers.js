// The list of vouchers, and what is asked about them. Each kind of question is asked by one poller, so no two of a kind
// are under way:
//   list      a page of vouchers, as PostgreSQL has them
//   inspect   a few of them by themselves, in both stores: the one whose details are open, and the others by turns
//   count     one settlement, which gives orders by state. PostgreSQL counts rows for it, so the next one waits for
//             COUNT_SHARE times as long as this one took: the dashboard takes a fiftieth of a connection at most
//   detail    what operators did, where a version is new, a few pages at a time; dead letters of the one whose details
//             are open
import { setAttribute, setText } from '../common/dom.js';
import { isGood, wordsFor } from './answer.js';
import { createVoucher } from './voucher.js';

const INSPECTED_AT_ONCE = 4;
const AUDITED_AT_ONCE = 2;
const COUNT_SHARE = 50;
const COUNT_LEAST_MS = 5000;
const COUNT_OLD_MS = 30000; // payments change no stock
const SETTLEMENT_MS = 70000; // the service gives a count a minute
const DETAIL_MS = 3000;
const AUDIT_KEPT = 100;

// now_ms(): a clock that only goes forward. clock: the service's (common/clock.js). operated(id, events): what operators
// did. press({action, voucher, etag, letter}).
export function createVouchers({ section, template, speech, call, now_ms, clock, press, operated }) {
    const part = (name) => section.querySelector(`[data-${name}]`);
    const list = part('vouchers'), first = part('first'), next = part('next'), none = part('vouchers-none');
    const filter = part('filter');
    let shown = new Map(); // id -> voucher.js, in the order of the list
    let cursor = null, nextCursor = null, generation = 0, answered = false;
    let opened = null, turn = 0, counting = { after_ms: 0 }, wake = () => {};

    // ---- list ----

    async function ask() {
        const mine = generation;
        const state = filter.value === '' ? '' : `&state=${filter.value}`;
        const from = cursor === null ? '' : `&cursor=${cursor}`;
        const sent = now_ms();
        const answer = await call(`/admin/vouchers?limit=100${state}${from}`);
        if (!isGood(answer) || mine !== generation) {
            return mine !== generation;
        }
        clock.sample(Date.parse(answer.body.server_time), sent, now_ms());
        show(answer.body);
        nextCursor = answer.body.next ?? null;
        setAttribute(next, 'hidden', nextCursor === null);
        setAttribute(first, 'hidden', cursor === null);
        return true;
    }

    function show({ vouchers: rows, can_sell: canSell = true }) {
        const kept = new Map();
        rows.forEach((row, i) => {
            const voucher = shown.get(row.id) ?? make();
            voucher.take(row, null, now_ms());
            voucher.view.canSell = canSell;
            kept.set(row.id, voucher);
            if (list.children[i] !== voucher.article) {
                list.insertBefore(voucher.article, list.children[i] ?? null);
            }
        });
        for (const [id, voucher] of shown) {
            if (!kept.has(id)) {
                voucher.article.remove();
                opened = opened === id ? null : opened;
            }
        }
        shown = kept;
        answered = true;
        say();
    }

    function make() {
        const made = createVoucher({ template, speech, press: (what) => pressed(made, what), toggled });
        return made;
    }

    function pressed(voucher, { action, letter }) {
        if (action === 'settle') {
            voucher.open(true);
            counting = { after_ms: 0, wanted: voucher.view.row.id };
            wake('count');
            return;
        }
        const { row, etag } = voucher.view;
        press({ action, letter, voucher: { ...row, left: voucher.left(now_ms()) }, etag: etag ?? `"${row.version}"` });
    }

    // One at a time, which bounds what is asked.
    function toggled(id, open) {
        const before = opened;
        opened = open ? id : opened === id ? null : opened;
        if (open && before !== null && before !== id) {
            shown.get(before)?.open(false);
        }
        say();
        wake('inspect');
        wake('detail');
    }

    function turnTo(to) {
        cursor = to;
        generation++;
        wake('list');
    }

    filter.addEventListener('change', () => turnTo(null));
    first.addEventListener('click', () => turnTo(null));
    next.addEventListener('click', () => turnTo(nextCursor));

    // ---- inspect ----

    async function inspect() {
        const living = [...shown.keys()].filter((id) => id === opened || isLiving(shown.get(id).view));
        const ids = living.filter((id) => id === opened);
        const others = living.filter((id) => id !== opened);
        for (let i = 0; i < Math.min(others.length, INSPECTED_AT_ONCE - ids.length); i++) {
            ids.push(others[turn++ % others.length]);
        }
        let good = true;
        for (const id of ids) {
            good = (await inspectOne(id)) && good;
        }
        say();
        return good;
    }

    // Of a sale that is over nothing moves any more; it is checked until the stores agree.
    function isLiving({ row, books }) {
        return row.state !== 'retired' && (row.state !== 'closed' || books?.state !== 'even');
    }

    async function inspectOne(id) {
        const answer = await call(`/admin/vouchers/${id}`);
        if (isGood(answer)) {
            shown.get(id)?.take(answer.body, answer.etag, now_ms());
        }
        return isGood(answer) || answer.status === 404;
    }

    // ---- count ----

    async function count() {
        const voucher = now_ms() < counting.after_ms ? undefined : toCount();
        if (voucher === undefined) {
            return true;
        }
        const { view } = voucher, { row } = view;
        const began = now_ms();
        counting = { after_ms: Infinity };
        const answer = await call(`/admin/vouchers/${row.id}/settlement`, { timeout_ms: SETTLEMENT_MS });
        const pause_ms = Math.max(COUNT_LEAST_MS, COUNT_SHARE * (now_ms() - began));
        counting = { ...counting, after_ms: counting.wanted === undefined ? now_ms() + pause_ms : 0 };
        view.counted = { at_ms: now_ms(), of: whatCounts(row) };
        view.refusal = isGood(answer) ? null : wordsFor(answer);
        view.report = isGood(answer) ? answer.body : view.report;
        say();
        return isGood(answer) || answer.code === 'OVERLOADED' || answer.status === 404;
    }

    const whatCounts = (row) => `${row.version} ${row.remaining}`;

    // The one that is asked for; else the one that was counted longest ago, of those where something may be new.
    function toCount() {
        if (shown.has(counting.wanted)) {
            return shown.get(counting.wanted);
        }
        const due = [...shown.values()].filter(({ view }) => {
            const over = view.row.state === 'retired' || view.row.state === 'closed';
            const old = view.counted !== undefined && now_ms() - view.counted.at_ms > COUNT_OLD_MS;
            return view.counted === undefined || view.counted.of !== whatCounts(view.row) || (old && !over);
        });
        const rank = ({ view }) => (view.row.id === opened ? -1 : (view.counted?.at_ms ?? 0));
        return due.sort((a, b) => rank(a) - rank(b))[0];
    }

    // ---- detail ----

    async function detail() {
        const open = shown.get(opened);
        let good = open === undefined || (await askLetters(open));
        for (const voucher of toAudit()) {
            good = (await askAudit(voucher)) && good;
        }
        if (open !== undefined) {
            say();
        }
        return good;
    }

    // The one whose details are open; those that were changed since they were asked about; those that never were.
    function toAudit() {
        const due = [...shown.values()].filter(({ view }) => view.audited !== view.row.version);
        const rank = ({ view }) => (view.row.id === opened ? 0 : view.audited !== undefined ? 1 : 2);
        return due.sort((a, b) => rank(a) - rank(b)).slice(0, AUDITED_AT_ONCE);
    }

    async function askLetters({ view }) {
        if (now_ms() - (view.lettersAt_ms ?? -DETAIL_MS) < DETAIL_MS) {
            return true;
        }
        const answer = await call(`/admin/vouchers/${view.row.id}/dead-letters?limit=50`);
        if (isGood(answer)) {
            view.letters = answer.body.dead_letters.map(({ raw: _, ...letter }) => letter);
            view.letters_more = answer.body.next !== undefined;
            view.lettersAt_ms = now_ms();
        }
        return isGood(answer) || answer.status === 404;
    }

    // A page. The oldest come first, so all of them are read once, a page in each round, and later the last one again.
    async function askAudit({ view }) {
        const { id, version } = view.row;
        const { before, from } = view.tail ?? { before: [], from: null };
        const answer = await call(`/admin/vouchers/${id}/audit?limit=100${from === null ? '' : `&cursor=${from}`}`);
        if (!isGood(answer)) {
            view.audited = answer.status === 404 ? version : view.audited;
            return answer.status === 404;
        }
        view.audit = [...before, ...answer.body.events].slice(-AUDIT_KEPT);
        if (answer.body.next === undefined) {
            view.audited = version;
        } else {
            view.tail = { before: view.audit, from: answer.body.next };
        }
        operated(id, view.audit);
        return true;
    }

    // ---- what is shown ----

    function say() {
        shown.forEach((voucher) => voucher.say(now_ms()));
        setText(none, speech.say('vouchers_none'));
        setAttribute(none, 'hidden', !answered || shown.size > 0);
    }

    // Which one the chart of units follows: the one that is open, or the newest that sells.
    function followed() {
        const all = [...shown.values()];
        const voucher = shown.get(opened) ?? all.find(({ article }) => article.dataset.state === 'open') ?? all[0];
        if (voucher === undefined) {
            return null;
        }
        const { id, title } = voucher.view.row;
        return { id, title, left: voucher.left(now_ms()) };
    }

    return {
        asks: { list: ask, inspect, count, detail },
        onWake: (f) => (wake = f),
        localise() {
            shown.forEach((voucher) => voucher.localise());
            say();
        },
        // It has just been changed, or may have been.
        refresh(id) {
            const voucher = shown.get(id);
            if (voucher !== undefined) {
                voucher.view.lettersAt_ms = undefined;
                void inspectOne(id).then(say);
            }
            wake('list');
            wake('detail');
        },
        followed,
        say,
    };
}
