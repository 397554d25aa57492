// Keeps one connection to Redis alive and gives its asynchronous API bounds: a time-out for each reply,
// a back-off with jitter between connections, and scripts that reload themselves.
//
// States: DOWN -> (resolve) -> CONNECTING -> GREETING (AUTH, SELECT, INFO, SCRIPT LOAD) -> READY -> DOWN.
// Every call lives in a list of our own besides hiredis's, because hiredis 0.14 has no time-outs: when
// the oldest reply is overdue the connection is dropped, and hiredis then runs every pending callback
// with NULL. That contract - exactly once, NULL if the link dies - is the one we pass on.
//
// The event adapter is ours, not hiredis's: that one makes an epoll_ctl pair for each flush. Here the
// loop watches for reading only, and writing happens in sk_redis_flush; just a full socket buffer makes
// us watch for writing.
#include "redis_link.h"

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <string.h>
#include <sys/socket.h>

#include "backoff.h"
#include "clock.h"
#include "log.h"
#include "redis_info.h"
#include "redis_url.h"
#include "resolve.h"

enum { TICK_MS = 50, SHA_CHARS = 40, KEYS_SIZE = 24 };

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_GREETING, LINK_READY, LINK_CLOSED };

struct call {
    struct sk_redis *redis;
    struct call *next; // younger
    sk_redis_cb *done;
    void *arg;
    uint64_t since_ms;
    char *command; // a script call's bytes, kept to repeat it; owned
    size_t command_len;
    int script;
    bool repeated;
};

// hiredis closes its socket right after ev.cleanup, while libuv frees handles later: hence a block of
// its own.
struct watch {
    uv_poll_t poll;
    redisAsyncContext *context;
    bool writing;
};

struct sk_redis {
    uv_loop_t *loop;
    uv_timer_t tick;
    struct sk_redis_url endpoint;
    struct sk_resolve resolve;
    bool resolving;
    bool tick_closed;
    redisAsyncContext *context;
    struct watch *watch;
    struct call *oldest, *youngest;
    struct call *unanswered; // the last call of the latest write; NULL: all are answered
    struct sk_backoff backoff;
    uint64_t retry_at_ms;
    uint64_t state_since_ms;
    enum link_state state;
    uint32_t timeout_ms;
    unsigned greetings_left;
    bool ungreeted; // memory was short
    struct sk_redis_info info;
    uint64_t run_number;
    bool demoted; // it says that it is a replica now
    char shas[SK_SCRIPT_COUNT][SHA_CHARS + 1];
    void (*on_change)(void *arg, bool ready);
    void *arg;
    const char *scratch[SK_REDIS_ARGS_MAX + 3];
    size_t scratch_lens[SK_REDIS_ARGS_MAX + 3];
};

static void connect_now(struct sk_redis *redis);
static void drop(struct sk_redis *redis, const char *why);

// ---- state ----

static void set_state(struct sk_redis *redis, enum link_state state)
{
    static const bool allowed[LINK_CLOSED + 1][LINK_CLOSED + 1] = {
        [LINK_DOWN] = {[LINK_CONNECTING] = true, [LINK_CLOSED] = true},
        [LINK_CONNECTING] = {[LINK_GREETING] = true, [LINK_DOWN] = true, [LINK_CLOSED] = true},
        [LINK_GREETING] = {[LINK_READY] = true, [LINK_DOWN] = true, [LINK_CLOSED] = true},
        [LINK_READY] = {[LINK_DOWN] = true, [LINK_CLOSED] = true},
    };
    SK_ASSERT(allowed[redis->state][state]);
    bool was_ready = redis->state == LINK_READY;
    redis->state = state;
    redis->state_since_ms = sk_monotonic_ms();
    if (state == LINK_READY) {
        sk_backoff_reset(&redis->backoff);
        sk_log(SK_INFO, "Redis is ready", "host=%s port=%d", redis->endpoint.host, redis->endpoint.port);
    }
    if (was_ready != (state == LINK_READY))
        redis->on_change(redis->arg, state == LINK_READY);
}

// ---- event adapter ----

