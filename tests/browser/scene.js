// The means of a test: the API, vouchers and instances that end with it, visitors and their pages, and helpers for shop
// pages. They find page elements by their promised data attributes, and by role and name.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import { axe, visitor } from './browser.js';
import { Api, Instance, Road, ROOT, until } from './site.js';

const FAILED = join(ROOT, 'build/browser'); // screenshots of failures
const MENDED_MS = 10000;
const SHOWN_MS = 20000; // the deadline of waits without their own: only a busy machine comes near

/** How long something may take: `ms` where bounds are judged (./dev browser), else as long as anything may take. */
export const bound = (ms) => (process.env.BROWSER_BOUNDS ? ms : SHOWN_MS);

export class Scene {
    /** `breakage`: of a negative control; called with every context before a page is opened in it. */
    constructor(browser, { answers = [], breakage } = {}) {
        this.browser = browser;
        this.answers = answers;
        this.breakage = breakage;
        this.api = new Api();
        this.faults = [];
        this.contexts = [];
        this.vouchers = [];
        this.instances = [];
        this.roads = [];
        this.users = 0;
    }

    /** A buyer that no other test has. */
    user(name = 'buyer') {
        this.users += 1;
        return `${name}-${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 7)}-${this.users}`;
    }

    async voucher(terms) {
        const voucher = await this.api.voucher(terms);
        this.vouchers.push(voucher);
        return voucher;
    }

    async instance(env) {
        const instance = new Instance(env);
        this.instances.push(instance);
        await instance.run();
        return instance;
    }

    redisRoad() {
        return this.road('REDIS_URL');
    }

    postgresqlRoad() {
        return this.road('SECKILL_DATABASE_URL');
    }

    async road(name) {
        const road = await new Road(name).open();
        this.roads.push(road);
        return road;
    }

    /** `init`: [function, argument] to run before the page's own scripts. */
    async visitor({ at = this.api.url, init, ...options } = {}) {
        const { faults, answers } = this;
        if (at === this.api.url && this.vouchers.length > 0) {
            await this.api.listed(this.vouchers.at(-1));
        }
        const context = await visitor(this.browser, { faults, answers, origin: at, baseURL: at, ...options });
        this.contexts.push(context);
        context.setDefaultTimeout(SHOWN_MS);
        if (init) {
            await context.addInitScript(...init);
        }
        await this.breakage?.(context, this);
        return context;
    }

    /** A shop page of a user, in a context of its own. */
    async shop(user, options = {}) {
        const context = await this.visitor({ user, ...options });
        return this.open(context, options.path ?? '/');
    }

    async open(context, path = '/') {
        const page = await context.newPage();
        await page.goto(path);
        return page;
    }

    /** Every page is judged as it is at the end. */
    async finish() {
        for (const context of this.contexts) {
            for (const page of context.pages().filter((one) => one.url().startsWith('http'))) {
                this.faults.push(...(await axe(page)));
            }
        }
        assert.deepEqual([...new Set(this.faults)], [], 'what every page is watched for');
    }

    async picture(name) {
        mkdirSync(FAILED, { recursive: true });
        const pages = this.contexts.flatMap((context) => context.pages());
        const path = (i) => join(FAILED, `${name.replace(/\W+/g, '-')}-${i + 1}.png`);
        await Promise.all(pages.map((page, i) => page.screenshot({ path: path(i), timeout: 3000 }).catch(() => {})));
    }

    async close() {
        for (const context of this.contexts) {
            await context.unrouteAll({ behavior: 'ignoreErrors' }).catch(() => {}); // later requests have no answer to change
        }
        await Promise.all(this.contexts.map((context) => context.close().catch(() => {})));
        for (const voucher of this.vouchers) {
            await this.api.ask('POST', `/admin/vouchers/${voucher}/close`, { admin: true });
        }
        if (this.roads.length > 0) { // instances need Redis for a clean exit: else the next test finds one that is missed
            this.roads.forEach((road) => road.mend());
            await Promise.all(this.instances.map((instance) => until('it ready', () => instance.ready(), MENDED_MS).catch(() => {})));
        }
        await Promise.all(this.instances.map((instance) => instance.close()));
        this.roads.forEach((road) => road.close());
    }
}

// ---- a shop page ----

