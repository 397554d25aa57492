// Pages: no row is missed and none comes twice, while rows are added, removed and changed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

enum { ROWS_MAX = 4096, KEY_SIZE = 64, NAME_SIZE = 24 };

#define NEWEST "ffffffff-ffff-ffff-ffff-ffffffffffff"

// The keys that a reader has read, in order.
static struct {
    char keys[ROWS_MAX][KEY_SIZE];
    int count;
} seen;

static void see(const char *key)
{
    ck_assert_int_lt(seen.count, ROWS_MAX);
    (void)snprintf(seen.keys[seen.count++], KEY_SIZE, "%s", key);
}

// Reads a page of `limit` rows as the service does: one extra row shows whether there is another page.
static bool see_page(PGresult *page, int limit, int column)
{
    int rows = PQntuples(page);
    ck_assert_int_le(rows, limit + 1);
    for (int i = 0; i < rows && i < limit; i++)
        see(PQgetvalue(page, i, column));
    PQclear(page);
    return rows > limit;
}

static const char *last_seen(void)
{
    return seen.count == 0 ? NULL : seen.keys[seen.count - 1];
}

// The rows read must equal this statement's, in the same order.
static void must_have_seen(const char *sql)
{
    PGconn *conn = db_connect();
    PGresult *all = PQexec(conn, sql);
    ck_assert_msg(PQresultStatus(all) == PGRES_TUPLES_OK, "%s", PQerrorMessage(conn));
    for (int i = 0; i < PQntuples(all) && i < seen.count; i++)
        ck_assert_msg(strcmp(PQgetvalue(all, i, 0), seen.keys[i]) == 0, "row %d is %s, should be %s", i, seen.keys[i],
                      PQgetvalue(all, i, 0));
    ck_assert_int_eq(seen.count, PQntuples(all));
    PQclear(all);
    PQfinish(conn);
}

static void setup(void)
{
    sql_setup();
    seen.count = 0;
}

// ---- orders of a user ----

// Orders n of `user`, each of another voucher, in all statuses.
static void make_orders(const char *user, int first, int last)
{
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id, status, reason)"
           " SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 1, '%s', n, status::order_status,"
           "        CASE WHEN status IN ('refused', 'refunded') THEN 'why' END"
           "   FROM generate_series(%d, %d) n,"
           "        LATERAL (SELECT (ARRAY['unpaid','paid','cancelled','expired','refused','refunded'])[n %% 6 + 1]"
           "                 AS status) s",
           user, first, last);
}

static PGresult *page_of_orders(const char *before, const char *most)
{
    return SQL_RUN(SK_STATEMENT_LIST_ORDERS, "alice", before, most, "{}", "{}");
}

// Between two pages newer orders arrive, some from a transaction that was open all along, and orders change their
// status, which moves them from one index to the other.
TEST(a_users_pages_are_stable_while_orders_come_and_move)
{
    enum { ORDERS_MADE = 1000, LIMIT = 100 };
    bool more = true;
    make_orders("alice", 1, ORDERS_MADE);
    make_orders("bob", 100001, 100100);
    PGconn *slow = db_connect();
    PQclear(PQexec(slow, "BEGIN"));
    PQclear(PQexec(slow, "INSERT INTO voucher_order (id, slot, user_id, voucher_id) SELECT"
                         " ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 1, 'alice', n"
                         " FROM generate_series(5000, 5010) n"));
    for (int page = 0; more; page++) {
        more = see_page(page_of_orders(last_seen(), "101"), LIMIT, 0);
        make_orders("alice", 2000 + 100 * page, 2000 + 100 * page + 50);
        db_run("UPDATE voucher_order SET status = CASE status WHEN 'unpaid' THEN 'cancelled'::order_status"
               " ELSE 'unpaid' END WHERE user_id = 'alice' AND status IN ('unpaid', 'cancelled')");
        if (page == 4)
            PQclear(PQexec(slow, "COMMIT"));
        ck_assert_int_eq(seen.count, (page + 1) * LIMIT);
    }
    PQfinish(slow);
    must_have_seen("SELECT id FROM voucher_order WHERE user_id = 'alice' AND voucher_id <= 1000 ORDER BY id DESC");
    seen.count = 0;
    while (see_page(page_of_orders(last_seen(), "8"), 7, 0)) // another page size, with all new rows
        ;
    must_have_seen("SELECT id FROM voucher_order WHERE user_id = 'alice' ORDER BY id DESC");
}

