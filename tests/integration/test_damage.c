// Redis holds impossible values, written by hand or caused by a clock that went back. No order is lost, no refusal
// hides a win, and nothing is rebuilt again and again.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "books.h"
#include "http.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "trust.h"
#include "wait.h"

enum { STOCK = 10, PATH_SIZE = 128, REBUILDS_MAX = 3, AHEAD = 5000 };

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void must_be_refused(struct service *service, const char *voucher, const char *user, const char *code)
{
    struct http_reply reply;
    (void)http_buy(service, voucher, user, &reply);
    http_must_be_problem(&reply, 409, code);
}

static int64_t letters(const char *voucher)
{
    return db_number("SELECT count(*) FROM dead_letter WHERE voucher_id = %s", voucher);
}

// ---- journal entries ----

// PostgreSQL rejects its epoch, and no rebuild seems to reach it.
TEST(an_entry_of_an_epoch_ahead_is_settled_after_one_rebuild)
{
    static const char *const epochs[] = {"1000000", "999999999999999"};
    struct service *service = service_start(ENV(HASTY));
    for (size_t i = 0; i < 2; i++) {
        char voucher[VOUCHER_ID_SIZE], other[VOUCHER_ID_SIZE], order[PATH_SIZE];
        voucher_on_sale(service, STOCK, voucher);
        voucher_on_sale(service, STOCK, other);
        http_must_buy(service, voucher, "alice");
        int64_t epoch = voucher_epoch(voucher);
        (void)snprintf(order, sizeof order, "01a1fbe1-0c46-72f8-bdd2-58798027499%zu mallory", i);
        redis_run("XADD seckill:{%s}:journal * epoch %s orders %s", voucher, epochs[i], order);
        WAIT_FOR(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s AND user_id = 'mallory'",
                           voucher) == 1);
        books_must_balance(voucher);
        redis_run("DEL seckill:{%s}:voucher", other); // other vouchers are still maintained meanwhile
        WAIT_FOR(redis_number("EXISTS seckill:{%s}:voucher", other) == 1);
        http_must_buy(service, voucher, "bob");
        ck_assert_int_le(voucher_epoch(voucher), epoch + REBUILDS_MAX);
        ck_assert_int_eq(letters(voucher), 0);
        books_must_balance(voucher);
        books_must_balance(other);
    }
}

// Redis continues from the largest id it has had. In one step: else a sweep may read the entry, and set it aside.
static void let_journal_have_had(const char *voucher, const char *id)
{
    redis_run("EVAL redis.call('XADD',KEYS[1],ARGV[1],'epoch',1,'orders','x')redis.call('XDEL',KEYS[1],ARGV[1])"
              " 1 seckill:{%s}:journal %s",
              voucher, id);
}

TEST(a_journal_id_out_of_range_stops_no_order)
{
    static const char *const ids[] = {"9999999999999999999-0", "1000000000000000-7", "999999999999999-9999999999999999",
                                      "18446744073709551615-18446744073709551615"};
    struct service *service = service_start(ENV(HASTY));
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        char voucher[VOUCHER_ID_SIZE], last[PATH_SIZE];
        voucher_on_sale(service, STOCK, voucher);
        int64_t epoch = voucher_epoch(voucher);
        let_journal_have_had(voucher, ids[i]);
        http_must_buy(service, voucher, "alice");
        http_must_buy(service, voucher, "bob");
        http_must_buy(service, voucher, "carol");
        must_be_refused(service, voucher, "alice", "ALREADY_ORDERED");
        books_must_balance(voucher);
        ck_assert(redis_text(last, sizeof last, "HGET seckill:{%s}:voucher last", voucher));
        ck_assert_msg(sk_trust_is_version(last), "%s", last); // the rebuild has deleted the journal
        ck_assert_int_le(voucher_epoch(voucher), epoch + REBUILDS_MAX);
        ck_assert_int_eq(letters(voucher), 0);
    }
}

