// The service's way: Lua decides and records its grant (28 with a journal), the lock saves duplicate work (26), and the
// unique index decides last (27). Any process that finds a grant without an order settles it, so no purchase stays in
// Redis only.
#include <stdio.h>
#include <string.h>

#include "service.h"

static bool insert(struct worker *worker, const char *user, long long *rows)
{
    const char *params[] = {user};
    *rows = sql(worker, APPROACH_SQL_BEGIN, 0, NULL) == NONE ? NONE
                                                             : sql(worker, APPROACH_SQL_INSERT_ORDER_ONCE, 1, params);
    return *rows != NONE && sql(worker, APPROACH_SQL_COMMIT, 0, NULL) != NONE;
}

static enum outcome place(struct worker *worker, const char *user, const char *journal_id)
{
    char key[TOKEN_SIZE + 8];
    const char *argv[] = {key, worker->token};
    long long rows;
    (void)snprintf(key, sizeof key, "lock:%.40s", user);
    (void)redis_number(worker, "SET %s %s NX PX %d", key, worker->token, TTL_MS); // taken or not: it only saves work
    if (!insert(worker, user, &rows))
        return BROKEN;
    (void)redis_script(worker, 0, &sk_approach_scripts[APPROACH_SCRIPT_LOCK_RELEASE], 1, 2, argv);
    (void)redis_number(worker, "XDEL seckill:{1}:journal %s", journal_id);
    return rows == 1 ? BOUGHT : ALREADY;
}

// Entries are { id, { 'epoch', epoch, 'orders', 'order user', 'session', id } }.
static void settle_what_is_left(struct worker *worker)
{
    char id[TOKEN_SIZE], user[TOKEN_SIZE];
    (void)redis_number(worker, "XRANGE seckill:{1}:journal - + COUNT 1");
    if (worker->reply == NULL || worker->reply->type != REDIS_REPLY_ARRAY || worker->reply->elements == 0)
        return;
    const redisReply *entry = worker->reply->element[0];
    (void)snprintf(id, sizeof id, "%s", entry->element[0]->str);
    const char *orders = entry->element[1]->element[3]->str, *space = strchr(orders, ' ');
    (void)snprintf(user, sizeof user, "%s", space == NULL ? "" : space + 1);
    (void)place(worker, user, id);
}

static enum outcome buy(struct worker *worker, const char *user)
{
    const char *argv[] = {SERVICE_ARGS("1000000", worker->kept), user, "018bcfe5-6800-7000-8000-000000000000"};
    char journal_id[TOKEN_SIZE];
    if ((worker->kept[0] == '\0' && !service_run(worker, worker->kept)) ||
        !redis_script(worker, 0, &sk_scripts[SK_SCRIPT_PLACE_ORDERS], 5, SERVICE_ARGS_COUNT + 2, argv) ||
        worker->reply->elements < 7)
        return BROKEN;
    (void)snprintf(journal_id, sizeof journal_id, "%s", worker->reply->element[5]->str);
    switch (worker->reply->element[6]->str[0]) {
    case 'p':
        at(worker, "read");
        return place(worker, user, journal_id);
    case 'a':
        settle_what_is_left(worker);
        return ALREADY;
    default:
        return SOLD_OUT;
    }
}

const struct approach approach_service = {
    .number = 29,
    .title = "the service's way: 28, 26 and 27, with a journal",
    .source = "the service",
    .claim = "right, whatever breaks",
    .guards = A_USER,
    .lives = IN_REDIS,
    .predicted = 0,
    .buy = buy,
    .prepare = service_prepare,
    .left = service_left,
};
