// Orders that end after they were placed: every outcome of return_orders(), the orders that due_orders() finds, both
// concurrent with purchases and payments, and the rows they read.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { STOCK = 20, IDS_MOST = 128, IDS_SIZE = IDS_MOST * (SK_UUID_CHARS + 1) + 2, SHORT_SIZE = 64, TEXT_SIZE = 512 };
enum { WALK = 2000, WAITING = 500 }; // rows of one part of a walk; rows not due after which it ends

#define TODAY    "created_at = now()"
#define LONG_AGO "created_at = now() - interval '1 h'"

static void setup(void)
{
    sql_setup();
    sql_make_voucher(STOCK); // to be paid within 900 s
}

static void teardown(void)
{
    db_run("ALTER TABLE voucher_order ALTER created_at SET DEFAULT now()");
    sql_teardown();
}

// ---- calls ----

static void put_ids(char out[IDS_SIZE], size_t n, const int *ids)
{
    size_t len = 0;
    char id[SK_UUID_SIZE];
    ck_assert_uint_le(n, IDS_MOST);
    out[len++] = '{';
    for (size_t i = 0; i < n; i++) {
        sql_put_id(id, ids[i]);
        len += (size_t)snprintf(out + len, IDS_SIZE - len, "%s%s", i == 0 ? "" : ",", id);
    }
    out[len++] = '}';
    out[len] = '\0';
}

static const char *journal = "7-1"; // the entry that is settled

static PGresult *ask(const char *epoch, size_t n, const int *ids, const char *move, const char *by, const char *why)
{
    char text[IDS_SIZE];
    put_ids(text, n, ids);
    const char *params[] = {sql_slot, sql_voucher, epoch, text, move, by, why, journal};
    return sql_run(SK_STATEMENT_RETURN_ORDERS, 8, params);
}

// The expected outcome: "outcome user units,...".
static void must_come_to(PGresult *result, const char *expected)
{
    struct sk_buf told = {0};
    for (int row = 0; row < PQntuples(result); row++) {
        ck_assert_int_eq(atoi(PQgetvalue(result, row, 0)), PQgetisnull(result, row, 0) ? 0 : row + 1);
        sk_buf_printf(&told, "%s%s %s %s", row == 0 ? "" : ",", PQgetvalue(result, row, 1), PQgetvalue(result, row, 2),
                      PQgetvalue(result, row, 3));
    }
    PQclear(result);
    ck_assert_str_eq(told.data, expected);
    sk_buf_free(&told);
}

#define IDS(...)                                                    \
    sizeof((const int[]){__VA_ARGS__}) / sizeof(int), (const int[]) \
    {                                                               \
        __VA_ARGS__                                                 \
    }

// Makes live orders of the users u<id>, each of `quantity` units.
static void make_orders(int first, int count, int quantity)
{
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity)"
           " SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, %s, 'u' || n, %s, %d"
           "   FROM generate_series(%d, %d) n",
           sql_slot, sql_voucher, quantity, first, first + count - 1);
    db_run("UPDATE voucher_stock SET live = live + %d, stock = greatest(stock - %d, 0),"
           " units = greatest(units, units + %d - stock) WHERE voucher_id = %s",
           count, count * quantity, count * quantity, sql_voucher);
}

static void set(int first, int last, const char *what)
{
    db_run("UPDATE voucher_order SET %s WHERE voucher_id = %s AND id BETWEEN"
           " ('00000000-0000-7000-8000-' || lpad('%d', 12, '0'))::uuid AND"
           " ('00000000-0000-7000-8000-' || lpad('%d', 12, '0'))::uuid",
           what, sql_voucher, first, last);
}

static void pay(int id, const char *reference, const char *cents, const char *outcome)
{
    char uuid[SK_UUID_SIZE];
    sql_put_id(uuid, id);
    PGresult *result = SQL_RUN(SK_STATEMENT_PAY_ORDER, sql_slot, uuid, reference, cents, "CNY", "till");
    ck_assert_str_eq(PQgetvalue(result, 0, 0), outcome);
    PQclear(result);
}

// ---- results ----

// The counts of live orders and their units are right, and `left` units are left.
static void must_balance(int64_t left)
{
    static const char sum[] = "SELECT %s FROM voucher_order WHERE voucher_id = %s AND %s";
    const char *live = "status IN ('unpaid', 'paid')", *units = "coalesce(sum(quantity), 0)";
    ck_assert_int_eq(sql_stock(), left);
    ck_assert_int_eq(db_number("SELECT live FROM voucher_stock WHERE voucher_id = %s", sql_voucher),
                     db_number(sum, "count(*)", sql_voucher, live));
    ck_assert_int_eq(db_number("SELECT units FROM voucher_stock WHERE voucher_id = %s", sql_voucher),
                     left + db_number(sum, units, sql_voucher, live) +
                         db_number(sum, units, sql_voucher, "reason = 'KEPT'"));
}

static int64_t events(void)
{
    return db_number("SELECT count(*) FROM order_event");
}

// ---- one order ----

static const char *const statuses[] = {"unpaid", "paid", "cancelled", "expired", "refused", "refunded"};
static const char *const moves[][2] = {
    {"cancelled", "cancelled"}, {"expired", "expired"}, {"refunded", "refunded"}, {"refunded-kept", "refunded"}};