// The rows that a plan's scans of the index have read, over all its lines; the table is never scanned as a whole.
static int rows_read(const char *sql, const char *index)
{
    PGconn *conn = db_connect();
    int rows = 0;
    sql_see_through(conn);
    PQclear(PQexec(conn, "SET plan_cache_mode = force_generic_plan")); // as the service's plans after some calls
    PGresult *prepared = PQexec(conn, sql);
    ck_assert_msg(PQresultStatus(prepared) == PGRES_COMMAND_OK, "%s", PQerrorMessage(conn));
    PQclear(prepared);
    PGresult *plan = PQexec(conn, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE listed");
    ck_assert_msg(PQresultStatus(plan) == PGRES_TUPLES_OK, "%s", PQerrorMessage(conn));
    for (int i = 0; i < PQntuples(plan); i++) {
        const char *line = PQgetvalue(plan, i, 0), *actual = strstr(line, "actual rows=");
        ck_assert_msg(strstr(line, "Seq Scan on") == NULL, "%s", line);
        if (strstr(line, index) != NULL && actual != NULL)
            rows += atoi(actual + strlen("actual rows="));
        if (rows > 0 && strstr(line, "Rows Removed by Filter") != NULL)
            rows += atoi(strstr(line, ": ") + 2);
    }
    PQclear(plan);
    PQfinish(conn);
    return rows;
}

TEST(a_page_of_a_user_with_many_orders_costs_a_page)
{
    enum { MANY = 100000 };
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id, status)"
           " SELECT gen_random_uuid(), 1, 'alice', 1, 'cancelled' FROM generate_series(1, %d)",
           MANY);
    db_run(
        "INSERT INTO voucher_order (id, slot, user_id, voucher_id, status)"
        " SELECT gen_random_uuid(), 2, 'u' || n, 2, CASE n %% 2 WHEN 0 THEN 'unpaid' ELSE 'expired' END::order_status"
        "   FROM generate_series(1, %d) n",
        MANY);
    for (int analyzed = 0; analyzed < 2; analyzed++) {
        ck_assert_int_eq(rows_read("PREPARE listed AS SELECT * FROM list_orders('alice', NULL, 101, '{}', '{}')",
                                   "voucher_order_ended"),
                         101);
        ck_assert_int_eq(rows_read("PREPARE listed AS SELECT * FROM list_orders('alice',"
                                   " '80000000-0000-0000-0000-000000000000', 101, '{}', '{}')",
                                   "voucher_order_ended"),
                         101);
        ck_assert_int_eq(rows_read("PREPARE listed AS SELECT * FROM list_orders('u7', NULL, 101, '{}', '{}')",
                                   "voucher_order_ended"),
                         1);
        ck_assert_int_eq(
            rows_read("PREPARE listed AS SELECT * FROM list_orders('u8', NULL, 101, '{}', '{}')", "voucher_order_live"),
            1);
        db_run("ANALYZE voucher_order");
    }
}

// ---- vouchers ----

TEST(pages_of_vouchers_are_stable_while_vouchers_come)
{
    const char *const states[] = {"open", "paused", "closed", "retired", "listed"};
    char sql[256];
    db_run("INSERT INTO seckill_voucher (title, price_cents, begin_at, end_at, state)"
           " SELECT 'T', 1, now(), now() + interval '1 h', (ARRAY['open', 'paused', 'closed', 'retired'])[n %% 4 + 1]"
           "   FROM generate_series(1, 200) n");
    for (int i = -1; i < 5; i++) { // -1: all states
        char newest[NAME_SIZE];
        db_text(newest, sizeof newest, "SELECT max(id) FROM seckill_voucher");
        seen.count = 0;
        while (see_page(SQL_RUN(SK_STATEMENT_LIST_VOUCHERS, i < 0 ? NULL : states[i], last_seen(), "8"), 7, 0))
            sql_make_voucher(1);
        (void)snprintf(sql, sizeof sql,
                       "SELECT id FROM seckill_voucher WHERE id <= %s AND state SIMILAR TO '%s' ORDER BY id DESC",
                       newest,
                       i < 0    ? "%"
                       : i == 4 ? "open|paused"
                                : states[i]);
        ck_assert_int_ge(seen.count, 50);
        must_have_seen(sql);
    }
}

