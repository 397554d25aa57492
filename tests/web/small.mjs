// The small pure parts: countdown, jitter, phases, money and languages, names and tokens, the proof of work.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { createHasher, CURRENCIES, digitsOf, formatMoney, isTicketGood, readRetryAfter, retryDelay, solve, wait } from '../../clients/web/index.js';
import { createIdentity, isUserName, subjectOf, takeToken } from '../../web/common/identity.js';
import { chooseLanguage, createSay } from '../../web/common/language.js';
import { createStorage } from '../../web/common/storage.js';
import { countdown, createTicker, milestone, untilNextSecond } from '../../web/shop/countdown.js';
import { canJoin, createVouchers, inOrder, PHASE, phaseOf } from '../../web/shop/vouchers.js';

const RANDOMS = [0, 0.25, 0.5, 0.999999];
const CHALLENGE = 'AwFrSdIAAAAAAAAAAAcAAAAAAAAABXTQVR7g8fS8mJWyq-eFIH4';

// ---- countdown ----

test('figures', () => {
    const shown = (ms) => `${countdown(ms).days} ${countdown(ms).clock}`;
    assert.equal(shown(0), '0 00:00');
    assert.equal(shown(-5), '0 00:00');
    assert.equal(shown(1), '0 00:01');
    assert.equal(shown(59000), '0 00:59');
    assert.equal(shown(59001), '0 01:00');
    assert.equal(shown(3599000), '0 59:59');
    assert.equal(shown(3600000), '0 01:00:00');
    assert.equal(shown(2 * 86400000 + 3 * 3600000 + 4000), '2 03:00:04');
});

test('after the wait the figures are other ones, and not before', () => {
    for (const ms of [5, 999, 1000, 1001, 59000.4, 60000]) {
        const next = untilNextSecond(ms);
        assert.ok(next > 0 && next <= 1000);
        assert.notEqual(countdown(ms - next).clock, countdown(ms).clock, `${ms}`);
        assert.equal(countdown(ms - next + 0.01).clock, countdown(ms).clock, `${ms}`);
    }
});

test('milestones are told once, the last one of several', () => {
    assert.equal(milestone(60500, 59990), 60000);
    assert.equal(milestone(59990, 59000), undefined);
    assert.equal(milestone(10001, 10000), 10000);
    assert.equal(milestone(90000, 5000), 10000);
    assert.equal(milestone(20, -1), 0);
    assert.equal(milestone(undefined, 5000), undefined);
});

test('the ticker rests in a hidden tab and runs at once when it is seen', () => {
    const page = Object.assign(new EventTarget(), { hidden: false });
    let ticks = 0;
    const ticker = createTicker(() => {
        ticks++;
        return Infinity;
    }, page);
    ticker.run();
    page.hidden = true;
    page.dispatchEvent(new Event('visibilitychange'));
    assert.equal(ticks, 1);
    page.hidden = false;
    page.dispatchEvent(new Event('visibilitychange'));
    assert.equal(ticks, 2);
    page.hidden = true;
    page.dispatchEvent(new Event('visibilitychange')); // its timer goes
});

// ---- trying again ----

test('never sooner than Retry-After, and not all at once', () => {
    for (const random of RANDOMS) {
        const delay = retryDelay(1000, 7, () => random);
        assert.ok(delay >= 1000 && delay <= 1500, `${delay}`);
    }
    assert.notEqual(
        retryDelay(1000, 0, () => 0),
        retryDelay(1000, 0, () => 0.9),
    );
    assert.ok(retryDelay(0, 0, () => 0.5) > 0);
});

test('without it the wait doubles up to a bound', () => {
    const most = (attempt) => retryDelay(undefined, attempt, () => 1);
    assert.equal(most(1), 2 * most(0));
    assert.equal(most(40), most(41));
    assert.ok(most(40) <= 8000);
    assert.ok(retryDelay(undefined, 3, () => 0) >= most(3) / 2);
});

test('Retry-After is a number of seconds', () => {
    assert.equal(readRetryAfter('3'), 3000);
    for (const other of [null, undefined, '', '-1', '1.5', 'Wed, 21 Oct 2026 07:28:00 GMT', '9'.repeat(20)]) {
        assert.equal(readRetryAfter(other), undefined);
    }
});

