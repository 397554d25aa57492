// The table of vouchers, and what is asked about them. Vouchers in trouble come first, then a page of the list. Each
// kind of question is asked by one poller, so no two of a kind are under way, and what is asked does not grow with the
// number of vouchers:
//   list      a page of vouchers, as PostgreSQL has them
//   inspect   a few of them by themselves, in both stores: those that are open on the page, those that sell right now,
//             and the others by turns
//   count     one settlement, of the vouchers whose settlement is open. PostgreSQL counts rows for it, so the next one
//             waits for COUNT_SHARE times as long as this one took: a dashboard takes a fiftieth of a connection at most
//   detail    what operators did, where a version is new, a few pages at a time; dead letters of one whose details are
//             open
import { setAttribute, setText } from '../common/dom.js';
import { isGood, wordsForRead } from './answer.js';
import { createVoucher } from './voucher.js';

const PAGE = 20;
const PINNED_MAX = 8; // vouchers in trouble that come first
const INSPECTED_AT_ONCE = 4;
const AUDITED_AT_ONCE = 1;
const BELIEVED = 5; // checks in a row: while orders come and go, two can find the same by chance
const COUNT_SHARE = 50;
const COUNT_LEAST_MS = 5000;
const SETTLEMENT_MS = 70000; // the service gives a count a minute
const DETAIL_MS = 3000;
const AUDIT_KEPT = 100;
const TYPING_MS = 300;

