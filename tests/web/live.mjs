// The stream, the list, and silence.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';

import { Problem, STREAM_MOST } from '../../clients/web/index.js';
import { createLive } from '../../web/shop/live.js';

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

async function runTimers(most = Infinity) {
    for (const [id, { run, ms }] of [...timers]) {
        if (ms <= most && timers.delete(id)) {
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
        const ids = new URL(url, 'http://shop').searchParams.get('ids').split(',');
        Object.assign(this, { ids, isOpen: true, events: [], wake: () => {} });
        signal.addEventListener('abort', () => this.end(new Problem('NO_ANSWER')));
    }

    // What these vouchers are; without ids, all of the stream.
    async say(event, ids = this.ids) {
        this.events.push(...ids.map((id) => ({ voucher_id: id, state: 'open', remaining: 1, ...event })));
        this.wake();
        await turns();
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
    here.open = () => here.sources.filter((source) => source.isOpen).map((source) => source.ids.join());
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
    // What is on screen changes, as often as a reader who scrolls lets it, and then stays.
    here.show = async (...ids) => {
        here.ids = ids;
        here.live.adjust();
        here.live.adjust();
        await turns();
    };
    return here;
}

const numbered = (count) => Array.from({ length: count }, (_, i) => String(i + 1));

test('one stream of all vouchers on screen, and then the list only seldom', async () => {
    const here = await scene({ ids: ['1', '2', '3', '4'] }).begin();
    assert.deepEqual(here.open(), ['1,2,3,4']);
    await here.sources[0].say();
    assert.deepEqual(
        here.heard.map(([id]) => id),
        ['1', '2', '3', '4'],
    );
    await runTimers();
    assert.equal(here.reads, 2);
    assert.ok(shortest() >= 20000, `${shortest()}`);
});

test('not more vouchers than a stream may have; the list brings the rest', async () => {
    const here = await scene({ ids: numbered(STREAM_MOST + 1) }).begin();
    assert.deepEqual(here.open(), [numbered(STREAM_MOST).join()]);
    await here.sources[0].say();
    await runTimers();
    assert.ok(shortest() <= 2000);
});

test('what comes on screen and has no room in the stream is read at once', async () => {
    const here = await scene({ ids: numbered(STREAM_MOST) }).begin();
    await here.sources[0].say();
    await runTimers();
    assert.equal(here.reads, 2);
    assert.ok(shortest() >= 20000, `${shortest()}`);
    await here.show(...numbered(STREAM_MOST + 1));
    assert.equal(here.reads, 3); // once
    assert.ok(shortest() <= 2000, `${shortest()}`);
    assert.equal(here.sources.length, 1);
});

test('a voucher that the stream says nothing of is read often', async () => {
    const here = await scene().begin();
    await here.sources[0].say({}, ['1']);
    await runTimers();
    assert.ok(shortest() <= 2000, `${shortest()}`);
});

test('what comes on screen is streamed soon, and the old stream goes on until it is', async () => {
    const here = await scene().begin();
    await here.sources[0].say();
    await here.show('3', '1', '2');
    await here.show('4', '3', '2');
    assert.deepEqual(here.open(), ['1,2']); // the reader scrolls
    assert.ok(shortest() <= 300, `${shortest()}`);
    await runTimers(300);
    assert.deepEqual(here.open(), ['1,2', '4,3,2']);
    here.heard.length = 0;
    await here.sources[0].say({ remaining: 7 });
    await here.sources[1].say({ remaining: 8 }, ['4']);
    assert.deepEqual(
        here.heard.map(([id, { remaining }]) => [id, remaining]),
        [['1', 7], ['2', 7], ['4', 8]],
    );
    assert.deepEqual(here.open(), ['1,2', '4,3,2']); // 2 has not come yet
    await here.sources[1].say({ remaining: 9 }, ['2']);
    assert.deepEqual(here.open(), ['4,3,2']);
});

test('what the newer stream has said, the older one does not undo', async () => {
    const here = await scene().begin();
    await here.sources[0].say();
    await here.show('1', '2', '3');
    await runTimers(300);
    await here.sources[1].say({ remaining: 5 }, ['1']);
    here.heard.length = 0;
    await here.sources[0].say({ remaining: 6 });
    assert.deepEqual(
        here.heard.map(([id]) => id),
        ['2'],
    );
});

test('what leaves the screen does not change the stream, until nothing is left', async () => {
    const here = await scene({ ids: ['1', '2', '3'] }).begin();
    await here.sources[0].say();
    await here.show('2');
    await here.show('3', '2');
    await runTimers(300);
    assert.deepEqual(here.open(), ['1,2,3']);
    assert.equal(here.sources.length, 1);
    await here.show();
    assert.deepEqual(here.open(), []);
});

test('where one more stream cannot be had, the first one makes room for it', async () => {
    const here = await scene().begin();
    await here.sources[0].say();
    await here.show('1', '3');
    await runTimers(300);
    here.sources[1].end(new Problem('OVERLOADED', { status: 503 }));
    await turns();
    assert.deepEqual(here.open(), []);
    await runTimers();
    assert.deepEqual(here.open(), ['1,3']);
    assert.equal(here.sources.length, 3);
});

test('a voucher that there is not any more leaves a stream that is refused for it', async () => {
    const here = await scene().begin();
    here.sources[0].end(new Problem('UNKNOWN_VOUCHER', { status: 404 }));
    await turns();
    await here.show('2');
    await runTimers(300);
    assert.deepEqual(here.open(), ['2']);
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
    assert.deepEqual(here.open(), ['1,2']);
});

test('a stream that breaks is opened again after some time, and the list is read meanwhile', async () => {
    const here = await scene({ ids: ['1'] }).begin();
    const { reads } = here;
    await here.sources[0].say();
    here.sources[0].end(new Problem('NO_ANSWER'));
    await turns();
    assert.deepEqual(here.open(), []);
    await runTimers();
    assert.ok(here.reads > reads);
    assert.deepEqual(here.open(), ['1']);
    assert.equal(here.sources.length, 2);
});

test('a stream that the service refuses is asked for less and less, and the list often', async () => {
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

test('the last event of its last voucher ends the stream', async () => {
    const here = await scene().begin();
    await here.sources[0].say({ state: 'closed' }, ['2']);
    assert.deepEqual(here.open(), ['1,2']);
    await here.sources[0].say({ state: 'retired' }, ['1']);
    assert.deepEqual(here.open(), []);
    assert.equal(here.heard.length, 2);
});

test('one tab of a browser streams; another takes over when it is hidden', async () => {
    const locks = createLocks();
    const [first, second] = [await scene({ locks }).begin(), await scene({ locks }).begin()];
    assert.equal(first.open().length, 1);
    assert.equal(second.open().length, 0);
    await first.see(false);
    assert.equal(first.open().length, 0);
    assert.equal(second.open().length, 1);
    await first.see(true);
    assert.equal(first.open().length, 0);
    await second.see(false);
    assert.equal(first.open().length, 1);
});
