// A page has one path, and no part of a path is taken for a file's name: it is looked up in a sorted list.
//
// A browser keeps what it got, and asks each time whether that is still right (no-cache, and 304): so after another
// version was rolled out no page runs with a script of the old one. The packed form is a representation of its own and
// has its own tag (RFC 9110, 8.8.3.3).
//
// They are for pages of our own origin: no answer says to those of another what they may do with it (cors.h).
#include "pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accept.h"
#include "embedded_pages.h"
#include "hash.h"
#include "measure.h"

// What draws the dashboard's charts, where it was fetched before the build (./dev setup web).
#define CHARTS "/web/vendor/uPlot.esm.js"

enum { TAG_SIZE = 24, SETTINGS_SIZE = 128, OK = 200, NOT_MODIFIED = 304 };

// One form of a page. Its text is borrowed, its answers are owned.
struct form {
    const char *text; // NULL: there is no such form
    size_t len;
    char tag[TAG_SIZE];
    struct sk_response *whole, *same;
};

struct page {
    const char *path, *type;
    struct form plain, packed;
};

struct sk_pages {
    char settings[SETTINGS_SIZE];
    size_t count;
    struct page all[]; // sorted by path
};

static void pages_add(struct sk_pages *pages, const char *path, const char *type);
static int pages_compare(const void *a, const void *b);
static bool form_open(const struct page *page, struct form *form);
static struct sk_response *form_make(const struct page *page, const struct form *form, bool whole);
static void form_close(struct form *form);
static bool form_is_known(const struct form *form, const struct sk_request *request);

// ---- made at start ----

struct sk_pages *sk_pages_open(const struct sk_config *config)
{
    struct sk_pages *pages = calloc(1, sizeof *pages + (sk_embedded_page_count + 1) * sizeof pages->all[0]);
    bool complete = pages != NULL, charts = false;
    for (size_t i = 0; complete && i < sk_embedded_page_count; i++) {
        const struct sk_embedded_page *embedded = &sk_embedded_pages[i];
        charts = charts || strcmp(embedded->path, CHARTS) == 0;
        pages_add(pages, embedded->path, embedded->type);
        struct page *page = &pages->all[i];
        page->plain = (struct form){.text = (const char *)embedded->text, .len = embedded->len};
        page->packed = (struct form){.text = (const char *)embedded->packed, .len = embedded->packed_len};
    }
    if (complete) {
        int n = snprintf(pages->settings, sizeof pages->settings,
                         "{\"auth\":\"%s\",\"demo\":%s,\"charts\":%s,\"version\":\"%s\"}\n",
                         config->auth == SK_AUTH_TOKEN ? "token" : "gateway", config->demo != 0 ? "true" : "false",
                         charts ? "true" : "false", SK_VERSION);
        SK_ASSERT(n > 0 && n < SETTINGS_SIZE);
        pages_add(pages, "/web/settings.json", "application/json");
        pages->all[pages->count - 1].plain = (struct form){.text = pages->settings, .len = (size_t)n};
        qsort(pages->all, pages->count, sizeof pages->all[0], pages_compare);
    }
    for (size_t i = 0; complete && i < pages->count; i++)
        complete = form_open(&pages->all[i], &pages->all[i].plain) && form_open(&pages->all[i], &pages->all[i].packed);
    if (!complete) {
        sk_pages_close(pages);
        return NULL;
    }
    return pages;
}

static void pages_add(struct sk_pages *pages, const char *path, const char *type)
{
    pages->all[pages->count++] = (struct page){.path = path, .type = type};
}

static int pages_compare(const void *a, const void *b)
{
    return strcmp(((const struct page *)a)->path, ((const struct page *)b)->path);
}

// False: out of memory.
static bool form_open(const struct page *page, struct form *form)
{
    if (form->text == NULL)
        return true;
    (void)snprintf(form->tag, sizeof form->tag, "\"%016" PRIx64 "\"", sk_hash(form->text, form->len));
    form->whole = form_make(page, form, true);
    form->same = form_make(page, form, false);
    return form->whole != NULL && form->same != NULL;
}

// Nothing may be loaded from elsewhere, no script stands in a page, and nobody shows a page of ours within theirs.
static struct sk_response *form_make(const struct page *page, const struct form *form, bool whole)
{
    static const struct {
        const char *name, *value;
    } fields[] = {
        {"Cache-Control", "no-cache"},
        {"Vary", "Accept-Encoding"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                                    "connect-src 'self'; base-uri 'none'; form-action 'self'; "
                                    "frame-ancestors 'none'; require-trusted-types-for 'script'"},
    };
    struct sk_response *response =
        whole ? sk_response_of(page->type, form->text, form->len) : sk_response_of(NULL, "", 0);
    if (whole && form == &page->packed)
        sk_response_header(response, "Content-Encoding", "gzip");
    sk_response_header(response, "ETag", form->tag);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        sk_response_header(response, fields[i].name, fields[i].value);
    return response;
}

void sk_pages_close(struct sk_pages *pages)
{
    for (size_t i = 0; pages != NULL && i < pages->count; i++) {
        form_close(&pages->all[i].plain);
        form_close(&pages->all[i].packed);
    }
    free(pages);
}

static void form_close(struct form *form)
{
    sk_response_free(form->whole);
    sk_response_free(form->same);
}

// ---- a request ----

bool sk_pages_answer(const struct sk_pages *pages, struct sk_request *request, bool keep_alive)
{
    const struct page key = {.path = request->path};
    const struct page *page = bsearch(&key, pages->all, pages->count, sizeof pages->all[0], pages_compare);
    if (page == NULL)
        return false;
    bool packed = page->packed.text != NULL && sk_accept_gzip(sk_request_header(request, "accept-encoding", NULL));
    const struct form *form = packed ? &page->packed : &page->plain;
    bool known = form_is_known(form, request), noted = request->trace.tracer != NULL;
    bool plain = keep_alive && !noted; // else it says more than the one for all
    struct sk_response *kept = known ? form->same : form->whole;
    struct sk_response *own = plain ? NULL : form_make(page, form, !known);
    if (!keep_alive)
        sk_response_header(own, "Connection", "close");
    request->trace.bytes = known ? 0 : form->len;
    sk_measure_answered(request, SK_VERDICT_FOUND, sk_trace_id(request));
    if (noted)
        sk_trace_answer(request, known ? NOT_MODIFIED : OK, SK_VERDICT_FOUND, own);
    sk_request_answer(request, known ? NOT_MODIFIED : OK, plain ? kept : own);
    sk_response_free(own);
    return true;
}

// If-None-Match is `*`, or a list with our tag in it; quotes are part of a tag, so nothing longer is mistaken for it.
static bool form_is_known(const struct form *form, const struct sk_request *request)
{
    const char *value = sk_request_header(request, "if-none-match", NULL);
    return value != NULL && (strcmp(value, "*") == 0 || strstr(value, form->tag) != NULL);
}
