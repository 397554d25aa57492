// The service as the tests use it outside the browser: calls of the API, vouchers, and a test's own instances on the
// same stores.
//
// Addresses and secrets come from the environment, or from .dev/env as left by `./dev up`.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const READY_MS = 30000;
const STOP_MS = 15000;
const ASK_MS = 20000;

const settings = { ...stackEnvironment(), ...process.env };

function stackEnvironment() {
    const file = join(ROOT, '.dev/env');
    if (!existsSync(file)) {
        return {};
    }
    const lines = readFileSync(file, 'utf8').split('\n');
    const pairs = lines.map((line) => /^(\w+)='?(.*?)'?$/.exec(line)).filter(Boolean);
    return Object.fromEntries(pairs.map(([, name, value]) => [name, value]));
}

export function setting(name) {
    if (!settings[name]) {
        throw new Error(`${name} is not set: ./dev browser starts what the tests need`);
    }
    return settings[name];
}

/** Repeats the condition until it is true, and returns its value. */
export async function until(what, condition, withinMs = 20000) {
    const deadline = performance.now() + withinMs;
    for (;;) {
        const answer = await condition();
        if (answer) {
            return answer;
        }
        if (performance.now() > deadline) {
            throw new Error(`${what}: not within ${withinMs} ms`);
        }
        await sleep(25);
    }
}

/** The time this many seconds from now, in the API's form: whole seconds, rounded up. */
export function moment(seconds) {
    return new Date(Math.ceil(Date.now() / 1000 + seconds) * 1000).toISOString();
}

/** A separate route to a store of the stack, which a test can cut for one instance. `name`: the setting of its URL. */
export class Road {
    constructor(name) {
        this.name = name;
        this.sockets = new Set();
        this.isCut = false;
    }

    async open() {
        const store = new URL(setting(this.name));
        const { port, hostname } = store;
        this.server = createServer((from) => this.join(from, connect(Number(port), hostname)));
        this.server.listen(0, '127.0.0.1');
        await once(this.server, 'listening');
        store.port = String(this.server.address().port);
        this.url = store.href;
        return this;
    }

    join(...ends) {
        for (const [i, end] of ends.entries()) {
            this.sockets.add(end);
            end.on('error', () => {});
            end.on('close', () => ends[1 - i].destroy());
            end.pipe(ends[1 - i]);
        }
        if (this.isCut) {
            this.cut();
        }
    }

    cut() {
        this.isCut = true;
        this.sockets.forEach((socket) => socket.destroy());
        this.sockets.clear();
    }

    mend() {
        this.isCut = false;
    }

    close() {
        this.cut();
        this.server.close();
    }
}

export class Api {
    constructor(url = setting('SECKILL_URL')) {
        this.url = url;
    }

    /** Returns { status, headers, body } of any answer; throws if there is none. */
    async ask(method, path, { user, admin, body, headers = {} } = {}) {
        const all = { ...headers };
        if (user) {
            all['X-User-Id'] = user;
        }
        if (admin) {
            all.Authorization = `Bearer ${setting('SECKILL_ADMIN_TOKEN')}`;
        }
        if (body !== undefined) {
            all['Content-Type'] = 'application/json';
        }
        const answer = await fetch(this.url + path, {
            method,
            headers: all,
            body: body === undefined ? undefined : JSON.stringify(body),
            signal: AbortSignal.timeout(ASK_MS),
        });
        const text = await answer.text();
        const json = /json/.test(answer.headers.get('content-type') ?? '');
        return { status: answer.status, headers: answer.headers, body: json ? JSON.parse(text) : text };
    }

    /** The body of a call that must succeed. */
    async must(method, path, options) {
        const { status, body } = await this.ask(method, path, options);
        if (status < 200 || status > 299) {
            throw new Error(`${method} ${path}: ${status} ${JSON.stringify(body)}`);
        }
        return body;
    }

    admin(method, path, body, headers) {
        return this.must(method, path, { admin: true, body, headers });
    }

    /** The id of a new voucher, on sale from a minute ago until in an hour unless `terms` differ. */
    async voucher(terms = {}) {
        const body = {
            title: 'A tea set',
            stock: 5,
            price_cents: 1250,
            begin_at: moment(-60),
            end_at: moment(3600),
            ...terms,
        };
        const made = await until('a voucher', () => this.admin('POST', '/admin/vouchers', body).catch((error) => {
            if (!error.message.includes('SCOPES_OFF')) { // another test has just started an instance
                throw error;
            }
        }));
        await until(`voucher ${made.id} in Redis`, async () => (await this.shown(made.id)).redis?.state === 'open');
        return made.id;
    }

