// Each block has one writer, so adding needs no locked instruction: a relaxed load and a relaxed store. The mutex
// guards the list and keeps a block from being freed while it is read. Adding never takes it.
#include "metrics.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t metrics_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sk_list metrics_open = {&metrics_open, &metrics_open}; // under the lock

static const struct sk_metric_row metric_rows[SK_METRIC_COUNT] = {
#define METRICS_COUNTER(id, name, labels, help) {name, labels, help, true, SK_MERGE_SUM, SK_SCALE_ORDERS},
    SK_COUNTERS(METRICS_COUNTER)
#undef METRICS_COUNTER
#define METRICS_GAUGE(id, name, labels, merge, help) {name, labels, help, false, SK_MERGE_##merge, SK_SCALE_ORDERS},
        SK_GAUGES(METRICS_GAUGE)
#undef METRICS_GAUGE
};

static const struct sk_metric_row distribution_rows[SK_DISTRIBUTION_COUNT] = {
#define METRICS_DISTRIBUTION(id, name, labels, scale, help) {name, labels, help, false, SK_MERGE_SUM, SK_SCALE_##scale},
    SK_DISTRIBUTIONS(METRICS_DISTRIBUTION)
#undef METRICS_DISTRIBUTION
};

// ---- opening and closing ----

struct sk_metrics *sk_metrics_open(void)
{
    struct sk_metrics *metrics = calloc(1, sizeof *metrics);
    if (metrics == NULL)
        return NULL;
    (void)pthread_mutex_lock(&metrics_lock);
    sk_list_add_last(&metrics->list, &metrics_open);
    (void)pthread_mutex_unlock(&metrics_lock);
    return metrics;
}

void sk_metrics_close(struct sk_metrics *metrics)
{
    if (metrics == NULL)
        return;
    (void)pthread_mutex_lock(&metrics_lock);
    sk_list_remove(&metrics->list);
    (void)pthread_mutex_unlock(&metrics_lock);
    free(metrics);
}

// ---- adding ----

static void metrics_raise(_Atomic uint64_t *value, uint64_t n)
{
    atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + n, memory_order_relaxed);
}

void sk_metrics_add(struct sk_metrics *metrics, enum sk_metric metric, uint64_t n)
{
    if (metrics != NULL)
        metrics_raise(&metrics->values[metric], n);
}

void sk_metrics_set(struct sk_metrics *metrics, enum sk_metric metric, uint64_t value)
{
    if (metrics != NULL)
        atomic_store_explicit(&metrics->values[metric], value, memory_order_relaxed);
}

void sk_metrics_observe(struct sk_metrics *metrics, enum sk_distribution_id id, uint64_t value, uint64_t n)
{
    if (metrics != NULL)
        sk_distribution_add(&metrics->distributions[id], distribution_rows[id].scale, value, n);
}

void sk_metrics_answered(struct sk_metrics *metrics, unsigned route, unsigned code)
{
    SK_ASSERT(route < SK_METRICS_ROUTES && code < SK_METRICS_CODES);
    if (metrics != NULL)
        metrics_raise(&metrics->answers[route][code], 1);
}

void sk_metrics_took(struct sk_metrics *metrics, unsigned route, uint64_t ns, uint64_t n)
{
    SK_ASSERT(route < SK_METRICS_ROUTES);
    if (metrics != NULL)
        sk_distribution_add(&metrics->durations[route], SK_SCALE_SECONDS, ns, n);
}

// ---- reading ----

uint64_t sk_metrics_read(const struct sk_metrics *metrics, enum sk_metric metric)
{
    return atomic_load_explicit(&metrics->values[metric], memory_order_relaxed);
}

const struct sk_metric_row *sk_metric_row(enum sk_metric metric)
{
    return &metric_rows[metric];
}

const struct sk_metric_row *sk_distribution_row(enum sk_distribution_id id)
{
    return &distribution_rows[id];
}

static uint64_t metrics_merge(enum sk_merge merge, uint64_t sum, uint64_t value)
{
    if (merge == SK_MERGE_SUM)
        return sum + value;
    if (merge == SK_MERGE_MOST)
        return value > sum ? value : sum;
    return value != 0 && (sum == 0 || value < sum) ? value : sum;
}

static void metrics_add_block(struct sk_metrics *metrics, struct sk_metrics_sum *sum)
{
    for (int i = 0; i < SK_METRIC_COUNT; i++)
        sum->values[i] =
            metrics_merge(metric_rows[i].merge, sum->values[i], sk_metrics_read(metrics, (enum sk_metric)i));
    for (int i = 0; i < SK_DISTRIBUTION_COUNT; i++)
        sk_distribution_read(&metrics->distributions[i], &sum->distributions[i]);
    for (int route = 0; route < SK_METRICS_ROUTES; route++) {
        for (int i = 0; i < SK_METRICS_CODES; i++)
            sum->answers[route][i] += atomic_load_explicit(&metrics->answers[route][i], memory_order_relaxed);
        sk_distribution_read(&metrics->durations[route], &sum->durations[route]);
    }
    sk_remaining_read(&metrics->remaining, &sum->remaining);
    sk_remaining_read(&metrics->differing, &sum->differing);
    sk_server_table_read(&metrics->servers, &sum->servers);
}

void sk_metrics_sum(struct sk_metrics_sum *sum, uint64_t now_ms)
{
    memset(sum, 0, sizeof *sum);
    (void)pthread_mutex_lock(&metrics_lock);
    for (struct sk_list *one = metrics_open.next; one != &metrics_open; one = one->next)
        metrics_add_block((struct sk_metrics *)one, sum);
    (void)pthread_mutex_unlock(&metrics_lock);
    for (int i = 0; i < SK_METRIC_COUNT; i++) {
        uint64_t since_ms = sum->values[i];
        if (metric_rows[i].merge == SK_MERGE_AGE)
            sum->values[i] = since_ms == 0 || since_ms > now_ms ? 0 : now_ms - since_ms;
    }
}

// ---- remaining ----

void sk_remaining_note(struct sk_remaining_rows *rows, int64_t voucher_id, int64_t units)
{
    size_t at = 0;
    while (at < rows->count && rows->rows[at].voucher_id > voucher_id)
        at++;
    if (at < rows->count && rows->rows[at].voucher_id == voucher_id) {
        rows->rows[at].units += units;
        return;
    }
    if (at == SK_REMAINING_MAX)
        return;
    if (rows->count < SK_REMAINING_MAX)
        rows->count++;
    memmove(&rows->rows[at + 1], &rows->rows[at], (rows->count - at - 1) * sizeof rows->rows[0]);
    rows->rows[at] = (struct sk_remaining_row){voucher_id, units};
}

void sk_remaining_publish(struct sk_remaining *remaining, const struct sk_remaining_rows *rows)
{
    if (pthread_mutex_trylock(&remaining->lock) != 0)
        return;
    remaining->kept.count = rows->count;
    memcpy(remaining->kept.rows, rows->rows, rows->count * sizeof rows->rows[0]);
    (void)pthread_mutex_unlock(&remaining->lock);
}

void sk_remaining_read(struct sk_remaining *remaining, struct sk_remaining_rows *out)
{
    (void)pthread_mutex_lock(&remaining->lock);
    for (size_t i = 0; i < remaining->kept.count; i++)
        sk_remaining_note(out, remaining->kept.rows[i].voucher_id, remaining->kept.rows[i].units);
    (void)pthread_mutex_unlock(&remaining->lock);
}
