// Each histogram has one writer, so adding needs no locked instruction, as in metrics.c. The mutex guards the list and
// keeps a histogram from being freed while it is read. Adding never takes it.
#include "histogram.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "list.h"

struct sk_histogram {
    struct sk_list list; // must be first
    int64_t what;
    _Atomic uint64_t counts[SK_HISTOGRAM_BUCKETS];
    _Atomic uint64_t most_ns;
};

static pthread_mutex_t histogram_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sk_list histogram_open = {&histogram_open, &histogram_open}; // under the lock
static int64_t histogram_since_ms;                                         // set before main()

__attribute__((constructor)) static void histogram_begin(void)
{
    histogram_since_ms = (int64_t)sk_wall_ms();
}

struct sk_histogram *sk_histogram_open(int64_t what)
{
    struct sk_histogram *histogram = calloc(1, sizeof *histogram);
    if (histogram == NULL)
        return NULL;
    histogram->what = what;
    (void)pthread_mutex_lock(&histogram_lock);
    sk_list_add_last(&histogram->list, &histogram_open);
    (void)pthread_mutex_unlock(&histogram_lock);
    return histogram;
}

void sk_histogram_close(struct sk_histogram *histogram)
{
    if (histogram == NULL)
        return;
    (void)pthread_mutex_lock(&histogram_lock);
    sk_list_remove(&histogram->list);
    (void)pthread_mutex_unlock(&histogram_lock);
    free(histogram);
}

// ---- adding ----

// A value of up to 4 bits is its own bucket. Of a longer value the highest 4 bits count: the first is always set, and
// the others are the place in the octave.
static size_t histogram_bucket(uint64_t ns)
{
    uint64_t steps = ns / SK_HISTOGRAM_STEP_NS;
    if (steps >> SK_HISTOGRAM_VALUE_BITS != 0)
        return SK_HISTOGRAM_LAST;
    if (steps >> SK_HISTOGRAM_OCTAVE_BITS == 0)
        return (size_t)steps;
    unsigned highest = 63U - (unsigned)__builtin_clzll(steps), shift = highest - SK_HISTOGRAM_OCTAVE_BITS;
    return ((size_t)shift << SK_HISTOGRAM_OCTAVE_BITS) + (size_t)(steps >> shift);
}

void sk_histogram_add(struct sk_histogram *histogram, uint64_t ns)
{
    _Atomic uint64_t *count = &histogram->counts[histogram_bucket(ns)];
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1, memory_order_relaxed);
    if (ns > atomic_load_explicit(&histogram->most_ns, memory_order_relaxed))
        atomic_store_explicit(&histogram->most_ns, ns, memory_order_relaxed);
}

// ---- reading ----

void sk_durations_read(int64_t what, struct sk_durations *durations)
{
    memset(durations, 0, sizeof *durations);
    (void)pthread_mutex_lock(&histogram_lock);
    for (const struct sk_list *one = histogram_open.next; one != &histogram_open; one = one->next) {
        const struct sk_histogram *of = (const struct sk_histogram *)one;
        if (of->what != what)
            continue;
        for (size_t i = 0; i < SK_HISTOGRAM_BUCKETS; i++)
            durations->counts[i] += atomic_load_explicit(&of->counts[i], memory_order_relaxed);
        uint64_t most_ns = atomic_load_explicit(&of->most_ns, memory_order_relaxed);
        if (most_ns > durations->most_ns)
            durations->most_ns = most_ns;
    }
    (void)pthread_mutex_unlock(&histogram_lock);
    for (size_t i = 0; i < SK_HISTOGRAM_BUCKETS; i++)
        durations->count += durations->counts[i];
}

uint64_t sk_durations_at(const struct sk_durations *durations, double share)
{
    uint64_t seen = 0;
    for (size_t i = 0; i < SK_HISTOGRAM_BUCKETS; i++) {
        seen += durations->counts[i];
        if (seen > 0 && (double)seen >= share * (double)durations->count) {
            uint64_t end_ns = sk_durations_end_ns(i);
            return end_ns < durations->most_ns ? end_ns : durations->most_ns;
        }
    }
    return durations->most_ns;
}

int64_t sk_durations_since_ms(void)
{
    return histogram_since_ms;
}

uint64_t sk_durations_end_ns(size_t bucket)
{
    size_t octave = bucket >> SK_HISTOGRAM_OCTAVE_BITS, shift = octave == 0 ? 0 : octave - 1;
    if (bucket >= SK_HISTOGRAM_LAST)
        return UINT64_MAX;
    uint64_t steps = (bucket - (shift << SK_HISTOGRAM_OCTAVE_BITS)) + 1;
    return (steps << shift) * SK_HISTOGRAM_STEP_NS - 1;
}

// ---- distribution ----

// One writer, so adding is a relaxed load and a relaxed store, as in metrics.c. An exemplar has more than one word, so
// it has a version: a reader skips an exemplar that is being written.

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
