// The shop page: puts the parts together, and decides when what is shown.
import { createApi } from '../common/api.js';
import { createClock } from '../common/clock.js';
import { createIdentity, isUserName, takeToken } from '../common/identity.js';
import { createSay, formatMoment, formatMoney, keepLanguage, LANGUAGES, pageLanguage } from '../common/language.js';
import { retryDelay, wait } from '../common/retry.js';
import { createStorage } from '../common/storage.js';
import { createBuyer } from './buyer.js';
import { createTicker, milestone, untilNextSecond } from './countdown.js';
import { createLive } from './live.js';
import { LIST } from './orders.js';
import { STATE } from './purchase.js';
import { createView } from './view.js';
import { createVouchers, inOrder, opensAt, PHASE, phaseOf } from './vouchers.js';
import { WORDS } from './words.js';

const SEEN_KEY = 'seckill.seen'; // vouchers of which a reload asks again: a paused one is not in the list
const SEEN_MOST = 20;
const SINGLE_MOST = 5; // vouchers that are asked for by themselves, in one round
const OLD_MS = 3600 * 1000; // a sale that has been over for so long is not shown to those who come now
const PREPARE_MS = 90000; // before the start: at a random moment from then on tickets are got ...
const REFRESH_MS = 12000; // ... and terms and clock are read once more
const MILESTONES = { 60000: 'announce.minute', 10000: 'announce.ten' };
const MAKE = `. .dev/env; curl "$SECKILL_URL/admin/vouchers" -H "Authorization: Bearer $SECKILL_ADMIN_TOKEN" \\
    -H 'Content-Type: application/json' -d '{"title": "Tea", "stock": 10, "price_cents": 990,
    "begin_at": "'$(date -u -d '+30 seconds' +%FT%TZ)'", "end_at": "'$(date -u -d '+1 day' +%FT%TZ)'"}'`;

const local = createStorage('localStorage');
const session = createStorage('sessionStorage');
takeToken(location, history, session);

const clock = createClock();
const vouchers = createVouchers(clock.monotonic);
const cards = new Map(); // id -> {phase, left, prepareAt, refreshAt}
const doing = new Map(); // order's id -> {cancelling, failed}
let settings = { demo: false };
let identity;
let buyer;
let trouble = null; // null: the list was read; 'loading', 'unreadable' or 'stale'

// ---- voice ----

let language = pageLanguage(local);
let say = createSay(WORDS, language);
const voice = {
    say: (key, values) => say(key, values),
    money: (cents, currency) => formatMoney(cents, currency, language),
    moment: (ms, now) => formatMoment(ms, now ?? ms, language),
    language: () => language,
};

function switchLanguage() {
    language = language === 'en' ? 'zh' : 'en';
    say = createSay(WORDS, language);
    keepLanguage(local, language);
    renderAll();
}

// ---- parts ----

const api = createApi({ clock, credentials: () => identity?.headers() ?? {} });

const view = createView(voice, {
    buy,
    cancel,
    more: () => buyer?.orders.readMore(),
    logIn,
    logOut,
    language: switchLanguage,
    seen: () => live.adjust(),
    payUrl: (order) => (settings.demo ? `/pay?order=${order.id}` : null),
});

const live = createLive({ wanted: vouchersWanted, isHot, read: readVouchers, hear });
const ticker = createTicker(tick);

start();

async function start() {
    trouble = 'loading';
    view.renderWords(LANGUAGES);
    renderVouchersState();
    settings = await readSettings();
    identity = createIdentity(settings, { local, session });
    renderIdentity(false);
    openBuyer();
    live.start();
    addEventListener('storage', onStorage);
    addEventListener('pagehide', () => live.rest());
    addEventListener('pageshow', (event) => event.persisted && document.dispatchEvent(new Event('visibilitychange')));
    document.addEventListener('visibilitychange', () => !document.hidden && buyer?.read());
}

async function readSettings() {
    for (let failures = 0; ; failures++) {
        try {
            return (await api.call('/web/settings.json')).body;
        } catch (problem) {
            trouble = 'unreadable';
            renderVouchersState();
            await wait(retryDelay(problem.retryAfterMs, failures));
        }
    }
}

function shown() {
    return new Promise((resolve) => {
        const look = () => {
            if (!document.hidden) {
                document.removeEventListener('visibilitychange', look);
                resolve();
            }
        };
        document.addEventListener('visibilitychange', look);
        look();
    });
}

// ---- who buys ----

