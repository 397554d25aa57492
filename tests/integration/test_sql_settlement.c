// Each count of settlement(), and that it covers all of one voucher and nothing of another.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

static void setup(void)
{
    sql_setup();
    db_run("TRUNCATE stock_change");
    sql_make_voucher(1000);
}

// Exactly these fields of the row must be non-zero, apart from the voucher's terms and Redis's expected state.
static void must_be_settled(const char *const *fields)
{
    static const char *const terms[] = {"state",        "at_ms",         "begin_ms",      "end_ms",
                                        "pay_within_s", "account_stock", "account_buyers"};
    PGresult *row = SQL_RUN(SK_STATEMENT_SETTLEMENT, sql_voucher);
    size_t told = 0, wanted = 0;
    ck_assert_int_eq(PQntuples(row), 1);
    for (int column = 0; column < PQnfields(row); column++) {
        const char *name = PQfname(row, column), *value = PQgetvalue(row, 0, column);
        bool skipped = strcmp(value, "") == 0 || strcmp(value, "0") == 0;
        for (size_t i = 0; i < sizeof terms / sizeof terms[0]; i++)
            skipped = skipped || strcmp(name, terms[i]) == 0;
        if (skipped)
            continue;
        char is[128];
        bool found = false;
        (void)snprintf(is, sizeof is, "%s=%s", name, value);
        for (size_t i = 0; fields[i] != NULL; i++)
            found = found || strcmp(fields[i], is) == 0;
        ck_assert_msg(found, "unexpected: %s", is);
        told++;
    }
    while (fields[wanted] != NULL)
        wanted++;
    ck_assert_uint_eq(told, wanted);
    PQclear(row);
}

#define MUST_BE_SETTLED(...) must_be_settled((const char *const[]){__VA_ARGS__, NULL})

// Inserts `n` orders of `quantity` units each, with their own ids and users.
static void insert(int n, const char *status, const char *reason, int quantity)
{
    db_run("INSERT INTO voucher_order (id, slot, quantity, user_id, voucher_id, status, reason)"
           " SELECT gen_random_uuid(), %s, %d, gen_random_uuid()::text, %s, '%s', %s FROM generate_series(1, %d)",
           sql_slot, quantity, sql_voucher, status, reason, n);
}

TEST(a_new_voucher_has_units_only)
{
    MUST_BE_SETTLED("units=1000", "stock=1000");
    PGresult *row = SQL_RUN(SK_STATEMENT_SETTLEMENT, sql_voucher);
    ck_assert_str_eq(PQgetvalue(row, 0, PQfnumber(row, "state")), "open");
    ck_assert_str_eq(PQgetvalue(row, 0, PQfnumber(row, "pay_within_s")), "900");
    int64_t at_ms = atoll(PQgetvalue(row, 0, PQfnumber(row, "at_ms")));
    ck_assert_int_lt(atoll(PQgetvalue(row, 0, PQfnumber(row, "begin_ms"))), at_ms);
    ck_assert_int_gt(atoll(PQgetvalue(row, 0, PQfnumber(row, "end_ms"))), at_ms);
    PQclear(row);
}

TEST(an_unknown_voucher_has_no_row)
{
    PGresult *none = SQL_RUN(SK_STATEMENT_SETTLEMENT, "999999999");
    ck_assert_int_eq(PQntuples(none), 0);
    PQclear(none);
}

TEST_EACH(orders_and_units_are_counted_apart, 6)
{
    static const struct {
        const char *status, *reason, *orders, *units, *prices;
    } rows[] = {
        {"unpaid", "NULL", "unpaid_orders=2", "unpaid_units=6", "prices=CNY 100 2 6 0 0"},
        {"paid", "NULL", "paid_orders=2", "paid_units=6", "prices=CNY 100 2 6 2 6"},
        {"cancelled", "NULL", "cancelled_orders=2", "cancelled_units=6", NULL},
        {"expired", "NULL", "expired_orders=2", "expired_units=6", NULL},
        {"refunded", "'RESTOCKED'", "restocked_orders=2", "restocked_units=6", NULL},
        {"refunded", "'KEPT'", "kept_orders=2", "kept_units=6", NULL},
    };
    insert(2, rows[_i].status, rows[_i].reason, 3);
    MUST_BE_SETTLED("units=1000", "stock=1000", rows[_i].orders, rows[_i].units, rows[_i].prices);
}

TEST(refusals_are_counted_by_reason)
{
    insert(2, "refused", "'SOLD_OUT'", 1);
    insert(1, "refused", "'ALREADY_ORDERED'", 5);
    insert(1, "refused", "'no, such reason'", 1); // written by another tool: the list stays readable
    insert(1, "refused", "''", 1);
    MUST_BE_SETTLED("units=1000", "stock=1000", "refused_orders=5", "refused_units=9",
                    "refused=ALREADY_ORDERED 1 5,OTHER 2 2,SOLD_OUT 2 2");
}

TEST(another_vouchers_orders_are_not_counted)
{
    insert(3, "unpaid", "NULL", 1);
    sql_make_voucher(7);
    MUST_BE_SETTLED("units=7", "stock=7");
    db_run("UPDATE voucher_order SET slot = %s", sql_slot); // in the same slot
    MUST_BE_SETTLED("units=7", "stock=7");
}

TEST(changes_of_the_stock_are_told_apart)
{
    db_run("INSERT INTO stock_change VALUES (%s, 1, 30), (%s, 2, -4), (%s, 3, 5), (%s, 4, -1), (%s, 5, 9)", sql_voucher,
           sql_voucher, sql_voucher, sql_voucher, "0");
    MUST_BE_SETTLED("units=1000", "stock=1000", "added=35", "taken_away=5");
}

