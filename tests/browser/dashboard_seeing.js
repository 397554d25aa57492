// What an operator sees at once: whether sales can sell and the books balance, in one line with what to do; which
// instances live; and since when the page knows.

import assert from 'node:assert/strict';

import { appears, hasText, requests } from './scene.js';
import { action, card, dashboard, FOLLOW_MS, opened } from './dashboard.js';
import { holdStock, sql, until } from './site.js';


const line = (page, grade) => page.locator(`[data-part=severity]${grade ? `[data-severity="${grade}"]` : ''}`);
const trouble = (page, kind) => page.locator(`[data-trouble="${kind}"]`);
const gone = (page, kind, withinMs = FOLLOW_MS) => until(`${kind} to go from the line`, async () => (await trouble(page, kind).count()) === 0, withinMs);

async function redisAway(scene) {
    const road = await scene.redisRoad();
    const own = await scene.instance({ SECKILL_REDIS_URL: road.url });
    const voucher = await scene.voucher();
    const page = await dashboard(scene, { at: own.url });
    await appears(card(page, voucher, 'open'), 'the voucher as on sale');
    await appears(line(page, 'well'), 'that all is well', FOLLOW_MS);
    const [late, release] = await lateOrder(scene);
    try {
        await appears(trouble(page, 'expiry_late'), 'the expiry that is late', FOLLOW_MS);
        road.cut();
        await appears(trouble(page, 'redis_away'), 'that Redis is away', FOLLOW_MS);
        await appears(line(page, 'stops'), 'that sales are stopped');
        await gone(page, 'expiry_late'); // no advice to compare clocks: the cause is said
    } finally {
        await endLateOrder(late, release);
    }
    await hasText(trouble(page, 'redis_away'), /nobody can buy.*Check Redis/s, 'what to do');
    await appears(card(page, voucher, 'away'), 'the voucher as one that cannot sell', FOLLOW_MS);
    assert.equal(await card(page, voucher, 'open').count(), 0, 'a card that stays green');
    await appears(page.locator('[data-health="redis_away"]'), 'the instance without Redis', FOLLOW_MS);
    assert.equal(await page.locator('[data-health="missed"]').count(), 0, 'an instance that is missed because Redis is away');

    const link = trouble(page, 'redis_away').locator('a');
    const [help] = await Promise.all([page.context().waitForEvent('page'), link.click()]);
    await hasText(help.locator('section#redis_away'), /SeckillRedisAway/, 'the page that explains it');
    road.mend();
    await gone(page, 'redis_away');
    await appears(card(page, voucher, 'open'), 'the voucher as on sale again', FOLLOW_MS);
}

/** A voucher with an unpaid order whose time to pay was over five minutes ago, and what releases its row. */
async function lateOrder(scene) {
    const late = await scene.voucher({ title: 'Teapot that is late', pay_within_s: 900 });
    await scene.api.buy(late, scene.user());
    const release = await holdStock(late); // else expiry may end the order first
    await sql(`update voucher_order set created_at = now() - interval '20 min' where voucher_id = ${late}`);
    return [late, release];
}

async function endLateOrder(late, release) {
    await sql(`update voucher_order set created_at = now() where voucher_id = ${late}`);
    await release();
}

// Without it neither vouchers nor events can be read, and no list of them is empty.
async function postgresqlAway(scene) {
    const voucher = await scene.voucher({ title: 'Teapot at night' });
    await scene.api.buy(voucher, scene.user());
    const road = await scene.postgresqlRoad();
    const own = await scene.instance({ SECKILL_DATABASE_URL: road.url, SECKILL_REACTORS: '1' });
    const page = await dashboard(scene, { at: own.url });
    await appears(card(page, voucher, 'open'), 'the voucher as on sale', FOLLOW_MS);
    await opened(page, voucher, 'details');
    road.cut();
    await appears(line(page, 'waits'), 'that orders wait', FOLLOW_MS);
    const buy = await fetch(`${own.url}/seckill/${voucher}`, { method: 'POST', headers: { 'X-User-Id': scene.user(), Prefer: 'respond-async' } });
    assert.equal(buy.status, 202);
    await hasText(line(page, 'waits'), /Sales go on: 1 order is accepted, and waits for PostgreSQL/, 'how many wait', FOLLOW_MS);
    await appears(card(page, voucher), 'the voucher as it was');
    const fresh = await dashboard(scene, { at: own.url }); // it has never read anything
    for (const at of [page, fresh]) {
        await hasText(at.locator('[data-vouchers-none]'), /Cannot be read now/, 'vouchers that cannot be read', FOLLOW_MS);
        await hasText(at.locator('[data-events-hint]'), /Cannot be read now/, 'events that cannot be read', FOLLOW_MS);
    }
    await appears(line(fresh, 'waits'), 'that orders wait, on a new page', FOLLOW_MS);
    assert.doesNotMatch(await fresh.locator('main').innerText(), /Nothing|no vouchers|None wait/, 'what was not read is nothing');
    await hasText(card(page, voucher).locator('[data-letters]'), /Cannot be read now/, 'letters that cannot be read', FOLLOW_MS);
    road.mend();
    await gone(fresh, 'postgresql_away');
    await appears(card(fresh, voucher, 'open'), 'the voucher, on a new page', FOLLOW_MS);
    await until('no word of what cannot be read', async () => !/Cannot be read/.test(await fresh.locator('main').innerText()), FOLLOW_MS);
}