// ---- orders of a voucher ----

static char filter_status[NAME_SIZE], filter_from[NAME_SIZE], filter_to[NAME_SIZE]; // empty: no filter

static const char *or_null(const char *text)
{
    return text[0] == '\0' ? NULL : text;
}

// Follows all pages of the admin's list; returns their number. A page ends at its limit, or after it has examined a
// fixed number of rows.
static int see_all_orders(int limit)
{
    char before[SK_UUID_SIZE] = "", most[NAME_SIZE];
    int pages = 0;
    (void)snprintf(most, sizeof most, "%d", limit + 1);
    seen.count = 0;
    for (bool more = true; more; pages++) {
        PGresult *page = SQL_RUN(SK_STATEMENT_LIST_ALL_ORDERS, sql_voucher, or_null(filter_status),
                                 or_null(filter_from), or_null(filter_to), or_null(before), most);
        int rows = PQntuples(page), shown = 0;
        while (shown < rows && shown < limit && !PQgetisnull(page, shown, 1))
            see(PQgetvalue(page, shown++, 0));
        more = shown < rows;
        if (more) {
            int last = PQgetisnull(page, shown, 1) ? shown : shown - 1;
            (void)snprintf(before, sizeof before, "%s", PQgetvalue(page, last, 0));
        }
        PQclear(page);
    }
    return pages;
}

// Makes orders whose id and row are from second n of an hour long past.
static void make_timed_orders(int count)
{
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id, status, created_at)"
           " SELECT rpad(lpad(to_hex(1700000000000 + n * 1000), 12, '0'), 32, '0')::uuid, %s, 'u' || n, %s,"
           "        (ARRAY['unpaid', 'expired'])[n %% 2 + 1]::order_status, to_timestamp(1700000000 + n)"
           "   FROM generate_series(1, %d) n",
           sql_slot, sql_voucher, count);
}

static void filter(const char *status, const char *from, const char *to)
{
    (void)snprintf(filter_status, sizeof filter_status, "%s", status);
    (void)snprintf(filter_from, sizeof filter_from, "%s", from);
    (void)snprintf(filter_to, sizeof filter_to, "%s", to);
}

TEST(a_vouchers_orders_are_found_by_status_and_time)
{
    char sql[512];
    static const struct {
        const char *status, *from, *to, *where;
    } rows[] = {
        {"", "", "", "true"},
        {"expired", "", "", "status = 'expired'"},
        {"paid", "", "", "false"},
        {"", "1700000100000", "", "created_at >= to_timestamp(1700000100)"},
        {"", "", "1700000100000", "created_at < to_timestamp(1700000100)"},
        {"unpaid", "1700000100000", "1700000200001",
         "status = 'unpaid' AND created_at BETWEEN to_timestamp(1700000100) AND to_timestamp(1700000200)"},
        {"", "1700000100000", "1700000100000", "false"},
        {"", "1800000000000", "", "false"},
        {"", "", "0", "false"},
        {"", "0", "253402300799999", "true"},
    };
    sql_make_voucher(10);
    make_timed_orders(500);
    // Ids by another clock, and rows inserted late: within an hour.
    db_run("UPDATE voucher_order SET created_at = created_at + interval '59 min' WHERE user_id = 'u7'");
    db_run("UPDATE voucher_order SET created_at = created_at - interval '59 min' WHERE user_id = 'u300'");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        filter(rows[i].status, rows[i].from, rows[i].to);
        (void)see_all_orders(30);
        (void)snprintf(sql, sizeof sql, "SELECT id FROM voucher_order WHERE %s ORDER BY id DESC", rows[i].where);
        must_have_seen(sql);
    }
}