TEST(payments_are_added_up_by_state_and_currency)
{
    db_run("TRUNCATE payment, archived_part");
    db_run("INSERT INTO payment (reference, slot, voucher_id, order_id, amount_cents, currency, state, by_whom)"
           " SELECT concat_ws('-', s, c, n), %s, %s, gen_random_uuid(), 10 * n, c, s, 'till'"
           "   FROM unnest(ARRAY['accepted', 'to_refund', 'refunded'], ARRAY['CNY', 'EUR', 'CNY']) AS p (s, c),"
           "        generate_series(1, 3) n",
           sql_slot, sql_voucher);
    db_run("INSERT INTO archived_part (voucher_id, part, orders, events, payments, orders_sha256, events_sha256,"
           " payments_sha256) VALUES (%s, 1, 9, 9, 4, '', '', ''), (%s, 2, 9, 9, 5, '', '', ''),"
           " (%s + 1, 1, 9, 9, 6, '', '', '')",
           sql_voucher, sql_voucher, sql_voucher);
    MUST_BE_SETTLED("units=1000", "stock=1000", "to_refund=3", "archived_payments=9",
                    "payments=to_refund EUR 3 60,refunded CNY 3 60,accepted CNY 3 60");
    db_run("UPDATE payment SET amount_cents = 9223372036854775807"); // more than a number holds, together
    MUST_BE_SETTLED("units=1000", "stock=1000", "to_refund=3", "archived_payments=9",
                    "payments=to_refund EUR 3 9223372036854775807,refunded CNY 3 9223372036854775807,"
                    "accepted CNY 3 9223372036854775807");
    db_run("UPDATE payment SET voucher_id = voucher_id + 1"); // of another one
    MUST_BE_SETTLED("units=1000", "stock=1000", "archived_payments=9");
    db_run("TRUNCATE payment, archived_part");
}

static void set_aside(const char *journal, const char *orders)
{
    PQclear(SQL_RUN(SK_STATEMENT_SET_ASIDE, sql_slot, sql_voucher, journal, "\\x00ff", orders, "why", "0"));
}

TEST(letters_hold_units_until_they_are_decided)
{
    set_aside("10-1", SQL_ID1 " alice," SQL_ID2 " bob 4");
    set_aside("10-2", SQL_ID3 " carol 2 0123456789abcdef");
    MUST_BE_SETTLED("units=1000", "stock=1000", "letters=2", "held_orders=3", "held_units=7");
    set_aside("10-3", NULL); // unreadable: open, but holds no named order
    MUST_BE_SETTLED("units=1000", "stock=1000", "letters=3", "held_orders=3", "held_units=7");
    // One order is settled after all, one belongs to a user with a live order, and one is decided.
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    PLACE("3", ORDERS({4, "carol"}), ENDS({"placed", 0}));
    MUST_BE_SETTLED("units=1000", "stock=998", "live_counted=2", "unpaid_orders=2", "unpaid_units=2", "letters=2",
                    "held_orders=1", "held_units=4", "prices=CNY 100 2 2 0 0");
    db_run("UPDATE dead_letter SET ended_at = now()");
    MUST_BE_SETTLED("units=1000", "stock=998", "live_counted=2", "unpaid_orders=2", "unpaid_units=2",
                    "prices=CNY 100 2 2 0 0");
}

static void account_must_be(int64_t stock, int64_t buyers)
{
    PGresult *row = SQL_RUN(SK_STATEMENT_SETTLEMENT, sql_voucher);
    ck_assert_int_eq(atoll(PQgetvalue(row, 0, PQfnumber(row, "account_stock"))), stock);
    ck_assert_int_eq(atoll(PQgetvalue(row, 0, PQfnumber(row, "account_buyers"))), buyers);
    PQclear(row);
}

// The report compares Redis with the state that a rebuild would load, even where that is not the sum of the counts.
TEST(redis_must_have_what_a_rebuild_opens_it_with)
{
    sql_make_voucher(3);
    account_must_be(3, 0);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    set_aside("10-1", SQL_ID2 " bob");
    account_must_be(1, 2);
    set_aside("10-2", SQL_ID3 " carol 4"); // more than is left: Redis has 0, not -3
    account_must_be(0, 3);
    set_aside("10-3", "00000000-0000-7000-8000-000000000004 carol"); // one user of Redis in two letters
    account_must_be(0, 3);
    PGresult *opened = SQL_RUN(SK_STATEMENT_REBUILD_STOCK, sql_slot, sql_voucher, "3");
    ck_assert_str_eq(PQgetvalue(opened, 0, 0), "0");
    ck_assert_str_eq(PQgetvalue(opened, 0, 4), "3");
    PQclear(opened);
}

// Only a broken index would let them in.
TEST(second_orders_are_found)
{
    char index[512];
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}, {3, "carol"}), ENDS({"placed", 0}, {"placed", 0}, {"placed", 0}));
    db_text(index, sizeof index, "SELECT indexdef FROM pg_indexes WHERE indexname = 'voucher_order_live'");
    db_run("DROP INDEX voucher_order_live");
    db_run(
        "INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, status)"
        " VALUES (gen_random_uuid(), %s, 'alice', %s, 4, 'paid'), (gen_random_uuid(), %s, 'bob', %s, 6, 'cancelled')",
        sql_slot, sql_voucher, sql_slot, sql_voucher);
    MUST_BE_SETTLED("units=1000", "stock=997", "live_counted=3", "unpaid_orders=3", "unpaid_units=3", "paid_orders=1",
                    "paid_units=4", "cancelled_orders=1", "cancelled_units=6", "duplicates=1",
                    "prices=CNY 100 4 7 1 4");
    db_run("TRUNCATE voucher_order; %s", index);
}

SUITE(.begin = sql_start, .setup = setup, .teardown = sql_teardown, .in_one_process = true);
