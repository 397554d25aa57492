// A TTL, so that a dead owner's lock expires. But a second command sets it: an owner that dies before that command
// holds the lock permanently.
#include "worker.h"

static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    while (redis_number(worker, "SETNX lock held") != 1) {
        if (!wait_ms(worker, 3))
            return false;
    }
    at(worker, "between");
    (void)redis_number(worker, "PEXPIRE lock %d", TTL_MS);
    return true;
}

static void unlock(struct worker *worker, const char *user)
{
    (void)user;
    (void)redis_number(worker, "DEL lock");
}

const struct approach approach_setnx_expire = {
    .number = 4,
    .title = "SETNX, then EXPIRE",
    .source = "B case 4, E",
    .claim = "not atomic: may die between the two",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted = STUCK_BETWEEN | TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FREES_ANOTHERS | FORGETS | TRUSTS_CLOCKS |
                 FORGETS_IN_FAILOVER | WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
