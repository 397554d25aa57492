// Requests that wait for an order's next change (long polls). However many of them a reactor has, they share one
// statement every 200 ms: which orders have moved since the last one. So the cost depends on the moves, not on the
// waiting requests. Without any, nothing is asked.
//
// The reactor's thread, as all functions.
#ifndef SK_API_WAITING_H
#define SK_API_WAITING_H

#include "query.h"

struct sk_waiting;

// NULL: out of memory. Borrows control.
struct sk_waiting *sk_waiting_open(struct sk_control *control);
// Answers all waiting requests with UNAVAILABLE. Call after closing the links and before the queries. NULL is fine.
void sk_waiting_close(struct sk_waiting *waiting);

// Whether an order of this status may change without a call of its user: pending or unpaid. All others are final, or
// only the shop changes them.
bool sk_waiting_may_change(const char *status);

// The handle waits, until it is answered or leaves, for the order's status to differ from `status`. The order had that
// a moment ago; a change since then is noticed. It is answered once: FOUND and the order; NOT_FOUND: it is not the
// user's. False: out of memory, and the handle does not wait.
bool sk_waiting_add(struct sk_waiting *waiting, const char *order_id, const char *user, const char *status,
                    uint64_t handle);

// The handle's time is up: it is soon answered with the current order, or OVERLOADED or UNAVAILABLE, as by
// sk_order_lookup(). Does nothing if it no longer waits.
void sk_waiting_over(struct sk_waiting *waiting, uint64_t handle);

// The client is gone: the handle is not answered. It may have left already.
void sk_waiting_leave(struct sk_waiting *waiting, uint64_t handle);

size_t sk_waiting_count(const struct sk_waiting *waiting);

#endif
