// GET /admin/vouchers/{id}/settlement of real sales: each verdict, each format, and callers without permission.
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "books.h"
#include "http.h"
#include "sales.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

#define ADMIN       "Authorization: Bearer admin-token-of-the-tests\r\n"
#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

enum { STOCK = 30, BUYERS = 20, PATH_SIZE = 128 };

static struct http_reply reply;
static json_t *report;

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void teardown(void)
{
    json_decref(report);
    report = NULL;
    service_stop_all();
}

static int ask(const struct service *service, const char *method, const char *voucher, const char *query,
               const char *headers)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "/admin/vouchers/%s/settlement%s", voucher, query);
    return http_ask(service, method, path, headers, NULL, &reply);
}

// A number or text of the report as text, found by "section.item" or "section.item.member".
static const char *said(const char *what)
{
    static char text[HTTP_FIELD_SIZE];
    char path[PATH_SIZE];
    json_t *at = report;
    (void)snprintf(path, sizeof path, "%s", what);
    for (char *rest = path, *part; (part = strtok_r(rest, ".", &rest)) != NULL;)
        at = json_object_get(at, part);
    if (json_is_integer(at))
        (void)snprintf(text, sizeof text, "%lld", (long long)json_integer_value(at));
    else
        (void)snprintf(text, sizeof text, "%s", at == NULL ? "nothing" : json_string_value(at));
    return text;
}