function openBuyer() {
    buyer?.end();
    buyer = createBuyer({ user: identity.user(), api, clock, local, vouchers, shown, onPurchase: renderCard, onOrder: orderChanged });
    doing.clear();
    if (identity.isThere()) {
        buyer.start();
    }
    renderOrders();
    cards.forEach((_, id) => renderCard(id));
}

function logIn(name) {
    if (!isUserName(name)) {
        view.refuseName();
        return;
    }
    identity.logIn(name);
    renderIdentity(true);
    openBuyer();
}

function logOut() {
    identity.logOut();
    renderIdentity(true);
    openBuyer();
}

function renderIdentity(moveFocus) {
    view.renderIdentity({ mode: identity.mode, isThere: identity.isThere(), user: identity.user() }, moveFocus);
}

function onStorage({ key }) {
    if (identity.isNameKey(key)) {
        renderIdentity(false);
        openBuyer();
    } else {
        buyer.overhear(key);
    }
}

// ---- what is on sale ----

async function readVouchers() {
    try {
        const { body } = await api.call('/vouchers');
        const listed = new Set(body.vouchers.map((voucher) => voucher.id));
        body.vouchers.forEach((voucher) => vouchers.put(voucher));
        await Promise.all(unlisted(listed).map(readVoucher));
        trouble = null;
    } catch (problem) {
        trouble = cards.size > 0 ? 'stale' : 'unreadable';
        throw problem;
    } finally {
        showVouchers();
    }
}

// Those that were on sale and are not listed any more, as paused ones.
function unlisted(listed) {
    const kept = local.getJson(SEEN_KEY);
    const known = [...cards.keys(), ...(Array.isArray(kept) ? kept : [])].filter((id) => /^[0-9]{1,19}$/.test(id));
    const isOpen = (id) => !listed.has(id) && cards.get(id)?.phase !== PHASE.ENDED;
    return [...new Set(known)].filter(isOpen).slice(0, SINGLE_MOST);
}

async function readVoucher(id) {
    try {
        vouchers.put((await api.call(`/vouchers/${id}`)).body);
    } catch (problem) {
        if (problem.code === 'UNKNOWN_VOUCHER') {
            vouchers.hear(id, { state: 'retired', remaining: null }); // of another service that was at this address
        }
    }
}

function showVouchers() {
    const now = clock.now();
    const phase = (voucher) => phaseOf(voucher, now, clock.room());
    const isOld = (voucher) => phase(voucher) === PHASE.ENDED && (voucher.endMs < now - OLD_MS || voucher.state !== 'open');
    const wanted = vouchers.all().filter((voucher) => voucher.read && (cards.has(voucher.id) || !isOld(voucher)));
    for (const { id } of wanted.filter((voucher) => !cards.has(voucher.id))) {
        cards.set(id, { prepareAt: Math.random() * PREPARE_MS, refreshAt: 3000 + Math.random() * (REFRESH_MS - 3000) });
    }
    view.renderCards(inOrder(wanted, phase).map((voucher) => voucher.id));
    renderVouchersState();
    ticker.run();
    cards.forEach((_, id) => renderCard(id));
    renderOrders();
    rememberSeen();
}

function rememberSeen() {
    const ids = [...cards].filter(([, card]) => card.phase !== PHASE.ENDED).map(([id]) => id);
    local.setJson(SEEN_KEY, ids.slice(0, SEEN_MOST));
}

function renderVouchersState() {
    const state = trouble ?? (cards.size === 0 ? 'empty' : 'ready');
    view.renderVouchersState(state, settings.demo ? MAKE : null);
}

// On screen, and what is shown of them may change.
function vouchersWanted() {
    return view.onScreen().filter((id) => cards.get(id)?.phase !== PHASE.ENDED);
}

// A sale that is on, or begins within a minute.
function isHot(id) {
    return vouchers.get(id).beginMs - clock.now() < 60000;
}

function hear(id, event) {
    clock.atLeast(Date.parse(event.server_time));
    vouchers.hear(id, event);
    ticker.run();
    renderCard(id);
}

function renderCard(id) {
    const voucher = vouchers.get(id);
    const card = cards.get(id);
    if (voucher !== undefined && card?.phase !== undefined) {
        view.card(id).render(voucher, card.phase, buyer.purchase(id));
    }
}

// ---- time ----

// Shows what time has changed, and gives the ms until it changes something again.
function tick() {
    if (clock.hasJumped()) {
        live.hurry();
    }
    let next = Infinity;
    for (const [id, card] of cards) {
        next = Math.min(next, tickCard(vouchers.get(id), card));
    }
    const now = clock.now();
    for (const order of buyer?.orders.all() ?? []) {
        const left = view.row(order.id)?.renderLeft(order, now) ?? Infinity;
        next = Math.min(next, left === Infinity ? Infinity : untilNextSecond(left));
    }
    return next;
}

