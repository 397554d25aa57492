// The short table of the servers of the stores.
#include "server_table.h"

#include "test.h"
#include <stdio.h>

static struct sk_server_table servers;
static struct sk_server_rows rows, seen;

static void setup(void)
{
    servers = (struct sk_server_table){.lock = PTHREAD_MUTEX_INITIALIZER};
    rows.count = seen.count = 0;
}

static void note(const char *store, const char *name, uint64_t n)
{
    struct sk_server_row *row = sk_server_table_row(&rows, store, name);
    ck_assert_ptr_nonnull(row);
    row->up = 1;
    row->lost = n;
    row->answers = 10 * n;
    row->answered_ns = 100 * n;
}

TEST(each_server_has_one_row)
{
    note("redis", "a:1", 1);
    note("redis", "b:1", 2);
    note("postgresql", "a:1", 3);
    note("redis", "a:1", 4);
    sk_server_table_publish(&servers, &rows);
    sk_server_table_read(&servers, &seen);
    sk_server_table_read(&servers, &seen); // as if another reactor had the same values
    ck_assert_uint_eq(seen.count, 3);
    ck_assert_str_eq(seen.rows[0].store, "redis");
    ck_assert_str_eq(seen.rows[0].name, "a:1");
    ck_assert_uint_eq(seen.rows[0].up, 2);
    ck_assert_uint_eq(seen.rows[0].lost, 8);
    ck_assert_uint_eq(seen.rows[0].answers, 80);
    ck_assert_uint_eq(seen.rows[0].answered_ns, 800);
    ck_assert_str_eq(seen.rows[2].store, "postgresql");
    ck_assert_uint_eq(seen.rows[2].lost, 6);
    // Who writes does not wait for a reader that has the lock.
    ck_assert_int_eq(pthread_mutex_lock(&servers.lock), 0);
    note("redis", "c:1", 1);
    sk_server_table_publish(&servers, &rows);
    ck_assert_int_eq(pthread_mutex_unlock(&servers.lock), 0);
    sk_server_table_read(&servers, &seen);
    ck_assert_uint_eq(seen.count, 3);
}

TEST(the_table_has_an_end_and_no_name_breaks_a_page)
{
    char name[16];
    note("redis", "/a\"b\\c\nd", 1); // it stands between quotation marks
    ck_assert_str_eq(rows.rows[0].name, "/a?b?c?d");
    note("redis", "/a\"b\\c\nd", 1);
    for (int i = 1; i < SK_SERVERS_MAX; i++) {
        (void)snprintf(name, sizeof name, "n:%d", i);
        note("redis", name, 1);
    }
    ck_assert_uint_eq(rows.count, SK_SERVERS_MAX);
    ck_assert_ptr_null(sk_server_table_row(&rows, "redis", "one more"));
    ck_assert_ptr_eq(sk_server_table_row(&rows, "redis", "n:1"), &rows.rows[1]);
}

SUITE(.setup = setup, .in_one_process = true);
