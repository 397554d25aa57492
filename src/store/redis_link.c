// Keeps one connection to Redis alive (link.h has the states). Adds bounds to hiredis's asynchronous API: a time-out
// for each reply, a back-off with jitter between connections, and scripts that reload themselves. While the link is
// PREPARING, it sends AUTH, SELECT, INFO and SCRIPT LOAD.
//
// Each call is also in a list of our own, because hiredis 0.14 has no time-outs. If the oldest reply is overdue,
// counted from its write, the link drops the connection. hiredis then runs every pending callback with NULL. We pass
// that contract on: exactly once, NULL if the link dies.
#include "redis_link.h"

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "link.h"
#include "log.h"
#include "params.h"
#include "redis_reply.h"
#include "redis_url.h"
#include "redis_watch.h"
#include "text.h"

// ---- the bytes of a command ----

enum { HEAD_MAX = SK_NUMBER_SIZE + 2 }; // "$", a number, "\r\n"

static char *format_put_end(char *at)
{
    at[0] = '\r';
    at[1] = '\n';
    return at + 2;
}

static char *format_put_head(char *at, char kind, size_t n)
{
    *at = kind;
    return format_put_end(at + 1 + sk_text_put_number(n, at + 1));
}

char *sk_redis_format(int argc, const char **argv, const size_t *lens, size_t *len)
{
    size_t room = HEAD_MAX;
    for (int i = 0; i < argc; i++)
        room += HEAD_MAX + (lens == NULL ? strlen(argv[i]) : lens[i]) + 2;
    char *command = malloc(room);
    if (command == NULL)
        return NULL;
    char *at = format_put_head(command, '*', (size_t)argc);
    for (int i = 0; i < argc; i++) {
        size_t n = lens == NULL ? strlen(argv[i]) : lens[i];
        at = format_put_head(at, '$', n);
        memcpy(at, argv[i], n);
        at = format_put_end(at + n);
    }
    *len = (size_t)(at - command);
    return command;
}

enum { SHA_CHARS = 40, NO_SCRIPT = -1 };

struct redis_call {
    struct sk_redis *redis;
    struct redis_call *next; // younger
    sk_redis_cb *done;
    void *arg;
    uint64_t sent_ms; // when its write began; 0: not yet
    char *command;    // a script call's bytes, kept to repeat it; owned
    size_t command_len;
    int script;
    bool repeated;
};

struct sk_redis {
    uv_loop_t *loop;
    struct sk_link *link;
    struct sk_redis_url endpoint;
    uint32_t timeout_ms;
    size_t most_waiting;
    redisAsyncContext *context;
    struct sk_redis_watch *watch; // hiredis closes it with the context
    struct redis_call *oldest, *youngest;
    struct redis_call *unsent;     // the oldest call whose write has not begun
    struct redis_call *unanswered; // the last call of the latest write; NULL: all are answered
    size_t waiting;                // calls in the list
    unsigned greetings_left;
    bool ungreeted; // the greeting could not be queued; the next tick drops the connection
    bool demoted;   // Redis answered that it is a replica now; the next tick drops the connection
    struct sk_redis_info info;
    uint64_t run_number;
    char shas[SK_SCRIPT_COUNT][SHA_CHARS + 1];
    const char *scratch[SK_REDIS_ARGS_MAX + 3];
    size_t scratch_lens[SK_REDIS_ARGS_MAX + 3];
};

struct sha_target {
    struct sk_redis *redis;
    int script;
};

static enum sk_status redis_link_send_argv(struct sk_redis *redis, int script, int argc, const char **argv,
                                           const size_t *lens, sk_redis_cb *done, void *arg);
static enum sk_status redis_link_send_bytes(struct sk_redis *redis, struct redis_call *call, const char *bytes,
                                            size_t n);