async function vouchersInTrouble(scene) {
    const letters = await scene.voucher({ title: 'Teapot with a letter' });
    const [late, release] = await lateOrder(scene);
    await scene.voucher({ title: 'A newer one' });
    const page = await dashboard(scene);
    await appears(card(page, late), 'the voucher');
    await sql(`insert into dead_letter (slot, voucher_id, journal_id, raw, reason)
        select slot, voucher_id, '1-1', '', 'it cannot be read' from voucher_stock where voucher_id = ${letters}`);
    try {
        await hasText(trouble(page, 'dead_letters'), new RegExp(`Teapot with a letter \\(no\\. ${letters}\\)`), 'the dead letter', FOLLOW_MS);
        await hasText(trouble(page, 'expiry_late'), /min late.*Compare the clocks/s, 'the expiry that is late', FOLLOW_MS);
        await appears(line(page, 'books'), 'that the books need somebody');
        const ids = await page.locator('[data-vouchers] tbody').evaluateAll((rows) => rows.map((row) => row.dataset.voucher));
        assert.deepEqual([...ids.slice(0, 2)].sort(), [letters, late].sort(), 'those in trouble first');
        await trouble(page, 'dead_letters').locator(`button[data-show="${letters}"]`).click();
        await hasText(card(page, letters).locator('[data-letters]'), /it cannot be read/, 'the letter', FOLLOW_MS);
        await card(page, letters).locator('[data-letter] button[data-action="write_off"]').click();
        await page.locator('dialog[data-confirm][open] button[type="submit"]').click();
        await gone(page, 'dead_letters');
    } finally {
        await sql(`delete from dead_letter where voucher_id = ${letters}`);
        await endLateOrder(late, release);
    }
    await gone(page, 'expiry_late');
}

async function expiryHeld(scene) {
    const voucher = await scene.voucher({ title: 'Teapot on hold' });
    const page = await dashboard(scene);
    await appears(card(page, voucher), 'the voucher');
    const sent = requests(page, /^POST /);
    const question = page.locator('dialog[data-confirm][open]');
    const confirm = () => question.locator('button[type="submit"]').click();
    const [hold, release] = [await action(page, voucher, 'hold_expiry'), await action(page, voucher, 'release_expiry')];
    try {
        await hold.click();
        await hasText(question, /Hold the expiry of Teapot on hold\?/, 'the question before it is done');
        assert.deepEqual(sent, [], 'held without being confirmed');
        await confirm();
        await hasText(trouble(page, 'expiry_held'), new RegExp(`held by admin since .*\\d:\\d\\d.*: Teapot on hold \\(no\\. ${voucher}\\)\\..*after payments work`, 's'), 'that expiry is held', FOLLOW_MS);
        await appears(line(page, 'books'), 'that something needs somebody');
        await hasText(card(page, voucher).locator('[data-audit]'), /expiry held · admin/, 'what operators did', FOLLOW_MS);
        assert.ok(await hold.isHidden(), 'what is held can be held');
        await page.locator('[data-hold-all]').click();
        await hasText(question, /Hold the expiry of all vouchers\?/, 'the question of all');
        await confirm();
        await hasText(trouble(page, 'expiry_held').first(), /held by admin since .*: all vouchers\./s, 'that expiry of all is held', FOLLOW_MS);
        await page.locator('[data-release-all]').click();
        await confirm();
        await until('the line of all to go', async () => (await trouble(page, 'expiry_held').count()) === 1, FOLLOW_MS);
        await release.click();
        await confirm();
        await gone(page, 'expiry_held');
        await hasText(card(page, voucher).locator('[data-audit]'), /expiry released · admin/, 'what operators did last', FOLLOW_MS);
        await appears(page.locator('[data-hold-all]:visible'), 'that it can be held again');
    } finally {
        for (const of of ['', `/vouchers/${voucher}`]) {
            await scene.api.admin('POST', `/admin${of}/release-expiry`);
        }
    }
}

