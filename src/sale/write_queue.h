// The write queue: vouchers with granted orders take turns. A voucher that cannot be written now is skipped until its
// pause is over, so it delays no other.
#ifndef SK_SALE_WRITE_QUEUE_H
#define SK_SALE_WRITE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "voucher.h"

// Starts zeroed. Times are uv_now's. A voucher in the queue has orders, and their entries pin it.
struct sk_write_queue {
    struct sk_voucher *first, *last;
};

void sk_write_queue_add(struct sk_write_queue *queue,
                        struct sk_voucher *voucher); // at the end, unless it is already queued

// Removes and returns the first voucher that is not paused and that `may` accepts; `may` NULL: any. NULL: there is
// none.
struct sk_voucher *sk_write_queue_take(struct sk_write_queue *queue, uint64_t now_ms,
                                       bool (*may)(const struct sk_voucher *voucher));

enum sk_pause {
    SK_PAUSE_LOCKED, // another transaction holds its row
    SK_PAUSE_FAILED, // any other failure of a statement
};

// Pauses the voucher, longer each time until a batch of it is settled: up to 2 s. Logs that its row is locked, unless
// the pauses have stopped growing.
void sk_write_queue_pause(struct sk_voucher *voucher, enum sk_pause why, uint64_t now_ms);

// A batch of it was refused permanently. Pauses it after too many refusals in a row: more than it takes to find one bad
// order among good ones.
void sk_write_queue_refused(struct sk_voucher *voucher, uint64_t now_ms);

// A batch that it shared has failed, perhaps because of another voucher: the next batch has this voucher alone.
void sk_write_queue_part(struct sk_voucher *voucher);

void sk_write_queue_settled(struct sk_voucher *voucher);

#endif
