// Such an order is not simply written under the new epoch, because Redis was rebuilt without it: its unit may have been
// sold again, and its user may have bought again. Redis is asked first, as for a new order:
//   p                 it has a unit and a journal entry again: to the writer
//   a, its own id     Redis still knows it, or another instance has just done this: to the writer
//   a, another id     the user has bought again: refused, ALREADY_ORDERED
//   s, m              no unit, or too few, are left: refused, GRANT_LOST
// "Refused" means: written to PostgreSQL as refused, so that the order's URL can show it (P5). Any other result, or no
// answer, changes nothing: the order waits and is retried (P7).
//
// A sale that was retired meanwhile has left Redis, under one more epoch. Its orders cannot be granted any more, so
// they are also written as refused, without asking Redis.
//
// When an instance ends, the orders that wait here are in no journal. So they are written as refused then, without
// asking. That is safe whatever Redis did with the last request: recovery settles a journal entry that it left as
// `ended`, and its unit returns, once.
#include "regrant.h"

#include <string.h>

#include "admit.h"
#include "failpoint.h"
#include "grant.h"
#include "maintenance.h"
#include "params.h"
#include "settlement.h"
#include "timer.h"

enum { TICK_MS = 50, PAUSE_MS = 200 };
enum { COLUMN_NTH = 2 }; // of refuse_orders; sk_settlement_read() reads the others

struct sk_regrant {
    const struct sk_sale *sale;
    struct sk_rebuilds *rebuilds;
    struct sk_voucher *first; // vouchers with lost orders, pinned
    size_t open;              // lost orders, with those in a call
    size_t loose;             // those of them that a dead letter keeps
    bool gives_up;            // the process ends
    struct sk_timer *timer;
};

struct regrant_call {
    struct sk_regrant *regrant;
    struct sk_voucher *voucher;
    struct sk_entry *entry; // owned: for those that are granted; NULL: the writer has it, or Redis is not asked
    struct sk_order_list orders;
    struct sk_order_list refused; // being written to PostgreSQL
};

static void regrant_on_refused(void *arg, const struct sk_result *result);

static void regrant_move(struct sk_voucher *voucher, enum sk_lost_state state)
{
#define TO(name) (1U << SK_LOST_##name)
    static const unsigned allowed[SK_LOST_STATES] = {
        [SK_LOST_IDLE] = TO(ASKING) | TO(REFUSING_UNASKED),
        [SK_LOST_ASKING] = TO(REFUSING) | TO(IDLE),
        [SK_LOST_REFUSING] = TO(IDLE),
        [SK_LOST_REFUSING_UNASKED] = TO(IDLE),
    };
#undef TO
    SK_ASSERT((allowed[voucher->maintenance->lost.state] & 1U << state) != 0);
    voucher->maintenance->lost.state = state;
}

// ---- orders that wait ----

static void regrant_enqueue(struct sk_regrant *regrant, struct sk_voucher *voucher)
{
    voucher->maintenance->lost.listed = true;
    voucher->maintenance->lost.next = regrant->first;
    regrant->first = voucher;
}

static void regrant_wait(struct sk_regrant *regrant, struct sk_voucher *voucher, struct sk_order *order)
{
    sk_order_move(regrant->sale->orders, order, SK_ORDER_LOST, &voucher->maintenance->lost.orders);
    if (voucher->maintenance->lost.listed)
        return;
    sk_voucher_pin(voucher);
    regrant_enqueue(regrant, voucher);
}

static void regrant_wait_all(struct regrant_call *call, struct sk_order_list *orders)
{
    while (orders->head != NULL)
        regrant_wait(call->regrant, call->voucher, orders->head);
    call->voucher->maintenance->lost.not_before_ms =
        uv_now(call->regrant->sale->loop) + (call->regrant->gives_up ? 0 : PAUSE_MS);
}

void sk_regrant_add(void *arg, struct sk_order *order)
{
    struct sk_regrant *regrant = arg;
    struct sk_voucher *voucher = order->entry->voucher;
    if (order->epoch > voucher->maintenance->lost.stale_epoch)
        voucher->maintenance->lost.stale_epoch = order->epoch;
    regrant->loose += order->entry->kind == SK_ENTRY_LOOSE;
    regrant->open++;
    regrant_wait(regrant, voucher, order);
}

