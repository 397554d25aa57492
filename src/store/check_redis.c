// Uses hiredis's blocking calls, since nothing else runs in this process. Reads settings from INFO where possible,
// since a login of least privilege may not read the configuration. Only appendfsync has to come from the configuration.
#include "check_redis.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "embedded.h"
#include "keys.h"
#include "redis_reply.h"
#include "redis_url.h"
#include "text.h"

enum { VERSION_LEAST = 7, LINKS_PER_REACTOR = 2, VALUE_SIZE = 64, WHAT_SIZE = 2 * SK_KEY_SIZE };

#define SCRATCH_TAG "check" // not a voucher's tag: those begin with a digit

struct redis_check {
    struct sk_findings *findings;
    const struct sk_store_options *options;
    int64_t reactors;
    redisContext *context;
    const char *info; // borrowed from its reply
};

static const char *redis_check_why(const struct redis_check *check, const redisReply *reply, const char *other);
static bool redis_check_connect(struct redis_check *check);
static void redis_check_server(const struct redis_check *check);
static void redis_check_file(const struct redis_check *check);
static void redis_check_fsync(const struct redis_check *check);
static void redis_check_default(const struct redis_check *check);
static void redis_check_memory(const struct redis_check *check);
static void redis_check_clients(const struct redis_check *check);
static void redis_check_commands(const struct redis_check *check);
static struct sk_clock_seen redis_check_clock(const struct redis_check *check);

void sk_check_redis(struct sk_findings *findings, const struct sk_store_options *options, int64_t reactors,
                    struct sk_clock_seen *clock)
{
    struct redis_check check = {findings, options, reactors, NULL, NULL};
    *clock = (struct sk_clock_seen){0};
    if (!redis_check_connect(&check))
        goto out;
    redisReply *info = redisCommand(check.context, "INFO");
    if (info == NULL || info->type != REDIS_REPLY_STRING) {
        sk_find(findings, SK_FINDING_FAIL, "redis info", "%s", redis_check_why(&check, info, "is no text"));
        freeReplyObject(info);
        goto out;
    }
    check.info = info->str;
    redis_check_server(&check);
    redis_check_file(&check);
    redis_check_fsync(&check);
    redis_check_default(&check);
    redis_check_memory(&check);
    redis_check_clients(&check);
    freeReplyObject(info);
    redis_check_commands(&check);
    *clock = redis_check_clock(&check);
out:
    redisFree(check.context);
}

// Why a request got no usable answer. `other`: the reason if the reply has another type.
static const char *redis_check_why(const struct redis_check *check, const redisReply *reply, const char *other)
{
    return reply == NULL ? check->context->errstr : reply->type == REDIS_REPLY_ERROR ? reply->str : other;
}

// ---- logging in ----

// Records a finding if the reply is an error or missing.
static bool redis_check_greet(const struct redis_check *check, const char *what, int argc, const char **argv)
{
    redisReply *reply = redisCommandArgv(check->context, argc, argv, NULL);
    bool good = reply != NULL && reply->type != REDIS_REPLY_ERROR;
    if (!good)
        sk_find(check->findings, SK_FINDING_FAIL, what, "%s", redis_check_why(check, reply, ""));
    freeReplyObject(reply);
    return good;
}

static bool redis_check_connect(struct redis_check *check)
{
    struct sk_redis_url at = {0};
    int64_t ms = check->options->redis_timeout_ms;
    struct timeval patience = {ms / 1000, ms % 1000 * 1000};
    bool good = sk_redis_url_parse(check->options->redis_url, &at) == SK_OK;
    if (!good) {
        sk_find(check->findings, SK_FINDING_FAIL, "redis url", "is not of the form that --help shows");
        goto out;
    }
    check->context = at.port == 0 ? redisConnectUnixWithTimeout(at.host, patience)
                                  : redisConnectWithTimeout(at.host, at.port, patience);
    good = check->context != NULL && check->context->err == 0 && redisSetTimeout(check->context, patience) == REDIS_OK;
    if (!good) {
        sk_find(check->findings, SK_FINDING_FAIL, "redis reachable", "%s: purchases are answered 503",
                check->context == NULL ? "out of memory" : check->context->errstr);
        goto out;
    }
    const char *auth[] = {"AUTH", at.user == NULL ? at.password : at.user, at.password}, *select[] = {"SELECT", at.db};
    good = (at.password == NULL || redis_check_greet(check, "redis login", 2 + (at.user != NULL), auth)) &&
           redis_check_greet(check, "redis database", 2, select);
    if (good)
        sk_find(check->findings, SK_FINDING_OK, "redis reachable", "%s, database %s", at.host, at.db);
    if (good) // the service has no TLS of its own to Redis: a tunnel on this machine adds it (deploy/stunnel)
        sk_find_way_of(check->findings, "redis way", check->context->fd, false);
out:
    sk_redis_url_free(&at);
    return good;
}

