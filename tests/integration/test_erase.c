// Erases a user's id: it is gone everywhere, counts and one order per user stay, and open work makes the command
// refuse.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

enum { OUTPUT_SIZE = 1 << 14, URL_SIZE = 256, TEXT_SIZE = 2048 };

static char output[OUTPUT_SIZE];

static int erase_as(const char *login_url, const char *user)
{
    char url[URL_SIZE];
    (void)snprintf(url, sizeof url, "SECKILL_DATABASE_URL=%s", login_url);
    return service_run((const char *const[]){"erase", user, NULL}, ENV(url), output, sizeof output);
}

static void erase(const char *user)
{
    int code = erase_as(stack_keeper_url(), user);
    ck_assert_msg(code == 0, "%s", output);
    ck_assert_ptr_null(strstr(output, user)); // nor in the log
}

// In any column of any table.
static int64_t places_of(const char *user)
{
    return db_number("SELECT (SELECT count(*) FROM voucher_order o WHERE o.user_id = '%s')"
                     " + (SELECT count(*) FROM dead_letter d WHERE d::text ~ '(^|[^a-zA-Z0-9_.-])%s([^a-zA-Z0-9_.-]|$)'"
                     " OR position(convert_to(' %s', 'UTF8') IN d.raw) > 0)"
                     " + (SELECT count(*) FROM admin_event e WHERE e::text ~ '[^a-zA-Z0-9_.-]%s[^a-zA-Z0-9_.-]')"
                     " + (SELECT count(*) FROM order_event e WHERE e::text ~ '[^a-zA-Z0-9_.-]%s[^a-zA-Z0-9_.-]')",
                     user, user, user, user, user);
}

static void retire(void)
{
    db_run("UPDATE seckill_voucher SET state = 'retired' WHERE id = %s", sql_voucher);
}

static void settlement_now(char out[TEXT_SIZE])
{
    db_text(out, TEXT_SIZE, "SELECT (to_jsonb(s) - 'at_ms')::text FROM settlement(%s) s", sql_voucher);
}

TEST(an_id_is_erased_everywhere_and_counts_stay)
{
    char before[TEXT_SIZE], after[TEXT_SIZE];
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}, {2, "al"}, {3, "alice2"}), ENDS({"placed", 0}, {"placed", 0}, {"placed", 0}));
    PLACE("3", ORDERS({4, "alice"}), ENDS({"duplicate", 1})); // refused, and kept
    PQclear(SQL_RUN(SK_STATEMENT_SET_ASIDE, sql_slot, sql_voucher, "10-1", "6:orders,10:x alice 2 k,",
                    SQL_ID1 " alice 2 0123456789abcdef," SQL_ID2 " al", "why", "0"));
    db_run("UPDATE dead_letter SET ended_at = now()");
    retire();
    settlement_now(before);
    erase("alice");
    ck_assert_int_eq(places_of("alice"), 0);
    settlement_now(after);
    ck_assert_str_eq(after, before);
    // One pseudonym everywhere; other users are unchanged.
    ck_assert_int_eq(
        db_number("SELECT count(DISTINCT user_id) FROM voucher_order WHERE user_id ~ '^erased-[0-9a-f]{32}$'"
                  " AND id IN ('" SQL_ID1 "', '00000000-0000-7000-8000-000000000004')"),
        1);
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE user_id IN ('al', 'alice2')"), 2);
    ck_assert_int_eq(db_number("SELECT count(*) FROM dead_letter WHERE orders ~ ('^" SQL_ID1
                               " erased-[0-9a-f]{32} 2," SQL_ID2 " al$') AND raw = '6:orders,10:x ***** 2 k,'"),
                     1);
    ck_assert_int_eq(
        db_number("SELECT count(*) FROM admin_event WHERE what = 'erased' AND by_whom = 'keeper'"
                  " AND voucher_id = %s AND (detail->>'orders')::int = 2 AND (detail->>'letters')::int = 1",
                  sql_voucher),
        1);
    // A second run has nothing to do, says so, and records nothing.
    erase("alice");
    ck_assert_msg(strstr(output, "nothing of this user was found") != NULL && strstr(output, "user erased") == NULL,
                  "%s", output);
    ck_assert_int_eq(db_number("SELECT count(*) FROM admin_event WHERE what = 'erased'"), 1);
}

