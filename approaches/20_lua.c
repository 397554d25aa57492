// Redis runs a whole script as one step, so check and update need no lock.
#include "worker.h"

static enum outcome buy(struct worker *worker, const char *user)
{
    const char *argv[] = {"stock"};
    (void)user;
    if (!redis_script(worker, 0, &sk_approach_scripts[APPROACH_SCRIPT_BUY_ONE], 1, 1, argv))
        return BROKEN;
    return worker->reply->integer == 1 ? BOUGHT : SOLD_OUT;
}

const struct approach approach_lua = {
    .number = 20,
    .title = "Lua, one buyer a call",
    .source = "B",
    .claim = "right: a script is one step",
    .guards = A_STOCK,
    .predicted = 0,
    .buy = buy,
};
