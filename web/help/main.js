// What each line of the dashboard's severity means, and what to do: the page that it links to.
import { element, setAttribute, setText } from '../common/dom.js';
import { createStorage } from '../common/storage.js';
import { createSpeech } from '../admin/speech.js';
import { KINDS } from '../admin/troubles.js';

const speech = createSpeech(createStorage('localStorage'));
const list = document.querySelector('[data-help]');
const button = document.querySelector('[data-language]');

function say() {
    speech.localise(document);
    document.title = `seckill · ${speech.say('help_title')}`;
    setText(button, speech.language === 'en' ? '中文' : 'English');
    setAttribute(button, 'lang', speech.language === 'en' ? 'zh-CN' : 'en');
    list.replaceChildren(...Object.entries(KINDS).map(sectionOf));
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

function sectionOf([kind, { alert }]) {
    const where = speech.language === 'en' ? 'docs/operations.md' : 'docs/operations.zh-CN.md';
    const source = alert === undefined ? speech.say('help_where', { where }) : speech.say('help_alert', { where, alert });
    return element('section', { class: 'panel', id: kind },
        element('h2', {}, speech.say(`name_${kind}`)),
        element('p', {}, speech.say(`more_${kind}`)),
        element('p', { class: 'todo' }, speech.say(`do_${kind}`)),
        element('p', { class: 'hint' }, source));
}

button.addEventListener('click', () => speech.toggle());
speech.onChange(say);
say();
