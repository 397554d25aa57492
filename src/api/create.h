// Creates vouchers for the admin: inserts the row in PostgreSQL, which is the voucher, then loads it into Redis.
//
// Idempotent: the same key with the same terms leads to the same voucher, whatever happened to the first call.
#ifndef SK_API_CREATE_H
#define SK_API_CREATE_H

#include "call.h"
#include "query.h"

sk_handle sk_handle_create;

// In a change of terms: leave this one unchanged.
enum { SK_TERM_AS_IT_IS = -1 };

// The terms of a voucher, as the admin sets them.
struct sk_terms {
    const char *title;    // borrowed for the call
    const char *currency; // three letters; borrowed for the call
    int64_t stock, price_cents, begin_ms, end_ms;
    int64_t user_limit;   // most units in a user's one order
    int64_t pay_within_s; // an unpaid order expires after it; 0: never
    int64_t ticket;       // 1: a purchase needs a ticket; 0: it does not
    int64_t work_bits;    // proof of work that a ticket takes; 0: none
};

// The reactor's thread. `key` NULL: one is made, for this call alone. `by`: who creates it, for the audit log. Borrows
// key, by and terms for the call.
//
// Answers its handle once: CREATED after the row is committed, with the voucher, whose state is "loading" if it cannot
// sell yet; IDEMPOTENCY_KEY_REUSED; UNAVAILABLE: the row may or may not exist.
void sk_create_voucher(struct sk_control *control, const char *key, const char *by, const struct sk_terms *terms,
                       uint64_t handle);

#endif
