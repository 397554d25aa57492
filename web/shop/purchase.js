// One buyer's try to buy one voucher: a state, one function that moves it, and what is kept so that it survives a
// reload.
//
//   IDLE -> ASKING -> WON | IN_LINE | FOLLOWING | REFUSED | UNKNOWN
//           ASKING <-> WAITING
//
// By way of TICKET where the voucher takes one, and of WAITING where the same question is to be asked again.
//
// A try has one Idempotency-Key from its first question to its end, in all tabs and over reloads. So asking again is
// always safe: it gets the first answer again, and never a second order.
import { isTicketGood, makeKey, outcomeOf, placeOrder } from '../client/index.js';

export const STATE = Object.freeze({
    IDLE: 'idle',
    TICKET: 'ticket', // getting one
    ASKING: 'asking',
    WAITING: 'waiting', // to ask again
    FOLLOWING: 'following', // accepted, not settled yet
    IN_LINE: 'in_line', // the order waits for a unit, until the sale ends or the buyer leaves
    WON: 'won',
    REFUSED: 'refused',
    UNKNOWN: 'unknown', // there may be an order
});

const { IDLE, TICKET, ASKING, WAITING, FOLLOWING, IN_LINE, WON, REFUSED, UNKNOWN } = STATE;

const ALLOWED = {
    [IDLE]: [TICKET, ASKING, FOLLOWING, IN_LINE, WON, REFUSED, UNKNOWN],
    [TICKET]: [ASKING, WAITING, WON, REFUSED, UNKNOWN],
    [ASKING]: [IDLE, WAITING, FOLLOWING, IN_LINE, WON, REFUSED, UNKNOWN],
    [WAITING]: [TICKET, ASKING],
    [FOLLOWING]: [IDLE, FOLLOWING, IN_LINE, WON, REFUSED],
    [IN_LINE]: [IDLE, FOLLOWING, IN_LINE, WON, REFUSED],
    [WON]: [IDLE, FOLLOWING, IN_LINE, WON, REFUSED],
    [REFUSED]: [IDLE, TICKET, ASKING, FOLLOWING, IN_LINE, WON, REFUSED],
    [UNKNOWN]: [IDLE, TICKET, ASKING, FOLLOWING, IN_LINE, WON, REFUSED],
};

const UNDER_WAY = [TICKET, ASKING, WAITING, FOLLOWING];
const LIVE = [FOLLOWING, IN_LINE, WON]; // there is an order
const GOES_ON_MS = 2 * 60 * 1000; // a try that was under way so long ago goes on by itself
const KEY_LASTS_MS = 23 * 3600 * 1000; // the service keeps it a day

// What a buyer is told; the page has words for each.
const TOLD = 'won accepted already_ordered sold_out not_enough too_many offer_changed not_started paused too_fast'.split(' ');
const OF_LINES = ['in_line', 'waitlist_full', 'line_over'];
const CODES = [null, ...TOLD, ...OF_LINES, 'other_ordered', 'retrying', 'ended', 'loading', 'unknown', 'error'];
const PASSING = ['sold_out', 'waitlist_full', 'paused', 'not_started', 'not_enough']; // until it can be bought again
const WHYS = [undefined, 'login', 'quantity', 'refused', 'tickets']; // of an error

const STATES = { won: WON, waiting: IN_LINE, accepted: FOLLOWING, refused: REFUSED, ended: IDLE, unknown: UNKNOWN };

// What the service's codes mean to the buyer: one of the page's own, of which it has words. All others: an error.
const MEANS = {
    SOLD_OUT: { code: 'sold_out' },
    WAITLIST_FULL: { code: 'waitlist_full' },
    NOT_ENOUGH: { code: 'not_enough' },
    TOO_MANY_ORDERS: { code: 'too_many' },
    OFFER_CHANGED: { code: 'offer_changed' },
    NOT_STARTED: { code: 'not_started' },
    PAUSED: { code: 'paused' },
    ENDED: { code: 'ended' },
    ARCHIVED: { code: 'ended' },
    UNKNOWN_VOUCHER: { code: 'ended' },
    RATE_LIMITED: { code: 'too_fast' },
    TICKETS_OFF: { code: 'error', why: 'tickets' },
    UNAUTHENTICATED: { code: 'error', why: 'login' },
    INVALID: { code: 'error', why: 'quantity' },
};

