#include "worker.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STORE_TIMEOUT_MS = 4000, SERVER_TIMEOUT_MS = 100 };

// ---- Redis ----

// Redis may have been restarted: each command that finds its connection closed opens another one.
static redisContext *server(struct worker *worker, int i)
{
    int ms = worker->approach->lives == IN_FIVE_REDISES ? SERVER_TIMEOUT_MS : STORE_TIMEOUT_MS;
    struct timeval timeout = {ms / 1000, ms % 1000 * 1000L};
    redisContext *redis = worker->redis[i];
    if (redis != NULL && redis->err == 0)
        return redis;
    if (redis != NULL)
        redisFree(redis);
    worker->redis[i] = redisConnectUnixWithTimeout(worker->place->sockets[i], timeout);
    redis = worker->redis[i];
    if (redis != NULL && redis->err == 0)
        (void)redisSetTimeout(redis, timeout);
    return redis != NULL && redis->err == 0 ? redis : NULL;
}

static redisReply *keep_reply(struct worker *worker, redisReply *reply)
{
    if (worker->reply != NULL)
        freeReplyObject(worker->reply);
    worker->reply = reply;
    worker->is_broken = worker->is_broken || reply == NULL || reply->type == REDIS_REPLY_ERROR;
    return worker->is_broken ? NULL : reply;
}

static redisReply *command(struct worker *worker, int i, const char *format, va_list args)
{
    redisContext *redis = server(worker, i);
    return keep_reply(worker, redis == NULL ? NULL : redisvCommand(redis, format, args));
}

static long long number_of(const redisReply *reply)
{
    if (reply == NULL)
        return NONE;
    if (reply->type == REDIS_REPLY_INTEGER)
        return reply->integer;
    if (reply->type == REDIS_REPLY_STATUS)
        return strcmp(reply->str, "OK") == 0 ? 1 : 0;
    return reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : NONE;
}

long long redis_number(struct worker *worker, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const redisReply *reply = command(worker, 0, format, args);
    va_end(args);
    return number_of(reply);
}

long long redis_number_at(struct worker *worker, int i, const char *format, ...)
{
    bool was_broken = worker->is_broken;
    va_list args;
    va_start(args, format);
    const redisReply *reply = command(worker, i, format, args);
    va_end(args);
    long long number = number_of(reply);
    worker->is_broken = was_broken; // one of several may be away
    return number;
}

const char *redis_text(struct worker *worker, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const redisReply *reply = command(worker, 0, format, args);
    va_end(args);
    return reply != NULL && reply->type == REDIS_REPLY_STRING ? reply->str : NULL;
}

// Returns the script's SHA1, for EVALSHA; NULL: the server cannot be asked. The server then knows the script until it
// restarts.
static const char *sha_of(struct worker *worker, int i, const struct sk_embedded *script, bool again)
{
    struct loaded *loaded = worker->loaded;
    while (loaded->script != NULL && loaded->script != script)
        loaded++;
    SK_ASSERT(loaded < worker->loaded + SCRIPTS_MAX);
    redisContext *redis = server(worker, i);
    if (redis != NULL && (again || loaded->script == NULL)) {
        redisReply *reply = redisCommand(redis, "SCRIPT LOAD %s", script->text);
        if (reply != NULL && reply->type == REDIS_REPLY_STRING) {
            (void)snprintf(loaded->sha, sizeof loaded->sha, "%s", reply->str);
            loaded->script = script;
        }
        freeReplyObject(reply);
    }
    return redis != NULL && loaded->script != NULL ? loaded->sha : NULL;
}

static bool is_forgotten(const redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0;
}

bool redis_script(struct worker *worker, int i, const struct sk_embedded *script, int keys, int argc,
                  const char *const *argv)
{
    enum { ARGS_MAX = 300 };
    const char *words[ARGS_MAX + 3] = {"EVALSHA"};
    char count[8];
    bool was_broken = worker->is_broken;
    redisReply *reply = NULL;
    SK_ASSERT(argc <= ARGS_MAX);
    (void)snprintf(count, sizeof count, "%d", keys);
    words[2] = count;
    for (int n = 0; n < argc; n++)
        words[n + 3] = argv[n];
    for (int tries = 0; tries < 2 && (reply == NULL || is_forgotten(reply)); tries++) {
        freeReplyObject(reply);
        words[1] = sha_of(worker, i, script, tries > 0);
        reply = words[1] == NULL ? NULL : redisCommandArgv(worker->redis[i], argc + 3, words, NULL);
        if (reply == NULL)
            break; // it may have been executed
    }
    bool ok = keep_reply(worker, reply) != NULL;
    if (i > 0)
        worker->is_broken = was_broken;
    return ok;
}

