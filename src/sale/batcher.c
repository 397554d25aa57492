// While a write to a Redis node is unanswered, the next batch for it gathers. So batches grow under load by themselves,
// and an idle service adds no wait. Each node has a queue of its own, so that a slow one delays no other.
//
// If a voucher has moved to another node, nothing was executed: its orders go back and are sent there. That also counts
// as one of ROUNDS.
//
// A call names one offer, the catalogue's, to which all its orders have agreed. If Redis has another offer, the orders
// go back and the voucher is held until a background job has updated the side that is behind, for HOLD_MS at most. Then
// each order is checked against the catalogue's offer and sent again, ROUNDS times in all.
#include "batcher.h"

#include <string.h>

#include "durable.h"
#include "failpoint.h"
#include "grant.h"
#include "line.h"
#include "log.h"
#include "offer.h"
#include "probe.h"
#include "trust.h"

enum { RUSH_MS = 20 }; // calls that follow each other closer than this are a rush
enum { HOLD_MS = 200, ROUNDS = 3 };

struct sk_batcher {
    const struct sk_sale *sale;
    struct sk_voucher *first[SK_NODES_MAX + 1]; // by node: vouchers with requests to send
    size_t listed;                              // vouchers in all queues
    uint64_t asked_at_ms;                       // the last script call
    uint64_t turn_ns;                           // when the first purchase of this turn came; 0: none has
};

// The requests of one script call, in the order of its arguments.
struct batcher_call {
    struct sk_batcher *batcher;
    struct sk_voucher *voucher;
    struct sk_order_list orders;
    struct sk_entry *entry; // owned: for those that are granted; NULL: the writer has it
    uint64_t asked_at_ms, asked_ns, answered_ns;
};

static void batcher_enqueue(struct sk_batcher *batcher, struct sk_voucher *voucher)
{
    if (voucher->asking.listed)
        return;
    struct sk_voucher **first = &batcher->first[sk_nodes_number(batcher->sale->nodes, voucher->slot)];
    voucher->asking.listed = true;
    batcher->listed++;
    sk_voucher_pin(voucher);
    voucher->asking.next = *first;
    *first = voucher;
}

// ---- refusals ----

static void batcher_refuse_with(struct sk_batcher *batcher, struct sk_order *order,
                                const struct sk_purchase_result *result)
{
    sk_sale_report_with(batcher->sale, order, result);
    sk_order_give(batcher->sale->orders, order);
}

static void batcher_refuse(struct sk_batcher *batcher, struct sk_order *order, enum sk_purchase_code code,
                           const char *order_id, uint64_t retry_after_ms)
{
    sk_sale_report(batcher->sale, order, code, order_id, retry_after_ms);
    sk_order_give(batcher->sale->orders, order);
}

static void batcher_refuse_all(struct sk_batcher *batcher, struct sk_order_list *orders, enum sk_purchase_code code)
{
    while (orders->head != NULL)
        batcher_refuse(batcher, orders->head, code, NULL, 0);
}

// ---- the reply ----

static void batcher_end_call(struct batcher_call *call)
{
    SK_ASSERT(call->orders.count == 0); // each has its answer, or waits again
    sk_entry_forget(call->entry);
    sk_voucher_unpin(call->voucher);
    free(call);
}

static void batcher_doubt(struct batcher_call *call, enum sk_doubt doubt)
{
    const struct sk_sale *sale = call->batcher->sale;
    sale->suspect(sale->recovery, call->voucher, doubt);
    batcher_refuse_all(call->batcher, &call->orders, SK_PURCHASE_LOADING);
}

static void batcher_return(struct batcher_call *call, struct sk_order *order)
{
    struct sk_batcher *batcher = call->batcher;
    if (++order->rounds == ROUNDS)
        batcher_refuse(batcher, order, SK_PURCHASE_LOADING, NULL, 0);
    else
        sk_order_move(batcher->sale->orders, order, SK_ORDER_ASKING, &call->voucher->asking.orders);
}

static void batcher_send_again(struct batcher_call *call)
{
    while (call->orders.head != NULL)
        batcher_return(call, call->orders.head);
    if (call->voucher->asking.orders.count > 0)
        batcher_enqueue(call->batcher, call->voucher);
}

static void batcher_hold(struct batcher_call *call, int32_t offer)
{
    const struct sk_sale *sale = call->batcher->sale;
    struct sk_voucher *voucher = call->voucher;
    if (voucher->asking.orders.count == 0)
        return;
    batcher_enqueue(call->batcher, voucher);
    voucher->asking.held_until_ms = uv_now(sale->loop) + HOLD_MS;
    sale->offers_differ(sale->recovery, voucher, offer); // it may release the voucher at once
}

