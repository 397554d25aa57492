// One command sets key and TTL. But an owner that takes longer than the TTL loses the lock without noticing. Its DEL
// then releases the next owner's lock, and from then on the lock excludes no one.
#include "worker.h"

static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    while (redis_number(worker, "SET lock held NX PX %d", TTL_MS) != 1) {
        if (!wait_ms(worker, 3))
            return false;
    }
    return true;
}

static void unlock(struct worker *worker, const char *user)
{
    (void)user;
    (void)redis_number(worker, "DEL lock");
}

const struct approach approach_set_nx_ex = {
    .number = 5,
    .title = "SET NX PX, DEL",
    .source = "B case 5, E",
    .claim = "holders delete each other's locks",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted = TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FREES_ANOTHERS | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER |
                 WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
