#!/usr/bin/env node
// Takes the pictures of the READMEs from the real pages: ./dev screenshots
//
// One rush, shown by the terminal, the dashboard and the report, then the shop with its buyers.

import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { launch, visitor } from './browser.js';
import { buyButton, ends, order, shows } from './scene.js';
import { Api, moment, ROOT, setting, until } from './site.js';
import { Terminal } from './terminal.js';

const FOLDER = join(ROOT, 'docs/screenshots');
const MOST_BYTES = 200 * 1024; // every clone contains all of them
const RUSH_S = 12;
const RUSH_STOCK = 120000;

const api = new Api();

async function page(browser, path, { user, url = api.url, ...options } = {}) {
    const context = await visitor(browser, { faults: [], answers: [], origin: url, baseURL: url, user, ...options });
    const opened = await context.newPage();
    await opened.goto(path);
    return opened;
}

async function shoot(from, name, options = {}) {
    const path = join(FOLDER, `${name}.png`);
    await from.screenshot({ path, animations: 'disabled', ...options });
    const { size } = statSync(path);
    console.log(`${path}: ${Math.round(size / 1024)} KB`);
    if (size > MOST_BYTES) {
        throw new Error(`${path} is larger than ${MOST_BYTES / 1024} KB: choose a smaller picture`);
    }
}

// ---- the shop ----

const ENGLISH = { open: 'Tea set', soon: 'Linen table runner', gone: 'Bamboo tray' };
const CHINESE = { open: '手作茶具套装', soon: '亚麻桌旗', gone: '竹编茶盘' };

/** A shop with a sale of each kind. */
async function sales(titles) {
    const made = {
        gone: await api.voucher({ title: titles.gone, stock: 1, price_cents: 4900 }),
        soon: await api.voucher({ title: titles.soon, stock: 300, price_cents: 12900, begin_at: moment(754), end_at: moment(9000) }),
        open: await api.voucher({ title: titles.open, stock: 200, price_cents: 19900, limit: 2 }),
    };
    await api.buy(made.gone, 'first');
    const crowd = Array.from({ length: 163 }, (_, i) => api.buy(made.open, `crowd-${i}`));
    await Promise.all(crowd);
    return made;
}

/** Else the next picture would show these sales, too. */
async function closeAll() {
    const { vouchers } = await api.must('GET', '/vouchers');
    for (const { id } of vouchers) {
        await api.admin('POST', `/admin/vouchers/${id}/close`);
    }
    await until('a list without them', async () => (await api.must('GET', '/vouchers')).vouchers.length === 0); // it may be a second old
}

async function shop(browser, titles, shots) {
    const made = await sales(titles);
    for (const [name, user, options] of shots) {
        const opened = await page(browser, '/', { user, ...options });
        await shows(opened, made.open, 'on_sale');
        await buyButton(opened, made.open).click();
        await ends(opened, made.open, 'won');
        await order(opened, undefined, 'unpaid').first().waitFor();
        await opened.evaluate(() => scrollTo(0, 0));
        await shoot(opened, name);
        await opened.context().close();
    }
    await closeAll();
}

// ---- a rush ----

/** Runs loadtest/oversell in a terminal, and keeps its screen from the busiest moment. */
function rush(folder) {
    const command = `loadtest/oversell --stock ${RUSH_STOCK} --users 400000 --connections 128 --duration ${RUSH_S}` +
        ` --watch 4 --report ${folder}`;
    const child = spawn('script', ['-qfec', command, '/dev/null'], {
        cwd: ROOT,
        env: { ...process.env, COLUMNS: '96', LINES: '40', TERM: 'xterm', PYTHONIOENCODING: 'utf-8' },
        stdio: ['ignore', 'pipe', 'inherit'],
    });
    const terminal = new Terminal();
    child.stdout.setEncoding('utf8').on('data', (text) => terminal.write(text));
    const ended = new Promise((resolve, reject) => {
        child.once('error', reject);
        child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`${command}: exit ${code}`))));
    });
    return { terminal, ended };
}

async function dashboard(browser) {
    const opened = await page(browser, '/admin/ui', { viewport: { width: 1280, height: 900 } });
    const form = opened.locator('form[data-login]');
    await form.locator('input').first().fill(setting('SECKILL_ADMIN_TOKEN'));
    await form.getByRole('button').first().click();
    await opened.locator('[data-chart] [data-metric]').first().waitFor(); // there may be no voucher yet
    return opened;
}

async function rushes(browser) {
    const folder = mkdtempSync(join(tmpdir(), 'seckill-rush-'));
    try {
        const watched = await dashboard(browser);
        const { terminal, ended } = rush(folder);
        const shown = () => terminal.lines.map((cells) => cells.map((cell) => cell?.sign ?? ' ').join('')).join('\n');
        await Promise.race([until('the rush', () => /placed|201/.test(shown()), 30000), ended]);
        await sleep(RUSH_S * 700); // most of it is over, and the charts have data
        const kept = terminal.html();
        await shoot(watched, 'dashboard');
        await ended;
        await watched.context().close();
        writeFileSync(join(folder, 'terminal.html'), kept);
        await fileShot(browser, join(folder, 'terminal.html'), 'terminal', 'pre');
        await fileShot(browser, join(folder, 'report.html'), 'report');
    } finally {
        rmSync(folder, { recursive: true, force: true });
    }
}

async function fileShot(browser, file, name, element) {
    const context = await browser.newContext({ viewport: { width: 1000, height: 1100 } });
    const opened = await context.newPage();
    await opened.goto(`file://${file}`);
    await shoot(element ? opened.locator(element) : opened, name);
    await context.close();
}

async function main() {
    mkdirSync(FOLDER, { recursive: true });
    const browser = await launch();
    try {
        const phone = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
        await rushes(browser); // first: the dashboard also lists ended sales
        await closeAll();
        await shop(browser, ENGLISH, [
            ['shop-phone', 'alice', phone],
            ['shop-desktop', 'bob', { viewport: { width: 1200, height: 960 } }],
        ]);
        await shop(browser, CHINESE, [['shop-phone-dark-zh', 'xiaoming', { ...phone, colorScheme: 'dark', locale: 'zh-CN' }]]);
    } finally {
        await browser.close();
    }
}

main().catch((error) => {
    console.error(`screenshots: ${error.message}`);
    process.exitCode = 1;
});
