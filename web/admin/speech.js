// How the dashboard speaks: words, numbers and times in the language that is chosen.
import { LANGUAGES, createSay, formatMoment, formatMoney, keepLanguage, pageLanguage } from '../common/language.js';
import { setAttribute, setText } from '../common/dom.js';
import { reasons, words } from './words.js';

const STEPS = [
    ['day', 86400],
    ['hour', 3600],
    ['minute', 60],
    ['second', 1],
];

export function createSpeech(storage) {
    const listeners = [];
    const formats = new Map();
    const speech = {
        language: pageLanguage(storage),
        onChange: (listener) => listeners.push(listener),
        toggle,
        has: (key) => Object.hasOwn(words.en, key),
        say: (key, values) => say(key, values),
        // What the service names, as it names it if there are no words for that.
        name: (prefix, name) => (speech.has(`${prefix}_${name}`) ? say(`${prefix}_${name}`) : String(name)),
        tag: () => LANGUAGES[speech.language],
        number: (value, most = 0) => format({ maximumFractionDigits: most }, value),
        short: (value) => format({ notation: 'compact', maximumSignificantDigits: 3 }, value),
        rate: (value) => known(value, () => say('per_second', { n: format({ maximumFractionDigits: value < 10 ? 1 : 0 }, value) })),
        ms: (value) => unit('millisecond', value, value < 10 ? 2 : value < 100 ? 1 : 0),
        bytes: (value) => known(value, () => unit('megabyte', value / 1048576, 1)),
        percent: (value) => format({ style: 'percent', maximumFractionDigits: 0 }, value),
        age: (seconds) => known(seconds, () => age(seconds)),
        moment: (ms) => formatMoment(ms, Date.now(), speech.language),
        money: (cents, currency) => formatMoney(cents, currency, speech.language),
        list: (items) => new Intl.ListFormat(speech.tag(), { type: 'conjunction' }).format(items.map(String)),
        units: (value) => known(value, () => say('n_units', { n: format({ maximumFractionDigits: 0 }, value) })),
        // A number at an axis, with its unit: rate, ms or units.
        tick: (of, value) => say({ rate: 'per_second', ms: 'n_ms', units: 'n_units' }[of], { n: speech.short(value) }),
        // What the service says of a member that it refuses, where there are words for it.
        reason: (detail) => (speech.language === 'en' ? detail : (reasons[detail] ?? detail)),
        localise,
    };
    let say = createSay(words, speech.language);

    function toggle() {
        speech.language = speech.language === 'en' ? 'zh' : 'en';
        say = createSay(words, speech.language);
        keepLanguage(storage, speech.language);
        listeners.forEach((listener) => listener());
    }

    function known(value, make) {
        return value === null || value === undefined ? say('none') : make();
    }

    function format(options, value) {
        return known(value, () => formatOf(options).format(value));
    }

    // Making one takes far longer than using it.
    function formatOf(options) {
        const key = speech.tag() + JSON.stringify(options);
        if (!formats.has(key)) {
            formats.set(key, new Intl.NumberFormat(speech.tag(), options));
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

    // Fills in what stands still: text of data-say below `root`, and hints within fields.
    function localise(root) {
        for (const at of root.querySelectorAll('[data-say]')) {
            setText(at, say(at.dataset.say));
        }
        for (const at of root.querySelectorAll('[data-say-hint]')) {
            setAttribute(at, 'placeholder', say(at.dataset.sayHint));
        }
        setAttribute(document.documentElement, 'lang', speech.tag());
    }

    return speech;
}
