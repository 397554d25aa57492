// The shop page: puts the parts together, and lets each hear of what concerns it.
import { createApi, createClock, retryDelay, wait } from '../client/index.js';
import { createIdentity, isUserName, takeToken } from '../common/identity.js';
import { createStorage } from '../common/storage.js';
import { createVoice, renderWords } from '../common/voice.js';
import { createBuyer } from './buyer.js';
import { createTicker } from './countdown.js';
import { createOrderList } from './order_list.js';
import { onlyOurs } from './ours.js';
import { keepPlace, keptPlace, returnTo } from './place.js';
import { createSales } from './sales.js';
import { createView } from './view.js';
import { createVouchers } from './vouchers.js';
import { WORDS } from './words.js';

const EARLY_MS = 5000;
const EARLY = { cache: 'default' }; // else Firefox asks again for what the document has asked for

const local = createStorage('localStorage');
const session = createStorage('sessionStorage');
takeToken(location, history, { local, session });

const { pages = 1, search = '', sort = 'open', ...place } = keptPlace();
let settings = { demo: false };
let identity; // from when the settings are known on, as the buyer
let buyer;

const clock = createClock();
let early = readEarly();
const voice = createVoice(WORDS, local);
const vouchers = createVouchers(clock.monotonic, () => settings.pictures ?? []);
const api = onlyOurs(createApi({ clock, credentials: () => identity?.headers() ?? {} }));

const view = createView(voice, {
    buy,
    cancel: (id) => orderList.cancel(id),
    more: () => buyer.readMore(),
    moreVouchers: () => sales.readMore(),
    arrange: (wanted) => sales.arrange(wanted),
    logIn,
    logOut,
    takeOffered,
    language: changeLanguage,
    seen: () => sales.live.adjust(),
    payUrl: (order) => (settings.demo ? `/pay?order=${order.id}` : null),
    isDemo: () => settings.demo,
});

const shared = { api, clock, local, vouchers, view, voice };
const sales = createSales({
    ...shared,
    readList,
    pagesAtFirst: pages,
    shownAtFirst: { search, sort },
    purchase: (id) => buyer.purchase(id),
    orderOf: (id) => buyer.orderOf(id),
    prepare: (id) => identity.isThere() && buyer.purchase(id).prepare(),
    onRead: () => {
        orderList.render();
        ticker.run();
    },
});
const orderList = createOrderList({
    ...shared,
    buyer: () => buyer,
    isThere: () => identity.isThere(),
    readVoucher: sales.readOne,
});
const ticker = createTicker(() => Math.min(sales.tick(), orderList.tick()));

start();

async function start() {
    renderWords(voice);
    view.renderTools({ search, sort });
    view.renderVouchersState('loading');
    settings = await readSettings();
    identity = createIdentity(settings, { local, session });
    renderIdentity(false);
    openBuyer();
    sales.live.start();
    returnTo(place);
    keepPlace(sales.state);
    addEventListener('storage', onStorage);
    addEventListener('offline', () => sales.setOnline(false));
    addEventListener('online', () => {
        sales.setOnline(true);
        buyer.read();
    });
    addEventListener('pagehide', () => sales.live.rest());
    addEventListener('pageshow', (event) => event.persisted && document.dispatchEvent(new Event('visibilitychange')));
    document.addEventListener('visibilitychange', () => document.hidden || buyer.read());
}

async function readSettings() {
    for (let failures = 0; ; failures++) {
        try {
            return (await api.call('/web/settings.json', EARLY)).body;
        } catch (problem) {
            view.renderVouchersState('unreadable');
            await wait(retryDelay(problem.retryAfterMs, failures));
        }
    }
}

// The list that the document has asked for (index.html), before a script could read the clock. Taken at once, as a
// browser would give it to a later question, too. null: it could not be read.
async function readEarly() {
    try {
        const answer = await createApi().call('/vouchers', EARLY);
        const [asked, ...more] = performance.getEntriesByName(new URL('/vouchers', location.href).href);
        const { requestStart: sent, responseStart: received } = more.length === 0 ? (asked ?? {}) : {};
        clock.sample(Date.parse(answer.body.server_time), sent || 0, received || clock.monotonic());
        return { answer, at: clock.monotonic() };
    } catch {
        return null;
    }
}

// A page that is opened in the background is seen later, when the early list is old.
async function readList() {
    const found = await early;
    early = null;
    return found !== null && clock.monotonic() - found.at < EARLY_MS ? found.answer : api.call('/vouchers');
}

// Resolves when the page can be seen.
function shown() {
    return new Promise((resolve) => {
        const resolveIfShown = () => {
            if (!document.hidden) {
                document.removeEventListener('visibilitychange', resolveIfShown);
                resolve();
            }
        };
        document.addEventListener('visibilitychange', resolveIfShown);
        resolveIfShown();
    });
}

// ---- who buys ----

function openBuyer() {
    buyer?.end();
    buyer = createBuyer({
        ...shared,
        user: identity.user(),
        shown,
        onPurchase: sales.render,
        onOrder: orderChanged,
    });
    if (identity.isThere()) {
        buyer.start();
    }
    orderList.reset();
    sales.renderAll();
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

function takeOffered() {
    identity.takeOffered();
    renderIdentity(true);
    openBuyer();
}

function renderIdentity(moveFocus) {
    const isThere = identity.isThere() && buyer?.orders.why() !== 'UNAUTHENTICATED';
    const { login = null } = settings;
    const shown = { mode: identity.mode, isThere, user: identity.user(), login, offered: identity.offered() };
    view.renderIdentity(shown, moveFocus);
}

// Another tab of this browser has written something.
function onStorage({ key }) {
    if (identity.isNameKey(key)) {
        renderIdentity(false);
        openBuyer();
    } else {
        buyer.overhear(key);
    }
}

// ---- what the reader does, and what comes of it ----

function buy(id, quantity) {
    if (identity.isThere()) {
        sales.press(id, quantity);
    } else {
        view.askWho();
    }
}

function orderChanged(order, before) {
    orderList.changed(order, before);
    if (order === null) {
        renderIdentity(false);
    } else {
        sales.render(order.voucher_id);
    }
    if (before?.status === 'unpaid' && order.status !== 'paid') {
        sales.follow(order.voucher_id);
    }
    ticker.run();
}

function changeLanguage() {
    voice.change();
    renderWords(voice);
    view.renderTools();
    view.announce(''); // what was said in the other one
    if (identity !== undefined) {
        renderIdentity(false);
        sales.renderAll();
        orderList.render();
        ticker.run();
    }
}
