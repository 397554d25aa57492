// One batch is in PostgreSQL at a time, and what is granted meanwhile gathers for the next. All orders of a batch are
// of one segment and one epoch, because one call of place_orders() is. Segments take turns.
//
// Orders that no request waits for (Prefer: respond-async, and recovered ones) are patient: during a rush they are
// written only now and then, so that the rush has the machine to itself, and the more of them there are the more
// often. This is what "peak shaving" means; they are safe in the journal meanwhile.
//
// No failure is final: if the answer is lost the batch goes back and is retried under the same ids, which settles
// it whatever became of the first try (P7). A failure of the link pauses the writer; one of a statement - the segment's
// row is locked, its orders are refused - pauses that segment alone. What is refused permanently is bisected
// (bisect.h); only a single order that was refused waits before it is tried again, and after TRIES_MAX times it becomes
// a dead letter.
#include "writer.h"

#include "backoff.h"
#include "bisect.h"
#include "dead_letter.h"
#include "failpoint.h"
#include "line.h"
#include "log.h"
#include "params.h"
#include "settlement.h"
#include "timer.h"

enum {
    TICK_MS = 10,
    PATIENCE_MS = 100,
    TRIES_MAX = 5, // of a single order that is refused
    FAILURE_MS = 20,
    PAUSE_MOST_MS = 2000,
};

// The one that PostgreSQL has; n 0: none.
struct batch {
    struct sk_segment *segment;
    int64_t epoch;
    struct sk_order_list orders; // WRITING
    struct sk_order **rows;      // the same in the order of the call's parameters; batch_max of them
    size_t n;
};

struct sk_writer {
    const struct sk_sale *sale;
    struct sk_writer_events events;
    struct sk_line line;
    struct sk_order_list delayed; // wait for their not_before_ms
    struct sk_order_list letters; // become dead letters
    size_t impatient;             // GRANTED and DELAYED orders that a request waits for
    uint64_t patient_at_ms;       // when a batch of patient ones was last made
    bool rush;
    struct batch batch;
    struct sk_backoff failure; // of the link
    struct sk_backoff refusal; // of single orders
    uint64_t pause_until_ms;   // after a failure of the link
    struct sk_timer *tick;
    struct sk_buf ids, users; // the parameters of the call being made
};

static void writer_on_tick(void *arg);
static void writer_wake_delayed(struct sk_writer *writer);
static void writer_enqueue(struct sk_writer *writer, struct sk_order *order);
static void writer_pump(struct sk_writer *writer);
static bool writer_may_rest(const struct sk_writer *writer);
static void writer_collect(struct sk_writer *writer, struct sk_segment *segment);
static void writer_write(struct sk_writer *writer);
static void writer_on_written(void *arg, const struct sk_result *result);
static void writer_settle_all(struct sk_writer *writer, enum sk_settlement settlement);
static void writer_settle_each(struct sk_writer *writer, const struct sk_rows *rows);
static void writer_settle(struct sk_writer *writer, struct sk_order *order, enum sk_settlement settlement,
                          const char *live_id);
static void writer_leave_entry(struct sk_writer *writer, struct sk_entry *entry);
static void writer_put_back(struct sk_writer *writer, enum sk_result_kind kind);
static void writer_on_refused(struct sk_writer *writer);
static void writer_on_single_refused(struct sk_writer *writer, struct sk_order *order);
static void writer_set_aside(struct sk_writer *writer, struct sk_order *order);
static void writer_on_set_aside(void *arg, bool kept);
static void writer_count_list(const struct sk_writer *writer, const struct sk_order_list *list, struct sk_left *left);
static void writer_forget_list(struct sk_writer *writer, struct sk_order_list *list);

