// Streams, the list, and silence.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';

import { Problem } from '../../clients/web/index.js';
import { createLive, STREAMS_MOST } from '../../web/shop/live.js';

const turns = async () => {
    for (let turn = 0; turn < 200; turn++) {
        await null;
    }
};

let timers;
const real = { setTimeout, clearTimeout };

// Timers that run when a test says so.
beforeEach(() => {
    timers = new Map();
    let count = 0;
    globalThis.setTimeout = (run, ms) => {
        timers.set(++count, { run, ms });
        return count;
    };
    globalThis.clearTimeout = (id) => timers.delete(id);
});

afterEach(() => {
    Object.assign(globalThis, real);
});

const shortest = () => Math.min(...[...timers.values()].map(({ ms }) => ms));

async function runTimers(least = 0) {
    for (const [id, { run, ms }] of [...timers]) {
        if (ms >= least && timers.delete(id)) {
            run();
        }
    }
    await turns();
}

// One lock for all tabs of a browser, as navigator.locks has.
function createLocks() {
    const queue = [];
    let held = false;
    const next = () => {
        if (!held && queue.length > 0) {
            const { run, resolve } = queue.shift();
            held = true;
            run().then(() => {
                held = false;
                resolve();
                next();
            });
        }
    };
    return {
        request: (name, { signal }, run) =>
            new Promise((resolve, reject) => {
                const entry = { run, resolve };
                queue.push(entry);
                signal.addEventListener('abort', () => {
                    if (queue.includes(entry)) {
                        queue.splice(queue.indexOf(entry), 1);
                        reject(new Error('aborted'));
                    }
                });
                next();
            }),
    };
}

// A stream as the client reads one.
class Source {
    constructor(url, signal) {
        Object.assign(this, { url, isOpen: true, events: [], wake: () => {} });
        signal.addEventListener('abort', () => this.end(new Problem('NO_ANSWER')));
    }

    say(event) {
        this.events.push(event);
        this.wake();
    }

    end(problem) {
        Object.assign(this, { isOpen: false, problem });
        this.wake();
    }

    async *[Symbol.asyncIterator]() {
        for (;;) {
            yield* this.events.splice(0);
            if (!this.isOpen) {
                throw this.problem;
            }
            await new Promise((resolve) => {
                this.wake = resolve;
            });
        }
    }
}

function scene({ ids = ['1', '2'], locks, hasStreams = true, isHot = () => true } = {}) {
    const page = Object.assign(new EventTarget(), { hidden: false });
    const here = { page, reads: 0, heard: [], sources: [], ids, fails: false };
    const stream = async (url, { signal }) => {
        if (!hasStreams) {
            throw new Problem('OVERLOADED', { status: 503 });
        }
        here.sources.push(new Source(url, signal));
        return here.sources.at(-1);
    };
    here.open = () => here.sources.filter((source) => source.isOpen).map((source) => source.url);
    here.live = createLive({
        page,
        locks,
        isHot,
        random: () => 0.5,
        api: { stream },
        wanted: () => here.ids,
        hear: (id, event) => here.heard.push([id, event]),
        read: async () => {
            here.reads++;
            if (here.fails) {
                throw new Problem('UNAVAILABLE', { status: 503, retryAfterMs: 1000 });
            }
        },
    });
    here.see = async (isVisible) => {
        page.hidden = !isVisible;
        page.dispatchEvent(new Event('visibilitychange'));
        await turns();
    };
    here.begin = async () => {
        here.live.start();
        await turns();
        return here;
    };
    return here;
}

test('a stream for each voucher on screen, and then the list only seldom', async () => {
    const here = await scene().begin();
    assert.deepEqual(here.open(), ['/vouchers/1/events', '/vouchers/2/events']);
    here.sources.forEach((source) => source.say({ remaining: 1, state: 'open' }));
    await turns();
    assert.deepEqual(
        here.heard.map(([id]) => id),
        ['1', '2'],
    );
    await runTimers();
    assert.equal(here.reads, 2);
    assert.ok(shortest() >= 20000, `${shortest()}`);
});

test('not more streams than leave connections for a purchase; the list brings the rest', async () => {
    const here = await scene({ ids: ['1', '2', '3', '4', '5'] }).begin();
    assert.equal(here.open().length, STREAMS_MOST);
    assert.ok(STREAMS_MOST <= 4);
    here.sources.forEach((source) => source.say({ remaining: 1, state: 'open' }));
    await turns();
    await runTimers();
    assert.ok(shortest() <= 2000);
});

