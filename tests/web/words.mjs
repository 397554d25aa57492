// Both languages of each page say the same things, and every thing that is said has words.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

import { words as DASHBOARD } from '../../web/admin/words.js';
import { WORDS as PAY } from '../../web/pay/words.js';
import { WORDS as SHOP } from '../../web/shop/words.js';

const WEB = new URL('../../web/', import.meta.url);
const read = (path) => readFileSync(new URL(path, WEB), 'utf8');

const PAGES = [
    { name: 'shop', words: SHOP, texts: ['index.html', 'common/voice.js', ...scripts('shop/')] },
    { name: 'pay', words: PAY, texts: ['pay.html', 'common/voice.js', ...scripts('pay/')] },
];

function scripts(folder) {
    return readdirSync(new URL(folder, WEB))
        .filter((name) => name.endsWith('.js') && name !== 'words.js')
        .map((name) => folder + name);
}

// A line for each difference.
function differences({ en, zh }) {
    const found = [];
    for (const key of new Set([...Object.keys(en), ...Object.keys(zh)])) {
        if (en[key] === undefined || zh[key] === undefined) {
            found.push(`${key} is in one language only`);
        } else if (places(en[key]) !== places(zh[key])) {
            found.push(`${key} has other places for values`);
        } else if (en[key].trim() === '' || zh[key].trim() === '') {
            found.push(`${key} is empty`);
        }
        if (/\.one$/.test(key) && en[key.replace(/\.one$/, '.other')] === undefined) {
            found.push(`${key} has no plural`);
        }
    }
    return found;
}

const places = (text) => (text.match(/\{\w+\}/g) ?? []).sort().join();

// Keys that stand in a page's document or scripts as a whole. A key that is put together is not among them.
function lost(words, texts) {
    const used = texts
        .flatMap((text) => [
            ...text.matchAll(/data-say="([^"]+)"/g),
            ...text.matchAll(/\bsay\(\s*'([^']+)'/g),
            ...text.matchAll(/\? '([a-z]+\.[a-z_]+)'/g),
            ...text.matchAll(/: '([a-z]+\.[a-z_]+)'/g),
        ])
        .map(([, key]) => key);
    assert.ok(used.length > 5, 'no keys were found');
    return used.filter((key) => words.en[key] === undefined && words.en[`${key}.other`] === undefined);
}

for (const { name, words, texts } of PAGES) {
    test(`${name}: both languages have the same keys and places`, () => {
        assert.deepEqual(differences(words), []);
    });
    test(`${name}: everything that is said has words`, () => {
        assert.deepEqual(lost(words, texts.map(read)), []);
    });
    test(`${name}: the comparison notices what differs`, () => {
        const [key] = Object.keys(words.en);
        const without = { ...words, zh: { ...words.zh, [key]: undefined } };
        assert.equal(differences(without).length, 1);
        const place = { ...words, zh: { ...words.zh, [key]: '{nothing}' } };
        assert.equal(differences(place).length, 1);
        assert.deepEqual(
            lost({ en: { ...words.en, 'page.title': undefined } }, texts.map(read)).includes('page.title'),
            true,
        );
    });
}

test('keys that are put together have words, too', () => {
    for (const phase of ['upcoming', 'on_sale', 'sold_out', 'paused', 'ended', 'unknown']) {
        assert.ok(SHOP.en[`phase.${phase}`], phase);
        assert.ok(SHOP.en[`buy.${phase}`], phase);
    }
    for (const state of ['loading', 'empty', 'partial', 'unreadable', 'stale', 'offline']) {
        assert.ok(SHOP.en[`vouchers.${state}`], state);
    }
    const statuses = ['pending', 'waiting', 'unpaid', 'free', 'paid', 'cancelled', 'left', 'expired', 'refused', 'sold_out', 'refunded'];
    for (const status of statuses) {
        assert.ok(SHOP.en[`status.${status}`], status);
    }
    for (const key of ['join', 'in_line', 'again', 'yours', 'busy']) {
        assert.ok(SHOP.en[`buy.${key}`], key);
    }
    for (const code of ['waitlist_full', 'line_over']) {
        assert.ok(SHOP.en[`outcome.${code}`], code);
    }
    for (const ending of ['order.cancel', 'order.leave']) {
        assert.ok(['', '_of', '_busy', '_failed'].every((part) => SHOP.en[ending + part]), ending);
    }
    for (const about of ['confirm', 'leave']) {
        assert.ok(['text', 'no', 'yes'].every((part) => SHOP.en[`${about}.${part}`]), about);
    }
    for (const state of ['pending', 'waiting', 'paid', 'over']) {
        assert.ok(PAY.en[`state.${state}`], state);
    }
    for (const phase of ['on_sale', 'sold_out', 'paused', 'ended']) {
        assert.ok(SHOP.en[`announce.${phase}`], phase);
    }
});

test('a voucher is redeemed with 核销, so a letter is written off with another word', () => {
    const texts = [...Object.values(DASHBOARD.zh), ...Object.values(SHOP.zh), ...Object.values(PAY.zh)];
    assert.deepEqual(
        texts.filter((text) => text.includes('核销')),
        [],
    );
});
