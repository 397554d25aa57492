// Creates vouchers, for the admin: a row in PostgreSQL, which is the voucher, and then its first loading into Redis.
//
// It is idempotent: the same key with the same terms leads to the same voucher, whatever became of the first call.
#ifndef SK_API_CREATE_H
#define SK_API_CREATE_H

#include "call.h"
#include "query.h"

sk_handle sk_handle_create;

// Where terms are to be changed: this one is not.
enum { SK_TERM_AS_IT_IS = -1 };

// What the admin sets of a voucher.
struct sk_terms {
    const char *title;    // borrowed for the call
    const char *currency; // three letters; borrowed for the call
    int64_t stock, price_cents, begin_ms, end_ms;
    int64_t user_limit;   // units in a user's one order
    int64_t pay_within_s; // an unpaid order expires then; 0: never
    int64_t ticket;       // 1: a purchase needs a ticket; 0
    int64_t work_bits;    // of the work that a ticket takes; 0: none
};

// The reactor's thread. `key` NULL: one is made, for this call alone. `by`: who creates it, for the record. Borrows
// key, by and terms for the call. Answers its handle once: CREATED once the row is committed, with the voucher, whose
// state is "loading" if it cannot sell yet; IDEMPOTENCY_KEY_REUSED; UNAVAILABLE if it is not known whether there is a
// row now.
void sk_create_voucher(struct sk_control *control, const char *key, const char *by, const struct sk_terms *terms,
                       uint64_t handle);

#endif
