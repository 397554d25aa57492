// Every outcome of place_orders() and refuse_orders().
#include <stdio.h>
#include <stdlib.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

TEST(orders_are_placed_and_take_one_unit_each)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}, {3, "carol"}), ENDS({"placed", 0}, {"placed", 0}, {"placed", 0}));
    sql_must_have(3, 7);
    sql_must_be(1, "unpaid", "");
    sql_must_be(3, "unpaid", "");
    PLACE("3", ORDERS({4, "dave"}), ENDS({"placed", 0}));
    sql_must_have(4, 6);
}

TEST(an_empty_batch_does_nothing)
{
    sql_make_voucher(10);
    sql_place("3", 0, NULL, NULL);
    sql_must_have(0, 10);
}

TEST(a_second_run_takes_nothing_again)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    for (int run = 0; run < 3; run++)
        PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"already_placed", 0}, {"already_placed", 0}));
    PLACE("3", ORDERS({2, "bob"}, {3, "carol"}), ENDS({"already_placed", 0}, {"placed", 0}));
    sql_must_have(3, 7);
}

static void must_be_gone_by(const char *journal)
{
    const struct sql_order bob[] = {{2, "bob"}};
    sql_send_batch(sql_service, "3", 1, bob);
    PGresult *result = sql_receive(sql_service);
    ck_assert_str_eq(PQgetvalue(result, 0, 1), "gone");
    ck_assert_str_eq(PQgetvalue(result, 0, 5), journal);
    PQclear(result);
}

static void must_be_nth(PGresult *result, int row, int column, const char *nth)
{
    ck_assert_str_eq(PQgetvalue(result, row, 1), "ended");
    ck_assert_str_eq(PQgetvalue(result, row, column), nth);
}

// An instance that finds an ended order gives Redis the number of the user's ended orders.
TEST(what_ended_before_says_how_many_have)
{
    const struct sql_order orders[] = {{1, "alice"}, {2, "bob"}, {3, "alice"}};
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    sql_cancel(1);
    db_run("UPDATE voucher_order SET ended_nth = 4 WHERE id = '" SQL_ID1 "'");
    PLACE("3", ORDERS({3, "alice"}), ENDS({"placed", 0}));
    sql_send_batch(sql_service, "3", 3, orders);
    PGresult *result = sql_receive(sql_service);
    must_be_nth(result, 0, 8, "4");
    for (int i = 1; i < 3; i++)
        ck_assert(PQgetisnull(result, i, 8));
    PQclear(result);
    result = SQL_RUN(SK_STATEMENT_REFUSE_ORDERS, sql_slot, sql_voucher, "{" SQL_ID0 "," SQL_ID1 "," SQL_ID2 "}",
                     "{carol,alice,bob}", "{SOLD_OUT,SOLD_OUT,SOLD_OUT}", "{1,1,1}", "{0,0,0}");
    must_be_nth(result, 0, 2, ""); // it was refused
    must_be_nth(result, 1, 2, "4");
    ck_assert(PQgetisnull(result, 2, 2));
    PQclear(result);
}

TEST(a_paid_or_cancelled_order_is_not_placed_again)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    db_run("UPDATE voucher_order SET status = 'paid' WHERE id = '" SQL_ID1 "'");
    sql_cancel(2);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"already_placed", 0}, {"ended", 0}));
    sql_must_be(1, "paid", "");
    sql_must_be(2, "cancelled", "");
    ck_assert_int_eq(sql_stock(), 8); // the canceller returns the unit
    // Also with no stock: its unit was sold to another user, and the unit that Redis took for it again returns.
    db_run("UPDATE voucher_stock SET stock = 0 WHERE voucher_id = %s", sql_voucher);
    PLACE("3", ORDERS({2, "bob"}), ENDS({"ended", 0}));
    // A refund without restock names its entry: units granted after that entry return.
    db_run("UPDATE voucher_order SET status = 'refunded', reason = 'KEPT' WHERE id = '" SQL_ID2 "'");
    PLACE("3", ORDERS({2, "bob"}), ENDS({"gone", 0}));
    must_be_gone_by("");
    db_run("INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, journal)"
           " VALUES (%s, %s, '" SQL_ID2 "', 'refunded', 'olga', '7-1')",
           sql_slot, sql_voucher);
    must_be_gone_by("7-1");
}

