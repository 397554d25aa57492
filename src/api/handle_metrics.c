// GET /metrics: whatever reactor is asked tells of all of the process. No store is asked.
#include <stdlib.h>

#include "accept.h"
#include "clock.h"
#include "handlers.h"

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
        sk_answer_text(context->answers, request,
                       open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                    : "text/plain; version=0.0.4; charset=utf-8",
                       page.data);
    sk_buf_free(&page);
    free(sum);
}
