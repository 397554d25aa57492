// GET /metrics of a running service: who may read it, in which format, and whether its values match what was done.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "books.h"
#include "sales.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

#define ADMIN  "Authorization: Bearer admin-token-of-the-tests\r\n"
#define READER "Authorization: Bearer reader-token-0001\r\n"
#define SHOP   "Authorization: Bearer payments-token-01\r\n"
#define LINES  "reader read reader-token-0001\nshop payments payments-token-01\n"
#define OPEN   "Accept: application/openmetrics-text;version=1.0.0\r\n"

enum { STOCK = 3, NAME_SIZE = 256 };

static struct http_reply reply;

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void becomes(const struct service *service, const char *name, double value)
{
    WAIT_FOR(http_sample(service, name) == value);
}

// Of the i-th server of a store.
static void must_be_of_server(const struct service *service, const char *what, int i, const char *store, double value)
{
    char name[NAME_SIZE], server[32];
    bool is_redis = strcmp(store, "redis") == 0;
    (void)snprintf(server, sizeof server, is_redis ? "127.0.0.1:%d" : "%d", is_redis ? stack_redis_port_of(i) : i);
    (void)snprintf(name, sizeof name, "seckill_server_%s{store=\"%s\",server=\"%s\"}", what, store, server);
    becomes(service, name, value);
    (void)snprintf(name, sizeof name, "seckill_server_answer_seconds_count{store=\"%s\",server=\"%s\"}", store, server);
    WAIT_FOR(http_sample(service, name) > 0);
}

TEST(readers_may_read_it)
{
    struct service *service = service_start(ENV("SECKILL_ADMIN_TOKENS=" LINES));
    ck_assert_int_eq(http_ask(service, "GET", "/metrics", READER, NULL, &reply), 200);
    http_ask(service, "GET", "/metrics", SHOP, NULL, &reply);
    http_must_be_problem(&reply, 403, "FORBIDDEN");
    http_ask(service, "GET", "/metrics", "", NULL, &reply);
    http_must_be_problem(&reply, 401, "UNAUTHENTICATED");
}

TEST(it_may_be_open)
{
    struct service *service = service_start(ENV("SECKILL_METRICS_OPEN=yes"));
    ck_assert_int_eq(http_ask(service, "GET", "/metrics", "", NULL, &reply), 200);
    http_ask(service, "GET", "/admin/vouchers", "", NULL, &reply);
    http_must_be_problem(&reply, 401, "UNAUTHENTICATED");
}

