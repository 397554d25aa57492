// The body of POST /admin/vouchers: 400 for missing or unexpected members, 422 for a value of a wrong type or out of
// range, each with a list of all errors.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cors.h"
#include "still_clock.h"
#include "terms.h"
#include "test.h"

enum { END_S = 1794330000 };

#define BEGIN "\"begin_at\":\"2026-11-11T00:00:00+08:00\""
#define END   "\"end_at\":\"2026-11-11T01:00:00+08:00\""
// The members before and after the tested one.
#define TITLE(value) "{\"title\":" value ",\"stock\":1,\"price_cents\":1," BEGIN "," END "}"
#define STOCK(value) "{\"title\":\"T\",\"stock\":" value ",\"price_cents\":1," BEGIN "," END "}"
#define PRICE(value) "{\"title\":\"T\",\"stock\":1,\"price_cents\":" value "," BEGIN "," END "}"
#define TIMES(begin_at, end_at) \
    "{\"title\":\"T\",\"stock\":1,\"price_cents\":1,\"begin_at\":" begin_at ",\"end_at\":" end_at "}"

static struct sk_terms_rules rules = {.tickets = true};

struct row {
    const char *body;
    enum sk_verdict verdict;
};

// Every rejection lists its reasons in a document that a client can parse.
static void errors_must_be_well_formed(const json_t *errors, enum sk_verdict verdict)
{
    size_t i;
    json_t *error;
    ck_assert_int_eq(errors != NULL, verdict != SK_VERDICT_OK);
    json_array_foreach(errors, i, error)
    {
        const char *pointer, *detail;
        ck_assert_int_eq(json_unpack(error, "{s:s,s:s!}", "pointer", &pointer, "detail", &detail), 0);
        ck_assert(pointer[0] == '\0' || pointer[0] == '/');
        ck_assert_uint_gt(strlen(detail), 0);
    }
    ck_assert_uint_le(json_array_size(errors), SK_FIELDS_ERRORS_MAX + 1);
}

// Parses a copy of the exact size, so that reading past its end is detected. The caller frees *read.
static enum sk_verdict read_copy(const char *body, size_t len, struct sk_terms *terms, struct sk_fields *read)
{
    char *copy = malloc(len == 0 ? 1 : len);
    memcpy(copy, body, len);
    enum sk_verdict verdict = sk_terms_read(copy, len, &rules, terms, read);
    free(copy);
    errors_must_be_well_formed(read->errors, verdict);
    return verdict;
}

static void must_read(const char *body, size_t len, enum sk_verdict verdict)
{
    struct sk_terms terms;
    struct sk_fields read;
    enum sk_verdict is = read_copy(body, len, &terms, &read);
    ck_assert_msg(is == verdict, "%s instead of %s: %.120s", sk_verdict_code(is), sk_verdict_code(verdict), body);
    sk_fields_free(&read);
}

static void must_read_all(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        must_read(rows[i].body, strlen(rows[i].body), rows[i].verdict);
}

#define MUST_READ_ALL(rows) must_read_all(rows, sizeof(rows) / sizeof(rows)[0])

TEST(good_terms_are_read)
{
    static const char body[] =
        " {\"end_at\":\"2026-11-11T01:00:00.5+08:00\",\"stock\":100,"
        "\"title\":\"Gr\xc3\xbc\\u00df\\n\\\"e\\ud83d\\ude00\",\"price_cents\":9900, " BEGIN "}\n";
    struct sk_terms terms;
    struct sk_fields read;
    ck_assert_int_eq(sk_terms_read(body, sizeof body - 1, &rules, &terms, &read), SK_VERDICT_OK);
    ck_assert_ptr_null(read.errors);
    ck_assert_str_eq(terms.title, "Gr\xc3\xbc\xc3\x9f\n\"e\xf0\x9f\x98\x80");
    ck_assert_int_eq(terms.stock, 100);
    ck_assert_int_eq(terms.price_cents, 9900);
    ck_assert_int_eq(terms.begin_ms, INT64_C(1794326400000));
    ck_assert_int_eq(terms.end_ms, INT64_C(1794330000500));
    ck_assert_int_eq(terms.user_limit, 1);
    ck_assert_int_eq(terms.pay_within_s, 900);
    ck_assert_str_eq(terms.currency, "CNY");
    ck_assert_int_eq(terms.ticket, 0);
    ck_assert_int_eq(terms.work_bits, 0);
    ck_assert_ptr_null(terms.description);
    ck_assert_ptr_null(terms.picture);
    sk_fields_free(&read);
}

