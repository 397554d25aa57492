// Approach 7 with the thread's number as its owner, as the course first prints it. Each process counts its threads from
// one, so two owners in two processes have the same name. Compare and delete then finds its own name in the other's
// lock.
#include "worker.h"

#include <stdio.h>

static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    while (redis_number(worker, "SET lock thread-%d NX PX %d", worker->thread, TTL_MS) != 1) {
        if (!wait_ms(worker, 3))
            return false;
    }
    return true;
}

static void unlock(struct worker *worker, const char *user)
{
    char owner[24];
    const char *argv[] = {"lock", owner};
    (void)user;
    (void)snprintf(owner, sizeof owner, "thread-%d", worker->thread);
    (void)redis_script(worker, 0, &sk_approach_scripts[APPROACH_SCRIPT_LOCK_RELEASE], 1, 2, argv);
}

const struct approach approach_thread_id = {
    .number = 34,
    .title = "7, its owner named by the thread's number",
    .source = "with E's owner",
    .claim = "wrong: another server has the same number",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted = TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FREES_ANOTHERS | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER |
                 WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