TEST(a_user_with_a_live_order_is_refused_with_its_id)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    PLACE("3", ORDERS({2, "alice"}), ENDS({"duplicate", 1}));
    PLACE("3", ORDERS({2, "alice"}), ENDS({"ended", 1})); // repeated, it stays refused
    sql_must_be(2, "refused", "ALREADY_ORDERED");         // kept, so that its URL can show the reason
    db_run("UPDATE voucher_order SET status = 'paid' WHERE id = '" SQL_ID1 "'");
    PLACE("3", ORDERS({3, "alice"}), ENDS({"duplicate", 1}));
    sql_must_have(1, 9);
}

TEST(a_user_whose_order_was_cancelled_may_order_again)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    PLACE("3", ORDERS({2, "alice"}), ENDS({"duplicate", 1}));
    sql_cancel(1);
    sql_return_unit();
    PLACE("3", ORDERS({2, "alice"}), ENDS({"ended", 0})); // a refused order stays refused
    PLACE("3", ORDERS({3, "alice"}), ENDS({"placed", 0}));
    PLACE("3", ORDERS({1, "alice"}), ENDS({"ended", 0})); // its claim was given up, so no other order is named
    sql_must_have(1, 9);
}

TEST(orders_are_per_voucher)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    sql_make_voucher(10);
    PLACE("3", ORDERS({2, "alice"}), ENDS({"placed", 0}));
    sql_must_have(1, 9);
}

TEST(past_the_last_unit_orders_are_sold_out_in_their_order)
{
    sql_make_voucher(2);
    PLACE("3", ORDERS({4, "alice"}, {2, "bob"}, {3, "carol"}, {1, "dave"}),
          ENDS({"placed", 0}, {"placed", 0}, {"sold_out", 0}, {"sold_out", 0}));
    sql_must_have(2, 0);
    sql_must_be(3, "refused", "SOLD_OUT");
    sql_must_be(1, "refused", "SOLD_OUT");
    PLACE("3", ORDERS({4, "alice"}, {2, "bob"}, {3, "carol"}, {1, "dave"}),
          ENDS({"already_placed", 0}, {"already_placed", 0}, {"sold_out", 0}, {"sold_out", 0}));
    sql_must_have(2, 0);
    // A refused order stays refused, also when there are units again; the unit that Redis took for it returns.
    db_run("UPDATE voucher_stock SET stock = 5, units = 7 WHERE voucher_id = %s", sql_voucher);
    PLACE("3", ORDERS({3, "carol"}), ENDS({"ended", 0}));
    sql_must_have(2, 5);
    PLACE("3", ORDERS({5, "erin"}, {3, "carol"}), ENDS({"placed", 0}, {"ended", 0}));
    sql_must_have(3, 4);
    // Unless the same batch takes the last units.
    db_run("UPDATE voucher_stock SET stock = 1 WHERE voucher_id = %s", sql_voucher);
    PLACE("3", ORDERS({3, "carol"}, {6, "frank"}, {7, "grace"}), ENDS({"sold_out", 0}, {"placed", 0}, {"sold_out", 0}));
}

// A journal id only proves that Redis lost data: it must not refuse an order.
TEST(a_journal_id_that_cannot_be_refuses_nothing)
{
    static const char *const ids[] = {"9999999999999999999-1",
                                      "1-9999999999999999999",
                                      "",
                                      "x",
                                      "1",
                                      "-1--1",
                                      "18446744073709551615-18446744073709551615",
                                      "1-1-1",
                                      "epoch-7"};
    sql_make_voucher(100);
    sql_journal_id = "100-5";
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    for (unsigned i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        char user[16];
        (void)snprintf(user, sizeof user, "user%u", i);
        sql_journal_id = ids[i];
        PLACE("3", ORDERS({10 + i, user}), ENDS({"placed", 0}));
    }
    ck_assert_int_eq(db_number("SELECT journal_ms FROM voucher_stock WHERE voucher_id = %s", sql_voucher), 100);
    ck_assert_int_eq(db_number("SELECT journal_seq FROM voucher_stock WHERE voucher_id = %s", sql_voucher), 5);
}

TEST(with_no_stock_at_all_everything_is_sold_out)
{
    sql_make_voucher(0);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"sold_out", 0}, {"sold_out", 0}));
    sql_must_have(0, 0);
}

TEST(exactly_the_stock_is_placed)
{
    sql_make_voucher(3);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}, {3, "carol"}), ENDS({"placed", 0}, {"placed", 0}, {"placed", 0}));
    sql_must_have(3, 0);
}

