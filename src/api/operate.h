// What operators do to a voucher while it is on sale, or before: other terms, pause and resume, closing, more units or
// fewer.
//
// PostgreSQL has each change first, under a change number, and then Redis gets it (changes.h); units that are taken
// away leave Redis first. The answer comes when Redis has it, so that it counts for all buyers; or, if Redis is away,
// or a rebuild is under way, after a bounded wait: then the change is made, and the watch of any instance carries it
// out.
//
// Each call is idempotent under its key, for the same request.
#ifndef SK_API_OPERATE_H
#define SK_API_OPERATE_H

#include "call.h"
#include "create.h"
#include "query.h"

sk_handle sk_handle_change, sk_handle_pause, sk_handle_resume, sk_handle_close, sk_handle_stock, sk_handle_rebuild;

// How a call is meant.
struct sk_operation {
    int64_t voucher_id;
    const char *key;  // NULL: one is made, for this call alone; borrowed for the call
    const char *by;   // who asks, for the record; borrowed for the call
    int64_t if_match; // the version that the change is meant for; 0: whichever it is
};

// The reactor's thread, as all functions. Each answers its handle once: FOUND with the voucher and its version, also if
// it was so already; VERSION_CHANGED; IDEMPOTENCY_KEY_REUSED; UNKNOWN_VOUCHER; WRONG_STATE with the voucher's state;
// UNAVAILABLE: whether it is done is not known; OVERLOADED; LOADING; and what stands with the function.

// The terms that are not NULL or SK_TERM_AS_IT_IS; the stock does not count. STARTED: after the start of the sale only
// the title changes, and the end to a later time. INVALID: it would end before it begins.
void sk_operate_change(struct sk_control *control, const struct sk_operation *operation, const struct sk_terms *terms,
                       uint64_t handle);

// PAUSED, OPEN (resumes it) or CLOSED.
void sk_operate_state(struct sk_control *control, const struct sk_operation *operation, enum sk_voucher_state state,
                      uint64_t handle);

// Adds units, or takes away as many as `units` is below 0. BELOW_SOLD: fewer are left; how many is told. INVALID: there
// would be too many.
void sk_operate_stock(struct sk_control *control, const struct sk_operation *operation, int64_t units, uint64_t handle);

// Rebuilds the voucher in Redis from PostgreSQL, which closes it for a moment. One that was
// retired is loaded again, closed. Answers its handle once: FOUND with the voucher; LOADING if a rebuild is in progress
// elsewhere or has failed; ARCHIVED; UNKNOWN_VOUCHER; UNAVAILABLE; OVERLOADED.
void sk_command_rebuild(struct sk_control *control, int64_t voucher_id, uint64_t handle);

#endif
