// What the dashboard takes from one reading of /metrics (a frame), and what lies between two readings of the same
// process: its CPU, and percentiles of the legs of a purchase. Pure.
//
// The address that the page asks may lead to several instances by turns. A process is known by the time of its start,
// so each is compared with itself alone, and what the address as a whole does is the sum of those that were seen lately.
import { addBuckets, bucketsBetween, quantile } from './histogram.js';
import { bucketsOf, samplesOf, sumOf } from './prometheus.js';

const SEEN_MS = 10000; // an instance that was not met for so long is not counted any more
const INSTANCES_MAX = 16;

export const LEG_NAMES = ['gather', 'redis', 'queue', 'commit'];
export const SHARES = { p50: 0.5, p90: 0.9, p99: 0.99 };

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
};

export function frameOf(metrics, at_ms) {
    return {
        at_ms,
        process: sumOf(metrics, 'process_start_time_seconds'),
        version: samplesOf(metrics, 'seckill_build_info')[0]?.labels.version ?? null,
        cpu_s: sumOf(metrics, 'process_cpu_seconds_total'),
        legs: ofLegs((leg) => bucketsOf(metrics, 'seckill_order_leg_seconds', { leg })),
        gauges: Object.fromEntries(Object.entries(GAUGES).map(([key, row]) => [key, sumOf(metrics, ...row)])),
        servers: samplesOf(metrics, 'seckill_server_up').map(({ labels, value }) => ({ ...labels, up: value })),
    };
}

function ofLegs(valueOf) {
    return Object.fromEntries(LEG_NAMES.map((leg) => [leg, valueOf(leg)]));
}

// What happened between two frames of one process: CPU for each second, and the histograms; null: they cannot be
// compared.
export function between(before, now) {
    const seconds = (now.at_ms - before.at_ms) / 1000;
    if (seconds <= 0 || before.process !== now.process) {
        return null;
    }
    return {
        cpu: (now.cpu_s - before.cpu_s) / seconds,
        legs: ofLegs((leg) => bucketsBetween(before.legs[leg], now.legs[leg])),
    };
}

// The sum of several, with percentiles in milliseconds: {cpu, legs: {redis: {p50, p90, p99}, ..}}.
function addUp(steps) {
    return {
        cpu: steps.reduce((sum, { cpu }) => sum + cpu, 0),
        legs: ofLegs((leg) => {
            const buckets = addBuckets(steps.map(({ legs }) => legs[leg]));
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

// A gauge of all of them: `merge` is how several make one.
export function gaugeOf(frames, name, merge = (a, b) => a + b) {
    const values = frames.map((frame) => frame.gauges[name]).filter((value) => value !== null);
    return values.length === 0 ? null : values.reduce((a, b) => merge(a, b));
}
