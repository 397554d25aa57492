// Asks for something again and again: once a period, never a second time before the first has been answered, not at all
// while the page is hidden, and less often while there is no answer.

const LEAST_MS = 1000;
const SLOWEST_MS = 5000;

// ask(): a promise of true, or of false if there was no answer. visible(): whether the page is shown; wake() must be
// called when it is again. `timers` are for tests.
export function createPoller({ ask, every_ms, visible = () => true, timers = realTimers() }) {
    const least_ms = Math.max(LEAST_MS, every_ms);
    let timer = null, running = false, asking = false, again = false, failures = 0;

    async function round() {
        const began = timers.now();
        asking = true;
        const answered = await ask().catch((error) => {
            console.error(error);
            return false;
        });
        asking = false;
        failures = answered ? 0 : failures + 1;
        if (running) {
            timer = timers.set(wake, again ? 0 : Math.max(0, periodMs() - (timers.now() - began)));
        }
        again = false;
    }

    function periodMs() {
        const doubled = least_ms * 2 ** Math.max(0, Math.min(failures, 8) - 1);
        return failures === 0 ? least_ms : Math.max(least_ms, Math.min(SLOWEST_MS, doubled));
    }

    // Asks now, or as soon as what is being asked has been answered.
    function wake() {
        if (asking) {
            again = true;
            return;
        }
        timers.clear(timer);
        timer = null;
        if (running && visible()) {
            void round();
        }
    }

    return {
        wake,
        start() {
            running = true;
            wake();
        },
        stop() {
            running = again = false;
            timers.clear(timer);
        },
    };
}

function realTimers() {
    return { set: (f, ms) => setTimeout(f, ms), clear: (timer) => clearTimeout(timer), now: () => performance.now() };
}