TEST(another_epoch_is_stale_and_changes_nothing)
{
    static const char *const epochs[] = {"2", "4", "-3", "9223372036854775807"};
    sql_make_voucher(10);
    for (size_t i = 0; i < sizeof epochs / sizeof epochs[0]; i++)
        PLACE(epochs[i], ORDERS({1, "alice"}, {2, "bob"}), ENDS({"stale", 0}, {"stale", 0}));
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order"), 0);
    sql_must_have(0, 10);
}

TEST(no_epoch_is_a_master_key)
{
    sql_make_voucher(10);
    PLACE("0", ORDERS({1, "alice"}), ENDS({"stale", 0}));
    db_run("UPDATE voucher_stock SET epoch = 99 WHERE voucher_id = %s", sql_voucher);
    PLACE("3", ORDERS({2, "bob"}), ENDS({"stale", 0}));
    PLACE("99", ORDERS({2, "bob"}), ENDS({"placed", 0}));
    sql_must_have(1, 9);
}

static void newest_must_be(const char *id)
{
    char newest[64];
    db_text(newest, sizeof newest, "SELECT journal_ms || '-' || journal_seq FROM voucher_stock WHERE voucher_id = %s",
            sql_voucher);
    ck_assert_str_eq(newest, id);
}

TEST(the_newest_journal_id_is_remembered_until_the_next_epoch)
{
    static const char *const ids[] = {"10-9", "10-10", "9-99", "10-2", NULL, "1795227192391-18446"};
    static const char *const newest[] = {"10-9", "10-10", "10-10", "10-10", "10-10", "1795227192391-18446"};
    sql_make_voucher(10);
    newest_must_be("0-0");
    for (int i = 0; i < 6; i++) {
        char user[16];
        (void)snprintf(user, sizeof user, "user-%d", i);
        sql_journal_id = ids[i];
        PLACE("3", ORDERS({i + 1, user}), ENDS({"placed", 0}));
        newest_must_be(newest[i]);
    }
    PQclear(SQL_RUN(SK_STATEMENT_REBUILD_EPOCH, sql_slot, sql_voucher, "2", "200"));
    newest_must_be("0-0");
}

TEST(a_missing_voucher_is_stale)
{
    static const char *const missing[] = {"999999999", "0", "-1"};
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        (void)snprintf(sql_voucher, sizeof sql_voucher, "%s", missing[i]);
        (void)snprintf(sql_slot, sizeof sql_slot, "0");
        PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"stale", 0}, {"stale", 0}));
    }
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order"), 0);
}

TEST(an_id_of_somebody_elses_order_clashes)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    PLACE("3", ORDERS({1, "carol"}), ENDS({"clash", 0}));
    sql_must_have(2, 8);
}

// An id carries its slot, so two sales can have the same id only if it was forged. Each then has its own order.
TEST(an_id_is_searched_for_in_its_voucher)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    sql_cancel(1);
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "bob"}), ENDS({"placed", 0}));
    sql_must_have(1, 9);
}

// The rows of voucher_order that a batch reads, including its own.
static int64_t rows_read_by(size_t n, const struct sql_order *orders, const struct sql_end *ends)
{
    PQclear(PQexec(sql_service, "BEGIN"));
    sql_place("3", n, orders, ends);
    PGresult *result = PQexec(sql_service, "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
                                           " WHERE relname = 'voucher_order'");
    ck_assert_msg(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQresultErrorMessage(result));
    int64_t rows = atoll(PQgetvalue(result, 0, 0));
    PQclear(result);
    PQclear(PQexec(sql_service, "COMMIT"));
    return rows;
}

// Plans live as long as a session, so those made for a small table must also suit a large one.
TEST(an_outcome_costs_the_same_however_many_orders_there_are)
{
    enum { MANY = 20000, PLANNED = 10, ROWS_MOST = 1000 };
    static const struct sql_order orders[] = {{1, "alice"}, {2, "alice"}, {3, "bob"}};
    static const struct sql_end first[] = {{"placed", 0}, {"duplicate", 1}, {"placed", 0}},
                                again[] = {{"already_placed", 0}, {"ended", 1}, {"already_placed", 0}};
    sql_make_voucher(MANY + 10);
    sql_place("3", 3, orders, first);
    for (int i = 0; i < PLANNED; i++)
        (void)rows_read_by(3, orders, again);
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id)"
           " SELECT gen_random_uuid(), %s, 'u' || n, %s FROM generate_series(1, %d) n",
           sql_slot, sql_voucher, MANY);
    ck_assert_int_le(rows_read_by(3, orders, again), ROWS_MOST);
}

