// What operators do to a voucher: they create it, and change it before or during its sale: terms, pause and resume,
// closing, more or fewer units.
//
// PostgreSQL commits each change first, under a change number; then Redis gets it (changes.h). Units that are taken
// away leave Redis first. The answer comes when Redis has the change, so that it applies to all buyers. If Redis is
// away, or a rebuild is in progress, it comes after a bounded wait. The change is then committed, and the watch of any
// instance applies it.
//
// Each call is idempotent under its key, for the same request.
#ifndef SK_API_OPERATE_H
#define SK_API_OPERATE_H

#include "call.h"
#include "query.h"
#include "verdict.h"

sk_handle sk_handle_create, sk_handle_change, sk_handle_pause, sk_handle_resume, sk_handle_close, sk_handle_stock,
    sk_handle_rebuild;

// In a change of terms: leave this one unchanged.
enum { SK_TERM_AS_IT_IS = -1 };

// The terms of a voucher, as the admin sets them.
struct sk_terms {
    const char *title;                 // borrowed for the call
    const char *currency;              // three letters; borrowed for the call
    const char *description, *picture; // "": none; NULL: none, or in a change as it is; borrowed for the call
    int64_t stock, price_cents, begin_ms, end_ms;
    int64_t user_limit;   // most units in a user's one order
    int64_t pay_within_s; // an unpaid order expires after it; 0: never
    int64_t ticket;       // 1: a purchase needs a ticket; 0: it does not
    int64_t work_bits;    // proof of work that a ticket takes; 0: none
};

// The parameters that all calls have.
struct sk_operation {
    int64_t voucher_id;
    const char *key;  // NULL: one is made, for this call alone; borrowed for the call
    const char *by;   // who asks, for the audit log; borrowed for the call
    int64_t if_match; // the version that the change is meant for; 0: any
};

// The reactor's thread, as all functions. Each answers its handle once: FOUND with the voucher and its version, also if
// the change was in effect already; VERSION_CHANGED; IDEMPOTENCY_KEY_REUSED; UNKNOWN_VOUCHER; WRONG_STATE with the
// voucher's state; UNAVAILABLE: the change may or may not be made; OVERLOADED; LOADING; and those below.

// Changes the terms that are not NULL or SK_TERM_AS_IT_IS; ignores the stock. STARTED: after the start of the sale only
// what is shown may change, and the end to a later time. INVALID: it would end before it begins.
void sk_operate_change(struct sk_control *control, const struct sk_operation *operation, const struct sk_terms *terms,
                       uint64_t handle);

// Changes the state to PAUSED, OPEN (resumes the sale) or CLOSED.
void sk_operate_state(struct sk_control *control, const struct sk_operation *operation, enum sk_voucher_state state,
                      uint64_t handle);

// Adds units, or takes them away if `units` is below 0. BELOW_SOLD: fewer are left; the answer has how many. INVALID:
// there would be too many.
void sk_operate_stock(struct sk_control *control, const struct sk_operation *operation, int64_t units, uint64_t handle);

// Rebuilds the voucher in Redis from PostgreSQL, which closes it for a moment. A retired voucher is loaded again,
// closed. LOADING if a rebuild is in progress elsewhere or has failed.
void sk_operate_rebuild(struct sk_control *control, int64_t voucher_id, uint64_t handle);

// ---- creating a voucher ----

// Inserts the row in PostgreSQL, which is the voucher, then loads it into Redis. `key` NULL: one is made, for this call
// alone. `by`: who creates it, for the audit log. Borrows key, by and terms for the call.
//
// Answers its handle once: CREATED after the row is committed, with the voucher, whose state is "loading" if it cannot
// sell yet; IDEMPOTENCY_KEY_REUSED; UNAVAILABLE: the row may or may not exist.
void sk_create_voucher(struct sk_control *control, const char *key, const char *by, const struct sk_terms *terms,
                       uint64_t handle);

// What an instance's settings allow.
struct sk_terms_rules {
    bool tickets;                   // there is a secret for them
    const struct sk_cors *pictures; // origins of vouchers' pictures; NULL: none
};

// Reads the body of POST /admin/vouchers: all terms; those that are optional have defaults. The result is as of
// sk_fields_end(); texts point into `read`, which the caller frees in any case.
enum sk_verdict sk_terms_read(const char *body, size_t len, const struct sk_terms_rules *rules, struct sk_terms *terms,
                              struct sk_fields *read);

#endif
