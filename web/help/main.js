// What each line of the dashboard's severity means, and what to do: the page that it links to.
import { element } from '../common/dom.js';
import { createStorage } from '../common/storage.js';
import { renderWords } from '../common/voice.js';
import { createSpeech } from '../admin/speech.js';
import { KINDS } from '../admin/troubles.js';

// Rows of docs/sale-day.md.
const ALERTS = {
    service_away: 'SeckillDown',
    redis_away: 'SeckillRedisAway',
    postgresql_away: 'SeckillPostgresqlAway',
    not_ready: 'SeckillNotReady',
    books_differ: 'SeckillBooksDiffer',
    dead_letters: 'SeckillDeadLetters',
    instance_missed: 'SeckillDown',
    journal_old: 'SeckillJournalOld',
    audit_stalls: 'SeckillUpkeepStalls',
    webhook_stopped: 'SeckillWebhookStopped',
    webhook_failing: 'SeckillWebhookBehind',
    webhook_behind: 'SeckillWebhookBehind',
};

const speech = createSpeech(createStorage('localStorage'));

function say() {
    renderWords(speech, `seckill · ${speech.say('help_title')}`);
    document.querySelector('[data-help]').replaceChildren(...KINDS.map(sectionOf));
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

function sectionOf(kind) {
    const alert = ALERTS[kind];
    return element('section', { class: 'panel', id: kind },
        element('h2', {}, speech.say(`name_${kind}`)),
        element('p', {}, speech.say(`more_${kind}`)),
        element('p', { class: 'todo' }, speech.say(`do_${kind}`)),
        element('p', { class: 'hint' }, speech.say(alert === undefined ? 'help_where' : 'help_alert', { alert })));
}

document.getElementById('language').addEventListener('click', () => {
    speech.change();
    say();
});
say();
