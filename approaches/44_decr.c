// The usual answer (预扣库存): take a unit with DECR, and give it back with INCR if there was none. DECR is atomic, so
// it never oversells. But the stock goes below 0 for a moment, and the order follows in another step: a process that
// dies in between has taken a unit that no order has, or leaves the stock at -1, which swallows the next unit that
// returns.
#include "worker.h"

static long long left(struct worker *worker)
{
    return redis_number(worker, "GET stock");
}

static enum outcome buy(struct worker *worker, const char *user)
{
    const char *params[] = {user};
    long long stock = redis_number(worker, "DECR stock");
    if (stock == NONE)
        return BROKEN;
    if (stock < 0)
        return redis_number(worker, "INCR stock") == NONE ? BROKEN : SOLD_OUT;
    at(worker, "between");
    return sql(worker, APPROACH_SQL_INSERT_ORDER, 1, params) == 1 ? BOUGHT : BROKEN;
}

const struct approach approach_decr = {
    .number = 44,
    .title = "DECR, INCR if below 0; then the order",
    .source = "-",
    .claim = "right: DECR is atomic",
    .guards = A_SALE,
    .predicted = LOSES_A_UNIT,
    .buy = buy,
    .left = left,
};