test('a wait can be ended', async () => {
    const controller = new AbortController();
    const waited = wait(60000, controller.signal);
    controller.abort();
    await waited;
    await wait(60000, controller.signal);
});

// ---- phases ----

const VOUCHER = { id: '7', read: true, canSell: true, phase: 'on_sale', remaining: 5, beginMs: 10000, endMs: 20000 };
const SOON = { ...VOUCHER, phase: 'upcoming' };

test('phases of a voucher are the service\'s', () => {
    const phase = (now, changes) => phaseOf({ ...VOUCHER, ...changes }, now);
    for (const named of ['on_sale', 'sold_out', 'paused', 'ended']) {
        assert.equal(phase(15000, { phase: named }), named);
    }
    assert.equal(phase(9000), PHASE.ON_SALE); // its clock decides
    assert.equal(phase(undefined), PHASE.UNKNOWN);
    assert.equal(phase(15000, { canSell: false, remaining: null }), PHASE.UNKNOWN); // Redis is away
    assert.equal(phase(15000, { canSell: false, phase: 'paused', remaining: null }), PHASE.PAUSED);
    assert.equal(phase(15000, { remaining: null }), PHASE.ON_SALE); // PostgreSQL is away, and the list does not know
    assert.equal(phase(15000, { read: false }), PHASE.UNKNOWN);
});

test('time alone begins and ends a sale', () => {
    assert.equal(phaseOf(SOON, 9999), PHASE.UPCOMING);
    assert.equal(phaseOf(SOON, 10000), PHASE.ON_SALE);
    for (const phase of ['upcoming', 'on_sale', 'sold_out', 'paused']) {
        assert.equal(phaseOf({ ...VOUCHER, phase, remaining: null }, 20000), PHASE.ENDED);
    }
});

test('it opens when the clock cannot be early, but waits 100 ms at most for that', () => {
    assert.equal(phaseOf(SOON, 10019, 20), PHASE.UPCOMING);
    assert.equal(phaseOf(SOON, 10020, 20), PHASE.ON_SALE);
    assert.equal(phaseOf(SOON, 10100, 5000), PHASE.ON_SALE);
});

test('what can be bought comes first', () => {
    const vouchers = [
        { ...VOUCHER, id: '1', phase: 'ended' },
        { ...SOON, id: '2', beginMs: 19000 },
        { ...VOUCHER, id: '3' },
        { ...SOON, id: '4', beginMs: 17000 },
        { ...VOUCHER, id: '10' },
        { ...VOUCHER, id: '5', phase: 'sold_out' },
    ];
    const ids = inOrder(vouchers, (voucher) => phaseOf(voucher, 15000)).map((voucher) => voucher.id);
    assert.deepEqual(ids, ['10', '3', '4', '2', '5', '1']);
});

test('for a while a stream counts more than the list', () => {
    let at = 0;
    const vouchers = createVouchers(() => at, () => []);
    const read = {
        id: '7',
        title: 'Tea',
        stock: 9,
        remaining: 9,
        phase: 'upcoming',
        begin_at: '2030-01-01T00:00:00Z',
        end_at: '2031-01-01T00:00:00Z',
    };
    vouchers.put(read);
    vouchers.hear('7', { remaining: 3, phase: 'paused' });
    vouchers.put(read);
    assert.equal(vouchers.get('7').remaining, 3);
    assert.equal(vouchers.get('7').phase, 'paused');
    vouchers.hear('7', { remaining: null, phase: 'on_sale' });
    assert.equal(vouchers.get('7').remaining, null); // whatever was left before: Redis is away
    vouchers.put(read);
    assert.equal(vouchers.get('7').remaining, null);
    at = 60000;
    vouchers.put(read);
    assert.equal(vouchers.get('7').remaining, 9);
    vouchers.put(read, false);
    assert.equal(vouchers.get('7').remaining, null);
    const during = Date.parse('2030-06-01T00:00:00Z');
    assert.equal(phaseOf(vouchers.get('7'), during), PHASE.UNKNOWN);
    assert.equal(phaseOf(vouchers.get('7'), Date.parse('2029-06-01T00:00:00Z')), PHASE.UPCOMING);
    vouchers.put({ ...read, remaining: null }, true); // stale
    assert.equal(phaseOf(vouchers.get('7'), during), PHASE.ON_SALE);
    vouchers.put(read, true);
    assert.equal(phaseOf(vouchers.get('7'), during), PHASE.ON_SALE);
    vouchers.hear('8', { remaining: 1, phase: 'on_sale' });
    assert.equal(vouchers.get('8'), undefined);
});

