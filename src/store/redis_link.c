// Keeps one connection to Redis alive (link.h has the states): a time-out for each reply, a back-off with jitter
// between connections, and scripts that reload themselves. While the link is PREPARING, it sends AUTH, SELECT, INFO and
// SCRIPT LOAD. Then it asks Redis once a second for its role. A master that becomes a replica closes no connection, and
// refuses only writes; a link that only reads would stay and read what is old.
//
// Calls wait in one list, the oldest first, since replies come in that order. If the oldest reply is overdue, counted
// from its write, the link drops the connection. Whatever ends a connection, each waiting call then ends with NULL.
#include "redis_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "clock.h"
#include "hash.h"
#include "link.h"
#include "log.h"
#include "params.h"
#include "redis_conn.h"
#include "redis_format.h"
#include "redis_info.h"
#include "redis_reply.h"
#include "redis_url.h"
#include "sentinels.h"

enum { SHA_CHARS = 40, NO_SCRIPT = -1, ROLE_MS = 1000, WHY_SIZE = SK_REDIS_HOST_SIZE + 256 };

struct redis_call {
    struct redis_call *next; // younger
    sk_redis_cb *done;
    void *arg;
    uint64_t sent_ms; // when its write began; 0: not yet
    char *command;    // a script call's bytes, kept to repeat it; owned
    size_t command_len;
    int script;
    bool repeated;
};

struct redis_script {
    struct sk_redis *redis;
    char sha[SHA_CHARS + 1];
};

struct sk_redis {
    uv_loop_t *loop;
    struct sk_redis_options options; // except its URL and address, which are not kept
    struct sk_link *link;
    struct sk_redis_url url;
    struct sk_sentinels *sentinels; // owned; NULL: the URL has none
    unsigned parts;                 // link and sentinels: what libuv may still refer to
    struct sk_redis_conn *conn;     // owned; NULL: no connection
    struct sk_buf out;              // what is queued and not written
    size_t written;                 // of it, by the write in progress
    struct redis_call *oldest, *youngest;
    struct redis_call *unsent;     // the oldest call whose write has not begun
    struct redis_call *unanswered; // the last call of the latest write; NULL: all are answered
    size_t waiting;                // calls in the list
    unsigned greetings_left;
    const char *fault;   // why the connection must be dropped, a constant; NULL: it need not. For callbacks
    bool moved;          // another master was named while the name of the one before is being resolved
    bool demoted;        // Redis answered that it is a replica now, or has been one
    uint64_t role_at_ms; // when to ask for the role again
    struct sk_redis_info info;
    uint64_t run_number;
    uint64_t wrote_ns;      // when the latest write began
    uint64_t took, took_ns; // writes, answered or lost
    struct redis_script scripts[SK_SCRIPT_COUNT];
    const char *scratch[SK_REDIS_ARGS_MAX + 3];
    size_t scratch_lens[SK_REDIS_ARGS_MAX + 3];
};

static bool redis_link_is_ready(const struct sk_redis *redis)
{
    return sk_link_state(redis->link) == SK_LINK_READY;
}

// ---- calls ----

static void redis_call_free(struct redis_call *call)
{
    free(call->command);
    free(call);
}

static enum sk_status redis_link_send_bytes(struct sk_redis *redis, struct redis_call *call, const char *bytes,
                                            size_t n)
{
    sk_buf_add(&redis->out, bytes, n);
    if (redis->out.failed) { // the bytes before are whole: a failed addition adds nothing
        redis->out.failed = false;
        return SK_NO_MEM;
    }
    call->next = NULL;
    call->sent_ms = 0;
    if (redis->unsent == NULL)
        redis->unsent = call;
    if (redis->youngest != NULL)
        redis->youngest->next = call;
    else
        redis->oldest = call;
    redis->youngest = call;
    redis->waiting++;
    return SK_OK;
}

