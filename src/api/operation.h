// What operators do to a voucher before or during its sale: terms, pause and resume, closing, more or fewer units, a
// rebuild; and whether its unpaid orders expire. creation.h makes one.
//
// PostgreSQL commits each change first, under a change number; then Redis gets it (changes.h). Units that are taken
// away leave Redis first. The answer comes when Redis has the change, so that it applies to all buyers. If Redis is
// away, or a rebuild is in progress, it comes after a bounded wait. The change is then committed, and the audit of any
// instance applies it.
//
// Each call is idempotent under its key, for the same request.
#ifndef SK_API_OPERATION_H
#define SK_API_OPERATION_H

#include "call.h"
#include "query.h"
#include "terms.h"

sk_handle sk_handle_change, sk_handle_pause, sk_handle_resume, sk_handle_close, sk_handle_stock, sk_handle_rebuild;
sk_handle sk_handle_hold_expiry, sk_handle_release_expiry;

// The parameters that all calls have.
struct sk_operation {
    int64_t voucher_id;
    const char *key;                    // NULL: one is made, for this call alone; borrowed for the call
    const char *by;                     // who asks, for the audit log; borrowed for the call
    int64_t if_match;                   // the version that the change is meant for; 0: any
    char key_room[SK_REQUEST_KEY_SIZE]; // where `key` may lie
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

// Holds the expiry of a voucher's unpaid orders, or of all vouchers' if `voucher_id` is 0, until it is released: some
// order may still expire within the second. What is due expires within seconds after the release. Repeated, both
// change nothing. UNAVAILABLE also if a shard is away: the others may have it.
void sk_operate_expiry(struct sk_control *control, int64_t voucher_id, bool held, const char *by, uint64_t handle);

#endif
