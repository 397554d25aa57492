// A batch of one voucher is one call of place_orders(). Parts of several vouchers are one call of place_batches(),
// whose arrays name each part once and list the orders of all parts. Both answer in the same form, except for the
// column with a row's part.
#include "batch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "journal.h"
#include "log.h"
#include "params.h"
#include "probe.h"

enum { COLUMN_N = 0, COLUMN_PART = 6 }; // of both functions; sk_settlement_read() reads the others

// The arrays of place_batches(), in its order. place_orders() takes single values for those that have one element a
// part.
enum { SLOTS, VOUCHERS, EPOCHS, COUNTS, IDS, USERS, JOURNALS, QUANTITIES, KEYS, OFFERS, ARRAYS };

static bool bisect_may_follow(const struct sk_order_list *batch, const struct sk_order *order);
static bool bisect_is_suspect(const struct sk_order *order);
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
    return !voucher->granted.alone && !bisect_is_suspect(voucher->granted.orders.head);
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
        if (order->epoch != part->epoch || order->offer != part->offer || !bisect_may_follow(&part->orders, order))
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

// ---- bisecting ----

// The search keeps its state in `part` of each entry and `refusals` of each order.

// Whether `order` may join `batch`, which has the same epoch. Orders of a suspect entry share a batch with no other
// entry, and a suspect order with no other order.
static bool bisect_may_follow(const struct sk_order_list *batch, const struct sk_order *order)
{
    const struct sk_order *last = batch->tail;
    if (last == NULL)
        return true;
    if (order->entry->part == 0 && last->entry->part == 0)
        return true;
    return order->entry == last->entry && batch->count < order->entry->part && order->refusals == 0 &&
           last->refusals == 0;
}

// Whether PostgreSQL has refused a batch with orders of its entry.
static bool bisect_is_suspect(const struct sk_order *order)
{
    return order->entry->part != 0;
}

void sk_bisect_refused(const struct sk_order_list *batch)
{
    struct sk_entry *first = batch->head->entry;
    bool one_entry = true;
    for (const struct sk_order *order = batch->head; order != NULL; order = order->next) {
        one_entry = one_entry && order->entry == first;
        if (order->entry->part == 0)
            order->entry->part = SIZE_MAX; // from now on it shares no batch
    }
    if (one_entry && first->part > batch->count / 2)
        first->part = batch->count > 1 ? batch->count / 2 : 1;
}

void sk_bisect_settled(const struct sk_order *first)
{
    struct sk_entry *entry = first->entry;
    if (entry->part != 0 && entry->part <= SIZE_MAX / 2)
        entry->part *= 2;
}

// ---- write queue ----

// Paused vouchers stay in the queue: there are few, and skipping one costs a comparison.

enum { LOCKED_MS = 200, FAILED_MS = 20, MOST_MS = 2000, REFUSALS_MAX = 12 };

void sk_write_queue_add(struct sk_write_queue *queue, struct sk_voucher *voucher)
{
    if (voucher->granted.listed)
        return;
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

// ---- settlement ----

static const char *const settlement_words[] = {
    [SK_SETTLEMENT_PLACED] = "placed",     [SK_SETTLEMENT_ALREADY_PLACED] = "already_placed",
    [SK_SETTLEMENT_ENDED] = "ended",       [SK_SETTLEMENT_DUPLICATE] = "duplicate",
    [SK_SETTLEMENT_REPEATED] = "repeated", [SK_SETTLEMENT_REUSED] = "reused",
    [SK_SETTLEMENT_GONE] = "gone",         [SK_SETTLEMENT_SOLD_OUT] = "sold_out",
    [SK_SETTLEMENT_STALE] = "stale",       [SK_SETTLEMENT_CLASH] = "clash",
};

enum sk_settlement sk_settlement_read(const struct sk_rows *rows, size_t row, size_t *n,
                                      struct sk_settlement_more *more)
{
    const char *word = sk_rows_text(rows, row, 1);
    enum sk_settlement settlement = SK_SETTLEMENT_PLACED;
    *n = sk_rows_text(rows, row, 0) == NULL ? SK_SETTLEMENT_OF_ALL : (size_t)sk_rows_number(rows, row, 0) - 1;
    if (more != NULL)
        *more = (struct sk_settlement_more){sk_rows_text(rows, row, 2),   sk_rows_text(rows, row, 3),
                                            sk_rows_number(rows, row, 4), sk_rows_text(rows, row, 5),
                                            sk_rows_text(rows, row, 7),   (unsigned)sk_rows_number(rows, row, 8)};
    while (settlement < SK_SETTLEMENT_CLASH && (word == NULL || strcmp(word, settlement_words[settlement]) != 0))
        settlement++;
    return settlement;
}