// Of a free item nothing is to be paid, so its orders do not expire unless they are to.
TEST(a_free_item_has_no_time_to_pay)
{
    static const char *const bodies[] = {PRICE("0"), PRICE("0,\"pay_within_s\":60"), PRICE("1")};
    static const int64_t within_s[] = {0, 60, 900};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        struct sk_terms terms;
        struct sk_fields read;
        ck_assert_int_eq(read_copy(bodies[i], strlen(bodies[i]), &terms, &read), SK_VERDICT_OK);
        ck_assert_int_eq(terms.pay_within_s, within_s[i]);
        sk_fields_free(&read);
    }
}

TEST(a_picture_is_of_a_listed_origin)
{
    static const struct row listed[] = {
        {STOCK("1,\"picture\":\"https://pictures.example/tea.webp?w=320\""), SK_VERDICT_OK},
        {STOCK("1,\"picture\":\"http://127.0.0.1:8000/\""), SK_VERDICT_OK},
        {STOCK("1,\"picture\":\"\""), SK_VERDICT_OK},
        {STOCK("1,\"picture\":\"https://pictures.example\""), SK_VERDICT_INVALID},
        {STOCK("1,\"picture\":\"https://pictures.example.evil/tea.webp\""), SK_VERDICT_INVALID},
        {STOCK("1,\"picture\":\"https://pictures.example:444/tea.webp\""), SK_VERDICT_INVALID},
        {STOCK("1,\"picture\":\"https://elsewhere.example/tea.webp\""), SK_VERDICT_INVALID},
        {STOCK("1,\"picture\":\"https://pictures.example/\\\"onload=x\""), SK_VERDICT_INVALID},
        {STOCK("1,\"picture\":\"https://pictures.example/a b\""), SK_VERDICT_INVALID},
        {STOCK("1,\"picture\":\"/tea.webp\""), SK_VERDICT_INVALID},
        {STOCK("1,\"picture\":7"), SK_VERDICT_INVALID},
    };
    struct sk_cors *origins =
        sk_cors_open_list("SECKILL_PICTURE_ORIGINS", "https://pictures.example, http://127.0.0.1:8000", stderr);
    ck_assert_ptr_nonnull(origins);
    rules.pictures = origins;
    MUST_READ_ALL(listed);
    rules.pictures = NULL; // without the setting none is
    must_read(listed[0].body, strlen(listed[0].body), SK_VERDICT_INVALID);
    must_read(listed[2].body, strlen(listed[2].body), SK_VERDICT_OK);
    sk_cors_close(origins);
}

TEST(a_description_has_1000_bytes_at_most)
{
    char body[1400], text[1002];
    for (int len = 999; len <= 1001; len++) {
        memset(text, 'd', (size_t)len);
        text[len] = '\0';
        (void)snprintf(body, sizeof body, STOCK("1,\"description\":\"%s\""), text);
        must_read(body, strlen(body), len <= 1000 ? SK_VERDICT_OK : SK_VERDICT_INVALID);
    }
    must_read(STOCK("1,\"description\":\"\""), strlen(STOCK("1,\"description\":\"\"")), SK_VERDICT_OK);
    must_read(STOCK("1,\"description\":null"), strlen(STOCK("1,\"description\":null")), SK_VERDICT_INVALID);
}

TEST(what_may_be_left_out_is_read)
{
    static const char body[] =
        STOCK("1,\"limit\":1000,\"pay_within_s\":0,\"currency\":\"EUR\",\"ticket\":true,\"work_bits\":24");
    struct sk_terms terms;
    struct sk_fields read;
    ck_assert_int_eq(sk_terms_read(body, sizeof body - 1, &rules, &terms, &read), SK_VERDICT_OK);
    ck_assert_int_eq(terms.user_limit, 1000);
    ck_assert_int_eq(terms.pay_within_s, 0);
    ck_assert_str_eq(terms.currency, "EUR");
    ck_assert_int_eq(terms.ticket, 1);
    ck_assert_int_eq(terms.work_bits, 24);
    sk_fields_free(&read);
}