// Tries each move from each status: exactly those in order_move succeed.
TEST_EACH(the_table_decides_which_moves_are_made, COUNT(statuses) * COUNT(moves))
{
    const char *from = statuses[_i / COUNT(moves)], *move = moves[_i % COUNT(moves)][0],
               *to = moves[_i % COUNT(moves)][1];
    bool allowed =
             db_number("SELECT count(*) FROM order_move WHERE from_status = '%s' AND to_status = '%s'", from, to) == 1,
         ended = strcmp(from, "cancelled") == 0 || strcmp(from, "expired") == 0 || strcmp(from, "refunded") == 0;
    bool live = strcmp(from, "unpaid") == 0 || strcmp(from, "paid") == 0, kept = strcmp(move, "refunded-kept") == 0;
    char what[TEXT_SIZE];
    make_orders(1, 1, 3);
    (void)snprintf(what, sizeof what, LONG_AGO ", updated_at = '2026-01-01', status = '%s', reason = %s", from,
                   strcmp(from, "refused") == 0    ? "'GRANT_LOST'"
                   : strcmp(from, "refunded") == 0 ? "'RESTOCKED'"
                                                   : "NULL");
    set(1, 1, what);
    if (!live)
        db_run("UPDATE voucher_stock SET live = 0, stock = %d WHERE voucher_id = %s", STOCK, sql_voucher);
    must_come_to(ask("3", IDS(1), move, "olga", "because"), allowed && kept    ? "returned u1 0"
                                                            : allowed || ended ? "returned u1 3"
                                                                               : "kept u1 0");
    sql_must_be(1, allowed ? to : from,
                allowed && strcmp(to, "refunded") == 0 ? (kept ? "KEPT" : "RESTOCKED")
                : strcmp(from, "refused") == 0         ? "GRANT_LOST"
                : strcmp(from, "refunded") == 0        ? "RESTOCKED"
                                                       : "");
    must_balance(live && (!allowed || kept) ? STOCK - 3 : STOCK);
    ck_assert_int_eq(events(), allowed);
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE updated_at > '2026-01-02'"), allowed);
}

TEST(a_move_is_made_once)
{
    make_orders(1, 2, 4);
    for (int i = 0; i < 3; i++) {
        must_come_to(ask("3", IDS(1), "cancelled", "user", NULL), "returned u1 4");
        must_balance(STOCK - 4);
        ck_assert_int_eq(events(), 1);
    }
    // An ended order does not move again.
    must_come_to(ask("3", IDS(1), "refunded", "olga", NULL), "returned u1 4");
    sql_must_be(1, "cancelled", "");
    // An order named twice in one call returns its units once.
    must_come_to(ask("3", IDS(2, 2, 1, 2), "cancelled", "user", NULL),
                 "returned u2 4,returned u2 4,returned u1 4,returned u2 4");
    must_balance(STOCK);
    ck_assert_int_eq(events(), 2);
}

// Redis is corrected by the refund's entry and by those granted after it, not by another refund.
TEST(another_refund_leaves_kept_units_to_the_first)
{
    make_orders(1, 1, 3);
    set(1, 1, "status = 'paid'");
    must_come_to(ask("3", IDS(1), "refunded-kept", "olga", NULL), "returned u1 0");
    journal = "7-2";
    must_come_to(ask("3", IDS(1), "refunded-kept", "olga", NULL), "returned u1 "); // NULL
    journal = NULL;                                                                // of a rebuild
    must_come_to(ask("3", IDS(1), "refunded-kept", "olga", NULL), "returned u1 ");
    journal = "7-1";
    must_come_to(ask("3", IDS(1), "refunded", "olga", NULL), "returned u1 0");
    must_balance(STOCK - 3);
}

// A Redis that has lost data may reuse an id, under a newer epoch. Old events have the id alone.
TEST(a_refunds_entry_is_named_with_its_epoch)
{
    make_orders(1, 1, 3);
    set(1, 1, "status = 'paid'");
    must_come_to(ask("3", IDS(1), "refunded-kept", "olga", NULL), "returned u1 0");
    ck_assert_int_eq(db_number("SELECT count(*) FROM order_event WHERE journal = '7-1@3'"), 1);
    db_run("UPDATE voucher_stock SET epoch = 4 WHERE voucher_id = %s", sql_voucher);
    must_come_to(ask("4", IDS(1), "refunded-kept", "olga", NULL), "returned u1 "); // NULL
    db_run("UPDATE order_event SET journal = '7-1' WHERE voucher_id = %s", sql_voucher);
    must_come_to(ask("4", IDS(1), "refunded-kept", "olga", NULL), "returned u1 0");
    must_balance(STOCK - 3);
}

// ---- counts of a user's ended orders ----

// Ends one order of alice. `nth`: the expected number; empty: NULL.
static void must_be_nth(int id, const char *move, const char *outcome, const char *nth)
{
    PGresult *result = ask("3", IDS(id), move, "olga", NULL);
    ck_assert_str_eq(PQgetvalue(result, 0, 1), outcome);
    ck_assert_str_eq(PQgetvalue(result, 0, 4), nth);
    PQclear(result);
}

static void make_order_of_alice(int id, const char *status)
{
    char what[TEXT_SIZE];
    make_orders(id, 1, 1);
    (void)snprintf(what, sizeof what, LONG_AGO ", user_id = 'alice', status = '%s', reason = %s", status,
                   strcmp(status, "refused") == 0 ? "'GRANT_LOST'" : "NULL");
    set(id, id, what);
}

