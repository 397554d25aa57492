// The dashboard after log-in: one poller for each thing that is asked, and what becomes of the answers. When the service
// is away the last values stay, marked as old, and the pollers go on; so nothing has to be loaded again.
import { createClock } from '../common/clock.js';
import { setAttribute, setText } from '../common/dom.js';
import { isAway, isGood } from './answer.js';
import { createCharts } from './charts.js';
import { createConfirm } from './confirm.js';
import { createCreation } from './create.js';
import { createFigures } from './figures.js';
import { createProcesses, frameOf } from './frame.js';
import { createInstances } from './instances.js';
import { createLately } from './lately.js';
import { createPoller } from './poller.js';
import { parseMetrics } from './prometheus.js';
import { createVouchers } from './vouchers.js';

const OLD_MS = 6000; // an answer that is older is marked
const now_ms = () => performance.now();

// What is asked, how often at most, and which part of the page shows it.
const PERIODS = {
    metrics: [1000, 'metrics'],
    list: [2000, 'vouchers'],
    inspect: [1000, 'vouchers'],
    count: [1000, null],
    detail: [1000, null],
    instances: [2000, 'instances'],
    events: [2000, 'events'],
};

// root: the page. call: api.js. has_charts: whether the build has uPlot; undefined: not known.
export function createBoard({ root, call, speech, has_charts }) {
    const part = (name) => root.querySelector(`[data-part=${name}]`);
    const at = (name) => root.querySelector(`[data-${name}]`);
    const template = (name) => root.querySelector(`template[data-template=${name}]`);
    const clock = createClock();
    const processes = createProcesses();
    const answered = {}; // part of the page -> {ms, wall_ms} of its last answer
    let away = null, opened_ms = null, newest = null, notice = null, closed = false;

    const figures = createFigures({ list: at('tiles'), scope: at('scope'), speech });
    const charts = createCharts({ root: at('charts'), note: at('charts-off'), template: template('chart'), speech });
    const instances = createInstances({ section: part('instances'), speech, call });
    const lately = createLately({ section: part('events'), speech, call });
    const vouchers = createVouchers({
        section: part('vouchers'), template: template('voucher'), speech, call, now_ms, clock,
        press: (what) => confirm.open(what),
        operated: lately.operated,
    });
    const confirm = createConfirm({
        dialog: at('confirm'), call, speech,
        done(asked, { body }) {
            const key = { requeue: 'requeued', write_off: 'written_off' }[asked.action];
            const values = { action: speech.say(asked.action), title: asked.voucher.title };
            const count = body?.requeued ?? body?.written_off ?? 0;
            tell(() => speech.say('done', values) + (key === undefined ? '' : ` ${speech.say(key, { count })}`));
            vouchers.refresh(asked.voucher.id);
        },
        refresh: (asked) => vouchers.refresh(asked.voucher.id),
    });
    const creation = createCreation({
        dialog: at('create'), call, speech,
        now_ms: () => clock.now() ?? Date.now(),
        done({ id }) {
            tell(() => speech.say('created', { id }));
            pollers.list.wake();
        },
    });

    async function metrics() {
        const answer = await call('/metrics');
        if (!isGood(answer)) {
            lost(isAway(answer));
            return false;
        }
        const frame = frameOf(parseMetrics(answer.text), now_ms());
        found(frame.process);
        const now = processes.take(frame);
        const frames = processes.frames();
        figures.take(frames, now);
        instances.take(frames);
        follow(now);
        return true;
    }

    function follow(now) {
        const voucher = vouchers.followed();
        charts.follow(voucher);
        if (now !== null) {
            charts.push(now, voucher?.left ?? null);
        }
    }

    // ---- whether the service is there ----

    function lost(isGone) {
        if (isGone && away === null) {
            away = answered.metrics?.wall_ms ?? Date.now();
            lately.saw('event_away');
        }
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
        setText(at('away'), away === null ? '' : speech.say('away', { time: speech.moment(away) }));
        setAttribute(at('away'), 'hidden', away === null);
        setText(at('notice'), notice?.() ?? '');
        setText(at('link'), away !== null ? '' : instances.ready() === false ? speech.say('not_ready') : speech.say('linked'));
        for (const section of root.querySelectorAll('[data-part]')) {
            const last = answered[section.dataset.part];
            const old = last !== undefined && now_ms() - last.ms > OLD_MS;
            setAttribute(section, 'data-old', old);
            setText(section.querySelector('[data-age]'), old ? speech.say('old', { time: speech.moment(last.wall_ms) }) : '');
        }
    }

    // ---- pollers ----

    const asks = { metrics, ...vouchers.asks, instances: instances.ask, events: lately.ask };
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
    const openForm = () => creation.open();
    at('new').addEventListener('click', openForm);

    function sayAll() {
        figures.say();
        charts.say();
        instances.say();
        lately.say();
        vouchers.localise();
        confirm.say();
        say();
    }

    return {
        open() {
            sayAll();
            void charts.draw(has_charts);
            Object.values(pollers).forEach((poller) => poller.start());
        },
        sayAll,
        close() {
            closed = true;
            Object.values(pollers).forEach((poller) => poller.stop());
            document.removeEventListener('visibilitychange', wakeAll);
            confirm.close();
            creation.close();
            charts.close();
        },
    };
}