TEST(forms)
{
    struct service *service = service_start(NULL);
    char type[HTTP_FIELD_SIZE];
    ck_assert_int_eq(http_ask(service, "GET", "/metrics", ADMIN, NULL, &reply), 200);
    ck_assert(http_header(&reply, "Content-Type", type));
    ck_assert_str_eq(type, "text/plain; version=0.0.4; charset=utf-8");
    ck_assert_ptr_nonnull(strstr(reply.body, "\n# TYPE seckill_orders_placed_total counter\n"));
    ck_assert_ptr_null(strstr(reply.body, "# EOF"));
    ck_assert_int_eq(http_ask(service, "GET", "/metrics", ADMIN OPEN, NULL, &reply), 200);
    ck_assert(http_header(&reply, "Content-Type", type));
    ck_assert_str_eq(type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    ck_assert_ptr_nonnull(strstr(reply.body, "\n# TYPE seckill_orders_placed counter\n"));
    ck_assert_str_eq(reply.body + reply.body_len - 6, "# EOF\n");
}

#define BUY "method=\"POST\",route=\"/seckill/{voucher}\""

// With two reactors: each of them reports both.
TEST(a_sale_is_counted)
{
    struct service *service = service_start(ENV("SECKILL_REACTORS=2"));
    char voucher[VOUCHER_ID_SIZE], user[NAME_SIZE], name[NAME_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    ck_assert(http_sample(service, "seckill_http_requests_total{" BUY ",status=\"201\",code=\"PLACED\"}") == 0);
    for (int i = 0; i < STOCK; i++) {
        (void)snprintf(user, sizeof user, "u%d", i);
        http_must_buy(service, voucher, user);
    }
    ck_assert_int_eq(http_buy(service, voucher, "late", &reply), 409);
    ck_assert_int_eq(http_buy(service, voucher, "u0", &reply), 409);
    ck_assert_int_eq(http_ask(service, "GET", "/made/up", "", NULL, &reply), 404);
    ck_assert_int_eq(http_ask(service, "GET", "/seckill/1", "", NULL, &reply), 405);
    ck_assert(http_sample(service, "seckill_http_requests_total{" BUY ",status=\"201\",code=\"PLACED\"}") == STOCK);
    ck_assert(http_sample(service, "seckill_http_requests_total{" BUY ",status=\"409\",code=\"SOLD_OUT\"}") == 1);
    ck_assert(http_sample(service, "seckill_http_requests_total{" BUY ",status=\"409\",code=\"ALREADY_ORDERED\"}") ==
              1);
    ck_assert(http_sample(service, "seckill_http_requests_total{method=\"other\",route=\"none\",status=\"404\","
                                   "code=\"NOT_FOUND\"}") == 1);
    ck_assert(http_sample(service, "seckill_http_requests_total{method=\"other\",route=\"none\",status=\"405\","
                                   "code=\"METHOD_NOT_ALLOWED\"}") == 1);
    ck_assert(http_sample(service, "seckill_orders_placed_total") == STOCK);
    ck_assert(http_sample(service, "seckill_order_durable_seconds_count") == STOCK);
    ck_assert(http_sample(service, "seckill_order_leg_seconds_count{leg=\"queue\"}") == STOCK);
    ck_assert(http_sample(service, "seckill_order_leg_seconds_count{leg=\"commit\"}") == STOCK);
    ck_assert(http_sample(service, "seckill_order_leg_seconds_count{leg=\"redis\"}") >= STOCK);
    ck_assert(http_sample(service, "seckill_batch_orders_sum{store=\"postgresql\"}") == STOCK);
    WAIT_FOR(http_sample(service, "seckill_http_request_duration_seconds_count{" BUY "}") >= STOCK + 2);
    ck_assert(http_sample(service, "seckill_reactors") == 2);
    ck_assert(http_sample(service, "seckill_reactors_ready") == 2);
    ck_assert(http_sample(service, "seckill_link_up{store=\"postgresql\",link=\"orders\"}") == 2);
    for (int i = 0; i < stack_redis_nodes(); i++) {
        must_be_of_server(service, "up", i, "redis", 2);
        must_be_of_server(service, "lost_total", i, "redis", 0);
    }
    for (int i = 0; i < stack_shards(); i++)
        must_be_of_server(service, "up", i, "postgresql", 2);
    ck_assert(http_sample(service, "process_cpu_seconds_total") > 0);
    ck_assert(http_sample(service, "process_open_fds") > 10);
    (void)snprintf(name, sizeof name, "seckill_voucher_remaining{voucher=\"%s\"}", voucher);
    becomes(service, name, 0);
    books_must_balance(voucher);
}

// It is read from Redis, whether or not PostgreSQL is there; the age of the audit's last round grows meanwhile.
TEST(a_journal_that_waits_is_seen)
{
    struct service *service = service_start(ENV(HASTY));
    char voucher[VOUCHER_ID_SIZE], id[ORDER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "first");
    postgres_stop();
    becomes(service, "seckill_link_up{store=\"postgresql\",link=\"orders\"}", 0);
    becomes(service, "seckill_link_lost_total{store=\"postgresql\",link=\"orders\"}", stack_shards());
    for (int i = 0; i < stack_shards(); i++) {
        must_be_of_server(service, "up", i, "postgresql", 0);
        must_be_of_server(service, "lost_total", i, "postgresql", 2); // both links
    }
    ck_assert(http_sample(service, "seckill_reactors_ready") == 1); // it takes orders
    sales_accept(service, voucher, "second", id);
    becomes(service, "seckill_orders{state=\"granted\"}", 1);
    becomes(service, "seckill_journal_entries", 1);
    WAIT_FOR(http_sample(service, "seckill_journal_oldest_seconds") > 2.0);
    WAIT_FOR(http_sample(service, "seckill_audit_round_age_seconds") > 2.0);
    postgres_start();
    WAIT_FOR(sales_order_is(service, id, "second", "unpaid"));
    becomes(service, "seckill_orders{state=\"granted\"}", 0);
    WAIT_FOR(http_sample(service, "seckill_audit_round_age_seconds") < 2.0);
    becomes(service, "seckill_journal_entries", 0);
    becomes(service, "seckill_journal_oldest_seconds", 0);
    books_must_balance(voucher);
}

// The watch rebuilds a voucher whose stores differ; one that differs again soon after is left to the operators.
TEST(a_voucher_whose_stores_differ_is_named)
{
    struct service *service = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE], name[NAME_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "first");
    (void)snprintf(name, sizeof name, "seckill_voucher_differs{voucher=\"%s\"}", voucher);
    ck_assert(http_sample(service, name) == -1);
    double rebuilds = http_sample(service, "seckill_rebuilds_total");
    redis_run("HINCRBY seckill:{%s}:voucher stock 1", voucher);
    WAIT_FOR(http_sample(service, "seckill_rebuilds_total") > rebuilds);
    redis_run("HINCRBY seckill:{%s}:voucher stock 1", voucher);
    becomes(service, name, 1);
    becomes(service, "seckill_books_differ", 1);
    redis_run("HINCRBY seckill:{%s}:voucher stock -1", voucher);
    becomes(service, name, -1);
    books_must_balance(voucher);
}

// A client above the connection limit waits until another one disconnects.
TEST(that_there_is_no_room_is_counted)
{
    enum { MOST = 16 };
    struct service *service = service_start(ENV("SECKILL_MAX_CONNECTIONS=16"));
    int fds[MOST + 1];
    double before = http_sample(service, "seckill_connections_full_total");
    for (int i = 0; i <= MOST; i++)
        fds[i] = http_connect(service);
    ck_assert(http_send_text(fds[MOST], "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"));
    (void)close(fds[0]);
    ck_assert(http_receive(fds[MOST], &reply));
    ck_assert_int_eq(reply.status, 200);
    for (int i = 1; i <= MOST; i++)
        (void)close(fds[i]);
    WAIT_FOR(http_sample(service, "seckill_connections_full_total") > before);
}

SUITE(.begin = setup, .teardown = service_stop_all, .in_one_process = true);
