// The bodies of POST /orders/{id}/pay, /extend and /refund. Missing or unexpected members give 400, values of a wrong
// type or out of range 422, each with a list of all errors. test_terms.c covers what applies to every body.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moves.h"
#include "test.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define PAYMENT(reference, cents, currency) \
    "{\"reference\":" reference ",\"amount_cents\":" cents ",\"currency\":" currency "}"
#define REFERENCE(value) PAYMENT(value, "100", "\"CNY\"")
#define CENTS(value)     PAYMENT("\"ref-1\"", value, "\"CNY\"")
#define CURRENCY(value)  PAYMENT("\"ref-1\"", "100", value)
#define CHARS_64         "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct row {
    const char *body;
    enum sk_verdict verdict;
    const char *wrong; // the pointers, each after a blank
};

static enum sk_verdict read_payment(const char *body, size_t len, struct sk_fields *read)
{
    struct sk_payment payment = {0};
    return sk_payment_read(body, len, &payment, read);
}

static enum sk_verdict read_refund(const char *body, size_t len, struct sk_fields *read)
{
    struct sk_refund refund;
    return sk_refund_read(body, len, &refund, read);
}

static void must_read_all(enum sk_verdict (*read_body)(const char *body, size_t len, struct sk_fields *read),
                          const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct sk_fields read;
        char wrong[256] = "", *copy = strdup(rows[i].body); // of the exact size, with a NUL
        size_t at, len = strlen(copy);
        json_t *error;
        enum sk_verdict is = read_body(copy, len, &read);
        json_array_foreach(read.errors, at, error)
        {
            size_t n = strlen(wrong);
            ck_assert_str_ne(json_string_value(json_object_get(error, "detail")), "");
            (void)snprintf(wrong + n, sizeof wrong - n, " %s", json_string_value(json_object_get(error, "pointer")));
        }
        ck_assert_msg(is == rows[i].verdict && strcmp(wrong, rows[i].wrong) == 0, "%s '%s': %s", sk_verdict_code(is),
                      wrong, rows[i].body);
        sk_fields_free(&read);
        free(copy);
    }
}

TEST(a_payment_is_read)
{
    static const char body[] = "{\"currency\":\"EUR\",\"amount_cents\":100000000000000,\"reference\":\"!~\\u0041\"}";
    struct sk_payment payment = {0};
    struct sk_fields read;
    ck_assert_int_eq(sk_payment_read(body, sizeof body - 1, &payment, &read), SK_VERDICT_OK);
    ck_assert_ptr_null(read.errors);
    ck_assert_str_eq(payment.reference, "!~A");
    ck_assert_int_eq(payment.amount_cents, INT64_C(100000000000000));
    ck_assert_str_eq(payment.currency, "EUR");
    sk_fields_free(&read);
}

// A demo payment: the same, but the service creates the reference.
static enum sk_verdict read_demo_payment(const char *body, size_t len, struct sk_fields *read)
{
    struct sk_payment payment = {.reference = "as it was"};
    enum sk_verdict verdict = sk_payment_read(body, len, &payment, read);
    ck_assert_str_eq(payment.reference, "as it was");
    if (verdict == SK_VERDICT_OK)
        ck_assert(payment.amount_cents == 100 && strcmp(payment.currency, "CNY") == 0);
    return verdict;
}

TEST(a_payment_of_the_demo_has_no_reference)
{
    static const struct row rows[] = {
        {"", SK_VERDICT_BAD_JSON, " "},
        {"{}", SK_VERDICT_BAD_JSON, " /amount_cents /currency"},
        {"{\"amount_cents\":100,\"currency\":\"CNY\"}", SK_VERDICT_OK, ""},
        {PAYMENT("\"r\"", "100", "\"CNY\""), SK_VERDICT_BAD_JSON, " /reference"},
        {"{\"amount_cents\":-1,\"currency\":\"CNY\"}", SK_VERDICT_INVALID, " /amount_cents"},
        {"{\"amount_cents\":\"100\",\"currency\":\"yuan\"}", SK_VERDICT_INVALID, " /amount_cents /currency"},
    };
    must_read_all(read_demo_payment, rows, COUNT(rows));
}

