// Each shard has one batch (batch.h) at a time; orders granted meanwhile gather for the next one. Vouchers take turns.
//
// Orders that no request waits for (Prefer: respond-async, and recovered ones) are low priority (`low_priority`).
// During a rush they are written only now and then, so that the rush has the machine to itself; the more there are, the
// more often. This is what "peak shaving" means; meanwhile they are safe in the journal.
//
// No failure is final. If the answer is lost, the batch goes back and is retried under the same ids, which settles it
// whatever the first try did (P7). A failure of the link pauses the writer. A failure of a statement (the voucher's row
// is locked, its orders are refused) pauses only that voucher; if several shared the batch, each goes alone first. A
// batch that is refused permanently is bisected (batch.h). Only a single refused order waits before its retry, and
// after TRIES_MAX tries it becomes a dead letter.
#include "writer.h"

#include "backoff.h"
#include "batch.h"
#include "bisect.h"
#include "dead_letter.h"
#include "durable.h"
#include "failpoint.h"
#include "log.h"
#include "settlement.h"
#include "timer.h"
#include "voucher.h"
#include "write_queue.h"

enum {
    TICK_MS = 10,
    LOW_PRIORITY_MS = 100,
    TRIES_MAX = 5, // of a single order that is refused
    FAILURE_MS = 20,
    PAUSE_MOST_MS = 2000,
};

struct sk_writer {
    const struct sk_sale *sale;
    const struct sk_shard *shard;
    struct sk_writer_events events;
    struct sk_write_queue queue;
    struct sk_order_list delayed; // wait for their not_before_ms
    struct sk_order_list letters; // become dead letters
    size_t awaited;               // GRANTED and DELAYED orders that a request waits for
    uint64_t low_priority_at_ms;  // when a batch of low-priority orders was last made
    bool rush;
    struct sk_batch batch;     // the one that PostgreSQL has
    uint64_t sent_ns;          // when it was sent
    uint64_t written_ns;       // when its answer came
    struct sk_backoff failure; // of the link
    struct sk_backoff refusal; // of single orders
    uint64_t pause_until_ms;   // after a failure of the link
    struct sk_timer *tick;
};

static void writer_pump(struct sk_writer *writer);

// ---- orders come and go ----

static struct sk_writer *writer_of(const struct sk_entry *entry)
{
    return sk_sale_shard(entry->sale, entry->voucher)->writer;
}

static void writer_enqueue(struct sk_writer *writer, struct sk_order *order)
{
    struct sk_voucher *voucher = order->entry->voucher;
    writer->awaited += !order->low_priority;
    sk_order_move(writer->sale->orders, order, SK_ORDER_GRANTED, &voucher->granted.orders);
    sk_write_queue_add(&writer->queue, voucher);
}

static void writer_leave_entry(struct sk_entry *entry)
{
    const struct sk_writer *writer = writer_of(entry);
    struct sk_voucher *voucher = entry->voucher;
    bool recovered = entry->kind == SK_ENTRY_RECOVERED;
    SK_ASSERT(entry->open > 0);
    if (--entry->open > 0)
        return;
    sk_voucher_pin(voucher); // the entry may go now
    sk_entry_end(entry);
    if (recovered)
        writer->events.recovered(writer->events.recovered_arg, voucher);
    sk_voucher_unpin(voucher);
}

void sk_writer_add(struct sk_entry *entry, struct sk_order *order)
{
    struct sk_entry *former = order->entry;
    order->entry = entry;
    entry->open++;
    writer_enqueue(writer_of(entry), order);
    if (former != NULL)
        writer_leave_entry(former);
}

void sk_writer_resume(struct sk_order *order)
{
    writer_enqueue(writer_of(order->entry), order);
}

void sk_writer_leave(struct sk_order *order)
{
    struct sk_entry *entry = order->entry;
    sk_order_give(entry->sale->orders, order);
    writer_leave_entry(entry);
}

