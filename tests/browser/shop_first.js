// The first card on a slow phone: requests, bytes and time, as the browser itself counts them.

import assert from 'node:assert/strict';

import { slowNetwork } from './browser.js';
import { bound, shows } from './scene.js';

const PHONE = { width: 390, height: 700 };
const REQUESTS_MOST = 6;
const BYTES_MOST = 40000; // as they are sent: compressed, with their headers
const FIRST_CARD_MS = bound(2500);

/** For context.addInitScript: notes when the first card is there. */
function noteFirstCard() {
    const watcher = new MutationObserver(() => {
        if (document.querySelector('article[data-voucher] h3')?.textContent) {
            globalThis.firstCardAt = performance.now();
            watcher.disconnect();
        }
    });
    watcher.observe(document, { subtree: true, childList: true, characterData: true });
}

/** Requests of a page, each with the ms when it was sent and ended, and the bytes of its answer. */
async function watchNetwork(page) {
    const session = await page.context().newCDPSession(page);
    const sent = new Map();
    await session.send('Network.enable');
    session.on('Network.requestWillBeSent', ({ requestId, request, timestamp }) =>
        sent.set(requestId, { path: new URL(request.url).pathname, at: timestamp, bytes: 0 }));
    session.on('Network.dataReceived', ({ requestId, encodedDataLength, timestamp }) =>
        Object.assign(sent.get(requestId), { bytes: sent.get(requestId).bytes + encodedDataLength, ended: timestamp }));
    session.on('Network.loadingFinished', ({ requestId, encodedDataLength, timestamp }) =>
        Object.assign(sent.get(requestId), { bytes: encodedDataLength, ended: timestamp }));
    return sent;
}

async function firstCard(scene) {
    const voucher = await scene.voucher();
    const context = await scene.visitor({ user: scene.user(), viewport: PHONE, init: [noteFirstCard] });
    const page = await context.newPage();
    const sent = await watchNetwork(page);
    await slowNetwork(page, { latency: 400, bytesPerSecond: 50000 });
    await page.goto('/', { waitUntil: 'commit' });
    await shows(page, voucher, 'on_sale');
    const ms = await page.evaluate(() => globalThis.firstCardAt);
    const all = [...sent.values()];
    const before = all.filter(({ at }) => at - all[0].at <= ms / 1000);
    const bytes = before.reduce((sum, one) => sum + one.bytes, 0);
    const list = before.map(({ path, bytes }) => `${path} ${bytes}`).join(', ');
    console.log(`        first card after ${Math.round(ms)} ms, ${before.length} requests, ${bytes} bytes: ${list}`);
    assert.ok(before.length <= REQUESTS_MOST, `${before.length} requests to the first card: ${list}`);
    assert.ok(bytes <= BYTES_MOST, `${bytes} bytes to the first card: ${list}`);
    assert.ok(ms <= FIRST_CARD_MS, `the first card after ${Math.round(ms)} ms`);
    assert.equal(all.filter(({ path }) => path === '/web/settings.json').length, 1, 'what was asked for early is asked for twice');
}

export const tests = [{ name: 'the first card on a slow phone', alone: true, run: firstCard }];