TEST(orders_of_a_user_are_counted_as_they_end)
{
    make_orders(1, 4, 1); // of other users
    for (int move = 0; move < 4; move++) {
        char nth[SHORT_SIZE];
        make_order_of_alice(11 + move, move < 2 ? "unpaid" : "paid");
        (void)snprintf(nth, sizeof nth, "%d", 1 + move);
        must_be_nth(11 + move, moves[move][0], "returned", nth);
        must_be_nth(1 + move, "cancelled", "returned", "1");
    }
    must_be_nth(12, "expired", "returned", "2"); // the first answer was lost
    // Orders that do not end, or were never live, are not counted.
    make_order_of_alice(15, "refused");
    must_be_nth(15, "cancelled", "kept", "");
    make_order_of_alice(16, "unpaid");
    must_be_nth(16, "refunded", "kept", "");
    must_be_nth(99, "cancelled", "unknown", "");
    must_be_nth(16, "cancelled", "returned", "5");
    // Another voucher has its own count.
    sql_make_voucher(STOCK);
    make_order_of_alice(21, "unpaid");
    must_be_nth(21, "cancelled", "returned", "1");
    db_run("UPDATE seckill_voucher SET state = 'retired' WHERE id = %s", sql_voucher);
    make_order_of_alice(22, "paid");
    PGresult *result = ask(NULL, IDS(22), "refunded", "olga", NULL);
    ck_assert_str_eq(PQgetvalue(result, 0, 4), "2");
    PQclear(result);
}

// ---- several ----

TEST(each_order_has_its_own_outcome)
{
    make_orders(1, 5, 2);
    pay(2, "ref-2", "200", "paid");
    set(4, 4, "status = 'refused', reason = 'SOLD_OUT'");
    db_run("UPDATE voucher_stock SET live = live - 1, stock = stock + 2 WHERE voucher_id = %s", sql_voucher);
    must_come_to(ask("3", IDS(5, 2, 99, 1, 4), "cancelled", "user", NULL),
                 "returned u5 2,kept u2 0,unknown  0,returned u1 2,kept u4 0");
    sql_must_be(3, "unpaid", "");
    must_balance(STOCK - 4);
    ck_assert_int_eq(events(), 3);
}

TEST(another_vouchers_order_is_unknown)
{
    make_orders(1, 1, 1);
    char voucher[sizeof sql_voucher];
    memcpy(voucher, sql_voucher, sizeof voucher);
    sql_make_voucher(STOCK);
    must_come_to(ask("3", IDS(1), "cancelled", "user", NULL), "unknown  0");
    must_balance(STOCK);
    memcpy(sql_voucher, voucher, sizeof voucher);
    sql_must_be(1, "unpaid", "");
}

// Entries of three vouchers in one statement: each gets the outcomes that it would get alone, and one query finds the
// due orders of all. One of them has another epoch.
TEST(entries_of_several_vouchers_are_one_statement)
{
    static const char *const expected[][6] = {{"2", "kept", "u1", "0", "", "1"},
                                              {"", "stale", "", "", "", "2"},
                                              {"1", "returned", "u4", "3", "1", "3"},
                                              {"2", "returned", "u5", "3", "1", "3"}};
    char slots[SHORT_SIZE] = "{", vouchers[SHORT_SIZE] = "{", ids[IDS_SIZE];
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            sql_make_voucher(STOCK);
        make_orders(2 * i, 2, i + 1);
        set(2 * i, 2 * i + 1, LONG_AGO);
        if (i == 0)
            pay(1, "ref-1", "100", "paid");
        (void)snprintf(slots + strlen(slots), sizeof slots - strlen(slots), "%s%s", sql_slot, i < 2 ? "," : "}");
        (void)snprintf(vouchers + strlen(vouchers), sizeof vouchers - strlen(vouchers), "%s%s", sql_voucher,
                       i < 2 ? "," : "}");
    }
    PGresult *due = SQL_RUN(SK_STATEMENT_DUE_BATCHES, slots, vouchers, "{NULL,NULL,NULL}", "128");
    ck_assert_int_eq(PQntuples(due), 3);
    for (int i = 0; i < 3; i++) {
        put_ids(ids, i == 0 ? 1 : 2, (const int[]){2 * i, 2 * i + 1}); // 1 is paid
        ck_assert_str_eq(PQgetvalue(due, i, 0), ids);
    }
    PQclear(due);
    put_ids(ids, IDS(2, 1, 3, 4, 5));
    PGresult *result = SQL_RUN(SK_STATEMENT_RETURN_BATCHES, slots, vouchers, "{3,2,3}", "{2,1,2}", ids, "expired",
                               "expiry", NULL, "{7-1,7-2,7-3}");
    ck_assert_int_eq(PQntuples(result), 5);
    ck_assert_str_eq(PQgetvalue(result, 0, 1), "unknown"); // the second voucher's
    for (int row = 1; row < 5; row++) {
        for (int column = 0; column < 6; column++)
            ck_assert_str_eq(PQgetvalue(result, row, column), expected[row - 1][column]);
    }
    PQclear(result);
    must_balance(STOCK);
}

TEST(under_another_epoch_nothing_is_done)
{
    static const char *const epochs[] = {"2", "4", "0", "-3", "9223372036854775807", NULL};
    make_orders(1, 2, 1);
    for (size_t i = 0; i < COUNT(epochs); i++)
        must_come_to(ask(epochs[i], IDS(1, 2), "cancelled", "user", NULL), "stale  ");
    must_balance(STOCK - 2);
    ck_assert_int_eq(events(), 0);
    // For a retired voucher there is no epoch to check, and Redis holds nothing that could differ.
    db_run("UPDATE seckill_voucher SET state = 'retired' WHERE id = %s", sql_voucher);
    must_come_to(ask("3", IDS(1), "cancelled", "user", NULL), "stale  ");
    must_come_to(ask(NULL, IDS(1), "cancelled", "user", NULL), "returned u1 1");
    must_balance(STOCK - 1);
    (void)snprintf(sql_voucher, sizeof sql_voucher, "999999999");
    must_come_to(ask("3", IDS(1), "cancelled", "user", NULL), "stale  ");
    must_come_to(ask(NULL, IDS(1), "cancelled", "user", NULL), "stale  ");
}

