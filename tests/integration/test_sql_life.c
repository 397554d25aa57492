// Payments and their refunds where the order of transactions counts: concurrent calls on two connections, locks, and a
// payment against the expiry of the same order. What each call does by itself is the table of test_order_moves.c.
#include <stdio.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

// Makes unpaid orders due for expiry.
static void make_due(void)
{
    db_run("UPDATE voucher_order SET created_at = '2026-01-01', updated_at = '2026-01-01' WHERE status = 'unpaid'");
}

static void setup(void)
{
    sql_setup();
    sql_make_voucher(10); // the price is 100 CNY cents
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    make_due();
}

// ---- calls ----

enum what { PAY, REFUND, EXPIRE };

struct call {
    enum what what;
    const char *id, *reference;
};

static void send_call(PGconn *conn, struct call call)
{
    static const char expire[] = "SELECT outcome FROM return_orders($1::integer, $2::bigint, 3, ARRAY[$3::uuid],"
                                 " 'expired', 'expiry', NULL, '7-1')";
    const char *const payment[] = {sql_slot, call.id, call.reference, "100", "CNY", "till"},
                      *const refund[] = {sql_slot, call.id, "olga", NULL, call.reference},
                      *const expired[] = {sql_slot, sql_voucher, call.id};
    const struct {
        const char *text;
        int n;
        const char *const *params;
    } calls[] = {[PAY] = {sk_statements[SK_STATEMENT_PAY_ORDER].text, 6, payment},
                 [REFUND] = {sk_statements[SK_STATEMENT_NOTE_REFUNDS].text, 5, refund},
                 [EXPIRE] = {expire, 3, expired}};
    int sent = PQsendQueryParams(conn, calls[call.what].text, calls[call.what].n, NULL, calls[call.what].params, NULL,
                                 NULL, 0);
    ck_assert_msg(sent == 1, "%s", PQerrorMessage(conn));
}

static void must_end(PGconn *conn, const char *outcome)
{
    PGresult *result = sql_receive(conn);
    ck_assert_int_eq(PQntuples(result), 1);
    ck_assert_str_eq(PQgetvalue(result, 0, 0), outcome);
    PQclear(result);
}

static void must_come_to(struct call call, const char *outcome)
{
    send_call(sql_service, call);
    must_end(sql_service, outcome);
}

static void must_pay(const char *id, const char *reference, const char *outcome)
{
    must_come_to((struct call){PAY, id, reference}, outcome);
}

// ---- results ----

static void must_be_noted(int payments, int events)
{
    ck_assert_int_eq(db_number("SELECT count(*) FROM payment"), payments);
    ck_assert_int_eq(db_number("SELECT count(*) FROM order_event"), events);
}

static bool somebody_waits(void)
{
    return db_number("SELECT count(*) FROM pg_stat_activity WHERE usename = 'seckill' AND wait_event_type = 'Lock'") ==
           1;
}

// ---- paying ----

TEST(another_slot_has_not_the_order)
{
    const char *params[] = {"1", SQL_ID1, "ref-1", "100", "CNY", "till"};
    PGresult *result = sql_run(SK_STATEMENT_PAY_ORDER, 6, params);
    ck_assert_str_eq(PQgetvalue(result, 0, 0), "unknown");
    PQclear(result);
    must_be_noted(0, 0);
}

TEST(an_order_of_several_units_costs_their_sum)
{
    static const char *const rows[][4] = {{SQL_ID1, "100", "CNY", "wrong_amount"},
                                          {SQL_ID1, "300", "CNY", "paid"},
                                          {SQL_ID2, "100000000000000", "EUR", "paid"}}; // more than 32 bits
    db_run("UPDATE seckill_voucher SET currency = 'EUR', price_cents = 100000000000");
    db_run("UPDATE voucher_order SET quantity = 3 WHERE id = '" SQL_ID1 "'");
    db_run("UPDATE voucher_order SET quantity = 1000, offer = 2 WHERE id = '" SQL_ID2 "'");
    for (size_t i = 0; i < COUNT(rows); i++) {
        PGresult *result =
            SQL_RUN(SK_STATEMENT_PAY_ORDER, sql_slot, rows[i][0], rows[i][0], rows[i][1], rows[i][2], "x");
        ck_assert_str_eq(PQgetvalue(result, 0, 0), rows[i][3]);
        PQclear(result);
    }
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE updated_at > created_at"), 2);
}

