// Queries for waiting requests: which orders have moved, and which have another status than the known one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

enum { SEEN_SIZE = 1024, MOST = 5001, STATEMENT_SIZE = 512 };

static char seen[SEEN_SIZE]; // empty: nothing yet

// The ids of the orders that have moved since the last call, in order.
static void must_have_moved(size_t count, const char *const *ids)
{
    PGresult *moved = SQL_RUN(SK_STATEMENT_ORDERS_MOVED, seen[0] == '\0' ? NULL : seen);
    ck_assert_uint_eq((size_t)PQntuples(moved), count + 1);
    ck_assert(PQgetisnull(moved, 0, 1));
    (void)snprintf(seen, sizeof seen, "%s", PQgetvalue(moved, 0, 0));
    for (size_t i = 0; i < count; i++)
        ck_assert_str_eq(PQgetvalue(moved, (int)i + 1, 1), ids[i]);
    PQclear(moved);
}

#define MUST_HAVE_MOVED(...) \
    must_have_moved(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]){__VA_ARGS__})

static void run(PGconn *conn, const char *statement)
{
    PGresult *result = PQexec(conn, statement);
    ck_assert_msg(PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK, "%s",
                  PQerrorMessage(conn));
    PQclear(result);
}

static void move(PGconn *conn, const char *id)
{
    char statement[STATEMENT_SIZE];
    (void)snprintf(statement, sizeof statement,
                   "INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom)"
                   " VALUES (%s, %s, '%s', 'paid', 'test')",
                   sql_slot, sql_voucher, id);
    run(conn, statement);
}

static void setup(void)
{
    sql_setup();
    seen[0] = '\0';
    sql_make_voucher(10);
}

TEST(a_move_is_told_once)
{
    PGconn *shop = db_connect();
    move(shop, SQL_ID1); // before anyone has asked
    must_have_moved(0, NULL);
    must_have_moved(0, NULL);
    move(shop, SQL_ID2);
    move(shop, SQL_ID1);
    MUST_HAVE_MOVED(SQL_ID2, SQL_ID1);
    must_have_moved(0, NULL);
    PQfinish(shop);
}

// Transactions commit in another order than they began: no move is missed, and none waits for another.
TEST(transactions_overlap)
{
    PGconn *first = db_connect(), *second = db_connect(), *third = db_connect();
    must_have_moved(0, NULL);
    run(first, "BEGIN");
    move(first, SQL_ID1);
    run(second, "BEGIN");
    move(second, SQL_ID2);
    move(third, SQL_ID3);
    MUST_HAVE_MOVED(SQL_ID3);
    run(second, "COMMIT");
    MUST_HAVE_MOVED(SQL_ID2);
    move(third, SQL_ID3);
    MUST_HAVE_MOVED(SQL_ID3);
    run(first, "COMMIT");
    MUST_HAVE_MOVED(SQL_ID1);
    run(first, "BEGIN");
    move(first, SQL_ID1);
    run(first, "ROLLBACK");
    must_have_moved(0, NULL);
    PQfinish(first);
    PQfinish(second);
    PQfinish(third);
}

TEST(there_is_a_most)
{
    must_have_moved(0, NULL);
    db_run("INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom)"
           " SELECT %s, %s, '" SQL_ID1 "', 'paid', 'test' FROM generate_series(1, %d)",
           sql_slot, sql_voucher, MOST * 2);
    PGresult *moved = SQL_RUN(SK_STATEMENT_ORDERS_MOVED, seen);
    ck_assert_int_eq(PQntuples(moved), MOST + 1);
    PQclear(moved);
}

enum { MANY = 50000, FEW = 10 };

static void move_many(PGconn *conn)
{
    char statement[STATEMENT_SIZE];
    (void)snprintf(statement, sizeof statement,
                   "INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom)"
                   " SELECT %s, %s, '" SQL_ID1 "', 'paid', 'test' FROM generate_series(1, %d)",
                   sql_slot, sql_voucher, MANY);
    run(conn, statement);
    db_run("ANALYZE order_event");
}

static int entries_read(void)
{
    PGresult *read = PQexec(sql_service, "SELECT pg_stat_get_xact_tuples_returned('order_event_pkey'::regclass),"
                                         " pg_stat_get_xact_tuples_returned('order_event'::regclass)");
    ck_assert_str_eq(PQgetvalue(read, 0, 1), "0"); // no row without the index
    int entries = atoi(PQgetvalue(read, 0, 0));
    PQclear(read);
    return entries;
}