TEST(a_page_of_a_vouchers_orders_scans_so_many_rows)
{
    enum { SCANNED = 10000 };
    filter("paid", "", "");
    sql_make_voucher(10);
    ck_assert_int_eq(see_all_orders(100), 1);
    make_timed_orders(2 * SCANNED + 1);
    ck_assert_int_eq(see_all_orders(100), 3); // all pages are empty
    ck_assert_int_eq(seen.count, 0);
    db_run("UPDATE voucher_order SET status = 'paid' WHERE user_id IN ('u1', 'u2', 'u%d', 'u%d')", SCANNED + 1,
           SCANNED + 2);
    ck_assert_int_eq(see_all_orders(100), 3);
    must_have_seen("SELECT id FROM voucher_order WHERE status = 'paid' ORDER BY id DESC");
    ck_assert_int_eq(see_all_orders(1), 4); // one on each side of the bounds of examined rows
    must_have_seen("SELECT id FROM voucher_order WHERE status = 'paid' ORDER BY id DESC");
}

// ---- letters ----

TEST(pages_of_letters_are_stable_while_letters_come_and_end)
{
    enum { LETTERS = 300, LIMIT = 20 };
    char newest[NAME_SIZE], sql[256];
    sql_make_voucher(10);
    db_run("INSERT INTO dead_letter (slot, voucher_id, journal_id, raw, reason)"
           " SELECT %s, %s, n || '-1', '', 'why' FROM generate_series(1, %d) n",
           sql_slot, sql_voucher, LETTERS);
    db_text(newest, sizeof newest, "SELECT max(id) FROM dead_letter");
    for (bool more = true; more;) {
        const char *after = last_seen() == NULL ? "0" : last_seen();
        more = see_page(SQL_RUN(SK_STATEMENT_LIST_DEAD_LETTERS, sql_slot, sql_voucher, after, "21"), LIMIT, 0);
        db_run("UPDATE dead_letter SET ended_at = now() WHERE id = %s - 3", last_seen()); // already read
        if (seen.count <= 100)
            db_run("INSERT INTO dead_letter (slot, voucher_id, journal_id, raw, reason)"
                   " VALUES (%s, %s, '1000-%d', '', 'why')",
                   sql_slot, sql_voucher, seen.count);
    }
    (void)snprintf(sql, sizeof sql, "SELECT id FROM dead_letter ORDER BY id");
    must_have_seen(sql);
    ck_assert_int_gt(seen.count, LETTERS);
}

// ---- the feed ----

enum { WRITERS = 4 };

static void run_on(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    ck_assert_msg(PQresultStatus(result) == PGRES_COMMAND_OK, "%s: %s", sql, PQerrorMessage(conn));
    PQclear(result);
}

static void note_move(PGconn *conn, int order)
{
    char sql[256];
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom)"
                   " VALUES (%s, %s, '00000000-0000-7000-8000-%012d', 'paid', 'shop')",
                   sql_slot, sql_voucher, order);
    run_on(conn, sql);
}

// Adds the page's rows; returns their number.
static int see_events(PGresult *page)
{
    int rows = PQntuples(page);
    for (int i = 0; i < rows; i++) {
        char key[KEY_SIZE];
        (void)snprintf(key, sizeof key, "%s-%s", PQgetvalue(page, i, 0), PQgetvalue(page, i, 1));
        see(key);
    }
    PQclear(page);
    return rows;
}

// Reads to the current end of the feed.
static void read_feed(void)
{
    char tx[NAME_SIZE] = "0", seq[NAME_SIZE] = "0";
    do {
        if (last_seen() != NULL)
            ck_assert_int_eq(sscanf(last_seen(), "%20[0-9]-%20[0-9]", tx, seq), 2);
    } while (see_events(SQL_RUN(SK_STATEMENT_ORDER_EVENTS, tx, seq, "3")) > 0);
}

#define FEED "SELECT tx || '-' || seq FROM order_event ORDER BY tx, seq"

