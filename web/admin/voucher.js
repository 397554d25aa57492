// One voucher of the table: what both stores say of it, its buttons, and its two panels, details and settlement, each
// open or not by itself. What is shown is kept in one object, the view:
//   row          the newest answer about it, from the list or by itself
//   etag         of `row`, if that came by itself
//   canSell      whether the service can sell now, as the newest list says
//   books        books.js, of the newest check of both stores; inspected_ms: when that was
//   held         whether an operator holds the expiry of its orders
//   details, settlement   whether these panels are open
//   report       its newest settlement; refusal: why there is no newer one; letters, audit: what its details show
import { element, setAttribute, setText } from '../common/dom.js';
import { renderMarked } from '../common/voice.js';
import { booksOf } from './books.js';
import { ACTIONS, actionButton } from './confirm.js';
import { createDetails } from './details.js';

const FIGURES = ['in_postgresql', 'in_redis', 'drift', 'journal', 'line'];
const FRESH_MS = 3000;
const METRICS = { in_postgresql: 'stock-postgresql', in_redis: 'stock-redis' };
const OVER = ['closed', 'retired', 'ended'];
const RATE_MS = 900; // between two readings of which a rate is made

// others(row): ids of the other vouchers in its scope, as far as they are known.
export function createVoucher({ template, speech, press, toggled, may, others }) {
    const body = template.content.firstElementChild.cloneNode(true);
    const part = (name) => body.querySelector(`[data-${name}]`);
    const view = { row: null, etag: null, books: null, inspected_ms: null, held: false, report: null, refusal: null, letters: null, audit: null };
    const figures = figureRows(part('figures'));
    const button = (action) => actionButton(action, speech, () => press({ action }));
    const inRow = ['pause', 'resume'].map(button);
    const inside = Object.keys(ACTIONS).filter((name) => !ACTIONS[name].letter && !['pause', 'resume'].includes(name)).map(button);
    const panels = Object.fromEntries(['details', 'settlement'].map((name) => [name, actionButton(name, speech, () => toggle(name))]));
    const details = createDetails({ root: body, speech, press, may });
    let filled_ms = null, sold = null, saidTerms = null; // filled_ms: since when its journal is not empty, as far as seen

    part('row-actions').append(...inRow.map((one) => one.button), ...Object.values(panels).map((one) => one.button));
    part('actions').append(...inside.map((one) => one.button));

    function toggle(name, wanted = !view[name]) {
        view[name] = wanted;
        setAttribute(part(name), 'hidden', !wanted);
        setAttribute(part('panels'), 'hidden', !isOpen());
        toggled();
    }

    const isOpen = () => Boolean(view.details || view.settlement);

    // now_ms by a clock that only goes forward.
    function take(row, etag, now_ms) {
        if (view.row !== null && row.version < view.row.version) {
            return; // an answer that was on its way when a newer one came
        }
        note(row, now_ms);
        const redis = row.redis ?? (row.version === view.row?.version ? view.row.redis : undefined);
        view.etag = etag ?? (row.version === view.row?.version ? view.etag : null);
        view.row = { ...row, redis };
        if (row.redis !== undefined) {
            view.books = booksOf(row, view.books);
            view.inspected_ms = now_ms;
            filled_ms = view.books.journal > 0 ? (filled_ms ?? now_ms) : null;
        }
    }

    // Units sold in a second, by what PostgreSQL has left; a change of the stock is none of them.
    function note(row, now_ms) {
        const of = `${row.version}`;
        if (sold === null || sold.of !== of) {
            sold = { of, at_ms: now_ms, remaining: row.remaining, rate: null };
        } else if (now_ms - sold.at_ms >= RATE_MS) {
            const rate = Math.max(0, ((sold.remaining - row.remaining) * 1000) / (now_ms - sold.at_ms));
            sold = { of, at_ms: now_ms, remaining: row.remaining, rate };
        }
    }

    function say(now_ms) {
        const { row, books } = view;
        const state = stateOf(view, now_ms), over = OVER.includes(state);
        const left = leftOf(view, state, now_ms);
        body.dataset.voucher = row.id;
        body.dataset.state = state;
        setAttribute(body, 'data-troubled', view.troubled);
        setText(part('title'), row.title);
        setText(part('state-text'), speech.say(`state_${state}`));
        sayTerms(row);
        setText(part('remaining'), speech.number(left));
        setText(part('of'), speech.say(over ? 'units_over' : 'units_of', { all: row.stock }));
        setAttribute(part('bar'), 'max', Math.max(1, row.stock));
        setAttribute(part('bar'), 'value', left ?? 0);
        setAttribute(part('bar'), 'aria-label', speech.say('bar', { title: row.title }));
        setText(part('sold'), speech.number(row.stock - row.remaining));
        setText(part('rate'), sold?.rate > 0 ? speech.rate(sold.rate) : '');
        setText(part('warning'), warningOf(view, state, speech));
        body.dataset.books = books?.state ?? 'unknown';
        inRow.forEach((one) => one.say(row.title, row.state, may('operate')));
        // In the row there is place for the one that can be pressed.
        inRow.forEach(({ button: one }) => setAttribute(one, 'hidden', !may('operate') || !ACTIONS[one.dataset.action].states.includes(row.state)));
        const idle = view.held ? 'hold_expiry' : 'release_expiry'; // it would change nothing
        inside.forEach((one) => one.say(row.title, row.state, may('operate') && one.button.dataset.action !== idle));
        for (const [name, opener] of Object.entries(panels)) {
            opener.say(row.title);
            setAttribute(opener.button, 'aria-expanded', view[name] ? 'true' : 'false');
        }
        if (isOpen()) {
            sayFigures(now_ms);
            details.show(view);
        }
    }

    // They change with the version, and with who joins the scope.
    function sayTerms(row) {
        const ids = others(row);
        const key = `${speech.tag()} ${row.version} ${ids}`;
        if (key === saidTerms) {
            return;
        }
        saidTerms = key;
        setText(part('number'), speech.say('voucher_number', { id: row.id }));
        setText(part('price'), speech.money(row.price_cents, row.currency));
        setText(part('begin'), speech.moment(Date.parse(row.begin_at)));
        setText(part('end'), speech.moment(Date.parse(row.end_at)));
        const terms = [
            speech.say('terms_limit', { count: row.limit }),
            speech.say('terms_orders', { count: row.orders_per_user }),
            ...(ids.length === 0 ? [] : [speech.say('terms_scope', { ids: speech.list(ids) })]),
            ...(row.pay_within_s === 0 ? [speech.say('terms_pay_never')] : [
                speech.say('terms_pay', { time: speech.age(row.pay_within_s) }),
                row.extend_s === 0 ? speech.say('terms_extend_never') : speech.say('terms_extend', { time: speech.age(row.extend_s) }),
            ]),
            ...(row.more_at === undefined ? [] : [speech.say('terms_more', { time: speech.moment(Date.parse(row.more_at)) })]),
            row.ticket ? speech.say(row.work_bits > 0 ? 'terms_work' : 'terms_ticket', { bits: row.work_bits }) : speech.say('terms_open'),
            speech.say('terms_version', { version: String(row.version) }),
        ];
        setText(part('terms'), terms.join(' · '));
    }

    function sayFigures(now_ms) {
        const { row, books } = view;
        for (const name of FIGURES) {
            setText(figures[name].label, speech.say(name));
        }
        setText(figures.in_postgresql.value, speech.number(row.remaining));
        setText(figures.in_redis.value, Number.isInteger(row.redis?.stock) ? speech.number(row.redis.stock) : speech.name('state', row.redis?.state ?? 'unknown'));
        setText(figures.drift.value, speech.say(`drift_${books?.state ?? 'unknown'}`, { n: books?.drift ?? '' }));
        setText(figures.journal.value, journalText(now_ms));
        setText(figures.line.value, lineText(row));
    }

    // A bound of 0: there was a line, which nobody joins any more.
    function lineText({ waitlist: most, waiting: count }) {
        if (most === undefined) {
            return speech.say('none');
        }
        return speech.say(most === 0 ? 'line_closed' : 'line_of', { count, most });
    }

    function journalText(now_ms) {
        const count = view.books?.journal ?? null;
        if (count === null || count === 0) {
            return speech.say(count === null ? 'none' : 'journal_empty');
        }
        const age_ms = view.row.redis?.journal_age_ms ?? now_ms - filled_ms;
        return speech.say('journal_of', { count, age: speech.age(age_ms / 1000) });
    }

    renderMarked(speech, body);
    return {
        body, view, take, say, isOpen,
        // Whether units were sold a moment ago.
        sells: () => sold?.rate > 0,
        open() {
            toggle('details', true);
            body.scrollIntoView({ block: 'nearest' });
            panels.details.button.focus();
        },
        localise: () => renderMarked(speech, body),
        left: (now_ms) => leftOf(view, stateOf(view, now_ms), now_ms),
    };
}

