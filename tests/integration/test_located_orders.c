// Every instance finds an order by its id, and an accepted order is never "not found". This holds while it is pending,
// where its voucher is unknown yet, and if Redis has lost it and only a paused instance has it. The rule depends on the
// epoch in the id, not on a clock, so the tests let epochs pass, not time.
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "books.h"
#include "sales.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { STOCK = 20, BUSY_MAX = 64, LOST = 4, REBUILDS = 6, USER_SIZE = 24, SEARCHED = 4000 };

// Its orders stay with it: neither it nor other instances give them up while it is paused.
#define STUBBORN "SECKILL_BATCH_MAX=1", "SECKILL_PG_TIMEOUT_MS=30000", "SECKILL_REDIS_TIMEOUT_MS=5000"
#define MADE_UP  "01a1fbe1-0c46-72f8-bdd2-587980274994"

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void teardown(void)
{
    sales_notify_again();
    service_stop_all();
}

static int listed(const struct service *service, const char *user, const char *status, bool *complete)
{
    struct http_reply reply;
    int count = 0;
    size_t i;
    WAIT_FOR(http_get(service, "/orders", user, &reply) == 200);
    json_t *json = json_loads(reply.body, 0, NULL), *order;
    ck_assert_ptr_nonnull(json);
    json_array_foreach(json_object_get(json, "orders"), i, order) count +=
        strcmp(json_string_value(json_object_get(order, "status")), status) == 0;
    *complete = json_is_true(json_object_get(json, "complete"));
    json_decref(json);
    return count;
}

static bool lists_all(const struct service *service, const char *user, const char *status, int count)
{
    bool complete;
    return listed(service, user, status, &complete) == count && complete;
}

// ---- pending ----

TEST(a_pending_order_is_found_by_every_instance)
{
    struct service *service = service_start(NULL), *other = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE], id[ORDER_ID_SIZE], status[HTTP_FIELD_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(other, voucher, "alice");
    db_hold_orders();
    sales_accept(service, voucher, "bob", id);
    ck_assert(sales_order_is(service, id, "bob", "pending"));
    ck_assert(sales_order_is(other, id, "bob", "pending"));
    ck_assert_int_eq(sales_order(service, id, "mallory", status), 404);
    ck_assert_int_eq(sales_order(other, id, "mallory", status), 404);
    ck_assert_int_eq(sales_order(other, MADE_UP, "bob", status), 404);
    ck_assert(lists_all(service, "bob", "pending", 1));
    ck_assert(lists_all(other, "bob", "pending", 1)); // also before this instance has learned that the voucher is busy
    ck_assert(lists_all(other, "alice", "unpaid", 1));
    db_let_orders_go();
    WAIT_FOR(sales_order_is(other, id, "bob", "unpaid"));
    WAIT_FOR(lists_all(other, "bob", "unpaid", 1));
    books_must_balance(voucher);
}

// Makes two vouchers in one slot: every instance knows `old`; `voucher`, still to be made, will get the id `next`.
static void make_neighbours(struct service *service, char old[VOUCHER_ID_SIZE], int64_t *next)
{
    char pair[2 * VOUCHER_ID_SIZE], *end;
    db_text(pair, sizeof pair,
            "WITH ids AS (SELECT n, slot_of(n::text) AS slot FROM generate_series("
            " (SELECT coalesce(max(id), 0) + 1 FROM seckill_voucher),"
            " (SELECT coalesce(max(id), 0) + %d FROM seckill_voucher)) AS n)"
            " SELECT a.n || ' ' || b.n FROM ids a JOIN ids b ON a.slot = b.slot AND a.n < b.n ORDER BY b.n LIMIT 1",
            SEARCHED);
    int64_t first = strtoll(pair, &end, 10);
    *next = strtoll(end, NULL, 10);
    db_run("ALTER TABLE seckill_voucher ALTER id RESTART WITH %" PRId64, first);
    voucher_on_sale(service, STOCK, old);
    ck_assert_int_eq(strtoll(old, NULL, 10), first);
    db_run("ALTER TABLE seckill_voucher ALTER id RESTART WITH %" PRId64, *next);
}

