// "My orders": shows what orders.js knows, says what has changed, and asks before an order is given back.
import { untilNextSecond } from './countdown.js';
import { isToPay, LIST } from './orders.js';
import { statusText } from './view_order.js';

// `buyer()` gives the buyer, `isThere()` whether there is one to ask for, `readVoucher(id)` reads a voucher of which
// only the id is known.
export function createOrderList({ clock, vouchers, view, voice, buyer, isThere, readVoucher }) {
    const doing = new Map(); // order's id -> {cancelling, failed}
    const asked = new Set(); // vouchers, once each
    const nobody = 'nobody'; // the list's state while it is not known whose it is

    const titleOf = (order) => vouchers.get(order.voucher_id)?.title ?? voice.say('order.of', { id: order.voucher_id });
    const all = () => (isThere() ? buyer().orders.all() : []);

    function render() {
        const { orders } = buyer();
        const shown = all();
        const state = isThere() ? orders.state() : nobody;
        view.renderOrders({ orders: shown, state, note: note(state, shown), hasMore: isThere() && orders.hasMore() });
        for (const order of shown) {
            const voucher = vouchers.get(order.voucher_id);
            view.row(order.id).render(order, voucher, clock.now(), doing.get(order.id) ?? {});
            if (voucher === undefined) {
                readTitle(order.voucher_id);
            }
        }
        renderSummary(clock.now());
    }

    // What stays in sight: how many there are, and how long the first one of them can still be paid. Gives the ms.
    function renderSummary(now) {
        const due = all().filter((order) => isToPay(order) && order.expires_at !== undefined);
        const lefts = due.map((order) => Date.parse(order.expires_at) - now).filter((ms) => ms > 0);
        const left = Math.min(...lefts, Infinity);
        view.renderSummary({ count: all().length, hasMore: isThere() && buyer().orders.hasMore(), left });
        return left;
    }

    function note(state, shown) {
        const { orders } = buyer();
        if (state === LIST.UNREADABLE) {
            const isRefused = orders.why() === 'UNAUTHENTICATED';
            return voice.say(
                isRefused ? 'outcome.error.login' : shown.length > 0 ? 'orders.stale' : 'orders.unreadable',
            );
        }
        if (state === LIST.READY) {
            return orders.isComplete() ? '' : voice.say('orders.incomplete');
        }
        return voice.say(`orders.${state}`);
    }

    async function readTitle(id) {
        if (!asked.has(id)) {
            asked.add(id);
            await readVoucher(id);
            render();
        }
    }

    // `before` undefined: it was not known. Of the same status: its place in the line has changed.
    function changed(order, before) {
        if (before !== undefined && before.status !== order.status) {
            view.announce(
                voice.say('announce.order', { title: titleOf(order), status: statusText(voice, order) }),
            );
        }
        render();
    }

    // Gives the ms until there is something else to show.
    function tick() {
        const now = clock.now();
        return all().reduce((next, order) => {
            const left = view.row(order.id)?.renderLeft(order, now) ?? Infinity;
            return Math.min(next, untilNextSecond(left));
        }, untilNextSecond(renderSummary(now)));
    }

    // To cancel an order that waits is to leave the line.
    function questionOf(order) {
        const about = order.status === 'waiting' ? 'leave' : 'confirm';
        const part = (name) => voice.say(`${about}.${name}`, { title: titleOf(order) });
        return { text: part('text'), no: part('no'), yes: part('yes') };
    }

    async function cancel(id) {
        const order = buyer().orders.get(id);
        if (doing.get(id)?.cancelling || !(await view.confirm(questionOf(order)))) {
            return;
        }
        doing.set(id, { cancelling: true });
        render();
        const isDone = await buyer().cancel(id);
        doing.set(id, { failed: !isDone });
        render();
    }

    return {
        render,
        changed,
        tick,
        cancel,
        // For another buyer.
        reset() {
            doing.clear();
            render();
        },
    };
}