TEST(a_window_may_be_over_for_those_who_mean_it)
{
    static const struct row rows[] = {
        {STOCK("1"), SK_VERDICT_INVALID},
        {STOCK("1,\"allow_past\":false"), SK_VERDICT_INVALID},
        {STOCK("1,\"allow_past\":1"), SK_VERDICT_INVALID},
        {STOCK("1,\"allow_past\":true"), SK_VERDICT_OK},
    };
    still_at_ms = (END_S - 1) * UINT64_C(1000);
    must_read(STOCK("1"), strlen(STOCK("1")), SK_VERDICT_OK);
    still_at_ms = END_S * UINT64_C(1000);
    MUST_READ_ALL(rows);
}

TEST(what_is_not_json_is_refused)
{
    static const struct row rows[] = {
        {"", SK_VERDICT_BAD_JSON},
        {" ", SK_VERDICT_BAD_JSON},
        {"title=T&stock=1", SK_VERDICT_BAD_JSON},
        {"<terms/>", SK_VERDICT_BAD_JSON},
        {STOCK("1") "x", SK_VERDICT_BAD_JSON}, // trailing bytes
        {STOCK("1") "{}", SK_VERDICT_BAD_JSON},
        {STOCK("1") "\n", SK_VERDICT_OK},
        {"\xef\xbb\xbf" STOCK("1"), SK_VERDICT_BAD_JSON}, // a byte order mark
        {STOCK("NaN"), SK_VERDICT_BAD_JSON},
        {STOCK("Infinity"), SK_VERDICT_BAD_JSON},
        {STOCK("-Infinity"), SK_VERDICT_BAD_JSON},
        {STOCK("1e999"), SK_VERDICT_BAD_JSON},
        {STOCK("01"), SK_VERDICT_BAD_JSON},
        {STOCK("+1"), SK_VERDICT_BAD_JSON},
        {STOCK("0x1"), SK_VERDICT_BAD_JSON},
        {STOCK("1."), SK_VERDICT_BAD_JSON},
        {STOCK("9223372036854775808"), SK_VERDICT_BAD_JSON},
        {STOCK("99999999999999999999999999"), SK_VERDICT_BAD_JSON},
        {STOCK("'1'"), SK_VERDICT_BAD_JSON},
        {STOCK(""), SK_VERDICT_BAD_JSON},
        {STOCK("1,"), SK_VERDICT_BAD_JSON},
        {TITLE("\"a\\u0000b\""), SK_VERDICT_BAD_JSON},
        {TITLE("\"\\ud800\""), SK_VERDICT_BAD_JSON}, // lone surrogates
        {TITLE("\"\\udc00\""), SK_VERDICT_BAD_JSON},
        {TITLE("\"\\ud800\\u0041\""), SK_VERDICT_BAD_JSON},
        {TITLE("\"\xff\""), SK_VERDICT_BAD_JSON},             // not UTF-8
        {TITLE("\"\xc0\xaf\""), SK_VERDICT_BAD_JSON},         // an overlong form
        {TITLE("\"\xed\xa0\x80\""), SK_VERDICT_BAD_JSON},     // a surrogate in UTF-8
        {TITLE("\"\xf4\x90\x80\x80\""), SK_VERDICT_BAD_JSON}, // above the last character
        {TITLE("\"a\nb\""), SK_VERDICT_BAD_JSON},             // a control character
        {TITLE("\"T"), SK_VERDICT_BAD_JSON},
        {TITLE("T"), SK_VERDICT_BAD_JSON},
    };
    struct sk_terms terms;
    struct sk_fields read;
    MUST_READ_ALL(rows);
    must_read(STOCK("1") "\0", sizeof STOCK("1"), SK_VERDICT_BAD_JSON);
    ck_assert_int_eq(sk_terms_read(NULL, 0, &rules, &terms, &read), SK_VERDICT_BAD_JSON); // no body
    sk_fields_free(&read);
}