TEST(an_order_expires_when_it_is_due)
{
    make_orders(1, 3, 1);
    set(1, 1, "created_at = now() - interval '899 s'");
    set(2, 2, "created_at = now() - interval '900 s'");
    must_come_to(ask("3", IDS(1, 2, 3), "expired", "expiry", NULL), "kept u1 0,returned u2 1,kept u3 0");
    must_balance(STOCK - 2);
    db_run("UPDATE seckill_voucher SET pay_within_s = 0 WHERE id = %s", sql_voucher); // never expires
    set(1, 1, "created_at = '2001-01-01'");
    must_come_to(ask("3", IDS(1), "expired", "expiry", NULL), "kept u1 0");
    db_run("UPDATE seckill_voucher SET pay_within_s = 60 WHERE id = %s", sql_voucher);
    must_come_to(ask("3", IDS(1), "expired", "expiry", NULL), "returned u1 1");
    must_come_to(ask("3", IDS(3), "cancelled", "user", NULL), "returned u3 1"); // other moves need no time
    must_balance(STOCK);
}

// ---- due orders ----

struct due {
    int count, first, last;       // of the orders that are due: the digits of their ids
    char walked_to[SK_UUID_SIZE]; // empty: the walk has ended
    int64_t next_ms, now_ms;      // next_ms 0: none
};

static int digits(const char *id)
{
    return atoi(id + SK_UUID_CHARS - 12);
}

static struct due read_due(PGresult *result)
{
    struct due due = {0};
    ck_assert_int_eq(PQntuples(result), 1);
    for (const char *id = PQgetvalue(result, 0, 0) + 1; strlen(id) > SK_UUID_CHARS; id += SK_UUID_CHARS + 1) {
        ck_assert_int_gt(digits(id), due.last); // in their order
        due.first = due.count++ == 0 ? digits(id) : due.first;
        due.last = digits(id);
    }
    (void)snprintf(due.walked_to, sizeof due.walked_to, "%s", PQgetvalue(result, 0, 1));
    due.next_ms = atoll(PQgetvalue(result, 0, 2));
    due.now_ms = atoll(PQgetvalue(result, 0, 3));
    PQclear(result);
    return due;
}

static struct due scan(const char *from, const char *most)
{
    return read_due(SQL_RUN(SK_STATEMENT_DUE_ORDERS, sql_slot, sql_voucher, from, most));
}

static void must_be_due(const struct due *due, int count, int first, int last, int walked_to)
{
    ck_assert_int_eq(due->count, count);
    ck_assert_int_eq(due->first, first);
    ck_assert_int_eq(due->last, last);
    ck_assert_int_eq(due->walked_to[0] == '\0' ? 0 : digits(due->walked_to), walked_to);
}

// The numbers: of the orders that must be due, the first and the last of them, and where the walk has got to.
static struct due find(const char *from, const char *most, int count, int first, int last, int walked_to)
{
    struct due due = scan(from, most);
    must_be_due(&due, count, first, last, walked_to);
    return due;
}

static int due_after(void)
{
    char id[SK_UUID_SIZE];
    db_text(id, sizeof id, "SELECT due_after FROM voucher_stock WHERE voucher_id = %s", sql_voucher);
    return digits(id);
}

TEST(where_there_is_no_order_none_is_due)
{
    struct due due = find(NULL, "128", 0, 0, 0, 0);
    ck_assert_int_eq(due.next_ms, 0);
    ck_assert_int_le(llabs(due.now_ms - db_number("SELECT unix_ms(clock_timestamp())")), WAIT_DEADLINE_MS);
    (void)snprintf(sql_voucher, sizeof sql_voucher, "999999999");
    due = find(NULL, "128", 0, 0, 0, 0);
    ck_assert_int_gt(due.now_ms, 0);
}

TEST(unpaid_orders_are_due_when_their_time_is_over)
{
    make_orders(1, 8, 1);
    set(1, 5, LONG_AGO);
    pay(2, "ref-2", "100", "paid");
    PQclear(ask("3", IDS(3), "cancelled", "user", NULL));
    set(6, 6, "created_at = '2026-01-01 00:00:00.25Z'");
    set(7, 7, "created_at = now() - interval '100 s'");
    struct due due = find(NULL, "128", 4, 1, 6, 0);
    ck_assert_int_eq(due.next_ms,
                     db_number("SELECT unix_ms(created_at) + 900000 FROM voucher_order WHERE user_id = 'u7'"));
    PQclear(ask("3", IDS(1, 4, 5, 6), "expired", "expiry", NULL));
    due = find(NULL, "128", 0, 0, 0, 0);
    db_run("UPDATE seckill_voucher SET pay_within_s = 50 WHERE id = %s", sql_voucher);
    due = find(NULL, "128", 1, 7, 7, 0);
    db_run("UPDATE seckill_voucher SET pay_within_s = 0 WHERE id = %s", sql_voucher); // never
    due = find(NULL, "128", 0, 0, 0, 0);
    ck_assert_int_eq(due.next_ms, 0);
}

