// Compare and set (乐观锁, CAS): writes only if the stock is still the value read. Of all buyers who read the same
// number one succeeds; the others start again.
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>

static enum outcome buy(struct worker *worker, const char *user)
{
    char seen[24];
    const char *params[] = {seen};
    (void)user;
    do {
        long long rows = sql(worker, APPROACH_SQL_READ_STOCK, 0, NULL);
        if (rows == NONE)
            return BROKEN;
        if (strtoll(sql_text(worker), NULL, 10) <= 0)
            return SOLD_OUT;
        (void)snprintf(seen, sizeof seen, "%s", sql_text(worker));
        at(worker, "read");
        if (sql(worker, APPROACH_SQL_TAKE_IF_STILL, 1, params) == 1)
            return BOUGHT;
    } while (wait_ms(worker, 0));
    return broken(worker) ? BROKEN : GAVE_UP;
}

const struct approach approach_sql_compare_and_set = {
    .number = 15,
    .title = "UPDATE ... WHERE stock = what was read",
    .source = "A, E",
    .claim = "right; many fail under load",
    .guards = A_STOCK_IN_SQL,
    .predicted = 0,
    .buy = buy,
};
