// The time to durable: from when a purchase was handed to the batcher to when its commit was told. A histogram for each
// segment and reactor, which is read for the whole process by the voucher's id (histogram.h).
#ifndef SK_SALE_DURABLE_H
#define SK_SALE_DURABLE_H

#include "segment.h"

// The reactor's thread. The order was committed at `now_ns`. One that was read back from a journal or a letter does not
// count: when it began is not known here. Without memory nothing is noted.
void sk_durable_note(struct sk_segment *segment, const struct sk_order *order, uint64_t now_ns);

#endif