static enum sk_status redis_link_send_argv(struct sk_redis *redis, int script, int argc, const char **argv,
                                           const size_t *lens, sk_redis_cb *done, void *arg)
{
    struct redis_call *call = calloc(1, sizeof *call);
    size_t n = 0;
    char *command = call == NULL ? NULL : sk_redis_format(argc, argv, lens, &n);
    if (command == NULL) {
        free(call);
        return SK_NO_MEM;
    }
    *call = (struct redis_call){.done = done, .arg = arg, .script = script};
    enum sk_status status = redis_link_send_bytes(redis, call, command, n);
    if (status == SK_OK && script != NO_SCRIPT) {
        call->command = command;
        call->command_len = n;
    } else {
        free(command);
    }
    if (status != SK_OK)
        redis_call_free(call);
    return status;
}

// Everything queued goes out with the write that begins now. The system may take it in parts: also the connection's
// `writable`.
static void redis_link_write(void *owner)
{
    struct sk_redis *redis = owner;
    struct sk_buf *out = &redis->out;
    for (struct redis_call *call = redis->unsent; call != NULL; call = call->next)
        call->sent_ms = sk_monotonic_ms();
    redis->unsent = NULL;
    redis->written += sk_redis_conn_write(redis->conn, out->data + redis->written, out->len - redis->written);
    if (redis->written < out->len)
        return;
    sk_buf_clear(out);
    redis->written = 0;
}

void sk_redis_flush(struct sk_redis *redis)
{
    if (redis == NULL || redis->unsent == NULL || redis->unanswered != NULL)
        return;
    redis->unanswered = redis->youngest;
    redis->wrote_ns = uv_hrtime();
    redis_link_write(redis);
}

static struct redis_call *redis_link_pop(struct sk_redis *redis)
{
    struct redis_call *call = redis->oldest;
    redis->oldest = call->next;
    if (redis->unsent == call)
        redis->unsent = call->next;
    if (redis->unanswered == call) {
        redis->unanswered = NULL;
        redis->took++;
        redis->took_ns += uv_hrtime() - redis->wrote_ns;
    }
    if (redis->oldest == NULL)
        redis->youngest = NULL;
    SK_ASSERT(redis->waiting > 0);
    redis->waiting--;
    return call;
}

// A callback may close the link, which ends the rest.
static void redis_link_end_calls(struct sk_redis *redis)
{
    while (redis->oldest != NULL) {
        struct redis_call *call = redis_link_pop(redis);
        call->done(call->arg, NULL);
        redis_call_free(call);
    }
}

// ---- losing the connection ----

static void redis_link_disconnect(struct sk_redis *redis)
{
    sk_redis_conn_close(redis->conn);
    redis->conn = NULL;
    sk_buf_free(&redis->out);
    redis->written = 0;
}

// Also the connection's `ended`.
static void redis_link_drop(void *owner, const char *why)
{
    struct sk_redis *redis = owner;
    const struct sk_redis_host *at = &redis->url.at;
    char text[WHY_SIZE];
    (void)snprintf(text, sizeof text, "%s:%d: %s", at->name, at->port, why);
    sk_log_repeat(SK_LOG_WARN, redis_link_is_ready(redis) ? "Redis connection dropped" : "cannot connect to Redis",
                  "reason", at->name[0] == '\0' ? why : text); // the sentinels may name none
    sk_link_move(redis->link, SK_LINK_DOWN); // before the callbacks run, so that they cannot queue anything
    redis_link_disconnect(redis);
    redis_link_end_calls(redis);
}

// ---- replies ----

static bool redis_link_is_error(const struct sk_reply *reply, const char *code)
{
    const char *error = sk_reply_error(reply);
    return error != NULL && strncmp(error, code, strlen(code)) == 0;
}

static enum sk_status redis_link_load_script(struct sk_redis *redis, int script, sk_redis_cb *done, void *arg)
{
    const char *argv[] = {"SCRIPT", "LOAD", sk_scripts[script].text};
    return redis_link_send_argv(redis, NO_SCRIPT, 3, argv, NULL, done, arg);
}

static void redis_link_on_reloaded(void *arg, const struct sk_reply *reply)
{
    (void)arg; // the call that follows shows whether it worked
    (void)reply;
}

// Redis has lost its scripts (restart, fail-over, SCRIPT FLUSH): load this one and repeat the call, which then comes
// behind younger ones. Holding those back would slow every call for a rare case.
static bool redis_link_repeat(struct sk_redis *redis, struct redis_call *call, const struct sk_reply *reply)
{
    if (call->command == NULL || call->repeated || !redis_link_is_ready(redis) ||
        !redis_link_is_error(reply, "NOSCRIPT"))
        return false;
    call->repeated = true;
    return redis_link_load_script(redis, call->script, redis_link_on_reloaded, NULL) == SK_OK &&
           redis_link_send_bytes(redis, call, call->command, call->command_len) == SK_OK;
}

