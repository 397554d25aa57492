// Changes of the catalogue: change numbers commit in order, so a reader that continues after the newest number it has
// seen misses nothing. A control test shows that without the row lock a change is missed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { NEWEST_CHANGE, NEWEST_VOUCHER, CHANGE, VOUCHER, STATE, BEGIN_MS, END_MS, TAG, SLOT };
enum { CREATORS = 4, EACH = 25, ALL = CREATORS * EACH, PAGE = 3, SEEN_MAX = 1 << 16 };

// The reader's state.
static int64_t after, newest_change, newest_voucher;
static int seen[SEEN_MAX]; // how often each voucher was seen

static void forget(void)
{
    after = db_number("SELECT change FROM seckill_catalogue");
    memset(seen, 0, sizeof seen);
}

// Reads once; returns the number of rows about vouchers.
static int read_changes(int64_t most)
{
    char from[24], limit[24];
    (void)snprintf(from, sizeof from, "%lld", (long long)after);
    (void)snprintf(limit, sizeof limit, "%lld", (long long)most);
    PGresult *found = SQL_RUN(SK_STATEMENT_CATALOGUE_CHANGES, from, limit, "0");
    int rows = PQntuples(found), told = 0;
    ck_assert_int_ge(rows, 1);
    newest_change = strtoll(PQgetvalue(found, 0, NEWEST_CHANGE), NULL, 10);
    newest_voucher = strtoll(PQgetvalue(found, 0, NEWEST_VOUCHER), NULL, 10);
    for (int row = 0; row < rows && !PQgetisnull(found, row, VOUCHER); row++, told++) {
        int64_t change = strtoll(PQgetvalue(found, row, CHANGE), NULL, 10);
        int64_t voucher = strtoll(PQgetvalue(found, row, VOUCHER), NULL, 10);
        ck_assert_int_gt(change, after); // each number once, in order, with one voucher
        ck_assert_int_lt(voucher, SEEN_MAX);
        seen[voucher]++;
        after = change;
    }
    PQclear(found);
    return told;
}

static int64_t first_id(void)
{
    return db_number("SELECT min(id) FROM seckill_voucher");
}

static void must_have_seen_all(void)
{
    int64_t first = first_id(), count = db_number("SELECT count(*) FROM seckill_voucher");
    for (int64_t id = first; id < first + count; id++)
        ck_assert_msg(seen[id] == 1, "voucher %lld was seen %d times", (long long)id, seen[id]);
}

TEST(nothing_changed_is_one_row)
{
    sql_make_voucher(10);
    forget();
    PGresult *found = SQL_RUN(SK_STATEMENT_CATALOGUE_CHANGES, "0", "10", "0");
    ck_assert_int_eq(PQntuples(found), 1);
    ck_assert_str_eq(PQgetvalue(found, 0, VOUCHER), sql_voucher);
    ck_assert_str_eq(PQgetvalue(found, 0, STATE), "open");
    ck_assert_str_eq(PQgetvalue(found, 0, TAG), sql_voucher);
    ck_assert_str_eq(PQgetvalue(found, 0, SLOT), sql_slot);
    ck_assert_int_eq(strtoll(PQgetvalue(found, 0, END_MS), NULL, 10) -
                         strtoll(PQgetvalue(found, 0, BEGIN_MS), NULL, 10),
                     2 * 3600 * 1000);
    PQclear(found);
    ck_assert_int_eq(read_changes(10), 0);
    ck_assert_int_eq(newest_voucher, strtoll(sql_voucher, NULL, 10));
    db_run("TRUNCATE seckill_voucher, voucher_stock");
    ck_assert_int_eq(read_changes(10), 0);
    ck_assert_int_eq(newest_voucher, 0);
}

TEST(orders_change_nothing_and_admins_do)
{
    sql_make_voucher(10);
    forget();
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    PQclear(SQL_RUN(SK_STATEMENT_REBUILD_EPOCH, sql_slot, sql_voucher, "3", "200"));
    ck_assert_int_eq(read_changes(10), 0);
    db_run("UPDATE seckill_voucher SET state = 'paused' WHERE id = %s", sql_voucher);
    ck_assert_int_eq(read_changes(10), 1);
    ck_assert_int_eq(read_changes(10), 0);
}

// Each with its document, in the order of their changes; no row where nothing has changed.
TEST(documents_follow_in_the_order_of_changes)
{
    char first[24], second[24], from[24], document[1024];
    sql_make_voucher(10);
    forget();
    (void)snprintf(first, sizeof first, "%s", sql_voucher);
    sql_make_voucher(10);
    (void)snprintf(second, sizeof second, "%s", sql_voucher);
    (void)snprintf(from, sizeof from, "%lld", (long long)after);
    db_run("UPDATE seckill_voucher SET title = 'later' WHERE id = %s", first);
    PGresult *found = SQL_RUN(SK_STATEMENT_CATALOGUE_DOCUMENTS, from, "10", from);
    ck_assert_int_eq(PQntuples(found), 2);
    ck_assert_str_eq(PQgetvalue(found, 0, 1), second);
    ck_assert_str_eq(PQgetvalue(found, 1, 1), first);
    db_text(document, sizeof document, "SELECT document FROM find_voucher(%s)", first);
    ck_assert_str_eq(PQgetvalue(found, 1, 2), document);
    ck_assert_ptr_nonnull(strstr(document, "\"title\":\"later\""));
    (void)snprintf(from, sizeof from, "%s", PQgetvalue(found, 1, 0));
    PQclear(found);
    found = SQL_RUN(SK_STATEMENT_CATALOGUE_DOCUMENTS, from, "10", from);
    ck_assert_int_eq(PQntuples(found), 0);
    PQclear(found);
}

