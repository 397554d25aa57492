// The body of POST /admin/vouchers: 400 for what has not the expected members, 422 for a value of the wrong
// type or out of range.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stack.h"
#include "terms.h"

#define BEGIN "\"begin_at\":\"2026-11-11T00:00:00+08:00\""
#define END   "\"end_at\":\"2026-11-11T01:00:00+08:00\""
// The members before and after the one that a row is about.
#define TITLE(value) "{\"title\":" value ",\"stock\":1,\"price_cents\":1," BEGIN "," END "}"
#define STOCK(value) "{\"title\":\"T\",\"stock\":" value ",\"price_cents\":1," BEGIN "," END "}"
#define PRICE(value) "{\"title\":\"T\",\"stock\":1,\"price_cents\":" value "," BEGIN "," END "}"
#define TIMES(begin_at, end_at) \
    "{\"title\":\"T\",\"stock\":1,\"price_cents\":1,\"begin_at\":" begin_at ",\"end_at\":" end_at "}"

struct row {
    const char *body;
    enum sk_verdict verdict;
};

static void must_read(const char *body, size_t len, enum sk_verdict verdict)
{
    struct sk_terms terms;
    struct json_t *document = NULL;
    // A copy of its very size: reading past its end would be seen.
    char *copy = malloc(len == 0 ? 1 : len);
    memcpy(copy, body, len);
    enum sk_verdict is = sk_terms_read(copy, len, &terms, &document);
    ck_assert_msg(is == verdict, "%s instead of %s: %.120s", sk_verdict_code(is), sk_verdict_code(verdict), body);
    sk_terms_free(document);
    free(copy);
}

static void must_read_all(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        must_read(rows[i].body, strlen(rows[i].body), rows[i].verdict);
}

#define MUST_READ_ALL(rows) must_read_all(rows, sizeof(rows) / sizeof(rows)[0])

START_TEST(good_terms_are_read)
{
    static const char body[] =
        " {\"end_at\":\"2026-11-11T01:00:00.5+08:00\",\"stock\":100,"
        "\"title\":\"Gr\xc3\xbc\\u00df\\n\\\"e\\ud83d\\ude00\",\"price_cents\":9900, " BEGIN "}\n";
    struct sk_terms terms;
    struct json_t *document = NULL;
    ck_assert_int_eq(sk_terms_read(body, sizeof body - 1, &terms, &document), SK_VERDICT_FOUND);
    ck_assert_str_eq(terms.title, "Gr\xc3\xbc\xc3\x9f\n\"e\xf0\x9f\x98\x80");
    ck_assert_int_eq(terms.stock, 100);
    ck_assert_int_eq(terms.price_cents, 9900);
    ck_assert_int_eq(terms.begin_ms, INT64_C(1794326400000));
    ck_assert_int_eq(terms.end_ms, INT64_C(1794330000500));
    sk_terms_free(document);
}
END_TEST

START_TEST(what_is_not_json_is_refused)
{
    static const struct row rows[] = {
        {"", SK_VERDICT_BAD_JSON},
        {" ", SK_VERDICT_BAD_JSON},
        {"title=T&stock=1", SK_VERDICT_BAD_JSON},
        {"<terms/>", SK_VERDICT_BAD_JSON},
        {STOCK("1") "x", SK_VERDICT_BAD_JSON}, // trailing bytes
        {STOCK("1") "{}", SK_VERDICT_BAD_JSON},
        {STOCK("1") "\n", SK_VERDICT_FOUND},
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
        {TITLE("\"\xf4\x90\x80\x80\""), SK_VERDICT_BAD_JSON}, // past the last character
        {TITLE("\"a\nb\""), SK_VERDICT_BAD_JSON},             // a control character
        {TITLE("\"T"), SK_VERDICT_BAD_JSON},
        {TITLE("T"), SK_VERDICT_BAD_JSON},
    };
    struct sk_terms terms;
    struct json_t *document = NULL;
    MUST_READ_ALL(rows);
    must_read(STOCK("1") "\0", sizeof STOCK("1"), SK_VERDICT_BAD_JSON);
    ck_assert_int_eq(sk_terms_read(NULL, 0, &terms, &document), SK_VERDICT_BAD_JSON); // no body
    sk_terms_free(document);
}
END_TEST

START_TEST(json_of_another_form_is_refused)
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
        // unknown, differently spelt and duplicate ones
        {STOCK("1,\"discount\":5"), SK_VERDICT_BAD_JSON},
        {STOCK("1,\"\":1"), SK_VERDICT_BAD_JSON},
        {STOCK("1,\"Stock\":1"), SK_VERDICT_BAD_JSON},
        {STOCK("1,\"stock\":1"), SK_VERDICT_BAD_JSON},
        {STOCK("1,\"sto\\u0063k\":2"), SK_VERDICT_BAD_JSON},
    };
    MUST_READ_ALL(rows);
}
END_TEST

