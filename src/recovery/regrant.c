// Why not simply write such an order under the new epoch? Because Redis was rebuilt without it: its unit may
// have been sold again, and its user may have bought again. Redis is asked first, as for a new order:
//   p                 it has a unit again, and a new journal entry: to the writer
//   a, its own id     Redis still knows it (or another instance has just done this): to the writer
//   a, another id     the user has bought again: refused, ALREADY_ORDERED
//   s                 no unit is left: refused, GRANT_LOST
// Refused means: written to PostgreSQL as refused, so that the order's URL can say so (P5). Anything else,
// no answer included, changes nothing: the order waits and is asked about again (P7).
//
// A sale that was retired meanwhile has left Redis, under one more epoch: no one can grant anything of it any more, so
// its orders are written as refused, too, without asking.
//
// An instance that ends takes what waits here along, and no journal has it. So at the end it is written as refused
// without asking, which is safe whatever Redis did with the last question: a journal entry that it left is
// settled by recovery as `ended`, and its unit returns, once.
#include "regrant.h"

#include <string.h>

#include "failpoint.h"
#include "grant.h"
#include "params.h"
#include "settlement.h"

enum { TICK_MS = 50, PAUSE_MS = 200 };

struct sk_regrant {
    const struct sk_core *core;
    struct sk_writer *writer;
    struct sk_rebuilds *rebuilds;
    struct sk_segment *first; // segments with lost orders, pinned
    size_t open;              // lost orders, those being asked about included
    size_t loose;             // those of them that a dead letter keeps
    bool gives_up;            // the process ends
    uv_timer_t *tick;
};

struct call {
    struct sk_regrant *regrant;
    struct sk_segment *segment;
    struct sk_order_list orders;
    struct sk_order_list refused; // being written to PostgreSQL
    bool unasked;                 // Redis may still have what is refused
};

static void wait(struct sk_regrant *regrant, struct sk_segment *segment, struct sk_order *order)
{
    sk_order_move(regrant->core->orders, order, SK_ORDER_LOST, &segment->care->lost.orders);
    if (segment->care->lost.listed)
        return;
    sk_segment_pin(segment);
    segment->care->lost.listed = true;
    segment->care->lost.next = regrant->first;
    regrant->first = segment;
}

static void wait_all(struct call *call, struct sk_order_list *orders)
{
    while (orders->head != NULL)
        wait(call->regrant, call->segment, orders->head);
    call->segment->care->lost.not_before_ms =
        uv_now(call->regrant->core->loop) + (call->regrant->gives_up ? 0 : PAUSE_MS);
}

// The order is somebody else's from now on.
static void hand_out(struct sk_regrant *regrant, const struct sk_order *order)
{
    regrant->open--;
    regrant->loose -= order->entry->kind == SK_ENTRY_LOOSE;
}

static void end(struct call *call)
{
    wait_all(call, &call->orders);
    call->segment->care->lost.asking = false;
    sk_segment_unpin(call->segment);
    free(call);
}

// ---- orders that have lost their unit for good ----

static void refuse_unasked(struct sk_regrant *regrant, struct sk_segment *segment);

static void on_refused(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct call *call = arg;
    struct sk_regrant *regrant = call->regrant;
    bool written = rows != NULL && sk_rows_count(rows) == call->refused.count;
    struct sk_order *order;
    for (size_t i = 0; written && (order = call->refused.head) != NULL; i++) {
        size_t n;
        bool placed = sk_settlement_read(rows, i, &n, NULL) == SK_SETTLEMENT_ALREADY_PLACED;
        sk_core_tell(regrant->core, order, placed ? SK_VERDICT_PLACED : SK_VERDICT_SOLD_OUT, placed ? order->id : NULL,
                     0);
        if (!placed && call->unasked)
            sk_entry_note_refused(order->entry, order->id, order->user, SK_CORRECTION_RETURN, NULL);
        hand_out(regrant, order);
        sk_writer_leave(regrant->writer, order);
    }
    wait_all(call, &call->refused);
    struct sk_segment *segment = call->segment;
    bool more = written && regrant->gives_up && segment->care->lost.orders.count > 0;
    end(call);
    if (more)
        refuse_unasked(regrant, segment); // time is short
}