// hiredis asserts that somebody waits for each reply it reads. A server that says more than it was asked would
// end the process: so nothing is read while nobody waits, and on_reply looks for what follows the last reply.
static bool says_unasked(const struct watch *watch)
{
    const struct sk_redis *redis = watch->context->data;
    char byte;
    return redis != NULL && redis->oldest == NULL && redis->state >= LINK_GREETING &&
           recv(watch->context->c.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = poll->data;
    if ((events & UV_READABLE) != 0 && says_unasked(watch)) {
        drop(watch->context->data, "it says what nobody asked");
        return;
    }
    if (status < 0 || (events & UV_READABLE) != 0)
        redisAsyncHandleRead(watch->context);
    // Reading may have ended the connection; cleanup() says so here.
    if (watch->context != NULL && (events & UV_WRITABLE) != 0)
        redisAsyncHandleWrite(watch->context);
}

static void watch_for(struct watch *watch, bool writing)
{
    if (watch->writing == writing)
        return;
    watch->writing = writing;
    (void)uv_poll_start(&watch->poll, writing ? UV_READABLE | UV_WRITABLE : UV_READABLE, on_poll);
}

static void ev_nothing(void *data)
{
    (void)data;
}

static void ev_del_write(void *data)
{
    watch_for(data, false);
}

static void free_watch(uv_handle_t *handle)
{
    free(handle->data);
}

static void ev_cleanup(void *data)
{
    struct watch *watch = data;
    watch->context = NULL;
    (void)uv_poll_stop(&watch->poll);
    uv_close((uv_handle_t *)&watch->poll, free_watch);
}

static enum sk_status attach(struct sk_redis *redis, redisAsyncContext *context)
{
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        return SK_NO_MEM;
    if (uv_poll_init(redis->loop, &watch->poll, context->c.fd) != 0) {
        free(watch);
        return SK_FAIL;
    }
    watch->poll.data = watch;
    watch->context = context;
    watch->writing = true; // the connection shows itself by becoming writable
    (void)uv_poll_start(&watch->poll, UV_READABLE | UV_WRITABLE, on_poll);
    context->ev.data = watch;
    context->ev.addRead = ev_nothing;
    context->ev.delRead = ev_nothing;
    context->ev.addWrite = ev_nothing; // sk_redis_flush writes
    context->ev.delWrite = ev_del_write;
    context->ev.cleanup = ev_cleanup;
    redis->watch = watch;
    return SK_OK;
}

void sk_redis_flush(struct sk_redis *redis)
{
    if (redis->context == NULL || redis->state < LINK_GREETING || sdslen(redis->context->c.obuf) == 0)
        return;
    if (redis->unanswered != NULL)
        return;
    redis->unanswered = redis->youngest;
    struct watch *watch = redis->watch;
    redisAsyncHandleWrite(redis->context); // may end the connection, and then forgets redis->context
    if (redis->context != NULL && sdslen(redis->context->c.obuf) > 0)
        watch_for(watch, true);
}

// ---- calls ----

static void free_call(struct call *call)
{
    free(call->command);
    free(call);
}

static void pop_oldest(struct sk_redis *redis, struct call *call)
{
    SK_ASSERT(redis->oldest == call); // replies come in the order of the calls
    redis->oldest = call->next;
    if (redis->unanswered == call)
        redis->unanswered = NULL;
    if (redis->oldest == NULL)
        redis->youngest = NULL;
}

static void push(struct sk_redis *redis, struct call *call)
{
    call->next = NULL;
    call->since_ms = uv_now(redis->loop);
    if (redis->youngest != NULL)
        redis->youngest->next = call;
    else
        redis->oldest = call;
    redis->youngest = call;
}

static void on_reply(redisAsyncContext *context, void *reply, void *data);

static enum sk_status send_bytes(struct sk_redis *redis, struct call *call, const char *bytes, size_t n)
{
    if (redisAsyncFormattedCommand(redis->context, on_reply, call, bytes, n) != REDIS_OK)
        return SK_DOWN;
    push(redis, call);
    return SK_OK;
}

static void on_ignored(void *arg, const struct sk_reply *reply)
{
    (void)arg;
    (void)reply;
}

static enum sk_status load_script(struct sk_redis *redis, int script, sk_redis_cb *done, void *arg);

static bool is_error(const redisReply *reply, const char *code)
{
    return reply != NULL && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, code, strlen(code)) == 0;
}

