// Paused vouchers stay in the queue: there are few, and skipping one costs a comparison.
#include "write_queue.h"

#include <inttypes.h>

#include "log.h"

enum { LOCKED_MS = 200, FAILED_MS = 20, MOST_MS = 2000, REFUSALS_MAX = 12 };

void sk_write_queue_add(struct sk_write_queue *queue, struct sk_voucher *voucher)
{
    if (voucher->granted.listed)
        return;
    SK_ASSERT((queue->first == NULL) == (queue->last == NULL));
    voucher->granted.listed = true;
    voucher->granted.next = NULL;
    if (queue->last != NULL)
        queue->last->granted.next = voucher;
    else
        queue->first = voucher;
    queue->last = voucher;
}

struct sk_voucher *sk_write_queue_take(struct sk_write_queue *queue, uint64_t now_ms,
                                       bool (*may)(const struct sk_voucher *voucher))
{
    struct sk_voucher *before = NULL, *voucher = queue->first;
    while (voucher != NULL && (voucher->granted.not_before_ms > now_ms || (may != NULL && !may(voucher)))) {
        before = voucher;
        voucher = voucher->granted.next;
    }
    if (voucher == NULL)
        return NULL;
    if (before != NULL)
        before->granted.next = voucher->granted.next;
    else
        queue->first = voucher->granted.next;
    if (queue->last == voucher)
        queue->last = before;
    SK_ASSERT(voucher->granted.listed && (queue->first == NULL) == (queue->last == NULL));
    voucher->granted.listed = false;
    return voucher;
}

void sk_write_queue_pause(struct sk_voucher *voucher, enum sk_pause why, uint64_t now_ms)
{
    struct sk_backoff *backoff = why == SK_PAUSE_LOCKED ? &voucher->granted.locked : &voucher->granted.failed;
    backoff->first_ms = why == SK_PAUSE_LOCKED ? LOCKED_MS : FAILED_MS; // the pause is at least half of it
    backoff->most_ms = MOST_MS;
    bool grows = backoff->span_ms < MOST_MS;
    uint32_t pause_ms = sk_backoff_next(backoff);
    voucher->granted.not_before_ms = now_ms + pause_ms;
    voucher->granted.alone = true;
    if (why == SK_PAUSE_LOCKED && grows)
        sk_log(SK_LOG_WARN, "another transaction holds the row of a voucher; its orders wait",
               "voucher=%" PRId64 " pause_ms=%" PRIu32, voucher->id, pause_ms);
}

void sk_write_queue_refused(struct sk_voucher *voucher, uint64_t now_ms)
{
    voucher->granted.alone = true;
    if (++voucher->granted.refusals >= REFUSALS_MAX)
        sk_write_queue_pause(voucher, SK_PAUSE_FAILED, now_ms);
}

void sk_write_queue_part(struct sk_voucher *voucher)
{
    voucher->granted.alone = true;
}

void sk_write_queue_settled(struct sk_voucher *voucher)
{
    voucher->granted.alone = false;
    sk_backoff_reset(&voucher->granted.locked);
    sk_backoff_reset(&voucher->granted.failed);
    voucher->granted.refusals = 0;
}
