// A response is libmicrohttpd's under another name; it needs no more.
#include "response.h"

#include <microhttpd.h>

#include "log.h"

static struct MHD_Response *response_of_library(struct sk_response *response)
{
    return (struct MHD_Response *)(void *)response;
}

static struct sk_response *response_make(const char *type, const char *body, size_t len,
                                         enum MHD_ResponseMemoryMode mode)
{
    // The library does not write to the buffer; its interface only lacks the const.
    union {
        const void *in;
        void *out;
    } text = {.in = body};
    void *made = MHD_create_response_from_buffer(len, text.out, mode);
    struct sk_response *response = made;
    if (type != NULL)
        sk_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    return response;
}

struct sk_response *sk_response_new(const char *type, const char *body, size_t len)
{
    return response_make(type, body, len, MHD_RESPMEM_MUST_COPY);
}

struct sk_response *sk_response_of(const char *type, const char *body, size_t len)
{
    return response_make(type, body, len, MHD_RESPMEM_PERSISTENT);
}

void sk_response_header(struct sk_response *response, const char *name, const char *value)
{
    if (response != NULL && MHD_add_response_header(response_of_library(response), name, value) != MHD_YES)
        sk_log(SK_LOG_WARN, "response header not added", "name=%s", name);
}

// The library copies values into separate blocks, and reads them when it sends a response. Its interface makes them
// const so that their length stays.
char *sk_response_value(struct sk_response *response, const char *name)
{
    union {
        const char *in;
        char *out;
    } value = {.in = response == NULL ? NULL : MHD_get_response_header(response_of_library(response), name)};
    return value.out;
}

void sk_response_free(struct sk_response *response)
{
    if (response != NULL)
        MHD_destroy_response(response_of_library(response));
}
