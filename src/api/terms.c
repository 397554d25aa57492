// Names, types and bounds of the members.
#include "terms.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "text.h"
#include "ticket.h"

enum {
    TITLE_MAX_BYTES = 200,
    DESCRIPTION_MAX_BYTES = 1000,
    STOCK_MAX = 100000000,
    LIMIT_MAX = 1000,
    ORDERS_PER_USER_MAX = 1000,
    PAY_WITHIN_MAX_S = 31536000,
    EXTEND_MAX_S = 86400,
    CURRENCY_LEN = 3,
    WORK_BITS_MAX = 24,
    WAITLIST_MAX = 10000000
};
enum { LIMIT_DEFAULT = 1, ORDERS_PER_USER_DEFAULT = 3, PAY_WITHIN_DEFAULT_S = 900, EXTEND_DEFAULT_S = 120 };
static const char currency_default[] = "CNY";
static const int64_t price_max_cents = INT64_C(100000000000);

enum member {
    TITLE,
    DESCRIPTION,
    PICTURE,
    STOCK,
    PRICE,
    BEGIN_AT,
    END_AT,
    MORE_AT,
    LIMIT,
    SCOPE,
    ORDERS_PER_USER,
    PAY_WITHIN,
    EXTEND,
    CURRENCY,
    TICKET,
    WORK_BITS,
    WAITLIST,
    ALLOW_PAST,
    MEMBERS
};

// The money of ISO 4217 that is in use: no funds, metals, bonds or test codes. Only new terms are checked, so what is
// taken from this list stays on older vouchers. clients/web/money.js has the same with the digits of each.
static const char currencies[] = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN "
                                 "BWP BYN BZD CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB "
                                 "EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR "
                                 "ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD "
                                 "MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR "
                                 "PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE "
                                 "SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU "
                                 "UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG";

static const struct sk_field members[MEMBERS] = {
    [TITLE] = {.name = "title", .detail = "must be a string of 1 to 200 bytes"},
    [DESCRIPTION] = {.name = "description", .detail = "must be a string of up to 1000 bytes", .optional = true},
    [PICTURE] = {.name = "picture",
                 .detail = "must be a URL of an origin of SECKILL_PICTURE_ORIGINS, or empty",
                 .optional = true},
    [STOCK] = {.name = "stock", .detail = "must be an integer from 0 to 100000000"},
    [PRICE] = {.name = "price_cents", .detail = "must be an integer from 0 to 100000000000"},
    [BEGIN_AT] = {.name = "begin_at", .detail = SK_TIME_DETAIL},
    [END_AT] = {.name = "end_at", .detail = SK_TIME_DETAIL},
    [MORE_AT] = {.name = "more_at", .detail = "must be empty, or a time as end_at", .optional = true},
    [LIMIT] = {.name = "limit", .detail = "must be an integer from 1 to 1000", .optional = true},
    [SCOPE] = {.name = "scope", .detail = "must be the id of a voucher", .optional = true},
    [ORDERS_PER_USER] = {.name = "orders_per_user", .detail = "must be an integer from 1 to 1000", .optional = true},
    [PAY_WITHIN] = {.name = "pay_within_s", .detail = "must be an integer from 0 to 31536000", .optional = true},
    [EXTEND] = {.name = "extend_s", .detail = "must be an integer from 0 to 86400", .optional = true},
    [CURRENCY] = {.name = "currency", .detail = "must be a currency of ISO 4217, such as CNY", .optional = true},
    [TICKET] = {.name = "ticket", .detail = "must be true or false", .optional = true},
    [WORK_BITS] = {.name = "work_bits", .detail = "must be an integer from 0 to 24", .optional = true},
    [WAITLIST] = {.name = "waitlist",
                  .detail = "must be true, false or an integer from 0 to 10000000",
                  .optional = true},
    [ALLOW_PAST] = {.name = "allow_past", .detail = "must be true or false", .optional = true},
};

const char *sk_terms_line(const struct sk_terms *terms, char out[SK_LINE_SIZE])
{
    if (terms->waitlist == SK_TERM_AS_IT_IS)
        return NULL;
    if (terms->waitlist == SK_TERM_DEFAULT)
        (void)snprintf(out, SK_LINE_SIZE, "{\"waitlist\": true}");
    else
        (void)snprintf(out, SK_LINE_SIZE, "{\"waitlist\": %" PRId64 "}", terms->waitlist);
    return out;
}

