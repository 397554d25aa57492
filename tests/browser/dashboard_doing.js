// What an operator does: new vouchers and new terms, with the service's reasons beside the fields; what a token may not
// do is not offered; a settlement reads as sentences.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { axe } from './browser.js';
import { action, card, dashboard, FOLLOW_MS, opened } from './dashboard.js';
import { appears, hasText, requests } from './scene.js';
import { Instance, until } from './site.js';

const form = (page) => page.locator('dialog[data-form][open] form');
const field = (page, name) => form(page).locator(`[data-field="${name}"]`);
const reason = (page, name) => form(page).locator(`[data-error-of="${name}"]`);
const submit = (page) => form(page).locator('button[type="submit"]').click();

async function creates(scene) {
    const title = `A vase ${scene.user('made')}`;
    const page = await dashboard(scene);
    await page.locator('[data-new]').click();
    assert.ok(new Date(await field(page, 'begin').inputValue()) > new Date(), 'a new sale begins at once');
    await field(page, 'stock').fill('0.5');
    await submit(page);
    await hasText(reason(page, 'title'), /title is needed/, 'what is wrong, beside the title');
    await hasText(reason(page, 'stock'), /whole number/, 'what is wrong, beside the units');
    scene.faults.push(...(await axe(page)));
    await field(page, 'title').fill(title);
    await field(page, 'stock').fill('17');
    await field(page, 'currency').fill('QQQ');
    await submit(page);
    await hasText(reason(page, 'currency'), /ISO 4217/, "the service's reason, beside the currency");
    assert.equal(await field(page, 'currency').getAttribute('aria-invalid'), 'true');
    await field(page, 'currency').fill('CNY');

    await field(page, 'begin').fill('2026-01-01T00:00:01');
    const sent = requests(page, /^POST /);
    await submit(page);
    await hasText(form(page).locator('[data-at-once]'), /sells at once/, 'the question before it sells at once');
    await page.waitForTimeout(500); // what is sent by itself would be sent by now
    assert.deepEqual(sent, [], 'it sells without a question');
    await submit(page);
    const made = page.locator('[data-vouchers] tbody').filter({ hasText: title });
    await hasText(made.locator('[data-remaining]'), /17/, 'remaining');
    scene.vouchers.push(await made.getAttribute('data-voucher'));
}

async function changesTerms(scene) {
    const soon = await scene.voucher({ begin_at: '2098-01-01T00:00:00Z', end_at: '2098-01-02T00:00:00Z' });
    const sells = await scene.voucher({ title: 'Cups' });
    const own = await scene.instance(); // without a secret of tickets
    const page = await dashboard(scene, { at: own.url });
    await (await action(page, sells, 'change')).click();
    assert.ok(await field(page, 'price').isDisabled(), 'the price of a sale that has begun');
    await field(page, 'title').fill('Six cups');
    await field(page, 'end').fill('2097-05-06T07:08:09');
    await field(page, 'orders_per_user').fill('2');
    await submit(page);
    await hasText(form(page).locator('[data-form-error]'), /The sale has begun/, 'that a user may not have fewer orders now');
    await field(page, 'orders_per_user').fill('4');
    await field(page, 'ticket').check();
    await submit(page);
    await hasText(reason(page, 'ticket'), /SECKILL_TICKET_SECRET/, "the service's reason, beside the ticket");
    await field(page, 'ticket').uncheck();
    await submit(page);
    await hasText(card(page, sells), /Six cups/, 'the new title', FOLLOW_MS);
    const shown = await scene.api.shown(sells);
    assert.deepEqual([shown.title, shown.end_at.slice(0, 4), shown.orders_per_user, shown.price_cents], ['Six cups', '2097', 4, 1250]);

    await (await action(page, soon, 'change')).click();
    await field(page, 'price').fill('3.21');
    await field(page, 'limit').fill('4');
    await field(page, 'extend').fill('60');
    await field(page, 'more').fill('2098-01-01T07:08:09');
    await field(page, 'waitlist').fill('7');
    await submit(page);
    await until('the new terms', async () => {
        const { price_cents, limit, extend_s, more_at, waitlist, version } = await scene.api.shown(soon);
        return price_cents === 321 && limit === 4 && extend_s === 60 && /:09[.]/.test(more_at) && waitlist === 7 && version > 1;
    });
    const details = await opened(page, soon, 'details');
    await hasText(details.locator('[data-metric="line"]'), /^0 wait, 7 may$/, 'the line');
}

