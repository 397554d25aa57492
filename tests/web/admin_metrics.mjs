// What the dashboard makes of /metrics: the text, percentiles, CPU and answers between two readings, several processes at one
// address. A page of text as the service writes it goes in; what comes out is computed here by other means.
import assert from 'node:assert/strict';
import test from 'node:test';

import { awayOf, between, createProcesses, frameOf, gaugeOf } from '../../web/admin/frame.js';
import { addBuckets, bucketsBetween, quantile } from '../../web/admin/histogram.js';
import { bucketsOf, parseMetrics, parseValue, samplesOf, sumOf } from '../../web/admin/prometheus.js';

const PAGE = `# HELP seckill_http_requests_total Requests, by route and by what they came to
# TYPE seckill_http_requests_total counter
seckill_http_requests_total{method="POST",route="/seckill/{voucher}",status="201",code="PLACED"} 12
seckill_http_requests_total{method="POST",route="/seckill/{voucher}",status="409",code="SOLD_OUT"} 300
seckill_http_requests_total{method="GET",route="/vouchers",status="200",code="FOUND"} 7
seckill_journal_oldest_seconds 0.250
seckill_voucher_remaining{voucher="7"} -3
seckill_order_leg_seconds_bucket{leg="redis",le="0.0001"} 0
seckill_order_leg_seconds_bucket{leg="redis",le="0.0002"} 10
seckill_order_leg_seconds_bucket{leg="redis",le="+Inf"} 12
seckill_order_leg_seconds_sum{leg="redis"} 0.004000000
odd{path="a\\"b\\\\c\\nd}"} 1
not a line of metrics
half{le="1" 2
`;

test('text is read line by line, and what cannot be read is left out', () => {
    const metrics = parseMetrics(PAGE);
    assert.equal(sumOf(metrics, 'seckill_journal_oldest_seconds'), 0.25);
    assert.equal(sumOf(metrics, 'seckill_voucher_remaining', { voucher: '7' }), -3);
    assert.deepEqual(samplesOf(metrics, 'odd'), [{ labels: { path: 'a"b\\c\nd}' }, value: 1 }]);
    assert.equal(metrics.has('not'), false);
    assert.equal(metrics.has('half'), false);
    assert.equal(parseMetrics('').size, 0);
});

test('a pattern with braces is a label like any other', () => {
    const purchases = samplesOf(parseMetrics(PAGE), 'seckill_http_requests_total', { route: '/seckill/{voucher}' });
    assert.deepEqual(purchases.map(({ labels }) => labels.code), ['PLACED', 'SOLD_OUT']);
});

test('nothing there is not 0', () => {
    assert.equal(sumOf(parseMetrics(PAGE), 'seckill_books_differ'), null);
    assert.equal(sumOf(parseMetrics('seckill_books_differ 0'), 'seckill_books_differ'), 0);
});

test('values have both infinities, and nothing that is no number', () => {
    assert.deepEqual(['+Inf', '-Inf', '1e3', '0'].map(parseValue), [Infinity, -Infinity, 1000, 0]);
    assert.equal(parseMetrics('a x\nb NaN\n').size, 0);
});

test('buckets come in the order of their bounds', () => {
    assert.deepEqual(bucketsOf(parseMetrics(PAGE), 'seckill_order_leg_seconds', { leg: 'redis' }), [
        [0.0001, 0],
        [0.0002, 10],
        [Infinity, 12],
    ]);
    assert.deepEqual(bucketsOf(parseMetrics(PAGE), 'nothing', {}), []);
});

// ---- percentiles ----

const cumulative = (...counts) => {
    let sum = 0;
    return counts.map((count, i) => [i === counts.length - 1 ? Infinity : 2 ** i, (sum += count)]);
};

test('a percentile lies in the bucket that holds it', () => {
    const buckets = cumulative(0, 10, 80, 10, 0); // bounds 1, 2, 4, 8, +Inf
    assert.equal(quantile(buckets, 0.5), 3);
    assert.equal(quantile(buckets, 0.1), 2);
    assert.equal(quantile(buckets, 0.99), 7.6);
    assert.equal(quantile(buckets, 1), 8);
    assert.ok(quantile(buckets, 0) >= 1 && quantile(buckets, 0) <= 2);
});

