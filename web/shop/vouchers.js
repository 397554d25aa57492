// What is known of the vouchers, and what of it a buyer is to see now.

const STREAM_COUNTS_MS = 5000; // so long what a stream said counts more than an answer, which may be a second old
const MARGIN_MOST_MS = 100;

// The states that a voucher is shown in.
export const PHASE = Object.freeze({
    LOADING: 'loading',
    UPCOMING: 'upcoming',
    OPEN: 'open',
    SOLD_OUT: 'sold_out',
    PAUSED: 'paused',
    ENDED: 'ended',
    UNKNOWN: 'unknown',
});

// `now` is the server's time; `room`, by how much it may be wrong, is waited for, so that nothing is sent before the
// start, but not longer than anyone notices.
export function phaseOf(voucher, now, room = 0) {
    if (voucher.state === 'closed' || voucher.state === 'retired') {
        return PHASE.ENDED;
    }
    if (now === undefined || !voucher.read) {
        return PHASE.UNKNOWN;
    }
    if (now >= voucher.endMs) {
        return PHASE.ENDED;
    }
    if (voucher.state === 'paused') {
        return PHASE.PAUSED;
    }
    if (now < opensAt(voucher, room)) {
        return PHASE.UPCOMING;
    }
    if (voucher.remaining === null) {
        return PHASE.UNKNOWN; // nothing can be bought, whatever was left
    }
    if (voucher.state === 'loading') {
        return PHASE.LOADING;
    }
    return voucher.remaining === 0 ? PHASE.SOLD_OUT : PHASE.OPEN;
}

export function opensAt(voucher, room = 0) {
    return voucher.beginMs + Math.min(room, MARGIN_MOST_MS);
}

// Those that can be bought first, then those that open next, then the rest, the newest first.
export function inOrder(vouchers, phase) {
    const rank = { open: 0, loading: 0, paused: 0, upcoming: 1, sold_out: 2, unknown: 3, ended: 4 };
    const soonest = (one, other) => one.beginMs - other.beginMs;
    const newest = (one, other) => (BigInt(one.id) < BigInt(other.id) ? 1 : -1);
    return [...vouchers].sort((one, other) => {
        const ranks = rank[phase(one)] - rank[phase(other)];
        return ranks || (phase(one) === PHASE.UPCOMING && soonest(one, other)) || newest(one, other);
    });
}

// `monotonic` as the clock's.
export function createVouchers(monotonic) {
    const known = new Map();

    // canSell: of the answer that `read` is from.
    function put(read, canSell = true) {
        const before = known.get(read.id);
        const streamed = before?.heardAt !== undefined && monotonic() - before.heardAt < STREAM_COUNTS_MS;
        known.set(read.id, {
            id: read.id,
            read: true,
            title: read.title,
            priceCents: read.price_cents,
            currency: read.currency,
            stock: read.stock,
            limit: read.limit,
            ticket: read.ticket,
            workBits: read.work_bits,
            offer: read.offer,
            beginMs: Date.parse(read.begin_at),
            endMs: Date.parse(read.end_at),
            remaining: streamed ? before.remaining : canSell ? read.remaining : null,
            state: streamed ? before.state : read.state,
            heardAt: before?.heardAt,
        });
    }

    return {
        get: (id) => known.get(id),
        all: () => [...known.values()],
        put,

        // An event of the voucher's stream.
        hear(id, event) {
            const voucher = known.get(id);
            if (voucher) {
                const { remaining, state } = event;
                known.set(id, { ...voucher, remaining, state, heardAt: monotonic() });
            }
        },
    };
}
