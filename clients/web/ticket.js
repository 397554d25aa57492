// Purchase tickets, and the work that one may take: a nonce of which SHA-256 of challenge, dot and nonce begins with so
// many bits 0. It is searched for in slices, between which the page stays alive.
import { Problem } from './api.js';
import { createHasher } from './sha256.js';

const SLICE_MS = 8;
const TRIES_BETWEEN_CHECKS = 256;
const BLOCK_BYTES = 64;
const KEEP_BACK_MS = 10000; // a ticket that ends so soon is not begun with

// Asks for a ticket and does what it takes. Rejects with a Problem.
export async function getTicket(api, voucher, { signal, breathe = nextTurn } = {}) {
    const path = `/vouchers/${voucher.id}/ticket`;
    const { body: task } = await api.call(path, { member: 'work_bits', signal });
    const json = task.challenge === undefined ? undefined : await solve(task, { signal, breathe });
    const { body } = await api.call(path, { method: 'POST', json, member: 'ticket', signal });
    return { text: body.ticket, offer: voucher.offer, expiresMs: Date.parse(body.expires_at) };
}

export function isTicketGood(ticket, voucher, now) {
    return (
        Boolean(ticket) && ticket.offer === voucher.offer && now !== undefined && ticket.expiresMs - now > KEEP_BACK_MS
    );
}

// Challenge and dot are filled up to a whole block by zeros that belong to the nonce, so that a try mixes one block.
export async function solve({ challenge, work_bits: bits }, { signal, breathe = nextTurn } = {}) {
    const begin = `${challenge}.`;
    const filling = '0'.repeat((BLOCK_BYTES - (begin.length % BLOCK_BYTES)) % BLOCK_BYTES);
    const digest = createHasher(new TextEncoder().encode(begin + filling));
    let until = performance.now() + SLICE_MS;
    for (let n = 0; ; n++) {
        if (startsWithZeros(digest(String(n)), bits)) {
            return { challenge, nonce: filling + n };
        }
        if (n % TRIES_BETWEEN_CHECKS === 0 && performance.now() > until) {
            await breathe();
            if (signal?.aborted) {
                throw new Problem('ABORTED');
            }
            until = performance.now() + SLICE_MS;
        }
    }
}

// At most 24 bits, so the first word has them all.
function startsWithZeros(words, bits) {
    return Math.clz32(words[0]) >= bits;
}

// A message, because timers of hidden tabs are slowed down.
function nextTurn() {
    return new Promise((resolve) => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => {
            port1.close();
            resolve();
        };
        port2.postMessage(null);
    });
}
