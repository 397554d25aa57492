// Payments and their refunds: every outcome of pay_order() and note_refunds(), also for concurrent calls on two
// connections, and for a payment against the expiry of the same order.
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
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

static void send_payment(PGconn *conn, const char *id, const char *reference, const char *cents, const char *currency)
{
    const char *params[] = {sql_slot, id, reference, cents, currency, "till"};
    int sent = PQsendQueryParams(conn, sk_statements[SK_STATEMENT_PAY_ORDER].text, 6, NULL, params, NULL, NULL, 0);
    ck_assert_msg(sent == 1, "%s", PQerrorMessage(conn));
}

// Checks the first value of the answer; returns the document, or NULL.
static json_t *must_come_to(PGconn *conn, const char *outcome)
{
    PGresult *result = sql_receive(conn);
    int document = PQfnumber(result, "document");
    ck_assert_int_eq(PQntuples(result), 1);
    ck_assert_msg(strcmp(PQgetvalue(result, 0, 0), outcome) == 0, "%s instead of %s", PQgetvalue(result, 0, 0),
                  outcome);
    json_t *json = document < 0 || PQgetisnull(result, 0, document) ? NULL : sql_document(result, document);
    PQclear(result);
    return json;
}

static void must_end(PGconn *conn, const char *outcome)
{
    json_decref(must_come_to(conn, outcome));
}

static json_t *pay(const char *id, const char *reference, const char *cents, const char *currency, const char *outcome)
{
    send_payment(sql_service, id, reference, cents, currency);
    return must_come_to(sql_service, outcome);
}

static void must_pay(const char *id, const char *reference, const char *outcome)
{
    json_decref(pay(id, reference, "100", "CNY", outcome));
}

// `reference` NULL: no payment in particular.
static void send_refund(PGconn *conn, const char *id, const char *why, const char *reference)
{
    const char *params[] = {sql_slot, id, "olga", why, reference};
    int sent = PQsendQueryParams(conn, sk_statements[SK_STATEMENT_NOTE_REFUNDS].text, 5, NULL, params, NULL, NULL, 0);
    ck_assert_msg(sent == 1, "%s", PQerrorMessage(conn));
}

static json_t *refund(const char *id, const char *why, const char *outcome)
{
    send_refund(sql_service, id, why, NULL);
    return must_come_to(sql_service, outcome);
}

static json_t *refund_of(const char *id, const char *reference, const char *outcome)
{
    send_refund(sql_service, id, NULL, reference);
    return must_come_to(sql_service, outcome);
}

static void must_refund(const char *id, const char *outcome)
{
    json_decref(refund(id, NULL, outcome));
}

static void send_return(PGconn *conn, const char *id, const char *move)
{
    const char *params[] = {sql_slot, sql_voucher, id, move};
    int sent = PQsendQueryParams(conn,
                                 "SELECT outcome FROM return_orders($1::integer, $2::bigint, 3, ARRAY[$3::uuid], $4,"
                                 " 'expiry', NULL, '7-1')",
                                 4, NULL, params, NULL, NULL, 0);
    ck_assert_msg(sent == 1, "%s", PQerrorMessage(conn));
}

static void must_return(const char *id, const char *move, const char *outcome)
{
    send_return(sql_service, id, move);
    must_end(sql_service, outcome);
}

// ---- results ----

