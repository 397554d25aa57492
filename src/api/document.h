// A text that is the same for all clients as long as the process lives. It has an ETag, so a client that has it need
// not load it again (RFC 9110, 8.8.3 and 13.1.2). Its gzip form is a representation of its own, with its own ETag
// (8.8.3.3). All answers are made at the start; an answer with further fields is made for its request.
//
// The loop's thread, as all functions.
#ifndef SK_API_DOCUMENT_H
#define SK_API_DOCUMENT_H

#include "buf.h"
#include "request.h"

struct sk_cors;
struct sk_document;

struct sk_document_field {
    const char *name, *value;
};

struct sk_document_body {
    const char *text;
    size_t len;
};

// What a document is made of; borrowed as long as it lives, except `own`.
struct sk_document_source {
    const char *type;
    struct sk_document_body plain, packed;  // packed: by gzip; packed.text NULL: there is no such form
    struct sk_buf own;                      // instead of `plain`, unless it is zeroed; taken
    const struct sk_document_field *fields; // in every answer; the last one has no name
    const struct sk_cors *cors;             // other origins whose pages may read it; NULL: none
};

// NULL: out of memory; `own` is taken even then.
struct sk_document *sk_document_open(const struct sk_document_source *source);
void sk_document_close(struct sk_document *document); // NULL is fine

// 200 with the text in a form that the client accepts, or 304. Without keep_alive the answer closes its connection.
void sk_document_answer(const struct sk_document *document, struct sk_request *request, bool keep_alive);

#endif
