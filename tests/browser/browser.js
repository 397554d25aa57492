// The browser, and the problems detected in every page of every test: errors on the console, uncaught errors, reports
// of the Content-Security-Policy, and the findings of axe-core.
//
// One browser serves all tests; a visitor is a browser context with its own storage, connections and language.

import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell'; // Debian's, without windows
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const GRAVE = ['serious', 'critical'];

export async function launch() {
    if (!existsSync(CHROMIUM)) {
        throw new Error(`there is no ${CHROMIUM}; ./dev setup browser installs it`);
    }
    return chromium.launch({
        executablePath: CHROMIUM,
        headless: true,
        chromiumSandbox: false, // the pages are ours, and neither root nor a user in a chroot can have a sandbox
        args: ['--no-proxy-server', '--disable-dev-shm-usage', '--font-render-hinting=none'],
    });
}

/**
 * A browser context whose pages are watched. Problems are added to `faults`.
 *
 * `answers`: error statuses (or 'net': no answer) that the API may return in this test. Chromium prints each of them on
 * the console; requests for page files must never fail.
 */
export async function visitor(browser, { faults, answers, origin, user, storage = {}, ...options }) {
    const items = Object.entries({ ...(user && { 'seckill.user': user }), ...storage });
    const context = await browser.newContext({
        locale: 'en-GB',
        viewport: { width: 900, height: 800 },
        reducedMotion: 'reduce',
        storageState: { cookies: [], origins: [{ origin, localStorage: items.map(([name, value]) => ({ name, value })) }] },
        ...options,
    });
    await context.addInitScript(() => {
        document.addEventListener('securitypolicyviolation', (event) => {
            console.error(`policy: ${event.effectiveDirective} stopped ${event.blockedURI || 'something'}`);
        });
    });
    context.on('console', (message) => {
        if (message.type() === 'error' && !isExpected(message, answers)) {
            faults.push(`console: ${message.text()} (${message.location().url})`);
        }
    });
    context.on('weberror', (error) => faults.push(`uncaught: ${error.error()}`));
    return context;
}

function isExpected(message, answers) {
    const refused = /^Failed to load resource: (?:the server responded with a status of (\d+)|net::)/.exec(message.text());
    const { pathname } = new URL(message.location().url || 'about:blank');
    const ofApi = /^\/(seckill|orders|vouchers|demo|metrics|readyz|admin\/(?!ui))/.test(pathname);
    return refused !== null && (ofApi || answers.includes(pathname)) && answers.includes(Number(refused[1] ?? NaN) || 'net');
}

/** axe-core's serious or critical findings, one a line. It runs in an isolated world: the page's policy still applies. */
export async function axe(page) {
    const session = await page.context().newCDPSession(page);
    try {
        const { frameTree } = await session.send('Page.getFrameTree');
        const world = { frameId: frameTree.frame.id, worldName: 'axe' };
        const { executionContextId } = await session.send('Page.createIsolatedWorld', world);
        const evaluate = async (expression) => {
            const asked = { expression, contextId: executionContextId, awaitPromise: true, returnByValue: true };
            const { result, exceptionDetails } = await session.send('Runtime.evaluate', asked);
            if (exceptionDetails) {
                throw new Error(`axe: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
            }
            return result.value;
        };
        await evaluate(`${AXE};0`);
        const found = await evaluate(`axe.run(document, { resultTypes: ['violations'], preload: false }).then((all) =>
            all.violations.map((one) => ({
                rule: one.id, impact: one.impact, help: one.help, at: one.nodes.map((node) => node.target.join(' ')) })))`);
        return found
            .filter(({ impact }) => GRAVE.includes(impact))
            .map(({ rule, impact, help, at }) => `axe: ${impact}: ${rule}: ${help}: ${at.slice(0, 3).join(', ')}`);
    } finally {
        await session.detach();
    }
}

/** Like "slow 3G" of DevTools. */
export async function slowNetwork(page, { latency = 400, bytesPerSecond = 50000 } = {}) {
    const session = await page.context().newCDPSession(page);
    await session.send('Network.enable');
    await session.send('Network.emulateNetworkConditions', {
        offline: false,
        latency,
        downloadThroughput: bytesPerSecond,
        uploadThroughput: bytesPerSecond / 2,
    });
}

/** For context.addInitScript: shifts the client's clock by this many ms before any script of the page runs. */
export function shiftClock(byMs) {
    const Real = Date;
    const origin = performance.timeOrigin;
    globalThis.Date = class Date extends Real {
        constructor(...parts) {
            super(...(parts.length === 0 ? [Real.now() + byMs] : parts));
        }

        static now() {
            return Real.now() + byMs;
        }
    };
    Object.defineProperty(performance, 'timeOrigin', { get: () => origin + byMs });
}

/** For page.evaluate: imitates a tab that goes to the background or comes back. */
export function setVisibility(state) {
    Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => state });
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => state === 'hidden' });
    document.dispatchEvent(new Event('visibilitychange'));
}
