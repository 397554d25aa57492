// A voucher's card. It is made once; after that only what has changed is written, so that the focus stays, and a screen
// reader repeats nothing.
import { element, setAttribute, setOff, setText } from '../common/dom.js';
import { countdown } from './countdown.js';
import { isFree, isToPay } from './orders.js';
import { STATE } from './purchase.js';
import { canJoin, PHASE } from './vouchers.js';

const LONG_TITLE = 50; // characters; of longer texts a card shows the beginning
const LONG_ABOUT = 90;
const CHOICES_MOST = 20; // of quantities in a list; of more a number is typed
const PLACE_MOST = 10000; // so far the service counts who is before an order
const PRESSED = ['on_sale', 'again', 'join']; // what a button that can be pressed says
const HELD = [STATE.WON, STATE.IN_LINE]; // the buyer has an order

// `voice` as of common/voice.js. `onBuy(id, quantity)`. `payUrl(order)` gives where to pay, null where the page does
// not know.
export function createCard(id, voice, { onBuy, payUrl }) {
    const parts = {
        picture: element('img', {
            class: 'picture',
            alt: '',
            width: 96,
            height: 96,
            loading: 'lazy',
            decoding: 'async',
            hidden: true,
        }),
        title: element('h3', { id: `voucher-${id}` }),
        about: element('p', { class: 'about hint' }),
        whole: element('button', { type: 'button', class: 'whole', hidden: true, 'aria-expanded': 'false' }),
        badge: element('span', { class: 'badge' }),
        price: element('span', { class: 'amount' }),
        each: element('span', { class: 'hint' }),
        clockLabel: element('span', { class: 'hint', id: `clock-${id}` }),
        clock: element('span', {
            role: 'timer',
            'aria-live': 'off',
            'aria-labelledby': `clock-${id}`,
            class: 'clock',
            data: { countdown: '' },
        }),
        when: element('span', { class: 'hint' }),
        paused: element('p', { class: 'hint', hidden: true }),
        more: element('p', { class: 'hint', hidden: true }),
        line: element('p', { class: 'hint', data: { line: '' }, hidden: true }),
        stock: element('p', { class: 'left', data: { remaining: '' } }),
        bar: element('span', {}),
        quantity: element('div', { class: 'quantity', hidden: true }),
        buy: element('button', { type: 'button', class: 'buy', data: { buy: '' } }),
        outcome: element('p', { class: 'outcome', role: 'status', data: { outcome: '' } }),
        due: element('p', { class: 'due', hidden: true }),
        pay: element('a', { class: 'button buy', data: { pay: '' }, hidden: true }),
        payElsewhere: element('p', { class: 'hint', hidden: true }),
    };
    const stock = element(
        'div',
        { class: 'stock' },
        parts.stock,
        element('div', { class: 'bar', 'aria-hidden': 'true' }, parts.bar),
    );
    const root = element(
        'article',
        { class: 'card', 'aria-labelledby': `voucher-${id}`, data: { voucher: id, state: PHASE.UNKNOWN } },
        element(
            'div',
            { class: 'face' },
            parts.picture,
            element('div', { class: 'names' }, parts.title, parts.about, parts.whole),
        ),
        element('div', { class: 'head' }, element('p', { class: 'price' }, parts.price, ' ', parts.each), parts.badge),
        element('p', { class: 'count' }, parts.clockLabel, ' ', parts.clock, ' ', parts.when),
        stock,
        parts.more,
        parts.line,
        parts.paused,
        parts.quantity,
        parts.buy,
        parts.outcome,
        parts.due,
        parts.pay,
        parts.payElsewhere,
    );
    let limit = 1;

    parts.buy.addEventListener('click', () => onBuy(id, chosen()));
    parts.picture.addEventListener('error', () => {
        parts.picture.hidden = true;
    });
    parts.whole.addEventListener('click', () => {
        root.toggleAttribute('data-whole');
        renderWhole();
    });

    function chosen() {
        const field = parts.quantity.querySelector('select, input');
        const value = field === null ? 1 : Math.trunc(Number(field.value));
        return Math.min(limit, Math.max(1, value || 1));
    }

    // ---- what there is to show ----

    // `order`: what the purchase has won, or waits with; undefined: nothing, or it was not read yet. `other`: the title
    // of the voucher whose order keeps the buyer from this one.
    function render(voucher, phase, purchase, order, other) {
        root.dataset.state = phase;
        renderFace(voucher);
        setText(parts.badge, voice.say(`phase.${phase}`));
        const price = priceText(voice, voucher.priceCents, voucher.currency);
        setText(parts.price, price);
        parts.price.style.setProperty('--characters', price.length);
        setText(parts.each, voucher.limit > 1 && voucher.priceCents > 0 ? voice.say('voucher.each') : '');
        renderStock(voucher, phase);
        parts.buy.hidden = phase === PHASE.ENDED && !purchase.isUnderWay() && purchase.state() === STATE.IDLE;
        parts.paused.hidden = phase !== PHASE.PAUSED;
        setText(parts.paused, voice.say('voucher.paused'));
        renderLine(voucher, phase);
        renderQuantity(voucher, phase, purchase);
        renderButton(voucher, phase, purchase);
        renderOutcome(purchase, order, other);
        renderPay(purchase, order, voucher);
    }

    function renderFace({ title, description, picture }) {
        setText(parts.title, title);
        setText(parts.about, description);
        if (picture !== parts.picture.getAttribute('src')) {
            parts.picture.hidden = picture === null;
            setAttribute(parts.picture, 'src', picture);
        }
        parts.whole.hidden = title.length <= LONG_TITLE && description.length <= LONG_ABOUT;
        renderWhole();
    }

    function renderWhole() {
        const isWhole = root.hasAttribute('data-whole');
        const button = voice.say(isWhole ? 'voucher.short' : 'voucher.whole');
        setText(parts.whole, button);
        setAttribute(parts.whole, 'aria-expanded', String(isWhole));
        setAttribute(parts.whole, 'aria-label', voice.say('buy.of', { button, title: parts.title.textContent }));
    }

    function renderStock(voucher, phase) {
        const { remaining, stock: whole } = voucher;
        const isOver = phase === PHASE.ENDED; // what is left of it cannot be bought
        const isKnown = Number.isInteger(remaining) && phase !== PHASE.UNKNOWN && !isOver;
        const part = isKnown && whole > 0 ? Math.min(1, remaining / whole) : 0;
        stock.hidden = isOver;
        setAttribute(parts.stock, 'data-remaining', isKnown ? remaining : '');
        const key = isKnown ? 'voucher.remaining' : 'voucher.unknown';
        setText(parts.stock, isOver ? '' : voice.say(key, { remaining, stock: whole }));
        parts.bar.style.setProperty('transform', `scaleX(${part})`);
        setAttribute(parts.bar, 'class', part > 0.2 ? null : 'few');
    }

    // How many wait, where one may join them.
    function renderLine(voucher, phase) {
        const isOpen = canJoin(voucher, phase);
        parts.line.hidden = !isOpen;
        setText(parts.line, isOpen ? voice.say('voucher.line', { count: voucher.waiting }) : '');
    }

    // Who joins a line waits for one unit.
    function renderQuantity(voucher, phase, purchase) {
        const isAsked = voucher.limit > 1 && phase !== PHASE.ENDED && !canJoin(voucher, phase);
        parts.quantity.hidden = !isAsked;
        if (isAsked && (limit !== voucher.limit || parts.quantity.children.length === 0)) {
            const field = quantityField(voucher.limit, purchase.quantity());
            parts.quantity.replaceChildren(element('label', { for: `quantity-${id}` }), field);
        }
        limit = voucher.limit;
        const [label, field] = parts.quantity.children;
        if (isAsked) {
            setText(label, voice.say('voucher.quantity', { limit }));
            field.disabled = purchase.isUnderWay() || HELD.includes(purchase.state());
        }
    }

    function quantityField(most, value) {
        if (most > CHOICES_MOST) {
            return element('input', {
                id: `quantity-${id}`,
                type: 'number',
                min: 1,
                max: most,
                step: 1,
                value,
                inputmode: 'numeric',
            });
        }
        const choices = Array.from({ length: most }, (_, i) =>
            element('option', { value: i + 1, selected: i + 1 === value }, String(i + 1)),
        );
        return element('select', { id: `quantity-${id}` }, ...choices);
    }

    // Its name also has the voucher's, for those who hear the buttons of a page without what is around them.
    function renderButton(voucher, phase, purchase) {
        const key = buttonKey(voucher, phase, purchase);
        const button = voice.say(`buy.${key}`);
        setText(parts.buy, button);
        setAttribute(parts.buy, 'aria-label', voice.say('buy.of', { button, title: voucher.title }));
        setAttribute(parts.buy, 'aria-busy', key === 'busy' ? 'true' : null);
        setOff(parts.buy, !PRESSED.includes(key));
    }

    function renderOutcome(purchase, order, other) {
        const { code, orderId } = purchase.outcome();
        setAttribute(parts.outcome, 'data-code', code);
        const text = outcomeText(voice, purchase, order, other);
        const hasOrder = HELD.includes(purchase.state()) || code === 'other_ordered';
        const link = text !== '' && orderId !== undefined && hasOrder;
        if (parts.outcome.dataset.said !== `${text}${link}${orderId}`) {
            parts.outcome.dataset.said = `${text}${link}${orderId}`;
            parts.outcome.replaceChildren(
                text,
                ...(link ? [' ', element('a', { href: `#order-${orderId}` }, voice.say('outcome.order'))] : []),
            );
        }
    }

    // What has been won is paid where it was won.
    function renderPay(purchase, order, voucher) {
        const isDue = purchase.state() === STATE.WON && order !== undefined && isToPay(order);
        const url = isDue ? payUrl(order) : null;
        const button = isDue ? voice.say('voucher.pay', { total: voice.money(order.total_cents, order.currency) }) : '';
        parts.pay.hidden = url === null;
        setAttribute(parts.pay, 'href', url);
        setText(parts.pay, button);
        setAttribute(parts.pay, 'aria-label', isDue ? voice.say('buy.of', { button, title: voucher.title }) : null);
        parts.payElsewhere.hidden = !isDue || url !== null;
        setText(parts.payElsewhere, voice.say('order.pay_elsewhere'));
    }

    // Every second. Gives the ms that are left to pay, or Infinity.
    function renderDue(order, now) {
        const isDue = order !== undefined && isToPay(order) && order.expires_at !== undefined && now !== undefined;
        const left = isDue ? Date.parse(order.expires_at) - now : Infinity;
        parts.due.hidden = !isDue;
        const text = left > 0 ? `${voice.say('order.left')} ${clockText(voice, left)}` : voice.say('order.over');
        setText(parts.due, isDue ? text : '');
        return left > 0 ? left : Infinity;
    }

    // Every second, too.
    function renderClock(voucher, phase, now) {
        const isBefore = now !== undefined && now < voucher.beginMs;
        const isOver = phase === PHASE.ENDED || now === undefined;
        const at = isBefore ? voucher.beginMs : voucher.endMs;
        const key = isOver ? 'voucher.over' : isBefore ? 'voucher.opens_in' : 'voucher.ends_in';
        setText(parts.clockLabel, now === undefined ? '' : voice.say(key));
        setText(parts.clock, isOver ? '' : clockText(voice, at - now));
        setAttribute(parts.clock, 'class', countdown(at - now).days > 0 ? 'clock long' : 'clock');
        setText(
            parts.when,
            isOver ? '' : voice.say(isBefore ? 'voucher.opens_at' : 'voucher.ends_at', { at: voice.moment(at, now) }),
        );
        renderMore(voucher, phase, now);
        return isOver ? Infinity : at - now;
    }

    // When more units come, until then.
    function renderMore({ moreMs }, phase, now) {
        const isToCome = phase === PHASE.SOLD_OUT && now < moreMs;
        parts.more.hidden = !isToCome;
        setText(parts.more, isToCome ? voice.say('voucher.more_at', { at: voice.moment(moreMs, now) }) : '');
    }

    // For a reader who has asked for more cards, of which this is the first.
    function focus() {
        parts.title.tabIndex = -1;
        parts.title.focus();
    }

    return { root, render, renderClock, renderDue, focus };
}

