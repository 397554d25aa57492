// Stock and order in two statements, each with its own commit. In the course, self-invocation does this to
// @Transactional: the call bypasses the proxy, so no transaction begins. A process that dies in between has taken a
// unit without an order.
#include "worker.h"

static enum outcome buy(struct worker *worker, const char *user)
{
    const char *params[] = {user};
    long long rows = sql(worker, APPROACH_SQL_TAKE_IF_LEFT, 0, NULL);
    if (rows != 1)
        return rows == NONE ? BROKEN : SOLD_OUT;
    at(worker, "between");
    return sql(worker, APPROACH_SQL_INSERT_ORDER, 1, params) == 1 ? BOUGHT : BROKEN;
}

const struct approach approach_no_transaction = {
    .number = 37,
    .title = "17, then the order, without a transaction",
    .source = "E",
    .claim = "self-invocation loses @Transactional",
    .guards = A_SALE,
    .predicted = LOSES_A_UNIT,
    .buy = buy,
};
