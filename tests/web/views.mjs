// Cards, rows and dialogs, in a document that only remembers what was written into it.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createConfirm } from '../../web/admin/confirm.js';
import { createDetails } from '../../web/admin/details.js';
import { createForm } from '../../web/admin/form.js';
import { createOrders } from '../../web/admin/orders.js';
import { fieldsOf } from '../../web/admin/terms.js';
import { createVoucher } from '../../web/admin/voucher.js';
import { createRow } from '../../web/shop/view_order.js';
import { createScope } from '../../web/shop/view_scope.js';
import { createCard } from '../../web/shop/view_voucher.js';

class Part {
    attributes = {};
    children = [];
    dataset = {};
    listeners = {};
    found = {};
    style = { setProperty() {} };
    textContent = '';
    value = '';

    getAttribute(name) {
        return this.attributes[name] ?? null;
    }
    setAttribute(name, value) {
        this.attributes[name] = String(value);
    }
    removeAttribute(name) {
        delete this.attributes[name];
    }
    hasAttribute(name) {
        return name in this.attributes;
    }
    append(...children) {
        this.children.push(...children);
    }
    insertBefore(child, at) {
        this.children.splice(at === null ? this.children.length : this.children.indexOf(at), 0, child);
    }
    replaceChildren(...children) {
        this.children = children;
    }
    contains() {
        return false;
    }
    addEventListener(name, listener) {
        this.listeners[name] = listener;
    }
    focus() {}
    showModal() {
        this.open = true;
    }
    close() {
        this.open = false;
        this.listeners.close?.();
    }
    // What the document would have: each selector has a part of its own.
    querySelector(selector) {
        return (this.found[selector] ??= new Part());
    }
    querySelectorAll() {
        return [];
    }
}

globalThis.document = { createElement: () => new Part() };

const voice = { say: (key) => key, money: () => '9.90', moment: () => 'today' };
const under = (part) => [part, ...part.children.filter((child) => child instanceof Part).flatMap(under)];
const texts = (part) => under(part).map(({ textContent }) => textContent);

test('a sale that had ended and goes on can be bought again, in any quantity', () => {
    const card = createCard('7', voice, { payUrl: () => null });
    const voucher = { title: 'Tea', description: '', picture: null, priceCents: 990, currency: 'CNY', limit: 3, stock: 5, remaining: 5 };
    const idle = { state: () => 'idle', isUnderWay: () => false, outcome: () => ({ code: null }), quantity: () => 1 };
    card.render(voucher, 'ended', idle);
    assert.ok(!texts(card.root).includes('voucher.quantity'));
    card.render(voucher, 'on_sale', idle);
    assert.ok(texts(card.root).includes('voucher.quantity'));
    assert.ok(texts(card.root).includes('buy.on_sale'));
});

test('a card that is sold out tells when more units come, until then', () => {
    const [ended, now] = [Date.parse('2030-01-02T00:00:00Z'), Date.parse('2030-01-01T00:00:00Z')];
    const moment = (ms, by) => `${ms} by ${by}`; // the day is shown if it is another one than the server's
    const card = createCard('7', { ...voice, say: (key, values) => `${key} ${values?.at ?? ''}`.trim(), moment }, { payUrl: () => null });
    const told = (phase, moreMs) => {
        card.renderClock({ beginMs: 0, endMs: ended, moreMs }, phase, now);
        const parts = under(card.root).filter(({ textContent, hidden }) => /more_at/.test(textContent) && !hidden);
        return parts.map(({ textContent }) => textContent);
    };
    assert.deepEqual(told('sold_out', now + 1), [`voucher.more_at ${now + 1} by ${now}`]);
    for (const [phase, moreMs] of [['on_sale', now + 1], ['ended', now + 1], ['sold_out', NaN], ['sold_out', now]]) {
        assert.deepEqual(told(phase, moreMs), [], `${phase} ${moreMs}`);
    }
});