// ---- checks of INFO ----

static const char *redis_check_value(const struct redis_check *check, const char *name, char out[VALUE_SIZE])
{
    if (!sk_redis_info_value(check->info, name, out, VALUE_SIZE))
        (void)snprintf(out, VALUE_SIZE, "unknown");
    return out;
}

static uint64_t redis_check_number(const struct redis_check *check, const char *name)
{
    char text[VALUE_SIZE];
    uint64_t number = 0;
    return sk_text_number(redis_check_value(check, name, text), UINT64_MAX / 2, &number) ? number : 0;
}

static void redis_check_server(const struct redis_check *check)
{
    char value[VALUE_SIZE];
    struct sk_findings *findings = check->findings;
    redis_check_value(check, "redis_version", value);
    SK_FIND_UNLESS(findings, strtol(value, NULL, 10) >= VERSION_LEAST, SK_FINDING_FAIL, "redis version",
                   "%s; %d or newer is needed", value, VERSION_LEAST);
    redis_check_value(check, "role", value);
    SK_FIND_UNLESS(findings, strcmp(value, "master") == 0, SK_FINDING_FAIL, "redis role",
                   "%s; only a master takes orders", value);
    bool cluster = redis_check_number(check, "cluster_enabled") != 0;
    SK_FIND_UNLESS(findings, !cluster, SK_FINDING_FAIL, "redis cluster", "%s; a cluster is not supported",
                   cluster ? "on" : "off");
}

static void redis_check_file(const struct redis_check *check)
{
    char value[VALUE_SIZE];
    struct sk_findings *findings = check->findings;
    bool on = redis_check_number(check, "aof_enabled") == 1;
    if (on)
        sk_find(findings, SK_FINDING_OK, "redis appendonly", "yes");
    else
        sk_find(findings, SK_FINDING_FAIL, "redis appendonly",
                "no: a restart of Redis loses what it has granted; a 202 whose instance dies, too, never ends (P5)");
    if (on) {
        redis_check_value(check, "aof_last_write_status", value);
        SK_FIND_UNLESS(findings, strcmp(value, "ok") == 0, SK_FINDING_FAIL, "redis file written",
                       "%s; while it cannot be written purchases are answered 503", value);
        redis_check_value(check, "aof_last_bgrewrite_status", value);
        SK_FIND_UNLESS(findings, strcmp(value, "ok") == 0, SK_FINDING_WARN, "redis file rewritten",
                       "%s; a file that is never rewritten grows until the disk is full", value);
    }
    redis_check_value(check, "rdb_last_bgsave_status", value);
    SK_FIND_UNLESS(findings, strcmp(value, "ok") == 0, SK_FINDING_WARN, "redis snapshot",
                   "%s; with `save` set Redis refuses writes after a snapshot that failed", value);
}

static void redis_check_memory(const struct redis_check *check)
{
    char policy[VALUE_SIZE];
    uint64_t used = redis_check_number(check, "used_memory"), most = redis_check_number(check, "maxmemory");
    bool evicts = strcmp(redis_check_value(check, "maxmemory_policy", policy), "noeviction") != 0;
    if (evicts)
        sk_find(check->findings, most > 0 ? SK_FINDING_FAIL : SK_FINDING_WARN, "redis maxmemory-policy",
                "%s instead of noeviction: a full memory throws away buyers or the journal (P2 and P6 lean on"
                " PostgreSQL then, P5 breaks)%s",
                policy, most > 0 ? "" : "; maxmemory is not set, so it has no effect yet");
    else
        sk_find(check->findings, SK_FINDING_OK, "redis maxmemory-policy", "noeviction");
    if (most == 0)
        sk_find(check->findings, SK_FINDING_OK, "redis memory", "%" PRIu64 " bytes used, no limit", used);
    else
        SK_FIND_UNLESS(check->findings, used <= most / 2, SK_FINDING_WARN, "redis memory",
                       "%" PRIu64 " of %" PRIu64
                       " bytes used; when it is full purchases are answered 503, and a rewrite"
                       " of the file may need as much again",
                       used, most);
}

static void redis_check_clients(const struct redis_check *check)
{
    uint64_t most = redis_check_number(check, "maxclients"), used = redis_check_number(check, "connected_clients");
    uint64_t needed = (uint64_t)check->reactors * LINKS_PER_REACTOR;
    uint64_t room = most > used ? most - used : 0;
    if (most > 0)
        SK_FIND_UNLESS(check->findings, room >= needed, SK_FINDING_WARN, "redis connections",
                       "%" PRIu64 " of %" PRIu64 " are free; this instance needs %" PRIu64, room, most, needed);
}