void sk_writer_forget(struct sk_order *order)
{
    struct sk_entry *entry = order->entry;
    sk_order_give(entry->sale->orders, order);
    SK_ASSERT(entry->open > 0);
    if (--entry->open == 0)
        sk_entry_forget(entry);
}

// ---- failures ----

static void writer_end_batch(struct sk_writer *writer)
{
    for (size_t i = 0; i < writer->batch.part_count; i++)
        SK_ASSERT(writer->batch.parts[i].orders.count == 0);
    writer->batch.part_count = writer->batch.n = 0;
}

// Puts the batch back, in front of the orders that have gathered since.
static void writer_return_batch(struct sk_writer *writer)
{
    for (size_t i = 0; i < writer->batch.part_count; i++) {
        struct sk_batch_part *part = &writer->batch.parts[i];
        struct sk_order *order;
        while ((order = part->orders.tail) != NULL) {
            writer->awaited += !order->low_priority;
            sk_order_move_first(writer->sale->orders, order, SK_ORDER_GRANTED, &part->voucher->granted.orders);
        }
        sk_write_queue_add(&writer->queue, part->voucher);
    }
}

static void writer_put_back(struct sk_writer *writer, enum sk_result_kind kind)
{
    struct sk_batch *batch = &writer->batch;
    uint64_t now = uv_now(writer->sale->loop);
    writer_return_batch(writer);
    sk_metrics_add(writer->sale->metrics, SK_METRIC_BATCHES_PUT_BACK, 1);
    if (kind == SK_RESULT_LOST)
        writer->pause_until_ms = now + sk_backoff_next(&writer->failure);
    else if (batch->part_count == 1)
        sk_write_queue_pause(batch->parts[0].voucher, kind == SK_RESULT_LOCKED ? SK_PAUSE_LOCKED : SK_PAUSE_FAILED,
                             now);
    else
        for (size_t i = 0; i < batch->part_count; i++)
            sk_write_queue_part(batch->parts[i].voucher);
    writer_end_batch(writer);
}

static void writer_on_set_aside(void *arg, bool kept)
{
    struct sk_order *order = arg;
    const struct sk_entry *entry = order->entry;
    if (kept) {
        sk_writer_leave(order); // still pending for its user, and its units held
        return;
    }
    writer_enqueue(writer_of(entry), order);
    sk_write_queue_pause(entry->voucher, SK_PAUSE_FAILED, uv_now(entry->sale->loop));
}

static void writer_on_single_refused(struct sk_writer *writer, struct sk_order *order)
{
    const struct sk_entry *entry = order->entry;
    const struct sk_journal_order refused = {order->id, order->user, order->quantity, order->key, order->offer};
    if (++order->refusals < TRIES_MAX) {
        writer->refusal.span_ms = (uint32_t)FAILURE_MS << order->refusals;
        writer->awaited += !order->low_priority;
        order->not_before_ms = uv_now(writer->sale->loop) + sk_backoff_next(&writer->refusal);
        sk_order_move(writer->sale->orders, order, SK_ORDER_DELAYED, &writer->delayed);
        return;
    }
    order->refusals = TRIES_MAX; // the letter may have to be written again
    sk_order_move(writer->sale->orders, order, SK_ORDER_SETTING_ASIDE, &writer->letters);
    if (sk_dead_letter_put_order(writer->sale, entry->voucher, entry->journal_id, &refused, writer_on_set_aside,
                                 order) != SK_OK)
        writer_on_set_aside(order, false);
}

// No pause between the steps, since each makes the parts smaller, unless the voucher has only bad orders.
static void writer_on_refused(struct sk_writer *writer)
{
    struct sk_batch_part *part = &writer->batch.parts[0];
    struct sk_order *single = part->count == 1 ? part->orders.head : NULL;
    sk_write_queue_refused(part->voucher, uv_now(writer->sale->loop));
    sk_bisect_refused(&part->orders);
    if (single != NULL)
        writer_on_single_refused(writer, single);
    else
        writer_return_batch(writer);
    writer_end_batch(writer);
}