// What a won order is, where that says more than the answer.
function wonAs(order) {
    return order?.status === 'paid' ? 'paid' : order !== undefined && isFree(order) ? 'free' : undefined;
}

export function priceText(voice, cents, currency) {
    return cents === 0 ? voice.say('voucher.free') : voice.money(cents, currency);
}

export function clockText(voice, ms) {
    const { days, clock } = countdown(ms);
    return days > 0 ? `${voice.say('time.days', { count: days })} ${clock}` : clock;
}

// Where an order stands in the line. undefined: it was not read yet.
export function placeText(voice, order) {
    const count = order?.place;
    if (count === undefined || count === 0) {
        return voice.say(count === 0 ? 'line.first' : 'line.wait');
    }
    return voice.say(count >= PLACE_MOST ? 'line.far' : 'line.place', { count });
}

function buttonKey(voucher, phase, purchase) {
    if (purchase.isUnderWay()) {
        return 'busy';
    }
    switch (purchase.state()) {
        case STATE.WON:
            return 'yours';
        case STATE.IN_LINE:
            return 'in_line';
        case STATE.UNKNOWN:
            return 'again';
        default:
            return canJoin(voucher, phase) ? 'join' : phase;
    }
}

function outcomeText(voice, purchase, order, other) {
    const { code, why, left, retryAfterMs = 0 } = purchase.outcome();
    if (purchase.state() === STATE.TICKET) {
        return voice.say('outcome.ticket');
    }
    switch (code) {
        case null:
        case undefined:
            return '';
        case 'won':
        case 'already_ordered':
            return voice.say(`outcome.${wonAs(order) ?? code}`);
        case 'in_line':
            return placeText(voice, order);
        case 'other_ordered':
            return voice.say('outcome.other_ordered', { title: other });
        case 'not_enough':
            return voice.say('outcome.not_enough', { count: left ?? 0 });
        case 'too_fast':
            return purchase.state() === STATE.WAITING
                ? voice.say('outcome.too_fast', { count: Math.ceil(retryAfterMs / 1000) })
                : voice.say('outcome.too_fast_end');
        case 'retrying':
            return voice.say('outcome.retrying', { count: Math.ceil(retryAfterMs / 1000) });
        case 'error':
            return voice.say(why === undefined ? 'outcome.error' : `outcome.error.${why}`);
        default:
            return voice.say(`outcome.${code}`);
    }
}
