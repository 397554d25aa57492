// What PostgreSQL promises by itself: every outcome of place_orders(), the constraints, the rights of the
// service's role, the documents, and the migrations.
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "buf.h"
#include "embedded.h"
#include "migrate.h"
#include "stack.h"
#include "stores.h"
#include "uuid.h"
#include "wait.h"

enum { URL_SIZE = 256, VALUE_SIZE = 256 };

static PGconn *service; // a connection of the service's login
static char voucher[24];
static const char *journal_id; // of the next batches; NULL: none

static void start(void)
{
    stack_start(STACK_POSTGRES);
}

static PGconn *connect_as_service(void)
{
    PGconn *conn = PQconnectdb(stack_database_url());
    ck_assert_msg(PQstatus(conn) == CONNECTION_OK, "%s", PQerrorMessage(conn));
    return conn;
}

// A voucher on sale under epoch 3.
static void make_voucher(int stock)
{
    int64_t id =
        db_number("INSERT INTO seckill_voucher (title, price_cents, initial_stock, stock, begin_at, end_at, epoch)"
                  " VALUES ('T', 100, %d, %d, now() - interval '1 h', now() + interval '1 h', 3) RETURNING id",
                  stock, stock);
    (void)snprintf(voucher, sizeof voucher, "%lld", (long long)id);
}

static void setup(void)
{
    db_run("TRUNCATE seckill_voucher, voucher_order, dead_letter");
    journal_id = NULL;
    service = connect_as_service();
}

static void teardown(void)
{
    PQfinish(service);
}

// Runs one of the service's statements as the service does.
static PGresult *run(enum sk_statement statement, int n, const char *const *params)
{
    PGresult *result = PQexecParams(service, sk_statements[statement].text, n, NULL, params, NULL, NULL, 0);
    ck_assert_msg(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQerrorMessage(service));
    return result;
}

#define RUN(statement, ...) \
    run(statement, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]){__VA_ARGS__})

// ---- place_orders ----

struct order {
    int id; // stands for a UUID
    const char *user;
};

struct end {
    const char *outcome;
    int live_id; // 0: none
};

static void put_id(char out[SK_UUID_SIZE], int id)
{
    (void)snprintf(out, SK_UUID_SIZE, "00000000-0000-7000-8000-%012d", id);
}

static void put_arrays(struct sk_buf *ids, struct sk_buf *users, size_t n, const struct order *orders)
{
    char id[SK_UUID_SIZE];
    sk_buf_puts(ids, "{");
    sk_buf_puts(users, "{");
    for (size_t i = 0; i < n; i++) {
        put_id(id, orders[i].id);
        sk_buf_printf(ids, "%s%s", i == 0 ? "" : ",", id);
        sk_buf_printf(users, "%s\"%s\"", i == 0 ? "" : ",", orders[i].user);
    }
    sk_buf_puts(ids, "}");
    sk_buf_puts(users, "}");
}

static void send_batch(PGconn *conn, const char *epoch, size_t n, const struct order *orders)
{
    struct sk_buf ids = {0}, users = {0};
    put_arrays(&ids, &users, n, orders);
    const char *params[] = {voucher, epoch, ids.data, users.data, journal_id};
    int sent = PQsendQueryParams(conn, sk_statements[SK_STATEMENT_PLACE_ORDERS].text, 5, NULL, params, NULL, NULL, 0);
    ck_assert_msg(sent == 1, "%s", PQerrorMessage(conn));
    sk_buf_free(&ids);
    sk_buf_free(&users);
}

static PGresult *receive(PGconn *conn)
{
    PGresult *result = PQgetResult(conn);
    ck_assert_msg(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQerrorMessage(conn));
    ck_assert_ptr_null(PQgetResult(conn));
    return result;
}

static void must_end(PGresult *result, size_t n, const struct end *ends)
{
    ck_assert_int_eq(PQntuples(result), (int)n); // one answer for each order
    for (int row = 0; row < (int)n; row++) {
        int i = atoi(PQgetvalue(result, row, 0)) - 1;
        char live_id[SK_UUID_SIZE] = "";
        ck_assert_int_ge(i, 0);
        ck_assert_int_lt(i, (int)n);
        ck_assert_msg(strcmp(PQgetvalue(result, row, 1), ends[i].outcome) == 0, "order %d is %s, should be %s", i + 1,
                      PQgetvalue(result, row, 1), ends[i].outcome);
        if (ends[i].live_id != 0)
            put_id(live_id, ends[i].live_id);
        ck_assert_str_eq(PQgetvalue(result, row, 2), live_id);
    }
    PQclear(result);
}

static void place(const char *epoch, size_t n, const struct order *orders, const struct end *ends)
{
    send_batch(service, epoch, n, orders);
    must_end(receive(service), n, ends);
}

// The orders, and what each comes to, side by side.
#define ORDERS(...) ((const struct order[]){__VA_ARGS__})
#define ENDS(...)   ((const struct end[]){__VA_ARGS__})
#define PLACE(epoch, orders, ends)                                                                   \
    do {                                                                                             \
        ck_assert_uint_eq(sizeof(orders) / sizeof(struct order), sizeof(ends) / sizeof(struct end)); \
        place(epoch, sizeof(orders) / sizeof(struct order), orders, ends);                           \
    } while (0)

static int64_t live_orders(void)
{
    return db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s AND status IN ('unpaid', 'paid')",
                     voucher);
}

static int64_t stock(void)
{
    return db_number("SELECT stock FROM seckill_voucher WHERE id = %s", voucher);
}

// Units offered = live orders + stock, and these are they.
static void must_have(int64_t live, int64_t left)
{
    ck_assert_int_eq(live_orders(), live);
    ck_assert_int_eq(stock(), left);
    ck_assert_int_eq(db_number("SELECT initial_stock FROM seckill_voucher WHERE id = %s", voucher), live + left);
}

static void must_be(int id, const char *status, const char *reason)
{
    char uuid[SK_UUID_SIZE];
    put_id(uuid, id);
    ck_assert_msg(db_number("SELECT count(*) FROM voucher_order WHERE id = '%s' AND status = '%s'"
                            " AND coalesce(reason, '') = '%s'",
                            uuid, status, reason) == 1,
                  "order %d is not %s '%s'", id, status, reason);
}

static void set_status(int id, const char *status)
{
    char uuid[SK_UUID_SIZE];
    put_id(uuid, id);
    db_run("UPDATE voucher_order SET status = '%s' WHERE id = '%s'", status, uuid);
}

START_TEST(orders_are_placed_and_take_one_unit_each)
{
    make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}, {3, "carol"}), ENDS({"placed", 0}, {"placed", 0}, {"placed", 0}));
    must_have(3, 7);
    must_be(1, "unpaid", "");
    must_be(3, "unpaid", "");
    PLACE("3", ORDERS({4, "dave"}), ENDS({"placed", 0}));
    must_have(4, 6);
}
END_TEST

START_TEST(an_empty_batch_does_nothing)
{
    make_voucher(10);
    place("3", 0, NULL, NULL);
    must_have(0, 10);
}
END_TEST

START_TEST(a_second_run_takes_nothing_again)
{
    make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    for (int run = 0; run < 3; run++)
        PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"already_placed", 0}, {"already_placed", 0}));
    PLACE("3", ORDERS({2, "bob"}, {3, "carol"}), ENDS({"already_placed", 0}, {"placed", 0}));
    must_have(3, 7);
}
END_TEST

START_TEST(a_paid_or_cancelled_order_is_not_placed_again)
{
    make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    set_status(1, "paid");
    set_status(2, "cancelled");
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"already_placed", 0}, {"duplicate", 0}));
    must_be(1, "paid", "");
    must_be(2, "cancelled", "");
    ck_assert_int_eq(stock(), 8); // giving the unit back is whoever cancels' part
    // With nothing left, what Redis took for it was no unit.
    db_run("UPDATE seckill_voucher SET stock = 0 WHERE id = %s", voucher);
    PLACE("3", ORDERS({2, "bob"}), ENDS({"sold_out", 0}));
    must_be(2, "cancelled", "");
}
END_TEST