void sk_regrant_requeue(struct sk_regrant *regrant, struct sk_entry *entry, struct sk_order *order)
{
    order->entry = entry;
    order->epoch = 0;
    entry->open++;
    sk_regrant_add(regrant, order);
}

// The order leaves this module.
static void regrant_hand_out(struct sk_regrant *regrant, const struct sk_order *order)
{
    SK_ASSERT(regrant->open > 0 && regrant->loose <= regrant->open);
    regrant->open--;
    regrant->loose -= order->entry->kind == SK_ENTRY_LOOSE;
}

static void regrant_end_call(struct regrant_call *call)
{
    regrant_wait_all(call, &call->orders);
    regrant_move(call->voucher, SK_LOST_IDLE);
    sk_entry_forget(call->entry);
    sk_voucher_unpin(call->voucher);
    free(call);
}

// ---- orders that are refused ----

// `reasons`: their array, not ended yet.
static void regrant_refuse(struct regrant_call *call, struct sk_buf *reasons)
{
    struct sk_buf ids = {0}, users = {0}, quantities = {0}, offers = {0};
    char slot[SK_PARAM_NUMBER_SIZE], voucher[SK_PARAM_NUMBER_SIZE];
    enum sk_status status = SK_NO_MEM;
    sk_params_begin(&ids);
    sk_params_begin(&users);
    sk_params_begin(&quantities);
    sk_params_begin(&offers);
    for (const struct sk_order *order = call->refused.head; order != NULL; order = order->next) {
        sk_params_add(&ids, order->id);
        sk_params_add_text(&users, order->user);
        sk_params_add(&quantities, sk_params_number(slot, order->quantity));
        sk_params_add(&offers, sk_params_number(slot, order->offer));
    }
    const char *params[] = {sk_params_number(slot, call->voucher->slot),
                            sk_params_number(voucher, call->voucher->id),
                            sk_params_end(&ids),
                            sk_params_end(&users),
                            sk_params_end(reasons),
                            sk_params_end(&quantities),
                            sk_params_end(&offers)};
    if (params[2] != NULL && params[3] != NULL && params[4] != NULL && params[5] != NULL && params[6] != NULL)
        status = sk_pg_call(sk_sale_shard(call->regrant->sale, call->voucher)->orders, SK_STATEMENT_REFUSE_ORDERS, 7,
                            params, regrant_on_refused, call);
    sk_buf_free(&ids);
    sk_buf_free(&users);
    sk_buf_free(&quantities);
    sk_buf_free(&offers);
    if (status != SK_OK) {
        regrant_wait_all(call, &call->refused);
        regrant_end_call(call);
    }
}

static void regrant_refuse_unasked(struct sk_regrant *regrant, struct sk_voucher *voucher)
{
    struct regrant_call *call = calloc(1, sizeof *call);
    struct sk_buf reasons = {0};
    struct sk_order *order;
    if (call == NULL)
        return;
    *call = (struct regrant_call){.regrant = regrant, .voucher = voucher};
    size_t most = (size_t)regrant->sale->options->batch_max;
    sk_params_begin(&reasons);
    while (call->refused.count < most && (order = voucher->maintenance->lost.orders.head) != NULL) {
        if (order->entry->kind == SK_ENTRY_LOOSE) {
            regrant_hand_out(regrant, order);
            sk_writer_leave(order);
            continue;
        }
        sk_params_add(&reasons, "GRANT_LOST");
        sk_order_move(regrant->sale->orders, order, SK_ORDER_REFUSING, &call->refused);
    }
    regrant_move(voucher, SK_LOST_REFUSING_UNASKED);
    sk_voucher_pin(voucher);
    if (call->refused.count > 0)
        regrant_refuse(call, &reasons);
    else
        regrant_end_call(call);
    sk_buf_free(&reasons);
}

