// Orders: one by its id, at once or after its next change; and a user's orders.
//
// The reactor's thread, as all functions.
#ifndef SK_API_ORDERS_H
#define SK_API_ORDERS_H

#include "call.h"
#include "page.h"

sk_handle sk_handle_order, sk_handle_orders;

// The searches in progress for orders that no store has for their user: a few, of which a user has fewer, since each
// asks both stores about a whole slot. NULL: out of memory.
struct sk_searches *sk_searches_open(void);
void sk_searches_close(struct sk_searches *searches); // no search is left. NULL is fine

// Answers the handle once, perhaps before it returns: FOUND and the caller's own order, settled or pending, with its
// status; NOT_FOUND, never while it may be pending (P5), and also for another user's order; UNAVAILABLE if that is not
// known now; OVERLOADED. `user` empty: the caller may see any user's order. Then PENDING means that the journal may
// have it, which cannot be known without a user.
void sk_order_lookup(struct sk_control *control, const char *order_id, const char *user, uint64_t handle);

// The same for a move that did not find the order: PENDING instead of FOUND.
void sk_order_lookup_pending(struct sk_control *control, const char *order_id, const char *user, uint64_t handle);

// The same for a purchase that asks for its first answer again, which is 201 if it finds the order: a row is FOUND only
// once the synchronous standbys have it.
void sk_order_lookup_repeated(struct sk_control *control, const char *order_id, const char *user, uint64_t handle);

// Answers the handle once, perhaps before it returns: FOUND and a page of the user's orders, the newest first;
// BAD_PARAMETER; UNAVAILABLE, because half a list would look like lost orders; OVERLOADED.
//
// The first page also has the user's pending orders, after the others and beyond its limit. They are searched for at
// the vouchers where orders were in progress at the last check. If that is more than 64 vouchers, if one of them is
// damaged, or if the catalogue lacks one that PostgreSQL has, the answer has "complete":false. `class`: SK_PG_QUERIES
// for the user, SK_PG_COMMANDS for an operator.
void sk_user_orders(struct sk_control *control, enum sk_pg_class class, const char *user,
                    const struct sk_page_asked *ask, uint64_t handle);

#endif
