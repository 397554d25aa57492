// Checking and deleting are one step, so no client releases another's lock. No release can solve this: an owner that is
// slower than its TTL is no longer alone, and does not notice.
#include "worker.h"

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
    const char *argv[] = {"lock", worker->token};
    (void)redis_script(worker, 0, &sk_approach_scripts[APPROACH_SCRIPT_LOCK_RELEASE], 1, 2, argv);
}

const struct approach approach_owner_lua = {
    .number = 7,
    .title = "owner; compare and delete in Lua",
    .source = "B, E",
    .claim = "right",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted = TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER | WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
