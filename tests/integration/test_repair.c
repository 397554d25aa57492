// How a voucher is repaired: reconcile, by an operator or by the audit, and dead letters.
#include <jansson.h>
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

#define ADMIN "Authorization: Bearer admin-token-of-the-tests\r\n"

enum { STOCK = 10, BUYERS = 4, AT_ONCE = 6, PATH_SIZE = 128, NAME_SIZE = 24, REQUEST_SIZE = 512 };
enum { TRIES = 5 }; // attempts until a rejected order becomes a dead letter: TRIES_MAX of writer.c
enum { MANY = 24, BAD = 2, ENTRY_SIZE = 1 << 20 };

static void setup(void)
{
    stack_start(STACK_ALL);
}

// Makes a voucher on sale and sells a few of its units.
static void sell_some(struct service *service, char voucher[VOUCHER_ID_SIZE])
{
    char user[NAME_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    for (int i = 0; i < BUYERS; i++) {
        (void)snprintf(user, sizeof user, "user%d", i);
        http_must_buy(service, voucher, user);
    }
}

// An admin call on a voucher: POST, or GET if `what` only reads.
static int admin(struct service *service, const char *method, const char *voucher, const char *what,
                 struct http_reply *reply)
{
    char path[PATH_SIZE + VOUCHER_ID_SIZE];
    (void)snprintf(path, sizeof path, "/admin/vouchers/%.20s%.80s", voucher, what);
    return http_ask(service, method, path, ADMIN, NULL, reply);
}

// ---- reconcile on demand ----

TEST(an_admin_reconciles)
{
    struct service *service = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE], stock[HTTP_FIELD_SIZE];
    struct http_reply reply;
    sell_some(service, voucher);
    books_must_balance(voucher);
    int64_t epoch = voucher_epoch(voucher);
    ck_assert_int_eq(admin(service, "POST", voucher, "/reconcile", &reply), 200);
    ck_assert(http_member(&reply, "id", stock));
    ck_assert_str_eq(stock, voucher);
    ck_assert_int_eq(voucher_epoch(voucher), epoch + 1);
    ck_assert_int_eq(redis_number("HGET seckill:{%s}:voucher epoch", voucher), epoch + 1);
    books_must_balance(voucher);
    (void)http_buy(service, voucher, "user0", &reply);
    http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
    http_must_buy(service, voucher, "late");
    books_must_balance(voucher);
}

TEST(reconcile_refuses_what_makes_no_sense)
{
    struct service *service = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE], path[PATH_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    int64_t epoch = voucher_epoch(voucher);
    (void)snprintf(path, sizeof path, "/admin/vouchers/%s/reconcile", voucher);
    (void)http_ask(service, "POST", path, "", NULL, &reply);
    http_must_be_problem(&reply, 401, "UNAUTHENTICATED");
    (void)http_ask(service, "POST", path, "Authorization: Bearer wrong\r\n", NULL, &reply);
    ck_assert_int_eq(reply.status, 401);
    (void)admin(service, "GET", voucher, "/reconcile", &reply);
    http_must_be_problem(&reply, 405, "METHOD_NOT_ALLOWED");
    (void)admin(service, "POST", "999999", "/reconcile", &reply);
    http_must_be_problem(&reply, 404, "UNKNOWN_VOUCHER");
    (void)admin(service, "POST", "x", "/reconcile", &reply);
    http_must_be_problem(&reply, 400, "BAD_VOUCHER_ID");
    (void)admin(service, "POST", voucher, "/reconcile/x", &reply);
    http_must_be_problem(&reply, 404, "NOT_FOUND");
    ck_assert_int_eq(voucher_epoch(voucher), epoch);
    books_must_balance(voucher);
}