// Transactions overlap, commit in another order than they began, and some roll back. The reader reads all the time, and
// gets each event once, in one order.
TEST(the_feed_has_no_gap_and_nothing_twice)
{
    enum { ROUNDS = 60 };
    PGconn *writers[WRITERS];
    bool open[WRITERS] = {0};
    int order = 0;
    unsigned chance = 1;
    sql_make_voucher(10);
    for (int w = 0; w < WRITERS; w++)
        writers[w] = db_connect(); // directly; the service writes by functions
    for (int round = 0; round < ROUNDS * WRITERS; round++) {
        chance = chance * 1103515245 + 12345;
        int w = (int)(chance >> 16) % WRITERS;
        if (!open[w])
            run_on(writers[w], "BEGIN");
        if (!open[w] || (chance >> 20) % 3 == 0) {
            note_move(writers[w], ++order);
            open[w] = true;
        } else {
            run_on(writers[w], (chance >> 24) % 8 == 0 ? "ROLLBACK" : "COMMIT");
            open[w] = false;
        }
        read_feed();
    }
    for (int w = 0; w < WRITERS; w++) {
        if (open[w])
            run_on(writers[w], "COMMIT");
        PQfinish(writers[w]);
    }
    read_feed();
    ck_assert_int_gt(seen.count, ROUNDS / 2);
    must_have_seen(FEED);
}

// Four connections write at full speed while the reader reads.
TEST(the_feed_keeps_up_with_concurrent_writers)
{
    enum { ROUNDS = 100, EVENTS = 3 };
    PGconn *writers[WRITERS];
    char sql[512];
    int left = WRITERS;
    sql_make_voucher(10);
    (void)snprintf(
        sql, sizeof sql,
        "DO $$ BEGIN FOR i IN 1 .. %d LOOP INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom)"
        " SELECT %s, %s, gen_random_uuid(), 'paid', 'shop' FROM generate_series(1, %d);"
        " PERFORM pg_sleep(random() / 500); COMMIT; END LOOP; END $$",
        ROUNDS, sql_slot, sql_voucher, EVENTS);
    for (int w = 0; w < WRITERS; w++) {
        writers[w] = db_connect(); // directly; the service writes by functions
        ck_assert_int_eq(PQsendQuery(writers[w], sql), 1);
    }
    while (left > 0) {
        read_feed();
        left = 0;
        for (int w = 0; w < WRITERS; w++) {
            ck_assert_int_eq(PQconsumeInput(writers[w]), 1);
            left += PQisBusy(writers[w]);
        }
    }
    for (int w = 0; w < WRITERS; w++) {
        PGresult *done = PQgetResult(writers[w]);
        ck_assert_msg(PQresultStatus(done) == PGRES_COMMAND_OK, "%s", PQerrorMessage(writers[w]));
        PQclear(done);
        PQfinish(writers[w]);
    }
    read_feed();
    ck_assert_int_eq(seen.count, WRITERS * ROUNDS * EVENTS);
    must_have_seen(FEED);
}

// The feed waits for a transaction that has written anything, even elsewhere, but not for one that only reads.
TEST(an_open_transaction_holds_the_feed_back)
{
    PGconn *other = db_connect(), *shop = db_connect();
    sql_make_voucher(10);
    run_on(other, "BEGIN");
    PQclear(PQexec(other, "SELECT count(*) FROM voucher_order"));
    note_move(shop, 1);
    read_feed();
    ck_assert_int_eq(seen.count, 1);
    run_on(other, "CREATE TEMP TABLE x ()");
    note_move(shop, 2);
    read_feed();
    ck_assert_int_eq(seen.count, 1);
    run_on(other, "COMMIT");
    read_feed();
    ck_assert_int_eq(seen.count, 2);
    PQfinish(other);
    PQfinish(shop);
    must_have_seen(FEED);
}

// A reader that starts before the end gets nothing twice, either: delayed events come later.
TEST(the_feed_begins_before_its_end)
{
    PGconn *other = db_connect(), *shop = db_connect();
    sql_make_voucher(10);
    for (int order = 1; order <= 4; order++)
        note_move(shop, order);
    run_on(other, "BEGIN");
    note_move(other, 5);
    note_move(shop, 6);
    ck_assert_int_eq(see_events(SQL_RUN(SK_STATEMENT_LATEST_EVENTS, "3", "2")), 2);
    run_on(other, "COMMIT");
    read_feed();
    PQfinish(other);
    PQfinish(shop);
    must_have_seen(
        "SELECT tx || '-' || seq FROM (SELECT * FROM order_event ORDER BY tx, seq OFFSET 1) e ORDER BY tx, seq");
}

