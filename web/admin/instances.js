// Which instances there are, from GET /admin/instances, where each session is a row; and which of them the page has seen
// and does not see any more. Of those that answer at this address it also knows how they are (frame.js).
import { element, setText } from '../common/dom.js';
import { createFilled } from './details.js';
import { shortOf } from './frame.js';

const KEPT_MS = 15 * 60 * 1000; // how long one that is gone is shown

// Instances: {name, version, started_at, threads, state, gone_ms}, gone_ms being how long ago it was listed last. One that is
// `alive` renews its sessions; one that has stopped to is `silent`, and `missed` once the list drops it. One that is
// `gone` was dropped while it was alive: it ended by itself, or the page did not look. `unknown`: the list cannot be read.
export function createSeen() {
    let seen = new Map();

    return {
        // rows: of the answer; null: there was none.
        take(rows, now_ms) {
            const before = seen;
            seen = new Map();
            for (const row of (rows ?? []).filter(({ name }) => name !== undefined)) {
                const { name, version, started_at } = row, same = seen.get(name);
                const silent = row.renewed_ago_ms > row.ttl_ms / 2;
                if (same?.started_at === started_at) {
                    same.threads++;
                    same.state = silent ? same.state : 'alive';
                } else if (same === undefined || same.started_at < started_at) {
                    seen.set(name, { name, version, started_at, threads: 1, state: silent ? 'silent' : 'alive', at_ms: now_ms });
                }
            }
            for (const [name, one] of before) {
                if (!seen.has(name) && now_ms - one.at_ms <= KEPT_MS) {
                    const state = rows === null ? 'unknown' : one.state === 'silent' || one.state === 'missed' ? 'missed' : 'gone';
                    seen.set(name, { ...one, state });
                }
            }
            return [...seen.values()].map((one) => ({ ...one, gone_ms: now_ms - one.at_ms }));
        },
    };
}

export function createInstances({ section, speech }) {
    const fill = createFilled(section.querySelector('[data-instances]'));
    const hint = section.querySelector('[data-instances-hint]');
    let known = null, frames = [], now_ms = null;

    function say() {
        if (known === null) {
            return;
        }
        const living = known.filter(({ state }) => state === 'alive' || state === 'silent').length;
        setText(hint, `${speech.say('instances_count', { count: living })} ${speech.say('instances_scope')}`);
        const items = known.map((one) => ({ id: one.name, state: healthOf(one, frames), text: textOf(one) }));
        fill([speech.tag(), items], () => items.map(itemOf));
    }

    function textOf({ name, version, threads, started_at }) {
        const age = speech.age(Math.max(0, (now_ms - Date.parse(started_at)) / 1000));
        return [name, version, speech.say('instance_reactors', { count: threads }), speech.say('instance_age', { age })].join(' · ');
    }

    function itemOf({ id, state, text }) {
        const badge = element('span', { class: 'badge', data: { health: state } }, speech.say(`health_${state}`));
        return element('li', { data: { instance: id } }, badge, ` ${text}`);
    }

    return {
        say,
        // rows: of createSeen(). answered: frames of the processes that have answered. server_ms: the service's time.
        take(rows, answered, server_ms) {
            known = rows;
            frames = answered;
            now_ms = server_ms;
            say();
        },
    };
}

// One that has answered is known by the time of its start.
export function healthOf({ state, started_at }, frames) {
    const frame = frames.find(({ process }) => Math.round(process * 1000) === Date.parse(started_at));
    if (frame === undefined) {
        return state;
    }
    if (shortOf(frame, 'redis')) {
        return 'redis_away';
    }
    return shortOf(frame, 'postgresql') ? 'postgresql_away' : frame.gauges.reactors_ready < frame.gauges.reactors ? 'unready' : 'ready';
}