// `reasons`: the array of them, not ended yet.
static void refuse(struct call *call, struct sk_buf *reasons)
{
    struct sk_buf ids = {0}, users = {0};
    char slot[SK_PARAM_NUMBER_SIZE], voucher[SK_PARAM_NUMBER_SIZE];
    enum sk_status status = SK_NO_MEM;
    sk_params_begin(&ids);
    sk_params_begin(&users);
    for (const struct sk_order *order = call->refused.head; order != NULL; order = order->next) {
        sk_params_add(&ids, order->id);
        sk_params_add_text(&users, order->user);
    }
    const char *params[] = {sk_params_number(slot, call->segment->slot),
                            sk_params_number(voucher, call->segment->voucher_id), sk_params_end(&ids),
                            sk_params_end(&users), sk_params_end(reasons)};
    if (params[2] != NULL && params[3] != NULL && params[4] != NULL)
        status = sk_pg_call(call->regrant->core->pg, SK_STATEMENT_REFUSE_ORDERS, 5, params, on_refused, call);
    sk_buf_free(&ids);
    sk_buf_free(&users);
    if (status != SK_OK) {
        wait_all(call, &call->refused);
        end(call);
    }
}

// ---- Redis's answer ----

static void hand_over(struct call *call, struct sk_grant *grant, struct sk_buf *reasons)
{
    struct sk_regrant *regrant = call->regrant;
    struct sk_entry *entry = NULL;
    struct sk_order *order;
    sk_params_begin(reasons);
    for (size_t i = 0; (order = call->orders.head) != NULL; i++) {
        char letter = grant->letters[i];
        bool already = letter == SK_GRANT_ALREADY;
        const char *existing = already ? sk_grant_next_existing(grant) : NULL;
        if (letter == SK_GRANT_PLACED && entry == NULL)
            entry = sk_entry_new(regrant->core, call->segment, SK_ENTRY_OWN, grant->journal_id);
        if (letter == SK_GRANT_PLACED && entry != NULL) {
            order->epoch = grant->epoch;
            hand_out(regrant, order);
            sk_writer_add(regrant->writer, entry, order);
        } else if (existing != NULL && strcmp(existing, order->id) == 0) {
            order->epoch = grant->epoch;
            hand_out(regrant, order);
            sk_writer_resume(regrant->writer, order);
        } else if (already || letter == SK_GRANT_SOLD_OUT) {
            if (already) {
                sk_core_tell(regrant->core, order, SK_VERDICT_ALREADY_ORDERED, existing, 0);
                order->ticket = 0; // has been told
            }
            sk_params_add(reasons, already ? "ALREADY_ORDERED" : "GRANT_LOST");
            sk_order_move(regrant->core->orders, order, SK_ORDER_REFUSING, &call->refused);
        } else {
            if (letter == SK_GRANT_PLACED) // out of memory: the journal has an entry that is not held
                regrant->core->orphaned(regrant->core->upkeep, call->segment);
            wait(regrant, call->segment, order);
        }
    }
}

// A grant under an epoch that PostgreSQL does not take is one of a rebuild that died, or of an entry whose epoch was
// forged: only a newer one ends it.
static enum sk_doubt regrant_doubt(enum sk_grant_status status)
{
    if (status == SK_GRANT_DAMAGED)
        return SK_DOUBT_DAMAGED;
    return status == SK_GRANT_OK || status == SK_GRANT_UNSURE ? SK_DOUBT_BEHIND : SK_DOUBT_CLOSED;
}

static void on_reply(void *arg, const struct sk_reply *reply)
{
    struct call *call = arg;
    struct sk_segment *segment = call->segment;
    struct sk_grant grant = {.status = SK_GRANT_MALFORMED};
    struct sk_buf reasons = {0};
    if (reply != NULL)
        grant = sk_grant_read(reply, call->orders.count);
    else
        call->regrant->core->orphaned(call->regrant->core->upkeep, segment); // it may still be carried out
    if (grant.status == SK_GRANT_OK)
        sk_grant_remember(&grant, segment);
    if (grant.status == SK_GRANT_OK && grant.epoch > segment->care->lost.stale_epoch) {
        hand_over(call, &grant, &reasons);
        if (call->refused.count > 0)
            refuse(call, &reasons);
        else
            end(call);
        sk_buf_free(&reasons);
        return;
    }
    // An epoch that PostgreSQL has left behind: whoever was to rebuild Redis under the new one has died.
    if (grant.status != SK_GRANT_MALFORMED)
        sk_rebuild_soon(call->regrant->rebuilds, segment, regrant_doubt(grant.status));
    end(call);
}

static void ask(struct sk_regrant *regrant, struct sk_segment *segment)
{
    struct call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return;
    call->regrant = regrant;
    call->segment = segment;
    size_t most = (size_t)regrant->core->config->batch_max;
    while (call->orders.count < most && segment->care->lost.orders.count > 0)
        sk_order_move(regrant->core->orders, segment->care->lost.orders.head, SK_ORDER_REGRANTING, &call->orders);
    segment->care->lost.asking = true;
    sk_segment_pin(segment);
    if (sk_grant_ask(regrant->core, segment, &call->orders, true, on_reply, call) != SK_OK)
        end(call);
    else
        SK_FAILPOINT("regrant.asked");
}

