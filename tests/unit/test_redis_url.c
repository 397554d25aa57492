// Parses the address of Redis and rejects invalid ones.
#include <string.h>

#include "redis_url.h"
#include "test.h"

TEST(addresses_are_taken_apart)
{
    static const struct {
        const char *url, *host;
        int port; // 0: a unix socket
        const char *password, *db, *user;
        bool tls;
    } rows[] = {
        {"redis://127.0.0.1", "127.0.0.1", 6379, NULL, "0", NULL, false},
        {"redis://127.0.0.1/", "127.0.0.1", 6379, NULL, "0", NULL, false},
        {"redis://redis.example:1", "redis.example", 1, NULL, "0", NULL, false},
        {"redis://redis:65535/15", "redis", 65535, NULL, "15", NULL, false},
        {"redis://redis/99999", "redis", 6379, NULL, "99999", NULL, false},
        {"redis://[::1]", "::1", 6379, NULL, "0", NULL, false},
        {"redis://[fe80::1]:7000/3", "fe80::1", 7000, NULL, "3", NULL, false},
        {"redis://:secret@redis", "redis", 6379, "secret", "0", NULL, false},
        {"redis://:s:e/c@r?e#t@redis:7000/2", "redis", 7000, "s:e/c@r?e#t", "2", NULL, false},
        {"redis://user:secret@redis", "redis", 6379, "secret", "0", "user", false},
        {"redis://a.b-c_d:s:e@c@redis:1/2", "redis", 1, "s:e@c", "2", "a.b-c_d", false},
        {"redis://user:@redis", "redis", 6379, "", "0", "user", false},
        {"redis://us%3Aer:s%2fe%2Bc%3D%40%25%C3%A9@redis", "redis", 6379, "s/e+c=@%\xc3\xa9", "0", "us:er", false},
        {"redis://:%2541+@redis", "redis", 6379, "%41+", "0", NULL, false}, // decoded once, and + is no blank
        {"unix://us%65r:s%40/x@/run/redis.sock", "/run/redis.sock", 0, "s@/x", "0", "user", false},
        {"unix:///run/%41.sock", "/run/%41.sock", 0, NULL, "0", NULL, false}, // a path is as it is
        {"rediss://redis.example", "redis.example", 6379, NULL, "0", NULL, true},
        {"rediss://user:secret@[::1]:7000/3", "::1", 7000, "secret", "3", "user", true},
        {"unix://user:s@cret@/run/redis.sock", "/run/redis.sock", 0, "s@cret", "0", "user", false},
        {"unix://:secret@/run/redis.sock", "/run/redis.sock", 0, "secret", "0", NULL, false},
        {"unix:///run/a:b@/redis.sock", "/run/a:b@/redis.sock", 0, NULL, "0", NULL, false},
        {"unix:///run/redis.sock", "/run/redis.sock", 0, NULL, "0", NULL, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_redis_url endpoint = {0};
        ck_assert_msg(sk_redis_url_parse(rows[i].url, &endpoint) == SK_OK, "refused: %s", rows[i].url);
        ck_assert_str_eq(endpoint.at.name, rows[i].host);
        ck_assert_int_eq(endpoint.at.port, rows[i].port);
        ck_assert_pstr_eq(endpoint.user, rows[i].user);
        ck_assert_pstr_eq(endpoint.password, rows[i].password);
        ck_assert_str_eq(endpoint.db, rows[i].db);
        ck_assert_int_eq(endpoint.tls, rows[i].tls);
        sk_redis_url_free(&endpoint);
    }
}

TEST(sentinels_are_taken_apart)
{
    struct sk_redis_url url = {0};
    ck_assert_int_eq(sk_redis_url_parse("rediss+sentinel://u:%70@a,[::1]:7,c.example:26380/my-master/3", &url), SK_OK);
    ck_assert(url.tls);
    ck_assert_str_eq(url.user, "u");
    ck_assert_str_eq(url.password, "p");
    ck_assert_str_eq(url.at.name, "");
    ck_assert_uint_eq(url.sentinel_count, 3);
    ck_assert_str_eq(url.sentinels[0].name, "a");
    ck_assert_int_eq(url.sentinels[0].port, 26379);
    ck_assert_str_eq(url.sentinels[1].name, "::1");
    ck_assert_int_eq(url.sentinels[1].port, 7);
    ck_assert_str_eq(url.sentinels[2].name, "c.example");
    ck_assert_int_eq(url.sentinels[2].port, 26380);
    ck_assert_str_eq(url.master, "my-master");
    ck_assert_str_eq(url.db, "3");
    sk_redis_url_free(&url);
    ck_assert_int_eq(sk_redis_url_parse("redis+sentinel://a/m", &url), SK_OK);
    ck_assert(!url.tls && url.sentinel_count == 1 && strcmp(url.db, "0") == 0);
    sk_redis_url_free(&url);
}

TEST(nodes_of_a_cluster_are_taken_apart)
{
    struct sk_redis_url url = {0};
    ck_assert_int_eq(sk_redis_url_parse("rediss+cluster://%75:p@a,[::1]:7,c.example:7000", &url), SK_OK);
    ck_assert(url.tls);
    ck_assert_str_eq(url.user, "u");
    ck_assert_str_eq(url.password, "p");
    ck_assert_str_eq(url.at.name, "");
    ck_assert_uint_eq(url.sentinel_count, 0);
    ck_assert_uint_eq(url.seed_count, 3);
    ck_assert_str_eq(url.seeds[0].name, "a");
    ck_assert_int_eq(url.seeds[0].port, 6379);
    ck_assert_str_eq(url.seeds[1].name, "::1");
    ck_assert_int_eq(url.seeds[1].port, 7);
    ck_assert_str_eq(url.seeds[2].name, "c.example");
    ck_assert_int_eq(url.seeds[2].port, 7000);
    sk_redis_url_free(&url);
    ck_assert_int_eq(sk_redis_url_parse("redis+cluster://a/", &url), SK_OK);
    ck_assert(!url.tls && url.seed_count == 1 && strcmp(url.db, "0") == 0);
    sk_redis_url_free(&url);
}

static void must_refuse(const char *url)
{
    struct sk_redis_url endpoint = {0};
    ck_assert_msg(sk_redis_url_parse(url, &endpoint) == SK_FAIL, "taken for an address: '%s'", url);
    sk_redis_url_free(&endpoint);
}

TEST(wrong_escapes_are_refused_with_their_reason)
{
    static const char *const wrong[] = {
        "redis://user:100%@h",       "redis://user:%4@h",      "redis://user:%zz@h",
        "redis://user:a%00b@h",      "redis://user:%0a@h",     "redis://%:p@h",
        "redis+sentinel://u:%x@a/m", "redis+cluster://u:%x@a", "unix://u:p%@/run/redis.sock"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct sk_redis_url url = {0};
        ck_assert_msg(sk_redis_url_parse(wrong[i], &url) == SK_FAIL, "%s", wrong[i]);
        ck_assert_ptr_nonnull(strstr(url.wrong, "%25"));
        sk_redis_url_free(&url);
    }
    struct sk_redis_url url = {0};
    ck_assert_int_eq(sk_redis_url_parse("redis", &url), SK_FAIL);
    ck_assert_ptr_nonnull(strstr(url.wrong, "--help"));
    sk_redis_url_free(&url);
}

TEST(wrong_addresses_are_refused)
{
    static const char *const wrong[] = {
        "",
        "127.0.0.1",
        "127.0.0.1:6379",
        "redis",
        "redis:",
        "redis:/127.0.0.1",
        "http://127.0.0.1",
        "rediss://",
        "redis+sentinel://",
        "redis+sentinel://a",
        "redis+sentinel://a/",
        "redis+sentinel:///m",
        "redis+sentinel://a,/m",
        "redis+sentinel://a,,b/m",
        "redis+sentinel://a:0/m",
        "redis+sentinel://a/m/x",
        "redis+sentinel://1,2,3,4,5,6,7,8,9,10/m",
        "redis+cluster://",
        "redis+cluster://a,",
        "redis+cluster://a,,b",
        "redis+cluster://a,a",
        "redis+cluster://a/1", // a cluster has one database
        "redis+cluster://a/name",
        "redis+cluster:///a",
        "redis+cluster://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
        "redis://a,b",
        "redisss://127.0.0.1",
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
        "unix://password@/run/redis.sock", // a user name alone
        "unix://user:secret@relative/path",
        "unix://user:secret@",
        "unix:/run/redis.sock",
    };
    char url[600] = "redis://";
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        must_refuse(wrong[i]);
    memset(url + strlen(url), 'h', 500);
    must_refuse(url);
    memcpy(url, "unix:///", 8);
    url[strlen("unix://") + 108] = '\0'; // one more than a socket's path may have
    must_refuse(url);
}
