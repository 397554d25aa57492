// The value names the owner, and only the owner deletes. But the TTL may run out between the check and the DEL: the
// same failure in a smaller window.
#include "worker.h"

#include <string.h>

static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    while (redis_number(worker, "SET lock %s NX PX %d", worker->token, TTL_MS) != 1) {
        if (!wait_ms(worker, 3))
            return false;
    }
    return true;
}

static void unlock(struct worker *worker, const char *user)
{
    (void)user;
    const char *owner = redis_text(worker, "GET lock");
    bool mine = owner != NULL && strcmp(owner, worker->token) == 0;
    at(worker, "checked");
    if (mine)
        (void)redis_number(worker, "DEL lock");
}

const struct approach approach_owner_get_del = {
    .number = 6,
    .title = "owner; GET, then DEL",
    .source = "B case 6, E",
    .claim = "not atomic: may delete another's lock after the GET",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted = TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FREES_ANOTHERS | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER |
                 WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