// The answer shows the order's present state in PostgreSQL: it may still be pending, or have ended.
static void batcher_repeat(struct sk_batcher *batcher, struct sk_order *order, enum sk_grant_result granted,
                           const char *first_id)
{
    struct sk_purchase_result result = {.code = SK_PURCHASE_ALREADY_ORDERED, .order_id = first_id, .repeats = true};
    if (first_id == NULL)
        result = (struct sk_purchase_result){.code = SK_PURCHASE_UNAVAILABLE};
    else if (granted == SK_GRANT_KEY_REUSED)
        result = (struct sk_purchase_result){.code = SK_PURCHASE_IDEMPOTENCY_KEY_REUSED};
    batcher_refuse_with(batcher, order, &result);
}

// What a result without more comes to. The first four are about the whole voucher.
static const enum sk_purchase_code refusals[] = {
    [SK_GRANT_SOLD_OUT] = SK_PURCHASE_SOLD_OUT,
    [SK_GRANT_ENDED] = SK_PURCHASE_ENDED,
    [SK_GRANT_PAUSED] = SK_PURCHASE_PAUSED,
    [SK_GRANT_NOT_STARTED] = SK_PURCHASE_NOT_STARTED,
    [SK_GRANT_TOO_MANY] = SK_PURCHASE_TOO_MANY_ORDERS,
    [SK_GRANT_FULL] = SK_PURCHASE_OVERLOADED,
    [SK_GRANT_HELD] = SK_PURCHASE_LOADING,
};

static void batcher_remember(const struct batcher_call *call, const struct sk_grant *grant)
{
    static const char of_all[] = {SK_GRANT_SOLD_OUT, SK_GRANT_ENDED, SK_GRANT_PAUSED, SK_GRANT_NOT_STARTED, '\0'};
    struct sk_refusal refusal = {
        .asked_at_ms = call->asked_at_ms, .begin_at_ms = call->asked_at_ms, .epoch = grant->epoch};
    const char *found = of_all;
    while (*found != '\0' && strchr(grant->results, *found) == NULL)
        found++;
    if (*found == '\0' || !sk_trust_is_version(grant->last))
        return;
    refusal.code = refusals[(unsigned char)*found];
    if (refusal.code == SK_PURCHASE_NOT_STARTED) {
        if (grant->begin_ms <= grant->now_ms)
            return;
        refusal.begin_at_ms += (uint64_t)(grant->begin_ms - grant->now_ms);
    }
    memcpy(refusal.version, grant->last, strlen(grant->last) + 1);
    sk_admit_remember(call->batcher->sale, call->voucher, &refusal);
}

static void batcher_answer_each(struct batcher_call *call, struct sk_grant *grant)
{
    struct sk_batcher *batcher = call->batcher;
    struct sk_entry *entry = sk_grant_take_entry(grant, &call->entry);
    uint64_t begin_in_ms = grant->begin_ms > grant->now_ms ? (uint64_t)(grant->begin_ms - grant->now_ms) : 0;
    struct sk_order *order;
    const char *existing;
    int64_t voucher_id;
    for (size_t i = 0; (order = call->orders.head) != NULL; i++) {
        enum sk_grant_result result = (enum sk_grant_result)grant->results[i];
        switch (result) {
        case SK_GRANT_PLACED:
            order->epoch = grant->epoch;
            order->granted_ns = call->answered_ns;
            SK_PROBE3(granted, order->handle, order->id, call->voucher->id);
            sk_metrics_add(batcher->sale->metrics, SK_METRIC_ORDERS_GRANTED, 1);
            sk_sale_report(batcher->sale, order, SK_PURCHASE_ACCEPTED, order->id, 0);
            sk_writer_add(entry, order);
            break;
        case SK_GRANT_ALREADY:
        case SK_GRANT_IN_SCOPE:
            existing = sk_grant_next_existing(grant, result, &voucher_id);
            batcher_refuse_with(batcher, order,
                                &(struct sk_purchase_result){.code = SK_PURCHASE_ALREADY_ORDERED,
                                                             .order_id = existing,
                                                             .voucher_id = voucher_id});
            break;
        case SK_GRANT_REPEATED:
        case SK_GRANT_REPEATED_ENDED:
        case SK_GRANT_KEY_REUSED:
            batcher_repeat(batcher, order, result, sk_grant_next_existing(grant, result, &voucher_id));
            break;
        case SK_GRANT_TOO_FEW:
            batcher_refuse_with(
                batcher, order,
                &(struct sk_purchase_result){.code = SK_PURCHASE_NOT_ENOUGH, .left = sk_grant_next_left(grant)});
            break;
        case SK_GRANT_SOLD_OUT:
            if (order->waits)
                sk_line_add(sk_sale_shard(batcher->sale, call->voucher)->line, call->voucher, order);
            else
                batcher_refuse(batcher, order, SK_PURCHASE_SOLD_OUT, NULL, 0);
            break;
        case SK_GRANT_TOO_MANY:
        case SK_GRANT_PAUSED:
        case SK_GRANT_ENDED:
        case SK_GRANT_FULL:
        case SK_GRANT_HELD:
            batcher_refuse(batcher, order, refusals[result], NULL, 0);
            break;
        case SK_GRANT_NOT_STARTED:
            batcher_refuse(batcher, order, SK_PURCHASE_NOT_STARTED, NULL, begin_in_ms);
            break;
        case SK_GRANT_OTHER_OFFER:
            batcher_return(call, order);
            break;
        }
    }
}

