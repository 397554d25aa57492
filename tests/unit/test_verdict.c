// The table of verdicts is part of the interface: its codes and statuses are repeated here, so that no change goes
// unnoticed.
#include <ctype.h>
#include <signal.h>
#include <string.h>

#include "test.h"
#include "verdict.h"

static const struct {
    enum sk_verdict verdict;
    const char *code;
    unsigned http_status;
} interface[] = {
    {SK_VERDICT_PLACED, "PLACED", 201},
    {SK_VERDICT_ACCEPTED, "ACCEPTED", 202},
    {SK_VERDICT_WAITING, "WAITING", 202},
    {SK_VERDICT_SOLD_OUT, "SOLD_OUT", 409},
    {SK_VERDICT_WAITLIST_FULL, "WAITLIST_FULL", 409},
    {SK_VERDICT_ALREADY_ORDERED, "ALREADY_ORDERED", 409},
    {SK_VERDICT_NOT_STARTED, "NOT_STARTED", 409},
    {SK_VERDICT_ENDED, "ENDED", 409},
    {SK_VERDICT_PAUSED, "PAUSED", 409},
    {SK_VERDICT_NOT_ENOUGH, "NOT_ENOUGH", 409},
    {SK_VERDICT_TOO_MANY_ORDERS, "TOO_MANY_ORDERS", 409},
    {SK_VERDICT_PENDING, "PENDING", 409},
    {SK_VERDICT_WRONG_STATE, "WRONG_STATE", 409},
    {SK_VERDICT_ALREADY_PAID, "ALREADY_PAID", 409},
    {SK_VERDICT_REFERENCE_USED, "REFERENCE_USED", 409},
    {SK_VERDICT_ALREADY_EXTENDED, "ALREADY_EXTENDED", 409},
    {SK_VERDICT_EXTENSION_OFF, "EXTENSION_OFF", 409},
    {SK_VERDICT_UNKNOWN_PAYMENT, "UNKNOWN_PAYMENT", 409},
    {SK_VERDICT_WRONG_AMOUNT, "WRONG_AMOUNT", 422},
    {SK_VERDICT_ARCHIVED, "ARCHIVED", 410},
    {SK_VERDICT_UNKNOWN_VOUCHER, "UNKNOWN_VOUCHER", 404},
    {SK_VERDICT_TICKET_REQUIRED, "TICKET_REQUIRED", 403},
    {SK_VERDICT_TICKET_INVALID, "TICKET_INVALID", 403},
    {SK_VERDICT_WORK_REQUIRED, "WORK_REQUIRED", 403},
    {SK_VERDICT_WORK_INVALID, "WORK_INVALID", 403},
    {SK_VERDICT_SCOPES_OFF, "SCOPES_OFF", 503},
    {SK_VERDICT_TICKETS_OFF, "TICKETS_OFF", 503},
    {SK_VERDICT_RATE_LIMITED, "RATE_LIMITED", 429},
    {SK_VERDICT_LOADING, "LOADING", 503},
    {SK_VERDICT_OVERLOADED, "OVERLOADED", 503},
    {SK_VERDICT_UNAVAILABLE, "UNAVAILABLE", 503},
    {SK_VERDICT_SHUTTING_DOWN, "SHUTTING_DOWN", 503},
    {SK_VERDICT_FOUND, "FOUND", 200},
    {SK_VERDICT_CREATED, "CREATED", 201},
    {SK_VERDICT_BAD_VOUCHER_ID, "BAD_VOUCHER_ID", 400},
    {SK_VERDICT_BAD_ORDER_ID, "BAD_ORDER_ID", 400},
    {SK_VERDICT_BAD_REQUEST, "BAD_REQUEST", 400},
    {SK_VERDICT_BAD_JSON, "BAD_JSON", 400},
    {SK_VERDICT_UNAUTHENTICATED, "UNAUTHENTICATED", 401},
    {SK_VERDICT_ADMIN_OFF, "ADMIN_OFF", 403},
    {SK_VERDICT_NOT_FOUND, "NOT_FOUND", 404},
    {SK_VERDICT_STARTED, "STARTED", 409},
    {SK_VERDICT_BELOW_SOLD, "BELOW_SOLD", 409},
    {SK_VERDICT_VERSION_CHANGED, "VERSION_CHANGED", 412},
    {SK_VERDICT_CROSS_SITE, "CROSS_SITE", 403},
    {SK_VERDICT_FORBIDDEN, "FORBIDDEN", 403},
    {SK_VERDICT_BAD_SIGNATURE, "BAD_SIGNATURE", 401},
    {SK_VERDICT_BAD_PARAMETER, "BAD_PARAMETER", 422},
    {SK_VERDICT_UNREADABLE, "UNREADABLE", 409},
    {SK_VERDICT_METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", 405},
    {SK_VERDICT_BODY_TOO_LARGE, "BODY_TOO_LARGE", 413},
    {SK_VERDICT_UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", 415},
    {SK_VERDICT_UNSUPPORTED_ENCODING, "UNSUPPORTED_ENCODING", 415},
    {SK_VERDICT_INVALID, "INVALID", 422},
    {SK_VERDICT_OFFER_CHANGED, "OFFER_CHANGED", 409},
    {SK_VERDICT_BAD_IDEMPOTENCY_KEY, "BAD_IDEMPOTENCY_KEY", 422},
    {SK_VERDICT_IDEMPOTENCY_KEY_REUSED, "IDEMPOTENCY_KEY_REUSED", 422},
    {SK_VERDICT_INTERNAL, "INTERNAL", 500},
    {SK_VERDICT_NOT_IMPLEMENTED, "NOT_IMPLEMENTED", 501},
};

enum { ROWS = sizeof interface / sizeof interface[0] };

TEST(codes_and_statuses_are_those_of_the_interface)
{
    for (int i = 0; i < ROWS; i++) {
        ck_assert_str_eq(sk_verdict_code(interface[i].verdict), interface[i].code);
        ck_assert_uint_eq(sk_verdict_http_status(interface[i].verdict), interface[i].http_status);
        bool again = (interface[i].http_status == 503 && interface[i].verdict != SK_VERDICT_TICKETS_OFF) ||
                     interface[i].verdict == SK_VERDICT_PENDING || interface[i].verdict == SK_VERDICT_RATE_LIMITED;
        ck_assert_uint_eq(sk_verdict_retry_after_ms(interface[i].verdict), again ? 1000 : 0);
    }
    ck_assert_msg(ROWS == (int)SK_VERDICT_COUNT, "a verdict is missing here");
}

// Problem bodies are built without escaping.
TEST(titles_need_no_escaping_in_json)
{
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        const char *title = sk_verdict_title((enum sk_verdict)i);
        ck_assert_uint_gt(strlen(title), 0);
        for (const char *c = title; *c != '\0'; c++)
            ck_assert_msg(isprint((unsigned char)*c) && *c != '"' && *c != '\\', "title '%s'", title);
    }
}

TEST_ABORTS(a_verdict_out_of_range_is_a_programmers_error)
{
    (void)sk_verdict_code(SK_VERDICT_COUNT);
}
