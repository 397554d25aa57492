// Waits for each answer, since nothing else runs in this process. Reads settings from INFO where possible,
// since a login of least privilege may not read the configuration. Only when the file is synced and rewritten has to
// come from the configuration.
#include "check_redis.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "embedded.h"
#include "keys.h"
#include "nodes.h"
#include "redis_info.h"
#include "redis_once.h"
#include "redis_url.h"
#include "sentinels.h"
#include "slot.h"
#include "slot_map.h"
#include "text.h"

enum { VERSION_LEAST = 7, SENTINELS_LEAST = 3, VALUE_SIZE = 64, WHAT_SIZE = 2 * SK_KEY_SIZE };

#define REWRITE_LEAST_BYTES (1ULL << 30)
#define SCRATCH_TAG         "check" // not a voucher's tag: those begin with a digit

// The masters of a cluster, from 1 on, and the number of the one that has a slot; 0: no master has it.
struct check_nodes {
    struct sk_redis_host at[SK_NODES_MAX + 1];
    size_t count;
    uint8_t of_slot[SK_SLOTS];
};

struct redis_check {
    struct sk_findings *findings;
    const struct sk_store_options *options;
    int64_t reactors;
    struct sk_tls_files files;
    struct sk_redis_once *redis; // owned
    const char *info;            // borrowed from its reply
    bool writes_file;            // the append-only one
    struct sk_redis_url url;
    struct check_nodes nodes;
    size_t node;           // that is being checked
    char tag[SK_TAG_SIZE]; // of keys of no voucher, in a slot of that node
};

// Why a request got no usable answer. `other`: the reason if the reply has another type.
static const char *redis_check_why(const struct redis_check *check, const struct sk_reply *reply, const char *other)
{
    if (check->redis == NULL)
        return "out of memory";
    const char *error = reply == NULL ? sk_redis_once_why(check->redis) : sk_reply_error(reply);
    return error == NULL ? other : error;
}

static bool redis_check_is_ok(const struct sk_reply *reply)
{
    const char *text = sk_reply_text(reply, NULL);
    return text != NULL && strcmp(text, "OK") == 0;
}

// ---- logging in ----

// NULL: out of memory.
static struct sk_redis_once *redis_check_open(const struct redis_check *check, const struct sk_redis_host *at)
{
    return sk_redis_once_open(at, check->url.tls ? &check->files : NULL, (uint32_t)check->options->redis_timeout_ms);
}

// Records a finding if the reply is an error or missing.
static bool redis_check_greet(const struct redis_check *check, const char *what, int argc, const char **argv)
{
    struct sk_reply *reply = sk_redis_once_ask(check->redis, argc, argv);
    bool good = reply != NULL && sk_reply_error(reply) == NULL;
    if (!good)
        sk_find(check->findings, SK_FINDING_FAIL, what, "%s", redis_check_why(check, reply, ""));
    sk_reply_free(reply);
    return good;
}

// Logs in at the node of check->url.at. `away`: what it means if it cannot be reached.
static bool redis_check_login(struct redis_check *check, enum sk_finding away)
{
    const struct sk_redis_url *url = &check->url;
    check->redis = redis_check_open(check, &url->at);
    const char *why = redis_check_why(check, NULL, NULL);
    if (why != NULL) {
        sk_find(check->findings, away, "redis reachable", "%s: purchases are answered 503", why);
        return false;
    }
    const char *auth[] = {"AUTH", url->user == NULL ? url->password : url->user, url->password};
    return url->password == NULL || redis_check_greet(check, "redis login", 2 + (url->user != NULL), auth);
}

// ---- which Redis, or which nodes ----

