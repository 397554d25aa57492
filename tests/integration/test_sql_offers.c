// Offers: all offers of a voucher are kept; an order has the offer that it was placed under, and its price.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

static void setup(void)
{
    sql_setup();
    sql_make_voucher(10);
}

// Changes the price as an operator's call does before the start.
static void price_is(const char *cents, const char *currency)
{
    db_run("UPDATE seckill_voucher SET price_cents = %s, currency = '%s' WHERE id = %s", cents, currency, sql_voucher);
}

static void place_under(const char *offer, int id, const char *user)
{
    sql_offer = offer;
    PLACE("3", ORDERS({id, user}), ENDS({"placed", 0}));
}

// The order's "price total currency".
static void must_cost(const char *id, const char *user, const char *wanted)
{
    char cost[64];
    PGresult *found = SQL_RUN(SK_STATEMENT_FIND_ORDER, sql_slot, id, user);
    json_t *order = sql_document(found, 0);
    (void)snprintf(cost, sizeof cost, "%lld %lld %s",
                   (long long)json_integer_value(json_object_get(order, "price_cents")),
                   (long long)json_integer_value(json_object_get(order, "total_cents")),
                   json_string_value(json_object_get(order, "currency")));
    ck_assert_str_eq(cost, wanted);
    json_decref(order);
    PQclear(found);
}

static void must_pay(const char *id, const char *reference, const char *cents, const char *currency,
                     const char *outcome)
{
    PGresult *paid = SQL_RUN(SK_STATEMENT_PAY_ORDER, sql_slot, id, reference, cents, currency, "till");
    ck_assert_str_eq(PQgetvalue(paid, 0, 0), outcome);
    PQclear(paid);
}

TEST(all_offers_of_a_voucher_are_kept)
{
    char kept[256];
    price_is("200", "EUR");
    db_run("UPDATE seckill_voucher SET title = 'no term of it', end_at = end_at + interval '1 h' WHERE id = %s",
           sql_voucher);
    db_run("UPDATE seckill_voucher SET user_limit = 3, ticket = true, work_bits = 4 WHERE id = %s", sql_voucher);
    db_run("UPDATE seckill_voucher SET pay_within_s = 60 WHERE id = %s", sql_voucher);
    db_text(
        kept, sizeof kept,
        "SELECT string_agg(concat_ws(' ', offer, price_cents, currency, user_limit, ticket, work_bits), ',' ORDER BY"
        " offer) FROM seckill_offer WHERE voucher_id = %s",
        sql_voucher);
    ck_assert_str_eq(kept, "1 100 CNY 1 f 0,2 200 EUR 1 f 0,3 200 EUR 3 t 4,4 200 EUR 3 t 4");
}

TEST(an_order_costs_what_its_offer_says)
{
    place_under("1", 1, "alice");
    price_is("200", "EUR");
    place_under("2", 2, "bob");
    price_is("300", "CNY");
    must_cost(SQL_ID1, "alice", "100 100 CNY");
    must_cost(SQL_ID2, "bob", "200 200 EUR");
    db_run("UPDATE voucher_order SET quantity = 3 WHERE id = '" SQL_ID2 "'");
    must_cost(SQL_ID2, "bob", "200 600 EUR");
}

// After each price change, a payment of the price that the buyer saw is right, and one of the new price is wrong.
TEST(it_is_paid_at_its_own_price)
{
    place_under("1", 1, "alice");
    price_is("200", "CNY");
    must_pay(SQL_ID1, "r-1", "200", "CNY", "wrong_amount");
    must_pay(SQL_ID1, "r-1", "100", "CNY", "paid");
    place_under("2", 2, "bob");
    must_pay(SQL_ID2, "r-2", "100", "CNY", "wrong_amount");
    must_pay(SQL_ID2, "r-2", "200", "CNY", "paid");
}

