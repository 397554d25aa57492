// The example page of clients/web, served from another origin than the service, as a shop's own page is.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';

import { appears, hasText } from './scene.js';
import { ROOT } from './site.js';

const TYPES = { html: 'text/html', js: 'text/javascript' };

/** Serves the client's folder. */
async function serveClient() {
    const server = createServer(async ({ url }, answer) => {
        const [, name, type] = /^\/(\w+\.(\w+))/.exec(url) ?? [];
        const text = await readFile(join(ROOT, 'clients/web', name ?? '')).catch(() => null);
        answer.writeHead(text === null ? 404 : 200, { 'Content-Type': TYPES[type] ?? 'text/plain' }).end(text);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return server;
}

async function examplePage(scene) {
    const server = await serveClient();
    try {
        const origin = `http://127.0.0.1:${server.address().port}`;
        const own = await scene.instance({ SECKILL_CORS_ORIGINS: origin });
        const voucher = await scene.voucher({ title: 'A tray', price_cents: 1990 });
        const context = await scene.visitor({ at: origin });
        const page = await scene.open(context, `/example.html?url=${encodeURIComponent(own.url)}&user=${scene.user()}`);
        const sale = page.locator('#sales li').filter({ has: page.locator(`[id="${voucher}"]`) });
        await hasText(sale, /A tray, CN¥19\.90: 5 left/, 'the sale');
        await sale.getByRole('button', { name: 'Buy' }).click();
        await hasText(sale, /4 left.*It is yours/s, 'the outcome');
        const order = page.locator('#orders li');
        await hasText(order, /A tray, CN¥19\.90: unpaid/, 'the order');
        await order.getByRole('button', { name: 'Cancel' }).click();
        await hasText(order, /A tray, CN¥19\.90: cancelled/, 'the cancelled order');
        await hasText(sale, /5 left/, 'the unit that was returned');
        await scene.api.admin('POST', `/admin/vouchers/${voucher}/close`);
        await hasText(sale, /: ended/, 'the end');
        assert.equal(await page.evaluate(() => localStorage.length), 0, 'the key is kept after the outcome');
        await appears(page.locator('#trouble:empty'), 'no trouble');
    } finally {
        server.close();
    }
}

export const tests = [{ name: "the client's example page", run: examplePage }];
