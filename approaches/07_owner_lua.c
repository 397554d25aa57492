// Looking and deleting are one step, so no client releases another's lock. What no release can mend: an owner that is
// slower than its TTL is not alone any more, and does not know.
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
    .predicted = TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER,
    .lock = lock,
    .unlock = unlock,
};
