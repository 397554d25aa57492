// What keeps a sale from selling, the books from balancing, or a receiver of webhooks from its events, from all that the
// page has read. Pure.
import { awayOf, gaugeOf, shortOf } from './frame.js';

// Each kind has its words in words.js: name_*, trouble_*, do_* and more_*. Of STOPS nothing can be bought or committed
// meanwhile; the rest needs somebody. The worst come first.
//
// While a store is away nothing expires, is settled or compared: FOLLOW_FROM_AWAY are left out, as their cause is said.
export const STOPS = ['service_away', 'redis_away', 'postgresql_away', 'not_ready', 'tickets_off'];
export const KINDS = [...STOPS, 'books_differ', 'dead_letters', 'instance_missed', 'expiry_late', 'expiry_held', 'journal_old',
    'audit_stalls', 'webhook_stopped', 'webhook_failing', 'webhook_behind'];

const FOLLOW_FROM_AWAY = ['expiry_late', 'journal_old', 'audit_stalls'];
const JOURNAL_OLD_S = 60;
const AUDIT_STALLS_S = 30;
const WEBHOOK_BEHIND_MS = 60000;
const oldest = (a, b) => Math.max(a, b);

// away_ms: since when nothing has answered; null: it answers. frames: frame.js, of the processes that have answered.
// instances: createSeen(), shown: of vouchers.js, troubles: of GET /admin/troubles, receivers: receiversBehind(); null: not
// read yet. Gives [{kind, values, vouchers}].
export function troublesOf({ away_ms, frames, instances, shown, troubles, receivers }) {
    const found = away_ms !== null ? { service_away: { values: { since: away_ms } } } : {
        ...ofHealth(frames),
        ...ofVouchers(frames, shown ?? { ticketed: [], differing: [] }, troubles ?? []),
        instance_missed: missedOf((instances ?? []).filter(({ state }) => state === 'missed')),
        ...ofWebhooks(receivers ?? []),
    };
    const isAway = found.redis_away || found.postgresql_away;
    const kinds = KINDS.filter((kind) => found[kind] && !(isAway && FOLLOW_FROM_AWAY.includes(kind)));
    return kinds.flatMap((kind) => [found[kind]].flat().map((one) => ({ kind, values: {}, vouchers: [], ...one })));
}

// The receivers of GET /admin/webhooks that do not take their events, or lack some for a minute: [{kind, receiver, since,
// why}]. With several shards one has several rows, of which the worst is said. now_ms: of the service, when it answered,
// so that none falls behind only because the page reads nothing new.
export function receiversBehind(rows, now_ms) {
    const found = new Map();
    const isWorse = (one, other) => (KINDS.indexOf(one.kind) - KINDS.indexOf(other.kind) || one.since - other.since) < 0;
    for (const { name: receiver, state, since, why, unsent_since: unsent } of rows) {
        const kind = `webhook_${state === 'sending' ? 'behind' : state}`;
        const row = { kind, receiver, since: Date.parse(unsent ?? since), why };
        const is = state !== 'sending' || (unsent !== undefined && now_ms - row.since > WEBHOOK_BEHIND_MS);
        if (is && (!found.has(receiver) || isWorse(row, found.get(receiver)))) {
            found.set(receiver, row);
        }
    }
    return [...found.values()];
}

// How sales are: `well`; `books`, which need somebody; `waits`: orders are accepted, and none is committed; `stops`:
// nothing can be bought, wholly or in part. troubles: of troublesOf(); null: not known yet.
export function gradeOf(troubles) {
    if (troubles === null) {
        return 'unknown';
    }
    const stops = troubles.map(({ kind }) => kind).filter((kind) => STOPS.includes(kind));
    if (stops.length > 0) {
        return stops.every((kind) => kind === 'postgresql_away') ? 'waits' : 'stops';
    }
    return troubles.length === 0 ? 'well' : 'books';
}

function ofHealth(frames) {
    const away = (store) => (frames.some((frame) => shortOf(frame, store)) ? { values: { servers: awayOf(frames, store) } } : null);
    const older = (name, than_s) => {
        const age_s = gaugeOf(frames, name, oldest);
        return age_s > than_s ? { values: { age_s } } : null;
    };
    const redis_away = away('redis'), postgresql_away = away('postgresql');
    if (postgresql_away !== null) {
        postgresql_away.values.waiting = gaugeOf(frames, 'orders') ?? 0;
        postgresql_away.values.age_s = gaugeOf(frames, 'journal_oldest', oldest) ?? 0;
    }
    const unready = frames.some(({ gauges }) => gauges.reactors_ready < gauges.reactors);
    return {
        redis_away,
        postgresql_away,
        not_ready: unready && redis_away === null && postgresql_away === null ? {} : null,
        journal_old: older('journal_oldest', JOURNAL_OLD_S),
        audit_stalls: older('round_age', AUDIT_STALLS_S),
    };
}

// A process audits a part of the vouchers; of the others the page knows what it has compared itself. A dead letter holds
// units in Redis alone, so its voucher is no difference.
function ofVouchers(frames, shown, troubles) {
    const listed = (what) => troubles.filter((one) => one.what === what);
    const letters = listed('DEAD_LETTERS'), late = listed('EXPIRY_LATE');
    const held = letters.map((one) => one.voucher_id);
    const differing = new Set([...frames.flatMap((one) => one.differing), ...shown.differing.filter((id) => !held.includes(id))]);
    return {
        tickets_off: frames.some(({ gauges }) => gauges.tickets_on === 0) ? some(shown.ticketed) : null,
        books_differ: some([...differing]),
        dead_letters: some(held, { count: letters.reduce((sum, one) => sum + one.count, 0) }),
        expiry_late: some(late.map((one) => one.voucher_id), { age_s: Math.max(0, ...late.map((one) => one.late_s)) }),
        expiry_held: holdsOf(troubles),
    };
}

// Whose unpaid orders do not expire, as an operator holds that: ids; undefined: of all vouchers.
export const heldOf = (troubles) => troubles.filter(({ what }) => what === 'EXPIRY_HELD').map(({ voucher_id: id }) => id);

// A line for all vouchers, which each shard lists, and one for those that are held by themselves.
function holdsOf(troubles) {
    const holds = troubles.filter(({ what }) => what === 'EXPIRY_HELD');
    const [all, single] = [true, false].map((is) => holds.filter(({ voucher_id: id }) => (id === undefined) === is));
    return [all, single].filter((rows) => rows.length > 0).map((rows) => ({
        values: { names: [...new Set(rows.map(({ by }) => by))], since: Math.min(...rows.map(({ since }) => Date.parse(since))) },
        vouchers: heldOf(rows).filter((id) => id !== undefined),
    }));
}

// A line for each.
function ofWebhooks(receivers) {
    const kinds = [...new Set(receivers.map(({ kind }) => kind))];
    return Object.fromEntries(kinds.map((one) => [one, receivers.filter(({ kind }) => kind === one)
        .map(({ receiver, since, why }) => ({ values: { receiver, since, why } }))]));
}

function missedOf(missed) {
    const age_s = Math.max(...missed.map(({ gone_ms }) => gone_ms)) / 1000;
    return missed.length === 0 ? null : { values: { names: missed.map(({ name }) => name), age_s } };
}

const some = (vouchers, values = {}) => (vouchers.length === 0 ? null : { vouchers, values });
