// What the documents promise to browsers: what they name is there, and nothing needs what the Content-Security-Policy
// forbids.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

const WEB = new URL('../../web/', import.meta.url);
const read = (path) => readFileSync(new URL(path, WEB), 'utf8');

const OURS = ['client/', 'common/', 'shop/', 'pay/'].flatMap(filesIn);

function filesIn(folder) {
    const names = readdirSync(new URL(folder, WEB));
    return names.filter((name) => name.endsWith('.js')).map((name) => folder + name);
}

const FORBIDDEN = [
    /\.innerHTML|\.outerHTML|insertAdjacentHTML|document\.write/,
    /\beval\(|new Function/,
    /\bon[a-z]+="/,
    /\sstyle="|setAttribute\('style'/,
    /https?:\/\/(?!www\.w3\.org\/)/,
    /<script(?![^>]*\bsrc=)/,
];

const broken = (text) => FORBIDDEN.filter((pattern) => pattern.test(text)).map(String);

// What CMakeLists.txt makes: output=source.
const BUNDLES = new Map(
    [...readFileSync(new URL('../CMakeLists.txt', WEB), 'utf8').match(/^set\(bundles (.*)\)$/m)[1].matchAll(/(\S+)=(\S+)/g)].map(
        ([, made, source]) => [made, source],
    ),
);

test('what the documents name is there', () => {
    for (const page of ['index.html', 'pay.html']) {
        for (const [, path] of read(page).matchAll(/(?:href|src)="\/web\/([^"]+)"(?! as="fetch")/g)) {
            assert.ok(existsSync(new URL(BUNDLES.get(path) ?? path, WEB)), path);
        }
    }
});

test('what is asked for early is what the script asks for first', () => {
    const early = [...read('index.html').matchAll(/rel="preload" href="([^"]+)" as="fetch" crossorigin="anonymous"/g)].map(([, path]) => path);
    assert.deepEqual(early, ['/vouchers', '/web/settings.json']);
    early.forEach((path) => assert.ok(read('shop/main.js').includes(`call('${path}', EARLY)`), path));
});

test('nothing needs what the policy forbids, and nothing comes from outside', () => {
    for (const path of ['index.html', 'pay.html', ...OURS]) {
        assert.deepEqual(broken(read(path)), [], path);
    }
});

// Of ES2021 and later, which the browsers of docs/pages.md do not have. esbuild lowers syntax, but adds no functions.
const NEWER = [
    /Object\.(hasOwn|groupBy)\b/,
    /\.at\(-?\d/,
    /\.(replaceAll|findLast|findLastIndex|toSorted|toReversed|toSpliced|with)\(/,
    /\b(structuredClone|reportError|WeakRef|AggregateError|Promise\.(any|withResolvers)|Array\.fromAsync)\b/,
    /AbortSignal\.(any|timeout)|throwIfAborted/,
];

test('no page needs what only newer browsers have', () => {
    const needed = (text) => NEWER.filter((pattern) => pattern.test(text)).map(String);
    for (const path of [...OURS, ...['admin/', 'help/'].flatMap(filesIn)]) {
        assert.deepEqual(needed(read(path)), [], path);
    }
    for (const text of ['Object.hasOwn(a, b)', 'all.at(-1)', "a.replaceAll('b', '')", 'structuredClone(a)']) {
        assert.equal(needed(text).length, 1, text);
    }
});

test('that check notices', () => {
    for (const text of [
        'a.innerHTML = b',
        '<p onclick="x()">',
        '<p style="a">',
        'from "https://x"',
        '<script>x()</script>',
    ]) {
        assert.equal(broken(text).length, 1, text);
    }
});

test('each page says which browsers it needs', () => {
    const needs = (page) => /<p class="needs">.*?(Chrome .*?), or a newer .*?(Chrome .*?) 或更新/s.exec(read(page)).slice(1).map((text) => text.match(/[\d.]+/g).join());
    const [, ...documented] = /need Chrome or Android WebView (\d+), Firefox (\d+), Safari ([\d.]+),/.exec(read('../docs/pages.md'));
    for (const page of ['index.html', 'pay.html', 'admin.html', 'help.html']) {
        assert.deepEqual(needs(page), [documented.join(), documented.join()], page);
    }
});

test('every element that a script asks for by its id is in the document', () => {
    for (const [page, script] of [
        ['index.html', 'shop/view.js'],
        ['pay.html', 'pay/main.js'],
    ]) {
        for (const [, id] of read(script).matchAll(/\bat\('([a-z-]+)'\)/g)) {
            assert.ok(read(page).includes(`id="${id}"`), `${page}: ${id}`);
        }
    }
});
