// Lists over HTTP: each page leads to the next, and requests for invalid pages are rejected.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "books.h"
#include "http.h"
#include "shards.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { STOCK = 100, PATH_SIZE = 512, CURSOR_SIZE = 128, IDS_SIZE = 8192, IDS_MOST = 512 };

#define ADMIN "Authorization: Bearer admin-token-of-the-tests\r\n"
#define ALICE "X-User-Id: alice\r\n"
#define BOB   "X-User-Id: bob\r\n"

static struct service *service;
static struct http_reply reply;

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void start(void)
{
    service = service_start(NULL);
}

static int get(const char *path, const char *headers)
{
    return http_ask(service, "GET", path, headers, NULL, &reply);
}

// Reads one page: appends the member `name` of each row and a blank to `ids`; returns the next page's cursor, or "".
static int read_page(const char *path, const char *headers, const char *list, const char *name, char *ids,
                     char cursor[CURSOR_SIZE])
{
    json_t *row;
    size_t i;
    ck_assert_msg(get(path, headers) == 200, "%s: %d %s", path, reply.status, reply.body);
    json_t *json = json_loads(reply.body, JSON_REJECT_DUPLICATES, NULL), *rows = json_object_get(json, list);
    ck_assert_msg(json_is_array(rows), "%s: %s", path, reply.body);
    json_array_foreach(rows, i, row)
    {
        const char *id = json_string_value(json_object_get(row, name));
        ck_assert_msg(id != NULL, "%s: %s", path, reply.body);
        size_t len = strlen(ids);
        ck_assert_int_lt(snprintf(ids + len, IDS_SIZE - len, "%s ", id), (int)(IDS_SIZE - len));
    }
    const char *next = json_string_value(json_object_get(json, "next"));
    (void)snprintf(cursor, CURSOR_SIZE, "%s", next == NULL ? "" : next);
    int count = (int)json_array_size(rows);
    json_decref(json);
    return count;
}

// The target of the answer's next link; false: it has none.
static bool next_of(char path[PATH_SIZE])
{
    char link[HTTP_FIELD_SIZE];
    if (!http_header(&reply, "Link", link))
        return false;
    char *end = strchr(link, '>');
    ck_assert_msg(link[0] == '<' && end != NULL && strcmp(end, ">; rel=\"next\"") == 0, "%s", link);
    (void)snprintf(path, PATH_SIZE, "%.*s", (int)(end - link - 1), link + 1);
    return true;
}

// Follows a list from link to link; returns the number of pages. `path` must accept another parameter at its end.
static int read_list(const char *path, const char *headers, const char *list, const char *name, int limit,
                     char ids[IDS_SIZE])
{
    char page[PATH_SIZE], cursor[CURSOR_SIZE];
    int pages = 0, count;
    ids[0] = '\0';
    (void)snprintf(page, sizeof page, "%slimit=%d", path, limit);
    do {
        count = read_page(page, headers, list, name, ids, cursor);
        ck_assert_int_le(count, limit);
        ck_assert(count == limit || cursor[0] == '\0');
        pages++;
        ck_assert(next_of(page) == (cursor[0] != '\0'));
        ck_assert_ptr_nonnull(strstr(page, cursor));
    } while (cursor[0] != '\0');
    return pages;
}

// Numbers, or UUIDs; the highest first.
static int compare_ids(const void *one, const void *other)
{
    const char *a = *(const char *const *)one, *b = *(const char *const *)other;
    return strlen(a) == strlen(b) ? strcmp(b, a) : strlen(a) < strlen(b) ? 1 : -1;
}

// The list must match one column of a statement, in order. That is `ORDER BY id DESC` if several shards have rows.
static void must_be_all(const char *ids, const char *sql)
{
    static char expected[IDS_SIZE];
    const char *all[IDS_MOST];
    PGresult *results[SK_SHARDS_MAX];
    size_t count = 0, len = 0;
    int having = 0;
    for (int i = 0; i < stack_shards(); i++) {
        PGconn *conn = stack_connect_to(i);
        results[i] = PQexec(conn, sql);
        ck_assert_msg(PQresultStatus(results[i]) == PGRES_TUPLES_OK, "%s", PQerrorMessage(conn));
        having += PQntuples(results[i]) > 0;
        for (int row = 0; row < PQntuples(results[i]); row++) {
            ck_assert_uint_lt(count, IDS_MOST);
            all[count++] = PQgetvalue(results[i], row, 0);
        }
        PQfinish(conn);
    }
    if (having > 1)
        qsort(all, count, sizeof *all, compare_ids);
    expected[0] = '\0';
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(expected + len, sizeof expected - len, "%s ", all[i]);
    ck_assert_uint_lt(len, sizeof expected);
    for (int i = 0; i < stack_shards(); i++)
        PQclear(results[i]);
    ck_assert_str_eq(ids, expected);
}

