// Views of orders and vouchers when the stores hold many, or invalid data.
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "books.h"
#include "http.h"
#include "service_log.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { STOCK = 5, MANY = 103, LISTED = 100, PATH_SIZE = 64 };

#define ADMIN "Authorization: Bearer admin-token-of-the-tests\r\n"

static void setup(void)
{
    stack_start(STACK_ALL);
}

// The number of listed orders with this status; NULL: of all.
static int orders_with(const struct http_reply *reply, const char *status)
{
    json_t *json = json_loads(reply->body, 0, NULL), *order;
    ck_assert_msg(json != NULL, "%s", reply->body);
    size_t i;
    int count = 0;
    json_array_foreach(json_object_get(json, "orders"), i, order)
    {
        const char *its = json_string_value(json_object_get(order, "status"));
        ck_assert_ptr_nonnull(its);
        count += status == NULL || strcmp(its, status) == 0;
    }
    json_decref(json);
    return count;
}

TEST(settled_orders_past_the_end_of_the_list_are_not_pending)
{
    static char vouchers[MANY][VOUCHER_ID_SIZE];
    struct service *service = service_start(NULL);
    struct http_reply reply;
    for (int i = 0; i < MANY; i++) {
        voucher_on_sale(service, STOCK, vouchers[i]);
        ck_assert_int_eq(http_buy_patiently(service, vouchers[i], "zoe", &reply), 201);
    }
    ck_assert_int_eq(http_get(service, "/orders", "zoe", &reply), 200);
    ck_assert_int_eq(orders_with(&reply, "pending"), 0);
    ck_assert_int_eq(orders_with(&reply, NULL), LISTED);

    db_hold_orders(); // pending orders are listed, too
    char late[VOUCHER_ID_SIZE];
    voucher_on_sale(service, STOCK, late);
    ck_assert_int_eq(http_buy_async(service, late, "zoe", &reply), 202);
    WAIT_FOR(http_get(service, "/orders", "zoe", &reply) == 200); // between the writer's attempts
    ck_assert_int_eq(orders_with(&reply, "pending"), 1);
    ck_assert_int_eq(orders_with(&reply, NULL), LISTED + 1);
    db_let_orders_go();
    books_must_balance(vouchers[0]);
    books_must_balance(late);
}

// ---- data written into Redis by hand ----

// Keeps the service from repairing the voucher during the test.
static void keep_broken(const char *voucher)
{
    redis_run("SET seckill:lock:rebuild:{%s} test PX 60000", voucher);
}

static void may_be_mended(const char *voucher)
{
    redis_run("DEL seckill:lock:rebuild:{%s}", voucher);
    books_must_balance(voucher);
}

// An id that leads to the voucher, but belongs to no order.
static void path_of_no_order(const char *voucher, char path[PATH_SIZE])
{
    db_text(
        path, PATH_SIZE,
        "SELECT '/orders/00000000-0000-7000-8000-000000' || lpad(to_hex(slot::integer << 10 | epoch::integer), 6, '0')"
        "  FROM voucher_stock WHERE voucher_id = %s",
        voucher);
}

TEST(what_is_no_order_id_is_not_shown)
{
    static const char *const forged[] = {
        "\",\"status\":\"paid\",\"x\":\"0123456789abc", // as long as an order id
        "00000000-0000-7000-8000-00000000000G",
        "short",
        "00000000-0000-7000-8000-0000000000001",
    };
    struct service *service = service_start(ENV("SECKILL_PG_TIMEOUT_MS=30000"));
    char voucher[VOUCHER_ID_SIZE], path[PATH_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    path_of_no_order(voucher, path);
    db_hold_orders(); // Redis is queried for vouchers with pending orders
    ck_assert_int_eq(http_buy_async(service, voucher, "bob", &reply), 202);
    keep_broken(voucher);
    for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
        redis_run("HSET seckill:{%s}:buyers eve %s", voucher, forged[i]);
        ck_assert_int_eq(http_get(service, "/orders", "eve", &reply), 200);
        ck_assert_str_eq(reply.body, "{\"orders\":[],\"complete\":false}"); // there are more than 64 vouchers
        ck_assert_int_eq(http_get(service, path, "eve", &reply), 404);
    }
    db_let_orders_go();
    service_log_must_have(service, 1, "a buyer's order id is none");
    redis_run("HDEL seckill:{%s}:buyers eve", voucher);
    may_be_mended(voucher);
}

static void state_must_be(struct service *service, const char *voucher, const char *expected)
{
    char path[PATH_SIZE];
    struct http_reply reply;
    (void)snprintf(path, sizeof path, "/admin/vouchers/%.20s", voucher);
    ck_assert_int_eq(http_ask(service, "GET", path, ADMIN, NULL, &reply), 200);
    json_t *json = json_loads(reply.body, 0, NULL);
    ck_assert_msg(json != NULL, "%s", reply.body);
    const char *state = json_string_value(json_object_get(json_object_get(json, "redis"), "state"));
    ck_assert_msg(state != NULL && strcmp(state, expected) == 0, "%s, not %s", reply.body, expected);
    json_decref(json);
}

TEST(the_admin_sees_known_states_only)
{
    static const struct {
        const char *state, *shown;
    } rows[] = {
        {"open", "open"},       {"closed", "closed"},      {"loading", "loading"},
        {"Open", "unreadable"}, {"open\"x", "unreadable"}, {"a\nb", "unreadable"},
        {"\x01", "unreadable"}, {"\xff", "unreadable"},    {"opened", "unreadable"},
    };
    struct service *service = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    keep_broken(voucher);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redis_run("HSET seckill:{%s}:voucher state %s", voucher, rows[i].state);
        state_must_be(service, voucher, rows[i].shown);
    }
    redis_run("DEL seckill:{%s}:voucher", voucher);
    state_must_be(service, voucher, "missing");
    redis_run("SET seckill:{%s}:voucher x", voucher);
    state_must_be(service, voucher, "unreadable");
    redis_run("DEL seckill:{%s}:voucher", voucher);
    may_be_mended(voucher);
}

SUITE(.timeout_s = 120, .begin = setup, .teardown = service_stop_all, .in_one_process = true);
