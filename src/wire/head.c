// What frames the body must be beyond doubt: where two parsers could disagree, requests are smuggled.
#include "head.h"

#include <string.h>
#include <strings.h>

#include "query.h"
#include "text.h"

static enum sk_method head_method(const char *method);

void sk_head_target(struct sk_head *head, const char *target)
{
    head->target = target;
    head->query_bad = false;
    sk_header_bytes_target(&head->bytes, target);
}

size_t sk_head_unescape(struct sk_head *head, char *text)
{
    size_t len = strlen(text);
    if (text != head->target && !sk_query_unescape(text, &len))
        head->query_bad = true;
    return len;
}

void sk_head_begin(struct sk_head *head, const char *method, const char *target, const char *version)
{
    *head = (struct sk_head){
        .bytes = head->bytes, .method = head_method(method), .target = head->target, .query_bad = head->query_bad};
    head->is_head = head->method == SK_METHOD_GET && method[0] == 'H';
    sk_header_bytes_begin(&head->bytes, method, target, version);
}

static enum sk_method head_method(const char *method)
{
    static const char *const others[] = {"PUT", "DELETE", "TRACE", "CONNECT"};
    if (strcmp(method, "POST") == 0)
        return SK_METHOD_POST;
    if (strcmp(method, "PATCH") == 0)
        return SK_METHOD_PATCH;
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        return SK_METHOD_GET;
    if (strcmp(method, "OPTIONS") == 0)
        return SK_METHOD_OPTIONS;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(method, others[i]) == 0)
            return SK_METHOD_OTHER;
    }
    return SK_METHOD_UNKNOWN;
}

#define IS(text) (name_len == sizeof(text) - 1 && strcasecmp(name, text) == 0)

void sk_head_field(struct sk_head *head, const char *name, size_t name_len, const char *value, size_t value_len)
{
    sk_header_bytes_field(&head->bytes, name, name_len, value, value_len);
    head->names |= SK_NAME_BIT(name, name_len);
    if (IS("host")) {
        head->hosts++;
    } else if (IS("content-length")) {
        head->lengths++;
        if (!sk_text_number(value, INT64_MAX, &head->length))
            head->bad = true;
    } else if (IS("transfer-encoding")) {
        head->encodings++;
        head->chunked = strcasecmp(value, "chunked") == 0;
    } else if (IS("expect")) {
        head->expects = true;
    } else if (IS("traceparent")) {
        head->traceparent = head->traceparent == NULL ? value : "";
    }
}

#undef IS

bool sk_head_good(const struct sk_head *head, size_t len)
{
    // "Expect: 100-continue" without a body is refused: if more bytes follow, libmicrohttpd would call the handler
    // again after the answer, when it takes none.
    bool no_body_expected = head->expects && head->length == 0 && head->encodings == 0;
    bool framed_twice = head->lengths + head->encodings > 1;
    return !head->bad && sk_header_bytes_end(&head->bytes, len) && head->hosts <= 1 && !framed_twice &&
           !no_body_expected && (head->encodings == 0 || head->chunked);
}
