// A purchase, from its first question until the service has said what became of it.
import { AGAIN, insist, judge } from './outcome.js';

const START_SOON_MS = 5000; // a start that is no further away is waited for
const TIMEOUT_MS = 8000;
const TICKET_CODES = ['TICKET_REQUIRED', 'TICKET_INVALID', 'WORK_REQUIRED', 'WORK_INVALID'];

const OUTCOMES = {
    pending: 'accepted',
    waiting: 'waiting',
    unpaid: 'won',
    paid: 'won',
    refused: 'refused',
    cancelled: 'ended',
    expired: 'ended',
    refunded: 'ended',
};

// Of an order: `accepted` will become another one by itself, and soon; `waiting` has a place in the line, until the
// sale ends or its user leaves; `ended` was won once, or has left the line.
export function outcomeOf(order) {
    const { id: orderId, status, reason } = order;
    const outcome = OUTCOMES[status] ?? 'unknown';
    return { outcome, code: outcome === 'unknown' ? 'NOT_OURS' : reason, orderId, order };
}

export function judgePurchase(problem) {
    if (problem.code === 'ALREADY_ORDERED') {
        return { outcome: 'won', orderId: problem.body.order_id };
    }
    const judged = judge(problem);
    if (TICKET_CODES.includes(problem.code)) {
        return { ...judged, outcome: AGAIN, isAtOnce: true };
    }
    const isSoon = problem.code === 'NOT_STARTED' && problem.retryAfterMs <= START_SOON_MS;
    return isSoon ? { ...judged, outcome: AGAIN } : judged;
}

// Resolves with {outcome, code, orderId, order, ...}. One `key` for all tries, so each gets the first answer. `wait`:
// without a unit left the user joins the voucher's line, if it has one; `quantity` must be 1 then.
// `takeTicket(isNeeded)` gives a promise of a ticket's text, or undefined where none is known to be needed; `isNeeded`:
// the service has refused the one before. `onStep` hears of `asking`, and of `waiting` to ask again.
export function placeOrder(
    api,
    voucherId,
    {
        quantity = 1,
        wait = false,
        key = makeKey(),
        takeTicket = () => undefined,
        onStep = () => {},
        signal,
        ...more
    } = {},
) {
    let isNeeded = false;
    let isAsked = false;

    async function ask() {
        isAsked = false;
        const headers = { 'Idempotency-Key': key };
        const ticket = takeTicket(isNeeded);
        isNeeded = false;
        if (ticket !== undefined) {
            headers['X-Seckill-Ticket'] = await ticket;
        }
        if (signal?.aborted) {
            return { outcome: 'unknown', code: 'ABORTED' };
        }
        isAsked = true;
        onStep({ step: 'asking' });
        const json = { quantity, ...(wait && { wait }) };
        const options = { method: 'POST', headers, json, member: 'voucher_id', timeoutMs: TIMEOUT_MS };
        return outcomeOf((await api.call(`/seckill/${voucherId}`, options)).body);
    }

    function judging(problem) {
        isNeeded = TICKET_CODES.includes(problem.code);
        const judged = judgePurchase(problem);
        return isAsked ? judged : { ...judged, isLost: false, isKnown: false }; // it was the ticket's
    }

    return insist(ask, { ...more, judging, signal, onWait: (details) => onStep({ step: 'waiting', ...details }) });
}

// Tells a buyer's tries apart: the service looks a key up by user and voucher, so it is no secret.
export function makeKey() {
    return Array.from({ length: 4 }, () => Math.random().toString(36).slice(2, 10)).join('');
}
