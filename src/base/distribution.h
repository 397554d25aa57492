// How values are distributed: counts per bucket, each twice as wide as the one before, and the sum of all. For what
// metrics are read from (metrics.h): smaller and cheaper than a histogram (histogram.h), and less precise. One writer,
// any readers.
//
// A bucket may hold an exemplar: the newest value that came with a trace id.
#ifndef SK_BASE_DISTRIBUTION_H
#define SK_BASE_DISTRIBUTION_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { SK_DISTRIBUTION_BOUNDS = 18, SK_EXEMPLAR_CHARS = 32 };

enum sk_scale {
    SK_SCALE_SECONDS, // values are ns; bounds from 0.1 ms to 13.1 s
    SK_SCALE_ORDERS,  // bounds from 1 to 2048
};

struct sk_exemplar_cell {
    _Atomic uint32_t version; // odd: it is being written; 0: never was
    _Atomic uint64_t trace[SK_EXEMPLAR_CHARS / 8], value, at_ms;
};

// Starts zeroed.
struct sk_distribution {
    _Atomic uint64_t counts[SK_DISTRIBUTION_BOUNDS + 1], sum;
    struct sk_exemplar_cell exemplars[SK_DISTRIBUTION_BOUNDS + 1];
};

// Its thread. `n` values that are all the same.
void sk_distribution_add(struct sk_distribution *distribution, enum sk_scale scale, uint64_t value, uint64_t n);
// Keeps an exemplar of a value that was added: its trace id, SK_EXEMPLAR_CHARS hexadecimal digits. at_ms: Unix time.
void sk_distribution_mark(struct sk_distribution *distribution, enum sk_scale scale, uint64_t value,
                          const char *trace_id, uint64_t at_ms);

// What one or several of them held when they were read. Starts zeroed.
struct sk_exemplar {
    uint64_t value, at_ms; // at_ms 0: there is none
    char trace_id[SK_EXEMPLAR_CHARS + 1];
};

struct sk_distributed {
    uint64_t counts[SK_DISTRIBUTION_BOUNDS + 1], sum;
    struct sk_exemplar exemplars[SK_DISTRIBUTION_BOUNDS + 1]; // of several the newest
};

// Any thread. Adds what the distribution holds.
void sk_distribution_read(const struct sk_distribution *distribution, struct sk_distributed *out);

// How many bounds a scale has, and each as text; the bucket after the last one has none.
size_t sk_scale_bounds(enum sk_scale scale);
const char *sk_scale_bound(enum sk_scale scale, size_t i);

#endif