TEST(what_is_due_comes_in_parts)
{
    make_orders(1, 10, 1);
    set(1, 10, LONG_AGO);
    struct due due = find(NULL, "4", 4, 1, 4, 4);
    due = find(due.walked_to, "4", 4, 5, 8, 8); // whether or not they were ended meanwhile
    PQclear(ask("3", IDS(5, 6, 7, 8), "expired", "expiry", NULL));
    due = find(due.walked_to, "4", 2, 9, 10, 0);
    due = find(NULL, "4", 4, 1, 4, 4); // the next walk finds what was left
    due = find(due.walked_to, "4", 2, 9, 10, 0);
    due = find(SQL_ID3, "1", 1, 4, 4, 4); // an order beyond the walk may end, too
}

TEST(a_walk_reads_a_bounded_number_of_rows_at_a_time)
{
    make_orders(1, 2 * WALK + 10, 1);
    set(1, 2 * WALK, "status = 'paid'");
    set(2 * WALK + 1, 2 * WALK + 10, LONG_AGO);
    struct due due = find(NULL, "128", 0, 0, 0, WALK);
    ck_assert_int_eq(due_after(), WALK); // none of these becomes unpaid again
    due = find(due.walked_to, "128", 0, 0, 0, 2 * WALK);
    due = find(due.walked_to, "128", 10, 2 * WALK + 1, 2 * WALK + 10, 0);
    ck_assert_int_eq(due_after(), 2 * WALK); // parts without unpaid orders before them move it
    due = find(NULL, "128", 10, 2 * WALK + 1, 2 * WALK + 10, 0);
}

TEST(due_after_moves_where_it_saves_much)
{
    make_orders(1, WAITING + 10, 1);
    set(1, WAITING + 10, LONG_AGO);
    set(1, 100, "status = 'paid'");
    (void)find(NULL, "128", 128, 101, 228, 228); // few rows were read
    ck_assert_int_eq(due_after(), 0);
    set(101, WAITING, "status = 'paid'");
    (void)find(NULL, "5", 5, WAITING + 1, WAITING + 5, WAITING + 5);
    ck_assert_int_eq(due_after(), WAITING + 1); // the first that is unpaid
    (void)find(NULL, "128", 10, WAITING + 1, WAITING + 10, 0);
    ck_assert_int_eq(due_after(), WAITING + 1);
}

// Writing such an order, here from a retried dead letter, moves due_after back.
TEST(an_order_that_is_settled_late_is_found)
{
    char slots[SHORT_SIZE], vouchers[SHORT_SIZE];
    db_run("ALTER TABLE voucher_order ALTER created_at SET DEFAULT now() - interval '1 h'");
    make_orders(11, WALK, 1);
    db_run("UPDATE voucher_order SET status = 'paid'");
    (void)scan(NULL, "128");
    ck_assert_int_eq(due_after(), WALK + 10);
    db_run("UPDATE voucher_stock SET stock = 5, units = units + 5");
    PLACE("3", ORDERS({9, "late"}, {8, "later"}, {90000, "new"}), ENDS({"placed", 0}, {"placed", 0}, {"placed", 0}));
    ck_assert_int_eq(due_after(), 8);
    struct due due = find(NULL, "128", 2, 8, 9, WALK + 8); // in the first part: 2000 rows
    due = find(due.walked_to, "128", 1, 90000, 90000, 0);

    // The same for several batches at once.
    (void)snprintf(slots, sizeof slots, "{%s}", sql_slot);
    (void)snprintf(vouchers, sizeof vouchers, "{%s}", sql_voucher);
    PGresult *result = SQL_RUN(SK_STATEMENT_PLACE_BATCHES, slots, vouchers, "{3}", "{1}", "{" SQL_ID3 "}", "{latest}",
                               "{null}", NULL, NULL, "{1}");
    ck_assert_str_eq(PQgetvalue(result, 0, 1), "placed");
    PQclear(result);
    ck_assert_int_eq(due_after(), 3);
    // A late refusal makes no order that could expire.
    PLACE("3", ORDERS({1, "late"}), ENDS({"duplicate", 9}));
    ck_assert_int_eq(due_after(), 3);
}

static bool somebody_waits(void)
{
    return db_number("SELECT count(*) FROM pg_stat_activity WHERE usename = 'seckill' AND wait_event_type = 'Lock'") ==
           1;
}

// The batch commits when the walk has passed the place of its order: the lock of the table holds the walk where it
// would lock the voucher's row.
TEST(an_order_that_is_settled_during_a_walk_is_not_passed_by)
{
    PGconn *writer = stack_connect_to(0);
    make_orders(11, WALK, 1);
    set(11, WALK + 10, "status = 'paid'");
    db_run("UPDATE voucher_stock SET stock = 5, units = units + 5");
    PQclear(PQexec(writer, "BEGIN"));
    sql_send_batch(writer, "3", 1, ORDERS({9, "late"}));
    sql_must_end(sql_receive(writer), 1, ENDS({"placed", 0}));
    PQclear(PQexec(writer, "LOCK TABLE voucher_stock IN EXCLUSIVE MODE"));
    const char *params[] = {sql_slot, sql_voucher, NULL, "128"};
    ck_assert_int_eq(
        PQsendQueryParams(sql_service, sk_statements[SK_STATEMENT_DUE_ORDERS].text, 4, NULL, params, NULL, NULL, 0), 1);
    WAIT_FOR(somebody_waits());
    PQclear(PQexec(writer, "COMMIT"));
    PQfinish(writer);
    struct due due = read_due(sql_receive(sql_service));
    must_be_due(&due, 0, 0, 0, WALK + 10);
    ck_assert_int_le(due_after(), 9);
    set(9, 9, LONG_AGO);
    due = find(NULL, "128", 1, 9, 9, WALK + 9);
}

