// One writer for each block, so adding needs no locked instruction: a relaxed load and a relaxed store.
#include "metrics.h"

#include <stddef.h>

void sk_metrics_add(struct sk_metrics *metrics, enum sk_metric metric, uint64_t n)
{
    if (metrics != NULL)
        sk_metrics_set(metrics, metric, sk_metrics_read(metrics, metric) + n);
}

void sk_metrics_set(struct sk_metrics *metrics, enum sk_metric metric, uint64_t value)
{
    if (metrics != NULL)
        atomic_store_explicit(&metrics->values[metric], value, memory_order_relaxed);
}

uint64_t sk_metrics_read(const struct sk_metrics *metrics, enum sk_metric metric)
{
    return atomic_load_explicit(&metrics->values[metric], memory_order_relaxed);
}

const char *sk_metric_name(enum sk_metric metric)
{
    static const char *const names[] = {
#define SK_METRIC_NAME(name) #name,
        SK_COUNTERS(SK_METRIC_NAME) SK_GAUGES(SK_METRIC_NAME)
#undef SK_METRIC_NAME
    };
    return names[metric];
}
