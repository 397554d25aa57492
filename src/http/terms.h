// Reads the body of POST /admin/vouchers, and says all that is wrong with it.
#ifndef SK_HTTP_TERMS_H
#define SK_HTTP_TERMS_H

#include "create.h"
#include "fields.h"

// Any thread. What it came to, as sk_fields_end() says; terms->title points into `read`, which the caller frees in any
// case.
enum sk_verdict sk_terms_read(const char *body, size_t len, struct sk_terms *terms, struct sk_fields *read);

#endif
