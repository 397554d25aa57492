// A reactor's counters can be read while it counts, and summed with those of others; and the table of units left.
#include <pthread.h>
#include <string.h>

#include "metrics.h"
#include "test.h"

enum { MANY = 200000, THREADS = 4, PLACED = 7 };

static struct sk_metrics metrics;

static void *count(void *arg)
{
    (void)arg;
    for (int i = 0; i < MANY; i++)
        sk_metrics_add(&metrics, SK_METRIC_ORDERS_PLACED, 2);
    return NULL;
}

TEST(a_counter_only_grows_for_its_readers)
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
    sk_metrics_add(NULL, SK_METRIC_REBUILDS, 1); // callers without metrics
    sk_metrics_set(NULL, SK_METRIC_REBUILDS, 1);
    sk_metrics_observe(NULL, SK_DISTRIBUTION_DURABLE, 1, 1);
    sk_metrics_answered(NULL, 1, PLACED);
    sk_metrics_took(NULL, 1, 1, 1);
}

// Samples with one name are consecutive, as both formats require, and the first has the help.
TEST(names_stand_together)
{
    const char *seen[SK_METRIC_COUNT + SK_DISTRIBUTION_COUNT];
    size_t count = 0;
    for (int i = 0; i < SK_METRIC_COUNT + SK_DISTRIBUTION_COUNT; i++) {
        const struct sk_metric_row *row = i < SK_METRIC_COUNT
                                              ? sk_metric_row((enum sk_metric)i)
                                              : sk_distribution_row((enum sk_distribution_id)(i - SK_METRIC_COUNT));
        bool first = row->help[0] != '\0';
        ck_assert_msg(first || (count > 0 && strcmp(seen[count - 1], row->name) == 0), "%s", row->name);
        for (size_t j = 0; first && j < count; j++)
            ck_assert_str_ne(seen[j], row->name);
        if (first)
            seen[count++] = row->name;
        ck_assert_int_eq(strncmp(row->name, "seckill_", 8), 0);
        size_t len = strlen(row->name);
        ck_assert_msg(row->counter == (strcmp(row->name + len - 6, "_total") == 0), "%s", row->name);
    }
}

static struct sk_metrics_sum sum;

TEST(blocks_are_read_as_one)
{
    struct sk_metrics *one = sk_metrics_open(), *other = sk_metrics_open();
    sk_metrics_sum(&sum, 1000);
    ck_assert_uint_eq(sum.values[SK_METRIC_JOURNAL_OLDEST], 0); // the journal is empty
    sk_metrics_add(one, SK_METRIC_ORDERS_PLACED, 5);
    sk_metrics_add(other, SK_METRIC_ORDERS_PLACED, 7);
    sk_metrics_set(one, SK_METRIC_VOUCHERS, 7);
    sk_metrics_set(one, SK_METRIC_VOUCHERS, 3); // a gauge is what was set last
    sk_metrics_set(other, SK_METRIC_VOUCHERS, 2);
    sk_metrics_set(one, SK_METRIC_JOURNAL_OLDEST, 400);
    sk_metrics_set(other, SK_METRIC_JOURNAL_OLDEST, 600);
    sk_metrics_set(other, SK_METRIC_ROUND_AT, 5000); // later than the read
    sk_metrics_observe(one, SK_DISTRIBUTION_BATCH_PG, 3, 1);
    sk_metrics_observe(other, SK_DISTRIBUTION_BATCH_PG, 4, 2);
    sk_metrics_answered(one, 1, PLACED);
    sk_metrics_answered(other, 1, PLACED);
    sk_metrics_took(other, SK_METRICS_ROUTES - 1, 1, 9);
    sk_metrics_sum(&sum, 1000);
    ck_assert_uint_eq(sum.values[SK_METRIC_ORDERS_PLACED], 12);
    ck_assert_uint_eq(sum.values[SK_METRIC_VOUCHERS], 3);
    ck_assert_uint_eq(sum.values[SK_METRIC_JOURNAL_OLDEST], 600);
    ck_assert_uint_eq(sum.values[SK_METRIC_ROUND_AT], 0);
    ck_assert_uint_eq(sum.distributions[SK_DISTRIBUTION_BATCH_PG].counts[2], 3);
    ck_assert_uint_eq(sum.distributions[SK_DISTRIBUTION_BATCH_PG].sum, 11);
    ck_assert_uint_eq(sum.answers[1][PLACED], 2);
    ck_assert_uint_eq(sum.durations[SK_METRICS_ROUTES - 1].counts[0], 9);
    sk_metrics_close(one);
    sk_metrics_sum(&sum, 1000);
    ck_assert_uint_eq(sum.values[SK_METRIC_ORDERS_PLACED], 7);
    sk_metrics_close(other);
    sk_metrics_close(NULL);
}

