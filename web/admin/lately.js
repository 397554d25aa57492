// What happened lately: what became of orders (the feed), what operators did, and what the page saw of the service. The
// feed begins with the oldest and cannot be read from its end, so at first it is read page by page; what is kept is
// bounded.
import { element, setText } from '../common/dom.js';
import { isGood } from './answer.js';
import { createFilled } from './details.js';

const PAGE = 100;
const PAGES_AT_ONCE = 5;
const KEPT = 200;
const SHOWN = 60;

export function createLately({ section, speech, call }) {
    const fill = createFilled(section.querySelector('[data-events]'));
    const hint = section.querySelector('[data-events-hint]');
    const operators = new Map(); // voucher -> what operators did with it
    let orders = [], own = [], after = null, behind = null;

    async function ask() {
        for (let page = 0; page < PAGES_AT_ONCE; page++) {
            const answer = await call(`/admin/events?limit=${PAGE}${after === null ? '' : `&after=${after}`}`);
            if (!isGood(answer)) {
                return false;
            }
            const { events, next } = answer.body;
            after = next;
            orders = [...orders, ...events].slice(-KEPT);
            behind = events.length === PAGE ? events[PAGE - 1].at : null;
            if (behind === null) {
                break;
            }
        }
        say();
        return true;
    }

    function say() {
        const rows = [...orders.map(orderRow), ...[...operators.values()].flat().map(operatorRow), ...own];
        rows.sort((a, b) => b.at - a.at);
        setText(hint, hintText(rows));
        fill([speech.language, rows.slice(0, SHOWN)], () => rows.slice(0, SHOWN).map(itemOf));
    }

    function hintText(rows) {
        if (behind !== null) {
            return speech.say('lately_behind', { time: speech.moment(Date.parse(behind)) });
        }
        return rows.length === 0 ? speech.say('lately_none') : '';
    }

    function orderRow(event) {
        const { order_id: order, voucher_id: voucher, status, at, by } = event;
        return { at: Date.parse(at), kind: 'order', order, voucher, status, by };
    }

    function operatorRow({ at, voucher_id: voucher, what, by }) {
        return { at: Date.parse(at), kind: 'operator', voucher, what, by };
    }

    function itemOf(row) {
        const time = element('time', { datetime: new Date(row.at).toISOString() }, speech.moment(row.at));
        return element('li', { data: { kind: row.kind } }, time, ` ${textOf(row)}`);
    }

    function textOf(row) {
        if (row.kind === 'order') {
            return speech.say('event_order', { ...row, order: row.order.slice(0, 13), status: speech.name('status', row.status) });
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