test('a voucher is a scope of its own, unless it says otherwise', () => {
    const vouchers = createVouchers(() => 0, () => []);
    vouchers.put({ ...VOUCHER, id: '9', scope: '7' });
    vouchers.put({ ...VOUCHER, id: '10' }); // of an instance of an older version
    assert.deepEqual(['9', '10'].map((id) => vouchers.get(id).scope), ['7', '10']);
});

test('a time of more units is kept while a stream speaks, and goes with the terms', () => {
    const vouchers = createVouchers(() => 0, () => []);
    const more = () => vouchers.get('7').moreMs;
    vouchers.put({ ...VOUCHER, more_at: '2030-01-01T00:00:00Z' });
    vouchers.hear('7', { remaining: 0, phase: 'sold_out' });
    assert.equal(more(), Date.parse('2030-01-01T00:00:00Z'));
    vouchers.put(VOUCHER);
    assert.ok(Number.isNaN(more()));
});

test('the bound of a line is kept while a stream speaks, and a voucher without one has none', () => {
    const vouchers = createVouchers(() => 0, () => []);
    const line = () => [vouchers.get('7').waitlist, vouchers.get('7').waiting, canJoin(vouchers.get('7'), vouchers.get('7').phase)];
    vouchers.put({ ...VOUCHER, waitlist: 5, waiting: 2 });
    assert.deepEqual(line(), [5, 2, false]); // units are left
    vouchers.hear('7', { remaining: 0, phase: 'sold_out' });
    assert.deepEqual(line(), [5, 2, true]);
    vouchers.put({ ...VOUCHER, waitlist: 0, waiting: 1 });
    assert.deepEqual(line(), [0, 1, false]);
    vouchers.put(VOUCHER); // of an instance of an older version, too
    assert.deepEqual(line(), [0, 0, false]);
});

test('a picture shows only where the policy lets it come from', () => {
    const vouchers = createVouchers(() => 0, () => ['https://a.example', 'http://b:8000']);
    const shown = (picture) => {
        vouchers.put({ ...VOUCHER, picture });
        return vouchers.get(VOUCHER.id).picture;
    };
    for (const picture of ['https://a.example/tea.webp', 'http://b:8000/']) {
        assert.equal(shown(picture), picture);
    }
    for (const picture of [undefined, 'https://gone.example/tea.webp', 'https://a.example.gone/', 'http://b:80001/']) {
        assert.equal(shown(picture), null);
    }
});

// ---- languages ----

test("the language is asked for, kept, or the browser's", () => {
    assert.equal(chooseLanguage({ preferred: ['zh-Hans-CN', 'en'] }), 'zh');
    assert.equal(chooseLanguage({ preferred: ['de-DE', 'zh-TW'] }), 'zh');
    assert.equal(chooseLanguage({ preferred: ['de'] }), 'en');
    assert.equal(chooseLanguage({ stored: 'en', preferred: ['zh'] }), 'en');
    assert.equal(chooseLanguage({ search: '?lang=zh', stored: 'en' }), 'zh');
    assert.equal(chooseLanguage({ search: '?lang=constructor', stored: 'en' }), 'en');
});

test('words with values and plurals', () => {
    const words = {
        en: { 'a.one': '{count} unit', 'a.other': '{count} units', b: '{x}!' },
        zh: { 'a.one': '{count} 件', 'a.other': '{count} 件', b: '{x}！' },
    };
    const say = createSay(words, 'en');
    assert.equal(say('a', { count: 1 }), '1 unit');
    assert.equal(say('a', { count: 1000 }), '1,000 units');
    assert.equal(say('b', { x: '<b>{x}' }), '<b>{x}!');
    assert.equal(createSay(words, 'zh')('a', { count: 1 }), '1 件');
    assert.throws(() => say('c'));
});