// Redis has lost its scripts (restart, fail-over, SCRIPT FLUSH): load this one and repeat the call, which then comes
// behind younger ones. Keeping those back would cost every call for the sake of a rare moment.
static bool repeat(struct sk_redis *redis, struct call *call, const redisReply *reply)
{
    if (call->command == NULL || call->repeated || redis->state != LINK_READY || !is_error(reply, "NOSCRIPT"))
        return false;
    call->repeated = true;
    return load_script(redis, call->script, on_ignored, NULL) == SK_OK &&
           send_bytes(redis, call, call->command, call->command_len) == SK_OK;
}

static void on_reply(redisAsyncContext *context, void *reply, void *data)
{
    struct call *call = data;
    struct sk_redis *redis = call->redis;
    pop_oldest(redis, call);
    if (reply != NULL && repeat(redis, call, reply))
        return;
    redis->demoted = redis->demoted || is_error(reply, "READONLY"); // the tick drops it: not inside its callback
    bool unasked = reply != NULL && redis->oldest == NULL && context->c.reader->pos < context->c.reader->len;
    call->done(call->arg, reply);
    free_call(call);
    if (unasked)
        redisAsyncFree(context); // as soon as this callback has returned
}

static enum sk_status send_argv(struct sk_redis *redis, int script, int argc, const char **argv, const size_t *lens,
                                sk_redis_cb *done, void *arg)
{
    struct call *call = calloc(1, sizeof *call);
    char *command = NULL;
    int n = call == NULL ? -1 : redisFormatCommandArgv(&command, argc, argv, lens);
    if (n < 0) {
        free(call);
        return SK_NO_MEM;
    }
    call->redis = redis;
    call->done = done;
    call->arg = arg;
    call->script = script;
    enum sk_status status = send_bytes(redis, call, command, (size_t)n);
    if (status == SK_OK && script >= 0) {
        call->command = command;
        call->command_len = (size_t)n;
    } else {
        free(command);
    }
    if (status != SK_OK)
        free_call(call);
    return status;
}

enum sk_status sk_redis_command(struct sk_redis *redis, int argc, const char **argv, const size_t *lens,
                                sk_redis_cb *done, void *arg)
{
    if (redis->state != LINK_READY)
        return SK_DOWN;
    return send_argv(redis, -1, argc, argv, lens, done, arg);
}

enum sk_status sk_redis_script(struct sk_redis *redis, enum sk_script script, int keys, int argc, const char **argv,
                               const size_t *lens, sk_redis_cb *done, void *arg)
{
    SK_ASSERT(argc <= SK_REDIS_ARGS_MAX && keys <= argc);
    if (redis->state != LINK_READY)
        return SK_DOWN;
    char key_count[KEYS_SIZE];
    (void)snprintf(key_count, sizeof key_count, "%d", keys);
    redis->scratch[0] = "EVALSHA";
    redis->scratch[1] = redis->shas[script];
    redis->scratch[2] = key_count;
    memcpy(redis->scratch + 3, argv, (size_t)argc * sizeof *argv);
    for (int i = 0; i < 3; i++)
        redis->scratch_lens[i] = strlen(redis->scratch[i]);
    for (int i = 0; i < argc; i++)
        redis->scratch_lens[i + 3] = lens == NULL ? strlen(argv[i]) : lens[i];
    return send_argv(redis, (int)script, argc + 3, redis->scratch, redis->scratch_lens, done, arg);
}

// ---- greeting ----

static void greeted(struct sk_redis *redis, const struct sk_reply *reply)
{
    if (redis->state != LINK_GREETING)
        return;
    const char *error = reply == NULL ? "no answer" : sk_reply_error(reply);
    if (error != NULL) {
        // Not here and now: we are inside a callback of the context.
        sk_log_text(SK_WARN, "Redis refused the greeting", "reason", error);
        redisAsyncDisconnect(redis->context);
    } else if (--redis->greetings_left == 0) {
        set_state(redis, LINK_READY);
    }
}

static void on_greeting(void *arg, const struct sk_reply *reply)
{
    greeted(arg, reply);
}

static void on_info(void *arg, const struct sk_reply *reply)
{
    struct sk_redis *redis = arg;
    struct sk_redis_info info = {0};
    const char *text = reply == NULL ? NULL : sk_reply_text(reply, NULL);
    if (redis->state != LINK_GREETING)
        return;
    if (text == NULL || !sk_redis_info_read(text, &info) || info.replica) {
        sk_log(SK_WARN, info.replica ? "Redis is a replica" : "Redis does not say who it is", "");
        redisAsyncDisconnect(redis->context);
        return;
    }
    if (strcmp(info.run, redis->info.run) != 0)
        redis->run_number++;
    redis->info = info;
    greeted(redis, reply);
}