static void *come_and_go(void *arg)
{
    (void)arg;
    for (int i = 0; i < MANY / 1000; i++) {
        struct sk_metrics *block = sk_metrics_open();
        sk_metrics_add(block, SK_METRIC_ORDERS_PLACED, 2);
        sk_metrics_close(block);
    }
    return NULL;
}

TEST(blocks_may_come_and_go_while_they_are_read)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    for (int i = 0; i < MANY / 1000; i++) {
        sk_metrics_sum(&sum, 1000);
        ck_assert_uint_eq(sum.values[SK_METRIC_ORDERS_PLACED] % 2, 0);
        ck_assert_uint_le(sum.values[SK_METRIC_ORDERS_PLACED], 2 * THREADS);
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    sk_metrics_sum(&sum, 1000);
    ck_assert_uint_eq(sum.values[SK_METRIC_ORDERS_PLACED], 0);
}

static struct sk_remaining_rows rows, seen;

TEST(units_of_a_voucher_are_added_up)
{
    struct sk_remaining remaining = {.lock = PTHREAD_MUTEX_INITIALIZER};
    sk_remaining_note(&rows, 7, 5);
    sk_remaining_note(&rows, 9, 1);
    sk_remaining_note(&rows, 7, 3);
    sk_remaining_note(&rows, 8, 0);
    sk_remaining_publish(&remaining, &rows);
    sk_remaining_read(&remaining, &seen);
    sk_remaining_read(&remaining, &seen); // as if another reactor had the same values
    ck_assert_uint_eq(seen.count, 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(seen.rows[i].voucher_id, 9 - (int64_t)i);
    ck_assert_int_eq(seen.rows[0].units, 2);
    ck_assert_int_eq(seen.rows[1].units, 0);
    ck_assert_int_eq(seen.rows[2].units, 16);
    // Who writes does not wait for a reader that has the lock.
    rows.rows[0].units = 4;
    for (int round = 0; round < 2; round++) {
        if (round == 0)
            ck_assert_int_eq(pthread_mutex_lock(&remaining.lock), 0);
        sk_remaining_publish(&remaining, &rows);
        if (round == 0)
            ck_assert_int_eq(pthread_mutex_unlock(&remaining.lock), 0);
        seen.count = 0;
        sk_remaining_read(&remaining, &seen);
        ck_assert_int_eq(seen.rows[0].units, round == 0 ? 1 : 4);
    }
}

// Whatever the order in which they arrive.
TEST(the_highest_ids_have_the_room)
{
    rows.count = 0;
    for (int64_t i = 0; i < 3 * SK_REMAINING_MAX; i++)
        sk_remaining_note(&rows, 1 + i * 7 % (3 * SK_REMAINING_MAX), i);
    ck_assert_uint_eq(rows.count, SK_REMAINING_MAX);
    for (size_t i = 0; i < SK_REMAINING_MAX; i++) {
        ck_assert_int_eq(rows.rows[i].voucher_id, 3 * SK_REMAINING_MAX - (int64_t)i);
        ck_assert_int_eq(1 + rows.rows[i].units * 7 % (3 * SK_REMAINING_MAX), rows.rows[i].voucher_id);
    }
    sk_remaining_note(&rows, 1, 5);
    ck_assert_int_eq(rows.rows[SK_REMAINING_MAX - 1].voucher_id, 2 * SK_REMAINING_MAX + 1);
}
