#include "document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accept.h"
#include "cors.h"
#include "hash.h"
#include "trace.h"
#include "verdict.h"

enum { TAG_SIZE = 24, OK = 200, NOT_MODIFIED = 304 };

struct form {
    struct sk_document_body body;
    char tag[TAG_SIZE];
    struct sk_response *whole, *same; // owned
};

struct sk_document {
    struct sk_document_source source;
    struct form plain, packed;
};

static bool document_open_form(const struct sk_document *document, struct form *form);
static struct sk_response *document_make(const struct sk_document *document, const struct form *form, bool whole);
static void document_close_form(struct form *form);
static bool document_is_known(const struct form *form, const struct sk_request *request);

struct sk_document *sk_document_open(const struct sk_document_source *source)
{
    struct sk_buf own = source->own;
    struct sk_document *document = own.failed ? NULL : calloc(1, sizeof *document);
    if (document == NULL) {
        sk_buf_free(&own);
        return NULL;
    }
    document->source = *source;
    document->plain.body = own.data == NULL ? source->plain : (struct sk_document_body){own.data, own.len};
    document->packed.body = source->packed;
    if (sk_cors_count(source->cors) == 0)
        document->source.cors = NULL;
    if (!document_open_form(document, &document->plain) || !document_open_form(document, &document->packed)) {
        sk_document_close(document);
        return NULL;
    }
    return document;
}

// False: out of memory.
static bool document_open_form(const struct sk_document *document, struct form *form)
{
    if (form->body.text == NULL)
        return true;
    (void)snprintf(form->tag, sizeof form->tag, "\"%016" PRIx64 "\"", sk_hash(form->body.text, form->body.len));
    form->whole = document_make(document, form, true);
    form->same = document_make(document, form, false);
    return form->whole != NULL && form->same != NULL;
}

static struct sk_response *document_make(const struct sk_document *document, const struct form *form, bool whole)
{
    struct sk_response *response =
        whole ? sk_response_of(document->source.type, form->body.text, form->body.len) : sk_response_of(NULL, "", 0);
    if (whole && form == &document->packed)
        sk_response_header(response, "Content-Encoding", "gzip");
    sk_response_header(response, "ETag", form->tag);
    for (const struct sk_document_field *field = document->source.fields; field->name != NULL; field++)
        sk_response_header(response, field->name, field->value);
    return response;
}

void sk_document_close(struct sk_document *document)
{
    if (document == NULL)
        return;
    document_close_form(&document->plain);
    document_close_form(&document->packed);
    sk_buf_free(&document->source.own);
    free(document);
}

static void document_close_form(struct form *form)
{
    sk_response_free(form->whole);
    sk_response_free(form->same);
}

void sk_document_answer(const struct sk_document *document, struct sk_request *request, bool keep_alive)
{
    bool packed =
        document->packed.body.text != NULL && sk_accept_gzip(sk_request_header(request, "accept-encoding", NULL));
    const struct form *form = packed ? &document->packed : &document->plain;
    const struct sk_cors *cors = document->source.cors;
    bool known = document_is_known(form, request), noted = request->trace.tracer != NULL;
    bool kept = keep_alive && !noted && cors == NULL; // else it has further fields
    unsigned status = known ? NOT_MODIFIED : OK;
    struct sk_response *own = kept ? NULL : document_make(document, form, !known);
    if (cors != NULL)
        sk_cors_mark(cors, sk_cors_origin_of(cors, request), own);
    if (!keep_alive)
        sk_response_header(own, "Connection", "close");
    request->trace.bytes = known ? 0 : form->body.len;
    sk_measure_answered(request, SK_VERDICT_FOUND, sk_trace_id(request));
    if (noted)
        sk_trace_answer(request, status, sk_verdict_code(SK_VERDICT_FOUND), own);
    sk_request_answer(request, status, !kept ? own : known ? form->same : form->whole);
    sk_response_free(own);
}

// If-None-Match is `*`, or a list with our tag in it. The quotes are part of the tag, so a longer tag does not match.
static bool document_is_known(const struct form *form, const struct sk_request *request)
{
    const char *value = sk_request_header(request, "if-none-match", NULL);
    return value != NULL && (strcmp(value, "*") == 0 || strstr(value, form->tag) != NULL);
}