struct sk_writer *sk_writer_open(const struct sk_sale *sale, const struct sk_writer_events *events)
{
    struct sk_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL)
        return NULL;
    writer->sale = sale;
    writer->events = *events;
    writer->failure = (struct sk_backoff){.first_ms = FAILURE_MS, .most_ms = PAUSE_MOST_MS};
    writer->refusal = writer->failure;
    writer->batch.rows = calloc((size_t)sale->config->batch_max, sizeof(struct sk_order *));
    writer->tick = sk_timer_open(sale->loop, TICK_MS, writer_on_tick, writer);
    if (writer->batch.rows == NULL || writer->tick == NULL) {
        sk_writer_close(writer);
        return NULL;
    }
    return writer;
}

static void writer_on_tick(void *arg)
{
    struct sk_writer *writer = arg;
    writer_wake_delayed(writer);
    writer_pump(writer);
}

// ---- queues ----

void sk_writer_add(struct sk_writer *writer, struct sk_entry *entry, struct sk_order *order)
{
    struct sk_entry *former = order->entry;
    order->entry = entry;
    entry->open++;
    writer_enqueue(writer, order);
    if (former != NULL)
        writer_leave_entry(writer, former);
}

void sk_writer_resume(struct sk_writer *writer, struct sk_order *order)
{
    writer_enqueue(writer, order);
}

static void writer_enqueue(struct sk_writer *writer, struct sk_order *order)
{
    struct sk_segment *segment = order->entry->segment;
    writer->impatient += !order->patient;
    sk_order_move(writer->sale->orders, order, SK_ORDER_GRANTED, &segment->granted.orders);
    sk_line_add(&writer->line, segment);
}

static void writer_wake_delayed(struct sk_writer *writer)
{
    uint64_t now = uv_now(writer->sale->loop);
    for (struct sk_order *order = writer->delayed.head, *next; order != NULL; order = next) {
        next = order->next;
        if (order->not_before_ms > now)
            continue;
        writer->impatient -= !order->patient;
        writer_enqueue(writer, order);
    }
}

// ---- batches ----

void sk_writer_pump(struct sk_writer *writer, bool rush)
{
    writer->rush = rush;
    writer_pump(writer);
}

static void writer_pump(struct sk_writer *writer)
{
    uint64_t now = uv_now(writer->sale->loop);
    if (writer->line.first == NULL || writer->batch.n > 0 || now < writer->pause_until_ms ||
        !sk_pg_ready(writer->sale->pg) || writer_may_rest(writer))
        return;
    struct sk_segment *segment = sk_line_take(&writer->line, now);
    if (segment == NULL)
        return;
    if (writer->impatient == 0)
        writer->patient_at_ms = now;
    writer_collect(writer, segment);
    SK_FAILPOINT("writer.collected");
    writer_write(writer);
}

// Whether the orders that wait may wait some more: no request waits for them, there is a rush, and the last
// of them were written a moment ago. The moment shrinks as the room for orders fills up.
static bool writer_may_rest(const struct sk_writer *writer)
{
    const struct sk_sale *sale = writer->sale;
    size_t most = (size_t)sale->config->orders_max, room = most - sk_order_pool_out(sale->orders);
    return writer->rush && writer->impatient == 0 &&
           uv_now(sale->loop) < writer->patient_at_ms + PATIENCE_MS * room / most;
}

static void writer_collect(struct sk_writer *writer, struct sk_segment *segment)
{
    struct batch *batch = &writer->batch;
    size_t most = (size_t)writer->sale->config->batch_max;
    struct sk_order *order = segment->granted.orders.head;
    batch->segment = segment;
    batch->epoch = order->epoch;
    for (; order != NULL && batch->n < most; order = segment->granted.orders.head) {
        if (order->epoch != batch->epoch || !sk_bisect_may_follow(&batch->orders, order))
            break;
        writer->impatient -= !order->patient;
        sk_order_move(writer->sale->orders, order, SK_ORDER_WRITING, &batch->orders);
        batch->rows[batch->n++] = order;
    }
    if (segment->granted.orders.head != NULL)
        sk_line_add(&writer->line, segment);
}

