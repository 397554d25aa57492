// Each part is killed, stopped or restarted while orders are in progress. Afterwards nothing is lost, sold twice or
// left over.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "books.h"
#include "http.h"
#include "service_log.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { STOCK = 20, ORDERS = 8, NAME_SIZE = 24, REQUEST_SIZE = 512 };

struct order {
    char user[NAME_SIZE];
    char id[HTTP_FIELD_SIZE];
};

static void setup(void)
{
    stack_start(STACK_ALL);
}

// Accepts orders; they stay pending while PostgreSQL is blocked.
static void accept_orders(struct service *service, const char *voucher, struct order orders[ORDERS])
{
    struct http_reply reply;
    for (int i = 0; i < ORDERS; i++) {
        (void)snprintf(orders[i].user, NAME_SIZE, "user%d", i);
        ck_assert_int_eq(http_buy_async(service, voucher, orders[i].user, &reply), 202);
        ck_assert(http_member(&reply, "id", orders[i].id));
    }
}

// Accepts orders of a new voucher and waits until they are on their way into PostgreSQL.
static void accept_held_orders(struct service *service, char voucher[VOUCHER_ID_SIZE], struct order orders[ORDERS])
{
    voucher_on_sale(service, STOCK, voucher);
    db_hold_orders();
    accept_orders(service, voucher, orders);
    WAIT_FOR(db_orders_held_ms() > 0);
}

static bool order_has_status(struct service *service, const struct order *order, const char *status)
{
    struct http_reply reply;
    char path[HTTP_FIELD_SIZE], found[HTTP_FIELD_SIZE];
    (void)snprintf(path, sizeof path, "/orders/%.40s", order->id);
    ck_assert_int_ne(http_get(service, path, order->user, &reply), 404); // P5
    return http_member(&reply, "status", found) && strcmp(found, status) == 0;
}

// Every accepted order is placed under its own id, and no other order exists.
static void orders_must_be_placed(struct service *service, const char *voucher, const struct order orders[ORDERS])
{
    for (int i = 0; i < ORDERS; i++)
        WAIT_FOR(order_has_status(service, &orders[i], "unpaid"));
    books_must_balance(voucher);
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s", voucher), ORDERS);
}

// ---- the service ----