TEST(an_event_says_what_became_of_which_order)
{
    const char *id, *voucher, *user, *status, *at, *by, *why, *type, *currency;
    int quantity, total;
    sql_make_voucher(10);
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity) VALUES ('" SQL_ID1
           "', %s, 'alice', %s, 3)",
           sql_slot, sql_voucher);
    db_run("INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why)"
           " VALUES (%s, %s, '" SQL_ID1 "', 'cancelled', 'user', 'too late')",
           sql_slot, sql_voucher);
    PGresult *page = SQL_RUN(SK_STATEMENT_ORDER_EVENTS, "0", "0", "10");
    json_t *json = sql_document(page, 2);
    ck_assert_int_eq(json_unpack(json, "{s:s,s:s,s:s,s:s,s:i,s:i,s:s,s:s,s:s,s:s,s:s!}", "type", &type, "order_id", &id,
                                 "voucher_id", &voucher, "user_id", &user, "quantity", &quantity, "total_cents", &total,
                                 "currency", &currency, "status", &status, "at", &at, "by", &by, "why", &why),
                     0);
    ck_assert_str_eq(type, "moved");
    ck_assert_int_eq(total, 300);
    ck_assert_str_eq(currency, "CNY");
    ck_assert_str_eq(id, SQL_ID1);
    ck_assert_str_eq(voucher, sql_voucher);
    ck_assert_str_eq(user, "alice");
    ck_assert_int_eq(quantity, 3);
    ck_assert_str_eq(status, "cancelled");
    ck_assert_str_eq(by, "user");
    ck_assert_str_eq(why, "too late");
    ck_assert_uint_eq(strlen(at), strlen("2026-11-10T16:00:00.123Z"));
    json_decref(json);
    PQclear(page);
}

static const char *member_of(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));
    return text == NULL ? "" : text;
}

// The feed as "type status payment amount,...", and the events of the order likewise, with types and states only.
static void must_tell(const char *expected)
{
    PGresult *page = SQL_RUN(SK_STATEMENT_ORDER_EVENTS, "0", "0", "100");
    char is[1024] = "", events[1024] = "", listed[1024];
    for (int i = 0; i < PQntuples(page); i++) {
        json_t *row = json_loads(PQgetvalue(page, i, 2), 0, NULL), *payment = json_object_get(row, "payment");
        size_t len = strlen(is), of_events = strlen(events);
        (void)snprintf(is + len, sizeof is - len, "%s%s %s", i == 0 ? "" : ",", member_of(row, "type"),
                       member_of(row, "status"));
        (void)snprintf(events + of_events, sizeof events - of_events, "%s", is + len);
        len = strlen(is);
        if (payment != NULL)
            (void)snprintf(is + len, sizeof is - len, " %s %lld %s", member_of(payment, "reference"),
                           (long long)json_integer_value(json_object_get(payment, "amount_cents")),
                           member_of(payment, "currency"));
        json_decref(row);
    }
    PQclear(page);
    ck_assert_str_eq(is, expected);
    db_text(listed, sizeof listed,
            "SELECT string_agg(concat_ws(' ', e ->> 'type', e ->> 'status'), ',' ORDER BY n) FROM voucher_order o,"
            " json_array_elements(order_details_json(o) -> 'events') WITH ORDINALITY AS l (e, n)");
    ck_assert_str_eq(listed, events);
}

