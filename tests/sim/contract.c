// The contract of the links to the stores: a conversation with a Redis and a PostgreSQL by redis_link.h, asking.h and
// pg_link.h. It is linked twice, with sockets and libpq, and with the network of the simulation. Both must say, word by
// word, what contract.txt says (tests/sim/contract).
#include "contract.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asking.h"
#include "log.h"
#include "pg_link.h"
#include "redis_link.h"
#include "redis_url.h"

enum { TIMEOUT_MS = 400, REDIS_WAITING = 4, PG_WAITING = 12, ROUND_MS = 100, COMMANDS = 9, REPLY_BYTES = 4096 };

// Keys that the service's user may use.
#define HASH "seckill:{1}:ended"
#define TEXT "seckill:lock:expire:{1}"

static const char *contract_status(enum sk_status status)
{
    return status == SK_OK ? "ok" : status == SK_DOWN ? "down" : status == SK_FULL ? "full" : "?";
}

static const char *contract_reply(const struct sk_reply *reply)
{
    static char text[64];
    int64_t number;
    if (reply == NULL)
        return "lost";
    if (sk_reply_error(reply) != NULL)
        (void)snprintf(text, sizeof text, "error %.*s", (int)strcspn(sk_reply_error(reply), " "),
                       sk_reply_error(reply));
    else if (sk_reply_text(reply, NULL) != NULL)
        (void)snprintf(text, sizeof text, "%s", sk_reply_text(reply, NULL));
    else if (sk_reply_number(reply, &number))
        (void)snprintf(text, sizeof text, "%" PRId64, number);
    return text;
}

// ---- redis_link.h ----

static struct {
    struct sk_redis *link;
    unsigned waits; // calls without an answer
    bool close;     // in the next callback
} redis;

static void redis_turn(void)
{
    sk_redis_flush(redis.link);
}

static bool redis_answered(void)
{
    return redis.waits == 0;
}

static bool redis_is_up(void)
{
    return sk_redis_ready(redis.link);
}

static bool redis_is_down(void)
{
    return !sk_redis_ready(redis.link);
}

static void redis_until(bool (*met)(void), const char *what)
{
    ways_run_until(met, redis_turn, what);
}

static void redis_on_change(void *arg, bool ready)
{
    (void)arg;
    (void)printf("redis is %s\n", ready ? "ready" : "gone");
}

static void redis_on_answer(void *arg, const struct sk_reply *reply)
{
    (void)printf("redis: %s: %s\n", (const char *)arg, contract_reply(reply));
    redis.waits--;
    if (redis.close) {
        redis.close = false;
        sk_redis_close(redis.link);
        redis.link = NULL;
    }
}

static void redis_note(const char *what, enum sk_status status)
{
    redis.waits += status == SK_OK;
    if (status != SK_OK)
        (void)printf("redis takes no %s: %s\n", what, contract_status(status));
}

static void redis_ask(const char *command, const char *key)
{
    const char *argv[] = {command, key, "n", "1"};
    int argc = strcmp(command, "HINCRBY") == 0 ? 4 : strcmp(command, "SET") == 0 ? 3 : 2;
    redis_note(command, sk_redis_command(redis.link, argc, argv, NULL, redis_on_answer, (void *)command));
}

static void redis_call(void)
{
    const char *argv[] = {TEXT, "token"};
    redis_note("script", sk_redis_script(redis.link, SK_SCRIPT_LOCK_RELEASE, 1, 2, argv, NULL, redis_on_answer,
                                         (void *)"script"));
}

static void redis_open(void)
{
    const struct sk_redis_options options = {
        .url = ways_redis_url, .timeout_ms = TIMEOUT_MS, .on_change = redis_on_change, .most_waiting = REDIS_WAITING};
    redis.link = sk_redis_open(ways_loop, &options);
    redis_ask("EXISTS", TEXT);
    redis_until(redis_is_up, "Redis");
}

static void redis_in_order(void)
{
    (void)puts("-- answers come in the order of the calls");
    redis_ask("SET", TEXT);
    redis_ask("HINCRBY", HASH);
    redis_ask("HINCRBY", TEXT);
    redis_until(redis_answered, "answers");
    (void)puts("-- a script is loaded when it is called first");
    redis_call();
    redis_until(redis_answered, "the script's answer");
    (void)puts("-- a script that is lost is loaded again, behind later calls");
    ways_redis_forgets();
    redis_call();
    redis_ask("HINCRBY", HASH);
    redis_until(redis_answered, "answers");
    redis_call();
    redis_ask("HINCRBY", HASH);
    redis_until(redis_answered, "answers");
    (void)puts("-- calls wait while a write is unanswered");
    redis_ask("HINCRBY", HASH);
    sk_redis_flush(redis.link);
    redis_ask("GET", TEXT);
    (void)printf("busy %d, idle %d\n", sk_redis_busy(redis.link), sk_redis_idle(redis.link));
    redis_until(redis_answered, "answers");
    (void)printf("busy %d, idle %d\n", sk_redis_busy(redis.link), sk_redis_idle(redis.link));
    (void)puts("-- no more calls wait than may");
    for (int i = 0; i <= REDIS_WAITING; i++)
        redis_ask("GET", TEXT);
    redis_until(redis_answered, "answers");
}

