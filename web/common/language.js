// In which language a page speaks: ?lang=, what was chosen by hand before, or what the browser asks for first.

export const LANGUAGES = { en: 'en', zh: 'zh-CN' };
const KEY = 'seckill.lang';

export function chooseLanguage({ search = '', stored = null, preferred = [] }) {
    const asked = new URLSearchParams(search).get('lang');
    for (const tag of [asked, stored, ...preferred]) {
        const short = String(tag ?? '').toLowerCase().split('-')[0];
        if (Object.keys(LANGUAGES).includes(short)) {
            return short;
        }
    }
    return 'en';
}

export function pageLanguage(storage) {
    const search = location.search;
    const language = chooseLanguage({ search, stored: storage.get(KEY), preferred: navigator.languages ?? [] });
    if (new URLSearchParams(search).get('lang') === language) {
        storage.set(KEY, language);
    }
    return language;
}

export function keepLanguage(storage, language) {
    storage.set(KEY, language);
}

// `words` is {en: {key: text}, zh: {key: text}}. Gives say(key, {name: value}), which puts values for {name}. What is
// counted has two keys in both languages, key.one and key.other, and is asked for with `count`.
export function createSay(words, language) {
    const plural = new Intl.PluralRules(LANGUAGES[language]);
    const number = new Intl.NumberFormat(LANGUAGES[language]);
    return function say(key, values = {}) {
        const form = values.count === undefined ? '' : `.${plural.select(values.count) === 'one' ? 'one' : 'other'}`;
        const text = words[language][key + form] ?? words[language][key];
        if (text === undefined) {
            throw new Error(`no words for ${key}${form}`);
        }
        return text.replace(/\{(\w+)\}/g, (_, name) => {
            const value = values[name];
            return typeof value === 'number' ? number.format(value) : String(value ?? '');
        });
    };
}

// A moment in the reader's own zone; the date only if it is another day.
export function formatMoment(ms, nowMs, language) {
    const options = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' };
    if (new Date(ms).toDateString() !== new Date(nowMs).toDateString()) {
        Object.assign(options, { year: 'numeric', month: 'short', day: 'numeric' });
    }
    return new Intl.DateTimeFormat(LANGUAGES[language], options).format(ms);
}