// Checks status, payments ("reference state,...") and events ("status by why,...") in the document.
static void must_show(json_t *order, const char *status, const char *payments, const char *events)
{
    struct sk_buf told = {0};
    size_t i;
    json_t *one;
    ck_assert_str_eq(json_string_value(json_object_get(order, "status")), status);
    sk_buf_puts(&told, "");
    json_array_foreach(json_object_get(order, "payments"), i, one)
    {
        const char *reference, *currency, *state, *at;
        json_int_t cents;
        ck_assert_int_eq(json_unpack(one, "{s:s,s:I,s:s,s:s,s:s!}", "reference", &reference, "amount_cents", &cents,
                                     "currency", &currency, "state", &state, "at", &at),
                         0);
        ck_assert_uint_eq(strlen(at), strlen("2026-11-10T16:00:00.123Z"));
        sk_buf_printf(&told, "%s%s %d %s %s", i == 0 ? "" : ",", reference, (int)cents, currency, state);
    }
    ck_assert_str_eq(told.data == NULL ? "" : told.data, payments);
    sk_buf_clear(&told);
    sk_buf_puts(&told, "");
    json_array_foreach(json_object_get(order, "events"), i, one)
    {
        const char *at, *became, *by, *why = NULL;
        ck_assert_int_eq(json_unpack(one, "{s:s,s:s,s:s,s?s!}", "at", &at, "status", &became, "by", &by, "why", &why),
                         0);
        sk_buf_printf(&told, "%s%s %s%s%s", i == 0 ? "" : ",", became, by, why == NULL ? "" : " ",
                      why == NULL ? "" : why);
    }
    ck_assert_str_eq(told.data == NULL ? "" : told.data, events);
    // No empty lists.
    ck_assert_int_eq(json_object_get(order, "payments") == NULL, payments[0] == '\0');
    ck_assert_int_eq(json_object_get(order, "events") == NULL, events[0] == '\0');
    sk_buf_free(&told);
    json_decref(order);
}

static json_t *found(const char *id, const char *user)
{
    PGresult *result = SQL_RUN(SK_STATEMENT_FIND_ORDER, sql_slot, id, user);
    json_t *json = sql_document(result, 0);
    PQclear(result);
    return json;
}

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

START_TEST(a_payment_is_noted_once)
{
    must_show(found(SQL_ID1, "alice"), "unpaid", "", "");
    for (int i = 0; i < 3; i++)
        must_show(pay(SQL_ID1, "ref-1", "100", "CNY", i == 0 ? "paid" : "already"), "paid", "ref-1 100 CNY accepted",
                  "paid till");
    must_show(found(SQL_ID1, "alice"), "paid", "ref-1 100 CNY accepted", "paid till");
    must_show(found(SQL_ID2, "bob"), "unpaid", "", "");
    must_be_noted(1, 1);
    sql_must_have(2, 8); // a paid order is as live as before
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE updated_at > created_at"), 1);
}
END_TEST

START_TEST(what_cannot_be_noted_changes_nothing)
{
    static const struct {
        const char *id, *reference, *cents, *currency, *outcome;
    } rows[] = {
        {SQL_ID2, "ref-1", "100", "CNY", "reference_used"},
        {SQL_ID2, "ref-2", "99", "CNY", "wrong_amount"},
        {SQL_ID2, "ref-2", "101", "CNY", "wrong_amount"},
        {SQL_ID2, "ref-2", "200", "CNY", "wrong_amount"},
        {SQL_ID2, "ref-2", "0", "CNY", "wrong_amount"},
        {SQL_ID2, "ref-2", "-100", "CNY", "wrong_amount"},
        {SQL_ID2, "ref-2", "9223372036854775807", "CNY", "wrong_amount"},
        {SQL_ID2, "ref-2", "100", "USD", "wrong_amount"},
        {SQL_ID2, "ref-2", "100", "cny", "wrong_amount"},
        {SQL_ID1, "ref-2", "100", "CNY", "already_paid"},
        {SQL_ID1, "REF-1", "100", "CNY", "already_paid"}, // references are compared byte by byte
        {SQL_ID1, "ref-2", "1", "USD", "already_paid"},
        {SQL_ID1, "ref-1", "99", "CNY", "wrong_amount"}, // not the recorded amount
        {SQL_ID1, "ref-1", "100", "USD", "wrong_amount"},
        {SQL_ID3, "ref-3", "100", "CNY", "unknown"},
        {SQL_ID3, "ref-1", "100", "CNY", "unknown"},
    };
    must_pay(SQL_ID1, "ref-1", "paid");
    for (size_t i = 0; i < COUNT(rows); i++)
        ck_assert_ptr_null(pay(rows[i].id, rows[i].reference, rows[i].cents, rows[i].currency, rows[i].outcome));
    must_be_noted(1, 1);
    sql_must_be(1, "paid", "");
    sql_must_be(2, "unpaid", "");
    must_pay(SQL_ID2, "ref-2", "paid"); // none of them affects the other order
}
END_TEST