TEST(json_of_another_form_is_refused)
{
    static const struct row rows[] = {
        {"null", SK_VERDICT_BAD_JSON},
        {"1", SK_VERDICT_BAD_JSON},
        {"\"T\"", SK_VERDICT_BAD_JSON},
        {"[]", SK_VERDICT_BAD_JSON},
        {"[" STOCK("1") "]", SK_VERDICT_BAD_JSON},
        {"{}", SK_VERDICT_BAD_JSON},
        // each member missing
        {"{\"stock\":1,\"price_cents\":1," BEGIN "," END "}", SK_VERDICT_BAD_JSON},
        {"{\"title\":\"T\",\"price_cents\":1," BEGIN "," END "}", SK_VERDICT_BAD_JSON},
        {"{\"title\":\"T\",\"stock\":1," BEGIN "," END "}", SK_VERDICT_BAD_JSON},
        {"{\"title\":\"T\",\"stock\":1,\"price_cents\":1," END "}", SK_VERDICT_BAD_JSON},
        {"{\"title\":\"T\",\"stock\":1,\"price_cents\":1," BEGIN "}", SK_VERDICT_BAD_JSON},
        // Unknown, differently spelled and duplicate members.
        {STOCK("1,\"discount\":5"), SK_VERDICT_BAD_JSON},
        {STOCK("1,\"\":1"), SK_VERDICT_BAD_JSON},
        {STOCK("1,\"Stock\":1"), SK_VERDICT_BAD_JSON},
        {STOCK("1,\"stock\":1"), SK_VERDICT_BAD_JSON},
        {STOCK("1,\"sto\\u0063k\":2"), SK_VERDICT_BAD_JSON},
    };
    MUST_READ_ALL(rows);
}