TEST(a_users_orders_come_in_pages)
{
    enum { MADE = 7 };
    char voucher[VOUCHER_ID_SIZE], cursor[CURSOR_SIZE], path[PATH_SIZE], ids[IDS_SIZE] = "";
    for (int i = 0; i < MADE; i++) {
        voucher_on_sale(service, STOCK, voucher);
        http_must_buy(service, voucher, "alice");
        http_must_buy(service, voucher, "bob");
    }
    ck_assert_int_eq(read_list("/orders?", ALICE, "orders", "id", 3, ids), 3);
    must_be_all(ids, "SELECT id FROM voucher_order WHERE user_id = 'alice' ORDER BY id DESC");
    ck_assert_int_eq(read_list("/orders?", ALICE, "orders", "id", MADE, ids), 1);
    ck_assert_int_eq(read_list("/orders?", ALICE, "orders", "id", 100, ids), 1);

    // Pending orders are on the first page, beyond its limit.
    ids[0] = '\0';
    voucher_on_sale(service, STOCK, voucher);
    db_hold_orders();
    ck_assert_int_eq(http_buy_async(service, voucher, "alice", &reply), 202);
    ck_assert_int_eq(read_page("/orders?limit=3", ALICE, "orders", "status", ids, cursor), 4);
    ck_assert_str_eq(ids, "unpaid unpaid unpaid pending ");
    (void)snprintf(path, sizeof path, "/orders?limit=100&cursor=%s", cursor);
    ids[0] = '\0';
    ck_assert_int_eq(read_page(path, ALICE, "orders", "status", ids, cursor), MADE - 3);
    ck_assert_ptr_null(strstr(ids, "pending"));
    db_let_orders_go();

    get(path, BOB); // with alice's cursor
    http_must_be_problem(&reply, 422, "BAD_PARAMETER");
    get(path, "");
    http_must_be_problem(&reply, 401, "UNAUTHENTICATED");
    books_must_balance(voucher);
}

TEST(vouchers_come_in_pages)
{
    static const char *const states[] = {"open", "paused", "closed", "retired"};
    char voucher[VOUCHER_ID_SIZE], ids[IDS_SIZE], path[PATH_SIZE], sql[PATH_SIZE], next[CURSOR_SIZE] = "";
    for (int i = 0; i < 10; i++)
        voucher_on_sale(service, STOCK, voucher);
    db_run("UPDATE seckill_voucher SET state = 'closed' WHERE id %% 3 = 0 AND state = 'open'");
    db_run("UPDATE seckill_voucher SET state = 'paused' WHERE id %% 3 = 1 AND state = 'open'");
    (void)read_list("/vouchers?", "", "vouchers", "id", 3, ids);
    must_be_all(ids, "SELECT id FROM seckill_voucher WHERE state IN ('open', 'paused') ORDER BY id DESC");
    ids[0] = '\0';
    (void)read_page("/vouchers", "", "vouchers", "id", ids, next); // without parameters, as the crowd asks
    must_be_all(ids, "SELECT id FROM seckill_voucher WHERE state IN ('open', 'paused') ORDER BY id DESC LIMIT 100");
    ck_assert_ptr_nonnull(strstr(reply.body, "\"phase\":\"on_sale\"}"));
    ck_assert_ptr_nonnull(strstr(reply.body, "\"phase\":\"paused\"}"));
    (void)read_list("/admin/vouchers?", ADMIN, "vouchers", "id", 3, ids);
    must_be_all(ids, "SELECT id FROM seckill_voucher ORDER BY id DESC");
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof path, "/admin/vouchers?state=%s&", states[i]);
        (void)snprintf(sql, sizeof sql, "SELECT id FROM seckill_voucher WHERE state = '%s' ORDER BY id DESC",
                       states[i]);
        (void)read_list(path, ADMIN, "vouchers", "id", 3, ids);
        must_be_all(ids, sql);
    }
    get("/vouchers?limit=2", "");
    char server_time[HTTP_FIELD_SIZE];
    ck_assert(http_member(&reply, "server_time", server_time));
}