async function readOnly(scene) {
    const token = 'a-token-that-may-only-look';
    const own = new Instance();
    const file = join(own.folder, 'tokens');
    writeFileSync(file, `reader read ${token}\n`);
    own.env.SECKILL_ADMIN_TOKENS_FILE = file;
    scene.instances.push(own);
    await own.run();
    const voucher = await scene.voucher();
    const user = scene.user(), id = await scene.api.buy(voucher, user);
    await scene.api.admin('POST', `/orders/${id}/pay`, { reference: `r-${user}`, amount_cents: 1250, currency: 'CNY' });
    const page = await dashboard(scene, { at: own.url, token });
    await opened(page, voucher, 'details');
    await page.locator('[data-find-text]').fill(id);
    await page.locator('[data-find] button').click();
    await appears(page.locator(`article[data-order="${id}"]`), 'the order');
    await hasText(page.locator('[data-role]'), /may look/, 'that it may only look');
    const offered = page.locator('button:visible').filter({ hasText: /^(Pause|Resume|Change terms|Change stock|Close|Rebuild|Hold expiry.*|Let .*|New voucher|Refund)$/ });
    assert.deepEqual(await offered.allInnerTexts(), [], 'offered what the token may not do');
    assert.ok(await card(page, voucher).locator('button[data-action="settlement"]').isVisible(), 'what it may see');
}

async function settles(scene) {
    const voucher = await scene.voucher({ stock: 3 });
    const user = scene.user();
    await scene.api.buy(voucher, scene.user());
    const page = await dashboard(scene);
    const order = await scene.api.buy(voucher, user);
    await scene.api.must('POST', `/orders/${order}/cancel`, { user });
    const paid = await scene.api.buy(voucher, scene.user());
    const pay = (id) => scene.api.admin('POST', `/orders/${id}/pay`, { reference: `m-${id}`, amount_cents: 1250, currency: 'CNY' });
    await pay(paid);
    await pay(order); // it was cancelled: the money is owed
    await appears(page.locator(`[data-events] [data-open-order="${order}"]`), 'what happened lately', FOLLOW_MS);
    const details = await opened(page, voucher, 'details');
    const settlement = await opened(page, voucher, 'settlement');
    await appears(settlement.locator('[data-verdict="open"]'), 'the verdict');
    await hasText(settlement.locator('[data-sentences]'), /The sale goes on for.*1 order may still expire/s, 'what is missing');
    await hasText(settlement.locator('[data-money]'), /accepted\s*CN¥12\.50, 1 payment\s*to be given back\s*CN¥12\.50, 1 payment/, 'the money');
    const text = await settlement.innerText();
    assert.ok(!/[A-Z]{3,}_|balance/.test(text.replace('PostgreSQL', '')), `codes, or a balance that is none: ${text}`);
    assert.ok(await details.isVisible(), 'the details were closed by the settlement');
    await card(page, voucher).locator('button[data-action="details"]').click();
    assert.ok(await settlement.isVisible(), 'the settlement was closed by the details');
}

export const tests = [
    { name: 'dashboard: a new voucher, and one that would sell at once', answers: [422], run: creates },
    { name: 'dashboard: new terms', answers: [409, 422], run: changesTerms },
    { name: 'dashboard: a token that may only look', run: readOnly },
    { name: 'dashboard: settlement in sentences, beside the details', run: settles },
];
