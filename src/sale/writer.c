// A batch goes COLLECTED -> LOCKING -> LOCKED -> WRITING (-> SETTING_ASIDE) -> FREE. There are two: one in PostgreSQL,
// and one that takes its locks meanwhile. All orders of a batch are for one voucher and one epoch, because one call of
// place_orders() is.
//
// Orders that nobody waits for (Prefer: respond-async, and recovered ones) are patient: during a rush they are
// written only now and then, so that the rush has the machine to itself, and more often the more of
// them there are. This is what "peak shaving" means; they are safe in the journal meanwhile.
//
// Nobody's failure stops a batch: an order whose lock is busy goes back and waits, with jitter; if Redis
// cannot lock, the batch is written without locks (they only save work); if PostgreSQL fails or its
// answer is lost, all orders go back and are said again under the same ids, which settles them
// whatever became of the first try (P7).
//
// What PostgreSQL refuses for what it says is bisected, so that one bad order does not take others along: first
// entry by entry, then in halves of an entry, down to single orders. A part that is placed lets the next one be
// twice as large. Only a single order that was refused waits before it is tried again, and it alone; after
// TRIES_MAX times it becomes a dead letter.
#include "writer.h"

#include <inttypes.h>
#include <string.h>

#include "backoff.h"
#include "dead_letter.h"
#include "failpoint.h"
#include "log.h"
#include "params.h"
#include "settlement.h"

enum {
    TICK_MS = 10,
    PATIENCE_MS = 100,
    LOCK_KEY_SIZE = 96,
    BATCHES = 2,
    TRIES_MAX = 5, // of a single order that is refused
    FAILURE_MS = 20,
    FAILURE_MOST_MS = 2000,
};

enum batch_state { BATCH_FREE, BATCH_COLLECTED, BATCH_LOCKING, BATCH_LOCKED, BATCH_WRITING, BATCH_SETTING_ASIDE };

struct batch {
    struct sk_writer *writer;
    enum batch_state state;
    struct sk_segment *segment;
    int64_t epoch;
    struct sk_lock *lock; // NULL: written without locks
    size_t n;
    struct sk_order **orders; // batch_max of them
};

struct sk_writer {
    const struct sk_core *core;
    struct sk_writer_events events;
    struct sk_segment *first, *last; // vouchers with granted orders, in turn
    struct sk_order_list delayed;    // wait for their not_before_ms
    size_t impatient;                // orders in the queues above that somebody waits for
    uint64_t patient_at_ms;          // when a batch of patient ones was last made
    bool rush;
    struct batch batches[BATCHES];
    struct sk_backoff failure; // PostgreSQL's failures
    struct sk_backoff refusal; // single orders that it refuses
    struct sk_backoff busy;    // users' locks
    uint64_t pause_until_ms;   // after a failure
    uv_timer_t *tick;
    struct sk_buf ids, users; // the parameters of the call being made
};

static void pump(struct sk_writer *writer);

static void set_state(struct batch *batch, enum batch_state state)
{
    static const bool allowed[BATCH_SETTING_ASIDE + 1][BATCH_SETTING_ASIDE + 1] = {
        [BATCH_FREE] = {[BATCH_COLLECTED] = true},
        [BATCH_COLLECTED] = {[BATCH_LOCKING] = true, [BATCH_LOCKED] = true},
        [BATCH_LOCKING] = {[BATCH_LOCKED] = true, [BATCH_FREE] = true},
        [BATCH_LOCKED] = {[BATCH_WRITING] = true, [BATCH_FREE] = true},
        [BATCH_WRITING] = {[BATCH_FREE] = true, [BATCH_SETTING_ASIDE] = true},
        [BATCH_SETTING_ASIDE] = {[BATCH_FREE] = true},
    };
    SK_ASSERT(allowed[batch->state][state]);
    batch->state = state;
}

// ---- queues ----

static void line_up(struct sk_writer *writer, struct sk_segment *segment)
{
    if (segment->granted.listed)
        return;
    segment->granted.listed = true;
    segment->granted.next = NULL;
    if (writer->last != NULL)
        writer->last->granted.next = segment;
    else
        writer->first = segment;
    writer->last = segment;
}

static void enqueue(struct sk_writer *writer, struct sk_order *order)
{
    writer->impatient += !order->patient;
    sk_order_push(&order->entry->segment->granted.orders, order);
    line_up(writer, order->entry->segment);
}