TEST(wrong_values_are_told_apart)
{
    static const struct row rows[] = {
        {STOCK("0"), SK_VERDICT_OK},
        {STOCK("1"), SK_VERDICT_OK},
        {STOCK("100000000"), SK_VERDICT_OK},
        {STOCK("100000001"), SK_VERDICT_INVALID},
        {STOCK("9223372036854775807"), SK_VERDICT_INVALID},
        {STOCK("-1"), SK_VERDICT_INVALID},
        {STOCK("-9223372036854775808"), SK_VERDICT_INVALID},
        {STOCK("1.5"), SK_VERDICT_INVALID},
        {STOCK("1.0"), SK_VERDICT_INVALID},
        {STOCK("1e2"), SK_VERDICT_INVALID},
        {STOCK("\"1\""), SK_VERDICT_INVALID},
        {STOCK("true"), SK_VERDICT_INVALID},
        {STOCK("null"), SK_VERDICT_INVALID},
        {STOCK("[1]"), SK_VERDICT_INVALID},
        {PRICE("0"), SK_VERDICT_OK},
        {PRICE("100000000000"), SK_VERDICT_OK},
        {PRICE("100000000001"), SK_VERDICT_INVALID},
        {PRICE("-1"), SK_VERDICT_INVALID},
        {PRICE("9.99"), SK_VERDICT_INVALID},
        {PRICE("\"999\""), SK_VERDICT_INVALID},
        {STOCK("1,\"limit\":1"), SK_VERDICT_OK},
        {STOCK("1,\"limit\":0"), SK_VERDICT_INVALID},
        {STOCK("1,\"limit\":-1"), SK_VERDICT_INVALID},
        {STOCK("1,\"limit\":1001"), SK_VERDICT_INVALID},
        {STOCK("1,\"limit\":2147483648"), SK_VERDICT_INVALID},
        {STOCK("1,\"limit\":1.5"), SK_VERDICT_INVALID},
        {STOCK("1,\"limit\":\"1\""), SK_VERDICT_INVALID},
        {STOCK("1,\"limit\":null"), SK_VERDICT_INVALID}, // null differs from a missing member
        {STOCK("1,\"pay_within_s\":31536000"), SK_VERDICT_OK},
        {STOCK("1,\"pay_within_s\":31536001"), SK_VERDICT_INVALID},
        {STOCK("1,\"pay_within_s\":-1"), SK_VERDICT_INVALID},
        {STOCK("1,\"pay_within_s\":0.5"), SK_VERDICT_INVALID},
        {STOCK("1,\"currency\":\"CNY\""), SK_VERDICT_OK},
        {STOCK("1,\"currency\":\"cny\""), SK_VERDICT_INVALID},
        {STOCK("1,\"currency\":\"CN\""), SK_VERDICT_INVALID},
        {STOCK("1,\"currency\":\"CNYY\""), SK_VERDICT_INVALID},
        {STOCK("1,\"currency\":\"JPY\""), SK_VERDICT_OK},
        {STOCK("1,\"currency\":\"AED\""), SK_VERDICT_OK}, // the first
        {STOCK("1,\"currency\":\"ZWG\""), SK_VERDICT_OK}, // the last
        {STOCK("1,\"currency\":\"RMB\""), SK_VERDICT_INVALID},
        {STOCK("1,\"currency\":\"XAU\""), SK_VERDICT_INVALID}, // gold
        {STOCK("1,\"currency\":\"D A\""), SK_VERDICT_INVALID},
        {STOCK("1,\"currency\":\"\""), SK_VERDICT_INVALID},
        {STOCK("1,\"currency\":1"), SK_VERDICT_INVALID},
        {STOCK("1,\"limit\":1,\"limit\":1"), SK_VERDICT_BAD_JSON},
        {TITLE("\"\""), SK_VERDICT_INVALID},
        {TITLE("null"), SK_VERDICT_INVALID},
        {TITLE("1"), SK_VERDICT_INVALID},
        {TITLE("[\"T\"]"), SK_VERDICT_INVALID},
        {TIMES("1794326400000", "1794330000000"), SK_VERDICT_INVALID},
        {TIMES("null", "null"), SK_VERDICT_INVALID},
        {TIMES("\"2026-11-11T00:00:00Z\"", "\"2026-11-11T00:00:00.001Z\""), SK_VERDICT_OK},
        {TIMES("\"2026-11-11T00:00:00Z\"", "\"2026-11-11T00:00:00Z\""), SK_VERDICT_INVALID},
        {TIMES("\"2026-11-11T00:00:00Z\"", "\"2026-11-11T08:00:00+08:00\""), SK_VERDICT_INVALID}, // the same time
        {TIMES("\"2026-11-11T00:00:01Z\"", "\"2026-11-11T00:00:00Z\""), SK_VERDICT_INVALID},
        {TIMES("\"2026-11-11\"", "\"2026-11-12\""), SK_VERDICT_INVALID},
        {TIMES("\"\"", "\"2026-11-12T00:00:00Z\""), SK_VERDICT_INVALID},
        {TIMES("\"2026-11-11T00:00:00Z\"", "\"2026-02-30T00:00:00Z\""), SK_VERDICT_INVALID},
    };
    MUST_READ_ALL(rows);
}

TEST(a_title_has_at_most_200_bytes)
{
    char title[202], body[512];
    for (size_t len = 199; len <= 201; len++) {
        memset(title, 'T', len);
        title[len] = '\0';
        int n =
            snprintf(body, sizeof body, "{\"title\":\"%s\",\"stock\":1,\"price_cents\":1," BEGIN "," END "}", title);
        must_read(body, (size_t)n, len <= 200 ? SK_VERDICT_OK : SK_VERDICT_INVALID);
    }
}

// A deeply nested body must cost neither stack nor time.
TEST(deep_nesting_is_refused)
{
    enum { DEPTH = 10000 };
    static const char *const openings[] = {"[", "{\"stock\":", "[{\"a\":"};
    static const char *const closings[] = {"]", "}", "}]"};
    static char body[DEPTH * 12];
    for (size_t i = 0; i < sizeof openings / sizeof openings[0]; i++) {
        char *at = body;
        for (int depth = 0; depth < DEPTH; depth++)
            at = stpcpy(at, openings[i]);
        must_read(body, (size_t)(at - body), SK_VERDICT_BAD_JSON); // not closed
        at = stpcpy(at, "1");
        for (int depth = 0; depth < DEPTH; depth++)
            at = stpcpy(at, closings[i]);
        must_read(body, (size_t)(at - body), SK_VERDICT_BAD_JSON);
    }
}

