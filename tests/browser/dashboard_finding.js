// What an operator looks for: an order by what a caller on the phone knows of it, and one voucher among a thousand.

import assert from 'node:assert/strict';

import { card, dashboard, FOLLOW_MS } from './dashboard.js';
import { appears, hasText, requests } from './scene.js';
import { sql, until } from './site.js';

const MANY = 1000;
const PAGE = 20;
const TALL_PX = 6500; // of the page on a phone, with a full table
const PHONE = { viewport: { width: 375, height: 800 } };

async function find(page, text) {
    await page.locator('[data-find-text]').fill(text);
    await page.locator('[data-find] button').click();
}

const order = (page, id, status) => page.locator(`article[data-order="${id}"]${status ? `[data-status="${status}"]` : ''}`);

async function findsOrders(scene) {
    const [one, two] = [await scene.voucher({ price_cents: 990 }), await scene.voucher()];
    const user = scene.user(), reference = `pay:${user}`;
    const id = await scene.api.buy(one, user);
    const other = await scene.api.buy(two, user);
    await scene.api.admin('POST', `/orders/${id}/pay`, { reference, amount_cents: 990, currency: 'CNY' });
    const page = await dashboard(scene);

    await find(page, id);
    await appears(order(page, id, 'paid'), 'the order by its id');
    await hasText(order(page, id), new RegExp(`${user}.*paid, by admin.*${reference}`, 's'), 'its user, events and payments');
    await find(page, user);
    await hasText(page.locator('[data-found]'), new RegExp(other), "the user's orders");
    await page.locator(`[data-open-order="${other}"]`).click();
    await appears(order(page, other, 'unpaid'), 'another order of the user');
    assert.equal(await order(page, other).locator('button[data-action="refund"]').count(), 0, 'nothing to refund');
    await find(page, id.replaceAll('-', '').toUpperCase());
    await appears(order(page, id, 'paid'), 'the order by its id as a payment provider shows it');
    await find(page, user);
    await appears(page.locator(`[data-open-order="${id}"]`), 'both orders again');
    await find(page, reference);
    await appears(order(page, id, 'paid'), 'the order by its payment');

    const sent = requests(page, /^POST /);
    await order(page, id).locator('button[data-action="refund"]').click();
    const dialog = page.locator('dialog[data-refund][open]');
    await hasText(dialog, new RegExp(`9\\.90.*${user}`, 's'), 'what is refunded, and to whom');
    assert.deepEqual(sent, [], 'refunded without being confirmed');
    await dialog.locator('[data-restock]').check();
    await dialog.locator('[data-why]').fill('It was broken');
    await dialog.locator('button[type="submit"]').click();
    await appears(order(page, id, 'refunded'), 'the order as refunded');
    await hasText(order(page, id), /given back/, 'its payment');
    const refunded = await scene.api.order(id, user);
    assert.deepEqual([refunded.status, refunded.reason, refunded.events.at(-1).why], ['refunded', 'RESTOCKED', 'It was broken']);
    await find(page, 'nobody-of-this-name');
    await hasText(page.locator('[data-find-hint]'), /no order, user or payment/, 'that there is none');
}

// They are retired, so that no instance loads a thousand sales for this test.
async function manyVouchers() {
    await sql(`with made as (insert into seckill_voucher (title, price_cents, begin_at, end_at, state)
            select 'One of many ' || n, 1, now() - interval '2 h', now() - interval '1 h', 'retired' from generate_series(1, ${MANY}) n returning id)
        insert into voucher_stock (voucher_id, tag, slot, units, stock) select id, id::text, slot_of(id::text), 5, 5 from made`);
}

async function aThousand(scene) {
    const old = await scene.voucher({ title: 'The old tea set' });
    await manyVouchers();
    try {
        const page = await dashboard(scene);
        const rows = page.locator('[data-vouchers] tbody');
        await until('a page of vouchers', async () => (await rows.count()) >= PAGE);
        assert.equal(await rows.count(), PAGE, 'rows at once');
        const first = await rows.first().getAttribute('data-voucher');
        await page.locator('[data-next]').click();
        await until('the next page', async () => (await card(page, first).count()) === 0 && (await rows.count()) === PAGE);
        await page.locator('[data-search]').fill('OLD tea');
        await appears(card(page, old), 'the voucher by its title', FOLLOW_MS);
        await until('no others', async () => (await rows.count()) < 5, FOLLOW_MS);
        await page.locator('[data-search]').fill('no voucher is called so');
        await hasText(page.locator('[data-vouchers-none]'), /No voucher/, 'that there is none', FOLLOW_MS);

        const phone = await dashboard(scene, PHONE);
        await until('the table on a phone', async () => (await phone.locator('[data-vouchers] tbody').count()) === PAGE);
        const [wide, tall] = await phone.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]);
        assert.ok(wide <= PHONE.viewport.width, `${wide} px wide on a phone`);
        assert.ok(tall <= TALL_PX, `${tall} px long on a phone`);
        assert.ok(await phone.locator('[data-severity-title]').isVisible(), 'the line');
    } finally {
        await sql("delete from seckill_voucher where title like 'One of many %'");
    }
}

export const tests = [
    { name: 'dashboard: an order is found by id, user and payment, and refunded', run: findsOrders },
    { name: 'dashboard: one voucher among a thousand, and on a phone', alone: true, run: aThousand },
];