static void redis_link_mark_sent(struct sk_redis *redis);
static void redis_link_on_reply(redisAsyncContext *context, void *reply, void *data);
static bool redis_link_repeat(struct sk_redis *redis, struct redis_call *call, const redisReply *reply);
static void redis_link_pop(struct sk_redis *redis, struct redis_call *call);
static bool redis_link_is_error(const redisReply *reply, const char *code);
static void redis_link_connect(void *owner, const char *address);
static void redis_link_before(void *owner, bool reading);
static void redis_link_on_connect(const redisAsyncContext *context, int status);
static enum sk_status redis_link_greet(struct sk_redis *redis);
static void redis_link_on_greeting(void *arg, const struct sk_reply *reply);
static void redis_link_on_info(void *arg, const struct sk_reply *reply);
static void redis_link_on_script_loaded(void *arg, const struct sk_reply *reply);
static void redis_link_greeted(struct sk_redis *redis, const struct sk_reply *reply);
static enum sk_status redis_link_load_script(struct sk_redis *redis, int script, sk_redis_cb *done, void *arg);
static void redis_link_on_reloaded(void *arg, const struct sk_reply *reply);
static const char *redis_link_tick(void *owner);
static void redis_link_drop(void *owner, const char *why);
static void redis_link_on_disconnect(const redisAsyncContext *context, int status);
static void redis_link_free(void *owner);
static void redis_call_free(struct redis_call *call);

static const struct sk_link_steps steps = {redis_link_connect, redis_link_tick, redis_link_drop, redis_link_free};

// ---- the interface ----

struct sk_redis *sk_redis_open(uv_loop_t *loop, const struct sk_redis_options *options)
{
    SK_ASSERT(options->most_waiting > 0);
    struct sk_redis *redis = calloc(1, sizeof *redis);
    if (redis == NULL)
        return NULL;
    redis->loop = loop;
    redis->timeout_ms = options->timeout_ms;
    redis->most_waiting = options->most_waiting;
    if (sk_redis_url_parse(options->url, &redis->endpoint) == SK_OK) {
        const char *host = redis->endpoint.port == 0 ? NULL : redis->endpoint.host;
        struct sk_link_options link = {
            loop, host, options->timeout_ms, options->on_change, options->arg, &steps, redis,
        };
        redis->link = sk_link_open(&link);
    } else {
        sk_log(SK_LOG_ERROR,
               "SECKILL_REDIS_URL is not of the form redis://[[user]:password@]host[:port][/db] or unix:///path", "");
    }
    if (redis->link == NULL) {
        redis_link_free(redis);
        return NULL;
    }
    return redis;
}

void sk_redis_close(struct sk_redis *redis)
{
    if (redis == NULL)
        return;
    redisAsyncContext *context = redis->context;
    redis->context = NULL;
    redis->watch = NULL;
    sk_link_close(redis->link); // before the callbacks run, so that they cannot queue anything
    if (context != NULL) {
        context->data = NULL;
        redisAsyncFree(context);
    }
}

static bool redis_link_is_ready(const struct sk_redis *redis)
{
    return sk_link_state(redis->link) == SK_LINK_READY;
}

bool sk_redis_ready(const struct sk_redis *redis)
{
    return redis_link_is_ready(redis) && !redis->demoted;
}

bool sk_redis_busy(const struct sk_redis *redis)
{
    return redis->unanswered != NULL;
}

bool sk_redis_idle(const struct sk_redis *redis)
{
    return redis->oldest == NULL;
}

const char *sk_redis_run(const struct sk_redis *redis)
{
    return redis->info.run;
}

uint64_t sk_redis_run_number(const struct sk_redis *redis)
{
    return redis->run_number;
}

enum sk_status sk_redis_command(struct sk_redis *redis, int argc, const char **argv, const size_t *lens,
                                sk_redis_cb *done, void *arg)
{
    if (!redis_link_is_ready(redis))
        return SK_DOWN;
    if (redis->waiting >= redis->most_waiting)
        return SK_FULL;
    return redis_link_send_argv(redis, NO_SCRIPT, argc, argv, lens, done, arg);
}

