// Nothing is done to a voucher before an operator has confirmed it. What is confirmed is what was shown: the request
// carries the ETag of that moment, so that two operators do not undo each other's work, and a key, so that trying again
// after no answer does it once.
import { element, isOff, setAttribute, setOff, setText } from '../common/dom.js';
import { isGood, mayRepeat, wordsFor } from './answer.js';
import { createKeys } from './api.js';
import { wholeOf } from './terms.js';

const UNITS_MAX = 100000000;
const REBUILD_MS = 90000; // the service gives a rebuild a minute

// `changes`: the call takes If-Match and Idempotency-Key. `states`: of the voucher, in which it makes sense. `form`: it has
// a form of its own (form.js). Expiry is held or released of a voucher, or of all.
export const ACTIONS = {
    pause: { changes: true, states: ['open'] },
    resume: { changes: true, states: ['paused'] },
    change: { states: ['open', 'paused'], form: true },
    stock: { changes: true, states: ['open', 'paused'], amount: true },
    close: { changes: true, states: ['open', 'paused'] },
    reconcile: { states: ['open', 'paused', 'closed'], timeout_ms: REBUILD_MS },
    hold_expiry: { states: ['open', 'paused', 'closed'] },
    release_expiry: {},
    requeue: { letter: true },
    write_off: { letter: true },
};

function pathOf(name, { voucher, letter }) {
    const of = voucher === undefined ? '/admin' : `/admin/vouchers/${voucher.id}`;
    return `${of}/${letter === undefined ? '' : `dead-letters/${letter.id}/`}${name.replace('_', '-')}`;
}

// done(asked, answer): it was carried out; refresh(asked): it was not, and what is shown may be old.
export function createConfirm({ dialog, call, speech, done, refresh }) {
    const part = (selector) => dialog.querySelector(selector);
    const heading = part('h2'), text = part('#confirm-text'), error = part('[data-confirm-error]');
    const amount = part('[data-amount]'), units = part('#units'), go = part('[data-go]'), cancel = part('[data-cancel]');
    let asked = null, keyOf = null, ended = true;

    function open(what) {
        asked = what;
        keyOf = createKeys();
        ended = false;
        units.value = '';
        part('[value=add]').checked = true;
        setOff(go, false);
        fail('');
        setAttribute(amount, 'hidden', ACTIONS[asked.action].amount !== true);
        setAttribute(go, 'hidden', false);
        say();
        dialog.showModal();
    }

    function say() {
        if (asked === null) {
            return;
        }
        const { action, voucher, letter } = asked;
        const values = { title: voucher?.title ?? speech.say('all_vouchers'), left: voucher?.left ?? voucher?.remaining, letter: letter?.id };
        setText(heading, speech.say(action));
        setText(text, speech.say(`${action}_text`, values));
        setText(go, speech.say(action));
        setText(cancel, speech.say('cancel'));
    }

    function fail(why) {
        setText(error, why);
        setAttribute(units, 'aria-invalid', false);
    }

    // undefined: the call has no body; null: what was typed in is no number of units.
    function bodyOf() {
        if (ACTIONS[asked.action].amount !== true) {
            return undefined;
        }
        const count = wholeOf(units.value, 1);
        const direction = part('[name=direction]:checked').value;
        return count === null || count > UNITS_MAX ? null : JSON.stringify({ [direction]: count });
    }

    async function send() {
        const json = bodyOf();
        if (isOff(go) || ended) {
            return;
        }
        if (json === null) {
            fail(speech.say('units_wrong'));
            setAttribute(units, 'aria-invalid', 'true');
            units.focus();
            return;
        }
        const { changes, timeout_ms } = ACTIONS[asked.action];
        const sent = asked;
        const request = { method: 'POST', json, timeout_ms };
        if (changes) {
            Object.assign(request, { key: keyOf(json ?? ''), etag: asked.etag });
        }
        fail('');
        setOff(go, true);
        setText(go, speech.say('working'));
        const answer = await call(pathOf(asked.action, asked), request);
        if (sent === asked && !ended) {
            setOff(go, false);
            finish(answer);
        } else if (isGood(answer)) { // the dialog was closed meanwhile
            done(sent, answer);
        }
    }

    function finish(answer) {
        if (isGood(answer)) {
            ended = true;
            dialog.close();
            done(asked, answer);
            return;
        }
        say();
        fail(speech.say(...wordsFor(answer)));
        const again = mayRepeat(answer) || answer.code === 'BELOW_SOLD';
        setAttribute(go, 'hidden', !again);
        setText(go, speech.say('try_again'));
        setText(cancel, speech.say(again ? 'cancel' : 'close_dialog'));
        if (!again) {
            cancel.focus();
        }
    }

    part('form').addEventListener('submit', (event) => {
        event.preventDefault();
        void send();
    });
    cancel.addEventListener('click', () => dialog.close());
    dialog.addEventListener('close', () => {
        if (!ended) {
            ended = true;
            refresh(asked);
        }
    });
    return { open, say, close: () => dialog.open && dialog.close() };
}

// The button of an action; it opens the dialog, and stays where it is when the state does not allow the action. An
// operator who may not do it is not offered it.
export function actionButton(action, speech, press) {
    const button = element('button', { type: 'button', class: 'quiet', data: { action } });
    button.addEventListener('click', () => isOff(button) || press());
    return {
        button,
        say(title, state, may = true) {
            const { states } = ACTIONS[action] ?? {};
            setAttribute(button, 'hidden', !may);
            setText(button, speech.say(action));
            setAttribute(button, 'aria-label', speech.say('action_of', { action: speech.say(action), title }));
            setOff(button, states !== undefined && !states.includes(state));
        },
    };
}
