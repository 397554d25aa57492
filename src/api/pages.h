// Documents that never change, and the built-in pages: the shop, the operators' dashboard, the payment page of the
// demo, and the files they load. They are part of the program.
//
// The loop's thread, as all functions.
#ifndef SK_API_PAGES_H
#define SK_API_PAGES_H

#include <stdio.h>

#include "api_options.h"
#include "call.h"

// ---- documents ----
//
// A text that is the same for all clients as long as the process lives. It has an ETag, so a client that has it need
// not load it again (RFC 9110, 8.8.3 and 13.1.2). Its gzip form is a representation of its own, with its own ETag
// (8.8.3.3). All answers are made at the start; an answer with further fields is made for its request.

struct sk_cors;
struct sk_document;

struct sk_document_field {
    const char *name, *value;
};

struct sk_document_body {
    const char *text;
    size_t len;
};

// What a document is made of; borrowed as long as it lives.
struct sk_document_source {
    const char *type;
    struct sk_document_body plain, packed;  // packed: by gzip; packed.text NULL: there is no such form
    const struct sk_document_field *fields; // in every answer; the last one has no name
    const struct sk_cors *cors;             // other origins whose pages may read it; NULL: none
};

// NULL: out of memory.
struct sk_document *sk_document_open(const struct sk_document_source *source);
void sk_document_close(struct sk_document *document); // NULL is fine

// 200 with the text in a form that the client accepts, or 304. Without keep_alive the answer closes its connection.
void sk_document_answer(const struct sk_document *document, struct sk_request *request, bool keep_alive);

// ---- pages ----

struct sk_pages;

sk_handle sk_handle_page, sk_handle_to_dashboard;

// `pictures`: the origins of vouchers' pictures, for the call. NULL: an option is wrong, which is printed on `err`, or
// out of memory.
struct sk_pages *sk_pages_open(enum sk_auth auth, const struct sk_api_options *api, const struct sk_cors *pictures,
                               FILE *err);
void sk_pages_close(struct sk_pages *pages); // NULL is fine

// Answers with the file of the request's path: 200, or 304 to a client that has it. Without keep_alive the answer
// closes its connection. False: there is no such path, and the request is not answered.
bool sk_pages_answer(const struct sk_pages *pages, struct sk_request *request, bool keep_alive);

// ---- embedded files ----
//
// The files of web/, which CMake has embedded in C (embed_pages.cmake), each as it is and packed by gzip.

struct sk_embedded_page {
    const char *path; // of its URL
    const char *type; // its media type
    const unsigned char *text;
    size_t len;
    const unsigned char *packed; // NULL: it would be no shorter
    size_t packed_len;
};

extern const struct sk_embedded_page sk_embedded_pages[];
extern const size_t sk_embedded_page_count;
extern const struct sk_embedded_page sk_embedded_openapi; // web/openapi.json, which is no page (about.h)

// The file in both forms, to be served with these fields.
struct sk_document_source sk_embedded_source(const struct sk_embedded_page *file,
                                             const struct sk_document_field *fields);

#endif
