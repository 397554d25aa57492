// Which granted orders may go to PostgreSQL in one batch, after it has refused some: one bad order must not take others
// along. What is refused is bisected: first entry by entry, then in halves of an entry, down to single orders.
// A part that is placed lets the next one be twice as large.
#ifndef SK_SALE_BISECT_H
#define SK_SALE_BISECT_H

#include "entry.h"

// The reactor's thread. Whether `order` may follow those in `batch`, of the same epoch: those of a suspect entry keep
// to themselves, and a suspect order too.
bool sk_bisect_may_follow(const struct sk_order_list *batch, const struct sk_order *order);

// Whether it is of an entry that PostgreSQL has refused.
bool sk_bisect_is_suspect(const struct sk_order *order);

// PostgreSQL has refused a batch of several orders: the next ones are smaller.
void sk_bisect_refused(const struct sk_order_list *batch);

// It has settled one that began with this order.
void sk_bisect_settled(const struct sk_order *first);

#endif
