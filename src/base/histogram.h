// Durations, for reports: precise and large (/metrics shows distributions, which are small). One thread writes each
// histogram; any thread may read it.
//
// It has the same relative precision from microseconds to minutes. The idea is HdrHistogram's
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

#endif
