// 7, and a thread that gives the lock a new TTL while its owner works (看门狗, a watchdog). Slow work is safe now. A
// process that is paused also pauses the thread.
#include <stdlib.h>

#include "watchdog.h"

// A worker gets its watchdog when it locks for the first time.
static struct watchdog *watchdog_of(struct worker *worker)
{
    if (worker->state == NULL)
        worker->state = calloc(1, sizeof(struct watchdog));
    struct watchdog *watchdog = worker->state;
    if (watchdog == NULL || watchdog->renew != NULL)
        return watchdog;
    return watchdog_start(watchdog, worker, &sk_approach_scripts[APPROACH_SCRIPT_LOCK_RENEW]) ? watchdog : NULL;
}

static bool lock(struct worker *worker, const char *user)
{
    struct watchdog *watchdog = watchdog_of(worker);
    (void)user;
    if (watchdog == NULL)
        return false;
    while (redis_number(worker, "SET lock %s NX PX %d", worker->token, TTL_MS) != 1) {
        if (!wait_ms(worker, 3))
            return false;
    }
    atomic_store(&watchdog->held, true);
    return true;
}

static void unlock(struct worker *worker, const char *user)
{
    const char *argv[] = {"lock", worker->token};
    (void)user;
    atomic_store(&((struct watchdog *)worker->state)->held, false);
    (void)redis_script(worker, 0, &sk_approach_scripts[APPROACH_SCRIPT_LOCK_RELEASE], 1, 2, argv);
}

const struct approach approach_renewed = {
    .number = 51,
    .title = "7, renewed while its owner works",
    .source = "B",
    .claim = "slow work is safe",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted = TWO_WHEN_PAUSED | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER | WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
