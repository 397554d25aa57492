// Moves orders of retired vouchers to files. Nothing is lost or duplicated, whenever the command is killed, and the
// settlement totals stay the same.
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc.h"
#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { ORDERS = 11, OUTPUT_SIZE = 1 << 16, URL_SIZE = 256, STEPS_MAX = 400, TEXT_SIZE = 2048 };

static char folder[PROC_PATH_SIZE], output[OUTPUT_SIZE];
static PGconn *keeper; // while it is open and has begun to move, `archive` waits

// ---- a sale that is over ----

// Orders of every status, with events and payments whose texts need quoting.
static void make_sale(void)
{
    sql_make_voucher(100);
    db_run("INSERT INTO voucher_order (id, slot, quantity, user_id, voucher_id, status, reason, request_key)"
           " SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, %s, 1 + n %% 3,"
           " 'u' || n, %s, (ARRAY['paid','cancelled','expired','refused','refunded'])[1 + n %% 5]::order_status,"
           " (ARRAY[NULL,NULL,NULL,'SOLD_OUT','KEPT'])[1 + n %% 5], CASE WHEN n = 3 THEN '0123456789abcdef' END"
           " FROM generate_series(1, %d) AS n",
           sql_slot, sql_voucher, ORDERS);
    db_run("INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why, type, reference)"
           " SELECT slot, voucher_id, id, status, 'o,\"p', E'two\\nlines, \"quoted\"', 'moved', NULL FROM voucher_order"
           " UNION ALL SELECT slot, voucher_id, id, status, 'user', '', NULL, NULL FROM voucher_order"
           " WHERE status = 'refunded'" // from before there were types
           " UNION ALL SELECT slot, voucher_id, id, status, 'user', NULL, 'payment_refunded', 'r,' || user_id"
           " FROM voucher_order WHERE status = 'paid'");
    db_run("INSERT INTO payment (reference, slot, voucher_id, order_id, amount_cents, currency, state, by_whom)"
           " SELECT 'r,' || user_id, slot, voucher_id, id, 100, 'CNY', CASE status WHEN 'paid' THEN 'accepted'"
           " ELSE 'refunded' END, 'till' FROM voucher_order WHERE status IN ('paid', 'refunded')");
    db_run("UPDATE voucher_stock s SET stock = s.units - o.units, live = o.live FROM"
           " (SELECT sum(quantity) FILTER (WHERE status IN ('paid', 'refunded')) AS units,"
           " count(*) FILTER (WHERE status = 'paid') AS live FROM voucher_order) o WHERE s.voucher_id = %s",
           sql_voucher);
    db_run("UPDATE seckill_voucher SET state = 'retired', begin_at = now() - interval '99 days',"
           " end_at = now() - interval '90 days' WHERE id = %s",
           sql_voucher);
}

static void empty_folder(void)
{
    char pattern[PROC_PATH_SIZE + 4];
    glob_t found;
    (void)snprintf(pattern, sizeof pattern, "%s/*", folder);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        ck_assert_int_eq(unlink(found.gl_pathv[i]), 0);
    globfree(&found);
}

static void keep_copies(void)
{
    db_run("DROP TABLE IF EXISTS kept_orders, kept_events, kept_payments;"
           " CREATE TABLE kept_orders AS SELECT id, slot, voucher_id, user_id, quantity, status, reason, created_at,"
           " updated_at, request_key, offer, 100::bigint AS price_cents, 'CNY' AS currency FROM voucher_order;"
           " CREATE TABLE kept_events AS SELECT tx, seq, order_id, voucher_id, at, status, by_whom, why, journal,"
           " coalesce(type, 'payment_refunded') AS type, reference FROM order_event;"
           " CREATE TABLE kept_payments AS SELECT reference, order_id, voucher_id, amount_cents, currency, state,"
           " by_whom, at FROM payment");
}

static void setup(void)
{
    sql_setup();
    (void)snprintf(folder, sizeof folder, "%s/archive", proc_scratch());
    (void)mkdir(folder, 0700);
    empty_folder();
    make_sale();
    keep_copies();
}

static void let_keeper_go(void)
{
    PQfinish(keeper);
    keeper = NULL;
}

static void teardown(void)
{
    let_keeper_go();
    sql_teardown();
}

// ---- running it ----

static int archive_with(const char *const *words, const char *preload, int step)
{
    char url[URL_SIZE], killed[64];
    (void)snprintf(url, sizeof url, "SECKILL_DATABASE_URL=%s", stack_keeper_url());
    (void)snprintf(killed, sizeof killed, "SK_KILLED_AT=%d", step);
    return service_run(words, ENV(url, killed, service_preload_options(), preload), output, sizeof output);
}

