// The two panels of a voucher: its details (dead letters, what operators did), and its settlement in sentences.
import { element } from '../common/dom.js';
import { actionButton } from './confirm.js';
import { moneyOf, ordersOf, sentencesOf, unitsOf } from './sentences.js';

// Fills `at` anew only if `what` is not what it shows, so that a button in it keeps the focus.
export function createFilled(at) {
    let shown = null;
    return function fill(what, make) {
        const text = JSON.stringify(what);
        if (text !== shown) {
            shown = text;
            at.replaceChildren(...make());
        }
    };
}

// Rows of a description list.
export function rowsOf(rows) {
    return rows.map(([term, value]) => element('div', {}, element('dt', {}, term), element('dd', {}, value)));
}

// press({action, letter}): a letter's button.
export function createDetails({ root, speech, press, may }) {
    const part = (name) => createFilled(root.querySelector(`[data-${name}]`));
    const report = part('report'), letters = part('letters'), audit = part('audit');
    const empty = (tag, ...said) => [element(tag, { class: 'hint' }, speech.say(...said))];
    // Of a list that was not read, or is empty.
    const without = (list, unread, none) => empty('li', ...(unread ?? [list === null ? 'reading' : none]));

    return {
        show(view) {
            const language = speech.tag();
            if (view.settlement) {
                report([language, view.report, view.refusal], () => [
                    ...(view.refusal ? [element('p', { class: 'error' }, speech.say(...view.refusal))] : []),
                    ...(view.report ? reportRows(view.report, speech) : empty('p', 'settlement_none')),
                ]);
            }
            if (view.details) {
                letters([language, view.letters, view.letters_unread], () =>
                    view.letters?.length > 0 ? letterRows(view, speech, press, may) : without(view.letters, view.letters_unread, 'letters_none'));
                audit([language, view.audit, view.audit_unread], () =>
                    view.audit?.length > 0 ? auditRows(view.audit, view.row.currency, speech) : without(view.audit, view.audit_unread, 'audit_none'));
            }
        },
    };
}

function reportRows(report, speech) {
    const [verdict, ...rest] = sentencesOf(report, speech);
    const list = (rows, key) => element('dl', { class: 'figures' }, ...rowsOf(rows.map(([name, n]) => [speech.say(key(name)), speech.number(n)])));
    const reasons = Object.entries(report.refused).map(([reason, { orders }]) =>
        element('li', {}, speech.say('refused_for', { count: orders, reason: speech.name('reason', reason) })));
    const { count, p50_ms, p99_ms } = report.time_to_durable;
    return [
        element('p', { data: { verdict: report.verdict, grade: verdict.grade } }, verdict.text),
        element('ul', { class: 'said', data: { sentences: '' } }, ...rest.map(({ text, grade }) => element('li', { data: { grade } }, text)), ...reasons),
        element('h4', {}, speech.say('units_account')),
        list(unitsOf(report.units), (name) => name),
        element('h4', {}, speech.say('orders_account')),
        list(ordersOf(report), (name) => `orders_${name}`),
        element('h4', {}, speech.say('money_account')),
        element('dl', { class: 'figures', data: { money: '' } }, ...rowsOf(moneyOf(report).map(([state, currency, { payments, total_cents }]) =>
            [speech.say(`payment_${state}`), speech.say('money_of', { amount: speech.money(total_cents, currency), count: payments })]))),
        element('p', { class: 'hint' }, moneyOf(report).length === 0 ? speech.say('order_payments_none') : ''),
        element('p', { class: 'hint' }, count === 0 ? '' : speech.say('durable_sentence', { half: speech.ms(p50_ms), most: speech.ms(p99_ms) })),
    ];
}

function letterRows(view, speech, press, may) {
    const rows = view.letters.map((letter) => {
        const count = letter.orders?.length ?? 0;
        const values = { id: letter.id, reason: letter.reason, time: speech.moment(Date.parse(letter.created_at)), count };
        const buttons = ['requeue', 'write_off'].map((action) => {
            const made = actionButton(action, speech, () => press({ action, letter }));
            made.say(`${view.row.title}, ${letter.id}`, undefined, may('operate'));
            return made.button;
        });
        const text = element('span', {}, speech.say('letter', values));
        return element('li', { data: { letter: letter.id } }, text, element('span', { class: 'actions' }, ...buttons));
    });
    return view.letters_more ? [...rows, element('li', { class: 'hint' }, speech.say('letters_more'))] : rows;
}

function auditRows(events, currency, speech) {
    return events.map((event) => {
        const detail = Object.entries(event.detail ?? {}).map(([name, value]) => memberOf(name, value, event.detail.currency ?? currency, speech)).join(', ');
        const what = speech.name('what', event.what);
        const text = `${what}${detail === '' ? '' : ` (${detail})`} · ${event.by}`;
        return element('li', {}, element('time', { datetime: event.at }, speech.moment(Date.parse(event.at))), ` ${text}`);
    });
}

// A term that was changed, as a person reads it.
function memberOf(name, value, currency, speech) {
    const moments = ['begin_at', 'end_at', 'more_at'];
    const text = name === 'price_cents' ? speech.money(value, currency)
        : value === '' ? speech.say('none')
        : moments.includes(name) ? speech.moment(Date.parse(value))
        : typeof value === 'boolean' ? speech.say(value ? 'yes' : 'no')
        : typeof value === 'number' ? speech.number(value) : String(value);
    return speech.say('member_is', { name: speech.name('member', name), value: text });
}
