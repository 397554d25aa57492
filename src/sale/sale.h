// What the modules of a reactor's sale share: the loop, the stores, the orders, and the hooks.
#ifndef SK_SALE_SALE_H
#define SK_SALE_SALE_H

#include <uv.h>

#include "lock.h"
#include "metrics.h"
#include "nodes.h"
#include "order.h"
#include "pg_link.h"
#include "probe.h"
#include "purchase_result.h"
#include "rates.h"
#include "redis_link.h"
#include "sale_options.h"
#include "shard.h"
#include "voucher.h"

struct sk_batcher;

enum sk_doubt {
    SK_DOUBT_CLOSED,  // it is not there, or not open
    SK_DOUBT_BEHIND,  // it is behind what this reactor saw, or was opened under another Redis process
    SK_DOUBT_DAMAGED, // commands on its keys fail
};

struct sk_sale {
    uv_loop_t *loop; // borrowed, as all below
    const struct sk_sale_options *options;
    const char *instance;      // the address by which operators know it
    struct sk_rate *purchases; // limits the purchases a second that ask the stores; NULL: no limit
    // Redis's nodes. Each has two links: one of the order path (orders, and nothing that could delay them; replies come
    // in order), and one for everything else (queries, audits, rebuilds).
    struct sk_nodes *nodes;
    struct sk_shard *shards; // by number (store/shards.h): voucher->shard
    size_t shard_count;
    struct sk_session *session;   // of this reactor: holds its journal entries
    struct sk_named_locks *locks; // maintenance locks
    struct sk_catalogue *catalogue;
    struct sk_order_pool *orders;
    struct sk_batcher *batcher; // asks Redis for units; once it is open
    struct sk_metrics *metrics;
    // ACCEPTED may be followed by one more result; every other code is the last one of a handle.
    void (*on_result)(void *arg, uint64_t handle, const struct sk_purchase_result *result);
    void *arg;
    // What Redis holds of the voucher is in doubt: recovery checks it. May be called repeatedly.
    void (*suspect)(void *recovery, struct sk_voucher *voucher, enum sk_doubt doubt);
    // The journal may have an entry of this session that the reactor does not hold: a call was not answered, or memory
    // was short. Recovery searches for it. May be called repeatedly.
    void (*orphaned)(void *recovery, struct sk_voucher *voucher);
    // Redis or a ticket has this offer of the voucher, and the catalogue has another. Recovery updates the side that is
    // behind, then calls sk_batcher_release. May be called repeatedly.
    void (*offers_differ)(void *recovery, struct sk_voucher *voucher, int32_t offer);
    void *recovery;
};

// The links to the node that has the voucher now. NULL: none has it; commands then find it down.
static inline struct sk_redis *sk_sale_redis(const struct sk_sale *sale, const struct sk_voucher *voucher)
{
    return sk_nodes_orders(sale->nodes, voucher->slot);
}

// The Redis process that has it, by that link.
static inline uint64_t sk_sale_run_number(const struct sk_sale *sale, const struct sk_voucher *voucher)
{
    return sk_redis_run_number(sk_sale_redis(sale, voucher));
}

static inline struct sk_redis *sk_sale_ask_redis(const struct sk_sale *sale, const struct sk_voucher *voucher)
{
    return sk_nodes_queries(sale->nodes, voucher->slot);
}

static inline const struct sk_shard *sk_sale_shard(const struct sk_sale *sale, const struct sk_voucher *voucher)
{
    return &sale->shards[voucher->shard];
}

// The query link to the node of the keys that belong to no voucher.
static inline struct sk_redis *sk_sale_ask_shared(const struct sk_sale *sale)
{
    return sk_nodes_queries(sale->nodes, SK_SHARED_SLOT);
}

// Reports the result to the client that waits for the order, if there is one.
static inline void sk_sale_report_with(const struct sk_sale *sale, const struct sk_order *order,
                                       const struct sk_purchase_result *result)
{
    if (order->handle == 0)
        return;
    if (result->code != SK_PURCHASE_PLACED && result->code != SK_PURCHASE_ACCEPTED)
        SK_PROBE3(refused, order->handle, sk_purchase_code_name(result->code),
                  order->entry == NULL ? "redis" : "postgres");
    sale->on_result(sale->arg, order->handle, result);
}

// The same with these members only.
static inline void sk_sale_report(const struct sk_sale *sale, const struct sk_order *order, enum sk_purchase_code code,
                                  const char *order_id, uint64_t retry_after_ms)
{
    struct sk_purchase_result result = {.code = code, .order_id = order_id, .retry_after_ms = retry_after_ms};
    sk_sale_report_with(sale, order, &result);
}

#endif
