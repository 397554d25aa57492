#include "sql.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stack.h"
#include "stores.h"

PGconn *sql_service;
char sql_voucher[24], sql_slot[8];

void sql_start(void)
{
    stack_start(STACK_POSTGRES);
}

PGconn *sql_connect(void)
{
    PGconn *conn = PQconnectdb(stack_database_url());
    ck_assert_msg(PQstatus(conn) == CONNECTION_OK, "%s", PQerrorMessage(conn));
    return conn;
}

void sql_setup(void)
{
    db_empty();
    sql_service = sql_connect();
}

void sql_teardown(void)
{
    PQfinish(sql_service);
}

void sql_make_voucher(int stock)
{
    int64_t id =
        db_number("SELECT v.id FROM seckill_shard s, create_voucher(gen_random_uuid()::text || s.number, 'T', 100, %d,"
                  " unix_ms(now() - interval '1 h'), unix_ms(now() + interval '1 h')) v WHERE s.number = 0",
                  stock);
    (void)snprintf(sql_voucher, sizeof sql_voucher, "%lld", (long long)id);
    db_run("UPDATE voucher_stock SET epoch = 3 WHERE voucher_id = %s", sql_voucher);
    db_text(sql_slot, sizeof sql_slot, "SELECT slot FROM voucher_stock WHERE voucher_id = %s", sql_voucher);
}

PGresult *sql_run(enum sk_statement statement, int n, const char *const *params)
{
    PGresult *result = PQexecParams(sql_service, sk_statements[statement].text, n, NULL, params, NULL, NULL, 0);
    ck_assert_msg(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQerrorMessage(sql_service));
    return result;
}

// ---- batches ----

void sql_put_id(char out[SK_UUID_SIZE], int id)
{
    (void)snprintf(out, SK_UUID_SIZE, "00000000-0000-7000-8000-%012d", id);
}

void sql_put_arrays(struct sk_buf *ids, struct sk_buf *users, size_t n, const struct sql_order *orders)
{
    char id[SK_UUID_SIZE];
    sk_buf_puts(ids, "{");
    sk_buf_puts(users, "{");
    for (size_t i = 0; i < n; i++) {
        sql_put_id(id, orders[i].id);
        sk_buf_printf(ids, "%s%s", i == 0 ? "" : ",", id);
        sk_buf_printf(users, "%s\"%s\"", i == 0 ? "" : ",", orders[i].user);
    }
    sk_buf_puts(ids, "}");
    sk_buf_puts(users, "}");
}

void sql_send_batch(PGconn *conn, const char *epoch, size_t n, const struct sql_order *orders)
{
    struct sk_buf ids = {0}, users = {0};
    sql_put_arrays(&ids, &users, n, orders);
    const char *params[9] = {sql_slot, sql_voucher, epoch, ids.data, users.data, NULL, NULL, NULL, "0"};
    int sent = PQsendQueryParams(conn, sk_statements[SK_STATEMENT_PLACE_ORDERS].text, 9, NULL, params, NULL, NULL, 0);
    ck_assert_msg(sent == 1, "%s", PQerrorMessage(conn));
    sk_buf_free(&ids);
    sk_buf_free(&users);
}

PGresult *sql_receive(PGconn *conn)
{
    PGresult *result = PQgetResult(conn);
    ck_assert_msg(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQerrorMessage(conn));
    ck_assert_ptr_null(PQgetResult(conn));
    return result;
}

void sql_must_end(PGresult *result, size_t n, const struct sql_end *ends)
{
    if (PQntuples(result) == 1 && PQgetisnull(result, 0, 0)) { // one answer for all orders
        for (size_t i = 0; i < n; i++) {
            ck_assert_str_eq(PQgetvalue(result, 0, 1), ends[i].outcome);
            ck_assert_int_eq(ends[i].live_id, 0);
        }
        PQclear(result);
        return;
    }
    ck_assert_int_eq(PQntuples(result), (int)n); // one for each
    for (int row = 0; row < (int)n; row++) {
        int i = atoi(PQgetvalue(result, row, 0)) - 1;
        char live_id[SK_UUID_SIZE] = "";
        ck_assert_int_ge(i, 0);
        ck_assert_int_lt(i, (int)n);
        ck_assert_msg(strcmp(PQgetvalue(result, row, 1), ends[i].outcome) == 0, "order %d is %s, should be %s", i + 1,
                      PQgetvalue(result, row, 1), ends[i].outcome);
        if (ends[i].live_id != 0)
            sql_put_id(live_id, ends[i].live_id);
        ck_assert_str_eq(PQgetvalue(result, row, 2), live_id);
    }
    PQclear(result);
}

void sql_place(const char *epoch, size_t n, const struct sql_order *orders, const struct sql_end *ends)
{
    sql_send_batch(sql_service, epoch, n, orders);
    sql_must_end(sql_receive(sql_service), n, ends);
}

void sql_refuse(const char *ids, const char *users, const char *reasons, const char *outcome)
{
    PGresult *result = SQL_RUN(SK_STATEMENT_REFUSE_ORDERS, sql_slot, sql_voucher, ids, users, reasons, "{1}", "{0}");
    ck_assert_int_eq(PQntuples(result), 1);
    ck_assert_str_eq(PQgetvalue(result, 0, 1), outcome);
    PQclear(result);
}

// ---- results ----

int64_t sql_stock(void)
{
    return db_number("SELECT stock FROM voucher_stock WHERE voucher_id = %s", sql_voucher);
}

void sql_must_have(int64_t live, int64_t left)
{
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s AND slot = %s"
                               " AND status IN ('unpaid', 'paid')",
                               sql_voucher, sql_slot),
                     live);
    ck_assert_int_eq(sql_stock(), left);
    ck_assert_int_eq(db_number("SELECT units FROM voucher_stock WHERE voucher_id = %s", sql_voucher), live + left);
    ck_assert_int_eq(db_number("SELECT live FROM voucher_stock WHERE voucher_id = %s", sql_voucher), live);
}

void sql_cancel(int id)
{
    char uuid[SK_UUID_SIZE];
    sql_put_id(uuid, id);
    db_run("UPDATE voucher_order SET status = 'cancelled' WHERE id = '%s'", uuid);
    db_run("UPDATE voucher_stock SET live = live - 1 WHERE voucher_id = %s", sql_voucher);
}

void sql_return_unit(void)
{
    db_run("UPDATE voucher_stock SET stock = stock + 1 WHERE voucher_id = %s", sql_voucher);
}
