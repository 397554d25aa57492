// No protection at all. Between the GET and the SET another buyer may do the same. Both write the same number, and two
// buyers have taken one unit.
#include "careless.h"

static enum outcome buy(struct worker *worker, const char *user)
{
    return buy_carelessly(worker, user);
}

const struct approach approach_no_lock = {
    .number = 1,
    .title = "GET, look, SET",
    .source = "A, B case 1, D",
    .claim = "broken: concurrent requests read the same stock",
    .guards = A_STOCK,
    .predicted = LOSES_UPDATES | OVERSELLS,
    .buy = buy,
};
