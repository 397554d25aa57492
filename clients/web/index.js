// A client of seckill for browsers and Node: it repeats what may be repeated, follows what was accepted to its end, and
// never takes a time-out for a refusal. README.md shows how to use it.
import { createApi, Problem } from './api.js';
import { createClock } from './clock.js';
import { watchVouchers } from './events.js';
import { followOrder } from './orders.js';
import { insist } from './outcome.js';
import { makeKey, outcomeOf, placeOrder } from './purchase.js';
import { getTicket } from './ticket.js';

export { createApi, Problem } from './api.js';
export { createClock } from './clock.js';
export { openStream, STREAM_MOST } from './events.js';
export { CURRENCIES, digitsOf, formatMoney } from './money.js';
export { askForChange, followOrder } from './orders.js';
export { AGAIN, insist, judge } from './outcome.js';
export { makeKey, outcomeOf, placeOrder } from './purchase.js';
export { readRetryAfter, retryDelay, wait } from './retry.js';
export { createHasher } from './sha256.js';
export { getTicket, isTicketGood, solve } from './ticket.js';

// `url` is the service's; in a page of the same origin leave it out. `headers` say who asks: an object, or a function
// that gives one or a promise of one.
export function createClient({ url, headers = {}, fetch } = {}) {
    const credentials = typeof headers === 'function' ? headers : () => headers;
    const clock = createClock();
    const api = createApi({ url, credentials, clock, ...(fetch && { fetch }) });

    const done = (path, request, signal) =>
        insist(async () => ({ outcome: 'done', ...(await api.call(path, request)) }), { signal });

    async function read(path, { signal, member, timeoutMs } = {}) {
        const result = await done(path, { member, signal, timeoutMs }, signal);
        if (result.outcome !== 'done') {
            throw new Problem(result.code, result);
        }
        return result.body;
    }

    const post = (path, json, { signal, member } = {}, headers = {}) =>
        done(path, { method: 'POST', json, headers, member, signal }, signal);

    async function command(path, json, { key = makeKey(), ...options } = {}) {
        return { ...(await post(path, json, options, { 'Idempotency-Key': key })), key };
    }

    // A payment of an order that had ended is recorded, but it is no success: it is to be paid back, once.
    async function pay(orderId, payment, options) {
        const result = await post(`/orders/${orderId}/pay`, payment, { ...options, member: 'payments' });
        if (result.outcome !== 'done') {
            return result;
        }
        const order = result.body;
        const recorded = order.payments.find(({ reference }) => reference === payment.reference);
        if (recorded === undefined) {
            return { outcome: 'unknown', code: 'NOT_OURS', orderId };
        }
        return recorded.state === 'to_refund' ? { outcome: 'ended', orderId, order } : result;
    }

    async function buy(voucherId, { key = makeKey(), ...options } = {}) {
        const { signal } = options;
        const call = (path, request) => api.call(path, { ...request, signal });
        let ticket;
        const takeTicket = (isNeeded) => {
            if (isNeeded) {
                ticket = getTicket({ call }, { id: voucherId }, { signal }).then(({ text }) => text);
                ticket.catch(() => {
                    ticket = undefined;
                });
            }
            return ticket;
        };
        const result = await placeOrder({ call }, voucherId, { ...options, key, takeTicket });
        const isOpen = result.outcome === 'accepted' || (result.outcome === 'won' && result.order === undefined);
        const settled = isOpen ? await settle(result.orderId, signal) : result;
        return { ...result, ...settled, code: settled.code ?? result.code, key };
    }

    async function settle(orderId, signal) {
        const unknown = (code) => ({ outcome: 'unknown', code, orderId });
        try {
            const order = await followOrder(api, orderId, { signal });
            if (order === null && signal?.aborted) {
                return { outcome: 'accepted', code: 'ABORTED', orderId };
            }
            return order === null ? unknown('NOT_FOUND') : outcomeOf(order);
        } catch (problem) {
            return unknown(problem.code);
        }
    }

    function watch(ids, onEvent, options) {
        const hear = (event) => {
            clock.atLeast(Date.parse(event.server_time));
            onEvent(event);
        };
        return watchVouchers(api, ids, hear, { ...options, headers: credentials });
    }

    const query = (values) => {
        const given = Object.entries(values).filter(([, value]) => value !== undefined);
        return given.length > 0 ? `?${new URLSearchParams(given)}` : '';
    };

    return {
        buy,
        follow: (orderId, options) => followOrder(api, orderId, options),
        watch,
        now: () => clock.now(),
        order: (orderId, options) => read(`/orders/${orderId}`, { ...options, member: 'voucher_id' }),
        orders: ({ limit, cursor, ...options } = {}) =>
            read(`/orders${query({ limit, cursor })}`, { ...options, member: 'orders' }),
        voucher: (voucherId, options) => read(`/vouchers/${voucherId}`, { ...options, member: 'phase' }),
        vouchers: ({ limit, cursor, ...options } = {}) =>
            read(`/vouchers${query({ limit, cursor })}`, { ...options, member: 'vouchers' }),
        cancel: (orderId, options) =>
            post(`/orders/${orderId}/cancel`, undefined, { ...options, member: 'voucher_id' }),
        pay,
        refund: (orderId, details, options) =>
            post(`/orders/${orderId}/refund`, details, { ...options, member: 'voucher_id' }),
        createVoucher: (terms, options) => command('/admin/vouchers', terms, { ...options, member: 'phase' }),
        settlement: (voucherId, options) =>
            read(`/admin/vouchers/${voucherId}/settlement`, { ...options, member: 'verdict' }),
        events: ({ after, limit, wait, only, ...options } = {}) =>
            read(`/admin/events${query({ after, limit, wait, only })}`, {
                ...options,
                member: 'events',
                ...(wait && { timeoutMs: (wait + 10) * 1000 }),
            }),
        read,
        command,
    };
}