static void batcher_on_reply(void *arg, const struct sk_reply *reply)
{
    struct batcher_call *call = arg;
    struct sk_batcher *batcher = call->batcher;
    struct sk_voucher *voucher = call->voucher;
    SK_FAILPOINT("place.answered");
    if (reply == NULL) {
        batcher->sale->orphaned(batcher->sale->recovery, voucher); // it may still be carried out
        batcher_refuse_all(batcher, &call->orders, SK_PURCHASE_UNAVAILABLE);
        batcher_end_call(call);
        return;
    }
    call->answered_ns =
        sk_durable_answered(batcher->sale, SK_DISTRIBUTION_LEG_REDIS, call->orders.count, call->asked_ns);
    struct sk_grant grant = sk_grant_read(reply, call->orders.count);
    switch (grant.status) {
    case SK_GRANT_OK:
    case SK_GRANT_OTHER:
        if (call->entry->run_number == sk_sale_run_number(batcher->sale, voucher)) { // else it has moved since
            sk_grant_remember(&grant, voucher);
            batcher_remember(call, &grant);
        }
        batcher_answer_each(call, &grant);
        if (grant.status == SK_GRANT_OTHER)
            batcher_hold(call, (int32_t)grant.offer);
        break;
    case SK_GRANT_MISSING:
    case SK_GRANT_LOADING: // its rebuild may have died
        batcher_doubt(call, SK_DOUBT_CLOSED);
        break;
    case SK_GRANT_UNSURE:
        batcher_doubt(call, SK_DOUBT_BEHIND);
        break;
    case SK_GRANT_DAMAGED:
        batcher_doubt(call, SK_DOUBT_DAMAGED);
        break;
    case SK_GRANT_MOVED:
        batcher_send_again(call);
        break;
    case SK_GRANT_UNSTABLE:
        batcher_refuse_all(batcher, &call->orders, SK_PURCHASE_UNAVAILABLE);
        break;
    case SK_GRANT_MALFORMED: {
        const char *error = sk_reply_error(reply);
        sk_log_repeat(SK_LOG_WARN, "Redis refused place_orders", "reason", error == NULL ? "malformed reply" : error);
        batcher_refuse_all(batcher, &call->orders, SK_PURCHASE_UNAVAILABLE);
        break;
    }
    }
    batcher_end_call(call);
}

// ---- gathering, and asking ----

// NULL: out of memory. After the reply nothing is allocated any more: what Redis has granted would have no place.
static struct batcher_call *batcher_begin_call(struct sk_batcher *batcher, struct sk_voucher *voucher)
{
    const struct sk_sale *sale = batcher->sale;
    struct batcher_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return NULL;
    call->entry = sk_entry_new(sale, voucher, SK_ENTRY_OWN, sk_sale_run_number(sale, voucher));
    if (call->entry == NULL) {
        free(call);
        return NULL;
    }
    call->batcher = batcher;
    call->voucher = voucher;
    sk_voucher_pin(voucher);
    call->asked_at_ms = uv_now(sale->loop);
    return call;
}

// The catalogue's offer may have changed since an order was checked: such an order is checked again.
static void batcher_gather(struct batcher_call *call)
{
    struct sk_batcher *batcher = call->batcher;
    struct sk_asking *asking = &call->voucher->asking;
    size_t most = (size_t)batcher->sale->options->batch_max;
    struct sk_purchase_result result;
    struct sk_order *order;
    while (call->orders.count < most && (order = asking->orders.head) != NULL) {
        if (order->offer != call->voucher->offer &&
            sk_offered_refuses_again(batcher->sale, call->voucher, order, &result)) {
            batcher_refuse_with(batcher, order, &result);
            continue;
        }
        SK_PROBE2(order_asked, order->handle, order->id);
        sk_order_move(batcher->sale->orders, order, SK_ORDER_ASKED, &call->orders);
    }
}

