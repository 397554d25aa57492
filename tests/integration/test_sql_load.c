// SQL under load and at random: several sessions at full speed, mixes of calls, and what C computes, too. What each
// statement does by itself is in tests/golden/sql.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shards.h"
#include "slot.h"
#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void teardown(void)
{
    db_run("ALTER TABLE voucher_order ALTER created_at SET DEFAULT now()");
    sql_teardown();
}

// ---- what C computes, too ----

TEST(a_slot_is_the_same_in_c)
{
    PGconn *conn = db_connect();
    PGresult *tags = PQexec(conn, "SELECT t, slot_of(t) FROM (SELECT n::text AS t FROM generate_series(1, 300) n"
                                  " UNION ALL SELECT n || '.' || n % 16 || '.' || n * 7 FROM generate_series(1, 300) n"
                                  " UNION ALL SELECT md5(n::text) || '\xc3\xbc' FROM generate_series(1, 300) n) tags");
    ck_assert_int_eq(PQntuples(tags), 900);
    for (int i = 0; i < 900; i++) {
        const char *tag = PQgetvalue(tags, i, 0);
        ck_assert_int_eq(atoi(PQgetvalue(tags, i, 1)), sk_slot(tag, strlen(tag)));
    }
    PQclear(tags);
    PQfinish(conn);
}

// src/store/shards.c is the same.
TEST(each_slot_has_the_shard_that_the_service_asks)
{
    for (int count = 1; count <= SK_SHARDS_MAX; count++) {
        int64_t sum = 0;
        for (unsigned slot = 0; slot < SK_SLOTS; slot++)
            sum += (int64_t)(slot + 1) * sk_shard_of_slot(slot, (size_t)count);
        ck_assert_int_eq(
            db_number("SELECT sum((s + 1)::bigint * shard_of_slot(s, %d)) FROM generate_series(0, 16383) s", count),
            sum);
    }
}

// ---- batches ----

enum { WRITERS = 4, BATCH = 40, ROUNDS = 12, UNITS = 1500 };

TEST(batches_of_several_connections_never_oversell)
{
    static char users[BATCH][16];
    PGconn *writers[WRITERS];
    int placed = 0, sold_out = 0;
    sql_make_voucher(UNITS);
    for (int w = 0; w < WRITERS; w++)
        writers[w] = sql_connect();
    for (int round = 0; round < ROUNDS; round++) {
        for (int w = 0; w < WRITERS; w++) {
            struct sql_order orders[BATCH];
            for (int i = 0; i < BATCH; i++) {
                int number = (round * WRITERS + w) * BATCH + i + 1;
                (void)snprintf(users[i], sizeof users[i], "user-%d", number);
                orders[i] = (struct sql_order){number, users[i]};
            }
            sql_send_batch(writers[w], "3", BATCH, orders);
        }
        for (int w = 0; w < WRITERS; w++) {
            PGresult *result = sql_receive(writers[w]);
            int each = PQgetisnull(result, 0, 0) ? BATCH : 1; // one row may stand for all orders
            for (int row = 0; row < PQntuples(result); row++) {
                placed += each * (strcmp(PQgetvalue(result, row, 1), "placed") == 0);
                sold_out += each * (strcmp(PQgetvalue(result, row, 1), "sold_out") == 0);
            }
            PQclear(result);
        }
    }
    for (int w = 0; w < WRITERS; w++)
        PQfinish(writers[w]);
    ck_assert_int_eq(placed, UNITS);
    ck_assert_int_eq(sold_out, WRITERS * BATCH * ROUNDS - UNITS);
    sql_must_have(UNITS, 0);
}

// ---- any mix of calls ----

enum { STEPS = 150, MIX_USERS = 12, IDS = 60, MIX_UNITS = 6, BATCH_MOST = 5 };

static char mix_users[MIX_USERS][8];