// It is recorded once, and refunded by itself.
TEST(a_second_payment_is_to_be_refunded)
{
    must_pay(SQL_ID1, "ref-1", "paid");
    for (int i = 0; i < 2; i++)
        must_pay(SQL_ID1, "ref-2", "already_paid");
    must_pay(SQL_ID1, "ref-1", "already");
    must_pay(SQL_ID2, "ref-2", "reference_used");
    must_be_noted(2, 2);
    ck_assert_int_eq(db_number("SELECT payments FROM count_to_refund(10)"), 1);
    for (int i = 0; i < 2; i++) {
        must_come_to((struct call){REFUND, SQL_ID1, "ref-2"}, "refunded");
        must_pay(SQL_ID1, "ref-2", "already_paid");
    }
    must_be_noted(2, 3);
    sql_must_be(1, "paid", "");
    must_come_to((struct call){REFUND, SQL_ID1, "ref-1"}, "returns");
    must_come_to((struct call){REFUND, SQL_ID1, NULL}, "returns");
}

// ---- the moves ----

// As in docs/internals.md.
TEST(allowed_is_what_the_table_says)
{
    char moves[256];
    db_text(moves, sizeof moves,
            "SELECT string_agg(from_status || ' ' || to_status, ',' ORDER BY from_status, to_status) FROM order_move");
    ck_assert_str_eq(moves, "unpaid paid,unpaid cancelled,unpaid expired,paid refunded");
}

TEST(moves_are_looked_up)
{
    PGconn *superuser = db_connect();
    PQclear(PQexec(superuser, "BEGIN; DELETE FROM order_move WHERE to_status = 'paid';"
                              " INSERT INTO order_move VALUES ('unpaid', 'refunded', 'x')"));
    send_call(superuser, (struct call){PAY, SQL_ID1, "ref-1"});
    must_end(superuser, "to_refund");
    send_call(superuser, (struct call){REFUND, SQL_ID1, NULL});
    must_end(superuser, "returns");
    PQfinish(superuser);
    must_be_noted(0, 0);
}

TEST(an_order_in_a_letter_is_pending)
{
    static const char *const pending = "{\"id\":\"" SQL_ID3 "\",\"voucher_id\":\"%s\",\"user_id\":\"carol\","
                                       "\"quantity\":2,\"status\":\"pending\"}";
    char expected[256];
    PGresult *result = SQL_RUN(SK_STATEMENT_FIND_ANY_ORDER, sql_slot, SQL_ID3);
    ck_assert_int_eq(PQntuples(result), 0);
    PQclear(result);
    PQclear(SQL_RUN(SK_STATEMENT_SET_ASIDE, sql_slot, sql_voucher, "7-1", "\\x00", SQL_ID3 " carol 2", "why", "0"));
    (void)snprintf(expected, sizeof expected, pending, sql_voucher);
    result = SQL_RUN(SK_STATEMENT_FIND_ANY_ORDER, sql_slot, SQL_ID3);
    ck_assert_int_eq(PQntuples(result), 1);
    ck_assert_str_eq(PQgetvalue(result, 0, 0), expected);
    PQclear(result);
    PQclear(SQL_RUN(SK_STATEMENT_WRITE_OFF, sql_slot, sql_voucher,
                    (db_text(expected, sizeof expected, "SELECT max(id) FROM dead_letter"), expected)));
    result = SQL_RUN(SK_STATEMENT_FIND_ANY_ORDER, sql_slot, SQL_ID3);
    json_t *order = sql_document(result, 0);
    ck_assert_str_eq(json_string_value(json_object_get(order, "status")), "refused");
    json_decref(order);
    PQclear(result);
}

// ---- concurrency ----

// The first call's transaction is open until the second one waits for it.
static const struct race {
    bool owed; // the order has expired, and was paid too late
    struct call first;
    const char *outcome, *end;
    struct call second;
    const char *second_outcome;
    int payments, events, live, to_refund; // afterwards
} races[] = {
    {false, {PAY, SQL_ID1, "ref-1"}, "paid", "COMMIT", {PAY, SQL_ID1, "ref-1"}, "already", 1, 1, 2, 0},
    {false, {PAY, SQL_ID1, "ref-1"}, "paid", "COMMIT", {PAY, SQL_ID1, "ref-2"}, "already_paid", 2, 2, 2, 1},
    // The two calls lock different orders; the reference decides.
    {false, {PAY, SQL_ID1, "ref-1"}, "paid", "COMMIT", {PAY, SQL_ID2, "ref-1"}, "reference_used", 1, 1, 2, 0},
    {false, {PAY, SQL_ID1, "ref-1"}, "paid", "ROLLBACK", {PAY, SQL_ID1, "ref-1"}, "paid", 1, 1, 2, 0},
    {false, {PAY, SQL_ID1, "ref-1"}, "paid", "ROLLBACK", {PAY, SQL_ID2, "ref-1"}, "paid", 1, 1, 2, 0},
    {false, {PAY, SQL_ID1, "ref-1"}, "paid", "COMMIT", {EXPIRE, SQL_ID1, NULL}, "kept", 1, 1, 2, 0},
    {false, {EXPIRE, SQL_ID1, NULL}, "returned", "COMMIT", {PAY, SQL_ID1, "ref-1"}, "to_refund", 1, 2, 1, 1},
    {true, {REFUND, SQL_ID1, NULL}, "refunded", "COMMIT", {REFUND, SQL_ID1, NULL}, "refunded", 1, 3, 1, 0},
    // A payment whose transaction began before the refund's and ended after it counts as later.
    {true, {REFUND, SQL_ID1, NULL}, "refunded", "COMMIT", {PAY, SQL_ID1, "later"}, "to_refund", 2, 4, 1, 1},
};

