// The form of a voucher's terms: of a new one, or of one that is changed. Trying again after no answer does it once: the
// same terms have the same key. What the service refuses stands beside the field that it names.
import { isOff, setAttribute, setOff, setText } from '../common/dom.js';
import { isGood, mayRepeat, wordsFor } from './answer.js';
import { createKeys } from './api.js';
import { changesOf, fieldsOf, localTime, termsOf } from './terms.js';

const HOUR_MS = 3600 * 1000;
const ONCE = ['stock', 'scope']; // of a new voucher alone
const FREEZE = ['price', 'currency', 'begin', 'limit', 'pay_within']; // when the sale begins

// The field of a member, as the service's pointers name it.
const FIELDS = { price_cents: 'price', begin_at: 'begin', end_at: 'end', more_at: 'more', pay_within_s: 'pay_within', extend_s: 'extend' };

// now_ms(): the service's clock, as far as it is known. done(voucher, isNew): it is created, or changed. refresh(voucher):
// it may be another one now.
export function createForm({ dialog, call, speech, now_ms, done, refresh }) {
    const part = (name) => dialog.querySelector(`[data-${name}]`);
    const inputs = [...dialog.querySelectorAll('[data-field]')];
    const go = part('go'), error = part('form-error'), question = part('at-once');
    let keyOf = createKeys(), changed = null, sure = null; // changed: {voucher, etag}; null: a new one. sure: the terms that were asked about

    const input = (name) => inputs.find((at) => at.dataset.field === name);
    // A time that is half filled in reads as empty: it is wrong, not left out.
    const textOf = (at) => (at.validity?.badInput ? '?' : at.value);
    const texts = () => Object.fromEntries(inputs.map((at) => [at.dataset.field, at.type === 'checkbox' ? at.checked : textOf(at)]));

    function open(what = null) {
        changed = what;
        keyOf = createKeys();
        fill(what === null ? newFields() : fieldsOf(what.voucher));
        const started = what !== null && Date.parse(what.voucher.begin_at) <= now_ms();
        for (const at of inputs) {
            const { field } = at.dataset;
            at.disabled = what !== null && (ONCE.includes(field) || (started && FREEZE.includes(field)));
        }
        setAttribute(part('frozen'), 'hidden', !started);
        ONCE.forEach((field) => setAttribute(part(`${field}-field`), 'hidden', what !== null));
        setOff(go, false);
        ask(null);
        refused({});
        say();
        dialog.showModal();
    }

    // Not now: a sale that begins when the button is pressed has sold before its terms were read again.
    function newFields() {
        const begin = Math.ceil((now_ms() + HOUR_MS / 2) / HOUR_MS) * HOUR_MS;
        return { title: '', stock: '100', scope: '', price: '1.00', currency: 'CNY', begin: localTime(begin), end: localTime(begin + HOUR_MS),
            more: '', waitlist: '', limit: '1', orders_per_user: '3', pay_within: '900', extend: '120', ticket: false, work_bits: '0',
            description: '', picture: '' };
    }

    function fill(fields) {
        for (const at of inputs) {
            const value = fields[at.dataset.field];
            if (at.type === 'checkbox') {
                at.checked = value;
            } else {
                at.value = value;
            }
        }
    }

    function say() {
        setText(part('form-title'), speech.say(changed === null ? 'new_voucher' : 'change_of', { title: changed?.voucher.title }));
        setText(go, speech.say(sure !== null ? 'sell_now' : changed === null ? 'create' : 'change'));
    }

    // `reasons`: name of a member -> why it is refused. What no field shows stands below.
    function refused(reasons, rest = '') {
        const byField = Object.fromEntries(Object.entries(reasons).map(([name, why]) => [FIELDS[name] ?? name, why]));
        for (const at of inputs) {
            const why = byField[at.dataset.field];
            setAttribute(at, 'aria-invalid', why === undefined ? null : 'true');
            setText(dialog.querySelector(`[data-error-of="${at.dataset.field}"]`), why ?? '');
        }
        setText(error, rest);
        inputs.find((at) => byField[at.dataset.field] !== undefined)?.focus();
    }

    // Terms under which the sale begins at once are asked about first: null takes the question back.
    function ask(json) {
        sure = json;
        setAttribute(question, 'hidden', json === null);
        setText(question, json === null ? '' : speech.say('at_once'));
        say();
    }

    async function send() {
        if (isOff(go)) {
            return;
        }
        const { terms, wrong = [] } = termsOf(texts());
        if (wrong.length > 0) {
            ask(null);
            refused(Object.fromEntries(wrong.map((name) => [name, speech.say(`must_${name}`)])), speech.say('form_wrong'));
            return;
        }
        const sent = changed === null ? terms : changesOf(changed.voucher, terms);
        const json = JSON.stringify(sent);
        refused({});
        if (Object.keys(sent).length === 0) {
            setText(error, speech.say('nothing_changed'));
            return;
        }
        if (sent.begin_at !== undefined && Date.parse(sent.begin_at) <= now_ms() && sure !== json) {
            ask(json);
            return;
        }
        setOff(go, true);
        const isNew = changed === null, mine = keyOf;
        const request = { method: isNew ? 'POST' : 'PATCH', json, key: keyOf(json), etag: changed?.etag };
        const answer = await call(isNew ? '/admin/vouchers' : `/admin/vouchers/${changed.voucher.id}`, request);
        if (mine === keyOf && dialog.open) {
            setOff(go, false);
            finish(answer);
        } else if (isGood(answer)) { // the dialog was closed meanwhile
            done(answer.body, isNew);
        }
    }

    function finish(answer) {
        if (isGood(answer)) {
            dialog.close();
            done(answer.body, changed === null);
            return;
        }
        if (!mayRepeat(answer)) { // the same terms may be pressed again after no answer, without another question
            ask(null);
        }
        const reasons = Object.fromEntries((answer.body?.errors ?? []).map(({ pointer, detail }) => [pointer.slice(1), speech.reason(detail)]));
        const known = Object.keys(reasons).filter((name) => input(FIELDS[name] ?? name) !== undefined);
        refused(reasons, known.length > 0 ? speech.say('form_wrong') : speech.say(...wordsFor(answer)));
        if (answer.code === 'VERSION_CHANGED') {
            refresh(changed.voucher);
        }
    }

    dialog.querySelector('form').addEventListener('submit', (event) => {
        event.preventDefault();
        void send();
    });
    dialog.addEventListener('input', () => sure !== null && ask(null));
    part('cancel').addEventListener('click', () => dialog.close());
    return { open, say, close: () => dialog.open && dialog.close() };
}
