// What a page says, in the language that its reader has: a voice, and the words that stand in the document.
import { setAttribute, setText } from './dom.js';
import { formatMoney } from '../client/money.js';
import { createSay, formatMoment, keepLanguage, LANGUAGES, pageLanguage } from './language.js';

// `words` as of createSay(), `storage` where a choice by hand is kept.
export function createVoice(words, storage) {
    let language = pageLanguage(storage);
    let say = createSay(words, language);
    const other = () => (language === 'en' ? 'zh' : 'en');

    return {
        say: (key, values) => say(key, values),
        number: (value) => new Intl.NumberFormat(LANGUAGES[language]).format(value),
        money: (cents, currency) => formatMoney(cents, currency, LANGUAGES[language]),
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

// What stands in the document, and the button that changes the language, which names the other one in its own words.
// The page runs now, so it does not need to say which browsers it needs; the youngest thing that it needs is <dialog>.
export function renderWords(voice, title = voice.say('page.title')) {
    if (typeof HTMLDialogElement === 'function') {
        document.querySelector('.needs')?.remove();
    }
    document.documentElement.lang = voice.tag();
    document.title = title;
    renderMarked(voice, document);
    const button = document.getElementById('language');
    button.lang = voice.otherTag();
    setText(button, voice.say('language.other'));
    setAttribute(button, 'aria-label', voice.say('language.label'));
}

// Below `root`: the texts that data-say names, and the hints of fields that data-say-hint names.
export function renderMarked(voice, root) {
    for (const marked of root.querySelectorAll('[data-say]')) {
        setText(marked, voice.say(marked.dataset.say));
    }
    for (const field of root.querySelectorAll('[data-say-hint]')) {
        setAttribute(field, 'placeholder', voice.say(field.dataset.sayHint));
    }
}
