#!/usr/bin/env node
// The main flows of the pages in other engines than Chromium, too, against the service with real stores (./dev browser
// starts what it needs):
//
//     tests/browser/engines/run.js [ENGINE...]                those of chromium, firefox and webkit, or all
//     tests/browser/engines/run.js --self-test [ENGINE...]    breaks the pages on their way: each engine must notice
//
// Exit 0: all passed. An engine that is missing is a failure.

import { once } from 'node:events';
import { createServer, request } from 'node:http';

import { Api, setting } from '../site.js';
import { ENGINES } from './drivers.js';
import { FLOWS } from './flows.js';

const TEST_MS = 90000;
const SEEN_MOST = 2000; // characters of a page that failed

/** A page's script with what stands for a careless change in it; the flow that must fail, and the text of its failure. */
const BROKEN = [
    ['a button that buys nothing', '/web/shop.js', "addEventListener('click', (event) => event.target.closest('[data-buy]') && event.stopImmediatePropagation(), true);",
        'a buyer cancels', /the outcome won: not within/],
    ['a question that is never asked', '/web/admin/main.js', 'HTMLDialogElement.prototype.showModal = () => {};',
        'an operator pauses', /dialog.*, on: not within/],
];

/** The service with `code` added to a script. */
async function breaking(path, code) {
    const { hostname, port } = new URL(setting('SECKILL_URL'));
    const server = createServer((asked, answer) => {
        const isBroken = asked.url === path;
        const { 'accept-encoding': accepted, ...headers } = asked.headers;
        const more = isBroken || accepted === undefined ? {} : { 'accept-encoding': accepted };
        const onward = request({ hostname, port, path: asked.url, method: asked.method, headers: { ...headers, ...more } }, (came) => {
            const { 'content-length': _, ...fields } = came.headers;
            answer.writeHead(came.statusCode, isBroken ? fields : came.headers);
            if (isBroken) {
                answer.write(`${code}\n`);
            }
            came.pipe(answer);
        });
        onward.on('error', () => answer.destroy());
        answer.on('close', () => onward.destroy());
        asked.pipe(onward);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return server;
}

async function attempt(driver, run, url) {
    const api = new Api();
    const vouchers = [];
    const voucher = async (terms) => {
        vouchers.push(await api.voucher(terms));
        await api.listed(vouchers.at(-1));
        return vouchers.at(-1);
    };
    const user = `${driver.name}-${Date.now().toString(36)}`;
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`not done within ${TEST_MS} ms`)), TEST_MS);
    });
    try {
        await Promise.race([run({ driver, url, api, user, voucher }), late]);
        return undefined;
    } catch (error) {
        const seen = await driver.run(() => document.body.innerText).catch(() => 'no page');
        return new Error(`${error.message}\n${seen.replace(/\n{2,}/g, '\n').slice(0, SEEN_MOST)}`, { cause: error });
    } finally {
        clearTimeout(timer);
        for (const one of vouchers) {
            await api.ask('POST', `/admin/vouchers/${one}/close`, { admin: true });
        }
    }
}

function report(ok, name, since, why) {
    console.log(`${ok ? 'ok    ' : 'FAILED'}  ${name}  (${((performance.now() - since) / 1000).toFixed(1)} s)`);
    if (!ok) {
        console.log(`${why}`.replace(/^/gm, '        '));
    }
    return ok ? 0 : 1;
}

async function runFlows(driver) {
    let failed = 0;
    for (const [name, run] of FLOWS) {
        const since = performance.now();
        const error = await attempt(driver, run, setting('SECKILL_URL'));
        failed += report(error === undefined, `${driver.name}: ${name}`, since, error?.message);
    }
    return failed;
}

async function runControls(driver) {
    let failed = 0;
    for (const [name, path, code, flow, notice] of BROKEN) {
        const since = performance.now();
        const [, run] = FLOWS.find(([one]) => one.startsWith(flow));
        const server = await breaking(path, code);
        const error = await attempt(driver, run, `http://127.0.0.1:${server.address().port}`);
        server.close();
        server.closeAllConnections();
        const why = error ? `failed for another reason: ${error.message}` : `"${flow}" passed all the same`;
        failed += report(error !== undefined && notice.test(error.message), `noticed: ${driver.name}: ${name}`, since, why);
    }
    return failed;
}

async function main(words) {
    const isSelfTest = words[0] === '--self-test';
    const names = words.slice(isSelfTest ? 1 : 0);
    const unknown = names.find((name) => ENGINES[name] === undefined);
    if (unknown) {
        throw new Error(`there is no engine ${unknown}`);
    }
    let failed = 0;
    for (const name of names.length > 0 ? names : Object.keys(ENGINES)) {
        const driver = { name, ...(await ENGINES[name]()) };
        try {
            failed += await (isSelfTest ? runControls : runFlows)(driver);
        } finally {
            await driver.close();
        }
    }
    console.log(failed === 0 ? 'all passed' : `${failed} failed`);
    process.exitCode = failed === 0 ? 0 : 1;
}

main(process.argv.slice(2)).catch((error) => {
    console.error(`engines: ${error.message}`);
    process.exitCode = 1;
});
