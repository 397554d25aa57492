// Checks first what would make a start refuse the configuration, then each store, then both stores together. A start
// runs the first part itself, so the two agree.
#include "commands.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "admin_tokens.h"
#include "check_postgres.h"
#include "check_redis.h"
#include "client_limits.h"
#include "cors.h"
#include "descriptors.h"
#include "findings.h"
#include "listener.h"
#include "pg_hosts.h"
#include "redis_url.h"
#include "text.h"
#include "ticket.h"
#include "user_tokens.h"

// Clock differences between the stores: above the first, expiry pauses (recovery/expiry.c); above the second, a
// warning.
enum { APART_MOST_MS = 5000, APART_MUCH_MS = 1000 };

// Their form only.
static void check_urls(struct sk_findings *findings, const struct sk_store_options *stores, bool redis)
{
    struct sk_redis_url url = {0};
    if (redis && sk_redis_url_parse(stores->redis_url, &url) != SK_OK)
        sk_find(findings, SK_FINDING_FAIL, "SECKILL_REDIS_URL", "%s", url.wrong);
    sk_redis_url_free(&url);
    for (size_t i = 0; i < stores->shards.count; i++) {
        struct sk_pg_hosts *hosts = sk_pg_hosts_open(stores->shards.urls[i]);
        findings->counts[SK_FINDING_FAIL] += hosts == NULL; // which is logged
        sk_pg_hosts_close(hosts);
    }
}

static void check_descriptors(struct sk_findings *findings, const struct sk_config *config)
{
    struct rlimit limit = {0};
    uint64_t needed = sk_descriptors_needed(config);
    (void)getrlimit(RLIMIT_NOFILE, &limit); // cannot fail with these arguments
    SK_FIND_UNLESS(findings, limit.rlim_max >= needed, SK_FINDING_FAIL, "file descriptors",
                   "%" PRIu64 " needed, the hard limit here is %" PRIu64
                   "; raise it, or lower SECKILL_MAX_CONNECTIONS or SECKILL_REACTORS",
                   needed, (uint64_t)limit.rlim_max);
}

// What the parsers of settings print.
struct reasons {
    FILE *out; // NULL: out of memory
    char *text;
    size_t len, used;
};

static void check_read(struct sk_findings *findings, const char *what, const void *part, struct reasons *reasons)
{
    static const char program[] = "seckill: ";
    const char *reason = "out of memory";
    if (reasons->out != NULL && fflush(reasons->out) == 0 && reasons->len > reasons->used) {
        reason = reasons->text + reasons->used;
        reason += strncmp(reason, program, sizeof program - 1) == 0 ? sizeof program - 1 : 0;
        reasons->used = reasons->len;
    }
    sk_find(findings, part == NULL ? SK_FINDING_FAIL : SK_FINDING_OK, what, "%s", part == NULL ? reason : "read");
}

// Parses settings that have a format of their own, as a start does.
static void check_forms(struct sk_findings *findings, const struct sk_config *config)
{
    struct reasons reasons = {0};
    reasons.out = open_memstream(&reasons.text, &reasons.len);
    FILE *err = reasons.out == NULL ? stderr : reasons.out;
    struct sk_tokens *tokens = sk_tokens_open(&config->identity, err);
    if (tokens != NULL && !sk_tokens_any(tokens))
        sk_find(findings, SK_FINDING_OK, "admin tokens", "none: no voucher can be created, and /admin gets 403");
    else
        check_read(findings, "admin tokens", tokens, &reasons);
    struct sk_tickets *tickets = sk_tickets_open(&config->identity, err);
    check_read(findings, "ticket secrets", tickets, &reasons);
    struct sk_cors *cors = sk_cors_open(config->identity.cors_origins, err);
    check_read(findings, "CORS origins", cors, &reasons);
    struct sk_cors *pictures = sk_cors_open_list("SECKILL_PICTURE_ORIGINS", config->api.picture_origins, err);
    check_read(findings, "picture origins", pictures, &reasons);
    struct sk_limits *limits = sk_limits_open(&config->identity, &config->server, err);
    check_read(findings, "trusted proxies", limits, &reasons);
    if (config->api.login_url != NULL && config->api.pages != 0)
        SK_FIND_UNLESS(findings, sk_text_url(config->api.login_url), SK_FINDING_FAIL, "login",
                       "%s; SECKILL_LOGIN_URL is of the form https://host/path", config->api.login_url);
    sk_tokens_close(tokens);
    sk_tickets_close(tickets);
    sk_cors_close(cors);
    sk_cors_close(pictures);
    sk_limits_close(limits);
    if (reasons.out != NULL)
        (void)fclose(reasons.out);
    free(reasons.text);
}

