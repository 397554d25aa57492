// The short table of the units left in vouchers.
#include "metrics.h"
#include "test.h"

static struct sk_remaining remaining;
static struct sk_remaining_rows rows, seen;

static void setup(void)
{
    remaining = (struct sk_remaining){.lock = PTHREAD_MUTEX_INITIALIZER};
    rows.count = seen.count = 0;
}

TEST(units_of_a_voucher_are_added_up)
{
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
}

// Whatever the order in which they arrive.
TEST(the_highest_ids_have_the_room)
{
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

TEST(who_writes_does_not_wait)
{
    sk_remaining_note(&rows, 7, 5);
    sk_remaining_publish(&remaining, &rows);
    rows.rows[0].units = 4;
    ck_assert_int_eq(pthread_mutex_lock(&remaining.lock), 0); // a reader holds the lock
    sk_remaining_publish(&remaining, &rows);
    ck_assert_int_eq(pthread_mutex_unlock(&remaining.lock), 0);
    sk_remaining_read(&remaining, &seen);
    ck_assert_int_eq(seen.rows[0].units, 5);
    sk_remaining_publish(&remaining, &rows);
    seen.count = 0;
    sk_remaining_read(&remaining, &seen);
    ck_assert_int_eq(seen.rows[0].units, 4);
}

SUITE(.setup = setup);
