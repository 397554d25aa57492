// The history: any instance answers for all of them, also while Redis is away; one that dies is missed, one that ends
// by itself is not.
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "books.h"
#include "http.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { NAME_SIZE = 128, STOCK = 100, BUYERS = 5 };

#define PATIENT "SECKILL_CONFIRM_TIMEOUT_MS=30000" // no 202 on a busy machine
#define ADMIN   "Authorization: Bearer admin-token-of-the-tests\r\n"

static struct http_reply reply;

static void setup(void)
{
    stack_start(STACK_ALL);
}

static json_t *history(const struct service *service, const char *query)
{
    char path[NAME_SIZE];
    (void)snprintf(path, sizeof path, "/admin/history%s", query);
    ck_assert_msg(http_ask(service, "GET", path, ADMIN, NULL, &reply) == 200, "%d", reply.status);
    json_t *document = json_loads(reply.body, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(document != NULL, "%s", reply.body);
    return document;
}

// The row of an instance in the answer of another; NULL: it has none. Borrowed from the document.
static json_t *row_of(const json_t *document, const struct service *of)
{
    char name[NAME_SIZE], host[NAME_SIZE / 2] = "";
    json_t *row;
    size_t i;
    ck_assert_int_eq(gethostname(host, sizeof host - 1), 0);
    (void)snprintf(name, sizeof name, "%s:%d", host, service_port(of));
    json_array_foreach(json_object_get(document, "instances"), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0)
            return row;
    }
    return NULL;
}

static bool knows(const struct service *asked, const struct service *of)
{
    json_t *document = history(asked, "");
    bool known = row_of(document, of) != NULL;
    json_decref(document);
    return known;
}

static bool is_missed(const struct service *asked, const struct service *of)
{
    json_t *document = history(asked, ""), *row = row_of(document, of);
    bool missed = row != NULL && json_is_true(json_object_get(row, "missed"));
    json_decref(document);
    return missed;
}

// The sum of a column over all samples. `samples` gets their number; NULL: not asked for.
static int64_t sum(const struct service *service, const char *query, const char *column, size_t *samples)
{
    json_t *document = history(service, query), *row, *name;
    size_t i, at = 0;
    int64_t total = 0;
    json_array_foreach(json_object_get(document, "columns"), i, name)
    {
        if (strcmp(json_string_value(name), column) == 0)
            at = i;
    }
    ck_assert(at > 0 || strcmp(column, "at_ms") == 0);
    json_array_foreach(json_object_get(document, "samples"), i, row) total +=
        json_integer_value(json_array_get(row, at));
    if (samples != NULL)
        *samples = json_array_size(json_object_get(document, "samples"));
    json_decref(document);
    return total;
}

TEST(any_instance_answers_for_all)
{
    char voucher[VOUCHER_ID_SIZE], user[NAME_SIZE], query[NAME_SIZE];
    struct service *one = service_start(ENV(PATIENT)), *two = service_start(ENV(PATIENT, "SECKILL_REACTORS=2"));
    WAIT_FOR(knows(one, two) && knows(two, one));
    json_t *document = history(one, "");
    ck_assert_int_eq(json_integer_value(json_object_get(row_of(document, two), "reactors")), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(row_of(document, two), "redis_away")), 0);
    ck_assert(json_is_true(json_object_get(document, "shared")));
    json_decref(document);

    voucher_on_sale(one, STOCK, voucher);
    WAIT_FOR(sum(one, "", "instances", NULL) > 2);
    for (int i = 0; i < BUYERS; i++) {
        (void)snprintf(user, sizeof user, "user-%d", i);
        http_must_buy(i % 2 == 0 ? one : two, voucher, user);
    }
    WAIT_FOR(sum(one, "", "placed", NULL) == BUYERS && sum(two, "", "placed", NULL) == BUYERS);
    WAIT_FOR(sum(one, "", "committed", NULL) == BUYERS);
    ck_assert_int_gt(sum(one, "", "answer_p99_us", NULL), 0);
    ck_assert_int_eq(sum(one, "", "failed", NULL), 0);

    size_t samples;
    int64_t newest = sum(one, "?since=1", "at_ms", &samples);
    newest /= (int64_t)samples; // later than half of them
    (void)snprintf(query, sizeof query, "?since=%lld", (long long)newest);
    size_t all = samples;
    (void)sum(one, query, "at_ms", &samples);
    ck_assert_uint_lt(samples, all);
    ck_assert_int_eq(http_ask(one, "GET", "/admin/history?since=x", ADMIN, NULL, &reply), 422);
    ck_assert_int_eq(http_ask(one, "GET", "/admin/history", "", NULL, &reply), 401);
    books_must_balance(voucher);
}