START_TEST(a_user_with_a_live_order_is_refused_with_its_id)
{
    make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    for (int run = 0; run < 2; run++) // the second run of a refusal is the same refusal
        PLACE("3", ORDERS({2, "alice"}), ENDS({"duplicate", 1}));
    must_be(2, "refused", "ALREADY_ORDERED"); // kept, so that its URL can say why
    set_status(1, "paid");
    PLACE("3", ORDERS({3, "alice"}), ENDS({"duplicate", 1}));
    must_have(1, 9);
}
END_TEST

START_TEST(a_user_whose_order_was_cancelled_may_order_again)
{
    make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    PLACE("3", ORDERS({2, "alice"}), ENDS({"duplicate", 1}));
    set_status(1, "cancelled");
    db_run("UPDATE seckill_voucher SET stock = stock + 1 WHERE id = %s", voucher);
    PLACE("3", ORDERS({2, "alice"}), ENDS({"duplicate", 0})); // what was refused stays so
    PLACE("3", ORDERS({3, "alice"}), ENDS({"placed", 0}));
    PLACE("3", ORDERS({1, "alice"}), ENDS({"duplicate", 3}));
    must_have(1, 9);
}
END_TEST

START_TEST(orders_are_per_voucher)
{
    make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    make_voucher(10);
    PLACE("3", ORDERS({2, "alice"}), ENDS({"placed", 0}));
    must_have(1, 9);
}
END_TEST

START_TEST(past_the_last_unit_orders_are_sold_out_in_their_order)
{
    make_voucher(2);
    PLACE("3", ORDERS({4, "alice"}, {2, "bob"}, {3, "carol"}, {1, "dave"}),
          ENDS({"placed", 0}, {"placed", 0}, {"sold_out", 0}, {"sold_out", 0}));
    must_have(2, 0);
    must_be(3, "refused", "SOLD_OUT");
    must_be(1, "refused", "SOLD_OUT");
    PLACE("3", ORDERS({4, "alice"}, {2, "bob"}, {3, "carol"}, {1, "dave"}),
          ENDS({"already_placed", 0}, {"already_placed", 0}, {"sold_out", 0}, {"sold_out", 0}));
    must_have(2, 0);
    // Once refused stays refused, also when there are units again: the one that Redis took for it returns.
    db_run("UPDATE seckill_voucher SET stock = 5, initial_stock = 7 WHERE id = %s", voucher);
    PLACE("3", ORDERS({3, "carol"}), ENDS({"duplicate", 0}));
    must_have(2, 5);
    PLACE("3", ORDERS({5, "erin"}, {3, "carol"}), ENDS({"placed", 0}, {"duplicate", 0}));
    must_have(3, 4);
    // Unless this very batch takes the last ones.
    db_run("UPDATE seckill_voucher SET stock = 1 WHERE id = %s", voucher);
    PLACE("3", ORDERS({3, "carol"}, {6, "frank"}, {7, "grace"}), ENDS({"sold_out", 0}, {"placed", 0}, {"sold_out", 0}));
}
END_TEST

// An id proves what Redis has lost, no more: it must not refuse an order.
START_TEST(a_journal_id_that_cannot_be_refuses_nothing)
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
    make_voucher(100);
    journal_id = "100-5";
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    for (unsigned i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        char user[16];
        (void)snprintf(user, sizeof user, "user%u", i);
        journal_id = ids[i];
        PLACE("3", ORDERS({10 + i, user}), ENDS({"placed", 0}));
    }
    ck_assert_int_eq(db_number("SELECT journal_ms FROM seckill_voucher WHERE id = %s", voucher), 100);
    ck_assert_int_eq(db_number("SELECT journal_seq FROM seckill_voucher WHERE id = %s", voucher), 5);
}
END_TEST

START_TEST(with_no_stock_at_all_everything_is_sold_out)
{
    make_voucher(0);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"sold_out", 0}, {"sold_out", 0}));
    must_have(0, 0);
}
END_TEST

START_TEST(exactly_the_stock_is_placed)
{
    make_voucher(3);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}, {3, "carol"}), ENDS({"placed", 0}, {"placed", 0}, {"placed", 0}));
    must_have(3, 0);
}
END_TEST

START_TEST(another_epoch_is_stale_and_changes_nothing)
{
    static const char *const epochs[] = {"2", "4", "-3", "9223372036854775807"};
    make_voucher(10);
    for (size_t i = 0; i < sizeof epochs / sizeof epochs[0]; i++)
        PLACE(epochs[i], ORDERS({1, "alice"}, {2, "bob"}), ENDS({"stale", 0}, {"stale", 0}));
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order"), 0);
    must_have(0, 10);
}
END_TEST

START_TEST(no_epoch_is_a_master_key)
{
    make_voucher(10);
    PLACE("0", ORDERS({1, "alice"}), ENDS({"stale", 0}));
    db_run("UPDATE seckill_voucher SET epoch = 99 WHERE id = %s", voucher);
    PLACE("3", ORDERS({2, "bob"}), ENDS({"stale", 0}));
    PLACE("99", ORDERS({2, "bob"}), ENDS({"placed", 0}));
    must_have(1, 9);
}
END_TEST

static void newest_must_be(const char *id)
{
    char newest[64];
    db_text(newest, sizeof newest, "SELECT journal_ms || '-' || journal_seq FROM seckill_voucher WHERE id = %s",
            voucher);
    ck_assert_str_eq(newest, id);
}

START_TEST(the_newest_journal_id_is_remembered_until_the_next_epoch)
{
    static const char *const ids[] = {"10-9", "10-10", "9-99", "10-2", NULL, "1795227192391-18446"};
    static const char *const newest[] = {"10-9", "10-10", "10-10", "10-10", "10-10", "1795227192391-18446"};
    make_voucher(10);
    newest_must_be("0-0");
    for (int i = 0; i < 6; i++) {
        char user[16];
        (void)snprintf(user, sizeof user, "user-%d", i);
        journal_id = ids[i];
        PLACE("3", ORDERS({i + 1, user}), ENDS({"placed", 0}));
        newest_must_be(newest[i]);
    }
    PQclear(RUN(SK_STATEMENT_RECONCILE_EPOCH, voucher, "2"));
    newest_must_be("0-0");
}
END_TEST

START_TEST(a_missing_voucher_is_stale)
{
    static const char *const missing[] = {"999999999", "0", "-1"};
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        (void)snprintf(voucher, sizeof voucher, "%s", missing[i]);
        PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"stale", 0}, {"stale", 0}));
    }
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order"), 0);
}
END_TEST

START_TEST(an_id_of_somebody_elses_order_clashes)
{
    make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    PLACE("3", ORDERS({1, "carol"}), ENDS({"clash", 0}));
    must_have(2, 8);
    make_voucher(10); // of another voucher
    PLACE("3", ORDERS({1, "alice"}, {3, "alice"}), ENDS({"clash", 3}, {"placed", 0}));
    must_have(1, 9);
}
END_TEST

START_TEST(one_batch_may_hold_every_outcome)
{
    make_voucher(4);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    PLACE("3",
          ORDERS({11, "carol"}, {1, "alice"}, {12, "bob"}, {2, "mallory"}, {13, "dave"}, {14, "erin"}, {15, "frank"},
                 {16, "alice"}),
          ENDS({"placed", 0}, {"already_placed", 0}, {"duplicate", 2}, {"clash", 0}, {"placed", 0}, {"sold_out", 0},
               {"sold_out", 0}, {"duplicate", 1}));
    must_have(4, 0);
    PLACE("3",
          ORDERS({11, "carol"}, {1, "alice"}, {12, "bob"}, {2, "mallory"}, {13, "dave"}, {14, "erin"}, {15, "frank"},
                 {16, "alice"}),
          ENDS({"already_placed", 0}, {"already_placed", 0}, {"sold_out", 2}, {"clash", 0}, {"already_placed", 0},
               {"sold_out", 0}, {"sold_out", 0}, {"sold_out", 1})); // nothing is left that could return
    must_have(4, 0);
}
END_TEST

