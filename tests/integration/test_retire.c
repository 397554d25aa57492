// Retiring a sale: some time after its end, with no open work, its buyers leave Redis and a mark stays. The results
// stay known, only an admin can load it again, and a small Redis carries one sale after the other.
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "books.h"
#include "proc.h"
#include "sales.h"
#include "service_log.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { STOCK = 10, PATH_SIZE = 64, ROUNDS = 2 };
enum { SALES = 5, SALE_BUYERS = 5000, SALES_FULL = 20, SALE_BUYERS_FULL = 100000, MEMORY_FULL = 64 << 20 };

#define SOON     "SECKILL_RETIRE_AFTER_MS=0", "SECKILL_LOCK_TTL_MS=1000"
#define STUBBORN "SECKILL_BATCH_MAX=1", "SECKILL_PG_TIMEOUT_MS=30000", "SECKILL_REDIS_TIMEOUT_MS=5000"

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void teardown(void)
{
    redis_run("CONFIG SET maxmemory 0");
    sales_refuse_none();
    service_stop_all();
    db_run("TRUNCATE voucher_order"); // the next test needs empty lists
}

// ---- a sale that is over ----

// Retired in both stores, with only the mark left in Redis.
static bool is_retired(const char *voucher)
{
    return sales_redis_has(voucher, "retired") && redis_number("HLEN seckill:{%s}:voucher", voucher) == 2 &&
           redis_number("EXISTS seckill:{%s}:buyers seckill:{%s}:journal", voucher, voucher) == 0 &&
           db_number("SELECT count(*) FROM seckill_voucher WHERE id = %s AND state = 'retired'", voucher) == 1;
}

// Sells a voucher to alice, ends the sale and waits until it is retired. Returns alice's order.
static void sell_and_retire(const struct service *service, char voucher[VOUCHER_ID_SIZE], char id[ORDER_ID_SIZE])
{
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    db_text(id, ORDER_ID_SIZE, "SELECT id FROM voucher_order WHERE voucher_id = %s", voucher);
    sales_end(voucher);
    WAIT_FOR(is_retired(voucher));
}

static void must_be_refused(const struct service *service, const char *voucher, const char *user, const char *code,
                            const char *id)
{
    char value[HTTP_FIELD_SIZE];
    struct http_reply reply;
    WAIT_FOR(http_buy(service, voucher, user, &reply) != 503);
    http_must_be_problem(&reply, 409, code);
    ck_assert(http_member(&reply, "order_id", value) == (id != NULL));
    if (id != NULL)
        ck_assert_str_eq(value, id);
}

static void must_list_one(const struct service *service, const char *user, const char *status)
{
    struct http_reply reply;
    WAIT_FOR(http_get(service, "/orders", user, &reply) == 200);
    json_t *json = json_loads(reply.body, 0, NULL), *orders = json_object_get(json, "orders");
    ck_assert_uint_eq(json_array_size(orders), 1);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(orders, 0), "status")), status);
    ck_assert(json_is_true(json_object_get(json, "complete")));
    json_decref(json);
}

// Sends every possible request for it, as every kind of caller.
static void ask_everything(const struct service *service, const char *voucher, const char *id)
{
    char path[PATH_SIZE], value[HTTP_FIELD_SIZE];
    struct http_reply reply;
    must_be_refused(service, voucher, "alice", "ALREADY_ORDERED", id);
    must_be_refused(service, voucher, "late", "ENDED", NULL);
    WAIT_FOR(sales_order_is(service, id, "alice", "unpaid"));
    ck_assert_int_eq(sales_order(service, id, "mallory", value), 404);
    must_list_one(service, "alice", "unpaid");
    (void)snprintf(path, sizeof path, "/vouchers/%s", voucher);
    WAIT_FOR(http_get(service, path, NULL, &reply) == 200);
    ck_assert(http_member(&reply, "state", value));
    ck_assert_str_eq(value, "retired");
    WAIT_FOR(sales_admin(service, "GET", voucher, "", &reply) == 200);
}

