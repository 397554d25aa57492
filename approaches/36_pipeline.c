// GET and DECR in one pipeline: one round trip, so it looks like one step. It is not: Redis executes what has arrived,
// and serves other clients until the rest arrives. A long pipeline arrives in parts; this one is sent in two.
#include <stdlib.h>

#include "worker.h"

static bool send_now(redisContext *redis)
{
    int done = 0;
    while (!done) {
        if (redisBufferWrite(redis, &done) != REDIS_OK)
            return false;
    }
    return true;
}

static long long next_answer(redisContext *redis)
{
    redisReply *reply = NULL;
    long long number = NONE;
    if (redisGetReply(redis, (void **)&reply) != REDIS_OK)
        return NONE;
    if (reply->type == REDIS_REPLY_STRING)
        number = strtoll(reply->str, NULL, 10);
    else if (reply->type == REDIS_REPLY_INTEGER)
        number = reply->integer;
    freeReplyObject(reply);
    return number;
}

static enum outcome buy(struct worker *worker, const char *user)
{
    (void)user;
    if (redis_number(worker, "PING") == NONE && broken(worker)) // connects
        return BROKEN;
    redisContext *redis = worker->redis[0];
    bool sent = redisAppendCommand(redis, "GET stock") == REDIS_OK && send_now(redis);
    at(worker, "read");
    sent = sent && redisAppendCommand(redis, "DECR stock") == REDIS_OK && send_now(redis);
    long long stock = sent ? next_answer(redis) : NONE;
    if (stock == NONE || next_answer(redis) == NONE)
        return BROKEN;
    return stock > 0 ? BOUGHT : SOLD_OUT;
}

const struct approach approach_pipeline = {
    .number = 36,
    .title = "GET and DECR in one pipeline",
    .source = "B",
    .claim = "a pipeline is not atomic",
    .guards = A_STOCK,
    .predicted = OVERSELLS,
    .buy = buy,
};