static void writer_write(struct sk_writer *writer)
{
    const struct batch *batch = &writer->batch;
    char slot[SK_PARAM_NUMBER_SIZE], voucher[SK_PARAM_NUMBER_SIZE], epoch[SK_PARAM_NUMBER_SIZE];
    const char *newest = NULL; // journal id
    sk_params_begin(&writer->ids);
    sk_params_begin(&writer->users);
    for (const struct sk_order *order = batch->orders.head; order != NULL; order = order->next) {
        sk_params_add(&writer->ids, order->id);
        sk_params_add_text(&writer->users, order->user);
        const char *journal_id = order->entry->journal_id;
        if (journal_id[0] != '\0' && journal_id != newest &&
            (newest == NULL || sk_journal_compare(journal_id, newest) > 0))
            newest = journal_id;
    }
    const char *params[] = {sk_params_number(slot, batch->segment->slot),
                            sk_params_number(voucher, batch->segment->voucher_id),
                            sk_params_number(epoch, batch->epoch),
                            sk_params_end(&writer->ids),
                            sk_params_end(&writer->users),
                            newest};
    if (params[3] == NULL || params[4] == NULL ||
        sk_pg_call(writer->sale->pg, SK_STATEMENT_PLACE_ORDERS, 6, params, writer_on_written, writer) != SK_OK)
        writer_put_back(writer, SK_RESULT_LOST);
    else
        SK_FAILPOINT("writer.sent");
}

// ---- results ----

static void writer_on_written(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct sk_writer *writer = arg;
    struct batch *batch = &writer->batch;
    SK_FAILPOINT("writer.committed");
    if (result->kind == SK_RESULT_REFUSED) {
        writer_on_refused(writer);
        return;
    }
    enum sk_settlement settlement;
    bool of_all = rows != NULL && sk_settlement_of_all(rows, &settlement);
    if (rows == NULL || (!of_all && sk_rows_count(rows) != batch->n)) {
        writer_put_back(writer, rows == NULL ? result->kind : SK_RESULT_FAILED);
        writer_pump(writer);
        return;
    }
    sk_backoff_reset(&writer->failure);
    sk_line_settled(batch->segment);
    sk_bisect_settled(batch->orders.head);
    if (of_all)
        writer_settle_all(writer, settlement);
    else
        writer_settle_each(writer, rows);
    SK_ASSERT(batch->orders.count == 0);
    sk_metrics_add(writer->sale->metrics, SK_METRIC_BATCHES_WRITTEN, 1);
    batch->n = 0;
    writer_pump(writer);
}

static void writer_settle_all(struct sk_writer *writer, enum sk_settlement settlement)
{
    while (writer->batch.orders.head != NULL)
        writer_settle(writer, writer->batch.orders.head, settlement, NULL);
}

static void writer_settle_each(struct sk_writer *writer, const struct sk_rows *rows)
{
    struct batch *batch = &writer->batch;
    for (size_t row = 0; row < batch->n; row++) {
        size_t i;
        const char *live_id;
        enum sk_settlement settlement = sk_settlement_read(rows, row, &i, &live_id);
        SK_ASSERT(i < batch->n && batch->rows[i] != NULL); // the function answers for each order once
        struct sk_order *order = batch->rows[i];
        batch->rows[i] = NULL;
        writer_settle(writer, order, settlement, live_id);
    }
}