// No notification is sent: the other instance learns of the voucher at its next poll, or through the request.
static void must_be_found_before_its_voucher_is_known(struct service *service, struct service *other)
{
    char voucher[VOUCHER_ID_SIZE], id[ORDER_ID_SIZE];
    bool complete;
    db_hold_orders();
    voucher_on_sale(service, STOCK, voucher);
    sales_accept(service, voucher, "bob", id);
    ck_assert(listed(other, "bob", "pending", &complete) == 1 || !complete);
    ck_assert(sales_order_is(other, id, "bob", "pending"));
    db_let_orders_go();
    WAIT_FOR(sales_order_is(other, id, "bob", "unpaid"));
    books_must_balance(voucher);
}

TEST(an_order_of_a_voucher_that_is_not_known_yet)
{
    STACK_SKIP_SHARDS("the id of the next voucher depends on its shard");
    struct service *service = service_start(NULL), *other = service_start(NULL);
    char old[VOUCHER_ID_SIZE];
    int64_t next;
    sales_stop_notifying();
    must_be_found_before_its_voucher_is_known(service, other);
    make_neighbours(service, old, &next);
    http_must_buy(other, old, "alice"); // now it knows one voucher in that slot
    must_be_found_before_its_voucher_is_known(service, other);
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_stock a JOIN voucher_stock b ON a.slot = b.slot"
                               " WHERE a.voucher_id = %s AND b.voucher_id = %" PRId64,
                               old, next),
                     1);
}

// ---- more vouchers than a list queries ----

TEST(a_list_says_when_it_is_not_complete)
{
    static char vouchers[BUSY_MAX + 1][VOUCHER_ID_SIZE];
    struct service *service = service_start(ENV("SECKILL_PG_TIMEOUT_MS=30000"));
    char id[ORDER_ID_SIZE];
    bool complete;
    int64_t first = sales_make(BUSY_MAX + 1, STOCK);
    for (int i = 0; i <= BUSY_MAX; i++) {
        (void)snprintf(vouchers[i], VOUCHER_ID_SIZE, "%" PRId64, first + i);
        http_must_buy(service, vouchers[i], "alice");
    }
    db_hold_orders();
    for (int i = 0; i < BUSY_MAX; i++)
        sales_accept(service, vouchers[i], "lister", id);
    WAIT_FOR(listed(service, "lister", "pending", &complete) == BUSY_MAX); // busy vouchers come first
    ck_assert(!complete);
    sales_accept(service, vouchers[BUSY_MAX], "lister", id);
    ck_assert_int_eq(listed(service, "lister", "pending", &complete), BUSY_MAX);
    ck_assert(!complete);
    ck_assert(sales_order_is(service, id, "lister", "pending")); // its own URL has no such limit
    db_let_orders_go();
    WAIT_FOR(listed(service, "lister", "unpaid", &complete) == BUSY_MAX + 1);
    books_must_balance(vouchers[0]);
    books_must_balance(vouchers[BUSY_MAX]);
}

// ---- lost by Redis, held by a paused instance ----

static int64_t epoch_in(const char *id)
{
    return strtoll(id + strlen(id) - 6, NULL, 16) & 1023;
}

// `service` accepts the orders, holds them in memory alone, and is paused when this returns.
static void lose(struct service *service, const char *voucher, char ids[LOST][ORDER_ID_SIZE])
{
    char busy[VOUCHER_ID_SIZE], id[ORDER_ID_SIZE], user[USER_SIZE];
    sales_beside(service, STOCK, voucher, busy);
    db_hold_orders();
    sales_accept(service, busy, "first", id); // keeps the writer busy
    WAIT_FOR(db_orders_held_ms() > 0);
    for (int i = 0; i < LOST; i++) {
        (void)snprintf(user, sizeof user, "lost%d", i);
        sales_accept(service, voucher, user, ids[i]);
    }
    service_signal(service, SIGSTOP);
    redis_run("FLUSHALL");
    db_let_orders_go();
}

