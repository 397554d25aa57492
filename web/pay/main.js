// The demo's stand-in for a shop's payment side: shows an order, and pays it as that side would. The order's id is in
// ?order=.
import { askForChange, createApi, createClock, judge, retryDelay, wait } from '../client/index.js';
import { isOff, setAttribute, setOff, setText } from '../common/dom.js';
import { createIdentity } from '../common/identity.js';
import { createStorage } from '../common/storage.js';
import { createVoice, renderWords } from '../common/voice.js';
import { countdown, createTicker, untilNextSecond } from '../shop/countdown.js';
import { WORDS } from './words.js';

const CHANGED_KEY = 'seckill.changed'; // the shop's other tabs read their orders again
const ENDED_AFTER_MS = 3000; // the service ends an order at most 2 s after its time to pay

const local = createStorage('localStorage');
const session = createStorage('sessionStorage');
const clock = createClock();
const at = (id) => document.getElementById(id);
const orderId = new URLSearchParams(location.search).get('order') ?? '';

const voice = createVoice(WORDS, local);
const { say } = voice;
let identity;
let order;
let voucher;
let state = 'loading';
let isPaying = false;
let askedAfter; // the time to pay after which it was asked for again

const api = createApi({ clock, credentials: () => identity?.headers() ?? {} });
const ticker = createTicker(renderLeft);

at('pay').addEventListener('click', pay);
at('language').addEventListener('click', () => {
    voice.change();
    render();
});

start();

async function start() {
    render();
    const { body } = await insist(() => api.call('/web/settings.json'));
    identity = createIdentity(body, { local, session });
    await show();
}

// Asks until there is an answer, or a refusal that another try does not change.
async function insist(ask) {
    for (let failures = 0; ; failures++) {
        try {
            return await ask();
        } catch (problem) {
            const { outcome, isLost } = judge(problem);
            if (outcome === 'refused' && !isLost) {
                throw problem;
            }
            become('unreadable');
            await wait(retryDelay(problem.retryAfterMs, failures));
        }
    }
}

// ---- the order ----

async function show() {
    try {
        order = (await insist(() => api.call(`/orders/${encodeURIComponent(orderId)}`))).body;
        voucher = (await insist(() => api.call(`/vouchers/${order.voucher_id}`))).body;
        become(stateOf(order));
        if (order.status === 'pending') {
            await followPending();
        }
    } catch (problem) {
        become(problem.code === 'UNAUTHENTICATED' ? 'login' : 'none');
    }
}

async function followPending() {
    while (order.status === 'pending') {
        order = await insist(() => askForChange(api, order.id));
    }
    become(stateOf(order));
}

function stateOf({ status }) {
    return status === 'unpaid' ? 'payable' : ['paid', 'pending', 'waiting'].includes(status) ? status : 'over';
}

// The reference is the order's own, so a payment that is sent twice is one.
async function pay() {
    if (isOff(at('pay'))) {
        return;
    }
    isPaying = true;
    render();
    try {
        const json = { amount_cents: amount(), currency: currency() };
        const { body } = await api.call(`/demo/orders/${order.id}/pay`, { method: 'POST', json });
        order = body;
        const isLate = stateOf(order) === 'over' && order.payments?.some((payment) => payment.state === 'to_refund');
        become(isLate ? 'late' : stateOf(order));
        local.set(CHANGED_KEY, `${Math.random()}`);
    } catch (problem) {
        await refused(problem);
    }
    isPaying = false;
    render();
    at('title').focus(); // the button may be gone
}

async function refused(problem) {
    if (problem.status === 409) {
        await show(); // it is paid, or has ended, by another way
    } else {
        become(problem.code === 'WRONG_AMOUNT' ? 'wrong' : 'failed');
    }
}

// The order's own, which the voucher's may have left behind. While it is pending it has none yet.
const amount = () => order.total_cents ?? voucher.price_cents * order.quantity;
const currency = () => order.currency ?? voucher.currency;

// ---- what is shown ----

function become(next) {
    state = next;
    render();
}

function render() {
    renderWords(voice);
    at('bill').dataset.payState = state;
    renderBill();
    renderOutcome();
    ticker.run();
}

function renderBill() {
    const isKnown = order !== undefined && voucher !== undefined;
    at('lines').hidden = !isKnown;
    const canPay = isKnown && ['payable', 'failed', 'wrong'].includes(state);
    at('pay').hidden = !canPay;
    if (!isKnown) {
        setText(at('title'), say('page.title'));
        return;
    }
    const money = voice.money(amount(), currency());
    setText(at('title'), voucher.title);
    setText(at('order'), order.id);
    setText(at('quantity'), voice.number(order.quantity));
    setText(at('amount'), money);
    setText(at('pay'), say(isPaying ? 'bill.busy' : 'bill.pay', { amount: money }));
    setOff(at('pay'), isPaying);
}

function renderOutcome() {
    setAttribute(at('outcome'), 'data-code', state === 'paid' ? 'paid' : state);
    const values = state === 'over' ? { status: say(`status.${order.status}`) } : {};
    setText(at('outcome'), state === 'payable' ? '' : say(`state.${state}`, values));
}

function renderLeft() {
    const isDue = state === 'payable' && order.expires_at !== undefined && clock.now() !== undefined;
    at('due').hidden = !isDue;
    if (!isDue) {
        return Infinity;
    }
    const left = Date.parse(order.expires_at) - clock.now();
    if (left <= 0 && askedAfter !== order.expires_at) {
        askedAfter = order.expires_at; // it may be extended meanwhile
        setTimeout(() => state === 'payable' && !isPaying && show(), ENDED_AFTER_MS);
    }
    const { clock: text } = countdown(left);
    setText(at('left'), text);
    return untilNextSecond(left);
}
