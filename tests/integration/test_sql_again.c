// Settling again: whatever has happened to an order, repeating the same batch never revives it, and the count of live
// orders stays right under any mix of calls.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

// The answer to its commit was lost, its user cancelled, and it is settled again.
TEST(a_cancelled_order_is_never_revived)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    sql_cancel(1);
    sql_return_unit();
    for (int run = 0; run < 3; run++)
        PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"ended", 0}, {"already_placed", 0}));
    sql_must_be(1, "cancelled", "");
    sql_must_have(1, 9);
    PLACE("3", ORDERS({3, "alice"}), ENDS({"placed", 0})); // she may buy again
    PLACE("3", ORDERS({1, "alice"}), ENDS({"ended", 0}));  // its claim was given up, so no other order is named
    sql_must_have(2, 8);
}

// Another batch is settled in the same call, and takes the last unit.
TEST(an_ended_order_takes_no_unit_from_its_batch)
{
    sql_make_voucher(2);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    sql_cancel(1);
    sql_return_unit();
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"ended", 0}, {"placed", 0}));
    sql_must_have(1, 1);
    PLACE("3", ORDERS({1, "alice"}, {3, "carol"}),
          ENDS({"ended", 0}, {"placed", 0})); // the unit of its batch went to another
    sql_must_have(2, 0);
    sql_must_be(1, "cancelled", "");
}

// Orders also end without their user; only "not live" counts.
TEST(a_refused_order_is_never_revived)
{
    sql_make_voucher(10);
    sql_refuse("{" SQL_ID1 "}", "{alice}", "{EXPIRED}", "ended");
    PLACE("3", ORDERS({1, "alice"}), ENDS({"ended", 0}));
    sql_must_be(1, "refused", "EXPIRED");
    PLACE("3", ORDERS({2, "bob"}), ENDS({"placed", 0}));
    sql_refuse("{" SQL_ID2 "}", "{bob}", "{EXPIRED}", "already_placed");
    sql_cancel(2);
    sql_return_unit();
    sql_refuse("{" SQL_ID2 "}", "{bob}", "{EXPIRED}", "ended"); // it stays unchanged
    sql_must_be(2, "cancelled", "");
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"ended", 0}, {"ended", 0}));
    sql_must_have(0, 10);
}

// The same call refuses it first; the next call reports it as ended.
TEST(a_duplicate_ends_once)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    PLACE("3", ORDERS({2, "alice"}), ENDS({"duplicate", 1}));
    PLACE("3", ORDERS({2, "alice"}, {3, "alice"}), ENDS({"ended", 1}, {"duplicate", 1}));
    sql_must_have(1, 9);
}

// ---- any mix of calls ----

enum { STEPS = 150, USERS = 12, IDS = 60, MIX_UNITS = 6, BATCH_MOST = 5 };

static char mix_users[USERS][8];

// An id always belongs to the same user, as in production.
static struct sql_order any_order(void)
{
    int id = (int)(random() % IDS) + 1;
    return (struct sql_order){id, mix_users[id % USERS]};
}

static void place_some(void)
{
    struct sql_order orders[BATCH_MOST];
    size_t n = 1 + (size_t)random() % BATCH_MOST;
    for (size_t i = 0; i < n; i++)
        orders[i] = any_order();
    sql_send_batch(sql_service, "3", n, orders);
    PQclear(sql_receive(sql_service));
}

static void refuse_one(void)
{
    struct sk_buf ids = {0}, users = {0};
    struct sql_order order = any_order();
    sql_put_arrays(&ids, &users, 1, &order);
    PQclear(
        SQL_RUN(SK_STATEMENT_REFUSE_ORDERS, sql_slot, sql_voucher, ids.data, users.data, "{GRANT_LOST}", "{1}", "{1}"));
    sk_buf_free(&ids);
    sk_buf_free(&users);
}

static void set_one_aside(void)
{
    char letter[SK_UUID_SIZE + 16], id[SK_UUID_SIZE], journal[16];
    struct sql_order order = any_order();
    sql_put_id(id, order.id);
    (void)snprintf(letter, sizeof letter, "%s %s", id, order.user);
    (void)snprintf(journal, sizeof journal, "%d-1", order.id);
    PQclear(SQL_RUN(SK_STATEMENT_SET_ASIDE, sql_slot, sql_voucher, journal, "\\x00", letter, "why", "0"));
}

static void write_one_off(void)
{
    char letter[24];
    db_text(letter, sizeof letter, "SELECT coalesce(max(id), 0) FROM dead_letter WHERE ended_at IS NULL");
    PQclear(SQL_RUN(SK_STATEMENT_WRITE_OFF, sql_slot, sql_voucher, letter));
}

static void cancel_one(void)
{
    int first = any_order().id;
    for (int i = 0; i < IDS; i++) {
        char id[SK_UUID_SIZE];
        int wanted = (first + i) % IDS + 1;
        sql_put_id(id, wanted);
        if (db_number("SELECT count(*) FROM voucher_order WHERE id = '%s' AND status = 'unpaid'", id) == 0)
            continue;
        sql_cancel(wanted);
        sql_return_unit();
        return;
    }
}

static void end_letters(void)
{
    PQclear(sql_run(SK_STATEMENT_END_SETTLED_LETTERS, 0, NULL));
}

TEST(live_orders_are_counted_right_under_any_mix)
{
    static void (*const calls[])(void) = {place_some,    place_some, place_some,    refuse_one, cancel_one,
                                          set_one_aside, cancel_one, write_one_off, end_letters};
    unsigned seed = (unsigned)getpid();
    printf("seed %u\n", seed);
    srandom(seed);
    for (int i = 0; i < USERS; i++)
        (void)snprintf(mix_users[i], sizeof mix_users[i], "u%d", i);
    sql_make_voucher(MIX_UNITS);
    for (int step = 0; step < STEPS; step++) {
        calls[(unsigned)random() % (sizeof calls / sizeof calls[0])]();
        int64_t left = sql_stock();
        sql_must_have(MIX_UNITS - left, left);
    }
    ck_assert_int_gt(db_number("SELECT count(*) FROM voucher_order WHERE status = 'cancelled'"), 0);
    ck_assert_int_gt(db_number("SELECT count(*) FROM voucher_order WHERE reason = 'SOLD_OUT'"), 0);
}

SUITE(.begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