// No prefix of a valid body is valid, and none is read past its end.
TEST(truncated_bodies_are_refused)
{
    static const char body[] = STOCK("1");
    for (size_t len = 0; len < sizeof body - 1; len++)
        must_read(body, len, SK_VERDICT_BAD_JSON);
    must_read(body, sizeof body - 1, SK_VERDICT_OK);
}

// ---- the reasons of a rejection ----

#define TITLE_ERROR   "/title must be a string of 1 to 200 bytes\n"
#define STOCK_ERROR   "/stock must be an integer from 0 to 100000000\n"
#define PRICE_ERROR   "/price_cents must be an integer from 0 to 100000000000\n"
#define TIME_ERROR    " must be a time of RFC 3339 from 1970 to 9999, such as 2030-01-31T20:00:00+08:00\n"
#define MISSING(name) "/" name " is required\n"
#define UNKNOWN(name) "/" name " is not known here\n"

struct told {
    const char *body;
    enum sk_verdict verdict;
    const char *errors; // each as "<pointer> <detail>\n"
};

static void errors_must_be(const char *body, size_t len, enum sk_verdict verdict, const char *expected)
{
    static char told[8192];
    struct sk_terms terms;
    struct sk_fields read;
    size_t i, n = 0;
    json_t *error;
    ck_assert_int_eq(read_copy(body, len, &terms, &read), verdict);
    told[0] = '\0';
    json_array_foreach(read.errors, i, error)
    {
        n +=
            (size_t)snprintf(told + n, sizeof told - n, "%s %s\n", json_string_value(json_object_get(error, "pointer")),
                             json_string_value(json_object_get(error, "detail")));
        ck_assert_uint_lt(n, sizeof told);
    }
    ck_assert_msg(strcmp(told, expected) == 0, "%.200s\nis told\n%sbut should be\n%s", body, told, expected);
    sk_fields_free(&read);
}

static void all_errors_must_be(const struct told *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        errors_must_be(rows[i].body, strlen(rows[i].body), rows[i].verdict, rows[i].errors);
}

#define ALL_ERRORS_MUST_BE(rows) all_errors_must_be(rows, sizeof(rows) / sizeof(rows)[0])

TEST(a_wrong_value_is_pointed_to)
{
    static const struct told rows[] = {
        {STOCK("0"), SK_VERDICT_OK, ""},
        {STOCK("100000000"), SK_VERDICT_OK, ""},
        {STOCK("-1"), SK_VERDICT_INVALID, STOCK_ERROR},
        {STOCK("100000001"), SK_VERDICT_INVALID, STOCK_ERROR},
        {STOCK("1.5"), SK_VERDICT_INVALID, STOCK_ERROR},
        {STOCK("\"1\""), SK_VERDICT_INVALID, STOCK_ERROR},
        {STOCK("null"), SK_VERDICT_INVALID, STOCK_ERROR},
        {STOCK("{\"stock\":-1}"), SK_VERDICT_INVALID, STOCK_ERROR},
        {PRICE("0"), SK_VERDICT_OK, ""},
        {PRICE("100000000000"), SK_VERDICT_OK, ""},
        {PRICE("-1"), SK_VERDICT_INVALID, PRICE_ERROR},
        {PRICE("100000000001"), SK_VERDICT_INVALID, PRICE_ERROR},
        {PRICE("true"), SK_VERDICT_INVALID, PRICE_ERROR},
        {STOCK("1,\"limit\":0"), SK_VERDICT_INVALID, "/limit must be an integer from 1 to 1000\n"},
        {STOCK("1,\"pay_within_s\":-1"), SK_VERDICT_INVALID, "/pay_within_s must be an integer from 0 to 31536000\n"},
        {STOCK("1,\"ticket\":1"), SK_VERDICT_INVALID, "/ticket must be true or false\n"},
        {STOCK("1,\"ticket\":null"), SK_VERDICT_INVALID, "/ticket must be true or false\n"},
        {STOCK("1,\"ticket\":false"), SK_VERDICT_OK, ""},
        {STOCK("1,\"work_bits\":25"), SK_VERDICT_INVALID, "/work_bits must be an integer from 0 to 24\n"},
        {STOCK("1,\"work_bits\":-1"), SK_VERDICT_INVALID, "/work_bits must be an integer from 0 to 24\n"},
        {STOCK("1,\"work_bits\":\"8\""), SK_VERDICT_INVALID, "/work_bits must be an integer from 0 to 24\n"},
        {STOCK("1,\"currency\":null"), SK_VERDICT_INVALID, "/currency must be a currency of ISO 4217, such as CNY\n"},
        {TITLE("\"\""), SK_VERDICT_INVALID, TITLE_ERROR},
        {TITLE("7"), SK_VERDICT_INVALID, TITLE_ERROR},
        {TIMES("\"yesterday\"", "\"2026-11-11T00:00:00Z\""), SK_VERDICT_INVALID, "/begin_at" TIME_ERROR},
        {TIMES("\"2026-11-11T00:00:00Z\"", "\"2026-11-11\""), SK_VERDICT_INVALID, "/end_at" TIME_ERROR},
        {TIMES("\"1969-12-31T23:59:59Z\"", "17"), SK_VERDICT_INVALID, "/begin_at" TIME_ERROR "/end_at" TIME_ERROR},
        {TIMES("\"2026-11-11T00:00:00Z\"", "\"2026-11-11T00:00:00Z\""), SK_VERDICT_INVALID,
         "/end_at must be later than begin_at\n"},
        {TIMES("\"2026-11-11T00:00:01Z\"", "\"2026-11-11T00:00:00Z\""), SK_VERDICT_INVALID,
         "/end_at must be later than begin_at\n"},
    };
    ALL_ERRORS_MUST_BE(rows);
}