struct sha_target {
    struct sk_redis *redis;
    int script;
};

static void on_script_loaded(void *arg, const struct sk_reply *reply)
{
    struct sha_target *target = arg;
    size_t len = 0;
    const char *sha = reply == NULL ? NULL : sk_reply_text(reply, &len);
    if (sha != NULL && len == SHA_CHARS && sk_reply_error(reply) == NULL)
        memcpy(target->redis->shas[target->script], sha, SHA_CHARS + 1);
    greeted(target->redis, reply);
    free(target);
}

static enum sk_status load_script(struct sk_redis *redis, int script, sk_redis_cb *done, void *arg)
{
    const char *argv[] = {"SCRIPT", "LOAD", sk_scripts[script].text};
    return send_argv(redis, -1, 3, argv, NULL, done, arg);
}

static enum sk_status greet(struct sk_redis *redis)
{
    const char *auth[] = {"AUTH", redis->endpoint.password};
    const char *select[] = {"SELECT", redis->endpoint.db};
    const char *info[] = {"INFO"};
    enum sk_status status = SK_OK;
    redis->greetings_left = SK_SCRIPT_COUNT + 2 + (redis->endpoint.password != NULL);
    redis->demoted = false;
    if (redis->endpoint.password != NULL)
        status = send_argv(redis, -1, 2, auth, NULL, on_greeting, redis);
    if (status == SK_OK)
        status = send_argv(redis, -1, 2, select, NULL, on_greeting, redis);
    if (status == SK_OK)
        status = send_argv(redis, -1, 1, info, NULL, on_info, redis);
    for (int i = 0; status == SK_OK && i < SK_SCRIPT_COUNT; i++) {
        struct sha_target *target = malloc(sizeof *target);
        if (target == NULL)
            return SK_NO_MEM;
        *target = (struct sha_target){redis, i};
        status = load_script(redis, i, on_script_loaded, target);
        if (status != SK_OK)
            free(target);
    }
    return status;
}

// ---- connection ----

static void on_connect(const redisAsyncContext *context, int status)
{
    struct sk_redis *redis = context->data;
    if (redis == NULL)
        return;
    if (status != REDIS_OK) {
        sk_log_text(SK_WARN, "cannot connect to Redis", "reason", context->errstr);
        redis->context = NULL; // hiredis frees it after this call
        redis->watch = NULL;
        set_state(redis, LINK_DOWN);
        return;
    }
    set_state(redis, LINK_GREETING);
    // Not here and now: hiredis goes on with the context after this call.
    redis->ungreeted = greet(redis) != SK_OK;
}

static void on_disconnect(const redisAsyncContext *context, int status)
{
    struct sk_redis *redis = context->data;
    if (redis == NULL)
        return; // dropped by ourselves: drop() has done the rest
    sk_log_text(SK_WARN, "Redis is gone", "reason", status == REDIS_OK ? "closed" : context->errstr);
    redis->context = NULL;
    redis->watch = NULL;
    set_state(redis, LINK_DOWN);
}

// Ends the connection now. Callers are never inside a callback of the context.
static void drop(struct sk_redis *redis, const char *why)
{
    redisAsyncContext *context = redis->context;
    if (context == NULL)
        return;
    sk_log(SK_WARN, "Redis connection dropped", "reason=\"%s\"", why);
    redis->context = NULL;
    redis->watch = NULL;
    context->data = NULL;
    set_state(redis, LINK_DOWN); // before the callbacks run, so that they cannot queue anything new
    redisAsyncFree(context);
}

static void start_connection(struct sk_redis *redis, const char *address)
{
    redisAsyncContext *context = redis->endpoint.port == 0 ? redisAsyncConnectUnix(redis->endpoint.host)
                                                           : redisAsyncConnect(address, redis->endpoint.port);
    if (context == NULL || context->err != 0 || attach(redis, context) != SK_OK) {
        sk_log_text(SK_WARN, "cannot connect to Redis", "reason",
                    context != NULL && context->err != 0 ? context->errstr : "out of memory");
        if (context != NULL)
            redisAsyncFree(context);
        set_state(redis, LINK_DOWN);
        return;
    }
    context->data = redis;
    redis->context = context;
    (void)redisAsyncSetConnectCallback(context, on_connect);
    (void)redisAsyncSetDisconnectCallback(context, on_disconnect);
    watch_for(redis->watch, true);
}

