#include "stores.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "keys.h"
#include "shards.h"
#include "slot.h"
#include "stack.h"
#include "wait.h"

enum { SQL_SIZE = 2048 };

static PGconn *db_connect_shard(int shard)
{
    PGconn *conn = stack_connect_to(shard);
    ck_assert_msg(PQstatus(conn) == CONNECTION_OK, "%s", PQerrorMessage(conn));
    return conn;
}

PGconn *db_connect(void)
{
    return db_connect_shard(0);
}

int db_shard_of(const char *voucher)
{
    return (int)sk_shard_of_voucher(strtoll(voucher, NULL, 10), (size_t)stack_shards());
}

PGconn *db_connect_to(const char *voucher)
{
    return db_connect_shard(db_shard_of(voucher));
}

static PGconn *sessions[SK_SHARDS_MAX];
static pid_t sessions_owner;
// Not closed: their other ends are the parent's; no leaks of ours.
__attribute__((used)) static PGconn *parents_sessions[SK_SHARDS_MAX];

static bool is_as_new(PGconn *conn)
{
    PGresult *result = PQexec(conn, "DISCARD ALL");
    bool is_new = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return is_new;
}

// Connecting costs far more than most queries, and tests query every few milliseconds. So one session of each shard
// serves them all, reset before each use. A broken session is replaced; a child opens its own.
static PGconn *db_session(int shard)
{
    if (sessions_owner != getpid()) {
        memcpy(parents_sessions, sessions, sizeof sessions);
        memset(sessions, 0, sizeof sessions);
        sessions_owner = getpid();
    }
    if (sessions[shard] != NULL && is_as_new(sessions[shard]))
        return sessions[shard];
    PQfinish(sessions[shard]);
    sessions[shard] = NULL; // db_connect_shard() may end the test
    sessions[shard] = db_connect_shard(shard);
    return sessions[shard];
}

// Runs it on all shards.
static void db_query(PGresult *results[SK_SHARDS_MAX], const char *format, va_list args)
{
    char sql[SQL_SIZE];
    int n = vsnprintf(sql, sizeof sql, format, args);
    ck_assert(n > 0 && n < SQL_SIZE);
    for (int i = 0; i < stack_shards(); i++) {
        PGconn *conn = db_session(i);
        results[i] = PQexec(conn, sql);
        ExecStatusType status = PQresultStatus(results[i]);
        ck_assert_msg(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK, "%s: %s", sql, PQerrorMessage(conn));
    }
}

void db_run(const char *format, ...)
{
    PGresult *results[SK_SHARDS_MAX];
    va_list args;
    va_start(args, format);
    db_query(results, format, args);
    va_end(args);
    for (int i = 0; i < stack_shards(); i++)
        PQclear(results[i]);
}

void db_empty(void)
{
    db_run("SET lock_timeout = '10s'; DO $$ BEGIN EXECUTE (SELECT 'TRUNCATE ' || string_agg(oid::regclass::text, ', ')"
           " FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
           " AND relname NOT IN ('order_move', 'seckill_catalogue', 'seckill_shard', 'shard_seen', "
           "'seckill_migration')); END $$");
}

int64_t db_number(const char *format, ...)
{
    PGresult *results[SK_SHARDS_MAX];
    int64_t number = 0;
    int rows = 0;
    va_list args;
    va_start(args, format);
    db_query(results, format, args);
    va_end(args);
    for (int i = 0; i < stack_shards(); i++) {
        int has = PQntuples(results[i]);
        ck_assert_int_le(has, 1);
        number += has == 0 ? 0 : strtoll(PQgetvalue(results[i], 0, 0), NULL, 10);
        rows += has;
        PQclear(results[i]);
    }
    ck_assert_int_ge(rows, 1);
    return number;
}

int64_t voucher_epoch(const char *voucher)
{
    return db_number("SELECT epoch FROM voucher_stock WHERE voucher_id = %s", voucher);
}

