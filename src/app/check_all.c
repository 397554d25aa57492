// Checks first what would prevent a start, then each store, then both stores together.
#include "commands.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "auth.h"
#include "check_postgres.h"
#include "check_redis.h"
#include "client_limits.h"
#include "cors.h"
#include "findings.h"
#include "listener.h"
#include "text.h"
#include "ticket.h"
#include "user_tokens.h"

// Clock differences between the stores: above the first, expiry pauses (recovery/expiry.c); above the second, a
// warning.
enum { APART_MOST_MS = 5000, APART_MUCH_MS = 1000 };

static void check_start(struct sk_findings *findings, const struct sk_config *config);
static void check_own_clock(struct sk_findings *findings, const struct sk_clocks_seen *redis);
static void check_clocks(struct sk_findings *findings, const struct sk_clocks_seen *redis,
                         const struct sk_clock_seen *postgres);

int sk_check_run(const struct sk_config *config, FILE *out)
{
    struct sk_findings findings = {.out = out};
    const struct sk_shards *shards = &config->stores.shards;
    struct sk_clocks_seen redis;
    (void)signal(SIGPIPE, SIG_IGN); // OpenSSL would raise it when a store closes the connection
    check_start(&findings, config);
    sk_check_redis(&findings, &config->stores, sk_config_reactors(config), &redis);
    check_own_clock(&findings, &redis);
    for (size_t i = 0; i < shards->count; i++) {
        struct sk_clock_seen postgres;
        if (shards->count > 1)
            sk_find(&findings, SK_FINDING_OK, "shard", "%zu of %zu:", i, shards->count);
        sk_check_postgres(&findings, &config->stores, i, sk_config_reactors(config), &postgres);
        check_clocks(&findings, &redis, &postgres);
    }
    (void)fprintf(out, "%zu ok, %zu warn, %zu fail\n", findings.counts[SK_FINDING_OK], findings.counts[SK_FINDING_WARN],
                  findings.counts[SK_FINDING_FAIL]);
    return findings.counts[SK_FINDING_FAIL] > 0   ? SK_CHECK_FAILS
           : findings.counts[SK_FINDING_WARN] > 0 ? SK_CHECK_WARNS
                                                  : SK_CHECK_GOOD;
}

static void check_descriptors(struct sk_findings *findings, const struct sk_config *config)
{
    struct rlimit limit = {0};
    uint64_t needed = sk_descriptors_needed(config);
    (void)getrlimit(RLIMIT_NOFILE, &limit); // cannot fail with these arguments
    SK_FIND_UNLESS(findings, limit.rlim_max >= needed, SK_FINDING_FAIL, "file descriptors",
                   "%" PRIu64 " needed, the hard limit here is %" PRIu64, needed, (uint64_t)limit.rlim_max);
}

static void check_read(struct sk_findings *findings, const char *what, const void *part)
{
    sk_find(findings, part == NULL ? SK_FINDING_FAIL : SK_FINDING_OK, what, "%s", part == NULL ? "wrong" : "read");
}

// Parses settings that have a format of their own, as a start does. Their errors go to standard error.
static void check_forms(struct sk_findings *findings, const struct sk_config *config)
{
    struct sk_tokens *tokens = sk_tokens_open(&config->identity, stderr);
    struct sk_tickets *tickets = sk_tickets_open(&config->identity, stderr);
    struct sk_cors *cors = sk_cors_open(config->identity.cors_origins, stderr);
    struct sk_cors *pictures = sk_cors_open_list("SECKILL_PICTURE_ORIGINS", config->api.picture_origins, stderr);
    struct sk_limits *limits = sk_limits_open(&config->identity, &config->server, stderr);
    if (tokens != NULL && !sk_tokens_any(tokens))
        sk_find(findings, SK_FINDING_OK, "admin tokens", "none: no voucher can be created, and /admin gets 403");
    else
        check_read(findings, "admin tokens", tokens);
    check_read(findings, "ticket secrets", tickets);
    check_read(findings, "CORS origins", cors);
    check_read(findings, "picture origins", pictures);
    check_read(findings, "trusted proxies", limits);
    if (config->api.login_url != NULL && config->api.pages != 0)
        SK_FIND_UNLESS(findings, sk_text_url(config->api.login_url), SK_FINDING_FAIL, "login", "%s",
                       config->api.login_url);
    sk_tokens_close(tokens);
    sk_tickets_close(tickets);
    sk_cors_close(cors);
    sk_cors_close(pictures);
    sk_limits_close(limits);
}

// The same conditions under which a start fails, except that an address may be in use.
static void check_listeners(struct sk_findings *findings, const struct sk_config *config)
{
    const char *buyers = config->server.listen, *operators = config->api.admin_listen;
    SK_FIND_UNLESS(findings, sk_listen_address_is_good(buyers), SK_FINDING_FAIL, "listener", "%s", buyers);
    if (operators == NULL)
        return;
    bool good = sk_listen_address_is_good(operators), same = good && sk_listen_address_is_same(operators, buyers);
    SK_FIND_UNLESS(findings, good && !same, SK_FINDING_FAIL, "operators' listener",
                   same ? "%s is that of SECKILL_LISTEN" : "%s", operators);
}

