// The orders of a user.
#ifndef SK_API_USER_ORDERS_H
#define SK_API_USER_ORDERS_H

#include "page.h"

// The reactor's thread. Answers the handle once, which may be before it returns: FOUND and a page of the user's orders,
// the newest first; BAD_PARAMETER; UNAVAILABLE, because half a list would look like lost orders; OVERLOADED. The first
// page has after them those that are pending, beyond its limit. They are looked for where orders were under way at the
// last look; if that is at more than 64 vouchers, or one of them is damaged, the answer says "complete":false.
void sk_user_orders(struct sk_control *control, const char *user, const struct sk_page_asked *ask, uint64_t handle);

#endif
