// Probes, metrics and the OpenAPI document. No store is asked. Any reactor answers GET /metrics for the whole process.
#include "about.h"

#include <stdlib.h>

#include "accept.h"
#include "clock.h"
#include "document.h"

void sk_handle_health(const struct sk_context *context, struct sk_request *request)
{
    sk_answer_ok(context->answers, request);
}

void sk_handle_ready(const struct sk_context *context, struct sk_request *request)
{
    if (!context->draining && context->control->ready(context->control->arg))
        sk_answer_ok(context->answers, request);
    else
        sk_answer_refusal(context->answers, request, SK_VERDICT_UNAVAILABLE);
}

void sk_handle_openapi(const struct sk_context *context, struct sk_request *request)
{
    sk_document_answer(context->openapi, request, !context->draining && !request->last);
}

void sk_handle_not_found(const struct sk_context *context, struct sk_request *request)
{
    sk_answer_refusal(context->answers, request, SK_VERDICT_NOT_FOUND);
}

void sk_handle_metrics(const struct sk_context *context, struct sk_request *request)
{
    bool open_metrics = sk_accept_openmetrics(sk_request_header(request, "accept", NULL));
    struct sk_metrics_sum *sum = malloc(sizeof *sum);
    struct sk_buf page = {0};
    if (sum != NULL) {
        sk_metrics_sum(sum, sk_monotonic_ms());
        context->options->render_metrics(sum, open_metrics, &page);
    }
    if (sum == NULL || page.failed)
        sk_answer_refusal(context->answers, request, SK_VERDICT_OVERLOADED);
    else
        sk_answer_send(context->answers, request,
                       &(struct sk_answer){.verdict = SK_VERDICT_FOUND,
                                           .body = page.data,
                                           .type = open_metrics
                                                       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                                       : "text/plain; version=0.0.4; charset=utf-8"});
    sk_buf_free(&page);
    free(sum);
}
