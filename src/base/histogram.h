// How long things took, and how values are distributed. A histogram is precise and large: reports are made from it. A
// distribution is small and cheap: /metrics shows it. Both are written by one thread and read by any.
//
// A histogram has the same relative precision from microseconds to minutes. The idea is HdrHistogram's
// (hdrhistogram.org): buckets that grow with the value, a few of the same width for each octave, so that a value's
// bucket is found by its highest bit. All open histograms of the process stand in one list, by a number that says what
// they measure; several threads' histograms of one thing are read as one.
#ifndef SK_BASE_HISTOGRAM_H
#define SK_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// Steps of 12.5 us up to 0.2 ms, and from there 8 to each octave, so that a bucket is at most an eighth wider than what
// is in it; the last one is for all above 104 s.
enum {
    SK_HISTOGRAM_STEP_NS = 12500,
    SK_HISTOGRAM_OCTAVE_BITS = 3,
    SK_HISTOGRAM_VALUE_BITS = 23, // a value of more steps than this has bits is in the last bucket
    SK_HISTOGRAM_LAST = (SK_HISTOGRAM_VALUE_BITS - SK_HISTOGRAM_OCTAVE_BITS + 1) << SK_HISTOGRAM_OCTAVE_BITS,
    SK_HISTOGRAM_BUCKETS,
};

struct sk_histogram;

// Gives a histogram of `what`, empty. NULL: out of memory. Any thread, as the closing; NULL is fine.
struct sk_histogram *sk_histogram_open(int64_t what);
void sk_histogram_close(struct sk_histogram *histogram);

// Its thread: the one that writes it.
void sk_histogram_add(struct sk_histogram *histogram, uint64_t ns);

// What was added up to now.
struct sk_durations {
    uint64_t counts[SK_HISTOGRAM_BUCKETS];
    uint64_t count, most_ns;
};

// All of the process that are open and of `what`, as one. Any thread; while others add, each of their additions is in
// it or is not.
void sk_durations_read(int64_t what, struct sk_durations *durations);

// The least time that at least this share of them did not exceed (0 to 1), rounded up to the end of its bucket. 0:
// there are none.
uint64_t sk_durations_at(const struct sk_durations *durations, double share);

// When this process began to measure, by the wall clock. Any thread.
int64_t sk_durations_since_ms(void);

// The end of a bucket: no value in it is greater. Of the last one UINT64_MAX.
uint64_t sk_durations_end_ns(size_t bucket);

// ---- distribution ----

// Counts per bucket, each twice as wide as the one before, and the sum of all values. A bucket may hold an exemplar:
// the newest value that came with a trace id.

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