// The second caller gets "in progress", or reconciles again; both are correct.
TEST(many_reconcile_at_once)
{
    struct service *services[] = {service_start(ENV(HASTY)), service_start(ENV(HASTY))};
    char voucher[VOUCHER_ID_SIZE], request[REQUEST_SIZE];
    struct http_reply reply;
    int fds[AT_ONCE], done = 0;
    sell_some(services[0], voucher);
    int64_t epoch = voucher_epoch(voucher);
    (void)snprintf(request, sizeof request, "POST /admin/vouchers/%s/reconcile HTTP/1.1\r\nHost: test\r\n" ADMIN "\r\n",
                   voucher);
    for (int i = 0; i < AT_ONCE; i++) {
        fds[i] = http_connect(services[i % 2]);
        ck_assert(http_send_text(fds[i], request));
    }
    for (int i = 0; i < AT_ONCE; i++) {
        ck_assert(http_receive(fds[i], &reply));
        if (reply.status != 200)
            http_must_be_problem(&reply, 503, "LOADING");
        done += reply.status == 200;
        (void)close(fds[i]);
    }
    ck_assert_int_ge(done, 1);
    ck_assert_int_ge(voucher_epoch(voucher), epoch + done);
    http_must_buy(services[0], voucher, "late");
    http_must_buy(services[1], voucher, "later");
    books_must_balance(voucher);
}

// The stores cannot answer for a purchase, and no answer is that the voucher is unknown or sold out.
TEST(reconcile_needs_both_stores)
{
    struct service *service = service_start(ENV(HASTY));
    char voucher[VOUCHER_ID_SIZE];
    struct http_reply reply;
    sell_some(service, voucher);
    books_must_balance(voucher);
    int64_t epoch = voucher_epoch(voucher);
    postgres_stop();
    service_await(service, false);
    ck_assert_int_eq(admin(service, "POST", voucher, "/reconcile", &reply), 503);
    redis_kill();
    ck_assert_int_eq(admin(service, "POST", voucher, "/reconcile", &reply), 503);
    postgres_start();
    ck_assert_int_eq(admin(service, "POST", voucher, "/reconcile", &reply), 503);
    redis_start();
    service_await(service, true);
    http_must_buy(service, voucher, "late");
    ck_assert_int_gt(voucher_epoch(voucher), epoch); // Redis is a new process
    books_must_balance(voucher);
}

// ---- the audit ----

struct damage {
    const char *what;
    const char *command[4]; // %s: the voucher
};

static const struct damage damages[] = {
    {"stock too high", {"HINCRBY seckill:{%s}:voucher stock 2"}},
    {"stock too low", {"HINCRBY seckill:{%s}:voucher stock -1"}},
    {"stock is no number", {"HSET seckill:{%s}:voucher stock many"}},
    {"a buyer forgotten", {"HDEL seckill:{%s}:buyers user1"}},
    {"a buyer made up", {"HSET seckill:{%s}:buyers mallory x"}},
    {"all buyers forgotten", {"DEL seckill:{%s}:buyers"}},
    {"the voucher forgotten", {"DEL seckill:{%s}:voucher"}},
    {"a reconcile that died", {"HSET seckill:{%s}:voucher state loading"}},
    {"an older epoch", {"HSET seckill:{%s}:voucher epoch 0"}},
    {"an older journal id", {"HSET seckill:{%s}:voucher last 1-1"}},
    {"another Redis process", {"HSET seckill:{%s}:voucher run 0123456789012345678901234567890123456789"}},
    {"everything forgotten", {"DEL seckill:{%s}:voucher", "DEL seckill:{%s}:buyers", "DEL seckill:{%s}:journal"}},
    // Impossible values.
    {"stock in another notation", {"HSET seckill:{%s}:voucher stock 1e1"}},
    {"negative stock", {"HSET seckill:{%s}:voucher stock -3"}},
    {"an epoch out of range", {"HSET seckill:{%s}:voucher epoch 99999999999999999999"}},
    {"the largest epoch", {"HSET seckill:{%s}:voucher epoch 9223372036854775807"}},
    {"an epoch far ahead", {"HSET seckill:{%s}:voucher epoch 900000000000000"}},
    {"an epoch ahead", {"HSET seckill:{%s}:voucher epoch 5000"}},
    {"an epoch that is no number", {"HSET seckill:{%s}:voucher epoch x"}},
    {"an id out of range", {"HSET seckill:{%s}:voucher last 9999999999999999999-0"}},
    {"an id that is none", {"HSET seckill:{%s}:voucher last x"}},
    {"a start that is no time", {"HSET seckill:{%s}:voucher begin_ms soon"}},
    {"the voucher of another type", {"SET seckill:{%s}:voucher x"}},
    {"the buyers of another type", {"SET seckill:{%s}:buyers x"}},
    {"the journal of another type", {"SET seckill:{%s}:journal x"}},
    {"all of another type", {"SET seckill:{%s}:voucher x", "SET seckill:{%s}:buyers x", "SET seckill:{%s}:journal x"}},
};