START_TEST(of_one_users_orders_in_a_batch_the_first_is_placed)
{
    make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}, {3, "alice"}, {4, "bob"}, {5, "alice"}),
          ENDS({"placed", 0}, {"placed", 0}, {"duplicate", 1}, {"duplicate", 2}, {"duplicate", 1}));
    must_have(2, 8);
    PLACE("3", ORDERS({5, "alice"}, {4, "bob"}, {1, "alice"}),
          ENDS({"duplicate", 1}, {"duplicate", 2}, {"already_placed", 0}));
    must_have(2, 8);
}
END_TEST

// A duplicate's unit goes back to Redis; there is none to go back where the first one got none.
START_TEST(of_one_users_orders_past_the_last_unit_all_are_sold_out)
{
    make_voucher(1);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}, {3, "bob"}, {4, "alice"}),
          ENDS({"placed", 0}, {"sold_out", 0}, {"sold_out", 0}, {"duplicate", 1}));
    must_have(1, 0);
    must_be(3, "refused", "SOLD_OUT");
}
END_TEST

START_TEST(one_order_twice_in_a_batch_is_one_order)
{
    make_voucher(2);
    PLACE("3", ORDERS({1, "alice"}, {1, "alice"}, {2, "bob"}, {1, "alice"}),
          ENDS({"placed", 0}, {"placed", 0}, {"placed", 0}, {"placed", 0}));
    must_have(2, 0);
    PLACE("3", ORDERS({3, "carol"}, {1, "alice"}, {3, "carol"}, {1, "alice"}),
          ENDS({"sold_out", 0}, {"already_placed", 0}, {"sold_out", 0}, {"already_placed", 0}));
    must_have(2, 0);
}
END_TEST

// Arrays that no caller makes: refused as a whole.
START_TEST(a_malformed_batch_changes_nothing)
{
    static const char *const calls[] = {
        "SELECT * FROM place_orders(%s, 3, '{00000000-0000-7000-8000-000000000001,null}', '{alice,bob}')",
        "SELECT * FROM place_orders(%s, 3, '{00000000-0000-7000-8000-000000000001}', '{null}')",
        "SELECT * FROM place_orders(%s, 3, '{00000000-0000-7000-8000-000000000001}', '{alice,bob}')",
        "SELECT * FROM place_orders(%s, 3,"
        " '{00000000-0000-7000-8000-000000000001,00000000-0000-7000-8000-000000000002}', '{alice}')",
        "SELECT * FROM place_orders(%s, 3, '{not-a-uuid}', '{alice}')",
    };
    make_voucher(10);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char sql[VALUE_SIZE];
        (void)snprintf(sql, sizeof sql, calls[i], voucher);
        PGresult *result = PQexec(service, sql);
        ck_assert_msg(PQresultStatus(result) == PGRES_FATAL_ERROR, "accepted: %s", sql);
        PQclear(result);
    }
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order"), 0);
    must_have(0, 10);
}
END_TEST

// ---- at the same time ----

enum { WRITERS = 4, BATCH = 40, ROUNDS = 12, UNITS = 1500, SAME_USER_ROUNDS = 100 };

START_TEST(batches_of_several_connections_never_oversell)
{
    static char users[BATCH][16];
    PGconn *writers[WRITERS];
    int placed = 0, sold_out = 0;
    make_voucher(UNITS);
    for (int w = 0; w < WRITERS; w++)
        writers[w] = connect_as_service();
    for (int round = 0; round < ROUNDS; round++) {
        for (int w = 0; w < WRITERS; w++) {
            struct order orders[BATCH];
            for (int i = 0; i < BATCH; i++) {
                int number = (round * WRITERS + w) * BATCH + i + 1;
                (void)snprintf(users[i], sizeof users[i], "user-%d", number);
                orders[i] = (struct order){number, users[i]};
            }
            send_batch(writers[w], "3", BATCH, orders);
        }
        for (int w = 0; w < WRITERS; w++) {
            PGresult *result = receive(writers[w]);
            for (int row = 0; row < PQntuples(result); row++) {
                placed += strcmp(PQgetvalue(result, row, 1), "placed") == 0;
                sold_out += strcmp(PQgetvalue(result, row, 1), "sold_out") == 0;
            }
            PQclear(result);
        }
    }
    for (int w = 0; w < WRITERS; w++)
        PQfinish(writers[w]);
    ck_assert_int_eq(placed, UNITS);
    ck_assert_int_eq(sold_out, WRITERS * BATCH * ROUNDS - UNITS);
    must_have(UNITS, 0);
}
END_TEST

// Two instances race for one user: one order, and the other instance is told which.
START_TEST(of_two_connections_one_gets_the_user)
{
    PGconn *other = connect_as_service();
    make_voucher(SAME_USER_ROUNDS);
    for (int round = 0; round < SAME_USER_ROUNDS; round++) {
        char user[16];
        int id = 2 * round + 1;
        (void)snprintf(user, sizeof user, "user-%d", round);
        send_batch(service, "3", 1, ORDERS({id, user}));
        send_batch(other, "3", 1, ORDERS({id + 1, user}));
        PGresult *one = receive(service), *two = receive(other);
        bool first_wins = strcmp(PQgetvalue(one, 0, 1), "placed") == 0;
        must_end(one, 1, first_wins ? ENDS({"placed", 0}) : ENDS({"duplicate", id + 1}));
        must_end(two, 1, first_wins ? ENDS({"duplicate", id}) : ENDS({"placed", 0}));
    }
    PQfinish(other);
    must_have(SAME_USER_ROUNDS, 0);
}
END_TEST

// The same batch at the same time, as when an instance and recovery settle it both.
START_TEST(one_batch_from_two_connections_is_placed_once)
{
    PGconn *other = connect_as_service();
    make_voucher(2 * SAME_USER_ROUNDS);
    for (int round = 0; round < SAME_USER_ROUNDS; round++) {
        char user[16], second_user[16];
        int id = 2 * round + 1;
        (void)snprintf(user, sizeof user, "user-%d", id);
        (void)snprintf(second_user, sizeof second_user, "user-%d", id + 1);
        send_batch(service, "3", 2, ORDERS({id, user}, {id + 1, second_user}));
        send_batch(other, "3", 2, ORDERS({id + 1, second_user}, {id, user}));
        PGresult *one = receive(service), *two = receive(other);
        bool first_wins = strcmp(PQgetvalue(one, 0, 1), "placed") == 0;
        must_end(one, 2,
                 first_wins ? ENDS({"placed", 0}, {"placed", 0}) : ENDS({"already_placed", 0}, {"already_placed", 0}));
        must_end(two, 2,
                 first_wins ? ENDS({"already_placed", 0}, {"already_placed", 0}) : ENDS({"placed", 0}, {"placed", 0}));
    }
    PQfinish(other);
    must_have(2 * SAME_USER_ROUNDS, 0);
}
END_TEST

static bool waits_for_a_lock(void)
{
    return db_number("SELECT count(*) FROM pg_stat_activity WHERE usename = 'seckill' AND wait_event_type = 'Lock'") ==
           1;
}

// The batch was sent before the voucher was loaded anew, and arrives while that is going on.
START_TEST(a_batch_that_waits_out_a_new_epoch_is_fenced_off)
{
    make_voucher(10);
    PGconn *loader = db_connect();
    PQclear(PQexec(loader, "BEGIN"));
    const char *params[] = {voucher, "0"};
    PGresult *epoch =
        PQexecParams(loader, sk_statements[SK_STATEMENT_RECONCILE_EPOCH].text, 2, NULL, params, NULL, NULL, 0);
    ck_assert_str_eq(PQgetvalue(epoch, 0, 0), "4");
    PQclear(epoch);
    send_batch(service, "3", 2, ORDERS({1, "alice"}, {2, "bob"}));
    WAIT_FOR(waits_for_a_lock());
    PQclear(PQexec(loader, "COMMIT"));
    must_end(receive(service), 2, ENDS({"stale", 0}, {"stale", 0}));
    PQfinish(loader);
    must_have(0, 10);
    PLACE("4", ORDERS({1, "alice"}), ENDS({"placed", 0}));
}
END_TEST

