// 4 as article B prints it: EXPIRE stands before the test of SETNX's answer, so every loser gives the owner's lock a
// new TTL, and leaves. As long as others ask, a dead owner's lock never expires; and a slow or paused owner is
// protected by those whom it keeps out.
#include "worker.h"

static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    bool taken = redis_number(worker, "SETNX lock held") == 1;
    at(worker, "between");
    (void)redis_number(worker, "PEXPIRE lock %d", TTL_MS);
    return taken;
}

static void unlock(struct worker *worker, const char *user)
{
    (void)user;
    (void)redis_number(worker, "DEL lock");
}

const struct approach approach_expire_printed = {
    .number = 47,
    .title = "4 as it is printed: losers renew, and leave",
    .source = "B case 4",
    .claim = "not atomic: may die between the two",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted = STUCK | STUCK_BETWEEN | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER | TURNS_AWAY | WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
