// A Redis List: LPUSH in the script, BRPOP in the consumer. It survives the service's processes, but BRPOP removes the
// order before the row exists. It has no bound.
#include <stdio.h>

#include "queue.h"

static enum outcome buy(struct worker *worker, const char *user)
{
    return queue_grant(worker, &sk_approach_scripts[APPROACH_SCRIPT_GRANT_LIST], user);
}

static bool take(struct worker *worker, char user[QUEUE_USER_SIZE])
{
    (void)redis_number(worker, "BRPOP orders 0.02");
    const redisReply *reply = worker->reply;
    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        return false;
    (void)snprintf(user, QUEUE_USER_SIZE, "%s", reply->element[1]->str);
    return true;
}

const struct queue_way queue_list = {
    .number = 40,
    .title = "a Redis List: LPUSH, BRPOP",
    .source = "the course",
    .claim = "persistent; one consumer, no confirmation",
    .predicted = LOST_WITH_CONSUMER | GROWS_WHEN_FULL | LOST_WHEN_EMPTY,
    .buy = buy,
    .take = take,
};