static void free_redis(struct sk_redis *redis)
{
    sk_redis_url_free(&redis->endpoint);
    free(redis);
}

static void on_resolved(void *arg, const char *address)
{
    struct sk_redis *redis = arg;
    redis->resolving = false;
    if (redis->state == LINK_CLOSED) {
        if (redis->tick_closed)
            free_redis(redis);
    } else if (address == NULL) {
        sk_log(SK_WARN, "cannot resolve Redis", "host=%s", redis->endpoint.host);
        set_state(redis, LINK_DOWN);
    } else {
        start_connection(redis, address);
    }
}

static void connect_now(struct sk_redis *redis)
{
    redis->retry_at_ms = sk_monotonic_ms() + sk_backoff_next(&redis->backoff);
    set_state(redis, LINK_CONNECTING);
    if (redis->endpoint.port == 0) {
        start_connection(redis, NULL);
    } else if (sk_resolve(redis->loop, &redis->resolve, redis->endpoint.host, on_resolved, redis)) {
        redis->resolving = true;
    } else {
        set_state(redis, LINK_DOWN);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct sk_redis *redis = timer->data;
    uint64_t now = sk_monotonic_ms();
    if (redis->state == LINK_DOWN) {
        if (now >= redis->retry_at_ms)
            connect_now(redis);
        return;
    }
    if (redis->oldest != NULL && uv_now(redis->loop) >= redis->oldest->since_ms + redis->timeout_ms)
        drop(redis, "reply overdue");
    else if (redis->ungreeted && redis->state == LINK_GREETING)
        drop(redis, "the greeting could not be sent");
    else if (redis->demoted)
        drop(redis, "it has become a replica");
    else if (redis->state != LINK_READY && !redis->resolving && now >= redis->state_since_ms + redis->timeout_ms)
        drop(redis, "connecting takes too long");
    sk_redis_flush(redis);
}

// ---- opening and closing ----

struct sk_redis *sk_redis_open(uv_loop_t *loop, const struct sk_redis_options *options)
{
    struct sk_redis *redis = calloc(1, sizeof *redis);
    if (redis == NULL)
        return NULL;
    redis->loop = loop;
    redis->timeout_ms = options->timeout_ms;
    redis->on_change = options->on_change;
    redis->arg = options->arg;
    redis->backoff = (struct sk_backoff){.first_ms = 50, .most_ms = 2000};
    if (sk_redis_url_parse(options->url, &redis->endpoint) != SK_OK) {
        sk_log(SK_ERROR, "SECKILL_REDIS_URL is not of the form redis://[:password@]host[:port][/db] or unix:///path",
               "");
        free_redis(redis);
        return NULL;
    }
    (void)uv_timer_init(loop, &redis->tick);
    redis->tick.data = redis;
    (void)uv_timer_start(&redis->tick, on_tick, TICK_MS, TICK_MS);
    connect_now(redis);
    return redis;
}

static void on_closed(uv_handle_t *handle)
{
    struct sk_redis *redis = handle->data;
    redis->tick_closed = true;
    if (!redis->resolving) // else the resolver's callback frees it
        free_redis(redis);
}

void sk_redis_close(struct sk_redis *redis)
{
    if (redis == NULL)
        return;
    redisAsyncContext *context = redis->context;
    redis->context = NULL;
    redis->watch = NULL;
    set_state(redis, LINK_CLOSED);
    if (context != NULL) {
        context->data = NULL;
        redisAsyncFree(context);
    }
    if (redis->resolving)
        (void)uv_cancel((uv_req_t *)&redis->resolve.request);
    uv_close((uv_handle_t *)&redis->tick, on_closed);
}

bool sk_redis_busy(const struct sk_redis *redis)
{
    return redis->unanswered != NULL;
}

bool sk_redis_idle(const struct sk_redis *redis)
{
    return redis->oldest == NULL;
}

bool sk_redis_ready(const struct sk_redis *redis)
{
    return redis->state == LINK_READY && !redis->demoted;
}

const char *sk_redis_run(const struct sk_redis *redis)
{
    return redis->info.run;
}

uint64_t sk_redis_run_number(const struct sk_redis *redis)
{
    return redis->run_number;
}