TEST(a_sale_that_is_over_leaves_redis)
{
    struct service *service = service_start(ENV(SOON)), *other = service_start(ENV(SOON));
    char voucher[VOUCHER_ID_SIZE], id[ORDER_ID_SIZE];
    sell_and_retire(service, voucher, id);
    int64_t epoch = voucher_epoch(voucher);
    ask_everything(service, voucher, id);
    ask_everything(other, voucher, id);
    ask_everything(service_start(ENV(SOON)), voucher, id); // starts after it was retired
    ck_assert(is_retired(voucher));

    // The mark is lost with Redis's data; other sales are loaded again.
    char current[VOUCHER_ID_SIZE];
    voucher_on_sale(service, STOCK, current);
    http_must_buy(other, current, "bob");
    redis_run("FLUSHALL");
    WAIT_FOR(sales_redis_has(current, "open"));
    ask_everything(service, voucher, id);
    ask_everything(other, voucher, id);
    ck_assert_int_eq(redis_number("EXISTS seckill:{%s}:voucher seckill:{%s}:buyers", voucher, voucher), 0);
    ck_assert_int_eq(voucher_epoch(voucher), epoch); // nobody has tried to rebuild it
}

TEST(an_admin_loads_it_again)
{
    struct service *service = service_start(ENV("SECKILL_RETIRE_AFTER_MS=600000")), *other = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE], id[ORDER_ID_SIZE];
    struct http_reply reply;
    sell_and_retire(service, voucher, id);
    WAIT_FOR(sales_admin(other, "POST", voucher, "/reconcile", &reply) == 200);
    ck_assert_int_eq(redis_number("HLEN seckill:{%s}:buyers", voucher), 1);
    ck_assert(!sales_redis_has(voucher, "retired"));
    must_be_refused(service, voucher, "alice", "ALREADY_ORDERED", id);
    must_be_refused(other, voucher, "late", "ENDED", NULL);
    ck_assert(sales_order_is(other, id, "alice", "unpaid"));
}

// ---- after its orders were archived ----

static void archive_all(void)
{
    char output[4096];
    const char *const words[] = {"archive", proc_scratch(), "0", NULL};
    int code = service_run(words, ENV(stack_keeper_setting()), output, sizeof output);
    ck_assert_msg(code == 0, "%s", output);
}

// The report's lines on units and orders.
static void account_of(const struct service *service, const char *voucher, char out[HTTP_FIELD_SIZE])
{
    char verdict[HTTP_FIELD_SIZE];
    struct http_reply reply;
    WAIT_FOR(sales_admin(service, "GET", voucher, "/settlement", &reply) == 200);
    ck_assert(http_member(&reply, "verdict", verdict));
    json_t *json = json_loads(reply.body, 0, NULL);
    char *units = json_dumps(json_object_get(json, "units"), JSON_SORT_KEYS | JSON_COMPACT);
    char *orders = json_dumps(json_object_get(json, "orders"), JSON_SORT_KEYS | JSON_COMPACT);
    (void)snprintf(out, HTTP_FIELD_SIZE, "%.20s %.100s %.100s", verdict, units == NULL ? "" : units,
                   orders == NULL ? "" : orders);
    free(units);
    free(orders);
    json_decref(json);
}

TEST(late_callers_are_told_that_its_orders_are_archived)
{
    struct service *service = service_start(ENV(SOON)), *other = service_start(ENV(SOON));
    char voucher[VOUCHER_ID_SIZE], id[ORDER_ID_SIZE], before[HTTP_FIELD_SIZE], after[HTTP_FIELD_SIZE], path[PATH_SIZE];
    struct http_reply reply;
    sell_and_retire(service, voucher, id);
    account_of(other, voucher, before);
    archive_all();
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s", voucher), 0);
    account_of(other, voucher, after);
    ck_assert_str_eq(after, before);
    for (int i = 0; i < 2; i++) {
        const struct service *asked = i == 0 ? service : other;
        static const char *const users[] = {"alice", "late"};
        for (size_t user = 0; user < 2; user++) {
            WAIT_FOR(http_buy(asked, voucher, users[user], &reply) != 503);
            http_must_be_problem(&reply, 410, "ARCHIVED");
        }
        (void)snprintf(path, sizeof path, "/orders/%s", id);
        WAIT_FOR(http_get(asked, path, "alice", &reply) != 503);
        http_must_be_problem(&reply, 410, "ARCHIVED");
        (void)snprintf(path, sizeof path, "/orders/%s/cancel", id);
        WAIT_FOR(http_ask(asked, "POST", path, "X-User-Id: alice\r\n", NULL, &reply) != 503);
        http_must_be_problem(&reply, 410, "ARCHIVED");
        ck_assert_int_eq(sales_admin(asked, "POST", voucher, "/reconcile", &reply), 410);
        WAIT_FOR(http_get(asked, "/orders", "alice", &reply) == 200);
        ck_assert_ptr_null(strstr(reply.body, id));
    }
    ck_assert(is_retired(voucher));
}