struct sk_terms_rules sk_terms_rules(const struct sk_context *context)
{
    return (struct sk_terms_rules){.tickets = sk_tickets_on(context->tickets), .pictures = context->pictures};
}

static bool terms_read_time(const json_t *value, int64_t *out)
{
    return json_is_string(value) && sk_text_time(json_string_value(value), out);
}

// Empty: not known.
static bool terms_read_more(const json_t *value, int64_t *out)
{
    *out = 0;
    return json_is_string(value) && (json_string_length(value) == 0 || sk_text_time(json_string_value(value), out));
}

static bool terms_read_currency(const json_t *value, const char **out)
{
    return sk_fields_text(value, CURRENCY_LEN, CURRENCY_LEN, out) && strchr(*out, ' ') == NULL &&
           strstr(currencies, *out) != NULL;
}

static bool terms_read_picture(const json_t *value, const struct sk_cors *origins, const char **out)
{
    return sk_fields_text(value, 0, SK_URL_MAX, out) &&
           ((*out)[0] == '\0' || (sk_text_url(*out) && sk_cors_has_url(origins, *out)));
}

static bool terms_read_flag(const json_t *value, int64_t *out)
{
    *out = json_is_true(value);
    return json_is_boolean(value);
}

// True: a line with the default bound; false: none.
static bool terms_read_waitlist(const json_t *value, int64_t *out)
{
    *out = json_is_true(value) ? SK_TERM_DEFAULT : 0;
    return json_is_boolean(value) || sk_fields_integer(value, 0, WAITLIST_MAX, out);
}

// A missing required member is listed already.
static void terms_check(const json_t *const values[MEMBERS], const struct sk_terms_rules *rules, struct sk_terms *terms,
                        struct sk_fields *read)
{
    int64_t allow_past;
    const bool good[MEMBERS] = {
        [TITLE] = sk_fields_text(values[TITLE], 1, TITLE_MAX_BYTES, &terms->title),
        [DESCRIPTION] = sk_fields_text(values[DESCRIPTION], 0, DESCRIPTION_MAX_BYTES, &terms->description),
        [PICTURE] = terms_read_picture(values[PICTURE], rules->pictures, &terms->picture),
        [STOCK] = sk_fields_integer(values[STOCK], 0, STOCK_MAX, &terms->stock),
        [PRICE] = sk_fields_integer(values[PRICE], 0, price_max_cents, &terms->price_cents),
        [BEGIN_AT] = terms_read_time(values[BEGIN_AT], &terms->begin_ms),
        [END_AT] = terms_read_time(values[END_AT], &terms->end_ms),
        [MORE_AT] = terms_read_more(values[MORE_AT], &terms->more_ms),
        [LIMIT] = sk_fields_integer(values[LIMIT], 1, LIMIT_MAX, &terms->user_limit),
        [SCOPE] = json_is_string(values[SCOPE]) && sk_text_voucher_id(json_string_value(values[SCOPE]), &terms->scope),
        [ORDERS_PER_USER] = sk_fields_integer(values[ORDERS_PER_USER], 1, ORDERS_PER_USER_MAX, &terms->orders_per_user),
        [PAY_WITHIN] = sk_fields_integer(values[PAY_WITHIN], 0, PAY_WITHIN_MAX_S, &terms->pay_within_s),
        [EXTEND] = sk_fields_integer(values[EXTEND], 0, EXTEND_MAX_S, &terms->extend_s),
        [CURRENCY] = terms_read_currency(values[CURRENCY], &terms->currency),
        [TICKET] = terms_read_flag(values[TICKET], &terms->ticket),
        [WORK_BITS] = sk_fields_integer(values[WORK_BITS], 0, WORK_BITS_MAX, &terms->work_bits),
        [WAITLIST] = terms_read_waitlist(values[WAITLIST], &terms->waitlist),
        [ALLOW_PAST] = terms_read_flag(values[ALLOW_PAST], &allow_past),
    };
    for (int i = 0; i < MEMBERS; i++)
        sk_fields_check(read, &members[i], values[i], good[i]);
    if (good[TICKET] && terms->ticket != 0 && !rules->tickets)
        sk_fields_refuse(read, members[TICKET].name, "needs SECKILL_TICKET_SECRET, which this instance does not have");
    if (good[BEGIN_AT] && good[END_AT] && terms->begin_ms >= terms->end_ms)
        sk_fields_refuse(read, members[END_AT].name, "must be later than begin_at");
    else if (good[END_AT] && allow_past == 0 && terms->end_ms <= (int64_t)sk_wall_ms())
        sk_fields_refuse(read, members[END_AT].name, "is in the past, which needs allow_past");
}

