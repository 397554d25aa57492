// Redis records who has bought; the row is written afterwards. If the process dies in between, the purchase is in Redis
// only. A Redis that lost its data sells again.
#include "worker.h"

static enum outcome buy(struct worker *worker, const char *user)
{
    const char *argv[] = {"buyers", user}, *params[] = {user};
    if (!redis_script(worker, 0, &sk_approach_scripts[APPROACH_SCRIPT_BUY_FOR_USER], 1, 2, argv))
        return BROKEN;
    if (worker->reply->integer == 0)
        return ALREADY;
    at(worker, "read");
    return sql(worker, APPROACH_SQL_INSERT_ORDER, 1, params) == 1 ? BOUGHT : BROKEN;
}

const struct approach approach_lua_set = {
    .number = 28,
    .title = "a set of buyers in Lua",
    .source = "the course",
    .claim = "right, and fast",
    .guards = A_USER,
    .predicted = STUCK | FORGETS,
    .buy = buy,
};
