// Every value that goes into these bodies is a constant or has been checked to need no escaping.
#include "problem.h"

#include <inttypes.h>
#include <stdio.h>

#include "text.h"

enum { BODY_SIZE = 512, LOCATION_SIZE = 64 };

sk_response *sk_problem(enum sk_verdict verdict, const char *order_id, uint64_t retry_after_ms)
{
    char body[BODY_SIZE];
    const char *code = sk_verdict_code(verdict);
    int n = snprintf(body, sizeof body,
                     "{\"type\":\"urn:seckill:problem:%s\",\"title\":\"%s\",\"status\":%u,\"code\":\"%s\"%s%s%s}\n",
                     code, sk_verdict_title(verdict), sk_verdict_http_status(verdict), code,
                     order_id == NULL ? "" : ",\"order_id\":\"", order_id == NULL ? "" : order_id,
                     order_id == NULL ? "" : "\"");
    sk_response *response = sk_response_new("application/problem+json", body, (size_t)n);
    if (retry_after_ms > 0) {
        char seconds[24];
        (void)snprintf(seconds, sizeof seconds, "%" PRIu64, (retry_after_ms + 999) / 1000);
        sk_response_header(response, "Retry-After", seconds);
    }
    if (verdict == SK_VERDICT_UNAUTHENTICATED)
        sk_response_header(response, "WWW-Authenticate", "Bearer");
    return response;
}

sk_response *sk_order_response(const char *order_id, int64_t voucher_id, const char *user, const char *status)
{
    char body[BODY_SIZE], location[LOCATION_SIZE];
    int n = snprintf(body, sizeof body,
                     "{\"id\":\"%s\",\"voucher_id\":\"%" PRId64 "\",\"user_id\":\"%.*s\",\"status\":\"%s\"}\n",
                     order_id, voucher_id, (int)SK_USER_MAX, user, status);
    sk_response *response = sk_response_new("application/json", body, (size_t)n);
    (void)snprintf(location, sizeof location, "/orders/%s", order_id);
    sk_response_header(response, "Location", location);
    return response;
}
