// One order, by its id.
#ifndef SK_API_ORDER_LOOKUP_H
#define SK_API_ORDER_LOOKUP_H

#include "talk.h"

// The reactor's thread, as both. Answers the handle once, which may be before it returns: FOUND and the caller's own
// order, settled or pending, with its status; NOT_FOUND, never while it may be pending (P5), and also for another
// user's order; UNAVAILABLE where that is not known now; OVERLOADED. `user` empty: the caller may see any user's; then
// PENDING says that the journal may have it, which without a user cannot be known.
void sk_order_lookup(struct sk_control *control, const char *order_id, const char *user, uint64_t handle);

// The same for a move that found no order: PENDING instead of FOUND.
void sk_order_lookup_pending(struct sk_control *control, const char *order_id, const char *user, uint64_t handle);

#endif
