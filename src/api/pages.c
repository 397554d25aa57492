// Each page has one path, which is looked up in a sorted list. No part of a path is taken for a file name.
//
// A browser caches what it got, and revalidates it each time (no-cache, and 304). So after a new version is rolled out,
// no page runs with a script of the old one.
//
// The pages are for our own origin only: their answers carry no CORS headers (cors.h).
#include "pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accept.h"
#include "answer.h"
#include "buf.h"
#include "cors.h"
#include "hash.h"
#include "measure.h"
#include "text.h"
#include "trace.h"
#include "verdict.h"

// ---- documents ----

enum { TAG_SIZE = 24, OK = 200, ELSEWHERE = 302, NOT_MODIFIED = 304 };

struct form {
    struct sk_document_body body;
    char tag[TAG_SIZE];
    struct sk_response *whole, *same; // owned
};

struct sk_document {
    const char *type;
    const struct sk_document_field *fields;
    const struct sk_cors *cors; // NULL: there are no origins
    struct form plain, packed;
};

static struct sk_response *document_make(const struct sk_document *document, const struct form *form, bool whole)
{
    struct sk_response *response =
        whole ? sk_response_of(document->type, form->body.text, form->body.len) : sk_response_of(NULL, "", 0);
    if (whole && form == &document->packed)
        sk_response_header(response, "Content-Encoding", "gzip");
    sk_response_header(response, "ETag", form->tag);
    for (const struct sk_document_field *field = document->fields; field->name != NULL; field++)
        sk_response_header(response, field->name, field->value);
    return response;
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

static void document_close_form(struct form *form)
{
    sk_response_free(form->whole);
    sk_response_free(form->same);
}

void sk_document_close(struct sk_document *document)
{
    if (document == NULL)
        return;
    document_close_form(&document->plain);
    document_close_form(&document->packed);
    free(document);
}

struct sk_document *sk_document_open(const struct sk_document_source *source)
{
    struct sk_document *document = calloc(1, sizeof *document);
    if (document == NULL)
        return NULL;
    document->type = source->type;
    document->fields = source->fields;
    document->cors = sk_cors_count(source->cors) == 0 ? NULL : source->cors;
    document->plain.body = source->plain;
    document->packed.body = source->packed;
    if (!document_open_form(document, &document->plain) || !document_open_form(document, &document->packed)) {
        sk_document_close(document);
        return NULL;
    }
    return document;
}

// If-None-Match is `*`, or a list with our tag in it: as it was sent, weak, or with a suffix that a gateway has put
// before the closing quote ("5-gzip"), because it compresses answers. Neither changes what the tag is of.
static bool document_is_known(const struct form *form, const struct sk_request *request)
{
    const char *value = sk_request_header(request, "if-none-match", NULL);
    if (value == NULL || strcmp(value, "*") == 0)
        return value != NULL;
    size_t len = strlen(form->tag) - 1; // without the closing quote
    for (const char *at = strchr(value, '"'); at != NULL; at = strchr(at + 1, '"')) {
        if (strncmp(at, form->tag, len) == 0 && (at[len] == '"' || at[len] == '-'))
            return true;
    }
    return false;
}

void sk_document_answer(const struct sk_document *document, struct sk_request *request, bool keep_alive)
{
    bool packed =
        document->packed.body.text != NULL && sk_accept_gzip(sk_request_header(request, "accept-encoding", NULL));
    const struct form *form = packed ? &document->packed : &document->plain;
    const struct sk_cors *cors = document->cors;
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

struct sk_document_source sk_embedded_source(const struct sk_embedded_page *file,
                                             const struct sk_document_field *fields_of_all)
{
    return (struct sk_document_source){.type = file->type,
                                       .plain = {(const char *)file->text, file->len},
                                       .packed = {(const char *)file->packed, file->packed_len},
                                       .fields = fields_of_all};
}

// ---- pages ----

// Only pictures load from elsewhere, from the origins of a setting. Pages contain no inline scripts, and no other site
// may frame them.
#define POLICY                                                                      \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " \
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "                 \
    "require-trusted-types-for 'script'; img-src 'self'"

enum { FIELD_POLICY, FIELD_END = 6, FIELDS };

static const struct sk_document_field fields[FIELDS] = {
    [FIELD_POLICY] = {"Content-Security-Policy", POLICY},
    {"Cache-Control", "no-cache"},
    {"Vary", "Accept-Encoding"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    [FIELD_END] = {NULL, NULL},
};

struct page {
    const char *path;
    struct sk_document *document; // owned
};

struct sk_pages {
    struct sk_buf policy, settings; // owned
    struct sk_document_field fields[FIELDS];
    size_t count;
    struct page all[]; // sorted by path
};

static int pages_compare(const void *a, const void *b)
{
    return strcmp(((const struct page *)a)->path, ((const struct page *)b)->path);
}

// False: out of memory.
static bool pages_add(struct sk_pages *pages, const char *path, const struct sk_document_source *source)
{
    struct page page = {path, sk_document_open(source)};
    pages->all[pages->count++] = page;
    return page.document != NULL;
}

// False: out of memory.
static bool pages_set_fields(struct sk_pages *pages, const struct sk_cors *pictures)
{
    sk_buf_puts(&pages->policy, POLICY);
    for (unsigned i = 0; i < sk_cors_count(pictures); i++)
        sk_buf_printf(&pages->policy, " %s", sk_cors_origin(pictures, i));
    memcpy(pages->fields, fields, sizeof fields);
    pages->fields[FIELD_POLICY].value = pages->policy.data;
    return !pages->policy.failed;
}

// False: out of memory.
static bool pages_add_settings(struct sk_pages *pages, enum sk_auth auth, const struct sk_api_options *api,
                               const struct sk_cors *pictures)
{
    struct sk_buf *text = &pages->settings;
    sk_buf_printf(text, "{\"auth\":\"%s\",\"demo\":%s,\"version\":\"%s\"", auth == SK_AUTH_TOKEN ? "token" : "gateway",
                  api->demo != 0 ? "true" : "false", SK_VERSION);
    if (api->login_url != NULL)
        sk_buf_printf(text, ",\"login\":\"%s\"", api->login_url);
    sk_buf_puts(text, ",\"pictures\":[");
    for (unsigned i = 0; i < sk_cors_count(pictures); i++)
        sk_buf_printf(text, "%s\"%s\"", i > 0 ? "," : "", sk_cors_origin(pictures, i));
    sk_buf_puts(text, "]}\n");
    struct sk_document_source source = {
        .type = "application/json", .plain = {text->data, text->len}, .fields = pages->fields};
    return !text->failed && pages_add(pages, "/web/settings.json", &source);
}

void sk_pages_close(struct sk_pages *pages)
{
    if (pages == NULL)
        return;
    for (size_t i = 0; i < pages->count; i++)
        sk_document_close(pages->all[i].document);
    sk_buf_free(&pages->policy);
    sk_buf_free(&pages->settings);
    free(pages);
}

struct sk_pages *sk_pages_open(enum sk_auth auth, const struct sk_api_options *api, const struct sk_cors *pictures,
                               FILE *err)
{
    if (api->login_url != NULL && !sk_text_url(api->login_url)) {
        (void)fprintf(err, "seckill: SECKILL_LOGIN_URL: is not of the form https://host/path\n");
        return NULL;
    }
    struct sk_pages *pages = calloc(1, sizeof *pages + (sk_embedded_page_count + 1) * sizeof pages->all[0]);
    bool complete = pages != NULL && pages_set_fields(pages, pictures);
    for (size_t i = 0; complete && i < sk_embedded_page_count; i++) {
        struct sk_document_source source = sk_embedded_source(&sk_embedded_pages[i], pages->fields);
        complete = pages_add(pages, sk_embedded_pages[i].path, &source);
    }
    if (!complete || !pages_add_settings(pages, auth, api, pictures)) {
        sk_pages_close(pages);
        return NULL;
    }
    qsort(pages->all, pages->count, sizeof pages->all[0], pages_compare);
    return pages;
}

bool sk_pages_answer(const struct sk_pages *pages, struct sk_request *request, bool keep_alive)
{
    const struct page key = {.path = request->path};
    const struct page *page = bsearch(&key, pages->all, pages->count, sizeof pages->all[0], pages_compare);
    if (page != NULL)
        sk_document_answer(page->document, request, keep_alive);
    return page != NULL;
}

// ---- the calls ----

void sk_handle_page(const struct sk_context *context, struct sk_request *request)
{
    if (!sk_pages_answer(context->pages, request, !context->draining && !request->last))
        sk_answer_refusal(context->answers, request, SK_VERDICT_NOT_FOUND);
}

// Not permanently: a browser would remember it, even after the pages were turned off.
void sk_handle_to_dashboard(const struct sk_context *context, struct sk_request *request)
{
    struct sk_response *response = sk_response_of(NULL, "", 0);
    bool noted = request->trace.tracer != NULL;
    sk_response_header(response, "Location", "/admin/ui");
    sk_response_header(response, "Cache-Control", "no-store");
    if (context->draining || request->last)
        sk_response_header(response, "Connection", "close");
    sk_measure_answered(request, SK_VERDICT_FOUND, sk_trace_id(request));
    if (noted)
        sk_trace_answer(request, ELSEWHERE, sk_verdict_code(SK_VERDICT_FOUND), response);
    sk_request_answer(request, ELSEWHERE, response);
    sk_response_free(response);
}
