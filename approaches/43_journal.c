// The service's journal: the script records what it grants, and refuses when the journal is full. The buyer gets
// "accepted" first, and success when the row is committed. So no success depends on the data in Redis.
#include <stdio.h>
#include <string.h>

#include "service.h"

#include "queue.h"

static bool place(struct worker *worker, const char *user, const char *journal_id)
{
    const char *params[] = {user};
    if (sql(worker, APPROACH_SQL_INSERT_ORDER_ONCE, 1, params) == NONE)
        return false;
    (void)redis_number(worker, "XDEL seckill:{1}:journal %s", journal_id);
    return true;
}

static enum outcome buy(struct worker *worker, const char *user)
{
    char most[12], run[TOKEN_SIZE], journal_id[TOKEN_SIZE];
    const char *argv[] = {SERVICE_ARGS(most, run), user, "018bcfe5-6800-7000-8000-000000000000"};
    (void)snprintf(most, sizeof most, "%d", QUEUE_FULL);
    if (!service_run(worker, run) ||
        !redis_script(worker, 0, &sk_scripts[SK_SCRIPT_PLACE_ORDERS], 5, SERVICE_ARGS_COUNT + 2, argv) ||
        worker->reply->elements < 7 || worker->reply->element[6]->str[0] != 'p')
        return GAVE_UP;
    (void)snprintf(journal_id, sizeof journal_id, "%s", worker->reply->element[5]->str);
    if (atomic_load(&worker->shared->held)) // the rows wait: accepted, not successful
        return GAVE_UP;
    at(worker, "taken");
    return place(worker, user, journal_id) ? BOUGHT : GAVE_UP;
}

// Takes an entry that another process has left. Entries are { id, { 'epoch', epoch, 'orders', 'order user', ... } }.
static bool take(struct worker *worker, char user[QUEUE_USER_SIZE])
{
    (void)redis_number(worker, "XRANGE seckill:{1}:journal - + COUNT 1");
    const redisReply *reply = worker->reply;
    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
        return false;
    const char *orders = reply->element[0]->element[1]->element[3]->str, *space = strchr(orders, ' ');
    (void)snprintf(worker->kept, TOKEN_SIZE, "%s", reply->element[0]->element[0]->str);
    (void)snprintf(user, QUEUE_USER_SIZE, "%s", space == NULL ? "" : space + 1);
    return true;
}

static void written(struct worker *worker)
{
    (void)redis_number(worker, "XDEL seckill:{1}:journal %s", worker->kept);
}

const struct queue_way queue_journal = {
    .number = 43,
    .title = "the service's journal; yes means committed",
    .source = "the service",
    .claim = "loses no order that a buyer was told of",
    .predicted = 0,
    .buy = buy,
    .take = take,
    .written = written,
    .prepare = service_prepare,
};
