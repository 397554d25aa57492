// Keeps what is shown of the vouchers fresh, for as long as the page can be seen: an event stream of the vouchers on
// screen, and the list, seldom while the stream runs and often where it does not.
//
// A browser opens six connections to a host, all tabs together, and a purchase must never wait for one. So one tab at a
// time streams (the holder of a Web Lock), all vouchers over one connection; what the stream does not have is in the
// list. A hidden tab asks for nothing and holds nothing.
import { openStream, retryDelay, STREAM_MOST, wait } from '../client/index.js';

const CHANGE_MS = 250; // so long what is on screen stays the same before the stream changes
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
    const stream = createStream({
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
        if (ids.length > 0 && ids.every(stream.hears)) {
            return SELDOM_MS;
        }
        return ids.some(isHot) ? OFTEN_MS : IDLE_MS;
    }

    // ---- the stream ----

    function adjust() {
        const ids = page.hidden ? [] : wanted();
        const some = ids.length > 0;
        if (some && release === null && asking === null) {
            askForLock();
        }
        if (!some) {
            giveLockBack();
        }
        stream.follow(some && release !== null ? ids.slice(0, STREAM_MOST) : []);
        if (ids.length > STREAM_MOST && pauseNow() < pauseMs) {
            pauseMs = 0;
            pause.abort(); // the stream does not have what came on screen, and the list would be read much later
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
            stream.follow([]);
        },
    };
}

// One stream of all that is followed. Another one takes its place when it does not have what is to be followed: not at
// each step of a scroll, and the older one goes on until the newer one has brought what it had. What is not followed any
// more does not change it: when a sale ends, not all pages open their streams anew.
function createStream({ api, hear, random, onTrouble }) {
    let newer = null; // {ids, hears, close}
    let older = null; // null: only the newer one is open
    let changing;

    const hears = (id) => [newer, older].some((one) => one?.hears(id));
    const isSame = (ids) => ids.length === newer.ids.length && ids.every((id) => newer.ids.includes(id));

    function change(ids) {
        if (older === null) {
            older = newer;
        } else {
            newer.close();
        }
        const on = { onEvent: (event) => take(one, event), onTrouble: () => lose(one) };
        const one = openStream(api, ids, { ...on, random });
        newer = Object.assign(one, { ids });
    }

    function take(one, event) {
        const id = event.voucher_id;
        if (one === newer || (one === older && !newer.hears(id))) {
            hear(id, event);
        }
        if (one === newer && !newer.ids.some((other) => older?.hears(other) && !newer.hears(other))) {
            closeOlder();
        }
    }

    // If the service has no place for one more stream, that of the older one may do.
    function lose(one) {
        if (one === newer) {
            closeOlder();
        }
        onTrouble();
    }

    function closeOlder() {
        older?.close();
        older = null;
    }

    return {
        follow(ids) {
            clearTimeout(changing);
            if (ids.length === 0) {
                closeOlder();
                newer?.close();
                newer = null;
            } else if (newer === null) {
                change(ids);
            } else if (!isSame(ids) && !ids.every(newer.hears)) {
                changing = setTimeout(() => change(ids), CHANGE_MS);
            }
        },
        hears,
    };
}