#define WORDS(...) ((const char *const[]){"archive", __VA_ARGS__, NULL})

static void archive(void)
{
    int code = archive_with(WORDS(folder, "80", "4"), NULL, 0);
    ck_assert_msg(code == 0, "%s", output);
}

// ---- the content of the files ----

static void load_file(PGconn *conn, const char *path, const char *table)
{
    char sql[TEXT_SIZE], bytes[TEXT_SIZE];
    (void)snprintf(sql, sizeof sql, "COPY %s FROM STDIN WITH (FORMAT csv, HEADER match)", table);
    PQclear(PQexec(conn, sql));
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
        ck_assert_int_eq(PQputCopyData(conn, bytes, (int)n), 1);
    (void)fclose(file);
    ck_assert_int_eq(PQputCopyEnd(conn, NULL), 1);
    PGresult *result = PQgetResult(conn);
    ck_assert_msg(PQresultStatus(result) == PGRES_COMMAND_OK, "%s: %s", path, PQerrorMessage(conn));
    PQclear(result);
    PQclear(PQgetResult(conn));
}

// Loads the files into the tables back_orders, back_events, back_payments. Ignores unfinished files.
static void load_files(void)
{
    static const char *const kinds[] = {"orders", "events", "payments"};
    db_run("DROP TABLE IF EXISTS back_orders, back_events, back_payments;"
           " CREATE TABLE back_orders (LIKE kept_orders); CREATE TABLE back_events (LIKE kept_events);"
           " ALTER TABLE back_events RENAME by_whom TO by; CREATE TABLE back_payments (LIKE kept_payments);"
           " ALTER TABLE back_payments RENAME by_whom TO by");
    PGconn *conn = db_connect();
    for (size_t kind = 0; kind < 3; kind++) {
        char pattern[PROC_PATH_SIZE + 32], table[32];
        glob_t found;
        (void)snprintf(pattern, sizeof pattern, "%s/*-%s.csv", folder, kinds[kind]);
        (void)snprintf(table, sizeof table, "back_%s", kinds[kind]);
        if (glob(pattern, 0, NULL, &found) != 0)
            continue;
        for (size_t i = 0; i < found.gl_pathc; i++)
            load_file(conn, found.gl_pathv[i], table);
        globfree(&found);
    }
    PQfinish(conn);
}

// Each row must be in the files once, unchanged, and no longer in PostgreSQL.
static void all_must_be_moved(void)
{
    static const char *const kinds[] = {"orders", "events", "payments"};
    load_files();
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(
            db_number("SELECT count(*) FROM (TABLE back_%s EXCEPT ALL TABLE kept_%s) x", kinds[i], kinds[i]), 0);
        ck_assert_int_eq(
            db_number("SELECT count(*) FROM (TABLE kept_%s EXCEPT ALL TABLE back_%s) x", kinds[i], kinds[i]), 0);
    }
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order"), 0);
    ck_assert_int_eq(db_number("SELECT count(*) FROM order_event"), 0);
    ck_assert_int_eq(db_number("SELECT count(*) FROM payment"), 0);
    ck_assert_int_eq(db_number("SELECT sum(orders) FROM archived_orders"), ORDERS);
    ck_assert_int_eq(db_number("SELECT sum(orders) FROM archived_part"), ORDERS);
    ck_assert_int_eq(db_number("SELECT (SELECT sum(events) FROM archived_part) - (SELECT count(*) FROM kept_events)"),
                     0);
    ck_assert_int_eq(db_number("SELECT count(*) FROM admin_event WHERE what = 'archived' AND by_whom = 'keeper'"
                               " AND detail->>'orders' = '%d'",
                               ORDERS),
                     1);
}

static void settlement_now(char out[TEXT_SIZE])
{
    db_text(out, TEXT_SIZE, "SELECT (to_jsonb(s) - 'at_ms')::text FROM settlement(%s) s", sql_voucher);
}

// A column added to a table must also be added to its file. Exceptions: the files take the slot from the order and the
// price from the offer; ended_nth counts orders for Redis, which holds nothing of an archived voucher; due_at is of
// orders that may still expire, scope of live ones, heir_of and given_by of returns that may be repeated (the events
// have the promotions).
TEST(files_have_all_columns)
{
    static const char *const tables[][3] = {
        {"voucher_order", "kept_orders", "3"}, {"order_event", "kept_events", "1"}, {"payment", "kept_payments", "1"}};
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(db_number("SELECT (SELECT count(*) FROM pg_attribute WHERE attrelid = '%s'::regclass"
                                   " AND attnum > 0) - (SELECT count(*) FROM pg_attribute"
                                   " WHERE attrelid = '%s'::regclass AND attnum > 0) - %s",
                                   tables[i][0], tables[i][1], tables[i][2]),
                         0);
}

