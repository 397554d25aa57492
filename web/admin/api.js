// Calls of the service in the name of one token. An answer is what came, whatever it
// says; a caller decides what it means (answer.js), so nothing is thrown.
//   {status, code, body, text, etag}: status 0: nothing came, and the outcome is not known; code null: the answer is not
//   a problem of the service's own, such as a gateway's page.

import { makeKey } from '../client/purchase.js';

const TIMEOUT_MS = 10000;

// ended(): the service does not take the token any more.
export function createAdminApi({ token, ended = () => {}, fetch = globalThis.fetch.bind(globalThis) }) {
    return async function call(path, { method = 'GET', json, key, etag, timeout_ms = TIMEOUT_MS } = {}) {
        const headers = { Authorization: `Bearer ${token}`, Accept: 'application/json, text/plain' };
        if (key !== undefined) {
            headers['Idempotency-Key'] = key;
        }
        if (etag !== undefined) {
            headers['If-Match'] = etag;
        }
        if (json !== undefined) {
            headers['Content-Type'] = 'application/json';
        }
        const answer = await answerOf(fetch, path, { method, headers, body: json }, timeout_ms);
        if (answer.code === 'UNAUTHENTICATED') {
            ended();
        }
        return answer;
    };
}

async function answerOf(fetch, path, request, timeout_ms) {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), timeout_ms);
    try {
        const response = await fetch(path, { ...request, cache: 'no-store', redirect: 'error', signal: abort.signal });
        const text = await response.text();
        const body = bodyOf(text);
        const code = !response.ok && typeof body?.code === 'string' ? body.code : null;
        return { status: response.status, code, body, text, etag: response.headers.get('ETag') };
    } catch {
        return { status: 0, code: null, body: null, text: '', etag: null };
    } finally {
        clearTimeout(timer);
    }
}

function bodyOf(text) {
    try {
        return JSON.parse(text);
    } catch {
        return null;
    }
}

// An Idempotency-Key for each request that an operator confirms: the same as long as the request stays the same, so
// that trying again does it once; another one for another request, to which the service would refuse the old one.
export function createKeys() {
    let last = null;
    return function keyOf(request) {
        if (last?.request !== request) {
            last = { request, key: `dashboard-${makeKey()}` };
        }
        return last.key;
    };
}
