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

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

#define BEGIN "\"begin_at\":\"2026-11-11T00:00:00+08:00\""
#define END   "\"end_at\":\"2026-11-11T01:00:00+08:00\""
// The members before and after the tested one.
#define TITLE(value) "{\"title\":" value ",\"stock\":1,\"price_cents\":1," BEGIN "," END "}"
#define STOCK(value) "{\"title\":\"T\",\"stock\":" value ",\"price_cents\":1," BEGIN "," END "}"
#define PRICE(value) "{\"title\":\"T\",\"stock\":1,\"price_cents\":" value "," BEGIN "," END "}"
#define TIMES(begin_at, end_at) \
    "{\"title\":\"T\",\"stock\":1,\"price_cents\":1,\"begin_at\":" begin_at ",\"end_at\":" end_at "}"
// Another member.
#define MORE(name, value) STOCK("1,\"" name "\":" value)

#define TITLE_ERROR       "/title must be a string of 1 to 200 bytes\n"
#define DESCRIPTION_ERROR "/description must be a string of up to 1000 bytes\n"
#define PICTURE_ERROR     "/picture must be a URL of an origin of SECKILL_PICTURE_ORIGINS, or empty\n"
#define STOCK_ERROR       "/stock must be an integer from 0 to 100000000\n"
#define PRICE_ERROR       "/price_cents must be an integer from 0 to 100000000000\n"
#define LIMIT_ERROR       "/limit must be an integer from 1 to 1000\n"
#define MORE_ERROR        "/more_at must be empty, or a time as end_at\n"
#define SCOPE_ERROR       "/scope must be the id of a voucher\n"
#define ORDERS_ERROR      "/orders_per_user must be an integer from 1 to 1000\n"
#define EXTEND_ERROR      "/extend_s must be an integer from 0 to 86400\n"
#define PAY_WITHIN_ERROR  "/pay_within_s must be an integer from 0 to 31536000\n"
#define CURRENCY_ERROR    "/currency must be a currency of ISO 4217, such as CNY\n"
#define TICKET_ERROR      "/ticket must be true or false\n"
#define WORK_ERROR        "/work_bits must be an integer from 0 to 24\n"
#define TIME_ERROR        " must be a time of RFC 3339 from 1970 to 9999, such as 2030-01-31T20:00:00+08:00\n"
#define LATER_ERROR       "/end_at must be later than begin_at\n"
#define PAST_ERROR        "/end_at is in the past, which needs allow_past\n"
#define MISSING(name)     "/" name " is required\n"
#define UNKNOWN(name)     "/" name " is not known here\n"

static struct sk_terms_rules rules = {.tickets = true};

// Each as "<pointer> <detail>\n".
static const char *errors_of(const struct sk_fields *read)
{
    static char told[8192];
    size_t i, n = 0;
    json_t *error;
    told[0] = '\0';
    json_array_foreach(read->errors, i, error)
    {
        const char *pointer, *detail;
        ck_assert_int_eq(json_unpack(error, "{s:s,s:s!}", "pointer", &pointer, "detail", &detail), 0);
        n += (size_t)snprintf(told + n, sizeof told - n, "%s %s\n", pointer, detail);
        ck_assert_uint_lt(n, sizeof told);
    }
    ck_assert_int_eq(read->errors != NULL, n > 0);
    return told;
}

// Reads a copy of the exact size, so that reading past its end is detected. `errors` NULL: any.
static void must_tell(const char *body, size_t len, enum sk_verdict verdict, const char *errors)
{
    struct sk_terms terms;
    struct sk_fields read;
    char *copy = malloc(len == 0 ? 1 : len);
    memcpy(copy, body, len);
    enum sk_verdict is = sk_terms_read(copy, len, &rules, &terms, &read);
    free(copy);
    ck_assert_msg(is == verdict, "%s instead of %s: %.120s", sk_verdict_code(is), sk_verdict_code(verdict), body);
    const char *told = errors_of(&read);
    ck_assert_int_eq(told[0] != '\0', verdict != SK_VERDICT_OK);
    ck_assert_msg(errors == NULL || strcmp(told, errors) == 0, "%.200s\nis told\n%sbut should be\n%s", body, told,
                  errors);
    sk_fields_free(&read);
}

struct told {
    const char *body, *errors; // errors "": it is good
};

static void all_must_tell(const struct told *rows, size_t count, enum sk_verdict verdict)
{
    for (size_t i = 0; i < count; i++)
        must_tell(rows[i].body, strlen(rows[i].body), rows[i].errors[0] == '\0' ? SK_VERDICT_OK : verdict,
                  rows[i].errors);
}