// Returns how many entries of the index are read for these moves, also those whose rows are not visible.
static int read_for(size_t count, const char *const *ids)
{
    run(sql_service, "BEGIN");
    int before = entries_read(); // by statements that are not in the server's statistics yet
    must_have_moved(count, ids);
    int entries = entries_read() - before;
    run(sql_service, "COMMIT");
    return entries;
}

// However many events there are, the index finds the newest.
TEST(it_costs_what_has_moved)
{
    PGconn *shop = db_connect();
    move_many(shop);
    must_have_moved(0, NULL);
    ck_assert_int_lt(read_for(0, NULL), FEW);
    PQfinish(shop);
}

// A transaction that is open all the time, of any tool, makes no move be read again.
TEST(an_open_transaction_costs_nothing)
{
    PGconn *tool = db_connect(), *shop = db_connect();
    run(tool, "BEGIN");
    run(tool, "SELECT pg_current_xact_id()");
    must_have_moved(0, NULL);
    move_many(shop);
    seen[0] = '\0'; // too many: waiting.c asks for its orders one by one
    must_have_moved(0, NULL);
    ck_assert_int_lt(read_for(0, NULL), FEW);
    move(shop, SQL_ID2);
    ck_assert_int_lt(read_for(1, (const char *const[]){SQL_ID2}), FEW);
    run(tool, "COMMIT");
    ck_assert_int_lt(read_for(0, NULL), FEW);
    PQfinish(tool);
    PQfinish(shop);
}

// Nor are the many moves of one that has not ended, beside others that do.
TEST(moves_that_are_not_committed_cost_nothing)
{
    PGconn *tool = db_connect(), *shop = db_connect();
    must_have_moved(0, NULL);
    run(tool, "BEGIN");
    move_many(tool);
    ck_assert_int_lt(read_for(0, NULL), FEW);
    move(shop, SQL_ID2);
    MUST_HAVE_MOVED(SQL_ID2); // its number is higher, so those of the open one were looked at, once
    move(shop, SQL_ID3);
    ck_assert_int_lt(read_for(1, (const char *const[]){SQL_ID3}), FEW);
    run(tool, "ROLLBACK");
    must_have_moved(0, NULL);
    ck_assert_int_lt(read_for(0, NULL), FEW);
    PQfinish(tool);
    PQfinish(shop);
}

// The changed rows: the order's number, and its status or "" if it is another user's.
static void must_have_changed(const char *known, size_t count, const char *const (*rows)[2])
{
    char slots[SEEN_SIZE];
    (void)snprintf(slots, sizeof slots, "{%s,%s,%s}", sql_slot, sql_slot, sql_slot);
    PGresult *changed =
        SQL_RUN(SK_STATEMENT_ORDERS_CHANGED, slots, "{" SQL_ID1 "," SQL_ID2 "," SQL_ID3 "}", "{alice,eve,carl}", known);
    ck_assert_uint_eq((size_t)PQntuples(changed), count);
    for (size_t i = 0; i < count; i++) {
        ck_assert_str_eq(PQgetvalue(changed, (int)i, 0), rows[i][0]);
        if (rows[i][1][0] == '\0')
            ck_assert(PQgetisnull(changed, (int)i, 1));
        else
            ck_assert_ptr_nonnull(strstr(PQgetvalue(changed, (int)i, 1), rows[i][1]));
    }
    PQclear(changed);
}

TEST(what_has_changed)
{
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id)"
           " VALUES ('" SQL_ID1 "', %s, 'alice', %s), ('" SQL_ID2 "', %s, 'bob', %s)",
           sql_slot, sql_voucher, sql_slot, sql_voucher);
    must_have_changed("{unpaid,unpaid,pending}", 0, NULL);
    must_have_changed("{pending,pending,pending}", 2,
                      (const char *const[][2]){{"1", "\"unpaid\""}, {"2", ""}}); // and no row for the third
    must_have_changed("{unpaid,unpaid,\"\"}", 0, NULL);
    must_have_changed("{\"\",unpaid,pending}", 1, (const char *const[][2]){{"1", "\"unpaid\""}});
    db_run("UPDATE voucher_order SET status = 'cancelled' WHERE id = '" SQL_ID1 "'");
    must_have_changed("{unpaid,unpaid,pending}", 1, (const char *const[][2]){{"1", "\"cancelled\""}});
}

SUITE(.timeout_s = 60, .begin = sql_start, .setup = setup, .teardown = sql_teardown, .in_one_process = true);
