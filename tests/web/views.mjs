// Cards, rows and dialogs, in a document that only remembers what was written into it.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createRow } from '../../web/shop/view_order.js';
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

test('an order that was cancelled after all does not say that it could not be', () => {
    const row = createRow('1', voice, { payUrl: () => null });
    const order = { id: '1', voucher_id: '7', quantity: 1, status: 'unpaid', total_cents: 990 };
    row.render(order, undefined, 0, { failed: true });
    assert.ok(texts(row.root).includes('order.cancel_failed'));
    row.render({ ...order, status: 'cancelled' }, undefined, 0, { failed: true });
    assert.ok(!texts(row.root).includes('order.cancel_failed'));
});
