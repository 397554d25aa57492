// Dead letters: the units they hold, and how they end.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

static void must_hold(const char *stock, const char *buyers)
{
    char epoch[24];
    db_text(epoch, sizeof epoch, "SELECT epoch FROM voucher_stock WHERE voucher_id = %s", sql_voucher);
    PGresult *opened = SQL_RUN(SK_STATEMENT_REBUILD_STOCK, sql_slot, sql_voucher, epoch);
    ck_assert_str_eq(PQgetvalue(opened, 0, 0), stock);
    ck_assert_str_eq(PQgetvalue(opened, 0, 4), buyers);
    PQclear(opened);
    PGresult *chunk = SQL_RUN(SK_STATEMENT_REBUILD_BUYERS, sql_slot, sql_voucher, SQL_ID0, "500", "20");
    ck_assert_int_eq(PQntuples(chunk), atoi(buyers));
    PQclear(chunk);
    char slots[16], vouchers[32];
    (void)snprintf(slots, sizeof slots, "{%s}", sql_slot);
    (void)snprintf(vouchers, sizeof vouchers, "{%s}", sql_voucher);
    PGresult *accounts = SQL_RUN(SK_STATEMENT_VOUCHER_ACCOUNTS, slots, vouchers);
    ck_assert_int_eq(PQntuples(accounts), 1);
    ck_assert_str_eq(PQgetvalue(accounts, 0, 5), stock);
    ck_assert_str_eq(PQgetvalue(accounts, 0, 6), buyers);
    PQclear(accounts);
}

TEST(a_refused_order_holds_no_unit_whatever_is_said_later)
{
    sql_make_voucher(10);
    sql_refuse("{" SQL_ID1 "}", "{alice}", "{GRANT_LOST}", "ended");
    sql_refuse("{" SQL_ID1 "}", "{alice}", "{ALREADY_ORDERED}", "ended"); // the first reason stays
    PLACE("3", ORDERS({1, "alice"}), ENDS({"ended", 0}));
    sql_must_have(0, 10);
    char reason[32];
    db_text(reason, sizeof reason, "SELECT reason FROM voucher_order WHERE id = '" SQL_ID1 "'");
    ck_assert_str_eq(reason, "GRANT_LOST");
    PLACE("3", ORDERS({2, "alice"}), ENDS({"placed", 0}));                    // she may buy again
    sql_refuse("{" SQL_ID2 "}", "{alice}", "{GRANT_LOST}", "already_placed"); // a placed order stays placed
    sql_must_have(1, 9);
}

static void set_aside(const char *journal, const char *orders)
{
    PQclear(SQL_RUN(SK_STATEMENT_SET_ASIDE, sql_slot, sql_voucher, journal, "\\x00ff", orders, "why", "0"));
}

static void must_list(int count)
{
    PGresult *list = SQL_RUN(SK_STATEMENT_LIST_DEAD_LETTERS, sql_slot, sql_voucher, "0", "1000");
    ck_assert_int_eq(PQntuples(list), count);
    PQclear(list);
}

TEST(a_dead_letter_holds_its_units_and_buyers_until_it_is_decided)
{
    char letter[24];
    sql_make_voucher(10);
    PLACE("3", ORDERS({3, "carol"}), ENDS({"placed", 0}));
    must_hold("9", "1");
    set_aside("10-1", SQL_ID1 " alice," SQL_ID2 " bob");
    set_aside("10-1", SQL_ID1 " alice," SQL_ID2 " bob"); // repeated
    must_hold("7", "3");
    must_list(1);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0})); // one of them is settled after all
    must_hold("7", "3");
    db_text(letter, sizeof letter, "SELECT id FROM dead_letter");
    for (int i = 0; i < 2; i++) {
        PGresult *off = SQL_RUN(SK_STATEMENT_WRITE_OFF, sql_slot, sql_voucher, letter);
        ck_assert_int_eq(PQntuples(off), 1);
        ck_assert_str_eq(PQgetvalue(off, 0, 0), SQL_ID2);
        ck_assert_str_eq(PQgetvalue(off, 0, 1), "bob");
        PQclear(off);
    }
    must_hold("8", "2");
    must_list(0);
    PLACE("3", ORDERS({2, "bob"}), ENDS({"ended", 0}));
    sql_must_have(2, 8);
}

TEST(a_letter_ends_when_its_orders_are_settled)
{
    sql_make_voucher(10);
    set_aside("10-1", SQL_ID1 " alice");
    set_aside("10-2", NULL); // unreadable: holds no named order
    must_hold("9", "1");
    must_list(2);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    must_list(1);
    must_hold("9", "1");
}

static void end_settled(void)
{
    PQclear(sql_run(SK_STATEMENT_END_SETTLED_LETTERS, 0, NULL));
}

static int64_t waiting_letters(void)
{
    return db_number("SELECT count(*) FROM dead_letter WHERE ended_at IS NULL");
}

