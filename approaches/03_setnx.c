// The first lock in Redis. It works while all owners live. An owner that dies while it holds the lock leaves the key
// there permanently.
#include "worker.h"

static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    while (redis_number(worker, "SETNX lock held") != 1) {
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

const struct approach approach_setnx = {
    .number = 3,
    .title = "SETNX, DEL",
    .source = "A, B case 3",
    .claim = "dead-locks when the holder dies",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted = STUCK | FORGETS | FORGETS_IN_FAILOVER | WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