// ---- checks of the configuration ----

// CONFIG GET returns names and values. `out` is "" if the setting is missing.
static void redis_check_setting(const redisReply *reply, const char *name, char out[VALUE_SIZE])
{
    out[0] = '\0';
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        if (reply->element[i]->type == REDIS_REPLY_STRING && reply->element[i + 1]->type == REDIS_REPLY_STRING &&
            strcmp(reply->element[i]->str, name) == 0)
            (void)snprintf(out, VALUE_SIZE, "%s", reply->element[i + 1]->str);
    }
}

static void redis_check_fsync(const struct redis_check *check)
{
    char value[VALUE_SIZE];
    struct sk_findings *findings = check->findings;
    if (redis_check_number(check, "aof_enabled") != 1)
        return; // nothing is synced
    redisReply *reply = redisCommand(check->context, "CONFIG GET %s", "*append*");
    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY) {
        sk_find(findings, SK_FINDING_WARN, "redis appendfsync",
                "cannot be read (%s): check again with a login that may CONFIG GET",
                redis_check_why(check, reply, "no list"));
        freeReplyObject(reply);
        return;
    }
    redis_check_setting(reply, "appendfsync", value);
    if (strcmp(value, "always") == 0)
        sk_find(findings, SK_FINDING_OK, "redis appendfsync", "always");
    else if (strcmp(value, "everysec") == 0)
        sk_find(findings, SK_FINDING_WARN, "redis appendfsync",
                "everysec: a 202 of the last 2 s is lost if Redis's machine and the instance that gave it die together"
                " (P5)");
    else
        sk_find(findings, SK_FINDING_FAIL, "redis appendfsync",
                "%s: a crash of Redis's machine loses what was granted, for as long as the kernel likes; a 202 whose"
                " instance dies, too, never ends (P5)",
                value[0] == '\0' ? "unknown" : value);
    redis_check_setting(reply, "no-appendfsync-on-rewrite", value);
    SK_FIND_UNLESS(findings, strcmp(value, "yes") != 0, SK_FINDING_WARN, "redis no-appendfsync-on-rewrite",
                   "%s; with yes nothing is synced while the file is rewritten (P5)", value);
    freeReplyObject(reply);
}

// ---- rights of the user `default` ----

// Scripts are in Redis's append-only file as transactions. Redis runs those with the rights of the user `default`, and
// silently skips what these rights do not cover. The commands here are written as in the file: EXPIRE as PEXPIREAT.
static const char *const writes[][6] = {
    {"HSET", "a", "1"},
    {"HINCRBY", "a", "1"},
    {"HDEL", "a"},
    {"XADD", "1-1", "a", "1"},
    {"XDEL", "1-1"},
    {"SET", "1"},
    {"PEXPIREAT", "1"},
    {"DEL"},
    {"UNLINK"},
    {"ZADD", "1", "a"},
    {"ZREM", "a"},
    {"ZINCRBY", "1", "a"},
    {"ZREMRANGEBYSCORE", "1", "1"},
};

// Asks ACL DRYRUN about one write to one key.
static redisReply *redis_check_try_write(const struct redis_check *check, const char *const write[], const char *key)
{
    const char *argv[10] = {"ACL", "DRYRUN", "default", write[0], key};
    int argc = 5;
    for (size_t i = 1; write[i] != NULL; i++)
        argv[argc++] = write[i];
    return redisCommandArgv(check->context, argc, argv, NULL);
}

// Tries all commands on one key, and one command on all keys. Gives the first reply that is not "OK", and writes its
// command and key to `what`. NULL: all are allowed, or the connection is lost.
static redisReply *redis_check_first_denied(const struct redis_check *check, char what[WHAT_SIZE])
{
    struct sk_voucher_keys voucher;
    char lock[SK_KEY_SIZE], session[SK_KEY_SIZE];
    sk_keys_of_voucher(SCRATCH_TAG, &voucher);
    sk_key_of_lock("rebuild", SCRATCH_TAG, lock);
    sk_key_of_session(SCRATCH_TAG, session);
    const char *keys[] = {voucher.voucher, voucher.buyers,  voucher.journal, voucher.repeats, voucher.ended, lock,
                          session,         SK_KEY_SESSIONS, SK_KEY_BUSY,     SK_KEY_PROTOCOL, SK_KEY_CLOCK};
    size_t commands = sizeof writes / sizeof *writes, all = commands + sizeof keys / sizeof *keys;
    redisReply *reply = NULL;
    for (size_t i = 0; i < all && (i == 0 || (reply != NULL && reply->type == REDIS_REPLY_STATUS)); i++) {
        const char *const *write = writes[i < commands ? i : 0], *key = keys[i < commands ? 0 : i - commands];
        freeReplyObject(reply);
        reply = redis_check_try_write(check, write, key);
        (void)snprintf(what, WHAT_SIZE, "%s %s", write[0], key);
    }
    if (reply == NULL || reply->type != REDIS_REPLY_STATUS)
        return reply;
    freeReplyObject(reply);
    return NULL;
}

