// A text that is the same for all clients as long as the process lives, with a tag by which a client that has it
// already need not take it again (RFC 9110 8.8.3 and 13.1.2).
//
// The loop's thread, as all functions.
#ifndef SK_HTTP_DOCUMENT_H
#define SK_HTTP_DOCUMENT_H

#include "answer.h"
#include "buf.h"

struct sk_document;

// Takes the text, whatever comes of it, and leaves *text zeroed. `type` is a constant. NULL: out of memory.
struct sk_document *sk_document_open(const char *type, struct sk_buf *text);
void sk_document_close(struct sk_document *document); // NULL is fine

// 200 with the text, or 304. Without keep_alive the answer ends its connection.
void sk_document_answer(const struct sk_document *document, const struct sk_answers *answers,
                        struct sk_request *request, bool keep_alive);

#endif
