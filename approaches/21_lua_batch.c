// The service's own script: many buyers in one call, since the call is the cost. It takes the units, records the users
// and writes the journal entry of all of them in one step.
#include <stdio.h>
#include <string.h>

#include "service.h"

enum { BUYERS = 64, FIXED = SERVICE_ARGS_COUNT };

static enum outcome buy(struct worker *worker, const char *user)
{
    const char *argv[FIXED + 2 * BUYERS] = {SERVICE_ARGS("1000000", worker->kept)};
    char users[BUYERS][TOKEN_SIZE];
    if (worker->kept[0] == '\0' && !service_run(worker, worker->kept))
        return BROKEN;
    for (int i = 0; i < BUYERS; i++) {
        (void)snprintf(users[i], sizeof users[i], "%.30s-%d", user, i);
        argv[FIXED + 2 * i] = users[i];
        argv[FIXED + 2 * i + 1] = "018bcfe5-6800-7000-8000-000000000000";
    }
    if (!redis_script(worker, 0, &sk_scripts[SK_SCRIPT_PLACE_ORDERS], 5, FIXED + 2 * BUYERS, argv) ||
        worker->reply->elements < 7)
        return BROKEN;
    const char *letters = worker->reply->element[6]->str;
    long bought = (long)strspn(letters, "p");
    if (bought > 1)
        atomic_fetch_add(&worker->shared->sold, bought - 1); // the caller counts the first one
    return bought > 0 ? BOUGHT : SOLD_OUT;
}

const struct approach approach_lua_batch = {
    .number = 21,
    .title = "Lua, many buyers a call (the service's script)",
    .source = "the service",
    .claim = "right, and the call is shared",
    .guards = A_STOCK,
    .predicted = 0,
    .buy = buy,
    .prepare = service_prepare,
    .left = service_left,
};