START_TEST(another_slot_has_not_the_order)
{
    const char *params[] = {"1", SQL_ID1, "ref-1", "100", "CNY", "till"};
    PGresult *result = sql_run(SK_STATEMENT_PAY_ORDER, 6, params);
    ck_assert_str_eq(PQgetvalue(result, 0, 0), "unknown");
    PQclear(result);
    must_be_noted(0, 0);
}
END_TEST

START_TEST(an_order_of_several_units_costs_their_sum)
{
    db_run("UPDATE voucher_order SET quantity = 3 WHERE id = '" SQL_ID1 "'");
    must_pay(SQL_ID1, "ref-1", "wrong_amount");
    json_decref(pay(SQL_ID1, "ref-1", "300", "CNY", "paid"));
    db_run("UPDATE seckill_voucher SET currency = 'EUR', price_cents = 100000000000");
    db_run("UPDATE voucher_order SET quantity = 1000, offer = 2 WHERE id = '" SQL_ID2 "'");
    json_decref(pay(SQL_ID2, "ref-2", "100000000000000", "EUR", "paid")); // more than 32 bits
}
END_TEST

// Any payment that arrives is to be refunded; the order does not revive.
START_TEST(a_payment_after_the_end_is_to_be_refunded)
{
    static const char *const ends[][2] = {
        {"cancelled", NULL}, {"expired", NULL}, {"refused", "'GRANT_LOST'"}, {"refunded", "'KEPT'"}};
    for (size_t i = 0; i < COUNT(ends); i++) {
        char events[128];
        db_run("TRUNCATE payment, order_event; UPDATE voucher_order SET status = '%s', reason = %s WHERE id = '%s'",
               ends[i][0], ends[i][1] == NULL ? "NULL" : ends[i][1], SQL_ID1);
        (void)snprintf(events, sizeof events, "%s till PAYMENT_TO_REFUND", ends[i][0]);
        for (int run = 0; run < 2; run++)
            must_show(pay(SQL_ID1, "late", "7", "USD", run == 0 ? "to_refund" : "already"), ends[i][0],
                      "late 7 USD to_refund", events);
        must_be_noted(1, 1);
        json_decref(pay(SQL_ID1, "later", "100", "CNY", "to_refund"));
        must_be_noted(2, 2);
        must_pay(SQL_ID2, "late", "reference_used");
    }
    must_pay(SQL_ID2, "ref-2", "paid");
}
END_TEST

// An order that was paid, refunded and paid again under the first reference does not change.
START_TEST(a_refunded_payment_is_not_taken_again)
{
    must_pay(SQL_ID1, "ref-1", "paid");
    must_return(SQL_ID1, "refunded", "returned");
    must_show(pay(SQL_ID1, "ref-1", "100", "CNY", "already"), "refunded", "ref-1 100 CNY refunded",
              "paid till,refunded expiry");
    sql_must_have(1, 9);
}
END_TEST

// ---- refunds ----

START_TEST(what_came_too_late_is_given_back_once)
{
    must_return(SQL_ID1, "expired", "returned");
    must_pay(SQL_ID1, "late", "to_refund");
    must_pay(SQL_ID1, "later", "to_refund");
    for (int i = 0; i < 3; i++)
        must_show(refund(SQL_ID1, i == 0 ? "asked by phone" : NULL, "refunded"), "expired",
                  "late 100 CNY refunded,later 100 CNY refunded",
                  "expired expiry,expired till PAYMENT_TO_REFUND,expired till PAYMENT_TO_REFUND,"
                  "expired olga asked by phone");
    must_pay(SQL_ID1, "late", "already");
    sql_must_have(1, 9);
}
END_TEST