test('money has the digits of ISO 4217, whatever Intl says', () => {
    assert.match(formatMoney(1250, 'CNY', 'en'), /12\.50/);
    assert.match(formatMoney(1250, 'CNY', 'zh-CN'), /¥12\.50/);
    assert.match(formatMoney(1250, 'JPY', 'en'), /1,250/);
    assert.equal(formatMoney(1250, '???', 'en'), '12.50 ???');
    for (const [currency, text] of Object.entries({ HUF: '9,900.00', IQD: '990.000', CLP: '990,000', XXX: '9,900.00' })) {
        assert.ok(formatMoney(990000, currency, 'en').endsWith(text), currency);
    }
});

test('the service and the Java client know the same currencies', () => {
    const textOf = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
    const codesIn = (path, pattern) => [...pattern.exec(textOf(path))[1].matchAll(/[A-Z]{3}/g)].map(([code]) => code);
    const ofDigits = (digits) => CURRENCIES.filter((code) => digitsOf(code) === digits);
    assert.deepEqual(codesIn('src/api/terms.c', /currencies\[\] = ([^;]*);/), [...CURRENCIES].sort());
    const java = 'clients/java/seckill/SeckillClient.java';
    assert.deepEqual(codesIn(java, /NO_DIGITS = ([^;]*);/), ofDigits(0));
    assert.deepEqual(codesIn(java, /THREE_DIGITS = ([^;]*);/), ofDigits(3));
});

// ---- who buys ----

const memory = () => createStorage('area', {}); // as a browser without storage, so it is in memory alone
const history = { replaceState() {} };
const openLink = (text, tab) => takeToken({ hash: `#token=${text}`, pathname: '/', search: '' }, history, tab);
const token = (claims) => `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.x`;

test('names and subjects', () => {
    assert.ok(isUserName('a.B_c-1') && isUserName('x'.repeat(64)));
    assert.ok(!isUserName('') && !isUserName('x'.repeat(65)) && !isUserName('a b') && !isUserName('ü'));
    assert.equal(subjectOf(token({ sub: 'alice' })), 'alice');
    for (const bad of ['', 'a.b.c', 'x', token({}), token({ sub: '<b>' })]) {
        assert.equal(subjectOf(bad), null);
    }
});

test('a token leaves the address at once', () => {
    const urls = [];
    const tab = { local: memory(), session: memory() };
    const history = { replaceState: (state, title, url) => urls.push(url) };
    takeToken({ hash: '#token=a.b.c', pathname: '/', search: '?lang=zh' }, history, tab);
    takeToken({ hash: '#orders', pathname: '/', search: '' }, history, tab);
    assert.deepEqual(urls, ['/?lang=zh']);
    assert.deepEqual(createIdentity({ auth: 'token' }, tab).headers(), { Authorization: 'Bearer a.b.c' });
});

test('a token in the address does not replace another user who is logged in, in whichever tab', () => {
    const inSeconds = (seconds) => Math.floor(Date.now() / 1000) + seconds;
    const alice = token({ sub: 'alice', exp: inSeconds(600) });
    const mallory = token({ sub: 'mallory', exp: inSeconds(600) });
    const renewed = token({ sub: 'alice', exp: inSeconds(1200) });
    const expired = token({ sub: 'alice', exp: inSeconds(-1) });
    const [nameless, another] = ['a', 'b'].map((other) => token({ other, exp: inSeconds(600) }));
    for (const [kept, offered, inSameTab, inNewTab] of [
        [null, alice, alice, alice],
        [alice, mallory, alice, null],
        [alice, 'x', alice, null],
        [alice, renewed, renewed, renewed],
        [expired, mallory, mallory, mallory], // nobody is logged in any more
        ['x', alice, alice, alice], // that was no token
        [nameless, nameless, nameless, null],
        [nameless, another, nameless, null], // both name nobody: that is not the same user
    ]) {
        const local = memory();
        const first = { local, session: memory() };
        for (const [tab, wanted] of [[first, inSameTab], [{ local, session: memory() }, inNewTab]]) {
            local.remove('seckill.login');
            if (kept !== null) {
                openLink(kept, first);
            }
            openLink(offered, tab);
            const identity = createIdentity({ auth: 'token' }, tab);
            assert.deepEqual(identity.headers(), wanted === null ? {} : { Authorization: `Bearer ${wanted}` });
            assert.equal(identity.offered() === null, wanted === offered);
        }
    }
});

