// Negative controls: each breaks the pages on their way to the browser, as a careless change would, and names the test
// that must fail and the expected text of its failure.

import { setTimeout as sleep } from 'node:timers/promises';

import { bound, isStream } from './scene.js';

const SHOP = '/web/shop.js';
const PAY = '/web/pay.js';
const DASHBOARD = '/web/admin/main.js';

/** Runs the module, and then `code`, which stands for a careless change in it. */
function added(code, path = SHOP) {
    return (context) =>
        context.route(`**${path}`, async (route) => {
            const response = await route.fetch();
            await route.fulfill({ response, body: `${await response.text()}\n;${code}` });
        });
}

/** `code` changes `page`, and everything added to it later, before any test can see it. */
const always = (code, path = SHOP) => added(`{ const page = document, watcher = new MutationObserver(spoil);
    function spoil() { ${code}
        watcher.takeRecords(); } // its own changes
    spoil();
    watcher.observe(page, { subtree: true, childList: true, attributes: true, characterData: true }); }`, path);

/** `change(text, request)` changes the API's answers to `pattern`. */
function rewritten(pattern, change) {
    return (context) =>
        context.route(pattern, async (route) => {
            const response = await route.fetch();
            const body = change(await response.text(), route.request());
            await route.fulfill({ response, body });
        });
}

const isList = (url) => /^\/vouchers(\/\d+)?$/.test(url.pathname);
const isOrders = (url) => url.pathname === '/orders';
const isEvents = (url) => url.pathname.endsWith('/events');
const isPath = (...paths) => (url) => paths.includes(url.pathname); // a module of the dashboard may be called like its call

/** Always the same answer, whatever changes. */
function kept(pattern) {
    const answers = new Map();
    return rewritten(pattern, (text, request) => {
        answers.set(request.url(), answers.get(request.url()) ?? text);
        return answers.get(request.url());
    });
}

/** A page that receives no changes, from lists or streams. */
async function deaf(context) {
    await context.route(isStream, (route) => route.abort());
    await kept(isList)(context);
}

/** A page that uses the client's clock, which is off by `byMs`, as the server's. */
const trusting = (byMs) => async (context) => {
    await context.route(isStream, (route) => route.abort());
    await rewritten(isList, (text) =>
        text.replace(/("server_time" *: *")[^"]+/g, (_, name) => name + new Date(Date.now() + byMs).toISOString()),
    )(context);
};

const forgetful = async (context) => {
    await context.addInitScript(() => {
        localStorage.removeItem('seckill.shop');
        sessionStorage.clear();
        for (const key of Object.keys(localStorage)) {
            if (!['seckill.user', 'seckill.lang'].includes(key)) {
                localStorage.removeItem(key);
            }
        }
    });
    await rewritten(isOrders, () => '{"orders": [], "complete": true}')(context);
};

const HOUR_MS = 3600 * 1000;

/** A test's bound is not kept, or `or` is seen. */
const late = (what, ms, or) => new RegExp([`${what}: not within ${bound(ms)} ms`, or].filter(Boolean).join('|'));

