// Orders: one, by its id, at once or after its next change; and those of a user.
//
// The reactor's thread, as all functions.
#ifndef SK_API_ORDERS_H
#define SK_API_ORDERS_H

#include "call.h"
#include "page.h"

sk_handle sk_handle_order, sk_handle_orders;

// Answers the handle once, which may be before it returns: FOUND and the caller's own
// order, settled or pending, with its status; NOT_FOUND, never while it may be pending (P5), and also for another
// user's order; UNAVAILABLE where that is not known now; OVERLOADED. `user` empty: the caller may see any user's; then
// PENDING says that the journal may have it, which without a user cannot be known.
void sk_order_lookup(struct sk_control *control, const char *order_id, const char *user, uint64_t handle);

// The same for a move that found no order: PENDING instead of FOUND.
void sk_order_lookup_pending(struct sk_control *control, const char *order_id, const char *user, uint64_t handle);

// Answers the handle once, which may be before it returns: FOUND and a page of the user's orders,
// the newest first; BAD_PARAMETER; UNAVAILABLE, because half a list would look like lost orders; OVERLOADED. The first
// page has after them those that are pending, beyond its limit. They are looked for where orders were under way at the
// last look; if that is at more than 64 vouchers, or one of them is damaged, the answer says "complete":false.
void sk_user_orders(struct sk_control *control, const char *user, const struct sk_page_asked *ask, uint64_t handle);

#endif
