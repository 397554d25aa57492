// Whether Redis and PostgreSQL agree about a voucher, from one answer of GET /admin/vouchers/{id}. Pure.
//
// The answer reads one store after the other, so while orders are on their way the two differ, and that is right. What
// stays when nothing is on its way, in two checks one after the other, is drift.

const COMPARABLE = ['open', 'paused', 'closed'];

// `before`: what this returned for the check before; null: there was none. Gives {state, drift, journal, checks}, the
// state `even`, `moving`, `differs` or `unknown`; drift is Redis's units less PostgreSQL's, null if it is not known;
// checks is how many in a row have found it at rest.
export function booksOf(voucher, before = null) {
    const redis = voucher.redis ?? { state: 'unknown' };
    const journal = redis.journal ?? null;
    if (!COMPARABLE.includes(redis.state) || !Number.isInteger(redis.stock) || !Number.isInteger(journal)) {
        return { state: 'unknown', drift: null, journal, checks: 0 };
    }
    const drift = redis.stock - voucher.remaining;
    if (drift === 0) {
        return { state: journal === 0 ? 'even' : 'moving', drift, journal, checks: 0 };
    }
    const checks = journal > 0 ? 0 : before?.drift === drift ? before.checks + 1 : 1;
    return { state: checks > 1 ? 'differs' : 'moving', drift, journal, checks };
}