// The refund's answer is lost, a payment arrives, and the refund is repeated: nobody has sent that payment back.
START_TEST(a_repeated_refund_settles_no_later_payment)
{
    static const char *const firsts[] = {"refunded", "expired"};
    for (size_t i = 0; i < COUNT(firsts); i++) {
        const char *id = i == 0 ? SQL_ID1 : SQL_ID2;
        char late[16], later[16];
        (void)snprintf(late, sizeof late, "late-%zu", i);
        (void)snprintf(later, sizeof later, "later-%zu", i);
        if (i == 0) {
            must_pay(id, late, "paid");
            must_return(id, "refunded", "returned");
        } else {
            must_return(id, "expired", "returned");
            must_pay(id, late, "to_refund");
            must_refund(id, "refunded");
        }
        must_pay(id, later, "to_refund");
        int64_t events = db_number("SELECT count(*) FROM order_event");
        for (int run = 0; run < 2; run++)
            must_refund(id, "refunded");
        json_decref(refund_of(id, late, "refunded")); // nor does one that names the first payment
        ck_assert_int_eq(
            db_number("SELECT count(*) FROM payment WHERE state = 'to_refund' AND reference = '%s'", later), 1);
        ck_assert_int_eq(db_number("SELECT count(*) FROM order_event"), events);
        json_decref(refund_of(id, later, "refunded"));
        ck_assert_int_eq(db_number("SELECT count(*) FROM order_event"), events + 1);
        ck_assert_int_eq(db_number("SELECT count(*) FROM payment WHERE state <> 'refunded'"), 0);
    }
}
END_TEST

START_TEST(a_refund_that_names_a_payment_settles_that_one)
{
    must_return(SQL_ID1, "expired", "returned");
    must_pay(SQL_ID1, "one", "to_refund");
    must_pay(SQL_ID1, "two", "to_refund");
    for (int run = 0; run < 3; run++) // the last call names none
        must_show(refund_of(SQL_ID1, run < 2 ? "two" : NULL, "refunded"), "expired",
                  "one 100 CNY to_refund,two 100 CNY refunded",
                  "expired expiry,expired till PAYMENT_TO_REFUND,expired till PAYMENT_TO_REFUND,"
                  "expired olga PAYMENT_REFUNDED");
    must_show(refund_of(SQL_ID1, "one", "refunded"), "expired", "one 100 CNY refunded,two 100 CNY refunded",
              "expired expiry,expired till PAYMENT_TO_REFUND,expired till PAYMENT_TO_REFUND,"
              "expired olga PAYMENT_REFUNDED,expired olga PAYMENT_REFUNDED");
    // For a paid order it is the payment that paid it.
    must_pay(SQL_ID2, "three", "paid");
    json_decref(refund_of(SQL_ID2, "three", "returns"));
    must_return(SQL_ID2, "refunded-kept", "returned");
    json_decref(refund_of(SQL_ID2, "three", "refunded"));
}
END_TEST

START_TEST(a_payment_of_another_order_is_not_refunded)
{
    must_return(SQL_ID1, "expired", "returned");
    must_pay(SQL_ID1, "late", "to_refund");
    must_pay(SQL_ID2, "ref-2", "paid");
    json_decref(refund_of(SQL_ID1, "ref-2", "unknown_payment"));
    json_decref(refund_of(SQL_ID1, "made-up", "unknown_payment"));
    json_decref(refund_of(SQL_ID1, "LATE", "unknown_payment")); // compared byte by byte
    json_decref(refund_of(SQL_ID2, "late", "unknown_payment"));
    json_decref(refund_of(SQL_ID3, "late", "unknown"));
    must_be_noted(2, 3);
    ck_assert_int_eq(db_number("SELECT count(*) FROM payment WHERE state = 'refunded'"), 0);
}
END_TEST

START_TEST(where_nothing_is_to_be_given_back_nothing_is_done)
{
    must_refund(SQL_ID3, "unknown");
    must_refund(SQL_ID1, "kept"); // unpaid
    must_return(SQL_ID1, "cancelled", "returned");
    must_refund(SQL_ID1, "kept"); // ended, without a payment
    must_be_noted(0, 1);
    must_pay(SQL_ID2, "ref-2", "paid");
    must_refund(SQL_ID2, "returns"); // a refund of a paid order returns units
    must_be_noted(1, 2);
    sql_must_be(2, "paid", "");
    must_return(SQL_ID2, "refunded-kept", "returned");
    must_refund(SQL_ID2, "refunded"); // repeated
    must_be_noted(1, 3);
}
END_TEST