// Sales go on, so the line is no stop. The cursors are behind all events: these receivers hold nothing back.
async function receiversFail(scene) {
    await sql(`insert into webhook_receiver (name, tx, seq, state, tries, why, unsent_at, page_tx, page_seq, page_id) values
        ('shop', '9223372036854775807', 0, 'failing', 3, 'HTTP 500', now() - interval '10 min', '7', 1, 'id'),
        ('mail', '9223372036854775807', 0, 'stopped', 1, 'HTTP 410', now(), '7', 1, 'id'),
        ('pay', '9223372036854775807', 0, 'sending', 0, null, null, null, null, null)`);
    try {
        const page = await dashboard(scene);
        await hasText(trouble(page, 'webhook_failing'), /shop has not taken events since .*\d:\d\d.*: HTTP 500\..*Check the receiver/s, 'the receiver that fails', FOLLOW_MS);
        await hasText(trouble(page, 'webhook_stopped'), /mail has not taken events since .*: HTTP 410.*--resume/s, 'the receiver that has stopped');
        await appears(line(page, 'books'), 'that something needs somebody');
        assert.equal(await page.locator('[data-trouble^=webhook]').count(), 2, 'a receiver that takes all is named');
        await page.locator('#language').click();
        await hasText(trouble(page, 'webhook_failing'), /shop 自 .* 起没有接收事件：HTTP 500/, 'the same in Chinese');
        await sql('delete from webhook_receiver');
        await gone(page, 'webhook_failing');
    } finally {
        await sql('delete from webhook_receiver');
    }
}

// The stack has a secret of tickets, an instance of a test has none.
async function ticketsOff(scene) {
    const voucher = await scene.voucher({ title: 'Only with a ticket', ticket: true });
    const own = await scene.instance();
    const page = await dashboard(scene, { at: own.url });
    await appears(card(page, voucher, 'open'), 'the voucher');
    await hasText(trouble(page, 'tickets_off'), /Only with a ticket.*SECKILL_TICKET_SECRET/s, 'that tickets are off', FOLLOW_MS);
    await appears(line(page, 'stops'), 'that nobody buys there');
}

// Its sessions live for so long that the page sees that they are not renewed, however slow the machine.
async function instanceDies(scene) {
    const own = await scene.instance({ SECKILL_LOCK_TTL_MS: '8000' });
    const page = await dashboard(scene);
    const row = page.locator('[data-instance]').filter({ hasText: new RegExp(`:${own.port}\\b`) });
    await appears(row.locator('[data-health="alive"]'), 'the other instance', FOLLOW_MS);
    await appears(page.locator('[data-health="ready"]'), 'the instance that answers', FOLLOW_MS);
    await own.kill();
    await appears(row.locator('[data-health="silent"]'), 'the instance that is silent', FOLLOW_MS);
    assert.equal(await trouble(page, 'instance_missed').count(), 0, 'an instance that is missed while its sessions live');
    await hasText(trouble(page, 'instance_missed'), new RegExp(`:${own.port}\\b`), 'the instance that died', FOLLOW_MS);
    await own.run(); // at the same address
    await gone(page, 'instance_missed');
    await appears(row.locator('[data-health="alive"]'), 'the instance that is back', FOLLOW_MS);
    await own.stop();
    await appears(row.locator('[data-health="gone"]'), 'the instance that ended by itself', FOLLOW_MS);
    assert.equal(await trouble(page, 'instance_missed').count(), 0, 'one that ended by itself is missed');
}

const points = (page, name) => page.locator(`[data-chart="${name}"]`).getAttribute('data-points').then(Number);

