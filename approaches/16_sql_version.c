// A version (版本号) instead of the stock itself: it also detects a stock that changed and changed back. As many buyers
// start again.
#include "worker.h"

#include <stdio.h>

static enum outcome buy(struct worker *worker, const char *user)
{
    char seen[24];
    const char *params[] = {seen};
    (void)user;
    do {
        long long rows = sql(worker, APPROACH_SQL_READ_VERSION, 0, NULL);
        if (rows == NONE)
            return BROKEN;
        if (rows == 0)
            return SOLD_OUT;
        (void)snprintf(seen, sizeof seen, "%s", sql_text(worker));
        at(worker, "read");
        if (sql(worker, APPROACH_SQL_TAKE_AT_VERSION, 1, params) == 1)
            return BOUGHT;
    } while (wait_ms(worker, 0));
    return broken(worker) ? BROKEN : GAVE_UP;
}

const struct approach approach_sql_version = {
    .number = 16,
    .title = "UPDATE ... WHERE version = what was read",
    .source = "E",
    .claim = "right; any change counts",
    .guards = A_STOCK_IN_SQL,
    .predicted = 0,
    .buy = buy,
};
