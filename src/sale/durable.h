// Measures the time to durable: from handing a purchase to the batcher until its commit is reported, and the stages in
// between. Each voucher has a histogram of the whole time in each reactor. It is read for the whole process by the
// voucher's id (histogram.h). The reactor's metrics have the whole time and the stages.
//
//   handed over --gather--> script call --redis--> granted --queue--> transaction --commit--> reported
#ifndef SK_SALE_DURABLE_H
#define SK_SALE_DURABLE_H

#include "batch.h"
#include "sale.h"

// The reactor's thread, as all functions. Those that return a time read the clock once and return it.

// A script call with these orders is about to be sent, or was just sent.
uint64_t sk_durable_asked(const struct sk_sale *sale, const struct sk_order_list *orders);
// A batch is about to be sent. Each order is measured in its first batch only.
uint64_t sk_durable_sent(const struct sk_sale *sale, const struct sk_batch *batch);
// The reply to what was sent at `since_ns` is here: `leg` is LEG_REDIS or LEG_COMMIT.
uint64_t sk_durable_answered(const struct sk_sale *sale, enum sk_distribution_id leg, size_t orders, uint64_t since_ns);

// The order was committed at `now_ns`. An order that was read back from a journal or a letter does not count, since its
// start is not known. Without memory the voucher's histogram misses the order.
void sk_durable_note(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_order *order,
                     uint64_t now_ns);

#endif
