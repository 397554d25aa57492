// The orders of a user.
#ifndef SK_CONTROL_USER_ORDERS_H
#define SK_CONTROL_USER_ORDERS_H

#include "talk.h"

// The reactor's thread. Answers the ticket once, which may be before it returns: FOUND and the user's newest 100
// orders, and after them those that are pending; UNAVAILABLE, because half a list would look like lost orders;
// OVERLOADED. Pending ones are looked for where orders were under way at the last look; if that is at more than 64
// segments, or one of them is damaged, the answer says "complete":false.
void sk_user_orders(struct sk_control *control, const char *user, uint64_t ticket);

#endif