TEST(an_admin_sees_a_vouchers_orders)
{
    char voucher[VOUCHER_ID_SIZE], ids[IDS_SIZE], path[PATH_SIZE], sql[PATH_SIZE], now[64], user[16];
    voucher_on_sale(service, STOCK, voucher);
    for (int i = 0; i < 5; i++) {
        (void)snprintf(user, sizeof user, "user-%d", i);
        http_must_buy(service, voucher, user);
    }
    db_text(now, sizeof now, "SELECT rfc3339(now() + interval '1 ms')");
    (void)snprintf(sql, sizeof sql, "SELECT id FROM voucher_order WHERE voucher_id = %s ORDER BY id DESC", voucher);
    (void)snprintf(path, sizeof path, "/admin/orders?voucher=%s&", voucher);
    ck_assert_int_eq(read_list(path, ADMIN, "orders", "id", 2, ids), 3);
    must_be_all(ids, sql);
    (void)snprintf(path, sizeof path, "/admin/orders?voucher=%s&status=unpaid&from=2026-01-01T00:00:00Z&to=%s&",
                   voucher, now);
    ck_assert_int_eq(read_list(path, ADMIN, "orders", "id", 2, ids), 3);
    must_be_all(ids, sql);
    (void)snprintf(path, sizeof path, "/admin/orders?voucher=%s&from=%s&", voucher, now);
    ck_assert_int_eq(read_list(path, ADMIN, "orders", "id", 2, ids), 1);
    ck_assert_str_eq(ids, "");
    (void)snprintf(path, sizeof path, "/admin/orders?voucher=%s&from=2026-01-01T00%%3A00%%3A00%%2B08:00&", voucher);
    ck_assert_int_eq(read_list(path, ADMIN, "orders", "id", 2, ids), 3);
    must_be_all(ids, sql);
    (void)snprintf(path, sizeof path, "/admin/orders?voucher=%s&status=paid&", voucher);
    (void)read_list(path, ADMIN, "orders", "id", 2, ids);
    ck_assert_str_eq(ids, "");
    books_must_balance(voucher);
}

// A page never parts the payments of one order.
TEST(an_admin_sees_a_vouchers_payments)
{
    char voucher[VOUCHER_ID_SIZE], other[VOUCHER_ID_SIZE], path[PATH_SIZE], sql[PATH_SIZE], cursor[CURSOR_SIZE];
    char ids[IDS_SIZE] = "", user[16];
    voucher_on_sale(service, STOCK, voucher);
    voucher_on_sale(service, STOCK, other);
    (void)snprintf(path, sizeof path, "/admin/payments?voucher=%s&", voucher);
    ck_assert_int_eq(read_list(path, ADMIN, "payments", "reference", 2, ids), 1);
    ck_assert_str_eq(ids, "");
    for (int i = 0; i < 5; i++) {
        (void)snprintf(user, sizeof user, "user-%d", i);
        http_must_buy(service, voucher, user);
    }
    http_must_buy(service, other, "user-0");
    db_run("SELECT pay_order(o.slot, o.id, o.user_id || '-' || o.voucher_id, 100, 'CNY', 'shop') FROM voucher_order o");
    (void)snprintf(sql, sizeof sql, "SELECT reference FROM payment WHERE voucher_id = %s ORDER BY order_id DESC, at",
                   voucher);
    ck_assert_int_eq(read_list(path, ADMIN, "payments", "reference", 2, ids), 3);
    must_be_all(ids, sql);
    db_run("INSERT INTO payment SELECT reference || '-late', slot, voucher_id, order_id, amount_cents, currency,"
           " 'to_refund', by_whom, at + interval '1 s' FROM payment");
    (void)snprintf(path, sizeof path, "/admin/payments?voucher=%s&limit=1", voucher);
    ids[0] = '\0';
    ck_assert_int_eq(read_page(path, ADMIN, "payments", "reference", ids, cursor), 2);
    (void)snprintf(path, sizeof path, "/admin/payments?voucher=%s&cursor=%s", voucher, cursor);
    ck_assert_int_eq(read_page(path, ADMIN, "payments", "reference", ids, cursor), 8);
    ck_assert_str_eq(cursor, "");
    must_be_all(ids, sql);
    ck_assert_int_eq(get("/admin/payments", ADMIN), 422);
    ck_assert_int_eq(get("/admin/payments?voucher=0", ADMIN), 422);
    db_run("TRUNCATE payment, order_event");
}