// ---- PostgreSQL ----

long long sql(struct worker *worker, enum sk_approach_sql statement, int n, const char *const *params)
{
    if (worker->result != NULL)
        PQclear(worker->result);
    worker->result = PQexecParams(worker->pg, sk_approach_sqls[statement].text, n, NULL, params, NULL, NULL, 0);
    switch (PQresultStatus(worker->result)) {
    case PGRES_TUPLES_OK:
        return PQntuples(worker->result);
    case PGRES_COMMAND_OK:
        return strtoll(PQcmdTuples(worker->result), NULL, 10);
    default:
        worker->is_broken = true;
        return NONE;
    }
}

const char *sql_text(struct worker *worker)
{
    return PQgetvalue(worker->result, 0, 0);
}

bool broken(const struct worker *worker)
{
    return worker->is_broken;
}

// ---- time ----

static uint64_t clock_ms(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int64_t wall_ms(const struct worker *worker)
{
    return (int64_t)clock_ms(CLOCK_REALTIME) + worker->clock_step_ms;
}

uint64_t steady_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

bool wait_ms(struct worker *worker, int ms)
{
    if (worker->is_broken || steady_ms() >= worker->gives_up_at_ms || atomic_load(&worker->shared->stop))
        return false;
    (void)usleep((useconds_t)ms * 1000);
    return true;
}

// ---- accidents ----

void at(struct worker *worker, const char *point)
{
    bool has_read = strcmp(point, "read") == 0;
    if (has_read)
        atomic_fetch_add(&worker->shared->reads, 1);
    if (has_read && worker->works_ms > 0)
        (void)usleep((useconds_t)worker->works_ms * 1000);
    if (worker->stops_at == NULL || strcmp(worker->stops_at, point) != 0)
        return;
    worker->stops_at = NULL;
    (void)raise(SIGSTOP);
}

void enter(struct worker *worker)
{
    long inside = atomic_fetch_add(&worker->shared->inside, 1) + 1, most = atomic_load(&worker->shared->most_inside);
    while (inside > most && !atomic_compare_exchange_weak(&worker->shared->most_inside, &most, inside)) {}
    atomic_fetch_add(&worker->shared->entries, 1);
    at(worker, "inside");
}

void leave(struct worker *worker)
{
    atomic_fetch_sub(&worker->shared->inside, 1);
}

// ---- life ----

bool worker_open(struct worker *worker, const struct approach *approach, const struct place *place,
                 struct shared *shared)
{
    uint64_t random[2];
    *worker = (struct worker){
        .approach = approach, .place = place, .shared = shared, .thread = 1, .gives_up_at_ms = UINT64_MAX};
    sk_random_bytes(random, sizeof random);
    worker->dice = (unsigned)random[0];
    (void)snprintf(worker->token, sizeof worker->token, "%016llx%016llx", (unsigned long long)random[0],
                   (unsigned long long)random[1]);
    if (server(worker, 0) == NULL) {
        (void)fprintf(stderr, "approaches: no Redis at %s\n", place->sockets[0]);
        return false;
    }
    worker->pg = PQconnectdb(place->database_url);
    if (PQstatus(worker->pg) != CONNECTION_OK) {
        (void)fprintf(stderr, "approaches: no PostgreSQL: %s", PQerrorMessage(worker->pg));
        return false;
    }
    return true;
}

void worker_reconnect(struct worker *worker)
{
    for (int i = 0; i < SERVERS; i++) {
        if (worker->redis[i] != NULL)
            redisFree(worker->redis[i]);
        worker->redis[i] = NULL;
    }
    worker->is_broken = false;
}

void worker_close(struct worker *worker)
{
    worker_reconnect(worker);
    if (worker->reply != NULL)
        freeReplyObject(worker->reply);
    if (worker->result != NULL)
        PQclear(worker->result);
    PQfinish(worker->pg);
}