// ---- the end of the process ----

static void refuse_unasked(struct sk_regrant *regrant, struct sk_segment *segment)
{
    struct call *call = calloc(1, sizeof *call);
    struct sk_buf reasons = {0};
    struct sk_order *order;
    if (call == NULL)
        return;
    *call = (struct call){.regrant = regrant, .segment = segment, .unasked = true};
    size_t most = (size_t)regrant->core->config->batch_max;
    sk_params_begin(&reasons);
    while (call->refused.count < most && (order = segment->care->lost.orders.head) != NULL) {
        if (order->entry->kind == SK_ENTRY_LOOSE) {
            hand_out(regrant, order);
            sk_writer_leave(regrant->writer, order);
            continue;
        }
        sk_params_add(&reasons, "GRANT_LOST");
        sk_order_move(regrant->core->orders, order, SK_ORDER_REFUSING, &call->refused);
    }
    segment->care->lost.asking = true;
    sk_segment_pin(segment);
    if (call->refused.count > 0)
        refuse(call, &reasons);
    else
        end(call);
    sk_buf_free(&reasons);
}

static void on_tick(uv_timer_t *timer)
{
    struct sk_regrant *regrant = timer->data;
    uint64_t now = uv_now(regrant->core->loop);
    struct sk_segment *segment = regrant->first;
    regrant->first = NULL;
    while (segment != NULL) {
        struct sk_segment *next = segment->care->lost.next;
        segment->care->lost.listed = false;
        bool may = !segment->care->lost.asking && now >= segment->care->lost.not_before_ms;
        if (may && (regrant->gives_up || segment->voucher->left))
            refuse_unasked(regrant, segment);
        else if (may && sk_session_held(regrant->core->session))
            ask(regrant, segment);
        if (segment->care->lost.orders.count > 0 && !segment->care->lost.listed) {
            segment->care->lost.listed = true;
            segment->care->lost.next = regrant->first;
            regrant->first = segment;
        } else {
            sk_segment_unpin(segment);
        }
        segment = next;
    }
}

void sk_regrant_add(void *arg, struct sk_order *order)
{
    struct sk_regrant *regrant = arg;
    struct sk_segment *segment = order->entry->segment;
    if (order->epoch > segment->care->lost.stale_epoch)
        segment->care->lost.stale_epoch = order->epoch;
    regrant->loose += order->entry->kind == SK_ENTRY_LOOSE;
    regrant->open++;
    wait(regrant, segment, order);
}

void sk_regrant_requeue(struct sk_regrant *regrant, struct sk_entry *entry, struct sk_order *order)
{
    order->entry = entry;
    order->epoch = 0;
    entry->open++;
    sk_regrant_add(regrant, order);
}

void sk_regrant_give_up(struct sk_regrant *regrant)
{
    if (regrant->gives_up)
        return;
    regrant->gives_up = true;
    for (struct sk_segment *segment = regrant->first; segment != NULL; segment = segment->care->lost.next)
        segment->care->lost.not_before_ms = 0;
}

void sk_regrant_count(const struct sk_regrant *regrant, struct sk_left *left)
{
    left->in_letters += regrant->loose;
    left->nowhere += regrant->open - regrant->loose;
}

bool sk_regrant_idle(const struct sk_regrant *regrant)
{
    return regrant->open == 0;
}

// ---- opening and closing ----

struct sk_regrant *sk_regrant_open(const struct sk_core *core, struct sk_rebuilds *rebuilds)
{
    struct sk_regrant *regrant = calloc(1, sizeof *regrant);
    if (regrant == NULL)
        return NULL;
    regrant->core = core;
    regrant->rebuilds = rebuilds;
    regrant->tick = calloc(1, sizeof *regrant->tick);
    if (regrant->tick == NULL) {
        free(regrant);
        return NULL;
    }
    (void)uv_timer_init(core->loop, regrant->tick);
    regrant->tick->data = regrant;
    (void)uv_timer_start(regrant->tick, on_tick, TICK_MS, TICK_MS);
    return regrant;
}

void sk_regrant_set_writer(struct sk_regrant *regrant, struct sk_writer *writer)
{
    regrant->writer = writer;
}

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

void sk_regrant_close(struct sk_regrant *regrant)
{
    if (regrant == NULL)
        return;
    struct sk_segment *segment;
    while ((segment = regrant->first) != NULL) {
        regrant->first = segment->care->lost.next;
        while (segment->care->lost.orders.head != NULL)
            sk_writer_forget(regrant->writer, segment->care->lost.orders.head);
        sk_segment_unpin(segment);
    }
    uv_close((uv_handle_t *)regrant->tick, free_handle);
    free(regrant);
}
