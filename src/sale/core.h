// What the modules of a reactor's sale share: the loop, the stores, the orders, and who wants to know.
#ifndef SK_SALE_CORE_H
#define SK_SALE_CORE_H

#include <uv.h>

#include "config.h"
#include "lock.h"
#include "order.h"
#include "pg_link.h"
#include "redis_link.h"
#include "segment.h"
#include "verdict.h"

struct sk_outcome {
    enum sk_verdict verdict;
    const char *order_id;    // NULL: none; borrowed for the call
    const char *document;    // FOUND, CREATED: the JSON to show; borrowed for the call
    int64_t voucher_id;      // CREATED: of the voucher
    uint64_t retry_after_ms; // 0: not said
};

struct sk_core {
    uv_loop_t *loop; // borrowed, as all below
    const struct sk_config *config;
    struct sk_redis *redis;
    struct sk_pg *pg;
    struct sk_locker *locker;
    struct sk_segments *segments;
    struct sk_order_pool *orders;
    // ACCEPTED may be followed by one more outcome; every other verdict is the last word on a ticket.
    void (*on_outcome)(void *arg, uint64_t ticket, const struct sk_outcome *outcome);
    void *arg;
    // Redis may have lost what it holds of the voucher: upkeep is to look after it. May be called again and again.
    void (*suspect)(void *upkeep, struct sk_segment *segment);
    void *upkeep;
};

// Tells whoever waits for the order.
static inline void sk_core_tell(const struct sk_core *core, const struct sk_order *order, enum sk_verdict verdict,
                                const char *order_id, uint64_t retry_after_ms)
{
    struct sk_outcome outcome = {.verdict = verdict, .order_id = order_id, .retry_after_ms = retry_after_ms};
    if (order->ticket != 0)
        core->on_outcome(core->arg, order->ticket, &outcome);
}

#endif