// Of all vouchers, or of one; and the gauge of /metrics counts them.
TEST(an_admin_sees_what_is_to_be_refunded)
{
    static const char *const bad[] = {"state=accepted", "state=", "state=to_refund&state=to_refund",
                                      "state=to_refund&voucher=0", "state=to_refund&voucher=x"};
    char voucher[VOUCHER_ID_SIZE], other[VOUCHER_ID_SIZE], path[PATH_SIZE], ids[IDS_SIZE], user[16];
    voucher_on_sale(service, STOCK, voucher);
    voucher_on_sale(service, STOCK, other);
    for (int i = 0; i < 5; i++) {
        (void)snprintf(user, sizeof user, "user-%d", i);
        http_must_buy(service, i < 3 ? voucher : other, user);
    }
    db_run("SELECT pay_order(o.slot, o.id, o.user_id || '-' || o.voucher_id, 100, 'CNY', 'shop') FROM voucher_order o"
           " WHERE o.voucher_id IN (%s, %s)",
           voucher, other);
    WAIT_FOR(http_sample(service, "seckill_payments_to_refund") == 0);
    ck_assert_int_eq(read_list("/admin/payments?state=to_refund&", ADMIN, "payments", "reference", 2, ids), 1);
    ck_assert_str_eq(ids, "");
    db_run("UPDATE payment SET state = 'to_refund'");
    db_run("INSERT INTO payment SELECT reference || '-kept', slot, voucher_id, order_id, amount_cents, currency,"
           " 'accepted', by_whom, at FROM payment");
    ck_assert_int_eq(read_list("/admin/payments?state=to_refund&", ADMIN, "payments", "order_id", 2, ids), 3);
    must_be_all(ids, "SELECT order_id FROM payment WHERE state = 'to_refund' ORDER BY order_id DESC");
    (void)snprintf(path, sizeof path, "/admin/payments?state=to_refund&voucher=%s&", other);
    (void)read_list(path, ADMIN, "payments", "voucher_id", 2, ids);
    (void)snprintf(path, sizeof path, "%s %s ", other, other);
    ck_assert_str_eq(ids, path);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(path, sizeof path, "/admin/payments?%s", bad[i]);
        ck_assert_msg(get(path, ADMIN) == 422, "%s: %d", path, reply.status);
    }
    WAIT_FOR(http_sample(service, "seckill_payments_to_refund") == 5);
    db_run("TRUNCATE payment, order_event");
}

TEST(vouchers_are_found_by_their_title)
{
    char voucher[VOUCHER_ID_SIZE], ids[IDS_SIZE], path[PATH_SIZE], cursor[CURSOR_SIZE];
    for (int i = 0; i < 6; i++)
        voucher_on_sale(service, STOCK, voucher);
    db_run(
        "UPDATE seckill_voucher SET title = CASE WHEN id %% 2 = 0 THEN 'A Green TEA set, 50 %%_ off ' ELSE '茶壶 ' END"
        " || id");
    (void)read_list("/admin/vouchers?title=tea&", ADMIN, "vouchers", "id", 2, ids);
    must_be_all(ids, "SELECT id FROM seckill_voucher WHERE id % 2 = 0 ORDER BY id DESC");
    (void)read_list("/admin/vouchers?title=%E8%8C%B6%E5%A3%B6&state=open&", ADMIN, "vouchers", "id", 2, ids);
    must_be_all(ids, "SELECT id FROM seckill_voucher WHERE id % 2 = 1 AND state = 'open' ORDER BY id DESC");
    (void)read_list("/admin/vouchers?title=%25_+off&", ADMIN, "vouchers", "id", 2, ids); // no wildcards
    must_be_all(ids, "SELECT id FROM seckill_voucher WHERE id % 2 = 0 ORDER BY id DESC");
    ids[0] = '\0';
    (void)read_page("/admin/vouchers?title=tea&limit=1", ADMIN, "vouchers", "id", ids, cursor);
    (void)snprintf(path, sizeof path, "/admin/vouchers?title=set&cursor=%s", cursor);
    ck_assert_int_eq(get(path, ADMIN), 422);
    ck_assert_int_eq(get("/admin/vouchers?title=", ADMIN), 422);
    ck_assert_int_eq(get("/admin/vouchers?title=%C3", ADMIN), 422);
}