static void redis_link_take(struct sk_redis *redis, const struct sk_reply *reply)
{
    struct redis_call *call = redis_link_pop(redis);
    if (redis_link_repeat(redis, call, reply))
        return;
    if (redis_link_is_error(reply, "READONLY"))
        redis->demoted = true; // the next tick drops the connection
    if (redis->options.on_moved != NULL && redis_link_is_error(reply, "MOVED "))
        redis->options.on_moved(redis->options.arg, sk_reply_error(reply));
    sk_reply_log_denial(reply);
    call->done(call->arg, reply);
    redis_call_free(call);
}

// A callback may close the link, or drop the connection.
static const char *redis_link_on_reply(void *owner, struct sk_reply **reply)
{
    struct sk_redis *redis = owner;
    const struct sk_redis_conn *conn = redis->conn;
    if (redis->oldest == redis->unsent) // NULL, or a call that was not written yet
        redis->fault = "it sends what was not asked for";
    else
        redis_link_take(redis, *reply);
    return redis->conn == conn ? redis->fault : NULL;
}

// ---- connecting ----

static void redis_link_greeted(void *arg, const struct sk_reply *reply)
{
    struct sk_redis *redis = arg;
    if (sk_link_state(redis->link) != SK_LINK_PREPARING)
        return;
    const char *error = reply == NULL ? "no answer" : sk_reply_error(reply);
    if (error != NULL) {
        sk_log_repeat(SK_LOG_WARN, "Redis refused the greeting", "reason", error);
        redis->fault = "it refused the greeting";
    } else if (--redis->greetings_left == 0) {
        sk_log(SK_LOG_INFO, "Redis is ready", "host=%s port=%d", redis->url.at.name, redis->url.at.port);
        redis->role_at_ms = sk_monotonic_ms() + ROLE_MS;
        sk_link_move(redis->link, SK_LINK_READY);
    }
}

static void redis_link_on_info(void *arg, const struct sk_reply *reply)
{
    struct sk_redis *redis = arg;
    struct sk_redis_info info = {0};
    const char *text = reply == NULL ? NULL : sk_reply_text(reply, NULL);
    if (sk_link_state(redis->link) != SK_LINK_PREPARING)
        return;
    if (text == NULL || !sk_redis_info_read(text, &info) || info.replica) {
        redis->fault = info.replica ? "it is a replica" : "it does not say which process it is";
        return;
    }
    redis->info = info;
    redis->run_number = sk_hash(info.run, strlen(info.run));
    redis_link_greeted(redis, reply);
}

static void redis_link_on_script_loaded(void *arg, const struct sk_reply *reply)
{
    struct redis_script *script = arg;
    size_t len = 0;
    const char *sha = reply == NULL ? NULL : sk_reply_text(reply, &len);
    if (sha != NULL && len == SHA_CHARS)
        memcpy(script->sha, sha, SHA_CHARS + 1);
    redis_link_greeted(script->redis, reply);
}

static enum sk_status redis_link_greet(struct sk_redis *redis)
{
    const char *user = redis->url.user, *password = redis->url.password;
    const char *auth[] = {"AUTH", user == NULL ? password : user, password};
    const char *select[] = {"SELECT", redis->url.db};
    const char *info[] = {"INFO"};
    enum sk_status status = SK_OK;
    redis->greetings_left = SK_SCRIPT_COUNT + 2 + (password != NULL);
    if (password != NULL)
        status = redis_link_send_argv(redis, NO_SCRIPT, 2 + (user != NULL), auth, NULL, redis_link_greeted, redis);
    if (status == SK_OK)
        status = redis_link_send_argv(redis, NO_SCRIPT, 2, select, NULL, redis_link_greeted, redis);
    if (status == SK_OK)
        status = redis_link_send_argv(redis, NO_SCRIPT, 1, info, NULL, redis_link_on_info, redis);
    for (int i = 0; status == SK_OK && i < SK_SCRIPT_COUNT; i++) {
        redis->scripts[i].redis = redis;
        status = redis_link_load_script(redis, i, redis_link_on_script_loaded, &redis->scripts[i]);
    }
    return status;
}

