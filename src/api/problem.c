#include "problem.h"

#include <stdio.h>

#include "response.h"
#include "text.h"

size_t sk_problem_put(char out[SK_PROBLEM_SIZE], enum sk_verdict verdict, const char *members, const char *trace_id)
{
    const char *code = sk_verdict_code(verdict);
    int n = snprintf(out, SK_PROBLEM_SIZE,
                     "{\"type\":\"" SK_PROBLEM_TYPE "%s\",\"title\":\"%s\",\"status\":%u,\"code\":\"%s\"%s%s%s%s}\n",
                     code, sk_verdict_title(verdict), sk_verdict_http_status(verdict), code, members,
                     trace_id == NULL ? "" : ",\"trace_id\":\"", trace_id == NULL ? "" : trace_id,
                     trace_id == NULL ? "" : "\"");
    return (size_t)n;
}

void sk_problem_add_fields(struct sk_response *response, enum sk_verdict verdict, uint64_t retry_after_ms)
{
    if (retry_after_ms == 0)
        retry_after_ms = sk_verdict_retry_after_ms(verdict);
    if (retry_after_ms > 0) {
        char seconds[SK_NUMBER_SIZE];
        (void)sk_text_put_number((retry_after_ms + 999) / 1000, seconds);
        sk_response_header(response, "Retry-After", seconds);
    }
    if (sk_verdict_http_status(verdict) == 401)
        sk_response_header(response, "WWW-Authenticate", "Bearer");
}
