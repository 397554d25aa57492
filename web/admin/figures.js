// The figures of the moment that have no chart: what is on its way, the books, the process. Each has a text and a state:
// `data-alarm` where an operator should look.
import { element, setAttribute, setText } from '../common/dom.js';
import { awayOf, gaugeOf } from './frame.js';

const most = (a, b) => Math.max(a, b);

// name: [what it is, whether it is alarming]. Those of several instances are added up, ages taken from the oldest.
const TILES = {
    orders: [(f, s) => s.number(gaugeOf(f, 'orders'))],
    journal_entries: [(f, s) => s.number(gaugeOf(f, 'journal_entries')), (f) => gaugeOf(f, 'journal_entries') > 50000],
    journal_oldest: [(f, s) => s.age(gaugeOf(f, 'journal_oldest', most)), (f) => gaugeOf(f, 'journal_oldest', most) > 60],
    books_differ: [(f, s) => s.number(gaugeOf(f, 'books_differ')), (f) => gaugeOf(f, 'books_differ') > 0],
    dead_letters: [(f, s) => s.number(gaugeOf(f, 'dead_letters')), (f) => gaugeOf(f, 'dead_letters') > 0],
    round_age: [(f, s) => ago(gaugeOf(f, 'round_age', most), s), (f) => gaugeOf(f, 'round_age', most) > 30],
    reactors: [(f, s) => share(f, s, 'reactors_ready'), (f) => gaugeOf(f, 'reactors_ready') < gaugeOf(f, 'reactors')],
    redis_links: [(f, s) => links(f, s, 'redis'), (f) => broken(f, 'redis')],
    postgresql_links: [(f, s) => links(f, s, 'postgresql'), (f) => broken(f, 'postgresql')],
    connections: [(f, s) => s.number(gaugeOf(f, 'connections'))],
    streams: [(f, s) => s.number(gaugeOf(f, 'streams'))],
    memory: [(f, s) => s.bytes(gaugeOf(f, 'memory'))],
    cpu: [(f, s, now) => s.percent(now?.cpu ?? null)],
};

function ago(seconds, speech) {
    return seconds === null ? speech.say('none') : speech.say('ago', { time: speech.age(seconds) });
}

function links(frames, speech, store) {
    const n = speech.number(gaugeOf(frames, `${store}_links`)), away = awayOf(frames, store);
    return away.length === 0 ? n : speech.say(`${store}_away`, { n, servers: away.join(', ') });
}

function broken(frames, store) {
    return gaugeOf(frames, `${store}_links`) === 0 || awayOf(frames, store).length > 0;
}

function share(frames, speech, name) {
    return speech.say('of', { n: gaugeOf(frames, name) ?? '', all: gaugeOf(frames, 'reactors') ?? '' });
}

export function createFigures({ list, scope, speech }) {
    const tiles = Object.entries(TILES).map(([name, [text, alarming]]) => {
        const label = element('dt');
        const value = element('dd', { data: { metric: name } });
        const tile = element('div', {}, label, value);
        list.append(tile);
        return { name, text, alarming, label, value, tile };
    });
    let frames = [], now = null;

    function say() {
        for (const { name, text, alarming, label, value, tile } of tiles) {
            setText(label, speech.say(name));
            setText(value, frames.length === 0 ? speech.say('none') : text(frames, speech, now));
            setAttribute(tile, 'data-alarm', frames.length > 0 && alarming?.(frames) === true);
        }
        setText(scope, scopeText());
    }

    function scopeText() {
        if (frames.length === 0) {
            return '';
        }
        if (frames.length > 1) {
            return speech.say('scope_many', { count: frames.length });
        }
        const { process, version } = frames[0];
        return speech.say('scope_one', { time: speech.moment(process * 1000), version: version ?? speech.say('unknown') });
    }

    return {
        say,
        take(taken, latest) {
            frames = taken;
            now = latest;
            say();
        },
    };
}