START_TEST(a_batch_that_is_rolled_back_leaves_nothing)
{
    make_voucher(10);
    PQclear(PQexec(service, "BEGIN"));
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    PQclear(PQexec(service, "ROLLBACK"));
    must_have(0, 10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    must_have(2, 8);
}
END_TEST

// ---- constraints and rights ----

static void must_fail(PGconn *conn, const char *sql, const char *sqlstate)
{
    PGresult *result = PQexec(conn, sql);
    const char *is = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    ck_assert_msg(is != NULL && strcmp(is, sqlstate) == 0, "%s instead of %s: %s", is == NULL ? "success" : is,
                  sqlstate, sql);
    PQclear(result);
}

#define CHECK_VIOLATION    "23514"
#define UNIQUE_VIOLATION   "23505"
#define NOT_NULL_VIOLATION "23502"
#define NO_SUCH_VALUE      "22P02"
#define NO_PRIVILEGE       "42501"

#define VOUCHER_ROW(price, initial, left, begin_at, end_at)                                    \
    "INSERT INTO seckill_voucher (title, price_cents, initial_stock, stock, begin_at, end_at)" \
    " VALUES ('T', " price ", " initial ", " left ", '2026-11-11 " begin_at "', '2026-11-11 " end_at "')"
#define ORDER_ROW(id, user, status, reason)                               \
    "INSERT INTO voucher_order (id, user_id, voucher_id, status, reason)" \
    " VALUES ('00000000-0000-7000-8000-00000000000" id "', " user ", 1, '" status "', " reason ")"

START_TEST(the_tables_refuse_what_must_not_be)
{
    static const struct {
        const char *sql, *sqlstate;
    } rows[] = {
        {VOUCHER_ROW("1", "1", "-1", "08:00", "09:00"), CHECK_VIOLATION},
        {VOUCHER_ROW("1", "-1", "-1", "08:00", "09:00"), CHECK_VIOLATION},
        {VOUCHER_ROW("1", "1", "2", "08:00", "09:00"), CHECK_VIOLATION}, // more left than ever offered
        {VOUCHER_ROW("-1", "1", "1", "08:00", "09:00"), CHECK_VIOLATION},
        {VOUCHER_ROW("1", "1", "1", "09:00", "09:00"), CHECK_VIOLATION},
        {VOUCHER_ROW("1", "1", "1", "09:00", "08:00"), CHECK_VIOLATION},
        {"UPDATE seckill_voucher SET stock = -1", CHECK_VIOLATION},
        {"UPDATE seckill_voucher SET stock = initial_stock + 1", CHECK_VIOLATION},
        {"UPDATE seckill_voucher SET state = 'no such'", CHECK_VIOLATION},
        {"UPDATE seckill_voucher SET stock = NULL", NOT_NULL_VIOLATION},
        {"UPDATE seckill_voucher SET title = NULL", NOT_NULL_VIOLATION},
        {ORDER_ROW("2", "'alice'", "unpaid", "NULL"), UNIQUE_VIOLATION}, // a second live order
        {ORDER_ROW("2", "'alice'", "paid", "NULL"), UNIQUE_VIOLATION},
        {ORDER_ROW("1", "'bob'", "unpaid", "NULL"), UNIQUE_VIOLATION}, // an id twice
        {ORDER_ROW("3", "'bob'", "refused", "NULL"), CHECK_VIOLATION}, // refused without a reason
        {ORDER_ROW("3", "'bob'", "unpaid", "'SOLD_OUT'"), CHECK_VIOLATION},
        {ORDER_ROW("3", "NULL", "unpaid", "NULL"), NOT_NULL_VIOLATION},
        {ORDER_ROW("3", "'bob'", "pending", "NULL"), NO_SUCH_VALUE},
    };
    PGconn *superuser = db_connect(); // not even they may
    make_voucher(10);
    db_run(ORDER_ROW("1", "'alice'", "unpaid", "NULL"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        must_fail(superuser, rows[i].sql, rows[i].sqlstate);
        must_fail(service, rows[i].sql, rows[i].sqlstate);
    }
    // What has ended does not count, and another voucher's do not.
    db_run(ORDER_ROW("4", "'alice'", "cancelled", "NULL"));
    db_run(ORDER_ROW("5", "'alice'", "refused", "'SOLD_OUT'"));
    db_run("INSERT INTO voucher_order (id, user_id, voucher_id) VALUES (gen_random_uuid(), 'alice', 2)");
    // Nor may an ended one come back to life beside a live one.
    must_fail(superuser, "UPDATE voucher_order SET status = 'unpaid' WHERE user_id = 'alice' AND status = 'cancelled'",
              UNIQUE_VIOLATION);
    PQfinish(superuser);
}
END_TEST

START_TEST(the_services_role_defines_and_deletes_nothing)
{
    static const char *const denied[] = {
        "CREATE TABLE other (n int)",
        "CREATE SCHEMA other",
        "CREATE VIEW other AS SELECT 1",
        "CREATE FUNCTION other() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TYPE other AS ENUM ('a')",
        "CREATE INDEX ON voucher_order (reason)",
        "CREATE TRIGGER other BEFORE INSERT ON voucher_order EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CREATE ROLE other",
        "CREATE DATABASE other",
        "ALTER TABLE voucher_order ADD COLUMN other int",
        "ALTER TABLE seckill_voucher DROP CONSTRAINT seckill_voucher_stock_check",
        "ALTER TABLE voucher_order DISABLE TRIGGER ALL",
        "ALTER TYPE order_status ADD VALUE 'other'",
        "ALTER ROLE seckill SUPERUSER",
        "DROP TABLE voucher_order",
        "DROP INDEX voucher_order_live",
        "DROP FUNCTION place_orders(bigint, bigint, uuid[], text[], text)",
        "CREATE OR REPLACE FUNCTION rfc3339(p_at timestamptz) RETURNS text LANGUAGE sql STABLE AS 'SELECT ''x'''",
        "TRUNCATE voucher_order",
        "TRUNCATE seckill_voucher",
        "DELETE FROM voucher_order",
        "DELETE FROM seckill_voucher",
        "DELETE FROM dead_letter",
        "SELECT * FROM seckill_migration",
        "INSERT INTO seckill_migration (name) VALUES ('other')",
        "SET ROLE owner",
        "SELECT pg_read_file('PG_VERSION')",
        "COPY voucher_order TO PROGRAM 'true'",
    };
    make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    for (size_t i = 0; i < sizeof denied / sizeof denied[0]; i++)
        must_fail(service, denied[i], NO_PRIVILEGE);
    must_have(1, 9);
}
END_TEST

START_TEST(other_roles_may_do_nothing_at_all)
{
    db_run("CREATE ROLE stranger");
    static const char *const questions[] = {
        "has_function_privilege('stranger', 'place_orders(bigint, bigint, uuid[], text[], text)', 'EXECUTE')",
        "has_function_privilege('stranger', 'refuse_orders(bigint, uuid[], text[], text[])', 'EXECUTE')",
        "has_function_privilege('stranger', 'write_off(bigint, bigint)', 'EXECUTE')",
        "has_function_privilege('stranger', 'create_voucher(text, text, bigint, integer, bigint, bigint)', 'EXECUTE')",
        "has_table_privilege('stranger', 'dead_letter', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
        "has_table_privilege('stranger', 'voucher_order', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
        "has_table_privilege('stranger', 'seckill_voucher', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
        "has_schema_privilege('stranger', 'public', 'CREATE')",
    };
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
        ck_assert_msg(db_number("SELECT (%s)::int", questions[i]) == 0, "%s", questions[i]);
    db_run("DROP ROLE stranger");
}
END_TEST

// ---- documents and statements ----

static json_t *document(const PGresult *result, int column)
{
    ck_assert_int_eq(PQntuples(result), 1);
    json_t *json = json_loads(PQgetvalue(result, 0, column), JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(json != NULL, "not JSON: %s", PQgetvalue(result, 0, column));
    return json;
}

START_TEST(a_voucher_is_shown_with_its_terms)
{
    const char *id, *title, *begin_at, *end_at, *state;
    int price, units, remaining;
    PQclear(PQexec(service, "SET timezone = 'Asia/Kathmandu'")); // the session's zone does not show
    PGresult *created = RUN(SK_STATEMENT_CREATE_VOUCHER, "k", "Gr\xc3\xbc\xc3\x9f \"e\"\n", "9900", "5",
                            "1794326400123", "1794330000000");
    (void)snprintf(voucher, sizeof voucher, "%s", PQgetvalue(created, 0, 1));
    db_run("UPDATE seckill_voucher SET epoch = 3 WHERE id = %s", voucher);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    PGresult *found = RUN(SK_STATEMENT_FIND_VOUCHER, voucher);
    ck_assert_str_eq(PQgetvalue(found, 0, 0), voucher);
    ck_assert_str_eq(PQgetvalue(found, 0, 1), "1794326400123");
    ck_assert_str_eq(PQgetvalue(found, 0, 2), "1794330000000");
    const struct {
        const PGresult *result;
        int column, remaining;
        const char *state;
    } shown[] = {{created, 3, 5, "open"}, {created, 4, 5, "loading"}, {found, 3, 4, "open"}};
    for (int i = 0; i < 3; i++) {
        json_t *json = document(shown[i].result, shown[i].column);
        ck_assert_int_eq(json_unpack(json, "{s:s,s:s,s:i,s:i,s:i,s:s,s:s,s:s!}", "id", &id, "title", &title,
                                     "price_cents", &price, "stock", &units, "remaining", &remaining, "begin_at",
                                     &begin_at, "end_at", &end_at, "state", &state),
                         0);
        ck_assert_str_eq(id, voucher);
        ck_assert_str_eq(title, "Gr\xc3\xbc\xc3\x9f \"e\"\n");
        ck_assert_int_eq(price, 9900);
        ck_assert_int_eq(units, 5);
        ck_assert_int_eq(remaining, shown[i].remaining);
        ck_assert_str_eq(begin_at, "2026-11-10T16:00:00.123Z");
        ck_assert_str_eq(end_at, "2026-11-10T17:00:00.000Z");
        ck_assert_str_eq(state, shown[i].state);
        json_decref(json);
    }
    PQclear(created);
    PQclear(found);
    found = RUN(SK_STATEMENT_FIND_VOUCHER, "999999999");
    ck_assert_int_eq(PQntuples(found), 0);
    PQclear(found);
}
END_TEST

// ---- create_voucher ----

#define CREATE(key, title) key, title, "100", "5", "1000", "2000"

static void must_be_created(PGresult *result, const char *outcome, const char *id, const char *epoch)
{
    ck_assert_int_eq(PQntuples(result), 1);
    ck_assert_str_eq(PQgetvalue(result, 0, 0), outcome);
    ck_assert_str_eq(PQgetvalue(result, 0, 1), id);
    ck_assert_str_eq(PQgetvalue(result, 0, 2), epoch);
    PQclear(result);
}

START_TEST(a_voucher_is_created_once_for_each_key)
{
    PGresult *first = RUN(SK_STATEMENT_CREATE_VOUCHER, CREATE("k", "T"));
    (void)snprintf(voucher, sizeof voucher, "%s", PQgetvalue(first, 0, 1));
    must_be_created(first, "created", voucher, "0");
    db_run("UPDATE seckill_voucher SET epoch = 3, title = 'changed' WHERE id = %s", voucher);
    PQclear(PQexec(service, "SET timezone = 'Asia/Kathmandu'")); // the terms are the same everywhere
    must_be_created(RUN(SK_STATEMENT_CREATE_VOUCHER, CREATE("k", "T")), "created", voucher, "3");
    must_be_created(RUN(SK_STATEMENT_CREATE_VOUCHER, CREATE("k", "changed")), "reused", voucher, "3");
    must_be_created(RUN(SK_STATEMENT_CREATE_VOUCHER, "k", "T", "100", "5", "1000", "2001"), "reused", voucher, "3");
    ck_assert_int_eq(db_number("SELECT count(*) FROM seckill_voucher"), 1);
    PQclear(RUN(SK_STATEMENT_CREATE_VOUCHER, CREATE("K", "T"))); // keys are compared byte by byte
    ck_assert_int_eq(db_number("SELECT count(*) FROM seckill_voucher"), 2);
}
END_TEST

static void send_create(PGconn *conn, const char *title)
{
    const char *params[] = {CREATE("k", title)};
    int sent = PQsendQueryParams(conn, sk_statements[SK_STATEMENT_CREATE_VOUCHER].text, 6, NULL, params, NULL, NULL, 0);
    ck_assert_msg(sent == 1, "%s", PQerrorMessage(conn));
}

// The second waits for the first, and sees what became of it: whether its snapshot is older does not matter.
START_TEST(of_two_connections_one_creates_the_voucher)
{
    static const struct {
        const char *end, *title, *outcome;
    } rows[] = {
        {"COMMIT", "T", "created"},
        {"COMMIT", "other", "reused"},
        {"ROLLBACK", "T", "created"},
    };
    PGconn *other = connect_as_service();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        db_run("TRUNCATE seckill_voucher");
        PQclear(PQexec(service, "BEGIN"));
        PGresult *first = RUN(SK_STATEMENT_CREATE_VOUCHER, CREATE("k", "T"));
        send_create(other, rows[i].title);
        WAIT_FOR(db_number("SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event_type = 'Lock'",
                           PQbackendPID(other)) == 1);
        PQclear(PQexec(service, rows[i].end));
        PGresult *second = receive(other);
        ck_assert_str_eq(PQgetvalue(second, 0, 0), rows[i].outcome);
        bool committed = strcmp(rows[i].end, "COMMIT") == 0;
        ck_assert_int_eq(strcmp(PQgetvalue(first, 0, 1), PQgetvalue(second, 0, 1)) == 0, committed);
        ck_assert_int_eq(db_number("SELECT count(*) FROM seckill_voucher"), 1);
        PQclear(first);
        PQclear(second);
    }
    PQfinish(other);
}
END_TEST

START_TEST(an_order_is_shown_to_its_user_alone)
{
    static const struct {
        int id;
        const char *user, *status, *reason; // NULL: no such member
    } rows[] = {
        {1, "alice", "unpaid", NULL},
        {2, "alice", "refused", "ALREADY_ORDERED"},
        {3, "bob", "refused", "SOLD_OUT"},
    };
    make_voucher(1);
    PLACE("3", ORDERS({1, "alice"}, {2, "alice"}, {3, "bob"}), ENDS({"placed", 0}, {"duplicate", 1}, {"sold_out", 0}));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *id, *voucher_id, *user, *status, *created_at, *reason = NULL;
        char uuid[SK_UUID_SIZE];
        put_id(uuid, rows[i].id);
        PGresult *found = RUN(SK_STATEMENT_FIND_ORDER, uuid, rows[i].user);
        json_t *json = document(found, 0);
        ck_assert_int_eq(json_unpack(json, "{s:s,s:s,s:s,s:s,s:s,s?s!}", "id", &id, "voucher_id", &voucher_id,
                                     "user_id", &user, "status", &status, "created_at", &created_at, "reason", &reason),
                         0);
        ck_assert_str_eq(id, uuid);
        ck_assert_str_eq(voucher_id, voucher);
        ck_assert_str_eq(user, rows[i].user);
        ck_assert_str_eq(status, rows[i].status);
        ck_assert_pstr_eq(reason, rows[i].reason);
        ck_assert_uint_eq(strlen(created_at), strlen("2026-11-10T16:00:00.123Z"));
        json_decref(json);
        PQclear(found);
        found = RUN(SK_STATEMENT_FIND_ORDER, uuid, "mallory");
        ck_assert_int_eq(PQntuples(found), 0);
        PQclear(found);
    }
}
END_TEST

START_TEST(the_newest_hundred_orders_of_a_user_are_listed)
{
    enum { ORDERS_MADE = 130, LISTED = 100 };
    char expected[SK_UUID_SIZE];
    db_run("INSERT INTO voucher_order (id, user_id, voucher_id, status, reason)"
           " SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'alice', n,"
           "        (ARRAY['unpaid', 'paid', 'cancelled', 'refused'])[n %% 4 + 1]::order_status,"
           "        CASE WHEN n %% 4 = 3 THEN 'SOLD_OUT' END"
           "   FROM generate_series(1, %d) n",
           ORDERS_MADE);
    db_run("INSERT INTO voucher_order (id, user_id, voucher_id) VALUES (gen_random_uuid(), 'bob', 1)");
    PGresult *listed = RUN(SK_STATEMENT_LIST_ORDERS, "alice", "{}", "{}");
    ck_assert_int_eq(PQntuples(listed), LISTED);
    for (int i = 0; i < LISTED; i++) {
        put_id(expected, ORDERS_MADE - i);
        ck_assert_str_eq(PQgetvalue(listed, i, 0), expected);
    }
    PQclear(listed);
    listed = RUN(SK_STATEMENT_LIST_ORDERS, "nobody", "{}", "{}");
    ck_assert_int_eq(PQntuples(listed), 0);
    PQclear(listed);
}
END_TEST

// Of what Redis has, only that is pending of which there is no row: neither an order past the newest hundred, nor one
// that was settled a moment ago, nor one that is another's.
START_TEST(orders_without_a_row_are_listed_as_pending)
{
    enum { ORDERS_MADE = 130, LISTED = 100, OLD = 5, JUST_SETTLED = 130, ANOTHERS = 200, PENDING = 300 };
    const struct order asked[] = {{OLD, ""}, {JUST_SETTLED, ""}, {PENDING, ""}, {ANOTHERS, ""}, {PENDING + 1, ""}};
    struct sk_buf ids = {0}, users = {0};
    char expected[SK_UUID_SIZE];
    db_run("INSERT INTO voucher_order (id, user_id, voucher_id)"
           " SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'alice', n FROM generate_series(1, "
           "%d) n",
           ORDERS_MADE);
    db_run("INSERT INTO voucher_order (id, user_id, voucher_id)"
           " VALUES ('00000000-0000-7000-8000-000000000%d', 'bob', 1)",
           ANOTHERS);
    put_arrays(&ids, &users, sizeof asked / sizeof asked[0], asked);
    PGresult *listed = RUN(SK_STATEMENT_LIST_ORDERS, "alice", ids.data, "{11,12,13,14,15}");
    ck_assert_int_eq(PQntuples(listed), LISTED + 2);
    for (int i = 0; i < LISTED; i++) {
        put_id(expected, ORDERS_MADE - i);
        ck_assert_str_eq(PQgetvalue(listed, i, 0), expected);
        ck_assert(!PQgetisnull(listed, i, 1));
    }
    for (int i = 0; i < 2; i++) {
        put_id(expected, PENDING + 1 - i);
        ck_assert_str_eq(PQgetvalue(listed, LISTED + i, 0), expected);
        ck_assert(PQgetisnull(listed, LISTED + i, 1));
        ck_assert_str_eq(PQgetvalue(listed, LISTED + i, 2), i == 0 ? "15" : "13");
    }
    PQclear(listed);
    sk_buf_free(&ids);
    sk_buf_free(&users);
}
END_TEST

START_TEST(vouchers_that_may_have_orders_under_way_are_found)
{
    static const struct {
        const char *begin_in, *end_in;
        int epoch, current;
    } rows[] = {
        {"-1 h", "1 h", 1, 1},  {"59 min", "2 h", 1, 1},  {"61 min", "2 h", 1, 0},
        {"-2 h", "-1 h", 1, 1}, {"-50 h", "-25 h", 1, 0}, {"-1 h", "1 h", 0, 0}, // whoever makes it is loading it
    };
    int64_t expected = 0, sum = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t id =
            db_number("INSERT INTO seckill_voucher (title, price_cents, initial_stock, stock, begin_at, end_at,"
                      " epoch) VALUES ('T', 1, 1, 1, now() + '%s', now() + '%s', %d) RETURNING id",
                      rows[i].begin_in, rows[i].end_in, rows[i].epoch);
        expected += rows[i].current * id;
    }
    PGresult *found = run(SK_STATEMENT_CURRENT_VOUCHERS, 0, NULL);
    for (int i = 0; i < PQntuples(found); i++)
        sum += strtoll(PQgetvalue(found, i, 0), NULL, 10);
    ck_assert_int_eq(PQntuples(found), 3);
    ck_assert_int_eq(sum, expected);
    PQclear(found);
}
END_TEST