void db_text(char *out, size_t size, const char *format, ...)
{
    PGresult *results[SK_SHARDS_MAX];
    int rows = 0;
    va_list args;
    va_start(args, format);
    db_query(results, format, args);
    va_end(args);
    out[0] = '\0';
    for (int i = 0; i < stack_shards(); i++) {
        int has = PQntuples(results[i]);
        ck_assert_int_le(has, 1);
        if (has == 1 && out[0] == '\0')
            (void)snprintf(out, size, "%s", PQgetvalue(results[i], 0, 0));
        rows += has;
        PQclear(results[i]);
    }
    ck_assert_int_ge(rows, 1);
}

// Statements wait in a trigger that polls: waiting for a lock would end by lock_timeout.
#define HELD_KEY "20260101"

static PGconn *holders[SK_SHARDS_MAX];

void db_hold_orders(void)
{
    ck_assert_ptr_null(holders[0]);
    db_run("CREATE OR REPLACE FUNCTION public.wait_while_held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
           " WHILE NOT pg_try_advisory_xact_lock_shared(" HELD_KEY ") LOOP PERFORM pg_sleep(0.002); END LOOP;"
           " RETURN NULL; END $$");
    db_run("CREATE OR REPLACE TRIGGER wait_while_held BEFORE INSERT OR UPDATE OR DELETE ON voucher_order"
           " FOR EACH STATEMENT EXECUTE FUNCTION public.wait_while_held()");
    for (int i = 0; i < stack_shards(); i++) {
        holders[i] = db_connect_shard(i);
        PGresult *result = PQexec(holders[i], "SELECT pg_advisory_lock(" HELD_KEY ")");
        ck_assert_int_eq(PQresultStatus(result), PGRES_TUPLES_OK);
        PQclear(result);
    }
}

void db_let_orders_go(void)
{
    for (int i = 0; i < stack_shards(); i++) {
        PQfinish(holders[i]);
        holders[i] = NULL;
    }
}

int64_t db_orders_held_ms(void)
{
    return db_number("SELECT coalesce(ceil(extract(epoch FROM max(clock_timestamp() - query_start)) * 1000), 0)"
                     " FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND state = 'active'");
}

bool db_commit_waits(const PGconn *conn)
{
    return db_number("SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event = 'SyncRep'",
                     PQbackendPID(conn)) == 1;
}

bool db_release_commit(PGconn *conn)
{
    WAIT_FOR(db_commit_waits(conn) || (PQconsumeInput(conn) == 1 && PQisBusy(conn) == 0));
    bool waited = db_commit_waits(conn);
    if (waited)
        db_run("SELECT pg_cancel_backend(%d)", PQbackendPID(conn));
    return waited;
}

// The server's checkpointer is the last to read the setting, and what it knows counts.
static bool are_held(PGconn *conn)
{
    PGresult *result;
    ck_assert_int_eq(PQsendQuery(conn, "SELECT pg_logical_emit_message(true, 'test', '')"), 1);
    bool held = db_release_commit(conn);
    while ((result = PQgetResult(conn)) != NULL)
        PQclear(result);
    return held;
}

void db_hold_commits(void)
{
    db_run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    db_run("SELECT pg_reload_conf()");
    for (int i = 0; i < stack_shards(); i++) {
        PGconn *conn = db_connect_shard(i);
        WAIT_FOR(are_held(conn));
        PQfinish(conn);
    }
}

void db_let_commits_go(void)
{
    db_run("ALTER SYSTEM RESET synchronous_standby_names");
    db_run("SELECT pg_reload_conf()");
}

redisContext *redis_connect(int node)
{
    redisContext *redis = redisConnect("127.0.0.1", stack_redis_port_of(node));
    ck_assert_msg(redis != NULL && redis->err == 0, "cannot connect to Redis");
    redisReply *reply = redisCommand(redis, "AUTH tests %s", stack_redis_password);
    ck_assert(reply != NULL && reply->type == REDIS_REPLY_STATUS);
    freeReplyObject(reply);
    return redis;
}

