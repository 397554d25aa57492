// The condition checks only what matters, whether a unit is left. The row lock makes check and update one step. No
// buyer has to start again.
#include "worker.h"

static enum outcome buy(struct worker *worker, const char *user)
{
    (void)user;
    long long rows = sql(worker, APPROACH_SQL_TAKE_IF_LEFT, 0, NULL);
    if (rows == NONE)
        return BROKEN;
    return rows == 1 ? BOUGHT : SOLD_OUT;
}

const struct approach approach_sql_conditional = {
    .number = 17,
    .title = "UPDATE ... WHERE stock > 0",
    .source = "E",
    .claim = "right, without retries",
    .guards = A_STOCK_IN_SQL,
    .predicted = 0,
    .buy = buy,
};
