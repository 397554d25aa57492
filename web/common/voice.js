// What a page says, in the language that its reader has: a voice, and the words that stand in the document.
import { setAttribute, setText } from './dom.js';
import { createSay, formatMoment, formatMoney, keepLanguage, LANGUAGES, pageLanguage } from './language.js';

// `words` as of createSay(), `storage` where a choice by hand is kept.
export function createVoice(words, storage) {
    let language = pageLanguage(storage);
    let say = createSay(words, language);
    const other = () => (language === 'en' ? 'zh' : 'en');

    return {
        say: (key, values) => say(key, values),
        number: (value) => new Intl.NumberFormat(LANGUAGES[language]).format(value),
        money: (cents, currency) => formatMoney(cents, currency, language),
        moment: (ms, now) => formatMoment(ms, now ?? ms, language),
        tag: () => LANGUAGES[language],
        otherTag: () => LANGUAGES[other()],
        change() {
            language = other();
            say = createSay(words, language);
            keepLanguage(storage, language);
        },
    };
}

// What stands in the document and says in data-say of which words it is; and the button that changes the language,
// which names the other one in its own words.
export function renderWords(voice) {
    document.documentElement.lang = voice.tag();
    document.title = voice.say('page.title');
    for (const marked of document.querySelectorAll('[data-say]')) {
        setText(marked, voice.say(marked.dataset.say));
    }
    const button = document.getElementById('language');
    button.lang = voice.otherTag();
    setText(button, voice.say('language.other'));
    setAttribute(button, 'aria-label', voice.say('language.label'));
}
