// Whether Redis and PostgreSQL agree about a voucher, from one answer of GET /admin/vouchers/{id}. Pure.
//
// The answer reads one store after the other, so while orders are on their way the two differ, and that is right. What
// stays when nothing is on its way, in two checks one after the other, is drift.

const COMPARABLE = ['open', 'paused', 'closed'];

// `before`: what this returned for the check before; null: there was none. Gives {state, drift, journal}, the state
// `even`, `moving`, `differs` or `unknown`; drift is Redis's units less PostgreSQL's, null if it is not known.
export function booksOf(voucher, before = null) {
    const redis = voucher.redis ?? { state: 'unknown' };
    const journal = redis.journal ?? null;
    if (!COMPARABLE.includes(redis.state) || !Number.isInteger(redis.stock) || !Number.isInteger(journal)) {
        return { state: 'unknown', drift: null, journal };
    }
    const drift = redis.stock - voucher.remaining;
    if (drift === 0) {
        return { state: journal === 0 ? 'even' : 'moving', drift, journal };
    }
    const again = before !== null && before.drift === drift && before.journal === 0;
    return { state: journal === 0 && again ? 'differs' : 'moving', drift, journal };
}
