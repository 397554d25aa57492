// The one line that says whether sales can sell, the books can balance and receivers get their events: in words, with what
// to do next, and where that is described at length.
import { element, setText } from '../common/dom.js';
import { createFilled } from './details.js';
import { gradeOf } from './troubles.js';

const NAMED_MAX = 3; // vouchers in one sentence

// titleOf(id): of a voucher; undefined: not known. press(id): a voucher was named.
export function createSeverity({ section, speech, titleOf, press }) {
    const heading = section.querySelector('[data-severity-title]');
    const fill = createFilled(section.querySelector('[data-troubles]'));
    let troubles = null; // null: not read yet

    function say() {
        const grade = gradeOf(troubles);
        const waiting = troubles?.find(({ kind }) => kind === 'postgresql_away')?.values.waiting ?? 0;
        section.dataset.severity = grade;
        setText(heading, speech.say(`severity_${grade}`, grade === 'waits' ? { count: waiting } : {}));
        const rows = (troubles ?? []).map(({ kind, values, vouchers }) => ({ kind, text: textOf(kind, values, vouchers), vouchers }));
        fill([speech.tag(), rows], () => rows.map(itemOf));
    }

    function textOf(kind, values, vouchers) {
        const list = (items) => (items?.length > 0 ? speech.list(items) : undefined);
        return speech.say(`trouble_${kind}`, {
            ...values,
            since: values.since === undefined ? undefined : speech.moment(values.since),
            age: values.age_s === undefined ? undefined : speech.age(values.age_s),
            oldest: values.age_s > 0 ? speech.say('waits_for', { age: speech.age(values.age_s) }) : '',
            names: list(values.names),
            servers: values.servers?.length > 0 ? ` (${speech.list(values.servers)})` : '',
            vouchers: list(vouchers.slice(0, NAMED_MAX).map(nameOf)) ?? speech.say('all_vouchers'),
        });
    }

    const nameOf = (id) => speech.say('voucher_named', { id, title: titleOf(id) ?? '' }).trim();

    function itemOf({ kind, text, vouchers }) {
        const what = element('span', { data: { what: '' } }, text);
        const todo = element('span', { data: { todo: '' } }, speech.say(`do_${kind}`));
        const more = element('a', { href: `/web/help.html#${kind}`, target: '_blank', rel: 'noopener' }, speech.say('more'));
        more.setAttribute('aria-label', speech.say('more_of', { what: speech.say(`name_${kind}`) }));
        const buttons = vouchers.slice(0, NAMED_MAX).map((id) => {
            const button = element('button', { type: 'button', class: 'quiet', data: { show: id } }, speech.say('show_voucher', { id }));
            button.addEventListener('click', () => press(id));
            return button;
        });
        return element('li', { data: { trouble: kind } }, what, ' ', todo, ' ', more, ...buttons);
    }

    return {
        say,
        take(found) {
            troubles = found;
            say();
        },
    };
}