// ---- answers ----

static void writer_report_placed(const struct sk_writer *writer, const struct sk_order *order, int64_t created_ms)
{
    int64_t within_s = order->entry->voucher->pay_within_s;
    struct sk_purchase_result result = {.code = SK_PURCHASE_PLACED,
                                        .order_id = order->id,
                                        .created_ms = created_ms,
                                        .expires_ms = within_s > 0 ? created_ms + within_s * 1000 : 0,
                                        .price = order->price.currency[0] == '\0' ? NULL : &order->price};
    sk_sale_report_with(writer->sale, order, &result);
}

static void writer_settle(struct sk_writer *writer, struct sk_order *order, enum sk_settlement settlement,
                          const struct sk_settlement_more *more)
{
    const struct sk_sale *sale = writer->sale;
    struct sk_entry *entry = order->entry;
    enum sk_purchase_code code = SK_PURCHASE_UNAVAILABLE;
    const char *existing = more->live_id; // the answer, if the user has another order
    switch (settlement) {
    case SK_SETTLEMENT_PLACED:
    case SK_SETTLEMENT_ALREADY_PLACED:
        writer_report_placed(writer, order, more->created_ms);
        sk_metrics_add(sale->metrics, SK_METRIC_ORDERS_PLACED, 1);
        sk_durable_note(sale, entry->voucher, order, writer->written_ns);
        sk_writer_leave(order);
        return;
    case SK_SETTLEMENT_STALE:
        writer->events.stale(writer->events.stale_arg, order);
        return;
    case SK_SETTLEMENT_ENDED:
    case SK_SETTLEMENT_DUPLICATE:
        sk_entry_note_over(order, more->ended_nth, more->live);
        break;
    case SK_SETTLEMENT_REPEATED: // the first answer again
    case SK_SETTLEMENT_REUSED:
        code = SK_PURCHASE_IDEMPOTENCY_KEY_REUSED;
        existing = settlement == SK_SETTLEMENT_REPEATED ? more->first_id : NULL;
        sk_entry_note_refused(entry, order->id, order->user, order->quantity, more->live);
        break;
    case SK_SETTLEMENT_GONE:
        // Only units that were granted after the refund return: the refund has dealt with the earlier ones. An entry of
        // a newer epoch is newer, since the rebuild in between has left the order out; a loose one never is.
        existing = NULL;
        if (more->gone_by == NULL || sk_journal_is_newer(entry->journal_id, entry->epoch, more->gone_by))
            sk_entry_note_over(order, more->ended_nth, more->live);
        break;
    case SK_SETTLEMENT_SOLD_OUT:
        code = SK_PURCHASE_SOLD_OUT;
        sk_entry_note_refused(entry, order->id, order->user, 0, more->live);
        break;
    case SK_SETTLEMENT_CLASH:
        // Only a forged entry, or a broken clock and random source, leads here.
        code = SK_PURCHASE_INTERNAL;
        existing = NULL;
        sk_log(SK_LOG_ERROR, "order id belongs to another order", "order=%s", order->id);
        sk_entry_note_refused(entry, order->id, order->user, order->quantity, NULL);
        break;
    }
    struct sk_purchase_result result = {.code = existing != NULL ? SK_PURCHASE_ALREADY_ORDERED : code,
                                        .order_id = existing,
                                        .voucher_id = existing == more->live_id ? more->live_voucher : 0,
                                        .repeats = existing != NULL && settlement == SK_SETTLEMENT_REPEATED};
    sk_metrics_add(sale->metrics, SK_METRIC_ORDERS_REFUSED, settlement != SK_SETTLEMENT_CLASH);
    sk_sale_report_with(sale, order, &result);
    sk_writer_leave(order);
}