// The statement in progress when the service dies may or may not commit.
TEST_EACH(service_killed, 4)
{
    bool second_is_there = (_i & 1) != 0, statement_survives = (_i & 2) != 0;
    struct service *service = service_start(ENV("SECKILL_LOCK_TTL_MS=300")), *second = NULL;
    struct order orders[ORDERS];
    char voucher[VOUCHER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    if (second_is_there)
        second = service_start(ENV(HASTY));
    db_hold_orders();
    accept_orders(service, voucher, orders);
    WAIT_FOR(db_orders_held_ms() > 0);
    service_kill(service);
    if (!statement_survives)
        db_run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'seckill'");
    db_let_orders_go();
    if (!second_is_there)
        second = service_start(ENV(HASTY));
    service_await(second, true);
    orders_must_be_placed(second, voucher, orders);
}

// A killed service never sends its pending answers; a repeated purchase returns the outcome (P6).
TEST(waiting_clients_of_a_killed_service)
{
    struct service *service = service_start(ENV("SECKILL_LOCK_TTL_MS=300"));
    char voucher[VOUCHER_ID_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    db_hold_orders();
    int fd = http_begin_buying(service, voucher, "alice");
    WAIT_FOR(db_orders_held_ms() > 0);
    service_kill(service);
    ck_assert(!http_receive(fd, &reply));
    (void)close(fd);
    db_let_orders_go();
    struct service *next = service_start(ENV(HASTY));
    (void)http_buy(next, voucher, "alice", &reply);
    http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
    books_must_balance(voucher);
}

TEST(service_paused_while_another_recovers)
{
    struct service *service = service_start(ENV("SECKILL_LOCK_TTL_MS=300")), *other = service_start(ENV(HASTY));
    struct order orders[ORDERS];
    char voucher[VOUCHER_ID_SIZE];
    accept_held_orders(service, voucher, orders);
    service_signal(service, SIGSTOP);
    db_let_orders_go();
    orders_must_be_placed(other, voucher, orders);
    service_signal(service, SIGCONT); // it resumes, and settles what is already settled
    orders_must_be_placed(service, voucher, orders);
}

// ---- which instance settles an entry ----

enum { TTL_MS = 1000, CHECKS_MS = 2500 };

#define KEPT       "SECKILL_LOCK_TTL_MS=1000"
#define RECOVERING "recovering journal entries"

// The session that the oldest entry of the journal names.
static void holder_of(const char *voucher, char session[NAME_SIZE * 2])
{
    ck_assert(redis_text(session, (size_t)NAME_SIZE * 2,
                         "EVAL return(redis.call('XRANGE',KEYS[1],'-','+')[1][2][6]) 1 seckill:{%s}:journal", voucher));
}

// While its session lives its entries stay; afterwards its orders are settled without delay.
TEST(what_a_dead_instance_held_is_settled_when_its_session_ends)
{
    struct service *service = service_start(ENV(KEPT)), *other = service_start(ENV(KEPT));
    struct order orders[ORDERS];
    char voucher[VOUCHER_ID_SIZE], session[NAME_SIZE * 2];
    accept_held_orders(service, voucher, orders);
    holder_of(voucher, session);
    ck_assert_int_eq(redis_number("EXISTS seckill:{shared}:session:%s", session), 1);
    int64_t entries = redis_number("XLEN seckill:{%s}:journal", voucher);
    service_kill(service);
    db_run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'seckill' AND wait_event IS NOT NULL"
           " AND state = 'active'");
    db_let_orders_go();
    uint64_t since_ms = sk_monotonic_ms();
    int64_t left = entries;
    while (redis_number("EXISTS seckill:{shared}:session:%s", session) == 1) {
        ck_assert_int_eq(left, entries); // read before the session was checked
        left = redis_number("XLEN seckill:{%s}:journal", voucher);
    }
    WAIT_FOR(redis_number("XLEN seckill:{%s}:journal", voucher) == 0);
    ck_assert_uint_le(sk_monotonic_ms() - since_ms, TTL_MS + CHECKS_MS);
    service_log_must_have(other, 1, RECOVERING);
    orders_must_be_placed(other, voucher, orders);
}

// Even if they are old.
TEST(the_orders_of_a_living_instance_are_left_alone)
{
    struct service *service = service_start(ENV(KEPT)), *other = service_start(ENV(KEPT));
    struct order orders[ORDERS];
    char voucher[VOUCHER_ID_SIZE];
    accept_held_orders(service, voucher, orders);
    uint64_t until_ms = sk_monotonic_ms() + (uint64_t)4 * TTL_MS;
    WAIT_FOR(sk_monotonic_ms() >= until_ms);
    ck_assert_int_eq(service_log_count(other, RECOVERING), 0);
    db_let_orders_go();
    orders_must_be_placed(service, voucher, orders);
    ck_assert_int_eq(service_log_count(other, RECOVERING), 0);
    ck_assert_int_eq(service_log_count(service, RECOVERING), 0); // it still holds its own entries
}

// Redis executes the last command after its pause, though the client has given up. The session lives, so no other
// instance could settle the entry, and there is none.
TEST(an_orphan_is_settled_by_its_own_instance)
{
    struct service *service = service_start(ENV("SECKILL_REDIS_TIMEOUT_MS=400", "SECKILL_LOCK_TTL_MS=60000"));
    char voucher[VOUCHER_ID_SIZE];
    struct http_reply reply;
    char user[NAME_SIZE] = "";
    voucher_on_sale(service, STOCK, voucher);
    // If another write was unanswered the purchase was not sent, and leaves nothing.
    for (int i = 0; i < STOCK && redis_number("HLEN seckill:{%s}:buyers", voucher) == 0; i++) {
        service_await(service, true);
        (void)snprintf(user, sizeof user, "user%d", i);
        redis_pause();
        (void)http_buy(service, voucher, user, &reply);
        http_must_be_problem(&reply, 503, "UNAVAILABLE");
        redis_resume();
    }
    WAIT_FOR(redis_number("HLEN seckill:{%s}:buyers", voucher) > 0 &&
             redis_number("XLEN seckill:{%s}:journal", voucher) == 0);
    ck_assert_int_gt(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s", voucher), 0);
    service_log_must_have(service, 1, RECOVERING);
    (void)http_buy_patiently(service, voucher, user, &reply);
    http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
    books_must_balance(voucher);
}

// A clean exit deletes the session.
TEST(a_clean_exit_ends_the_session)
{
    struct service *service = service_start(ENV("SECKILL_REACTORS=2", "SECKILL_LOCK_TTL_MS=600000"));
    WAIT_FOR(redis_number("ZCARD seckill:{shared}:sessions") >= 2); // one reactor is ready, the other one soon
    int64_t before = redis_number("ZCARD seckill:{shared}:sessions");
    service_signal(service, SIGTERM);
    ck_assert_int_eq(service_wait(service), 0);
    ck_assert_int_eq(redis_number("ZCARD seckill:{shared}:sessions"), before - 2);
}

// ---- ending ----

// SIGTERM: new requests are rejected, waiting ones are answered, the exit code is 0.
TEST(service_drains)
{
    struct service *service = service_start(ENV("SECKILL_CONFIRM_TIMEOUT_MS=20000"));
    char voucher[VOUCHER_ID_SIZE], request[REQUEST_SIZE], user[NAME_SIZE];
    struct http_reply reply;
    int fds[ORDERS];
    voucher_on_sale(service, STOCK, voucher);
    int idle = http_connect(service);
    ck_assert(http_send_text(idle, "GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n") && http_receive(idle, &reply));
    db_hold_orders();
    for (int i = 0; i < ORDERS; i++) {
        (void)snprintf(user, sizeof user, "user%d", i);
        fds[i] = http_begin_buying(service, voucher, user);
    }
    WAIT_FOR(redis_number("HLEN seckill:{%s}:buyers", voucher) == ORDERS);
    service_signal(service, SIGTERM);
    int fd;
    WAIT_FOR((fd = http_connect(service)) < 0 || close(fd) != 0);
    // A request on an open connection gets 503.
    http_buy_text(voucher, "late", request, sizeof request);
    ck_assert(http_send_text(idle, request) && http_receive(idle, &reply));
    http_must_be_problem(&reply, 503, "SHUTTING_DOWN");
    ck_assert(http_closed(idle));
    (void)close(idle);
    int64_t held_ms = db_orders_held_ms();
    WAIT_FOR(db_orders_held_ms() > held_ms + 100); // it keeps waiting
    db_let_orders_go();
    for (int i = 0; i < ORDERS; i++)
        http_end_buying(fds[i], 201);
    ck_assert_int_eq(service_wait(service), 0);
    books_must_balance(voucher);
}

// Orders are committed, but not yet settled in Redis. A journal entry left behind would wait for another instance, and
// there may be none.
TEST(draining_waits_for_redis)
{
    struct service *service = service_start(
        ENV("SECKILL_CONFIRM_TIMEOUT_MS=20000", "SECKILL_REDIS_TIMEOUT_MS=20000", "SECKILL_LOCK_TTL_MS=300"));
    char voucher[VOUCHER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    db_hold_orders();
    int fd = http_begin_buying(service, voucher, "alice");
    WAIT_FOR(db_orders_held_ms() > 0);
    redis_pause();
    int64_t held_ms = db_orders_held_ms();
    WAIT_FOR(db_orders_held_ms() > held_ms + 300); // long enough for the renewal of a lock, which gets no reply
    service_signal(service, SIGTERM);
    db_let_orders_go();
    http_end_buying(fd, 201);
    (void)usleep(200000); // time in which it could end
    redis_resume();
    ck_assert_int_eq(service_wait(service), 0);
    books_must_balance(voucher);
}

// It waits no longer than configured; accepted orders are answered with 202 and stay in the journal.
TEST(draining_has_a_bound)
{
    struct service *service = service_start(
        ENV("SECKILL_CONFIRM_TIMEOUT_MS=60000", "SECKILL_DRAIN_TIMEOUT_MS=300", "SECKILL_LOCK_TTL_MS=300"));
    char voucher[VOUCHER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    db_hold_orders();
    int fd = http_begin_buying(service, voucher, "alice");
    WAIT_FOR(db_orders_held_ms() > 0);
    service_signal(service, SIGTERM);
    ck_assert_int_eq(service_wait(service), 0);
    http_end_buying(fd, 202);
    db_let_orders_go();
    (void)service_start(ENV(HASTY));
    books_must_balance(voucher);
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s", voucher), 1);
}

// How often Redis has rejected a write because its memory is full.
static int64_t refusals_of_redis(void)
{
    static const char name[] = "errorstat_OOM:count=";
    char stats[REQUEST_SIZE];
    (void)redis_text(stats, sizeof stats, "INFO errorstats");
    const char *at = strstr(stats, name);
    return at == NULL ? 0 : strtoll(at + sizeof name - 1, NULL, 10);
}

// Orders are accepted, then rejected because Redis lost their grants while their instance was paused. One of them is
// committed. The instance continues, but Redis now grants nothing.
static struct service *lose_grants(const char *drain_timeout, struct service *other, char voucher[VOUCHER_ID_SIZE],
                                   struct order orders[ORDERS])
{
    struct http_reply reply;
    struct service *service = service_start(
        ENV("SECKILL_BATCH_MAX=1", "SECKILL_PG_TIMEOUT_MS=20000", "SECKILL_LOCK_TTL_MS=300", drain_timeout));
    voucher_on_sale(other, STOCK, voucher);
    db_hold_orders();
    accept_orders(service, voucher, orders);
    WAIT_FOR(db_orders_held_ms() > 0);
    service_signal(service, SIGSTOP);
    redis_run("FLUSHALL");
    db_let_orders_go();
    ck_assert_int_eq(http_buy_patiently(other, voucher, "late", &reply), 201);
    books_must_balance(voucher);
    redis_run("CONFIG RESETSTAT");
    redis_run("CONFIG SET maxmemory 1");
    service_signal(service, SIGCONT);
    WAIT_FOR(refusals_of_redis() > 2); // it gets no session, so it does not retry the orders
    WAIT_FOR(http_sample(service, "seckill_orders{state=\"lost\"}") == ORDERS - 1);
    return service;
}

// No other instance knows these orders, so they end as refused before the instance does, however short its time.
TEST_EACH(service_drains_what_lost_its_grant, 2)
{
    static const char *const timeouts[] = {"SECKILL_DRAIN_TIMEOUT_MS=1500", "SECKILL_DRAIN_TIMEOUT_MS=0"};
    struct service *other = service_start(ENV(HASTY));
    struct order orders[ORDERS];
    struct http_reply reply;
    char voucher[VOUCHER_ID_SIZE], path[HTTP_FIELD_SIZE], reason[HTTP_FIELD_SIZE];
    struct service *service = lose_grants(timeouts[_i], other, voucher, orders);
    service_signal(service, SIGTERM);
    ck_assert_int_eq(service_wait(service), 0);
    redis_run("CONFIG SET maxmemory 0");
    for (int i = 1; i < ORDERS; i++) {
        (void)snprintf(path, sizeof path, "/orders/%.40s", orders[i].id);
        ck_assert_int_eq(http_get(other, path, orders[i].user, &reply), 200);
        ck_assert(http_member(&reply, "reason", reason));
        ck_assert_str_eq(reason, "GRANT_LOST");
    }
    books_must_balance(voucher);
    for (int i = 1; i < ORDERS; i++) // their units sell again, also to them
        ck_assert_int_eq(http_buy_patiently(other, voucher, orders[i].user, &reply), 201);
    books_must_balance(voucher);
}

// Without PostgreSQL they cannot be ended, and the log reports that correctly.
TEST(service_ends_with_orders_that_lost_their_grant)
{
    struct service *other = service_start(ENV(HASTY));
    struct order orders[ORDERS];
    char voucher[VOUCHER_ID_SIZE], wanted[HTTP_FIELD_SIZE];
    struct service *service = lose_grants("SECKILL_DRAIN_TIMEOUT_MS=300", other, voucher, orders);
    postgres_stop();
    service_signal(service, SIGTERM);
    ck_assert_int_eq(service_wait(service), 0);
    redis_run("CONFIG SET maxmemory 0");
    (void)snprintf(wanted, sizeof wanted, "kept_by_journal=0 kept_by_letters=0 without_end=%d", ORDERS - 1);
    service_log_must_have(service, 1, wanted);
    postgres_start();
    service_await(other, true);
    books_must_balance(voucher);
}

// ---- Redis ----

TEST(redis_restarted_with_its_data)
{
    struct service *service = service_start(ENV(HASTY));
    struct order orders[ORDERS];
    char voucher[VOUCHER_ID_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    db_hold_orders();
    accept_orders(service, voucher, orders);
    redis_kill();
    service_await(service, false);
    db_let_orders_go(); // they are committed while their journal is gone
    WAIT_FOR(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s", voucher) == ORDERS);
    redis_start();
    service_await(service, true);
    orders_must_be_placed(service, voucher, orders);
    (void)http_buy_patiently(service, voucher, orders[0].user, &reply);
    http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
    ck_assert_int_eq(http_buy_patiently(service, voucher, "late", &reply), 201);
    books_must_balance(voucher);
}

// Redis has lost everything: two instances load the voucher from PostgreSQL again at once.
TEST(redis_restarted_empty)
{
    struct service *services[] = {service_start(ENV(HASTY)), service_start(ENV(HASTY))};
    char voucher[VOUCHER_ID_SIZE], first[HTTP_FIELD_SIZE], again[HTTP_FIELD_SIZE], user[NAME_SIZE];
    struct http_reply reply;
    voucher_on_sale(services[0], STOCK, voucher);
    ck_assert_int_eq(http_buy(services[0], voucher, "alice", &reply), 201);
    ck_assert(http_member(&reply, "id", first));
    ck_assert_int_eq(http_buy(services[1], voucher, "bob", &reply), 201);
    books_must_balance(voucher);

    redis_kill();
    redis_erase();
    redis_start();
    service_await(services[0], true);
    service_await(services[1], true);
    for (int i = 0; i < 2; i++) {
        (void)http_buy_patiently(services[1 - i], voucher, "bob", &reply);
        http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
        (void)http_buy_patiently(services[i], voucher, "alice", &reply);
    }
    http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
    ck_assert(http_member(&reply, "order_id", again));
    ck_assert_str_eq(again, first);
    books_must_balance(voucher);

    int placed = 2;
    for (int i = 0; i < STOCK + 5; i++) {
        (void)snprintf(user, sizeof user, "user%d", i);
        placed += http_buy_patiently(services[i % 2], voucher, user, &reply) == 201;
    }
    ck_assert_int_eq(placed, STOCK);
    books_must_balance(voucher);
}

// Orders are committed, and refunded without restock, while the instance that accepted them is paused. Then Redis loses
// its data, and the journal ids that it gives from now on are smaller, because its clock was ahead before. When the
// instance goes on, Redis grants it these orders once more. Their units must return with these grants' own entry, not
// by the audit.
TEST(refunded_orders_that_are_granted_again_after_a_loss)
{
    struct service *service = service_start(ENV("SECKILL_LOCK_TTL_MS=300", "SECKILL_BATCH_MAX=1"));
    struct service *other = service_start(ENV(HASTY));
    struct order orders[ORDERS];
    struct http_reply reply;
    char voucher[VOUCHER_ID_SIZE], path[HTTP_FIELD_SIZE], headers[HTTP_FIELD_SIZE];
    accept_held_orders(service, voucher, orders);
    service_signal(service, SIGSTOP);
    db_let_orders_go();
    orders_must_be_placed(other, voucher, orders);
    redis_run("XADD seckill:{%s}:journal 9999999999999-0 a b", voucher);
    redis_run("XDEL seckill:{%s}:journal 9999999999999-0", voucher);
    db_run("UPDATE voucher_order SET status = 'paid' WHERE voucher_id = %s", voucher);
    (void)snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\nContent-Type: application/json\r\n",
                   stack_admin_token);
    for (int i = 1; i < ORDERS; i++) {
        (void)snprintf(path, sizeof path, "/orders/%.40s/refund", orders[i].id);
        ck_assert_int_eq(http_ask(other, "POST", path, headers, "{}", &reply), 200);
    }
    books_must_balance(voucher);
    redis_run("FLUSHALL");
    ck_assert_int_eq(http_buy_patiently(other, voucher, "late", &reply), 201);
    service_signal(service, SIGCONT);
    WAIT_FOR(http_sample(service, "seckill_orders_refused_total") == ORDERS - 1);
    books_must_balance(voucher);
    ck_assert_int_eq(service_log_count(service, "books differ") + service_log_count(other, "books differ"), 0);
}

TEST(forgotten_scripts_are_not_noticed)
{
    struct service *service = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE], user[NAME_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, ORDERS, voucher);
    for (int i = 0; i < ORDERS; i++) {
        redis_run("SCRIPT FLUSH");
        (void)snprintf(user, sizeof user, "user%d", i);
        ck_assert_int_eq(http_buy(service, voucher, user, &reply), 201);
    }
    // Other scripts must be loaded again, too: to correct a rejected order, and to load a new voucher.
    redis_run("HDEL seckill:{%s}:buyers user0", voucher);
    redis_run("HINCRBY seckill:{%s}:voucher stock 1", voucher);
    redis_run("SCRIPT FLUSH");
    ck_assert_int_eq(http_buy_patiently(service, voucher, "user0", &reply), 409);
    redis_run("HINCRBY seckill:{%s}:voucher stock -1", voucher);
    books_must_balance(voucher);
    redis_run("SCRIPT FLUSH");
    voucher_on_sale(service, 1, voucher);
    books_must_balance(voucher);
}

// ---- PostgreSQL ----

// Winners are accepted while it is down, and confirmed when it is back. The instance stays ready, so that a gateway
// which asks for that still sends buyers.
TEST(postgres_stopped)
{
    struct service *service = service_start(ENV(HASTY, "SECKILL_CONFIRM_TIMEOUT_MS=50"));
    struct order orders[ORDERS];
    char voucher[VOUCHER_ID_SIZE], user[NAME_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, ORDERS, voucher);
    postgres_stop();
    service_await(service, false);
    ck_assert_int_eq(http_get(service, "/readyz", NULL, &reply), 200);
    for (int i = 0; i < ORDERS; i++) {
        (void)snprintf(orders[i].user, NAME_SIZE, "user%d", i);
        ck_assert_int_eq(http_buy(service, voucher, orders[i].user, &reply), 202);
        ck_assert(http_member(&reply, "id", orders[i].id));
    }
    for (int i = 0; i < ORDERS; i++) { // refusals need no PostgreSQL
        ck_assert_int_eq(http_buy(service, voucher, orders[i].user, &reply), 409);
        http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
        (void)snprintf(user, sizeof user, "loser%d", i);
        (void)http_buy(service, voucher, user, &reply);
        http_must_be_problem(&reply, 409, "SOLD_OUT");
    }
    service_log_must_have(service, 1,
                          "msg=\"PostgreSQL is away: purchases of its vouchers get 202, and their orders wait\"");
    postgres_start();
    service_await(service, true);
    orders_must_be_placed(service, voucher, orders);
    service_log_must_have(service, 1, "msg=\"PostgreSQL is back\" server=0 for_s=");
}

// It goes down in the middle of a batch, and does not know that batch afterwards.
TEST(postgres_restarted_under_a_batch)
{
    struct service *service = service_start(ENV(HASTY));
    struct order orders[ORDERS];
    char voucher[VOUCHER_ID_SIZE];
    accept_held_orders(service, voucher, orders);
    postgres_stop();
    db_let_orders_go();
    postgres_start();
    service_await(service, true);
    orders_must_be_placed(service, voucher, orders);
}

// The backend of our connection is frozen, so the order is sent again on a new connection. When it thaws, it executes
// the first statement late, without effect.
TEST(postgres_answers_too_late)
{
    static const char backend[] = "SELECT %s FROM pg_stat_activity, voucher_stock"
                                  " WHERE application_name = 'seckill-orders' AND voucher_id = %s";
    struct service *service = service_start(ENV(HASTY, "SECKILL_CONFIRM_TIMEOUT_MS=20000"));
    char voucher[VOUCHER_ID_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    pid_t pid = (pid_t)db_number(backend, "max(pid)", voucher);
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    int status = http_buy(service, voucher, "alice", &reply);
    (void)kill(pid, SIGCONT);
    ck_assert_msg(status == 201, "%d %s", status, reply.body);
    WAIT_FOR(db_number(backend, "count(*)", voucher) == 1); // the thawed backend has ended
    books_must_balance(voucher);
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s", voucher), 1);
}

// The backlog for PostgreSQL is bounded: above the limit the answer is 503, and no unit is lost.
TEST(too_many_orders_wait)
{
    STACK_SKIP_SHARDS("each shard has a bound of its own; the fault rows 65a and 65c reach it");
    struct service *service =
        service_start(ENV(HASTY, "SECKILL_CONFIRM_TIMEOUT_MS=50", "SECKILL_ORDERS_MAX=8", "SECKILL_BATCH_MAX=8"));
    struct order orders[ORDERS];
    char voucher[VOUCHER_ID_SIZE], retry[HTTP_FIELD_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    postgres_stop();
    service_await(service, false);
    accept_orders(service, voucher, orders);
    (void)http_buy(service, voucher, "one-too-many", &reply);
    http_must_be_problem(&reply, 503, "OVERLOADED");
    ck_assert(http_header(&reply, "Retry-After", retry));
    postgres_start();
    service_await(service, true);
    orders_must_be_placed(service, voucher, orders);
    ck_assert_int_eq(http_buy_patiently(service, voucher, "one-too-many", &reply), 201);
    books_must_balance(voucher);
}

// ---- everything at once ----

TEST(everything_restarted)
{
    struct service *service = service_start(ENV("SECKILL_LOCK_TTL_MS=300"));
    struct order orders[ORDERS];
    char voucher[VOUCHER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    db_hold_orders();
    accept_orders(service, voucher, orders);
    service_kill(service);
    redis_kill();
    postgres_stop();
    db_let_orders_go();
    struct service *next = service_launch(ENV(HASTY)); // started before the stores
    service_await(next, false);
    redis_start();
    postgres_start();
    service_await(next, true);
    orders_must_be_placed(next, voucher, orders);
}

static void teardown(void)
{
    service_stop_all();
    redis_run("CONFIG SET maxmemory 0");
}

SUITE(.begin = setup, .teardown = teardown, .in_one_process = true);
