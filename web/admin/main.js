// The operators' dashboard. The token is typed in, and is known to this page as long as it is open: it stands in no
// storage, no address and no cookie. Without one nothing is asked.
import { setAttribute, setText } from '../common/dom.js';
import { createStorage } from '../common/storage.js';
import { createAdminApi } from './api.js';
import { isAway, isGood, wordsFor } from './answer.js';
import { createBoard } from './board.js';
import { createSpeech } from './speech.js';

const at = (name) => document.querySelector(`[data-${name}]`);
const speech = createSpeech(createStorage('localStorage'));
const emptyBoard = at('board').cloneNode(true);
let board = null, session = null, busy = false; // session: the call of the board that is open

function say() {
    speech.localise(document);
    document.title = `seckill · ${speech.say('title')}`;
    const button = at('language');
    setText(button, speech.language === 'en' ? '中文' : 'English');
    setAttribute(button, 'lang', speech.language === 'en' ? 'zh-CN' : 'en');
}

function fail(key, values) {
    setText(at('login-error'), key === null ? '' : speech.say(key, values));
}

async function logIn(event) {
    event.preventDefault();
    const input = document.getElementById('token');
    const token = input.value.trim();
    if (busy) {
        return;
    }
    if (!/^[!-~]+$/.test(token)) {
        fail('token_characters');
        return;
    }
    busy = true;
    fail(null);
    const call = createAdminApi({ token, ended: () => session === call && logOut('token_ended') });
    const answer = await call('/admin/vouchers?limit=1');
    if (isGood(answer)) {
        input.value = '';
        await open(call);
    } else {
        fail(...reasonOf(answer));
    }
    busy = false;
}

function reasonOf(answer) {
    const words = { UNAUTHENTICATED: 'token_unknown', FORBIDDEN: 'token_forbidden', ADMIN_OFF: 'token_off' }[answer.code];
    if (words !== undefined) {
        return [words];
    }
    return isAway(answer) ? ['token_unasked'] : wordsFor(answer);
}

async function open(call) {
    const { body: settings } = await call('/web/settings.json');
    session = call;
    show(true);
    board = createBoard({ root: document, call, speech, has_charts: settings?.charts });
    board.open();
    document.getElementById('now-title').focus();
}

function show(logged) {
    setAttribute(at('login-section'), 'hidden', logged);
    setAttribute(at('board'), 'hidden', !logged);
    setAttribute(at('logout'), 'hidden', !logged);
    setAttribute(at('skip'), 'hidden', !logged);
}

// What was shown goes, too.
function logOut(key = null) {
    if (board === null) {
        return;
    }
    board.close();
    board = session = null;
    at('board').replaceWith(emptyBoard.cloneNode(true));
    setText(at('link'), '');
    show(false);
    say();
    fail(key);
    document.getElementById('token').focus();
}

at('login').addEventListener('submit', (event) => void logIn(event));
at('logout').addEventListener('click', () => logOut());
at('language').addEventListener('click', () => speech.toggle());
speech.onChange(() => {
    say();
    board?.sayAll();
});
say();
