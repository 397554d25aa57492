// Lua as a replacement for transactions. A script runs alone, but an error in the middle undoes nothing: this one takes
// the unit, and then fails because the quantity is no number. So a bad request takes a unit out of the sale.
#include <stdlib.h>

#include "worker.h"

enum { BAD = 10 }; // one request in so many

static enum outcome buy(struct worker *worker, const char *user)
{
    const char *argv[] = {"stock", "sold", rand_r(&worker->dice) % BAD == 0 ? "one" : "1"};
    (void)user;
    if (!redis_script(worker, 0, &sk_approach_scripts[APPROACH_SCRIPT_BUY_THEN_FAIL], 2, 3, argv))
        return BROKEN;
    return worker->reply->integer == 1 ? BOUGHT : SOLD_OUT;
}

const struct approach approach_lua_error = {
    .number = 52,
    .title = "20, a script that fails after its first write",
    .source = "B",
    .claim = "Lua replaces transactions",
    .guards = A_STOCK,
    .predicted = LOSES_A_UNIT,
    .buy = buy,
};
