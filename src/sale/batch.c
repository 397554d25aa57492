// A batch of one voucher is one call of place_orders(). Parts of several vouchers are one call of place_batches(),
// whose arrays name each part once and list the orders of all parts. Both answer in the same form, except for the
// column with a row's part.
#include "batch.h"

#include <stdlib.h>

#include "bisect.h"
#include "journal.h"
#include "params.h"
#include "probe.h"

enum { COLUMN_N = 0, COLUMN_PART = 6 }; // of both functions; sk_settlement_read() reads the others

// The arrays of place_batches(), in its order. place_orders() takes single values for those that have one element a
// part.
enum { SLOTS, VOUCHERS, EPOCHS, COUNTS, IDS, USERS, JOURNALS, QUANTITIES, KEYS, OFFERS, ARRAYS };

static const char *batch_newest_journal(const struct sk_batch_part *part);
static enum sk_status batch_send_one(struct sk_batch *batch, struct sk_pg *pg, sk_pg_cb *done, void *arg);
static enum sk_status batch_send_many(struct sk_batch *batch, struct sk_pg *pg, sk_pg_cb *done, void *arg);

enum sk_status sk_batch_open(struct sk_batch *batch, size_t most)
{
    _Static_assert(sizeof batch->arrays / sizeof batch->arrays[0] == ARRAYS, "one buffer for each array");
    *batch = (struct sk_batch){.most = most, .rows = calloc(most, sizeof(struct sk_order *))};
    return batch->rows == NULL ? SK_NO_MEM : SK_OK;
}

void sk_batch_close(struct sk_batch *batch)
{
    for (int i = 0; i < ARRAYS; i++)
        sk_buf_free(&batch->arrays[i]);
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
    return awaited;
}

// ---- asking ----

enum sk_status sk_batch_send(struct sk_batch *batch, struct sk_pg *pg, sk_pg_cb *done, void *arg)
{
    for (int i = 0; i < ARRAYS; i++)
        sk_params_begin(&batch->arrays[i]);
    batch->plain = true;
    for (size_t i = 0; i < batch->n; i++) {
        const struct sk_order *order = batch->rows[i];
        sk_params_add(&batch->arrays[IDS], order->id);
        sk_params_add_text(&batch->arrays[USERS], order->user);
        batch->plain = batch->plain && order->quantity == 1 && order->key == 0;
    }
    for (size_t i = 0; i < batch->n && !batch->plain; i++)
        sk_journal_add_details(batch->rows[i]->quantity, batch->rows[i]->key, &batch->arrays[QUANTITIES],
                               &batch->arrays[KEYS]);
    enum sk_status status =
        batch->part_count == 1 ? batch_send_one(batch, pg, done, arg) : batch_send_many(batch, pg, done, arg);
    if (status == SK_OK)
        SK_PROBE2(written, batch->n, batch->part_count);
    return status;
}

// NULL: all orders have one unit and no key.
static const char *batch_details(struct sk_batch *batch, int array)
{
    return batch->plain ? NULL : sk_params_end(&batch->arrays[array]);
}

static enum sk_status batch_send_one(struct sk_batch *batch, struct sk_pg *pg, sk_pg_cb *done, void *arg)
{
    const struct sk_batch_part *part = &batch->parts[0];
    char slot[SK_PARAM_NUMBER_SIZE], voucher[SK_PARAM_NUMBER_SIZE], epoch[SK_PARAM_NUMBER_SIZE];
    char offer[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, part->voucher->slot),
                            sk_params_number(voucher, part->voucher->id),
                            sk_params_number(epoch, part->epoch),
                            sk_params_end(&batch->arrays[IDS]),
                            sk_params_end(&batch->arrays[USERS]),
                            batch_newest_journal(part),
                            batch_details(batch, QUANTITIES),
                            batch_details(batch, KEYS),
                            sk_params_number(offer, part->offer)};
    if (params[3] == NULL || params[4] == NULL || (!batch->plain && (params[6] == NULL || params[7] == NULL)))
        return SK_NO_MEM;
    return sk_pg_call(pg, SK_STATEMENT_PLACE_ORDERS, 9, params, done, arg);
}

static enum sk_status batch_send_many(struct sk_batch *batch, struct sk_pg *pg, sk_pg_cb *done, void *arg)
{
    const char *params[ARRAYS];
    for (size_t i = 0; i < batch->part_count; i++) {
        const struct sk_batch_part *part = &batch->parts[i];
        char number[SK_PARAM_NUMBER_SIZE];
        const char *newest = batch_newest_journal(part);
        sk_params_add(&batch->arrays[SLOTS], sk_params_number(number, part->voucher->slot));
        sk_params_add(&batch->arrays[VOUCHERS], sk_params_number(number, part->voucher->id));
        sk_params_add(&batch->arrays[EPOCHS], sk_params_number(number, part->epoch));
        sk_params_add(&batch->arrays[COUNTS], sk_params_number(number, (int64_t)part->count));
        sk_params_add(&batch->arrays[JOURNALS], newest == NULL ? "NULL" : newest);
        sk_params_add(&batch->arrays[OFFERS], sk_params_number(number, part->offer));
    }
    for (int i = 0; i < ARRAYS; i++) {
        bool needed = (i != QUANTITIES && i != KEYS) || !batch->plain;
        params[i] = needed ? sk_params_end(&batch->arrays[i]) : NULL;
        if (needed && params[i] == NULL)
            return SK_NO_MEM;
    }
    return sk_pg_call(pg, SK_STATEMENT_PLACE_BATCHES, ARRAYS, params, done, arg);
}

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
