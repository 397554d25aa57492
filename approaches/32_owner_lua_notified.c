// Approach 7 with one change: a client that must wait listens on a channel until the lock is released, instead of
// polling every 3 ms. It measures the value of notification alone.
#include <poll.h>

#include "worker.h"

enum { LISTEN_MS = 100 };

static redisContext *channel_of(struct worker *worker)
{
    if (worker->state == NULL) {
        worker->state = redisConnectUnix(worker->place->sockets[0]);
        freeReplyObject(redisCommand(worker->state, "SUBSCRIBE freed"));
    }
    return worker->state;
}

static void listen_for(redisContext *channel)
{
    struct pollfd wait = {.fd = channel->fd, .events = POLLIN};
    void *message = NULL;
    if (poll(&wait, 1, LISTEN_MS) <= 0 || redisBufferRead(channel) != REDIS_OK)
        return;
    while (redisGetReplyFromReader(channel, &message) == REDIS_OK && message != NULL)
        freeReplyObject(message);
}

static bool lock(struct worker *worker, const char *user)
{
    redisContext *channel = channel_of(worker);
    (void)user;
    while (redis_number(worker, "SET lock %s NX PX %d", worker->token, TTL_MS) != 1) {
        if (!wait_ms(worker, 0))
            return false;
        listen_for(channel);
    }
    return true;
}

static void unlock(struct worker *worker, const char *user)
{
    const char *argv[] = {"lock", worker->token};
    (void)user;
    if (redis_script(worker, 0, &sk_approach_scripts[APPROACH_SCRIPT_LOCK_RELEASE], 1, 2, argv))
        (void)redis_number(worker, "PUBLISH freed lock");
}

const struct approach approach_owner_lua_notified = {
    .number = 32,
    .title = "7, waiting by notification",
    .source = "-",
    .claim = "spares Redis the asking",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted = TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER | WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
