// Keeps what is shown of the vouchers fresh, for as long as the page can be seen: an event stream for each voucher on
// screen, and the list, seldom while the streams run and often where they do not.
//
// A browser opens six connections to a host, all tabs together, and a purchase must never wait for one. So one tab at a
// time streams (the holder of a Web Lock), at most STREAMS_MOST vouchers; what has no stream is in the list, which one
// answer brings for all vouchers. A hidden tab asks for nothing and holds nothing.
import { openStream, retryDelay, wait } from '../client/index.js';

export const STREAMS_MOST = 3;
const LOCK = 'seckill.stream';
const SELDOM_MS = 30000;
const IDLE_MS = 10000; // nothing on screen can change soon
const OFTEN_MS = 1500;

// `wanted()` gives the ids of the vouchers that are on screen and may change, from top to bottom, and `isHot(id)`
// whether one may change any second. `read()` reads the list and rejects if it could not. `hear(id, event)` takes an
// event.
export function createLive({
    api,
    wanted,
    isHot,
    read,
    hear,
    page = document,
    locks = globalThis.navigator?.locks,
    random = Math.random,
}) {
    const streams = createStreams({
        api,
        hear,
        random,
        onTrouble: () => setTimeout(() => pause.abort(), OFTEN_MS * random()),
    });
    let pause = new AbortController(); // ends the wait between two reads
    let pauseMs = 0; // how long it was to be
    let release = null; // gives the lock back
    let asking = null; // for the lock
    let reading = false;

    const around = (ms) => ms * (0.8 + 0.4 * random());

    // ---- the list ----

    async function readOn() {
        if (reading) {
            return;
        }
        reading = true;
        for (let failures = 0; !page.hidden;) {
            pause = new AbortController();
            try {
                await read();
                failures = 0;
            } catch (problem) {
                failures++;
                await wait(retryDelay(problem.retryAfterMs, failures, random), pause.signal);
                continue;
            }
            adjust();
            pauseMs = pauseNow();
            await wait(around(pauseMs), pause.signal);
        }
        reading = false;
    }

    function pauseNow() {
        const ids = wanted();
        if (ids.length > 0 && streams.runAll(ids)) {
            return SELDOM_MS;
        }
        return ids.some(isHot) ? OFTEN_MS : IDLE_MS;
    }

    // ---- the streams ----

    function adjust() {
        const ids = page.hidden ? [] : wanted();
        const some = ids.length > 0;
        if (some && release === null && asking === null) {
            askForLock();
        }
        if (!some) {
            giveLockBack();
        }
        streams.follow(some && release !== null ? ids.slice(0, STREAMS_MOST) : []);
        if (ids.length > STREAMS_MOST && pauseNow() < pauseMs) {
            pauseMs = 0;
            pause.abort(); // what came on screen has no stream, and the list would be read much later
        }
    }

    // Granted at once, or when the tab that streams is hidden or closed.
    function askForLock() {
        if (locks === undefined) {
            // the page did not come over TLS: each tab for itself
            release = () => {};
            return;
        }
        asking = new AbortController();
        const held = () =>
            new Promise((resolve) => {
                asking = null;
                release = resolve;
                adjust();
            });
        locks.request(LOCK, { signal: asking.signal }, held).catch(() => {});
    }

    function giveLockBack() {
        asking?.abort();
        asking = null;
        release?.();
        release = null;
    }

    function onVisibility() {
        adjust();
        pause.abort();
        readOn();
    }

    return {
        start() {
            page.addEventListener('visibilitychange', onVisibility);
            readOn();
        },
        // What is wanted has changed.
        adjust,
        // Reads the list now.
        hurry: () => pause.abort(),
        // The page is about to be left, and may come back as it is.
        rest() {
            giveLockBack();
            streams.follow([]);
        },
    };
}

function createStreams({ api, hear, random, onTrouble }) {
    const open = new Map(); // id -> stream

    return {
        follow(ids) {
            for (const [id, stream] of open) {
                if (!ids.includes(id)) {
                    stream.close();
                    open.delete(id);
                }
            }
            for (const id of ids.filter((one) => !open.has(one))) {
                open.set(id, openStream(api, id, { random, onTrouble, onEvent: (event) => hear(id, event) }));
            }
        },
        runAll: (ids) => ids.every((id) => open.get(id)?.runs()),
    };
}