static void read_good(const char *body, struct sk_terms *terms, struct sk_fields *read)
{
    ck_assert_int_eq(sk_terms_read(body, strlen(body), &rules, terms, read), SK_VERDICT_OK);
    ck_assert_ptr_null(read->errors);
}

TEST(good_terms_are_read)
{
    struct sk_terms terms;
    struct sk_fields read;
    read_good(" {\"end_at\":\"2026-11-11T01:00:00.5+08:00\",\"stock\":100,"
              "\"title\":\"Gr\xc3\xbc\\u00df\\n\\\"e\\ud83d\\ude00\",\"price_cents\":9900, " BEGIN "}\n",
              &terms, &read);
    ck_assert_str_eq(terms.title, "Gr\xc3\xbc\xc3\x9f\n\"e\xf0\x9f\x98\x80");
    ck_assert_int_eq(terms.stock, 100);
    ck_assert_int_eq(terms.price_cents, 9900);
    ck_assert_int_eq(terms.begin_ms, INT64_C(1794326400000));
    ck_assert_int_eq(terms.end_ms, INT64_C(1794330000500));
    ck_assert_int_eq(terms.user_limit, 1);
    ck_assert_int_eq(terms.orders_per_user, 3);
    ck_assert_int_eq(terms.pay_within_s, 900);
    ck_assert_int_eq(terms.extend_s, 120);
    ck_assert_str_eq(terms.currency, "CNY");
    ck_assert(terms.ticket == 0 && terms.work_bits == 0 && terms.description == NULL && terms.picture == NULL);
    sk_fields_free(&read);
    read_good(STOCK("1,\"limit\":1000,\"pay_within_s\":0,\"currency\":\"EUR\",\"ticket\":true,\"work_bits\":24,"
                    "\"description\":\"\",\"picture\":\"\",\"orders_per_user\":1000,\"extend_s\":0"),
              &terms, &read);
    ck_assert(terms.orders_per_user == 1000 && terms.extend_s == 0);
    ck_assert(terms.user_limit == 1000 && terms.pay_within_s == 0 && terms.ticket == 1 && terms.work_bits == 24);
    ck_assert_str_eq(terms.currency, "EUR");
    ck_assert_str_eq(terms.description, "");
    ck_assert_str_eq(terms.picture, "");
    sk_fields_free(&read);
}

// Of a free item nothing is to be paid, so its orders do not expire unless they are to.
TEST(a_free_item_has_no_time_to_pay)
{
    static const char *const bodies[] = {PRICE("0"), PRICE("0,\"pay_within_s\":60"), PRICE("1")};
    static const int64_t within_s[] = {0, 60, 900};
    for (size_t i = 0; i < COUNT(bodies); i++) {
        struct sk_terms terms;
        struct sk_fields read;
        read_good(bodies[i], &terms, &read);
        ck_assert_int_eq(terms.pay_within_s, within_s[i]);
        sk_fields_free(&read);
    }
}

TEST(a_picture_is_of_a_listed_origin)
{
    static const struct told rows[] = {
        {MORE("picture", "\"https://pictures.example/tea.webp?w=320\""), ""},
        {MORE("picture", "\"http://127.0.0.1:8000/\""), ""},
        {MORE("picture", "\"https://pictures.example\""), PICTURE_ERROR},
        {MORE("picture", "\"https://pictures.example.evil/tea.webp\""), PICTURE_ERROR},
        {MORE("picture", "\"https://pictures.example:444/tea.webp\""), PICTURE_ERROR},
        {MORE("picture", "\"https://elsewhere.example/tea.webp\""), PICTURE_ERROR},
        {MORE("picture", "\"https://pictures.example/\\\"onload=x\""), PICTURE_ERROR},
        {MORE("picture", "\"/tea.webp\""), PICTURE_ERROR},
        {MORE("picture", "7"), PICTURE_ERROR},
    };
    struct sk_cors *origins =
        sk_cors_open_list("SECKILL_PICTURE_ORIGINS", "https://pictures.example, http://127.0.0.1:8000", stderr);
    ck_assert_ptr_nonnull(origins);
    rules.pictures = origins;
    all_must_tell(rows, COUNT(rows), SK_VERDICT_INVALID);
    rules.pictures = NULL; // without the setting none is
    must_tell(rows[0].body, strlen(rows[0].body), SK_VERDICT_INVALID, PICTURE_ERROR);
    sk_cors_close(origins);
}

