// Buyers see vouchers, and buy, while PostgreSQL is away: lists and single vouchers are those of the catalogue.
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "books.h"
#include "sales.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { MANY = 7, STOCK = 5, PATH_SIZE = 256 };

#define ADMIN "Authorization: Bearer admin-token-of-the-tests\r\n"

static struct service *service;
static struct http_reply reply;

static void setup(void)
{
    stack_start(STACK_ALL);
}

// The answer's body, which the caller frees.
static json_t *read_json(const char *path)
{
    ck_assert_msg(http_ask(service, "GET", path, "", NULL, &reply) == 200, "%s: %d %s", path, reply.status, reply.body);
    json_t *body = json_loads(reply.body, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(body);
    return body;
}

static bool is_stale(const char *path)
{
    json_t *body = read_json(path);
    bool stale = json_is_true(json_object_get(body, "stale"));
    json_decref(body);
    return stale;
}

// All vouchers of the list, read in pages. The caller frees them.
static json_t *read_pages(int limit)
{
    char path[PATH_SIZE];
    const char *next;
    json_t *all = json_array();
    (void)snprintf(path, sizeof path, "/vouchers?limit=%d", limit);
    do {
        json_t *body = read_json(path);
        ck_assert_ptr_null(json_object_get(body, "complete"));
        ck_assert_int_eq(json_array_extend(all, json_object_get(body, "vouchers")), 0);
        next = json_string_value(json_object_get(body, "next"));
        if (next != NULL)
            (void)snprintf(path, sizeof path, "/vouchers?limit=%d&cursor=%s", limit, next);
        json_decref(body);
    } while (next != NULL);
    return all;
}

static json_int_t remaining_of(const char *path)
{
    json_t *body = read_json(path), *remaining = json_object_get(body, "remaining");
    json_int_t units = json_is_integer(remaining) ? json_integer_value(remaining) : -1;
    json_decref(body);
    return units;
}

static void must_be_away(const char *path)
{
    (void)http_ask(service, "GET", path, ADMIN, NULL, &reply);
    http_must_be_problem(&reply, 503, "UNAVAILABLE");
}

TEST(buyers_see_the_catalogue_without_postgresql)
{
    char voucher[VOUCHER_ID_SIZE], path[PATH_SIZE], closed[PATH_SIZE], id[ORDER_ID_SIZE], phase[HTTP_FIELD_SIZE];
    int64_t first = sales_make(MANY, STOCK);
    db_run("UPDATE seckill_voucher SET state = 'paused' WHERE id = %" PRId64, first + 1);
    db_run("UPDATE seckill_voucher SET state = 'closed' WHERE id = %" PRId64, first + 2);
    (void)snprintf(voucher, sizeof voucher, "%" PRId64, first);
    (void)snprintf(path, sizeof path, "/vouchers/%s", voucher);
    (void)snprintf(closed, sizeof closed, "/vouchers/%" PRId64, first + 2);
    service = service_start(ENV("SECKILL_REACTORS=1"));
    for (int64_t at = first; at < first + MANY; at++) {
        char each[VOUCHER_ID_SIZE];
        (void)snprintf(each, sizeof each, "%" PRId64, at);
        WAIT_FOR(sales_redis_has(each, at == first + 1 ? "paused" : at == first + 2 ? "closed" : "open"));
    }
    json_t *before = read_pages(3), *row; // after this the documents have been read, as they were asked for before
    size_t i;
    ck_assert_uint_eq(json_array_size(before), MANY - 1);
    ck_assert(!is_stale("/vouchers"));
    postgres_stop();
    WAIT_FOR(is_stale("/vouchers"));
    ck_assert(is_stale(path));
    json_t *since = read_pages(3);
    json_array_foreach(since, i, row)
        ck_assert_int_eq(json_integer_value(json_object_get(row, "remaining")), STOCK); // as Redis has it
    ck_assert(json_equal(before, since));
    ck_assert(is_stale(closed)); // it is not listed
    ck_assert(http_member(&reply, "phase", phase));
    ck_assert_str_eq(phase, "ended");

    sales_accept(service, voucher, "alice", id);
    WAIT_FOR(remaining_of(path) == STOCK - 1);
    ck_assert_int_eq(sales_order(service, id, "alice", phase), 503); // not 404
    must_be_away("/vouchers/999999999");
    must_be_away("/admin/vouchers");
    must_be_away("/admin/vouchers?title=Test");
    (void)snprintf(path, sizeof path, "/admin/vouchers/%s", voucher);
    must_be_away(path);

    postgres_start();
    WAIT_FOR(sales_order_is(service, id, "alice", "unpaid"));
    WAIT_FOR(!is_stale("/vouchers"));
    json_decref(before);
    json_decref(since);
    books_must_balance(voucher);
}

// Then nothing can be bought, but a page can still show what there is.
TEST(without_both_stores_there_are_no_units)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "/vouchers/%" PRId64, sales_make(1, STOCK));
    service = service_start(ENV("SECKILL_REACTORS=1"));
    WAIT_FOR(remaining_of(path) == STOCK);
    postgres_stop();
    redis_kill();
    WAIT_FOR(is_stale(path) && remaining_of(path) == -1);
    json_t *body = read_json("/vouchers");
    ck_assert(json_is_false(json_object_get(body, "can_sell")));
    ck_assert(json_is_true(json_object_get(body, "stale")));
    json_decref(body);
}

SUITE(.begin = setup, .teardown = service_stop_all, .in_one_process = true);
