// The creation of a voucher: a row in PostgreSQL, then Redis's data of it.
//
// The reactor's thread, as all functions.
#ifndef SK_API_CREATION_H
#define SK_API_CREATION_H

#include "call.h"
#include "query.h"
#include "terms.h"

sk_handle sk_handle_create;

// Inserts the row in PostgreSQL, which is the voucher, then loads it into Redis. `key` NULL: one is made, for this call
// alone. `by`: who creates it, for the audit log. Borrows key, by and terms for the call.
//
// Answers its handle once: CREATED after the row is committed, with the voucher, whose state is "loading" if it cannot
// sell yet; IDEMPOTENCY_KEY_REUSED; UNAVAILABLE: the row may or may not exist.
void sk_create_voucher(struct sk_control *control, const char *key, const char *by, const struct sk_terms *terms,
                       uint64_t handle);

#endif
