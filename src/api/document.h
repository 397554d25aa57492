// A text that is the same for all clients as long as the process lives, with a tag by which a client that has it
// already need not take it again (RFC 9110 8.8.3 and 13.1.2). Packed by gzip it is a representation of its own, with
// its own tag (8.8.3.3). Every answer is made at the start; one is made for its request where it says more than the
// others.
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

// What a document is made of: borrowed as long as it lives, but for `own`.
struct sk_document_source {
    const char *type;
    struct sk_document_body plain, packed;  // packed.text NULL: there is no such form
    struct sk_buf own;                      // instead of `plain`, unless it is zeroed: taken
    const struct sk_document_field *fields; // of every answer; the last one has no name
    const struct sk_cors *cors;             // the origins whose pages may read it, too; NULL: none
};

// NULL: out of memory; `own` is taken all the same.
struct sk_document *sk_document_open(const struct sk_document_source *source);
void sk_document_close(struct sk_document *document); // NULL is fine

// 200 with the text in the form that the client takes, or 304. Without keep_alive the answer ends its connection.
void sk_document_answer(const struct sk_document *document, struct sk_request *request, bool keep_alive);

#endif
