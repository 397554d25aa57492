// 17, then 27, each with its own commit. The stock is taken before the user's second order is rejected, and nothing
// gives it back: every second click takes a unit out of the sale, though nothing has failed.
#include "worker.h"

static enum outcome buy(struct worker *worker, const char *user)
{
    const char *params[] = {user};
    long long rows = sql(worker, APPROACH_SQL_TAKE_IF_LEFT, 0, NULL);
    if (rows != 1)
        return rows == NONE ? BROKEN : SOLD_OUT;
    at(worker, "between");
    rows = sql(worker, APPROACH_SQL_INSERT_ORDER_ONCE, 1, params);
    return rows == 1 ? BOUGHT : rows == 0 ? ALREADY : BROKEN;
}

const struct approach approach_no_transaction_once = {
    .number = 46,
    .title = "17, then 27, without a transaction",
    .source = "E",
    .claim = "the unique index is enough",
    .guards = A_SALE_ONCE,
    .predicted = LOSES_A_UNIT,
    .buy = buy,
};
