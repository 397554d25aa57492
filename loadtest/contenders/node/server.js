// The durable order path as a Node team would build it: fastify, ioredis, pg; one process for each core.
//
// POST /seckill/<voucher>, the user in X-User-Id. One script call decides in Redis and writes the journal. Then, under
// a lock of the user, one transaction writes the order. 201 follows its COMMIT. ioredis itself combines the commands of
// one event loop turn into one write (enableAutoPipelining).
//
// It omits these promises of the service, in its own favour. Nobody reads the journal after a crash, Redis is never
// rebuilt, and the lock is not renewed. No timer watches a command to Redis.
'use strict';

const cluster = require('node:cluster');
const { randomFillSync } = require('node:crypto');
const { readFileSync } = require('node:fs');
const path = require('node:path');
const fastify = require('fastify');
const Redis = require('ioredis');
const { Pool } = require('pg');

const USER_MAX_BYTES = 64;
const LOCK_TTL_MS = 10000;
const STORE_DEADLINE_MS = 5000;
const PLACE_ORDER = {
  name: 'place_order', // prepared once on each connection
  text: 'SELECT outcome FROM place_orders($1, $2, $3, ARRAY[$4::text]::uuid[], ARRAY[$5::text], $6)',
};
const VERDICTS = {
  placed: 'PLACED',
  already_placed: 'PLACED',
  duplicate: 'ALREADY_ORDERED',
  sold_out: 'SOLD_OUT',
};

function setting(name) {
  const value = process.env[name];
  if (!value) {
    throw new Error(`${name} is not set`);
  }
  return value;
}

// ---- ids: UUIDv7, which grow with time, so that index writes go to its right edge ----

const random = Buffer.alloc(16 * 256);
let used = random.length;

function newOrderId() {
  if (used === random.length) {
    randomFillSync(random);
    used = 0;
  }
  const id = random.subarray(used, used + 16);
  used += 16;
  id.writeUIntBE(Date.now(), 0, 6);
  id[6] = (id[6] & 0x0f) | 0x70;
  id[8] = (id[8] & 0x3f) | 0x80;
  const hex = id.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

// ---- the order path ----

function openRedis() {
  const redis = new Redis(setting('REDIS_URL'), { enableAutoPipelining: true });
  for (const [name, keys] of [['placeOne', 3], ['finishOne', 4]]) {
    const file = `${name.replace('One', '_one')}.lua`;
    redis.defineCommand(name, { numberOfKeys: keys, lua: readFileSync(path.join(setting('SCRIPTS'), file), 'utf8') });
  }
  return redis;
}

// All connections are open before the rush, and stay open.
async function openPostgres(size) {
  const pool = new Pool({
    connectionString: setting('DATABASE_URL'),
    max: size,
    idleTimeoutMillis: 0,
    statement_timeout: STORE_DEADLINE_MS,
  });
  const clients = await Promise.all(Array.from({ length: size }, () => pool.connect()));
  clients.forEach((client) => client.release());
  return pool;
}

class Refusal extends Error {
  constructor(status, code) {
    super(code);
    this.status = status;
    this.code = code;
  }
}

class Shop {
  constructor(redis, pg) {
    this.redis = redis;
    this.pg = pg;
  }

  async buy(voucher, user) {
    const keys = ['voucher', 'buyers', 'journal'].map((part) => `seckill:{${voucher}}:${part}`);
    const order = newOrderId();
    const [verdict, journalId, epoch, slot] = await this.redis.placeOne(...keys, user, order);
    if (verdict !== 'PLACED') {
      throw new Refusal(verdict === 'UNKNOWN_VOUCHER' ? 404 : 409, verdict);
    }
    // After an error its outcome is unknown: the journal keeps the entry, and the lock expires by its TTL.
    const lock = `seckill:{${voucher}}:lock:${user}`;
    const token = order;
    if ((await this.redis.set(lock, token, 'PX', LOCK_TTL_MS, 'NX')) !== 'OK') {
      throw new Error("another request holds the user's lock");
    }
    // A single statement is a transaction: it is committed when its row arrives.
    const result = await this.pg.query({ ...PLACE_ORDER, values: [slot, voucher, epoch, order, user, journalId] });
    const settled = VERDICTS[result.rows[0].outcome];
    if (!settled) {
      throw new Error(`PostgreSQL: ${result.rows[0].outcome}`);
    }
    await this.redis.finishOne(lock, ...keys, token, journalId, user, order, settled);
    if (settled !== 'PLACED') {
      throw new Refusal(409, settled);
    }
    return { id: order, voucher_id: voucher, user_id: user, status: 'unpaid' };
  }
}

// ---- HTTP ----

const text = { type: 'string' };
const ORDER = { type: 'object', properties: { id: text, voucher_id: text, user_id: text, status: text } };
const PROBLEM = { type: 'object', properties: { status: { type: 'integer' }, code: text } };

function routes(shop) {
  const server = fastify({ logger: false, keepAliveTimeout: 60000 });
  server.get('/ready', async () => 'ready\n');
  server.post('/seckill/:voucher', { schema: { response: { 201: ORDER, '4xx': PROBLEM, '5xx': PROBLEM } } },
    async (request, reply) => {
      const { voucher } = request.params;
      const user = request.headers['x-user-id'];
      if (!/^[1-9][0-9]{0,18}$/.test(voucher)) {
        throw new Refusal(400, 'BAD_VOUCHER_ID');
      }
      if (!user || Buffer.byteLength(user) > USER_MAX_BYTES) {
        throw new Refusal(401, 'UNAUTHENTICATED');
      }
      const order = await shop.buy(voucher, user);
      reply.code(201).header('Location', `/orders/${order.id}`);
      return order;
    });
  server.setErrorHandler((error, request, reply) => {
    const known = error instanceof Refusal;
    if (!known) {
      console.error(error.message);
    }
    const status = known ? error.status : 503;
    reply.code(status).type('application/problem+json').send({ status, code: known ? error.code : 'UNAVAILABLE' });
  });
  return server;
}

async function work() {
  const [host, port] = setting('LISTEN').split(':');
  const share = Math.max(1, Math.floor(Number(setting('PG_POOL')) / Number(setting('WORKERS'))));
  const shop = new Shop(openRedis(), await openPostgres(share));
  process.on('SIGTERM', () => process.exit(0)); // the bench has waited until no request is in progress
  await routes(shop).listen({ host, port: Number(port), backlog: 4096 });
}

function supervise() {
  let stopping = false;
  for (let i = 0; i < Number(setting('WORKERS')); i++) {
    cluster.fork();
  }
  process.on('SIGTERM', () => {
    stopping = true;
    Object.values(cluster.workers).forEach((worker) => worker.process.kill('SIGTERM'));
  });
  cluster.on('exit', () => {
    if (!stopping || Object.keys(cluster.workers).length === 0) {
      process.exit(stopping ? 0 : 1);
    }
  });
}

if (cluster.isPrimary) {
  supervise();
} else {
  work().catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}