const CONTROLS = [
    ['a button without a name', 'sold out', /axe: critical: button-name/,
        always(`for (const button of page.querySelectorAll('button[data-buy]')) {
            button.textContent = ''; button.removeAttribute('aria-label'); button.removeAttribute('aria-labelledby'); }`)],
    ['grey text on grey', 'light and dark', /axe: serious: color-contrast/,
        always("for (const one of page.querySelectorAll('h1, h2, h3, p')) { one.style.color = '#999'; one.style.background = '#888'; }")],
    ['an inline script', 'sold out', /policy: script-src/,
        rewritten((url) => url.pathname === '/', (html) => html.replace('</head>', '<script>1</script></head>'))],
    ['markup in a string', 'sold out', /policy: require-trusted-types-for|TrustedHTML/,
        added("document.body.insertAdjacentHTML('beforeend', '<i>sale</i>')")],
    ['a style from elsewhere', 'sold out', /policy: style-src/,
        rewritten((url) => url.pathname === '/', (html) => html.replace('</head>', '<style>b { color: red }</style></head>'))],
    ['an error on the console', 'sold out', /console: oops/, added("console.error('oops')")],
    ['an uncaught error', 'sold out', /uncaught: .*oops/, added("setTimeout(() => { throw new Error('oops'); })")],
    ['a rejection that is not handled', 'sold out', /uncaught: .*oops/, added("Promise.reject(new Error('oops'))")],
    ['a file that is missing', 'sold out', /console: Failed to load resource.*404.*gone\.js/,
        added("import('/web/shop/gone.js').catch(() => {})")],
    ['a page that hears of nothing', 'pause, resume and more stock', late('voucher shown as paused', 2000), deaf],
    ["a clock that trusts the client's, ahead", 'an hour ahead', /voucher shown as upcoming|shown, .* s left|early/, trusting(HOUR_MS)],
    ["a clock that trusts the client's, behind", 'an hour behind', /s shown, .* s left/, trusting(-HOUR_MS)],
    ['a shop that does not see that Redis is away', 'without Redis, and after the end', /voucher shown as unknown: not within/,
        async (context) => {
            await context.route(isStream, (route) => route.abort());
            await rewritten(isList, (text) => text.replace('"can_sell":false', '"can_sell":true'))(context);
        }],
    ['a list that needs PostgreSQL', 'without PostgreSQL a page opens', /voucher shown as on_sale: not within/,
        (context) => context.route(isList, (route) => route.fulfill({ status: 503, json: { code: 'UNAVAILABLE' } }))],
    ['a closed sale with units left', 'without Redis, and after the end', /units of a closed sale can be bought/,
        always(`for (const one of page.querySelectorAll('article[data-state="ended"] .left')) {
            one.textContent = '40 of 40 left'; one.parentElement.hidden = false; }`)],
    ['a dashboard that does not see that Redis is away', 'of a closed sale', /remaining without Redis as .*: not within/,
        rewritten(/\/admin\/vouchers/, (text) => text.replace('"can_sell":false', '"can_sell":true').replace('"state":"unknown"', '"state":"loading"'))],
    ['a reload at the opening', 'not yet, then opens', /the page was reloaded/,
        added(`{ const soon = new Set(); setInterval(() => { for (const { dataset } of document.querySelectorAll('article')) {
            if (dataset.state === 'upcoming') soon.add(dataset.voucher);
            else if (dataset.state === 'on_sale' && soon.delete(dataset.voucher)) location.reload(); } }, 20); }`)],
    ['a button that is on too early', 'not yet, then opens', /the button is on before the start/,
        always("for (const button of page.querySelectorAll('button[data-buy]')) { button.removeAttribute('aria-disabled'); }")],
    ['a click that counts twice', 'cannot be fired twice', /sent: POST .*,POST/,
        added(`addEventListener('click', (event) => { const at = event.target.closest('[data-voucher]');
            if (at && event.target.closest('[data-buy]')) setTimeout(() => fetch('/seckill/' + at.dataset.voucher, {
                method: 'POST', headers: { 'X-User-Id': localStorage.getItem('seckill.user') } }), 50); }, true)`)],
    ['a link that logs in over a login', "token of the page's fragment", /after a link with the token of another user: not within|another user of the buyer/,
        (context) => context.addInitScript(() => location.hash.startsWith('#token=') && sessionStorage.clear())],
    ['a link that logs in over a login of another tab', "token of the page's fragment", /a link in a new tab has made another user/,
        (context) => context.addInitScript(() => location.hash.startsWith('#token=') && localStorage.clear())],
    ['a page that needs storage', 'a browser without storage', /outcome won: not within|voucher shown as on_sale: not within/,
        rewritten(`**${SHOP}`, (text) => `localStorage.length;${text}`)],
    ['sizes that stand alone', 'sizes of an article', /the sizes under one heading: not within/,
        rewritten(isList, (text) => text.replace(/"scope" *: *"\d+", */g, ''))],
    ['the order of another size as the own one', 'sizes of an article', /outcome other_ordered: not within/,
        rewritten('**/seckill/*', (text) => (text.includes('ALREADY_ORDERED') ? text.replace(/,"voucher_id":"\d+"/, '') : text))],
    ['a place that is not shown', 'a place in the line', /the place on the card/,
        rewritten(/\/(seckill|orders)/, (text) => text.replace(/, *"place" *: *\d+/g, ''))],
    ['a place that is polled', 'a place in the line', /a place is polled/,
        added(`setInterval(() => { for (const { dataset } of document.querySelectorAll('[data-order][data-status="waiting"]')) {
            fetch('/orders/' + dataset.order, { headers: { 'X-User-Id': localStorage.getItem('seckill.user') } }); } }, 50)`)],
    ['a result that is forgotten', 'survives a reload', /outcome won,already_ordered: not within/, forgetful],
    ['unreadable shown as empty', 'could not be read are not', /orders that could not be read: not within/,
        always("for (const one of page.querySelectorAll('[data-orders-state=\"unreadable\"]')) { one.dataset.ordersState = 'empty'; }")],
    ['a page that is too wide', '320 px', /px wide on 320/, always("page.body.style.minWidth = '400px'")],
    ['a state that does not fit beside the price', 'three screens', /is not beside .* at 320 px/,
        always("for (const one of page.querySelectorAll('article .price')) { one.style.flexBasis = '100%'; }")],
    ['a button out of the order of the tab key', 'keyboard alone', /the tab key does not lead to/,
        always("for (const one of page.querySelectorAll('button[data-buy]')) { one.tabIndex = -1; }")],
    ['a focus that cannot be seen', 'keyboard alone', /the focus cannot be seen/,
        always("for (const one of page.querySelectorAll('button')) { one.style.outline = 'none'; one.style.boxShadow = 'none'; }")],
    ['an outcome that is not announced', 'keyboard alone', /the outcome is not announced/,
        always(`for (const one of page.querySelectorAll('[aria-live], [role="status"], [role="alert"], output')) {
            one.removeAttribute('aria-live'); one.setAttribute('role', 'presentation'); }`)],
    ['a hidden page that asks on', 'a hidden shop page is silent', /a hidden page asks/,
        added("setInterval(() => fetch('/vouchers'), 500)")],
    ["a page that ignores the browser's language", 'both languages', /the browser's language/,
        (context) => context.addInitScript(() => {
            Object.defineProperty(navigator, 'languages', { get: () => ['en'] });
            Object.defineProperty(navigator, 'language', { get: () => 'en' });
        })],
    ['a result that never comes', 'is followed to its end', /outcome won: not within/,
        (context) => context.route(/\/orders\/[0-9a-f-]+/, async (route) => {
            const { pathname } = new URL(route.request().url());
            await sleep(300);
            const json = { id: pathname.split('/')[2], voucher_id: '1', status: 'pending', quantity: 1 };
            await route.fulfill({ json }).catch(() => {});
        })],
    ['a payment page that does not ask again', 'ends with the time to pay', /the order as over: not within/,
        kept((url) => /^\/orders\/./.test(url.pathname))],
    ["a payment page that believes a gateway's 404", 'does not believe a gateway', /the gateway's page as no answer: not within/,
        always("for (const one of page.querySelectorAll('[data-pay-state=\"unreadable\"]')) { one.dataset.payState = 'none'; }", PAY)],
    ['a refusal that says nothing of the lost answer', 'a lost answer is no refusal', /outcome unknown: not within/,
        rewritten(`**${SHOP}`, (text) => text.replace('?"unknown":"refused"', '?"refused":"refused"'))],
    ['a retry that comes too soon', 'tries again after', /tried again before Retry-After/,
        added(`addEventListener('click', async (event) => { const at = event.target.closest('[data-voucher]');
            if (!at || !event.target.closest('[data-buy]')) return;
            await new Promise((done) => setTimeout(done, 200));
            fetch('/seckill/' + at.dataset.voucher, { method: 'POST',
                headers: { 'X-User-Id': localStorage.getItem('seckill.user') } }); }, true)`)],
    ['a stream that never stops', 'EventSource of a sale', /the end of both: not within/,
        (context) => {
            const seen = new Set();
            return context.route(isEvents, (route) => {
                const isFirst = !seen.has(route.request().url());
                seen.add(route.request().url());
                return isFirst ? route.continue() : route.fulfill({ contentType: 'text/event-stream', body: 'id: end\n\n' });
            });
        }],
    ['a list that is kept over Back', 'after Back the list', /units of the first visit|4 left: not within/, kept(isList)],
    ['an action that is not confirmed', 'dashboard: pause and resume', /done without being confirmed|the question before/,
        added(`new MutationObserver(() => { document.querySelector('dialog[open] form')?.requestSubmit?.(
            [...document.querySelectorAll('dialog[open] button')].at(-1)); }).observe(document.body,
            { subtree: true, attributes: true, attributeFilter: ['open'], childList: true })`, DASHBOARD)],
    ['a change without If-Match', 'dashboard: a conflict', /the change of another operator was overrun/,
        (context) => context.route(/\/admin\/vouchers\/\d+\//, (route) => {
            const { 'if-match': _, ...headers } = route.request().headers();
            return route.continue({ headers });
        })],
    ['a token that is kept', 'dashboard: log in', /the token is kept/,
        added(`addEventListener('submit', (event) => { const input = event.target.querySelector('input');
            if (input) localStorage.setItem('kept', input.value); }, true)`, DASHBOARD)],
    ['a search that finds everything', 'many sales are searched', /the card that was searched: not within/,
        always("for (const one of page.querySelectorAll('article[hidden]')) { one.hidden = false; }")],
    ['a card as high as its title', "keeps its card's shape", /a long title makes a card of/,
        always("for (const one of page.querySelectorAll('h3')) { one.style.webkitLineClamp = 'none'; }")],
    ['a picture that the policy stops', 'a picture and a description', /policy: img-src|the picture: not within/,
        (context) => context.route((url) => url.pathname === '/', async (route) => {
            const response = await route.fetch();
            const headers = response.headers();
            const policy = headers['content-security-policy'].replace(/img-src [^;]*/, "img-src 'self'");
            await route.fulfill({ response, headers: { ...headers, 'content-security-policy': policy } });
        })],
    ['a picture of an origin that is not listed', 'a picture and a description', /policy: img-src/,
        rewritten(isPath('/web/settings.json'), (text) => text.replace(/"pictures":\[.*?\]/, '"pictures":["http:/"]'))],
    ['a page of many files', 'the first card on a slow phone', /requests to the first card/,
        added("for (let i = 0; i < 4; i++) fetch('/web/icon.svg?' + i)")],
    ['a page that is too large', 'the first card on a slow phone', /bytes to the first card/,
        rewritten((url) => url.pathname === '/', (html) => html.replace('</head>', `<!--${'x'.repeat(40000)}--></head>`))],
    ['a list that is asked for late', 'the first card on a slow phone', /the first card after|shown as on_sale: not within/,
        (context) => context.route((url) => url.pathname === '/vouchers', async (route) => {
            await sleep(bound(2500) + 500);
            await route.continue();
        })],
    ['orders that scroll away', 'my orders stay in sight', /the orders are out of sight/,
        always("for (const one of page.querySelectorAll('.sticky, #summary')) { one.style.position = 'static'; }")],
    ['an order without its id', 'my orders stay in sight', /an order without id or total/,
        always("for (const one of page.querySelectorAll('li code')) { one.remove(); }")],
    ['a won card that is all words', 'a won card can be paid', /a way to pay on the card: not within/,
        always("for (const one of page.querySelectorAll('article [data-pay]')) { one.remove(); }")],
    ['a page that forgets its place', 'back leads to the same place', /the card at \S+ px: not within/,
        (context) => context.addInitScript(() => history.replaceState(null, ''))],
    ['a page that hears of no return', 'followed within a second', late('voucher shown as sold_out', 1000), deaf],
    ['a stream of three cards', 'followed within a second', late('voucher shown as sold_out', 1000),
        async (context) => {
            await context.route(isStream, (route) => {
                const url = new URL(route.request().url());
                url.searchParams.set('ids', url.searchParams.get('ids').split(',').slice(0, 3));
                return route.continue({ url: url.href });
            });
            await kept(isList)(context);
        }],
    ['an example page without states', "client's example page", /the sale as .*: not within/,
        rewritten('**/events.js', (text) => text.replaceAll('onEvent(event);', ''))],
    ['a page that needs a newer browser', 'an older browser', /voucher shown as on_sale: not within|uncaught: TypeError/,
        rewritten(`**${SHOP}`, (text) => `[].at(-1);${text}`)],
    ['a page that stays empty without a word', 'too old is told so', /getByText/,
        rewritten('**/*.css', (text) => text.replace(/animation:\s*needs[^;}]*/, ''))],
    ["prices with the browser's own digits", 'digits of their currency', /the price in forints as .*: not within/,
        rewritten(`**${SHOP}`, (text) => text.replace(/(minimum|maximum)FractionDigits/g, 'no$1'))],
    ['an ended sale that looks open', 'that has ended says so', /an ended sale does not say so/,
        always("for (const one of page.querySelectorAll('article .count')) { one.textContent = 'On sale'; }")],
    ['a free item with a price', 'a free item needs no payment', /Free|nothing to pay/,
        rewritten(/\/(vouchers|seckill|orders)/, (text) => text.replaceAll('"price_cents":0', '"price_cents":5').replaceAll('"total_cents":0', '"total_cents":5'))],
    ['a list without paused sales', 'a paused sale stays', /voucher shown as paused: not within/,
        rewritten((url) => url.pathname === '/vouchers', (text) => {
            const list = JSON.parse(text);
            return JSON.stringify({ ...list, vouchers: list.vouchers.filter(({ phase }) => phase !== 'paused') });
        })],
    ['a page that waits for an attempt', 'offline is said', late('offline as .*', 1000, 'found out by an attempt'),
        (context) => context.addInitScript(() => addEventListener('offline', (event) => event.stopImmediatePropagation(), true))],
    ['stale data that says nothing', 'stale data says', /what is stale as .*: not within/,
        always("document.getElementById('trouble').textContent = ''")],
    ['a login that leads nowhere', 'a way to a login', /the login is out of sight/,
        always("document.getElementById('log-in').style.transform = 'translateY(9000px)'")],
    ['a list that ends with its first page', 'more sales than one page', /the button for more sales: not within/,
        rewritten(isList, (text) => text.replace(/,"next":"[^"]*"/, ''))],
    ['a line that stays green without Redis', 'Redis away is said first', /that Redis is away: not within/,
        rewritten(isPath('/metrics'), (text) => text.replace(/(store="redis"[^}]*\}) 0/g, '$1 1'))],
    ['advice to compare clocks while Redis is away', 'Redis away is said first', /expiry_late to go from the line: not within/,
        rewritten(isPath('/web/admin/troubles.js'), (text) => text.replace("['expiry_late', ", '['))],
    ['a list that is empty as it was not read', 'without PostgreSQL orders wait', /vouchers that cannot be read as .*: not within/,
        rewritten(isPath('/web/admin/vouchers.js'), (text) => text.replace('(unread ?? [chosen', '([chosen'))],
    ['nothing that has happened as it was not read', 'without PostgreSQL orders wait', /events that cannot be read as .*: not within/,
        rewritten(isPath('/web/admin/lately.js'), (text) => text.replace('unread !== null ? speech', 'false ? speech'))],
    ['orders that wait as a stop', 'without PostgreSQL orders wait', /that orders wait: not within/,
        rewritten(isPath('/web/admin/troubles.js'), (text) => text.replace("? 'waits' : 'stops'", "? 'stops' : 'stops'"))],
    ['a line that knows no dead letters', 'vouchers in trouble', /the dead letter as .*: not within/s,
        rewritten(isPath('/admin/troubles'), () => '{"troubles":[]}')],
    ['a hold of expiry that no line shows', 'expiry is held', /that expiry is held as .*: not within/s,
        rewritten(isPath('/admin/troubles'), () => '{"troubles":[]}')],
    ['a line that knows no receivers', 'receivers of webhooks that fail', /the receiver that fails as .*: not within/s,
        rewritten(isPath('/admin/webhooks'), () => '{"receivers":[]}')],
    ['a receiver without why', 'receivers of webhooks that fail', /the receiver that fails as .*: not within/s,
        rewritten(isPath('/admin/webhooks'), (text) => text.replaceAll(/"why":"[^"]*"/g, '"why":""'))],
    ['a line that does not know that tickets are off', 'tickets that are off', /that tickets are off as .*: not within/,
        rewritten(isPath('/metrics'), (text) => text.replace('seckill_tickets_on 0', 'seckill_tickets_on 1'))],
    ['an instance that nobody misses', 'an instance that died', /the instance that died as .*: not within/,
        rewritten(isPath('/web/admin/instances.js'), (text) => text.replace("? 'missed' : 'gone'", "? 'gone' : 'gone'"))],
    ['an instance that is missed as it ended', 'an instance that died', /the instance that ended by itself: not within/,
        rewritten(isPath('/web/admin/instances.js'), (text) => text.replace("? 'missed' : 'gone'", "? 'missed' : 'missed'"))],
    ['a page that does not say since when', 'since when it has read', /since when it has read as .*: not within/,
        always("page.querySelector('[data-since]').textContent = ''", DASHBOARD)],
    ['purchases that are not counted', 'since when it has read', /the order as a rate: not within/,
        rewritten(isPath('/metrics'), (text) => text.replace(/code="PLACED"/g, 'code="FOUND"'))],
    ['charts without lines', 'dashboard: charts', /a line of answers: not within/,
        always("for (const one of page.querySelectorAll('svg path.line')) one.remove();", DASHBOARD)],
    ['lines without colours', 'dashboard: charts', /the colour of a line/,
        rewritten('**/admin.css', (text) => text.replace('stroke: currentColor', 'stroke: none'))],
    ['a voucher that stays on sale', 'a voucher without units', /the voucher as sold out: not within/,
        rewritten(isPath('/web/admin/voucher.js'), (text) => text.replace("? 'sold_out' : state", '? state : state'))],
    ['a settlement without money', 'settlement in sentences', /the money as .*: not within/,
        rewritten((url) => /\/settlement$/.test(url.pathname), (text) => text.replace(/"payments_accepted":\{.*?\}\}/, '"payments_accepted":{}'))],
    ['a rush that is counted late', 'what a rush sells', /sold as .*: not within/, kept((url) => url.pathname.startsWith('/admin/vouchers'))],
    ['English in the Chinese page', 'plain Chinese', /English words in/,
        always("for (const one of page.querySelectorAll('[data-scope]')) if (!one.textContent.includes('reactor')) one.textContent += ' reactor';", DASHBOARD)],
    ['a payment that is not found', 'found by id, user and payment', /the order by its payment: not within/,
        rewritten(isPath('/admin/payments/find'), () => '{"payments":[]}')],
    ['a table of all vouchers', 'among a thousand', /rows at once/,
        (context) => context.route(/\/admin\/vouchers\?/, (route) =>
            route.continue({ url: route.request().url().replace('limit=20', 'limit=100') }))],
    ['a sale that begins with one press', 'would sell at once', /it sells without a question|the question before it sells|locator\.click/,
        added(`addEventListener('submit', ({ target }) => { if (!target.closest('[data-form]') || target.dataset.twice) return;
            target.dataset.twice = ''; setTimeout(() => { target.requestSubmit(); delete target.dataset.twice; }); }, true)`, DASHBOARD)],
    ['a reason that no field shows', 'a new voucher', /the service's reason, beside the currency as .*: not within/,
        rewritten((url) => url.pathname === '/admin/vouchers', (text) => text.replace(/"errors":\[.*?\]/, '"errors":[]'))],
    ['a price that changes while it sells', 'new terms', /the price of a sale that has begun/,
        always("for (const one of page.querySelectorAll('input:disabled')) one.disabled = false;", DASHBOARD)],
    ['a token that is offered everything', 'may only look', /offered what the token may not do|that it may only look/,
        rewritten(isPath('/admin/me'), () => '{"name":"reader","roles":["read","operate","refunds"]}')],
    ['panels that close each other', 'settlement in sentences', /the details were closed/,
        always(`for (const one of page.querySelectorAll('[data-settlement]:not([hidden])')) {
            one.closest('tbody').querySelector('[data-details]').hidden = true; }`, DASHBOARD)],
    ['a dashboard that asks all the time', 'ten calls a second', /asks too much/,
        added("setInterval(() => fetch('/readyz'), 50)", DASHBOARD)],
    ['a hidden dashboard that asks on', 'dashboard: a hidden tab', /a hidden dashboard asks/,
        added("setInterval(() => fetch('/vouchers'), 500)", DASHBOARD)],
];

/** The controls with their tests. A test's name that fits none, or several, is a mistake here. */
export function controls(tests) {
    return CONTROLS.map(([name, part, notice, breakage]) => {
        const found = tests.filter((test) => test.name.includes(part));
        if (found.length !== 1) {
            throw new Error(`control "${name}": ${found.length} tests have "${part}" in their name`);
        }
        return { name, alone: found[0].alone, test: found[0], breakage, notice };
    });
}