static void must_not_be_known(const struct service *service, char ids[LOST][ORDER_ID_SIZE])
{
    char user[USER_SIZE], status[HTTP_FIELD_SIZE];
    for (int i = 0; i < LOST; i++) {
        (void)snprintf(user, sizeof user, "lost%d", i);
        ck_assert_int_eq(sales_order(service, ids[i], user, status), 503);
    }
}

static void must_be_unpaid(const struct service *service, char ids[LOST][ORDER_ID_SIZE])
{
    char user[USER_SIZE];
    for (int i = 0; i < LOST; i++) {
        (void)snprintf(user, sizeof user, "lost%d", i);
        WAIT_FOR(sales_order_is(service, ids[i], user, "unpaid"));
    }
}

static void rebuild(const struct service *service, const char *voucher)
{
    struct http_reply reply;
    WAIT_FOR(sales_admin(service, "POST", voucher, "/reconcile", &reply) == 200);
}

// `behind`: the service does not know the newest epoch yet when it accepts the first order.
static void lose_and_find(struct service *service, struct service *other, const char *voucher, bool behind)
{
    char ids[LOST][ORDER_ID_SIZE], status[HTTP_FIELD_SIZE];
    int64_t epoch = voucher_epoch(voucher);
    lose(service, voucher, ids);
    ck_assert_int_eq(epoch_in(ids[0]), behind ? epoch - 1 : epoch);
    ck_assert_int_eq(epoch_in(ids[LOST - 1]), epoch);
    http_must_buy(other, voucher, "late"); // rebuilt
    must_not_be_known(other, ids);
    for (int i = 0; i < REBUILDS; i++) {
        rebuild(other, voucher);
        must_not_be_known(other, ids);
        ck_assert_int_eq(sales_order(other, MADE_UP, "mallory", status), 404);
    }
    ck_assert_int_gt(voucher_epoch(voucher), epoch + REBUILDS);
    service_signal(service, SIGCONT);
    must_be_unpaid(other, ids);
    must_be_unpaid(service, ids);
    books_must_balance(voucher);
}

TEST(an_order_that_redis_lost_is_never_unknown)
{
    struct service *service = service_start(ENV(STUBBORN)), *other = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    lose_and_find(service, other, voucher, false);
}

// No refusal cache: else a rebuild would hold the sale briefly, and the instance would learn of the epoch.
TEST(an_order_of_an_instance_that_is_behind_is_never_unknown)
{
    struct service *service = service_start(ENV(STUBBORN, "SECKILL_SOLD_OUT_MARK_MS=0")),
                   *other = service_start(ENV("SECKILL_SOLD_OUT_MARK_MS=0"));
    char voucher[VOUCHER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    rebuild(other, voucher);
    lose_and_find(service, other, voucher, true);
}

// The other half of the rule: 503 is answered only where an instance may still hold such an order.
TEST(what_no_instance_can_hold_is_not_found)
{
    struct service *service = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE], id[ORDER_ID_SIZE], slot[16], status[HTTP_FIELD_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    rebuild(service, voucher);
    http_must_buy(service, voucher, "alice");
    int64_t epoch = voucher_epoch(voucher);
    db_text(slot, sizeof slot, "SELECT slot FROM voucher_stock WHERE voucher_id = %s", voucher);
    const struct {
        int64_t epoch;
        int status;
    } rows[] = {{epoch - 2, 503}, {epoch - 1, 503}, {epoch, 404}, {epoch + 1, 404}, {1023, 404}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)snprintf(id, sizeof id, "01a1fbe1-0c46-72f8-bdd2-587980%06" PRIx64,
                       (uint64_t)strtol(slot, NULL, 10) << 10 | (uint64_t)rows[i].epoch);
        ck_assert_msg(sales_order(service, id, "mallory", status) == rows[i].status, "row %zu", i);
    }
}

SUITE(.timeout_s = 120, .begin = setup, .teardown = teardown, .in_one_process = true);
