// The clock is read once for each loop turn that has purchases, and twice for each call and each batch, never for each
// order. Orders that began, or were granted, at the same moment are adjacent in a list, and are counted together.
#include "durable.h"

#include "histogram.h"
#include "probe.h"

uint64_t sk_durable_asked(const struct sk_sale *sale, const struct sk_order_list *orders)
{
    const struct sk_order *order = orders->head;
    uint64_t now_ns = uv_hrtime();
    sk_metrics_observe(sale->metrics, SK_DISTRIBUTION_BATCH_REDIS, orders->count, 1);
    while (order != NULL) {
        uint64_t began_ns = order->began_ns, n = 0;
        for (; order != NULL && order->began_ns == began_ns; order = order->next)
            n++;
        sk_metrics_observe(sale->metrics, SK_DISTRIBUTION_LEG_GATHER, now_ns - began_ns, n);
    }
    return now_ns;
}

uint64_t sk_durable_sent(const struct sk_sale *sale, const struct sk_batch *batch)
{
    uint64_t now_ns = uv_hrtime();
    sk_metrics_observe(sale->metrics, SK_DISTRIBUTION_BATCH_PG, batch->n, 1);
    for (size_t i = 0; i < batch->n;) {
        uint64_t granted_ns = batch->rows[i]->granted_ns, n = 0;
        for (; i < batch->n && batch->rows[i]->granted_ns == granted_ns; i++, n++) {
            if (granted_ns != 0)
                batch->rows[i]->granted_ns = 0;
        }
        if (granted_ns != 0)
            sk_metrics_observe(sale->metrics, SK_DISTRIBUTION_LEG_QUEUE, now_ns - granted_ns, n);
    }
    return now_ns;
}

uint64_t sk_durable_answered(const struct sk_sale *sale, enum sk_distribution_id leg, size_t orders, uint64_t since_ns)
{
    uint64_t now_ns = uv_hrtime();
    sk_metrics_observe(sale->metrics, leg, now_ns - since_ns, orders);
    return now_ns;
}

void sk_durable_note(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_order *order,
                     uint64_t now_ns)
{
    SK_PROBE4(committed, order->handle, order->id, voucher->id,
              order->began_ns == 0 ? 0 : (now_ns - order->began_ns) / 1000);
    if (order->began_ns == 0)
        return;
    sk_metrics_observe(sale->metrics, SK_DISTRIBUTION_DURABLE, now_ns - order->began_ns, 1);
    if (voucher->durable == NULL)
        voucher->durable = sk_histogram_open(voucher->id);
    if (voucher->durable != NULL)
        sk_histogram_add(voucher->durable, now_ns - order->began_ns);
}
