// The client as a page of its own uses it, with a service whose answers each test writes down.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { createClient } from '../../clients/web/index.js';

const textOf = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const NOW = '2030-01-01T00:00:00.000Z';
const json = (body, status = 200) => new Response(JSON.stringify(body), { status });
const unknown = () => json({ code: 'UNKNOWN_VOUCHER', status: 404 }, 404);
const state = (id, phase, remaining) => ({ voucher_id: id, state: 'open', phase, remaining, server_time: NOW });
const voucher = (id, phase, remaining) => ({ id, state: 'open', phase, remaining });

// `routes`: path -> what gives its answer. Of a path that has none the answer is lost.
function service(routes) {
    const seen = [];
    const fetch = async (url, { headers, signal, body }) => {
        seen.push({ url, headers, body });
        signal.throwIfAborted();
        return routes[url](signal);
    };
    return { seen, fetch, paths: () => seen.map(({ url }) => url) };
}

// It stays open.
function stream(signal, ...events) {
    const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
    const start = (sink) => {
        sink.enqueue(new TextEncoder().encode(text));
        signal.addEventListener('abort', () => sink.error(signal.reason));
    };
    return new Response(new ReadableStream({ start }), { headers: { 'Content-Type': 'text/event-stream' } });
}

async function watchAll(routes, ids, options) {
    const here = service({ '/vouchers': () => json({ vouchers: [], server_time: NOW }), ...routes });
    const events = [];
    const client = createClient({ fetch: here.fetch });
    await client.watch(ids, (event) => events.push(event), options);
    return { ...here, client, phases: events.map(({ voucher_id, phase }) => `${voucher_id} ${phase}`) };
}

// ---- who asks ----

test('a token that is fetched first is in each try and each stream', async () => {
    const here = service({
        '/orders': () => json({ orders: [], complete: true }),
        '/vouchers/7': () => json({ ...voucher('7', 'on_sale', 3), server_time: NOW }),
        '/vouchers/events?ids=7': (signal) => stream(signal, state('7', 'ended', 3)),
    });
    let count = 0;
    const headers = async () => ({ Authorization: `Bearer ${++count}` });
    const client = createClient({ fetch: here.fetch, headers });
    await client.orders();
    await client.watch('7', () => {});
    assert.deepEqual(here.seen.map((request) => request.headers.Authorization).sort(), ['Bearer 1', 'Bearer 2', 'Bearer 3']);
});

test('a purchase waits for a token that cannot be had, and nothing is sent meanwhile', async () => {
    const order = { id: 'a', voucher_id: '7', user_id: 'alice', quantity: 1, status: 'unpaid' };
    const here = service({ '/seckill/7': () => json(order, 201) });
    const steps = [];
    let isAway = true;
    const headers = async () => {
        if (isAway) {
            throw new TypeError('no network');
        }
        return {};
    };
    const onStep = (step) => {
        steps.push(step.code ?? step.step);
        isAway = step.step === 'asking' && isAway;
    };
    const result = await createClient({ fetch: here.fetch, headers }).buy('7', { onStep });
    assert.deepEqual([result.outcome, steps], ['won', ['asking', 'NO_LOGIN', 'asking']]);
    assert.equal(here.seen.length, 1);
});

test('a token that never comes holds no call beyond its time', async () => {
    const here = service({});
    const client = createClient({ fetch: here.fetch, headers: () => new Promise(() => {}) });
    await assert.rejects(client.orders({ signal: AbortSignal.timeout(20) }), { code: 'ABORTED' });
    await assert.rejects(client.orders({ signal: AbortSignal.abort() }), { code: 'ABORTED' });
    assert.equal(here.seen.length, 0);
});

test("what the caller's own functions have thrown is the cause", async () => {
    const mistake = new TypeError('token is undefined');
    const fail = () => {
        throw mistake;
    };
    for (const [own, code] of [[{ headers: fail }, 'NO_LOGIN'], [{ fetch: fail }, 'NO_ANSWER']]) {
        const client = createClient(own);
        await assert.rejects(client.orders({ signal: AbortSignal.timeout(20) }), { code: 'ABORTED', cause: mistake });
        const steps = [];
        const options = { signal: AbortSignal.timeout(20), onStep: (step) => steps.push(step) };
        assert.equal((await client.buy('7', options)).cause, mistake);
        assert.deepEqual([steps.at(-1).code, steps.at(-1).cause], [code, mistake]);
    }
});

test("a slash at the url's end changes nothing", async () => {
    const here = service({ 'https://s.example/orders': () => json({ orders: [] }) });
    await createClient({ url: 'https://s.example/', fetch: here.fetch }).orders();
    assert.deepEqual(here.paths(), ['https://s.example/orders']);
});

// ---- the line ----

test('a purchase that may wait gives a place at once, which is not followed', async () => {
    const place = { id: 'a', voucher_id: '7', user_id: 'alice', quantity: 1, status: 'waiting', place: 4 };
    const here = service({ '/seckill/7': () => json(place, 202) });
    const { outcome, orderId, order } = await createClient({ fetch: here.fetch }).buy('7', { wait: true });
    assert.deepEqual([outcome, orderId, order], ['waiting', 'a', place]);
    assert.deepEqual(here.paths(), ['/seckill/7']);
    assert.deepEqual(JSON.parse(here.seen[0].body), { quantity: 1, wait: true });
});

