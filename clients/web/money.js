// Prices as people read them. The service counts money in the smallest unit of ISO 4217, and Intl does not know that:
// browsers take the digits from CLDR, which leaves out coins that are out of use. So 990000 of HUF would be 990,000
// instead of 9,900.00.

// Currencies by their digits behind the point: list one of ISO 4217, as its maintenance agency published it on
// 2024-06-25, with the changes to the end of 2025 (XCG for ANG; BGN and CUC are gone). They are those that the service
// takes for a new voucher (src/api/terms.c): no funds, metals, bonds or test codes.
const CODES = {
    0: 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF',
    2:
        'AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY ' +
        'COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF ' +
        'IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR ' +
        'MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG ' +
        'SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES ' +
        'WST XCD XCG YER ZAR ZMW ZWG',
    3: 'BHD IQD JOD KWD LYD OMR TND',
};

const DIGITS = new Map(
    Object.entries(CODES).flatMap(([digits, codes]) => codes.split(' ').map((code) => [code, Number(digits)])),
);

export const CURRENCIES = [...DIGITS.keys()];

// 2 of a currency that has left the list: vouchers keep theirs.
export function digitsOf(currency) {
    return DIGITS.get(currency) ?? 2;
}

// `locale`: a tag of BCP 47, or a list of them; undefined: the reader's own.
export function formatMoney(cents, currency, locale) {
    const digits = digitsOf(currency);
    const amount = cents / 10 ** digits;
    const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    try {
        return new Intl.NumberFormat(locale, { ...options, style: 'currency', currency }).format(amount);
    } catch {
        return `${amount.toFixed(digits)} ${currency}`; // not three letters
    }
}
