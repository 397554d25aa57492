// Pub/Sub: PUBLISH in the script. A consumer that does not listen at that moment never receives the order. Redis
// disconnects a listener that is too slow (client-output-buffer-limit).
#include <poll.h>
#include <stdio.h>

#include "queue.h"

static enum outcome buy(struct worker *worker, const char *user)
{
    return queue_grant(worker, &sk_approach_scripts[APPROACH_SCRIPT_GRANT_PUBLISH], user);
}

static redisContext *listen_to(struct worker *worker)
{
    redisContext *redis = redisConnectUnix(worker->place->sockets[0]);
    if (redis != NULL && redis->err == 0) {
        freeReplyObject(redisCommand(redis, "SUBSCRIBE orders"));
        return redis;
    }
    if (redis != NULL)
        redisFree(redis);
    return NULL;
}

static bool take(struct worker *worker, char user[QUEUE_USER_SIZE])
{
    redisContext *redis = worker->state != NULL ? worker->state : (worker->state = listen_to(worker));
    redisReply *reply = NULL;
    struct pollfd readable = {.fd = redis == NULL ? -1 : redis->fd, .events = POLLIN};
    if (redis == NULL || redisGetReplyFromReader(redis, (void **)&reply) != REDIS_OK)
        return false;
    if (reply == NULL && poll(&readable, 1, 20) > 0 && redisGetReply(redis, (void **)&reply) != REDIS_OK) {
        redisFree(redis); // Redis restarted, or this consumer was too slow
        worker->state = NULL;
    }
    bool has = reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 3;
    if (has)
        (void)snprintf(user, QUEUE_USER_SIZE, "%s", reply->element[2]->str);
    freeReplyObject(reply);
    return has;
}

// 64 KB instead of Redis's 32 MB, so that the test need not send as much.
static bool prepare(struct worker *worker, long units)
{
    (void)units;
    return redis_number(worker, "CONFIG SET client-output-buffer-limit %s", "pubsub 65536 0 0") == 1;
}

const struct queue_way queue_publish = {
    .number = 41,
    .title = "Pub/Sub: PUBLISH, SUBSCRIBE",
    .source = "the course",
    .claim = "not persistent; loses what nobody hears",
    .predicted = LOST_WITH_CONSUMER | LOST_WHEN_FULL | LOST_ON_RESTART | LOST_WHEN_EMPTY,
    .buy = buy,
    .take = take,
    .prepare = prepare,
};
