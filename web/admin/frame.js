// What the dashboard takes from one reading of /metrics (a frame), and what lies between two readings of the same
// process: CPU, answers and commits a second, percentiles of times. Pure.
//
// The address that the page asks may lead to several instances by turns. A process is known by the time of its start,
// so each is compared with itself alone, and what the address as a whole does is the sum of those that were seen lately.
import { addBuckets, bucketsBetween, quantile } from './histogram.js';
import { bucketsOf, samplesOf, sumOf } from './prometheus.js';

const SEEN_MS = 10000; // an instance that was not met for so long is not counted any more
const INSTANCES_MAX = 16;

export const LEG_NAMES = ['gather', 'redis', 'queue', 'commit'];
export const OUTCOMES = ['placed', 'accepted', 'sold_out', 'limited', 'refused', 'failed'];
export const SHARES = { p50: 0.5, p90: 0.9, p99: 0.99 };

const PURCHASE = { method: 'POST', route: '/seckill/{voucher}' };
const OUTCOME_OF = { PLACED: 'placed', ACCEPTED: 'accepted', SOLD_OUT: 'sold_out', NOT_ENOUGH: 'sold_out',
    WAITING: 'sold_out', WAITLIST_FULL: 'sold_out', RATE_LIMITED: 'limited', OVERLOADED: 'limited' };
const TIMES = {
    answer: ['seckill_http_request_duration_seconds', PURCHASE],
    durable: ['seckill_order_durable_seconds'],
    ...Object.fromEntries(LEG_NAMES.map((leg) => [leg, ['seckill_order_leg_seconds', { leg }]])),
};
const LINKS = { redis: 2, postgresql: 3 }; // kinds of a reactor; one counts if it is up to all nodes, or to all shards

const GAUGES = {
    journal_entries: ['seckill_journal_entries'],
    journal_oldest: ['seckill_journal_oldest_seconds'],
    books_differ: ['seckill_books_differ'],
    dead_letters: ['seckill_dead_letters_waiting'],
    round_age: ['seckill_audit_round_age_seconds'],
    orders: ['seckill_orders'],
    reactors: ['seckill_reactors'],
    reactors_ready: ['seckill_reactors_ready'],
    tickets_on: ['seckill_tickets_on'],
    redis_links: ['seckill_link_up', { store: 'redis' }],
    postgresql_links: ['seckill_link_up', { store: 'postgresql' }],
    connections: ['seckill_connections'],
    streams: ['seckill_connections', { state: 'streaming' }],
    memory: ['process_resident_memory_bytes'],
};

export function frameOf(metrics, at_ms) {
    return {
        at_ms,
        process: sumOf(metrics, 'process_start_time_seconds'),
        version: samplesOf(metrics, 'seckill_build_info')[0]?.labels.version ?? null,
        cpu_s: sumOf(metrics, 'process_cpu_seconds_total'),
        counts: { ...answersOf(metrics), committed: sumOf(metrics, 'seckill_orders_placed_total') ?? 0 },
        times: ofTimes((name) => bucketsOf(metrics, ...TIMES[name])),
        gauges: Object.fromEntries(Object.entries(GAUGES).map(([key, row]) => [key, sumOf(metrics, ...row)])),
        servers: samplesOf(metrics, 'seckill_server_up').map(({ labels, value }) => ({ ...labels, up: value })),
        differing: samplesOf(metrics, 'seckill_voucher_differs').map(({ labels }) => labels.voucher),
    };
}

// How many purchases were answered with each outcome.
function answersOf(metrics) {
    const counts = Object.fromEntries(OUTCOMES.map((name) => [name, 0]));
    for (const { labels: { code, status }, value } of samplesOf(metrics, 'seckill_http_requests_total', PURCHASE)) {
        counts[OUTCOME_OF[code] ?? (Number(status) >= 500 ? 'failed' : 'refused')] += value;
    }
    return counts;
}

function ofTimes(valueOf) {
    return Object.fromEntries(Object.keys(TIMES).map((name) => [name, valueOf(name)]));
}

// What happened between two frames of one process: CPU and counts for each second, and the histograms; null: they cannot
// be compared.
export function between(before, now) {
    const seconds = (now.at_ms - before.at_ms) / 1000;
    if (seconds <= 0 || before.process !== now.process) {
        return null;
    }
    return {
        cpu: (now.cpu_s - before.cpu_s) / seconds,
        rates: Object.fromEntries(Object.entries(now.counts).map(([name, n]) => [name, Math.max(0, n - before.counts[name]) / seconds])),
        times: ofTimes((name) => bucketsBetween(before.times[name], now.times[name])),
    };
}

// The sum of several, with percentiles in milliseconds: {cpu, rates: {placed, ..}, times: {redis: {p50, p90, p99}, ..}}.
function addUp(steps) {
    return {
        cpu: steps.reduce((sum, { cpu }) => sum + cpu, 0),
        rates: Object.fromEntries(Object.keys(steps[0].rates).map((name) => [name, steps.reduce((sum, { rates }) => sum + rates[name], 0)])),
        times: ofTimes((name) => {
            const buckets = addBuckets(steps.map(({ times }) => times[name]));
            return Object.fromEntries(Object.entries(SHARES).map(([p, share]) => [p, inMs(quantile(buckets, share))]));
        }),
    };
}

function inMs(seconds) {
    return seconds === null ? null : seconds * 1000;
}

// The processes behind the address, each with its last frame and what happened before it.
export function createProcesses() {
    const seen = new Map(); // in the order of the last readings

    return {
        // Gives what the address does now (addUp()), null until a process was met twice.
        take(frame) {
            const last = seen.get(frame.process);
            seen.delete(frame.process);
            seen.set(frame.process, { frame, step: last === undefined ? null : between(last.frame, frame) });
            for (const [process, { frame: then }] of seen) {
                if (frame.at_ms - then.at_ms > SEEN_MS || seen.size > INSTANCES_MAX) {
                    seen.delete(process);
                }
            }
            const steps = [...seen.values()].map(({ step }) => step).filter((step) => step !== null);
            return steps.length === 0 ? null : addUp(steps);
        },
        frames: () => [...seen.values()].map(({ frame }) => frame),
    };
}

// The servers of a store to which reactors of some instance are not connected; none if it has but one.
export function awayOf(frames, store) {
    const names = new Set(), away = new Set();
    for (const { servers, gauges } of frames) {
        for (const { server, up } of servers.filter((one) => one.store === store)) {
            names.add(server);
            if (up < gauges.reactors) {
                away.add(server);
            }
        }
    }
    return names.size > 1 ? [...away] : [];
}

// Whether a process has fewer links to a store than it should.
export function shortOf({ gauges }, store) {
    return gauges[`${store}_links`] < LINKS[store] * gauges.reactors;
}

// A gauge of all of them: `merge` is how several make one.
export function gaugeOf(frames, name, merge = (a, b) => a + b) {
    const values = frames.map((frame) => frame.gauges[name]).filter((value) => value !== null);
    return values.length === 0 ? null : values.reduce((a, b) => merge(a, b));
}