static void read_report(const struct service *service, const char *voucher)
{
    WAIT_FOR(ask(service, "GET", voucher, "", ADMIN) != 503); // a voucher is closed for a moment while it is loaded
    ck_assert_msg(reply.status == 200, "%d: %s", reply.status, reply.body);
    json_decref(report);
    report = json_loads(reply.body, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(report != NULL, "not JSON: %s", reply.body);
}

static bool says(const struct service *service, const char *voucher, const char *what, const char *value)
{
    read_report(service, voucher);
    return strcmp(said(what), value) == 0;
}

struct saying {
    const char *what, *value;
};

static void must_say(size_t n, const struct saying *sayings)
{
    for (size_t i = 0; i < n; i++) {
        const char *is = said(sayings[i].what);
        ck_assert_msg(strcmp(is, sayings[i].value) == 0, "%s: %s, not %s: %s", sayings[i].what, is, sayings[i].value,
                      reply.body);
    }
}

#define MUST_SAY(...) \
    must_say(sizeof((struct saying[]){__VA_ARGS__}) / sizeof(struct saying), (struct saying[]){__VA_ARGS__})

static void sell(const struct service *service, char voucher[VOUCHER_ID_SIZE])
{
    char user[16];
    voucher_on_sale(service, STOCK, voucher);
    for (int i = 0; i < BUYERS; i++) {
        (void)snprintf(user, sizeof user, "user-%d", i);
        http_must_buy(service, voucher, user);
    }
}

static void pay_all(const char *voucher)
{
    db_run("UPDATE voucher_order SET status = 'paid' WHERE voucher_id = %s", voucher);
}

// The sale is over, but not long enough to be retired.
static void end_sale(const char *voucher)
{
    db_run(
        "UPDATE seckill_voucher SET begin_at = now() - interval '1 h', end_at = now() - interval '1 s' WHERE id = %s",
        voucher);
}

// ---- the verdicts ----

// The report includes each order's time to durable, whichever reactor placed it.
TEST(a_sale_that_is_on_is_open)
{
    char voucher[VOUCHER_ID_SIZE];
    struct service *service = service_start(ENV("SECKILL_REACTORS=2"));
    sell(service, voucher);
    WAIT_FOR(says(service, voucher, "redis.books", "compared"));
    MUST_SAY({"voucher_id", voucher}, {"state", "open"}, {"verdict", "open"}, {"missing.UNPAID", "20"},
             {"missing.JOURNAL", "nothing"}, {"missing.REDIS", "nothing"}, {"units.offered", "30"},
             {"units.sold", "20"}, {"units.remaining", "10"}, {"orders.sold.orders", "20"},
             {"orders.unpaid.units", "20"}, {"orders.paid.orders", "0"}, {"checks.duplicates", "0"},
             {"redis.stock", "10"}, {"redis.buyers", "20"}, {"redis.journal", "0"}, {"time_to_durable.count", "20"});
    ck_assert_int_gt(json_integer_value(json_object_get(json_object_get(report, "missing"), "SALE_ON")), 0);
    ck_assert_uint_eq(json_object_size(json_object_get(report, "wrong")), 0);
    json_t *durable = json_object_get(report, "time_to_durable"), *bucket;
    double before = 0;
    static const char *const rising[] = {"p50_ms", "p90_ms", "p99_ms", "p99_9_ms", "max_ms"};
    for (size_t i = 0; i < COUNT(rising); i++) {
        double value = json_number_value(json_object_get(durable, rising[i]));
        ck_assert(value > 0 && value >= before && value < WAIT_DEADLINE_MS);
        before = value;
    }
    size_t i;
    json_int_t in_buckets = 0;
    json_array_foreach(json_object_get(durable, "buckets"), i, bucket) in_buckets +=
        json_integer_value(json_array_get(bucket, 1));
    ck_assert_int_eq(in_buckets, BUYERS);
}

TEST(what_is_under_way_keeps_it_open)
{
    char voucher[VOUCHER_ID_SIZE];
    struct service *service = service_start(NULL);
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    pay_all(voucher);
    end_sale(voucher);
    WAIT_FOR(says(service, voucher, "verdict", "balanced"));
    db_run("INSERT INTO dead_letter (slot, voucher_id, journal_id, raw, orders, reason)"
           " SELECT slot, voucher_id, '1-1', 'x', gen_random_uuid() || ' bob 3', 'test' FROM voucher_stock"
           " WHERE voucher_id = %s",
           voucher);
    read_report(service, voucher);
    MUST_SAY({"missing.DEAD_LETTERS", "1"}, {"units.held", "3"}, {"orders.held.orders", "1"},
             {"checks.dead_letters", "1"});
    db_run("UPDATE dead_letter SET ended_at = now()");
}

TEST(an_order_that_is_not_committed_is_missing)
{
    char voucher[VOUCHER_ID_SIZE];
    struct service *service = service_start(NULL);
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    db_hold_orders();
    ck_assert_int_eq(http_buy_async(service, voucher, "bob", &reply), 202);
    read_report(service, voucher);
    MUST_SAY({"verdict", "open"}, {"missing.JOURNAL", "1"}, {"missing.PENDING", "1"}, {"missing.REDIS", "1"},
             {"redis.books", "moving"}, {"orders.sold.orders", "1"}, {"redis.buyers", "2"});
    db_let_orders_go();
    WAIT_FOR(says(service, voucher, "redis.books", "compared"));
    MUST_SAY({"orders.sold.orders", "2"}, {"missing.JOURNAL", "nothing"}, {"missing.PENDING", "nothing"});
}

TEST(a_sale_that_is_over_and_paid_is_balanced)
{
    char voucher[VOUCHER_ID_SIZE];
    struct service *service = service_start(NULL);
    sell(service, voucher);
    end_sale(voucher);
    WAIT_FOR(says(service, voucher, "redis.books", "compared"));
    MUST_SAY({"verdict", "open"}, {"missing.SALE_ON", "nothing"}, {"missing.UNPAID", "20"});
    pay_all(voucher);
    WAIT_FOR(says(service, voucher, "verdict", "balanced"));
    ck_assert_uint_eq(json_object_size(json_object_get(report, "missing")), 0);
    MUST_SAY({"orders.paid.orders", "20"}, {"units.sold", "20"}, {"units.remaining", "10"});
}

static void move(const struct service *service, const char *order, const char *what, const char *headers,
                 const char *body)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "/orders/%s/%s", order, what);
    WAIT_FOR(http_ask(service, "POST", path, headers, body, &reply) != 503);
    ck_assert_msg(reply.status == 200, "%s: %d %s", what, reply.status, reply.body);
}

// All units are accounted for, but a customer's money is not.
TEST(money_that_is_owed_keeps_it_open)
{
    static const char alice[] = "X-User-Id: alice\r\n", json[] = ADMIN "Content-Type: application/json\r\n";
    char voucher[VOUCHER_ID_SIZE], order[ORDER_ID_SIZE];
    struct service *service = service_start(NULL);
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    db_text(order, sizeof order, "SELECT id FROM voucher_order WHERE voucher_id = %s", voucher);
    move(service, order, "cancel", alice, NULL);
    move(service, order, "pay", json, "{\"reference\":\"late\",\"amount_cents\":100,\"currency\":\"CNY\"}");
    move(service, order, "pay", json, "{\"reference\":\"later\",\"amount_cents\":7,\"currency\":\"USD\"}");
    http_must_buy(service, voucher, "bob");
    db_text(order, sizeof order, "SELECT id FROM voucher_order WHERE voucher_id = %s AND user_id = 'bob'", voucher);
    move(service, order, "pay", json, "{\"reference\":\"bobs\",\"amount_cents\":100,\"currency\":\"CNY\"}");
    end_sale(voucher);
    WAIT_FOR(says(service, voucher, "redis.books", "compared"));
    MUST_SAY({"verdict", "open"}, {"missing.TO_REFUND", "2"}, {"payments_accepted.CNY.payments", "1"},
             {"payments_accepted.CNY.total_cents", "100"}, {"payments_to_refund.CNY.payments", "1"},
             {"payments_to_refund.CNY.total_cents", "100"}, {"payments_to_refund.USD.total_cents", "7"},
             {"payments_refunded.CNY", "nothing"}, {"checks.archived_payments", "0"});
    ck_assert_uint_eq(json_object_size(json_object_get(report, "missing")), 1);
    ck_assert_int_eq(ask(service, "GET", voucher, "?format=text", ADMIN), 200);
    ck_assert_ptr_nonnull(strstr(reply.body, "\n  TO_REFUND          2\n"));
    db_text(order, sizeof order, "SELECT id FROM voucher_order WHERE voucher_id = %s AND user_id = 'alice'", voucher);
    move(service, order, "refund", json, "{}");
    WAIT_FOR(says(service, voucher, "verdict", "balanced"));
    MUST_SAY({"payments_refunded.CNY.payments", "1"}, {"payments_refunded.USD.payments", "1"},
             {"payments_to_refund.CNY", "nothing"});
    books_must_balance(voucher);
}