TEST(orders_and_payments_are_found)
{
    char voucher[VOUCHER_ID_SIZE], other[VOUCHER_ID_SIZE], ids[IDS_SIZE] = "", cursor[CURSOR_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    voucher_on_sale(service, STOCK, other);
    http_must_buy(service, voucher, "carol");
    http_must_buy(service, other, "carol");
    http_must_buy(service, other, "dora");
    ck_assert_int_eq(read_list("/admin/orders/find?user=carol&", ADMIN, "orders", "id", 1, ids), 2);
    must_be_all(ids, "SELECT id FROM voucher_order WHERE user_id = 'carol' ORDER BY id DESC");
    db_run("SELECT pay_order(o.slot, o.id, 'ref:' || o.user_id, 100, 'CNY', 'shop') FROM voucher_order o"
           "  WHERE o.user_id = 'dora'");
    ids[0] = '\0';
    ck_assert_int_eq(read_page("/admin/payments/find?reference=ref:dora", ADMIN, "payments", "order_id", ids, cursor),
                     1);
    must_be_all(ids, "SELECT id FROM voucher_order WHERE user_id = 'dora'");
    ck_assert_ptr_nonnull(strstr(reply.body, "\"amount_cents\":100,\"currency\":\"CNY\",\"state\":\"accepted\""));
    ck_assert_int_eq(read_page("/admin/payments/find?reference=ref", ADMIN, "payments", "order_id", ids, cursor), 0);
    static const char *const bad[] = {"/admin/orders/find",
                                      "/admin/orders/find?user=",
                                      "/admin/orders/find?user=%20",
                                      "/admin/payments/find",
                                      "/admin/payments/find?reference=",
                                      "/admin/payments/find?reference=a%20b",
                                      "/admin/payments/find?reference=a&limit=1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)get(bad[i], ADMIN);
        http_must_be_problem(&reply, 422, "BAD_PARAMETER");
        ck_assert_int_eq(get(bad[i], ALICE), 401);
    }
    books_must_balance(voucher);
    books_must_balance(other);
    db_run("TRUNCATE payment, order_event");
}

// Whether /admin/troubles names the voucher for this reason.
static bool is_troubled(const char *voucher, const char *what)
{
    char row[PATH_SIZE];
    ck_assert_int_eq(get("/admin/troubles", ADMIN), 200);
    (void)snprintf(row, sizeof row, "{\"voucher_id\":\"%s\",\"title\":\"On sale\",\"what\":\"%s\",", voucher, what);
    return strstr(reply.body, row) != NULL;
}

TEST(vouchers_in_trouble_are_listed)
{
    char voucher[VOUCHER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    db_run("UPDATE seckill_voucher SET title = 'On sale', pay_within_s = 900 WHERE id = %s", voucher);
    http_must_buy(service, voucher, "alice");
    http_must_buy(service, voucher, "bob");
    ck_assert(!is_troubled(voucher, "DEAD_LETTERS") && !is_troubled(voucher, "EXPIRY_LATE"));
    db_run("INSERT INTO dead_letter (slot, voucher_id, journal_id, raw, reason)"
           " SELECT slot, voucher_id, n || '-1', '', 'why' FROM voucher_stock, generate_series(1, 2) n"
           "  WHERE voucher_id = %s",
           voucher);
    ck_assert(is_troubled(voucher, "DEAD_LETTERS"));
    ck_assert_ptr_nonnull(strstr(reply.body, "\"count\":2}"));
    db_run("DELETE FROM dead_letter");
    // One is paid, the other should have expired a minute ago: expiry has not looked, for it was placed now.
    db_run("UPDATE voucher_order SET created_at = now() - interval '16 min' WHERE voucher_id = %s AND user_id = 'bob'",
           voucher);
    db_run("SELECT pay_order(o.slot, o.id, 'p-' || o.user_id, 100, 'CNY', 'shop') FROM voucher_order o"
           "  WHERE o.voucher_id = %s AND o.user_id = 'alice'",
           voucher);
    ck_assert(is_troubled(voucher, "EXPIRY_LATE") && !is_troubled(voucher, "DEAD_LETTERS"));
    db_run("UPDATE voucher_order SET created_at = now() WHERE voucher_id = %s", voucher);
    ck_assert(!is_troubled(voucher, "EXPIRY_LATE"));
    db_run("TRUNCATE payment, order_event");
}

// Those of each shard, by name. Rows that wait for nothing have no `unsent_since`.
TEST(receivers_of_webhooks_are_listed)
{
    static const char since[] = "\"since\":\"2026-01-31T12:00:00.000Z\"", unsent[] = "2026-01-31T11:59:00.000Z";
    char expected[IDS_SIZE] = "{\"receivers\":[", shard[32] = "";
    ck_assert_int_eq(get("/admin/webhooks", ADMIN), 200);
    ck_assert_str_eq(reply.body, "{\"receivers\":[]}");
    db_run(
        "INSERT INTO webhook_receiver (name, tx, seq, state, since, tries, why, unsent_at, page_tx, page_seq, page_id)"
        " VALUES ('shop', '0', -1, 'failing', '2026-01-31 12:00Z', 3, 'answered \"500\"', '%s', '7', 1, 'id'),"
        "        ('pay', pg_snapshot_xmax(pg_current_snapshot()), -1, 'sending', '2026-01-31 12:00Z', 0, NULL, NULL, "
        "NULL, NULL, NULL),"
        "        ('old', '0', -1, 'stopped', '2026-01-31 12:00Z', 1, 'answered 410', '%s', '7', 1, 'id')",
        unsent, unsent);
    db_run("INSERT INTO admin_event (at, by_whom, what, voucher_id, detail)"
           " VALUES ('2026-01-31 10:00Z', 'alice', 'webhook_skip', 0, '{\"receiver\": \"pay\"}'),"
           "        ('2026-01-31 11:00Z', 'bob', 'webhook_resume', 0, '{\"receiver\": \"pay\"}')");
    for (int i = 0; i < stack_shards(); i++) {
        size_t len = strlen(expected);
        if (stack_shards() > 1)
            (void)snprintf(shard, sizeof shard, "\"shard\":%d,", i);
        (void)snprintf(expected + len, sizeof expected - len,
                       "%s{%s\"name\":\"old\",\"state\":\"stopped\",%s,\"tries\":1,\"why\":\"answered 410\","
                       "\"unsent_since\":\"%s\"},"
                       "{%s\"name\":\"pay\",\"state\":\"sending\",%s,\"tries\":0,"
                       "\"operated\":{\"what\":\"resume\",\"by\":\"bob\",\"at\":\"2026-01-31T11:00:00.000Z\"}},"
                       "{%s\"name\":\"shop\",\"state\":\"failing\",%s,\"tries\":3,\"why\":\"answered \\\"500\\\"\","
                       "\"unsent_since\":\"%s\"}",
                       i > 0 ? "," : "", shard, since, unsent, shard, since, shard, since, unsent);
    }
    (void)snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "]}");
    ck_assert_int_eq(get("/admin/webhooks", ADMIN), 200);
    ck_assert_str_eq(reply.body, expected);
    ck_assert_int_eq(get("/admin/webhooks", ALICE), 401);
    ck_assert_int_eq(get("/admin/webhooks?limit=1", ADMIN), 422);
    db_run("DELETE FROM webhook_receiver");
    db_run("DELETE FROM admin_event WHERE voucher_id = 0");
}

TEST(letters_come_in_pages)
{
    char voucher[VOUCHER_ID_SIZE], ids[IDS_SIZE], path[PATH_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    (void)snprintf(path, sizeof path, "/admin/vouchers/%s/dead-letters?", voucher);
    ck_assert_int_eq(read_list(path, ADMIN, "dead_letters", "id", 2, ids), 1);
    db_run("INSERT INTO dead_letter (slot, voucher_id, journal_id, raw, reason)"
           " SELECT slot, voucher_id, n || '-1', '', 'why' FROM voucher_stock, generate_series(1, 5) n"
           "  WHERE voucher_id = %s",
           voucher);
    ck_assert_int_eq(read_list(path, ADMIN, "dead_letters", "id", 2, ids), 3);
    must_be_all(ids, "SELECT id FROM dead_letter ORDER BY id");
    db_run("DELETE FROM dead_letter");
}

TEST(the_operators_record_and_the_feed_are_read)
{
    char voucher[VOUCHER_ID_SIZE], ids[IDS_SIZE] = "", path[PATH_SIZE], cursor[CURSOR_SIZE], after[CURSOR_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    db_run("INSERT INTO admin_event (by_whom, what, voucher_id) SELECT 'root', 'what-' || n, %s FROM"
           " generate_series(1, 5) n",
           voucher);
    (void)snprintf(path, sizeof path, "/admin/vouchers/%s/audit?", voucher);
    (void)read_list(path, ADMIN, "events", "what", 2, ids);
    ck_assert_ptr_nonnull(strstr(ids, "what-1 what-2 what-3 what-4 what-5 "));

    http_must_buy(service, voucher, "alice");
    db_run("INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why)"
           " SELECT slot, voucher_id, id, 'paid', 'shop', 'why-' || n FROM voucher_order, generate_series(1, 5) n"
           "  WHERE voucher_id = %s",
           voucher);
    ids[0] = '\0';
    ck_assert_int_eq(read_page("/admin/events?only=moves&limit=3", ADMIN, "events", "why", ids, cursor), 3);
    (void)snprintf(path, sizeof path, "/admin/events?only=moves&limit=3&after=%s", cursor);
    ck_assert_int_eq(read_page(path, ADMIN, "events", "why", ids, cursor), 2);
    ck_assert_str_eq(ids, "why-1 why-2 why-3 why-4 why-5 ");
    char page[PATH_SIZE];
    ck_assert(!next_of(page));                // the feed has no last page
    for (int times = 0; times < 2; times++) { // at its end the feed links to itself
        (void)snprintf(path, sizeof path, "/admin/events?only=moves&after=%s", cursor);
        ck_assert_int_eq(read_page(path, ADMIN, "events", "why", ids, after), 0);
        ck_assert_str_eq(after, cursor);
    }
    ids[0] = '\0';
    (void)read_page("/admin/events?only=moves&limit=3", ADMIN, "events", "id", ids, cursor);
    if (stack_shards() == 1) { // an event id is a cursor, too
        (void)snprintf(path, sizeof path, "/admin/events?only=moves&limit=1&after=%.32s", ids);
        ids[0] = '\0';
        (void)read_page(path, ADMIN, "events", "why", ids, cursor);
        ck_assert_str_eq(ids, "why-2 ");
    }
    size_t len = strlen(cursor);
    db_run("TRUNCATE order_event");
    ck_assert_int_eq(read_page("/admin/events?only=moves", ADMIN, "events", "id", ids, cursor), 0);
    ck_assert_uint_eq(strlen(cursor), len); // also before there is any event
}

static void note_why(const char *voucher, int from, int to)
{
    db_run("INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why)"
           " SELECT slot, voucher_id, id, 'paid', 'shop', 'why-' || n FROM voucher_order, generate_series(%d, %d) n"
           "  WHERE voucher_id = %s",
           from, to, voucher);
}

TEST(the_feed_is_read_from_its_end)
{
    static const struct {
        const char *query, *expected, *then;
    } rows[] = {
        {"last=2", "why-4 why-5 ", ""},
        {"last=5", "why-1 why-2 why-3 why-4 why-5 ", ""},
        {"last=100", "why-1 why-2 why-3 why-4 why-5 ", ""},
        {"last=3&limit=2", "why-3 why-4 ", "why-5 "},
    };
    char voucher[VOUCHER_ID_SIZE], ids[IDS_SIZE] = "", path[PATH_SIZE], cursor[CURSOR_SIZE], ends[4][CURSOR_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    db_run("TRUNCATE order_event");
    ck_assert_int_eq(read_page("/admin/events?only=moves&last=2", ADMIN, "events", "why", ids, cursor),
                     0); // no events yet
    note_why(voucher, 1, 5);
    (void)snprintf(path, sizeof path, "/admin/events?only=moves&after=%s", cursor);
    ck_assert_int_eq(read_page(path, ADMIN, "events", "why", ids, cursor), 5);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ids[0] = '\0';
        (void)snprintf(path, sizeof path, "/admin/events?only=moves&%s", rows[i].query);
        (void)read_page(path, ADMIN, "events", "why", ids, ends[i]);
        ck_assert_str_eq(ids, rows[i].expected);
    }
    (void)snprintf(path, sizeof path, "/admin/events?last=1&after=%s", cursor); // two start positions
    (void)get(path, ADMIN);
    ck_assert(http_is_problem(&reply, 422, "BAD_PARAMETER"));
    note_why(voucher, 6, 7);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) { // each continues without a gap
        char expected[IDS_SIZE];
        ids[0] = '\0';
        (void)snprintf(path, sizeof path, "/admin/events?only=moves&after=%s", ends[i]);
        (void)read_page(path, ADMIN, "events", "why", ids, cursor);
        (void)snprintf(expected, sizeof expected, "%swhy-6 why-7 ", rows[i].then);
        ck_assert_str_eq(ids, expected);
    }
    db_run("TRUNCATE order_event");
}

TEST(what_is_no_page_is_refused)
{
    static const char *const lists[][2] = {
        {"/orders?", ALICE},
        {"/vouchers?", ""},
        {"/admin/vouchers?", ADMIN},
        {"/admin/orders?voucher=1&", ADMIN},
        {"/admin/events?", ADMIN},
        {"/admin/vouchers/1/dead-letters?", ADMIN},
        {"/admin/vouchers/1/audit?", ADMIN},
    };
    static const char *const bad[] = {
        "limit=0",
        "limit=101",
        "limit=1000000000",
        "limit=18446744073709551617",
        "limit=-1",
        "limit=1.0",
        "limit=1e1",
        "limit=x",
        "limit=",
        "limit",
        "limit=01",
        "limit=1&limit=1",
        "%s=",
        "%s=x",
        "%s=AgAAAAAAAAAHAAAAAAAAAAAooI_LoZ2e",
        "%s=AgAAAAAAAAAHAAAAAAAAAAAooI_LoZ2",
        "%s=AgAAAAAAAAAHAAAAAAAAAAAooI_LoZ2dA",
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const char *cursor = strstr(lists[i][0], "events") != NULL ? "after" : "cursor";
        for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
            char path[PATH_SIZE], asked[PATH_SIZE];
            const char *rest = strncmp(bad[k], "%s", 2) == 0 ? bad[k] + 2 : NULL;
            (void)snprintf(asked, sizeof asked, "%s%s", rest == NULL ? bad[k] : cursor, rest == NULL ? "" : rest);
            (void)snprintf(path, sizeof path, "%s%s", lists[i][0], asked);
            (void)get(path, lists[i][1]);
            ck_assert_msg(http_is_problem(&reply, 422, "BAD_PARAMETER"), "%s: %d %s", path, reply.status, reply.body);
            ck_assert_msg(strstr(reply.body, "\"errors\":[{\"parameter\":\"") != NULL, "%s: %s", path, reply.body);
        }
        (void)get(lists[i][0], lists[i][1]); // without any parameter it is a list
        ck_assert_int_eq(reply.status, 200);
    }
    static const char *const filters[] = {
        "/admin/events?last=0",
        "/admin/events?last=101",
        "/admin/events?last=-1",
        "/admin/events?last=01",
        "/admin/events?last=x",
        "/admin/events?last=",
        "/admin/events?last",
        "/admin/events?last=18446744073709551617",
        "/admin/events?last=1&last=1",
        "/admin/events?last=1&limit=0",
        "/admin/events?wait=61",
        "/admin/events?wait=x",
        "/admin/events?only=",
        "/admin/events?only=moved",
        "/admin/vouchers?state=x",
        "/admin/vouchers?state=",
        "/admin/vouchers?state=Open",
        "/admin/vouchers?state=open&state=open",
        "/admin/orders",
        "/admin/orders?voucher=",
        "/admin/orders?voucher=0",
        "/admin/orders?voucher=x",
        "/admin/orders?voucher=9223372036854775808",
        "/admin/orders?voucher=1&voucher=2",
        "/admin/orders?voucher=1&status=",
        "/admin/orders?voucher=1&status=pending",
        "/admin/orders?voucher=1&status=Paid",
        "/admin/orders?voucher=1&from=",
        "/admin/orders?voucher=1&from=1",
        "/admin/orders?voucher=1&from=2026-11-11",
        "/admin/orders?voucher=1&from=2026-11-11T00:00:00+08:00", // + means a blank
        "/admin/orders?voucher=1&x=%zz",
        "/admin/orders?voucher=1&to=x",
        "/admin/orders?voucher=1&to=2026-11-11T00:00:00Z&to=2026-11-11T00:00:00Z",
    };
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        (void)get(filters[i], ADMIN);
        ck_assert_msg(http_is_problem(&reply, 422, "BAD_PARAMETER"), "%s: %d %s", filters[i], reply.status, reply.body);
        ck_assert_msg(strstr(reply.body, "\"errors\":[{\"parameter\":\"") != NULL, "%s: %s", filters[i], reply.body);
    }
}