TEST(one_that_dies_is_missed_and_one_that_ends_is_not)
{
    struct service *one = service_start(NULL), *two = service_start(NULL), *three = service_start(NULL);
    WAIT_FOR(knows(one, two) && knows(one, three));
    service_signal(two, SIGTERM);
    ck_assert_int_eq(service_wait(two), 0);
    service_kill(three);
    WAIT_FOR(!knows(one, two));
    WAIT_FOR(is_missed(one, three));
    ck_assert(!is_missed(one, one));
}

TEST(without_redis_an_instance_answers_for_itself)
{
    struct service *one = service_start(NULL);
    WAIT_FOR(knows(one, one));
    redis_kill();
    size_t before = 0, after = 0;
    (void)sum(one, "", "at_ms", &before);
    WAIT_FOR((sum(one, "", "at_ms", &after), after > before + 1));
    json_t *document = history(one, "");
    ck_assert(json_is_false(json_object_get(document, "shared")));
    ck_assert_int_gt(json_integer_value(json_object_get(row_of(document, one), "redis_away")), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(row_of(document, one), "reactors_ready")), 0);
    json_decref(document);
    redis_start();
    redis_run("DEL seckill:{shared}:figures");
    redis_run("HSET seckill:{shared}:figures odd strange x:1 17933000000001");
    WAIT_FOR(redis_number("HLEN seckill:{shared}:figures") == 1); // what no instance wrote is removed
    WAIT_FOR((sum(one, "", "at_ms", &before), before > after + 1));
    document = history(one, "");
    ck_assert(json_is_true(json_object_get(document, "shared")));
    ck_assert_uint_eq(json_array_size(json_object_get(document, "instances")), 1);
    json_decref(document);
}

// Of a voucher that asks for tickets, an instance without the secret names itself.
TEST(tickets_that_are_off_are_told)
{
    char voucher[VOUCHER_ID_SIZE], ids[NAME_SIZE];
    struct service *one = service_start(NULL);
    voucher_on_sale(one, STOCK, voucher);
    db_run("UPDATE seckill_voucher SET ticket = true WHERE id = %s", voucher);
    (void)snprintf(ids, sizeof ids, "\"tickets_off\":[\"%s\"]", voucher);
    WAIT_FOR((json_decref(history(one, "")), strstr(reply.body, ids) != NULL));
    db_run("UPDATE seckill_voucher SET ticket = false WHERE id = %s", voucher);
    WAIT_FOR((json_decref(history(one, "")), strstr(reply.body, "\"tickets_off\":[]") != NULL));
}

TEST(a_token_is_told_its_roles)
{
    struct service *one = service_start(NULL);
    ck_assert_int_eq(http_ask(one, "GET", "/admin/me", ADMIN, NULL, &reply), 200);
    ck_assert_str_eq(reply.body,
                     "{\"name\":\"admin\",\"roles\":[\"read\",\"operate\",\"refunds\",\"payments\",\"metrics\"]}");
    ck_assert_int_eq(http_ask(one, "GET", "/admin/me", "", NULL, &reply), 401);
}

SUITE(.timeout_s = 180, .begin = setup, .teardown = service_stop_all, .in_one_process = true);