TEST(all_is_moved_and_counted_as_before)
{
    char before[TEXT_SIZE], after[TEXT_SIZE], sha[80], name[PROC_PATH_SIZE + 160];
    settlement_now(before);
    archive();
    all_must_be_moved();
    settlement_now(after);
    ck_assert_str_eq(after, before);
    // The checksums that PostgreSQL keeps must match the files.
    db_text(sha, sizeof sha, "SELECT encode(orders_sha256, 'hex') FROM archived_part WHERE part = 1");
    (void)snprintf(name, sizeof name, "echo '%s  %s/%s-000001-orders.csv' | sha256sum --check --status", sha, folder,
                   sql_voucher);
    // NOLINTNEXTLINE(cert-env33-c): the words are our own
    ck_assert_int_eq(system(name), 0);
    // A second run finds nothing to move, and logs it.
    archive();
    ck_assert_ptr_nonnull(strstr(output, "no voucher is to be archived"));
    all_must_be_moved();
}

TEST(killed_at_each_step_nothing_is_lost_and_nothing_comes_twice)
{
    int step = 1;
    for (;; step++) {
        teardown();
        setup();
        ck_assert_int_lt(step, STEPS_MAX);
        if (archive_with(WORDS(folder, "80", "8"), "LD_PRELOAD=" KILLED_AT, step) == 0)
            break;
        load_files();
        ck_assert_int_eq(db_number("SELECT count(*) FROM (SELECT id FROM kept_orders EXCEPT"
                                   " (SELECT id FROM back_orders UNION SELECT id FROM voucher_order)) lost"),
                         0);
        archive();
        all_must_be_moved();
    }
    all_must_be_moved();
    ck_assert_int_gt(step, 20); // two parts have more steps than that
    (void)printf("%d steps\n", step - 1);
}

// ---- concurrent changes ----

static PGresult *ask(PGconn *conn, const char *format, const char *word, const char *other)
{
    char sql[TEXT_SIZE];
    (void)snprintf(sql, sizeof sql, format, word, other);
    PGresult *result = PQexec(conn, sql);
    ck_assert_msg(PQresultStatus(result) == PGRES_TUPLES_OK, "%s: %s", sql, PQerrorMessage(conn));
    return result;
}

TEST(what_changed_after_it_was_written_is_not_removed)
{
    char digest[80];
    keeper = PQconnectdb(stack_keeper_url());
    PQclear(ask(keeper, "SELECT * FROM archive_next(0, 80)", "", ""));
    PGresult *part = ask(keeper, "SELECT digest FROM archive_part(%s, 4)", sql_voucher, "");
    (void)snprintf(digest, sizeof digest, "%s", PQgetvalue(part, 0, 0));
    PQclear(part);
    db_run("UPDATE voucher_order SET updated_at = now()");
    PGresult *refused = ask(keeper, "SELECT archive_drop(%s, 1, 4, '%s')", sql_voucher, digest);
    ck_assert_str_eq(PQgetvalue(refused, 0, 0), "f");
    PQclear(refused);
    let_keeper_go();
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order"), ORDERS);
    keep_copies();
    archive();
    all_must_be_moved();
}

static bool keeper_waits(void)
{
    return db_number("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%%archive_next%%'"
                     " AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()") == 1;
}

// As if there were a million orders: vouchers may be created and changed during the count.
TEST(the_catalogue_is_not_locked_while_orders_are_counted)
{
    PGconn *other = db_connect();
    keeper = PQconnectdb(stack_keeper_url());
    PQclear(PQexec(other, "BEGIN; LOCK TABLE voucher_order IN ACCESS EXCLUSIVE MODE"));
    ck_assert_int_eq(PQsendQuery(keeper, "SELECT * FROM archive_next(0, 80)"), 1);
    WAIT_FOR(keeper_waits());
    db_run("SELECT FROM seckill_catalogue FOR UPDATE NOWAIT");
    PQclear(PQexec(other, "COMMIT"));
    PQfinish(other);
    PGresult *begun = PQgetResult(keeper);
    ck_assert_str_eq(PQgetvalue(begun, 0, 1), "begun");
    PQclear(begun);
}

// A voucher that is reloaded (recall_voucher) during the count is skipped.
TEST(what_is_recalled_meanwhile_is_not_begun)
{
    PGconn *other = db_connect();
    keeper = PQconnectdb(stack_keeper_url());
    PQclear(PQexec(other, "BEGIN; SELECT FROM seckill_catalogue FOR UPDATE"));
    ck_assert_int_eq(PQsendQuery(keeper, "SELECT * FROM archive_next(0, 80)"), 1);
    WAIT_FOR(keeper_waits());
    PQclear(PQexec(other, "UPDATE seckill_voucher SET state = 'closed'; COMMIT"));
    PQfinish(other);
    PGresult *none = PQgetResult(keeper);
    ck_assert_int_eq(PQresultStatus(none), PGRES_TUPLES_OK);
    ck_assert_int_eq(PQntuples(none), 0);
    PQclear(none);
    ck_assert_int_eq(db_number("SELECT count(*) FROM archived_voucher"), 0);
}