TEST(a_window_may_be_over_for_those_who_mean_it)
{
    static const struct told rows[] = {
        {STOCK("1"), PAST_ERROR},
        {MORE("allow_past", "false"), PAST_ERROR},
        {MORE("allow_past", "1"), "/allow_past must be true or false\n" PAST_ERROR},
        {MORE("allow_past", "true"), ""},
    };
    still_at_ms = (END_S - 1) * UINT64_C(1000);
    must_tell(STOCK("1"), strlen(STOCK("1")), SK_VERDICT_OK, "");
    still_at_ms = END_S * UINT64_C(1000);
    all_must_tell(rows, COUNT(rows), SK_VERDICT_INVALID);
}

TEST(a_ticket_needs_a_secret)
{
    static const struct told rows[] = {
        {MORE("ticket", "false"), ""},
        {MORE("ticket", "true"), "/ticket needs SECKILL_TICKET_SECRET, which this instance does not have\n"},
    };
    rules.tickets = false;
    all_must_tell(rows, COUNT(rows), SK_VERDICT_INVALID);
}

TEST(a_wrong_value_is_pointed_to)
{
    static const struct told rows[] = {
        {STOCK("0"), ""},
        {STOCK("100000000"), ""},
        {STOCK("100000001"), STOCK_ERROR},
        {STOCK("9223372036854775807"), STOCK_ERROR},
        {STOCK("-1"), STOCK_ERROR},
        {STOCK("1.0"), STOCK_ERROR},
        {STOCK("\"1\""), STOCK_ERROR},
        {STOCK("null"), STOCK_ERROR}, // null differs from a missing member
        {STOCK("{\"stock\":-1}"), STOCK_ERROR},
        {PRICE("0"), ""},
        {PRICE("100000000000"), ""},
        {PRICE("100000000001"), PRICE_ERROR},
        {PRICE("-1"), PRICE_ERROR},
        {MORE("limit", "1"), ""},
        {MORE("limit", "0"), LIMIT_ERROR},
        {MORE("limit", "1001"), LIMIT_ERROR},
        {MORE("limit", "2147483648"), LIMIT_ERROR},
        {MORE("limit", "null"), LIMIT_ERROR},
        {MORE("pay_within_s", "31536000"), ""},
        {MORE("pay_within_s", "31536001"), PAY_WITHIN_ERROR},
        {MORE("pay_within_s", "-1"), PAY_WITHIN_ERROR},
        {MORE("more_at", "\"\""), ""},
        {MORE("more_at", "\"2026-11-11T01:00:00+08:00\""), ""},
        {MORE("more_at", "\"soon\""), MORE_ERROR},
        {MORE("more_at", "7"), MORE_ERROR},
        {MORE("scope", "\"9223372036854775807\""), ""},
        {MORE("scope", "\"0\""), SCOPE_ERROR},
        {MORE("scope", "7"), SCOPE_ERROR},
        {MORE("orders_per_user", "1"), ""},
        {MORE("orders_per_user", "0"), ORDERS_ERROR},
        {MORE("orders_per_user", "1001"), ORDERS_ERROR},
        {MORE("extend_s", "86400"), ""},
        {MORE("extend_s", "86401"), EXTEND_ERROR},
        {MORE("extend_s", "-1"), EXTEND_ERROR},
        {MORE("currency", "\"CNY\""), ""},
        {MORE("currency", "\"AED\""), ""}, // the first
        {MORE("currency", "\"ZWG\""), ""}, // the last
        {MORE("currency", "\"cny\""), CURRENCY_ERROR},
        {MORE("currency", "\"CN\""), CURRENCY_ERROR},
        {MORE("currency", "\"CNY \""), CURRENCY_ERROR},
        {MORE("currency", "\"XAU\""), CURRENCY_ERROR}, // gold
        {MORE("currency", "\"D A\""), CURRENCY_ERROR},
        {MORE("currency", "1"), CURRENCY_ERROR},
        {MORE("ticket", "false"), ""},
        {MORE("ticket", "1"), TICKET_ERROR},
        {MORE("work_bits", "25"), WORK_ERROR},
        {MORE("work_bits", "-1"), WORK_ERROR},
        {MORE("description", "null"), DESCRIPTION_ERROR},
        {TITLE("\"\""), TITLE_ERROR},
        {TITLE("[\"T\"]"), TITLE_ERROR},
        {TIMES("1794326400000", "null"), "/begin_at" TIME_ERROR "/end_at" TIME_ERROR},
        {TIMES("\"2026-11-11\"", "\"2026-11-12T00:00:00Z\""), "/begin_at" TIME_ERROR},
        {TIMES("\"2026-11-11T00:00:00Z\"", "\"2026-02-30T00:00:00Z\""), "/end_at" TIME_ERROR},
        {TIMES("\"2026-11-11T00:00:00Z\"", "\"2026-11-11T00:00:00.001Z\""), ""},
        {TIMES("\"2026-11-11T00:00:00Z\"", "\"2026-11-11T08:00:00+08:00\""), LATER_ERROR}, // the same time
        {TIMES("\"2026-11-11T00:00:01Z\"", "\"2026-11-11T00:00:00Z\""), LATER_ERROR},
        {"{\"title\":\"\",\"stock\":-1,\"price_cents\":\"1\",\"begin_at\":null,\"end_at\":\"x\"}",
         TITLE_ERROR STOCK_ERROR PRICE_ERROR "/begin_at" TIME_ERROR "/end_at" TIME_ERROR},
    };
    all_must_tell(rows, COUNT(rows), SK_VERDICT_INVALID);
}