static void writer_settle_row(struct sk_writer *writer, const struct sk_rows *rows, size_t row)
{
    struct sk_batch_part *part = sk_batch_part_of(&writer->batch, rows, row);
    size_t n;
    struct sk_settlement_more more;
    enum sk_settlement settlement = sk_settlement_read(rows, row, &n, &more);
    if (n == SK_SETTLEMENT_OF_ALL) {
        while (part->orders.head != NULL)
            writer_settle(writer, part->orders.head, settlement, &more);
        return;
    }
    SK_ASSERT(n < part->count && writer->batch.rows[part->first + n] != NULL); // each order is answered once
    struct sk_order *order = writer->batch.rows[part->first + n];
    writer->batch.rows[part->first + n] = NULL;
    writer_settle(writer, order, settlement, &more);
}

static void writer_on_answered(struct sk_writer *writer, const struct sk_rows *rows)
{
    struct sk_batch *batch = &writer->batch;
    sk_backoff_reset(&writer->failure);
    writer->written_ns = sk_durable_answered(writer->sale, SK_DISTRIBUTION_LEG_COMMIT, batch->n, writer->sent_ns);
    for (size_t i = 0; i < batch->part_count; i++) {
        sk_write_queue_settled(batch->parts[i].voucher);
        sk_bisect_settled(batch->parts[i].orders.head);
    }
    for (size_t row = 0; row < sk_rows_count(rows); row++)
        writer_settle_row(writer, rows, row);
    sk_metrics_add(writer->sale->metrics, SK_METRIC_BATCHES_WRITTEN, 1);
    writer_end_batch(writer);
}

static void writer_on_written(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct sk_writer *writer = arg;
    struct sk_batch *batch = &writer->batch;
    SK_FAILPOINT("writer.committed");
    if (result->kind == SK_RESULT_REFUSED && batch->part_count == 1)
        writer_on_refused(writer);
    else if (rows == NULL || !sk_batch_is_answered(batch, rows))
        writer_put_back(writer, rows == NULL ? result->kind : SK_RESULT_FAILED);
    else
        writer_on_answered(writer, rows);
    writer_pump(writer);
}

// ---- batches ----

// Whether the waiting orders may wait longer: no request waits for them, there is a rush, and low-priority orders were
// written a moment ago. The moment shrinks as the pool of orders fills up.
static bool writer_may_rest(const struct sk_writer *writer)
{
    const struct sk_sale *sale = writer->sale;
    size_t most = (size_t)sale->options->orders_max, room = most - sk_order_pool_out(sale->orders);
    return writer->rush && writer->awaited == 0 &&
           uv_now(sale->loop) < writer->low_priority_at_ms + LOW_PRIORITY_MS * room / most;
}

static void writer_collect(struct sk_writer *writer, struct sk_voucher *voucher)
{
    struct sk_batch *batch = &writer->batch;
    uint64_t now = uv_now(writer->sale->loop);
    bool share = sk_batch_may_share(voucher);
    struct sk_voucher *taken[SK_BATCH_PARTS_MAX];
    size_t n = 0;
    while (voucher != NULL) {
        taken[n++] = voucher;
        size_t awaited = sk_batch_add(batch, writer->sale->orders, voucher);
        SK_ASSERT(writer->awaited >= awaited);
        writer->awaited -= awaited;
        voucher =
            share && sk_batch_has_room(batch) ? sk_write_queue_take(&writer->queue, now, sk_batch_may_share) : NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (taken[i]->granted.orders.head != NULL)
            sk_write_queue_add(&writer->queue, taken[i]);
    }
}