export const isStream = (url) => url.pathname === '/vouchers/events';

export const card = (page, voucher, state) =>
    page.locator(`article[data-voucher="${voucher}"]${state ? `[data-state="${state}"]` : ''}`);

export const buyButton = (page, voucher) => card(page, voucher).locator('button[data-buy]');

export const order = (page, id, status) =>
    page.locator(`li[data-order${id ? `="${id}"` : ''}]${status ? `[data-status="${status}"]` : ''}`);

export async function isOff(button) {
    return (await button.getAttribute('aria-disabled')) === 'true';
}

/** Waits until the card is in the state; an error names its last state. */
export async function shows(page, voucher, state, withinMs = SHOWN_MS) {
    await scrollsTo(page, voucher, withinMs);
    await appears(card(page, voucher, state), `voucher shown as ${state}`, withinMs, () =>
        card(page, voucher).getAttribute('data-state', { timeout: 1000 }),
    );
}

/** Waits until the outcome of a purchase is one of the codes. */
export async function ends(page, voucher, codes, withinMs = SHOWN_MS) {
    const outcome = card(page, voucher).locator('[data-outcome]');
    const wanted = [codes].flat().map((code) => `[data-outcome][data-code="${code}"]`);
    await appears(card(page, voucher).locator(wanted.join(',')), `outcome ${codes}`, withinMs, () =>
        outcome.first().getAttribute('data-code', { timeout: 1000 }),
    );
    return (await outcome.first().innerText()).trim();
}

/** A page follows only cards on the screen; those of other tests may have moved this one off it. */
const scrollsTo = (page, voucher, timeout) => card(page, voucher).scrollIntoViewIfNeeded({ timeout }).catch(() => {});

/** Waits until the card shows this number of units left. */
export async function leaves(page, voucher, number, withinMs = SHOWN_MS) {
    await scrollsTo(page, voucher, withinMs);
    const left = card(page, voucher).locator('[data-remaining]');
    await appears(left.and(page.locator(`[data-remaining="${number}"]`)), `${number} left`, withinMs, () =>
        left.first().innerText({ timeout: 1000 }),
    );
}

/** Delays matching requests until `first` is done, so that it is faster than this buyer. */
export async function overtaken(context, pattern, first) {
    await context.route(pattern, async (route) => {
        await first();
        await route.continue();
    }, { times: 1 });
}

export async function appears(locator, what, withinMs = SHOWN_MS, found = async () => 'nothing of it') {
    try {
        await locator.first().waitFor({ state: 'attached', timeout: withinMs });
    } catch (error) {
        if (error.name !== 'TimeoutError') {
            throw error;
        }
        throw new Error(`${what}: not within ${withinMs} ms, but ${await found().catch(() => 'no such element')}`);
    }
}

export async function hasText(locator, pattern, what, withinMs = SHOWN_MS) {
    await appears(locator.filter({ hasText: pattern }), `${what} as ${pattern}`, withinMs, () =>
        locator.first().innerText({ timeout: 1000 }),
    );
}

/** On each screen the card's price and its state share a row. */
export async function priceBesideState(page, voucher, state, widths = [320, 390, 1280]) {
    for (const width of widths) {
        await page.setViewportSize({ width, height: 800 });
        const at = card(page, voucher);
        await beside(at.getByText(/^(CN)?¥[\d,.]+$/), at.getByText(state, { exact: true }), `at ${width} px`);
    }
}

export async function beside(one, other, where) {
    const [a, b] = await Promise.all([one.boundingBox(), other.boundingBox()]);
    assert.ok(a.y < b.y + b.height && b.y < a.y + a.height, `${one} is not beside ${other} ${where}`);
}

/** Counts requests of a page or context from now on; the result lists them as "METHOD /path". */
export function requests(from, pattern) {
    const seen = [];
    from.on('request', (request) => {
        const line = `${request.method()} ${new URL(request.url()).pathname}`;
        if (pattern.test(line)) {
            seen.push(line);
        }
    });
    return seen;
}

/** Marks the document, so that a reload is detected. */
export async function mark(page) {
    await page.evaluate(() => {
        globalThis.marked = true;
    });
    return async () => assert.ok(await page.evaluate(() => globalThis.marked === true), 'the page was reloaded');
}