// What the page has read, and no more: it says since when, and begins anew after a reload.
async function sinceOpened(scene) {
    const voucher = await scene.voucher();
    const page = await dashboard(scene);
    await hasText(page.locator('[data-since]'), /since \S.*\d:\d\d.*Prometheus/s, 'since when it has read', FOLLOW_MS);
    await until('two points', async () => (await points(page, 'answers')) >= 2, FOLLOW_MS);
    const answers = new Set(), metric = page.locator('[data-chart="answers"] [data-metric="placed"]');
    await scene.api.must('POST', `/seckill/${voucher}`, { user: scene.user() });
    await until('the order as a rate', async () => answers.add(await metric.innerText()) && [...answers].some((text) => /^(0\.[1-9]|[12])\/s$/.test(text)), FOLLOW_MS);
    await until('a dozen points', async () => (await points(page, 'answers')) >= 12, FOLLOW_MS);
    await page.reload();
    await until('its first point', async () => (await points(page, 'answers').catch(() => 0)) >= 1, FOLLOW_MS);
    assert.ok((await points(page, 'answers')) < 12, 'points of before the reload');
}

// What is sold is counted without any settlement, and every second.
async function rushIsCounted(scene) {
    const voucher = await scene.voucher({ stock: 10 });
    const page = await dashboard(scene, { init: (context) => context.route(/\/settlement/, (route) => route.abort()) });
    await hasText(card(page, voucher).locator('[data-sold]'), /^0$/, 'sold');
    for (let i = 1; i <= 3; i++) {
        await scene.api.buy(voucher, scene.user());
        await hasText(card(page, voucher).locator('[data-sold]'), new RegExp(`^${i}$`), 'sold', FOLLOW_MS);
    }
    await hasText(card(page, voucher).locator('[data-remaining]'), /^7$/, 'remaining', FOLLOW_MS);
}

async function soldOut(scene) {
    const voucher = await scene.voucher({ stock: 1 });
    const page = await dashboard(scene);
    await appears(card(page, voucher, 'open'), 'the voucher as on sale', FOLLOW_MS);
    const user = scene.user();
    const order = await scene.api.buy(voucher, user);
    await appears(card(page, voucher, 'sold_out'), 'the voucher as sold out', FOLLOW_MS);
    await hasText(card(page, voucher).locator('[data-state-text]'), /^sold out$/, 'its state');
    await scene.api.must('POST', `/orders/${order}/cancel`, { user });
    await appears(card(page, voucher, 'open'), 'the voucher as on sale again', FOLLOW_MS);
}

// Names of products and of what operators type in settings are the same in every language.
const NAMES = /PostgreSQL|Prometheus|Redis|seckill|English|SECKILL_\w+|CPU|CNY|ASCII|admin|vm|MB|[\w.-]+:\d+|\d+\.\d+\.\d+[\w.-]*/g;

async function plainChinese(scene) {
    const voucher = await scene.voucher({ title: '茶具' });
    await scene.api.buy(voucher, scene.user());
    await scene.api.admin('PATCH', `/admin/vouchers/${voucher}`, { title: '青瓷茶具' });
    const page = await dashboard(scene, { locale: 'zh-CN' });
    await opened(page, voucher, 'details');
    await opened(page, voucher, 'settlement');
    await hasText(card(page, voucher).locator('[data-report]'), /销售还将持续/, 'the settlement in Chinese', FOLLOW_MS);
    await hasText(card(page, voucher).locator('[data-audit]'), /修改销售设置/, 'what operators did', FOLLOW_MS);
    await page.locator('summary').click();
    const parts = [card(page, voucher), ...['severity', 'orders', 'metrics', 'instances'].map((name) => page.locator(`[data-part=${name}]`)), page.locator('[data-vouchers] thead')];
    for (const part of parts) {
        const text = (await part.innerText()).replace(NAMES, '');
        assert.deepEqual(text.match(/[A-Za-z]{3,}/g) ?? [], [], `English words in: ${text}`);
    }
}

export const tests = [
    { name: 'dashboard: Redis away is said first, and nothing stays green', answers: [503], alone: true, run: redisAway },
    { name: 'dashboard: without PostgreSQL orders wait, and nothing is read as empty', answers: [503, 'net'], alone: true, run: postgresqlAway },
    { name: 'dashboard: vouchers in trouble come first', alone: true, run: vouchersInTrouble },
    { name: 'dashboard: expiry is held and released', alone: true, run: expiryHeld },
    { name: 'dashboard: receivers of webhooks that fail are named', alone: true, run: receiversFail },
    { name: 'dashboard: tickets that are off are said', alone: true, run: ticketsOff },
    { name: 'dashboard: an instance that died is missed', alone: true, run: instanceDies },
    { name: 'dashboard: it says since when it has read', run: sinceOpened },
    { name: 'dashboard: what a rush sells is counted at once', answers: ['net'], run: rushIsCounted },
    { name: 'dashboard: a voucher without units is not on sale', run: soldOut },
    { name: 'dashboard: plain Chinese', run: plainChinese },
];
