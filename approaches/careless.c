#include "careless.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum outcome take_from_redis(struct worker *worker)
{
    long long stock = redis_number(worker, "GET stock");
    at(worker, "read");
    if (stock == NONE)
        return BROKEN;
    if (stock <= 0)
        return SOLD_OUT;
    (void)redis_number(worker, "SET stock %lld", stock - 1);
    return broken(worker) ? BROKEN : BOUGHT;
}

static enum outcome take_from_sql(struct worker *worker)
{
    char less[24];
    const char *params[] = {less};
    const char *text = sql(worker, APPROACH_SQL_READ_STOCK, 0, NULL) == 1 ? sql_text(worker) : NULL;
    if (text == NULL)
        return BROKEN;
    long long stock = strtoll(text, NULL, 10);
    at(worker, "read");
    if (stock <= 0)
        return SOLD_OUT;
    (void)snprintf(less, sizeof less, "%lld", stock - 1);
    return sql(worker, APPROACH_SQL_WRITE_STOCK, 1, params) == 1 ? BOUGHT : BROKEN;
}

static enum outcome order_once(struct worker *worker, const char *user)
{
    const char *params[] = {user};
    const char *count = sql(worker, APPROACH_SQL_COUNT_ORDERS, 1, params) == 1 ? sql_text(worker) : NULL;
    if (count == NULL)
        return BROKEN;
    bool has_one = strcmp(count, "0") != 0;
    at(worker, "read");
    if (has_one)
        return ALREADY;
    return sql(worker, APPROACH_SQL_INSERT_ORDER, 1, params) == 1 ? BOUGHT : BROKEN;
}

enum outcome buy_carelessly(struct worker *worker, const char *user)
{
    if (worker->approach->guards == A_STOCK)
        return take_from_redis(worker);
    return worker->approach->guards == A_STOCK_IN_SQL ? take_from_sql(worker) : order_once(worker, user);
}