TEST(all_problems_are_told_at_once)
{
    static const struct told rows[] = {
        {"{}", SK_VERDICT_BAD_JSON,
         MISSING("title") MISSING("stock") MISSING("price_cents") MISSING("begin_at") MISSING("end_at")},
        {"{\"title\":\"\",\"stock\":-1,\"price_cents\":\"1\",\"begin_at\":null,\"end_at\":\"x\"}", SK_VERDICT_INVALID,
         TITLE_ERROR STOCK_ERROR PRICE_ERROR "/begin_at" TIME_ERROR "/end_at" TIME_ERROR},
        {"{\"discount\":5,\"title\":\"\",\"Stock\":1,\"price_cents\":1," BEGIN "}", SK_VERDICT_BAD_JSON,
         MISSING("stock") MISSING("end_at") UNKNOWN("discount") UNKNOWN("Stock") TITLE_ERROR},
        {STOCK("-1,\"more\":null"), SK_VERDICT_BAD_JSON, UNKNOWN("more") STOCK_ERROR},
    };
    ALL_ERRORS_MUST_BE(rows);
}

TEST(unknown_names_are_pointers_that_can_be_followed)
{
    static const struct told rows[] = {
        {STOCK("1,\"a/b\":1"), SK_VERDICT_BAD_JSON, UNKNOWN("a~1b")},
        {STOCK("1,\"m~n\":1"), SK_VERDICT_BAD_JSON, UNKNOWN("m~0n")},
        {STOCK("1,\"~1/\":1"), SK_VERDICT_BAD_JSON, UNKNOWN("~01~1")},
        {STOCK("1,\"\":1"), SK_VERDICT_BAD_JSON, UNKNOWN("")},
        {STOCK("1,\"/\":1"), SK_VERDICT_BAD_JSON, UNKNOWN("~1")},
        {STOCK("1,\"\\\"\\n\\u00e9\":1"), SK_VERDICT_BAD_JSON, UNKNOWN("\"\n\xc3\xa9")},
    };
    ALL_ERRORS_MUST_BE(rows);
}