enum sk_verdict sk_terms_read(const char *body, size_t len, const struct sk_terms_rules *rules, struct sk_terms *terms,
                              struct sk_fields *read)
{
    const json_t *values[MEMBERS];
    *terms = (struct sk_terms){0};
    if (sk_fields_open(read, body, len, members, MEMBERS, values)) {
        terms_check(values, rules, terms, read);
        if (values[LIMIT] == NULL)
            terms->user_limit = LIMIT_DEFAULT;
        if (values[ORDERS_PER_USER] == NULL)
            terms->orders_per_user = ORDERS_PER_USER_DEFAULT;
        if (values[EXTEND] == NULL)
            terms->extend_s = EXTEND_DEFAULT_S;
        if (values[PAY_WITHIN] == NULL)
            terms->pay_within_s = terms->price_cents == 0 ? 0 : PAY_WITHIN_DEFAULT_S; // nothing is to be paid
        if (values[CURRENCY] == NULL)
            terms->currency = currency_default;
    }
    return sk_fields_end(read);
}

enum sk_verdict sk_terms_read_change(const char *body, size_t len, const struct sk_terms_rules *rules,
                                     struct sk_terms *terms, struct sk_fields *read)
{
    struct sk_field optional[MEMBERS];
    const json_t *values[MEMBERS];
    *terms = (struct sk_terms){0};
    for (int i = 0; i < MEMBERS; i++) {
        optional[i] = members[i];
        optional[i].optional = true;
    }
    if (sk_fields_open(read, body, len, optional, MEMBERS, values)) {
        terms_check(values, rules, terms, read);
        int64_t *const numbers[MEMBERS] = {[STOCK] = &terms->stock,
                                           [PRICE] = &terms->price_cents,
                                           [BEGIN_AT] = &terms->begin_ms,
                                           [END_AT] = &terms->end_ms,
                                           [MORE_AT] = &terms->more_ms,
                                           [LIMIT] = &terms->user_limit,
                                           [ORDERS_PER_USER] = &terms->orders_per_user,
                                           [PAY_WITHIN] = &terms->pay_within_s,
                                           [EXTEND] = &terms->extend_s,
                                           [TICKET] = &terms->ticket,
                                           [WORK_BITS] = &terms->work_bits,
                                           [WAITLIST] = &terms->waitlist};
        for (int i = 0; i < MEMBERS; i++) {
            if (values[i] == NULL && numbers[i] != NULL)
                *numbers[i] = SK_TERM_AS_IT_IS;
        }
        if (values[SCOPE] != NULL)
            sk_fields_refuse(read, members[SCOPE].name, "is not changed after the creation");
        if (values[STOCK] != NULL)
            sk_fields_refuse(read, members[STOCK].name, "is not changed here but by POST /admin/vouchers/{id}/stock");
    }
    return sk_fields_end(read);
}

enum { ADD, REDUCE, STOCK_MEMBERS };

static const struct sk_field stock_members[STOCK_MEMBERS] = {
    [ADD] = {.name = "add", .detail = "must be an integer from 1 to 100000000", .optional = true},
    [REDUCE] = {.name = "reduce", .detail = "must be an integer from 1 to 100000000", .optional = true},
};

enum sk_verdict sk_terms_read_stock(const char *body, size_t len, int64_t *units, struct sk_fields *read)
{
    const json_t *values[STOCK_MEMBERS];
    *units = 0;
    if (sk_fields_open(read, body, len, stock_members, STOCK_MEMBERS, values)) {
        for (int i = 0; i < STOCK_MEMBERS; i++) {
            int64_t n;
            if (values[i] != NULL && sk_fields_integer(values[i], 1, STOCK_MAX, &n))
                *units = i == ADD ? n : -n;
            else if (values[i] != NULL)
                sk_fields_refuse(read, stock_members[i].name, stock_members[i].detail);
        }
        if ((values[ADD] == NULL) == (values[REDUCE] == NULL))
            sk_fields_refuse(read, stock_members[ADD].name, "or reduce must be there, one of the two");
    }
    return sk_fields_end(read);
}