// ---- the moves ----

// As in docs/internals.md.
START_TEST(allowed_is_what_the_table_says)
{
    static const char *const statuses[] = {"unpaid", "paid", "cancelled", "expired", "refused", "refunded"};
    static const char *const allowed = "unpaid paid,unpaid cancelled,unpaid expired,paid refunded,";
    struct sk_buf told = {0};
    for (size_t from = 0; from < COUNT(statuses); from++) {
        db_run("UPDATE voucher_order SET status = '%s', reason = CASE WHEN '%s' IN ('refused', 'refunded') THEN 'X' END"
               " WHERE id = '" SQL_ID1 "'",
               statuses[from], statuses[from]);
        for (size_t to = 0; to < COUNT(statuses); to++) {
            PGresult *result = SQL_RUN(SK_STATEMENT_FIND_FOR_MOVE, sql_slot, SQL_ID1, "alice", statuses[to]);
            ck_assert_int_eq(PQntuples(result), 1);
            ck_assert_str_eq(PQgetvalue(result, 0, 0), sql_voucher);
            ck_assert_str_eq(PQgetvalue(result, 0, 1), statuses[from]);
            if (strcmp(PQgetvalue(result, 0, 2), "t") == 0)
                sk_buf_printf(&told, "%s %s,", statuses[from], statuses[to]);
            ck_assert(!PQgetisnull(result, 0, 3));
            PQclear(result);
        }
    }
    ck_assert_str_eq(told.data, allowed);
    sk_buf_free(&told);
}
END_TEST

START_TEST(moves_are_looked_up)
{
    PGconn *superuser = db_connect();
    PQclear(PQexec(superuser, "BEGIN; DELETE FROM order_move WHERE to_status = 'paid';"
                              " INSERT INTO order_move VALUES ('unpaid', 'refunded', 'x')"));
    send_payment(superuser, SQL_ID1, "ref-1", "100", "CNY");
    must_end(superuser, "to_refund");
    send_refund(superuser, SQL_ID1, NULL, NULL);
    must_end(superuser, "returns");
    PQfinish(superuser);
    must_be_noted(0, 0);
}
END_TEST

START_TEST(an_order_is_moved_by_its_user_alone)
{
    PGresult *result = SQL_RUN(SK_STATEMENT_FIND_FOR_MOVE, sql_slot, SQL_ID1, "bob", "cancelled");
    ck_assert_int_eq(PQntuples(result), 1);
    ck_assert(PQgetisnull(result, 0, 3));
    PQclear(result);
    result = SQL_RUN(SK_STATEMENT_FIND_FOR_MOVE, sql_slot, SQL_ID3, "bob", "cancelled");
    ck_assert_int_eq(PQntuples(result), 0);
    PQclear(result);
}
END_TEST

START_TEST(an_order_in_a_letter_is_pending)
{
    static const char *const pending = "{\"id\" : \"" SQL_ID3 "\", \"voucher_id\" : \"%s\", \"user_id\" : \"carol\", "
                                       "\"quantity\" : 2, \"status\" : \"pending\"}";
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
    must_show(sql_document(result, 0), "refused", "", "");
    PQclear(result);
}
END_TEST

// ---- concurrency ----

// The first call's transaction is still open when the second call arrives.
static PGconn *first_in_a_transaction(void)
{
    PGconn *first = sql_connect();
    PQclear(PQexec(first, "BEGIN"));
    return first;
}

static void end_first(PGconn *first, const char *how)
{
    WAIT_FOR(somebody_waits());
    PQclear(PQexec(first, how));
    PQfinish(first);
}

