// What the documents promise to browsers: modules are announced, and nothing needs what the Content-Security-Policy
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

// All that a module leads to, itself left out.
function graph(path, seen = new Set()) {
    for (const [, target] of read(path).matchAll(/^(?:import|export) [^;]*?from '([^']+)';/gms)) {
        const next = new URL(target, new URL(path, WEB)).pathname.slice(WEB.pathname.length);
        if (!seen.has(next)) {
            seen.add(next);
            graph(next, seen);
        }
    }
    return seen;
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

test('index.html announces exactly the modules that main.js leads to', () => {
    const announced = [...read('index.html').matchAll(/modulepreload" href="\/web\/([^"]+)"/g)].map(([, path]) => path);
    assert.deepEqual(announced.sort(), [...graph('shop/main.js')].sort());
});

test('what the documents name is there', () => {
    for (const page of ['index.html', 'pay.html']) {
        for (const [, path] of read(page).matchAll(/(?:href|src)="\/web\/([^"]+)"/g)) {
            assert.ok(existsSync(new URL(path, WEB)), path);
        }
    }
});

test('nothing needs what the policy forbids, and nothing comes from outside', () => {
    for (const path of ['index.html', 'pay.html', ...OURS]) {
        assert.deepEqual(broken(read(path)), [], path);
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