// ---- what prevents retiring ----

// The background job asks PostgreSQL, which refuses, and leaves the voucher for a while. Redis is not closed for it:
// the epoch stays, and alice always gets her order.
static void must_not_retire(const struct service *service, const char *voucher, int buyers)
{
    struct http_reply reply;
    char current[VOUCHER_ID_SIZE];
    int64_t epoch = voucher_epoch(voucher);
    service_log_must_have(service, 1, "voucher not retired yet");
    for (int i = 0; i < ROUNDS; i++) { // each shows that a background round has passed
        (void)snprintf(current, sizeof current, "%" PRId64, sales_make(1, STOCK));
        do {
            (void)http_buy(service, voucher, "alice", &reply);
            http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
        } while (!sales_redis_has(current, "open"));
    }
    ck_assert_int_eq(voucher_epoch(voucher), epoch);
    ck_assert_int_eq(service_log_count(service, "voucher not retired yet"), 1);
    ck_assert(!is_retired(voucher));
    ck_assert_int_eq(redis_number("HLEN seckill:{%s}:buyers", voucher), buyers);
}

TEST(a_dead_letter_keeps_it)
{
    struct service *service = service_start(ENV(SOON, "SECKILL_LOG_LEVEL=debug"));
    char voucher[VOUCHER_ID_SIZE], id[ORDER_ID_SIZE], rest[PATH_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    sales_refuse_user("victor");
    sales_accept(service, voucher, "victor", id);
    WAIT_FOR(db_number("SELECT count(*) FROM dead_letter WHERE voucher_id = %s", voucher) == 1);
    sales_end(voucher);
    must_not_retire(service, voucher, 2);
    WAIT_FOR(sales_order_is(service, id, "victor", "pending"));
    int64_t letter = db_number("SELECT id FROM dead_letter WHERE voucher_id = %s", voucher);
    (void)snprintf(rest, sizeof rest, "/dead-letters/%" PRId64 "/write-off", letter);
    WAIT_FOR(sales_admin(service, "POST", voucher, rest, &reply) == 200);
    // Another instance does not wait for the pause after the refusal.
    service_stop_all();
    struct service *other = service_start(ENV(SOON));
    WAIT_FOR(is_retired(voucher));
    WAIT_FOR(sales_order_is(other, id, "victor", "refused"));
}

// By its time it should have expired, but expiry may be paused.
TEST(an_unpaid_order_keeps_it)
{
    struct service *service = service_start(ENV(SOON, "SECKILL_LOG_LEVEL=debug"));
    char voucher[VOUCHER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    db_run("UPDATE voucher_order SET created_at = now() + interval '1 h' WHERE voucher_id = %s", voucher);
    db_run("UPDATE seckill_voucher SET begin_at = now() - interval '4 days', end_at = now() - interval '3 days',"
           " pay_within_s = 1 WHERE id = %s",
           voucher);
    must_not_retire(service, voucher, 1);
}

TEST(a_journal_that_is_not_empty_keeps_it)
{
    struct service *service = service_start(ENV(SOON, "SECKILL_PG_TIMEOUT_MS=30000"));
    char voucher[VOUCHER_ID_SIZE], current[VOUCHER_ID_SIZE], id[ORDER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    db_hold_orders();
    sales_accept(service, voucher, "walter", id);
    int64_t epoch = voucher_epoch(voucher);
    sales_end(voucher);
    for (int i = 0; i < ROUNDS; i++) { // each shows that a background round has passed
        (void)snprintf(current, sizeof current, "%" PRId64, sales_make(1, STOCK));
        WAIT_FOR(sales_redis_has(current, "open"));
    }
    ck_assert_int_eq(voucher_epoch(voucher), epoch);
    ck_assert(sales_order_is(service, id, "walter", "pending"));
    db_let_orders_go();
    WAIT_FOR(is_retired(voucher));
    ck_assert(sales_order_is(service, id, "walter", "unpaid"));
}

// Redis lost the order, and the sale was retired while the accepting instance was paused.
TEST(an_order_that_comes_back_too_late)
{
    struct service *service = service_start(ENV(STUBBORN)), *other = service_start(ENV(SOON));
    char busy[VOUCHER_ID_SIZE], voucher[VOUCHER_ID_SIZE], id[ORDER_ID_SIZE], first[ORDER_ID_SIZE];
    char reason[HTTP_FIELD_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    sales_beside(service, STOCK, voucher, busy);
    db_hold_orders();
    sales_accept(service, busy, "first", first); // keeps the writer busy
    WAIT_FOR(db_orders_held_ms() > 0);
    sales_accept(service, voucher, "walter", id);
    service_signal(service, SIGSTOP);
    redis_run("FLUSHALL");
    db_let_orders_go();
    sales_end(voucher);
    WAIT_FOR(is_retired(voucher));
    service_signal(service, SIGCONT);
    WAIT_FOR(db_number("SELECT count(*) FROM voucher_order WHERE id = '%s'", id) == 1);
    db_text(reason, sizeof reason, "SELECT status || ' ' || reason FROM voucher_order WHERE id = '%s'", id);
    ck_assert_str_eq(reason, "refused GRANT_LOST");
    ck_assert(sales_order_is(service, id, "walter", "refused"));
    ck_assert(sales_order_is(other, id, "walter", "refused"));
    must_list_one(other, "walter", "refused");
    WAIT_FOR(sales_order_is(other, first, "first", "unpaid")); // others are not affected
    ck_assert(is_retired(voucher));
    ck_assert_int_eq(db_number("SELECT stock FROM voucher_stock WHERE voucher_id = %s", voucher), STOCK);
}

// ---- one after the other ----

static int64_t used_memory(void)
{
    static char info[1 << 14];
    ck_assert(redis_text(info, sizeof info, "INFO memory"));
    return strtoll(strstr(info, "used_memory:") + strlen("used_memory:"), NULL, 10);
}

// Writes orders by SQL and loads them by a rebuild; Redis needs as much memory as for bought ones. Returns it.
static int64_t hold_sale(const struct service *service, int buyers)
{
    char voucher[VOUCHER_ID_SIZE], id[ORDER_ID_SIZE];
    struct http_reply reply;
    int64_t before = used_memory();
    voucher_on_sale(service, buyers + 1, voucher);
    sales_add_orders(strtoll(voucher, NULL, 10), 1, buyers);
    WAIT_FOR(sales_admin(service, "POST", voucher, "/reconcile", &reply) == 200);
    http_must_buy(service, voucher, "alice"); // and it sells
    ck_assert_int_eq(redis_number("HLEN seckill:{%s}:buyers", voucher), buyers + 1);
    int64_t size = used_memory() - before;
    sales_end(voucher);
    WAIT_FOR(is_retired(voucher));
    db_text(id, sizeof id, "SELECT id FROM voucher_order WHERE voucher_id = %s AND user_id = 'p1'", voucher);
    must_be_refused(service, voucher, "p1", "ALREADY_ORDERED", id);
    return size;
}

TEST(one_sale_after_the_other)
{
    STACK_SKIP_CLUSTER("it measures the memory of one Redis");
    int sales = sales_full() ? SALES_FULL : SALES, buyers = sales_full() ? SALE_BUYERS_FULL : SALE_BUYERS;
    struct service *service = service_start(ENV(SOON));
    int64_t size = hold_sale(service, buyers), before = used_memory();
    int64_t room = sales_full() ? MEMORY_FULL : before + 5 * size / 2; // not enough for three of them
    redis_run("CONFIG SET maxmemory %lld", (long long)room);
    for (int i = 1; i < sales; i++)
        (void)hold_sale(service, buyers);
    (void)printf("%d sales of %d: %" PRId64 " bytes each, room for %" PRId64 "\n", sales, buyers, size, room);
}

SUITE(.timeout_s = 300, .begin = setup, .teardown = teardown, .in_one_process = true);