static void redis_link_on_connected(void *owner)
{
    struct sk_redis *redis = owner;
    sk_link_move(redis->link, SK_LINK_PREPARING);
    if (redis_link_greet(redis) != SK_OK)
        redis_link_drop(redis, "out of memory");
    else
        sk_redis_flush(redis);
}

static const struct sk_redis_conn_events events = {redis_link_on_connected, redis_link_on_reply, redis_link_write,
                                                   redis_link_drop};

static void redis_link_connect(void *owner, const char *address)
{
    struct sk_redis *redis = owner;
    const char *why = "out of memory";
    redis->fault = NULL;
    redis->demoted = false;
    const struct sk_redis_host *at = &redis->url.at;
    const struct sk_socket_target target = {address == NULL ? at->name : address, at->port,
                                            redis->url.tls ? &redis->options.tls : NULL, at->name};
    if (redis->moved)
        why = "the sentinels name another master";
    else if (at->name[0] == '\0')
        why = redis->sentinels == NULL ? "out of memory" : sk_sentinels_why(redis->sentinels);
    else
        redis->conn = sk_redis_conn_open(redis->loop, &target, &events, redis, &why);
    redis->moved = false;
    if (redis->conn == NULL)
        redis_link_drop(redis, why);
}

// Leaves the master of before: it may still answer, and not know yet that it is a replica.
static void redis_link_on_master(void *arg, const struct sk_redis_host *master)
{
    struct sk_redis *redis = arg;
    redis->url.at = *master;
    if (sk_link_state(redis->link) == SK_LINK_CLOSED)
        return;
    sk_link_set_host(redis->link, redis->url.at.name);
    redis->moved = sk_link_state(redis->link) == SK_LINK_CONNECTING && redis->conn == NULL;
    if (redis->conn != NULL)
        redis_link_drop(redis, "the sentinels name another master");
}

static void redis_link_on_role(void *arg, const struct sk_reply *reply)
{
    struct sk_redis *redis = arg;
    const char *text = reply == NULL ? NULL : sk_reply_text(reply, NULL);
    struct sk_redis_info now = {0};
    if (redis_link_is_ready(redis) && text != NULL && sk_redis_info_role(text, &now) &&
        (now.replica || strcmp(now.promotion, redis->info.promotion) != 0))
        redis->demoted = true;
}

static const char *redis_link_tick(void *owner)
{
    struct sk_redis *redis = owner;
    const struct redis_call *oldest = redis->oldest;
    const char *info[] = {"INFO", "replication"};
    uint64_t now = sk_monotonic_ms();
    if (oldest != NULL && oldest->sent_ms != 0 && now >= oldest->sent_ms + redis->options.timeout_ms)
        return "reply overdue";
    if (redis->demoted)
        return "it has become a replica, or has been one";
    if (redis_link_is_ready(redis) && now >= redis->role_at_ms) {
        redis->role_at_ms = now + ROLE_MS;
        // Without memory for it the next second asks.
        (void)redis_link_send_argv(redis, NO_SCRIPT, 2, info, NULL, redis_link_on_role, redis);
    }
    sk_redis_flush(redis);
    return NULL;
}

static void redis_link_free(void *owner)
{
    struct sk_redis *redis = owner;
    SK_ASSERT(redis->parts > 0);
    if (--redis->parts > 0)
        return;
    sk_redis_url_free(&redis->url);
    free(redis);
}

static const struct sk_link_steps steps = {redis_link_connect, redis_link_tick, redis_link_drop, redis_link_free};

// ---- the interface ----

