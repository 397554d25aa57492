// The real client, the real shop page and the real dashboard through gateways. The shop page comes from another origin
// than the service, as that of a shop with its own front end does: a page server here has the service's files, and the
// page sends its calls to the gateway.
//
// shipped.py starts it, and tells it on standard input which roads there are. It prints a line of JSON for each finding,
// and one for what it needs done to the instances.

import { once } from 'node:events';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

import { createClient } from '../../clients/web/index.js';
import { launch, visitor } from '../browser/browser.js';
import { appears, buyButton, ends } from '../browser/scene.js';

const AWAY = ['UNAVAILABLE', 'LOADING', 'OVERLOADED', 'SHUTTING_DOWN'];

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const hear = async () => JSON.parse((await lines.next()).value);
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

/** Each road does its part, all at once; what fails is a finding, and the last of its road. */
function each(roads, what, work) {
    return Promise.all(roads.filter(({ hasFailed }) => !hasFailed).map(async (road) => {
        try {
            await attempt(road, work);
        } catch (error) {
            road.hasFailed = true;
            say({ found: `${road.name}: ${what}: ${error.message.replace(/\s+/g, ' ')}` });
        }
    }));
}

/** Chromium drops what is under way when an interface of the machine comes or goes, as with a container: once more then. */
async function attempt(road, work) {
    for (let tries = 1; ; tries++) {
        road.faults = [];
        try {
            return await work(road);
        } catch (error) {
            if (tries === 3 || !road.faults.some((fault) => fault.includes('ERR_NETWORK_CHANGED'))) {
                throw error;
            }
        }
    }
}

/** Unlike assert, it names both values in every version of Node. */
function mustBe(what, found, wanted) {
    const [a, b] = [found, wanted].map((value) => JSON.stringify(value));
    if (a !== b) {
        throw new Error(`${what}: ${a}, not ${b}`);
    }
}

/** The service's pages at an origin of their own. */
async function serve({ origin, instance }) {
    const server = createServer(async ({ url }, response) => {
        const isPage = /^\/(\?|$|web\/)/.test(url);
        const answer = isPage ? await fetch(instance + url).catch(() => null) : null;
        if (answer === null) {
            response.writeHead(404).end();
            return;
        }
        response.writeHead(answer.status, { 'Content-Type': answer.headers.get('content-type') });
        response.end(Buffer.from(await answer.arrayBuffer()));
    });
    server.listen(Number(new URL(origin).port), '127.0.0.1');
    await once(server, 'listening');
    return server;
}

/** Before the page's own scripts: its calls go to the gateway, with what the shop's own page would send. */
function sendsTo({ url, headers }) {
    const own = globalThis.fetch;
    globalThis.fetch = (path, request = {}) => {
        if (path.startsWith('/web/')) {
            return own(path, request);
        }
        return own(url + path, { ...request, headers: { ...request.headers, ...headers }, credentials: 'include' });
    };
}

async function shop(browser, road, login) {
    const context = await visitor(browser, { faults: road.faults, answers: [], origin: road.origin });
    context.setDefaultTimeout(road.shown_ms);
    if (login.cookie !== null) {
        await context.addCookies([{ name: 'session', value: login.cookie, url: road.url }]);
    }
    await context.addInitScript(sendsTo, { url: road.url, headers: login.page });
    const page = await context.newPage();
    await page.goto(`${road.origin}/${login.hash === null ? '' : `#token=${login.hash}`}`);
    return page;
}

async function clientBuys({ url, ended, client }, { voucher }) {
    if (ended !== null) {
        const late = createClient({ url, headers: ended.client });
        const { outcome, code } = await late.buy(voucher);
        mustBe('a purchase after the login\'s end', [outcome, code], ['refused', 'UNAUTHENTICATED']);
        const orders = await late.orders().catch((problem) => problem.code);
        mustBe('orders after the login\'s end', orders, 'UNAUTHENTICATED');
    }
    const buyer = createClient({ url, headers: client.client });
    const bought = await buyer.buy(voucher);
    mustBe(`a purchase: ${bought.code}`, bought.outcome, 'won');
    mustBe('orders', (await buyer.orders()).orders[0].id, bought.orderId);
}

async function pageLogsIn(browser, road, { login }) {
    if (road.ended === null) {
        return;
    }
    const page = await shop(browser, road, road.ended);
    await appears(page.locator(`#log-in[href="${login}"]:not([hidden])`), 'the way to the login', road.shown_ms);
    await page.context().close();
}

async function pageBuys(browser, road, { voucher }) {
    road.open = await shop(browser, road, road.page);
    await buyButton(road.open, voucher).click();
    await ends(road.open, voucher, ['won', 'already_ordered'], road.shown_ms);
}

async function dashboardIsWell(browser, { operators, shown_ms, faults }, { voucher, admin }) {
    const context = await visitor(browser, { faults, answers: [], origin: operators });
    context.setDefaultTimeout(shown_ms);
    const page = await context.newPage();
    await page.goto(`${operators}/admin/ui`);
    await page.locator('form[data-login] input').first().fill(admin);
    await page.locator('form[data-login] button').first().click();
    await appears(page.locator('[data-part=severity][data-severity=well]'), 'that all is well', shown_ms);
    await appears(page.locator(`tbody[data-voucher="${voucher}"] [data-remaining]`).filter({ hasText: /\d/ }), 'the units left', shown_ms);
    mustBe('what the page is watched for', [...new Set(faults)], []);
    await context.close();
}

/** Resolves once both wait; `road.end` with what became of them. */
async function waits(road, { late }) {
    const codes = new Set();
    const client = createClient({ url: road.url, headers: road.client.client });
    const waiting = new Promise((resolve) => {
        const onStep = ({ step, code }) => step === 'waiting' && resolve(codes.add(code));
        road.end = client.buy(late, { onStep }).then(({ outcome, code }) => ({ outcome, code, codes: [...codes] }));
    });
    await buyButton(road.open, late).click();
    await Promise.all([Promise.race([waiting, road.end]), ends(road.open, late, 'retrying', road.shown_ms)]);
}

async function comesBack(road, { late }) {
    const { outcome, code, codes } = await road.end;
    mustBe('that the client waits', codes.length > 0, true);
    mustBe('why the client waits', codes.filter((one) => !AWAY.includes(one)), []);
    mustBe(`the client's purchase: ${code}`, outcome, 'won');
    await ends(road.open, late, 'won', road.shown_ms);
}

async function main() {
    const settings = await hear();
    const roads = settings.roads.map((road) => ({ ...road, shown_ms: settings.shown_ms }));
    const servers = await Promise.all(settings.sites.map(serve));
    const browser = await launch();
    try {
        await each(roads, 'the client', (road) => clientBuys(road, settings));
        await each(roads, 'the page', (road) => pageLogsIn(browser, road, settings));
        await each(roads, 'the page', (road) => pageBuys(browser, road, settings));
        await each(roads, 'the dashboard', (road) => dashboardIsWell(browser, road, settings));
        say({ ask: 'die' });
        await hear();
        await each(roads, 'without instances', (road) => waits(road, settings));
        say({ ask: 'live' });
        await hear();
        await each(roads, 'with instances again', (road) => comesBack(road, settings));
    } finally {
        await browser.close();
        servers.forEach((server) => server.close());
    }
    process.stdin.destroy();
}

main().catch((error) => {
    console.error(`pages: ${error.message}`);
    process.exit(1);
});