// ---- concurrency ----

// Creates a voucher and delays its commit.
static void send_creation(PGconn *conn)
{
    int sent = PQsendQuery(conn, "BEGIN; SELECT FROM create_voucher(gen_random_uuid()::text, 'T', 1, 1, 1000, 2000);"
                                 " SELECT pg_sleep(random() * 0.01); COMMIT");
    ck_assert_msg(sent == 1, "%s", PQerrorMessage(conn));
}

static bool finished(PGconn *conn)
{
    PGresult *result;
    ck_assert_int_eq(PQconsumeInput(conn), 1);
    if (PQisBusy(conn))
        return false;
    while ((result = PQgetResult(conn)) != NULL) {
        ck_assert_msg(PQresultStatus(result) != PGRES_FATAL_ERROR, "%s", PQerrorMessage(conn));
        PQclear(result);
        if (PQisBusy(conn))
            return false;
    }
    return true;
}

TEST(no_change_of_several_creators_is_missed)
{
    PGconn *creators[CREATORS];
    int sent[CREATORS] = {0}, working = CREATORS;
    forget();
    for (int i = 0; i < CREATORS; i++) {
        creators[i] = sql_connect();
        send_creation(creators[i]);
        sent[i]++;
    }
    while (working > 0) {
        (void)read_changes(PAGE);
        while (read_changes(PAGE) == PAGE)
            ;
        ck_assert_int_eq(after, newest_change);
        for (int64_t id = newest_voucher, first = first_id(); first > 0 && id >= first; id--)
            ck_assert_msg(seen[id] == 1, "%lld is missing up to %lld", (long long)id, (long long)newest_voucher);
        for (int i = 0; i < CREATORS; i++) {
            if (sent[i] > EACH || !finished(creators[i]))
                continue;
            if (sent[i]++ < EACH)
                send_creation(creators[i]);
            else
                working--;
        }
    }
    while (read_changes(PAGE) > 0)
        ;
    for (int i = 0; i < CREATORS; i++)
        PQfinish(creators[i]);
    ck_assert_int_eq(db_number("SELECT count(*) FROM seckill_voucher"), ALL);
    must_have_seen_all();
}

#define INSERT_ONE                                                                     \
    "WITH made AS (INSERT INTO seckill_voucher (title, price_cents, begin_at, end_at)" \
    " VALUES ('T', 1, now(), now() + interval '1 h') RETURNING id)"                    \
    " INSERT INTO voucher_stock (voucher_id, tag, slot, units, stock)"                 \
    " SELECT id, id::text, slot_of(id::text), 1, 1 FROM made"

// One transaction takes its number and commits late; another takes the next one; a reader reads in between.
static void overtake(bool must_wait)
{
    PGconn *late = db_connect(), *early = db_connect(); // directly; the service writes by functions
    forget();
    PQclear(PQexec(late, "BEGIN"));
    PGresult *result = PQexec(late, INSERT_ONE);
    ck_assert_msg(PQresultStatus(result) == PGRES_COMMAND_OK, "%s", PQerrorMessage(late));
    PQclear(result);
    ck_assert_int_eq(PQsendQuery(early, INSERT_ONE), 1);
    if (must_wait)
        WAIT_FOR(db_number("SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event_type = 'Lock'",
                           PQbackendPID(early)) == 1);
    else
        WAIT_FOR(finished(early));
    (void)read_changes(PAGE);
    PQclear(PQexec(late, "COMMIT"));
    WAIT_FOR(finished(early));
    while (read_changes(PAGE) > 0)
        ;
    PQfinish(late);
    PQfinish(early);
}

TEST(a_later_change_waits_for_an_earlier_one)
{
    overtake(true);
    must_have_seen_all();
}

// The negative control: numbers from a sequence, for which no transaction waits.
TEST(without_the_row_lock_one_is_missed)
{
    PGconn *conn = db_connect();
    char kept[2048];
    db_text(kept, sizeof kept, "SELECT pg_get_functiondef('number_voucher_change'::regproc)");
    db_run("CREATE SEQUENCE loose START 1000000; GRANT USAGE ON loose TO seckill_service");
    db_run("CREATE OR REPLACE FUNCTION number_voucher_change() RETURNS trigger LANGUAGE plpgsql AS"
           " $$ BEGIN NEW.change = nextval('loose'); RETURN NEW; END $$");
    overtake(false);
    PQclear(PQexec(conn, kept));
    db_run("DROP SEQUENCE loose");
    PQfinish(conn);
    int64_t first = first_id();
    ck_assert_int_eq(seen[first], 0);
    ck_assert_int_eq(seen[first + 1], 1);
}

// ---- notifications ----

static bool notified(PGconn *conn)
{
    ck_assert_int_eq(PQconsumeInput(conn), 1);
    PGnotify *note = PQnotifies(conn);
    bool one = note != NULL;
    if (one)
        ck_assert_str_eq(note->relname, "seckill_catalogue");
    PQfreemem(note);
    return one;
}

TEST(a_change_is_told_and_an_order_is_not)
{
    PGconn *listener = sql_connect();
    PQclear(PQexec(listener, "LISTEN seckill_catalogue"));
    sql_make_voucher(10);
    WAIT_FOR(notified(listener));
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    PQclear(PQexec(listener, "SELECT 1")); // earlier notifications arrive with its answer
    ck_assert(!notified(listener));
    db_run("UPDATE seckill_voucher SET state = 'closed' WHERE id = %s", sql_voucher);
    WAIT_FOR(notified(listener));
    PQfinish(listener);
}

SUITE(.begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