TEST(one_batch_may_hold_every_outcome)
{
    sql_make_voucher(4);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    PLACE("3",
          ORDERS({11, "carol"}, {1, "alice"}, {12, "bob"}, {2, "mallory"}, {13, "dave"}, {14, "erin"}, {15, "frank"},
                 {16, "alice"}),
          ENDS({"placed", 0}, {"already_placed", 0}, {"duplicate", 2}, {"clash", 0}, {"placed", 0}, {"sold_out", 0},
               {"sold_out", 0}, {"duplicate", 1}));
    sql_must_have(4, 0);
    PLACE("3",
          ORDERS({11, "carol"}, {1, "alice"}, {12, "bob"}, {2, "mallory"}, {13, "dave"}, {14, "erin"}, {15, "frank"},
                 {16, "alice"}),
          ENDS({"already_placed", 0}, {"already_placed", 0}, {"ended", 2}, {"clash", 0}, {"already_placed", 0},
               {"sold_out", 0}, {"sold_out", 0}, {"ended", 1})); // only sold-out orders had a unit too many
    sql_must_have(4, 0);
}

TEST(of_one_users_orders_in_a_batch_the_first_is_placed)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}, {3, "alice"}, {4, "bob"}, {5, "alice"}),
          ENDS({"placed", 0}, {"placed", 0}, {"duplicate", 1}, {"duplicate", 2}, {"duplicate", 1}));
    sql_must_have(2, 8);
    PLACE("3", ORDERS({5, "alice"}, {4, "bob"}, {1, "alice"}), ENDS({"ended", 1}, {"ended", 2}, {"already_placed", 0}));
    sql_must_have(2, 8);
}

// A duplicate's unit returns to Redis, but there is none to return if the first order got none.
TEST(of_one_users_orders_past_the_last_unit_all_are_sold_out)
{
    sql_make_voucher(1);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}, {3, "bob"}, {4, "alice"}),
          ENDS({"placed", 0}, {"sold_out", 0}, {"sold_out", 0}, {"duplicate", 1}));
    sql_must_have(1, 0);
    sql_must_be(3, "refused", "SOLD_OUT");
}

TEST(one_order_twice_in_a_batch_is_one_order)
{
    sql_make_voucher(2);
    PLACE("3", ORDERS({1, "alice"}, {1, "alice"}, {2, "bob"}, {1, "alice"}),
          ENDS({"placed", 0}, {"placed", 0}, {"placed", 0}, {"placed", 0}));
    sql_must_have(2, 0);
    PLACE("3", ORDERS({3, "carol"}, {1, "alice"}, {3, "carol"}, {1, "alice"}),
          ENDS({"sold_out", 0}, {"already_placed", 0}, {"sold_out", 0}, {"already_placed", 0}));
    sql_must_have(2, 0);
}

// Arrays that no caller sends are rejected as a whole.
TEST(a_malformed_batch_changes_nothing)
{
    static const char *const calls[] = {
        "SELECT * FROM place_orders(%s, %s, 3, '{00000000-0000-7000-8000-000000000001,null}', '{alice,bob}')",
        "SELECT * FROM place_orders(%s, %s, 3, '{00000000-0000-7000-8000-000000000001}', '{null}')",
        "SELECT * FROM place_orders(%s, %s, 3, '{00000000-0000-7000-8000-000000000001}', '{alice,bob}')",
        "SELECT * FROM place_orders(%s, %s, 3,"
        " '{00000000-0000-7000-8000-000000000001,00000000-0000-7000-8000-000000000002}', '{alice}')",
        "SELECT * FROM place_orders(%s, %s, 3, '{not-a-uuid}', '{alice}')",
    };
    sql_make_voucher(10);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char sql[256];
        (void)snprintf(sql, sizeof sql, calls[i], sql_slot, sql_voucher);
        PGresult *result = PQexec(sql_service, sql);
        ck_assert_msg(PQresultStatus(result) == PGRES_FATAL_ERROR, "accepted: %s", sql);
        PQclear(result);
    }
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order"), 0);
    sql_must_have(0, 10);
}

SUITE(.begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
