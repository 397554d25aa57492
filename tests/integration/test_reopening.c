// A sale reopens at one instance while another still refuses from memory. A user who then wins and asks the second one
// must get the order (P6).
#include <stdio.h>
#include <string.h>

#include "books.h"
#include "http.h"
#include "sales.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

// Longer than two purchases take.
#define CACHE_MS "2000"

enum { HEADERS_SIZE = 256, PATH_SIZE = 320 };

static struct service *ours, *other;
static char voucher[VOUCHER_ID_SIZE], order[HTTP_FIELD_SIZE];

static void start(void)
{
    stack_start(STACK_ALL);
}

// The reopening instance itself caches no refusals; Redis knows the other's longer time. The other instance learns of a
// change only by its poll of the catalogue, once a second.
static void setup(void)
{
    sales_stop_notifying();
    other = service_start(ENV("SECKILL_SOLD_OUT_MARK_MS=" CACHE_MS));
    ours = service_start(ENV("SECKILL_SOLD_OUT_MARK_MS=0"));
}

static void teardown(void)
{
    service_stop_all();
    sales_notify_again();
}

// ---- calls ----

static void must_operate(const char *method, const char *what, const char *body)
{
    char headers[HEADERS_SIZE], path[PATH_SIZE];
    struct http_reply reply;
    (void)snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\n%s", stack_admin_token,
                   body == NULL ? "" : "Content-Type: application/json\r\n");
    (void)snprintf(path, sizeof path, "/admin/vouchers/%s%s", voucher, what);
    WAIT_FOR(http_ask(ours, method, path, headers, body, &reply) != 503);
    ck_assert_msg(reply.status == 200, "%s: %d %s", what, reply.status, reply.body);
}

static void is_refused(const char *user, const char *code)
{
    struct http_reply reply;
    (void)http_buy_patiently(other, voucher, user, &reply);
    http_must_be_problem(&reply, 409, code);
}

static int64_t refused_from_memory(void)
{
    static const char name[] = "\nseckill_refused_from_memory_total ";
    struct http_reply reply;
    char header[HEADERS_SIZE];
    (void)snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", stack_admin_token);
    ck_assert_int_eq(http_ask(other, "GET", "/metrics", header, NULL, &reply), 200);
    const char *at = strstr(reply.body, name);
    ck_assert_ptr_nonnull(at);
    return strtoll(at + sizeof name - 1, NULL, 10);
}

// Repeats until the other instance refuses from memory, so that its refusal is cached.
static void cache_refusal(const char *code)
{
    int64_t before = refused_from_memory();
    do {
        is_refused("stranger", code);
    } while (refused_from_memory() == before);
}

// The first to win at our instance then asks the other one at once.
static void the_winner_must_be_told(const char *user)
{
    struct http_reply reply;
    WAIT_FOR(http_buy(ours, voucher, user, &reply) != 503);
    ck_assert_msg(reply.status == 201, "%d %s", reply.status, reply.body);
    ck_assert(http_member(&reply, "id", order));
    (void)http_buy_patiently(other, voucher, user, &reply);
    http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
    ck_assert_ptr_nonnull(strstr(reply.body, order));
}

// Reconciles at the other instance, so that Redis has the longer time, whichever instance loaded it first.
static void make(int stock, int begin_in_s, int end_in_s)
{
    struct voucher_terms terms = {.stock = stock, .begin_in_s = begin_in_s, .end_in_s = end_in_s};
    struct http_reply reply;
    voucher_make(other, &terms, voucher);
    WAIT_FOR(sales_redis_has(voucher, "open"));
    WAIT_FOR(sales_admin(other, "POST", voucher, "/reconcile", &reply) == 200);
    ck_assert_int_eq(redis_number("HGET seckill:{%s}:voucher cache_ms", voucher), strtoll(CACHE_MS, NULL, 10));
}

// ---- changes that reopen ----

TEST(resumed)
{
    make(5, 0, 0);
    must_operate("POST", "/pause", NULL);
    cache_refusal("PAUSED");
    must_operate("POST", "/resume", NULL);
    the_winner_must_be_told("winner");
    books_must_balance(voucher);
}

TEST(started_earlier)
{
    make(5, 600, 1200);
    cache_refusal("NOT_STARTED");
    must_operate("PATCH", "", "{\"begin_at\":\"2020-01-01T00:00:00Z\"}");
    the_winner_must_be_told("winner");
    books_must_balance(voucher);
}

TEST(extended)
{
    make(5, -200, -100);
    cache_refusal("ENDED");
    must_operate("PATCH", "", "{\"end_at\":\"2099-01-01T00:00:00Z\"}");
    the_winner_must_be_told("winner");
    books_must_balance(voucher);
}

TEST(units_added)
{
    make(1, 0, 0);
    http_must_buy(other, voucher, "first");
    cache_refusal("SOLD_OUT");
    must_operate("POST", "/stock", "{\"add\":2}");
    the_winner_must_be_told("winner");
    books_must_balance(voucher);
}

TEST(unit_returned)
{
    struct http_reply reply;
    char path[PATH_SIZE], id[HTTP_FIELD_SIZE];
    make(1, 0, 0);
    WAIT_FOR(http_buy(ours, voucher, "first", &reply) == 201);
    ck_assert(http_member(&reply, "id", id));
    cache_refusal("SOLD_OUT");
    (void)snprintf(path, sizeof path, "/orders/%s/cancel", id);
    ck_assert_int_eq(http_ask(ours, "POST", path, "X-User-Id: first\r\n", NULL, &reply), 200);
    the_winner_must_be_told("winner");
    books_must_balance(voucher);
}

// PostgreSQL has one unit more than Redis, where all are sold.
static void add_a_unit_behind_redis(void)
{
    db_run("UPDATE voucher_stock SET units = units + 1, stock = stock + 1 WHERE voucher_id = %s", voucher);
}

TEST(reconciled)
{
    make(1, 0, 0);
    http_must_buy(other, voucher, "first");
    cache_refusal("SOLD_OUT");
    add_a_unit_behind_redis();
    must_operate("POST", "/reconcile", NULL);
    the_winner_must_be_told("winner");
    books_must_balance(voucher);
}

TEST(rebuilt_after_a_loss)
{
    make(1, 0, 0);
    http_must_buy(other, voucher, "first");
    cache_refusal("SOLD_OUT");
    add_a_unit_behind_redis();
    redis_run("FLUSHALL");
    the_winner_must_be_told("winner");
    books_must_balance(voucher);
}

SUITE(.timeout_s = 120, .begin = start, .setup = setup, .teardown = teardown, .in_one_process = true);
