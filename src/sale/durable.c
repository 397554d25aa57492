// The clock is read once for each turn of the loop that has purchases, and once for each batch, never for each order.
#include "durable.h"

#include "histogram.h"
#include "probe.h"

void sk_durable_note(struct sk_segment *segment, const struct sk_order *order, uint64_t now_ns)
{
    SK_PROBE4(committed, order->ticket, order->id, segment->voucher_id,
              order->began_ns == 0 ? 0 : (now_ns - order->began_ns) / 1000);
    if (order->began_ns == 0)
        return;
    if (segment->durable == NULL)
        segment->durable = sk_histogram_open(segment->voucher_id);
    if (segment->durable != NULL)
        sk_histogram_add(segment->durable, now_ns - order->began_ns);
}
