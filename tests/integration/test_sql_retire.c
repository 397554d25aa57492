// The end of a sale: what may be retired, what a retired voucher refuses, and that it can be reloaded (recall_voucher).
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

static void end_sale(void)
{
    db_run("UPDATE seckill_voucher SET begin_at = begin_at - interval '1 day', end_at = end_at - interval '1 day', "
           "pay_within_s = 0"
           " WHERE id = %s",
           sql_voucher);
}

static bool says(PGresult *result, const char *expected)
{
    ck_assert_int_eq(PQntuples(result), 1);
    bool same = strcmp(PQgetvalue(result, 0, 0), expected) == 0;
    PQclear(result);
    return same;
}

static bool retires(const char *epoch)
{
    return says(SQL_RUN(SK_STATEMENT_RETIRE_VOUCHER, sql_voucher, sql_slot, epoch), "t");
}

static void state_must_be(const char *state)
{
    char is[16];
    db_text(is, sizeof is, "SELECT state FROM seckill_voucher WHERE id = %s", sql_voucher);
    ck_assert_str_eq(is, state);
}

static int64_t epoch(void)
{
    return db_number("SELECT epoch FROM voucher_stock WHERE voucher_id = %s AND slot = %s", sql_voucher, sql_slot);
}

// Expiry walks only vouchers of the catalogue, so an order still to expire would never do so.
TEST(an_unpaid_order_that_may_expire_keeps_it)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    end_sale();
    db_run("UPDATE seckill_voucher SET pay_within_s = 900 WHERE id = %s", sql_voucher);
    ck_assert(!retires("3"));
    db_run("UPDATE voucher_order SET status = 'paid' WHERE voucher_id = %s", sql_voucher);
    ck_assert(retires("3"));
    state_must_be("retired");
}

// A late order of an instance that still holds it is rejected.
TEST(a_sale_that_has_ended_is_retired_under_a_new_epoch)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    end_sale();
    ck_assert(retires("3"));
    state_must_be("retired");
    ck_assert_int_eq(epoch(), 4);
    PLACE("3", ORDERS({2, "bob"}), ENDS({"stale", 0}));
    ck_assert(!retires("3")); // only once
    ck_assert(!retires("4"));
    ck_assert_int_eq(epoch(), 4);
    sql_must_have(1, 9);
}

TEST(a_sale_that_goes_on_is_not_retired)
{
    sql_make_voucher(10);
    ck_assert(!retires("3"));
    db_run("UPDATE seckill_voucher SET state = 'closed' WHERE id = %s", sql_voucher);
    ck_assert(!retires("3"));
    state_must_be("closed");
    ck_assert_int_eq(epoch(), 3);
}

// A rebuild since the caller's check may have brought new orders.
TEST(another_epoch_is_not_retired)
{
    sql_make_voucher(10);
    end_sale();
    ck_assert(!retires("2"));
    ck_assert(!retires("4"));
    ck_assert(!says(SQL_RUN(SK_STATEMENT_RETIRE_VOUCHER, sql_voucher, "1", "3"), "t")); // no such voucher
    ck_assert(!says(SQL_RUN(SK_STATEMENT_RETIRE_VOUCHER, "999999", sql_slot, "3"), "t"));
    state_must_be("open");
    ck_assert_int_eq(epoch(), 3);
}

TEST(what_has_an_open_letter_is_not_retired)
{
    sql_make_voucher(10);
    end_sale();
    PQclear(SQL_RUN(SK_STATEMENT_SET_ASIDE, sql_slot, sql_voucher, "10-1", "\\x00", SQL_ID1 " alice", "why", "0"));
    ck_assert(!retires("3"));
    db_run("UPDATE dead_letter SET orders = NULL"); // an unreadable letter is open, too
    ck_assert(!retires("3"));
    db_run("UPDATE dead_letter SET ended_at = now()");
    ck_assert(retires("3"));
}

static bool may_retire(const char *after_ms)
{
    return says(SQL_RUN(SK_STATEMENT_MAY_RETIRE, sql_voucher, after_ms), "t");
}