test('an order of another voucher in the scope is named, with a link to it, and this one can be pressed again', () => {
    const card = createCard('9', { ...voice, say: (key, values) => `${key} ${values?.title ?? ''}`.trim() }, { payUrl: () => null });
    const voucher = { title: 'Size 42', description: '', picture: null, priceCents: 990, currency: 'CNY', limit: 1, stock: 5, remaining: 5 };
    const outcome = { code: 'other_ordered', orderId: '1', voucherId: '7' };
    const refused = { state: () => 'refused', isUnderWay: () => false, outcome: () => outcome, quantity: () => 1 };
    card.render(voucher, 'on_sale', refused, undefined, 'Size 41');
    const told = under(card.root).find(({ dataset }) => dataset.outcome !== undefined);
    const [text, , link] = told.children;
    assert.deepEqual([text, link.attributes.href], ['outcome.other_ordered Size 41', '#order-1']);
    assert.equal(under(card.root).find(({ dataset }) => dataset.buy !== undefined).getAttribute('aria-disabled'), null);
});

test('a card that is sold out offers its line, and shows the place of who waits in it', () => {
    const card = createCard('7', voice, { payUrl: () => null });
    const voucher = { title: 'Tea', description: '', picture: null, priceCents: 990, currency: 'CNY', limit: 3, stock: 5, remaining: 0 };
    const line = { ...voucher, waitlist: 5, waiting: 2 };
    const purchase = (state, outcome) => ({ state: () => state, isUnderWay: () => false, outcome: () => outcome, quantity: () => 1 });
    const idle = purchase('idle', { code: null }), waits = purchase('in_line', { code: 'in_line', orderId: '1' });
    const button = under(card.root).find(({ dataset }) => dataset.buy !== undefined);
    const told = under(card.root).find(({ dataset }) => dataset.outcome !== undefined);
    const isOff = () => button.getAttribute('aria-disabled') === 'true';
    for (const [shown, phase, text, off] of [
        [line, 'sold_out', 'buy.join', false],
        [{ ...line, waitlist: 0 }, 'sold_out', 'buy.sold_out', true],
        [voucher, 'sold_out', 'buy.sold_out', true],
        [line, 'on_sale', 'buy.on_sale', false],
    ]) {
        card.render(shown, phase, idle);
        assert.deepEqual([button.textContent, isOff()], [text, off]);
        assert.equal(texts(card.root).includes('voucher.line'), text === 'buy.join');
    }
    for (const phase of ['sold_out', 'on_sale']) {
        card.render(line, phase, waits, { id: '1', status: 'waiting', place: 3 });
        const [text, , link] = told.children;
        assert.deepEqual([button.textContent, isOff(), text, link.attributes.href], ['buy.in_line', true, 'line.place', '#order-1']);
    }
});

test('an order that waits shows its place, and can be left', () => {
    const row = createRow('1', voice, { payUrl: () => null });
    const order = { id: '1', voucher_id: '7', quantity: 1, status: 'waiting', total_cents: 990 };
    for (const [place, text] of [[undefined, 'line.wait'], [0, 'line.first'], [3, 'line.place'], [10000, 'line.far']]) {
        row.render({ ...order, place }, undefined, 0, {});
        assert.deepEqual(['status.waiting', text, 'order.leave'].filter((one) => !texts(row.root).includes(one)), []);
    }
    row.render(order, undefined, 0, { failed: true });
    assert.ok(texts(row.root).includes('order.leave_failed'));
    row.render({ ...order, status: 'cancelled', reason: 'LEFT' }, undefined, 0, {});
    assert.ok(texts(row.root).includes('status.left'));
    assert.ok(!texts(row.root).some((text) => /^(line|order\.leave)/.test(text)));
    row.render({ ...order, status: 'refused', reason: 'SOLD_OUT' }, undefined, 0, {});
    assert.ok(texts(row.root).includes('status.sold_out'));
});

test('the cards of one scope stand under one heading, by their ids; one that is alone has none', () => {
    const scope = createScope('7', voice);
    const [title] = scope.root.children;
    const cards = Object.fromEntries(['9', '10', '7'].map((id) => [id, Object.assign(new Part(), { hidden: false })]));
    const shown = () => [title.hidden, scope.root.getAttribute('role')];
    scope.add('9', cards[9]);
    scope.render();
    assert.deepEqual(shown(), [true, null]);
    scope.add('10', cards[10]);
    scope.add('7', cards[7]);
    scope.render();
    assert.deepEqual(shown(), [false, 'group']);
    assert.deepEqual(scope.root.children, [title, cards[7], cards[9], cards[10]]);
    assert.deepEqual([title.textContent, scope.root.getAttribute('aria-labelledby')], ['vouchers.scope', title.attributes.id]);
    cards[9].hidden = cards[10].hidden = true; // a search has found one of them
    scope.render();
    assert.deepEqual(shown(), [true, null]);
});