// Puts a batch back where it came from, before what has gathered since.
static void enqueue_first(struct batch *batch)
{
    struct sk_order_list orders = {0}, *granted = &batch->segment->granted.orders;
    for (size_t i = 0; i < batch->n; i++) {
        batch->writer->impatient += !batch->orders[i]->patient;
        sk_order_push(&orders, batch->orders[i]);
    }
    SK_ASSERT(orders.tail != NULL);
    if (granted->head != NULL) {
        orders.tail->next = granted->head;
        orders.tail = granted->tail;
        orders.count += granted->count;
    }
    *granted = orders;
    line_up(batch->writer, batch->segment);
}

static void delay(struct sk_writer *writer, struct sk_order *order, uint32_t ms)
{
    writer->impatient += !order->patient;
    order->not_before_ms = uv_now(writer->core->loop) + ms;
    sk_order_push(&writer->delayed, order);
}

static void wake_delayed(struct sk_writer *writer)
{
    uint64_t now = uv_now(writer->core->loop);
    for (size_t left = writer->delayed.count; left > 0; left--) {
        struct sk_order *order = sk_order_pop(&writer->delayed);
        if (order->not_before_ms > now) {
            sk_order_push(&writer->delayed, order);
            continue;
        }
        writer->impatient -= !order->patient;
        enqueue(writer, order);
    }
}

// ---- results ----

static void end_entry(struct sk_writer *writer, struct sk_entry *entry)
{
    bool recovered = entry->kind == SK_ENTRY_RECOVERED;
    sk_entry_end(writer->core, entry);
    sk_entry_free(entry);
    if (recovered)
        writer->events.recovered(writer->events.recovered_arg);
}

static void leave_entry(struct sk_writer *writer, struct sk_entry *entry)
{
    if (--entry->open == 0)
        end_entry(writer, entry);
}

void sk_writer_leave(struct sk_writer *writer, struct sk_order *order)
{
    struct sk_entry *entry = order->entry;
    sk_order_give(writer->core->orders, order);
    leave_entry(writer, entry);
}

static void settle(struct sk_writer *writer, struct sk_order *order, enum sk_settlement settlement, const char *live_id)
{
    const struct sk_core *core = writer->core;
    switch (settlement) {
    case SK_SETTLEMENT_PLACED:
    case SK_SETTLEMENT_ALREADY_PLACED:
        sk_core_tell(core, order, SK_VERDICT_PLACED, order->id, 0);
        break;
    case SK_SETTLEMENT_ENDED:
    case SK_SETTLEMENT_DUPLICATE:
        sk_entry_note_refused(order->entry, order, SK_CORRECTION_RETURN, live_id);
        sk_core_tell(core, order, live_id != NULL ? SK_VERDICT_ALREADY_ORDERED : SK_VERDICT_UNAVAILABLE, live_id, 0);
        break;
    case SK_SETTLEMENT_SOLD_OUT:
        sk_entry_note_refused(order->entry, order, SK_CORRECTION_DROP, live_id);
        sk_core_tell(core, order, live_id != NULL ? SK_VERDICT_ALREADY_ORDERED : SK_VERDICT_SOLD_OUT, live_id, 0);
        break;
    case SK_SETTLEMENT_STALE:
        writer->events.stale(writer->events.stale_arg, order);
        return;
    case SK_SETTLEMENT_CLASH:
        // Only a forged entry, or a broken clock and random source, comes here.
        sk_log(SK_ERROR, "order id belongs to another order", "order=%s", order->id);
        sk_entry_note_refused(order->entry, order, SK_CORRECTION_RETURN, NULL);
        sk_core_tell(core, order, SK_VERDICT_INTERNAL, NULL, 0);
        break;
    }
    sk_writer_leave(writer, order);
}

static void free_batch(struct batch *batch)
{
    sk_lock_release(batch->lock);
    batch->lock = NULL;
    batch->n = 0;
    set_state(batch, BATCH_FREE);
}

static void put_back(struct batch *batch)
{
    struct sk_writer *writer = batch->writer;
    uint32_t wait_ms = sk_backoff_next(&writer->failure);
    writer->pause_until_ms = uv_now(writer->core->loop) + wait_ms;
    for (size_t i = 0; i < batch->n; i++)
        enqueue(writer, batch->orders[i]);
    free_batch(batch);
}