test('the login of a link that waits is taken when the reader wants it', () => {
    const exp = Math.floor(Date.now() / 1000) + 600;
    const [alice, bob] = ['alice', 'bob'].map((sub) => token({ sub, exp }));
    const tab = { local: memory(), session: memory() };
    openLink(alice, tab);
    openLink(bob, tab);
    const identity = createIdentity({ auth: 'token' }, tab);
    assert.deepEqual([identity.user(), identity.offered()], ['alice', { user: 'bob', instead: 'alice' }]);
    identity.takeOffered();
    assert.deepEqual([identity.user(), identity.offered()], ['bob', null]);
    openLink(alice, tab);
    openLink(bob, tab);
    assert.equal(identity.offered(), null, 'the own login again: nothing waits');
});

test('what the storage does not take is kept as long as the page lives', () => {
    const full = new Map([['a', 'old']]);
    const refuse = () => {
        throw new Error('full');
    };
    const areas = {
        get denied() {
            throw new Error('denied');
        },
        off: null,
        full: { getItem: (key) => full.get(key) ?? null, setItem: refuse, removeItem: (key) => full.delete(key) },
    };
    for (const area of Object.keys(areas)) {
        const storage = createStorage(area, areas);
        storage.setJson('a', { b: 1 });
        assert.deepEqual([storage.get('a'), storage.getJson('a')], ['{"b":1}', { b: 1 }], area);
        storage.remove('a');
        assert.equal(storage.get('a'), null, area);
    }
    const odd = createStorage('localStorage', { localStorage: { getItem: () => '{' } });
    assert.equal(odd.getJson('a'), null);
});

// ---- proof of work ----

test('SHA-256 is that of others', () => {
    const hex = (words) => Array.from(words, (word) => word.toString(16).padStart(8, '0')).join('');
    for (const blocks of [0, 1, 2]) {
        const prefix = 'x'.repeat(64 * blocks);
        const digest = createHasher(new TextEncoder().encode(prefix));
        for (const tail of ['', 'abc', '0123456789'.repeat(5)]) {
            assert.equal(
                hex(digest(tail)),
                createHash('sha256')
                    .update(prefix + tail)
                    .digest('hex'),
            );
        }
    }
});

test('a nonce is found, and fits into 64 bytes', async () => {
    for (const bits of [0, 1, 8, 12]) {
        const { challenge, nonce } = await solve({ challenge: CHALLENGE, work_bits: bits });
        const digest = createHash('sha256').update(`${challenge}.${nonce}`).digest();
        assert.ok(digest.readUInt32BE() >>> (32 - bits || 31) === 0 || bits === 0, `${bits}`);
        assert.ok(nonce.length >= 1 && nonce.length <= 64);
    }
});

test('the search leaves room between its slices, and can be ended', async () => {
    const controller = new AbortController();
    let breaths = 0;
    const breathe = async () => {
        breaths++;
        controller.abort();
    };
    await assert.rejects(solve({ challenge: CHALLENGE, work_bits: 24 }, { signal: controller.signal, breathe }));
    assert.equal(breaths, 1);
});

test('a ticket is good for its offer, and not until the last moment', () => {
    const ticket = { text: 't', offer: 3, expiresMs: 100000 };
    assert.ok(isTicketGood(ticket, { offer: 3 }, 50000));
    assert.ok(!isTicketGood(ticket, { offer: 4 }, 50000));
    assert.ok(!isTicketGood(ticket, { offer: 3 }, 95000));
    assert.ok(!isTicketGood(ticket, { offer: 3 }, undefined));
    assert.ok(!isTicketGood(null, { offer: 3 }, 0));
});
