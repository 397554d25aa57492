// What frames the body must be beyond doubt: where two parsers could disagree, requests are smuggled.
#include "head.h"

#include <string.h>
#include <strings.h>

#include "prefer.h"
#include "text.h"

static enum sk_method method_of(const char *method)
{
    static const char *const others[] = {"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"};
    if (strcmp(method, "POST") == 0)
        return SK_POST;
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        return SK_GET;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(method, others[i]) == 0)
            return SK_OTHER_METHOD;
    }
    return SK_UNKNOWN_METHOD;
}

void sk_head_target(struct sk_head *head, const char *target)
{
    sk_header_bytes_target(&head->bytes, target);
}

void sk_head_begin(struct sk_head *head, struct sk_request *request, const char *method, const char *target,
                   const char *version)
{
    *head = (struct sk_head){.bytes = head->bytes};
    sk_header_bytes_begin(&head->bytes, method, target, version);
    request->method = method_of(method);
}

void sk_head_field(struct sk_head *head, struct sk_request *request, const char *name, size_t name_len,
                   const char *value, size_t value_len)
{
    sk_header_bytes_field(&head->bytes, name, name_len, value, value_len);
    if (strcasecmp(name, "x-user-id") == 0) {
        request->user_id = value;
        request->user_id_count++;
    } else if (strcasecmp(name, "host") == 0) {
        head->hosts++;
    } else if (strcasecmp(name, "prefer") == 0) {
        request->respond_async = request->respond_async || sk_prefer_async(value);
    } else if (strcasecmp(name, "content-length") == 0) {
        head->lengths++;
        if (!sk_text_number(value, INT64_MAX, &head->length))
            head->bad = true;
    } else if (strcasecmp(name, "transfer-encoding") == 0) {
        head->encodings++;
        head->chunked = strcasecmp(value, "chunked") == 0;
    } else if (strcasecmp(name, "expect") == 0) {
        head->expects = true;
    } else if (strcasecmp(name, "content-type") == 0) {
        request->content_type = value;
    } else if (strcasecmp(name, "authorization") == 0) {
        request->authorization = value;
        request->authorization_count++;
    } else if (strcasecmp(name, "idempotency-key") == 0) {
        request->idempotency_key = value;
        request->idempotency_key_count++;
    }
}

bool sk_head_good(const struct sk_head *head, size_t len)
{
    // Nobody may ask whether to send a body and then have none. The library would call the server once too often for
    // it, at a time when it takes no answer, if more bytes follow.
    bool no_body_expected = head->expects && head->length == 0 && head->encodings == 0;
    bool framed_twice = head->lengths + head->encodings > 1;
    return !head->bad && sk_header_bytes_end(&head->bytes, len) && head->hosts <= 1 && !framed_twice &&
           !no_body_expected && (head->encodings == 0 || head->chunked);
}