test('an order that was cancelled after all does not say that it could not be', () => {
    const row = createRow('1', voice, { payUrl: () => null });
    const order = { id: '1', voucher_id: '7', quantity: 1, status: 'unpaid', total_cents: 990 };
    row.render(order, undefined, 0, { failed: true });
    assert.ok(texts(row.root).includes('order.cancel_failed'));
    row.render({ ...order, status: 'cancelled' }, undefined, 0, { failed: true });
    assert.ok(!texts(row.root).includes('order.cancel_failed'));
});

// ---- the operators' dialogs ----

const speech = { ...voice, tag: () => 'en', name: (_, name) => name, number: String, reason: String };
const settled = () => new Promise(setImmediate);
const submit = (dialog) => dialog.querySelector('form').listeners.submit({ preventDefault() {} });
const noAnswer = { status: 0, code: null, body: null };

// A call whose answers the test gives later: `answers` has a function for each that is under way.
function calls() {
    const answers = [];
    return { answers, call: () => new Promise((resolve) => answers.push(resolve)) };
}

async function refunds() {
    const id = '01a1ff71-fdd4-746e-a972-2a140b584401';
    const order = { id, status: 'paid', voucher_id: '7', quantity: 1, payments: [{ reference: 'late', state: 'to_refund' }] };
    const { answers, call } = calls();
    const [section, dialog, told] = [new Part(), new Part(), []];
    const orders = createOrders({ section, dialog, call, speech, may: () => true, show() {}, told: (one) => told.push(one.status) });
    orders.find(id);
    answers.shift()({ status: 200, code: null, body: order });
    await settled();
    const parts = () => under(section.querySelector('[data-found]'));
    const buttons = parts().filter(({ dataset }) => dataset.action === 'refund');
    const [whole, late] = buttons.map((button) => button.listeners.click);
    return { dialog, answers, told, whole, late, order, found: () => parts().filter(({ dataset }) => dataset.order !== undefined) };
}

test('the answer to a refund neither closes nor marks the dialog of another one', async () => {
    for (const isGood of [true, false]) {
        const { dialog, answers, told, whole, late, order } = await refunds();
        const [go, error] = ['[data-go]', '[data-refund-error]'].map((name) => dialog.querySelector(name));
        whole();
        submit(dialog);
        dialog.close();
        late();
        submit(dialog);
        answers.shift()(isGood ? { status: 200, code: null, body: { ...order, status: 'refunded' } } : noAnswer);
        await settled();
        assert.deepEqual([dialog.open, error.textContent, go.getAttribute('aria-disabled')], [true, '', 'true']);
        assert.deepEqual(told, isGood ? ['refunded'] : []);
        answers.shift()(noAnswer);
        await settled();
        assert.deepEqual([dialog.open, error.textContent, go.getAttribute('aria-disabled')], [true, 'no_answer', null]);
    }
});

test('the answer to a refund does not replace another order that is open', async () => {
    const { dialog, answers, whole, order, found } = await refunds();
    whole();
    submit(dialog);
    dialog.close();
    answers.shift()({ status: 200, code: null, body: { ...order, id: 'another', status: 'refunded' } });
    await settled();
    assert.deepEqual(found().map(({ dataset }) => dataset.order), [order.id]);
});

test('where not all was read, nothing found is not "there is none"', async () => {
    for (const [complete, hint] of [
        [true, 'find_nothing'],
        [false, 'find_partial'],
    ]) {
        const section = new Part();
        const call = async () => ({ status: 200, code: null, body: { orders: [], payments: [], complete } });
        createOrders({ section, dialog: new Part(), call, speech, may: () => true, show() {}, told() {} }).find('alice');
        await settled();
        assert.equal(section.querySelector('[data-find-hint]').textContent, hint);
    }
});