static void regrant_on_refused(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct regrant_call *call = arg;
    struct sk_regrant *regrant = call->regrant;
    bool written = rows != NULL && sk_rows_count(rows) == call->refused.count;
    struct sk_order *order;
    for (size_t i = 0; written && (order = call->refused.head) != NULL; i++) {
        size_t n;
        bool placed = sk_settlement_read(rows, i, &n, NULL) == SK_SETTLEMENT_ALREADY_PLACED;
        sk_sale_report(regrant->sale, order, placed ? SK_PURCHASE_PLACED : SK_PURCHASE_SOLD_OUT,
                       placed ? order->id : NULL, 0);
        if (!placed && call->voucher->maintenance->lost.state == SK_LOST_REFUSING_UNASKED)
            sk_entry_note_over(order, (unsigned)sk_rows_number(rows, i, COLUMN_NTH), NULL);
        regrant_hand_out(regrant, order);
        sk_writer_leave(order);
    }
    regrant_wait_all(call, &call->refused);
    struct sk_voucher *voucher = call->voucher;
    bool more = written && regrant->gives_up && voucher->maintenance->lost.orders.count > 0;
    regrant_end_call(call);
    if (more)
        regrant_refuse_unasked(regrant, voucher); // time is short
}

// ---- asking Redis ----

// Moves each order to the writer, to those to be refused, or back to wait. `reasons`: of those to be refused.
static void regrant_sort(struct regrant_call *call, struct sk_grant *grant, struct sk_buf *reasons)
{
    struct sk_regrant *regrant = call->regrant;
    struct sk_entry *entry = sk_grant_take_entry(grant, &call->entry);
    struct sk_order *order;
    int64_t voucher_id = 0;
    sk_params_begin(reasons);
    for (size_t i = 0; (order = call->orders.head) != NULL; i++) {
        char result = grant->results[i];
        bool already = sk_grant_has_existing(result);
        const char *existing =
            already ? sk_grant_next_existing(grant, (enum sk_grant_result)result, &voucher_id) : NULL;
        if (result == SK_GRANT_TOO_FEW)
            (void)sk_grant_next_left(grant);
        if (result == SK_GRANT_PLACED) {
            order->epoch = grant->epoch;
            regrant_hand_out(regrant, order);
            sk_writer_add(entry, order);
        } else if (existing != NULL && strcmp(existing, order->id) == 0) {
            order->epoch = grant->epoch;
            regrant_hand_out(regrant, order);
            sk_writer_resume(order);
        } else if (already || result == SK_GRANT_SOLD_OUT || result == SK_GRANT_TOO_FEW) {
            if (already) {
                sk_sale_report_with(regrant->sale, order,
                                    &(struct sk_purchase_result){.code = SK_PURCHASE_ALREADY_ORDERED,
                                                                 .order_id = existing,
                                                                 .voucher_id = voucher_id});
                order->handle = 0; // its client has the outcome
            }
            sk_params_add(reasons, already ? "ALREADY_ORDERED" : "GRANT_LOST");
            sk_order_move(regrant->sale->orders, order, SK_ORDER_REFUSING, &call->refused);
        } else {
            regrant_wait(regrant, call->voucher, order);
        }
    }
}

// The epoch of the grant is no newer than `stale_epoch`: a rebuild died under it, or an entry with a forged epoch
// raised `stale_epoch`. Only a newer epoch ends that.
static enum sk_doubt regrant_doubt(enum sk_grant_status status)
{
    if (status == SK_GRANT_DAMAGED)
        return SK_DOUBT_DAMAGED;
    return status == SK_GRANT_OK || status == SK_GRANT_UNSURE ? SK_DOUBT_BEHIND : SK_DOUBT_CLOSED;
}

static void regrant_on_reply(void *arg, const struct sk_reply *reply)
{
    struct regrant_call *call = arg;
    const struct sk_sale *sale = call->regrant->sale;
    struct sk_voucher *voucher = call->voucher;
    struct sk_grant grant = {.status = SK_GRANT_MALFORMED};
    struct sk_buf reasons = {0};
    if (reply != NULL)
        grant = sk_grant_read(reply, call->orders.count);
    else
        sale->orphaned(sale->recovery, voucher); // the script may still run
    if (grant.status == SK_GRANT_OK) {
        if (call->entry->run_number == sk_sale_run_number(sale, voucher)) // else it has moved since
            sk_grant_remember(&grant, voucher);
        sk_admit_forget(voucher); // a refusal that is cached knows none of these users
    }
    if (grant.status == SK_GRANT_OK && grant.epoch > voucher->maintenance->lost.stale_epoch) {
        regrant_sort(call, &grant, &reasons);
        if (call->refused.count > 0) {
            regrant_move(voucher, SK_LOST_REFUSING);
            regrant_refuse(call, &reasons);
        } else {
            regrant_end_call(call);
        }
        sk_buf_free(&reasons);
        return;
    }
    // PostgreSQL has left this epoch behind: the instance that was to rebuild Redis under the new one has died.
    if (grant.status <= SK_GRANT_DAMAGED)
        sk_rebuild_soon(call->regrant->rebuilds, voucher, regrant_doubt(grant.status));
    regrant_end_call(call);
}