test('of a percentile among many values no more is wrong than its bucket is wide', () => {
    const values = Array.from({ length: 5000 }, (_, i) => ((i * 7919) % 5000) / 100);
    const bounds = [...Array.from({ length: 8 }, (_, i) => 2 ** i), Infinity];
    const buckets = bounds.map((bound) => [bound, values.filter((value) => value <= bound).length]);
    const sorted = [...values].sort((a, b) => a - b);
    for (const share of [0.01, 0.5, 0.9, 0.99]) {
        const exact = sorted[Math.ceil(share * sorted.length) - 1];
        const least = Math.max(0, ...bounds.filter((bound) => bound < exact));
        const found = quantile(buckets, share);
        assert.ok(found >= least && found <= bounds.find((bound) => bound >= exact), `${share}: ${found}, not ${exact}`);
    }
});

test('past the last bound only that bound is known, and of nothing there is no percentile', () => {
    assert.equal(quantile(cumulative(1, 0, 9), 0.99), 2);
    assert.equal(quantile(cumulative(0, 0, 0), 0.5), null);
    assert.equal(quantile([], 0.5), null);
});

test('what lies between two readings; none after a restart or with other bounds', () => {
    assert.deepEqual(bucketsBetween(cumulative(1, 1, 1), cumulative(1, 4, 1)), cumulative(0, 3, 0));
    assert.equal(bucketsBetween(cumulative(5, 1, 1), cumulative(1, 1, 1)), null);
    assert.equal(bucketsBetween(cumulative(1, 1), cumulative(1, 1, 1)), null);
    assert.equal(bucketsBetween([[3, 0], [Infinity, 1]], cumulative(1, 1)), null);
});

test('histograms of the same bounds are added up', () => {
    assert.deepEqual(addBuckets([cumulative(1, 2, 3), null, [], cumulative(1, 1, 1)]), cumulative(2, 3, 4));
    assert.deepEqual(addBuckets([]), []);
});

// ---- frames and processes ----

const STATUS = { PLACED: 201, ACCEPTED: 202, SOLD_OUT: 409, NOT_ENOUGH: 409, RATE_LIMITED: 429, OVERLOADED: 503, ALREADY_ORDERED: 409, TICKET_REQUIRED: 403,
    UNAVAILABLE: 503, INTERNAL: 500, WAITING: 202, WAITLIST_FULL: 409 };

function page({ process, cpu = 0, redis = [0, 0, 0], answers = {}, committed = 0, more = [] }) {
    const buckets = cumulative(...redis).map(([bound, n]) =>
        `seckill_order_leg_seconds_bucket{leg="redis",le="${bound === Infinity ? '+Inf' : bound}"} ${n}`);
    return parseMetrics([
        `process_start_time_seconds ${process}`,
        `process_cpu_seconds_total ${cpu}`,
        `seckill_build_info{version="1.2.3"} 1`,
        ...buckets,
        `seckill_link_up{store="redis",link="orders"} 2`,
        `seckill_link_up{store="postgresql",link="orders"} 1`,
        ...Object.entries(answers).map(([code, n]) => `seckill_http_requests_total{method="POST",route="/seckill/{voucher}",status="${STATUS[code]}",code="${code}"} ${n}`),
        `seckill_http_requests_total{method="GET",route="/vouchers",status="200",code="FOUND"} 7`,
        `seckill_orders_placed_total ${committed}`,
        ...more,
    ].join('\n'));
}

test('between two readings lie CPU for each second, and what the legs took', () => {
    const before = frameOf(page({ process: 5, cpu: 10, redis: [1, 0, 0] }), 1000);
    const { cpu, times } = between(before, frameOf(page({ process: 5, cpu: 13, redis: [1, 4, 0] }), 3000));
    assert.equal(cpu, 1.5);
    assert.deepEqual(times.redis, cumulative(0, 4, 0));
});

test('purchases are counted by what their buyers were told, and other routes are not', () => {
    const answers = (n) => Object.fromEntries(Object.keys(STATUS).map((code, i) => [code, (i + 1) * n]));
    const before = frameOf(page({ process: 5, answers: answers(1), committed: 10 }), 1000);
    assert.deepEqual(before.counts, { placed: 1, accepted: 2, sold_out: 3 + 4 + 11 + 12, limited: 5 + 6, refused: 7 + 8, failed: 9 + 10, committed: 10 });
    const { rates } = between(before, frameOf(page({ process: 5, answers: answers(3), committed: 14 }), 3000));
    assert.deepEqual(rates, { placed: 1, accepted: 2, sold_out: 30, limited: 11, refused: 15, failed: 19, committed: 2 });
    assert.equal(frameOf(parseMetrics(''), 1).counts.placed, 0);
});