TEST(what_is_not_over_stays)
{
    static const char *const changes[] = {
        "UPDATE seckill_voucher SET state = 'closed'",
        "UPDATE seckill_voucher SET end_at = now() - interval '79 days'",
        "UPDATE payment SET state = 'to_refund' WHERE order_id IN (SELECT id FROM voucher_order WHERE status = "
        "'refunded')",
        "INSERT INTO payment SELECT 'second', slot, voucher_id, id, 100, 'CNY', 'to_refund', 'shop'"
        " FROM voucher_order WHERE status = 'paid' LIMIT 1",
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        teardown();
        setup();
        db_run("%s", changes[i]);
        archive();
        ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order"), ORDERS);
        ck_assert_int_eq(db_number("SELECT count(*) FROM archived_voucher"), 0);
    }
    ck_assert_ptr_nonnull(strstr(output, "money is to be given back"));
}

// A late payment while its voucher was being moved: the order stays until the payment is refunded.
TEST(an_order_that_is_owed_money_stays)
{
    keeper = PQconnectdb(stack_keeper_url());
    PQclear(ask(keeper, "SELECT * FROM archive_next(0, 80)", "", ""));
    let_keeper_go();
    db_run("UPDATE payment SET state = 'to_refund' WHERE order_id = (SELECT id FROM voucher_order"
           " WHERE status = 'refunded' LIMIT 1)");
    keep_copies();
    archive();
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order"), ORDERS);
    db_run("UPDATE payment SET state = 'refunded' WHERE state = 'to_refund'");
    keep_copies();
    archive();
    all_must_be_moved();
}

TEST(an_archived_voucher_is_neither_recalled_nor_written)
{
    char ids[64];
    archive();
    PGresult *end = SQL_RUN(SK_STATEMENT_RECALL_VOUCHER, sql_voucher);
    ck_assert_str_eq(PQgetvalue(end, 0, 0), "archived");
    PQclear(end);
    (void)snprintf(ids, sizeof ids, "{%s}", SQL_ID1);
    sql_refuse(ids, "{u1}", "{GRANT_LOST}", "ended"); // from an instance that was paused all the time
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order"), 0);
}

TEST(an_order_that_may_be_in_a_file_is_told_from_one_that_is_not)
{
    archive();
    static const struct {
        const char *id, *archived;
    } rows[] = {{SQL_ID2, "t"}, {SQL_ID0, "f"}, {"ffffffff-0000-7000-8000-000000000000", "f"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        PGresult *found = SQL_RUN(SK_STATEMENT_RETIRED_EPOCH, sql_slot, rows[i].id);
        ck_assert_str_eq(PQgetvalue(found, 0, 1), rows[i].archived);
        PQclear(found);
    }
    PGresult *late = SQL_RUN(SK_STATEMENT_FIND_RETIRED, sql_voucher, "u5");
    ck_assert_str_eq(PQgetvalue(late, 0, 0), "archived");
    ck_assert_int_eq(PQgetisnull(late, 0, 1), 1);
    PQclear(late);
}

// ---- refusals ----

TEST(wrong_words_and_rights_are_refused)
{
    char nowhere[PROC_PATH_SIZE + 8], url[URL_SIZE];
    (void)snprintf(nowhere, sizeof nowhere, "%s/nowhere", folder);
    ck_assert_int_eq(archive_with(WORDS(nowhere), NULL, 0), 1);
    ck_assert_int_eq(archive_with(WORDS(folder, "x"), NULL, 0), 1);
    ck_assert_int_eq(archive_with(WORDS(folder, "80", "0"), NULL, 0), 1);
    ck_assert_int_eq(archive_with((const char *const[]){"archive", NULL}, NULL, 0), 2);
    ck_assert_int_eq(archive_with(WORDS(folder, "80", "4", "5"), NULL, 0), 2);
    // The service's own login must not be able to.
    (void)snprintf(url, sizeof url, "SECKILL_DATABASE_URL=%s", stack_database_url());
    ck_assert_int_eq(service_run(WORDS(folder, "80"), ENV(url), output, sizeof output), 1);
    ck_assert_ptr_nonnull(strstr(output, "permission denied"));
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order"), ORDERS);
}

SUITE(.timeout_s = 170, .begin = sql_start, .setup = setup, .teardown = teardown, .in_one_process = true);
