// Time that is left, in words and figures, and one timer for all that count.

const SECOND_MS = 1000;
const LEAST_WAIT_MS = 15;
const MILESTONES_MS = [60000, 10000, 0];

// Seconds are rounded up, so that 0 is shown when it is over and not a second before.
export function countdown(ms) {
    const seconds = Math.max(0, Math.ceil(ms / SECOND_MS));
    const two = (number) => String(number).padStart(2, '0');
    const days = Math.floor(seconds / 86400);
    const hours = Math.floor(seconds / 3600) % 24;
    const clock = `${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
    return { days, clock: days > 0 || hours > 0 ? `${two(hours)}:${clock}` : clock };
}

// Until the figures change: at most a second. Infinity: nothing counts.
export function untilNextSecond(ms) {
    if (ms === Infinity) {
        return Infinity;
    }
    const left = ms % SECOND_MS;
    return ms <= 0 ? SECOND_MS : left === 0 ? SECOND_MS : left;
}

// Which milestone lies between two moments; of several the last one. undefined: none, or it is not known from where.
export function milestone(beforeMs, afterMs) {
    if (beforeMs === undefined) {
        return undefined;
    }
    return MILESTONES_MS.filter((at) => beforeMs > at && afterMs <= at).pop();
}

// tick() shows what there is to show now, and gives the ms until it wants to be called again. In a hidden tab it is not
// called; browsers slow its timers down, so that nothing may depend on how often it was.
export function createTicker(tick, page = document) {
    let timer;

    function run() {
        clearTimeout(timer);
        if (page.hidden) {
            return;
        }
        const next = tick();
        timer = setTimeout(run, Math.min(SECOND_MS, Math.max(LEAST_WAIT_MS, next)));
    }

    page.addEventListener('visibilitychange', run);
    return { run };
}
