// Reads the body of POST /admin/vouchers.
#ifndef SK_HTTP_TERMS_H
#define SK_HTTP_TERMS_H

#include "inquiry.h"

struct json_t;

// Any thread. FOUND, BAD_JSON (not the expected members) or INVALID (a value of the wrong type or out of
// range). With FOUND, terms->title points into *document, which the caller gives to sk_terms_free in any
// case.
enum sk_verdict sk_terms_read(const char *body, size_t len, struct sk_terms *terms, struct json_t **document);
void sk_terms_free(struct json_t *document);

#endif
