// A histogram's results, checked against the samples themselves, and concurrent readers.
#include <pthread.h>
#include <stdlib.h>

#include "clock.h"
#include "draw.h"
#include "histogram.h"
#include "test.h"

enum { SAMPLES = 100000, OTHERS = 7, MINE = 3, MANY = 200000 };

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define MS           UINT64_C(1000000)
#define S            (1000 * MS)

static uint64_t samples[SAMPLES];
static struct sk_durations durations;

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

// Each value is in the first bucket whose end is not below it. A bucket is at most an eighth of its values wide, or one
// step.
TEST(a_value_is_in_its_narrow_bucket)
{
    for (size_t i = 0; i < SK_HISTOGRAM_LAST; i++) {
        struct sk_histogram *histogram = sk_histogram_open(MINE);
        uint64_t begin = i == 0 ? 0 : sk_durations_end_ns(i - 1) + 1, end = sk_durations_end_ns(i);
        ck_assert_uint_gt(end, begin);
        ck_assert_uint_eq((end + 1) % SK_HISTOGRAM_STEP_NS, 0);
        if (end + 1 - begin > SK_HISTOGRAM_STEP_NS)
            ck_assert_uint_le((end + 1 - begin) * 8, begin);
        sk_histogram_add(histogram, begin);
        sk_histogram_add(histogram, end);
        sk_histogram_add(histogram, end + 1);
        sk_durations_read(MINE, &durations);
        ck_assert_msg(durations.counts[i] == 2 && durations.counts[i + 1] == 1, "bucket %zu", i);
        ck_assert_uint_eq(durations.count, 3);
        sk_histogram_close(histogram);
    }
    ck_assert_uint_gt(sk_durations_end_ns(SK_HISTOGRAM_LAST - 1), 100 * S);
    ck_assert_uint_eq(sk_durations_end_ns(SK_HISTOGRAM_LAST), UINT64_MAX);
    // Nothing is read of none; the last bucket has no end.
    struct sk_histogram *histogram = sk_histogram_open(MINE);
    sk_durations_read(MINE, &durations);
    ck_assert_uint_eq(durations.count, 0);
    ck_assert_uint_eq(sk_durations_at(&durations, 0.5), 0);
    sk_histogram_add(histogram, 3600 * S);
    sk_histogram_add(histogram, UINT64_MAX);
    sk_histogram_add(histogram, MS);
    sk_durations_read(MINE, &durations);
    ck_assert_uint_eq(durations.counts[SK_HISTOGRAM_LAST], 2);
    ck_assert_uint_eq(durations.most_ns, UINT64_MAX);
    ck_assert_uint_eq(sk_durations_at(&durations, 0.5), UINT64_MAX);
    sk_histogram_close(histogram);
    sk_histogram_close(NULL);
}

static uint64_t exact_at(double share)
{
    size_t rank = 0;
    while ((double)(rank + 1) < share * SAMPLES)
        rank++;
    return samples[rank];
}

// Never below the exact percentile, and at most one bucket above.
TEST_EACH(percentiles_are_those_of_the_samples, 5)
{
    static const struct {
        uint64_t least, most;
    } ranges[] = {{0, 50 * MS}, {0, MS}, {MS / 10, 100 * S}, {5 * MS, 5 * MS}, {80 * S, 104 * S}};
    static const double shares[] = {0.001, 0.5, 0.9, 0.99, 0.999, 1};
    draw_seed = UINT64_C(88172645463325252) + (uint64_t)_i;
    struct sk_histogram *histogram = sk_histogram_open(MINE);
    for (size_t i = 0; i < SAMPLES; i++) {
        uint64_t span = ranges[_i].most - ranges[_i].least;
        // Small and large ones in equal numbers: each octave has its share.
        uint64_t value = span == 0 ? 0 : draw(span) >> draw(20);
        samples[i] = ranges[_i].least + value;
        sk_histogram_add(histogram, samples[i]);
    }
    qsort(samples, SAMPLES, sizeof samples[0], by_size);
    sk_durations_read(MINE, &durations);
    ck_assert_uint_eq(durations.count, SAMPLES);
    ck_assert_uint_eq(durations.most_ns, samples[SAMPLES - 1]);
    for (size_t i = 0; i < COUNT(shares); i++) {
        uint64_t is = sk_durations_at(&durations, shares[i]), exact = exact_at(shares[i]);
        ck_assert_msg(is >= exact && is <= exact + exact / 8 + SK_HISTOGRAM_STEP_NS, "%g: %llu instead of %llu",
                      shares[i], (unsigned long long)is, (unsigned long long)exact);
    }
    ck_assert_uint_eq(sk_durations_at(&durations, 1), samples[SAMPLES - 1]);
    sk_histogram_close(histogram);
}

TEST(all_of_the_same_thing_are_read_as_one)
{
    int64_t now_ms = (int64_t)sk_wall_ms(); // since when is known, too
    ck_assert_int_le(sk_durations_since_ms(), now_ms);
    ck_assert_int_gt(sk_durations_since_ms(), now_ms - 60000);
    struct sk_histogram *mine[3], *other = sk_histogram_open(OTHERS);
    for (size_t i = 0; i < COUNT(mine); i++) {
        mine[i] = sk_histogram_open(MINE);
        sk_histogram_add(mine[i], (i + 1) * MS);
    }
    sk_histogram_add(other, 9 * MS);
    sk_durations_read(MINE, &durations);
    ck_assert_uint_eq(durations.count, 3);
    ck_assert_uint_eq(durations.most_ns, 3 * MS);
    // Removes from the middle, the front and the end.
    for (size_t i = 0; i < COUNT(mine); i++) {
        sk_histogram_close(mine[(i + 1) % COUNT(mine)]);
        sk_durations_read(MINE, &durations);
        ck_assert_uint_eq(durations.count, 2 - i);
        sk_durations_read(OTHERS, &durations);
        ck_assert_uint_eq(durations.count, 1);
    }
    sk_histogram_close(other);
    sk_durations_read(OTHERS, &durations);
    ck_assert_uint_eq(durations.count, 0);
}

static void *add_and_close(void *arg)
{
    (void)arg;
    struct sk_histogram *histogram = sk_histogram_open(MINE);
    for (uint64_t i = 0; i < MANY; i++) {
        sk_histogram_add(histogram, i);
        if (i % 1000 == 0) { // others are added and removed meanwhile
            struct sk_histogram *beside = sk_histogram_open(OTHERS);
            sk_histogram_add(beside, i);
            sk_histogram_close(beside);
        }
    }
    return histogram;
}

TEST(others_read_while_one_adds)
{
    pthread_t thread;
    void *histogram;
    uint64_t seen = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, add_and_close, NULL), 0);
    while (seen < MANY) {
        sk_durations_read(OTHERS, &durations);
        sk_durations_read(MINE, &durations);
        ck_assert_uint_ge(durations.count, seen);
        seen = durations.count;
    }
    ck_assert_int_eq(pthread_join(thread, &histogram), 0);
    ck_assert_uint_eq(seen, MANY);
    sk_histogram_close(histogram);
}
