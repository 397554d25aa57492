// The negative control of the books check: it must detect each kind of corruption, with the right reason.
#include <string.h>

#include "books.h"
#include "http.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

static void setup(void)
{
    stack_start(STACK_ALL);
}

// Each statement runs in the store that its first words name and corrupts the books of voucher %s; `sign` is the reason
// that the check then reports.
struct corruption {
    const char *sql, *redis, *sign;
};

static const struct corruption corruptions[] = {
    {"INSERT INTO voucher_order (id, slot, user_id, voucher_id) SELECT gen_random_uuid(), 1, 'u' || n, %s"
     " FROM generate_series(1, 9) n",
     NULL, "oversold"},
    {"INSERT INTO voucher_order (id, slot, user_id, voucher_id) VALUES (gen_random_uuid(), 1, 'alice', %s)", NULL,
     "users with a live order"},
    {"UPDATE voucher_stock SET stock = stock - 1 WHERE voucher_id = %s", NULL, "stock in PostgreSQL"},
    {"UPDATE voucher_order SET quantity = 4 WHERE voucher_id = %s", NULL, "oversold"},
    {"UPDATE voucher_order SET quantity = 2 WHERE voucher_id = %s", NULL, "stock in PostgreSQL"},
    {"INSERT INTO voucher_order (id, slot, user_id, voucher_id, status, reason)"
     " VALUES (gen_random_uuid(), 1, 'bob', %s, 'refunded', 'KEPT')",
     NULL, "stock in PostgreSQL"},
    {"INSERT INTO dead_letter (slot, voucher_id, journal_id, raw, orders, reason)"
     " SELECT slot, voucher_id, '1-1', '', gen_random_uuid() || ' bob 2', 'x' FROM voucher_stock WHERE voucher_id = "
     "%s",
     NULL, "stock in Redis"},
    {"UPDATE voucher_order SET request_key = '0123456789abcdef' WHERE voucher_id = %s", NULL, "buyer in Redis: alice"},
    {"DELETE FROM voucher_order WHERE user_id = 'alice' AND voucher_id = %s", NULL, "live orders counted"},
    {NULL, "HINCRBY seckill:{%s}:voucher stock 1", "stock in Redis"},
    {NULL, "DEL seckill:{%s}:voucher", "stock in Redis"},
    {NULL, "HSET seckill:{%s}:buyers mallory 00000000-0000-7000-8000-000000000000", "buyers in Redis"},
    {NULL, "HDEL seckill:{%s}:buyers alice", "buyers in Redis"},
    {NULL, "HSET seckill:{%s}:buyers alice 00000000-0000-7000-8000-000000000000", "buyer in Redis: alice"},
    {NULL, // the same order, with two units
     "EVAL redis.call('HSET',KEYS[1],'alice',redis.call('HGET',KEYS[1],'alice')..'\\0322') 1 seckill:{%s}:buyers",
     "buyer in Redis: alice"},
    {NULL, "XADD seckill:{%s}:journal * epoch 1 orders broken", "journal entries"},
};

TEST_EACH(corruption_is_noticed, sizeof corruptions / sizeof corruptions[0])
{
    const struct corruption *corruption = &corruptions[_i];
    struct service *service = service_start(NULL);
    struct http_reply reply;
    char voucher[VOUCHER_ID_SIZE], why[BOOKS_WHY_SIZE];
    voucher_on_sale(service, 3, voucher);
    ck_assert_msg(http_buy(service, voucher, "alice", &reply) == 201, "%s", reply.body);
    books_must_balance(voucher);
    service_stop_all(); // else the audit may repair it before the check

    if (corruption->sql != NULL) {
        db_run("SET client_min_messages = warning; DROP INDEX IF EXISTS voucher_order_live");
        db_run(corruption->sql, voucher);
    } else {
        redis_run(corruption->redis, voucher);
    }
    ck_assert(!books_balance(voucher, why));
    ck_assert_msg(strstr(why, corruption->sign) == why, "noticed '%s' instead of '%s'", why, corruption->sign);
}

SUITE(.begin = setup, .teardown = service_stop_all, .in_one_process = true);
