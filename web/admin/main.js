// The operators' dashboard. The token is typed in, and lives as long as its tab: it stands in the tab's session storage,
// so that a reload in the night does not ask for it again, and in no other storage, no address and no cookie. Only
// scripts of this page's own origin can read it, and the Content-Security-Policy lets no others run. Without a token
// nothing is asked.
import { setAttribute, setText } from '../common/dom.js';
import { createStorage } from '../common/storage.js';
import { renderWords } from '../common/voice.js';
import { createAdminApi } from './api.js';
import { isAway, isGood, mayRepeat, wordsFor } from './answer.js';
import { createBoard } from './board.js';
import { createSpeech } from './speech.js';

const at = (name) => document.querySelector(`[data-${name}]`);
const TOKEN = 'seckill.admin';
const speech = createSpeech(createStorage('localStorage'));
const kept = createStorage('sessionStorage');
const emptyBoard = at('board').cloneNode(true);
let board = null, session = null, busy = false; // session: the call of the board that is open

function say() {
    renderWords(speech, `seckill · ${speech.say('title')}`);
    board?.sayAll();
}

function fail(key, values) {
    setText(at('login-error'), key === null ? '' : speech.say(key, values));
}

async function logIn(token) {
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
    const answer = await call('/admin/me');
    if (isGood(answer)) {
        document.getElementById('token').value = '';
        kept.set(TOKEN, token);
        open(call, answer.body.roles);
    } else {
        if (!mayRepeat(answer)) {
            kept.remove(TOKEN);
        }
        fail(...reasonOf(answer));
    }
    busy = false;
}

// Of a tab that was loaded again. An answer that did not come leaves the token where it is: reload once more.
function resume() {
    const token = kept.get(TOKEN);
    if (token !== null) {
        void logIn(token);
    }
}

function reasonOf(answer) {
    const words = { UNAUTHENTICATED: 'token_unknown', FORBIDDEN: 'token_forbidden', ADMIN_OFF: 'token_off' }[answer.code];
    if (words !== undefined) {
        return [words];
    }
    return isAway(answer) ? ['token_unasked'] : wordsFor(answer);
}

function open(call, roles) {
    session = call;
    show(true);
    board = createBoard({ root: document, call, roles, speech });
    board.open();
    document.getElementById('severity-title').focus();
}

function show(logged) {
    setAttribute(at('login-section'), 'hidden', logged);
    setAttribute(at('board'), 'hidden', !logged);
    setAttribute(at('logout'), 'hidden', !logged);
    setAttribute(at('skip'), 'hidden', !logged);
}

// What was shown goes, too.
function logOut(key = null) {
    kept.remove(TOKEN);
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

at('login').addEventListener('submit', (event) => {
    event.preventDefault();
    void logIn(document.getElementById('token').value.trim());
});
at('logout').addEventListener('click', () => logOut());
document.getElementById('language').addEventListener('click', () => {
    speech.change();
    say();
});
say();
resume();
