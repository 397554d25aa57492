// Which instances live, and how they are. Where the service does not list them, those are shown that have answered this
// page, by their metrics.
import { element, setText } from '../common/dom.js';
import { isGood } from './answer.js';
import { createFilled } from './details.js';
import { instancesOf } from './roster.js';

export function createInstances({ section, speech, call }) {
    const fill = createFilled(section.querySelector('[data-instances]'));
    const hint = section.querySelector('[data-instances-hint]');
    let listed = null, unlisted = false, ready = null, frames = [];

    async function ask() {
        const health = await call('/readyz');
        ready = health.status === 0 ? null : isGood(health);
        const answer = unlisted ? null : await call('/admin/instances');
        unlisted = unlisted || answer.status === 404;
        listed = answer !== null && isGood(answer) ? answer.body : listed;
        say();
        return health.status !== 0 && (unlisted || isGood(answer));
    }

    function say() {
        const rows = listed === null ? frames.map(ownRow) : instancesOf(listed, frames.map((frame) => frame.process * 1000));
        setText(hint, listed === null ? speech.say('instances_here') : speech.say('instances_count', { count: rows.length }));
        const items = rows.map((row) => ({ id: row.id, state: stateOf(row), text: textOf(row) }));
        fill(items, () => items.map(itemOf));
    }

    const ownRow = ({ process, version, gauges }) =>
        ({ id: String(process), version: version ?? undefined, reactors: gauges.reactors ?? undefined, self: true });

    function stateOf({ self, late }) {
        if (self && ready !== null) {
            return ready ? 'healthy' : 'unhealthy';
        }
        return late ? 'late' : 'alive';
    }

    function textOf({ id, version, age_s, reactors, renewed_ms, self }) {
        const facts = [
            id,
            self ? speech.say('instance_this') : undefined,
            version,
            reactors === undefined ? undefined : speech.say('instance_reactors', { count: reactors }),
            age_s === undefined ? undefined : speech.say('instance_age', { age: speech.age(age_s) }),
            renewed_ms === undefined ? undefined : speech.say('instance_renewed', { age: speech.age(renewed_ms / 1000) }),
        ];
        return facts.filter((fact) => fact !== undefined).join(' · ');
    }

    function itemOf({ id, state, text }) {
        const badge = element('span', { class: 'badge', data: { health: state } }, speech.say(state));
        return element('li', { data: { instance: id } }, badge, ` ${text}`);
    }

    return {
        ask,
        say,
        // The processes that have answered lately.
        take: (taken) => (frames = taken),
        ready: () => ready,
    };
}
