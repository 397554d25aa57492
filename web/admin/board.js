// The dashboard after log-in: one poller for each thing that is asked, and what becomes of the answers. When the service
// is away the last values stay, marked as old, and the pollers go on; so nothing has to be loaded again.
import { createClock } from '../client/clock.js';
import { setAttribute, setText } from '../common/dom.js';
import { isAway, isGood } from './answer.js';
import { createCharts } from './charts.js';
import { createConfirm } from './confirm.js';
import { createFigures } from './figures.js';
import { createForm } from './form.js';
import { createProcesses, frameOf } from './frame.js';
import { createInstances, createSeen } from './instances.js';
import { createLately } from './lately.js';
import { createOrders } from './orders.js';
import { createPoller } from './poller.js';
import { parseMetrics } from './prometheus.js';
import { createSeverity } from './severity.js';
import { heldOf, receiversBehind, troublesOf } from './troubles.js';
import { createVouchers } from './vouchers.js';

const OLD_MS = 6000; // an answer that is older is marked
const now_ms = () => performance.now();

// What is asked, how often at most, and which part of the page shows it.
const PERIODS = {
    metrics: [1000, 'metrics'],
    list: [1000, 'vouchers'],
    inspect: [1000, 'vouchers'],
    count: [1000, null],
    detail: [1000, null],
    instances: [1000, 'instances'],
    troubles: [5000, null],
    webhooks: [10000, null],
    events: [2000, 'events'],
};

