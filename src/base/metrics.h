// What a reactor counts: one block for each, written by its thread alone and read by any. Counters only grow; gauges
// say how it is now.
#ifndef SK_BASE_METRICS_H
#define SK_BASE_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#define SK_COUNTERS(X)                                                            \
    X(ORDERS_TRIED)    /* purchases that Redis was asked about */                 \
    X(ORDERS_GRANTED)  /* of them those that got a unit */                        \
    X(ORDERS_PLACED)   /* committed in PostgreSQL */                              \
    X(ORDERS_REFUSED)  /* granted, and refused by PostgreSQL */                   \
    X(ORDERS_RETURNED) /* ended after they were placed */                         \
    X(ORDERS_EXPIRED)  /* of them those that were not paid in time */             \
    X(REFUSED_MEMORY)  /* purchases refused from memory: by a mark, or by load */ \
    X(SCRIPT_CALLS)    /* of place_orders.lua, also to grant again */             \
    X(BATCHES_WRITTEN) /* calls of place_orders() that were done */               \
    X(QUESTIONS)       /* conversations of the control plane */                   \
    X(QUESTIONS_FULL)  /* refused because too many waited */                      \
    X(REBUILDS)        /* segments opened by a rebuild */                         \
    X(RETIRED)         /* sales that left Redis */                                \
    X(ENTRIES_SWEPT)   /* journal entries settled for others */                   \
    X(DEAD_LETTERS)    /* orders and entries set aside */                         \
    X(SESSIONS_LOST)   /* expired, or lost by Redis */                            \
    X(TOKENS_TAKEN)    /* users' tokens that were good */                         \
    X(TOKENS_REFUSED)  /* those that were not */                                  \
    X(SIGNATURES)      /* of users' tokens: all but those of the cache */

#define SK_GAUGES(X)                                                   \
    X(ORDERS_ASKING)        /* wait for the next script call */        \
    X(ORDERS_ASKED)         /* in a script call */                     \
    X(ORDERS_WAITING)       /* granted, for a batch */                 \
    X(ORDERS_DELAYED)       /* refused alone, wait to be retried */    \
    X(ORDERS_WRITING)       /* in a batch */                           \
    X(ORDERS_SETTING_ASIDE) /* become dead letters */                  \
    X(ORDERS_LOST)          /* fenced off, wait to be granted again */ \
    X(ORDERS_REGRANTING)    /* Redis is asked again */                 \
    X(ORDERS_REFUSING)      /* are being written as refused */         \
    X(VOUCHERS)             /* in the catalogue */

enum sk_metric {
#define SK_METRIC_ENUM(name) SK_METRIC_##name,
    SK_COUNTERS(SK_METRIC_ENUM) SK_GAUGES(SK_METRIC_ENUM)
#undef SK_METRIC_ENUM
        SK_METRIC_COUNT
};

// Starts zeroed.
struct sk_metrics {
    _Atomic uint64_t values[SK_METRIC_COUNT];
};

// The reactor's thread. `metrics` NULL: nothing is counted.
void sk_metrics_add(struct sk_metrics *metrics, enum sk_metric metric, uint64_t n);
void sk_metrics_set(struct sk_metrics *metrics, enum sk_metric metric, uint64_t value);

// Any thread.
uint64_t sk_metrics_read(const struct sk_metrics *metrics, enum sk_metric metric);
const char *sk_metric_name(enum sk_metric metric); // as above, a constant

#endif
