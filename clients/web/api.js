// Calls of the service: a time-out for each, problem+json as an Error with the service's code, and every answer's
// server time to the clock. What to do about a failure is the caller's decision.
import { readRetryAfter } from './retry.js';

const TIMEOUT_MS = 10000;
const SILENCE_MS = 40000; // the service writes into a stream every 15 s at least

// `code` is the service's, or NO_ANSWER (nothing came: the outcome is not known), NOT_OURS (something else answered, as
// a gateway does with a page or JSON of its own) or NO_LOGIN (nothing was sent, because the headers that say who asks
// could not be had). `cause` is what the caller's own `headers` or `fetch` has thrown.
export class Problem extends Error {
    constructor(code, { status = 0, retryAfterMs, body = {}, cause } = {}) {
        super(`${code} (${status})`, { cause });
        this.name = 'Problem';
        this.code = code;
        this.status = status;
        this.retryAfterMs = retryAfterMs;
        this.body = body;
    }
}

// `url` is where the service is. `credentials()` gives the headers that say who asks, or a promise of them; `clock` may
// be missing.
export function createApi({
    url = '',
    credentials = () => ({}),
    clock,
    fetch = globalThis.fetch.bind(globalThis),
} = {}) {
    const base = url.replace(/\/+$/, '');

    // Resolves with {status, body}, rejects with a Problem. `member`: one that the service's answer has. `cache`: of
    // fetch(); a gateway's page may be one that caches keep.
    async function call(path, options = {}) {
        const { method = 'GET', json, headers = {}, member, timeoutMs = TIMEOUT_MS, cache = 'no-store' } = options;
        const ending = endsAfter(timeoutMs, options.signal);
        try {
            const login = await loginOf(credentials, ending.signal);
            const request = { method, cache, headers: { ...login, ...headers }, signal: ending.signal };
            if (json !== undefined) {
                request.headers['Content-Type'] = 'application/json';
                request.body = JSON.stringify(json);
            }
            return await answerOf(path, request, member);
        } finally {
            ending.clear();
        }
    }

    async function answerOf(path, request, member) {
        let response, received, text;
        const sent = clock?.monotonic();
        try {
            response = await fetch(base + path, request);
            received = clock?.monotonic();
            text = await response.text();
        } catch (cause) {
            throw new Problem('NO_ANSWER', { cause });
        }
        const body = readJson(text);
        if (clock && typeof body?.server_time === 'string') {
            clock.sample(Date.parse(body.server_time), sent, received);
        }
        if (response.ok && body instanceof Object && (member === undefined || member in body)) {
            return { status: response.status, body };
        }
        throw problemOf(response, body);
    }

    // Resolves with the events of a stream as they come, once the service has begun it; rejects with a Problem, as the
    // iteration does when the stream breaks. It ends when the service ends it. All see the same, so `headers` are only
    // for a gateway that wants a login.
    async function stream(path, { headers = {}, signal } = {}) {
        const silence = endsAfter(SILENCE_MS, signal);
        try {
            const request = { cache: 'no-store', headers: { ...headers, Accept: 'text/event-stream' } };
            const response = await fetch(base + path, { ...request, signal: silence.signal });
            if (response.ok && /^text\/event-stream\b/.test(response.headers.get('Content-Type'))) {
                return eventsOf(response.body.getReader(), silence);
            }
            silence.clear();
            throw problemOf(response, readJson(await response.text()));
        } catch (problem) {
            silence.clear();
            throw problem instanceof Problem ? problem : new Problem('NO_ANSWER');
        }
    }

    return { call, stream };
}

// A login may be away, or not answer.
function loginOf(credentials, signal) {
    return new Promise((resolve, reject) => {
        const fail = (cause) => reject(new Problem('NO_LOGIN', { cause }));
        signal.addEventListener('abort', () => fail(signal.reason));
        if (signal.aborted) {
            fail(signal.reason);
        }
        new Promise((given) => given(credentials())).then(resolve, fail);
    });
}

// The service writes an event as one line `data:`.
async function* eventsOf(reader, silence) {
    const decoder = new TextDecoder();
    let text = '';
    try {
        for (;;) {
            const { value, done } = await reader.read();
            if (done) {
                return;
            }
            silence.restart();
            text += decoder.decode(value, { stream: true });
            const lines = text.split('\n');
            text = lines.pop();
            yield* lines.filter((line) => line.startsWith('data:')).map((line) => JSON.parse(line.slice(5)));
        }
    } catch {
        throw new Problem('NO_ANSWER');
    } finally {
        silence.clear();
        reader.cancel().catch(() => {});
    }
}

function problemOf(response, body) {
    const retryAfterMs = readRetryAfter(response.headers.get('Retry-After'));
    const ours = !response.ok && typeof body?.code === 'string';
    const details = { status: response.status, retryAfterMs, body: ours ? body : {} };
    return new Problem(ours ? body.code : 'NOT_OURS', details);
}

function readJson(text) {
    try {
        return JSON.parse(text);
    } catch {
        return undefined;
    }
}

function endsAfter(timeoutMs, signal) {
    const controller = new AbortController();
    const abort = () => controller.abort();
    let timer = setTimeout(abort, timeoutMs);
    signal?.addEventListener('abort', abort);
    if (signal?.aborted) {
        abort();
    }
    return {
        signal: controller.signal,
        restart() {
            clearTimeout(timer);
            timer = setTimeout(abort, timeoutMs);
        },
        clear() {
            clearTimeout(timer);
            signal?.removeEventListener('abort', abort);
        },
    };
}
