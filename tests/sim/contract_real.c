// The ways of contract.c, real: sockets, libpq, and servers that really hang.
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "contract.h"

enum { WAIT_US = 500, WAITS_MAX = 20000 };

uv_loop_t *ways_loop;
const char *ways_redis_url, *ways_postgres_url;

static struct {
    redisContext *redis; // as a user with all rights
    PGconn *postgres;
} ways;

static _Noreturn void ways_die(const char *what)
{
    (void)fprintf(stderr, "contract: %s\n", what);
    exit(2);
}

void ways_open(void)
{
    ways_loop = uv_default_loop();
    ways_redis_url = getenv("SK_SIM_REDIS_URL");
    ways_postgres_url = getenv("SK_SIM_POSTGRES_URL");
    ways.redis = redisConnectUnix(getenv("SK_SIM_REDIS"));
    ways.postgres = PQconnectdb(getenv("SK_SIM_OWNER"));
    if (ways.redis == NULL || ways.redis->err != 0 || PQstatus(ways.postgres) != CONNECTION_OK)
        ways_die("no stores");
    freeReplyObject(redisCommand(ways.redis, "AUTH %s", getenv("SK_SIM_REDIS_PASSWORD")));
}

void ways_run_until(bool (*met)(void), void (*turn)(void), const char *what)
{
    for (int waits = 0; turn(), uv_run(ways_loop, UV_RUN_NOWAIT), !met(); waits++) {
        if (waits == WAITS_MAX)
            ways_die(what);
        (void)usleep(WAIT_US);
    }
}

static void ways_tell_redis(const char *command)
{
    redisReply *reply = redisCommand(ways.redis, command);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
        ways_die(reply == NULL ? "Redis" : reply->str);
    freeReplyObject(reply);
}

void ways_redis_forgets(void)
{
    ways_tell_redis("SCRIPT FLUSH");
}

// Its answer comes when Redis goes on.
void ways_redis_hangs(bool hangs)
{
    void *reply = NULL;
    int sent = 0;
    if (hangs) {
        (void)redisAppendCommand(ways.redis, "DEBUG SLEEP 1");
        while (sent == 0) {
            if (redisBufferWrite(ways.redis, &sent) != REDIS_OK)
                ways_die("Redis");
        }
        (void)usleep(100 * WAIT_US);
    } else {
        if (redisGetReply(ways.redis, &reply) != REDIS_OK)
            ways_die("Redis");
        freeReplyObject(reply);
    }
}

void ways_redis_breaks(void)
{
    ways_tell_redis("CLIENT KILL TYPE normal SKIPME yes");
}

static PGresult *ways_ask_postgres(const char *sql)
{
    PGresult *result = PQexec(ways.postgres, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
        ways_die(PQerrorMessage(ways.postgres));
    return result;
}

void ways_postgres_notifies(void)
{
    PQclear(ways_ask_postgres("NOTIFY seckill_catalogue"));
}

// The backends of the links; new ones are not among them.
void ways_postgres_hangs(bool hangs)
{
    static PGresult *backends;
    if (hangs)
        backends = ways_ask_postgres("SELECT pid FROM pg_stat_activity WHERE application_name = 'contract'");
    for (int i = 0; i < PQntuples(backends); i++)
        (void)kill((pid_t)strtol(PQgetvalue(backends, i, 0), NULL, 10), hangs ? SIGSTOP : SIGCONT);
    if (!hangs)
        PQclear(backends);
}

void ways_postgres_breaks(void)
{
    PQclear(ways_ask_postgres(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'contract'"));
}