START_TEST(a_loading_reads_its_voucher_under_its_own_epoch_only)
{
    enum { BUYERS = 2500, CHUNK = 500 };
    char after[SK_UUID_SIZE] = "00000000-0000-0000-0000-000000000000", expected[SK_UUID_SIZE];
    int seen = 0, count;
    make_voucher(BUYERS);
    db_run("INSERT INTO voucher_order (id, user_id, voucher_id, status)"
           " SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'user-' || n, %s,"
           "        CASE n %% 2 WHEN 0 THEN 'paid' ELSE 'unpaid' END::order_status"
           "   FROM generate_series(1, %d) n",
           voucher, BUYERS);
    db_run("INSERT INTO voucher_order (id, user_id, voucher_id, status) VALUES (gen_random_uuid(), 'gone', %s,"
           " 'cancelled')",
           voucher);
    PGresult *epoch = RUN(SK_STATEMENT_RECONCILE_EPOCH, voucher, "2");
    ck_assert_str_eq(PQgetvalue(epoch, 0, 0), "4");
    PGresult *ours = RUN(SK_STATEMENT_RECONCILE_STOCK, voucher, "4"),
             *old = RUN(SK_STATEMENT_RECONCILE_STOCK, voucher, "3");
    ck_assert_int_eq(PQntuples(ours), 1);
    ck_assert_str_eq(PQgetvalue(ours, 0, 0), "2500");
    ck_assert_str_eq(PQgetvalue(ours, 0, 3), "open");
    ck_assert_int_eq(PQntuples(old), 0);
    PQclear(epoch);
    PQclear(ours);
    PQclear(old);
    do { // every live order once, cancelled ones never
        PGresult *chunk = RUN(SK_STATEMENT_RECONCILE_BUYERS, voucher, after);
        count = PQntuples(chunk);
        for (int i = 0; i < count; i++) {
            put_id(expected, ++seen);
            ck_assert_str_eq(PQgetvalue(chunk, i, 0), expected);
            memcpy(after, expected, sizeof after);
        }
        PQclear(chunk);
    } while (count == CHUNK);
    ck_assert_int_eq(seen, BUYERS);
}
END_TEST