TEST(texts_have_a_length)
{
    static const struct {
        const char *format, *errors;
        size_t most;
    } rows[] = {{"{\"title\":\"%s\",\"stock\":1,\"price_cents\":1," BEGIN "," END "}", TITLE_ERROR, 200},
                {MORE("description", "\"%s\""), DESCRIPTION_ERROR, 1000}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t len = rows[i].most - 1; len <= rows[i].most + 1; len++) {
            char text[1002], body[1400];
            memset(text, 'T', len);
            text[len] = '\0';
            (void)snprintf(body, sizeof body, rows[i].format, text);
            bool good = len <= rows[i].most;
            must_tell(body, strlen(body), good ? SK_VERDICT_OK : SK_VERDICT_INVALID, good ? "" : rows[i].errors);
        }
    }
}

TEST(missing_and_unknown_members_are_told_with_all_others)
{
    static const struct told rows[] = {
        {"{}", MISSING("title") MISSING("stock") MISSING("price_cents") MISSING("begin_at") MISSING("end_at")},
        {"{\"discount\":5,\"title\":\"\",\"Stock\":1,\"price_cents\":1," BEGIN "}",
         MISSING("stock") MISSING("end_at") UNKNOWN("discount") UNKNOWN("Stock") TITLE_ERROR},
        {STOCK("-1,\"more\":null"), UNKNOWN("more") STOCK_ERROR},
        // Each name is a pointer that can be followed.
        {MORE("a/b", "1"), UNKNOWN("a~1b")},
        {MORE("m~n", "1"), UNKNOWN("m~0n")},
        {MORE("~1/", "1"), UNKNOWN("~01~1")},
        {MORE("", "1"), UNKNOWN("")},
        {MORE("\\\"\\n\\u00e9", "1"), UNKNOWN("\"\n\xc3\xa9")},
    };
    all_must_tell(rows, COUNT(rows), SK_VERDICT_BAD_JSON);
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
    for (size_t i = 0; i < COUNT(rows); i++) {
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
        must_tell(body, strlen(body), SK_VERDICT_BAD_JSON, expected);
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
        must_tell(body, strlen(body), SK_VERDICT_BAD_JSON, expected);
    }
}

