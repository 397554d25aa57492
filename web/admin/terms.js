// What a form says as what the service takes, and back. Pure.
import { digitsOf } from '../client/money.js';

const CURRENCY = 'CNY'; // the service's default
// Whole numbers that may be missing: field, member, least.
const OPTIONAL = [['limit', 'limit', 1], ['orders_per_user', 'orders_per_user', 1], ['pay_within', 'pay_within_s', 0], ['extend', 'extend_s', 0]];

// "9.90" -> 990 by the digits alone, since a computer's 9.9 * 100 need not be 990. `digits`: how many the currency has
// behind the point; of 3, "1,000" could be a thousand. null: it is no price.
export function centsOf(text, digits = 2) {
    const [, whole, mark, part = ''] = /^(\d{1,9})(?:([.,])(\d+))?$/.exec(text.trim()) ?? [];
    return whole === undefined || part.length > digits || (mark === ',' && digits > 2) ? null : Number(whole + part.padEnd(digits, '0'));
}

// 990 -> "9.90".
export function priceText(cents, digits = 2) {
    const text = String(cents).padStart(digits + 1, '0');
    return digits === 0 ? text : `${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

// A whole number of `least` or more. null: it is none.
export function wholeOf(text, least) {
    const trimmed = text.trim();
    const number = /^\d{1,12}$/.test(trimmed) ? Number(trimmed) : NaN;
    return number >= least ? number : null;
}

// What <input type=datetime-local> holds, in the operator's time zone, as RFC 3339. null: it is no time.
export function timeOf(text) {
    const time = text === '' ? NaN : new Date(text).getTime();
    return Number.isNaN(time) ? null : new Date(time).toISOString();
}

// The same backwards.
export function localTime(ms) {
    const at = new Date(ms);
    const two = (number) => String(number).padStart(2, '0');
    const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    return `${day}T${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

// `fields`: the form's texts; of a tick whether it is set. Gives {terms} or {wrong: [names of members]}. A field that may
// be missing and is empty is left to the service's default.
export function termsOf(fields) {
    const currency = fields.currency.trim().toUpperCase();
    const terms = {
        title: fields.title.trim() === '' ? null : fields.title.trim(),
        stock: wholeOf(fields.stock, 0),
        price_cents: centsOf(fields.price, digitsOf(currency || CURRENCY)),
        begin_at: timeOf(fields.begin),
        end_at: timeOf(fields.end),
        more_at: fields.more === '' ? '' : timeOf(fields.more),
        waitlist: wholeOf(fields.waitlist.trim() || '0', 0),
        ticket: fields.ticket === true,
        work_bits: wholeOf(fields.work_bits.trim() || '0', 0),
        description: fields.description.trim(),
        picture: fields.picture.trim(),
    };
    for (const [field, name, least] of OPTIONAL) {
        if (fields[field].trim() !== '') {
            terms[name] = wholeOf(fields[field], least);
        }
    }
    if (currency !== '') {
        terms.currency = currency;
    }
    if (fields.scope.trim() !== '') {
        terms.scope = fields.scope.trim();
    }
    const wrong = Object.keys(terms).filter((name) => terms[name] === null);
    if (wrong.length === 0 && terms.begin_at >= terms.end_at) {
        wrong.push('end_at');
    }
    return wrong.length === 0 ? { terms } : { wrong };
}

// A voucher as the form's texts. Its scope stays as it is, so the form does not send it.
export function fieldsOf(voucher) {
    return {
        title: voucher.title,
        stock: String(voucher.stock),
        scope: '',
        price: priceText(voucher.price_cents, digitsOf(voucher.currency)),
        currency: voucher.currency,
        begin: localTime(Date.parse(voucher.begin_at)),
        end: localTime(Date.parse(voucher.end_at)),
        more: voucher.more_at === undefined ? '' : localTime(Date.parse(voucher.more_at)),
        waitlist: voucher.waitlist === undefined ? '' : String(voucher.waitlist),
        limit: String(voucher.limit),
        orders_per_user: String(voucher.orders_per_user),
        pay_within: String(voucher.pay_within_s),
        extend: String(voucher.extend_s),
        ticket: voucher.ticket,
        work_bits: String(voucher.work_bits),
        description: voucher.description ?? '',
        picture: voucher.picture ?? '',
    };
}

// Which members of `terms` are others than the voucher's. A time is the same as long as the form shows the same: it has
// no parts of a second, and the hour that comes twice in autumn reads back as the first one. The stock has a call of its
// own.
export function changesOf(row, { stock: _, ...terms }) {
    const voucher = { more_at: '', waitlist: 0, description: '', picture: '', ...row };
    const shown = (time) => (time === '' ? '' : localTime(Date.parse(time)));
    const same = (name) => (['begin_at', 'end_at', 'more_at'].includes(name) ? shown(terms[name]) === shown(voucher[name]) : terms[name] === voucher[name]);
    return Object.fromEntries(Object.entries(terms).filter(([name]) => !same(name)));
}