function tickCard(voucher, card) {
    const now = clock.now();
    const phase = phaseOf(voucher, now, clock.room());
    if (phase !== card.phase) {
        phaseChanged(voucher, card, phase);
    }
    const left = view.card(voucher.id).renderClock(voucher, phase, now);
    if (phase !== PHASE.UPCOMING) {
        return left === Infinity ? Infinity : untilNextSecond(left);
    }
    beforeStart(voucher, card, left);
    return Math.min(untilNextSecond(left), opensAt(voucher, clock.room()) - now);
}

function phaseChanged(voucher, card, phase) {
    const before = card.phase;
    card.phase = phase;
    if (phase === PHASE.OPEN) {
        buyer.purchase(voucher.id).forgive();
    }
    renderCard(voucher.id);
    if (before !== undefined && ['open', 'sold_out', 'paused', 'ended'].includes(phase)) {
        view.announce(say(`announce.${phase}`, { title: voucher.title }));
    }
    if (phase === PHASE.ENDED) {
        live.adjust();
    }
}

function beforeStart(voucher, card, left) {
    const passed = milestone(card.left, left);
    card.left = left;
    if (MILESTONES[passed] !== undefined) {
        view.announce(say(MILESTONES[passed], { title: voucher.title }));
    }
    if (left < card.refreshAt) {
        card.refreshAt = 0;
        live.hurry();
    }
    if (left < card.prepareAt && voucher.ticket && identity.isThere()) {
        card.prepareAt = 0;
        buyer.purchase(voucher.id).prepare();
    }
}

// ---- buying ----

function buy(id, quantity) {
    const { phase } = cards.get(id);
    const purchase = buyer.purchase(id);
    if (!identity.isThere()) {
        view.announce(say(identity.mode === 'name' ? 'identity.first' : 'identity.token'));
        view.askForName();
    } else if (phase === PHASE.OPEN || [STATE.UNKNOWN, STATE.WON].includes(purchase.state())) {
        purchase.press(quantity);
    } else {
        purchase.refuse({ upcoming: 'not_started', unknown: 'loading' }[phase] ?? phase);
    }
}

// ---- orders ----

function orderChanged(order, before) {
    if (before !== undefined) {
        view.announce(say('announce.order', { title: titleOf(order), status: say(`status.${order.status}`) }));
    }
    renderOrders();
}

function renderOrders() {
    const isThere = identity?.isThere() ?? false;
    const { orders } = buyer ?? {};
    const all = isThere ? orders.all() : [];
    const state = isThere ? orders.state() : 'nobody';
    view.renderOrders({ orders: all, state, note: ordersNote(state, all), hasMore: isThere && orders.hasMore() });
    for (const order of all) {
        const voucher = vouchers.get(order.voucher_id);
        view.row(order.id).render(order, voucher, clock.now(), doing.get(order.id) ?? {});
        if (voucher === undefined) {
            readTitle(order.voucher_id);
        }
    }
    ticker.run();
}

function ordersNote(state, all) {
    if (state === LIST.UNREADABLE) {
        const isRefused = buyer.orders.why() === 'UNAUTHENTICATED';
        return say(isRefused ? 'outcome.error.login' : all.length > 0 ? 'orders.stale' : 'orders.unreadable');
    }
    if (state === LIST.READY) {
        return buyer.orders.isComplete() ? '' : say('orders.incomplete');
    }
    return say(`orders.${state}`);
}

const titles = new Set(); // vouchers that were asked for, once each

async function readTitle(id) {
    if (!titles.has(id)) {
        titles.add(id);
        await readVoucher(id);
        renderOrders();
    }
}

const titleOf = (order) => vouchers.get(order.voucher_id)?.title ?? say('order.of', { id: order.voucher_id });

async function cancel(id) {
    const order = buyer.orders.get(id);
    if (doing.get(id)?.cancelling || !(await view.confirm(say('confirm.text', { title: titleOf(order) })))) {
        return;
    }
    doing.set(id, { cancelling: true });
    renderOrders();
    const done = await buyer.cancel(id);
    doing.set(id, { failed: !done });
    renderOrders();
}

// ---- all of it, in another language ----

function renderAll() {
    view.renderWords(LANGUAGES);
    renderVouchersState();
    if (identity !== undefined) {
        renderIdentity(false);
        cards.forEach((_, id) => renderCard(id));
        renderOrders();
    }
}