// The place and kind of the error, and nothing of the body.
TEST(what_is_not_json_is_told_with_its_place)
{
#define AT(reason, line, column) " cannot be read as JSON: " reason " (line " #line ", column " #column ")\n"
    static const struct told rows[] = {
        {STOCK("1") "\n", ""},
        {"", " must be a JSON object, but there is no body\n"},
        {"[]", " must be a JSON object\n"},
        {"null", " must be a JSON object\n"},
        {"[" STOCK("1") "]", " must be a JSON object\n"},
        {" ", AT("it ends too early", 1, 1)},
        {"{\"title\":", AT("it ends too early", 1, 9)},
        {"title=T&stock=1", AT("the syntax is wrong", 1, 5)},
        {"{\n\"title\": secret}", AT("the syntax is wrong", 2, 15)},
        {"{\"title\":\"\\ud800\"}", AT("the syntax is wrong", 1, 17)}, // a lone surrogate
        {"{\"stock\":1e999}", AT("a number is too large", 1, 14)},
        {"{\"stock\":9223372036854775808}", AT("a number is too large", 1, 28)},
        {"{\"title\":\"\\u0000\"}", AT("\\u0000 is not allowed", 1, 17)},
        {"{\"\\u0000\":1}", AT("\\u0000 is not allowed", 1, 9)},
        {"{\"title\":\"\xff\"}", AT("it is not UTF-8", 1, 10)},
        {"{} secret", AT("there is more behind its end", 1, 9)},
        {"{\"stock\":1,\n\"sto\\u0063k\":2,\"secret\":3}",
         AT("a member is there twice; what else is wrong is not listed", 2, 12)},
        {"{\"more\":{\"a\":1,\"a\":2}}", AT("a member is there twice; what else is wrong is not listed", 1, 18)},
    };
    static char deep[10000]; // which must cost neither stack nor time
    struct sk_terms terms;
    struct sk_fields read;
    all_must_tell(rows, COUNT(rows), SK_VERDICT_BAD_JSON);
    must_tell(STOCK("1") "\0", sizeof STOCK("1"), SK_VERDICT_BAD_JSON, NULL);
    ck_assert_int_eq(sk_terms_read(NULL, 0, &rules, &terms, &read), SK_VERDICT_BAD_JSON); // no body
    sk_fields_free(&read);
    memset(deep, '[', sizeof deep);
    must_tell(deep, sizeof deep, SK_VERDICT_BAD_JSON, AT("it nests too deep", 1, 2049));
#undef AT
}

// No prefix of a valid body is valid, and none is read past its end.
TEST(truncated_bodies_are_refused)
{
    static const char body[] = STOCK("1");
    for (size_t len = 0; len < sizeof body - 1; len++)
        must_tell(body, len, SK_VERDICT_BAD_JSON, NULL);
}

// ---- the other bodies ----

TEST(a_change_has_any_of_the_terms_but_the_stock)
{
    static const char body[] = "{\"title\":\"T\",\"limit\":2}", stock[] = "{\"stock\":1,\"price_cents\":-1}";
    struct sk_terms terms;
    struct sk_fields read;
    ck_assert_int_eq(sk_terms_read_change(body, strlen(body), &rules, &terms, &read), SK_VERDICT_OK);
    ck_assert_str_eq(terms.title, "T");
    ck_assert_int_eq(terms.user_limit, 2);
    ck_assert(terms.currency == NULL && terms.description == NULL && terms.picture == NULL);
    const int64_t others[] = {terms.price_cents,  terms.begin_ms, terms.end_ms, terms.orders_per_user,
                              terms.pay_within_s, terms.extend_s, terms.ticket, terms.work_bits};
    for (size_t i = 0; i < COUNT(others); i++)
        ck_assert_int_eq(others[i], SK_TERM_AS_IT_IS);
    sk_fields_free(&read);
    ck_assert_int_eq(sk_terms_read_change(stock, strlen(stock), &rules, &terms, &read), SK_VERDICT_INVALID);
    ck_assert_str_eq(errors_of(&read),
                     PRICE_ERROR "/stock is not changed here but by POST /admin/vouchers/{id}/stock\n");
    sk_fields_free(&read);
    ck_assert_int_eq(sk_terms_read_change("", 0, &rules, &terms, &read), SK_VERDICT_BAD_JSON);
    ck_assert_ptr_null(terms.title);
    sk_fields_free(&read);
}

TEST(units_are_added_or_taken_away)
{
#define ONE_OF_TWO "/add or reduce must be there, one of the two\n"
    static const struct {
        const char *body;
        int64_t units;
        const char *errors;
    } rows[] = {
        {"{\"add\":1}", 1, ""},
        {"{\"reduce\":100000000}", -100000000, ""},
        {"{\"add\":0}", 0, "/add must be an integer from 1 to 100000000\n"},
        {"{\"reduce\":100000001}", 0, "/reduce must be an integer from 1 to 100000000\n"},
        {"{}", 0, ONE_OF_TWO},
        {"{\"add\":2,\"reduce\":1}", -1, ONE_OF_TWO},
        {"", 0, " must be a JSON object, but there is no body\n"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t units = 99;
        struct sk_fields read;
        enum sk_verdict verdict = sk_terms_read_stock(rows[i].body, strlen(rows[i].body), &units, &read);
        ck_assert_int_eq(verdict == SK_VERDICT_OK, rows[i].errors[0] == '\0');
        ck_assert_str_eq(errors_of(&read), rows[i].errors);
        ck_assert_int_eq(units, rows[i].units);
        sk_fields_free(&read);
    }
}
