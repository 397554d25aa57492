// The list of instances: each reactor is listed as soon as it sells, and no longer once it is gone.
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "http.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { NAME_SIZE = 128, TTL_MS = 1500 };

#define SOON "SECKILL_LOCK_TTL_MS=1500"

static struct http_reply reply;

static void setup(void)
{
    stack_start(STACK_ALL);
}

static json_t *list(const struct service *service)
{
    char headers[HTTP_FIELD_SIZE];
    (void)snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\n", stack_admin_token);
    ck_assert_int_eq(http_ask(service, "GET", "/admin/instances", headers, NULL, &reply), 200);
    json_t *document = json_loads(reply.body, 0, NULL);
    ck_assert_ptr_nonnull(document);
    return document;
}

// The number of reactors listed for that instance; NULL: those without details.
static size_t count(const struct service *asked, const struct service *of)
{
    char name[NAME_SIZE], host[NAME_SIZE / 2] = "";
    size_t i, found = 0;
    json_t *document = list(asked), *row;
    ck_assert_int_eq(gethostname(host, sizeof host - 1), 0);
    (void)snprintf(name, sizeof name, "%s:%d", host, of == NULL ? 0 : service_port(of));
    json_array_foreach(json_object_get(document, "instances"), i, row)
    {
        const char *is = json_string_value(json_object_get(row, "name"));
        found += of == NULL ? is == NULL : is != NULL && strcmp(is, name) == 0;
        if (is == NULL)
            continue;
        ck_assert_str_eq(json_string_value(json_object_get(row, "version")), SK_VERSION);
        ck_assert_int_eq(json_integer_value(json_object_get(row, "ttl_ms")), TTL_MS);
        ck_assert_int_le(json_integer_value(json_object_get(row, "renewed_ago_ms")), TTL_MS);
        ck_assert_uint_eq(strlen(json_string_value(json_object_get(row, "started_at"))), 24);
    }
    json_decref(document);
    return found;
}

static size_t living(const struct service *asked)
{
    json_t *document = list(asked);
    size_t found = json_array_size(json_object_get(document, "instances"));
    json_decref(document);
    return found;
}

TEST(each_reactor_that_lives_is_listed)
{
    struct service *one = service_start(ENV(SOON));
    WAIT_FOR(count(one, one) == 1);
    struct service *two = service_start(ENV(SOON, "SECKILL_REACTORS=2"));
    WAIT_FOR(count(one, two) == 2 && count(two, one) == 1);
    ck_assert_uint_eq(living(one), 3);
    service_kill(two); // its sessions expire
    WAIT_FOR(living(one) == 1);
    struct service *three = service_start(ENV(SOON));
    WAIT_FOR(count(one, three) == 1);
    ck_assert_int_eq(redis_number("HLEN seckill:{shared}:instances"),
                     2); // the details of the dead instance are removed
    service_signal(three, 15);
    ck_assert_int_eq(service_wait(three), 0);
    ck_assert_uint_eq(living(one), 1);
}

// Nothing but this list depends on these details.
TEST(what_is_lost_is_told_with_the_next_session)
{
    struct service *one = service_start(ENV(SOON));
    WAIT_FOR(count(one, one) == 1);
    redis_run("SET seckill:{shared}:instances strange");
    ck_assert_uint_eq(count(one, NULL), 1);
    ck_assert_uint_eq(living(one), 1);
    redis_run("FLUSHALL"); // the session is lost, too, and is taken again
    WAIT_FOR(count(one, one) == 1);
    struct service *two = service_start(ENV(SOON));
    WAIT_FOR(count(one, two) == 1 && count(one, one) == 1);
}

TEST(without_redis_there_is_no_list)
{
    char headers[HTTP_FIELD_SIZE];
    struct service *one = service_start(ENV(SOON));
    (void)snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\n", stack_admin_token);
    WAIT_FOR(count(one, one) == 1);
    redis_kill();
    WAIT_FOR(http_ask(one, "GET", "/admin/instances", headers, NULL, &reply) == 503);
    http_must_be_problem(&reply, 503, "UNAVAILABLE");
    redis_start();
    WAIT_FOR(http_ask(one, "GET", "/admin/instances", headers, NULL, &reply) == 200);
    WAIT_FOR(count(one, one) == 1);
}

SUITE(.timeout_s = 120, .begin = setup, .teardown = service_stop_all, .in_one_process = true);