// An outcome of the client's, as the page shows it. An order of another voucher in the scope is none of this one:
// `voucherId` is this one's.
function judge({ outcome, code, orderId, order, body, retryAfterMs }, voucherId) {
    const details = { to: STATES[outcome], orderId, left: body?.left, retryAfterMs };
    switch (outcome) {
        case 'won':
            if (![undefined, voucherId].includes(body?.voucher_id)) {
                return { ...details, to: REFUSED, code: 'other_ordered', voucherId: body.voucher_id };
            }
            return { ...details, code: code === 'ALREADY_ORDERED' ? 'already_ordered' : 'won' };
        case 'waiting':
            return { ...details, code: 'in_line' };
        case 'accepted':
            return { ...details, code: 'accepted' };
        case 'refused':
            return { ...details, ...(MEANS[code] ?? { code: 'error', why: order && 'refused' }) };
        default:
            return { ...details, code: outcome === 'unknown' ? 'unknown' : null };
    }
}

// `voucher()` gives the voucher as it is known now. `store` has load() and save(record). `goesOn`: a try that leaving the
// page has interrupted goes on by itself. `followOrder(id)` resolves with the order once it is not pending any more.
// `onOrder(order)` hears of each order that an answer shows.
export function createPurchase({
    voucher,
    api,
    now,
    store,
    goesOn = true,
    getTicket,
    followOrder,
    wait,
    newKey = makeKey,
    random = Math.random,
    onChange = () => {},
    onOrder = () => {},
}) {
    let state = IDLE;
    let outcome = { code: null }; // with orderId, voucherId (that order's, if another), left, why, retryAfterMs
    let attempt = { key: null, quantity: 1, waits: false, at: 0 }; // waits: it joins the line if there is no unit
    let ticket = null;
    let fetching = null; // the ticket, ahead of time
    let isPrepared = false;
    const ending = new AbortController();

    // ---- the one function that moves ----

    function move(to, { code = null, orderId, voucherId, left, why, retryAfterMs } = {}) {
        if (!ALLOWED[state].includes(to)) {
            throw new Error(`a purchase cannot go from ${state} to ${to}`);
        }
        state = to;
        outcome = { code, orderId, voucherId, left, why, retryAfterMs };
        keep();
        if (!ending.signal.aborted) {
            onChange();
        }
    }

    // Another tab may have written of a try of its own.
    function keep() {
        if (state !== IDLE && attempt.key !== null) {
            store.save({ ...attempt, state, outcome });
        } else if (attempt.key !== null && store.load()?.key === attempt.key) {
            store.save(null);
        }
    }

    // ---- from the button to the end ----

    // False: a try is under way, or there is nothing left to try. `waits`: as of an attempt.
    function press(quantity, waits = false) {
        if (UNDER_WAY.includes(state) || state === IN_LINE) {
            return false;
        }
        if (state === WON) {
            move(WON, { ...outcome, code: 'already_ordered' });
            return false;
        }
        begin(quantity, waits);
        return true;
    }

    // A try whose outcome is not known, here or in another tab, goes on and is not replaced by another. One that may
    // have joined the line goes on whatever the quantity: a plain purchase does not learn of a place.
    function begin(quantity, waits) {
        const kept = store.load();
        const isOpen = isRecord(kept) && [...UNDER_WAY, UNKNOWN].includes(kept.state) && isRecent(kept, KEY_LASTS_MS);
        const isDoubtful = isOpen || state === UNKNOWN;
        const isSame = isOpen && (kept.quantity === quantity || kept.waits === true);
        attempt = isSame ? keyOf(kept) : { key: newKey(), quantity, waits, at: now() ?? 0 };
        attempt.waits ||= waits;
        run(isDoubtful);
    }

    // After end() nothing is asked any more: it would be asked for another buyer. `isDoubtful`: an earlier question may
    // have made an order.
    async function run(isDoubtful) {
        const { key, quantity, waits } = attempt;
        const { signal } = ending;
        const how = { isDoubtful, signal, takeTicket, onStep: step, pause: wait, random };
        const options = { key, quantity, wait: waits, ...how };
        const result = await placeOrder(api, voucher().id, options);
        if (result.order !== undefined) {
            onOrder(result.order);
        }
        if (result.code !== 'ABORTED') {
            conclude(judge(result, voucher().id));
        }
    }

    function step({ step: what, code, retryAfterMs }) {
        if (what === 'asking') {
            move(ASKING);
        } else {
            const shown = { NOT_STARTED: 'not_started', RATE_LIMITED: 'too_fast' }[code] ?? 'retrying';
            move(WAITING, { code: shown, retryAfterMs });
        }
    }

    function conclude(judged) {
        move(judged.to, judged);
        if (judged.to === FOLLOWING) {
            follow(judged.orderId);
        }
    }

    async function follow(orderId) {
        const order = await followOrder(orderId); // null: there is none, or nobody waits any more
        if (order !== null) {
            learn(order);
        } else if (!ending.signal.aborted) {
            forget(orderId);
        }
    }

    // ---- tickets ----

    // Where the voucher takes one, or the service has said so.
    function takeTicket(isNeeded) {
        if (isNeeded) {
            ticket = { text: '', offer: 0, expiresMs: 0 };
        }
        if (!voucher().ticket && ticket === null) {
            return undefined;
        }
        return goodTicket();
    }

    async function goodTicket() {
        if (!isTicketGood(ticket, voucher(), now())) {
            move(TICKET);
            ticket = await (fetching ?? getTicket(voucher()));
        }
        return ticket.text;
    }

    // Before the start, once, so that the work is done by then. What fails here is done when the button is pressed.
    async function prepare() {
        if (isPrepared || ![IDLE, REFUSED].includes(state) || isTicketGood(ticket, voucher(), now())) {
            return;
        }
        isPrepared = true;
        fetching = getTicket(voucher());
        try {
            ticket = await fetching;
        } catch {
            ticket = null;
        }
        fetching = null;
    }

    // ---- over reloads, and beside other tabs ----

    const isRecent = (record, most) => now() === undefined || record.at === 0 || now() - record.at < most;
    const keyOf = ({ key, quantity, waits, at }) => ({ key, quantity, waits: waits === true, at });

    // After a load of the page. A refusal is not shown again: its reason may have gone.
    function resume() {
        const kept = store.load();
        if (state !== IDLE || !isRecord(kept) || kept.state === REFUSED || !isRecent(kept, KEY_LASTS_MS)) {
            return;
        }
        attempt = keyOf(kept);
        if (kept.state === WON || kept.state === IN_LINE) {
            move(kept.state, kept.outcome);
        } else if (kept.state === FOLLOWING) {
            conclude({ ...kept.outcome, to: FOLLOWING });
        } else if (goesOn && isRecent(kept, GOES_ON_MS) && kept.state !== UNKNOWN) {
            run(true);
        } else {
            move(UNKNOWN, { code: 'unknown' });
        }
    }

    // Another tab has written what became of its try.
    function overhear() {
        const kept = store.load();
        if (UNDER_WAY.includes(state) || state === WON || !isRecord(kept)) {
            return;
        }
        if (kept.state === WON) {
            attempt = keyOf(kept);
            move(WON, { ...kept.outcome, code: 'already_ordered' });
        } else if (kept.state === FOLLOWING || kept.state === IN_LINE) {
            attempt = keyOf(kept);
            conclude({ ...kept.outcome, to: kept.state });
        }
    }

    // An order of this voucher as the service shows it, which is the truth. While a question is under way its own
    // answer counts.
    function learn(order) {
        if ([TICKET, ASKING, WAITING].includes(state)) {
            return;
        }
        const own = outcome.orderId === order.id;
        const judged = judge(outcomeOf(order));
        if (judged.to === WON) {
            const isNew = outcome.code === 'accepted' || outcome.code === 'in_line';
            judged.code = !own ? 'already_ordered' : isNew ? 'won' : outcome.code;
        } else if (judged.to === REFUSED && state === IN_LINE) {
            judged.code = 'line_over';
        }
        const isLive = LIVE.includes(judged.to);
        if (isLive && !(own && judged.to === state)) {
            conclude(judged);
        } else if (!isLive && own && LIVE.includes(state)) {
            move(judged.to, judged);
        }
    }

    // There is no such order, whatever was kept here; or it was another voucher's, and has ended.
    function forget(orderId) {
        if ([...LIVE, REFUSED].includes(state) && outcome.orderId === orderId) {
            move(IDLE);
        }
    }

    // Says why the button does nothing now. Nothing was asked, and nothing is kept.
    function refuse(code) {
        if (state === IDLE || state === REFUSED) {
            attempt = { ...attempt, key: null };
            move(REFUSED, { code });
        }
    }

    // The voucher can be bought again: a refusal that said otherwise has had its time.
    function forgive() {
        if (state === REFUSED && PASSING.includes(outcome.code)) {
            move(IDLE);
        }
    }

    return {
        press,
        refuse,
        prepare,
        resume,
        overhear,
        learn,
        forget,
        forgive,
        state: () => state,
        outcome: () => outcome,
        quantity: () => attempt.quantity,
        isUnderWay: () => UNDER_WAY.includes(state),
        // The page no longer shows it. What becomes of a question under way is still kept.
        end() {
            ending.abort();
        },
    };
}

// What was kept may be another version's, or anything.
function isRecord(kept) {
    const { key, quantity, state, outcome } = kept ?? {};
    return (
        typeof key === 'string' &&
        Number.isInteger(quantity) &&
        Object.keys(ALLOWED).includes(state) &&
        typeof outcome === 'object' &&
        outcome !== null &&
        CODES.includes(outcome.code ?? null) &&
        WHYS.includes(outcome.why)
    );
}
