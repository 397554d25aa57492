// When to try again. A crowd that was refused together must not come back together, so there is always jitter, and
// never less than the server asked for.

const FIRST_MS = 400;
const MOST_MS = 8000;
const SPREAD = 0.5;

// `retryAfterMs` undefined: the server named no time. `attempt` counts from 0.
export function retryDelay(retryAfterMs, attempt, random = Math.random) {
    if (retryAfterMs !== undefined) {
        return retryAfterMs + random() * Math.max(250, retryAfterMs * SPREAD);
    }
    const most = Math.min(MOST_MS, FIRST_MS * 2 ** attempt);
    return most / 2 + (random() * most) / 2;
}

// The field's value in ms; undefined: there is none, or it is no number of seconds. A date is not used by the service.
export function readRetryAfter(value) {
    return /^[0-9]{1,9}$/.test(value ?? '') ? Number(value) * 1000 : undefined;
}

// Resolves after `ms`, at once if `signal` is aborted. `endsOnline`: also when the browser has a network again.
export function wait(ms, signal, endsOnline = false) {
    return new Promise((resolve) => {
        const done = () => {
            clearTimeout(timer);
            signal?.removeEventListener('abort', done);
            globalThis.removeEventListener?.('online', done);
            resolve();
        };
        const timer = setTimeout(done, ms);
        signal?.addEventListener('abort', done);
        if (endsOnline) {
            globalThis.addEventListener?.('online', done);
        }
        if (signal?.aborted) {
            done();
        }
    });
}
