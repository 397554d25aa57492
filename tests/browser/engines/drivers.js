// Three engines under one interface. Chromium is driven by playwright-core. Firefox and WebKitGTK understand the commands
// of W3C WebDriver, each over a connection of its own: Firefox's Marionette is what its WebDriver server talks to, and
// Debian has no such server.
//
// A driver has open(url), click(selector), fill(selector, text), run(function, ...arguments) in the page, and close().

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { launch } from '../browser.js';
import { freePort, until } from '../site.js';

const FIREFOX = '/usr/bin/firefox-esr';
const WEBKIT = '/usr/bin/WebKitWebDriver';
const MINI_BROWSER = 'webkit2gtk-4.1/MiniBrowser'; // below /usr/lib and the machine's kind
const SCREEN = '/usr/bin/Xvfb';
const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf'; // the name that WebDriver gives an element's id
const START_MS = 60000;

export const ENGINES = { chromium, firefox, webkit };

async function chromium() {
    const browser = await launch();
    const context = await browser.newContext({ locale: 'en-GB' });
    const page = await context.newPage();
    return {
        open: (url) => page.goto(url),
        click: (selector) => page.click(selector),
        fill: (selector, text) => page.fill(selector, text),
        run: (action, ...given) => page.evaluate(`(${action})(...${JSON.stringify(given)})`),
        close: () => browser.close(),
    };
}

/** `send(command, parameters)` carries out a command of WebDriver. */
function webDriver(send, close) {
    const find = async (selector) => (await send('find', { using: 'css selector', value: selector }))[ELEMENT];
    const using = async (selector, ...commands) => {
        try {
            const id = await find(selector);
            for (const [command, parameters] of commands) {
                await send(command, { id, ...parameters });
            }
        } catch (error) {
            throw new Error(`${selector}: ${error.message}`, { cause: error });
        }
    };
    const run = (action, ...args) => send('run', { script: `return (${action})(...arguments)`, args });
    return {
        open: (url) => send('navigate', { url }),
        async click(selector) {
            await run((wanted) => document.querySelector(wanted).scrollIntoView({ block: 'center' }), selector); // WebKitGTK does not
            await using(selector, ['click']);
        },
        fill: (selector, text) => using(selector, ['clear'], ['type', { text }]),
        run,
        close,
    };
}

const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

/** Programs of one engine, at home in a folder of their own, without the machine's proxies; `stop()` ends them. */
function scratch() {
    const folder = mkdtempSync(join(tmpdir(), 'seckill-engine-'));
    const kept = Object.entries(process.env).filter(([name]) => !/_proxy$/i.test(name));
    const env = { ...Object.fromEntries(kept), HOME: folder, XDG_RUNTIME_DIR: folder, LANG: 'en_GB.UTF-8' };
    const children = [];
    return {
        folder,
        start(path, words, { stdout = 'ignore', ...more } = {}) {
            if (!existsSync(path)) {
                throw new Error(`there is no ${path}; ./dev setup engines installs it`);
            }
            const child = spawn(path, words, { env: { ...env, ...more }, stdio: ['ignore', stdout, 'ignore'] });
            running.add(child);
            child.once('exit', () => running.delete(child));
            children.unshift(child);
            return child;
        },
        async stop() {
            for (const child of children.filter((one) => running.has(one))) {
                const ended = once(child, 'exit');
                child.kill();
                await ended;
            }
            rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
        },
    };
}

// ---- Firefox ----

const MARIONETTE = {
    navigate: 'WebDriver:Navigate',
    find: 'WebDriver:FindElement',
    click: 'WebDriver:ElementClick',
    clear: 'WebDriver:ElementClear',
    type: 'WebDriver:ElementSendKeys',
    run: 'WebDriver:ExecuteScript',
};

async function firefox() {
    const own = scratch();
    const port = join(own.folder, 'MarionetteActivePort');
    writeFileSync(join(own.folder, 'user.js'), 'user_pref("marionette.port", 0);\n');
    own.start(FIREFOX, ['--headless', '--marionette', '--no-remote', '--profile', own.folder]);
    await until('the port of Marionette', () => existsSync(port) && readFileSync(port, 'utf8') !== '', START_MS);
    const ask = await marionette(Number(readFileSync(port, 'utf8')));
    await ask('WebDriver:NewSession', {});
    const send = async (command, parameters) => {
        const result = await ask(MARIONETTE[command], parameters);
        return 'value' in (result ?? {}) ? result.value : result;
    };
    return webDriver(send, own.stop);
}

/** A message is its length, a colon, and JSON: [0, number, command, parameters], answered by [1, number, error, result]. */
async function marionette(port) {
    const socket = connect(port, '127.0.0.1');
    const waiting = new Map();
    const greeting = new Promise((resolve, reject) => waiting.set(0, { resolve, reject }));
    let bytes = Buffer.alloc(0);
    socket.on('data', (more) => {
        bytes = Buffer.concat([bytes, more]);
        for (let colon; (colon = bytes.indexOf(':')) > 0;) {
            const end = colon + 1 + Number(bytes.subarray(0, colon));
            if (bytes.length < end) {
                return;
            }
            const message = JSON.parse(bytes.subarray(colon + 1, end));
            const [, number, error, result] = Array.isArray(message) ? message : [1, 0];
            bytes = bytes.subarray(end);
            const { resolve, reject } = waiting.get(number);
            waiting.delete(number);
            if (error) {
                reject(new Error(`${error.error}: ${error.message}`));
            } else {
                resolve(result);
            }
        }
    });
    socket.on('error', (error) => waiting.forEach(({ reject }) => reject(error)));
    await greeting;
    let count = 0;
    return (command, parameters) =>
        new Promise((resolve, reject) => {
            count += 1;
            waiting.set(count, { resolve, reject });
            const text = JSON.stringify([0, count, command, parameters]);
            socket.write(`${Buffer.byteLength(text)}:${text}`);
        });
}

// ---- WebKitGTK ----

async function webkit() {
    const own = scratch();
    const screen = own.start(SCREEN, ['-displayfd', '1', '-screen', '0', '1280x1024x24', '-nolisten', 'tcp'], { stdout: 'pipe' });
    const [display] = await once(createInterface({ input: screen.stdout }), 'line');
    const port = await freePort();
    own.start(WEBKIT, [`--port=${port}`], { DISPLAY: `:${display}` });
    const call = async (method, path, body) => {
        const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method, body: body && JSON.stringify(body) });
        const { value } = await answer.json();
        if (!answer.ok) {
            throw new Error(`${value.error}: ${value.message}`);
        }
        return value;
    };
    await until('WebKitWebDriver', () => call('GET', '/status').then(() => true, () => false), START_MS);
    const binary = readdirSync('/usr/lib').map((kind) => join('/usr/lib', kind, MINI_BROWSER)).find(existsSync);
    const options = { binary, args: ['--automation'] };
    const { sessionId } = await call('POST', '/session', { capabilities: { alwaysMatch: { 'webkitgtk:browserOptions': options } } });
    const paths = { navigate: 'url', find: 'element', run: 'execute/sync', click: 'click', clear: 'clear', type: 'value' };
    const send = (command, { id, ...parameters }) =>
        call('POST', `/session/${sessionId}/${id ? `element/${id}/` : ''}${paths[command]}`, parameters);
    return webDriver(send, async () => {
        await call('DELETE', `/session/${sessionId}`).catch(() => {});
        await own.stop();
    });
}
