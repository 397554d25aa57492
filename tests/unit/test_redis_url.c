// The address of Redis: wrong ones are refused at start, before anything is connected.
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "redis_link.h"
#include "stack.h"

static void on_change(void *arg, bool ready)
{
    (void)arg;
    (void)ready;
}

static void must_refuse(uv_loop_t *loop, const char *url)
{
    struct sk_redis_options options = {.url = url, .timeout_ms = 1000, .on_change = on_change};
    ck_assert_msg(sk_redis_open(loop, &options) == NULL, "taken for an address: '%s'", url);
}

START_TEST(wrong_addresses_are_refused)
{
    static const char *const wrong[] = {
        "",
        "127.0.0.1",
        "127.0.0.1:6379",
        "redis",
        "redis:",
        "redis:/127.0.0.1",
        "http://127.0.0.1",
        "rediss://127.0.0.1", // TLS is not spoken
        "REDIS://127.0.0.1",
        " redis://127.0.0.1",
        "redis://",
        "redis:///1",
        "redis://:6379",
        "redis://:password@",
        "redis://password@127.0.0.1", // a user name alone: the colon is missing
        "redis://127.0.0.1:",
        "redis://127.0.0.1:0",
        "redis://127.0.0.1:-1",
        "redis://127.0.0.1:65536",
        "redis://127.0.0.1:06379",
        "redis://127.0.0.1:6379x",
        "redis://127.0.0.1:6379:6379",
        "redis://127.0.0.1:999999999999",
        "redis://127.0.0.1/x",
        "redis://127.0.0.1/-1",
        "redis://127.0.0.1/01",
        "redis://127.0.0.1/100000",
        "redis://127.0.0.1/1/2",
        "redis://127.0.0.1/1?x",
        "redis://[",
        "redis://[]",
        "redis://[::1",
        "redis://[::1]x",
        "unix://",
        "unix://relative/path",
        "unix:/run/redis.sock",
    };
    char url[600] = "redis://";
    uv_loop_t loop;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        must_refuse(&loop, wrong[i]);
    memset(url + strlen(url), 'h', 500);
    must_refuse(&loop, url);
    memcpy(url, "unix:///", 8);
    url[strlen("unix://") + 108] = '\0'; // one more than a socket's path may have
    must_refuse(&loop, url);
    ck_assert_int_eq(uv_loop_close(&loop), 0); // nothing was started
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("redis_url");
    tcase_add_test(tcase, wrong_addresses_are_refused);
    return harness_main(tcase, CK_FORK);
}
