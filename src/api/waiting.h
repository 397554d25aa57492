// Requests that wait for an order's next change. However many of a reactor wait, they share one question each 200 ms:
// which orders have moved since the last one. It costs what moves, not what waits; and nothing where nothing waits.
//
// The reactor's thread, as all functions.
#ifndef SK_API_WAITING_H
#define SK_API_WAITING_H

#include "query.h"

struct sk_waiting;

// NULL: out of memory. Borrows control.
struct sk_waiting *sk_waiting_open(struct sk_control *control);
// All that wait are told UNAVAILABLE. After the links were closed, before the queries are. NULL is fine.
void sk_waiting_close(struct sk_waiting *waiting);

// Whether an order of this status may change without its user's doing more: pending or unpaid. All others are at an
// end, or change by the shop's hand alone.
bool sk_waiting_may_change(const char *status);

// From now on, until its outcome is told or it leaves: the handle waits until the order's status is another than this,
// which it had a moment ago; what happened since is noticed. Then it is told once: FOUND and the order; NOT_FOUND: it
// is not the user's. False: out of memory, and it does not wait.
bool sk_waiting_add(struct sk_waiting *waiting, const char *order_id, const char *user, const char *status,
                    uint64_t handle);

// Its time is up: it is told soon how the order is now; also OVERLOADED or UNAVAILABLE, as sk_order_lookup does. One
// that does not wait any more is told by others.
void sk_waiting_over(struct sk_waiting *waiting, uint64_t handle);

// Its client is gone: it is told nothing. May be gone already.
void sk_waiting_leave(struct sk_waiting *waiting, uint64_t handle);

size_t sk_waiting_count(const struct sk_waiting *waiting);

#endif
