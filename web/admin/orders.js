// Finds an order, by its id, its user or the reference of a payment, and shows it with its events and payments; and
// gives money back. What was typed in tells what it can be: an id has the form of one, and everything else is asked for
// both as a user and as a reference.
import { element, isOff, setAttribute, setOff, setText } from '../common/dom.js';
import { isGood, mayRepeat, wordsFor, wordsForRead } from './answer.js';
import { createFilled, rowsOf } from './details.js';

const ORDER_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const BARE_ID = /^[0-9a-f]{32}$/; // without dashes, as payment providers keep it; a user or a reference may look so, too
const USER = /^[A-Za-z0-9_.-]{1,64}$/;
const REFERENCE = /^[!-~]{1,64}$/;
const SHOWN = 50; // orders of a user
const RETURN_MS = 30000; // a refund may return units

// section: with the search; dialog: of a refund. show(voucher): a voucher was named.
export function createOrders({ section, dialog, call, speech, may, show, told }) {
    const part = (name) => section.querySelector(`[data-${name}]`);
    const input = part('find-text'), result = createFilled(part('found')), hint = part('find-hint');
    const refund = createRefund({ dialog, call, speech, done });
    let orders = [], payments = [], asked = '', refusal = null, opened = null, more = false, partial = false, turn = 0, waits = false;

    async function find(text) {
        const mine = ++turn;
        asked = text.trim();
        [orders, payments, refusal, opened, more, partial, waits] = [[], [], null, null, false, false, asked !== ''];
        say();
        const id = asked.toLowerCase();
        const bare = BARE_ID.test(id) ? await call(`/orders/${id}`) : null;
        if (mine !== turn) {
            return;
        }
        if (ORDER_ID.test(id) || (bare !== null && isGood(bare))) {
            await openOrder(id);
            return;
        }
        const ofUser = USER.test(asked) ? await call(`/admin/orders/find?user=${asked}&limit=${SHOWN}`) : null;
        const ofReference = REFERENCE.test(asked) ? await call(`/admin/payments/find?reference=${encodeURIComponent(asked)}`) : null;
        if (mine !== turn) {
            return;
        }
        const failed = [ofUser, ofReference].find((answer) => answer !== null && !isGood(answer));
        refusal = failed === undefined ? null : wordsForRead(failed);
        orders = ofUser?.body?.orders ?? [];
        more = ofUser?.body?.next !== undefined;
        payments = ofReference?.body?.payments ?? [];
        partial = [ofUser, ofReference].some((answer) => answer?.body?.complete === false);
        const ids = new Set([...orders.map(({ id }) => id), ...payments.map(({ order_id: id }) => id)]);
        if (ids.size === 1) {
            await openOrder([...ids][0]);
            return;
        }
        waits = false;
        say();
    }

    async function openOrder(id) {
        const mine = ++turn;
        const answer = await call(`/orders/${id}`);
        if (mine !== turn) {
            return;
        }
        waits = false;
        opened = isGood(answer) ? answer.body : null;
        refusal = isGood(answer) || answer.status === 404 ? null : wordsForRead(answer);
        say();
        part('order')?.focus();
    }

    // The answer to a refund is the order as it is now.
    function done(order) {
        told(order);
        opened = order.id === opened?.id ? order : opened;
        say();
    }

    // ---- what is shown ----

    function say() {
        setText(hint, hintText());
        result([speech.tag(), orders, payments, opened, more, may('refunds')], () => [
            ...(payments.length > 0 ? [element('h3', {}, speech.say('found_payments')), listOf(payments.map(paymentLine))] : []),
            ...(orders.length > 0 ? [element('h3', {}, speech.say('found_orders', { user: asked })), listOf(orders.map(orderLine))] : []),
            ...(more ? [element('p', { class: 'hint' }, speech.say('found_more', { count: SHOWN }))] : []),
            ...(opened === null ? [] : [orderPanel(opened)]),
        ]);
    }

    function hintText() {
        if (refusal !== null || waits) {
            return waits ? speech.say('working') : speech.say(...refusal);
        }
        if (partial) {
            return speech.say('find_partial');
        }
        const nothing = asked !== '' && opened === null && orders.length + payments.length === 0;
        return nothing ? speech.say('find_nothing', { text: asked }) : speech.say('find_hint');
    }

    const listOf = (items) => element('ul', { class: 'found' }, ...items);

    function opener(id) {
        const button = element('button', { type: 'button', class: 'link-button', data: { openOrder: id } }, id);
        button.addEventListener('click', () => void openOrder(id));
        return button;
    }

    function orderLine(order) {
        const values = { status: speech.name('status', order.status), voucher: order.voucher_id, count: order.quantity, time: momentOf(order.created_at) };
        return element('li', {}, opener(order.id), ` ${speech.say('order_line', values)}`);
    }

    function paymentLine(payment) {
        const values = { reference: payment.reference, amount: speech.money(payment.amount_cents, payment.currency), state: speech.name('payment', payment.state) };
        return element('li', {}, `${speech.say('payment_line', values)} `, opener(payment.order_id));
    }

    const momentOf = (text) => (text === undefined ? speech.say('none') : speech.moment(Date.parse(text)));

    function orderPanel(order) {
        const price = order.total_cents === undefined ? speech.say('none') : speech.money(order.total_cents, order.currency);
        const rows = [
            [speech.say('order_status'), speech.name('status', order.status) + (order.reason ? ` (${speech.name('reason', order.reason)})` : '')],
            [speech.say('order_user'), order.user_id],
            [speech.say('order_units'), speech.number(order.quantity)],
            [speech.say('order_total'), price],
            [speech.say('order_created'), momentOf(order.created_at)],
            ...(order.place === undefined ? [] : [[speech.say('order_place'), speech.number(order.place)]]),
            ...(order.expires_at === undefined ? [] : [[speech.say('order_expires'), momentOf(order.expires_at)]]),
        ];
        const voucher = element('button', { type: 'button', class: 'quiet', data: { show: order.voucher_id } }, speech.say('show_voucher', { id: order.voucher_id }));
        voucher.addEventListener('click', () => show(order.voucher_id));
        return element('article', { class: 'order', tabindex: '-1', data: { order: order.id, status: order.status }, 'aria-label': speech.say('order_of', { id: order.id }) },
            element('h3', {}, speech.say('order_of', { id: order.id })),
            element('dl', { class: 'rows' }, ...rowsOf(rows)),
            element('h4', {}, speech.say('order_events')),
            element('ol', { class: 'events' }, ...eventRows(order)),
            element('h4', {}, speech.say('order_payments')),
            element('ul', { class: 'said' }, ...paymentRows(order)),
            element('div', { class: 'actions' }, voucher, ...refundButtons(order)));
    }

    function eventRows({ events = [] }) {
        return events.length === 0 ? [element('li', { class: 'hint' }, speech.say('order_events_none'))] : events.map((event) => {
            const why = event.why ? ` (${speech.name('why', event.why)})` : '';
            const text = speech.say(`order_${event.type}`, { status: speech.name('status', event.status), by: speech.name('by', event.by) });
            return element('li', {}, element('time', { datetime: event.at }, momentOf(event.at)), ` ${text}${why}`);
        });
    }

    function paymentRows({ payments: paid = [] }) {
        return paid.length === 0 ? [element('li', { class: 'hint' }, speech.say('order_payments_none'))] : paid.map((payment) => {
            const values = { reference: payment.reference, amount: speech.money(payment.amount_cents, payment.currency), state: speech.name('payment', payment.state) };
            return element('li', { data: { payment: payment.reference } }, `${momentOf(payment.at)} ${speech.say('payment_line', values)}`);
        });
    }

    // A paid order is refunded as a whole; each payment that came too late, or a second time, is given back by itself.
    function refundButtons(order) {
        const due = (order.payments ?? []).filter(({ state }) => state === 'to_refund');
        const targets = order.status === 'paid' ? [undefined, ...due] : due;
        return (may('refunds') ? targets : []).map((payment) => {
            const words = payment === undefined ? speech.say('refund') : speech.say('refund_payment', { reference: payment.reference });
            const button = element('button', { type: 'button', class: 'quiet', data: { action: 'refund' } }, words);
            button.addEventListener('click', () => refund.open(order, payment));
            return button;
        });
    }

    part('find').addEventListener('submit', (event) => {
        event.preventDefault();
        void find(input.value);
    });

    return {
        say() {
            say();
            refund.say();
        },
        find(text) {
            input.value = text;
            void find(text);
        },
        close: refund.close,
    };
}

