// What becomes of an order.
import { Problem } from './api.js';
import { judge } from './outcome.js';
import { retryDelay, wait } from './retry.js';

const WAIT_S = 20;
const GONE = ['NOT_FOUND', 'ARCHIVED'];

// Asks for an order, and waits while its status is `status`. The service has a place for so many that wait: where it
// has none, the order is asked for without.
export async function askForChange(
    api,
    id,
    { status = 'pending', seconds = WAIT_S, pause = wait, random = Math.random, signal } = {},
) {
    try {
        const options = { member: 'voucher_id', timeoutMs: (seconds + 10) * 1000, signal };
        return (await api.call(`/orders/${id}?wait=${seconds}&while=${status}`, options)).body;
    } catch (problem) {
        if (problem.code !== 'OVERLOADED') {
            throw problem;
        }
        await pause(retryDelay(problem.retryAfterMs, 0, random), signal);
        return (await api.call(`/orders/${id}`, { member: 'voucher_id', signal })).body;
    }
}

// Resolves with the order once its status is not `status` any more: a pending one ends by itself (P5). null: there is
// no such order, or `signal` was aborted. Rejects with a Problem that asking again does not change, such as 401;
// `onTrouble(problem)` hears of any other, after which it asks again. `ask` replaces askForChange(), and `before()` is
// awaited before each question.
export async function followOrder(
    api,
    id,
    { ask = askForChange, before = async () => {}, onOrder, onTrouble, ...options } = {},
) {
    const { status = 'pending', signal, pause = wait, random = Math.random } = options;
    for (let failures = 0; ;) {
        await before();
        if (signal?.aborted) {
            return null;
        }
        let retryAfterMs;
        let delay = retryDelay(undefined, 0, random); // for a gateway that does not let it wait
        try {
            const order = await ask(api, id, options);
            failures = 0;
            onOrder?.(order);
            if (order.status !== status) {
                return order;
            }
        } catch (problem) {
            if (GONE.includes(problem.code)) {
                return null;
            }
            if (!(problem instanceof Problem) || judge(problem).outcome === 'refused') {
                throw problem;
            }
            if (!signal?.aborted) {
                onTrouble?.(problem);
            }
            ({ retryAfterMs } = problem);
            delay = retryDelay(retryAfterMs, failures++, random);
        }
        await pause(delay, signal, retryAfterMs === undefined);
    }
}
