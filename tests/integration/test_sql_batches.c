// place_batches(): orders of several vouchers in one transaction.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { VOUCHERS = 3 };

static char vouchers[VOUCHERS][24], slots[VOUCHERS][8];

static void make_vouchers(int stock)
{
    for (int i = 0; i < VOUCHERS; i++) {
        sql_make_voucher(stock);
        memcpy(vouchers[i], sql_voucher, sizeof vouchers[i]);
        memcpy(slots[i], sql_slot, sizeof slots[i]);
    }
}

static void must_have(int voucher, int64_t live, int64_t left)
{
    memcpy(sql_voucher, vouchers[voucher], sizeof sql_voucher);
    memcpy(sql_slot, slots[voucher], sizeof sql_slot);
    sql_must_have(live, left);
}

struct part {
    int voucher;
    const char *epoch, *journal; // NULL: none
    int count;
};

// Sends these parts in order; `orders` has the orders of all of them.
static void send_parts(PGconn *conn, size_t n, const struct part *parts, const struct sql_order *orders)
{
    struct sk_buf arrays[7] = {0};
    size_t count = 0;
    for (int i = 0; i < 7; i++)
        sk_buf_puts(&arrays[i], i == 4 || i == 5 ? "" : "{");
    for (size_t i = 0; i < n; i++) {
        const char *comma = i == 0 ? "" : ",";
        sk_buf_printf(&arrays[0], "%s%s", comma, slots[parts[i].voucher]);
        sk_buf_printf(&arrays[1], "%s%s", comma, vouchers[parts[i].voucher]);
        sk_buf_printf(&arrays[2], "%s%s", comma, parts[i].epoch);
        sk_buf_printf(&arrays[3], "%s%d", comma, parts[i].count);
        sk_buf_printf(&arrays[6], "%s%s", comma, parts[i].journal == NULL ? "NULL" : parts[i].journal);
        count += (size_t)parts[i].count;
    }
    sql_put_arrays(&arrays[4], &arrays[5], count, orders);
    for (int i = 0; i < 7; i++)
        sk_buf_puts(&arrays[i], i == 4 || i == 5 ? "" : "}");
    const char *params[10] = {0};
    for (int i = 0; i < 7; i++)
        params[i] = arrays[i].data;
    ck_assert_int_eq(
        PQsendQueryParams(conn, sk_statements[SK_STATEMENT_PLACE_BATCHES].text, 10, NULL, params, NULL, NULL, 0), 1);
    for (int i = 0; i < 7; i++)
        sk_buf_free(&arrays[i]);
}

#define SEND(conn, parts, orders) send_parts(conn, sizeof(parts) / sizeof(struct part), parts, orders)
#define PARTS(...)                ((const struct part[]){__VA_ARGS__})

// "batch:n:outcome:live_id;...", ordered by batch.
static const char *outcomes(PGconn *conn)
{
    static char text[1024];
    PGresult *result = sql_receive(conn);
    text[0] = '\0';
    for (int batch = 1; batch <= VOUCHERS; batch++) {
        for (int row = 0; row < PQntuples(result); row++) {
            size_t len = strlen(text);
            if (atoi(PQgetvalue(result, row, 6)) == batch)
                (void)snprintf(text + len, sizeof text - len, "%d:%s:%s%s%.36s;", batch, PQgetvalue(result, row, 0),
                               PQgetvalue(result, row, 1), PQgetisnull(result, row, 2) ? "" : ":",
                               PQgetvalue(result, row, 2));
        }
    }
    PQclear(result);
    return text;
}

TEST(each_batch_has_its_outcomes)
{
    make_vouchers(10);
    db_run("UPDATE voucher_stock SET stock = 1, units = 1 WHERE voucher_id = %s", vouchers[2]);
    SEND(sql_service, PARTS({2, "3", "7-1", 2}, {0, "3", NULL, 1}, {1, "3", "9-2", 2}),
         ORDERS({1, "alice"}, {2, "bob"}, {3, "alice"}, {4, "alice"}, {5, "carol"}));
    ck_assert_str_eq(outcomes(sql_service), "1:1:placed;1:2:sold_out;2::placed;3::placed;");
    must_have(2, 1, 0);
    must_have(0, 1, 9);
    must_have(1, 2, 8);
    sql_must_be(2, "refused", "SOLD_OUT");
    sql_must_be(3, "unpaid", "");
    ck_assert_int_eq(db_number("SELECT journal_ms FROM voucher_stock WHERE voucher_id = %s", vouchers[1]), 9);
    ck_assert_int_eq(db_number("SELECT journal_ms FROM voucher_stock WHERE voucher_id = %s", vouchers[0]), 0);
    // Repeated: nothing is taken twice.
    SEND(sql_service, PARTS({0, "3", NULL, 1}, {1, "3", NULL, 3}),
         ORDERS({3, "alice"}, {4, "alice"}, {6, "alice"}, {7, "dave"}));
    ck_assert_str_eq(outcomes(sql_service), "1:1:already_placed;2:1:already_placed;"
                                            "2:2:duplicate:00000000-0000-7000-8000-000000000004;2:3:placed;");
    must_have(1, 3, 7);
}