test('the answer to a form neither closes nor marks another one', async () => {
    for (const answer of [{ status: 201, code: null, body: { id: '8' } }, noAnswer]) {
        const { answers, call } = calls();
        const [dialog, done] = [new Part(), []];
        const names = 'title stock scope price currency begin end more waitlist limit orders_per_user pay_within extend ticket work_bits description picture'.split(' ');
        const inputs = names.map((field) => Object.assign(new Part(), { dataset: { field }, type: field === 'ticket' ? 'checkbox' : 'text' }));
        dialog.querySelectorAll = () => inputs;
        const form = createForm({ dialog, call, speech, now_ms: () => 0, done: ({ id }) => done.push(id), refresh() {} });
        const open = () => {
            form.open();
            inputs[0].value = 'Tea';
        };
        const [go, error] = ['[data-go]', '[data-form-error]'].map((name) => dialog.querySelector(name));
        open();
        submit(dialog);
        dialog.close();
        open();
        submit(dialog);
        answers.shift()(answer);
        await settled();
        assert.deepEqual([dialog.open, error.textContent, go.getAttribute('aria-disabled')], [true, '', 'true']);
        assert.deepEqual(done, answer.status === 201 ? ['8'] : []);
        answers.shift()(noAnswer);
        await settled();
        assert.deepEqual([dialog.open, error.textContent, go.getAttribute('aria-disabled')], [true, 'no_answer', null]);
    }
});

test('a scope is asked for with a new voucher alone', () => {
    const input = Object.assign(new Part(), { dataset: { field: 'scope' }, type: 'text' });
    const dialog = new Part();
    dialog.querySelectorAll = () => [input];
    const form = createForm({ dialog, call() {}, speech, now_ms: () => 0, done() {}, refresh() {} });
    const isOffered = () => !input.disabled && dialog.querySelector('[data-scope-field]').getAttribute('hidden') === null;
    form.open();
    assert.ok(isOffered());
    form.open({ voucher: { id: '9', scope: '7', begin_at: '2030-01-01T00:00:00Z', end_at: '2030-01-02T00:00:00Z' } });
    assert.deepEqual([isOffered(), input.value], [false, '']);
});

test('a time that is half filled in is not sent as none', () => {
    const names = Object.keys(fieldsOf({ begin_at: '2030-01-01T00:00:00Z', end_at: '2030-01-02T00:00:00Z' }));
    const inputs = names.map((field) => Object.assign(new Part(), { dataset: { field }, type: field === 'ticket' ? 'checkbox' : 'text' }));
    const dialog = new Part();
    dialog.querySelectorAll = () => inputs;
    const { answers, call } = calls();
    const form = createForm({ dialog, call, speech, now_ms: () => 0, done() {}, refresh() {} });
    form.open();
    const more = inputs[names.indexOf('more')];
    inputs[0].value = 'Tea';
    more.validity = { badInput: true };
    submit(dialog);
    assert.deepEqual([answers.length, dialog.querySelector('[data-error-of="more"]').textContent], [0, 'must_more_at']);
    more.validity = { badInput: false };
    submit(dialog);
    assert.equal(answers.length, 1);
});

test('a change of the time of more units reads as a time, its removal as none', () => {
    const root = new Part();
    const said = { ...speech, say: (key, values) => (key === 'member_is' ? `${values.name} is ${values.value}` : key) };
    const details = createDetails({ root, speech: said, press() {}, may: () => true });
    const event = (more_at) => ({ at: '2030-01-01T00:00:00Z', what: 'changed', by: 'ann', detail: { more_at } });
    details.show({ details: true, row: {}, letters: [], audit: [event('2030-01-01T00:30:00.000Z'), event('')] });
    const rows = root.querySelector('[data-audit]').children.map(({ children }) => children[1]);
    assert.deepEqual(rows, [' changed (more_at is today) · ann', ' changed (more_at is none) · ann']);
});

