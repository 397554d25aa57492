// Names, types and bounds of the members; what every body goes through is in fields.c.
#include "terms.h"

#include "text.h"

#define TIME_DETAIL "must be a time of RFC 3339 from 1970 to 9999, such as 2030-01-31T20:00:00+08:00"

enum { TITLE_MAX_BYTES = 200, STOCK_MAX = 100000000 };
static const int64_t price_max_cents = INT64_C(100000000000);

enum member { TITLE, STOCK, PRICE, BEGIN_AT, END_AT, MEMBERS };

static const struct sk_field members[MEMBERS] = {
    [TITLE] = {.name = "title", .detail = "must be a string of 1 to 200 bytes"},
    [STOCK] = {.name = "stock", .detail = "must be an integer from 0 to 100000000"},
    [PRICE] = {.name = "price_cents", .detail = "must be an integer from 0 to 100000000000"},
    [BEGIN_AT] = {.name = "begin_at", .detail = TIME_DETAIL},
    [END_AT] = {.name = "end_at", .detail = TIME_DETAIL},
};

static void terms_check(const json_t *const values[MEMBERS], struct sk_terms *terms, struct sk_fields *read);
static bool terms_read_time(const json_t *value, int64_t *out);

enum sk_verdict sk_terms_read(const char *body, size_t len, struct sk_terms *terms, struct sk_fields *read)
{
    const json_t *values[MEMBERS];
    if (sk_fields_open(read, body, len, members, MEMBERS, values))
        terms_check(values, terms, read);
    return sk_fields_end(read);
}

// A member that is missing has been listed before.
static void terms_check(const json_t *const values[MEMBERS], struct sk_terms *terms, struct sk_fields *read)
{
    const bool good[MEMBERS] = {
        [TITLE] = sk_fields_text(values[TITLE], 1, TITLE_MAX_BYTES, &terms->title),
        [STOCK] = sk_fields_integer(values[STOCK], 0, STOCK_MAX, &terms->stock),
        [PRICE] = sk_fields_integer(values[PRICE], 0, price_max_cents, &terms->price_cents),
        [BEGIN_AT] = terms_read_time(values[BEGIN_AT], &terms->begin_ms),
        [END_AT] = terms_read_time(values[END_AT], &terms->end_ms),
    };
    for (int i = 0; i < MEMBERS; i++) {
        if (values[i] != NULL && !good[i])
            sk_fields_refuse(read, members[i].name, members[i].detail);
    }
    if (good[BEGIN_AT] && good[END_AT] && terms->begin_ms >= terms->end_ms)
        sk_fields_refuse(read, members[END_AT].name, "must be later than begin_at");
}

static bool terms_read_time(const json_t *value, int64_t *out)
{
    return json_is_string(value) && sk_text_time(json_string_value(value), out);
}
