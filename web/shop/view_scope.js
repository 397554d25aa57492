// The cards of one scope, such as the sizes of an article, under one heading. A card that is alone looks as if there were
// no scope.
import { element, setAttribute, setText } from '../common/dom.js';

export function createScope(id, voice) {
    const title = element('p', { class: 'hint', id: `scope-${id}`, hidden: true });
    const root = element('div', { class: 'scope' }, title);
    const members = []; // {id, card}, by their ids

    function add(memberId, card) {
        const isLater = (one) => BigInt(one.id) > BigInt(memberId);
        const at = members.findIndex(isLater);
        root.insertBefore(card, members[at]?.card ?? null);
        members.splice(at < 0 ? members.length : at, 0, { id: memberId, card });
    }

    // A search may have hidden some.
    function render() {
        const isGroup = members.filter(({ card }) => !card.hidden).length > 1;
        setAttribute(root, 'role', isGroup ? 'group' : null);
        setAttribute(root, 'aria-labelledby', isGroup ? `scope-${id}` : null);
        title.hidden = !isGroup;
        setText(title, voice.say('vouchers.scope'));
    }

    return { root, add, render };
}
