// 7, but who finds the lock taken does not wait ("系统繁忙，请稍后重试"). That is right for a second click of the same
// user. For a stock it turns buyers away while there are units: a buyer who asks again at the right moment wins.
#include "worker.h"

static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    return redis_number(worker, "SET lock %s NX PX %d", worker->token, TTL_MS) == 1;
}

static void unlock(struct worker *worker, const char *user)
{
    (void)user;
    const char *argv[] = {"lock", worker->token};
    (void)redis_script(worker, 0, &sk_approach_scripts[APPROACH_SCRIPT_LOCK_RELEASE], 1, 2, argv);
}

const struct approach approach_tried_once = {
    .number = 50,
    .title = "7, tried once: \"busy, try again\"",
    .source = "B, C, E",
    .claim = "right",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted =
        TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER | TURNS_AWAY | WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