static void writer_settle(struct sk_writer *writer, struct sk_order *order, enum sk_settlement settlement,
                          const char *live_id)
{
    const struct sk_sale *sale = writer->sale;
    switch (settlement) {
    case SK_SETTLEMENT_PLACED:
    case SK_SETTLEMENT_ALREADY_PLACED:
        sk_sale_tell(sale, order, SK_VERDICT_PLACED, order->id, 0);
        sk_metrics_add(sale->metrics, SK_METRIC_ORDERS_PLACED, 1);
        break;
    case SK_SETTLEMENT_ENDED:
    case SK_SETTLEMENT_DUPLICATE:
        sk_metrics_add(sale->metrics, SK_METRIC_ORDERS_REFUSED, 1);
        sk_entry_note_refused(order->entry, order->id, order->user, SK_CORRECTION_RETURN, live_id);
        sk_sale_tell(sale, order, live_id != NULL ? SK_VERDICT_ALREADY_ORDERED : SK_VERDICT_UNAVAILABLE, live_id, 0);
        break;
    case SK_SETTLEMENT_SOLD_OUT:
        sk_metrics_add(sale->metrics, SK_METRIC_ORDERS_REFUSED, 1);
        sk_entry_note_refused(order->entry, order->id, order->user, SK_CORRECTION_DROP, live_id);
        sk_sale_tell(sale, order, live_id != NULL ? SK_VERDICT_ALREADY_ORDERED : SK_VERDICT_SOLD_OUT, live_id, 0);
        break;
    case SK_SETTLEMENT_STALE:
        writer->events.stale(writer->events.stale_arg, order);
        return;
    case SK_SETTLEMENT_CLASH:
        // Only a forged entry, or a broken clock and random source, comes here.
        sk_log(SK_LOG_ERROR, "order id belongs to another order", "order=%s", order->id);
        sk_entry_note_refused(order->entry, order->id, order->user, SK_CORRECTION_RETURN, NULL);
        sk_sale_tell(sale, order, SK_VERDICT_INTERNAL, NULL, 0);
        break;
    }
    sk_writer_leave(writer, order);
}

void sk_writer_leave(struct sk_writer *writer, struct sk_order *order)
{
    struct sk_entry *entry = order->entry;
    sk_order_give(writer->sale->orders, order);
    writer_leave_entry(writer, entry);
}

static void writer_leave_entry(struct sk_writer *writer, struct sk_entry *entry)
{
    struct sk_segment *segment = entry->segment;
    bool recovered = entry->kind == SK_ENTRY_RECOVERED;
    if (--entry->open > 0)
        return;
    sk_segment_pin(segment); // the entry may go now
    sk_entry_end(entry);
    if (recovered)
        writer->events.recovered(writer->events.recovered_arg, segment);
    sk_segment_unpin(segment);
}

// ---- failures ----

// The batch goes back where it came from, before what has gathered since.
static void writer_return_batch(struct sk_writer *writer)
{
    struct batch *batch = &writer->batch;
    struct sk_order *order;
    while ((order = batch->orders.tail) != NULL) {
        writer->impatient += !order->patient;
        sk_order_move_first(writer->sale->orders, order, SK_ORDER_GRANTED, &batch->segment->granted.orders);
    }
    batch->n = 0;
    sk_line_add(&writer->line, batch->segment);
}

static void writer_put_back(struct sk_writer *writer, enum sk_result_kind kind)
{
    uint64_t now = uv_now(writer->sale->loop);
    writer_return_batch(writer);
    if (kind == SK_RESULT_LOST)
        writer->pause_until_ms = now + sk_backoff_next(&writer->failure);
    else
        sk_line_pause(writer->batch.segment, kind == SK_RESULT_LOCKED ? SK_PAUSE_LOCKED : SK_PAUSE_FAILED, now);
}

// Each step makes the parts smaller, so there is no pause between them, unless the segment has nothing but bad orders.
static void writer_on_refused(struct sk_writer *writer)
{
    struct batch *batch = &writer->batch;
    struct sk_segment *segment = batch->segment;
    bool is_single = batch->n == 1;
    struct sk_order *single = batch->orders.head;
    sk_line_refused(segment, uv_now(writer->sale->loop));
    sk_bisect_refused(&batch->orders);
    if (is_single) {
        batch->n = 0;
        writer_on_single_refused(writer, single);
    } else {
        writer_return_batch(writer);
    }
    writer_pump(writer);
}