// now_ms(): a clock that only goes forward. clock: the service's (client/clock.js). operated(id, events): what operators
// did. press({action, voucher, etag, letter}). may(role): whether the operator's token has the role.
export function createVouchers({ section, template, speech, call, now_ms, clock, press, operated, may }) {
    const part = (name) => section.querySelector(`[data-${name}]`);
    const table = part('vouchers'), first = part('first'), next = part('next'), none = part('vouchers-none');
    const filter = part('filter'), search = part('search');
    const shown = new Map(); // id -> voucher.js, in the order of the table
    let listed = [], pinned = [], held = []; // ids
    let chosen = {}; // state and title of the list; a cursor belongs to them
    let cursor = null, nextCursor = null, generation = 0, canSell = true, typing = null;
    let unread = ['reading', {}]; // why the list is not known; null: it was read
    let turn = 0, countAfter_ms = 0, wake = () => {};

    // ---- list ----

    async function ask() {
        const mine = generation;
        const query = new URLSearchParams({ limit: PAGE });
        Object.entries({ ...chosen, cursor }).forEach(([name, value]) => value && query.set(name, value));
        const sent = now_ms();
        const answer = await call(`/admin/vouchers?${query}`);
        if (mine !== generation) {
            return true;
        }
        unread = isGood(answer) ? null : wordsForRead(answer);
        if (unread !== null) {
            say();
            return false;
        }
        const { vouchers: rows, can_sell = true, server_time: at } = answer.body;
        clock.sample(Date.parse(at), sent, now_ms());
        canSell = can_sell;
        listed = rows.map(({ id }) => id);
        rows.forEach((row) => voucherOf(row.id).take(row, null, now_ms()));
        arrange();
        nextCursor = answer.body.next ?? null;
        setAttribute(next, 'hidden', nextCursor === null);
        setAttribute(first, 'hidden', cursor === null);
        return true;
    }

    // Those in trouble, if they are known; then the page; and what is open stays, wherever the list goes.
    function arrange() {
        const open = [...shown].filter(([, voucher]) => voucher.isOpen()).map(([id]) => id);
        const ids = [...new Set([...pinned, ...open.filter((id) => !listed.includes(id)), ...listed])];
        const order = ids.filter((id) => shown.get(id)?.view.row);
        order.forEach((id, i) => {
            const { body, view } = shown.get(id);
            view.canSell = canSell;
            view.troubled = pinned.includes(id);
            if (table.tBodies[i] !== body) {
                table.insertBefore(body, table.tBodies[i] ?? null);
            }
        });
        for (const [id, voucher] of [...shown]) {
            if (!ids.includes(id)) {
                voucher.body.remove();
                shown.delete(id);
            }
        }
        say();
    }

    function voucherOf(id) {
        if (!shown.has(id)) {
            const made = createVoucher({ template, speech, may, press: (what) => pressed(made, what), toggled, others });
            made.view.held = held.includes(id);
            shown.set(id, made);
        }
        return shown.get(id);
    }

    // Of its scope: the first voucher, and those on the page.
    function others({ id, scope = id }) {
        const members = idsOf(({ row }) => row.scope === scope);
        return [...new Set([scope, ...members])].filter((one) => one !== id).sort((one, other) => (BigInt(one) < BigInt(other) ? -1 : 1));
    }

    function pressed(voucher, what) {
        const { row, etag } = voucher.view;
        press({ ...what, voucher: { ...row, left: voucher.left(now_ms()) }, etag: etag ?? `"${row.version}"` });
    }

    function toggled() {
        arrange();
        ['inspect', 'count', 'detail'].forEach((name) => wake(name));
    }

    function turnTo(to) {
        cursor = to;
        generation++;
        wake('list');
    }

    function choose() {
        chosen = { state: filter.value, title: search.value.trim() };
        turnTo(null);
    }

    filter.addEventListener('change', choose);
    search.addEventListener('input', () => {
        clearTimeout(typing);
        typing = setTimeout(choose, TYPING_MS);
    });
    first.addEventListener('click', () => turnTo(null));
    next.addEventListener('click', () => turnTo(nextCursor));

    // ---- inspect ----

    async function inspect() {
        const living = [...shown.keys()].filter((id) => isLiving(shown.get(id)));
        const wanted = [...pinned.filter((id) => !shown.get(id)?.view.row), ...living.filter((id) => shown.get(id).isOpen())];
        const selling = living.filter((id) => shown.get(id).sells());
        const others = living.filter((id) => !wanted.includes(id) && !selling.includes(id));
        const urgent = [...new Set([...wanted, ...selling])];
        const free = INSPECTED_AT_ONCE - urgent.length;
        let good = true;
        for (const id of free < 0 ? byTurns(urgent, INSPECTED_AT_ONCE) : [...urgent, ...byTurns(others, free)]) {
            good = (await inspectOne(id)) && good;
        }
        arrange();
        return good;
    }

    const byTurns = (ids, most) => Array.from({ length: Math.min(most, ids.length) }, () => ids[turn++ % ids.length]);

    // Of a sale that is over nothing moves any more; it is checked until the stores agree.
    function isLiving(voucher) {
        const { row, books } = voucher.view;
        return row !== null && row.state !== 'retired' && (row.state !== 'closed' || books?.state !== 'even' || voucher.isOpen());
    }

    async function inspectOne(id) {
        const answer = await call(`/admin/vouchers/${id}`);
        if (isGood(answer)) {
            voucherOf(id).take(answer.body, answer.etag, now_ms());
        }
        return isGood(answer) || answer.status === 404;
    }

    // ---- count ----

    async function count() {
        const due = [...shown.values()].filter(({ view }) => view.settlement);
        due.sort((a, b) => (a.view.counted_ms ?? 0) - (b.view.counted_ms ?? 0));
        const view = due[0]?.view;
        if (view === undefined || (now_ms() < countAfter_ms && view.counted_ms !== undefined)) {
            return true;
        }
        const began = now_ms();
        const answer = await call(`/admin/vouchers/${view.row.id}/settlement`, { timeout_ms: SETTLEMENT_MS });
        view.counted_ms = now_ms();
        countAfter_ms = view.counted_ms + Math.max(COUNT_LEAST_MS, COUNT_SHARE * (view.counted_ms - began));
        view.refusal = isGood(answer) ? null : wordsForRead(answer);
        view.report = isGood(answer) ? answer.body : view.report;
        say();
        return isGood(answer) || answer.code === 'OVERLOADED' || answer.status === 404;
    }

    // ---- detail ----

    async function detail() {
        const open = [...shown.values()].filter(({ view }) => view.details);
        open.sort((a, b) => (a.view.lettersAt_ms ?? 0) - (b.view.lettersAt_ms ?? 0));
        let good = open.length === 0 || (await askLetters(open[0]));
        for (const voucher of toAudit()) {
            good = (await askAudit(voucher)) && good;
        }
        say();
        return good;
    }

    // Those whose details are open; those that were changed since they were asked about; those that never were.
    function toAudit() {
        const due = [...shown.values()].filter(({ view }) => view.row !== null && view.audited !== view.row.version);
        const rank = ({ view }) => (view.details ? 0 : view.audited !== undefined ? 1 : 2);
        return due.sort((a, b) => rank(a) - rank(b)).slice(0, AUDITED_AT_ONCE);
    }

    async function askLetters({ view }) {
        if (now_ms() - (view.lettersAt_ms ?? -DETAIL_MS) < DETAIL_MS) {
            return true;
        }
        const answer = await call(`/admin/vouchers/${view.row.id}/dead-letters?limit=50`);
        view.letters_unread = isGood(answer) ? null : wordsForRead(answer);
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
        view.audit_unread = isGood(answer) ? null : wordsForRead(answer);
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
        shown.forEach((voucher) => voucher.view.row !== null && voucher.say(now_ms()));
        setText(none, speech.say(...(unread ?? [chosen.title ? 'vouchers_not_found' : 'vouchers_none'])));
        setAttribute(none, 'hidden', unread === null && listed.length > 0);
        setAttribute(table, 'hidden', shown.size === 0);
    }

    // Which one the chart of units follows: the one that is open, that sells, or the newest.
    function followed() {
        const all = [...shown.values()].filter(({ view }) => view.row !== null);
        const voucher = all.find((one) => one.isOpen()) ?? all.find((one) => one.sells()) ?? all.find(({ body }) => body.dataset.state === 'open') ?? all[0];
        if (voucher === undefined) {
            return null;
        }
        const { id, title } = voucher.view.row;
        return { id, title, left: voucher.left(now_ms()) };
    }

    const idsOf = (isOne) => [...shown].filter(([, { view }]) => view.row !== null && isOne(view)).map(([id]) => id);

    return {
        asks: { list: ask, inspect, count, detail },
        // Ids of those on the page that sell to holders of a ticket, and of those whose stores differ.
        notable: () => ({
            ticketed: idsOf(({ row }) => row.ticket && row.state === 'open' && row.phase !== 'ended'),
            differing: idsOf(({ books }) => books?.state === 'differs' && books.checks >= BELIEVED),
        }),
        onWake: (f) => (wake = f),
        // Ids of those in trouble: they come first.
        pin(ids) {
            pinned = ids.slice(0, PINNED_MAX);
            arrange();
        },
        // Ids of those whose expiry an operator holds. No version tells it; what operators did is read again.
        hold(ids) {
            held = ids;
            shown.forEach(({ view }, id) => {
                view.audited = view.held === held.includes(id) ? view.audited : undefined;
                view.held = held.includes(id);
            });
            say();
        },
        titleOf: (id) => shown.get(id)?.view.row?.title,
        // Brings a voucher into view, with its details.
        async show(id) {
            if (!shown.get(id)?.view.row) {
                await inspectOne(id);
            }
            shown.get(id)?.open();
        },
        localise() {
            shown.forEach((voucher) => voucher.localise());
            say();
        },
        // It has just been changed, or may have been.
        refresh(id) {
            const voucher = shown.get(id);
            if (voucher !== undefined) {
                voucher.view.lettersAt_ms = undefined;
                voucher.view.counted_ms = undefined;
                void inspectOne(id).then(say);
            }
            ['list', 'detail', 'count'].forEach((name) => wake(name));
        },
        close: () => clearTimeout(typing),
        followed,
        say,
    };
}