TEST(each_batch_finds_what_ended_before)
{
    make_vouchers(10);
    SEND(sql_service, PARTS({0, "3", NULL, 1}, {1, "3", NULL, 2}), ORDERS({1, "alice"}, {2, "alice"}, {3, "bob"}));
    ck_assert_str_eq(outcomes(sql_service), "1::placed;2::placed;");
    db_run("UPDATE voucher_order SET status = 'cancelled', ended_nth = 2 WHERE id = '" SQL_ID1 "'");
    db_run("UPDATE voucher_order SET status = 'cancelled', ended_nth = 5 WHERE id = '" SQL_ID3 "'");
    SEND(sql_service, PARTS({0, "3", NULL, 1}, {1, "3", NULL, 2}), ORDERS({1, "alice"}, {2, "alice"}, {3, "bob"}));
    PGresult *result = sql_receive(sql_service);
    ck_assert_int_eq(PQntuples(result), 3);
    ck_assert_str_eq(PQgetvalue(result, 0, 8), "2");
    ck_assert_str_eq(PQgetvalue(result, 1, 8), "");
    ck_assert_str_eq(PQgetvalue(result, 2, 8), "5");
    PQclear(result);
}

TEST(one_that_is_fenced_off_is_alone)
{
    make_vouchers(10);
    SEND(sql_service, PARTS({0, "3", NULL, 1}, {1, "2", NULL, 2}, {2, "3", NULL, 1}),
         ORDERS({1, "alice"}, {2, "alice"}, {3, "bob"}, {4, "alice"}));
    ck_assert_str_eq(outcomes(sql_service), "1::placed;2::stale;3::placed;");
    must_have(0, 1, 9);
    must_have(1, 0, 10);
    must_have(2, 1, 9);
}

TEST(one_that_is_refused_takes_all_along)
{
    make_vouchers(10);
    db_run("ALTER TABLE voucher_stock ADD CONSTRAINT one CHECK (live < 1 OR voucher_id <> %s)", vouchers[1]);
    SEND(sql_service, PARTS({0, "3", NULL, 1}, {1, "3", NULL, 1}), ORDERS({1, "alice"}, {2, "alice"}));
    PGresult *result = PQgetResult(sql_service);
    ck_assert_int_eq(PQresultStatus(result), PGRES_FATAL_ERROR);
    ck_assert_str_eq(PQresultErrorField(result, PG_DIAG_SQLSTATE), "23514");
    PQclear(result);
    ck_assert_ptr_null(PQgetResult(sql_service));
    db_run("ALTER TABLE voucher_stock DROP CONSTRAINT one");
    must_have(0, 0, 10);
    must_have(1, 0, 10);
}

// Otherwise its row would be updated once, and the units of the second batch would stay in stock.
TEST(two_batches_of_one_voucher_are_refused)
{
    make_vouchers(10);
    SEND(sql_service, PARTS({0, "3", NULL, 1}, {1, "3", NULL, 1}, {0, "3", NULL, 2}),
         ORDERS({1, "alice"}, {2, "alice"}, {3, "bob"}, {4, "carol"}));
    PGresult *result = PQgetResult(sql_service);
    ck_assert_int_eq(PQresultStatus(result), PGRES_FATAL_ERROR);
    ck_assert_str_eq(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY),
                     "place_batches(): two batches of one voucher");
    PQclear(result);
    ck_assert_ptr_null(PQgetResult(sql_service));
    must_have(0, 0, 10);
    must_have(1, 0, 10);
}

static bool wait_for_locks(int count)
{
    return db_number("SELECT count(*) FROM pg_stat_activity WHERE usename = 'seckill' AND wait_event_type = 'Lock'") ==
           count;
}

// Two instances name the same vouchers in opposite orders, and both have begun when the middle one becomes free. They
// wait for each other in turn, without a deadlock.
TEST(opposite_orders_do_not_deadlock)
{
    PGconn *other = sql_connect(), *holder = db_connect();
    char sql[96];
    make_vouchers(2);
    (void)snprintf(sql, sizeof sql, "SELECT FROM voucher_stock WHERE voucher_id = %s FOR UPDATE", vouchers[1]);
    PQclear(PQexec(holder, "BEGIN"));
    PQclear(PQexec(holder, sql));
    SEND(sql_service, PARTS({0, "3", NULL, 1}, {1, "3", NULL, 1}, {2, "3", NULL, 1}),
         ORDERS({1, "alice"}, {2, "alice"}, {3, "alice"}));
    WAIT_FOR(wait_for_locks(1));
    SEND(other, PARTS({2, "3", NULL, 1}, {1, "3", NULL, 1}, {0, "3", NULL, 1}),
         ORDERS({4, "bob"}, {5, "bob"}, {6, "bob"}));
    WAIT_FOR(wait_for_locks(2));
    PQclear(PQexec(holder, "COMMIT"));
    ck_assert_str_eq(outcomes(sql_service), "1::placed;2::placed;3::placed;");
    ck_assert_str_eq(outcomes(other), "1::placed;2::placed;3::placed;");
    PQfinish(other);
    PQfinish(holder);
    for (int i = 0; i < VOUCHERS; i++)
        must_have(i, 2, 0);
}

SUITE(.begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