// Another transaction has the voucher's row: a walk neither waits for it nor fails, and a later one moves due_after.
TEST(a_walk_does_not_wait_for_a_locked_row)
{
    PGconn *other = stack_connect_to(0);
    make_orders(1, WALK, 1);
    set(1, WALK - 1, "status = 'paid'");
    set(WALK, WALK, LONG_AGO);
    PQclear(PQexec(other, "BEGIN; UPDATE voucher_stock SET stock = stock"));
    (void)find(NULL, "128", 1, WALK, WALK, WALK);
    ck_assert_int_eq(due_after(), 0);
    PQclear(PQexec(other, "COMMIT"));
    PQfinish(other);
    (void)find(NULL, "128", 1, WALK, WALK, WALK);
    ck_assert_int_eq(due_after(), WALK);
}

// Sets the time in their ids.
static void make_ids_of(const char *at)
{
    db_run("UPDATE voucher_order SET id = (left(uuid_at(%s)::text, 13) || right(id::text, 23))::uuid"
           " WHERE voucher_id = %s AND id < '00000001-0000-0000-0000-000000000000'",
           at, sql_voucher);
}

TEST(a_walk_ends_where_orders_are_not_due)
{
    make_orders(1, WAITING + 10, 1);
    make_orders(90000, 1, 1);
    set(1, 1, LONG_AGO);
    set(20, 20, "created_at = now() - interval '5 min'");
    set(90000, 90000, LONG_AGO); // from a clock that is far ahead
    make_ids_of("now()");
    struct due due = find(NULL, "128", 1, 1, 1, 0);
    ck_assert_int_eq(due.next_ms,
                     db_number("SELECT unix_ms(created_at) + 900000 FROM voucher_order WHERE user_id = 'u20'"));
    db_run("UPDATE voucher_order SET status = 'paid' WHERE user_id = 'u1'");
    due = find(NULL, "128", 0, 0, 0, 0);
    ck_assert_int_eq(due_after(), 2);
}

// Orders settled late, such as from dead letters, are due only much later. Due orders after them do not wait for that.
TEST(orders_that_were_settled_late_hide_none)
{
    make_orders(11, WALK + 100, 1);
    make_ids_of("now() - interval '2 h'");
    make_orders(90000, 2, 1);
    set(90000, 90001, LONG_AGO);
    make_ids_of("now() - interval '1 h'");
    make_orders(90002, WAITING + 10, 1);
    make_ids_of("now()");
    struct due due = find(NULL, "128", 0, 0, 0, WALK + 10);
    ck_assert_int_gt(due.next_ms, due.now_ms);
    due = find(due.walked_to, "128", 2, 90000, 90001, 0); // the walk ends there
}

// ---- rows read ----

static int64_t rows_read(PGresult *result)
{
    static const char *const question = "SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables"
                                        " WHERE relname IN ('voucher_order', 'payment', 'order_event')";
    PQclear(result);
    result = PQexec(sql_service, question);
    ck_assert_msg(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQresultErrorMessage(result));
    int64_t rows = atoll(PQgetvalue(result, 0, 0));
    PQclear(result);
    PQclear(PQexec(sql_service, "COMMIT"));
    return rows;
}

// Runs a whole walk. Returns the number of orders read.
static int64_t walk(void)
{
    static const char *const read = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
                                    " WHERE relname = 'voucher_order'";
    char from[SK_UUID_SIZE] = "";
    PQclear(PQexec(sql_service, "BEGIN"));
    PGresult *before = PQexec(sql_service, read);
    do {
        struct due due = scan(from[0] == '\0' ? NULL : from, "128");
        memcpy(from, due.walked_to, sizeof from);
    } while (from[0] != '\0');
    PGresult *after = PQexec(sql_service, read);
    int64_t rows = atoll(PQgetvalue(after, 0, 0)) - atoll(PQgetvalue(before, 0, 0));
    PQclear(before);
    PQclear(after);
    PQclear(PQexec(sql_service, "COMMIT"));
    return rows;
}

// A walk reads newly paid orders twice (again under the lock, to be sure), and later walks not at all.
TEST(a_walk_costs_what_is_new)
{
    enum { PAID = 30000, NEW = 1500, SOME = 600 };
    make_orders(1, PAID, 1);
    set(1, PAID, "status = 'paid'");
    ck_assert_int_le(walk(), 2 * PAID + SOME);
    ck_assert_int_le(walk(), SOME);
    make_orders(PAID + 1, NEW, 1);
    set(PAID + 1, PAID + NEW - 1, "status = 'paid'");
    ck_assert_int_le(walk(), 2 * NEW + SOME); // the last one is unpaid
    ck_assert_int_le(walk(), SOME);
}

// One unpaid order precedes many that were paid in the same minutes: none of these can be due.
TEST(a_walk_ends_behind_ids_that_are_too_new)
{
    enum { PAID = 10000, SOME = 600 };
    make_orders(1, PAID, 1);
    set(2, PAID, "status = 'paid'");
    make_ids_of("now() - interval '5 min'");
    set(1, 1, "created_at = now() - interval '1 min'"); // settled late
    ck_assert_int_le(walk(), SOME);
    struct due due = find(NULL, "128", 0, 0, 0, 0);
    // Orders after them are due when their ids indicate it.
    ck_assert_int_le(llabs(due.next_ms - due.now_ms - 600 * 1000), WAIT_DEADLINE_MS);
}

