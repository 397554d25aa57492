// The database rejects the second order, from any process and after any failure. Every attempt costs a statement.
#include "worker.h"

static enum outcome buy(struct worker *worker, const char *user)
{
    const char *params[] = {user};
    long long rows = sql(worker, APPROACH_SQL_INSERT_ORDER_ONCE, 1, params);
    if (rows == NONE)
        return BROKEN;
    return rows == 1 ? BOUGHT : ALREADY;
}

const struct approach approach_unique_index = {
    .number = 27,
    .title = "a unique index",
    .source = "E",
    .claim = "right, also in a cluster",
    .guards = A_USER,
    .predicted = 0,
    .buy = buy,
};
