// Every value that is printed into these bodies is a constant or has been checked to need no escaping; a list of
// errors, which may name what a client has sent, is written by jansson.
#include "problem.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

enum { BODY_SIZE = 512, LOCATION_SIZE = 64 };

#define TYPE_PREFIX "urn:seckill:problem:"

static const char problem_type[] = "application/problem+json";

sk_response *sk_problem(enum sk_verdict verdict, const char *order_id, uint64_t retry_after_ms)
{
    char body[BODY_SIZE];
    const char *code = sk_verdict_code(verdict);
    int n = snprintf(
        body, sizeof body, "{\"type\":\"" TYPE_PREFIX "%s\",\"title\":\"%s\",\"status\":%u,\"code\":\"%s\"%s%s%s}\n",
        code, sk_verdict_title(verdict), sk_verdict_http_status(verdict), code,
        order_id == NULL ? "" : ",\"order_id\":\"", order_id == NULL ? "" : order_id, order_id == NULL ? "" : "\"");
    sk_response *response = sk_response_new(problem_type, body, (size_t)n);
    if (retry_after_ms > 0) {
        char seconds[24];
        (void)snprintf(seconds, sizeof seconds, "%" PRIu64, (retry_after_ms + 999) / 1000);
        sk_response_header(response, "Retry-After", seconds);
    }
    if (verdict == SK_VERDICT_UNAUTHENTICATED)
        sk_response_header(response, "WWW-Authenticate", "Bearer");
    return response;
}

sk_response *sk_problem_with_errors(enum sk_verdict verdict, struct json_t *errors)
{
    const char *code = sk_verdict_code(verdict);
    json_t *document =
        json_pack("{s:s+,s:s,s:i,s:s,s:O}", "type", TYPE_PREFIX, code, "title", sk_verdict_title(verdict), "status",
                  (int)sk_verdict_http_status(verdict), "code", code, "errors", errors);
    char *body = json_dumps(document, JSON_COMPACT);
    sk_response *response = body == NULL ? NULL : sk_response_new(problem_type, body, strlen(body));
    free(body);
    json_decref(document);
    return response;
}

sk_response *sk_voucher_response(int64_t voucher_id, const char *document)
{
    char location[LOCATION_SIZE];
    sk_response *response = sk_response_new("application/json", document, strlen(document));
    (void)snprintf(location, sizeof location, "/vouchers/%" PRId64, voucher_id);
    sk_response_header(response, "Location", location);
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