// ---- refusals, dead letters ----

#define ID1 "00000000-0000-7000-8000-000000000001"
#define ID2 "00000000-0000-7000-8000-000000000002"
#define ID3 "00000000-0000-7000-8000-000000000003"

static void must_hold(const char *stock, const char *buyers)
{
    char epoch[24];
    db_text(epoch, sizeof epoch, "SELECT epoch FROM seckill_voucher WHERE id = %s", voucher);
    PGresult *opened = RUN(SK_STATEMENT_RECONCILE_STOCK, voucher, epoch);
    ck_assert_str_eq(PQgetvalue(opened, 0, 0), stock);
    ck_assert_str_eq(PQgetvalue(opened, 0, 4), buyers);
    PQclear(opened);
    PGresult *chunk = RUN(SK_STATEMENT_RECONCILE_BUYERS, voucher, "00000000-0000-0000-0000-000000000000");
    ck_assert_int_eq(PQntuples(chunk), atoi(buyers));
    PQclear(chunk);
    PGresult *current = run(SK_STATEMENT_CURRENT_VOUCHERS, 0, NULL);
    ck_assert_int_eq(PQntuples(current), 1);
    ck_assert_str_eq(PQgetvalue(current, 0, 4), stock);
    ck_assert_str_eq(PQgetvalue(current, 0, 5), buyers);
    PQclear(current);
}

