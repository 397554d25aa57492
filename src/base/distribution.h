// The sum of all values, and a count per bucket; each bucket is twice as wide as the one before. A bucket may hold an
// exemplar: its newest value that came with a trace id.
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
    _Atomic uint32_t version; // odd: being written; 0: never written
    _Atomic uint64_t trace[SK_EXEMPLAR_CHARS / 8], value, at_ms;
};

// Starts zeroed.
struct sk_distribution {
    _Atomic uint64_t counts[SK_DISTRIBUTION_BOUNDS + 1], sum;
    struct sk_exemplar_cell exemplars[SK_DISTRIBUTION_BOUNDS + 1];
};

// The distribution's thread. Adds the same value `n` times.
void sk_distribution_add(struct sk_distribution *distribution, enum sk_scale scale, uint64_t value, uint64_t n);
// Keeps an added value as an exemplar, with its trace id: SK_EXEMPLAR_CHARS hexadecimal digits. at_ms: Unix time.
void sk_distribution_mark(struct sk_distribution *distribution, enum sk_scale scale, uint64_t value,
                          const char *trace_id, uint64_t at_ms);

// The contents of one or several distributions at the time of reading. Starts zeroed.
struct sk_exemplar {
    uint64_t value, at_ms; // at_ms 0: no exemplar
    char trace_id[SK_EXEMPLAR_CHARS + 1];
};

struct sk_distributed {
    uint64_t counts[SK_DISTRIBUTION_BOUNDS + 1], sum;
    struct sk_exemplar exemplars[SK_DISTRIBUTION_BOUNDS + 1]; // the newest of several
};

// Any thread. Adds the distribution's contents to *out.
void sk_distribution_read(const struct sk_distribution *distribution, struct sk_distributed *out);

// The number of a scale's bounds, and each bound as text. The bucket after the last bound has none.
size_t sk_scale_bounds(enum sk_scale scale);
const char *sk_scale_bound(enum sk_scale scale, size_t i);

#endif