static void batcher_ask(struct sk_batcher *batcher, struct sk_voucher *voucher)
{
    struct batcher_call *call = batcher_begin_call(batcher, voucher);
    if (call == NULL) {
        batcher_refuse_all(batcher, &voucher->asking.orders, SK_PURCHASE_OVERLOADED);
        return;
    }
    batcher_gather(call);
    if (call->orders.count == 0) {
        batcher_end_call(call);
        return;
    }
    SK_PROBE2(asked, voucher->id, call->orders.count);
    if (sk_grant_ask(batcher->sale, voucher, &call->orders, false, batcher_on_reply, call) != SK_OK) {
        batcher_refuse_all(batcher, &call->orders, SK_PURCHASE_UNAVAILABLE);
        batcher_end_call(call);
        return;
    }
    batcher->asked_at_ms = call->asked_at_ms;
    call->asked_ns = sk_durable_asked(batcher->sale, &call->orders);
}

// Waits while the session is being taken. If none can be taken, refuses all orders of this queue, so that nothing is
// left to send.
static bool batcher_may_ask(struct sk_batcher *batcher, struct sk_voucher *first)
{
    if (sk_session_sells(batcher->sale->session, first->slot))
        return true;
    if (sk_session_await(batcher->sale->session))
        return false;
    for (struct sk_voucher *voucher = first; voucher != NULL; voucher = voucher->asking.next)
        batcher_refuse_all(batcher, &voucher->asking.orders, SK_PURCHASE_UNAVAILABLE);
    return true;
}

// A voucher whose slot has another node since it was listed is sent to that one.
static bool batcher_flush_node(struct sk_batcher *batcher, unsigned number)
{
    struct sk_voucher *voucher = batcher->first[number];
    if (voucher == NULL || sk_redis_busy(sk_nodes_orders_of(batcher->sale->nodes, number)) ||
        !batcher_may_ask(batcher, voucher))
        return false;
    bool asked = false;
    batcher->first[number] = NULL;
    while (voucher != NULL) {
        struct sk_voucher *next = voucher->asking.next;
        voucher->asking.listed = false;
        SK_ASSERT(batcher->listed > 0);
        batcher->listed--;
        if (voucher->asking.orders.count > 0 && uv_now(batcher->sale->loop) < voucher->asking.held_until_ms) {
            batcher_enqueue(batcher, voucher);
        } else {
            asked = true;
            while (voucher->asking.orders.count > 0)
                batcher_ask(batcher, voucher);
        }
        sk_voucher_unpin(voucher);
        voucher = next;
    }
    return asked;
}

bool sk_batcher_flush(struct sk_batcher *batcher)
{
    bool asked = false;
    batcher->turn_ns = 0;
    for (unsigned i = 0; batcher->listed > 0 && i <= sk_nodes_most(batcher->sale->nodes); i++)
        asked = batcher_flush_node(batcher, i) || asked;
    return asked;
}

void sk_batcher_add(struct sk_batcher *batcher, struct sk_voucher *voucher, struct sk_order *order)
{
    if (batcher->turn_ns == 0)
        batcher->turn_ns = uv_hrtime();
    order->began_ns = batcher->turn_ns;
    sk_order_move(batcher->sale->orders, order, SK_ORDER_ASKING, &voucher->asking.orders);
    batcher_enqueue(batcher, voucher);
}

void sk_batcher_release(struct sk_voucher *voucher)
{
    voucher->asking.held_until_ms = 0;
}

bool sk_batcher_busy(const struct sk_batcher *batcher)
{
    return batcher->listed > 0 || uv_now(batcher->sale->loop) < batcher->asked_at_ms + RUSH_MS;
}

struct sk_batcher *sk_batcher_open(const struct sk_sale *sale)
{
    struct sk_batcher *batcher = calloc(1, sizeof *batcher);
    if (batcher == NULL)
        return NULL;
    batcher->sale = sale;
    return batcher;
}

void sk_batcher_close(struct sk_batcher *batcher)
{
    if (batcher == NULL)
        return;
    for (unsigned i = 0; i <= SK_NODES_MAX; i++) {
        while (batcher->first[i] != NULL) {
            struct sk_voucher *voucher = batcher->first[i];
            batcher->first[i] = voucher->asking.next;
            voucher->asking.listed = false;
            batcher_refuse_all(batcher, &voucher->asking.orders, SK_PURCHASE_UNAVAILABLE);
            sk_voucher_unpin(voucher);
        }
    }
    free(batcher);
}
