// Many vouchers at once, and vouchers whose sale ended days ago with open work: background jobs reach all of them, and
// every accepted order is found.
#include <inttypes.h>
#include <stdio.h>

#include "books.h"
#include "sales.h"
#include "service_log.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { STOCK = 5, MANY = 1100, MANY_FULL = 5000, SAMPLE = 10, CHECKS = 20 };

#define IN_GOOD_TIME "SECKILL_LOCK_TTL_MS=1000"

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void teardown(void)
{
    sales_refuse_none();
    service_stop_all();
    db_empty();
    redis_run("FLUSHALL");
}

static void name_of(int64_t id, char voucher[VOUCHER_ID_SIZE])
{
    (void)snprintf(voucher, VOUCHER_ID_SIZE, "%" PRId64, id);
}

static void must_sell(const struct service *service, int64_t id)
{
    char voucher[VOUCHER_ID_SIZE];
    name_of(id, voucher);
    http_must_buy(service, voucher, "alice");
}

// Deletes it in Redis; the next audit must find that.
static void must_be_audited(int64_t id)
{
    char voucher[VOUCHER_ID_SIZE];
    name_of(id, voucher);
    uint64_t since_ms = sk_monotonic_ms();
    redis_run("DEL seckill:{%s}:voucher", voucher);
    WAIT_FOR(sales_redis_has(voucher, "open"));
    sales_note("open again after its key was deleted", since_ms);
}

TEST(each_of_many_is_sold_and_maintained)
{
    int count = sales_full() ? MANY_FULL : MANY;
    char voucher[VOUCHER_ID_SIZE], id[ORDER_ID_SIZE];
    int64_t first = sales_make(count, STOCK);
    struct service *service = service_start(ENV(IN_GOOD_TIME)), *other = service_start(ENV(IN_GOOD_TIME));
    uint64_t since_ms = sk_monotonic_ms();
    for (int i = 0; i < count; i++)
        must_sell(i % 2 == 0 ? service : other, first + i);
    sales_note("bought one of each voucher", since_ms);
    must_be_audited(first);
    must_be_audited(first + count - 1);

    name_of(first, voucher);
    db_hold_orders();
    sales_accept(service, voucher, "bob", id);
    service_kill(service);
    since_ms = sk_monotonic_ms();
    ck_assert(sales_order_is(other, id, "bob", "pending"));
    db_let_orders_go();
    WAIT_FOR(sales_order_is(other, id, "bob", "unpaid"));
    sales_note("settled for an instance that was killed", since_ms);
    for (int i = 0; i < count; i += count / SAMPLE) {
        name_of(first + i, voucher);
        books_must_balance(voucher);
    }
}

// ---- long over, and not at its end ----

static bool has_letter(const char *voucher)
{
    return db_number("SELECT count(*) FROM dead_letter WHERE voucher_id = %s AND ended_at IS NULL", voucher) == 1;
}

// While the voucher is loaded the order is 503; it is never 404.
static void must_stay_pending(const struct service *service, const char *id, const char *user)
{
    for (int i = 0; i < CHECKS; i++)
        WAIT_FOR(sales_order_is(service, id, user, "pending"));
}

TEST(a_dead_letter_of_a_sale_long_over)
{
    struct service *service = service_start(ENV(IN_GOOD_TIME, "SECKILL_LOG_LEVEL=debug"));
    char voucher[VOUCHER_ID_SIZE], id[ORDER_ID_SIZE], rest[HTTP_FIELD_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    sales_refuse_user("victor");
    sales_accept(service, voucher, "victor", id);
    WAIT_FOR(has_letter(voucher));
    sales_refuse_none();
    int64_t epoch = voucher_epoch(voucher);
    sales_end(voucher);
    service_log_must_have(service, 1, "voucher not retired yet");
    must_stay_pending(service, id, "victor");
    ck_assert_int_eq(voucher_epoch(voucher), epoch);         // Redis was not closed for it
    struct service *late = service_start(ENV(IN_GOOD_TIME)); // starts when the sale is long over
    must_stay_pending(late, id, "victor");
    ck_assert_int_eq(db_number("SELECT count(*) FROM seckill_voucher WHERE id = %s AND state = 'open'", voucher), 1);

    int64_t letter = db_number("SELECT id FROM dead_letter WHERE voucher_id = %s", voucher);
    (void)snprintf(rest, sizeof rest, "/dead-letters/%" PRId64 "/requeue", letter);
    WAIT_FOR(sales_admin(late, "POST", voucher, rest, &reply) == 200);
    WAIT_FOR(sales_order_is(service, id, "victor", "unpaid"));
    ck_assert(sales_order_is(late, id, "victor", "unpaid"));
    books_must_balance(voucher);
}

TEST(a_journal_entry_of_a_sale_long_over)
{
    struct service *service = service_start(ENV(IN_GOOD_TIME));
    char voucher[VOUCHER_ID_SIZE], id[ORDER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    db_hold_orders();
    sales_accept(service, voucher, "walter", id);
    service_kill(service);
    ck_assert_int_eq(redis_number("XLEN seckill:{%s}:journal", voucher), 1);
    sales_end(voucher);
    struct service *late = service_start(ENV(IN_GOOD_TIME, "SECKILL_RETIRE_AFTER_MS=0"));
    must_stay_pending(late, id, "walter");
    ck_assert_int_eq(db_number("SELECT count(*) FROM seckill_voucher WHERE id = %s AND state = 'open'", voucher), 1);
    db_let_orders_go();
    WAIT_FOR(sales_order_is(late, id, "walter", "unpaid"));
    WAIT_FOR(sales_redis_has(voucher, "retired"));
    ck_assert(sales_order_is(late, id, "walter", "unpaid"));
    ck_assert_int_eq(db_number("SELECT stock FROM voucher_stock WHERE voucher_id = %s", voucher), STOCK - 1);
}

SUITE(.timeout_s = 300, .begin = setup, .teardown = teardown, .in_one_process = true);