static void refuse(const char *ids, const char *users, const char *reasons, const char *outcome)
{
    PGresult *result = RUN(SK_STATEMENT_REFUSE_ORDERS, voucher, ids, users, reasons);
    ck_assert_int_eq(PQntuples(result), 1);
    ck_assert_str_eq(PQgetvalue(result, 0, 1), outcome);
    PQclear(result);
}

START_TEST(a_refused_order_holds_no_unit_whatever_is_said_later)
{
    make_voucher(10);
    refuse("{" ID1 "}", "{alice}", "{GRANT_LOST}", "duplicate");
    refuse("{" ID1 "}", "{alice}", "{ALREADY_ORDERED}", "duplicate"); // the first reason stays
    PLACE("3", ORDERS({1, "alice"}), ENDS({"duplicate", 0}));
    must_have(0, 10);
    char reason[32];
    db_text(reason, sizeof reason, "SELECT reason FROM voucher_order WHERE id = '" ID1 "'");
    ck_assert_str_eq(reason, "GRANT_LOST");
    PLACE("3", ORDERS({2, "alice"}), ENDS({"placed", 0}));            // she may buy again
    refuse("{" ID2 "}", "{alice}", "{GRANT_LOST}", "already_placed"); // and what is placed stays so
    must_have(1, 9);
}
END_TEST

static void set_aside(const char *journal, const char *orders)
{
    const char *params[] = {voucher, journal, "\\x00ff", orders, "why"};
    PGresult *result =
        PQexecParams(service, sk_statements[SK_STATEMENT_SET_ASIDE].text, 5, NULL, params, NULL, NULL, 0);
    ck_assert_msg(PQresultStatus(result) == PGRES_COMMAND_OK, "%s", PQerrorMessage(service));
    PQclear(result);
}

static void must_list(int count)
{
    PGresult *list = RUN(SK_STATEMENT_LIST_DEAD_LETTERS, voucher);
    json_t *letters = document(list, 0);
    ck_assert_uint_eq(json_array_size(letters), (size_t)count);
    json_decref(letters);
    PQclear(list);
}

START_TEST(a_dead_letter_holds_its_units_and_buyers_until_it_is_decided)
{
    char letter[24];
    make_voucher(10);
    PLACE("3", ORDERS({3, "carol"}), ENDS({"placed", 0}));
    must_hold("9", "1");
    set_aside("10-1", ID1 " alice," ID2 " bob");
    set_aside("10-1", ID1 " alice," ID2 " bob"); // said again
    must_hold("7", "3");
    must_list(1);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0})); // one of them is settled after all
    must_hold("7", "3");
    db_text(letter, sizeof letter, "SELECT id FROM dead_letter");
    for (int i = 0; i < 2; i++) {
        PGresult *off = RUN(SK_STATEMENT_WRITE_OFF, voucher, letter);
        ck_assert_int_eq(PQntuples(off), 1);
        ck_assert_str_eq(PQgetvalue(off, 0, 0), ID2);
        ck_assert_str_eq(PQgetvalue(off, 0, 1), "bob");
        PQclear(off);
    }
    must_hold("8", "2");
    must_list(0);
    PLACE("3", ORDERS({2, "bob"}), ENDS({"duplicate", 0}));
    must_have(2, 8);
}
END_TEST

START_TEST(a_letter_ends_when_its_orders_are_settled)
{
    make_voucher(10);
    set_aside("10-1", ID1 " alice");
    set_aside("10-2", NULL); // cannot be read: holds nothing that has a name
    must_hold("9", "1");
    must_list(2);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    must_list(1);
    must_hold("9", "1");
}
END_TEST

static void end_settled(void)
{
    PGresult *result = PQexec(service, sk_statements[SK_STATEMENT_END_SETTLED_LETTERS].text);
    ck_assert_msg(PQresultStatus(result) == PGRES_COMMAND_OK, "%s", PQerrorMessage(service));
    PQclear(result);
}

static int64_t waiting_letters(void)
{
    return db_number("SELECT count(*) FROM dead_letter WHERE ended_at IS NULL");
}

// A letter that has nothing to decide is ended, which changes neither what is held nor what is listed.
START_TEST(settled_letters_are_ended)
{
    make_voucher(10);
    set_aside("10-1", ID1 " alice," ID2 " bob");
    set_aside("10-2", ID2 " bob," ID3 " carol");
    set_aside("10-3", NULL); // nobody knows what is in it
    end_settled();
    ck_assert_int_eq(waiting_letters(), 3);
    must_hold("7", "3");
    PLACE("3", ORDERS({3, "carol"}), ENDS({"placed", 0})); // the rest of 10-2 is held by an older letter
    must_list(2);
    end_settled();
    ck_assert_int_eq(waiting_letters(), 2);
    must_list(2);
    must_hold("7", "3");
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    end_settled();
    ck_assert_int_eq(waiting_letters(), 2); // bob waits
    must_hold("7", "3");
    refuse("{" ID2 "}", "{bob}", "{GRANT_LOST}", "duplicate");
    end_settled();
    ck_assert_int_eq(waiting_letters(), 1);
    must_hold("8", "2");
    must_list(1);
    set_aside("10-2", ID2 " bob," ID3 " carol"); // said again after its end
    must_list(1);
    must_hold("8", "2");
}
END_TEST

// Its user has another order, so it holds nothing now: but it would again if that were cancelled.
START_TEST(a_letter_that_holds_nothing_is_not_settled)
{
    make_voucher(10);
    set_aside("10-1", ID1 " alice");
    PLACE("3", ORDERS({2, "alice"}), ENDS({"placed", 0}));
    must_hold("9", "1");
    end_settled();
    ck_assert_int_eq(waiting_letters(), 1);
    db_run("UPDATE voucher_order SET status = 'cancelled' WHERE id = '" ID2 "'");
    db_run("UPDATE seckill_voucher SET stock = stock + 1 WHERE id = %s", voucher);
    must_hold("9", "1");
}
END_TEST

static bool list_has_more(int count)
{
    PGresult *list = RUN(SK_STATEMENT_LIST_DEAD_LETTERS, voucher);
    json_t *letters = document(list, 0);
    ck_assert_uint_eq(json_array_size(letters), (size_t)count);
    ck_assert_int_lt(PQgetlength(list, 0, 0), 2200000);
    bool more = strcmp(PQgetvalue(list, 0, 1), "t") == 0;
    json_decref(letters);
    PQclear(list);
    return more;
}

START_TEST(the_list_of_letters_has_its_bounds)
{
    make_voucher(10);
    ck_assert(!list_has_more(0));
    db_run("INSERT INTO dead_letter (voucher_id, journal_id, raw, reason)"
           " SELECT %s, n || '-1', '', 'why' FROM generate_series(1, 1000) n",
           voucher);
    ck_assert(!list_has_more(1000));
    set_aside("2000-1", NULL);
    ck_assert(list_has_more(1000));
    db_run("UPDATE dead_letter SET raw = convert_to(repeat('x', 65536), 'UTF8')");
    ck_assert(list_has_more(2000000 / (300 + 2 * 4096)));
    db_run("UPDATE dead_letter SET ended_at = now() WHERE journal_id <> '500-1'");
    ck_assert(!list_has_more(1));
    db_run("UPDATE dead_letter SET orders = (SELECT string_agg(gen_random_uuid() || ' someone', ',')"
           " FROM generate_series(1, 2048)) WHERE journal_id = '500-1'");
    ck_assert(!list_has_more(1));
}
END_TEST

