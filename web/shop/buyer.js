// What belongs to one buyer: a purchase for each voucher that is shown, and the orders, each telling the other.
//
// The list of orders is read when the page is opened or seen again, when another tab has changed something, and now and
// then while an order waits for its payment, or in the line.
import { getTicket, Problem, retryDelay, wait } from '../client/index.js';
import { createOrders, isOver, LIST } from './orders.js';
import { createPurchase, STATE } from './purchase.js';

const OPEN_EVERY_MS = 30000;
const AFTER_EXPIRY_MS = 300;
const CHANGED_KEY = 'seckill.changed'; // written to make other tabs read their orders again

// It may change without the buyer, sooner or later. A pending one is followed instead.
const isOpen = ({ status }) => status === 'unpaid' || status === 'waiting';

// `shown()` resolves when the page can be seen. `onPurchase(id)`, `onOrder(order, before)` (as of
// orders.js) hear of changes.
export function createBuyer({ user, api, clock, local, vouchers, shown, onPurchase, onOrder, random = Math.random }) {
    const purchases = new Map();
    const followed = new Map(); // order's id -> promise
    const orders = createOrders({ api, wait, shown, random, onChange: changed });
    const prefix = `seckill.try.${user ?? ''}.`;
    let pause = new AbortController();
    let ended = false;
    let asked = false; // to read, since it was read
    let disturbed = false;

    // ---- orders ----

    async function keepReading() {
        for (let failures = 0, overdue = 0; !ended;) {
            await shown();
            if (ended) {
                return;
            }
            asked = false;
            await orders.read();
            checkKept();
            failures = orders.state() === LIST.UNREADABLE ? failures + 1 : 0;
            overdue = untilExpiry() <= 0 ? overdue + 1 : 0;
            while (!asked && !ended && (await isDisturbed(failures, overdue))) {
                // there is something else to wait for
            }
        }
    }

    // Waits until the list is to be read again; true if another order is to be waited for meanwhile. The service
    // needs a moment to see that a time to pay is over.
    async function isDisturbed(failures, overdue) {
        pause = new AbortController();
        disturbed = false;
        const left = untilExpiry();
        const most = OPEN_EVERY_MS * (0.8 + 0.4 * random());
        if (failures > 0 || overdue > 0) {
            await wait(retryDelay(orders.retryAfterMs(), Math.max(failures, overdue) - 1, random), pause.signal);
        } else if (left === Infinity) {
            await aborted(pause.signal);
        } else {
            await wait(Math.min(most, Math.max(0, left) + AFTER_EXPIRY_MS), pause.signal);
        }
        return disturbed;
    }

    // Of the open order that expires first; one that does not is read now and then. Infinity: none is open.
    function untilExpiry() {
        const now = clock.now() ?? 0;
        const leftOf = ({ expires_at: at }) => (at ? Date.parse(at) - now : 2 * OPEN_EVERY_MS);
        const open = orders.all().filter(isOpen);
        return open.reduce((least, order) => Math.min(least, leftOf(order)), Infinity);
    }

    function read() {
        asked = true;
        pause.abort();
    }

    // Where that fails, the list is read again after a while.
    async function readMore() {
        await orders.readMore();
        if (orders.state() === LIST.UNREADABLE) {
            await wait(retryDelay(orders.retryAfterMs(), 0, random));
            read();
        }
    }

    function changed(order, before) {
        if (order !== null) {
            purchases.get(order.voucher_id)?.learn(order);
            if (order.status === 'pending') {
                follow(order.id);
            } else if (isOpen(order)) {
                disturbed = true;
                pause.abort();
            } else if (isOver(order)) {
                purchases.forEach((one) => one.outcome().code === 'other_ordered' && one.forget(order.id));
            }
        }
        onOrder(order, before);
    }

    // One question for all who want to know.
    function follow(id) {
        if (!followed.has(id)) {
            followed.set(
                id,
                orders.follow(id).finally(() => followed.delete(id)),
            );
        }
        return followed.get(id);
    }

    // What a browser keeps may be another buyer's: an order that the list does not have is asked for by itself.
    async function checkKept() {
        for (const purchase of purchases.values()) {
            const { code, orderId } = purchase.outcome();
            if (
                (![STATE.WON, STATE.IN_LINE].includes(purchase.state()) && code !== 'other_ordered') ||
                orders.get(orderId) !== undefined ||
                orders.state() === LIST.UNREADABLE
            ) {
                continue;
            }
            try {
                await orders.readOne(orderId);
            } catch (problem) {
                if (problem.code === 'NOT_FOUND') {
                    purchase.forget(orderId);
                }
            }
        }
    }

    async function cancel(id) {
        try {
            await orders.cancel(id);
            local.set(CHANGED_KEY, `${Math.random()}`);
            return true;
        } catch (problem) {
            if (!(problem instanceof Problem)) {
                throw problem;
            }
            read(); // WRONG_STATE: it is not unpaid any more, and does not wait
            return problem.code === 'WRONG_STATE';
        }
    }

    // ---- purchases ----

    function purchase(id) {
        if (!purchases.has(id)) {
            purchases.set(id, open(id));
            purchases.get(id).resume();
            orders
                .all()
                .filter((order) => order.voucher_id === id)
                .forEach((order) => purchases.get(id).learn(order));
        }
        return purchases.get(id);
    }

    function open(id) {
        const key = prefix + id;
        return createPurchase({
            api,
            random,
            wait,
            voucher: () => vouchers.get(id),
            now: () => clock.now(),
            store: {
                load: () => local.getJson(key),
                save: (record) => (record === null ? local.remove(key) : local.setJson(key, record)),
            },
            goesOn: user !== null, // else the try may be another buyer's
            getTicket: (voucher) => getTicket(api, voucher),
            followOrder: follow,
            onOrder: (order) => orders.put(order),
            onChange: () => purchaseChanged(id),
        });
    }

    function purchaseChanged(id) {
        const { orderId } = purchases.get(id)?.outcome() ?? {};
        if (orderId !== undefined && orders.get(orderId) === undefined) {
            read();
        }
        onPurchase(id);
    }

    // The order that it has won, or waits with. undefined: none, or it was not read yet.
    function orderOf(id) {
        const order = orders.get(purchase(id).outcome().orderId);
        return order?.voucher_id === id ? order : undefined;
    }

    return {
        orders,
        orderOf,
        purchase,
        cancel,
        read,
        readMore,
        start: () => keepReading(),
        // What another tab of this browser has written.
        overhear(key) {
            if (key === CHANGED_KEY) {
                read();
            } else if (key?.startsWith(prefix)) {
                purchases.get(key.slice(prefix.length))?.overhear();
            }
        },
        end() {
            ended = true;
            orders.end();
            purchases.forEach((one) => one.end());
            pause.abort();
        },
    };
}

function aborted(signal) {
    return new Promise((resolve) => {
        signal.addEventListener('abort', resolve);
        if (signal.aborted) {
            resolve();
        }
    });
}
