// A settlement report as sentences. Pure: `speech` has the words.

// Gives [{text, grade}], the verdict first; grade: 'good', 'wait' or 'bad'.
export function sentencesOf(report, speech) {
    const grade = { balanced: 'good', open: 'wait', wrong: 'bad' }[report.verdict] ?? 'wait';
    const said = [{ text: speech.say(`verdict_${report.verdict}`, { time: speech.moment(Date.parse(report.at)) }), grade }];
    for (const [name, { is, should_be: should }] of Object.entries(report.wrong ?? {})) {
        said.push({ text: speech.say(`wrong_${name}`, { is, should }), grade: 'bad' });
    }
    for (const [name, n] of Object.entries(report.missing ?? {})) {
        said.push({ text: missingOf(name, n, speech), grade: 'wait' });
    }
    return said;
}

function missingOf(name, n, speech) {
    if (name === 'SALE_ON') {
        return speech.say('missing_SALE_ON', { time: speech.age(n) });
    }
    return name === 'REDIS' ? speech.say('missing_REDIS') : speech.say(`missing_${name}`, { count: n });
}

// The units as one sum, in the order in which it is read: [[words, number], ...].
export function unitsOf({ offered, added, taken_away, sold, kept, held, remaining }) {
    const changes = [['units_offered', offered], ['units_added', added], ['units_taken_away', taken_away]];
    const places = [['units_sold', sold], ['units_kept', kept], ['units_held', held], ['units_remaining', remaining]];
    const kept_rows = ([name, n]) => n !== 0 || ['units_offered', 'units_sold', 'units_remaining'].includes(name);
    return [...changes, ...places].filter(kept_rows);
}

// Payments by state and currency: [[state, currency, {payments, total_cents}], ...].
export function moneyOf(report) {
    return ['accepted', 'to_refund', 'refunded'].flatMap((state) =>
        Object.entries(report[`payments_${state}`]).map(([currency, sums]) => [state, currency, sums]));
}

const STATES = ['unpaid', 'paid', 'cancelled', 'expired', 'refunded_restocked', 'refunded_kept', 'refused', 'held'];

// Orders by state: [[state, orders], ...]. States of which there are none are left out, but for the first two.
export function ordersOf({ orders }) {
    return STATES.map((state) => [state, orders[state].orders]).filter(([state, n]) => n > 0 || ['unpaid', 'paid'].includes(state));
}