// An id always belongs to the same user, as in production.
static struct sql_order any_order(void)
{
    int id = (int)(random() % IDS) + 1;
    return (struct sql_order){id, mix_users[id % MIX_USERS]};
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
    for (int i = 0; i < MIX_USERS; i++)
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

// ---- purchases, payments and returns ----

enum { CALLS = 250, USERS = 40, SHORT_SIZE = 64, RETURNED_MOST = 8 };

static const char *const moves[] = {"cancelled", "expired", "refunded", "refunded-kept"};

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
    struct sk_buf ids = {0};
    for (int i = 0, n = 1 + roll(RETURNED_MOST); i < n; i++) {
        char id[SK_UUID_SIZE];
        sql_put_id(id, recent(last_id));
        sk_buf_printf(&ids, "%s%s", i == 0 ? "{" : ",", id);
    }
    sk_buf_puts(&ids, "}");
    const char *params[] = {sql_slot, sql_voucher, "3", ids.data, moves[roll((int)COUNT(moves))], "olga", NULL, "7-1"};
    send_call(conn, SK_STATEMENT_RETURN_ORDERS, 8, params);
    sk_buf_free(&ids);
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
    sql_make_voucher(100);
    db_run("ALTER TABLE voucher_order ALTER created_at"
           " SET DEFAULT now() - (random() < 0.5)::integer * interval '1 h'"); // half of them are due at once
    for (int w = 0; w < WRITERS; w++)
        writers[w] = (struct writer){sql_connect(), CALLS};
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

// ---- the feed ----

enum { EVENTS_MAX = 4096, KEY_SIZE = 64, NUMBER_SIZE = 24 };

// What a reader of the feed has read, in order: "tx-seq".
static struct {
    char keys[EVENTS_MAX][KEY_SIZE];
    int count;
} feed;

// Reads to the current end.
static void read_feed(void)
{
    char tx[NUMBER_SIZE] = "0", seq[NUMBER_SIZE] = "0";
    for (int rows = 1; rows > 0;) {
        if (feed.count > 0)
            ck_assert_int_eq(sscanf(feed.keys[feed.count - 1], "%20[0-9]-%20[0-9]", tx, seq), 2);
        PGresult *page = SQL_RUN(SK_STATEMENT_ORDER_EVENTS, tx, seq, "3", NULL);
        rows = PQntuples(page);
        ck_assert_int_le(feed.count + rows, EVENTS_MAX);
        for (int i = 0; i < rows; i++)
            (void)snprintf(feed.keys[feed.count++], KEY_SIZE, "%s-%s", PQgetvalue(page, i, 0), PQgetvalue(page, i, 1));
        PQclear(page);
    }
}

// Four connections write at full speed while the reader reads. Each event comes once, in one order.
TEST(the_feed_keeps_up_with_concurrent_writers)
{
    enum { COMMITS = 100, MOVES = 3, PLACED = 5 };
    PGconn *writers[WRITERS];
    char sql[1024];
    int left = WRITERS;
    sql_make_voucher(10);
    (void)snprintf(
        sql, sizeof sql,
        "DO $$ BEGIN FOR i IN 1 .. %d LOOP INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom)"
        " SELECT %s, %s, gen_random_uuid(), 'paid', 'shop' FROM generate_series(1, %d);"
        " INSERT INTO order_placed (slot, voucher_id, ids)"
        " SELECT %s, %s, ARRAY(SELECT gen_random_uuid() FROM generate_series(1, %d));"
        " PERFORM pg_sleep(random() / 500); COMMIT; END LOOP; END $$",
        COMMITS, sql_slot, sql_voucher, MOVES, sql_slot, sql_voucher, PLACED);
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
    ck_assert_int_eq(feed.count, WRITERS * COMMITS * (MOVES + PLACED));
    PGresult *all = PQexec(sql_service, "SELECT tx || '-' || seq FROM order_events('0', 0, 1000000)");
    ck_assert_int_eq(PQntuples(all), feed.count);
    for (int i = 0; i < feed.count; i++)
        ck_assert_str_eq(PQgetvalue(all, i, 0), feed.keys[i]);
    PQclear(all);
}

// ---- changes of the catalogue ----

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

SUITE(.timeout_s = 60, .begin = sql_start, .setup = sql_setup, .teardown = teardown, .in_one_process = true);