// Asks a sentinel for the master; port 0: it names none.
static void redis_check_ask_sentinel(struct redis_check *check, const struct sk_redis_host *sentinel,
                                     struct sk_redis_host *master)
{
    const char *password = check->options->sentinel_password;
    const char *auth[] = {"AUTH", password}, *ask[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", check->url.master};
    check->redis = redis_check_open(check, sentinel);
    if (check->redis != NULL && password != NULL)
        sk_reply_free(sk_redis_once_ask(check->redis, 2, auth));
    struct sk_reply *reply = check->redis == NULL ? NULL : sk_redis_once_ask(check->redis, 3, ask);
    if (sk_sentinels_read(reply, master))
        sk_find(check->findings, SK_FINDING_OK, "sentinel", "%s:%d names %s:%d", sentinel->name, sentinel->port,
                master->name, master->port);
    else
        sk_find(check->findings, SK_FINDING_WARN, "sentinel", "%s:%d names no master (%s)", sentinel->name,
                sentinel->port, redis_check_why(check, reply, "it does not know the name"));
    sk_reply_free(reply);
    sk_redis_once_close(check->redis);
}

// What more than half of the sentinels name. False: there is no such master.
static bool redis_check_find_master(struct redis_check *check)
{
    struct sk_redis_url *url = &check->url;
    struct sk_redis_host named[SK_SENTINELS_MAX];
    size_t most;
    for (size_t i = 0; i < url->sentinel_count; i++)
        redis_check_ask_sentinel(check, &url->sentinels[i], &named[i]);
    const struct sk_redis_host *master = sk_sentinels_most_named(named, url->sentinel_count, &most);
    if (master != NULL)
        url->at = *master;
    bool agreed = 2 * most > url->sentinel_count;
    SK_FIND_UNLESS(
        check->findings, agreed, SK_FINDING_FAIL, "sentinels",
        "%zu of %zu name %s:%d; without more than half the service has no Redis, and purchases are answered 503", most,
        url->sentinel_count, url->at.name, url->at.port);
    SK_FIND_UNLESS(check->findings, url->sentinel_count >= SENTINELS_LEAST, SK_FINDING_WARN, "number of sentinels",
                   "%zu; with fewer than %d none of them may be lost", url->sentinel_count, SENTINELS_LEAST);
    return agreed;
}

static void redis_check_take_range(void *arg, unsigned first, unsigned last, const struct sk_redis_host *at)
{
    struct check_nodes *nodes = arg;
    size_t i = 1;
    while (i <= nodes->count && !sk_redis_host_same(&nodes->at[i], at))
        i++;
    if (i > SK_NODES_MAX)
        return;
    nodes->at[i] = *at;
    nodes->count = i > nodes->count ? i : nodes->count;
    memset(nodes->of_slot + first, (int)i, last - first + 1);
}

// The first node of the URL that shows the slots is believed.
static bool redis_check_find_nodes(struct redis_check *check)
{
    const char *ask[] = {"CLUSTER", "SLOTS"};
    bool found = false;
    for (size_t i = 0; !found && i < check->url.seed_count; i++) {
        check->url.at = check->url.seeds[i];
        struct sk_reply *reply =
            redis_check_login(check, SK_FINDING_WARN) ? sk_redis_once_ask(check->redis, 2, ask) : NULL;
        found = sk_slots_read(reply, &check->url.at, redis_check_take_range, &check->nodes);
        if (!found)
            memset(&check->nodes, 0, sizeof check->nodes); // what it has shown of them
        if (!found && reply != NULL)
            sk_find(check->findings, SK_FINDING_FAIL, "redis cluster", "%s:%d shows no slots (%s)", check->url.at.name,
                    check->url.at.port, redis_check_why(check, reply, "it has none"));
        sk_reply_free(reply);
        sk_redis_once_close(check->redis);
    }
    size_t without = 0;
    for (unsigned slot = 0; slot < SK_SLOTS; slot++)
        without += check->nodes.of_slot[slot] == 0;
    SK_FIND_UNLESS(check->findings, without == 0, SK_FINDING_FAIL, "redis slots",
                   "%zu masters, %zu slots without one; vouchers in those are answered 503", check->nodes.count,
                   without);
    return found;
}

static bool redis_check_find(struct redis_check *check)
{
    struct sk_redis_url *url = &check->url;
    if (sk_redis_url_parse(check->options->redis_url, url) != SK_OK) {
        sk_find(check->findings, SK_FINDING_FAIL, "redis url", "%s", url->wrong);
        return false;
    }
    if (url->seed_count > 0)
        return redis_check_find_nodes(check);
    if (url->sentinel_count > 0 && !redis_check_find_master(check))
        return false;
    memset(check->nodes.of_slot, 1, sizeof check->nodes.of_slot);
    check->nodes.at[1] = url->at;
    check->nodes.count = 1;
    return true;
}

// A tag whose slot this node has.
static void redis_check_choose_tag(struct redis_check *check)
{
    int n = snprintf(check->tag, sizeof check->tag, SCRATCH_TAG);
    for (unsigned i = 1; i < SK_SLOTS && check->nodes.of_slot[sk_slot(check->tag, (size_t)n)] != check->node; i++)
        n = snprintf(check->tag, sizeof check->tag, SCRATCH_TAG "-%u", i);
}

static bool redis_check_connect(struct redis_check *check)
{
    const struct sk_redis_url *url = &check->url;
    const char *select[] = {"SELECT", url->db};
    redis_check_choose_tag(check);
    if (!redis_check_login(check, SK_FINDING_FAIL) || !redis_check_greet(check, "redis database", 2, select))
        return false;
    if (url->seed_count > 0)
        sk_find(check->findings, SK_FINDING_OK, "redis reachable", "%s:%d", url->at.name, url->at.port);
    else
        sk_find(check->findings, SK_FINDING_OK, "redis reachable", "%s, database %s", url->at.name, url->db);
    sk_find_way_of(check->findings, "redis way", sk_redis_once_fd(check->redis), url->tls);
    return true;
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

// `why`: the consequence of another value.
static void redis_check_expect(const struct redis_check *check, const char *name, const char *value,
                               enum sk_finding kind, const char *what, const char *why)
{
    char found[VALUE_SIZE];
    redis_check_value(check, name, found);
    SK_FIND_UNLESS(check->findings, strcmp(found, value) == 0, kind, what, "%s; %s", found, why);
}

static void redis_check_server(const struct redis_check *check)
{
    char value[VALUE_SIZE];
    struct sk_findings *findings = check->findings;
    redis_check_value(check, "redis_version", value);
    SK_FIND_UNLESS(findings, strtol(value, NULL, 10) >= VERSION_LEAST, SK_FINDING_FAIL, "redis version",
                   "%s; %d or newer is needed", value, VERSION_LEAST);
    redis_check_expect(check, "role", "master", SK_FINDING_FAIL, "redis role", "only a master takes orders");
    bool cluster = redis_check_number(check, "cluster_enabled") != 0, wanted = check->url.seed_count > 0;
    SK_FIND_UNLESS(findings, cluster == wanted, SK_FINDING_FAIL, "redis cluster",
                   "%s; the URL of a cluster begins with redis+cluster, and that of one Redis does not",
                   cluster ? "on" : "off");
}

static void redis_check_file(const struct redis_check *check)
{
    if (check->writes_file) {
        sk_find(check->findings, SK_FINDING_OK, "redis appendonly", "yes");
        redis_check_expect(check, "aof_last_write_status", "ok", SK_FINDING_FAIL, "redis file written",
                           "while it cannot be written purchases are answered 503");
        redis_check_expect(check, "aof_last_bgrewrite_status", "ok", SK_FINDING_WARN, "redis file rewritten",
                           "a file that is never rewritten grows until the disk is full");
    } else {
        sk_find(check->findings, SK_FINDING_FAIL, "redis appendonly",
                "no: a restart of Redis loses what it has granted; a 202 whose instance dies, too, never ends (P5)");
    }
    redis_check_expect(check, "rdb_last_bgsave_status", "ok", SK_FINDING_WARN, "redis snapshot",
                       "with `save` set Redis refuses writes after a snapshot that failed");
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
    uint64_t needed = (uint64_t)check->reactors * (SK_NODE_LINKS + (check->url.seed_count > 0));
    uint64_t room = most > used ? most - used : 0;
    if (most > 0)
        SK_FIND_UNLESS(check->findings, room >= needed, SK_FINDING_WARN, "redis connections",
                       "%" PRIu64 " of %" PRIu64 " are free; this instance needs %" PRIu64, room, most, needed);
}

// ---- checks of the configuration ----

// CONFIG GET returns names and values. `out` is "" if the setting is missing.
static void redis_check_setting(const struct sk_reply *reply, const char *name, char out[VALUE_SIZE])
{
    out[0] = '\0';
    for (size_t i = 0; i + 1 < sk_reply_count(reply); i += 2) {
        const char *found = sk_reply_text(sk_reply_at(reply, i), NULL);
        const char *value = sk_reply_text(sk_reply_at(reply, i + 1), NULL);
        if (found != NULL && value != NULL && strcmp(found, name) == 0)
            (void)snprintf(out, VALUE_SIZE, "%s", value);
    }
}

// Whether Redis may rewrite its file on its own in the middle of a sale.
static void redis_check_rewrite(const struct redis_check *check)
{
    char percentage[VALUE_SIZE], least[VALUE_SIZE];
    const char *ask[] = {"CONFIG", "GET", "auto-aof-rewrite-*"};
    struct sk_reply *reply = sk_redis_once_ask(check->redis, 3, ask);
    redis_check_setting(reply, "auto-aof-rewrite-percentage", percentage);
    redis_check_setting(reply, "auto-aof-rewrite-min-size", least);
    bool late = strcmp(percentage, "0") == 0 || strtoull(least, NULL, 10) >= REWRITE_LEAST_BYTES;
    SK_FIND_UNLESS(check->findings, late, SK_FINDING_WARN, "redis auto-aof-rewrite-percentage",
                   "%s, from %s bytes on%s", percentage, least,
                   late ? "" : ": Redis may rewrite its file in a sale, and buyers wait for it");
    sk_reply_free(reply);
}

static void redis_check_fsync(const struct redis_check *check)
{
    char value[VALUE_SIZE];
    struct sk_findings *findings = check->findings;
    const char *ask[] = {"CONFIG", "GET", "*append*"};
    struct sk_reply *reply = sk_redis_once_ask(check->redis, 3, ask);
    if (!sk_reply_is_list(reply)) {
        sk_find(findings, SK_FINDING_WARN, "redis appendfsync",
                "cannot be read (%s): check again with a login that may CONFIG GET",
                redis_check_why(check, reply, "no list"));
        sk_reply_free(reply);
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
    sk_reply_free(reply);
    redis_check_rewrite(check);
}

// Of a node of a cluster: whether it serves its slots while others are away, and only then, and whether it can be
// replaced.
static void redis_check_cluster(const struct redis_check *check)
{
    static const struct {
        const char *what, *why;
    } settings[] = {
        {"redis cluster-require-full-coverage",
         "with yes the vouchers of all nodes are answered 503 while one is away"},
        {"redis cluster-allow-reads-when-down",
         "with yes a master that has lost the others refuses buyers whom its successor has granted an order (P6)"},
    };
    struct sk_findings *findings = check->findings;
    const char *ask[] = {"CONFIG", "GET", "cluster-*"};
    if (check->url.seed_count == 0)
        return;
    uint64_t replicas = redis_check_number(check, "connected_slaves");
    SK_FIND_UNLESS(findings, replicas > 0, SK_FINDING_WARN, "redis replicas",
                   "%" PRIu64 "; no other node can replace this one", replicas);
    struct sk_reply *reply = sk_redis_once_ask(check->redis, 3, ask);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        char value[VALUE_SIZE];
        redis_check_setting(reply, settings[i].what + strlen("redis "), value);
        if (value[0] == '\0')
            sk_find(findings, SK_FINDING_WARN, settings[i].what,
                    "cannot be read (%s): check again with a login that may CONFIG GET",
                    redis_check_why(check, reply, "no list"));
        else
            SK_FIND_UNLESS(findings, strcmp(value, "no") == 0, SK_FINDING_FAIL, settings[i].what, "%s; %s", value,
                           settings[i].why);
    }
    sk_reply_free(reply);
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
static struct sk_reply *redis_check_try_write(const struct redis_check *check, const char *const write[],
                                              const char *key)
{
    const char *argv[10] = {"ACL", "DRYRUN", "default", write[0], key};
    int argc = 5;
    for (size_t i = 1; write[i] != NULL; i++)
        argv[argc++] = write[i];
    return sk_redis_once_ask(check->redis, argc, argv);
}

// Tries all commands on one key, and one command on all keys. Gives the first reply that is not "OK", and writes its
// command and key to `what`. NULL: all are allowed, or the connection is lost.
static struct sk_reply *redis_check_first_denied(const struct redis_check *check, char what[WHAT_SIZE])
{
    struct sk_voucher_keys voucher;
    char lock[SK_KEY_SIZE], session[SK_KEY_SIZE];
    sk_keys_of_voucher(0, SCRATCH_TAG, &voucher);
    sk_key_of_lock("rebuild", 0, SCRATCH_TAG, lock);
    sk_key_of_session(SCRATCH_TAG, session);
    const char *keys[] = {voucher.voucher, voucher.buyers,  voucher.journal, voucher.repeats, voucher.ended, lock,
                          session,         SK_KEY_SESSIONS, SK_KEY_BUSY,     SK_KEY_PROTOCOL, SK_KEY_CLOCK};
    size_t commands = sizeof writes / sizeof *writes, all = commands + sizeof keys / sizeof *keys;
    struct sk_reply *reply = NULL;
    for (size_t i = 0; i < all && (i == 0 || redis_check_is_ok(reply)); i++) {
        const char *const *write = writes[i < commands ? i : 0], *key = keys[i < commands ? 0 : i - commands];
        sk_reply_free(reply);
        reply = redis_check_try_write(check, write, key);
        (void)snprintf(what, WHAT_SIZE, "%s %s", write[0], key);
    }
    if (!redis_check_is_ok(reply))
        return reply;
    sk_reply_free(reply);
    return NULL;
}

static void redis_check_default(const struct redis_check *check)
{
    struct sk_findings *findings = check->findings;
    char what[WHAT_SIZE];
    struct sk_reply *denied = redis_check_first_denied(check, what);
    if (denied == NULL && sk_redis_once_why(check->redis) == NULL)
        sk_find(findings, SK_FINDING_OK, "redis user default", "may do all that scripts write");
    else if (sk_reply_text(denied, NULL) != NULL)
        sk_find(
            findings, SK_FINDING_FAIL, "redis user default",
            "is denied %s: a restart of Redis leaves out what scripts have written, and loses what it has granted; a"
            " 202 whose instance dies, too, never ends (P5). It has to keep `~* +@all`, and may be `off`",
            what);
    else
        sk_find(findings, SK_FINDING_WARN, "redis user default",
                "its rights cannot be asked (%s): check again with a login that may ACL DRYRUN",
                redis_check_why(check, denied, "no text"));
    sk_reply_free(denied);
}

// ---- rights to commands ----

// EVALSHA with keys as the service has them: those of a voucher, or those of no voucher, which one node has.
static struct sk_reply *redis_check_try_commands(const struct redis_check *check, const char *sha, bool shared)
{
    struct sk_voucher_keys voucher;
    char lock[SK_KEY_SIZE], session[SK_KEY_SIZE];
    sk_keys_of_voucher(0, check->tag, &voucher);
    sk_key_of_lock("rebuild", 0, check->tag, lock);
    sk_key_of_session(SCRATCH_TAG, session);
    const char *own[] = {"EVALSHA",       sha,           "6",  voucher.voucher, voucher.buyers, voucher.journal,
                         voucher.repeats, voucher.ended, lock, "voucher"};
    const char *all[] = {
        "EVALSHA",        sha,     "6", session, SK_KEY_SESSIONS, SK_KEY_BUSY, SK_KEY_PROTOCOL, SK_KEY_CLOCK,
        SK_KEY_INSTANCES, "shared"};
    return sk_redis_once_ask(check->redis, sizeof own / sizeof own[0], shared ? all : own);
}

// Returns how many are refused.
static size_t redis_check_refused(const struct redis_check *check, const struct sk_reply *reply)
{
    for (size_t i = 0; i + 1 < sk_reply_count(reply); i += 2) {
        const char *command = sk_reply_text(sk_reply_at(reply, i), NULL);
        const char *error = sk_reply_text(sk_reply_at(reply, i + 1), NULL);
        sk_find(check->findings, SK_FINDING_FAIL, "redis commands", "%s: %s", command == NULL ? "one" : command,
                error == NULL ? "is refused" : error);
    }
    return sk_reply_count(reply) / 2;
}

static void redis_check_commands(const struct redis_check *check)
{
    const char *load[] = {"SCRIPT", "LOAD", sk_scripts[SK_SCRIPT_CHECK_COMMANDS].text};
    struct sk_reply *sha = sk_redis_once_ask(check->redis, 3, load);
    const char *name = sha == NULL ? NULL : sk_reply_text(sha, NULL);
    int groups = check->nodes.of_slot[SK_SHARED_SLOT] == check->node ? 2 : 1;
    size_t refused = 0;
    bool good = true;
    for (int i = 0; good && i < groups; i++) {
        struct sk_reply *reply = name == NULL ? NULL : redis_check_try_commands(check, name, i == 1);
        good = sk_reply_is_list(reply);
        refused += good ? redis_check_refused(check, reply) : 0;
        if (!good)
            sk_find(check->findings, SK_FINDING_FAIL, "redis scripts", "%s",
                    redis_check_why(check, reply != NULL ? reply : sha, "is no list"));
        sk_reply_free(reply);
    }
    if (good && refused == 0)
        sk_find(check->findings, SK_FINDING_OK, "redis commands", "all that are used may be used");
    sk_reply_free(sha);
}

static struct sk_clock_seen redis_check_clock(const struct redis_check *check)
{
    struct sk_clock_seen seen = {0};
    uint64_t asked_ms = sk_wall_ms(), seconds, micros;
    const char *ask[] = {"TIME"};
    struct sk_reply *reply = sk_redis_once_ask(check->redis, 1, ask);
    const char *second = sk_reply_text(sk_reply_at(reply, 0), NULL),
               *micro = sk_reply_text(sk_reply_at(reply, 1), NULL);
    if (second != NULL && micro != NULL && sk_text_number(second, UINT32_MAX, &seconds) &&
        sk_text_number(micro, 999999, &micros))
        seen = sk_clock_compare((int64_t)(seconds * 1000 + micros / 1000), asked_ms, sk_wall_ms());
    sk_reply_free(reply);
    return seen;
}

static void redis_check_node(struct redis_check *check, struct sk_clocks_seen *clocks)
{
    const char *ask[] = {"INFO"};
    check->url.at = check->nodes.at[check->node];
    check->redis = NULL;
    bool connected = redis_check_connect(check);
    struct sk_reply *info = connected ? sk_redis_once_ask(check->redis, 1, ask) : NULL;
    check->info = sk_reply_text(info, NULL);
    if (check->info != NULL) {
        redis_check_server(check);
        redis_check_cluster(check);
        check->writes_file = redis_check_number(check, "aof_enabled") == 1;
        redis_check_file(check);
        if (check->writes_file) {
            redis_check_fsync(check);
            redis_check_default(check);
        }
        redis_check_memory(check);
        redis_check_clients(check);
        redis_check_commands(check);
        struct sk_clock_seen seen = redis_check_clock(check);
        sk_clocks_note(clocks, &seen);
    } else if (connected) {
        sk_find(check->findings, SK_FINDING_FAIL, "redis info", "%s", redis_check_why(check, info, "is no text"));
    }
    sk_reply_free(info);
    sk_redis_once_close(check->redis);
}

void sk_check_redis(struct sk_findings *findings, const struct sk_store_options *options, int64_t reactors,
                    struct sk_clocks_seen *clocks)
{
    struct redis_check *check = calloc(1, sizeof *check);
    *clocks = (struct sk_clocks_seen){0};
    if (check == NULL) {
        sk_find(findings, SK_FINDING_FAIL, "redis", "out of memory: nothing was checked");
        return;
    }
    check->findings = findings;
    check->options = options;
    check->reactors = reactors;
    check->files = (struct sk_tls_files){options->redis_ca, options->redis_cert, options->redis_key};
    bool found = redis_check_find(check);
    for (check->node = 1; found && check->node <= check->nodes.count; check->node++)
        redis_check_node(check, clocks);
    sk_redis_url_free(&check->url);
    free(check);
}
