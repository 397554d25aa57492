// Many buyers at once, at several instances and reactors: exactly the offered units are sold, and each user gets at
// most one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "books.h"
#include "http.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { INSTANCES_MAX = 3, NAME_SIZE = 24, REQUEST_SIZE = 512 };

struct shopper {
    struct service *service;
    char user[NAME_SIZE];
    int fd;
    int status;
    char code[HTTP_FIELD_SIZE];  // of a refusal
    char order[HTTP_FIELD_SIZE]; // the order bought, or the existing one
};

struct tally {
    int placed, already, sold_out, other;
};

struct shape {
    int instances;
    const char *reactors;
};

static const struct shape shapes[] = {
    {2, "SECKILL_REACTORS=1"},
    {3, "SECKILL_REACTORS=1"},
    {1, "SECKILL_REACTORS=3"},
    {2, "SECKILL_REACTORS=2"},
};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void start_instances(const struct shape *shape, struct service **services)
{
    for (int i = 0; i < shape->instances; i++)
        services[i] = service_start(ENV(shape->reactors, "SECKILL_CONFIRM_TIMEOUT_MS=20000"));
}

static void hear(struct shopper *shopper, struct tally *tally)
{
    struct http_reply reply;
    ck_assert(http_receive(shopper->fd, &reply));
    (void)close(shopper->fd);
    shopper->status = reply.status;
    (void)http_member(&reply, "code", shopper->code);
    (void)http_member(&reply, reply.status == 201 ? "id" : "order_id", shopper->order);
    if (reply.status == 201)
        tally->placed++;
    else if (strcmp(shopper->code, "ALREADY_ORDERED") == 0)
        tally->already++;
    else if (strcmp(shopper->code, "SOLD_OUT") == 0)
        tally->sold_out++;
    else
        tally->other++;
}

// All connect before the first sends, and all send before the first answer is read.
static struct tally rush(const char *voucher, struct shopper *shoppers, int count)
{
    char request[REQUEST_SIZE];
    struct tally tally = {0};
    for (int i = 0; i < count; i++)
        shoppers[i].fd = http_connect(shoppers[i].service);
    for (int i = 0; i < count; i++) {
        http_buy_text(voucher, shoppers[i].user, request, sizeof request);
        ck_assert(http_send_text(shoppers[i].fd, request));
    }
    for (int i = 0; i < count; i++)
        hear(&shoppers[i], &tally);
    return tally;
}

TEST_EACH(one_user_everywhere, SHAPES)
{
    enum { ROUNDS = 10, TRIES = 8 };
    const struct shape *shape = &shapes[_i];
    struct service *services[INSTANCES_MAX] = {NULL};
    struct shopper shoppers[INSTANCES_MAX * TRIES];
    char voucher[VOUCHER_ID_SIZE];
    start_instances(shape, services);
    voucher_on_sale(services[0], ROUNDS + 1, voucher);
    for (int round = 0; round < ROUNDS; round++) {
        int count = shape->instances * TRIES;
        for (int i = 0; i < count; i++) {
            shoppers[i].service = services[i % shape->instances];
            (void)snprintf(shoppers[i].user, NAME_SIZE, "user%d", round);
        }
        struct tally tally = rush(voucher, shoppers, count);
        ck_assert_int_eq(tally.placed, 1);
        ck_assert_int_eq(tally.already, count - 1);
        for (int i = 1; i < count; i++)
            ck_assert_str_eq(shoppers[i].order, shoppers[0].order); // all get the same order id
    }
    books_must_balance(voucher);
    ck_assert_int_eq(redis_number("HGET seckill:{%s}:voucher stock", voucher), 1);
}

// Every user sends two requests, to different instances if there are several.
TEST_EACH(many_users_for_few_units, SHAPES)
{
    enum { USERS = 250, ASKED = 2 * USERS, UNITS = 40 };
    const struct shape *shape = &shapes[_i];
    struct service *services[INSTANCES_MAX] = {NULL};
    struct shopper *shoppers = calloc(ASKED, sizeof *shoppers);
    char voucher[VOUCHER_ID_SIZE];
    ck_assert_ptr_nonnull(shoppers);
    start_instances(shape, services);
    voucher_on_sale(services[0], UNITS, voucher);
    for (int i = 0; i < ASKED; i++) {
        shoppers[i].service = services[(i + i / USERS) % shape->instances];
        (void)snprintf(shoppers[i].user, NAME_SIZE, "user%d", i % USERS);
    }
    struct tally tally = rush(voucher, shoppers, ASKED);
    ck_assert_int_eq(tally.placed, UNITS);
    ck_assert_int_eq(tally.other, 0);
    ck_assert_int_eq(tally.placed + tally.already + tally.sold_out, ASKED);
    for (int i = 0; i < ASKED; i++) {
        if (shoppers[i].status == 201)
            ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE id = '%s' AND user_id = '%s'"
                                       " AND status = 'unpaid'",
                                       shoppers[i].order, shoppers[i].user),
                             1);
    }
    books_must_balance(voucher);
    ck_assert_int_eq(redis_number("HGET seckill:{%s}:voucher stock", voucher), 0);
    free(shoppers);
}

// Both batches of a writer and several vouchers at once, bought by the same users.
TEST_EACH(same_users_at_several_vouchers, SHAPES)
{
    enum { VOUCHERS = 3, USERS = 60 };
    struct service *services[INSTANCES_MAX] = {NULL};
    char vouchers[VOUCHERS][VOUCHER_ID_SIZE], request[REQUEST_SIZE], user[NAME_SIZE];
    static int fds[VOUCHERS * USERS];
    struct http_reply reply;
    start_instances(&shapes[_i], services);
    for (int i = 0; i < VOUCHERS; i++)
        voucher_on_sale(services[0], USERS, vouchers[i]);
    for (int i = 0; i < VOUCHERS * USERS; i++)
        fds[i] = http_connect(services[i % shapes[_i].instances]);
    for (int i = 0; i < VOUCHERS * USERS; i++) {
        (void)snprintf(user, sizeof user, "user%d", i / VOUCHERS);
        http_buy_text(vouchers[i % VOUCHERS], user, request, sizeof request);
        ck_assert(http_send_text(fds[i], request));
    }
    for (int i = 0; i < VOUCHERS * USERS; i++) {
        ck_assert(http_receive(fds[i], &reply));
        ck_assert_msg(reply.status == 201, "%d %s", reply.status, reply.body);
        (void)close(fds[i]);
    }
    for (int i = 0; i < VOUCHERS; i++)
        books_must_balance(vouchers[i]);
}

SUITE(.begin = setup, .teardown = service_stop_all, .in_one_process = true);
