// Parses the address of Redis and rejects invalid ones.
#include <stdio.h>
#include <string.h>

#include "redis_url.h"
#include "test.h"

static const char *or_none(const char *text)
{
    return text == NULL ? "none" : text;
}

// All that a URL says: "[tls] user password host port db", then hosts of sentinels and their master, or of a cluster.
static const char *show(const struct sk_redis_url *url)
{
    static char out[512];
    int n = snprintf(out, sizeof out, "%s%s %s %s %d %s", url->tls ? "tls " : "", or_none(url->user),
                     or_none(url->password), url->at.name, url->at.port, url->db);
    for (size_t i = 0; i < url->sentinel_count; i++)
        n += snprintf(out + n, sizeof out - (size_t)n, " %s %d", url->sentinels[i].name, url->sentinels[i].port);
    if (url->sentinel_count > 0)
        n += snprintf(out + n, sizeof out - (size_t)n, " master %s", url->master);
    for (size_t i = 0; i < url->seed_count; i++)
        n += snprintf(out + n, sizeof out - (size_t)n, " seed %s %d", url->seeds[i].name, url->seeds[i].port);
    return out;
}

TEST(addresses_are_taken_apart)
{
    static const struct {
        const char *url, *shown;
    } rows[] = {
        {"redis://127.0.0.1", "none none 127.0.0.1 6379 0"},
        {"redis://127.0.0.1/", "none none 127.0.0.1 6379 0"},
        {"redis://redis.example:1", "none none redis.example 1 0"},
        {"redis://redis:65535/15", "none none redis 65535 15"},
        {"redis://redis/99999", "none none redis 6379 99999"},
        {"redis://[::1]", "none none ::1 6379 0"},
        {"redis://[fe80::1]:7000/3", "none none fe80::1 7000 3"},
        {"redis://:secret@redis", "none secret redis 6379 0"},
        {"redis://:s:e/c@r?e#t@redis:7000/2", "none s:e/c@r?e#t redis 7000 2"},
        {"redis://user:secret@redis", "user secret redis 6379 0"},
        {"redis://a.b-c_d:s:e@c@redis:1/2", "a.b-c_d s:e@c redis 1 2"},
        {"redis://user:@redis", "user  redis 6379 0"},
        {"redis://us%3Aer:s%2fe%2Bc%3D%40%25%C3%A9@redis", "us:er s/e+c=@%\xc3\xa9 redis 6379 0"},
        {"redis://:%2541+@redis", "none %41+ redis 6379 0"}, // decoded once, and + is no blank
        {"unix://us%65r:s%40/x@/run/redis.sock", "user s@/x /run/redis.sock 0 0"},
        {"unix:///run/%41.sock", "none none /run/%41.sock 0 0"}, // a path is as it is
        {"rediss://redis.example", "tls none none redis.example 6379 0"},
        {"rediss://user:secret@[::1]:7000/3", "tls user secret ::1 7000 3"},
        {"unix://user:s@cret@/run/redis.sock", "user s@cret /run/redis.sock 0 0"},
        {"unix://:secret@/run/redis.sock", "none secret /run/redis.sock 0 0"},
        {"unix:///run/a:b@/redis.sock", "none none /run/a:b@/redis.sock 0 0"},
        {"unix:///run/redis.sock", "none none /run/redis.sock 0 0"},
        {"rediss+sentinel://u:%70@a,[::1]:7,c.example:26380/my-master/3",
         "tls u p  0 3 a 26379 ::1 7 c.example 26380 master my-master"},
        {"redis+sentinel://a/m", "none none  0 0 a 26379 master m"},
        {"rediss+cluster://%75:p@a,[::1]:7,c.example:7000", "tls u p  0 0 seed a 6379 seed ::1 7 seed c.example 7000"},
        {"redis+cluster://a/", "none none  0 0 seed a 6379"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_redis_url url = {0};
        ck_assert_msg(sk_redis_url_parse(rows[i].url, &url) == SK_OK, "refused: %s", rows[i].url);
        ck_assert_str_eq(show(&url), rows[i].shown);
        sk_redis_url_free(&url);
    }
}

static void must_refuse(const char *text, const char *why)
{
    struct sk_redis_url url = {0};
    ck_assert_msg(sk_redis_url_parse(text, &url) == SK_FAIL, "taken for an address: '%s'", text);
    ck_assert_msg(strstr(url.wrong, why) != NULL, "'%s': %s", text, url.wrong);
    sk_redis_url_free(&url);
}

TEST(wrong_escapes_are_refused_with_their_reason)
{
    static const char *const wrong[] = {
        "redis://user:100%@h",       "redis://user:%4@h",      "redis://user:%zz@h",
        "redis://user:a%00b@h",      "redis://user:%0a@h",     "redis://%:p@h",
        "redis+sentinel://u:%x@a/m", "redis+cluster://u:%x@a", "unix://u:p%@/run/redis.sock"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        must_refuse(wrong[i], "%25");
}

TEST(wrong_addresses_are_refused)
{
    static const struct {
        const char *before, *rest[20];
    } wrong[] = {
        {"",
         {"", "127.0.0.1", "127.0.0.1:6379", "redis", "redis:", "redis:/127.0.0.1", "http://127.0.0.1",
          "redisss://127.0.0.1", "REDIS://127.0.0.1", " redis://127.0.0.1", "rediss://"}},
        {"redis://", {"", "/1", ":6379", ":password@", "password@127.0.0.1", "a,b", "[", "[]", "[::1", "[::1]x"}},
        {"redis://127.0.0.1",
         {":", ":0", ":-1", ":65536", ":06379", ":6379x", ":6379:6379", ":999999999999", "/x", "/-1", "/01", "/100000",
          "/1/2", "/1?x"}},
        {"redis+sentinel://", {"", "a", "a/", "/m", "a,/m", "a,,b/m", "a:0/m", "a/m/x", "1,2,3,4,5,6,7,8,9,10/m"}},
        {"redis+cluster://",
         {"", "a,", "a,,b", "a,a", "/a", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "a/1",
          "a/name"}}, // it has one database
        {"unix:",
         {"//", "//relative/path", "//user:secret@relative/path", "//user:secret@", "/run/redis.sock",
          "//password@/run/redis.sock"}}, // a user name alone
    };
    char url[600];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        for (size_t k = 0; k < 20 && wrong[i].rest[k] != NULL; k++) {
            (void)snprintf(url, sizeof url, "%s%s", wrong[i].before, wrong[i].rest[k]);
            must_refuse(url, "--help");
        }
    }
    (void)snprintf(url, sizeof url, "redis://%0500d", 0);
    must_refuse(url, "--help");
    (void)snprintf(url, sizeof url, "unix:///%0107d", 0); // one more than a socket's path may have
    must_refuse(url, "--help");
}

// It goes to the resolver, and into the log.
TEST(a_host_that_a_store_names_has_plain_characters)
{
    static const char *const plain[] = {"127.0.0.1", "::1", "redis-2.Example_9"};
    static const char *const odd[] = {"",    "a b", "a\nb", "a\"b", "\xc3\xa4", "/path",
                                      "a/b", "a;b", "(x)",  "$(x)", "?",        "??"};
    char name[SK_REDIS_HOST_SIZE];
    struct sk_redis_host host, other;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        ck_assert(sk_redis_host_read(plain[i], strlen(plain[i]), 65535, &host));
        ck_assert_str_eq(host.name, plain[i]);
        ck_assert_int_eq(host.port, 65535);
    }
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        ck_assert_msg(!sk_redis_host_read(odd[i], strlen(odd[i]), 1, &host), "%s", odd[i]);
        ck_assert(host.name[0] == '\0' && host.port == 0);
    }
    ck_assert(!sk_redis_host_read("a", 1, 0, &host) && !sk_redis_host_read("a", 1, 65536, &host));
    memset(name, 'h', sizeof name);
    ck_assert(!sk_redis_host_read(name, sizeof name, 1, &host) && sk_redis_host_read(name, sizeof name - 1, 1, &host));
    ck_assert(sk_redis_host_same(&host, &host));
    ck_assert(sk_redis_host_read(name, sizeof name - 1, 2, &other) && !sk_redis_host_same(&host, &other));
    ck_assert(sk_redis_host_read(name, sizeof name - 2, 1, &other) && !sk_redis_host_same(&host, &other));
}