static void check_keys(struct sk_findings *findings, struct sk_token_ring *ring)
{
    uint64_t version;
    const struct sk_token_keys *keys = sk_token_ring_take(ring, &version);
    for (size_t i = 0; i < sk_token_keys_unused_count(keys); i++) {
        struct sk_token_key_unused unused = sk_token_keys_unused(keys, i);
        if (!unused.foreign)
            sk_find(findings, SK_FINDING_WARN, "keys of users' tokens", "keys[%zu] is not used: %s", unused.place,
                    unused.reason);
    }
    sk_token_ring_give_back(ring, keys);
}

// How users are identified: the same conditions under which serve.c refuses to start.
static void check_users(struct sk_findings *findings, const struct sk_config *config)
{
    if (config->identity.auth == SK_AUTH_TOKEN) {
        struct sk_token_ring *ring = sk_token_ring_open(&config->identity, (unsigned)config->reactors);
        check_read(findings, "keys of users' tokens", ring);
        if (ring != NULL)
            check_keys(findings, ring);
        sk_token_ring_close(ring);
        return;
    }
    bool near = sk_listen_address_is_loopback(config->server.listen);
    SK_FIND_UNLESS(findings, near || config->identity.gateway_trusted != 0, SK_FINDING_FAIL, "gateway",
                   near ? "%s is this machine's alone"
                        : "%s can be reached from other machines; without"
                          " SECKILL_GATEWAY_TRUSTED=yes or SECKILL_AUTH=token it does"
                          " not start",
                   config->server.listen);
}

static void check_secrets(struct sk_findings *findings, const struct sk_config *config)
{
    const char *names[SK_DEMO_SECRETS];
    size_t n = sk_config_demo_secrets(config, names);
    for (size_t i = 0; i < n; i++)
        sk_find(findings, SK_FINDING_WARN, "secrets", "%s has a value of the demo, which everybody knows", names[i]);
    if (n == 0)
        sk_find(findings, SK_FINDING_OK, "secrets", "none is the demo's");
}

// Behind a gateway all clients have its address, unless it forwards theirs and is trusted.
static void check_addresses(struct sk_findings *findings, const struct sk_config *config)
{
    bool counted = config->identity.address_rate > 0 || config->identity.address_connections > 0;
    bool gateway = config->identity.auth == SK_AUTH_GATEWAY || config->identity.gateway_trusted != 0;
    if (gateway && config->identity.trusted_proxies == NULL)
        sk_find(findings, SK_FINDING_WARN, "client addresses",
                counted ? "are counted, and all clients of the gateway have one address and one rate: set "
                          "SECKILL_TRUSTED_PROXIES"
                        : "are not known: one client may have all streams that there are; set SECKILL_TRUSTED_PROXIES");
    else
        sk_find(findings, SK_FINDING_OK, "client addresses", counted ? "are counted" : "are not counted");
}

static void check_start(struct sk_findings *findings, const struct sk_config *config)
{
    sk_find(findings, SK_FINDING_OK, "configuration", "is read");
    check_descriptors(findings, config);
    check_forms(findings, config);
    check_listeners(findings, config);
    check_users(findings, config);
    check_addresses(findings, config);
    check_secrets(findings, config);
    SK_FIND_UNLESS(findings, config->api.demo == 0, SK_FINDING_WARN, "demo", "%s",
                   config->api.demo == 0 ? "is off" : "SECKILL_DEMO is on: anyone pays their orders without money");
}

static void check_own_clock(struct sk_findings *findings, const struct sk_clocks_seen *redis)
{
    static const struct sk_clock_seen ours;
    const struct sk_clock_seen *far = sk_clocks_farthest(redis, &ours);
    int64_t apart_ms = llabs(far->ahead_ms);
    if (far->known)
        SK_FIND_UNLESS(findings, apart_ms <= APART_MUCH_MS + (int64_t)far->within_ms, SK_FINDING_WARN,
                       "clock of this machine", "differs from Redis's by %" PRId64 " ms; order ids carry it", apart_ms);
}

static void check_clocks(struct sk_findings *findings, const struct sk_clocks_seen *redis,
                         const struct sk_clock_seen *postgres)
{
    const struct sk_clock_seen *far = sk_clocks_farthest(redis, postgres);
    if (!far->known || !postgres->known)
        return;
    int64_t apart_ms = llabs(far->ahead_ms - postgres->ahead_ms);
    int64_t within_ms = (int64_t)((far->within_ms + postgres->within_ms) / 2);
    int64_t surely_ms = apart_ms > within_ms ? apart_ms - within_ms : 0;
    if (surely_ms > APART_MOST_MS)
        sk_find(findings, SK_FINDING_FAIL, "clocks",
                "Redis and PostgreSQL differ by %" PRId64 " ms: past %d no unpaid order expires, and its units do not"
                " sell again (P4 waits)",
                apart_ms, APART_MOST_MS);
    else
        SK_FIND_UNLESS(findings, surely_ms <= APART_MUCH_MS, SK_FINDING_WARN, "clocks",
                       "Redis and PostgreSQL differ by %" PRId64 " ms; sales open and end by Redis's clock", apart_ms);
}
