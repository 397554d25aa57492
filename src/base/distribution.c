// One writer, so adding is a relaxed load and a relaxed store, as in metrics.c. An exemplar has more than one word, so
// it has a version: a reader skips an exemplar that is being written.
#include "distribution.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { STEP_NS = 100000, BOUNDS_ORDERS = 12, WORDS = SK_EXEMPLAR_CHARS / sizeof(uint64_t) };

static size_t distribution_bucket(enum sk_scale scale, uint64_t value)
{
    size_t most = sk_scale_bounds(scale);
    uint64_t steps = scale == SK_SCALE_SECONDS ? (value + STEP_NS - 1) / STEP_NS : value;
    if (steps <= 1)
        return 0;
    size_t bucket = 64U - (size_t)__builtin_clzll(steps - 1); // the least n with 2^n >= steps
    return bucket < most ? bucket : most;
}

static void distribution_raise(_Atomic uint64_t *cell, uint64_t by)
{
    atomic_store_explicit(cell, atomic_load_explicit(cell, memory_order_relaxed) + by, memory_order_relaxed);
}

void sk_distribution_add(struct sk_distribution *distribution, enum sk_scale scale, uint64_t value, uint64_t n)
{
    distribution_raise(&distribution->counts[distribution_bucket(scale, value)], n);
    distribution_raise(&distribution->sum, value * n);
}

void sk_distribution_mark(struct sk_distribution *distribution, enum sk_scale scale, uint64_t value,
                          const char *trace_id, uint64_t at_ms)
{
    struct sk_exemplar_cell *cell = &distribution->exemplars[distribution_bucket(scale, value)];
    uint32_t version = atomic_load_explicit(&cell->version, memory_order_relaxed);
    uint64_t words[WORDS];
    memcpy(words, trace_id, sizeof words);
    atomic_store_explicit(&cell->version, version + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < WORDS; i++)
        atomic_store_explicit(&cell->trace[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&cell->value, value, memory_order_relaxed);
    atomic_store_explicit(&cell->at_ms, at_ms, memory_order_relaxed);
    atomic_store_explicit(&cell->version, version + 2, memory_order_release);
}

// ---- reading ----

static void distribution_read_exemplar(const struct sk_exemplar_cell *cell, struct sk_exemplar *out)
{
    uint32_t version = atomic_load_explicit(&cell->version, memory_order_acquire);
    uint64_t words[WORDS];
    if (version == 0 || version % 2 != 0)
        return;
    for (size_t i = 0; i < WORDS; i++)
        words[i] = atomic_load_explicit(&cell->trace[i], memory_order_relaxed);
    uint64_t value = atomic_load_explicit(&cell->value, memory_order_relaxed);
    uint64_t at_ms = atomic_load_explicit(&cell->at_ms, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&cell->version, memory_order_relaxed) != version || at_ms <= out->at_ms)
        return;
    *out = (struct sk_exemplar){.value = value, .at_ms = at_ms};
    memcpy(out->trace_id, words, sizeof words); // the rest is 0
}

void sk_distribution_read(const struct sk_distribution *distribution, struct sk_distributed *out)
{
    for (size_t i = 0; i <= SK_DISTRIBUTION_BOUNDS; i++) {
        out->counts[i] += atomic_load_explicit(&distribution->counts[i], memory_order_relaxed);
        distribution_read_exemplar(&distribution->exemplars[i], &out->exemplars[i]);
    }
    out->sum += atomic_load_explicit(&distribution->sum, memory_order_relaxed);
}

size_t sk_scale_bounds(enum sk_scale scale)
{
    return scale == SK_SCALE_SECONDS ? SK_DISTRIBUTION_BOUNDS : BOUNDS_ORDERS;
}

const char *sk_scale_bound(enum sk_scale scale, size_t i)
{
    static const char *const seconds[SK_DISTRIBUTION_BOUNDS] = {
        "0.0001", "0.0002", "0.0004", "0.0008", "0.0016", "0.0032", "0.0064", "0.0128", "0.0256",
        "0.0512", "0.1024", "0.2048", "0.4096", "0.8192", "1.6384", "3.2768", "6.5536", "13.1072"};
    static const char *const orders[BOUNDS_ORDERS] = {"1.0",  "2.0",   "4.0",   "8.0",   "16.0",   "32.0",
                                                      "64.0", "128.0", "256.0", "512.0", "1024.0", "2048.0"};
    return scale == SK_SCALE_SECONDS ? seconds[i] : orders[i];
}
