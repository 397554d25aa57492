// lockInterruptibly() as article C prints it: it calls lock() once, and does not look at the answer. It returns with
// the lock or without it. Only who has it releases it.
#include "worker.h"

static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    bool taken = redis_number(worker, "SETNX lock %lld", (long long)wall_ms(worker) + TTL_MS) == 1;
    worker->kept[0] = taken ? 'x' : '\0';
    return true;
}

static void unlock(struct worker *worker, const char *user)
{
    (void)user;
    if (worker->kept[0] != '\0')
        (void)redis_number(worker, "DEL lock");
}

const struct approach approach_lock_ignored = {
    .number = 53,
    .title = "a lock whose answer is ignored, as printed",
    .source = "C",
    .claim = "waits until it has the lock",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted =
        LOSES_UPDATES | OVERSELLS | TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER,
    .lock = lock,
    .unlock = unlock,
};