int redis_node_of(const char *key)
{
    return (int)(sk_key_slot(key) * (unsigned)stack_redis_nodes() / SK_SLOTS);
}

redisContext *redis_connect_to(const char *key)
{
    return redis_connect(redis_node_of(key));
}

static redisReply *ask_node(int node, const char *format, const char *command, size_t len)
{
    redisContext *redis = redis_connect(node);
    redisReply *reply = NULL;
    if (redisAppendFormattedCommand(redis, command, len) == REDIS_OK)
        (void)redisGetReply(redis, (void **)&reply);
    ck_assert_msg(reply != NULL, "%s: no reply", format);
    ck_assert_msg(reply->type != REDIS_REPLY_ERROR, "%s: %s", format, reply->str);
    redisFree(redis);
    return reply;
}

static bool has_no_key(const char *format)
{
    static const char *const words[] = {"FLUSHALL", "CONFIG", "SCRIPT",    "INFO", "DBSIZE",
                                        "CLIENT",   "ACL",    "REPLICAOF", "PING", "TIME"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strncmp(format, words[i], strlen(words[i])) == 0)
            return true;
    }
    return false;
}

// The first key: the second word, or the one after the script and the number of keys.
static const char *key_in(const redisReply *words)
{
    size_t i = strcasecmp(words->element[0]->str, "EVAL") == 0 ? 3 : 1;
    return i < words->elements ? words->element[i]->str : "";
}

// A command goes to the node of its first key. One without a key goes to all nodes; the first reply
// counts, and numbers are added up.
static redisReply *ask_redis(const char *format, va_list args)
{
    char *command = NULL;
    int len = redisvFormatCommand(&command, format, args), nodes = stack_redis_nodes();
    ck_assert_int_gt(len, 0);
    redisReply *reply = NULL;
    if (nodes == 1 || !has_no_key(format)) {
        redisReader *reader = redisReaderCreate();
        redisReply *words = NULL;
        (void)redisReaderFeed(reader, command, (size_t)len);
        (void)redisReaderGetReply(reader, (void **)&words);
        ck_assert(words != NULL && words->elements > 0);
        int node = redis_node_of(key_in(words));
        reply = ask_node(node, format, command, (size_t)len);
        freeReplyObject(words);
        redisReaderFree(reader);
    }
    for (int i = 0; nodes > 1 && has_no_key(format) && i < nodes; i++) {
        redisReply *one = ask_node(i, format, command, (size_t)len);
        if (reply != NULL)
            reply->integer += one->integer;
        if (reply == NULL)
            reply = one;
        else
            freeReplyObject(one);
    }
    redisFreeCommand(command);
    return reply;
}

void redis_run(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    freeReplyObject(ask_redis(format, args));
    va_end(args);
}

int64_t redis_number(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = ask_redis(format, args);
    va_end(args);
    int64_t number = -1;
    if (reply->type == REDIS_REPLY_INTEGER)
        number = reply->integer;
    else if (reply->type == REDIS_REPLY_STRING)
        number = strtoll(reply->str, NULL, 10);
    freeReplyObject(reply);
    return number;
}

bool redis_text(char *out, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = ask_redis(format, args);
    va_end(args);
    bool found = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
    (void)snprintf(out, size, "%s", found ? reply->str : "");
    freeReplyObject(reply);
    return found;
}

void redis_info(int node, const char *section, char *out, size_t size)
{
    char command[64];
    redisContext *redis = redis_connect(node);
    (void)snprintf(command, sizeof command, "INFO %s", section);
    redisReply *reply = redisCommand(redis, command);
    ck_assert(reply != NULL && reply->type == REDIS_REPLY_STRING);
    (void)snprintf(out, size, "%s", reply->str);
    freeReplyObject(reply);
    redisFree(redis);
}
