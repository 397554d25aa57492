// The time to durable: from when a purchase was handed to the batcher to when its commit was told, and the legs of that
// road. Of the whole there is a histogram for each voucher and reactor, which is read for the whole process by the
// voucher's id (histogram.h); whole and legs are in the metrics of the reactor.
//
//   handed over -> gather -> the script call -> redis -> granted -> queue -> the transaction -> commit -> told
#ifndef SK_SALE_DURABLE_H
#define SK_SALE_DURABLE_H

#include "batch.h"
#include "sale.h"

// The reactor's thread, as all functions. Each looks at the clock once, and returns what it says.

// A script call is about to go, or has gone, with these orders.
uint64_t sk_durable_asked(const struct sk_sale *sale, const struct sk_order_list *orders);
// Its reply is here.
uint64_t sk_durable_answered(const struct sk_sale *sale, size_t orders, uint64_t asked_ns);
// A batch is about to go. Of its orders each is measured in its first batch alone.
uint64_t sk_durable_sent(const struct sk_sale *sale, const struct sk_batch *batch);
// Its result is here.
uint64_t sk_durable_written(const struct sk_sale *sale, const struct sk_batch *batch, uint64_t sent_ns);

// The order was committed at `now_ns`. One that was read back from a journal or a letter does not count: when it began
// is not known here. Without memory there is nothing in the voucher's histogram.
void sk_durable_note(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_order *order,
                     uint64_t now_ns);

#endif
