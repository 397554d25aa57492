// What the dashboard takes from one reading of /metrics (a frame), and what lies between two readings of the same process:
// rates and percentiles. Pure.
//
// The address that the page asks may lead to several instances by turns. A process is known by the time of its start,
// so each is compared with itself alone, and what the address as a whole does is the sum of those that were seen lately.
import { addBuckets, bucketsBetween, quantile } from './histogram.js';
import { bucketsOf, samplesOf, sumOf } from './prometheus.js';

const PURCHASE = { route: '/seckill/{voucher}', method: 'POST' };
const LEG = 'seckill_order_leg_seconds';
const SEEN_MS = 10000; // an instance that was not met for so long is not counted any more
const INSTANCES_MAX = 16;

// Answers to purchases by what they mean to an operator; a code that none of them names is `failed` from 500 on, else
// `refused`.
const OUTCOMES = {
    PLACED: 'placed',
    ACCEPTED: 'accepted',
    SOLD_OUT: 'sold_out',
    NOT_ENOUGH: 'sold_out',
    RATE_LIMITED: 'limited',
    OVERLOADED: 'limited',
};
export const OUTCOME_NAMES = ['placed', 'accepted', 'sold_out', 'limited', 'refused', 'failed'];

const HISTOGRAMS = {
    answer: ['seckill_http_request_duration_seconds', PURCHASE],
    durable: ['seckill_order_durable_seconds', {}],
    gather: [LEG, { leg: 'gather' }],
    redis: [LEG, { leg: 'redis' }],
    queue: [LEG, { leg: 'queue' }],
    commit: [LEG, { leg: 'commit' }],
};
export const LEG_NAMES = Object.keys(HISTOGRAMS);
export const SHARES = { p50: 0.5, p90: 0.9, p99: 0.99 };

const COUNTERS = {
    committed: 'seckill_orders_placed_total',
    returned: 'seckill_orders_returned_total',
    cpu: 'process_cpu_seconds_total',
};

const GAUGES = {
    journal_entries: ['seckill_journal_entries'],
    journal_oldest: ['seckill_journal_oldest_seconds'],
    books_differ: ['seckill_books_differ'],
    dead_letters: ['seckill_dead_letters_waiting'],
    round_age: ['seckill_audit_round_age_seconds'],
    orders: ['seckill_orders'],
    reactors: ['seckill_reactors'],
    reactors_ready: ['seckill_reactors_ready'],
    redis_links: ['seckill_link_up', { store: 'redis' }],
    postgresql_links: ['seckill_link_up', { store: 'postgresql' }],
    connections: ['seckill_connections'],
    streams: ['seckill_connections', { state: 'streaming' }],
    memory: ['process_resident_memory_bytes'],
    vouchers_on_sale: ['seckill_vouchers_on_sale'],
};

export function frameOf(metrics, at_ms) {
    const histograms = Object.entries(HISTOGRAMS).map(([leg, [name, where]]) => [leg, bucketsOf(metrics, name, where)]);
    return {
        at_ms,
        process: sumOf(metrics, 'process_start_time_seconds'),
        version: samplesOf(metrics, 'seckill_build_info')[0]?.labels.version ?? null,
        counters: { ...outcomesOf(metrics), ...valuesOf(metrics, COUNTERS) },
        histograms: Object.fromEntries(histograms),
        gauges: valuesOf(metrics, GAUGES),
        servers: samplesOf(metrics, 'seckill_server_up').map(({ labels, value }) => ({ ...labels, up: value })),
    };
}

function valuesOf(metrics, rows) {
    return Object.fromEntries(Object.entries(rows).map(([key, row]) => [key, sumOf(metrics, ...[row].flat())]));
}

function outcomesOf(metrics) {
    const counts = Object.fromEntries(OUTCOME_NAMES.map((name) => [name, 0]));
    for (const { labels, value } of samplesOf(metrics, 'seckill_http_requests_total', PURCHASE)) {
        counts[OUTCOMES[labels.code] ?? (Number(labels.status) >= 500 ? 'failed' : 'refused')] += value;
    }
    return counts;
}

// What happened between two frames of one process, for a second each; null: they cannot be compared.
export function between(before, now) {
    const seconds = (now.at_ms - before.at_ms) / 1000;
    if (seconds <= 0 || before.process !== now.process) {
        return null;
    }
    const rates = {};
    for (const [name, value] of Object.entries(now.counters)) {
        const was = before.counters[name];
        if (value !== null && was !== null && was !== undefined && value >= was) {
            rates[name] = (value - was) / seconds;
        }
    }
    const histograms = {};
    for (const leg of LEG_NAMES) {
        histograms[leg] = bucketsBetween(before.histograms[leg], now.histograms[leg]);
    }
    return { at_ms: now.at_ms, rates, histograms };
}

// The sum of several, with percentiles in milliseconds: {rates: {placed: ..}, legs: {redis: {p50, p90, p99}, ..}}.
export function addUp(steps) {
    const rates = {};
    for (const step of steps) {
        for (const [name, rate] of Object.entries(step.rates)) {
            rates[name] = (rates[name] ?? 0) + rate;
        }
    }
    const legs = {};
    for (const leg of LEG_NAMES) {
        const buckets = addBuckets(steps.map((step) => step.histograms[leg]));
        legs[leg] = Object.fromEntries(Object.entries(SHARES).map(([p, share]) => [p, inMs(quantile(buckets, share))]));
    }
    return { rates, legs };
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

// A gauge of all of them: `merge` is how several make one.
export function gaugeOf(frames, name, merge = (a, b) => a + b) {
    const values = frames.map((frame) => frame.gauges[name]).filter((value) => value !== null);
    return values.length === 0 ? null : values.reduce((a, b) => merge(a, b));
}
