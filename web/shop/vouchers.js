// What is known of the vouchers, and what of it a buyer is to see now.

const STREAM_COUNTS_MS = 5000; // so long what a stream said counts more than an answer, which may be a second old
const MARGIN_MOST_MS = 100;

// The service's phases (docs/http.md), and UNKNOWN: whether something can be bought is not known now.
export const PHASE = Object.freeze({
    UPCOMING: 'upcoming',
    ON_SALE: 'on_sale',
    SOLD_OUT: 'sold_out',
    PAUSED: 'paused',
    ENDED: 'ended',
    UNKNOWN: 'unknown',
});

// The phase that the service has named, moved on where its time has come since: a page that waits for an answer would
// open late. `now` is the server's time; `room`, by how much it may be wrong, is waited for, so that nothing is sent
// before the start, but not longer than anyone notices.
export function phaseOf(voucher, now, room = 0) {
    if (voucher.phase === PHASE.ENDED || now >= voucher.endMs) {
        return PHASE.ENDED;
    }
    if (now === undefined || !voucher.read) {
        return PHASE.UNKNOWN;
    }
    if (voucher.phase === PHASE.PAUSED || (voucher.phase === PHASE.UPCOMING && now < opensAt(voucher, room))) {
        return voucher.phase;
    }
    if (!voucher.canSell) {
        return PHASE.UNKNOWN; // nothing can be bought, whatever was left
    }
    return voucher.phase === PHASE.UPCOMING ? PHASE.ON_SALE : voucher.phase;
}

// Whether one may wait for a unit.
export const canJoin = (voucher, phase) => phase === PHASE.SOLD_OUT && voucher.waitlist > 0;

export function opensAt(voucher, room = 0) {
    return voucher.beginMs + Math.min(room, MARGIN_MOST_MS);
}

// Those that can be bought first, then those that open next, then the rest, the newest first.
export function inOrder(vouchers, phase) {
    const rank = { on_sale: 0, upcoming: 1, paused: 2, sold_out: 3, unknown: 4, ended: 5 };
    const soonest = (one, other) => one.beginMs - other.beginMs;
    const newest = (one, other) => (BigInt(one.id) < BigInt(other.id) ? 1 : -1);
    return [...vouchers].sort((one, other) => {
        const ranks = rank[phase(one)] - rank[phase(other)];
        return ranks || (phase(one) === PHASE.UPCOMING && soonest(one, other)) || newest(one, other);
    });
}

// Those that end first, of those that have not ended.
export function byEnd(vouchers, phase) {
    const isOver = (voucher) => Number(phase(voucher) === PHASE.ENDED);
    return [...vouchers].sort((one, other) => isOver(one) - isOver(other) || one.endMs - other.endMs);
}

// Whether all words of the text are in what is shown of the voucher.
export function matches({ title, description }, text) {
    const shown = `${title} ${description}`.toLocaleLowerCase();
    return text.toLocaleLowerCase().split(/\s+/).every((word) => shown.includes(word));
}

// `monotonic` as the clock's. `pictureOrigins()`: from which the page's policy lets pictures come; an origin may have
// left the list after a voucher got its picture.
export function createVouchers(monotonic, pictureOrigins) {
    const known = new Map();

    // canSell: of the answer that `read` is from. One that is `stale` may not know how much remains, and sells.
    function put(read, canSell = true) {
        const before = known.get(read.id);
        const streamed = before?.heardAt !== undefined && monotonic() - before.heardAt < STREAM_COUNTS_MS;
        known.set(read.id, {
            id: read.id,
            read: true,
            title: read.title,
            description: read.description ?? '',
            picture: pictureOrigins().some((origin) => read.picture?.startsWith(`${origin}/`)) ? read.picture : null,
            priceCents: read.price_cents,
            currency: read.currency,
            stock: read.stock,
            limit: read.limit,
            scope: read.scope ?? read.id, // an instance of an older version does not name it
            ticket: read.ticket,
            workBits: read.work_bits,
            offer: read.offer,
            beginMs: Date.parse(read.begin_at),
            endMs: Date.parse(read.end_at),
            moreMs: Date.parse(read.more_at), // NaN: it has none
            waitlist: read.waitlist ?? 0, // so many may wait
            waiting: read.waiting ?? 0,
            canSell: streamed ? before.canSell : canSell,
            remaining: streamed ? before.remaining : canSell ? read.remaining : null,
            phase: streamed ? before.phase : read.phase,
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
                const { remaining, phase } = event;
                known.set(id, { ...voucher, canSell: remaining !== null, remaining, phase, heardAt: monotonic() });
            }
        },
    };
}
