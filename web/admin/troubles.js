// What keeps a sale from selling, or the books from balancing, from all that the page has read. Pure.
import { awayOf, gaugeOf } from './frame.js';

// Each kind has its words in words.js: trouble_*, do_* and more_*. `stops`: nothing can be bought or committed
// meanwhile; else the books need somebody. `alert`: its row in docs/operations.md. The worst come first.
export const KINDS = {
    service_away: { stops: true, alert: 'SeckillDown' },
    redis_away: { stops: true, alert: 'SeckillRedisAway' },
    postgresql_away: { stops: true, alert: 'SeckillPostgresqlAway' },
    not_ready: { stops: true, alert: 'SeckillNotReady' },
    tickets_off: { stops: true },
    books_differ: { alert: 'SeckillBooksDiffer' },
    dead_letters: { alert: 'SeckillDeadLetters' },
    instance_missed: { alert: 'SeckillDown' },
    expiry_late: {},
    journal_old: { alert: 'SeckillJournalOld' },
    audit_stalls: { alert: 'SeckillUpkeepStalls' },
};

const LINKS = { redis: 2, postgresql: 3 }; // kinds of a reactor; one counts if it is up to all nodes, or to all shards
const JOURNAL_OLD_S = 60;
const AUDIT_STALLS_S = 30;
const most = (a, b) => Math.max(a, b);

// away_ms: since when nothing has answered; null: it answers. frames: frame.js, of the processes that have answered.
// history: of GET /admin/history, troubles: of GET /admin/troubles; null: not read yet. Gives [{kind, values, vouchers}].
export function troublesOf({ away_ms, frames, history, troubles }) {
    const found = {
        service_away: away_ms === null ? null : { values: { since: away_ms } },
        ...(away_ms === null ? { ...ofStores(frames, history), ...ofInstances(frames, history), ...ofVouchers(history, troubles) } : {}),
    };
    const kinds = Object.keys(KINDS).filter((kind) => found[kind]);
    return kinds.map((kind) => ({ kind, values: {}, vouchers: [], ...found[kind] }));
}

function ofStores(frames, history) {
    const store = (name, member) => {
        const short = gaugeOf(frames, `${name}_links`) < LINKS[name] * gaugeOf(frames, 'reactors');
        const others = instancesOf(history).filter((one) => !one.missed && one[member] > 0);
        return short || others.length > 0 ? { values: { servers: awayOf(frames, name) } } : null;
    };
    const found = { redis_away: store('redis', 'redis_away'), postgresql_away: store('postgresql', 'postgresql_away') };
    const unready = gaugeOf(frames, 'reactors_ready') < gaugeOf(frames, 'reactors');
    return { ...found, not_ready: unready && found.redis_away === null && found.postgresql_away === null ? {} : null };
}

// While Redis is away no instance can be heard, so none is missed.
function ofInstances(frames, history) {
    const missed = history?.shared ? instancesOf(history).filter((one) => one.missed) : [];
    const journal_s = oldest(gaugeOf(frames, 'journal_oldest', most), history, 'journal_oldest_ms');
    const audit_s = oldest(gaugeOf(frames, 'round_age', most), history, 'audit_age_ms');
    return {
        instance_missed: missed.length === 0 ? null : {
            values: { names: missed.map(({ name }) => name), age_s: Math.max(...missed.map((one) => one.heard_ago_ms)) / 1000 },
        },
        journal_old: journal_s > JOURNAL_OLD_S ? { values: { age_s: journal_s } } : null,
        audit_stalls: audit_s > AUDIT_STALLS_S ? { values: { age_s: audit_s } } : null,
    };
}

function oldest(own_s, history, member) {
    const others = instancesOf(history).filter((one) => !one.missed).map((one) => one[member] / 1000);
    return Math.max(own_s ?? 0, ...others);
}

function ofVouchers(history, troubles) {
    const living = instancesOf(history).filter((one) => !one.missed);
    const named = (member) => [...new Set(living.flatMap((one) => one[member]))];
    const listed = (what) => (troubles ?? []).filter((one) => one.what === what);
    const letters = listed('DEAD_LETTERS'), late = listed('EXPIRY_LATE');
    const count = (member) => living.reduce((sum, one) => sum + one[member], 0);
    return {
        tickets_off: some(named('tickets_off')),
        books_differ: count('books_differ') > 0 ? { vouchers: named('differing') } : null,
        dead_letters: some(letters.map((one) => one.voucher_id), { count: letters.reduce((sum, one) => sum + one.count, 0) }),
        expiry_late: some(late.map((one) => one.voucher_id), { age_s: Math.max(0, ...late.map((one) => one.late_s)) }),
    };
}

const instancesOf = (history) => history?.instances ?? [];
const some = (vouchers, values = {}) => (vouchers.length === 0 ? null : { vouchers, values });