    /** Waits for a list with this voucher. One may be a second old, and a page reads the next one much later. */
    listed(voucher) {
        const isThere = ({ vouchers }) => vouchers.some(({ id }) => BigInt(id) >= BigInt(voucher));
        return until(`a list as new as voucher ${voucher}`, async () => isThere(await this.must('GET', '/vouchers')));
    }

    shown(voucher) {
        return this.admin('GET', `/admin/vouchers/${voucher}`);
    }

    /** The id of the user's new order, bought as by another client. */
    async buy(voucher, user) {
        const order = await this.must('POST', `/seckill/${voucher}`, { user });
        return order.id;
    }

    /** The user's new order, bought or in the line, as of another client. */
    join(voucher, user) {
        return this.must('POST', `/seckill/${voucher}`, { user, body: { wait: true } });
    }

    order(id, user) {
        return this.must('GET', `/orders/${id}`, { user });
    }

    async orders(user) {
        return (await this.must('GET', '/orders', { user })).orders;
    }
}

export function freePort() {
    return new Promise((resolve, reject) => {
        const server = createServer();
        server.once('error', reject);
        server.listen(15000 + Math.floor(Math.random() * 16000), '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

/** An instance of the service for one test, which may stop it and start it again under the same address. */
export class Instance {
    /** Does not start it; `folder` is for files that the settings `env` refer to. */
    constructor(env = {}) {
        this.env = env;
        this.folder = mkdtempSync(join(tmpdir(), 'seckill-browser-'));
    }

    async run() {
        this.port ??= await freePort().catch(freePort);
        this.url = `http://127.0.0.1:${this.port}`;
        const log = openSync(join(this.folder, 'log'), 'a');
        this.process = spawn(join(ROOT, 'build/seckill'), [], {
            env: {
                PATH: process.env.PATH,
                SECKILL_DATABASE_URL: setting('SECKILL_DATABASE_URL'),
                SECKILL_REDIS_URL: settings.SECKILL_REDIS_URL ?? setting('REDIS_URL'),
                SECKILL_ADMIN_TOKEN: setting('SECKILL_ADMIN_TOKEN'),
                SECKILL_DEMO: 'on',
                SECKILL_LISTEN: `127.0.0.1:${this.port}`,
                ...this.env,
            },
            stdio: ['ignore', log, log],
        });
        running.add(this.process);
        this.process.once('exit', () => running.delete(this.process));
        await until(`the instance at ${this.url}`, () => this.ready(), READY_MS);
    }

    async ready() {
        if (!running.has(this.process)) {
            throw new Error(`the instance has ended: ${readFileSync(join(this.folder, 'log'), 'utf8').slice(-500)}`);
        }
        return fetch(`${this.url}/readyz`).then((answer) => answer.ok, () => false);
    }

    async stop() {
        if (!running.has(this.process)) {
            return;
        }
        const ended = once(this.process, 'exit');
        this.process.kill('SIGTERM');
        const timer = setTimeout(() => this.process.kill('SIGKILL'), STOP_MS);
        await ended;
        clearTimeout(timer);
    }

    /** As if its machine had lost power. */
    async kill() {
        const ended = once(this.process, 'exit');
        this.process.kill('SIGKILL');
        await ended;
    }

    async close() {
        await this.stop();
        rmSync(this.folder, { recursive: true, force: true });
    }
}

/** Runs statements in the stack's PostgreSQL, as its owner. */
export async function sql(text) {
    const psql = spawn('psql', ['-XAtq', '-v', 'ON_ERROR_STOP=1', setting('DATABASE_URL')], { stdio: ['pipe', 'ignore', 'inherit'] });
    psql.stdin.end(text);
    const [code] = await once(psql, 'exit');
    if (code !== 0) {
        throw new Error(`psql: exit ${code}: ${text}`);
    }
}

/** Locks a voucher's row in PostgreSQL, like a slow transaction, until the returned function is called. */
export async function holdStock(voucher) {
    const psql = spawn('psql', ['-XAtq', '-v', 'ON_ERROR_STOP=1', setting('DATABASE_URL')], {
        stdio: ['pipe', 'pipe', 'inherit'],
    });
    psql.stdin.write(`begin; select 'held' from voucher_stock where voucher_id = ${Number(voucher)} for update;\n`);
    await once(psql.stdout, 'data');
    return async () => {
        const ended = once(psql, 'exit');
        psql.stdin.end('rollback;\n');
        await ended;
    };
}