TEST_EACH(of_two_calls_at_once_the_second_sees_the_first, COUNT(races))
{
    const struct race *race = &races[_i];
    PGconn *first = sql_connect();
    if (race->owed) {
        must_come_to((struct call){EXPIRE, SQL_ID1, NULL}, "returned");
        must_pay(SQL_ID1, "late", "to_refund");
    }
    PQclear(PQexec(first, "BEGIN"));
    send_call(first, race->first);
    must_end(first, race->outcome);
    send_call(sql_service, race->second);
    WAIT_FOR(somebody_waits());
    PQclear(PQexec(first, race->end));
    PQfinish(first);
    must_end(sql_service, race->second_outcome);
    must_be_noted(race->payments, race->events);
    sql_must_have(race->live, 10 - race->live);
    ck_assert_int_eq(db_number("SELECT count(*) FROM payment WHERE state = 'to_refund'"), race->to_refund);
}

// A batch of orders, or a rebuild, locks the voucher's row.
TEST(payments_do_not_wait_for_the_voucher)
{
    PGconn *holder = db_connect();
    PQclear(PQexec(holder, "BEGIN"));
    PQclear(PQexec(holder, "SELECT FROM voucher_stock FOR UPDATE"));
    PQclear(PQexec(sql_service, "SET lock_timeout = '10s'"));
    must_pay(SQL_ID1, "ref-1", "paid"); // it would fail if it waited
    must_come_to((struct call){REFUND, SQL_ID2, NULL}, "kept");
    PQfinish(holder);
}

// And no batch waits for a payment.
TEST(buyers_do_not_wait_for_payments)
{
    PGconn *first = sql_connect();
    PQclear(PQexec(first, "BEGIN"));
    send_call(first, (struct call){PAY, SQL_ID1, "ref-1"});
    must_end(first, "paid");
    PQclear(PQexec(sql_service, "SET lock_timeout = '10s'"));
    PLACE("3", ORDERS({3, "carol"}), ENDS({"placed", 0}));
    PQclear(PQexec(first, "COMMIT"));
    PQfinish(first);
    sql_must_have(3, 7);
}

enum { ROUNDS = 60 };

// No order is fixed between them: whichever comes first, the order ends in one state, and the payment matches.
TEST(pay_and_expiry_at_once_agree)
{
    PGconn *other = sql_connect();
    int paid = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char id[SK_UUID_SIZE], reference[16], user[16];
        (void)snprintf(user, sizeof user, "user-%d", round);
        (void)snprintf(reference, sizeof reference, "ref-%d", round);
        sql_put_id(id, 100 + round);
        db_run("UPDATE voucher_stock SET stock = stock + 1, units = units + 1");
        PLACE("3", ORDERS({100 + round, user}), ENDS({"placed", 0}));
        make_due();
        bool pay_first = round % 2 == 0;
        if (!pay_first)
            send_call(other, (struct call){EXPIRE, id, NULL});
        send_call(sql_service, (struct call){PAY, id, reference});
        if (pay_first)
            send_call(other, (struct call){EXPIRE, id, NULL});
        PGresult *payment = sql_receive(sql_service), *end = sql_receive(other);
        bool kept = strcmp(PQgetvalue(end, 0, 0), "kept") == 0;
        ck_assert_str_eq(PQgetvalue(end, 0, 0), kept ? "kept" : "returned");
        ck_assert_str_eq(PQgetvalue(payment, 0, 0), kept ? "paid" : "to_refund");
        sql_must_be(100 + round, kept ? "paid" : "expired", "");
        paid += kept;
        PQclear(payment);
        PQclear(end);
    }
    PQfinish(other);
    must_be_noted(ROUNDS, paid + 2 * (ROUNDS - paid));
    ck_assert_int_eq(db_number("SELECT count(*) FROM payment WHERE state = 'accepted'"), paid);
    sql_must_have(2 + paid, 8 + ROUNDS - paid);
}

SUITE(.begin = sql_start, .setup = setup, .teardown = sql_teardown, .in_one_process = true);