TEST(payments_that_are_wrong_are_refused)
{
    static const struct row rows[] = {
        {"", SK_VERDICT_BAD_JSON, " "},
        {"{", SK_VERDICT_BAD_JSON, " "},
        {"[]", SK_VERDICT_BAD_JSON, " "},
        {"null", SK_VERDICT_BAD_JSON, " "},
        {"{}", SK_VERDICT_BAD_JSON, " /reference /amount_cents /currency"},
        {"{\"reference\":\"a\",\"amount_cents\":1}", SK_VERDICT_BAD_JSON, " /currency"},
        {"{\"reference\":\"a\",\"reference\":\"b\",\"amount_cents\":1,\"currency\":\"CNY\"}", SK_VERDICT_BAD_JSON, " "},
        {"{\"reference\":\"a\",\"amount_cents\":1,\"currency\":\"CNY\",\"status\":\"paid\"}", SK_VERDICT_BAD_JSON,
         " /status"},
        {"{\"reference\":\"\",\"amount_cents\":1,\"currency\":\"CNY\",\"x\":1}", SK_VERDICT_BAD_JSON, " /x /reference"},
        {REFERENCE("\"" CHARS_64 "\""), SK_VERDICT_OK, ""},
        {REFERENCE("\"" CHARS_64 "x\""), SK_VERDICT_INVALID, " /reference"},
        {REFERENCE("\"\""), SK_VERDICT_INVALID, " /reference"},
        {REFERENCE("\"a b\""), SK_VERDICT_INVALID, " /reference"},
        {REFERENCE("\"a\\u007f\""), SK_VERDICT_INVALID, " /reference"},
        {REFERENCE("\"a\\n\""), SK_VERDICT_INVALID, " /reference"},
        {REFERENCE("\"\\u4ed8\""), SK_VERDICT_INVALID, " /reference"},
        {REFERENCE("\"a\\u0000\""), SK_VERDICT_BAD_JSON, " "},
        {REFERENCE("7"), SK_VERDICT_INVALID, " /reference"},
        {REFERENCE("null"), SK_VERDICT_INVALID, " /reference"},
        {CENTS("0"), SK_VERDICT_OK, ""}, // a free order is also paid
        {CENTS("-1"), SK_VERDICT_INVALID, " /amount_cents"},
        {CENTS("1.0"), SK_VERDICT_INVALID, " /amount_cents"},
        {CENTS("1e2"), SK_VERDICT_INVALID, " /amount_cents"},
        {CENTS("\"100\""), SK_VERDICT_INVALID, " /amount_cents"},
        {CENTS("true"), SK_VERDICT_INVALID, " /amount_cents"},
        {CENTS("100000000000001"), SK_VERDICT_INVALID, " /amount_cents"},
        {CENTS("9223372036854775808"), SK_VERDICT_BAD_JSON, " "},
        {CENTS("1e999"), SK_VERDICT_BAD_JSON, " "},
        {CURRENCY("\"cny\""), SK_VERDICT_INVALID, " /currency"},
        {CURRENCY("\"CN\""), SK_VERDICT_INVALID, " /currency"},
        {CURRENCY("\"CNYX\""), SK_VERDICT_INVALID, " /currency"},
        {CURRENCY("\"C Y\""), SK_VERDICT_INVALID, " /currency"},
        {CURRENCY("156"), SK_VERDICT_INVALID, " /currency"},
        {PAYMENT("1", "-1", "\"\""), SK_VERDICT_INVALID, " /reference /amount_cents /currency"},
    };
    must_read_all(read_payment, rows, COUNT(rows));
}

#define ORDER_ID "018bcfe5-6800-7000-8000-0123456789ab"
#define OF(id)   "{\"reference\":\"a\",\"amount_cents\":1,\"currency\":\"CNY\",\"order_id\":" id "}"

static enum sk_verdict read_payment_of(const char *body, size_t len, struct sk_fields *read)
{
    struct sk_payment payment = {.order_id = ORDER_ID};
    return sk_payment_read(body, len, &payment, read);
}

static enum sk_verdict read_payment_that_names(const char *body, size_t len, struct sk_fields *read)
{
    struct sk_payment payment = {.order_id = ORDER_ID, .names_order = true};
    return sk_payment_read(body, len, &payment, read);
}

TEST(a_payment_may_name_its_order)
{
    static const struct row rows[] = {
        {OF("\"" ORDER_ID "\""), SK_VERDICT_OK, ""},
        {OF("\"018BCFE568007000800001"
            "23456789AB\""),
         SK_VERDICT_OK, ""}, // as a path may have it
        {OF("\"018bcfe5-6800-7000-8000-0123456789ac\""), SK_VERDICT_INVALID, " /order_id"},
        {OF("\"\""), SK_VERDICT_INVALID, " /order_id"},
        {OF("1"), SK_VERDICT_INVALID, " /order_id"},
        {OF("null"), SK_VERDICT_INVALID, " /order_id"},
    };
    must_read_all(read_payment_of, rows, COUNT(rows));
    must_read_all(read_payment_that_names, rows, COUNT(rows));
    const struct row none = {REFERENCE("\"a\""), SK_VERDICT_OK, ""};
    must_read_all(read_payment_of, &none, 1);
    const struct row needed = {REFERENCE("\"a\""), SK_VERDICT_INVALID, " /order_id"};
    must_read_all(read_payment_that_names, &needed, 1);
}

