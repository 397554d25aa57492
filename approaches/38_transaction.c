// The same two statements in one transaction: if the process dies in between, nothing has changed.
#include "worker.h"

static enum outcome end(struct worker *worker, enum outcome outcome)
{
    bool ended = sql(worker, outcome == BOUGHT ? APPROACH_SQL_COMMIT : APPROACH_SQL_ROLLBACK, 0, NULL) != NONE;
    return ended ? outcome : BROKEN;
}

static enum outcome buy(struct worker *worker, const char *user)
{
    const char *params[] = {user};
    if (sql(worker, APPROACH_SQL_BEGIN, 0, NULL) == NONE)
        return BROKEN;
    long long rows = sql(worker, APPROACH_SQL_TAKE_IF_LEFT, 0, NULL);
    if (rows != 1)
        return end(worker, rows == NONE ? BROKEN : SOLD_OUT);
    at(worker, "between");
    return end(worker, sql(worker, APPROACH_SQL_INSERT_ORDER, 1, params) == 1 ? BOUGHT : BROKEN);
}

const struct approach approach_transaction = {
    .number = 38,
    .title = "17, then the order, in one transaction",
    .source = "E",
    .claim = "right",
    .guards = A_SALE,
    .predicted = 0,
    .buy = buy,
};
