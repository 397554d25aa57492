// The second implementation of redis_link.h: the same states, queues and time-outs as src/store/redis_link.c, on the
// network of the simulation.
#include "redis_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "hash.h"
#include "link.h"
#include "log.h"
#include "net.h"
#include "params.h"
#include "redis_format.h"
#include "stores.h"

enum { NO_SCRIPT = -1 };

struct redis_call {
    struct redis_call *next; // younger
    sk_redis_cb *done;
    void *arg;
    uint64_t sent_ms; // 0: not yet
    char *command;
    size_t len;
    int script;
    bool repeated;
};

struct sk_redis {
    struct sk_link *link;
    struct sk_redis_url url;
    uint32_t timeout_ms;
    size_t most_waiting;
    void (*on_moved)(void *arg, const char *error);
    void *arg;
    struct net_conn *conn; // NULL: none
    struct redis_call *oldest, *youngest;
    struct redis_call *unsent;     // the oldest call whose write has not begun
    struct redis_call *unanswered; // the last call of the latest write; NULL: all are answered
    size_t waiting;
    bool demoted;
    struct sk_redis_info info;
    uint64_t run_number;
    uint64_t took;
    const char *scratch[SK_REDIS_ARGS_MAX + 3];
    size_t scratch_lens[SK_REDIS_ARGS_MAX + 3];
};

static void redis_link_connect(void *owner, const char *address);
static const char *redis_link_tick(void *owner);
static void redis_link_drop(void *owner, const char *why);
static void redis_link_free(void *owner);
static void redis_link_on_connected(void *link);
static void redis_link_on_lost(void *link, const char *why);
static void redis_link_on_answer(void *link, struct net_packet *packet);
static void redis_link_end_calls(struct sk_redis *redis);

static const struct sk_link_steps steps = {redis_link_connect, redis_link_tick, redis_link_drop, redis_link_free};
static const struct net_events events = {redis_link_on_connected, redis_link_on_lost, redis_link_on_answer};

// ---- the interface ----

struct sk_redis *sk_redis_open(uv_loop_t *loop, const struct sk_redis_options *options)
{
    struct sk_redis *redis = calloc(1, sizeof *redis);
    if (redis == NULL)
        return NULL;
    redis->timeout_ms = options->timeout_ms;
    redis->most_waiting = options->most_waiting;
    redis->on_moved = options->on_moved;
    redis->arg = options->arg;
    const struct sk_link_options link = {.loop = loop,
                                         .timeout_ms = options->timeout_ms,
                                         .on_change = options->on_change,
                                         .arg = options->arg,
                                         .steps = &steps,
                                         .owner = redis};
    if (sk_redis_url_parse(options->url, &redis->url) == SK_OK) {
        if (options->at != NULL)
            redis->url.at = *options->at;
        redis->link = sk_link_open(&link);
    }
    if (redis->link != NULL)
        return redis;
    sk_redis_url_free(&redis->url);
    free(redis);
    return NULL;
}

void sk_redis_close(struct sk_redis *redis)
{
    if (redis == NULL)
        return;
    sk_link_close(redis->link);
    net_leave(redis->conn);
    redis->conn = NULL;
    redis_link_end_calls(redis);
}

static bool redis_link_is_ready(const struct sk_redis *redis)
{
    return sk_link_state(redis->link) == SK_LINK_READY;
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
}

// ---- calls ----

static enum sk_status redis_link_queue(struct sk_redis *redis, int script, int argc, const char **argv,
                                       const size_t *lens, sk_redis_cb *done, void *arg)
{
    if (redis->waiting >= redis->most_waiting)
        return SK_FULL;
    struct redis_call *call = calloc(1, sizeof *call);
    size_t len = 0;
    char *command = call == NULL ? NULL : sk_redis_format(argc, argv, lens, &len);
    if (command == NULL) {
        free(call);
        return SK_NO_MEM;
    }
    *call = (struct redis_call){.done = done, .arg = arg, .command = command, .len = len, .script = script};
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

enum sk_status sk_redis_command(struct sk_redis *redis, int argc, const char **argv, const size_t *lens,
                                sk_redis_cb *done, void *arg)
{
    if (redis == NULL || !redis_link_is_ready(redis))
        return SK_DOWN;
    return redis_link_queue(redis, NO_SCRIPT, argc, argv, lens, done, arg);
}

enum sk_status sk_redis_script(struct sk_redis *redis, enum sk_script script, int keys, int argc, const char **argv,
                               const size_t *lens, sk_redis_cb *done, void *arg)
{
    char key_count[SK_PARAM_NUMBER_SIZE];
    SK_ASSERT(argc <= SK_REDIS_ARGS_MAX && keys <= argc);
    if (redis == NULL || !redis_link_is_ready(redis))
        return SK_DOWN;
    redis->scratch[0] = "EVALSHA";
    redis->scratch[1] = stores_sha(script);
    redis->scratch[2] = sk_params_number(key_count, keys);
    memcpy(redis->scratch + 3, argv, (size_t)argc * sizeof *argv);
    for (int i = 0; i < argc + 3; i++)
        redis->scratch_lens[i] = i < 3 || lens == NULL ? strlen(redis->scratch[i]) : lens[i - 3];
    return redis_link_queue(redis, (int)script, argc + 3, redis->scratch, redis->scratch_lens, done, arg);
}

void sk_redis_flush(struct sk_redis *redis)
{
    if (redis == NULL || redis->unsent == NULL || redis->unanswered != NULL)
        return;
    redis->unanswered = redis->youngest;
    for (struct redis_call *call = redis->unsent; call != NULL; call = call->next) {
        struct net_packet *packet =
            net_packet_new(call->script == NO_SCRIPT ? "a command" : sk_scripts[call->script].name);
        packet->command = world_alloc(call->len);
        memcpy(packet->command, call->command, call->len);
        packet->len = call->len;
        packet->scripted = call->script != NO_SCRIPT;
        call->sent_ms = sk_monotonic_ms();
        net_send(redis->conn, packet);
    }
    redis->unsent = NULL;
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
    }
    if (redis->oldest == NULL)
        redis->youngest = NULL;
    redis->waiting--;
    return call;
}