TEST(a_sum_that_is_wrong_is_told)
{
    char voucher[VOUCHER_ID_SIZE];
    struct service *service = service_start(NULL);
    sell(service, voucher);
    db_run("UPDATE voucher_stock SET stock = stock - 1 WHERE voucher_id = %s", voucher);
    read_report(service, voucher);
    MUST_SAY({"verdict", "wrong"}, {"wrong.UNITS.is", "29"}, {"wrong.UNITS.should_be", "30"});
    db_run("UPDATE voucher_stock SET stock = stock + 1, live = live + 1 WHERE voucher_id = %s", voucher);
    read_report(service, voucher);
    MUST_SAY({"verdict", "wrong"}, {"wrong.UNITS", "nothing"}, {"wrong.LIVE_ORDERS.is", "21"},
             {"wrong.LIVE_ORDERS.should_be", "20"});
    db_run("UPDATE voucher_stock SET live = live - 1 WHERE voucher_id = %s", voucher);
    // The audit repairs Redis, so the damage may have to be repeated until the report has seen it.
    WAIT_FOR((redis_run("HINCRBY seckill:{%s}:voucher stock 1", voucher),
              !says(service, voucher, "wrong.REDIS_STOCK.should_be", "nothing")));
    MUST_SAY({"verdict", "wrong"}, {"wrong.REDIS_STOCK.should_be", "10"}, {"redis.books", "compared"});
    WAIT_FOR(says(service, voucher, "wrong.REDIS_STOCK.should_be", "nothing") &&
             strcmp(said("redis.books"), "compared") == 0);
    books_must_balance(voucher);
}

TEST(a_retired_voucher_is_settled_from_postgres)
{
    char voucher[VOUCHER_ID_SIZE];
    struct service *service = service_start(ENV("SECKILL_RETIRE_AFTER_MS=0"));
    sell(service, voucher);
    pay_all(voucher);
    sales_end(voucher);
    WAIT_FOR(says(service, voucher, "redis.books", "retired"));
    MUST_SAY({"state", "retired"}, {"verdict", "balanced"}, {"orders.paid.orders", "20"}, {"units.remaining", "10"});
    redis_kill();
    ck_assert(says(service, voucher, "verdict", "balanced"));
    redis_start();
}

TEST(without_a_store_it_says_what_it_can)
{
    char voucher[VOUCHER_ID_SIZE];
    struct service *service = service_start(ENV(HASTY));
    sell(service, voucher);
    redis_kill();
    WAIT_FOR(says(service, voucher, "redis.books", "unknown"));
    MUST_SAY({"verdict", "open"}, {"missing.REDIS", "1"}, {"orders.sold.orders", "20"});
    redis_start();
    WAIT_FOR(says(service, voucher, "redis.books", "compared"));
    postgres_stop();
    WAIT_FOR(ask(service, "GET", voucher, "", ADMIN) == 503);
    http_must_be_problem(&reply, 503, "UNAVAILABLE");
    postgres_start();
    service_await(service, true);
}

