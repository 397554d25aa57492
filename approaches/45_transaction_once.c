// 17 and 27 in one transaction, which is rolled back if the order is the user's second one. This is the whole of a
// purchase in PostgreSQL alone. The row of the stock is locked until COMMIT, so purchases queue for it.
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
    rows = sql(worker, APPROACH_SQL_INSERT_ORDER_ONCE, 1, params);
    return end(worker, rows == 1 ? BOUGHT : rows == 0 ? ALREADY : BROKEN);
}

const struct approach approach_transaction_once = {
    .number = 45,
    .title = "17 and 27 in one transaction",
    .source = "E",
    .claim = "right",
    .guards = A_SALE_ONCE,
    .predicted = 0,
    .buy = buy,
};
