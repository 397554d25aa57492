// The clock is read once for each turn of the loop that has purchases, and once for each batch, never for each order.
#include "durable.h"

#include "histogram.h"

void sk_durable_note(struct sk_segment *segment, const struct sk_order *order, uint64_t now_ns)
{
    if (order->began_ns == 0)
        return;
    if (segment->durable == NULL)
        segment->durable = sk_histogram_open(segment->voucher_id);
    if (segment->durable != NULL)
        sk_histogram_add(segment->durable, now_ns - order->began_ns);
}