TEST(a_cursor_belongs_to_its_filter)
{
    char voucher[VOUCHER_ID_SIZE], other[VOUCHER_ID_SIZE], path[PATH_SIZE], cursor[CURSOR_SIZE], ids[IDS_SIZE] = "";
    voucher_on_sale(service, STOCK, voucher);
    voucher_on_sale(service, STOCK, other);
    http_must_buy(service, voucher, "alice");
    http_must_buy(service, voucher, "bob");
    (void)snprintf(path, sizeof path, "/admin/orders?limit=1&voucher=%s", voucher);
    (void)read_page(path, ADMIN, "orders", "id", ids, cursor);
    static const char *const filters[] = {"&status=unpaid", "&from=2026-01-01T00:00:00Z", "&to=2036-01-01T00:00:00Z"};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "/admin/orders?cursor=%s&voucher=%s%s", cursor, voucher, filters[i]);
        (void)get(path, ADMIN);
        http_must_be_problem(&reply, 422, "BAD_PARAMETER");
    }
    (void)snprintf(path, sizeof path, "/admin/orders?cursor=%s&voucher=%s", cursor, other);
    (void)get(path, ADMIN);
    http_must_be_problem(&reply, 422, "BAD_PARAMETER");
    (void)snprintf(path, sizeof path, "/admin/orders?cursor=%s&voucher=%s", cursor, voucher);
    ids[0] = '\0';
    ck_assert_int_eq(read_page(path, ADMIN, "orders", "id", ids, cursor), 1); // the limit may change between pages
}

SUITE(.timeout_s = 120, .begin = setup, .setup = start, .teardown = service_stop_all, .in_one_process = true);
