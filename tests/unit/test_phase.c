// The phase of a sale, and what a voucher's JSON becomes with it.
#include <string.h>

#include "phase.h"
#include "test.h"

enum { BEGIN = 1000, END = 2000 };

TEST(the_first_condition_decides)
{
    static const struct {
        const char *phase;
        struct sk_phase_terms terms;
        int64_t now_ms;
    } rows[] = {
        {"upcoming", {SK_VOUCHER_OPEN, BEGIN, END, 5}, BEGIN - 1},
        {"on_sale", {SK_VOUCHER_OPEN, BEGIN, END, 5}, BEGIN},
        {"on_sale", {SK_VOUCHER_OPEN, BEGIN, END, 1}, END - 1},
        {"on_sale", {SK_VOUCHER_OPEN, BEGIN, END, -1}, BEGIN}, // not known
        {"sold_out", {SK_VOUCHER_OPEN, BEGIN, END, 0}, BEGIN},
        {"upcoming", {SK_VOUCHER_OPEN, BEGIN, END, 0}, BEGIN - 1},
        {"ended", {SK_VOUCHER_OPEN, BEGIN, END, 5}, END},
        {"ended", {SK_VOUCHER_OPEN, BEGIN, END, 0}, END},
        {"paused", {SK_VOUCHER_PAUSED, BEGIN, END, 5}, BEGIN - 1},
        {"paused", {SK_VOUCHER_PAUSED, BEGIN, END, 0}, BEGIN},
        {"ended", {SK_VOUCHER_PAUSED, BEGIN, END, 5}, END},
        {"ended", {SK_VOUCHER_CLOSED, BEGIN, END, 5}, BEGIN - 1},
        {"ended", {SK_VOUCHER_RETIRED, 0, 0, -1}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(strcmp(sk_phase(&rows[i].terms, rows[i].now_ms), rows[i].phase) == 0, "row %zu", i);
}

#define VOUCHER(state, remaining)                                          \
    "{\"id\":\"7\",\"title\":\"\\\"phase\\\":1\",\"remaining\":" remaining \
    ",\"begin_at\":\"1970-01-01T00:00:01.000Z\",\"end_at\":\"1970-01-01T00:00:02.000Z\",\"state\":\"" state "\""

static void must_become(const char *voucher, int64_t now_ms, const char *phased, int64_t until_ms)
{
    struct sk_buf out = {0};
    struct sk_phase_span span = {.now_ms = now_ms, .until_ms = INT64_MAX};
    sk_phase_put(&out, voucher, &span);
    ck_assert(!out.failed);
    ck_assert_str_eq(out.data, phased);
    ck_assert_int_eq(span.until_ms, until_ms);
    sk_buf_free(&out);
}

TEST(a_voucher_gets_its_phase)
{
    must_become(VOUCHER("open", "5") "}", 0, VOUCHER("open", "5") ",\"phase\":\"upcoming\"}", BEGIN);
    must_become(VOUCHER("open", "5") "}", BEGIN, VOUCHER("open", "5") ",\"phase\":\"on_sale\"}", END);
    must_become(VOUCHER("loading", "0") "}", BEGIN, VOUCHER("loading", "0") ",\"phase\":\"sold_out\"}", END);
    must_become(VOUCHER("paused", "5") "}", BEGIN, VOUCHER("paused", "5") ",\"phase\":\"paused\"}", END);
    must_become(VOUCHER("retired", "5") "}", END, VOUCHER("retired", "5") ",\"phase\":\"ended\"}", INT64_MAX);
    must_become(VOUCHER("open", "null") "}", BEGIN, VOUCHER("open", "null") ",\"phase\":\"on_sale\"}", END);
    must_become(VOUCHER("paused", "null") "}", BEGIN, VOUCHER("paused", "null") ",\"phase\":\"paused\"}", END);
}

// The first change of any of them.
TEST(a_list_lasts_until_its_first_change)
{
    struct sk_buf out = {0};
    struct sk_phase_span span = {.now_ms = BEGIN, .until_ms = INT64_MAX};
    sk_phase_put(&out,
                 "{\"remaining\":1,\"begin_at\":\"1970-01-01T00:00:01.500Z\",\"end_at\":\"1970-01-01T00:00:09Z\","
                 "\"state\":\"open\"}",
                 &span);
    sk_phase_put(&out, VOUCHER("open", "5") "}", &span);
    ck_assert_int_eq(span.until_ms, 1500);
    sk_buf_free(&out);
}

TEST(what_is_no_voucher_gets_none)
{
    static const char *const odd[] = {"", "{", "[]", "{\"id\":\"7\"}"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct sk_buf out = {0};
        struct sk_phase_span span = sk_phase_span_now();
        sk_phase_put(&out, odd[i], &span);
        ck_assert(out.failed);
        sk_buf_free(&out);
    }
}
