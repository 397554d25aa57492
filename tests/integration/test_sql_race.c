// place_orders() from several connections concurrently.
#include <stdio.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

// ---- concurrency ----

enum { WRITERS = 4, BATCH = 40, ROUNDS = 12, UNITS = 1500, SAME_USER_ROUNDS = 100 };

TEST(batches_of_several_connections_never_oversell)
{
    static char users[BATCH][16];
    PGconn *writers[WRITERS];
    int placed = 0, sold_out = 0;
    sql_make_voucher(UNITS);
    for (int w = 0; w < WRITERS; w++)
        writers[w] = sql_connect();
    for (int round = 0; round < ROUNDS; round++) {
        for (int w = 0; w < WRITERS; w++) {
            struct sql_order orders[BATCH];
            for (int i = 0; i < BATCH; i++) {
                int number = (round * WRITERS + w) * BATCH + i + 1;
                (void)snprintf(users[i], sizeof users[i], "user-%d", number);
                orders[i] = (struct sql_order){number, users[i]};
            }
            sql_send_batch(writers[w], "3", BATCH, orders);
        }
        for (int w = 0; w < WRITERS; w++) {
            PGresult *result = sql_receive(writers[w]);
            int each = PQgetisnull(result, 0, 0) ? BATCH : 1; // one row may stand for all orders
            for (int row = 0; row < PQntuples(result); row++) {
                placed += each * (strcmp(PQgetvalue(result, row, 1), "placed") == 0);
                sold_out += each * (strcmp(PQgetvalue(result, row, 1), "sold_out") == 0);
            }
            PQclear(result);
        }
    }
    for (int w = 0; w < WRITERS; w++)
        PQfinish(writers[w]);
    ck_assert_int_eq(placed, UNITS);
    ck_assert_int_eq(sold_out, WRITERS * BATCH * ROUNDS - UNITS);
    sql_must_have(UNITS, 0);
}

// Two instances race for one user: there is one order, and the other instance gets its id.
TEST(of_two_connections_one_gets_the_user)
{
    PGconn *other = sql_connect();
    sql_make_voucher(SAME_USER_ROUNDS);
    for (int round = 0; round < SAME_USER_ROUNDS; round++) {
        char user[16];
        int id = 2 * round + 1;
        (void)snprintf(user, sizeof user, "user-%d", round);
        sql_send_batch(sql_service, "3", 1, ORDERS({id, user}));
        sql_send_batch(other, "3", 1, ORDERS({id + 1, user}));
        PGresult *one = sql_receive(sql_service), *two = sql_receive(other);
        bool first_wins = strcmp(PQgetvalue(one, 0, 1), "placed") == 0;
        sql_must_end(one, 1, first_wins ? ENDS({"placed", 0}) : ENDS({"duplicate", id + 1}));
        sql_must_end(two, 1, first_wins ? ENDS({"duplicate", id}) : ENDS({"placed", 0}));
    }
    PQfinish(other);
    sql_must_have(SAME_USER_ROUNDS, 0);
}

// The same batch twice at once, as when an instance and recovery both settle it.
TEST(one_batch_from_two_connections_is_placed_once)
{
    PGconn *other = sql_connect();
    sql_make_voucher(2 * SAME_USER_ROUNDS);
    for (int round = 0; round < SAME_USER_ROUNDS; round++) {
        char user[16], second_user[16];
        int id = 2 * round + 1;
        (void)snprintf(user, sizeof user, "user-%d", id);
        (void)snprintf(second_user, sizeof second_user, "user-%d", id + 1);
        sql_send_batch(sql_service, "3", 2, ORDERS({id, user}, {id + 1, second_user}));
        sql_send_batch(other, "3", 2, ORDERS({id + 1, second_user}, {id, user}));
        PGresult *one = sql_receive(sql_service), *two = sql_receive(other);
        bool first_wins = strcmp(PQgetvalue(one, 0, 1), "placed") == 0;
        sql_must_end(one, 2,
                     first_wins ? ENDS({"placed", 0}, {"placed", 0})
                                : ENDS({"already_placed", 0}, {"already_placed", 0}));
        sql_must_end(two, 2,
                     first_wins ? ENDS({"already_placed", 0}, {"already_placed", 0})
                                : ENDS({"placed", 0}, {"placed", 0}));
    }
    PQfinish(other);
    sql_must_have(2 * SAME_USER_ROUNDS, 0);
}

static bool waits_for_a_lock(void)
{
    return db_number("SELECT count(*) FROM pg_stat_activity WHERE usename = 'seckill' AND wait_event_type = 'Lock'") ==
           1;
}

// The batch was sent before a rebuild of the voucher, and arrives during it.
TEST(a_batch_that_waits_out_a_new_epoch_is_fenced_off)
{
    sql_make_voucher(10);
    PGconn *loader = db_connect();
    PQclear(PQexec(loader, "BEGIN"));
    const char *params[] = {sql_slot, sql_voucher, "0", "200"};
    PGresult *epoch =
        PQexecParams(loader, sk_statements[SK_STATEMENT_REBUILD_EPOCH].text, 4, NULL, params, NULL, NULL, 0);
    ck_assert_str_eq(PQgetvalue(epoch, 0, 0), "4");
    PQclear(epoch);
    sql_send_batch(sql_service, "3", 2, ORDERS({1, "alice"}, {2, "bob"}));
    WAIT_FOR(waits_for_a_lock());
    PQclear(PQexec(loader, "COMMIT"));
    sql_must_end(sql_receive(sql_service), 2, ENDS({"stale", 0}, {"stale", 0}));
    PQfinish(loader);
    sql_must_have(0, 10);
    PLACE("4", ORDERS({1, "alice"}), ENDS({"placed", 0}));
}

TEST(a_batch_that_is_rolled_back_leaves_nothing)
{
    sql_make_voucher(10);
    PQclear(PQexec(sql_service, "BEGIN"));
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    PQclear(PQexec(sql_service, "ROLLBACK"));
    sql_must_have(0, 10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    sql_must_have(2, 8);
}

SUITE(.begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
