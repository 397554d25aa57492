// One order per user (一人一单), the obvious way: check whether there is an order, and if not, insert one. Two requests
// of one user both find none.
#include "careless.h"

static enum outcome buy(struct worker *worker, const char *user)
{
    return buy_carelessly(worker, user);
}

const struct approach approach_count_then_insert = {
    .number = 23,
    .title = "count, then insert",
    .source = "E",
    .claim = "broken: both count 0",
    .guards = A_USER,
    .predicted = BUYS_TWICE,
    .buy = buy,
};