test("a voucher's details name the others of its scope, also one that joins later", () => {
    const body = new Part();
    const template = { content: { firstElementChild: { cloneNode: () => body } } };
    const said = { ...speech, say: (key, values) => `${key} ${values?.ids ?? values?.time ?? ''}`.trim(), list: String, age: String };
    let ids = [];
    const made = createVoucher({ template, speech: said, press() {}, toggled() {}, may: () => true, others: () => ids });
    const row = { id: '7', scope: '7', title: 'Tea', state: 'open', version: 1, stock: 5, remaining: 5, begin_at: '2030-01-01T00:00:00Z', end_at: '2030-01-02T00:00:00Z' };
    const terms = () => {
        made.say(0);
        return body.querySelector('[data-terms]').textContent;
    };
    made.take(row, null, 0);
    assert.doesNotMatch(terms(), /terms_scope/);
    ids = ['9', '10'];
    assert.match(terms(), /terms_scope 9,10/);
    assert.doesNotMatch(terms(), /terms_more/);
    made.take({ ...row, version: 2, more_at: '2030-01-01T12:00:00Z' }, null, 0);
    assert.match(terms(), /terms_more today/);
});

test("a voucher's details have its line: how many wait, and how many may", () => {
    const body = new Part();
    const template = { content: { firstElementChild: { cloneNode: () => body } } };
    const said = { ...speech, say: (key, values) => `${key} ${values?.count ?? ''} ${values?.most ?? ''}`.trim(), list: String, age: String };
    const made = createVoucher({ template, speech: said, press() {}, toggled() {}, may: () => true, others: () => [] });
    const row = { id: '7', scope: '7', title: 'Tea', state: 'open', version: 1, stock: 5, remaining: 5, begin_at: '2030-01-01T00:00:00Z', end_at: '2030-01-02T00:00:00Z' };
    const line = (more) => {
        made.take({ ...row, ...more }, null, 0);
        made.say(0);
        return under(body.querySelector('[data-figures]')).find(({ dataset }) => dataset.metric === 'line').textContent;
    };
    made.take(row, null, 0);
    under(body.querySelector('[data-row-actions]')).find(({ dataset }) => dataset.action === 'details').listeners.click();
    assert.deepEqual([line({}), line({ waitlist: 9, waiting: 4 }), line({ waitlist: 0, waiting: 3 })], ['none', 'line_of 4 9', 'line_closed 3 0']);
});

test('expiry is held and released, of one voucher or of all, without a key or an ETag', async () => {
    const [sent, asked] = [[], []];
    const call = async (path, request) => (sent.push([path, request]), { status: 200, code: null, body: { held: true } });
    const dialog = new Part();
    const confirm = createConfirm({ dialog, call, speech: { ...speech, say: (key, values) => `${key} ${values?.title ?? ''}`.trim() }, done() {}, refresh() {} });
    for (const action of ['hold_expiry', 'release_expiry']) {
        for (const voucher of [{ id: '7', title: 'Tea' }, undefined]) {
            confirm.open({ action, voucher, etag: voucher && '"1"' });
            asked.push(dialog.querySelector('#confirm-text').textContent);
            submit(dialog);
            await settled();
        }
    }
    assert.deepEqual(asked, ['hold_expiry_text Tea', 'hold_expiry_text all_vouchers', 'release_expiry_text Tea', 'release_expiry_text all_vouchers']);
    assert.deepEqual(sent.map(([path]) => path), ['/admin/vouchers/7/hold-expiry', '/admin/hold-expiry', '/admin/vouchers/7/release-expiry', '/admin/release-expiry']);
    assert.ok(sent.every(([, { json, key, etag }]) => [json, key, etag].every((one) => one === undefined)));
});

test('the answer to an action does not free the button of another that is under way', async () => {
    const { answers, call } = calls();
    const dialog = new Part();
    const confirm = createConfirm({ dialog, call, speech, done() {}, refresh() {} });
    const go = dialog.querySelector('[data-go]');
    const start = (action) => {
        confirm.open({ action, voucher: { id: '7', title: 'Tea' }, etag: '"1"' });
        submit(dialog);
    };
    start('pause');
    dialog.close();
    start('resume');
    answers.shift()(noAnswer);
    await settled();
    assert.deepEqual([dialog.open, go.getAttribute('aria-disabled')], [true, 'true']);
    answers.shift()(noAnswer);
    await settled();
    assert.equal(go.getAttribute('aria-disabled'), null);
});
