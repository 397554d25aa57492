// A row of "My orders".
import { element, setAttribute, setOff, setText } from '../common/dom.js';
import { isFree, isToPay } from './orders.js';
import { clockText, placeText, priceText } from './view_voucher.js';

// `onCancel(id)`. `payUrl(order)` gives where to pay, null where the page does not know.
export function createRow(id, voice, { onCancel, payUrl }) {
    const parts = {
        title: element('h3', { tabindex: '-1' }),
        badge: element('span', { class: 'badge' }),
        total: element('strong', { data: { total: '' } }),
        units: element('span', { class: 'hint' }),
        idLabel: element('span', {}),
        when: element('p', { class: 'hint' }),
        place: element('p', { class: 'due', data: { place: '' }, hidden: true }),
        leftLabel: element('span', { id: `left-${id}` }),
        left: element('span', {
            role: 'timer',
            'aria-live': 'off',
            'aria-labelledby': `left-${id}`,
            class: 'clock',
            data: { left: '' },
        }),
        actions: element('div', { class: 'row' }),
        trouble: element('p', { class: 'outcome', role: 'status' }),
    };
    const due = element('p', { class: 'due', hidden: true }, parts.leftLabel, ' ', parts.left);
    const root = element(
        'li',
        { id: `order-${id}`, class: 'order', data: { order: id, status: 'pending' } },
        element('div', { class: 'head' }, parts.title, parts.badge),
        element('p', { class: 'total' }, parts.total, ' ', parts.units),
        element('p', { class: 'hint' }, parts.idLabel, ' ', element('code', {}, id)),
        parts.when,
        parts.place,
        due,
        parts.actions,
        parts.trouble,
    );
    const pay = element('a', { class: 'button', data: { pay: '' } });
    const payElsewhere = element('span', { class: 'hint' });
    const cancel = element('button', {
        type: 'button',
        class: 'quiet',
        data: { cancel: '' },
        onclick: () => onCancel(id),
    });

    // `voucher` undefined: not known. `doing`: {cancelling, failed}.
    function render(order, voucher, now, doing) {
        const title = voucher?.title ?? voice.say('order.of', { id: order.voucher_id });
        root.dataset.status = order.status;
        setText(parts.title, title);
        setText(parts.badge, statusText(voice, order));
        renderTotal(order, voucher);
        setText(parts.idLabel, voice.say('order.id'));
        setText(
            parts.when,
            order.created_at ? voice.say('order.at', { at: voice.moment(Date.parse(order.created_at), now) }) : '',
        );
        parts.place.hidden = order.status !== 'waiting';
        setText(parts.place, order.status === 'waiting' ? placeText(voice, order) : '');
        renderActions(order, title, doing);
        setText(parts.trouble, doing.failed && canEnd(order) ? voice.say(`${endingOf(order)}_failed`) : '');
    }

    // A pending order has no price of its own yet.
    function renderTotal(order, voucher) {
        const { quantity, price_cents: price = voucher?.priceCents, currency = voucher?.currency } = order;
        const isKnown = price !== undefined;
        setText(parts.total, isKnown ? priceText(voice, order.total_cents ?? price * quantity, currency) : '');
        setText(
            parts.units,
            isKnown && price > 0
                ? voice.say('order.units', { quantity, price: voice.money(price, currency) })
                : voice.say('order.quantity', { count: quantity }),
        );
    }

    function renderActions(order, title, doing) {
        const url = payUrl(order);
        const ending = endingOf(order);
        setAttribute(pay, 'href', url);
        setText(pay, voice.say('order.pay'));
        setAttribute(pay, 'aria-label', voice.say('order.pay_of', { title }));
        setText(payElsewhere, voice.say('order.pay_elsewhere'));
        setText(cancel, voice.say(doing.cancelling ? `${ending}_busy` : ending));
        setAttribute(cancel, 'aria-label', doing.cancelling ? null : voice.say(`${ending}_of`, { title }));
        setOff(cancel, doing.cancelling);
        const wanted = [
            ...(isToPay(order) ? [url === null ? payElsewhere : pay] : []),
            ...(canEnd(order) ? [cancel] : []),
        ];
        if (
            wanted.some((one, i) => parts.actions.children[i] !== one) ||
            parts.actions.children.length !== wanted.length
        ) {
            const hadFocus = parts.actions.contains(document.activeElement);
            parts.actions.replaceChildren(...wanted);
            if (hadFocus && !parts.actions.contains(document.activeElement)) {
                parts.title.focus();
            }
        }
    }

    // Every second. Gives the ms that are left, or Infinity.
    function renderLeft(order, now) {
        const isDue = isToPay(order) && order.expires_at !== undefined && now !== undefined;
        due.hidden = !isDue;
        if (!isDue) {
            return Infinity;
        }
        const left = Date.parse(order.expires_at) - now;
        setText(parts.leftLabel, voice.say(left > 0 ? 'order.left' : 'order.over'));
        setText(parts.left, left > 0 ? clockText(voice, left) : '');
        return left;
    }

    return { root, render, renderLeft };
}

// Its buyer can cancel it, or leave the line.
const canEnd = ({ status }) => status === 'unpaid' || status === 'waiting';
const endingOf = ({ status }) => (status === 'waiting' ? 'order.leave' : 'order.cancel');

export function statusText(voice, order) {
    return voice.say(`status.${statusOf(order)}`);
}

// A status, or what says more than it.
function statusOf(order) {
    const { status, reason } = order;
    if (status === 'refused' && reason === 'SOLD_OUT') {
        return 'sold_out';
    }
    return reason === 'LEFT' ? 'left' : status === 'unpaid' && isFree(order) ? 'free' : status;
}