enum { DAMAGES = sizeof damages / sizeof damages[0] };

static void do_damage(const struct damage *damage, const char *voucher)
{
    for (int i = 0; i < 4 && damage->command[i] != NULL; i++) {
        char command[PATH_SIZE]; // a compiler cannot check a format from a table
        const char *gap = strstr(damage->command[i], "%s");
        (void)snprintf(command, sizeof command, "%.*s%.20s%s", (int)(gap - damage->command[i]), damage->command[i],
                       voucher, gap + 2);
        redis_run(command);
    }
}

// The audit finds and rebuilds each damage by itself, without requests, each on its own voucher. A sound voucher is
// left alone.
TEST(the_audit_mends)
{
    static char vouchers[DAMAGES][VOUCHER_ID_SIZE];
    struct service *service = service_start(ENV(HASTY));
    char sound[VOUCHER_ID_SIZE], why[BOOKS_WHY_SIZE];
    struct http_reply reply;
    int64_t epochs[DAMAGES];
    sell_some(service, sound);
    books_must_balance(sound);
    int64_t sound_epoch = voucher_epoch(sound);
    for (int i = 0; i < DAMAGES; i++) {
        sell_some(service, vouchers[i]);
        books_must_balance(vouchers[i]);
        epochs[i] = voucher_epoch(vouchers[i]);
        do_damage(&damages[i], vouchers[i]);
    }
    for (int i = 0; i < DAMAGES; i++) {
        WAIT_FOR(voucher_epoch(vouchers[i]) > epochs[i] && books_balance(vouchers[i], why));
        (void)http_buy_patiently(service, vouchers[i], "user1", &reply);
        ck_assert_msg(http_is_problem(&reply, 409, "ALREADY_ORDERED"), "%s: %s", damages[i].what, reply.body);
        http_must_buy(service, vouchers[i], "late");
        books_must_balance(vouchers[i]);
    }
    ck_assert_int_eq(voucher_epoch(sound), sound_epoch);
}

