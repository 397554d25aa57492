#!/usr/bin/env node
// Drives the pages in a real browser, against the service with real stores (./dev browser starts what it needs):
//
//     tests/browser/run.js [NAME...]     the tests whose names contain one of the texts, or all
//     tests/browser/run.js --self-test   breaks the pages on their way to the browser: each check must detect it
//
// Exit 0: all passed. A test that cannot run, because the browser is missing or no test has the name, is a failure.

import { spawnSync } from 'node:child_process';

import { launch } from './browser.js';
import { tests as example } from './client_example.js';
import { controls } from './controls.js';
import { tests as dashboard } from './dashboard.js';
import { tests as doing } from './dashboard_doing.js';
import { tests as finding } from './dashboard_finding.js';
import { tests as seeing } from './dashboard_seeing.js';
import { Scene } from './scene.js';
import { tests as buying } from './shop_buying.js';
import { tests as first } from './shop_first.js';
import { tests as many } from './shop_many.js';
import { tests as orders } from './shop_orders.js';
import { tests as showing } from './shop_showing.js';
import { tests as waiting } from './shop_waiting.js';

const AT_ONCE = Number(process.env.BROWSER_JOBS ?? 3);
const TEST_MS = 90000;

// The dashboard lists every voucher, so it comes before the tests that make many.
const tests = [...seeing, ...finding, ...doing, ...dashboard, ...first, ...waiting, ...buying, ...orders, ...many, ...showing, ...example];

/** Runs one test in its own scene. Returns undefined if it passed, else the error. */
async function attempt(browser, { name, answers, run }, breakage) {
    const scene = new Scene(browser, { answers, breakage });
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`not done within ${TEST_MS} ms`)), TEST_MS);
    });
    try {
        await Promise.race([run(scene).then(() => scene.finish()), late]);
        return undefined;
    } catch (error) {
        if (!breakage) {
            await scene.picture(name);
        }
        return withFaults(error, scene.faults);
    } finally {
        clearTimeout(timer);
        await scene.close();
    }
}

/** The problems seen in the pages explain most failures. */
function withFaults(error, faults) {
    const lines = [...new Set(faults)].filter((line) => !error.message.includes(line));
    return new Error([error.message, ...lines].join('\n'), { cause: error });
}

/** Runs the jobs in order: first those that need the stack for themselves, then the others, a few at a time. */
async function eachOf(jobs, work) {
    const [alone, others] = [true, false].map((is) => jobs.filter((job) => Boolean(job.alone) === is));
    const worker = async (left) => {
        while (left.length > 0) {
            await work(left.shift());
        }
    };
    await worker(alone);
    await Promise.all(Array.from({ length: AT_ONCE }, () => worker(others)));
}

function report(ok, name, since, why = '') {
    const seconds = ((performance.now() - since) / 1000).toFixed(1);
    console.log(`${ok ? 'ok    ' : 'FAILED'}  ${name}  (${seconds} s)`);
    if (why) {
        console.log(why.replace(/^/gm, '        '));
    }
}

async function runTests(browser, chosen) {
    let failed = 0;
    await eachOf(chosen, async (test) => {
        const since = performance.now();
        const error = await attempt(browser, test);
        failed += error ? 1 : 0;
        report(!error, test.name, since, error?.message);
    });
    return failed;
}

/** A test that cannot run must not count as passed. */
function refuses(name, words, env, notice) {
    const done = spawnSync(process.execPath, [process.argv[1], ...words], { env: { ...process.env, ...env }, encoding: 'utf8' });
    const refused = done.status !== 0 && notice.test(done.stderr);
    report(refused, `noticed: ${name}`, performance.now(), refused ? '' : `exit ${done.status}: ${done.stderr}`);
    return refused ? 0 : 1;
}

const REFUSALS = [
    ['a browser that is missing', [], { CHROMIUM: '/nonexistent/chromium' }, /there is no \/nonexistent\/chromium/],
    ['a test that there is not', ['no test is called so'], {}, /no test has/],
];

/** Each control names a test that must fail, and the text of its failure. */
async function runControls(browser, chosen) {
    let failed = 0;
    await eachOf(chosen, async ({ name, test, breakage, notice }) => {
        const since = performance.now();
        const error = await attempt(browser, test, breakage);
        const noticed = error !== undefined && notice.test(error.message);
        failed += noticed ? 0 : 1;
        const why = error ? `failed for another reason:\n${error.message}` : `"${test.name}" passed all the same`;
        report(noticed, `noticed: ${name}`, since, noticed ? '' : why);
    });
    return failed + REFUSALS.reduce((sum, refusal) => sum + refuses(...refusal), 0);
}

async function main(words) {
    const selfTest = words.includes('--self-test');
    const texts = words.filter((word) => word !== '--self-test');
    const unknown = texts.find((text) => text.startsWith('-'));
    if (unknown) {
        throw new Error(`there is no option ${unknown}`);
    }
    const chosen = (selfTest ? controls(tests) : tests).filter(
        ({ name }) => texts.length === 0 || texts.some((text) => name.includes(text)),
    );
    if (chosen.length === 0) {
        throw new Error(`no test has ${texts.join(' or ')} in its name`);
    }
    const browser = await launch();
    try {
        const failed = await (selfTest ? runControls : runTests)(browser, chosen);
        const all = chosen.length + (selfTest ? REFUSALS.length : 0);
        console.log(`${all - failed} passed, ${failed} failed`);
        process.exitCode = failed === 0 ? 0 : 1;
    } finally {
        await browser.close();
    }
}

main(process.argv.slice(2)).catch((error) => {
    console.error(`browser: ${error.message}`);
    process.exitCode = 1;
});