test('from purchase to answer is the route of purchases alone', () => {
    const bucket = (route, le, n) => `seckill_http_request_duration_seconds_bucket{method="POST",route="${route}",le="${le}"} ${n}`;
    const more = [bucket('/seckill/{voucher}', '0.1', 4), bucket('/seckill/{voucher}', '+Inf', 5), bucket('/admin/vouchers', '0.1', 90)];
    const { times } = frameOf(page({ process: 5, more: [...more, 'seckill_order_durable_seconds_bucket{le="+Inf"} 3'] }), 1000);
    assert.deepEqual([times.answer, times.durable], [[[0.1, 4], [Infinity, 5]], [[Infinity, 3]]]);
});

test('vouchers that differ are named, and whether tickets are on is known', () => {
    const { differing, gauges } = frameOf(page({ process: 5, more: ['seckill_voucher_differs{voucher="7"} 1', 'seckill_tickets_on 0'] }), 1000);
    assert.deepEqual([differing, gauges.tickets_on], [['7'], 0]);
});

test('two processes are not compared with each other', () => {
    const one = frameOf(page({ process: 5, cpu: 10 }), 1000);
    assert.equal(between(one, frameOf(page({ process: 6, cpu: 500 }), 2000)), null);
    assert.equal(between(one, one), null);
});

test('a process is known from its second reading on, in milliseconds', () => {
    const processes = createProcesses();
    assert.equal(processes.take(frameOf(page({ process: 5 }), 1000)), null);
    const now = processes.take(frameOf(page({ process: 5, cpu: 0.5, redis: [0, 10, 0] }), 2000));
    assert.equal(now.cpu, 0.5);
    assert.equal(now.times.redis.p50, 1500);
    assert.equal(now.times.commit.p50, null);
});

test('a restart is not compared with what was before, and the old process is forgotten', () => {
    const processes = createProcesses();
    processes.take(frameOf(page({ process: 5, cpu: 900 }), 1000));
    processes.take(frameOf(page({ process: 5, cpu: 1000 }), 2000));
    processes.take(frameOf(page({ process: 9, cpu: 3 }), 13000));
    const now = processes.take(frameOf(page({ process: 9, cpu: 4 }), 14000));
    assert.equal(now.cpu, 1);
    assert.equal(processes.frames().length, 1);
});

test('several processes by turns are added up', () => {
    const processes = createProcesses();
    let now;
    for (let second = 0; second < 6; second++) {
        const process = 5 + (second % 2);
        now = processes.take(frameOf(page({ process, cpu: second, redis: [0, second, 0], committed: 10 * second }), second * 1000));
    }
    assert.equal(now.cpu, 2); // each 2 in two seconds
    assert.equal(now.rates.committed, 20);
    assert.equal(now.times.redis.p50, 1500);
    assert.equal(gaugeOf(processes.frames(), 'redis_links'), 4);
    assert.equal(gaugeOf(processes.frames(), 'redis_links', Math.max), 2);
    assert.equal(gaugeOf([], 'redis_links'), null);
});

test('a server that is away is named if the store has several', () => {
    const server = (store, name, up) => `seckill_server_up{store="${store}",server="${name}"} ${up}`;
    const frame = (...lines) => frameOf(parseMetrics(['seckill_reactors 2', ...lines].join('\n')), 1000);
    const one = frame(server('redis', 'a:1', 2), server('redis', 'b:2', 1), server('postgresql', '0', 0));
    const other = frame(server('redis', 'a:1', 0), server('redis', 'b:2', 2), server('postgresql', '0', 0));
    assert.deepEqual(awayOf([one], 'redis'), ['b:2']);
    assert.deepEqual(awayOf([other, one], 'redis'), ['a:1', 'b:2']);
    assert.deepEqual(awayOf([one], 'postgresql'), []);
    assert.deepEqual(awayOf([], 'redis'), []);
});

test('however many processes are met, few are kept', () => {
    const processes = createProcesses();
    for (let process = 0; process < 100; process++) {
        processes.take(frameOf(page({ process }), 1000));
    }
    assert.ok(processes.frames().length <= 16);
});