// The same conditions under which a start fails, except that an address may be in use.
static void check_listener(struct sk_findings *findings, const char *what, const char *setting, const char *address,
                           const char *other)
{
    if (!sk_listen_address_is_formed(address))
        sk_find(findings, SK_FINDING_FAIL, what, "%s: '%s' is not of the form host:port", setting, address);
    else if (other != NULL && sk_listen_address_is_same(address, other))
        sk_find(findings, SK_FINDING_FAIL, what, "%s is that of SECKILL_LISTEN", setting);
    else if (findings->out != NULL) // a restart may find the host: a start waits for the name service
        SK_FIND_UNLESS(findings, sk_listen_address_is_good(address), SK_FINDING_FAIL, what, "%s", address);
}

static void check_keys(struct sk_findings *findings, struct sk_token_ring *ring)
{
    const struct sk_token_keys *keys = sk_editions_current(sk_token_ring_keys(ring));
    for (size_t i = 0; i < keys->unused_count; i++) {
        struct sk_token_key_unused unused = keys->unused[i];
        if (!unused.foreign)
            sk_find(findings, SK_FINDING_WARN, "keys of users' tokens", "keys[%zu] is not used: %s", unused.place,
                    unused.reason);
    }
}

static void check_users(struct sk_findings *findings, const struct sk_config *config)
{
    if (config->identity.auth == SK_AUTH_TOKEN) {
        struct sk_token_ring *ring = sk_token_ring_open(&config->identity, (unsigned)config->reactors);
        if (findings->out != NULL)
            sk_find(findings, ring == NULL ? SK_FINDING_FAIL : SK_FINDING_OK, "keys of users' tokens", "%s",
                    ring == NULL ? "wrong; the reason is on standard error" : "read");
        else
            findings->counts[SK_FINDING_FAIL] += ring == NULL; // which is logged
        if (ring != NULL && findings->out != NULL)
            check_keys(findings, ring);
        sk_token_ring_close(ring);
        return;
    }
    if (!sk_listen_address_is_formed(config->server.listen))
        return;
    bool near = !sk_listen_address_is_reachable(config->server.listen);
    SK_FIND_UNLESS(findings, near || config->identity.gateway_trusted != 0, SK_FINDING_FAIL, "gateway",
                   near ? "%s is this machine's alone"
                        : "SECKILL_LISTEN, %s, can be reached from other machines, and SECKILL_AUTH=gateway believes"
                          " every X-User-Id: set SECKILL_GATEWAY_TRUSTED=yes if only your gateway can, or"
                          " SECKILL_AUTH=token",
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
    check_listener(findings, "listener", "SECKILL_LISTEN", config->server.listen, NULL);
    if (config->api.admin_listen != NULL)
        check_listener(findings, "operators' listener", "SECKILL_ADMIN_LISTEN", config->api.admin_listen,
                       config->server.listen);
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

bool sk_check_settings(const struct sk_config *config, enum sk_command command)
{
    struct sk_findings findings = {.out = NULL};
    bool serves = command == SK_COMMAND_SERVE;
    if (serves)
        check_start(&findings, config);
    if (sk_config_needs_database(command))
        check_urls(&findings, &config->stores, serves);
    return findings.counts[SK_FINDING_FAIL] == 0;
}

int sk_check_files_run(const struct sk_config *config, FILE *out)
{
    struct sk_findings findings = {.out = out};
    check_start(&findings, config);
    return findings.counts[SK_FINDING_FAIL] > 0 ? SK_CHECK_FAILS : SK_CHECK_GOOD;
}

int sk_check_end(const struct sk_findings *findings)
{
    (void)fprintf(findings->out, "%zu ok, %zu warn, %zu fail\n", findings->counts[SK_FINDING_OK],
                  findings->counts[SK_FINDING_WARN], findings->counts[SK_FINDING_FAIL]);
    return findings->counts[SK_FINDING_FAIL] > 0   ? SK_CHECK_FAILS
           : findings->counts[SK_FINDING_WARN] > 0 ? SK_CHECK_WARNS
                                                   : SK_CHECK_GOOD;
}

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
    return sk_check_end(&findings);
}