enum sk_status sk_redis_script(struct sk_redis *redis, enum sk_script script, int keys, int argc, const char **argv,
                               const size_t *lens, sk_redis_cb *done, void *arg)
{
    SK_ASSERT(argc <= SK_REDIS_ARGS_MAX && keys <= argc);
    if (!redis_link_is_ready(redis))
        return SK_DOWN;
    if (redis->waiting >= redis->most_waiting)
        return SK_FULL;
    char key_count[SK_PARAM_NUMBER_SIZE];
    redis->scratch[0] = "EVALSHA";
    redis->scratch[1] = redis->shas[script];
    redis->scratch[2] = sk_params_number(key_count, keys);
    memcpy(redis->scratch + 3, argv, (size_t)argc * sizeof *argv);
    for (int i = 0; i < 3; i++)
        redis->scratch_lens[i] = strlen(redis->scratch[i]);
    for (int i = 0; i < argc; i++)
        redis->scratch_lens[i + 3] = lens == NULL ? strlen(argv[i]) : lens[i];
    return redis_link_send_argv(redis, (int)script, argc + 3, redis->scratch, redis->scratch_lens, done, arg);
}

void sk_redis_flush(struct sk_redis *redis)
{
    if (redis->context == NULL || sk_link_state(redis->link) == SK_LINK_CONNECTING)
        return;
    if (sdslen(redis->context->c.obuf) == 0 || redis->unanswered != NULL)
        return;
    struct sk_redis_watch *watch = redis->watch;
    redis->unanswered = redis->youngest;
    redis_link_mark_sent(redis);
    redisAsyncHandleWrite(redis->context); // may end the connection, which clears redis->context
    if (redis->context != NULL && sdslen(redis->context->c.obuf) > 0)
        sk_redis_watch_writing(watch, true);
}

// ---- calls ----

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
    *call = (struct redis_call){.redis = redis, .done = done, .arg = arg, .script = script};
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

static enum sk_status redis_link_send_bytes(struct sk_redis *redis, struct redis_call *call, const char *bytes,
                                            size_t n)
{
    if (redisAsyncFormattedCommand(redis->context, redis_link_on_reply, call, bytes, n) != REDIS_OK)
        return SK_DOWN;
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

// Everything queued goes out with the write that begins now.
static void redis_link_mark_sent(struct sk_redis *redis)
{
    for (struct redis_call *call = redis->unsent; call != NULL; call = call->next)
        call->sent_ms = sk_monotonic_ms();
    redis->unsent = NULL;
}

static void redis_link_on_reply(redisAsyncContext *context, void *reply, void *data)
{
    struct redis_call *call = data;
    struct sk_redis *redis = call->redis;
    redis_link_pop(redis, call);
    if (reply != NULL && redis_link_repeat(redis, call, reply))
        return;
    if (redis_link_is_error(reply, "READONLY"))
        redis->demoted = true; // the tick drops the connection: not here, inside its callback
    sk_reply_log_denial(reply);
    bool unasked = reply != NULL && redis->oldest == NULL && context->c.reader->pos < context->c.reader->len;
    call->done(call->arg, reply);
    redis_call_free(call);
    if (unasked)
        redisAsyncFree(context); // as soon as this callback has returned
}

// Redis has lost its scripts (restart, fail-over, SCRIPT FLUSH): load this one and repeat the call, which then comes
// behind younger ones. Holding those back would slow every call for a rare case.
static bool redis_link_repeat(struct sk_redis *redis, struct redis_call *call, const redisReply *reply)
{
    if (call->command == NULL || call->repeated || !redis_link_is_ready(redis) ||
        !redis_link_is_error(reply, "NOSCRIPT"))
        return false;
    call->repeated = true;
    return redis_link_load_script(redis, call->script, redis_link_on_reloaded, NULL) == SK_OK &&
           redis_link_send_bytes(redis, call, call->command, call->command_len) == SK_OK;
}

static void redis_link_on_reloaded(void *arg, const struct sk_reply *reply)
{
    (void)arg; // the call that follows shows whether it worked
    (void)reply;
}

static void redis_link_pop(struct sk_redis *redis, struct redis_call *call)
{
    SK_ASSERT(redis->oldest == call); // replies come in the order of the calls
    redis->oldest = call->next;
    if (redis->unsent == call)
        redis->unsent = call->next; // hiredis wrote it right after connecting
    if (redis->unanswered == call)
        redis->unanswered = NULL;
    if (redis->oldest == NULL)
        redis->youngest = NULL;
    redis->waiting--;
}

static bool redis_link_is_error(const redisReply *reply, const char *code)
{
    return reply != NULL && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, code, strlen(code)) == 0;
}

