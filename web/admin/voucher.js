// One voucher on the dashboard: what both stores say of it, its orders by state, and its buttons. What is shown is kept
// in one object, the view:
//   row          the newest answer about it, from the list or by itself
//   etag         of `row`, if that came by itself
//   canSell      whether the service can sell now, as the newest list says
//   books        books.js, of the newest check of both stores; inspected_ms: when that was
//   report       its newest settlement; refusal: why there is no newer one; letters, audit: what its details show
import { element, setAttribute, setText } from '../common/dom.js';
import { booksOf } from './books.js';
import { ACTIONS, actionButton } from './confirm.js';
import { createDetails } from './details.js';

const ORDER_STATES = ['unpaid', 'paid', 'cancelled', 'expired', 'refunded', 'refused', 'held'];
const FIGURES = ['in_postgresql', 'drift', 'journal', 'sold_rate', ...ORDER_STATES.map((state) => `orders_${state}`)];
const FRESH_MS = 3000;
const METRICS = { in_postgresql: 'stock-postgresql', sold_rate: 'sold-rate' };

export function createVoucher({ template, speech, press, toggled }) {
    const article = template.content.firstElementChild.cloneNode(true);
    const part = (name) => article.querySelector(`[data-${name}]`);
    const view = { row: null, etag: null, books: null, inspected_ms: null, report: null, refusal: null, letters: null, audit: null };
    const figures = figureRows(part('figures'));
    const buttons = Object.keys(ACTIONS).filter((name) => !ACTIONS[name].letter).map((action) =>
        actionButton(action, speech, () => press({ action })));
    const settle = actionButton('settle', speech, () => press({ action: 'settle' }));
    const opener = actionButton('details', speech, () => open(!view.open));
    const details = createDetails({ root: part('details'), speech, press });
    part('actions').append(...[...buttons, settle, opener].map(({ button }) => button));
    let filled_ms = null, sold = null, saidTerms = null; // filled_ms: since when its journal is not empty, as far as seen

    function open(wanted) {
        view.open = wanted;
        setAttribute(part('details'), 'hidden', !wanted);
        setAttribute(opener.button, 'aria-expanded', wanted ? 'true' : 'false');
        toggled(view.row.id, wanted);
    }

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
        } else if (now_ms - sold.at_ms >= 900) {
            const rate = Math.max(0, ((sold.remaining - row.remaining) * 1000) / (now_ms - sold.at_ms));
            sold = { of, at_ms: now_ms, remaining: row.remaining, rate };
        }
    }

    function say(now_ms) {
        const { row, books } = view;
        const state = stateOf(row);
        const left = leftOf(view, state, now_ms);
        article.dataset.voucher = row.id;
        article.dataset.state = state;
        setAttribute(article, 'aria-label', row.title);
        setText(part('title'), row.title);
        setText(part('state-text'), stateText(state, row, speech));
        sayTerms(row);
        setText(part('remaining'), speech.number(left));
        setText(part('of'), speech.say('units_of', { all: row.stock }));
        setAttribute(part('bar'), 'max', Math.max(1, row.stock));
        setAttribute(part('bar'), 'value', left ?? 0);
        setAttribute(part('bar'), 'aria-label', speech.say('bar', { title: row.title }));
        sayFigures(now_ms);
        setText(part('warning'), books?.state === 'unknown' && row.state !== 'retired' ? speech.say('redis_away') : '');
        article.dataset.books = books?.state ?? 'unknown';
        buttons.forEach((button) => button.say(row.title, row.state));
        settle.say(row.title);
        opener.say(row.title);
        setAttribute(opener.button, 'aria-expanded', view.open ? 'true' : 'false');
        if (view.open) {
            details.show(view);
        }
    }

    // They change with the version alone.
    function sayTerms(row) {
        const key = `${speech.language} ${row.version}`;
        if (key === saidTerms) {
            return;
        }
        saidTerms = key;
        setText(part('terms'), speech.say('terms', {
            id: row.id,
            price: speech.money(row.price_cents, row.currency),
            begin: speech.moment(Date.parse(row.begin_at)),
            end: speech.moment(Date.parse(row.end_at)),
            version: String(row.version),
        }));
    }

    function sayFigures(now_ms) {
        const { row, books, report } = view;
        for (const name of FIGURES) {
            setText(figures[name].label, speech.say(name));
        }
        setText(figures.in_postgresql.value, speech.number(row.remaining));
        setText(figures.drift.value, speech.say(`drift_${books?.state ?? 'unknown'}`, { n: books?.drift ?? '' }));
        setText(figures.journal.value, journalText(now_ms));
        setText(figures.sold_rate.value, speech.rate(sold?.rate ?? null));
        for (const state of ORDER_STATES) {
            setText(figures[`orders_${state}`].value, speech.number(ordersOf(report, state)));
        }
        const counted = report === null ? null : speech.moment(Date.parse(report.at));
        setText(part('orders-age'), counted === null ? speech.say('orders_not_yet') : speech.say('orders_as_of', { time: counted }));
    }

    function journalText(now_ms) {
        const count = view.books?.journal ?? null;
        if (count === null || count === 0) {
            return speech.say(count === null ? 'none' : 'journal_empty');
        }
        const age_ms = view.row.redis?.journal_age_ms ?? now_ms - filled_ms;
        return speech.say('journal_of', { count, age: speech.age(age_ms / 1000) });
    }

    speech.localise(article);
    return { article, view, take, say, open, localise: () => speech.localise(article), left: (now_ms) => leftOf(view, stateOf(view.row), now_ms) };
}

function figureRows(list) {
    const rows = {};
    for (const name of FIGURES) {
        const label = element('dt');
        const value = element('dd', { data: { metric: METRICS[name] ?? name.replace('_', '-') } });
        list.append(element('div', {}, label, value));
        rows[name] = { label, value };
    }
    return rows;
}

// What can still be bought: nothing of a sale that is over. Redis says it; PostgreSQL, where Redis was not asked lately.
// null: it is not known, as nothing can be bought without Redis.
function leftOf({ row, books, inspected_ms, canSell }, state, now_ms) {
    if (['closed', 'retired', 'ended'].includes(state)) {
        return 0;
    }
    const redis = now_ms - inspected_ms < FRESH_MS ? row.redis : undefined;
    if (canSell === false || redis?.state === 'unknown') {
        return null;
    }
    return redis !== undefined && books.drift !== null ? redis.stock : row.remaining;
}

// Of an open voucher, whether its window has begun and is not over.
function stateOf({ state, phase }) {
    return state === 'open' && ['upcoming', 'ended'].includes(phase) ? phase : state;
}

// Redis's own state only where it is another one.
function stateText(state, row, speech) {
    const text = speech.name('state', state);
    const redis = row.redis?.state;
    const same = redis === undefined || redis === row.state;
    return same ? text : `${text} · ${speech.say('in_redis', { state: speech.name('state', redis) })}`;
}

function ordersOf(report, state) {
    if (report === null) {
        return null;
    }
    const { orders } = report;
    return state === 'refunded' ? orders.refunded_restocked.orders + orders.refunded_kept.orders : orders[state].orders;
}