test('what comes on screen and has no stream is read at once, not after the pause of those that have one', async () => {
    const here = await scene({ ids: ['1', '2', '3'] }).begin();
    here.sources.forEach((source) => source.say({ remaining: 1, state: 'open' }));
    await turns();
    await runTimers();
    assert.equal(here.reads, 2);
    assert.ok(shortest() >= 20000, `${shortest()}`);
    here.ids = ['1', '2', '3', '4'];
    here.live.adjust();
    await turns();
    assert.equal(here.reads, 3);
    assert.ok(shortest() <= 2000, `${shortest()}`);
    here.live.adjust();
    await turns();
    assert.equal(here.reads, 3); // once
});

test('without streams the list, and seldom while nothing can change soon', async () => {
    const here = await scene({ hasStreams: false }).begin();
    assert.deepEqual(here.open(), []);
    assert.ok(shortest() <= 2000);
    await runTimers();
    assert.equal(here.reads, 2);
    const cold = await scene({ hasStreams: false, isHot: () => false }).begin();
    assert.equal(cold.reads, 1);
    assert.ok([...timers.values()].some(({ ms }) => ms >= 8000));
});

test('a hidden tab is silent, and one that is seen again asks at once', async () => {
    const here = await scene().begin();
    await here.see(false);
    assert.deepEqual(here.open(), []);
    const { reads } = here;
    await runTimers();
    assert.equal(here.reads, reads);
    assert.equal(timers.size, 0);
    await here.see(true);
    assert.equal(here.reads, reads + 1);
    assert.equal(here.open().length, 2);
});

test('a stream that breaks is opened again after some time, and the list is read meanwhile', async () => {
    const here = await scene({ ids: ['1'] }).begin();
    const { reads } = here;
    here.sources[0].say({ remaining: 5, state: 'open' });
    await turns();
    here.sources[0].end(new Problem('NO_ANSWER'));
    await turns();
    assert.deepEqual(here.open(), []);
    await runTimers();
    assert.ok(here.reads > reads);
    assert.deepEqual(here.open(), ['/vouchers/1/events']);
    assert.equal(here.sources.length, 2);
});

test('streams that the service refuses are asked for less and less, and the list often', async () => {
    const here = await scene({ ids: ['1'] }).begin();
    let longest = 0;
    for (let times = 0; times < 8; times++) {
        const { reads } = here;
        here.sources.at(-1).end(new Problem('NO_ANSWER'));
        await turns();
        longest = Math.max(...[...timers.values()].map(({ ms }) => ms));
        await runTimers();
        assert.ok(here.reads > reads);
        assert.ok(shortest() <= 2000, `${shortest()}`);
    }
    assert.ok(longest >= 30000, `${longest}`);
    assert.equal(here.heard.length, 0);
});

test('a list that could not be read is asked for after Retry-After', async () => {
    const here = scene();
    here.fails = true;
    await here.begin();
    assert.equal(here.reads, 1);
    assert.ok(shortest() >= 1000);
    here.fails = false;
    await runTimers();
    assert.equal(here.reads, 2);
});

test('the last event of a voucher ends its stream', async () => {
    const here = await scene({ ids: ['1'] }).begin();
    here.sources[0].say({ remaining: 0, state: 'closed' });
    await turns();
    assert.deepEqual(here.open(), []);
    assert.equal(here.heard.length, 1);
});

test('one tab of a browser streams; another takes over when it is hidden', async () => {
    const locks = createLocks();
    const [first, second] = [await scene({ locks }).begin(), await scene({ locks }).begin()];
    assert.equal(first.open().length, 2);
    assert.equal(second.open().length, 0);
    await first.see(false);
    assert.equal(first.open().length, 0);
    assert.equal(second.open().length, 2);
    await first.see(true);
    assert.equal(first.open().length, 0);
    await second.see(false);
    assert.equal(first.open().length, 2);
});

test('what leaves the screen is not followed any more', async () => {
    const here = await scene().begin();
    here.ids = ['2'];
    here.live.adjust();
    assert.deepEqual(here.open(), ['/vouchers/2/events']);
    here.ids = [];
    here.live.adjust();
    assert.deepEqual(here.open(), []);
});