function figureRows(list) {
    const rows = {};
    for (const name of FIGURES) {
        const label = element('dt');
        const value = element('dd', { data: { metric: METRICS[name] ?? name } });
        list.append(element('div', {}, label, value));
        rows[name] = { label, value };
    }
    return rows;
}

// Of the units, how many can still be bought: nothing of a sale that is over. Redis says it; PostgreSQL, where Redis was
// not asked lately. null: it is not known, as nothing can be bought without Redis.
function leftOf({ row, books, inspected_ms }, state, now_ms) {
    if (OVER.includes(state)) {
        return 0;
    }
    if (state === 'away') {
        return null;
    }
    const redis = now_ms - inspected_ms < FRESH_MS ? row.redis : undefined;
    return redis !== undefined && books.drift !== null ? redis.stock : row.remaining;
}

// Of an open voucher, whether its window has begun and is not over, and whether a unit is left; and whether it can sell
// at all: without Redis it cannot, whatever PostgreSQL says of it.
function stateOf(view, now_ms) {
    const { row, canSell, inspected_ms } = view;
    const state = row.state === 'open' && ['upcoming', 'ended'].includes(row.phase) ? row.phase : row.state;
    if (OVER.includes(state)) {
        return state;
    }
    const redis = now_ms - inspected_ms < FRESH_MS ? row.redis?.state : undefined;
    if (canSell === false || redis === 'unknown') {
        return 'away';
    }
    if (['loading', 'missing', 'unreadable'].includes(redis)) {
        return redis;
    }
    return state === 'open' && leftOf(view, state, now_ms) === 0 ? 'sold_out' : state;
}

function warningOf({ books, row }, state, speech) {
    if (state === 'away') {
        return speech.say('warning_away');
    }
    return books?.state === 'differs' && row.state !== 'retired' ? speech.say('warning_differs', { n: books.drift }) : '';
}