static void redis_in_trouble(void)
{
    (void)puts("-- it hangs: what waits is lost");
    ways_redis_hangs(true);
    redis_ask("GET", TEXT);
    redis_ask("EXISTS", TEXT);
    redis_until(redis_answered, "the time-out");
    redis_ask("EXISTS", TEXT);
    ways_redis_hangs(false);
    redis_until(redis_is_up, "Redis");
    (void)puts("-- its connections break");
    ways_redis_breaks();
    redis_until(redis_is_down, "the loss");
    redis_until(redis_is_up, "Redis");
    redis_ask("GET", TEXT);
    redis_until(redis_answered, "an answer");
    (void)puts("-- it is closed in a callback");
    redis_ask("EXISTS", TEXT);
    redis_ask("EXISTS", TEXT);
    redis.close = true;
    redis_until(redis_answered, "both");
}

// ---- asking.h ----

static struct {
    struct sk_redis_url url;
    struct sk_asking *link;
    unsigned rounds;
    bool dropped, freed;
} asking;

static bool asking_ask(struct sk_asking *link, void *arg)
{
    (void)arg;
    return sk_asking_send(link, 2, (const char *[]){"EXISTS", TEXT}) &&
           sk_asking_send(link, 2, (const char *[]){"GET", TEXT});
}

static uint32_t asking_tick(void *arg)
{
    (void)arg;
    return ROUND_MS;
}

static const char *asking_on_reply(void *arg, unsigned left, const struct sk_reply *reply)
{
    (void)arg;
    (void)printf("asking: %s, %u left\n", contract_reply(reply), left);
    asking.rounds += left == 0;
    return left == 0 && asking.rounds == 3 ? "enough" : NULL;
}

static void asking_dropped(void *arg, const char *why)
{
    (void)arg;
    (void)printf("asking is dropped%s\n", strcmp(why, "enough") == 0 ? ": enough" : "");
    asking.dropped = true;
    sk_asking_next(asking.link, &asking.url.at, true);
}

static void asking_freed(void *arg)
{
    (void)arg;
    (void)puts("asking is freed");
    asking.freed = true;
}

static bool asking_has_two(void)
{
    return asking.rounds == 2;
}

static bool asking_was_dropped(void)
{
    return asking.dropped;
}

static bool asking_has_four(void)
{
    return asking.rounds == 4;
}

static bool asking_is_freed(void)
{
    return asking.freed;
}

static void contract_no_turn(void) {}

static void asking_all(void)
{
    (void)puts("-- the same is asked again and again");
    if (sk_redis_url_parse(ways_redis_url, &asking.url) != SK_OK)
        exit(2);
    const struct sk_asking_options options = {.loop = ways_loop,
                                              .at = &asking.url.at,
                                              .user = asking.url.user,
                                              .password = asking.url.password,
                                              .timeout_ms = TIMEOUT_MS,
                                              .most_bytes = REPLY_BYTES,
                                              .ask = asking_ask,
                                              .tick = asking_tick,
                                              .on_reply = asking_on_reply,
                                              .dropped = asking_dropped,
                                              .freed = asking_freed};
    asking.link = sk_asking_open(&options);
    ways_run_until(asking_has_two, contract_no_turn, "two rounds");
    ways_redis_breaks();
    ways_run_until(asking_was_dropped, contract_no_turn, "the loss");
    ways_run_until(asking_has_four, contract_no_turn, "two more rounds");
    sk_asking_close(asking.link);
    ways_run_until(asking_is_freed, contract_no_turn, "its end");
    sk_redis_url_free(&asking.url);
}

// ---- pg_link.h ----

static struct {
    struct sk_pg *link;
    unsigned waits;
    bool notified, close;
} pg;

static bool pg_answered(void)
{
    return pg.waits == 0;
}

static bool pg_was_notified(void)
{
    return pg.waits == 0 && pg.notified;
}

static bool pg_is_up(void)
{
    return sk_pg_ready(pg.link);
}