// Checked before Redis is closed for it, by PostgreSQL's clock.
TEST(whether_a_sale_may_be_retired_is_known_before)
{
    sql_make_voucher(10);
    ck_assert(!may_retire("0")); // it is still on
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    end_sale();
    ck_assert(may_retire("0"));
    ck_assert(may_retire("3600000"));
    ck_assert(!may_retire("86400000")); // it ended more recently
    db_run("UPDATE seckill_voucher SET pay_within_s = 900 WHERE id = %s", sql_voucher);
    ck_assert(!may_retire("0")); // one order may still expire
    db_run("UPDATE voucher_order SET status = 'paid' WHERE voucher_id = %s", sql_voucher);
    ck_assert(may_retire("0"));
    PQclear(SQL_RUN(SK_STATEMENT_SET_ASIDE, sql_slot, sql_voucher, "10-1", "\\x00", SQL_ID2 " bob", "why", "0"));
    ck_assert(!may_retire("0"));
    db_run("UPDATE dead_letter SET ended_at = now()");
    ck_assert(may_retire("0"));
    ck_assert(retires("3"));
    ck_assert(!may_retire("0"));
    ck_assert(!says(SQL_RUN(SK_STATEMENT_MAY_RETIRE, "999999999", "0"), "t"));
}

// An operator reloads a voucher to inspect it: it stays as long as one whose sale has just ended.
TEST(what_was_recalled_is_not_retired_at_once)
{
    sql_make_voucher(10);
    end_sale();
    ck_assert(retires("3"));
    ck_assert(says(SQL_RUN(SK_STATEMENT_RECALL_VOUCHER, sql_voucher), "recalled"));
    ck_assert(!may_retire("3600000"));
    db_run("UPDATE seckill_voucher SET recalled_at = recalled_at - interval '1 h'");
    ck_assert(may_retire("3600000"));
}

TEST(nothing_loads_a_retired_voucher_until_it_is_recalled)
{
    sql_make_voucher(10);
    ck_assert(says(SQL_RUN(SK_STATEMENT_RECALL_VOUCHER, sql_voucher), "none")); // it is not retired
    end_sale();
    ck_assert(retires("3"));
    PGresult *refused = SQL_RUN(SK_STATEMENT_REBUILD_EPOCH, sql_slot, sql_voucher, "9", "200");
    ck_assert_int_eq(PQntuples(refused), 0);
    PQclear(refused);
    ck_assert(says(SQL_RUN(SK_STATEMENT_RECALL_VOUCHER, sql_voucher), "recalled"));
    state_must_be("closed");
    ck_assert(says(SQL_RUN(SK_STATEMENT_REBUILD_EPOCH, sql_slot, sql_voucher, "9", "200"), "10"));
    PGresult *opened = SQL_RUN(SK_STATEMENT_REBUILD_STOCK, sql_slot, sql_voucher, "10");
    ck_assert_str_eq(PQgetvalue(opened, 0, 3), "closed");
    PQclear(opened);
    ck_assert(retires("10")); // and again
}

static void found_must_be(const char *voucher, const char *user, const char *state, const char *live_id)
{
    PGresult *found = SQL_RUN(SK_STATEMENT_FIND_RETIRED, voucher, user);
    ck_assert_int_eq(PQntuples(found), 1);
    ck_assert_int_eq(PQgetisnull(found, 0, 0), state == NULL);
    ck_assert_str_eq(PQgetvalue(found, 0, 0), state == NULL ? "" : state);
    ck_assert_str_eq(PQgetvalue(found, 0, 1), live_id);
    PQclear(found);
}

TEST(a_winner_is_told_after_the_end)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    sql_cancel(2);
    end_sale();
    ck_assert(retires("3"));
    found_must_be(sql_voucher, "alice", "retired", SQL_ID1);
    found_must_be(sql_voucher, "bob", "retired", "");
    found_must_be(sql_voucher, "carol", "retired", "");
    found_must_be("999999999", "alice", NULL, "");
}

static int64_t rows_of(const char *after, const char *first)
{
    PGresult *found = SQL_RUN(SK_STATEMENT_CATALOGUE_CHANGES, after, "10", first);
    int64_t rows = PQgetisnull(found, 0, 3) ? 0 : PQntuples(found);
    PQclear(found);
    return rows;
}

// A reader that knows the voucher learns that it is retired; a new reader never sees it.
TEST(a_retired_voucher_is_told_to_those_who_know_it)
{
    char before[24], after[24];
    sql_make_voucher(10);
    end_sale();
    db_text(before, sizeof before, "SELECT change FROM seckill_catalogue");
    ck_assert(retires("3"));
    db_text(after, sizeof after, "SELECT change FROM seckill_catalogue");
    ck_assert_int_eq(rows_of(before, "0"), 1);
    ck_assert_int_eq(rows_of("0", "0"), 0);
    ck_assert_int_eq(rows_of("1", after), 0);  // a later page of a first read
    ck_assert_int_eq(rows_of("1", before), 1); // it was retired after that read began
    PQclear(SQL_RUN(SK_STATEMENT_RECALL_VOUCHER, sql_voucher));
    ck_assert_int_eq(rows_of("0", "0"), 1);
    ck_assert_int_eq(rows_of(after, "0"), 1);
}

SUITE(.begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
