// What is on sale: reads it, keeps a card for each voucher, and shows what time, streams and purchases change of it.
import { Problem } from '../client/index.js';
import { createLive } from './live.js';
import { milestone, untilNextSecond } from './countdown.js';
import { STATE } from './purchase.js';
import { byEnd, canJoin, inOrder, matches, opensAt, PHASE, phaseOf } from './vouchers.js';

const SINGLE_MOST = 5; // vouchers that are asked for by themselves, in one round: those that waited longest
const OLD_MS = 3600 * 1000; // a sale that has been over for so long is not shown to those who come now
const HOT_MS = 60000;
const PREPARE_MS = 90000; // before the start: at a random moment from then on tickets are got ...
const REFRESH_FROM_MS = 12000; // ... and terms and clock are read once more
const REFRESH_TO_MS = 3000;
const MILESTONES = { 60000: 'announce.minute', 10000: 'announce.ten' };
const ANNOUNCED = [PHASE.ON_SALE, PHASE.SOLD_OUT, PHASE.PAUSED, PHASE.ENDED];
const SEARCHED_MOST = 10; // pages that a search reads on
const FOLLOWED_MS = 10000; // after the buyer's own order has ended
const KEPT_MS = 1000; // so old an answer of the service may be

// `purchase(id)` gives the buyer's purchase of a voucher, `orderOf(id)` its order, won or waiting, `prepare(id)` gets
// its ticket, once. `onRead()` is called after each try to read.
export function createSales({
    api,
    clock,
    vouchers,
    view,
    voice,
    purchase,
    orderOf,
    prepare,
    onRead,
    makeLive = createLive,
    readList = () => api.call('/vouchers'),
    pagesAtFirst = 1,
    shownAtFirst = { search: '', sort: 'open' },
    isOnline = () => globalThis.navigator?.onLine !== false,
    random = Math.random,
}) {
    const cards = new Map(); // id -> {phase, left, prepareAt, refreshAt}
    const live = makeLive({ api, wanted, isHot, read, hear });
    const further = new Set(); // ids of later pages, which are read by themselves, and only while they are on screen
    const asked = new Map(); // id -> the number of the round that asked for it by itself
    const followed = new Map(); // id -> until when its stream comes first, by the monotonic clock
    let shownAs = shownAtFirst;
    let trouble = 'loading'; // null: the list was read; or 'unreadable', 'stale', 'offline'
    let isPartial = false; // the service could not read all of it
    let readAt; // the server's time, of the newest list
    let pages = 0; // of the list, that were read
    let round = 0, next = null, turning = false; // next: the cursor of what follows all that was read; null: nothing does

    // ---- reading ----

    async function read() {
        await shown(async () => {
            const { body } = await readList();
            put(body);
            next = further.size === 0 ? (body.next ?? null) : next;
            pages = Math.max(pages, 1);
            while (pages < pagesAtFirst && next !== null) {
                await readNext();
            }
            await Promise.all(unlisted(new Set(body.vouchers.map(({ id }) => id))).map(readOne));
        });
    }

    // The page after those that were read. The reader goes on at the first of its cards.
    async function readMore() {
        if (turning || next === null) {
            return;
        }
        turning = true;
        view.renderMore(true, turning);
        const before = new Set(cards.keys());
        const isRead = await shown(readNext).then(() => true, noteProblem);
        turning = false;
        view.renderMore(next !== null, turning);
        const fresh = [...cards.keys()].filter((id) => !before.has(id));
        if (isRead) {
            view.announce(voice.say('announce.more', { count: fresh.length }));
        }
        if (fresh.length > 0) {
            view.card(fresh[0]).focus();
        }
    }

    async function readNext() {
        const { body } = await api.call(`/vouchers?cursor=${encodeURIComponent(next)}`);
        put(body);
        body.vouchers.forEach(({ id }) => further.add(id));
        next = body.next ?? null;
        pages++;
    }

    // False: not read, which is shown. What is no problem of a call is a mistake of ours.
    function noteProblem(problem) {
        if (!(problem instanceof Problem)) {
            throw problem;
        }
        return false;
    }

    // Shows what `reading` has brought, or that it brought nothing, which rejects.
    async function shown(reading) {
        try {
            await reading();
            trouble = null;
            readAt = clock.now();
        } catch (problem) {
            trouble = cards.size === 0 ? 'unreadable' : isOnline() ? 'stale' : 'offline';
            throw problem;
        } finally {
            addCards();
            tick();
            renderAll();
            onRead();
        }
    }

    function put(body) {
        isPartial = body.complete === false;
        body.vouchers.forEach((voucher) => vouchers.put(voucher, body.can_sell));
    }

    // Those that have a card and are not listed any more, as closed ones; and those of later pages.
    function unlisted(listed) {
        const onScreen = new Set(view.onScreen());
        const isMissed = (id) => !listed.has(id) && cards.get(id)?.phase !== PHASE.ENDED;
        const isDue = (id) => isMissed(id) && (!further.has(id) || onScreen.has(id));
        const longest = (one, other) => (asked.get(one) ?? 0) - (asked.get(other) ?? 0);
        const due = [...cards.keys()].filter(isDue).sort(longest).slice(0, SINGLE_MOST);
        round++;
        due.forEach((id) => asked.set(id, round));
        return due;
    }

    async function readOne(id) {
        try {
            const { body } = await api.call(`/vouchers/${id}`);
            vouchers.put(body, body.can_sell);
        } catch (problem) {
            if (problem.code === 'UNKNOWN_VOUCHER') {
                vouchers.hear(id, { phase: PHASE.ENDED, remaining: null }); // another service was at this address
            }
        }
    }

    // A stream's event.
    function hear(id, event) {
        clock.atLeast(Date.parse(event.server_time));
        vouchers.hear(id, event);
        tickCard(id, cards.get(id));
        render(id);
    }

    // ---- cards ----

    function addCards() {
        const now = clock.now();
        const phase = (voucher) => phaseOf(voucher, now, clock.room());
        const isOld = (voucher) =>
            phase(voucher) === PHASE.ENDED && (voucher.endMs > now || voucher.endMs < now - OLD_MS);
        const fresh = vouchers.all().filter((voucher) => !cards.has(voucher.id) && !isOld(voucher));
        const sorted = sorting(phase)(fresh);
        view.addCards(sorted);
        for (const { id } of sorted) {
            const refreshAt = REFRESH_TO_MS + random() * (REFRESH_FROM_MS - REFRESH_TO_MS);
            cards.set(id, { prepareAt: random() * PREPARE_MS, refreshAt });
            tickCard(id, cards.get(id));
        }
    }

    const sorting = (phase) => (some) => (shownAs.sort === 'end' ? byEnd : inOrder)(some, phase);

    // What the reader searches, and in which order. A search reads on, as it would miss what is on later pages.
    async function arrange(wanted) {
        const isSorted = wanted.sort !== shownAs.sort;
        shownAs = wanted;
        if (isSorted) {
            const known = [...cards.keys()].map((id) => vouchers.get(id));
            view.arrange(sorting(({ id }) => cards.get(id).phase)(known).map(({ id }) => id));
        }
        renderFound();
        while (shownAs === wanted && wanted.search !== '' && next !== null && pages < SEARCHED_MOST && !turning) {
            turning = true;
            const isRead = await shown(readNext).then(() => true, noteProblem);
            turning = false;
            renderAll();
            if (!isRead) {
                return;
            }
        }
        if (shownAs === wanted && wanted.search !== '') {
            view.announce(voice.say('announce.found', { count: found().length }));
        }
    }

    const found = () => [...cards.keys()].filter((id) => matches(vouchers.get(id), shownAs.search));

    function renderFound() {
        view.renderFound({ count: cards.size, found: found(), search: shownAs.search });
    }

    function render(id) {
        const card = cards.get(id);
        if (card?.phase !== undefined) {
            view.card(id).render(vouchers.get(id), card.phase, purchase(id), orderOf(id), otherTitle(id));
            view.card(id).renderDue(orderOf(id), clock.now()); // at once, so that nothing moves a second later
        }
    }

    // Of the voucher whose order keeps the buyer from this one.
    function otherTitle(id) {
        const { voucherId } = purchase(id).outcome();
        return voucherId && (vouchers.get(voucherId)?.title ?? voice.say('order.of', { id: voucherId }));
    }

    function renderAll() {
        const state = isPartial ? 'partial' : cards.size === 0 ? 'empty' : 'ready';
        view.renderVouchersState(trouble ?? state, readAt, clock.now());
        view.renderMore(next !== null, turning);
        cards.forEach((_, id) => render(id));
        renderFound();
    }

    // What may change, first what may change any moment: vouchers that the buyer has just given back, then those that
    // are on screen.
    function wanted() {
        const now = clock.monotonic();
        followed.forEach((until, id) => until < now && followed.delete(id));
        const ids = [...new Set([...followed.keys(), ...view.onScreen()])];
        const mayChange = ids.filter((id) => cards.has(id) && cards.get(id).phase !== PHASE.ENDED);
        const waits = (id) => Number(!followed.has(id) && cards.get(id).phase === PHASE.UPCOMING && !isHot(id));
        return mayChange.sort((one, other) => waits(one) - waits(other));
    }

    // Units of it have just returned. An answer of the list may have been made before.
    function follow(id) {
        followed.set(id, clock.monotonic() + FOLLOWED_MS);
        live.adjust();
        live.hurry();
        setTimeout(live.hurry, KEPT_MS);
    }

    // The browser has found out, without an attempt of ours.
    function setOnline(isThere) {
        if (isThere) {
            live.hurry();
        } else if (cards.size > 0) {
            trouble = 'offline';
            renderAll();
        }
    }

    // A sale that is on, or begins soon.
    function isHot(id) {
        return vouchers.get(id).beginMs - clock.now() < HOT_MS;
    }

    // ---- time ----

    // Shows what time has changed, and gives the ms until it changes something again.
    function tick() {
        if (clock.hasJumped()) {
            live.hurry();
        }
        let next = Infinity;
        cards.forEach((card, id) => {
            next = Math.min(next, tickCard(id, card));
        });
        return next;
    }

    function tickCard(id, card) {
        const voucher = vouchers.get(id);
        const now = clock.now();
        const phase = phaseOf(voucher, now, clock.room());
        if (phase !== card.phase) {
            changePhase(voucher, card, phase);
        }
        const left = view.card(id).renderClock(voucher, phase, now);
        const due = view.card(id).renderDue(orderOf(id), now);
        const next = Math.min(untilNextSecond(left), untilNextSecond(due));
        if (phase !== PHASE.UPCOMING) {
            return next;
        }
        beforeStart(voucher, card);
        return Math.min(next, opensAt(voucher, clock.room()) - now);
    }

    function changePhase(voucher, card, phase) {
        const isFirst = card.phase === undefined;
        card.phase = phase;
        if (phase === PHASE.ON_SALE) {
            purchase(voucher.id).forgive();
        }
        render(voucher.id);
        if (!isFirst && ANNOUNCED.includes(phase)) {
            view.announce(voice.say(`announce.${phase}`, { title: voucher.title }));
        }
        if (phase === PHASE.ENDED) {
            live.adjust();
        }
    }

    function beforeStart(voucher, card) {
        const left = voucher.beginMs - clock.now();
        const passed = milestone(card.left, left);
        card.left = left;
        if (MILESTONES[passed] !== undefined) {
            view.announce(voice.say(MILESTONES[passed], { title: voucher.title }));
        }
        if (left < card.refreshAt) {
            card.refreshAt = 0;
            live.hurry();
        }
        if (left < card.prepareAt && voucher.ticket) {
            prepare(voucher.id);
        }
    }

    // ---- the button ----

    function press(id, quantity) {
        const { phase } = cards.get(id);
        const own = purchase(id);
        if (phase === PHASE.ON_SALE || own.state() === STATE.UNKNOWN || own.state() === STATE.WON) {
            own.press(quantity);
        } else if (canJoin(vouchers.get(id), phase)) {
            own.press(1, true);
        } else {
            own.refuse({ [PHASE.UPCOMING]: 'not_started', [PHASE.UNKNOWN]: 'loading' }[phase] ?? phase);
        }
    }

    return {
        live,
        readOne,
        readMore,
        render,
        renderAll,
        tick,
        press,
        follow,
        setOnline,
        arrange,
        // What else of the page is to be there again.
        state: () => ({ ...shownAs, pages }),
    };
}