// ---- what PostgreSQL refuses for what it says ----

static void on_set_aside(void *arg, bool kept)
{
    struct batch *batch = arg;
    struct sk_writer *writer = batch->writer;
    if (!kept) {
        put_back(batch);
        return;
    }
    sk_writer_leave(writer, batch->orders[0]); // still pending for its user, and held
    free_batch(batch);
    pump(writer);
}

// The batch is a single order that was refused often enough.
static void set_aside(struct batch *batch)
{
    const struct sk_order *order = batch->orders[0];
    set_state(batch, BATCH_SETTING_ASIDE);
    if (sk_dead_letter_put_order(batch->writer->core, batch->segment, order->entry->journal_id, order->id, order->user,
                                 on_set_aside, batch) != SK_OK)
        put_back(batch);
}

static void on_single_refused(struct batch *batch)
{
    struct sk_writer *writer = batch->writer;
    struct sk_order *order = batch->orders[0];
    order->entry->part = 1;
    if (++order->refusals >= TRIES_MAX) {
        order->refusals = TRIES_MAX; // the letter may have to be put again
        set_aside(batch);
        return;
    }
    writer->refusal.span_ms = (uint32_t)FAILURE_MS << order->refusals;
    delay(writer, order, sk_backoff_next(&writer->refusal));
    free_batch(batch);
    pump(writer);
}

// Each step makes the parts smaller, so there is no pause between them.
static void on_refused(struct batch *batch)
{
    struct sk_writer *writer = batch->writer;
    struct sk_entry *first = batch->orders[0]->entry;
    bool one_entry = true;
    if (batch->n == 1) {
        on_single_refused(batch);
        return;
    }
    for (size_t i = 0; i < batch->n; i++) {
        struct sk_entry *entry = batch->orders[i]->entry;
        one_entry = one_entry && entry == first;
        if (entry->part == 0)
            entry->part = SIZE_MAX; // from now on it goes alone
    }
    if (one_entry && first->part > batch->n / 2)
        first->part = batch->n / 2;
    enqueue_first(batch);
    free_batch(batch);
    pump(writer);
}

static void on_written(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct batch *batch = arg;
    struct sk_writer *writer = batch->writer;
    SK_FAILPOINT("writer.committed");
    if (result->kind == SK_RESULT_REFUSED) {
        on_refused(batch);
        return;
    }
    if (rows == NULL || sk_rows_count(rows) != batch->n) {
        put_back(batch);
        return;
    }
    sk_backoff_reset(&writer->failure);
    struct sk_entry *suspect = batch->orders[0]->entry;
    if (suspect->part != 0 && suspect->part <= SIZE_MAX / 2)
        suspect->part *= 2;
    for (size_t row = 0; row < batch->n; row++) {
        size_t i;
        const char *live_id;
        enum sk_settlement settlement = sk_settlement_read(rows, row, &i, &live_id);
        SK_ASSERT(i < batch->n && batch->orders[i] != NULL); // the function answers for each order once
        settle(writer, batch->orders[i], settlement, live_id);
        batch->orders[i] = NULL;
    }
    free_batch(batch);
    pump(writer);
}

// ---- batches ----

