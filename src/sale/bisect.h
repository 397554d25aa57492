// Chooses which granted orders may share a batch after PostgreSQL has refused some, so that one bad order does not fail
// others. It bisects what was refused: first entry by entry, then in halves of an entry, down to single orders. Each
// part that is placed doubles the size of the next one.
#ifndef SK_SALE_BISECT_H
#define SK_SALE_BISECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "order.h"

// The size of the next part after one of `n` orders was refused, or placed. A single order that is refused stays alone.
static inline size_t sk_bisect_smaller(size_t n)
{
    return n > 1 ? n / 2 : 1;
}

static inline size_t sk_bisect_larger(size_t n)
{
    return n <= SIZE_MAX / 2 ? n * 2 : n;
}

// Whether `order` may join `batch`, which has the same epoch. Orders of a suspect entry share a batch with no other
// entry, and a suspect order with no other order.
bool sk_bisect_may_follow(const struct sk_order_list *batch, const struct sk_order *order);

// Whether PostgreSQL has refused a batch with orders of its entry.
bool sk_bisect_is_suspect(const struct sk_order *order);

// PostgreSQL has refused this batch of several orders: makes the next ones smaller.
void sk_bisect_refused(const struct sk_order_list *batch);

// PostgreSQL has settled a batch that began with this order.
void sk_bisect_settled(const struct sk_order *first);

#endif