static void regrant_ask(struct sk_regrant *regrant, struct sk_voucher *voucher)
{
    const struct sk_sale *sale = regrant->sale;
    struct regrant_call *call = calloc(1, sizeof *call);
    struct sk_entry *entry = sk_entry_new(sale, voucher, SK_ENTRY_OWN, sk_sale_run_number(sale, voucher));
    if (call == NULL || entry == NULL) {
        sk_entry_forget(entry);
        free(call);
        return;
    }
    *call = (struct regrant_call){.regrant = regrant, .voucher = voucher, .entry = entry};
    size_t most = (size_t)sale->options->batch_max;
    int32_t offer = voucher->maintenance->lost.orders.head->offer;
    struct sk_order *order;
    while (call->orders.count < most && (order = voucher->maintenance->lost.orders.head) != NULL &&
           order->offer == offer)
        sk_order_move(sale->orders, order, SK_ORDER_REGRANTING, &call->orders);
    regrant_move(voucher, SK_LOST_ASKING);
    sk_voucher_pin(voucher);
    if (sk_grant_ask(sale, voucher, &call->orders, true, regrant_on_reply, call) != SK_OK)
        regrant_end_call(call);
    else
        SK_FAILPOINT("regrant.asked");
}

static void regrant_on_tick(void *arg)
{
    struct sk_regrant *regrant = arg;
    uint64_t now = uv_now(regrant->sale->loop);
    struct sk_voucher *voucher = regrant->first;
    regrant->first = NULL;
    while (voucher != NULL) {
        struct sk_voucher *next = voucher->maintenance->lost.next;
        voucher->maintenance->lost.listed = false;
        bool may = voucher->maintenance->lost.state == SK_LOST_IDLE && now >= voucher->maintenance->lost.not_before_ms;
        if (may && (regrant->gives_up || voucher->left))
            regrant_refuse_unasked(regrant, voucher);
        else if (may && sk_session_sells(regrant->sale->session, voucher->slot))
            regrant_ask(regrant, voucher);
        if (voucher->maintenance->lost.orders.count > 0 && !voucher->maintenance->lost.listed)
            regrant_enqueue(regrant, voucher);
        else
            sk_voucher_unpin(voucher);
        voucher = next;
    }
}

struct sk_regrant *sk_regrant_open(const struct sk_sale *sale, struct sk_rebuilds *rebuilds)
{
    struct sk_regrant *regrant = calloc(1, sizeof *regrant);
    if (regrant == NULL)
        return NULL;
    regrant->sale = sale;
    regrant->rebuilds = rebuilds;
    regrant->timer = sk_timer_open(sale->loop, TICK_MS, regrant_on_tick, regrant);
    if (regrant->timer == NULL) {
        free(regrant);
        return NULL;
    }
    return regrant;
}

void sk_regrant_close(struct sk_regrant *regrant)
{
    if (regrant == NULL)
        return;
    struct sk_voucher *voucher;
    while ((voucher = regrant->first) != NULL) {
        regrant->first = voucher->maintenance->lost.next;
        while (voucher->maintenance->lost.orders.head != NULL)
            sk_writer_forget(voucher->maintenance->lost.orders.head);
        sk_voucher_unpin(voucher);
    }
    sk_timer_close(regrant->timer);
    free(regrant);
}

// ---- the end of the process ----

void sk_regrant_give_up(struct sk_regrant *regrant)
{
    if (regrant->gives_up)
        return;
    regrant->gives_up = true;
    for (struct sk_voucher *voucher = regrant->first; voucher != NULL; voucher = voucher->maintenance->lost.next)
        voucher->maintenance->lost.not_before_ms = 0;
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