// Names are cut to 64 bytes, or slightly less so as not to split a character.
TEST(long_names_are_cut)
{
    static const struct {
        const char *character;
        size_t times, shown;
    } rows[] = {
        {"x", 64, 64},
        {"x", 65, 64},
        {"x", 5000, 64},
        {"~", 65, 64},
        {"\xc3\xa9", 33, 32},
        {"\xf0\x9f\x98\x80", 17, 16},
        {"\xe4\xb8\xad", 21, 21},
        {"\xe4\xb8\xad", 22, 21},
    };
    static char body[32768], expected[1024];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *escaped = rows[i].character[0] == '~' ? "~0" : rows[i].character;
        bool whole = rows[i].shown == rows[i].times;
        char *at = stpcpy(body, "{\"title\":\"T\",\"stock\":1,\"price_cents\":1," BEGIN "," END ",\""), *to = expected;
        for (size_t n = 0; n < rows[i].times; n++)
            at = stpcpy(at, rows[i].character);
        (void)stpcpy(at, "\":1}");
        *to++ = '/';
        for (size_t n = 0; n < rows[i].shown; n++)
            to = stpcpy(to, escaped);
        (void)stpcpy(to, whole ? " is not known here\n" : " is not known here; the name is longer\n");
        errors_must_be(body, strlen(body), SK_VERDICT_BAD_JSON, expected);
    }
}

TEST(the_list_of_problems_is_bounded)
{
    static char body[32768], expected[4096];
    for (int unknown = 10; unknown <= 1000; unknown += unknown < 20 ? 1 : 490) {
        char *at = body, *to = stpcpy(expected, MISSING("title"));
        at = stpcpy(at, "{\"stock\":1,\"price_cents\":1," BEGIN "," END);
        for (int i = 0; i < unknown; i++) {
            at += sprintf(at, ",\"u%d\":1", i);
            if (i < SK_FIELDS_ERRORS_MAX - 1)
                to += sprintf(to, "/u%d is not known here\n", i);
        }
        (void)stpcpy(at, "}");
        if (unknown > SK_FIELDS_ERRORS_MAX - 1)
            (void)stpcpy(to, " has more problems\n");
        errors_must_be(body, strlen(body), SK_VERDICT_BAD_JSON, expected);
    }
}

// The place and kind of the error, and nothing of the body.
TEST(syntax_errors_tell_the_place)
{
#define AT(reason, line, column) " cannot be read as JSON: " reason " (line " #line ", column " #column ")\n"
    static const struct told rows[] = {
        {"", SK_VERDICT_BAD_JSON, " must be a JSON object, but there is no body\n"},
        {"[]", SK_VERDICT_BAD_JSON, " must be a JSON object\n"},
        {"1", SK_VERDICT_BAD_JSON, " must be a JSON object\n"},
        {"null", SK_VERDICT_BAD_JSON, " must be a JSON object\n"},
        {"{\"title\":", SK_VERDICT_BAD_JSON, AT("it ends too early", 1, 9)},
        {"{\n\"title\": secret}", SK_VERDICT_BAD_JSON, AT("the syntax is wrong", 2, 15)},
        {"{\"stock\":1e999}", SK_VERDICT_BAD_JSON, AT("a number is too large", 1, 14)},
        {"{\"stock\":9223372036854775808}", SK_VERDICT_BAD_JSON, AT("a number is too large", 1, 28)},
        {"{\"title\":\"\\u0000\"}", SK_VERDICT_BAD_JSON, AT("\\u0000 is not allowed", 1, 17)},
        {"{\"\\u0000\":1}", SK_VERDICT_BAD_JSON, AT("\\u0000 is not allowed", 1, 9)},
        {"{\"title\":\"\\ud800\"}", SK_VERDICT_BAD_JSON, AT("the syntax is wrong", 1, 17)},
        {"{\"title\":\"\xff\"}", SK_VERDICT_BAD_JSON, AT("it is not UTF-8", 1, 10)},
        {"{} secret", SK_VERDICT_BAD_JSON, AT("there is more behind its end", 1, 9)},
        {"{\"stock\":1,\n\"stock\":2,\"secret\":3}", SK_VERDICT_BAD_JSON,
         AT("a member is there twice; what else is wrong is not listed", 2, 7)},
        {"{\"more\":{\"a\":1,\"a\":2}}", SK_VERDICT_BAD_JSON,
         AT("a member is there twice; what else is wrong is not listed", 1, 18)},
    };
#undef AT
    ALL_ERRORS_MUST_BE(rows);
    static char deep[10000];
    memset(deep, '[', sizeof deep);
    errors_must_be(deep, sizeof deep, SK_VERDICT_BAD_JSON,
                   " cannot be read as JSON: it nests too deep (line 1, column 2049)\n");
}
