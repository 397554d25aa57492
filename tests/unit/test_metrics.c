// What a reactor counts can be read while it counts.
#include <pthread.h>

#include "metrics.h"
#include "stack.h"

enum { MANY = 200000 };

static struct sk_metrics metrics;

static void *count(void *arg)
{
    (void)arg;
    for (int i = 0; i < MANY; i++)
        sk_metrics_add(&metrics, SK_METRIC_ORDERS_PLACED, 2);
    return NULL;
}

START_TEST(a_counter_only_grows_for_its_readers)
{
    pthread_t thread;
    uint64_t seen = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, count, NULL), 0);
    while (seen < 2 * MANY) {
        uint64_t now = sk_metrics_read(&metrics, SK_METRIC_ORDERS_PLACED);
        if (now < seen || now % 2 != 0)
            ck_abort_msg("read %llu after %llu", (unsigned long long)now, (unsigned long long)seen);
        seen = now;
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_REBUILDS), 0);
}
END_TEST

START_TEST(a_gauge_is_what_was_set_last)
{
    sk_metrics_set(&metrics, SK_METRIC_VOUCHERS, 7);
    sk_metrics_set(&metrics, SK_METRIC_VOUCHERS, 3);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_VOUCHERS), 3);
    sk_metrics_add(NULL, SK_METRIC_REBUILDS, 1); // units that count nothing
    ck_assert_str_eq(sk_metric_name(SK_METRIC_VOUCHERS), "VOUCHERS");
    ck_assert_str_eq(sk_metric_name(SK_METRIC_ORDERS_TRIED), "ORDERS_TRIED");
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("metrics");
    tcase_add_test(tcase, a_counter_only_grows_for_its_readers);
    tcase_add_test(tcase, a_gauge_is_what_was_set_last);
    return harness_main(tcase, CK_FORK);
}
