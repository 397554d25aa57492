// The document: sections, cards and rows. It shows what it is given, and hands on what the reader does; it knows no
// service, and decides nothing.
import { setAttribute, setOff, setText } from '../common/dom.js';
import { clockText, createCard } from './view_voucher.js';
import { createRow } from './view_order.js';
import { createScope } from './view_scope.js';

const ANNOUNCED_MS = 5000;
const TOOLS_FROM = 8; // of fewer sales a reader sees all
const MAKE = `. .dev/env; curl "$SECKILL_URL/admin/vouchers" -H "Authorization: Bearer $SECKILL_ADMIN_TOKEN" \\
    -H 'Content-Type: application/json' -d '{"title": "Tea", "stock": 10, "price_cents": 990,
    "begin_at": "'$(date -u -d '+30 seconds' +%FT%TZ)'", "end_at": "'$(date -u -d '+1 day' +%FT%TZ)'"}'`;

// `voice` as of common/voice.js. `on` has buy(id, quantity), cancel(id), more(), moreVouchers(),
// arrange({search, sort}), logIn(name), logOut(), takeOffered(), language(), seen(), payUrl(order), isDemo().
export function createView(voice, on) {
    const at = (id) => document.getElementById(id);
    const cards = new Map();
    const scopes = new Map();
    const rows = new Map();
    const seen = new Set(); // ids of vouchers that are on screen
    const watcher = new IntersectionObserver((entries) => {
        for (const { target, isIntersecting } of entries) {
            seen[isIntersecting ? 'add' : 'delete'](target.dataset.voucher);
        }
        on.seen();
    });
    let announcing;

    at('language').addEventListener('click', on.language);
    at('more').addEventListener('click', on.more);
    at('more-vouchers').addEventListener('click', on.moreVouchers);
    at('tools').addEventListener('submit', (event) => event.preventDefault());
    for (const field of [at('search'), at('sort')]) {
        const arranged = () => ({ search: at('search').value.trim(), sort: at('sort').value });
        field.addEventListener('input', () => on.arrange(arranged()));
    }
    at('change').addEventListener('click', on.logOut);
    at('take').addEventListener('click', on.takeOffered);
    at('login').addEventListener('submit', (event) => {
        event.preventDefault();
        on.logIn(at('name').value.trim());
    });

    // ---- who buys ----

    // `login`: the address of the login, null: not known. `offered`: as of common/identity.js. `moveFocus`: what had the
    // focus is not shown any more.
    function renderIdentity({ mode, isThere, user, login, offered }, moveFocus) {
        const asks = mode === 'name' && !isThere;
        at('identity').hidden = false;
        at('login').hidden = !asks;
        at('change').hidden = !(mode === 'name' && isThere);
        at('who').hidden = asks;
        setText(at('name-hint'), voice.say('identity.hint'));
        setAttribute(at('name'), 'aria-invalid', null);
        setText(at('who'), voice.say(identityKey(mode, isThere, user, login), { user }));
        renderOffer(offered);
        at('log-in').hidden = isThere;
        setAttribute(at('log-in'), 'href', asks ? '#name' : (login ?? '#who'));
        setText(at('log-in'), voice.say(asks ? 'identity.choose' : 'identity.login'));
        if (moveFocus) {
            at(asks ? 'name' : mode === 'name' ? 'change' : 'who').focus();
        }
    }

    function identityKey(mode, isThere, user, login) {
        if (isThere) {
            return user === null ? 'identity.gateway' : 'identity.hello';
        }
        return login !== null ? 'identity.out' : mode === 'token' ? 'identity.token' : 'identity.elsewhere';
    }

    function renderOffer(offered) {
        const nameOf = (user) => user ?? voice.say('identity.somebody');
        const values = offered && { user: nameOf(offered.user), instead: nameOf(offered.instead) };
        setText(at('offer'), offered ? voice.say('identity.offer', values) : '');
        setText(at('take'), offered ? voice.say('identity.take', values) : '');
        at('take').hidden = !offered;
    }

    function refuseName() {
        setText(at('name-hint'), voice.say('identity.bad'));
        setAttribute(at('name'), 'aria-invalid', 'true');
        at('name').focus();
    }

    // Someone who is not known wants to buy.
    function askWho() {
        setText(at('name-hint'), voice.say('identity.first'));
        (at('login').hidden ? at('log-in') : at('name')).focus();
    }

    // ---- what is on sale ----

    // What is old says so wherever the reader is; `readAt`: since when it is.
    function renderVouchersState(state, readAt, now) {
        const isOld = state === 'stale' || state === 'offline';
        at('vouchers').dataset.vouchersState = state;
        setText(at('vouchers-note'), state === 'ready' || isOld ? '' : voice.say(`vouchers.${state}`));
        setText(at('trouble'), isOld ? voice.say(`vouchers.${state}`, { at: voice.moment(readAt, now) }) : '');
        at('make').hidden = !on.isDemo() || state !== 'empty';
        setText(at('make-command'), MAKE);
    }

    function renderMore(hasMore, isBusy) {
        const button = at('more-vouchers');
        if (!hasMore && button === document.activeElement) {
            at('vouchers').focus();
        }
        button.hidden = !hasMore;
        setOff(button, isBusy);
        setAttribute(button, 'aria-busy', isBusy ? 'true' : null);
    }

    // New ones come last: what a reader is about to press does not move. But those of one scope stand together.
    function addCards(vouchers) {
        for (const { id, scope } of vouchers) {
            const card = createCard(id, voice, { onBuy: on.buy, payUrl: on.payUrl });
            cards.set(id, card);
            scopeOf(scope).add(id, card.root);
            watcher.observe(card.root);
        }
    }

    function scopeOf(id) {
        if (!scopes.has(id)) {
            scopes.set(id, createScope(id, voice));
            at('cards').append(scopes.get(id).root);
        }
        return scopes.get(id);
    }

    function renderTools({ search, sort } = { search: at('search').value, sort: at('sort').value }) {
        at('search').value = search;
        at('sort').value = sort;
        setAttribute(at('search'), 'placeholder', voice.say('tools.search'));
    }

    // In this order, as the reader wants it.
    function arrange(ids) {
        at('cards').append(...new Set(ids.map((id) => cards.get(id).root.parentNode)));
    }

    function renderFound({ count, found, search }) {
        at('tools').hidden = count < TOOLS_FROM && search === '';
        for (const [id, { root }] of cards) {
            root.hidden = !found.includes(id);
        }
        scopes.forEach((scope) => scope.render());
        at('none').hidden = count === 0 || found.length > 0;
        setText(at('none'), voice.say('vouchers.none', { search }));
    }

    // From top to bottom.
    function onScreen() {
        const shown = [...at('cards').querySelectorAll('[data-voucher]')].map(({ dataset }) => dataset.voucher);
        return shown.filter((id) => seen.has(id));
    }

    // ---- orders ----

    function renderOrders({ orders, state, note, hasMore }) {
        at('orders').dataset.ordersState = state;
        setText(at('orders-note'), note);
        at('more').hidden = !hasMore;
        const ids = new Set(orders.map((order) => order.id));
        for (const [id, row] of rows) {
            if (!ids.has(id)) {
                row.root.remove();
                rows.delete(id);
            }
        }
        orders.forEach((order, i) => {
            if (!rows.has(order.id)) {
                const row = createRow(order.id, voice, { onCancel: on.cancel, payUrl: on.payUrl });
                rows.set(order.id, row);
                at('order-list').insertBefore(row.root, at('order-list').children[i] ?? null);
            }
        });
    }

    // What stays in sight. `left`: ms to pay the first of them, or Infinity.
    function renderSummary({ count, hasMore, left }) {
        at('summary').hidden = count === 0;
        const number = hasMore ? `${count}+` : count;
        const isDue = left !== Infinity;
        const values = { number, left: clockText(voice, left) };
        setText(at('summary'), voice.say(isDue ? 'summary.due' : 'summary.orders', values));
    }

    // Resolves with whether the reader means it.
    function confirm({ text, no, yes }) {
        const dialog = at('confirm');
        setText(at('confirm-text'), text);
        setText(at('confirm-no'), no);
        setText(at('confirm-yes'), yes);
        return new Promise((resolve) => {
            const end = (answer) => () => {
                at('confirm-yes').onclick = at('confirm-no').onclick = dialog.oncancel = null;
                dialog.close();
                resolve(answer);
            };
            at('confirm-yes').onclick = end(true);
            at('confirm-no').onclick = dialog.oncancel = end(false);
            dialog.showModal();
        });
    }

    // ---- said to screen readers ----

    // Emptied after a while, so that the same can be said again.
    function announce(text) {
        setText(at('announcer'), text);
        clearTimeout(announcing);
        announcing = setTimeout(() => setText(at('announcer'), ''), ANNOUNCED_MS);
    }

    return {
        renderIdentity,
        refuseName,
        askWho,
        renderVouchersState,
        renderMore,
        addCards,
        renderTools,
        renderFound,
        arrange,
        onScreen,
        renderOrders,
        renderSummary,
        confirm,
        announce,
        card: (id) => cards.get(id),
        row: (id) => rows.get(id),
    };
}
