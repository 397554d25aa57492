// Durations and distributions of values. A histogram is precise and large: reports use it. A distribution is small and
// cheap: /metrics shows it. One thread writes each of them; any thread may read it.
//
// A histogram has the same relative precision from microseconds to minutes. The idea is HdrHistogram's
// (hdrhistogram.org): buckets grow with the value, with a few of the same width per octave. So the highest bit of a
// value finds its bucket. All open histograms of the process are in one list, each with a number for what it measures.
// Histograms of several threads with the same number are read as one.
#ifndef SK_BASE_HISTOGRAM_H
#define SK_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// Buckets are 12.5 us wide up to 0.2 ms. From there each octave has 8 buckets, so a bucket's width is at most an eighth
// of the values in it. The last bucket takes all values above 104 s.
enum {
    SK_HISTOGRAM_STEP_NS = 12500,
    SK_HISTOGRAM_OCTAVE_BITS = 3,
    SK_HISTOGRAM_VALUE_BITS = 23, // values with more bits than this, in steps, go into the last bucket
    SK_HISTOGRAM_LAST = (SK_HISTOGRAM_VALUE_BITS - SK_HISTOGRAM_OCTAVE_BITS + 1) << SK_HISTOGRAM_OCTAVE_BITS,
    SK_HISTOGRAM_BUCKETS,
};

struct sk_histogram;

// Gives an empty histogram of `what`. NULL: out of memory. Any thread, also for closing; closing NULL is fine.
struct sk_histogram *sk_histogram_open(int64_t what);
void sk_histogram_close(struct sk_histogram *histogram);

// The histogram's thread: the only one that writes it.
void sk_histogram_add(struct sk_histogram *histogram, uint64_t ns);

// A copy of all additions so far.
struct sk_durations {
    uint64_t counts[SK_HISTOGRAM_BUCKETS];
    uint64_t count, most_ns;
};

// Any thread. Reads all open histograms of `what` in the process as one. An addition that another thread makes
// meanwhile is included or not.
void sk_durations_read(int64_t what, struct sk_durations *durations);

// The least duration that at least this share (0 to 1) of the additions did not exceed, rounded up to the end of its
// bucket. 0: there are none.
uint64_t sk_durations_at(const struct sk_durations *durations, double share);

// When this process began to measure, by the wall clock. Any thread.
int64_t sk_durations_since_ms(void);

// The end of a bucket: no value in it is greater. UINT64_MAX for the last one.
uint64_t sk_durations_end_ns(size_t bucket);

// ---- distribution ----

// The sum of all values, and a count per bucket; each bucket is twice as wide as the one before. A bucket may hold an
// exemplar: its newest value that came with a trace id.

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
    uint64_t value, at_ms; // at_ms 0: there is none
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