TEST(orders_of_a_voucher_that_is_not_retired_refuse_it)
{
    static const char *const statuses[] = {"unpaid", "paid", "cancelled"};
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        sql_teardown();
        sql_setup();
        sql_make_voucher(10);
        PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
        retire();
        sql_make_voucher(10);
        PLACE("3", ORDERS({2, "alice"}), ENDS({"placed", 0}));
        db_run("UPDATE voucher_order SET status = '%s' WHERE voucher_id = %s", statuses[i], sql_voucher);
        ck_assert_int_eq(erase_as(stack_keeper_url(), "alice"), 1);
        ck_assert_ptr_nonnull(strstr(output, sql_voucher));
        ck_assert_int_eq(places_of("alice"), 2); // the order of the retired voucher stays, too
    }
    retire();
    erase("alice");
    ck_assert_int_eq(places_of("alice"), 0);
}

// The user's other orders are elsewhere: erasing these alone would look like success.
TEST(a_database_that_is_one_of_several_is_not_taken_for_all)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    retire();
    db_run("UPDATE seckill_shard SET shards = 2");
    ck_assert_int_eq(erase_as(stack_keeper_url(), "alice"), 1);
    ck_assert_ptr_nonnull(strstr(output, "the database is shard 0 of 2, not 0 of 1"));
    ck_assert_int_gt(places_of("alice"), 0);
    db_run("UPDATE seckill_shard SET shards = 1");
    erase("alice");
}

TEST(an_open_letter_refuses_it)
{
    sql_make_voucher(10);
    PQclear(SQL_RUN(SK_STATEMENT_SET_ASIDE, sql_slot, sql_voucher, "10-1", "\\x00", SQL_ID1 " alice", "why", "0"));
    ck_assert_int_eq(erase_as(stack_keeper_url(), "alice"), 1);
    ck_assert_int_eq(db_number("SELECT count(*) FROM dead_letter WHERE orders ~ 'alice'"), 1);
}

// Ids that are parts of other ids or of the surrounding format; a dot is no wildcard.
TEST(only_whole_ids_are_erased)
{
    static const struct {
        const char *user, *raw, *erased;
    } rows[] = {
        {"a", "6:orders,8:x a,y aa,", "6:orders,8:x *,y aa,"},
        {"1", "6:orders,9:1 1 1 1,1 11,", "6:orders,9:1 * * *,1 11,"}, // a quantity may go with it
        {"a.b", "x a.b,y acb", "x ***,y acb"},
        {"b", "a b", "a *"},
        {"b", "b b c", "b * c"},
        {"b", "bb", "bb"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(db_number("SELECT (erase_in_bytes('%s', '%s') = '%s')::int", rows[i].raw, rows[i].user,
                                rows[i].erased) == 1,
                      "%s in %s", rows[i].user, rows[i].raw);
}

TEST(wrong_words_and_rights_are_refused)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    retire();
    ck_assert_int_eq(erase_as(stack_keeper_url(), "not a user"), 1);
    ck_assert_int_eq(erase_as(stack_keeper_url(), ""), 1);
    ck_assert_int_eq(erase_as(stack_keeper_url(), NULL), 2);
    ck_assert_int_eq(erase_as(stack_database_url(), "alice"), 1);
    ck_assert_ptr_nonnull(strstr(output, "permission denied"));
    ck_assert_int_eq(places_of("alice"), 1);
}

SUITE(.timeout_s = 60, .begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
