// What is shown of a voucher when its details are open: settlement, dead letters, what operators did.
import { element } from '../common/dom.js';
import { actionButton } from './confirm.js';

const UNITS = ['offered', 'added', 'taken_away', 'sold', 'kept', 'held', 'remaining'];

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
export function createDetails({ root, speech, press }) {
    const part = (name) => createFilled(root.querySelector(`[data-${name}]`));
    const settlement = part('settlement'), letters = part('letters'), audit = part('audit');
    const empty = (tag, key) => [element(tag, { class: 'hint' }, speech.say(key))];

    return {
        show(view) {
            const language = speech.language;
            settlement([language, view.report, view.refusal], () => [
                ...(view.refusal ? [element('p', { class: 'error' }, speech.say(...view.refusal))] : []),
                ...(view.report ? reportRows(view.report, speech) : empty('p', 'settlement_none')),
            ]);
            letters([language, view.letters], () =>
                view.letters?.length > 0 ? letterRows(view, speech, press) : empty('li', 'letters_none'));
            audit([language, view.audit], () =>
                view.audit?.length > 0 ? auditRows(view.audit, speech) : empty('li', 'audit_none'));
        },
    };
}

function reportRows(report, speech) {
    const list = (object) => Object.entries(object).map(([name, n]) => `${name} ${speech.number(n)}`).join(', ');
    const rows = [[speech.say('verdict'), verdictOf(report, speech)]];
    if (report.verdict === 'open') {
        rows.push([speech.say('missing'), list(report.missing)]);
    }
    for (const [name, { is, should_be: should }] of Object.entries(report.wrong)) {
        rows.push([speech.say('wrong'), speech.say('wrong_is', { name, is, should })]);
    }
    const units = UNITS.map((name) => `${speech.say(`units_${name}`)} ${speech.number(report.units[name])}`);
    rows.push([speech.say('units_account'), units.join(', ')]);
    if (Object.keys(report.refused).length > 0) {
        const reasons = Object.entries(report.refused).map(([reason, { orders }]) => [reason, orders]);
        rows.push([speech.say('orders_refused'), list(Object.fromEntries(reasons))]);
    }
    const { p50_ms, p99_ms, max_ms } = report.time_to_durable;
    rows.push([speech.say('books'), report.redis.books]);
    rows.push([speech.say('durable'), `p50 ${speech.ms(p50_ms)}, p99 ${speech.ms(p99_ms)}, max ${speech.ms(max_ms)}`]);
    return [element('dl', { class: 'rows' }, ...rowsOf(rows))];
}

function verdictOf(report, speech) {
    const text = `${speech.name('verdict', report.verdict)} (${speech.moment(Date.parse(report.at))})`;
    return element('span', { data: { verdict: report.verdict } }, text);
}

function letterRows(view, speech, press) {
    const rows = view.letters.map((letter) => {
        const count = letter.orders?.length ?? 0;
        const values = { id: letter.id, reason: letter.reason, time: speech.moment(Date.parse(letter.created_at)), count };
        const buttons = ['requeue', 'write_off'].map((action) => {
            const made = actionButton(action, speech, () => press({ action, letter }));
            made.say(`${view.row.title}, ${letter.id}`);
            return made.button;
        });
        const text = element('span', {}, speech.say('letter', values));
        return element('li', { data: { letter: letter.id } }, text, element('span', { class: 'actions' }, ...buttons));
    });
    return view.letters_more ? [...rows, element('li', { class: 'hint' }, speech.say('letters_more'))] : rows;
}

function auditRows(events, speech) {
    return events.map((event) => {
        const detail = Object.entries(event.detail ?? {}).map(([name, value]) => `${name} ${value}`).join(', ');
        const what = speech.name('what', event.what);
        const text = `${what}${detail === '' ? '' : ` (${detail})`} · ${event.by}`;
        return element('li', {}, element('time', { datetime: event.at }, speech.moment(Date.parse(event.at))), ` ${text}`);
    });
}
