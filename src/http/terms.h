// Reads the body of POST /admin/vouchers, and says all that is wrong with it.
#ifndef SK_HTTP_TERMS_H
#define SK_HTTP_TERMS_H

#include "create.h"

struct json_t;

// What came out of reading besides the terms. The caller gives it to sk_terms_body_free in any case.
struct sk_terms_body {
    struct json_t *document; // what terms->title points into; NULL: not JSON
    struct json_t *errors;   // a list of {"pointer": RFC 6901, "detail": text}; NULL: nothing is wrong, or no memory
};

// At most so many problems are listed, then one entry that says so. Names of members are shown up to this length.
enum { SK_TERMS_ERRORS_MAX = 16, SK_TERMS_NAME_MAX = 64 };

// Any thread. FOUND; BAD_JSON if the form is wrong: not JSON, not an object, a member missing, unknown or doubled;
// INVALID if the form is right but a value has the wrong type or is out of range; OVERLOADED: out of memory.
enum sk_verdict sk_terms_read(const char *body, size_t len, struct sk_terms *terms, struct sk_terms_body *read);
void sk_terms_body_free(struct sk_terms_body *read);

#endif