START_TEST(of_two_calls_with_one_reference_one_pays)
{
    PGconn *first = first_in_a_transaction();
    send_payment(first, SQL_ID1, "ref-1", "100", "CNY");
    must_end(first, "paid");
    send_payment(sql_service, SQL_ID1, "ref-1", "100", "CNY");
    end_first(first, "COMMIT");
    must_end(sql_service, "already");
    must_be_noted(1, 1);
}
END_TEST

START_TEST(of_two_references_one_pays)
{
    PGconn *first = first_in_a_transaction();
    send_payment(first, SQL_ID1, "ref-1", "100", "CNY");
    must_end(first, "paid");
    send_payment(sql_service, SQL_ID1, "ref-2", "100", "CNY");
    end_first(first, "COMMIT");
    must_end(sql_service, "already_paid");
    must_be_noted(1, 1);
}
END_TEST

// The two calls lock different orders; the reference decides.
START_TEST(of_two_orders_one_gets_the_reference)
{
    PGconn *first = first_in_a_transaction();
    send_payment(first, SQL_ID1, "ref-1", "100", "CNY");
    must_end(first, "paid");
    send_payment(sql_service, SQL_ID2, "ref-1", "100", "CNY");
    end_first(first, "COMMIT");
    must_end(sql_service, "reference_used");
    sql_must_be(2, "unpaid", "");
    must_be_noted(1, 1);
}
END_TEST

START_TEST(a_payment_that_is_rolled_back_was_none)
{
    for (int order = 0; order < 2; order++) { // the same order, then another
        PGconn *first = first_in_a_transaction();
        const char *reference = order == 0 ? "ref-1" : "ref-2";
        send_payment(first, order == 0 ? SQL_ID1 : SQL_ID2, reference, "100", "CNY");
        if (order == 1)
            PQclear(sql_receive(first));
        else
            must_end(first, "paid");
        send_payment(sql_service, order == 0 ? SQL_ID1 : SQL_ID2, reference, "100", "CNY");
        end_first(first, "ROLLBACK");
        must_end(sql_service, "paid");
    }
    must_be_noted(2, 2);
}
END_TEST

START_TEST(who_pays_first_keeps_the_order)
{
    PGconn *first = first_in_a_transaction();
    send_payment(first, SQL_ID1, "ref-1", "100", "CNY");
    must_end(first, "paid");
    send_return(sql_service, SQL_ID1, "expired");
    end_first(first, "COMMIT");
    must_end(sql_service, "kept");
    sql_must_be(1, "paid", "");
    must_be_noted(1, 1);
    sql_must_have(2, 8);
}
END_TEST

START_TEST(who_pays_after_the_expiry_gets_the_money_back)
{
    PGconn *first = first_in_a_transaction();
    send_return(first, SQL_ID1, "expired");
    must_end(first, "returned");
    send_payment(sql_service, SQL_ID1, "ref-1", "100", "CNY");
    end_first(first, "COMMIT");
    must_show(must_come_to(sql_service, "to_refund"), "expired", "ref-1 100 CNY to_refund",
              "expired expiry,expired till PAYMENT_TO_REFUND");
    must_be_noted(1, 2);
    sql_must_have(1, 9);
}
END_TEST

START_TEST(two_refunds_are_noted_once)
{
    must_return(SQL_ID1, "expired", "returned");
    must_pay(SQL_ID1, "late", "to_refund");
    PGconn *first = first_in_a_transaction();
    send_refund(first, SQL_ID1, NULL, NULL);
    must_end(first, "refunded");
    send_refund(sql_service, SQL_ID1, NULL, NULL);
    end_first(first, "COMMIT");
    must_end(sql_service, "refunded");
    must_be_noted(1, 3);
}
END_TEST

// A payment whose transaction began before the refund's and ended after it counts as later.
START_TEST(a_payment_that_waited_for_a_refund_is_a_later_one)
{
    must_return(SQL_ID1, "expired", "returned");
    must_pay(SQL_ID1, "late", "to_refund");
    PGconn *first = first_in_a_transaction();
    send_refund(first, SQL_ID1, NULL, NULL);
    must_end(first, "refunded");
    send_payment(sql_service, SQL_ID1, "later", "100", "CNY");
    end_first(first, "COMMIT");
    must_end(sql_service, "to_refund");
    must_refund(SQL_ID1, "refunded");
    ck_assert_int_eq(db_number("SELECT count(*) FROM payment WHERE reference = 'later' AND state = 'to_refund'"), 1);
}
END_TEST

