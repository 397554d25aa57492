// A line over HTTP: who joins, who does not, how an order waits and leaves, and the end. Two instances, and both
// answer.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "books.h"
#include "sales.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { PATH_SIZE = 96, BODY_SIZE = 256, NAME_SIZE = 32, ROUNDS = 6, ASKED = 40 };

#define WAIT   "{\"wait\":true}"
#define MEMORY "seckill_refused_from_memory_total"

static struct http_reply reply;
static struct service *service, *other;
static char voucher[VOUCHER_ID_SIZE], field[HTTP_FIELD_SIZE];

static void setup(void)
{
    stack_start(STACK_ALL);
    service = service_start(ENV(HASTY));
    other = service_start(ENV(HASTY));
}

static void teardown(void)
{
    service_stop_all();
}

// An admin call of the voucher.
static int admin(const char *method, const char *what, const char *body)
{
    char path[PATH_SIZE], header[HTTP_FIELD_SIZE];
    (void)snprintf(path, sizeof path, "/admin/vouchers/%s%s", voucher, what);
    (void)snprintf(header, sizeof header, "Authorization: Bearer %s\r\nContent-Type: application/json\r\n",
                   stack_admin_token);
    return http_ask(service, method, path, header, body, &reply);
}

static void has_line(const char *terms)
{
    ck_assert_int_eq(admin("PATCH", "", terms), 200);
}

static int ask_to(const struct service *at, const char *user, const char *headers, const char *body)
{
    char path[PATH_SIZE], fields[BODY_SIZE];
    (void)snprintf(path, sizeof path, "/seckill/%s", voucher);
    (void)snprintf(fields, sizeof fields, "X-User-Id: %s\r\nContent-Type: application/json\r\n%s", user, headers);
    return http_ask(at, "POST", path, fields, body, &reply);
}

static int join(const struct service *at, const char *user)
{
    return ask_to(at, user, "", WAIT);
}

static int leave(const char *id, const char *user)
{
    char path[PATH_SIZE], fields[BODY_SIZE];
    (void)snprintf(path, sizeof path, "/orders/%s/cancel", id);
    (void)snprintf(fields, sizeof fields, "X-User-Id: %s\r\n", user);
    return http_ask(service, "POST", path, fields, NULL, &reply);
}

// A voucher whose one unit is sold, with a line of so many, which both instances know.
static void sold_out_with_line(const char *terms)
{
    char first[ORDER_ID_SIZE];
    voucher_on_sale(service, 1, voucher);
    has_line(terms);
    http_must_buy(service, voucher, "winner");
    WAIT_FOR(join(other, "prober") == 202);
    (void)http_member(&reply, "id", field);
    (void)snprintf(first, sizeof first, "%s", field);
    ck_assert_int_eq(leave(first, "prober"), 200);
}

static void must_wait_at(const char *place, char id[ORDER_ID_SIZE])
{
    ck_assert_int_eq(reply.status, 202);
    ck_assert(http_member(&reply, "status", field));
    ck_assert_str_eq(field, "waiting");
    ck_assert(http_member(&reply, "place", field));
    ck_assert_str_eq(field, place);
    ck_assert(http_member(&reply, "id", field));
    (void)snprintf(id, ORDER_ID_SIZE, "%s", field);
}

static void must_be_order(const char *id, const char *user, const char *status, const char *place)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "/orders/%s", id);
    ck_assert_int_eq(http_get(other, path, user, &reply), 200);
    ck_assert(http_member(&reply, "status", field));
    ck_assert_str_eq(field, status);
    (void)http_member(&reply, "place", field);
    ck_assert_str_eq(field, place);
    ck_assert(!http_member(&reply, "expires_at", field) || strcmp(status, "waiting") != 0);
}

