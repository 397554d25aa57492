// What an answer means for the command that it answers, and when to ask again.
//
// A command that was not answered may have been carried out. Asking again is safe (a purchase is, and every move is),
// but from then on only an answer that was given after looking at the order is a refusal: any other one, such as 401,
// tells nothing about the first try. Where that cannot be learnt, the outcome is `unknown`.
import { Problem } from './api.js';
import { retryDelay, wait } from './retry.js';

export const AGAIN = 'again';
const TRIES_MOST = 12;
const LONGEST_WAIT_MS = 60000; // for what takes longer the caller decides whether to wait

// `isLost`: the command may have been carried out all the same. `isKnown`: the service has looked at the order. A page
// of somebody else's, as of a gateway, may stand for any answer of the service.
export function judge({ code, status }) {
    const isOther = code === 'NO_ANSWER' || code === 'NOT_OURS';
    const isClients = status >= 400 && status < 500;
    if (code === 'TICKETS_OFF') {
        return { outcome: 'refused', isLost: false, isKnown: false };
    }
    if (code === 'PENDING' || code === 'NO_LOGIN' || [408, 425, 429].includes(status)) {
        return { outcome: AGAIN, isLost: isOther, isKnown: false };
    }
    if (isClients) {
        return { outcome: 'refused', isLost: isOther, isKnown: status === 409 && !isOther };
    }
    return { outcome: AGAIN, isLost: true, isKnown: false };
}

// Asks until there is an outcome: what `ask()` resolves with, or {outcome: 'refused' | 'unknown', code, status,
// retryAfterMs, body, cause}. `isDoubtful`: the same was asked before, and not answered. `judging` replaces judge(),
// `onWait` hears of each pause, and `pause` waits, as wait() does.
export async function insist(
    ask,
    { judging = judge, isDoubtful = false, signal, pause = wait, random = Math.random, onWait = () => {} } = {},
) {
    let isLost = isDoubtful;
    for (let tries = 1; ; tries++) {
        let problem;
        try {
            return await ask();
        } catch (caught) {
            problem = caught;
        }
        if (!(problem instanceof Problem)) {
            throw problem; // a mistake in the program
        }
        const { code, status, retryAfterMs, body, cause } = problem;
        const judged = { code, status, retryAfterMs, body, cause, ...judging(problem) };
        isLost ||= judged.isLost && judged.outcome === AGAIN;
        if (judged.outcome !== AGAIN || tries === TRIES_MOST || retryAfterMs > LONGEST_WAIT_MS) {
            return conclude(judged, isLost);
        }
        const delay = judged.isAtOnce ? 0 : retryDelay(retryAfterMs, tries - 1, random);
        onWait({ code, retryAfterMs: delay, cause });
        await pause(delay, signal, retryAfterMs === undefined);
        if (signal?.aborted) {
            return { outcome: 'unknown', code: 'ABORTED', cause };
        }
    }
}

function conclude({ outcome, isLost, isKnown, isAtOnce, ...rest }, wasLost) {
    if (outcome !== AGAIN && outcome !== 'refused') {
        return { outcome, ...rest };
    }
    return { outcome: isLost || (wasLost && !isKnown) ? 'unknown' : 'refused', ...rest };
}
