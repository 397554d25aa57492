// Names, types and bounds of the members; fields.c checks what all bodies have in common.
#include "terms.h"

#include <string.h>

#include "text.h"

#define TIME_DETAIL "must be a time of RFC 3339 from 1970 to 9999, such as 2030-01-31T20:00:00+08:00"

enum {
    TITLE_MAX_BYTES = 200,
    STOCK_MAX = 100000000,
    LIMIT_MAX = 1000,
    PAY_WITHIN_MAX_S = 31536000,
    CURRENCY_LEN = 3,
    WORK_BITS_MAX = 24
};
enum { LIMIT_DEFAULT = 1, PAY_WITHIN_DEFAULT_S = 900 };
static const char currency_default[] = "CNY";
static const int64_t price_max_cents = INT64_C(100000000000);

enum member { TITLE, STOCK, PRICE, BEGIN_AT, END_AT, LIMIT, PAY_WITHIN, CURRENCY, TICKET, WORK_BITS, MEMBERS };

static const struct sk_field members[MEMBERS] = {
    [TITLE] = {.name = "title", .detail = "must be a string of 1 to 200 bytes"},
    [STOCK] = {.name = "stock", .detail = "must be an integer from 0 to 100000000"},
    [PRICE] = {.name = "price_cents", .detail = "must be an integer from 0 to 100000000000"},
    [BEGIN_AT] = {.name = "begin_at", .detail = TIME_DETAIL},
    [END_AT] = {.name = "end_at", .detail = TIME_DETAIL},
    [LIMIT] = {.name = "limit", .detail = "must be an integer from 1 to 1000", .optional = true},
    [PAY_WITHIN] = {.name = "pay_within_s", .detail = "must be an integer from 0 to 31536000", .optional = true},
    [CURRENCY] = {.name = "currency", .detail = "must be three letters from A to Z", .optional = true},
    [TICKET] = {.name = "ticket", .detail = "must be true or false", .optional = true},
    [WORK_BITS] = {.name = "work_bits", .detail = "must be an integer from 0 to 24", .optional = true},
};

static void terms_check(const json_t *const values[MEMBERS], bool tickets, struct sk_terms *terms,
                        struct sk_fields *read);
static bool terms_read_time(const json_t *value, int64_t *out);
static bool terms_read_currency(const json_t *value, const char **out);
static bool terms_read_flag(const json_t *value, int64_t *out);

enum sk_verdict sk_terms_read(const char *body, size_t len, bool tickets, struct sk_terms *terms,
                              struct sk_fields *read)
{
    const json_t *values[MEMBERS];
    *terms = (struct sk_terms){0};
    if (sk_fields_open(read, body, len, members, MEMBERS, values)) {
        terms_check(values, tickets, terms, read);
        if (values[LIMIT] == NULL)
            terms->user_limit = LIMIT_DEFAULT;
        if (values[PAY_WITHIN] == NULL)
            terms->pay_within_s = PAY_WITHIN_DEFAULT_S;
        if (values[CURRENCY] == NULL)
            terms->currency = currency_default;
    }
    return sk_fields_end(read);
}

enum sk_verdict sk_terms_read_change(const char *body, size_t len, bool tickets, struct sk_terms *terms,
                                     struct sk_fields *read)
{
    struct sk_field optional[MEMBERS];
    const json_t *values[MEMBERS];
    *terms = (struct sk_terms){0};
    for (int i = 0; i < MEMBERS; i++) {
        optional[i] = members[i];
        optional[i].optional = true;
    }
    if (sk_fields_open(read, body, len, optional, MEMBERS, values)) {
        terms_check(values, tickets, terms, read);
        int64_t *const numbers[MEMBERS] = {
            [STOCK] = &terms->stock,   [PRICE] = &terms->price_cents,  [BEGIN_AT] = &terms->begin_ms,
            [END_AT] = &terms->end_ms, [LIMIT] = &terms->user_limit,   [PAY_WITHIN] = &terms->pay_within_s,
            [TICKET] = &terms->ticket, [WORK_BITS] = &terms->work_bits};
        for (int i = 0; i < MEMBERS; i++) {
            if (values[i] == NULL && numbers[i] != NULL)
                *numbers[i] = SK_TERM_AS_IT_IS;
        }
        if (values[STOCK] != NULL)
            sk_fields_refuse(read, members[STOCK].name, "is not changed here but by POST /admin/vouchers/{id}/stock");
    }
    return sk_fields_end(read);
}

// A missing required member is listed already.
static void terms_check(const json_t *const values[MEMBERS], bool tickets, struct sk_terms *terms,
                        struct sk_fields *read)
{
    const bool good[MEMBERS] = {
        [TITLE] = sk_fields_text(values[TITLE], 1, TITLE_MAX_BYTES, &terms->title),
        [STOCK] = sk_fields_integer(values[STOCK], 0, STOCK_MAX, &terms->stock),
        [PRICE] = sk_fields_integer(values[PRICE], 0, price_max_cents, &terms->price_cents),
        [BEGIN_AT] = terms_read_time(values[BEGIN_AT], &terms->begin_ms),
        [END_AT] = terms_read_time(values[END_AT], &terms->end_ms),
        [LIMIT] = sk_fields_integer(values[LIMIT], 1, LIMIT_MAX, &terms->user_limit),
        [PAY_WITHIN] = sk_fields_integer(values[PAY_WITHIN], 0, PAY_WITHIN_MAX_S, &terms->pay_within_s),
        [CURRENCY] = terms_read_currency(values[CURRENCY], &terms->currency),
        [TICKET] = terms_read_flag(values[TICKET], &terms->ticket),
        [WORK_BITS] = sk_fields_integer(values[WORK_BITS], 0, WORK_BITS_MAX, &terms->work_bits),
    };
    for (int i = 0; i < MEMBERS; i++) {
        if (values[i] != NULL && !good[i])
            sk_fields_refuse(read, members[i].name, members[i].detail);
    }
    if (good[TICKET] && terms->ticket != 0 && !tickets)
        sk_fields_refuse(read, members[TICKET].name, "needs SECKILL_TICKET_SECRET, which this instance does not have");
    if (good[BEGIN_AT] && good[END_AT] && terms->begin_ms >= terms->end_ms)
        sk_fields_refuse(read, members[END_AT].name, "must be later than begin_at");
}

static bool terms_read_time(const json_t *value, int64_t *out)
{
    return json_is_string(value) && sk_text_time(json_string_value(value), out);
}

static bool terms_read_currency(const json_t *value, const char **out)
{
    return sk_fields_text(value, CURRENCY_LEN, CURRENCY_LEN, out) &&
           strspn(*out, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == CURRENCY_LEN;
}

static bool terms_read_flag(const json_t *value, int64_t *out)
{
    *out = json_is_true(value);
    return json_is_boolean(value);
}

// ---- stock ----

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