static void redis_call_free(struct redis_call *call)
{
    free(call->command);
    free(call);
}

// ---- connecting ----

static void redis_link_connect(void *owner, const char *address)
{
    struct sk_redis *redis = owner;
    redis->ungreeted = redis->demoted = false;
    redisAsyncContext *context = address == NULL ? redisAsyncConnectUnix(redis->endpoint.host)
                                                 : redisAsyncConnect(address, redis->endpoint.port);
    if (context == NULL || context->err != 0 ||
        sk_redis_watch_open(redis->loop, context, redis_link_before, &redis->watch) != SK_OK) {
        redis_link_drop(redis, context != NULL && context->err != 0 ? context->errstr : "out of memory");
        if (context != NULL)
            redisAsyncFree(context);
        return;
    }
    context->data = redis;
    redis->context = context;
    (void)redisAsyncSetConnectCallback(context, redis_link_on_connect);
    (void)redisAsyncSetDisconnectCallback(context, redis_link_on_disconnect);
}

// hiredis asserts that each reply it reads answers a call, so a server that sends too much would end the process.
// Therefore nothing is read while no call waits, and redis_link_on_reply checks what follows the last reply.
static void redis_link_before(void *owner, bool reading)
{
    struct sk_redis *redis = owner;
    char byte;
    if (!reading)
        redis_link_mark_sent(redis);
    else if (redis->oldest == NULL && sk_link_state(redis->link) != SK_LINK_CONNECTING &&
             recv(redis->context->c.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
        redis_link_drop(redis, "it sends what was not asked for");
}

static void redis_link_on_connect(const redisAsyncContext *context, int status)
{
    struct sk_redis *redis = context->data;
    if (redis == NULL)
        return;
    if (status != REDIS_OK) {
        sk_log_text(SK_LOG_WARN, "cannot connect to Redis", "reason", context->errstr);
        redis->context = NULL; // hiredis frees it after this call
        redis->watch = NULL;
        sk_link_move(redis->link, SK_LINK_DOWN);
        return;
    }
    sk_link_move(redis->link, SK_LINK_PREPARING);
    // Do not drop the connection here: hiredis still uses the context after this call.
    redis->ungreeted = redis_link_greet(redis) != SK_OK;
}

static enum sk_status redis_link_greet(struct sk_redis *redis)
{
    const char *user = redis->endpoint.user, *password = redis->endpoint.password;
    const char *auth[] = {"AUTH", user == NULL ? password : user, password};
    const char *select[] = {"SELECT", redis->endpoint.db};
    const char *info[] = {"INFO"};
    enum sk_status status = SK_OK;
    redis->greetings_left = SK_SCRIPT_COUNT + 2 + (password != NULL);
    if (password != NULL)
        status = redis_link_send_argv(redis, NO_SCRIPT, 2 + (user != NULL), auth, NULL, redis_link_on_greeting, redis);
    if (status == SK_OK)
        status = redis_link_send_argv(redis, NO_SCRIPT, 2, select, NULL, redis_link_on_greeting, redis);
    if (status == SK_OK)
        status = redis_link_send_argv(redis, NO_SCRIPT, 1, info, NULL, redis_link_on_info, redis);
    for (int i = 0; status == SK_OK && i < SK_SCRIPT_COUNT; i++) {
        struct sha_target *target = malloc(sizeof *target);
        if (target == NULL)
            return SK_NO_MEM;
        *target = (struct sha_target){redis, i};
        status = redis_link_load_script(redis, i, redis_link_on_script_loaded, target);
        if (status != SK_OK)
            free(target);
    }
    return status;
}

static void redis_link_on_greeting(void *arg, const struct sk_reply *reply)
{
    redis_link_greeted(arg, reply);
}

static void redis_link_on_info(void *arg, const struct sk_reply *reply)
{
    struct sk_redis *redis = arg;
    struct sk_redis_info info = {0};
    const char *text = reply == NULL ? NULL : sk_reply_text(reply, NULL);
    if (sk_link_state(redis->link) != SK_LINK_PREPARING)
        return;
    if (text == NULL || !sk_redis_info_read(text, &info) || info.replica) {
        sk_log(SK_LOG_WARN, info.replica ? "Redis is a replica" : "Redis does not say who it is", "");
        redisAsyncDisconnect(redis->context);
        return;
    }
    if (strcmp(info.run, redis->info.run) != 0)
        redis->run_number++;
    redis->info = info;
    redis_link_greeted(redis, reply);
}

static void redis_link_on_script_loaded(void *arg, const struct sk_reply *reply)
{
    struct sha_target *target = arg;
    size_t len = 0;
    const char *sha = reply == NULL ? NULL : sk_reply_text(reply, &len);
    if (sha != NULL && len == SHA_CHARS && sk_reply_error(reply) == NULL)
        memcpy(target->redis->shas[target->script], sha, SHA_CHARS + 1);
    redis_link_greeted(target->redis, reply);
    free(target);
}

static void redis_link_greeted(struct sk_redis *redis, const struct sk_reply *reply)
{
    if (sk_link_state(redis->link) != SK_LINK_PREPARING)
        return;
    const char *error = reply == NULL ? "no answer" : sk_reply_error(reply);
    if (error != NULL) {
        // Deferred by hiredis, since this is a callback of the context.
        sk_log_text(SK_LOG_WARN, "Redis refused the greeting", "reason", error);
        redisAsyncDisconnect(redis->context);
    } else if (--redis->greetings_left == 0) {
        sk_log(SK_LOG_INFO, "Redis is ready", "host=%s port=%d", redis->endpoint.host, redis->endpoint.port);
        sk_link_move(redis->link, SK_LINK_READY);
    }
}

static enum sk_status redis_link_load_script(struct sk_redis *redis, int script, sk_redis_cb *done, void *arg)
{
    const char *argv[] = {"SCRIPT", "LOAD", sk_scripts[script].text};
    return redis_link_send_argv(redis, NO_SCRIPT, 3, argv, NULL, done, arg);
}

// ---- losing the connection ----

static const char *redis_link_tick(void *owner)
{
    struct sk_redis *redis = owner;
    const struct redis_call *oldest = redis->oldest;
    if (oldest != NULL && oldest->sent_ms != 0 && sk_monotonic_ms() >= oldest->sent_ms + redis->timeout_ms)
        return "reply overdue";
    if (redis->ungreeted)
        return "the greeting could not be queued";
    if (redis->demoted)
        return "it has become a replica";
    sk_redis_flush(redis);
    return NULL;
}

// Never called inside a callback of the context.
static void redis_link_drop(void *owner, const char *why)
{
    struct sk_redis *redis = owner;
    redisAsyncContext *context = redis->context;
    sk_log_text(SK_LOG_WARN, redis_link_is_ready(redis) ? "Redis connection dropped" : "cannot connect to Redis",
                "reason", why);
    redis->context = NULL;
    redis->watch = NULL;
    sk_link_move(redis->link, SK_LINK_DOWN); // before the callbacks run, so that they cannot queue anything
    if (context != NULL) {
        context->data = NULL;
        redisAsyncFree(context);
    }
}

static void redis_link_on_disconnect(const redisAsyncContext *context, int status)
{
    struct sk_redis *redis = context->data;
    if (redis == NULL)
        return; // redis_link_drop or sk_redis_close has done the rest
    sk_log_text(SK_LOG_WARN, "Redis is gone", "reason", status == REDIS_OK ? "closed" : context->errstr);
    redis->context = NULL;
    redis->watch = NULL;
    sk_link_move(redis->link, SK_LINK_DOWN);
}

static void redis_link_free(void *owner)
{
    struct sk_redis *redis = owner;
    sk_redis_url_free(&redis->endpoint);
    free(redis);
}