// What happened to the order, and what was noted about money that came later. A consumer must not take one for the
// other.
static const struct told {
    const char *calls[6], *feed, *old; // the same rows as an earlier version wrote them
} told[] = {
    {{"pay_order(%s, '" SQL_ID1 "', 'r-1', 100, 'CNY', 'till')",
      "return_orders(%s, %s, 3, ARRAY['" SQL_ID1 "'::uuid],"
      " 'refunded-kept', 'olga', 'PAYMENT_TO_REFUND', NULL)",
      "pay_order(%s, '" SQL_ID1 "', 'r-2', 7, 'USD', 'till')", "pay_order(%s, '" SQL_ID1 "', 'r-3', 8, 'CNY', 'till')",
      "note_refunds(%s, '" SQL_ID1 "', 'olga', NULL, 'r-3')",
      "note_refunds(%s, '" SQL_ID1 "', 'olga', 'sorry', 'r-2')"},
     "moved paid r-1 100 CNY,moved refunded r-1 100 CNY,payment_to_refund refunded r-2 7 USD,"
     "payment_to_refund refunded r-3 8 CNY,payment_refunded refunded r-3 8 CNY,payment_refunded refunded r-2 7 USD",
     "moved paid r-1 100 CNY,moved refunded r-1 100 CNY,payment_to_refund refunded r-2 7 USD,"
     "payment_to_refund refunded r-3 8 CNY,payment_refunded refunded,payment_refunded refunded"},
    {{"return_orders(%s, %s, 3, ARRAY['" SQL_ID1 "'::uuid], 'expired', 'expiry', NULL, NULL)",
      "pay_order(%s, '" SQL_ID1 "', 'r-1', 100, 'CNY', 'till')",
      "pay_order(%s, '" SQL_ID1 "', 'r-2', 100, 'CNY', 'till')", "note_refunds(%s, '" SQL_ID1 "', 'olga', 'too late')",
      NULL},
     "moved expired,payment_to_refund expired r-1 100 CNY,payment_to_refund expired r-2 100 CNY,"
     "payment_refunded expired r-1 100 CNY,payment_refunded expired r-2 100 CNY",
     "moved expired,payment_to_refund expired r-1 100 CNY,payment_to_refund expired r-2 100 CNY,"
     "payment_refunded expired,payment_refunded expired"},
};

TEST_EACH(a_row_tells_a_move_from_a_payment, sizeof told / sizeof told[0])
{
    const struct told *row = &told[_i];
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    db_run("UPDATE voucher_order SET created_at = '2026-01-01'");
    for (int i = 0; i < 6 && row->calls[i] != NULL; i++) {
        char sql[512];
        (void)snprintf(sql, sizeof sql, row->calls[i], sql_slot, sql_voucher);
        db_run("SELECT %s", sql);
    }
    must_tell(row->feed);
    db_run("UPDATE order_event SET type = NULL, reference = NULL");
    must_tell(row->old);
}

// A return got its transaction's number first, and waited for a second payment to be noted: the feed has the note last.
TEST(what_is_noted_last_does_not_change_the_state)
{
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    db_run("SELECT pay_order(%s, '" SQL_ID1 "', 'r-1', 100, 'CNY', 'till')", sql_slot);
    db_run("SELECT pay_order(%s, '" SQL_ID1 "', 'r-2', 100, 'CNY', 'till')", sql_slot);
    db_run("SELECT return_orders(%s, %s, 3, ARRAY['" SQL_ID1 "'::uuid], 'refunded-kept', 'olga', NULL, NULL)", sql_slot,
           sql_voucher);
    db_run("UPDATE order_event SET tx = (SELECT min(tx::text)::xid8 FROM order_event) WHERE status = 'refunded'");
    PGresult *page = SQL_RUN(SK_STATEMENT_ORDER_EVENTS, "0", "0", "100");
    ck_assert_int_eq(PQntuples(page), 3);
    json_t *last = json_loads(PQgetvalue(page, 2, 2), 0, NULL);
    ck_assert_str_eq(member_of(last, "type"), "payment_to_refund");
    ck_assert_str_eq(member_of(last, "status"), "refunded");
    json_decref(last);
    PQclear(page);
}

// It was never placed, so no row is a move.
TEST(a_refused_order_is_never_moved)
{
    sql_make_voucher(10);
    sql_refuse("{" SQL_ID1 "}", "{alice}", "{SOLD_OUT}", "ended");
    db_run("SELECT pay_order(%s, '" SQL_ID1 "', 'r-1', 100, 'CNY', 'till')", sql_slot);
    must_tell("payment_to_refund refused r-1 100 CNY");
    db_run("UPDATE order_event SET type = NULL, reference = NULL");
    must_tell("payment_to_refund refused r-1 100 CNY");
}

// ---- payments to refund ----

