// Calls the web client as the lines of its input say, each a JSON object, and prints what came of each. Driver.java
// does the same with the Java client.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const { createClient, formatMoney } = await import(pathToFileURL(`${process.argv[2]}/index.js`));

const page = new EventTarget(); // `online`, as a browser has it
globalThis.addEventListener = page.addEventListener.bind(page);
globalThis.removeEventListener = page.removeEventListener.bind(page);

const say = (n, what) => console.log(JSON.stringify({ n, ...what }));

function told({ outcome, code, order, orderId, body, retryAfterMs, key, cause }) {
    const one = order ?? body ?? {};
    const more = { retry_after_ms: retryAfterMs, cause: cause?.message };
    return { outcome, code, id: orderId ?? one.id, body: one, key, ...more };
}

// `turns`: a text for each call, null where there is no login; after the last one it does not come.
function login(headers, turns) {
    return async () => {
        const turn = turns.length > 0 ? turns.shift() : await new Promise(() => {});
        if (turn === null) {
            throw new Error('no login');
        }
        return { ...headers, 'X-Turn': turn };
    };
}

const hearTrouble =
    (n) =>
    ({ code, cause }) =>
        say(n, { trouble: { code, cause: cause?.message } });

const done = async (body) => ({ outcome: 'done', body: (await body) ?? undefined });

const CALLS = {
    buy: (client, { voucher, quantity, key, doubtful, signal }) =>
        client.buy(voucher, { quantity, key, isDoubtful: doubtful, signal }),
    follow: (client, { n, order, signal }) => done(client.follow(order, { signal, onTrouble: hearTrouble(n) })),
    cancel: (client, { order, signal }) => client.cancel(order, { signal }),
    pay: (client, { order, payment }) => client.pay(order, payment),
    create: (client, { terms }) => client.createVoucher(terms),
    settlement: (client, { voucher, signal }) => done(client.settlement(voucher, { signal })),
    events: (client, { after, wait }) => done(client.events({ after, wait })),
    read: (client, { path }) => done(client.read(path)),
    command: (client, { path, json }) => client.command(path, json),
    watch: (client, { n, voucher, signal }) =>
        done(client.watch(voucher, (event) => say(n, { event }), { signal, onTrouble: hearTrouble(n) })),
    now: (client, { voucher }) => done(client.voucher(voucher).then(() => ({ now: client.now() }))),
    result: (client, { voucher, quantity }) => done(client.buy(voucher, { quantity })),
    money: (client, { cents, currency }) => done({ text: formatMoney(cents, currency, 'en') }),
    online: () => done(page.dispatchEvent(new Event('online'))),
};

for await (const line of createInterface({ input: process.stdin })) {
    const { n, call, url, headers, turns, at_most_ms, ...details } = JSON.parse(line);
    const signal = at_most_ms && AbortSignal.timeout(at_most_ms);
    const client = createClient({ url, headers: turns ? login(headers, turns) : headers });
    CALLS[call](client, { n, signal, ...details }).then(
        (result) => say(n, told(result)),
        (error) => say(n, { outcome: 'thrown', code: error.code ?? String(error.stack), cause: error.cause?.message }),
    );
}
process.exit();
