// How vouchers are located, and the cost of reading an account.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slot.h"
#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

TEST(a_slot_is_redis_clusters)
{
    static const struct {
        const char *tag;
        int slot;
    } known[] = {{"123456789", 12739}, {"", 0}, {"foo", 12182}, {"user1000", 3443}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        ck_assert_int_eq(db_number("SELECT slot_of('%s')", known[i].tag), known[i].slot);
}

TEST(a_slot_is_the_same_in_c)
{
    PGconn *conn = db_connect();
    PGresult *tags = PQexec(conn, "SELECT t, slot_of(t) FROM (SELECT n::text AS t FROM generate_series(1, 300) n"
                                  " UNION ALL SELECT n || '.' || n % 16 || '.' || n * 7 FROM generate_series(1, 300) n"
                                  " UNION ALL SELECT md5(n::text) || '\xc3\xbc' FROM generate_series(1, 300) n) tags");
    ck_assert_int_eq(PQntuples(tags), 900);
    for (int i = 0; i < 900; i++) {
        const char *tag = PQgetvalue(tags, i, 0);
        ck_assert_int_eq(atoi(PQgetvalue(tags, i, 1)), sk_slot(tag, strlen(tag)));
    }
    PQclear(tags);
    PQfinish(conn);
}

TEST(a_voucher_is_named_by_its_slot_and_id)
{
    char slots[32], vouchers[64], first[24], first_slot[8];
    sql_make_voucher(10);
    memcpy(first, sql_voucher, sizeof first);
    memcpy(first_slot, sql_slot, sizeof first_slot);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    sql_make_voucher(5);
    (void)snprintf(slots, sizeof slots, "{%s,%s,%s}", sql_slot, first_slot, sql_slot);
    (void)snprintf(vouchers, sizeof vouchers, "{%s,%s,%s}", sql_voucher, first, first); // the last has the wrong slot
    PGresult *accounts = SQL_RUN(SK_STATEMENT_VOUCHER_ACCOUNTS, slots, vouchers);
    ck_assert_int_eq(PQntuples(accounts), 2);
    for (int row = 0; row < 2; row++) {
        bool is_first = strcmp(PQgetvalue(accounts, row, 1), first) == 0;
        ck_assert_str_eq(PQgetvalue(accounts, row, 0), is_first ? first_slot : sql_slot);
        ck_assert_str_eq(PQgetvalue(accounts, row, 2), "3");
        ck_assert_str_eq(PQgetvalue(accounts, row, 5), is_first ? "8" : "5");
        ck_assert_str_eq(PQgetvalue(accounts, row, 6), is_first ? "2" : "0");
    }
    PQclear(accounts);
    memcpy(sql_slot, first_slot, sizeof sql_slot);
    PLACE("3", ORDERS({3, "carol"}), ENDS({"stale", 0})); // the slot has no such voucher
}

// Lines of the plan that read orders: returns their number, and whether any scans the whole table.
static int reads_of_orders(bool *whole)
{
    char sql[256];
    int executed = 0;
    PGconn *conn = db_connect();
    sql_see_through(conn);
    (void)snprintf(sql, sizeof sql,
                   "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT * FROM voucher_accounts('{%s}', '{%s}')", sql_slot,
                   sql_voucher);
    PGresult *plan = PQexec(conn, sql);
    ck_assert_msg(PQresultStatus(plan) == PGRES_TUPLES_OK, "%s", PQerrorMessage(conn));
    ck_assert_int_gt(PQntuples(plan), 5); // not hidden in a function call
    *whole = false;
    for (int i = 0; i < PQntuples(plan); i++) {
        const char *line = PQgetvalue(plan, i, 0);
        if (strstr(line, " on voucher_order") == NULL)
            continue;
        *whole = *whole || strstr(line, "Seq Scan") != NULL;
        executed += strstr(line, "never executed") == NULL;
    }
    PQclear(plan);
    PQfinish(conn);
    return executed;
}

TEST(an_account_costs_the_same_however_many_orders_there_are)
{
    enum { MANY = 20000 };
    bool whole;
    sql_make_voucher(MANY + 10);
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id)"
           " SELECT gen_random_uuid(), %s, 'u' || n, %s FROM generate_series(1, %d) n",
           sql_slot, sql_voucher, MANY);
    db_run("UPDATE voucher_stock SET live = %d, stock = 10 WHERE voucher_id = %s", MANY, sql_voucher);
    ck_assert_int_eq(reads_of_orders(&whole), 0);
    ck_assert(!whole);
    db_run("ANALYZE voucher_order");
    ck_assert_int_eq(reads_of_orders(&whole), 0);
    ck_assert(!whole);
    // With an open letter its orders are looked up one by one.
    PQclear(SQL_RUN(SK_STATEMENT_SET_ASIDE, sql_slot, sql_voucher, "10-1", "\\x00", SQL_ID1 " alice", "why", "0"));
    ck_assert_int_eq(reads_of_orders(&whole), 2);
    ck_assert(!whole);
}

SUITE(.begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