// The count may take longer than any other statement, and other requests are answered meanwhile.
TEST(a_long_count_holds_up_no_other)
{
    char voucher[VOUCHER_ID_SIZE], order[HTTP_FIELD_SIZE], request[2 * PATH_SIZE], path[PATH_SIZE + HTTP_FIELD_SIZE];
    struct service *service = service_start(ENV("SECKILL_PG_TIMEOUT_MS=500"));
    sell(service, voucher);
    ck_assert_int_eq(http_buy(service, voucher, "user-0", &reply), 409);
    ck_assert(http_member(&reply, "order_id", order));
    db_run("ALTER TABLE stock_change RENAME TO stock_changed");
    db_run("CREATE VIEW stock_change AS SELECT * FROM stock_changed"
           " WHERE (SELECT pg_sleep(2)) IS NOT NULL");
    db_run("GRANT SELECT ON stock_change TO PUBLIC");
    int fd = http_connect(service);
    struct pollfd counting = {.fd = fd, .events = POLLIN};
    (void)snprintf(request, sizeof request, "GET /admin/vouchers/%s/settlement HTTP/1.1\r\nHost: test\r\n" ADMIN "\r\n",
                   voucher);
    ck_assert(http_send_text(fd, request));
    (void)snprintf(path, sizeof path, "/orders/%s", order);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(http_get(service, path, "user-0", &reply), 200);
    ck_assert_int_eq(poll(&counting, 1, 0), 0);
    ck_assert(http_receive(fd, &reply));
    ck_assert_msg(reply.status == 200, "%d: %s", reply.status, reply.body);
    (void)close(fd);
    db_run("DROP VIEW stock_change");
    db_run("ALTER TABLE stock_changed RENAME TO stock_change");
}

// ---- the call ----

TEST(text_and_csv_say_the_same)
{
    char voucher[VOUCHER_ID_SIZE], line[PATH_SIZE], type[HTTP_FIELD_SIZE];
    struct service *service = service_start(NULL);
    sell(service, voucher);
    WAIT_FOR(says(service, voucher, "redis.books", "compared"));
    ck_assert(http_header(&reply, "Content-Type", type));
    ck_assert_str_eq(type, "application/json");

    ck_assert_int_eq(ask(service, "GET", voucher, "?format=csv", ADMIN), 200);
    ck_assert(http_header(&reply, "Content-Type", type));
    ck_assert_str_eq(type, "text/csv; charset=utf-8; header=present");
    (void)snprintf(line, sizeof line, "section,item,orders,units,value\r\nsettlement,voucher_id,,,%s\r\n", voucher);
    ck_assert_int_eq(strncmp(reply.body, line, strlen(line)), 0);
    ck_assert_ptr_nonnull(strstr(reply.body, "\r\norders,unpaid,20,20,\r\n"));
    ck_assert_ptr_nonnull(strstr(reply.body, "\r\nredis,stock,,10,\r\n"));

    ck_assert_int_eq(ask(service, "GET", voucher, "?format=text", ADMIN), 200);
    ck_assert(http_header(&reply, "Content-Type", type));
    ck_assert_str_eq(type, "text/plain; charset=utf-8");
    ck_assert_ptr_nonnull(strstr(reply.body, "\nverdict              open\n"));
    ck_assert_ptr_nonnull(strstr(reply.body, "\n  unpaid                      20          20\n"));

    ck_assert_int_eq(ask(service, "GET", voucher, "?format=json", ADMIN), 200);
    ck_assert(http_header(&reply, "Content-Type", type));
    ck_assert_str_eq(type, "application/json");
}

TEST(what_is_asked_wrongly_is_refused)
{
    static const char *const bad[] = {"?format=", "?format=xml", "?format=CSV", "?format=csv&format=csv", "?format"};
    char voucher[VOUCHER_ID_SIZE];
    struct service *service = service_start(NULL);
    voucher_on_sale(service, STOCK, voucher);
    for (size_t i = 0; i < COUNT(bad); i++) {
        (void)ask(service, "GET", voucher, bad[i], ADMIN);
        http_must_be_problem(&reply, 422, "BAD_PARAMETER");
    }
    (void)ask(service, "GET", voucher, "", "");
    http_must_be_problem(&reply, 401, "UNAUTHENTICATED");
    (void)ask(service, "GET", voucher, "", "X-User-Id: alice\r\n");
    http_must_be_problem(&reply, 401, "UNAUTHENTICATED");
    (void)ask(service, "GET", "999999999", "", ADMIN);
    http_must_be_problem(&reply, 404, "UNKNOWN_VOUCHER");
    (void)ask(service, "GET", "x", "", ADMIN);
    http_must_be_problem(&reply, 400, "BAD_VOUCHER_ID");
    (void)ask(service, "POST", voucher, "", ADMIN);
    http_must_be_problem(&reply, 405, "METHOD_NOT_ALLOWED");
    ck_assert_int_eq(ask(service, "GET", voucher, "?other=1", ADMIN), 422);
}

SUITE(.begin = setup, .teardown = teardown, .in_one_process = true);
