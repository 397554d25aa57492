// An order by its id, at once or after its next change.
//
// The reactor's thread, as all functions.
#ifndef SK_API_ORDER_LOOKUP_H
#define SK_API_ORDER_LOOKUP_H

#include "call.h"

sk_handle sk_handle_order;

// The searches in progress for orders that no store has for their user: a few, of which a user has fewer, since each
// asks both stores about a whole slot. NULL: out of memory.
struct sk_searches *sk_searches_open(void);
void sk_searches_close(struct sk_searches *searches); // no search is left. NULL is fine

enum sk_lookup_for {
    SK_LOOKUP_FOR_USER,
    SK_LOOKUP_FOR_MOVE,   // it did not find the order: PENDING instead of FOUND
    SK_LOOKUP_FOR_REPEAT, // a purchase asks for its first answer again, which is 201 if it finds the order: a row is
                          // FOUND only once the synchronous standbys have it
};

// Answers the handle once, perhaps before it returns: FOUND and the caller's own order, settled or pending, with its
// status; NOT_FOUND, never while it may be pending (P5), and also for another user's order; UNAVAILABLE if that is not
// known now; OVERLOADED. `user` empty: the caller may see any user's order. Then PENDING means that the journal may
// have it, which cannot be known without a user.
void sk_order_lookup(struct sk_control *control, enum sk_lookup_for what, const char *order_id, const char *user,
                     uint64_t handle);

#endif
