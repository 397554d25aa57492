// Events of vouchers: from the stream while it runs, else from the vouchers themselves, read now and then.
import { Problem } from './api.js';
import { judge } from './outcome.js';
import { retryDelay, wait } from './retry.js';

const AGAIN_FROM_MS = 1000;
const AGAIN_MOST_MS = 60000;
const POLL_MS = 3000;
const LAST = ['closed', 'retired'];
const UNKNOWN = ['UNKNOWN_VOUCHER', 'BAD_VOUCHER_ID'];
export const STREAM_MOST = 32; // vouchers of one stream
const STREAMS_MOST = 3; // of 8 that a user may have, and of 6 connections that a browser opens to a host without HTTP/2

// A stream of vouchers (a list of ids, at most STREAM_MOST). It is opened again after it broke, later each time, and
// never at the same time as all others that the same instance has served. `onTrouble(problem)` hears of each break;
// problem undefined: the service ended the stream. `headers()` gives the headers that it is opened with, or a promise
// of them. `hears(id)`: whether it runs, and has brought the state of the voucher. `leave(id)`: the voucher is not
// asked for again; the stream closes with the last one.
export function openStream(api, ids, { onEvent, onTrouble = () => {}, headers = () => ({}), random = Math.random }) {
    const ending = new AbortController();
    const wanted = new Set(ids);
    const heard = new Set();

    function leave(id) {
        wanted.delete(id);
        if (wanted.size === 0) {
            ending.abort();
        }
    }

    async function read() {
        const options = { headers: await headers(), signal: ending.signal };
        const events = await api.stream(`/vouchers/events?ids=${[...wanted]}`, options);
        for await (const event of events) {
            heard.add(event.voucher_id);
            if (LAST.includes(event.state)) {
                leave(event.voucher_id);
            }
            onEvent(event);
            if (ending.signal.aborted) {
                return;
            }
        }
    }

    async function keepReading() {
        for (let failures = 1; !ending.signal.aborted; failures++) {
            let problem;
            await read().catch((caught) => {
                problem = caught;
            });
            if (ending.signal.aborted) {
                return;
            }
            failures = heard.size > 0 ? 1 : failures;
            heard.clear();
            onTrouble(problem);
            const most = Math.min(AGAIN_MOST_MS, AGAIN_FROM_MS * 2 ** failures);
            const delay = Math.max(most / 2, problem?.retryAfterMs ?? 0);
            await wait(delay + (random() * most) / 2, ending.signal, problem?.retryAfterMs === undefined);
        }
    }

    keepReading();
    return { hears: (id) => heard.has(id), leave, close: () => ending.abort() };
}

// Calls `onEvent` with each state of a voucher (its id) or of several (a list of ids), at once and whenever it changes,
// until each sale is over (`phase` is `ended`) or `signal` is aborted. Of a list, a voucher that does not exist is
// over, in `state` unknown. Rejects with a Problem that asking again does not change, such as 401, and 404 of a single
// voucher. `onTrouble(problem)` hears of any other, after which it asks again: what is known may be old.
export async function watchVouchers(
    api,
    ids,
    onEvent,
    { signal, headers, onTrouble = () => {}, random = Math.random, pollMs = POLL_MS } = {},
) {
    const open = new Set([ids].flat().map(String));
    const most = STREAMS_MOST * STREAM_MOST;
    if (open.size === 0 || open.size > most) {
        throw new RangeError(`1 to ${most} vouchers can be watched, not ${open.size}`);
    }
    let pause = new AbortController();

    function hear(event) {
        if (!open.has(event.voucher_id)) {
            return;
        }
        if (event.phase === 'ended') {
            open.delete(event.voucher_id);
            streams.forEach((stream) => stream.leave(event.voucher_id));
        }
        onEvent(event);
        if (open.size === 0) {
            pause.abort();
        }
    }

    const isQuiet = (id) => open.has(id) && !streams.some((stream) => stream.hears(id));

    // While nothing can be sold, `remaining` is PostgreSQL's number; a stream's is null then.
    function show({ id, state, phase, remaining }, { can_sell, server_time }) {
        if (isQuiet(id)) {
            hear({ voucher_id: id, state, phase, remaining: can_sell === false ? null : remaining, server_time });
        }
    }

    // Those that the stream has not brought. The list has several in one call, but none that is over.
    async function ask() {
        let quiet = [...open].filter(isQuiet);
        if (quiet.length > 1) {
            const { body } = await api.call('/vouchers', { member: 'vouchers', signal });
            body.vouchers.forEach((voucher) => show(voucher, body));
            quiet = quiet.filter((id) => !body.vouchers.some((voucher) => voucher.id === id));
        }
        for (const id of quiet.filter(isQuiet)) {
            await askOne(id);
        }
    }

    async function askOne(id) {
        try {
            const { body } = await api.call(`/vouchers/${id}`, { member: 'phase', signal });
            show(body, body);
        } catch (problem) {
            if (!Array.isArray(ids) || !UNKNOWN.includes(problem.code)) {
                throw problem;
            }
            hear({ voucher_id: id, state: 'unknown', phase: 'ended', remaining: null });
        }
    }

    const abort = () => pause.abort();
    const on = { headers, random, onEvent: hear, onTrouble: abort };
    const all = [...open];
    const streams = [];
    for (let from = 0; from < all.length; from += STREAM_MOST) {
        streams.push(openStream(api, all.slice(from, from + STREAM_MOST), on));
    }
    signal?.addEventListener('abort', abort);
    try {
        for (let failures = 0; open.size > 0 && !signal?.aborted;) {
            pause = new AbortController();
            let retryAfterMs;
            let delay = pollMs * (0.8 + 0.4 * random());
            try {
                await ask();
                failures = 0;
            } catch (problem) {
                if (!(problem instanceof Problem) || judge(problem).outcome === 'refused') {
                    throw problem;
                }
                if (!signal?.aborted) {
                    onTrouble(problem);
                }
                ({ retryAfterMs } = problem);
                delay = retryDelay(retryAfterMs, failures++, random);
            }
            if (open.size > 0 && !signal?.aborted) {
                await wait(delay, pause.signal, retryAfterMs === undefined);
            }
        }
    } finally {
        signal?.removeEventListener('abort', abort);
        streams.forEach((stream) => stream.close());
    }
}