test('an earlier purchase that waits is no win, and a full line is a refusal', async () => {
    const place = { id: 'a', voucher_id: '7', user_id: 'alice', quantity: 1, status: 'waiting', place: 0 };
    const here = service({
        '/seckill/7': () => json({ code: 'ALREADY_ORDERED', status: 409, order_id: 'a' }, 409),
        '/seckill/8': () => json({ code: 'WAITLIST_FULL', status: 409 }, 409),
        '/orders/a?wait=20&while=pending': () => json(place),
    });
    const client = createClient({ fetch: here.fetch });
    const again = await client.buy('7', { wait: true });
    assert.deepEqual([again.outcome, again.code, again.order], ['waiting', 'ALREADY_ORDERED', place]);
    const full = await client.buy('8', { wait: true });
    assert.deepEqual([full.outcome, full.code], ['refused', 'WAITLIST_FULL']);
    assert.equal(here.seen.length, 3);
});

// ---- several sales ----

test('several sales are watched in one stream, until the last has ended', async () => {
    const events = [state('7', 'on_sale', 3), state('8', 'ended', 0), state('8', 'ended', 0), state('7', 'ended', 2)];
    const here = await watchAll({ '/vouchers/events?ids=7,8': (signal) => stream(signal, ...events) }, ['7', '8']);
    assert.deepEqual(here.phases, ['7 on_sale', '8 ended', '7 ended']);
    assert.equal(here.paths().filter((path) => path.includes('events')).length, 1);
});

test('without a stream the list has them, and what it has not is read by itself', async () => {
    const routes = {
        '/vouchers': () => json({ vouchers: ['9', '8'].map((id) => voucher(id, 'ended', 1)), server_time: NOW }),
        '/vouchers/7': () => json({ ...voucher('7', 'ended', 0), server_time: NOW }),
    };
    const here = await watchAll(routes, ['7', '8']);
    assert.deepEqual(here.phases, ['8 ended', '7 ended']);
});

test('of a list, an unknown voucher stops no other', async () => {
    const routes = {
        '/vouchers/events?ids=7,99,none': unknown,
        '/vouchers/events?ids=7': (signal) => stream(signal, state('7', 'ended', 0)),
        '/vouchers/7': () => json({ ...voucher('7', 'on_sale', 3), server_time: NOW }),
        '/vouchers/99': unknown,
        '/vouchers/none': () => json({ code: 'BAD_VOUCHER_ID', status: 422 }, 422),
    };
    const here = await watchAll(routes, ['7', '99', 'none']);
    assert.deepEqual([...new Set(here.phases)], ['7 on_sale', '99 ended', 'none ended', '7 ended']);
    await assert.rejects(watchAll(routes, '99'), { code: 'UNKNOWN_VOUCHER' });
});

test('96 are watched in 3 streams; more, and none, are a mistake', async () => {
    const ids = [...Array(97).keys()].map(String);
    const ends = (some) => [`/vouchers/events?ids=${some}`, (signal) => stream(signal, ...some.map((id) => state(id, 'ended', 0)))];
    const routes = Object.fromEntries([ends(ids.slice(0, 32)), ends(ids.slice(32, 64)), ends(ids.slice(64, 96))]);
    const here = await watchAll(routes, ids.slice(0, 96));
    assert.equal(here.phases.length, 96);
    await assert.rejects(watchAll({}, ids), RangeError);
    await assert.rejects(watchAll({}, []), RangeError);
});

test('an expired login ends what is followed and watched', async () => {
    const expired = () => json({ code: 'UNAUTHENTICATED', status: 401 }, 401);
    const { fetch } = service({ '/orders/1?wait=20&while=pending': expired });
    await assert.rejects(createClient({ fetch }).follow('1'), { code: 'UNAUTHENTICATED' });
    await assert.rejects(watchAll({ '/vouchers/7': expired }, '7'), { code: 'UNAUTHENTICATED' });
});

// ---- the time ----

test("the service's time is known from the first answer that has it, and from a stream", async () => {
    const later = { ...state('7', 'ended', 1), server_time: '2030-01-01T00:01:00.000Z' };
    assert.equal(createClient().now(), undefined);
    const routes = {
        '/vouchers/7': () => json({ ...voucher('7', 'on_sale', 3), server_time: NOW }),
        '/vouchers/events?ids=7': async (signal) => {
            await new Promise((resolve) => setTimeout(resolve, 20));
            return stream(signal, later);
        },
    };
    const { client } = await watchAll(routes, '7');
    assert.ok(client.now() >= Date.parse(later.server_time), new Date(client.now()).toISOString());
    assert.ok(client.now() < Date.parse(later.server_time) + 5000);
});

// ---- the types ----

test('the types have the codes of the documents, each once', () => {
    const section = textOf('docs/http.md').split('## Codes')[1].split('Every 503')[0];
    const told = section.split('\n').flatMap((line) => line.split('|')[1]?.match(/[A-Z_]{2,}/g) ?? []);
    const union = /ServiceCode =([^;]*);/.exec(textOf('clients/web/index.d.ts'))[1];
    assert.deepEqual([...union.matchAll(/'(\w+)'/g)].map((match) => match[1]).sort(), told.sort());
    assert.ok(told.includes('SOLD_OUT') && new Set(told).size === told.length);
});
