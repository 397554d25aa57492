// Where the reader was on this page, so that Back leads there: the entry of the browser's history keeps it. A browser
// restores a place only in a document that is as long again, and our cards come after that. Cards may stand in another
// order then, so the place is the distance of a card from the top.

const KEEP_MS = 500; // after the last move or key: a reload keeps nothing that is written while the page is left
const GIVE_UP_MS = 10000;
const HEADER_PX = 80; // what lies under the header is not what the reader looks at
const OWN_MOVES = ['wheel', 'touchstart', 'pointerdown', 'keydown'];

// `state()` gives what else is to be kept.
export function keepPlace(state) {
    let timer;
    const keep = () => history.replaceState({ y: scrollY, ...firstInSight(), ...state() }, '');
    addEventListener('pagehide', keep);
    for (const change of ['scroll', 'input']) {
        addEventListener(change, () => {
            clearTimeout(timer);
            timer = setTimeout(keep, KEEP_MS);
        });
    }
}

function firstInSight() {
    for (const shown of document.querySelectorAll('[data-voucher], [data-order]')) {
        const { top, bottom } = shown.getBoundingClientRect();
        if (bottom > HEADER_PX) {
            const { voucher, order } = shown.dataset;
            return { at: voucher ? `[data-voucher="${voucher}"]` : `[data-order="${order}"]`, top };
        }
    }
    return {};
}

// What was kept: {y, at, top}, and the rest.
export const keptPlace = () => ({ y: 0, ...history.state });

// Goes there as soon as the document is long enough, unless the reader moves first.
export function returnTo({ y, at, top }) {
    if (!(y > 0)) {
        return;
    }
    const watcher = new ResizeObserver(go);
    const stop = () => {
        watcher.disconnect();
        OWN_MOVES.forEach((move) => removeEventListener(move, stop));
    };

    function go() {
        const card = at && document.querySelector(at);
        const wanted = card ? scrollY + card.getBoundingClientRect().top - top : y;
        scrollTo(0, wanted);
        if ((card || !at) && Math.abs(scrollY - wanted) <= 1) {
            stop();
        }
    }

    OWN_MOVES.forEach((move) => addEventListener(move, stop, { passive: true }));
    setTimeout(stop, GIVE_UP_MS);
    watcher.observe(document.body);
}
