#include "document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "measure.h"

enum { TAG_SIZE = 24, OK = 200, NOT_MODIFIED = 304 };

struct sk_document {
    const char *type;
    struct sk_buf text;
    char tag[TAG_SIZE];
    struct sk_response *whole, *same; // owned
};

static struct sk_response *document_make(const struct sk_document *document, bool whole);
static bool document_is_known(const struct sk_document *document, const struct sk_request *request);

struct sk_document *sk_document_open(const char *type, struct sk_buf *text)
{
    struct sk_document *document = text->failed ? NULL : calloc(1, sizeof *document);
    if (document == NULL) {
        sk_buf_free(text);
        return NULL;
    }
    document->type = type;
    document->text = *text;
    *text = (struct sk_buf){0};
    (void)snprintf(document->tag, sizeof document->tag, "\"%016" PRIx64 "\"",
                   sk_hash(document->text.data, document->text.len));
    document->whole = document_make(document, true);
    document->same = document_make(document, false);
    if (document->whole == NULL || document->same == NULL) {
        sk_document_close(document);
        return NULL;
    }
    return document;
}

static struct sk_response *document_make(const struct sk_document *document, bool whole)
{
    const char *type = whole ? document->type : NULL;
    struct sk_response *response =
        sk_response_new(type, whole ? document->text.data : "", whole ? document->text.len : 0);
    sk_response_header(response, "ETag", document->tag);
    // Kept, but asked about: another version of the service may be up the next moment.
    sk_response_header(response, "Cache-Control", "public, max-age=60");
    return response;
}

void sk_document_close(struct sk_document *document)
{
    if (document == NULL)
        return;
    sk_response_free(document->whole);
    sk_response_free(document->same);
    sk_buf_free(&document->text);
    free(document);
}

void sk_document_answer(const struct sk_document *document, const struct sk_answers *answers,
                        struct sk_request *request, bool keep_alive)
{
    bool known = document_is_known(document, request), noted = request->trace.tracer != NULL;
    bool plain = keep_alive && !sk_answers_mark(answers) && !noted;
    unsigned status = known ? NOT_MODIFIED : OK;
    struct sk_response *kept = known ? document->same : document->whole;
    struct sk_response *own = plain ? NULL : document_make(document, !known);
    if (!plain)
        sk_answer_mark(answers, request, own);
    if (!keep_alive)
        sk_response_header(own, "Connection", "close");
    sk_measure_answered(request, SK_VERDICT_FOUND, sk_trace_id(request));
    request->trace.bytes = known ? 0 : document->text.len;
    if (noted)
        sk_trace_answer(request, status, SK_VERDICT_FOUND, own);
    sk_request_answer(request, status, plain ? kept : own);
    sk_response_free(own);
}

// If-None-Match is `*`, or a list with our tag in it; quotes are part of a tag, so nothing longer is mistaken for it.
static bool document_is_known(const struct sk_document *document, const struct sk_request *request)
{
    const char *value = sk_request_header(request, "if-none-match", NULL);
    return value != NULL && (strcmp(value, "*") == 0 || strstr(value, document->tag) != NULL);
}