// Whatever the user has bought before, of this voucher or others: all buyers wait for the row that is locked meanwhile.
TEST(counting_a_users_orders_reads_one_of_them)
{
    enum { MANY = 20000, PLANNED = 10 };
    for (int i = 0; i < PLANNED; i++) {
        make_order_of_alice(1 + i, "unpaid");
        PQclear(ask("3", IDS(1 + i), "cancelled", "user", NULL));
    }
    make_orders(100, MANY, 1);
    set(100, MANY + 99, "user_id = 'alice', status = 'cancelled', ended_nth = 11");
    db_run("UPDATE voucher_order SET voucher_id = 1000000 + (random() * 20)::int, slot = 0"
           " WHERE id > '00000000-0000-7000-8000-000000000400'");
    make_order_of_alice(50, "unpaid");
    PQclear(PQexec(sql_service, "BEGIN"));
    // The statistics may include the earlier calls.
    ck_assert_int_le(rows_read(ask("3", IDS(50), "cancelled", "user", NULL)), 10 * (PLANNED + 1));
}

// Plans live as long as a session, so those made for small tables must also suit large ones.
TEST(nothing_costs_more_with_many_orders)
{
    enum { MANY = 100000, PLANNED = 10 };
    int ids[IDS_MOST];
    make_orders(1, 4, 1);
    for (int i = 0; i < PLANNED; i++) {
        PQclear(ask("3", IDS(1, 2), i % 2 == 0 ? "cancelled" : "expired", "user", NULL));
        PQclear(ask("3", IDS(3), "refunded", "olga", NULL));
        (void)scan(NULL, "128");
    }
    make_orders(11, MANY, 1);
    set(11, MANY + 10, "status = 'paid'");
    db_run("INSERT INTO payment (reference, slot, voucher_id, order_id, amount_cents, currency, state, by_whom)"
           " SELECT 'many-' || id, slot, voucher_id, id, 100, 'CNY', 'accepted', 'till' FROM voucher_order"
           "  WHERE status = 'paid' ORDER BY id LIMIT 20000");
    for (int i = 0; i < IDS_MOST; i++)
        ids[i] = 1000 + 7 * i;
    PQclear(PQexec(sql_service, "BEGIN"));
    ck_assert_int_le(rows_read(ask("3", IDS_MOST, ids, "refunded", "olga", NULL)), 10 * IDS_MOST);
    ck_assert_int_eq(db_number("SELECT count(*) FROM payment WHERE state = 'refunded'"), IDS_MOST);
    PQclear(PQexec(sql_service, "BEGIN"));
    ck_assert_int_le(rows_read(ask("3", IDS_MOST, ids, "cancelled", "user", NULL)), 10 * IDS_MOST);
    PQclear(PQexec(sql_service, "BEGIN"));
    const char *params[] = {sql_slot, sql_voucher, NULL, "128"};
    ck_assert_int_le(rows_read(sql_run(SK_STATEMENT_DUE_ORDERS, 4, params)), 3 * WALK);
}

// ---- concurrency ----

enum { WRITERS = 4, ROUNDS = 250, USERS = 40, ASK_SIZE = 8192 };

static unsigned dice = 1;

static int roll(int sides)
{
    dice = dice * 1103515245U + 12345U;
    return (int)(dice >> 16) % sides;
}

struct writer {
    PGconn *conn;
    int left; // calls left to make
};

static void send_call(PGconn *conn, enum sk_statement statement, int n, const char *const *params)
{
    int sent = PQsendQueryParams(conn, sk_statements[statement].text, n, NULL, params, NULL, NULL, 0);
    ck_assert_msg(sent == 1, "%s", PQerrorMessage(conn));
}

// Buys up to four orders of one to three units, some with a key.
static void send_purchase(PGconn *conn, int *last_id)
{
    struct sk_buf ids = {0}, users = {0}, quantities = {0}, keys = {0};
    for (int i = 0, n = 1 + roll(4); i < n; i++) {
        char id[SK_UUID_SIZE];
        const char *before = i == 0 ? "{" : ",";
        int user = roll(USERS);
        sql_put_id(id, ++*last_id);
        sk_buf_printf(&ids, "%s%s", before, id);
        sk_buf_printf(&users, "%suser-%d", before, user);
        sk_buf_printf(&quantities, "%s%d", before, 1 + roll(3));
        sk_buf_printf(&keys, roll(2) == 0 ? "%snull" : "%skey%d", before, roll(3));
    }
    sk_buf_puts(&ids, "}");
    sk_buf_puts(&users, "}");
    sk_buf_puts(&quantities, "}");
    sk_buf_puts(&keys, "}");
    const char *params[] = {sql_slot, sql_voucher, "3", ids.data, users.data, NULL, quantities.data, keys.data, "1"};
    send_call(conn, SK_STATEMENT_PLACE_ORDERS, 9, params);
    sk_buf_free(&ids);
    sk_buf_free(&users);
    sk_buf_free(&quantities);
    sk_buf_free(&keys);
}

// One of the last 60 orders.
static int recent(int last_id)
{
    return last_id - roll(60) % last_id;
}

static void send_payment(PGconn *conn, int last_id)
{
    char id[SK_UUID_SIZE], reference[SHORT_SIZE], cents[SHORT_SIZE];
    int order = recent(last_id);
    sql_put_id(id, order);
    (void)snprintf(reference, sizeof reference, "ref-%d-%d", order, roll(2));
    (void)snprintf(cents, sizeof cents, "%d", 100 * (1 + roll(3)));
    const char *params[] = {sql_slot, id, reference, cents, "CNY", "till"};
    send_call(conn, SK_STATEMENT_PAY_ORDER, 6, params);
}

