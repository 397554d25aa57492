// What happened lately: what became of orders (the feed), what operators did, and what the page saw of the service. The
// feed is read from its end. Where more happens than one page brings it is left behind, and the next read begins at its
// end again: what is shown is the newest, and one small question at a time is all that it costs.
import { element, setText } from '../common/dom.js';
import { isGood, wordsForRead } from './answer.js';
import { createFilled } from './details.js';

const PAGE = 100;
const KEPT = 200;
const SHOWN = 60;

// open(order): an order was named.
export function createLately({ section, speech, call, open = () => {} }) {
    const fill = createFilled(section.querySelector('[data-events]'));
    const hint = section.querySelector('[data-events-hint]');
    const operators = new Map(); // voucher -> what operators did with it
    let orders = [], own = [], after = null; // after: where the feed goes on; null: at its end
    let unread = ['reading', {}]; // why the feed is not known; null: it was read

    async function ask() {
        const answer = await call(`/admin/events?only=moves&${after === null ? `last=${SHOWN}` : `limit=${PAGE}&after=${after}`}`);
        unread = isGood(answer) ? null : wordsForRead(answer);
        if (unread !== null) {
            say();
            return false;
        }
        const { events, next } = answer.body;
        orders = [...(after === null ? [] : orders), ...events].slice(-KEPT);
        after = events.length === PAGE ? null : next;
        say();
        return true;
    }

    function say() {
        const rows = [...orders.map(orderRow), ...[...operators.values()].flat().map(operatorRow), ...own];
        rows.sort((a, b) => b.at - a.at);
        setText(hint, unread !== null ? speech.say(...unread) : rows.length === 0 ? speech.say('lately_none') : '');
        fill([speech.tag(), rows.slice(0, SHOWN)], () => rows.slice(0, SHOWN).map(itemOf));
    }

    function orderRow(event) {
        const { order_id: order, voucher_id: voucher, type, status, at, by } = event;
        return { at: Date.parse(at), kind: 'order', order, voucher, type, status, by };
    }

    function operatorRow({ at, voucher_id: voucher, what, by }) {
        return { at: Date.parse(at), kind: 'operator', voucher, what, by };
    }

    function itemOf(row) {
        const time = element('time', { datetime: new Date(row.at).toISOString() }, speech.moment(row.at));
        return element('li', { data: { kind: row.kind } }, time, ` ${textOf(row)} `, row.kind === 'order' ? opener(row.order) : null);
    }

    function opener(order) {
        const button = element('button', { type: 'button', class: 'link-button', data: { openOrder: order } }, order.slice(0, 13));
        button.setAttribute('aria-label', speech.say('show_order', { id: order }));
        button.addEventListener('click', () => open(order));
        return button;
    }

    function textOf(row) {
        if (row.kind === 'order') {
            const names = { status: speech.name('status', row.status), by: speech.name('by', row.by) };
            return speech.say(`event_${row.type}`, { ...row, ...names });
        }
        return row.kind === 'operator'
            ? speech.say('event_operator', { ...row, what: speech.name('what', row.what) })
            : speech.say(row.kind);
    }

    return {
        ask,
        say,
        operated(id, events) {
            operators.delete(id);
            operators.set(id, events.slice(-20));
            if (operators.size > KEPT) {
                operators.delete(operators.keys().next().value);
            }
            say();
        },
        // Something that the page saw by itself, at the reader's clock.
        saw(kind) {
            own = [...own, { at: Date.now(), kind }].slice(-KEPT);
            say();
        },
    };
}