// Orders older than the table of offers, and numbers that only a forged entry can contain.
TEST(what_names_no_offer_has_the_first_that_is_kept)
{
    db_run("DELETE FROM seckill_offer WHERE voucher_id = %s; INSERT INTO seckill_offer VALUES (%s, 5, 500, 'CNY', 1, "
           "false, 0),"
           " (%s, 6, 600, 'CNY', 1, false, 0)",
           sql_voucher, sql_voucher, sql_voucher);
    place_under("0", 1, "alice");
    place_under("77", 2, "bob");
    must_cost(SQL_ID1, "alice", "500 500 CNY");
    must_cost(SQL_ID2, "bob", "500 500 CNY");
    must_pay(SQL_ID1, "r-1", "500", "CNY", "paid");
}

TEST(each_batch_has_its_offer)
{
    char slots[32], vouchers[64], first[sizeof sql_voucher], slot[sizeof sql_slot];
    memcpy(first, sql_voucher, sizeof first);
    memcpy(slot, sql_slot, sizeof slot);
    price_is("200", "CNY");
    sql_make_voucher(10);
    (void)snprintf(slots, sizeof slots, "{%s,%s}", slot, sql_slot);
    (void)snprintf(vouchers, sizeof vouchers, "{%s,%s}", first, sql_voucher);
    static const char *const epochs[] = {"{3,3}", "{3,2}"}; // in one call, then one by one
    for (int i = 0; i < 2; i++) {
        PGresult *placed =
            SQL_RUN(SK_STATEMENT_PLACE_BATCHES, slots, vouchers, epochs[i], "{1,1}",
                    i == 0 ? "{" SQL_ID1 "," SQL_ID2 "}"
                           : "{00000000-0000-7000-8000-000000000011,00000000-0000-7000-8000-000000000012}",
                    i == 0 ? "{alice,bob}" : "{carol,dave}", "{null,null}", NULL, NULL, "{2,1}");
        PQclear(placed);
    }
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s AND offer = 2", first), 2);
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s AND offer = 1", sql_voucher),
                     1);
}

// A letter keeps the offer of its order, for a retry and for its end.
TEST(a_letter_has_the_offer_of_its_order)
{
    price_is("200", "CNY");
    PQclear(SQL_RUN(SK_STATEMENT_SET_ASIDE, sql_slot, sql_voucher, "7-1", "\\x00", SQL_ID1 " alice", "why", "2"));
    char letter[24];
    db_text(letter, sizeof letter, "SELECT id FROM dead_letter WHERE voucher_id = %s", sql_voucher);
    PGresult *found = SQL_RUN(SK_STATEMENT_FIND_DEAD_LETTER, sql_slot, sql_voucher, letter);
    ck_assert_str_eq(PQgetvalue(found, 0, 2), "2");
    PQclear(found);
    PQclear(SQL_RUN(SK_STATEMENT_WRITE_OFF, sql_slot, sql_voucher, letter));
    ck_assert_int_eq(db_number("SELECT offer FROM voucher_order WHERE id = '" SQL_ID1 "'"), 2);
    PQclear(SQL_RUN(SK_STATEMENT_REFUSE_ORDERS, sql_slot, sql_voucher, "{" SQL_ID2 "}", "{bob}", "{GRANT_LOST}", "{1}",
                    "{2}"));
    ck_assert_int_eq(db_number("SELECT offer FROM voucher_order WHERE id = '" SQL_ID2 "'"), 2);
}

TEST(redis_is_told_the_offer)
{
    char slots[16], vouchers[32];
    price_is("200", "CNY");
    (void)snprintf(slots, sizeof slots, "{%s}", sql_slot);
    (void)snprintf(vouchers, sizeof vouchers, "{%s}", sql_voucher);
    PGresult *account = SQL_RUN(SK_STATEMENT_VOUCHER_ACCOUNTS, slots, vouchers),
             *stock = SQL_RUN(SK_STATEMENT_REBUILD_STOCK, sql_slot, sql_voucher, "3"),
             *change = SQL_RUN(SK_STATEMENT_VOUCHER_CHANGES, sql_slot, sql_voucher, "0");
    ck_assert_str_eq(PQgetvalue(account, 0, PQfnumber(account, "offer")), "2");
    ck_assert_str_eq(PQgetvalue(stock, 0, PQfnumber(stock, "offer")), "2");
    ck_assert_str_eq(PQgetvalue(change, 0, PQfnumber(change, "offer")), "2");
    PQclear(account);
    PQclear(stock);
    PQclear(change);
}

