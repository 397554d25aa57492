// How the dashboard speaks: its words, and numbers and times in the language that is chosen.
import { createVoice } from '../common/voice.js';
import { reasons, words } from './words.js';

const STEPS = [
    ['day', 86400],
    ['hour', 3600],
    ['minute', 60],
    ['second', 1],
];

export function createSpeech(storage) {
    const formats = new Map();
    const voice = createVoice(words, storage);
    const { say, tag } = voice;

    function known(value, make) {
        return value === null || value === undefined ? say('none') : make();
    }

    function format(options, value) {
        return known(value, () => formatOf(options).format(value));
    }

    // Making one takes far longer than using it.
    function formatOf(options) {
        const key = tag() + JSON.stringify(options);
        if (!formats.has(key)) {
            formats.set(key, new Intl.NumberFormat(tag(), options));
        }
        return formats.get(key);
    }

    function unit(name, value, digits) {
        return format({ style: 'unit', unit: name, unitDisplay: 'short', maximumFractionDigits: digits }, value);
    }

    function age(seconds) {
        const [name, length] = STEPS.find(([, least]) => seconds >= 2 * least) ?? STEPS[STEPS.length - 1];
        return length === 1 ? unit(name, seconds, 1) : unit(name, Math.floor(seconds / length), 0);
    }

    const number = (value) => format({ maximumFractionDigits: 0 }, value);

    return {
        ...voice,
        // What the service names, as it names it if there are no words for that.
        name: (prefix, name) => (words.en[`${prefix}_${name}`] !== undefined ? say(`${prefix}_${name}`) : String(name)),
        number,
        rate: (value) => known(value, () => say('per_second', { n: format({ maximumFractionDigits: value < 10 ? 1 : 0 }, value) })),
        ms: (value) => unit('millisecond', value, value < 10 ? 2 : value < 100 ? 1 : 0),
        bytes: (value) => known(value, () => unit('megabyte', value / 1048576, 1)),
        percent: (value) => format({ style: 'percent', maximumFractionDigits: 0 }, value),
        age: (seconds) => known(seconds, () => age(seconds)),
        moment: (ms) => voice.moment(ms, Date.now()),
        list: (items) => new Intl.ListFormat(tag(), { type: 'conjunction' }).format(items.map(String)),
        units: (value) => known(value, () => say('n_units', { n: number(value) })),
        // A number at an axis, with its unit: rate, ms or units.
        tick(of, value) {
            const n = format({ notation: 'compact', maximumSignificantDigits: 3 }, value);
            return say({ rate: 'per_second', ms: 'n_ms', units: 'n_units' }[of], { n });
        },
        // What the service says of a member that it refuses, where there are words for it.
        reason: (detail) => (tag() === 'en' ? detail : (reasons[detail] ?? detail)),
    };
}