// Otherwise each POST would take a unit without any client learning of it.
TEST(an_epoch_out_of_range_costs_no_unit)
{
    struct service *service = service_start(ENV(HASTY));
    struct http_reply reply;
    char voucher[VOUCHER_ID_SIZE], user[PATH_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    redis_run("HSET seckill:{%s}:voucher epoch 99999999999999999999", voucher);
    for (int i = 0; i < STOCK; i++) {
        (void)snprintf(user, sizeof user, "user%d", i);
        (void)http_buy_patiently(service, voucher, user, &reply);
        ck_assert_int_eq(reply.status, 201);
    }
    books_must_balance(voucher);
    ck_assert_int_eq(redis_number("HGET seckill:{%s}:voucher stock", voucher), 0);
}

// As of a file of Redis that is newer than the PostgreSQL that was restored: it names another process of Redis. One
// rebuild gets past it, not one for each epoch.
TEST(an_epoch_far_ahead_is_passed_at_once)
{
    struct service *service = service_start(ENV(HASTY));
    char voucher[VOUCHER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    int64_t epoch = voucher_epoch(voucher);
    redis_run("HSET seckill:{%s}:voucher run another epoch %lld", voucher, (long long)epoch + AHEAD);
    http_must_buy(service, voucher, "bob");
    ck_assert_int_gt(voucher_epoch(voucher), epoch + AHEAD);
    ck_assert_int_le(voucher_epoch(voucher), epoch + AHEAD + REBUILDS_MAX);
    books_must_balance(voucher);
}

// ---- clocks ----

// Redis stamps journal entries, and ids never decrease. After its clock went back, they seem to come from the future
// and would never be old enough to be settled.
TEST(a_clock_that_went_back_does_not_stop_recovery)
{
    struct service *first = service_start(ENV(HASTY, "SECKILL_PG_TIMEOUT_MS=20000")), *second;
    char voucher[VOUCHER_ID_SIZE], ids[3][HTTP_FIELD_SIZE], path[PATH_SIZE], status[HTTP_FIELD_SIZE];
    static const char *const users[] = {"alice", "bob", "carol"};
    struct http_reply reply;
    voucher_on_sale(first, STOCK, voucher);
    let_journal_have_had(voucher, "9000000000000-0");
    db_hold_orders();
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(http_buy_async(first, voucher, users[i], &reply), 202);
        ck_assert(http_member(&reply, "id", ids[i]));
    }
    WAIT_FOR(db_orders_held_ms() > 0);
    service_kill(first);
    db_let_orders_go();
    second = service_start(ENV(HASTY));
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "/orders/%.40s", ids[i]);
        WAIT_FOR(http_get(second, path, users[i], &reply) == 200 && http_member(&reply, "status", status) &&
                 strcmp(status, "unpaid") == 0);
    }
    books_must_balance(voucher);
}

// ---- refusals from memory ----

// A sale that had begun now lies in the future: its winners have still won (P6).
TEST(not_started_hides_no_win)
{
    struct service *service = service_start(ENV("SECKILL_SOLD_OUT_MARK_MS=60000"));
    char voucher[VOUCHER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    redis_run("HSET seckill:{%s}:voucher begin_ms 9000000000000", voucher);
    for (int i = 0; i < 50; i++) { // from Redis at first, then from memory
        must_be_refused(service, voucher, "bob", "NOT_STARTED");
        must_be_refused(service, voucher, "alice", "ALREADY_ORDERED");
    }
}

// The voucher did not exist when it was requested; another instance has sold it since.
TEST(an_unknown_voucher_hides_no_win)
{
    STACK_SKIP_SHARDS("the id of the next voucher depends on its shard");
    struct service *first = service_start(ENV("SECKILL_SOLD_OUT_MARK_MS=60000")), *second = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE], next[VOUCHER_ID_SIZE], made[VOUCHER_ID_SIZE];
    struct http_reply reply;
    voucher_on_sale(second, STOCK, voucher);
    (void)snprintf(next, sizeof next, "%lld", strtoll(voucher, NULL, 10) + 1);
    (void)http_buy(first, next, "alice", &reply);
    http_must_be_problem(&reply, 404, "UNKNOWN_VOUCHER");
    voucher_on_sale(second, STOCK, made);
    ck_assert_str_eq(made, next);
    http_must_buy(second, made, "alice");
    must_be_refused(first, made, "alice", "ALREADY_ORDERED");
    http_must_buy(first, made, "bob");
    books_must_balance(made);
}

SUITE(.begin = setup, .teardown = service_stop_all, .in_one_process = true);