// Tried again in vain, maybe from a new journal entry: an order is in one letter, and holds one unit.
START_TEST(an_order_is_held_once_however_often_it_is_set_aside)
{
    make_voucher(10);
    set_aside("10-1", ID1 " alice," ID2 " bob");
    set_aside("", ID2 " bob");
    set_aside("20-1", ID2 " bob," ID1 " alice");
    must_hold("8", "2");
    must_list(1);
    set_aside("20-2", ID2 " bob," ID3 " carol"); // one is new
    must_hold("7", "3");
    must_list(2);
}
END_TEST

// ---- migrations ----

// The owner's URL, for a schema of its own: as good as another database.
static void make_schema(const char *name, char url[URL_SIZE])
{
    db_run("CREATE SCHEMA %s AUTHORIZATION owner", name);
    (void)snprintf(url, URL_SIZE, "%s?options=-csearch_path%%3D%s", stack_owner_url(), name);
}

static void must_be_migrated(const char *schema)
{
    ck_assert_int_eq(db_number("SELECT count(*) FROM %s.seckill_migration", schema), SK_MIGRATION_COUNT);
    ck_assert_int_eq(db_number("SELECT count(*) FROM pg_proc WHERE proname = 'place_orders'"
                               " AND pronamespace = '%s'::regnamespace",
                               schema),
                     1);
}

START_TEST(migrating_again_changes_nothing)
{
    char url[URL_SIZE + 32], output[4096];
    make_voucher(10);
    int64_t applied = db_number("SELECT sum(extract(epoch FROM applied_at) * 1000000)::bigint FROM seckill_migration");
    (void)snprintf(url, sizeof url, "SECKILL_DATABASE_URL=%s", stack_owner_url());
    for (int i = 0; i < 2; i++) {
        int exit_code = service_run((const char *const[]){"--migrate", NULL}, ENV(url), output, sizeof output);
        ck_assert_msg(exit_code == 0, "%s", output);
    }
    must_be_migrated("public");
    ck_assert_int_eq(db_number("SELECT sum(extract(epoch FROM applied_at) * 1000000)::bigint FROM seckill_migration"),
                     applied);
    must_have(0, 10);
}
END_TEST

START_TEST(several_may_migrate_at_once)
{
    enum { MIGRATORS = 4 };
    char url[URL_SIZE];
    pid_t pids[MIGRATORS];
    make_schema("at_once", url);
    for (int i = 0; i < MIGRATORS; i++) {
        pids[i] = fork();
        ck_assert_int_ge(pids[i], 0);
        if (pids[i] == 0)
            _exit(sk_migrate(url) == SK_OK ? 0 : 1);
    }
    for (int i = 0; i < MIGRATORS; i++) {
        int status = -1;
        WAIT_FOR(waitpid(pids[i], &status, WNOHANG) == pids[i]);
        ck_assert_int_eq(status, 0);
    }
    must_be_migrated("at_once");
}
END_TEST

START_TEST(a_migration_that_fails_leaves_nothing_half_done)
{
    char url[URL_SIZE];
    make_schema("half_done", url);
    db_run("CREATE TABLE half_done.voucher_order (n int)"); // in the way of the second table
    ck_assert_int_ne(sk_migrate(url), SK_OK);
    ck_assert_int_eq(db_number("SELECT count(*) FROM pg_class WHERE relnamespace = 'half_done'::regnamespace"), 1);
    db_run("DROP TABLE half_done.voucher_order");
    ck_assert_int_eq(sk_migrate(url), SK_OK);
    must_be_migrated("half_done");
}
END_TEST

START_TEST(without_rights_or_server_migrating_fails)
{
    char url[URL_SIZE + 32], output[4096];
    (void)snprintf(url, sizeof url, "SECKILL_DATABASE_URL=%s", stack_database_url());
    ck_assert_int_eq(service_run((const char *const[]){"--migrate", NULL}, ENV(url), output, sizeof output), 1);
    ck_assert_int_ne(sk_migrate("postgresql://nobody@127.0.0.1:1/nothing"), SK_OK);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("sql");
    tcase_add_unchecked_fixture(tcase, start, NULL);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, orders_are_placed_and_take_one_unit_each);
    tcase_add_test(tcase, an_empty_batch_does_nothing);
    tcase_add_test(tcase, a_second_run_takes_nothing_again);
    tcase_add_test(tcase, a_paid_or_cancelled_order_is_not_placed_again);
    tcase_add_test(tcase, a_user_with_a_live_order_is_refused_with_its_id);
    tcase_add_test(tcase, a_user_whose_order_was_cancelled_may_order_again);
    tcase_add_test(tcase, orders_are_per_voucher);
    tcase_add_test(tcase, past_the_last_unit_orders_are_sold_out_in_their_order);
    tcase_add_test(tcase, a_journal_id_that_cannot_be_refuses_nothing);
    tcase_add_test(tcase, with_no_stock_at_all_everything_is_sold_out);
    tcase_add_test(tcase, exactly_the_stock_is_placed);
    tcase_add_test(tcase, another_epoch_is_stale_and_changes_nothing);
    tcase_add_test(tcase, no_epoch_is_a_master_key);
    tcase_add_test(tcase, the_newest_journal_id_is_remembered_until_the_next_epoch);
    tcase_add_test(tcase, a_missing_voucher_is_stale);
    tcase_add_test(tcase, an_id_of_somebody_elses_order_clashes);
    tcase_add_test(tcase, one_batch_may_hold_every_outcome);
    tcase_add_test(tcase, of_one_users_orders_in_a_batch_the_first_is_placed);
    tcase_add_test(tcase, of_one_users_orders_past_the_last_unit_all_are_sold_out);
    tcase_add_test(tcase, one_order_twice_in_a_batch_is_one_order);
    tcase_add_test(tcase, a_malformed_batch_changes_nothing);
    tcase_add_test(tcase, batches_of_several_connections_never_oversell);
    tcase_add_test(tcase, of_two_connections_one_gets_the_user);
    tcase_add_test(tcase, one_batch_from_two_connections_is_placed_once);
    tcase_add_test(tcase, a_batch_that_waits_out_a_new_epoch_is_fenced_off);
    tcase_add_test(tcase, a_batch_that_is_rolled_back_leaves_nothing);
    tcase_add_test(tcase, the_tables_refuse_what_must_not_be);
    tcase_add_test(tcase, the_services_role_defines_and_deletes_nothing);
    tcase_add_test(tcase, other_roles_may_do_nothing_at_all);
    tcase_add_test(tcase, a_voucher_is_shown_with_its_terms);
    tcase_add_test(tcase, a_voucher_is_created_once_for_each_key);
    tcase_add_test(tcase, of_two_connections_one_creates_the_voucher);
    tcase_add_test(tcase, an_order_is_shown_to_its_user_alone);
    tcase_add_test(tcase, the_newest_hundred_orders_of_a_user_are_listed);
    tcase_add_test(tcase, orders_without_a_row_are_listed_as_pending);
    tcase_add_test(tcase, vouchers_that_may_have_orders_under_way_are_found);
    tcase_add_test(tcase, a_refused_order_holds_no_unit_whatever_is_said_later);
    tcase_add_test(tcase, a_dead_letter_holds_its_units_and_buyers_until_it_is_decided);
    tcase_add_test(tcase, settled_letters_are_ended);
    tcase_add_test(tcase, a_letter_that_holds_nothing_is_not_settled);
    tcase_add_test(tcase, the_list_of_letters_has_its_bounds);
    tcase_add_test(tcase, an_order_is_held_once_however_often_it_is_set_aside);
    tcase_add_test(tcase, a_letter_ends_when_its_orders_are_settled);
    tcase_add_test(tcase, a_loading_reads_its_voucher_under_its_own_epoch_only);
    tcase_add_test(tcase, migrating_again_changes_nothing);
    tcase_add_test(tcase, several_may_migrate_at_once);
    tcase_add_test(tcase, a_migration_that_fails_leaves_nothing_half_done);
    tcase_add_test(tcase, without_rights_or_server_migrating_fails);
    return harness_main(tcase, CK_NOFORK);
}
