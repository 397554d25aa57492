// Calls the web client as the lines of its input say, each a JSON object, and prints what came of each. Driver.java
// does the same with the Java client.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const { createClient } = await import(pathToFileURL(`${process.argv[2]}/index.js`));

const say = (n, what) => console.log(JSON.stringify({ n, ...what }));

function told({ outcome, code, order, orderId, body, retryAfterMs }) {
    const one = order ?? body ?? {};
    const id = orderId ?? one.id;
    return { outcome, code, id, status: one.status, verdict: one.verdict, retry_after_ms: retryAfterMs };
}

const CALLS = {
    buy: (client, { voucher, quantity, key, doubtful }) => client.buy(voucher, { quantity, key, isDoubtful: doubtful }),
    follow: async (client, { order }) => ({ outcome: 'done', body: await client.follow(order) }),
    cancel: (client, { order }) => client.cancel(order),
    pay: (client, { order, payment }) => client.pay(order, payment),
    create: (client, { terms }) => client.createVoucher(terms),
    settlement: async (client, { voucher }) => ({ outcome: 'done', body: await client.settlement(voucher) }),
    watch: async (client, { n, voucher }) => {
        await client.watch(voucher, ({ state, remaining }) => say(n, { event: { state, remaining } }));
        return { outcome: 'done' };
    },
};

for await (const line of createInterface({ input: process.stdin })) {
    const { n, call, url, headers, ...details } = JSON.parse(line);
    CALLS[call](createClient({ url, headers }), { n, ...details }).then(
        (result) => say(n, told(result)),
        (error) => say(n, { outcome: 'thrown', code: error.code ?? String(error.stack) }),
    );
}
process.exit();