START_TEST(wrong_values_are_told_apart)
{
    static const struct row rows[] = {
        {STOCK("0"), SK_VERDICT_FOUND},
        {STOCK("1"), SK_VERDICT_FOUND},
        {STOCK("100000000"), SK_VERDICT_FOUND},
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
        {PRICE("0"), SK_VERDICT_FOUND},
        {PRICE("100000000000"), SK_VERDICT_FOUND},
        {PRICE("100000000001"), SK_VERDICT_INVALID},
        {PRICE("-1"), SK_VERDICT_INVALID},
        {PRICE("9.99"), SK_VERDICT_INVALID},
        {PRICE("\"999\""), SK_VERDICT_INVALID},
        {TITLE("\"\""), SK_VERDICT_INVALID},
        {TITLE("null"), SK_VERDICT_INVALID},
        {TITLE("1"), SK_VERDICT_INVALID},
        {TITLE("[\"T\"]"), SK_VERDICT_INVALID},
        {TIMES("1794326400000", "1794330000000"), SK_VERDICT_INVALID},
        {TIMES("null", "null"), SK_VERDICT_INVALID},
        {TIMES("\"2026-11-11T00:00:00Z\"", "\"2026-11-11T00:00:00.001Z\""), SK_VERDICT_FOUND},
        {TIMES("\"2026-11-11T00:00:00Z\"", "\"2026-11-11T00:00:00Z\""), SK_VERDICT_INVALID},
        {TIMES("\"2026-11-11T00:00:00Z\"", "\"2026-11-11T08:00:00+08:00\""), SK_VERDICT_INVALID}, // the same moment
        {TIMES("\"2026-11-11T00:00:01Z\"", "\"2026-11-11T00:00:00Z\""), SK_VERDICT_INVALID},
        {TIMES("\"2026-11-11\"", "\"2026-11-12\""), SK_VERDICT_INVALID},
        {TIMES("\"\"", "\"2026-11-12T00:00:00Z\""), SK_VERDICT_INVALID},
        {TIMES("\"2026-11-11T00:00:00Z\"", "\"2026-02-30T00:00:00Z\""), SK_VERDICT_INVALID},
    };
    MUST_READ_ALL(rows);
}
END_TEST

START_TEST(a_title_has_at_most_200_bytes)
{
    char title[202], body[512];
    for (size_t len = 199; len <= 201; len++) {
        memset(title, 'T', len);
        title[len] = '\0';
        int n =
            snprintf(body, sizeof body, "{\"title\":\"%s\",\"stock\":1,\"price_cents\":1," BEGIN "," END "}", title);
        must_read(body, (size_t)n, len <= 200 ? SK_VERDICT_FOUND : SK_VERDICT_INVALID);
    }
}
END_TEST

// A body as deep as it is long must cost neither the stack nor the time.
START_TEST(deep_nesting_is_refused)
{
    enum { DEPTH = 10000 };
    static const char *const openings[] = {"[", "{\"stock\":", "[{\"a\":"};
    static const char *const closings[] = {"]", "}", "}]"};
    static char body[DEPTH * 12];
    for (size_t i = 0; i < sizeof openings / sizeof openings[0]; i++) {
        char *at = body;
        for (int depth = 0; depth < DEPTH; depth++)
            at = stpcpy(at, openings[i]);
        must_read(body, (size_t)(at - body), SK_VERDICT_BAD_JSON); // never closed
        at = stpcpy(at, "1");
        for (int depth = 0; depth < DEPTH; depth++)
            at = stpcpy(at, closings[i]);
        must_read(body, (size_t)(at - body), SK_VERDICT_BAD_JSON);
    }
}
END_TEST

// No prefix of a good body is a good body, and none is read past its end.
START_TEST(truncated_bodies_are_refused)
{
    static const char body[] = STOCK("1");
    for (size_t len = 0; len < sizeof body - 1; len++)
        must_read(body, len, SK_VERDICT_BAD_JSON);
    must_read(body, sizeof body - 1, SK_VERDICT_FOUND);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("terms");
    tcase_add_test(tcase, good_terms_are_read);
    tcase_add_test(tcase, what_is_not_json_is_refused);
    tcase_add_test(tcase, json_of_another_form_is_refused);
    tcase_add_test(tcase, wrong_values_are_told_apart);
    tcase_add_test(tcase, a_title_has_at_most_200_bytes);
    tcase_add_test(tcase, deep_nesting_is_refused);
    tcase_add_test(tcase, truncated_bodies_are_refused);
    return harness_main(tcase, CK_FORK);
}