TEST(who_waits_has_a_place_and_may_leave)
{
    char alice[ORDER_ID_SIZE], bob[ORDER_ID_SIZE], again[ORDER_ID_SIZE];
    sold_out_with_line("{\"waitlist\":2}");
    join(service, "alice");
    must_wait_at("0", alice);
    join(other, "bob");
    must_wait_at("1", bob);
    must_be_order(bob, "bob", "waiting", "1");
    join(service, "carol");
    http_must_be_problem(&reply, 409, "WAITLIST_FULL");
    join(other, "alice");
    http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
    ck_assert(http_member(&reply, "order_id", field));
    ck_assert_str_eq(field, alice);
    ck_assert_int_eq(http_buy(service, voucher, "alice", &reply), 409); // a plain purchase is as anybody's
    ck_assert_int_eq(leave(alice, "alice"), 200);
    ck_assert_int_eq(leave(alice, "alice"), 200);
    must_be_order(alice, "alice", "cancelled", "");
    must_be_order(bob, "bob", "waiting", "0");
    WAIT_FOR(join(other, "carol") == 202); // after refusals have expired
    must_wait_at("1", again);
    books_must_balance(voucher);
}

// Strangers are refused from memory. No instance refuses a user who waits, also while places change hands.
TEST(a_full_line_refuses_nobody_who_waits)
{
    const struct service *const instances[] = {service, other};
    char holder[ORDER_ID_SIZE], name[NAME_SIZE];
    double refused = http_sample(service, MEMORY);
    sold_out_with_line("{\"waitlist\":1}");
    for (int round = 0; round < ROUNDS; round++) {
        (void)snprintf(name, sizeof name, "holder-%d", round);
        WAIT_FOR(join(instances[round % 2], name) == 202); // after refusals have expired
        must_wait_at("0", holder);
        for (int i = 0; i < ASKED; i++) {
            join(instances[i % 2], "stranger");
            http_must_be_problem(&reply, 409, "WAITLIST_FULL");
            join(instances[i % 2], name);
            http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
        }
        ck_assert_int_eq(leave(holder, name), 200);
    }
    ck_assert(http_sample(service, MEMORY) > refused);
}

TEST(a_unit_is_bought_before_anybody_waits)
{
    voucher_on_sale(service, 2, voucher);
    has_line("{\"waitlist\":true}");
    ck_assert(http_member(&reply, "waitlist", field));
    ck_assert_str_eq(field, "4");
    ck_assert_int_eq(join(service, "alice"), 201);
    ck_assert_int_eq(join(service, "alice"), 409);
    ck_assert_int_eq(join(service, "bob"), 201);
    ck_assert_int_eq(join(service, "carol"), 202);
}

TEST(without_a_line_it_is_a_purchase)
{
    voucher_on_sale(service, 1, voucher);
    ck_assert_int_eq(join(service, "alice"), 201);
    join(service, "bob");
    http_must_be_problem(&reply, 409, "SOLD_OUT");
    ask_to(service, "bob", "", "{\"wait\":true,\"quantity\":2}");
    http_must_be_problem(&reply, 422, "INVALID");
    ask_to(service, "bob", "", "{\"wait\":1}");
    http_must_be_problem(&reply, 422, "INVALID");
}

TEST(a_key_repeats_the_first_answer)
{
    char first[ORDER_ID_SIZE], again[ORDER_ID_SIZE];
    sold_out_with_line("{\"waitlist\":5}");
    ask_to(service, "alice", "Idempotency-Key: k1\r\n", WAIT);
    must_wait_at("0", first);
    ask_to(other, "alice", "Idempotency-Key: k1\r\n", WAIT);
    ck_assert_int_eq(reply.status, 202);
    ck_assert(http_member(&reply, "id", field));
    (void)snprintf(again, sizeof again, "%s", field);
    ck_assert_str_eq(first, again);
}