static void writer_pump(struct sk_writer *writer)
{
    uint64_t now = uv_now(writer->sale->loop);
    if (writer->queue.first == NULL || writer->batch.part_count > 0 || now < writer->pause_until_ms ||
        !sk_pg_ready(writer->shard->orders) || writer_may_rest(writer))
        return;
    struct sk_voucher *voucher = sk_write_queue_take(&writer->queue, now, NULL);
    if (voucher == NULL)
        return;
    if (writer->awaited == 0)
        writer->low_priority_at_ms = now;
    writer_collect(writer, voucher);
    SK_FAILPOINT("writer.collected");
    writer->sent_ns = sk_durable_sent(writer->sale, &writer->batch);
    if (sk_batch_send(&writer->batch, writer->shard->orders, writer_on_written, writer) != SK_OK)
        writer_put_back(writer, SK_RESULT_LOST);
    else
        SK_FAILPOINT("writer.sent");
}

void sk_writer_pump(struct sk_writer *writer, bool rush)
{
    writer->rush = rush;
    writer_pump(writer);
}

static void writer_on_tick(void *arg)
{
    struct sk_writer *writer = arg;
    uint64_t now = uv_now(writer->sale->loop);
    for (struct sk_order *order = writer->delayed.head, *next; order != NULL; order = next) {
        next = order->next;
        if (order->not_before_ms > now)
            continue;
        SK_ASSERT(order->low_priority || writer->awaited > 0);
        writer->awaited -= !order->low_priority;
        writer_enqueue(writer, order);
    }
    writer_pump(writer);
}

// ---- what is left ----

static void writer_count_list(const struct sk_order_list *list, struct sk_left *left)
{
    for (const struct sk_order *order = list->head; order != NULL; order = order->next) {
        if (order->entry->kind == SK_ENTRY_LOOSE)
            left->in_letters++;
        else if (sk_entry_is_here(order->entry))
            left->in_journal++;
        else
            left->nowhere++;
    }
}

void sk_writer_count(const struct sk_writer *writer, struct sk_left *left)
{
    for (size_t i = 0; i < writer->batch.part_count; i++)
        writer_count_list(&writer->batch.parts[i].orders, left);
    writer_count_list(&writer->delayed, left);
    writer_count_list(&writer->letters, left);
    for (const struct sk_voucher *voucher = writer->queue.first; voucher != NULL; voucher = voucher->granted.next)
        writer_count_list(&voucher->granted.orders, left);
}

bool sk_writer_idle(const struct sk_writer *writer)
{
    return writer->queue.first == NULL && writer->batch.part_count == 0 && writer->delayed.count == 0 &&
           writer->letters.count == 0;
}

// ---- opening, and closing ----

struct sk_writer *sk_writer_open(const struct sk_sale *sale, const struct sk_shard *shard,
                                 const struct sk_writer_events *events)
{
    struct sk_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL)
        return NULL;
    writer->sale = sale;
    writer->shard = shard;
    writer->events = *events;
    writer->failure = (struct sk_backoff){.first_ms = FAILURE_MS, .most_ms = PAUSE_MOST_MS};
    writer->refusal = writer->failure;
    enum sk_status opened = sk_batch_open(&writer->batch, (size_t)sale->options->batch_max);
    writer->tick = sk_timer_open(sale->loop, TICK_MS, writer_on_tick, writer);
    if (opened == SK_OK && writer->tick != NULL)
        return writer;
    sk_writer_close(writer);
    return NULL;
}

static void writer_forget_list(struct sk_order_list *list)
{
    while (list->head != NULL)
        sk_writer_forget(list->head);
}

void sk_writer_close(struct sk_writer *writer)
{
    if (writer == NULL)
        return;
    for (size_t i = 0; i < writer->batch.part_count; i++)
        writer_forget_list(&writer->batch.parts[i].orders);
    writer_forget_list(&writer->delayed);
    writer_forget_list(&writer->letters);
    for (struct sk_voucher *voucher = writer->queue.first, *next; voucher != NULL; voucher = next) {
        next = voucher->granted.next;
        writer_forget_list(&voucher->granted.orders);
    }
    sk_timer_close(writer->tick);
    sk_batch_close(&writer->batch);
    free(writer);
}