// A letter without open decisions is ended. This changes neither the held units nor the list.
TEST(settled_letters_are_ended)
{
    sql_make_voucher(10);
    set_aside("10-1", SQL_ID1 " alice," SQL_ID2 " bob");
    set_aside("10-2", SQL_ID2 " bob," SQL_ID3 " carol");
    set_aside("10-3", NULL); // its content is unknown
    end_settled();
    ck_assert_int_eq(waiting_letters(), 3);
    must_hold("7", "3");
    PLACE("3", ORDERS({3, "carol"}), ENDS({"placed", 0})); // an older letter holds the rest of 10-2
    must_list(2);
    end_settled();
    ck_assert_int_eq(waiting_letters(), 2);
    must_list(2);
    must_hold("7", "3");
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    end_settled();
    ck_assert_int_eq(waiting_letters(), 2); // bob's order is open
    must_hold("7", "3");
    sql_refuse("{" SQL_ID2 "}", "{bob}", "{GRANT_LOST}", "ended");
    end_settled();
    ck_assert_int_eq(waiting_letters(), 1);
    must_hold("8", "2");
    must_list(1);
    set_aside("10-2", SQL_ID2 " bob," SQL_ID3 " carol"); // repeated after its end
    must_list(1);
    must_hold("8", "2");
}

// Its user has another order, so it holds nothing now, but would again if that order were cancelled.
TEST(a_letter_that_holds_nothing_is_not_settled)
{
    sql_make_voucher(10);
    set_aside("10-1", SQL_ID1 " alice");
    PLACE("3", ORDERS({2, "alice"}), ENDS({"placed", 0}));
    must_hold("9", "1");
    end_settled();
    ck_assert_int_eq(waiting_letters(), 1);
    sql_cancel(2);
    sql_return_unit();
    must_hold("9", "1");
}

// Lists up to 101 letters after the letter `after`: `rows` must come, and the first `shown` of them with their text.
static void must_list_after(const char *after, int rows, int shown)
{
    PGresult *list = SQL_RUN(SK_STATEMENT_LIST_DEAD_LETTERS, sql_slot, sql_voucher, after, "101");
    size_t bytes = 0;
    ck_assert_int_eq(PQntuples(list), rows);
    for (int i = 0; i < rows; i++) {
        ck_assert_int_eq(PQgetisnull(list, i, 1), i >= shown);
        bytes += (size_t)PQgetlength(list, i, 1);
    }
    ck_assert_uint_lt(bytes, 2200000);
    PQclear(list);
}

TEST(the_list_of_letters_has_its_bounds)
{
    char after[24];
    sql_make_voucher(10);
    must_list_after("0", 0, 0);
    db_run("INSERT INTO dead_letter (slot, voucher_id, journal_id, raw, reason)"
           " SELECT %s, %s, n || '-1', '', 'why' FROM generate_series(1, 110) n",
           sql_slot, sql_voucher);
    must_list_after("0", 101, 101);
    db_text(after, sizeof after, "SELECT id FROM dead_letter WHERE journal_id = '100-1'");
    must_list_after(after, 10, 10);
    db_run("UPDATE dead_letter SET orders = (SELECT string_agg(gen_random_uuid() || ' someone', ',')"
           " FROM generate_series(1, 1024 + 0 * id::integer))");
    must_list_after("0", 101, 2000000 / (300 + 2 * 1024 * (36 + 1 + 7 + 1) - 2));
    db_run("UPDATE dead_letter SET raw = convert_to(repeat('x', 65536), 'UTF8'), orders = NULL");
    must_list_after("0", 101, 101);
    db_run("UPDATE dead_letter SET ended_at = now() WHERE journal_id <> '50-1'");
    must_list_after("0", 1, 1);
    db_run("UPDATE dead_letter SET orders = (SELECT string_agg(gen_random_uuid() || ' someone', ',')"
           " FROM generate_series(1, 32768)) WHERE journal_id = '50-1'");
    PGresult *list = SQL_RUN(SK_STATEMENT_LIST_DEAD_LETTERS, sql_slot, sql_voucher, "0", "101");
    ck_assert_int_eq(PQgetisnull(list, 0, 1), 0); // at least one, however long
    PQclear(list);
}

// An order that is retried in vain, maybe from a new journal entry, is in one letter and holds one unit.
TEST(an_order_is_held_once_however_often_it_is_set_aside)
{
    sql_make_voucher(10);
    set_aside("10-1", SQL_ID1 " alice," SQL_ID2 " bob");
    set_aside("", SQL_ID2 " bob");
    set_aside("20-1", SQL_ID2 " bob," SQL_ID1 " alice");
    must_hold("8", "2");
    must_list(1);
    set_aside("20-2", SQL_ID2 " bob," SQL_ID3 " carol"); // one order is new
    must_hold("7", "3");
    must_list(2);
}

SUITE(.begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