// However many payments there are.
TEST(what_is_to_be_refunded_costs_what_is_to_be_refunded)
{
    enum { MANY = 50000, LATE = 30 };
    db_run("INSERT INTO payment (reference, slot, voucher_id, order_id, amount_cents, currency, state, by_whom)"
           " SELECT 'r-' || n, 1, n %% 3, gen_random_uuid(), 1, 'CNY',"
           "        CASE WHEN n <= %d THEN 'to_refund' WHEN n %% 2 = 0 THEN 'accepted' ELSE 'refunded' END, 'till'"
           "   FROM generate_series(1, %d) n",
           LATE, MANY);
    for (int analyzed = 0; analyzed < 2; analyzed++) {
        ck_assert_int_eq(
            rows_read("PREPARE listed AS SELECT * FROM list_to_refund(NULL, NULL, 101)", "payment_to_refund"), LATE);
        ck_assert_int_eq(rows_read("PREPARE listed AS SELECT * FROM list_to_refund(1, NULL, 101)", "payment_to_refund"),
                         LATE);
        int counted = rows_read("PREPARE listed AS SELECT * FROM count_to_refund(10)", "payment_to_refund");
        ck_assert(counted >= 10 && counted <= LATE);
        db_run("ANALYZE payment");
    }
    while (see_page(SQL_RUN(SK_STATEMENT_LIST_TO_REFUND, NULL, last_seen(), "8"), 7, 0))
        ;
    must_have_seen("SELECT order_id FROM payment WHERE state = 'to_refund' ORDER BY order_id DESC");
    seen.count = 0;
    while (see_page(SQL_RUN(SK_STATEMENT_LIST_TO_REFUND, "1", last_seen(), "8"), 7, 0))
        ;
    must_have_seen("SELECT order_id FROM payment WHERE state = 'to_refund' AND voucher_id = 1 ORDER BY order_id DESC");
    PGresult *count = SQL_RUN(SK_STATEMENT_COUNT_TO_REFUND, "1000");
    ck_assert_int_eq(atoi(PQgetvalue(count, 0, 0)), LATE);
    PQclear(count);
}

// ---- the operators' record ----

TEST(the_operators_record_comes_in_pages)
{
    char tx[NAME_SIZE] = "0", seq[NAME_SIZE] = "0";
    sql_make_voucher(10);
    db_run("TRUNCATE admin_event"); // from making the voucher
    for (int i = 0; i < 25; i++)
        db_run("INSERT INTO admin_event (by_whom, what, voucher_id, change) VALUES ('root', 'paused', %s + %d, %d)",
               sql_voucher, i % 5 == 4, i); // some belong to another voucher
    for (bool more = true; more;) {
        PGresult *page = SQL_RUN(SK_STATEMENT_LIST_ADMIN_EVENTS, sql_voucher, tx, seq, "7");
        int last = PQntuples(page) < 6 ? PQntuples(page) - 1 : 5;
        (void)snprintf(tx, sizeof tx, "%s", PQgetvalue(page, last, 0));
        (void)snprintf(seq, sizeof seq, "%s", PQgetvalue(page, last, 1));
        db_run("INSERT INTO admin_event (by_whom, what, voucher_id) VALUES ('root', 'resumed', %s + 1)", sql_voucher);
        more = see_page(page, 6, 1);
    }
    ck_assert_int_eq(seen.count, 20);
    must_have_seen("SELECT seq FROM admin_event WHERE what = 'paused' AND change % 5 <> 4 ORDER BY tx, seq");
    PGresult *first = SQL_RUN(SK_STATEMENT_LIST_ADMIN_EVENTS, sql_voucher, "0", "0", "1");
    const char *by, *what, *at, *voucher;
    int version;
    json_t *json = sql_document(first, 2), *detail;
    ck_assert_int_eq(json_unpack(json, "{s:s,s:s,s:s,s:s,s:i,s:o!}", "at", &at, "by", &by, "what", &what, "voucher_id",
                                 &voucher, "version", &version, "detail", &detail),
                     0);
    ck_assert_str_eq(by, "root");
    ck_assert_str_eq(what, "paused");
    ck_assert_str_eq(voucher, sql_voucher);
    ck_assert_int_eq(version, 0);
    json_decref(json);
    PQclear(first);
}

SUITE(.timeout_s = 120, .begin = sql_start, .setup = setup, .teardown = sql_teardown, .in_one_process = true);