static void redis_call_free(struct redis_call *call)
{
    free(call->command);
    free(call);
}

static bool redis_link_is_error(const struct sk_reply *reply, const char *code)
{
    const char *error = sk_reply_error(reply);
    return error != NULL && strncmp(error, code, strlen(code)) == 0;
}

static void redis_link_on_loaded(void *arg, const struct sk_reply *reply)
{
    (void)arg;
    (void)reply;
}

// The script is loaded, and the call repeated behind younger ones.
static bool redis_link_repeat(struct sk_redis *redis, struct redis_call *call, const struct sk_reply *reply)
{
    if (call->script == NO_SCRIPT || call->repeated || !redis_link_is_error(reply, "NOSCRIPT"))
        return false;
    const char *load[] = {"SCRIPT", "LOAD", sk_scripts[call->script].text};
    call->repeated = true;
    if (redis_link_queue(redis, NO_SCRIPT, 3, load, NULL, redis_link_on_loaded, NULL) != SK_OK)
        return false;
    call->next = NULL;
    call->sent_ms = 0;
    redis->youngest->next = call;
    redis->youngest = call;
    redis->waiting++;
    return true;
}

static void redis_link_on_reply(struct sk_redis *redis, const struct sk_reply *reply)
{
    struct redis_call *call = redis_link_pop(redis);
    if (redis_link_repeat(redis, call, reply))
        return;
    if (redis_link_is_error(reply, "READONLY"))
        redis->demoted = true;
    if (redis->on_moved != NULL && redis_link_is_error(reply, "MOVED "))
        redis->on_moved(redis->arg, sk_reply_error(reply));
    call->done(call->arg, reply);
    redis_call_free(call);
}

// ---- the connection ----

static void redis_link_connect(void *owner, const char *address)
{
    struct sk_redis *redis = owner;
    (void)address;
    redis->demoted = false;
    redis->conn = net_connect(NET_REDIS, &events, redis);
}

static void redis_link_on_connected(void *link)
{
    struct sk_redis *redis = link;
    sk_link_move(redis->link, SK_LINK_PREPARING);
    net_send(redis->conn, net_packet_new("a greeting"));
}

static void redis_link_on_answer(void *link, struct net_packet *packet)
{
    struct sk_redis *redis = link;
    if (packet->command != NULL) {
        redis_link_on_reply(redis, packet->reply);
    } else if (!sk_redis_info_read(packet->info, &redis->info) || redis->info.replica) {
        redis_link_drop(redis, "it is a replica");
    } else {
        redis->run_number = sk_hash(redis->info.run, strlen(redis->info.run));
        sk_link_move(redis->link, SK_LINK_READY);
    }
}

static const char *redis_link_tick(void *owner)
{
    struct sk_redis *redis = owner;
    const struct redis_call *oldest = redis->oldest;
    if (oldest != NULL && oldest->sent_ms != 0 && sk_monotonic_ms() >= oldest->sent_ms + redis->timeout_ms)
        return "reply overdue";
    if (redis->demoted)
        return "it has become a replica";
    if (redis_link_is_ready(redis))
        sk_redis_flush(redis);
    return NULL;
}

static void redis_link_on_lost(void *link, const char *why)
{
    struct sk_redis *redis = link;
    redis->conn = NULL;
    redis_link_drop(redis, why);
}

static void redis_link_drop(void *owner, const char *why)
{
    struct sk_redis *redis = owner;
    sk_log_repeat(SK_LOG_WARN, "Redis connection dropped", "reason", why);
    sk_link_move(redis->link, SK_LINK_DOWN); // before the callbacks run, so that they cannot queue anything
    net_leave(redis->conn);
    redis->conn = NULL;
    redis_link_end_calls(redis);
}

static void redis_link_end_calls(struct sk_redis *redis)
{
    while (redis->oldest != NULL) {
        struct redis_call *call = redis_link_pop(redis);
        call->done(call->arg, NULL);
        redis_call_free(call);
    }
}

static void redis_link_free(void *owner)
{
    struct sk_redis *redis = owner;
    sk_redis_url_free(&redis->url);
    free(redis);
}
