// The form of a new voucher. Trying again after no answer makes one voucher: the same terms have the same key.
import { isOff, setAttribute, setOff, setText } from '../common/dom.js';
import { isGood, wordsFor } from './answer.js';
import { createKeys } from './api.js';
import { localTime, termsOf } from './terms.js';

const HOUR_MS = 3600 * 1000;

// The field of a member, as the service's pointers name it.
const FIELDS = { price_cents: 'price', begin_at: 'begin', end_at: 'end', pay_within_s: 'pay_within' };

// now_ms(): the service's clock, as far as it is known. done(voucher): it is created.
export function createCreation({ dialog, call, speech, now_ms, done }) {
    const inputs = [...dialog.querySelectorAll('[data-field]')];
    const error = dialog.querySelector('[data-create-error]');
    const go = dialog.querySelector('[data-go]');
    let keyOf = createKeys();

    function open() {
        const begin = Math.floor(now_ms() / 1000) * 1000;
        keyOf = createKeys();
        input('begin').value = localTime(begin);
        input('end').value = localTime(begin + HOUR_MS);
        mark([]);
        setText(error, '');
        dialog.showModal();
    }

    const input = (name) => inputs.find((at) => at.dataset.field === name);

    // `wrong`: names of members.
    function mark(wrong) {
        const fields = wrong.map((name) => FIELDS[name] ?? name);
        for (const at of inputs) {
            setAttribute(at, 'aria-invalid', fields.includes(at.dataset.field) ? 'true' : null);
        }
        inputs.find((at) => fields.includes(at.dataset.field))?.focus();
    }

    async function send() {
        if (isOff(go)) {
            return;
        }
        const { terms, wrong = [] } = termsOf(Object.fromEntries(inputs.map((at) => [at.dataset.field, at.value])));
        mark(wrong);
        setText(error, wrong.length === 0 ? '' : speech.say('form_wrong'));
        if (wrong.length > 0) {
            return;
        }
        const json = JSON.stringify(terms);
        setOff(go, true);
        const answer = await call('/admin/vouchers', { method: 'POST', json, key: keyOf(json) });
        setOff(go, false);
        if (isGood(answer)) {
            dialog.close();
            done(answer.body);
            return;
        }
        setText(error, speech.say(...wordsFor(answer)));
        mark((answer.body?.errors ?? []).map(({ pointer }) => pointer.slice(1)));
    }

    dialog.querySelector('form').addEventListener('submit', (event) => {
        event.preventDefault();
        void send();
    });
    dialog.querySelector('[data-cancel]').addEventListener('click', () => dialog.close());
    return { open, close: () => dialog.open && dialog.close() };
}
