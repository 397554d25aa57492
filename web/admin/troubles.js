// What keeps a sale from selling, or the books from balancing, from all that the page has read. Pure.
import { awayOf } from './frame.js';

// Each kind has its words in words.js: name_*, trouble_*, do_* and more_*. Of STOPS nothing can be bought or committed
// meanwhile; of the rest the books need somebody. The worst come first.
//
// While a store is away nothing expires, is settled or compared: FOLLOW_FROM_AWAY are left out, as their cause is said.
export const STOPS = ['service_away', 'redis_away', 'postgresql_away', 'not_ready', 'tickets_off'];
export const KINDS = [...STOPS, 'books_differ', 'dead_letters', 'instance_missed', 'expiry_late', 'journal_old', 'audit_stalls'];

const FOLLOW_FROM_AWAY = ['expiry_late', 'journal_old', 'audit_stalls'];
const LINKS = { redis: 2, postgresql: 3 }; // kinds of a reactor; one counts if it is up to all nodes, or to all shards
const JOURNAL_OLD_MS = 60000;
const AUDIT_STALLS_MS = 30000;

// away_ms: since when nothing has answered; null: it answers. frames: frame.js, of the processes that have answered.
// history: of GET /admin/history, troubles: of GET /admin/troubles; null: not read yet. Gives [{kind, values, vouchers}].
export function troublesOf({ away_ms, frames, history, troubles }) {
    const instances = history?.instances ?? [];
    const living = instances.filter((one) => !one.missed);
    const found = away_ms !== null ? { service_away: { values: { since: away_ms } } } : {
        ...ofHealth([...frames.map(healthOf), ...living], frames),
        ...ofVouchers(living, troubles ?? []),
        // While Redis is away no instance can be heard, so none is missed.
        instance_missed: missedOf(history?.shared ? instances.filter((one) => one.missed) : []),
    };
    const isAway = found.redis_away || found.postgresql_away;
    const kinds = KINDS.filter((kind) => found[kind] && !(isAway && FOLLOW_FROM_AWAY.includes(kind)));
    return kinds.map((kind) => ({ kind, values: {}, vouchers: [], ...found[kind] }));
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

// A process that has answered, as the history has its instance, but by the second.
function healthOf({ gauges }) {
    return {
        redis_away: LINKS.redis * gauges.reactors - gauges.redis_links,
        postgresql_away: LINKS.postgresql * gauges.reactors - gauges.postgresql_links,
        journal_oldest_ms: gauges.journal_oldest * 1000,
        audit_age_ms: gauges.round_age * 1000,
    };
}

function ofHealth(instances, frames) {
    const away = (name) => (instances.some((one) => one[`${name}_away`] > 0) ? { values: { servers: awayOf(frames, name) } } : null);
    const older = (member, than_ms) => {
        const most_ms = Math.max(0, ...instances.map((one) => one[member]));
        return most_ms > than_ms ? { values: { age_s: most_ms / 1000 } } : null;
    };
    const redis_away = away('redis'), postgresql_away = away('postgresql');
    if (postgresql_away !== null) {
        postgresql_away.values.waiting = frames.reduce((sum, { gauges }) => sum + (gauges.orders ?? 0), 0);
        postgresql_away.values.age_s = Math.max(0, ...instances.map((one) => one.journal_oldest_ms)) / 1000;
    }
    // Of those that have answered: in each roll-out other instances start, or drain, and are not ready either.
    const unready = frames.some(({ gauges }) => gauges.reactors_ready < gauges.reactors);
    return {
        redis_away,
        postgresql_away,
        not_ready: unready && redis_away === null && postgresql_away === null ? {} : null,
        journal_old: older('journal_oldest_ms', JOURNAL_OLD_MS),
        audit_stalls: older('audit_age_ms', AUDIT_STALLS_MS),
    };
}

function ofVouchers(living, troubles) {
    const named = (member) => [...new Set(living.flatMap((one) => one[member]))];
    const listed = (what) => troubles.filter((one) => one.what === what);
    const letters = listed('DEAD_LETTERS'), late = listed('EXPIRY_LATE');
    return {
        tickets_off: some(named('tickets_off')),
        books_differ: living.some((one) => one.books_differ > 0) ? { vouchers: named('differing') } : null,
        dead_letters: some(letters.map((one) => one.voucher_id), { count: letters.reduce((sum, one) => sum + one.count, 0) }),
        expiry_late: some(late.map((one) => one.voucher_id), { age_s: Math.max(0, ...late.map((one) => one.late_s)) }),
    };
}

function missedOf(missed) {
    const age_s = Math.max(...missed.map((one) => one.heard_ago_ms)) / 1000;
    return missed.length === 0 ? null : { values: { names: missed.map(({ name }) => name), age_s } };
}

const some = (vouchers, values = {}) => (vouchers.length === 0 ? null : { vouchers, values });
