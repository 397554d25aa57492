// The server's time. The client's own clock takes no part: it may be an hour off, and jump.
//
// A sample is what the server said its time was, and when, by a clock that only runs forward, the question left and its
// answer came. The server wrote its time somewhere in between, so the offset is known to half of that. The sample that
// leaves the least room counts; it loses some of that with age, as two clocks never run quite alike, and the clock
// that only runs forward stops while some machines sleep. One that contradicts it replaces it.
//
// An event of a stream was written an unknown time ago. It proves only that it is no earlier than that.

const DRIFT = 1e-4; // of two clocks
const JUMP_MS = 2000;

// `monotonic` and `wall` are for tests.
export function createClock({ monotonic = () => performance.now(), wall = () => Date.now() } = {}) {
    let best = null; // {offset, room, at}: server's time - monotonic, give or take `room`
    let apart = wall() - monotonic();

    const roomOf = (sample, at) => sample.room + (at - sample.at) * DRIFT;

    return {
        monotonic,

        // A whole answer: `server` and the result of now() in ms since 1970, the others by `monotonic`.
        sample(server, sent, received) {
            const room = Math.max(0, received - sent) / 2;
            const sample = { offset: server + room - received, room, at: received };
            if (!Number.isFinite(server)) {
                return;
            }
            const agrees = best !== null && Math.abs(sample.offset - best.offset) <= room + roomOf(best, received);
            if (!agrees || room <= roomOf(best, received)) {
                best = sample;
            }
        },

        // It is `server` or later.
        atLeast(server) {
            const at = monotonic();
            if (Number.isFinite(server) && best !== null && server > at + best.offset) {
                best = { offset: server - at, room: best.room, at };
            }
        },

        // undefined: not known yet
        now() {
            return best === null ? undefined : monotonic() + best.offset;
        },

        // By how much now() may be wrong.
        room() {
            return best === null ? Infinity : roomOf(best, monotonic());
        },

        // Whether another sample is wanted: true once after a sleep, or after a jump of the client's own clock, which
        // looks the same from here.
        hasJumped() {
            const difference = wall() - monotonic();
            const jumped = Math.abs(difference - apart) > JUMP_MS;
            apart = difference;
            return jumped;
        },
    };
}