// Redis comes back empty while orders are in progress: each retries its reservation, and none is lost.
TEST(grants_that_redis_has_forgotten)
{
    struct service *service = service_start(ENV(HASTY, "SECKILL_PG_TIMEOUT_MS=20000"));
    char voucher[VOUCHER_ID_SIZE], user[NAME_SIZE], ids[BUYERS][HTTP_FIELD_SIZE], path[PATH_SIZE],
        status[HTTP_FIELD_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    db_hold_orders();
    for (int i = 0; i < BUYERS; i++) {
        (void)snprintf(user, sizeof user, "user%d", i);
        ck_assert_int_eq(http_buy_async(service, voucher, user, &reply), 202);
        ck_assert(http_member(&reply, "id", ids[i]));
    }
    WAIT_FOR(db_orders_held_ms() > 0);
    redis_kill();
    redis_erase();
    redis_start();
    db_let_orders_go();
    service_await(service, true);
    for (int i = 0; i < BUYERS; i++) {
        (void)snprintf(user, sizeof user, "user%d", i);
        (void)snprintf(path, sizeof path, "/orders/%.40s", ids[i]);
        WAIT_FOR(http_get(service, path, user, &reply) == 200 && http_member(&reply, "status", status) &&
                 strcmp(status, "unpaid") == 0);
    }
    books_must_balance(voucher);
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s", voucher), BUYERS);
}

// ---- dead letters ----

// Whether the voucher has exactly one dead letter; returns its id.
static bool one_letter(struct service *service, const char *voucher, char letter[NAME_SIZE], json_t **document)
{
    struct http_reply reply;
    ck_assert_int_eq(admin(service, "GET", voucher, "/dead-letters", &reply), 200);
    json_t *json = json_loads(reply.body, 0, NULL), *letters = json_object_get(json, "dead_letters");
    ck_assert(json_is_array(letters));
    ck_assert_uint_le(json_array_size(letters), 1);
    bool found = json_array_size(letters) == 1;
    if (found) {
        const char *id = json_string_value(json_object_get(json_array_get(letters, 0), "id"));
        ck_assert_ptr_nonnull(id);
        (void)snprintf(letter, NAME_SIZE, "%s", id);
    }
    if (found && document != NULL)
        *document = json_incref(json_array_get(letters, 0));
    json_decref(json);
    return found;
}

static int decide(struct service *service, const char *voucher, const char *letter, const char *what,
                  struct http_reply *reply)
{
    char rest[PATH_SIZE];
    (void)snprintf(rest, sizeof rest, "/dead-letters/%s/%s", letter, what);
    return admin(service, "POST", voucher, rest, reply);
}

static void number_must_be(const struct http_reply *reply, const char *name, int64_t value)
{
    json_t *json = json_loads(reply->body, 0, NULL);
    const json_t *member = json_object_get(json, name);
    ck_assert_msg(json_is_integer(member) && json_integer_value(member) == value, "%s: %s", name, reply->body);
    json_decref(json);
}

// An entry written by hand is kept byte by byte as a dead letter, and does not delay valid entries.
TEST(an_entry_that_cannot_be_read)
{
    struct service *service = service_start(ENV(HASTY));
    char voucher[VOUCHER_ID_SIZE], letter[NAME_SIZE];
    struct http_reply reply;
    json_t *document = NULL;
    voucher_on_sale(service, STOCK, voucher);
    redis_run("XADD seckill:{%s}:journal * epoch 1 orders %b", voucher, "\xff\x00z", (size_t)3);
    http_must_buy(service, voucher, "alice");
    WAIT_FOR(one_letter(service, voucher, letter, NULL));
    ck_assert(one_letter(service, voucher, letter, &document));
    ck_assert_str_eq(json_string_value(json_object_get(document, "raw")),
                     "353a65706f63682c313a312c363a6f72646572732c333aff007a2c"); // 5:epoch,1:1,6:orders,3:...,
    ck_assert_ptr_null(json_object_get(document, "orders"));
    json_decref(document);
    books_must_balance(voucher);

    (void)decide(service, voucher, letter, "requeue", &reply);
    http_must_be_problem(&reply, 409, "UNREADABLE");
    ck_assert_int_eq(decide(service, voucher, letter, "write-off", &reply), 200);
    number_must_be(&reply, "written_off", 0);
    ck_assert(!one_letter(service, voucher, letter, NULL));
    (void)decide(service, voucher, letter, "requeue", &reply);
    http_must_be_problem(&reply, 404, "NOT_FOUND");
    books_must_balance(voucher);
}

// The same for returns. PostgreSQL would reject invalid text at each attempt, and the voucher would not open.
TEST_EACH(an_entry_of_returns_that_cannot_be_written, 2)
{
    struct service *service = service_start(ENV(HASTY));
    char voucher[VOUCHER_ID_SIZE], letter[NAME_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    redis_run("XADD seckill:{%s}:journal * epoch 1 returns %s move expired by %b why late", voucher,
              "018bcfe5-6800-7000-8000-00000000000a", "\xff", (size_t)1);
    if (_i == 1)
        ck_assert_int_eq(admin(service, "POST", voucher, "/reconcile", &reply), 200);
    WAIT_FOR(one_letter(service, voucher, letter, NULL));
    http_must_buy(service, voucher, "alice");
    ck_assert_int_eq(decide(service, voucher, letter, "write-off", &reply), 200);
    books_must_balance(voucher);
}

// An entry may have any size, and one request shows it: so the kept part and the shown part are bounded.
TEST(an_entry_of_a_megabyte_that_cannot_be_read)
{
    struct service *service = service_start(ENV(HASTY));
    char voucher[VOUCHER_ID_SIZE], letter[NAME_SIZE];
    json_t *document = NULL;
    char *junk = malloc(ENTRY_SIZE);
    ck_assert_ptr_nonnull(junk);
    memset(junk, 0xab, ENTRY_SIZE);
    voucher_on_sale(service, STOCK, voucher);
    redis_run("XADD seckill:{%s}:journal * epoch 1 orders %b", voucher, junk, (size_t)ENTRY_SIZE);
    free(junk);
    WAIT_FOR(one_letter(service, voucher, letter, NULL));
    ck_assert(one_letter(service, voucher, letter, &document));
    ck_assert_uint_eq(strlen(json_string_value(json_object_get(document, "raw"))), 2 * 4096);
    ck_assert_int_eq(json_integer_value(json_object_get(document, "raw_bytes")), 65536);
    ck_assert_str_eq(json_string_value(json_object_get(document, "reason")),
                     "it cannot be read; the first 65536 of 1048606 bytes are kept"); // 30 of names, lengths, marks
    json_decref(document);
    books_must_balance(voucher);
}

// PostgreSQL rejects every order of these users and counts the attempts in a sequence, which does not roll back.
static void refuse_victor(void)
{
    db_run("CREATE SEQUENCE victor_tries");
    db_run("CREATE FUNCTION refuse_victor() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN"
           " IF NEW.user_id IN ('victor', 'viktor') AND NEW.status <> 'refused' THEN"
           " RAISE 'not victor, for the %%th time', nextval('victor_tries'); END IF; RETURN NEW; END $$");
    db_run("CREATE TRIGGER victor BEFORE INSERT ON voucher_order FOR EACH ROW EXECUTE FUNCTION refuse_victor()");
}

static void accept_victor(void)
{
    db_run("DROP TRIGGER IF EXISTS victor ON voucher_order");
    db_run("DROP FUNCTION IF EXISTS refuse_victor");
    db_run("DROP SEQUENCE IF EXISTS victor_tries");
}

static void must_be(struct service *service, const char *order, const char *status, const char *reason)
{
    struct http_reply reply;
    char path[PATH_SIZE], found[HTTP_FIELD_SIZE];
    (void)snprintf(path, sizeof path, "/orders/%.40s", order);
    WAIT_FOR(http_get(service, path, "victor", &reply) == 200 && http_member(&reply, "status", found) &&
             strcmp(found, status) == 0);
    (void)http_member(&reply, "reason", found);
    ck_assert_str_eq(found, reason);
}

// Victor's order is accepted and becomes a dead letter, while others are placed.
static void set_victor_aside(struct service *service, char voucher[VOUCHER_ID_SIZE], char order[HTTP_FIELD_SIZE],
                             char letter[NAME_SIZE])
{
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    refuse_victor();
    ck_assert_int_eq(http_buy_async(service, voucher, "victor", &reply), 202);
    ck_assert(http_member(&reply, "id", order));
    http_must_buy(service, voucher, "alice");
    WAIT_FOR(one_letter(service, voucher, letter, NULL));
    must_be(service, order, "pending", "");
    books_must_balance(voucher); // his unit stays held
    ck_assert_int_eq(redis_number("HGET seckill:{%s}:voucher stock", voucher), STOCK - 2);
}

struct buyer {
    char user[NAME_SIZE], order[HTTP_FIELD_SIZE];
};

// Many buyers at once, among them victor and viktor, with their orders in few journal entries, because requests gather
// while Redis is paused. The orders are accepted, then delayed on their way to PostgreSQL.
static void accept_many(struct service *service, char voucher[VOUCHER_ID_SIZE], struct buyer buyers[MANY])
{
    static struct http_reply replies[MANY];
    char request[REQUEST_SIZE];
    int fds[MANY];
    voucher_on_sale(service, MANY + 1, voucher);
    refuse_victor();
    db_hold_orders();
    redis_pause();
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(buyers[i].user, NAME_SIZE, i == MANY / 3 ? "victor" : i == MANY / 2 ? "viktor" : "user%d", i);
        (void)snprintf(request, sizeof request,
                       "POST /seckill/%s HTTP/1.1\r\nHost: test\r\nX-User-Id: %s\r\nPrefer: respond-async\r\n\r\n",
                       voucher, buyers[i].user);
        fds[i] = http_connect(service);
        ck_assert(http_send_text(fds[i], request));
    }
    redis_resume();
    for (int i = 0; i < MANY; i++) {
        ck_assert(http_receive(fds[i], &replies[i]));
        ck_assert_int_eq(replies[i].status, 202);
        ck_assert(http_member(&replies[i], "id", buyers[i].order));
        (void)close(fds[i]);
    }
    ck_assert_int_lt(redis_number("XLEN seckill:{%s}:journal", voucher), MANY);
}

static bool buyer_is(struct service *service, const struct buyer *buyer, const char *status)
{
    struct http_reply reply;
    char path[PATH_SIZE], found[HTTP_FIELD_SIZE];
    (void)snprintf(path, sizeof path, "/orders/%.40s", buyer->order);
    ck_assert_int_ne(http_get(service, path, buyer->user, &reply), 404); // P5
    return http_member(&reply, "status", found) && strcmp(found, status) == 0;
}

// All but the bad orders are placed. Each bad one becomes its own dead letter, and is settled once the reason is gone.
static void only_the_bad_ones_wait(struct service *service, const char *voucher, const struct buyer buyers[MANY])
{
    struct http_reply reply;
    char letter[NAME_SIZE];
    for (int i = 0; i < MANY; i++)
        WAIT_FOR(buyer_is(service, &buyers[i], buyers[i].user[0] == 'v' ? "pending" : "unpaid"));
    WAIT_FOR(db_number("SELECT count(*) FROM dead_letter WHERE voucher_id = %s AND ended_at IS NULL", voucher) == BAD);
    ck_assert_int_eq(db_number("SELECT count(*) FROM dead_letter WHERE voucher_id = %s", voucher), BAD);
    for (int i = 0; i < MANY; i++) {
        if (buyers[i].user[0] == 'v')
            ck_assert_int_eq(db_number("SELECT count(*) FROM dead_letter WHERE orders = '%.36s %s'", buyers[i].order,
                                       buyers[i].user),
                             1);
    }
    books_must_balance(voucher); // two units stay held
    accept_victor();
    ck_assert_int_eq(admin(service, "GET", voucher, "/dead-letters", &reply), 200);
    json_t *json = json_loads(reply.body, 0, NULL), *letters = json_object_get(json, "dead_letters");
    ck_assert_uint_eq(json_array_size(letters), BAD);
    ck_assert_ptr_null(json_object_get(json, "next"));
    for (size_t i = 0; i < BAD; i++) {
        (void)snprintf(letter, sizeof letter, "%s",
                       json_string_value(json_object_get(json_array_get(letters, i), "id")));
        ck_assert_int_eq(decide(service, voucher, letter, "requeue", &reply), 200);
    }
    json_decref(json);
    for (int i = 0; i < MANY; i++)
        WAIT_FOR(buyer_is(service, &buyers[i], "unpaid"));
    books_must_balance(voucher);
    http_must_buy(service, voucher, "late");
    books_must_balance(voucher);
}

#define PATIENT "SECKILL_REDIS_TIMEOUT_MS=20000", "SECKILL_PG_TIMEOUT_MS=20000", "SECKILL_LOCK_TTL_MS=300"

TEST(a_batch_with_bad_orders)
{
    struct service *service = service_start(ENV(PATIENT));
    struct buyer buyers[MANY];
    char voucher[VOUCHER_ID_SIZE];
    accept_many(service, voucher, buyers);
    db_let_orders_go();
    only_the_bad_ones_wait(service, voucher, buyers);
    // Settled letters are closed.
    WAIT_FOR(db_number("SELECT count(*) FROM dead_letter WHERE voucher_id = %s AND ended_at IS NULL", voucher) == 0);
    books_must_balance(voucher);
}

TEST(the_journal_of_a_killed_instance_with_bad_orders)
{
    struct service *service = service_start(ENV(PATIENT));
    struct buyer buyers[MANY];
    char voucher[VOUCHER_ID_SIZE];
    accept_many(service, voucher, buyers);
    service_kill(service);
    db_let_orders_go();
    only_the_bad_ones_wait(service_start(ENV(HASTY)), voucher, buyers);
}

TEST(a_reconcile_with_bad_orders)
{
    // Its session outlives it, so that the reconcile settles the orders.
    struct service *service = service_start(
        ENV("SECKILL_REDIS_TIMEOUT_MS=20000", "SECKILL_PG_TIMEOUT_MS=20000", "SECKILL_LOCK_TTL_MS=600000"));
    struct service *other = service_start(ENV(HASTY));
    struct buyer buyers[MANY];
    char voucher[VOUCHER_ID_SIZE];
    struct http_reply reply;
    accept_many(service, voucher, buyers);
    service_kill(service);
    db_let_orders_go();
    WAIT_FOR(admin(other, "POST", voucher, "/reconcile", &reply) == 200);
    redis_run("DEL seckill:{shared}:sessions"); // the living come back, and the dead one is assigned no more work
    ck_assert_int_eq(redis_number("XLEN seckill:{%s}:journal", voucher), 0);
    only_the_bad_ones_wait(other, voucher, buyers);
}

// An entry of an instance with larger batches exceeds this instance's limit of orders.
TEST(an_entry_that_is_larger_than_the_room)
{
    STACK_SKIP_SHARDS("several shards need room for two batches at least");
    struct service *service = service_start(ENV(PATIENT));
    struct buyer buyers[MANY];
    char voucher[VOUCHER_ID_SIZE];
    accept_many(service, voucher, buyers);
    service_kill(service);
    db_run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'seckill'");
    db_let_orders_go();
    accept_victor();
    struct service *small = service_start(ENV(HASTY, "SECKILL_BATCH_MAX=1", "SECKILL_ORDERS_MAX=1"));
    for (int i = 0; i < MANY; i++)
        WAIT_FOR(buyer_is(small, &buyers[i], "unpaid"));
    books_must_balance(voucher);
    service_log_must_have(small, 1, "journal entry is larger than SECKILL_ORDERS_MAX");
}

TEST(a_dead_letter_is_tried_again)
{
    struct service *service = service_start(ENV(HASTY));
    char voucher[VOUCHER_ID_SIZE], order[HTTP_FIELD_SIZE], letter[NAME_SIZE], again[HTTP_FIELD_SIZE];
    struct http_reply reply;
    json_t *document = NULL;
    set_victor_aside(service, voucher, order, letter);
    ck_assert(one_letter(service, voucher, letter, &document));
    const json_t *its = json_array_get(json_object_get(document, "orders"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(its, "id")), order);
    ck_assert_str_eq(json_string_value(json_object_get(its, "user_id")), "victor");
    json_decref(document);

    // The order stays held through a reconcile, and its user stays a winner.
    ck_assert_int_eq(admin(service, "POST", voucher, "/reconcile", &reply), 200);
    must_be(service, order, "pending", "");
    books_must_balance(voucher);
    (void)http_buy(service, voucher, "victor", &reply);
    http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
    ck_assert(http_member(&reply, "order_id", again));
    ck_assert_str_eq(again, order);

    accept_victor();
    ck_assert_int_eq(decide(service, voucher, letter, "requeue", &reply), 200);
    number_must_be(&reply, "requeued", 1);
    must_be(service, order, "unpaid", "");
    ck_assert(!one_letter(service, voucher, letter, NULL));
    books_must_balance(voucher);
}

// While the reason persists, each retry ends in the dead letter again.
TEST(a_dead_letter_that_is_tried_in_vain)
{
    struct service *service = service_start(ENV(HASTY));
    char voucher[VOUCHER_ID_SIZE], order[HTTP_FIELD_SIZE], letter[NAME_SIZE], user[NAME_SIZE];
    struct http_reply reply;
    set_victor_aside(service, voucher, order, letter);
    for (int i = 0; i < 3; i++) {
        int64_t tries = db_number("SELECT last_value FROM victor_tries");
        ck_assert_int_eq(decide(service, voucher, letter, "requeue", &reply), 200);
        (void)snprintf(user, sizeof user, "user%d", i);
        http_must_buy(service, voucher, user);
        WAIT_FOR(db_number("SELECT last_value FROM victor_tries") >= tries + TRIES);
        must_be(service, order, "pending", "");
        ck_assert(one_letter(service, voucher, letter, NULL));
        books_must_balance(voucher); // one unit is held, not one per attempt
    }
    accept_victor();
    ck_assert_int_eq(decide(service, voucher, letter, "requeue", &reply), 200);
    must_be(service, order, "unpaid", "");
    books_must_balance(voucher);
}

TEST(a_dead_letter_is_written_off)
{
    struct service *service = service_start(ENV(HASTY));
    char voucher[VOUCHER_ID_SIZE], order[HTTP_FIELD_SIZE], letter[NAME_SIZE], other[VOUCHER_ID_SIZE];
    struct http_reply reply;
    set_victor_aside(service, voucher, order, letter);
    voucher_on_sale(service, STOCK, other);
    (void)decide(service, other, letter, "write-off", &reply);
    http_must_be_problem(&reply, 404, "NOT_FOUND");
    for (int i = 0; i < 2; i++) { // sent twice, done once
        ck_assert_int_eq(decide(service, voucher, letter, "write-off", &reply), 200);
        number_must_be(&reply, "written_off", 1);
        must_be(service, order, "refused", "WRITTEN_OFF");
        books_must_balance(voucher);
        ck_assert_int_eq(redis_number("HGET seckill:{%s}:voucher stock", voucher), STOCK - 1);
    }
    ck_assert(!one_letter(service, voucher, letter, NULL));
    accept_victor();
    http_must_buy(service, voucher, "victor"); // his unit sells again, also to him
    books_must_balance(voucher);
    ck_assert_int_eq(decide(service, voucher, letter, "write-off", &reply), 200);
    books_must_balance(voucher); // his new order is not affected
}

TEST(dead_letters_that_there_are_not)
{
    static const struct {
        const char *method, *rest;
        int status;
        const char *code;
    } rows[] = {
        {"POST", "/dead-letters", 405, "METHOD_NOT_ALLOWED"},
        {"GET", "/dead-letters/1/requeue", 405, "METHOD_NOT_ALLOWED"},
        {"POST", "/dead-letters/999999/requeue", 404, "NOT_FOUND"},
        {"POST", "/dead-letters/999999/write-off", 404, "NOT_FOUND"},
        {"POST", "/dead-letters/9223372036854775808/requeue", 404, "NOT_FOUND"},
        {"POST", "/dead-letters/0/requeue", 404, "NOT_FOUND"},
        {"POST", "/dead-letters/x/requeue", 404, "NOT_FOUND"},
        {"POST", "/dead-letters/1", 404, "NOT_FOUND"},
        {"POST", "/dead-letters/1/burn", 404, "NOT_FOUND"},
        {"POST", "/dead-letters/1/requeue/", 404, "NOT_FOUND"},
        {"GET", "/dead-lettersx", 404, "NOT_FOUND"},
    };
    struct service *service = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE], path[PATH_SIZE], letter[NAME_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)admin(service, rows[i].method, voucher, rows[i].rest, &reply);
        http_must_be_problem(&reply, rows[i].status, rows[i].code);
    }
    (void)snprintf(path, sizeof path, "/admin/vouchers/%s/dead-letters", voucher);
    (void)http_ask(service, "GET", path, "", NULL, &reply);
    http_must_be_problem(&reply, 401, "UNAUTHENTICATED");
    ck_assert(!one_letter(service, voucher, letter, NULL));
}

static void teardown(void)
{
    service_stop_all();
    accept_victor();
}

SUITE(.begin = setup, .teardown = teardown, .in_one_process = true);
