// A user's orders, pending ones included.
//
// The reactor's thread, as all functions.
#ifndef SK_API_USER_ORDERS_H
#define SK_API_USER_ORDERS_H

#include "call.h"
#include "page.h"

sk_handle sk_handle_orders;

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