static void send_return(PGconn *conn, int last_id)
{
    char ids[IDS_SIZE];
    int which[8], n = 1 + roll((int)COUNT(which));
    for (int i = 0; i < n; i++)
        which[i] = recent(last_id);
    put_ids(ids, (size_t)n, which);
    const char *params[] = {sql_slot, sql_voucher, "3", ids, moves[roll((int)COUNT(moves))][0], "olga", NULL, "7-1"};
    send_call(conn, SK_STATEMENT_RETURN_ORDERS, 8, params);
}

static void send_any(PGconn *conn, int *last_id)
{
    int what = roll(10);
    if (what < 4 || *last_id == 0)
        send_purchase(conn, last_id);
    else if (what < 7)
        send_payment(conn, *last_id);
    else
        send_return(conn, *last_id);
}

// Each connection has one call in progress, until all calls are made.
static void run_writers(struct writer writers[WRITERS])
{
    int last_id = 0, busy = WRITERS;
    for (int w = 0; w < WRITERS; w++)
        send_any(writers[w].conn, &last_id);
    while (busy > 0) {
        struct pollfd waits[WRITERS];
        for (int w = 0; w < WRITERS; w++)
            waits[w] = (struct pollfd){.fd = writers[w].left > 0 ? PQsocket(writers[w].conn) : -1, .events = POLLIN};
        ck_assert_int_gt(poll(waits, WRITERS, WAIT_DEADLINE_MS), 0);
        for (int w = 0; w < WRITERS; w++) {
            if (waits[w].revents == 0)
                continue;
            ck_assert_int_eq(PQconsumeInput(writers[w].conn), 1);
            if (PQisBusy(writers[w].conn))
                continue;
            PQclear(sql_receive(writers[w].conn)); // no error, no deadlock
            if (--writers[w].left > 0)
                send_any(writers[w].conn, &last_id);
            else
                busy--;
        }
    }
}

// The number of orders that do not match their events and payments.
static int64_t orders_that_differ(void)
{
    return db_number(
        "SELECT count(*) FROM voucher_order o CROSS JOIN LATERAL"
        " (SELECT count(*) FILTER (WHERE e.status = 'paid') AS paid,"
        "         count(*) FILTER (WHERE e.status IN ('cancelled', 'expired', 'refunded') AND e.by_whom = 'olga') AS "
        "ends"
        "    FROM order_event e WHERE e.order_id = o.id AND e.type = 'moved') e CROSS JOIN LATERAL"
        " (SELECT count(*) FILTER (WHERE p.state = 'accepted') AS accepted,"
        "         count(*) FILTER (WHERE p.state = 'refunded') AS refunded FROM payment p WHERE p.order_id = o.id) p"
        " WHERE e.paid <> (o.status IN ('paid', 'refunded'))::int"
        "    OR e.ends <> (o.status IN ('cancelled', 'expired', 'refunded'))::int"
        "    OR p.accepted <> (o.status = 'paid')::int OR p.refunded <> (o.status = 'refunded')::int");
}

// The number of users whose ended orders are not numbered from 1 on, each once.
static int64_t counts_that_differ(void)
{
    return db_number("SELECT count(*) FROM (SELECT count(*) AS orders, min(ended_nth) AS least, max(ended_nth) AS most,"
                     " count(DISTINCT ended_nth) AS numbers, count(*) FILTER (WHERE ended_nth IS NULL) AS missing"
                     " FROM voucher_order WHERE status IN ('cancelled', 'expired', 'refunded') GROUP BY user_id) own"
                     " WHERE least <> 1 OR most <> orders OR numbers <> orders OR missing > 0") +
           db_number("SELECT count(*) FROM voucher_order WHERE ended_nth IS NOT NULL"
                     " AND status NOT IN ('cancelled', 'expired', 'refunded')");
}

TEST(purchases_payments_and_returns_at_random_keep_the_books)
{
    static const char *const seen[] = {"unpaid", "paid", "cancelled", "expired", "refused", "refunded"};
    struct writer writers[WRITERS];
    db_run("ALTER TABLE voucher_order ALTER created_at"
           " SET DEFAULT now() - (random() < 0.5)::integer * interval '1 h'"); // half of them are due at once
    db_run("UPDATE voucher_stock SET units = 100, stock = 100 WHERE voucher_id = %s", sql_voucher);
    for (int w = 0; w < WRITERS; w++)
        writers[w] = (struct writer){sql_connect(), ROUNDS};
    run_writers(writers);
    for (int w = 0; w < WRITERS; w++)
        PQfinish(writers[w].conn);
    must_balance(sql_stock());
    ck_assert_int_eq(db_number("SELECT units FROM voucher_stock WHERE voucher_id = %s", sql_voucher), 100);
    ck_assert_int_eq(orders_that_differ(), 0);
    ck_assert_int_eq(counts_that_differ(), 0);
    for (size_t i = 0; i < COUNT(seen); i++) // else it tested nothing
        ck_assert_msg(db_number("SELECT count(*) FROM voucher_order WHERE status = '%s'", seen[i]) > 0, "none is %s",
                      seen[i]);
    ck_assert_int_gt(db_number("SELECT count(*) FROM voucher_order WHERE reason = 'KEPT'"), 0);
}

SUITE(.timeout_s = 60, .begin = sql_start, .setup = setup, .teardown = teardown, .in_one_process = true);
