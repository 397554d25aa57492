// A voucher made on one instance sells on every other, without a 404 in between, whether or not notifications arrive.
// Ids without a voucher cost a few statements, however many clients request them.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "books.h"
#include "sales.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { STOCK = 10, VOUCHERS = 5, CLIENTS = 64, ROUNDS = 10, REQUEST_SIZE = 256 };

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void teardown(void)
{
    sales_notify_again();
    service_stop_all();
}

// ---- new ones ----

// The first answers may be "loading", but never "no such voucher".
static void must_sell_at_once(const struct service *service, const char *voucher, const char *user)
{
    struct http_reply reply;
    uint64_t since_ms = sk_monotonic_ms();
    WAIT_FOR(http_buy(service, voucher, user, &reply) != 503);
    ck_assert_msg(reply.status == 201, "%s %s", reply.text, reply.body);
    sales_note("first sold on another instance", since_ms);
}

static void must_be_shown_at_once(const struct service *service, const char *voucher)
{
    char path[REQUEST_SIZE];
    struct http_reply reply;
    (void)snprintf(path, sizeof path, "/vouchers/%s", voucher);
    WAIT_FOR(http_get(service, path, NULL, &reply) != 503);
    ck_assert_msg(reply.status == 200, "%s %s", reply.text, reply.body);
}

static void make_and_sell(struct service *service, struct service *other)
{
    char voucher[VOUCHER_ID_SIZE];
    for (int i = 0; i < VOUCHERS; i++) {
        voucher_on_sale(service, STOCK, voucher);
        if (i % 2 == 0)
            must_be_shown_at_once(other, voucher);
        must_sell_at_once(other, voucher, "alice");
        books_must_balance(voucher);
    }
}

TEST(a_new_voucher_sells_on_every_instance)
{
    struct service *service = service_start(NULL);
    make_and_sell(service, service_start(NULL));
}

TEST(a_new_voucher_sells_where_no_notification_passes)
{
    struct service *service = service_start(NULL), *other = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE];
    sales_stop_notifying();
    make_and_sell(service, other);

    // No client asks for it: the poll finds it, and the instances load it. SQL makes it, so no instance knows it.
    (void)snprintf(voucher, sizeof voucher, "%" PRId64, sales_make(1, STOCK));
    uint64_t since_ms = sk_monotonic_ms();
    WAIT_FOR(sales_redis_has(voucher, "open"));
    sales_note("loaded without a notification", since_ms);
}

// ---- unknown ids ----

static void ask_many(const struct service *service, const char *format)
{
    static int fds[CLIENTS];
    char request[REQUEST_SIZE];
    struct http_reply reply;
    for (int i = 0; i < CLIENTS; i++)
        ck_assert_int_ge(fds[i] = http_connect(service), 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            long long id = 100000000000000000LL + (long long)random() * 1000003LL + i; // 18 digits
            (void)snprintf(request, sizeof request, format, id, i);
            ck_assert(http_send_text(fds[i], request));
        }
        for (int i = 0; i < CLIENTS; i++) {
            ck_assert(http_receive(fds[i], &reply));
            http_must_be_problem(&reply, 404, "UNKNOWN_VOUCHER");
        }
    }
    for (int i = 0; i < CLIENTS; i++)
        (void)close(fds[i]);
}

// Of the whole database; a connection reports its statements at its end at the latest.
static int64_t statements(void)
{
    WAIT_FOR(db_number("SELECT count(*) FROM pg_stat_activity WHERE usename = 'seckill'") == 0);
    return db_number("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'seckill'");
}

TEST(made_up_ids_cost_a_few_statements)
{
    int64_t before = statements();
    struct service *service = service_start(NULL);
    ask_many(service, "POST /seckill/%lld HTTP/1.1\r\nHost: test\r\nX-User-Id: user%d\r\n\r\n");
    ask_many(service, "GET /vouchers/%lld HTTP/1.1\r\nHost: test\r\nX-Number: %d\r\n\r\n");
    service_stop_all();
    int64_t count = statements() - before;
    (void)printf("%d made-up ids: %" PRId64 " statements\n", 2 * CLIENTS * ROUNDS, count);
    ck_assert_int_lt(count, stack_shards() * 2 * CLIENTS * ROUNDS / 4);
}

// Ids up to the newest that are not in the catalogue: one was never assigned, the other is retired.
TEST(old_ids_are_asked_of_postgres)
{
    struct service *service = service_start(ENV("SECKILL_RETIRE_AFTER_MS=0")), *other = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE], gap[VOUCHER_ID_SIZE], path[REQUEST_SIZE], value[HTTP_FIELD_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    int64_t never = db_number("SELECT nextval(pg_get_serial_sequence('seckill_voucher', 'id'))");
    (void)snprintf(gap, sizeof gap, "%" PRId64, never);
    ck_assert_int_gt(sales_make(1, STOCK), never);
    sales_end(voucher);
    WAIT_FOR(sales_redis_has(voucher, "retired"));
    for (int i = 0; i < 2; i++, service = other) {
        WAIT_FOR(http_buy(service, gap, "alice", &reply) != 503);
        http_must_be_problem(&reply, 404, "UNKNOWN_VOUCHER");
        (void)snprintf(path, sizeof path, "/vouchers/%s", gap);
        ck_assert_int_eq(http_get(service, path, NULL, &reply), 404);
        WAIT_FOR(http_buy(service, voucher, "alice", &reply) != 503);
        http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
        WAIT_FOR(http_buy(service, voucher, "late", &reply) != 503);
        http_must_be_problem(&reply, 409, "ENDED");
        (void)snprintf(path, sizeof path, "/vouchers/%s", voucher);
        ck_assert_int_eq(http_get(service, path, NULL, &reply), 200);
        ck_assert(http_member(&reply, "state", value));
        ck_assert_str_eq(value, "retired");
    }
}

SUITE(.timeout_s = 120, .begin = setup, .teardown = teardown, .in_one_process = true);