// ---- a refund ----

// A refund is idempotent by itself: it names the order, and the payment if only that is given back.
function createRefund({ dialog, call, speech, done }) {
    const part = (name) => dialog.querySelector(`[data-${name}]`);
    const go = part('go'), restock = part('restock'), why = part('why'), error = part('refund-error');
    let asked = null; // {order, payment}

    function open(order, payment) {
        asked = { order, payment };
        restock.checked = false;
        why.value = '';
        setAttribute(part('restock-field'), 'hidden', payment !== undefined);
        setText(error, '');
        setOff(go, false);
        say();
        dialog.showModal();
    }

    function say() {
        if (asked === null) {
            return;
        }
        const { order, payment } = asked;
        const amount = payment === undefined ? speech.money(order.total_cents, order.currency) : speech.money(payment.amount_cents, payment.currency);
        const key = payment === undefined ? 'refund_text' : 'refund_payment_text';
        setText(part('refund-text'), speech.say(key, { amount, user: order.user_id, reference: payment?.reference }));
        setText(go, speech.say('refund_go', { amount }));
    }

    async function send() {
        if (isOff(go)) {
            return;
        }
        const sent = asked, { order, payment } = asked;
        const body = { ...(payment === undefined ? { restock: restock.checked } : { reference: payment.reference }), ...(why.value.trim() === '' ? {} : { why: why.value.trim() }) };
        setOff(go, true);
        const answer = await call(`/orders/${order.id}/refund`, { method: 'POST', json: JSON.stringify(body), timeout_ms: RETURN_MS });
        if (sent === asked && dialog.open) {
            setOff(go, false);
            finish(answer);
        } else if (isGood(answer)) { // the dialog was closed meanwhile
            done(answer.body);
        }
    }

    function finish(answer) {
        if (isGood(answer)) {
            dialog.close();
            done(answer.body);
            return;
        }
        const reasons = (answer.body?.errors ?? []).map(({ detail }) => speech.reason(detail));
        setText(error, reasons.length > 0 ? reasons.join(' ') : speech.say(...wordsFor(answer)));
        setText(go, mayRepeat(answer) ? speech.say('try_again') : go.textContent);
    }

    dialog.querySelector('form').addEventListener('submit', (event) => {
        event.preventDefault();
        void send();
    });
    part('cancel').addEventListener('click', () => dialog.close());
    return { open, say, close: () => dialog.open && dialog.close() };
}