// root: the page. call: api.js. roles: of the token.
export function createBoard({ root, call, roles, speech }) {
    const part = (name) => root.querySelector(`[data-part=${name}]`);
    const at = (name) => root.querySelector(`[data-${name}]`);
    const template = (name) => root.querySelector(`template[data-template=${name}]`);
    const may = (role) => roles.includes(role);
    const clock = createClock();
    const processes = createProcesses();
    const seen = createSeen();
    const answered = {}; // part of the page -> {ms, wall_ms} of its last answer
    let away = null, opened_ms = null, since_ms = null, newest = null, living = null, notice = null, closed = false, troubles = null, receivers = null;

    const figures = createFigures({ list: at('tiles'), scope: at('scope'), speech });
    const charts = createCharts({ root: at('charts'), legs: at('legs'), template: template('chart'), speech });
    const instances = createInstances({ section: part('instances'), speech });
    const lately = createLately({ section: part('events'), speech, call, open: (order) => orders.find(order) });
    const vouchers = createVouchers({
        section: part('vouchers'), template: template('voucher'), speech, call, now_ms, clock, may,
        press: (what) => (what.action === 'change' ? form.open(what) : confirm.open(what)),
        operated: lately.operated,
    });
    const orders = createOrders({
        section: part('orders'), dialog: at('refund'), call, speech, may,
        show: (id) => void vouchers.show(id),
        told: ({ id }) => tell(() => speech.say('refunded', { id: id.slice(0, 13) })),
    });
    const severity = createSeverity({ section: part('severity'), speech, titleOf: vouchers.titleOf, press: (id) => void vouchers.show(id) });
    const confirm = createConfirm({
        dialog: at('confirm'), call, speech,
        done(asked, { body }) {
            const key = { requeue: 'requeued', write_off: 'written_off' }[asked.action];
            const values = { action: speech.say(asked.action), title: asked.voucher?.title ?? speech.say('all_vouchers') };
            const count = body?.requeued ?? body?.written_off ?? 0;
            tell(() => speech.say('done', values) + (key === undefined ? '' : ` ${speech.say(key, { count })}`));
            vouchers.refresh(asked.voucher?.id);
            pollers.troubles.wake();
        },
        refresh: (asked) => vouchers.refresh(asked.voucher?.id),
    });
    const form = createForm({
        dialog: at('form'), call, speech,
        now_ms: () => clock.now() ?? Date.now(),
        done({ id, title }, isNew) {
            tell(() => speech.say(isNew ? 'created' : 'changed_done', { id, title }));
            vouchers.refresh(id);
        },
        refresh: ({ id }) => vouchers.refresh(id),
    });

    async function metrics() {
        const answer = await call('/metrics');
        if (!isGood(answer)) {
            lost(isAway(answer));
            return false;
        }
        const frame = frameOf(parseMetrics(answer.text), now_ms());
        since_ms ??= Date.now();
        found(frame.process);
        const now = processes.take(frame);
        figures.take(processes.frames(), now);
        const voucher = vouchers.followed();
        charts.follow(voucher);
        charts.push(now, voucher?.left ?? null);
        judge();
        return true;
    }

    async function askInstances() {
        const answer = await call('/admin/instances');
        living = seen.take(isGood(answer) ? answer.body.instances : null, now_ms());
        instances.take(living, processes.frames(), isGood(answer) ? Date.parse(answer.body.server_time) : clock.now());
        judge();
        return isGood(answer);
    }

    async function askTroubles() {
        const answer = await call('/admin/troubles');
        if (isGood(answer)) {
            troubles = answer.body.troubles;
            vouchers.hold(heldOf(troubles));
            judge();
        }
        return isGood(answer);
    }

    async function askWebhooks() {
        const answer = await call('/admin/webhooks');
        if (isGood(answer)) {
            receivers = receiversBehind(answer.body.receivers, clock.now() ?? Date.now());
            judge();
        }
        return isGood(answer);
    }

    // Nothing is called well before everything was read once.
    function judge() {
        const frames = processes.frames();
        const found = troublesOf({ away_ms: away, frames, instances: living, shown: vouchers.notable(), troubles, receivers });
        const known = frames.length > 0 && living !== null && troubles !== null && receivers !== null;
        severity.take(known || found.length > 0 ? found : null);
        vouchers.pin([...new Set(found.flatMap((one) => one.vouchers))]);
    }

    // ---- whether the service is there ----

    function lost(isGone) {
        if (isGone && away === null) {
            away = answered.metrics?.wall_ms ?? Date.now();
            lately.saw('event_away');
        }
        judge();
    }

    // A process that began after the page was opened, by the service's own clock, was started anew; one that is older
    // is another instance behind the same address.
    function found(process) {
        opened_ms ??= clock.now() ?? null;
        if (newest !== null && process > newest && opened_ms !== null && process * 1000 > opened_ms) {
            tell(() => speech.say('restarted', { time: speech.moment(process * 1000) }));
            lately.saw('event_restart');
        } else if (away !== null) {
            tell(() => speech.say('back'));
            lately.saw('event_back');
        }
        newest = Math.max(newest ?? process, process);
        away = null;
    }

    function tell(text) {
        notice = text;
        say();
    }

    function say() {
        setText(at('notice'), notice?.() ?? '');
        setText(at('link'), away !== null ? '' : speech.say('linked'));
        for (const section of root.querySelectorAll('[data-part]')) {
            const last = answered[section.dataset.part];
            const old = last !== undefined && now_ms() - last.ms > OLD_MS;
            setAttribute(section, 'data-old', old);
            const age = section.querySelector('[data-age]');
            if (age !== null) {
                setText(age, old ? speech.say('old', { time: speech.moment(last.wall_ms) }) : '');
            }
        }
        setText(at('since'), speech.say(...(since_ms === null ? ['reading'] : ['since', { time: speech.moment(since_ms) }])));
        setText(at('role'), may('operate') ? '' : speech.say('role_read'));
        setAttribute(at('new'), 'hidden', !may('operate'));
        const isHeld = heldOf(troubles ?? []).includes(undefined);
        setAttribute(at('hold-all'), 'hidden', !may('operate') || isHeld);
        setAttribute(at('release-all'), 'hidden', !may('operate') || !isHeld);
    }

    // ---- pollers ----

    const asks = { metrics, ...vouchers.asks, instances: askInstances, troubles: askTroubles, webhooks: askWebhooks, events: lately.ask };
    const pollers = Object.fromEntries(Object.entries(PERIODS).map(([name, [every_ms, shows]]) => [name, createPoller({
        every_ms,
        visible: () => !document.hidden,
        async ask() {
            const good = await asks[name]();
            if (closed) {
                return good;
            }
            if (good && shows !== null) {
                answered[shows] = { ms: now_ms(), wall_ms: Date.now() };
            }
            say();
            return good;
        },
    })]));
    vouchers.onWake((name) => pollers[name].wake());
    const wakeAll = () => document.hidden || Object.values(pollers).forEach((poller) => poller.wake());
    document.addEventListener('visibilitychange', wakeAll);
    at('new').addEventListener('click', () => form.open());
    at('hold-all').addEventListener('click', () => confirm.open({ action: 'hold_expiry' }));
    at('release-all').addEventListener('click', () => confirm.open({ action: 'release_expiry' }));

    function sayAll() {
        figures.say();
        charts.say();
        instances.say();
        lately.say();
        vouchers.localise();
        orders.say();
        severity.say();
        confirm.say();
        form.say();
        say();
    }

    return {
        open() {
            sayAll();
            Object.values(pollers).forEach((poller) => poller.start());
        },
        sayAll,
        close() {
            closed = true;
            Object.values(pollers).forEach((poller) => poller.stop());
            document.removeEventListener('visibilitychange', wakeAll);
            confirm.close();
            form.close();
            orders.close();
            vouchers.close();
            charts.close();
        },
    };
}