// A batch of orders, or a rebuild, locks the voucher's row.
START_TEST(payments_do_not_wait_for_the_voucher)
{
    PGconn *holder = db_connect();
    PQclear(PQexec(holder, "BEGIN"));
    PQclear(PQexec(holder, "SELECT FROM voucher_stock FOR UPDATE"));
    PQclear(PQexec(sql_service, "SET lock_timeout = '10s'"));
    must_pay(SQL_ID1, "ref-1", "paid"); // it would fail if it waited
    must_refund(SQL_ID2, "kept");
    PQfinish(holder);
}
END_TEST

// And no batch waits for a payment.
START_TEST(buyers_do_not_wait_for_payments)
{
    PGconn *first = first_in_a_transaction();
    send_payment(first, SQL_ID1, "ref-1", "100", "CNY");
    must_end(first, "paid");
    PQclear(PQexec(sql_service, "SET lock_timeout = '10s'"));
    PLACE("3", ORDERS({3, "carol"}), ENDS({"placed", 0}));
    PQclear(PQexec(first, "COMMIT"));
    PQfinish(first);
    sql_must_have(3, 7);
}
END_TEST

enum { ROUNDS = 60 };

// No order is fixed between them: whichever comes first, the order ends in one state, and the payment matches.
START_TEST(pay_and_expiry_at_once_agree)
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
            send_return(other, id, "expired");
        send_payment(sql_service, id, reference, "100", "CNY");
        if (pay_first)
            send_return(other, id, "expired");
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
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("sql_life");
    tcase_add_unchecked_fixture(tcase, sql_start, NULL);
    tcase_add_checked_fixture(tcase, setup, sql_teardown);
    tcase_add_test(tcase, a_payment_is_noted_once);
    tcase_add_test(tcase, what_cannot_be_noted_changes_nothing);
    tcase_add_test(tcase, another_slot_has_not_the_order);
    tcase_add_test(tcase, an_order_of_several_units_costs_their_sum);
    tcase_add_test(tcase, a_payment_after_the_end_is_to_be_refunded);
    tcase_add_test(tcase, a_refunded_payment_is_not_taken_again);
    tcase_add_test(tcase, what_came_too_late_is_given_back_once);
    tcase_add_test(tcase, a_repeated_refund_settles_no_later_payment);
    tcase_add_test(tcase, a_refund_that_names_a_payment_settles_that_one);
    tcase_add_test(tcase, a_payment_of_another_order_is_not_refunded);
    tcase_add_test(tcase, where_nothing_is_to_be_given_back_nothing_is_done);
    tcase_add_test(tcase, allowed_is_what_the_table_says);
    tcase_add_test(tcase, moves_are_looked_up);
    tcase_add_test(tcase, an_order_is_moved_by_its_user_alone);
    tcase_add_test(tcase, an_order_in_a_letter_is_pending);
    tcase_add_test(tcase, of_two_calls_with_one_reference_one_pays);
    tcase_add_test(tcase, of_two_references_one_pays);
    tcase_add_test(tcase, of_two_orders_one_gets_the_reference);
    tcase_add_test(tcase, a_payment_that_is_rolled_back_was_none);
    tcase_add_test(tcase, who_pays_first_keeps_the_order);
    tcase_add_test(tcase, who_pays_after_the_expiry_gets_the_money_back);
    tcase_add_test(tcase, two_refunds_are_noted_once);
    tcase_add_test(tcase, a_payment_that_waited_for_a_refund_is_a_later_one);
    tcase_add_test(tcase, payments_do_not_wait_for_the_voucher);
    tcase_add_test(tcase, buyers_do_not_wait_for_payments);
    tcase_add_test(tcase, pay_and_expiry_at_once_agree);
    return harness_main(tcase, CK_NOFORK);
}
