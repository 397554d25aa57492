#include "batch.h"

#include <stdlib.h>

#include "bisect.h"
#include "journal.h"
#include "probe.h"

enum { COLUMN_N = 0, COLUMN_PART = 6 }; // of the rows; sk_settlement_read() reads the others

enum sk_status sk_batch_open(struct sk_batch *batch, size_t most)
{
    *batch = (struct sk_batch){.most = most, .rows = calloc(most, sizeof(struct sk_order *))};
    return batch->rows == NULL ? SK_NO_MEM : SK_OK;
}

void sk_batch_close(struct sk_batch *batch)
{
    sk_place_call_free(&batch->call);
    free(batch->rows);
}

// ---- gathering ----

bool sk_batch_may_share(const struct sk_voucher *voucher)
{
    return !voucher->granted.alone && !sk_bisect_is_suspect(voucher->granted.orders.head);
}

bool sk_batch_has_room(const struct sk_batch *batch)
{
    return batch->part_count < SK_BATCH_PARTS_MAX && batch->n < batch->most;
}

size_t sk_batch_add(struct sk_batch *batch, struct sk_order_pool *pool, struct sk_voucher *voucher)
{
    SK_ASSERT(sk_batch_has_room(batch) && voucher->granted.orders.count > 0); // only such are in the write queue
    struct sk_batch_part *part = &batch->parts[batch->part_count++];
    struct sk_order *order = voucher->granted.orders.head;
    size_t awaited = 0;
    *part = (struct sk_batch_part){.voucher = voucher, .epoch = order->epoch, .offer = order->offer, .first = batch->n};
    for (; order != NULL && batch->n < batch->most; order = voucher->granted.orders.head) {
        if (order->epoch != part->epoch || order->offer != part->offer || !sk_bisect_may_follow(&part->orders, order))
            break;
        awaited += !order->low_priority;
        sk_order_move(pool, order, SK_ORDER_WRITING, &part->orders);
        batch->rows[batch->n++] = order;
    }
    part->count = batch->n - part->first;
    SK_ASSERT(part->count == part->orders.count);
    return awaited;
}

// ---- asking ----

// NULL: none of its orders belongs to a journal entry of this epoch. An order that was found again has that of before.
static const char *batch_newest_journal(const struct sk_batch_part *part)
{
    const char *newest = NULL;
    for (const struct sk_order *order = part->orders.head; order != NULL; order = order->next) {
        const char *journal_id = order->entry->journal_id;
        if (journal_id != newest && order->entry->epoch == part->epoch &&
            (newest == NULL || sk_journal_compare(journal_id, newest) > 0))
            newest = journal_id;
    }
    return newest;
}

enum sk_status sk_batch_send(struct sk_batch *batch, struct sk_pg *pg, sk_pg_cb *done, void *arg)
{
    struct sk_call_part parts[SK_BATCH_PARTS_MAX];
    sk_place_call_begin(&batch->call);
    for (size_t i = 0; i < batch->n; i++) {
        const struct sk_order *order = batch->rows[i];
        sk_place_call_add(&batch->call, order->id, order->user, order->quantity, order->key);
    }
    for (size_t i = 0; i < batch->part_count; i++) {
        const struct sk_batch_part *part = &batch->parts[i];
        parts[i] =
            (struct sk_call_part){part->voucher, part->epoch, part->count, part->offer, batch_newest_journal(part)};
    }
    enum sk_status status = sk_place_call_send(&batch->call, pg, batch->part_count, parts, done, arg);
    if (status == SK_OK)
        SK_PROBE2(written, batch->n, batch->part_count);
    return status;
}

// ---- the answer ----

bool sk_batch_is_answered(const struct sk_batch *batch, const struct sk_rows *rows)
{
    size_t answered = 0;
    for (size_t row = 0; row < sk_rows_count(rows); row++) {
        int64_t part = batch->part_count == 1 ? 1 : sk_rows_number(rows, row, COLUMN_PART);
        if (part < 1 || (size_t)part > batch->part_count)
            return false;
        answered += sk_rows_text(rows, row, COLUMN_N) == NULL ? batch->parts[part - 1].count : 1;
    }
    return answered == batch->n;
}

struct sk_batch_part *sk_batch_part_of(struct sk_batch *batch, const struct sk_rows *rows, size_t row)
{
    return &batch->parts[batch->part_count == 1 ? 0 : sk_rows_number(rows, row, COLUMN_PART) - 1];
}
