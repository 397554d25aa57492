import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createClock } from '../../clients/web/clock.js';

const SERVER = Date.parse('2030-01-01T00:00:00Z');
const HOUR = 3600 * 1000;

// A client that began when the server's clock was SERVER, and whose own is an hour off.
function world() {
    const at = { ms: 0, wall: SERVER + HOUR };
    const clock = createClock({ monotonic: () => at.ms, wall: () => at.wall + at.ms });
    return { at, clock };
}

// The server reads its clock when so much of the round trip is over.
function ask({ at, clock }, trip, part = 0.5) {
    const sent = at.ms;
    const server = SERVER + at.ms + trip * part;
    at.ms += trip;
    clock.sample(server, sent, at.ms);
}

const error = ({ at, clock }) => Math.abs(clock.now() - (SERVER + at.ms));

test('before the first sample nothing is known', () => {
    const { clock } = world();
    assert.equal(clock.now(), undefined);
    assert.equal(clock.room(), Infinity);
});

test("the client's own clock takes no part", () => {
    const here = world();
    ask(here, 40);
    assert.ok(error(here) < 1);
    here.at.wall -= 5 * HOUR;
    here.at.ms += 60000;
    assert.ok(error(here) < 1);
});

test('it is never wrong by more than it says, wherever the time of the round trip went', () => {
    for (const part of [0, 0.2, 0.5, 1]) {
        const here = world();
        ask(here, 300, part);
        assert.ok(error(here) <= here.clock.room() + 1e-6, `${part}`);
    }
});

test('the shortest round trip counts', () => {
    const here = world();
    ask(here, 800, 0.95);
    assert.ok(error(here) > 300);
    ask(here, 10, 0.5);
    ask(here, 900, 0.05);
    assert.ok(error(here) < 1);
});

test('with age a sample loses: a worse one replaces it in the end', () => {
    const here = world();
    ask(here, 10);
    here.at.ms += 3 * HOUR;
    assert.ok(here.clock.room() > 500);
    ask(here, 200);
    assert.ok(here.clock.room() <= 100);
});

test('one that contradicts replaces it, as after a sleep in which the monotonic clock stood still', () => {
    const here = world();
    ask(here, 10);
    const sent = here.at.ms;
    here.at.ms += 100;
    here.clock.sample(SERVER + HOUR + here.at.ms - 50, sent, here.at.ms);
    assert.ok(Math.abs(here.clock.now() - (SERVER + HOUR + here.at.ms)) <= 50);
});

test('an event moves the clock forward only', () => {
    const here = world();
    ask(here, 100, 0);
    const late = here.clock.now();
    here.clock.atLeast(late - 5000);
    assert.equal(here.clock.now(), late);
    here.clock.atLeast(late + 30);
    assert.equal(here.clock.now(), late + 30);
});

test('what is no time changes nothing', () => {
    const here = world();
    here.clock.sample(NaN, 0, 10);
    here.clock.atLeast(NaN);
    assert.equal(here.clock.now(), undefined);
});

test('a jump is told once', () => {
    const { at, clock } = world();
    assert.equal(clock.hasJumped(), false);
    at.ms += 60000;
    assert.equal(clock.hasJumped(), false);
    at.wall += HOUR;
    assert.equal(clock.hasJumped(), true);
    assert.equal(clock.hasJumped(), false);
});
