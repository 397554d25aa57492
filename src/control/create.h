// Creates vouchers, for the admin: a row in PostgreSQL, which is the voucher, and then its first loading into Redis.
//
// It is repeatable: the same key with the same terms leads to the same voucher, whatever became of the first call.
#ifndef SK_SALE_CREATE_H
#define SK_SALE_CREATE_H

#include "core.h"

struct sk_creations;

struct sk_terms {
    const char *title; // borrowed for the call
    int64_t stock, price_cents, begin_ms, end_ms;
};

// The reactor's thread, as all calls. NULL: out of memory.
struct sk_creations *sk_creations_open(const struct sk_core *core);
void sk_creations_close(struct sk_creations *creations); // after the links were closed; NULL is fine

// `key` NULL: one is made, for this call alone. Borrows key and terms for the call. Answers its ticket once, through
// the core's on_outcome: CREATED once the row is committed, with the voucher, whose state is "loading" if it cannot
// sell yet; IDEMPOTENCY_KEY_REUSED; UNAVAILABLE if it is not known whether there is a row now.
void sk_create_voucher(struct sk_creations *creations, const char *key, const struct sk_terms *terms, uint64_t ticket);

#endif
