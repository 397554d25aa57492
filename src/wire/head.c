// The framing of the body must be beyond doubt: where two parsers could disagree, requests are smuggled.
#include "head.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "header_bytes.h"
#include "text.h"

enum { RECORD_SIZE = 64 }; // of libmicrohttpd's struct MHD_HTTP_Header

size_t sk_head_target(struct sk_head *head, const char *target)
{
    size_t parameters = 0;
    head->target = target;
    head->query_bad = false;
    sk_header_bytes_target(&head->bytes, target);
    for (const char *at = strchr(target, '?'); at != NULL; at = strchr(at + 1, '&'))
        parameters++;
    head->has_query = parameters > 0;
    return (size_t)(head->bytes.target_end - target) + parameters * RECORD_SIZE;
}

size_t sk_head_unescape(struct sk_head *head, char *text)
{
    size_t len = strlen(text);
    if (text != head->target && !sk_url_unescape(text, &len))
        head->query_bad = true;
    return len;
}

static enum sk_method head_method(const char *method)
{
    static const struct {
        const char *name;
        enum sk_method method;
    } others[] = {{"GET", SK_METHOD_GET},         {"HEAD", SK_METHOD_GET},     {"PATCH", SK_METHOD_PATCH},
                  {"OPTIONS", SK_METHOD_OPTIONS}, {"PUT", SK_METHOD_OTHER},    {"DELETE", SK_METHOD_OTHER},
                  {"TRACE", SK_METHOD_OTHER},     {"CONNECT", SK_METHOD_OTHER}};
    if (strcmp(method, "POST") == 0)
        return SK_METHOD_POST;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(method, others[i].name) == 0)
            return others[i].method;
    }
    return SK_METHOD_UNKNOWN;
}

void sk_head_begin(struct sk_head *head, struct sk_request *request, const char *method, const char *target,
                   const char *version)
{
    request->method = head_method(method);
    request->is_head = request->method == SK_METHOD_GET && method[0] == 'H';
    request->has_query = head->has_query;
    request->query_bad = head->query_bad;
    *head = (struct sk_head){.bytes = head->bytes, .request = request, .target = head->target};
    head->hosts_least = version[SK_HTTP_VERSION_CHARS - 1] != '0'; // of HTTP/1.0 on
    head->bad = request->method == SK_METHOD_UNKNOWN && !sk_header_bytes_is_token(method, strlen(method));
    sk_header_bytes_begin(&head->bytes, method, target, version);
}

#define IS(text) (name_len == sizeof(text) - 1 && strcasecmp(name, text) == 0)

void sk_head_field(struct sk_head *head, const char *name, size_t name_len, char *value, size_t value_len)
{
    struct sk_request *request = head->request;
    sk_header_bytes_field(&head->bytes, name, name_len, value, value_len);
    request->names |= SK_NAME_BIT(name, name_len);
    if (IS("host")) {
        head->hosts++;
    } else if (IS("content-length")) {
        head->lengths++;
        if (!sk_text_number(value, INT64_MAX, &head->length))
            head->bad = true;
    } else if (IS("transfer-encoding")) {
        head->encodings++;
        request->last = true;
        head->chunked = strcasecmp(value, "chunked") == 0;
    } else if (IS("expect")) {
        head->expect = head->expect == NULL ? value : head->expect;
    } else if (IS("cookie")) {
        head->used += value_len; // libmicrohttpd splits a copy
    } else if (IS("traceparent")) {
        request->traceparent = request->traceparent == NULL ? value : "";
    }
    // Last: libmicrohttpd has read the framing with its blanks.
    while (value_len > 0 && (value[value_len - 1] == ' ' || value[value_len - 1] == '\t'))
        value[--value_len] = '\0';
}

#undef IS

void sk_head_use(struct sk_head *head, size_t records, size_t bytes)
{
    head->used += records * RECORD_SIZE + bytes;
}

bool sk_head_good(const struct sk_head *head, size_t len)
{
    bool no_body = head->length == 0 && head->encodings == 0, framed_twice = head->lengths + head->encodings > 1;
    // Where no body follows, libmicrohttpd must not see "Expect: 100-continue": if the next request followed, it would
    // call the handler again after the answer, when it accepts none.
    if (no_body && head->expect != NULL)
        *head->expect = '\0';
    return !head->bad && sk_header_bytes_end(&head->bytes, len) && head->hosts <= 1 &&
           head->hosts >= head->hosts_least && !framed_twice && (head->encodings == 0 || head->chunked);
}
