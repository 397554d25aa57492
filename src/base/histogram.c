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