static enum sk_verdict read_extension(const char *body, size_t len, struct sk_fields *read)
{
    struct sk_extension extension = {.order_id = ORDER_ID};
    enum sk_verdict verdict = sk_extension_read(body, len, &extension, read);
    if (verdict == SK_VERDICT_OK)
        ck_assert(strcmp(extension.reference, "a") == 0 &&
                  extension.extend_s == (strstr(body, "86400") == NULL ? 0 : 86400));
    return verdict;
}

static enum sk_verdict read_extension_that_names(const char *body, size_t len, struct sk_fields *read)
{
    struct sk_extension extension = {.order_id = ORDER_ID, .names_order = true};
    return sk_extension_read(body, len, &extension, read);
}

TEST(an_extension_is_read)
{
    static const struct row rows[] = {
        {"{\"reference\":\"a\"}", SK_VERDICT_OK, ""},
        {"{\"reference\":\"a\",\"extend_s\":86400,\"order_id\":\"" ORDER_ID "\"}", SK_VERDICT_OK, ""},
        {"{}", SK_VERDICT_BAD_JSON, " /reference"},
        {"{\"reference\":\"a\",\"amount_cents\":1}", SK_VERDICT_BAD_JSON, " /amount_cents"},
        {"{\"reference\":\"a b\",\"extend_s\":0,\"order_id\":1}", SK_VERDICT_INVALID,
         " /reference /extend_s /order_id"},
        {"{\"reference\":\"a\",\"extend_s\":86401}", SK_VERDICT_INVALID, " /extend_s"},
        {"{\"reference\":\"a\",\"extend_s\":\"60\"}", SK_VERDICT_INVALID, " /extend_s"},
    };
    must_read_all(read_extension, rows, COUNT(rows));
    const struct row needed = {"{\"reference\":\"a\"}", SK_VERDICT_INVALID, " /order_id"};
    must_read_all(read_extension_that_names, &needed, 1);
}

TEST(a_refund_is_read)
{
    static const struct {
        const char *body;
        bool restock;
        const char *why, *reference;
    } rows[] = {
        {"{}", false, NULL, NULL},
        {"{\"restock\":true}", true, NULL, NULL},
        {"{\"restock\":false,\"why\":\"\\u574f\\n\"}", false, "\xe5\x9d\x8f\n", NULL},
        {"{\"why\":\"\"}", false, "", NULL},
        {"{\"reference\":\"" CHARS_64 "\"}", false, NULL, CHARS_64},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sk_refund refund;
        struct sk_fields read;
        ck_assert_int_eq(sk_refund_read(rows[i].body, strlen(rows[i].body), &refund, &read), SK_VERDICT_OK);
        ck_assert_int_eq(refund.restock, rows[i].restock);
        ck_assert_pstr_eq(refund.why, rows[i].why);
        ck_assert_pstr_eq(refund.reference, rows[i].reference);
        sk_fields_free(&read);
    }
}

TEST(refunds_that_are_wrong_are_refused)
{
#define FIFTY "01234567890123456789012345678901234567890123456789"
    static const struct row rows[] = {
        {"", SK_VERDICT_BAD_JSON, " "},
        {"true", SK_VERDICT_BAD_JSON, " "},
        {"{\"restock\":true,\"restock\":false}", SK_VERDICT_BAD_JSON, " "},
        {"{\"Restock\":true}", SK_VERDICT_BAD_JSON, " /Restock"},
        {"{\"amount_cents\":1}", SK_VERDICT_BAD_JSON, " /amount_cents"},
        {"{\"restock\":1}", SK_VERDICT_INVALID, " /restock"},
        {"{\"restock\":\"true\"}", SK_VERDICT_INVALID, " /restock"},
        {"{\"restock\":null}", SK_VERDICT_INVALID, " /restock"},
        {"{\"why\":null}", SK_VERDICT_INVALID, " /why"},
        {"{\"why\":[\"a\"],\"restock\":0}", SK_VERDICT_INVALID, " /restock /why"},
        {"{\"why\":\"" FIFTY FIFTY FIFTY FIFTY "\"}", SK_VERDICT_OK, ""},
        {"{\"why\":\"" FIFTY FIFTY FIFTY FIFTY "x\"}", SK_VERDICT_INVALID, " /why"},
        {"{\"why\":\"a\\u0000\"}", SK_VERDICT_BAD_JSON, " "},
        {"{\"reference\":\"\"}", SK_VERDICT_INVALID, " /reference"},
        {"{\"reference\":null}", SK_VERDICT_INVALID, " /reference"},
        {"{\"reference\":\"a b\"}", SK_VERDICT_INVALID, " /reference"},
        {"{\"reference\":\"" CHARS_64 "x\",\"restock\":1}", SK_VERDICT_INVALID, " /restock /reference"},
    };
    must_read_all(read_refund, rows, COUNT(rows));
}
