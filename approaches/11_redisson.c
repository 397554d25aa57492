// A lock as Redisson builds it. A hash holds the owner and its count (re-entrant). A client that must wait gets the
// remaining time, and listens on a channel instead of polling. A watchdog renews the TTL while the process lives, so
// slow work is no longer a danger. A paused process pauses its watchdog too: that danger stays.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "watchdog.h"

struct holder {
    struct watchdog watchdog;
    redisContext *channel;
};

// A worker gets its watchdog and its channel when it locks for the first time.
static struct holder *holder_of(struct worker *worker)
{
    struct holder *holder = worker->state;
    if (holder != NULL)
        return holder;
    holder = calloc(1, sizeof *holder);
    if (holder == NULL)
        return NULL;
    holder->channel = redisConnectUnix(worker->place->sockets[0]);
    freeReplyObject(redisCommand(holder->channel, "SUBSCRIBE freed"));
    if (!watchdog_start(&holder->watchdog, worker, &sk_approach_scripts[APPROACH_SCRIPT_HASH_RENEW])) {
        redisFree(holder->channel);
        free(holder);
        return NULL;
    }
    worker->state = holder;
    return holder;
}

// Waits for a release message, at most `ms`.
static void listen_for(redisContext *channel, long long ms)
{
    struct pollfd wait = {.fd = channel->fd, .events = POLLIN};
    void *message = NULL;
    if (poll(&wait, 1, (int)ms) <= 0 || redisBufferRead(channel) != REDIS_OK)
        return;
    while (redisGetReplyFromReader(channel, &message) == REDIS_OK && message != NULL)
        freeReplyObject(message);
}

static bool lock(struct worker *worker, const char *user)
{
    struct holder *holder = holder_of(worker);
    char ttl[12];
    const char *argv[] = {"lock", ttl, worker->token};
    (void)user;
    (void)snprintf(ttl, sizeof ttl, "%d", TTL_MS);
    while (holder != NULL && redis_script(worker, 0, &sk_approach_scripts[APPROACH_SCRIPT_HASH_LOCK], 1, 3, argv)) {
        long long left_ms = worker->reply->integer;
        if (left_ms == -1) {
            atomic_store(&holder->watchdog.held, true);
            return true;
        }
        if (!wait_ms(worker, 0))
            return false;
        listen_for(holder->channel, left_ms < 0 || left_ms > 100 ? 100 : left_ms);
    }
    return false;
}

static void unlock(struct worker *worker, const char *user)
{
    const char *argv[] = {"lock", "freed", worker->token};
    (void)user;
    atomic_store(&((struct holder *)worker->state)->watchdog.held, false);
    (void)redis_script(worker, 0, &sk_approach_scripts[APPROACH_SCRIPT_HASH_UNLOCK], 2, 3, argv);
}

const struct approach approach_redisson = {
    .number = 11,
    .title = "hash lock, watchdog, pub/sub (Redisson)",
    .source = "B case 7, E",
    .claim = "solves renewal, re-entrancy and waiting",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted = TWO_WHEN_PAUSED | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER,
    .lock = lock,
    .unlock = unlock,
};
