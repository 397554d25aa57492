// A Stream with a consumer group: XADD in the script, XREADGROUP and XACK in the consumer. Entries that were delivered
// and not confirmed are read again after a restart. It has no bound. When Redis restarts empty, nothing else has its
// contents.
#include <stdio.h>
#include <string.h>

#include "queue.h"

static enum outcome buy(struct worker *worker, const char *user)
{
    return queue_grant(worker, &sk_approach_scripts[APPROACH_SCRIPT_GRANT_STREAM], user);
}

// worker->kept: the id of the order being written. worker->state: NULL at first, while pending entries are read again.
static bool take(struct worker *worker, char user[QUEUE_USER_SIZE])
{
    bool again = worker->state == NULL;
    if (again)
        (void)redis_number(worker, "XGROUP CREATE orders writers 0 MKSTREAM"); // BUSYGROUP: it exists
    worker->is_broken = false;
    (void)redis_number(worker, "XREADGROUP GROUP writers one COUNT 1 BLOCK 20 STREAMS orders %s", again ? "0" : ">");
    const redisReply *reply = worker->reply;
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) { // NOGROUP: Redis restarted empty
        worker->state = NULL;
        return false;
    }
    const redisReply *entries =
        reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ? NULL : reply->element[0]->element[1];
    if (entries == NULL || entries->elements == 0) {
        worker->state = worker; // nothing is pending any more
        return false;
    }
    (void)snprintf(worker->kept, TOKEN_SIZE, "%s", entries->element[0]->element[0]->str);
    (void)snprintf(user, QUEUE_USER_SIZE, "%s", entries->element[0]->element[1]->element[1]->str);
    return true;
}

static void written(struct worker *worker)
{
    (void)redis_number(worker, "XACK orders writers %s", worker->kept);
}

const struct queue_way queue_stream = {
    .number = 42,
    .title = "a Stream and a consumer group",
    .source = "the course",
    .claim = "persistent, confirmed, read again",
    .predicted = GROWS_WHEN_FULL | LOST_WHEN_EMPTY,
    .buy = buy,
    .take = take,
    .written = written,
};