TEST(the_settlement_sums_by_price)
{
    place_under("1", 1, "alice");
    place_under("1", 2, "bob");
    must_pay(SQL_ID1, "r-1", "100", "CNY", "paid");
    price_is("200", "CNY");
    db_run("UPDATE seckill_voucher SET ticket = true WHERE id = %s", sql_voucher); // the same price under another offer
    place_under("2", 3, "carol");
    place_under("3", 4, "dave");
    PGresult *row = SQL_RUN(SK_STATEMENT_SETTLEMENT, sql_voucher);
    ck_assert_str_eq(PQgetvalue(row, 0, PQfnumber(row, "prices")), "CNY 100 2 2 1 1,CNY 200 2 2 0 0");
    PQclear(row);
    // Orders that were archived are included.
    db_run(
        "DELETE FROM voucher_order WHERE voucher_id = %s AND offer = 1; INSERT INTO archived_orders (slot, voucher_id,"
        " status, reason, offer, orders, units, first_id, last_id) VALUES (%s, %s, 'paid', '', 1, 2, 5, '" SQL_ID1
        "', '" SQL_ID2 "')",
        sql_voucher, sql_slot, sql_voucher);
    row = SQL_RUN(SK_STATEMENT_SETTLEMENT, sql_voucher);
    ck_assert_str_eq(PQgetvalue(row, 0, PQfnumber(row, "prices")), "CNY 100 2 5 2 5,CNY 200 2 2 0 0");
    PQclear(row);
}

// ---- the freeze ----

// NULL: unchanged. Arguments in the order of the statement, starting at the title.
static void must_change(const char *title, const char *price, const char *begin_ms, const char *end_ms,
                        const char *limit, const char *within, const char *ticket, const char *outcome)
{
    char key[48];
    static int keys;
    (void)snprintf(key, sizeof key, "key-%d-%d", (int)getpid(), keys++);
    PGresult *changed = SQL_RUN(SK_STATEMENT_CHANGE_VOUCHER, sql_voucher, "0", key, "ann", title, price, NULL, begin_ms,
                                end_ms, limit, within, ticket, NULL, NULL, NULL);
    ck_assert_str_eq(PQgetvalue(changed, 0, 0), outcome);
    PQclear(changed);
}

static void must_be_frozen(bool frozen)
{
    const char *outcome = frozen ? "started" : "done";
    must_change(NULL, "700", NULL, NULL, NULL, NULL, NULL, outcome);
    must_change(NULL, NULL, "9000000000000", "99999999999999", NULL, NULL, NULL, outcome);
    must_change(NULL, NULL, NULL, NULL, "7", NULL, NULL, outcome);
    must_change(NULL, NULL, NULL, NULL, NULL, "77", NULL, outcome);
    must_change("new", NULL, NULL, "99999999999999", NULL, NULL, NULL, "done");
    must_change(NULL, NULL, NULL, NULL, NULL, NULL, "1", "done");
    must_change(NULL, NULL, NULL, NULL, NULL, NULL, "0", "done");
}

static void starts_in_an_hour(void)
{
    db_run(
        "UPDATE seckill_voucher SET begin_at = now() + interval '1 h', end_at = now() + interval '2 h' WHERE id = %s",
        sql_voucher);
}

TEST(terms_freeze_at_the_start)
{
    must_be_frozen(true);
    starts_in_an_hour();
    must_be_frozen(false);
}

// Redis's clock may be ahead of PostgreSQL's; then orders exist before the start.
TEST(terms_freeze_with_the_first_order)
{
    starts_in_an_hour();
    place_under("1", 1, "alice");
    must_be_frozen(true);
    db_run("UPDATE voucher_order SET status = 'cancelled'"); // it still counts
    must_be_frozen(true);
    db_run("DELETE FROM voucher_order");
    PQclear(SQL_RUN(SK_STATEMENT_SET_ASIDE, sql_slot, sql_voucher, "7-1", "\\x00", SQL_ID1 " alice", "why", "1"));
    must_be_frozen(true);
}

SUITE(.begin = sql_start, .setup = setup, .teardown = sql_teardown, .in_one_process = true);