// The winner gives the unit back: the first in line has it at once, then the next one. Nobody else can buy it
// meanwhile.
TEST(a_unit_that_returns_goes_to_the_line)
{
    char winner[ORDER_ID_SIZE], alice[ORDER_ID_SIZE], bob[ORDER_ID_SIZE];
    sold_out_with_line("{\"waitlist\":5}");
    ck_assert_int_eq(http_buy(other, voucher, "winner", &reply), 409);
    ck_assert(http_member(&reply, "order_id", field));
    (void)snprintf(winner, sizeof winner, "%s", field);
    join(service, "alice");
    must_wait_at("0", alice);
    join(other, "bob");
    must_wait_at("1", bob);
    ck_assert_int_eq(leave(winner, "winner"), 200);
    must_be_order(alice, "alice", "unpaid", "");
    ck_assert(http_member(&reply, "expires_at", field));
    must_be_order(bob, "bob", "waiting", "0");
    http_buy(service, voucher, "carol", &reply);
    http_must_be_problem(&reply, 409, "SOLD_OUT");
    WAIT_FOR(http_buy(other, voucher, "alice", &reply) == 409 && strstr(reply.body, "ALREADY_ORDERED") != NULL);
    ck_assert_int_eq(leave(alice, "alice"), 200);
    must_be_order(bob, "bob", "unpaid", "");
    ck_assert_int_eq(leave(bob, "bob"), 200); // nobody waits: it is on sale
    WAIT_FOR(http_buy(service, voucher, "carol", &reply) == 201);
    books_must_balance(voucher);
}

TEST(who_does_not_pay_passes_the_unit_on)
{
    char alice[ORDER_ID_SIZE], bob[ORDER_ID_SIZE];
    sold_out_with_line("{\"waitlist\":5}");
    join(service, "alice");
    must_wait_at("0", alice);
    join(other, "bob");
    must_wait_at("1", bob);
    db_run("UPDATE seckill_voucher SET pay_within_s = 1 WHERE id = %s", voucher);
    WAIT_FOR(sales_order_is(other, bob, "bob", "expired"));
    must_be_order(alice, "alice", "expired", "");
    ck_assert_int_eq(
        db_number("SELECT count(*) FROM order_event WHERE voucher_id = %s AND status = 'unpaid' AND type = 'moved'",
                  voucher),
        2);
    WAIT_FOR(http_buy(service, voucher, "carol", &reply) == 201);
    books_must_balance(voucher);
}

// Two wait, and three units come: one is on sale.
TEST(units_that_are_added_go_to_the_line)
{
    char alice[ORDER_ID_SIZE], bob[ORDER_ID_SIZE];
    sold_out_with_line("{\"waitlist\":5}");
    join(service, "alice");
    must_wait_at("0", alice);
    join(other, "bob");
    must_wait_at("1", bob);
    ck_assert_int_eq(admin("POST", "/stock", "{\"add\":3}"), 200);
    WAIT_FOR(sales_order_is(other, alice, "alice", "unpaid"));
    WAIT_FOR(sales_order_is(other, bob, "bob", "unpaid"));
    WAIT_FOR(http_buy(service, voucher, "carol", &reply) == 201);
    http_buy(other, voucher, "dave", &reply);
    http_must_be_problem(&reply, 409, "SOLD_OUT");
    books_must_balance(voucher);
}

TEST(at_the_end_all_who_wait_are_told)
{
    char alice[ORDER_ID_SIZE], bob[ORDER_ID_SIZE];
    sold_out_with_line("{\"waitlist\":5}");
    join(service, "alice");
    must_wait_at("0", alice);
    join(service, "bob");
    must_wait_at("1", bob);
    ck_assert_int_eq(admin("POST", "/close", NULL), 200);
    WAIT_FOR(sales_order_is(other, alice, "alice", "refused"));
    WAIT_FOR(sales_order_is(other, bob, "bob", "refused"));
    join(service, "carol");
    http_must_be_problem(&reply, 409, "ENDED");
    books_must_balance(voucher);
}

SUITE(.setup = setup, .teardown = teardown);