static void redis_check_default(const struct redis_check *check)
{
    struct sk_findings *findings = check->findings;
    if (redis_check_number(check, "aof_enabled") != 1)
        return; // no append-only file is loaded
    char what[WHAT_SIZE];
    redisReply *denied = redis_check_first_denied(check, what);
    if (denied == NULL && check->context->err == 0)
        sk_find(findings, SK_FINDING_OK, "redis user default", "may do all that scripts write");
    else if (denied != NULL && denied->type == REDIS_REPLY_STRING)
        sk_find(
            findings, SK_FINDING_FAIL, "redis user default",
            "is denied %s: a restart of Redis leaves out what scripts have written, and loses what it has granted; a"
            " 202 whose instance dies, too, never ends (P5). It has to keep `~* +@all`, and may be `off`",
            what);
    else
        sk_find(findings, SK_FINDING_WARN, "redis user default",
                "its rights cannot be asked (%s): check again with a login that may ACL DRYRUN",
                redis_check_why(check, denied, "no text"));
    freeReplyObject(denied);
}

// ---- rights to commands ----

// EVALSHA as the service calls it: all keys, no arguments.
static redisReply *redis_check_try_commands(const struct redis_check *check, const char *sha)
{
    struct sk_voucher_keys voucher;
    char lock[SK_KEY_SIZE], session[SK_KEY_SIZE];
    sk_keys_of_voucher(SCRATCH_TAG, &voucher);
    sk_key_of_lock("rebuild", SCRATCH_TAG, lock);
    sk_key_of_session(SCRATCH_TAG, session);
    const char *argv[] = {
        "EVALSHA",       sha,  "12",    voucher.voucher, voucher.buyers, voucher.journal, voucher.repeats,
        voucher.ended,   lock, session, SK_KEY_SESSIONS, SK_KEY_BUSY,    SK_KEY_PROTOCOL, SK_KEY_CLOCK,
        SK_KEY_INSTANCES};
    return redisCommandArgv(check->context, sizeof argv / sizeof *argv, argv, NULL);
}

static void redis_check_refused(const struct redis_check *check, const redisReply *reply)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *command = reply->element[i], *error = reply->element[i + 1];
        sk_find(check->findings, SK_FINDING_FAIL, "redis commands", "%s: %s",
                command->type == REDIS_REPLY_STRING ? command->str : "one",
                error->type == REDIS_REPLY_STRING ? error->str : "is refused");
    }
    if (reply->elements == 0)
        sk_find(check->findings, SK_FINDING_OK, "redis commands", "all that are used may be used");
}

static void redis_check_commands(const struct redis_check *check)
{
    const char *load[] = {"SCRIPT", "LOAD", sk_scripts[SK_SCRIPT_CHECK_COMMANDS].text};
    redisReply *sha = redisCommandArgv(check->context, 3, load, NULL);
    redisReply *reply = NULL;
    if (sha != NULL && sha->type == REDIS_REPLY_STRING)
        reply = redis_check_try_commands(check, sha->str);
    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY) {
        redis_check_refused(check, reply);
    } else {
        sk_find(check->findings, SK_FINDING_FAIL, "redis scripts", "%s",
                redis_check_why(check, reply != NULL ? reply : sha, check->context->errstr));
    }
    freeReplyObject(reply);
    freeReplyObject(sha);
}

static struct sk_clock_seen redis_check_clock(const struct redis_check *check)
{
    struct sk_clock_seen seen = {0};
    uint64_t asked_ms = sk_wall_ms(), seconds, micros;
    redisReply *reply = redisCommand(check->context, "TIME");
    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[0]->type == REDIS_REPLY_STRING && reply->element[1]->type == REDIS_REPLY_STRING &&
        sk_text_number(reply->element[0]->str, UINT32_MAX, &seconds) &&
        sk_text_number(reply->element[1]->str, 999999, &micros))
        seen = sk_clock_compare((int64_t)(seconds * 1000 + micros / 1000), asked_ms, sk_wall_ms());
    freeReplyObject(reply);
    return seen;
}