static void write_batch(struct batch *batch)
{
    struct sk_writer *writer = batch->writer;
    char slot[SK_PARAM_NUMBER_SIZE], voucher[SK_PARAM_NUMBER_SIZE], epoch[SK_PARAM_NUMBER_SIZE];
    const char *newest = NULL; // journal id
    sk_params_begin(&writer->ids);
    sk_params_begin(&writer->users);
    for (size_t i = 0; i < batch->n; i++) {
        const struct sk_order *order = batch->orders[i];
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
    set_state(batch, BATCH_WRITING);
    if (params[3] == NULL || params[4] == NULL ||
        sk_pg_call(writer->core->pg, SK_STATEMENT_PLACE_ORDERS, 6, params, on_written, batch) != SK_OK)
        put_back(batch);
    else
        SK_FAILPOINT("writer.sent");
}

// Keeps the orders whose lock we have (or nobody can tell); the others wait for a later batch.
static void on_locked(void *arg, struct sk_lock *lock)
{
    struct batch *batch = arg;
    struct sk_writer *writer = batch->writer;
    size_t kept = 0;
    for (size_t i = 0; i < batch->n; i++) {
        if (sk_lock_state(lock, i) == SK_LOCK_BUSY)
            delay(writer, batch->orders[i], sk_backoff_next(&writer->busy));
        else
            batch->orders[kept++] = batch->orders[i];
    }
    if (kept == batch->n)
        sk_backoff_reset(&writer->busy);
    batch->n = kept;
    set_state(batch, BATCH_LOCKED);
    SK_FAILPOINT("writer.locked");
    if (kept == 0)
        free_batch(batch);
    pump(writer);
}

static void lock_batch(struct batch *batch)
{
    static const struct sk_lock_events events = {.taken = on_locked};
    const struct sk_core *core = batch->writer->core;
    char(*names)[LOCK_KEY_SIZE] = malloc(batch->n * sizeof *names);
    const char **keys = malloc(batch->n * sizeof *keys);
    if (names != NULL && keys != NULL) {
        for (size_t i = 0; i < batch->n; i++) {
            (void)snprintf(names[i], LOCK_KEY_SIZE, "seckill:lock:order:{%s}", batch->orders[i]->user);
            keys[i] = names[i];
        }
        batch->lock = sk_lock_take(core->locker, batch->n, keys, &events, batch);
    }
    free(keys);
    free(names);
    set_state(batch, batch->lock == NULL ? BATCH_LOCKED : BATCH_LOCKING);
}

// All orders of a batch are of one epoch. Those of a suspect entry keep to themselves, and a suspect order too.
static bool goes_along(const struct batch *batch, const struct sk_order *order)
{
    if (order->epoch != batch->epoch)
        return false;
    if (batch->n == 0)
        return true;
    const struct sk_order *last = batch->orders[batch->n - 1];
    if (order->entry->part == 0 && last->entry->part == 0)
        return true;
    return order->entry == last->entry && batch->n < order->entry->part && order->refusals == 0 && last->refusals == 0;
}

static void collect(struct sk_writer *writer, struct batch *batch)
{
    struct sk_segment *segment = writer->first;
    size_t most = (size_t)writer->core->config->batch_max;
    batch->segment = segment;
    batch->epoch = segment->granted.orders.head->epoch;
    while (batch->n < most && segment->granted.orders.head != NULL && goes_along(batch, segment->granted.orders.head)) {
        struct sk_order *order = sk_order_pop(&segment->granted.orders);
        writer->impatient -= !order->patient;
        batch->orders[batch->n++] = order;
    }
    // The voucher goes to the end of the line, or leaves it.
    writer->first = segment->granted.next;
    if (writer->first == NULL)
        writer->last = NULL;
    segment->granted.listed = false;
    if (segment->granted.orders.head != NULL)
        line_up(writer, segment);
    set_state(batch, BATCH_COLLECTED);
}

static struct batch *find_batch(struct sk_writer *writer, enum batch_state state)
{
    for (int i = 0; i < BATCHES; i++) {
        if (writer->batches[i].state == state)
            return &writer->batches[i];
    }
    return NULL;
}

// Whether the orders that wait may wait some more: nobody waits for them, there is a rush, and the last
// of them were written a moment ago. The moment shrinks as the room for orders fills up.
static bool may_rest(const struct sk_writer *writer)
{
    const struct sk_core *core = writer->core;
    size_t most = (size_t)core->config->journal_max_orders, room = most - sk_order_pool_out(core->orders);
    return writer->rush && writer->impatient == 0 &&
           uv_now(core->loop) < writer->patient_at_ms + PATIENCE_MS * room / most;
}

static void pump(struct sk_writer *writer)
{
    uint64_t now = uv_now(writer->core->loop);
    if (!sk_pg_ready(writer->core->pg) || now < writer->pause_until_ms)
        return;
    bool one_ahead = find_batch(writer, BATCH_LOCKING) != NULL || find_batch(writer, BATCH_LOCKED) != NULL;
    struct batch *spare = find_batch(writer, BATCH_FREE);
    if (writer->first != NULL && spare != NULL && !one_ahead && !may_rest(writer)) {
        if (writer->impatient == 0)
            writer->patient_at_ms = now;
        collect(writer, spare);
        lock_batch(spare);
    }
    struct batch *ready = find_batch(writer, BATCH_LOCKED);
    if (ready != NULL && find_batch(writer, BATCH_WRITING) == NULL)
        write_batch(ready);
}

void sk_writer_pump(struct sk_writer *writer, bool rush)
{
    writer->rush = rush;
    pump(writer);
}

void sk_writer_add(struct sk_writer *writer, struct sk_entry *entry, struct sk_order *order)
{
    struct sk_entry *former = order->entry;
    order->entry = entry;
    entry->open++;
    enqueue(writer, order);
    if (former != NULL)
        leave_entry(writer, former);
}

void sk_writer_resume(struct sk_writer *writer, struct sk_order *order)
{
    enqueue(writer, order);
}

static void count(const struct sk_writer *writer, const struct sk_order *order, struct sk_left *left)
{
    // Another Redis process than the one that made the entry may not have it, or has lost it.
    bool same_run = order->entry->run_number == sk_redis_run_number(writer->core->redis);
    if (order->entry->kind == SK_ENTRY_LOOSE)
        left->in_letters++;
    else if (same_run)
        left->in_journal++;
    else
        left->nowhere++;
}

void sk_writer_count(const struct sk_writer *writer, struct sk_left *left)
{
    const struct sk_order *order;
    for (int i = 0; i < BATCHES; i++) {
        for (size_t j = 0; j < writer->batches[i].n; j++)
            count(writer, writer->batches[i].orders[j], left);
    }
    for (order = writer->delayed.head; order != NULL; order = order->next)
        count(writer, order, left);
    for (const struct sk_segment *segment = writer->first; segment != NULL; segment = segment->granted.next) {
        for (order = segment->granted.orders.head; order != NULL; order = order->next)
            count(writer, order, left);
    }
}

bool sk_writer_idle(const struct sk_writer *writer)
{
    for (int i = 0; i < BATCHES; i++) {
        if (writer->batches[i].state != BATCH_FREE)
            return false;
    }
    return writer->first == NULL && writer->delayed.count == 0;
}

// ---- opening and closing ----

static void on_tick(uv_timer_t *timer)
{
    struct sk_writer *writer = timer->data;
    wake_delayed(writer);
    pump(writer);
}

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

struct sk_writer *sk_writer_open(const struct sk_core *core, const struct sk_writer_events *events)
{
    struct sk_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL)
        return NULL;
    writer->core = core;
    writer->events = *events;
    writer->failure = (struct sk_backoff){.first_ms = FAILURE_MS, .most_ms = FAILURE_MOST_MS};
    writer->refusal = writer->failure;
    writer->busy = (struct sk_backoff){.first_ms = 10, .most_ms = 250};
    bool ok = true;
    for (int i = 0; i < BATCHES; i++) {
        writer->batches[i].writer = writer;
        writer->batches[i].orders = calloc((size_t)core->config->batch_max, sizeof(struct sk_order *));
        ok = ok && writer->batches[i].orders != NULL;
    }
    writer->tick = calloc(1, sizeof *writer->tick);
    if (!ok || writer->tick == NULL) {
        free(writer->tick);
        writer->tick = NULL;
        sk_writer_close(writer);
        return NULL;
    }
    (void)uv_timer_init(core->loop, writer->tick);
    writer->tick->data = writer;
    (void)uv_timer_start(writer->tick, on_tick, TICK_MS, TICK_MS);
    return writer;
}

void sk_writer_forget(struct sk_writer *writer, struct sk_order *order)
{
    struct sk_entry *entry = order->entry;
    sk_order_give(writer->core->orders, order);
    if (--entry->open == 0)
        sk_entry_free(entry);
}

void sk_writer_close(struct sk_writer *writer)
{
    if (writer == NULL)
        return;
    struct sk_order *order;
    for (int i = 0; i < BATCHES; i++) {
        for (size_t j = 0; j < writer->batches[i].n; j++)
            sk_writer_forget(writer, writer->batches[i].orders[j]);
        free(writer->batches[i].orders);
    }
    while ((order = sk_order_pop(&writer->delayed)) != NULL)
        sk_writer_forget(writer, order);
    for (struct sk_segment *segment = writer->first; segment != NULL; segment = segment->granted.next) {
        while ((order = sk_order_pop(&segment->granted.orders)) != NULL)
            sk_writer_forget(writer, order);
    }
    sk_buf_free(&writer->ids);
    sk_buf_free(&writer->users);
    if (writer->tick != NULL)
        uv_close((uv_handle_t *)writer->tick, free_handle);
    free(writer);
}
