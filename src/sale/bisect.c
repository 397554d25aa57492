// The search keeps its state in `part` of each entry and `refusals` of each order.
#include "bisect.h"

#include <stdint.h>

#include "entry.h"

bool sk_bisect_may_follow(const struct sk_order_list *batch, const struct sk_order *order)
{
    const struct sk_order *last = batch->tail;
    if (last == NULL)
        return true;
    if (order->entry->part == 0 && last->entry->part == 0)
        return true;
    return order->entry == last->entry && batch->count < order->entry->part && order->refusals == 0 &&
           last->refusals == 0;
}

bool sk_bisect_is_suspect(const struct sk_order *order)
{
    return order->entry->part != 0;
}

void sk_bisect_refused(const struct sk_order_list *batch)
{
    struct sk_entry *first = batch->head->entry;
    bool one_entry = true;
    for (const struct sk_order *order = batch->head; order != NULL; order = order->next) {
        one_entry = one_entry && order->entry == first;
        if (order->entry->part == 0)
            order->entry->part = SIZE_MAX; // from now on it shares no batch
    }
    if (one_entry && first->part > batch->count / 2)
        first->part = sk_bisect_smaller(batch->count);
}

void sk_bisect_settled(const struct sk_order *first)
{
    struct sk_entry *entry = first->entry;
    if (entry->part != 0)
        entry->part = sk_bisect_larger(entry->part);
}