static void writer_on_single_refused(struct sk_writer *writer, struct sk_order *order)
{
    if (++order->refusals >= TRIES_MAX) {
        order->refusals = TRIES_MAX; // the letter may have to be put again
        writer_set_aside(writer, order);
        return;
    }
    writer->refusal.span_ms = (uint32_t)FAILURE_MS << order->refusals;
    writer->impatient += !order->patient;
    order->not_before_ms = uv_now(writer->sale->loop) + sk_backoff_next(&writer->refusal);
    sk_order_move(writer->sale->orders, order, SK_ORDER_DELAYED, &writer->delayed);
}

struct letter {
    struct sk_writer *writer;
    struct sk_order *order;
};

static void writer_set_aside(struct sk_writer *writer, struct sk_order *order)
{
    const struct sk_entry *entry = order->entry;
    struct letter *letter = malloc(sizeof *letter);
    sk_order_move(writer->sale->orders, order, SK_ORDER_SETTING_ASIDE, &writer->letters);
    if (letter != NULL) {
        *letter = (struct letter){writer, order};
        if (sk_dead_letter_put_order(writer->sale, entry->segment, entry->journal_id, order->id, order->user,
                                     writer_on_set_aside, letter) == SK_OK)
            return;
        free(letter);
    }
    writer_enqueue(writer, order);
    sk_line_pause(entry->segment, SK_PAUSE_FAILED, uv_now(writer->sale->loop));
}

static void writer_on_set_aside(void *arg, bool kept)
{
    struct letter *letter = arg;
    struct sk_writer *writer = letter->writer;
    struct sk_order *order = letter->order;
    struct sk_segment *segment = order->entry->segment;
    free(letter);
    if (kept) {
        sk_writer_leave(writer, order); // still pending for its user, and its unit held
        return;
    }
    writer_enqueue(writer, order);
    sk_line_pause(segment, SK_PAUSE_FAILED, uv_now(writer->sale->loop));
}

// ---- what is left ----

void sk_writer_count(const struct sk_writer *writer, struct sk_left *left)
{
    writer_count_list(writer, &writer->batch.orders, left);
    writer_count_list(writer, &writer->delayed, left);
    writer_count_list(writer, &writer->letters, left);
    for (const struct sk_segment *segment = writer->line.first; segment != NULL; segment = segment->granted.next)
        writer_count_list(writer, &segment->granted.orders, left);
}

static void writer_count_list(const struct sk_writer *writer, const struct sk_order_list *list, struct sk_left *left)
{
    for (const struct sk_order *order = list->head; order != NULL; order = order->next) {
        // Another Redis process than the one that made the entry may not have it, or has lost it.
        bool same_run = order->entry->run_number == sk_redis_run_number(writer->sale->redis);
        if (order->entry->kind == SK_ENTRY_LOOSE)
            left->in_letters++;
        else if (same_run)
            left->in_journal++;
        else
            left->nowhere++;
    }
}

bool sk_writer_idle(const struct sk_writer *writer)
{
    return writer->line.first == NULL && writer->batch.n == 0 && writer->delayed.count == 0 &&
           writer->letters.count == 0;
}

// ---- closing ----

void sk_writer_forget(struct sk_writer *writer, struct sk_order *order)
{
    struct sk_entry *entry = order->entry;
    sk_order_give(writer->sale->orders, order);
    if (--entry->open == 0)
        sk_entry_forget(entry);
}

static void writer_forget_list(struct sk_writer *writer, struct sk_order_list *list)
{
    while (list->head != NULL)
        sk_writer_forget(writer, list->head);
}

void sk_writer_close(struct sk_writer *writer)
{
    if (writer == NULL)
        return;
    writer_forget_list(writer, &writer->batch.orders);
    writer_forget_list(writer, &writer->delayed);
    writer_forget_list(writer, &writer->letters);
    for (struct sk_segment *segment = writer->line.first, *next; segment != NULL; segment = next) {
        next = segment->granted.next;
        writer_forget_list(writer, &segment->granted.orders);
    }
    sk_buf_free(&writer->ids);
    sk_buf_free(&writer->users);
    sk_timer_close(writer->tick);
    free(writer->batch.rows);
    free(writer);
}