// False: out of memory, and nothing is open.
static bool redis_link_open(struct sk_redis *redis, const struct sk_redis_options *options)
{
    if (options->at != NULL)
        redis->url.at = *options->at;
    const struct sk_link_options link = {
        redis->loop,
        redis->url.at.port == 0 ? NULL : redis->url.at.name,
        options->timeout_ms,
        options->on_change,
        options->arg,
        &steps,
        redis,
    };
    const struct sk_sentinels_options sentinels = {
        redis->loop,         &redis->url,          &redis->options.tls, options->sentinel_password,
        options->timeout_ms, redis_link_on_master, redis_link_free,     redis,
    };
    redis->link = sk_link_open(&link);
    redis->parts = 1;
    if (redis->link == NULL || redis->url.sentinel_count == 0)
        return redis->link != NULL;
    redis->sentinels = sk_sentinels_open(&sentinels);
    if (redis->sentinels != NULL)
        redis->parts = 2;
    return true; // without memory for them it never connects, as the log says
}

struct sk_redis *sk_redis_open(uv_loop_t *loop, const struct sk_redis_options *options)
{
    SK_ASSERT(options->most_waiting > 0);
    struct sk_redis *redis = calloc(1, sizeof *redis);
    if (redis == NULL)
        return NULL;
    redis->loop = loop;
    redis->options = *options;
    if (sk_redis_url_parse(options->url, &redis->url) != SK_OK)
        sk_log_text(SK_LOG_ERROR, "SECKILL_REDIS_URL", "reason", redis->url.wrong);
    else if (redis_link_open(redis, options))
        return redis;
    sk_redis_url_free(&redis->url);
    free(redis);
    return NULL;
}

void sk_redis_close(struct sk_redis *redis)
{
    if (redis == NULL)
        return;
    sk_link_close(redis->link); // before the callbacks run, so that they cannot queue anything
    if (redis->sentinels != NULL)
        sk_sentinels_close(redis->sentinels);
    redis_link_disconnect(redis);
    redis_link_end_calls(redis);
}

bool sk_redis_ready(const struct sk_redis *redis)
{
    return redis != NULL && redis_link_is_ready(redis) && !redis->demoted;
}

bool sk_redis_busy(const struct sk_redis *redis)
{
    return redis != NULL && redis->unanswered != NULL;
}

bool sk_redis_idle(const struct sk_redis *redis)
{
    return redis == NULL || redis->oldest == NULL;
}

const char *sk_redis_run(const struct sk_redis *redis)
{
    return redis == NULL ? "" : redis->info.run;
}

uint64_t sk_redis_run_number(const struct sk_redis *redis)
{
    return redis == NULL ? 0 : redis->run_number;
}

const struct sk_redis_host *sk_redis_at(const struct sk_redis *redis)
{
    return &redis->url.at;
}

void sk_redis_measure(const struct sk_redis *redis, struct sk_server_row *row)
{
    row->up = row->up && sk_redis_ready(redis);
    row->lost += sk_link_lost(redis->link);
    row->answers += redis->took;
    row->answered_ns += redis->took_ns;
}

enum sk_status sk_redis_command(struct sk_redis *redis, int argc, const char **argv, const size_t *lens,
                                sk_redis_cb *done, void *arg)
{
    if (redis == NULL || !redis_link_is_ready(redis))
        return SK_DOWN;
    if (redis->waiting >= redis->options.most_waiting)
        return SK_FULL;
    return redis_link_send_argv(redis, NO_SCRIPT, argc, argv, lens, done, arg);
}

enum sk_status sk_redis_script(struct sk_redis *redis, enum sk_script script, int keys, int argc, const char **argv,
                               const size_t *lens, sk_redis_cb *done, void *arg)
{
    SK_ASSERT(argc <= SK_REDIS_ARGS_MAX && keys <= argc);
    if (redis == NULL || !redis_link_is_ready(redis))
        return SK_DOWN;
    if (redis->waiting >= redis->options.most_waiting)
        return SK_FULL;
    char key_count[SK_PARAM_NUMBER_SIZE];
    redis->scratch[0] = "EVALSHA";
    redis->scratch[1] = redis->scripts[script].sha;
    redis->scratch[2] = sk_params_number(key_count, keys);
    memcpy(redis->scratch + 3, argv, (size_t)argc * sizeof *argv);
    for (int i = 0; i < 3; i++)
        redis->scratch_lens[i] = strlen(redis->scratch[i]);
    for (int i = 0; i < argc; i++)
        redis->scratch_lens[i + 3] = lens == NULL ? strlen(argv[i]) : lens[i];
    return redis_link_send_argv(redis, (int)script, argc + 3, redis->scratch, redis->scratch_lens, done, arg);
}
