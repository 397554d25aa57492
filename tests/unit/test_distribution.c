// Buckets of values, and that a reader never sees half an exemplar.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "distribution.h"
#include "test.h"

enum { MANY = 100000 };

#define MS UINT64_C(1000000)

static struct sk_distribution distribution;
static struct sk_distributed seen;

static size_t bucket_of(enum sk_scale scale, uint64_t value)
{
    size_t found = SK_DISTRIBUTION_BOUNDS + 1;
    memset(&distribution, 0, sizeof distribution);
    memset(&seen, 0, sizeof seen);
    sk_distribution_add(&distribution, scale, value, 3);
    sk_distribution_read(&distribution, &seen);
    for (size_t i = 0; i <= SK_DISTRIBUTION_BOUNDS; i++) {
        if (seen.counts[i] == 0)
            continue;
        ck_assert_uint_eq(seen.counts[i], 3);
        ck_assert_uint_gt(found, SK_DISTRIBUTION_BOUNDS); // in exactly one
        found = i;
    }
    ck_assert_uint_eq(seen.sum, 3 * value);
    return found;
}

// A value is in the first bucket whose bound is not below it: the meaning of Prometheus's `le`.
TEST(values_are_in_their_buckets)
{
    for (int i = SK_SCALE_SECONDS; i <= SK_SCALE_ORDERS; i++) {
        enum sk_scale scale = (enum sk_scale)i;
        size_t bounds = sk_scale_bounds(scale);
        for (size_t bucket = 0; bucket < bounds; bucket++) {
            double bound = strtod(sk_scale_bound(scale, bucket), NULL);
            uint64_t value = (uint64_t)(scale == SK_SCALE_SECONDS ? bound * 1e9 + 0.5 : bound);
            ck_assert_uint_eq(value, (scale == SK_SCALE_SECONDS ? MS / 10 : 1) << bucket);
            ck_assert_uint_eq(bucket_of(scale, value), bucket);
            ck_assert_uint_eq(bucket_of(scale, value + 1), bucket + 1);
        }
        ck_assert_uint_eq(bounds, scale == SK_SCALE_SECONDS ? SK_DISTRIBUTION_BOUNDS : 12);
        ck_assert_uint_eq(bucket_of(scale, 0), 0);
        ck_assert_uint_eq(bucket_of(scale, UINT64_C(1) << 60), bounds);
    }
}

TEST(the_newest_exemplar_counts)
{
    static const char first[] = "11111111111111111111111111111111", second[] = "22222222222222222222222222222222",
                      third[] = "33333333333333333333333333333333";
    struct sk_distribution other = {0};
    memset(&distribution, 0, sizeof distribution);
    memset(&seen, 0, sizeof seen);
    sk_distribution_mark(&distribution, SK_SCALE_SECONDS, 5 * MS, first, 1000);
    sk_distribution_mark(&distribution, SK_SCALE_SECONDS, 6 * MS, second, 3000);
    sk_distribution_mark(&other, SK_SCALE_SECONDS, 5 * MS, third, 2000);
    sk_distribution_read(&distribution, &seen);
    sk_distribution_read(&other, &seen);
    ck_assert_uint_eq(seen.exemplars[6].at_ms, 3000);
    ck_assert_uint_eq(seen.exemplars[6].value, 6 * MS);
    ck_assert_str_eq(seen.exemplars[6].trace_id, second);
    ck_assert_uint_eq(seen.exemplars[5].at_ms, 0);
}

static void *mark(void *arg)
{
    char trace[SK_EXEMPLAR_CHARS];
    (void)arg;
    for (uint64_t i = 1; i <= MANY; i++) {
        memset(trace, (int)('!' + i % 91), sizeof trace);
        sk_distribution_mark(&distribution, SK_SCALE_ORDERS, 1, trace, i);
    }
    return NULL;
}

TEST(an_exemplar_is_read_whole)
{
    pthread_t thread;
    memset(&distribution, 0, sizeof distribution);
    ck_assert_int_eq(pthread_create(&thread, NULL, mark, NULL), 0);
    memset(&seen, 0, sizeof seen);
    while (seen.exemplars[0].at_ms < MANY) {
        sk_distribution_read(&distribution, &seen);
        const struct sk_exemplar *exemplar = &seen.exemplars[0];
        for (size_t i = 0; exemplar->at_ms != 0 && i < SK_EXEMPLAR_CHARS; i++)
            ck_assert_int_eq(exemplar->trace_id[i], (int)('!' + exemplar->at_ms % 91));
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
