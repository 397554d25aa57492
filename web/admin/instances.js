// Which instances there are, and how they are, from GET /admin/history.
import { element, setText } from '../common/dom.js';
import { createFilled } from './details.js';

export function createInstances({ section, speech }) {
    const fill = createFilled(section.querySelector('[data-instances]'));
    const hint = section.querySelector('[data-instances-hint]');
    let history = null;

    function say() {
        if (history === null) {
            return;
        }
        const { instances, shared, server_time: now } = history;
        const known = speech.say('instances_count', { count: instances.length });
        setText(hint, shared ? known : `${known} ${speech.say('instances_alone')}`);
        const items = instances.map((one) => ({ id: one.name, state: healthOf(one, shared), text: textOf(one, Date.parse(now)) }));
        fill([speech.tag(), items], () => items.map(itemOf));
    }

    function textOf(one, now_ms) {
        const facts = [
            one.name,
            one.version,
            speech.say('instance_reactors', { count: one.reactors }),
            speech.say('instance_age', { age: speech.age(Math.max(0, (now_ms - Date.parse(one.started_at)) / 1000)) }),
            speech.say('instance_journal', { count: one.journal_entries }),
        ];
        return facts.join(' · ');
    }

    function itemOf({ id, state, text }) {
        const badge = element('span', { class: 'badge', data: { health: state } }, speech.say(`health_${state}`));
        return element('li', { data: { instance: id } }, badge, ` ${text}`);
    }

    return {
        say,
        take(last) {
            history = last;
            say();
        },
    };
}

// Of an instance that cannot be heard because Redis is away, nothing is known.
function healthOf({ missed, reactors, reactors_ready: ready, redis_away, postgresql_away }, shared) {
    if (missed) {
        return shared ? 'missed' : 'unknown';
    }
    if (redis_away > 0 || postgresql_away > 0) {
        return redis_away > 0 ? 'redis_away' : 'postgresql_away';
    }
    return ready < reactors ? 'unready' : 'ready';
}