static bool pg_is_down(void)
{
    return !sk_pg_ready(pg.link);
}

static void pg_until(bool (*met)(void), const char *what)
{
    ways_run_until(met, contract_no_turn, what);
}

static void pg_on_change(void *arg, bool ready)
{
    (void)arg;
    (void)printf("postgres is %s\n", ready ? "ready" : "gone");
}

static const char *pg_on_session(void *arg, const char *misfit, int64_t beat)
{
    (void)arg;
    (void)beat;
    (void)printf("postgres %s\n", misfit == NULL ? "fits" : misfit);
    return misfit;
}

static void pg_on_notified(void *arg)
{
    (void)arg;
    pg.notified = true;
}

static void pg_on_result(void *arg, const struct sk_result *result)
{
    static const char *const kinds[] = {"rows", "lost", "failed", "locked", "refused"};
    (void)printf("postgres: %s: %s\n", (const char *)arg, kinds[result->kind]);
    pg.waits--;
    if (pg.close) {
        pg.close = false;
        sk_pg_close(pg.link);
        pg.link = NULL;
    }
}

static void pg_ask(enum sk_pg_class class, const char *name)
{
    static const char *const params[] = {"1"};
    enum sk_status status =
        sk_pg_call_as(pg.link, class, SK_STATEMENT_FIND_VOUCHER, 1, params, pg_on_result, (void *)name);
    pg.waits += status == SK_OK;
    if (status != SK_OK)
        (void)printf("postgres takes no %s: %s\n", name, contract_status(status));
}

static void pg_in_order(void)
{
    const struct sk_pg_options options = {.url = ways_postgres_url,
                                          .name = "contract",
                                          .timeout_ms = TIMEOUT_MS,
                                          .on_change = pg_on_change,
                                          .most_waiting = PG_WAITING,
                                          .listen = true,
                                          .on_notified = pg_on_notified,
                                          .on_session = pg_on_session};
    pg.link = sk_pg_open(ways_loop, &options);
    pg_ask(SK_PG_QUERIES, "early query");
    pg_until(pg_is_up, "PostgreSQL");
    (void)puts("-- commands go before moves, and these before queries");
    pg_ask(SK_PG_QUERIES, "first query");
    pg_ask(SK_PG_QUERIES, "second query");
    pg_ask(SK_PG_MOVES, "move");
    pg_ask(SK_PG_COMMANDS, "command");
    pg_until(pg_answered, "results");
    (void)puts("-- but nothing starves");
    for (int i = 0; i < COMMANDS; i++) {
        pg_ask(SK_PG_COMMANDS, "command");
        if (i == 0)
            pg_ask(SK_PG_QUERIES, "query");
    }
    pg_until(pg_answered, "results");
    (void)puts("-- no more calls wait than may");
    for (int i = 0; i <= PG_WAITING; i++)
        pg_ask(SK_PG_MOVES, "move");
    pg_until(pg_answered, "results");
    (void)puts("-- it notifies, before or after the result of a call");
    pg.notified = false;
    ways_postgres_notifies();
    pg_ask(SK_PG_QUERIES, "query");
    pg_until(pg_was_notified, "a notification");
}

static void pg_in_trouble(void)
{
    (void)puts("-- it hangs: what waits is lost");
    ways_postgres_hangs(true);
    pg_ask(SK_PG_QUERIES, "query");
    pg_ask(SK_PG_COMMANDS, "command");
    pg_until(pg_answered, "the time-out");
    ways_postgres_hangs(false);
    pg_until(pg_is_up, "PostgreSQL");
    (void)puts("-- its connections break");
    ways_postgres_breaks();
    pg_until(pg_is_down, "the loss");
    pg_ask(SK_PG_QUERIES, "query");
    pg_until(pg_is_up, "PostgreSQL");
    (void)puts("-- it is dropped, with what waits");
    pg_ask(SK_PG_QUERIES, "first query");
    pg_ask(SK_PG_QUERIES, "second query");
    sk_pg_drop(pg.link, "the contract says so");
    pg_until(pg_is_up, "PostgreSQL");
    (void)puts("-- it is closed in a callback");
    pg_ask(SK_PG_QUERIES, "first query");
    pg_ask(SK_PG_QUERIES, "second query");
    pg.close = true;
    pg_until(pg_answered, "both");
}

int main(void)
{
    sk_log_set_level(SK_LOG_ERROR);
    ways_open();
    redis_open();
    redis_in_order();
    redis_in_trouble();
    asking_all();
    pg_in_order();
    pg_in_trouble();
    return fflush(stdout) == 0 ? 0 : 1;
}
