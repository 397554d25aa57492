// The buyer's orders: the list with its pages, what becomes of one, and giving one back.
//
// The service's list is the truth. What could not be read is UNREADABLE, with what was read before still there; EMPTY
// is said only where the service has said so. With many vouchers it cannot know of orders that are not committed yet:
// then the list is READY and not complete, with or without orders.
import { askForChange, followOrder, Problem, retryDelay } from '../client/index.js';

export const LIST = Object.freeze({ LOADING: 'loading', READY: 'ready', EMPTY: 'empty', UNREADABLE: 'unreadable' });

// A status never goes back to one of a lower rank.
const RANK = { pending: 0, waiting: 0, unpaid: 1, paid: 2, cancelled: 3, expired: 3, refused: 3, refunded: 3 };

export const isOrder = (body) => typeof body?.id === 'string' && Object.keys(RANK).includes(body.status);

// It has ended: its buyer may order again.
export const isOver = (order) => RANK[order.status] === RANK.cancelled;

// There is nothing to pay for it, and no time to pay runs out.
export const isFree = (order) => order.total_cents === 0 && order.expires_at === undefined;
export const isToPay = (order) => order.status === 'unpaid' && !isFree(order);

const PAGE = 20;
const LOGIN_TRIES = 4; // from then on a wait is long
const ASK_AGAIN_MS = 1000;

// `shown()` resolves when the page can be seen. `onChange(order, before)` hears of each order that is new (then
// `before` is undefined) or has changed, also its place in the line, or of null where only the list's state has.
export function createOrders({ api, wait, shown = async () => {}, random = Math.random, onChange = () => {} }) {
    const known = new Map();
    let state = LIST.LOADING;
    let trouble = null; // of UNREADABLE: the problem
    let complete = true;
    let next; // cursor; null: there are no older ones, undefined: none are known
    let puts = 0;
    let reading = null;
    let waiting = false;
    const ending = new AbortController();

    const settled = (order) => order.status !== 'pending';
    const oldestOf = (orders) => orders.filter(settled).pop()?.id; // pending ones come last
    const nextOf = (body) => body.next ?? (body.complete ? null : undefined);
    const hasMore = () => typeof next === 'string';
    const newestFirst = (one, other) => (one.id < other.id ? 1 : -1); // ids begin with the time

    function tell(order, before) {
        if (!ending.signal.aborted) {
            onChange(order, before);
        }
    }

    // What an answer shows of one order.
    function put(order) {
        puts++;
        keep(order);
        state = state === LIST.EMPTY ? LIST.READY : state;
        tell(null);
    }

    function keep(order) {
        const before = known.get(order.id);
        if (RANK[before?.status] > RANK[order.status]) {
            return; // an older answer
        }
        known.set(order.id, order);
        if (before?.status !== order.status || before.place !== order.place) {
            tell(order, before);
        }
    }

    // ---- the list ----

    // The first page; two that ask at a time share an answer.
    function read() {
        reading ??= readFirst().finally(() => {
            reading = null;
        });
        return reading;
    }

    async function readFirst() {
        const before = puts;
        try {
            const { body } = await api.call(`/orders?limit=${PAGE}`);
            if (before === puts && body.complete) {
                forgetAll(body);
            }
            if (next === undefined || !known.has(oldestOf(body.orders))) {
                next = nextOf(body); // else older ones are known, or come after `next`
            }
            body.orders.forEach(keep);
            complete = body.complete;
            trouble = null;
            state = known.size > 0 || !complete ? LIST.READY : LIST.EMPTY;
        } catch (problem) {
            fail(problem);
        }
        tell(null);
    }

    // What the page would have and does not.
    function forgetAll({ orders, next: more }) {
        const ids = new Set(orders.map((order) => order.id));
        const last = more === undefined ? '' : (oldestOf(orders) ?? '');
        for (const order of [...known.values()]) {
            if (!ids.has(order.id) && order.id > last) {
                known.delete(order.id);
            }
        }
    }

    async function readMore() {
        if (!hasMore()) {
            return;
        }
        try {
            const { body } = await api.call(`/orders?limit=${PAGE}&cursor=${encodeURIComponent(next)}`);
            body.orders.forEach(keep);
            next = nextOf(body);
            trouble = null;
            state = LIST.READY;
        } catch (problem) {
            fail(problem);
        }
        tell(null);
    }

    function fail(problem) {
        if (!(problem instanceof Problem)) {
            throw problem;
        }
        state = LIST.UNREADABLE;
        trouble = problem;
    }

    // ---- one order ----

    // Resolves with the order once it is not `pending` any more, which comes by itself (P5); null: nobody waits for it
    // any more, or there is no such order.
    async function follow(id) {
        while (!ending.signal.aborted) {
            try {
                const { signal } = ending;
                return await followOrder(api, id, { signal, pause: wait, random, ask, before: shown, onOrder: put });
            } catch (problem) {
                if (!(problem instanceof Problem)) {
                    throw problem;
                }
                await wait(retryDelay(undefined, LOGIN_TRIES, random), ending.signal); // for another login
            }
        }
        return null;
    }

    // A question that waits takes a connection, of which a browser has few: one at a time.
    async function ask(_, id, options) {
        if (waiting) {
            await wait(ASK_AGAIN_MS);
            return (await api.call(`/orders/${id}`)).body;
        }
        waiting = true;
        try {
            return await askForChange(api, id, options);
        } finally {
            waiting = false;
        }
    }

    async function readOne(id) {
        const { body } = await api.call(`/orders/${id}`);
        put(body);
        return body;
    }

    // Rejects with a Problem. The service takes it twice without harm.
    async function cancel(id) {
        const { body } = await api.call(`/orders/${id}/cancel`, { method: 'POST' });
        put(body);
        return body;
    }

    return {
        put,
        read,
        readMore,
        readOne,
        follow,
        cancel,
        get: (id) => known.get(id),
        all: () => [...known.values()].sort(newestFirst),
        state: () => state,
        why: () => trouble?.code ?? null,
        retryAfterMs: () => trouble?.retryAfterMs,
        isComplete: () => complete,
        hasMore,
        end() {
            ending.abort();
        },
    };
}
