#include "call.h"

#include "client_limits.h"
#include "fields.h"

enum { KEY_MAX = 255 };

bool sk_call_read_key(const struct sk_context *context, struct sk_request *request, const char **key)
{
    unsigned count;
    size_t n = 0;
    *key = sk_request_header(request, "idempotency-key", &count);
    if (count == 0)
        return true;
    while ((*key)[n] > ' ' && (*key)[n] <= '~' && n <= KEY_MAX)
        n++;
    bool good = count == 1 && (*key)[n] == '\0' && n >= 1 && n <= KEY_MAX;
    if (!good)
        sk_answer_refusal(context->answers, request, SK_VERDICT_BAD_IDEMPOTENCY_KEY);
    return good;
}

void sk_call_refuse_body(const struct sk_context *context, struct sk_request *request, enum sk_verdict verdict,
                         const struct sk_fields *read)
{
    if (read->errors != NULL)
        sk_answer_errors(context->answers, request, verdict, read->errors);
    else
        sk_answer_refusal(context->answers, request, verdict);
}

// Comes before any store is asked, so a refusal is cheap. It closes the connection, so refused clients hold no slot
// either.
bool sk_call_hold(const struct sk_context *context, struct sk_request *request)
{
    static const enum sk_metric refused[] = {
        [SK_LONG_OF_USER] = SK_METRIC_LONG_OF_USER, [SK_LONG_OF_ADDRESS] = SK_METRIC_LONG_OF_ADDRESS};
    bool place = sk_request_hold(request);
    enum sk_long held = SK_LONG_MAY;
    if (place && context->limits != NULL)
        held = sk_limits_hold(context->limits, request, sk_call_of(request)->user);
    if (place && held == SK_LONG_MAY)
        return true;
    sk_metrics_add(context->metrics, place ? refused[held] : SK_METRIC_LONG_OF_SHARE, 1);
    sk_answer_last(context->answers, request, SK_VERDICT_OVERLOADED);
    return false;
}
