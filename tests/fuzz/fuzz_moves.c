// The bodies of POST /orders/{id}/pay and /refund. Accepted values must be within the bounds that the control plane
// relies on, and no body is valid for both calls.
#include "fuzz.h"
#include "moves.h"

static void must_be_a_reference(const char *reference)
{
    size_t len = strlen(reference);
    MUST(len >= 1 && len <= SK_REFERENCE_MAX);
    for (size_t i = 0; i < len; i++)
        MUST(reference[i] > ' ' && reference[i] <= '~');
}

static void must_be_within(const struct sk_payment *payment)
{
    must_be_a_reference(payment->reference);
    MUST(payment->amount_cents >= 0 && payment->amount_cents <= INT64_C(100000000000000));
    MUST(strlen(payment->currency) == SK_CURRENCY_CHARS);
    MUST(strspn(payment->currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == SK_CURRENCY_CHARS);
}

static void must_be_told(enum sk_verdict verdict, const struct sk_fields *read)
{
    MUST(verdict == SK_VERDICT_OK || verdict == SK_VERDICT_BAD_JSON || verdict == SK_VERDICT_INVALID);
    MUST((read->errors == NULL) == (verdict == SK_VERDICT_OK));
    MUST(json_array_size(read->errors) <= SK_FIELDS_ERRORS_MAX + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sk_payment payment = {0};
    struct sk_refund refund;
    struct sk_fields paid, refunded;
    char *body = fuzz_bytes(data, size);
    enum sk_verdict pay = sk_payment_read(body, size, &payment, &paid),
                    give_back = sk_refund_read(body, size, &refund, &refunded);
    must_be_told(pay, &paid);
    must_be_told(give_back, &refunded);
    MUST(pay != SK_VERDICT_OK || give_back != SK_VERDICT_OK);
    if (pay == SK_VERDICT_OK)
        must_be_within(&payment);
    if (give_back == SK_VERDICT_OK && refund.why != NULL) {
        json_t *why = json_string(refund.why); // it is UTF-8
        MUST(why != NULL && strlen(refund.why) <= SK_WHY_MAX);
        json_decref(why);
    }
    if (give_back == SK_VERDICT_OK && refund.reference != NULL)
        must_be_a_reference(refund.reference);
    sk_fields_free(&paid);
    sk_fields_free(&refunded);
    free(body);
    return 0;
}
