// The lock inside the transaction (@Transactional around the locked part). When it is released, the order is not
// committed yet, and the next request still counts none.
#include "worker.h"

#include <stdio.h>

static bool take(struct worker *worker, const char *user)
{
    while (redis_number(worker, "SET lock:%s %s NX PX %d", user, worker->token, TTL_MS) != 1) {
        if (!wait_ms(worker, 3))
            return false;
    }
    return true;
}

static void release(struct worker *worker, const char *user)
{
    char key[TOKEN_SIZE + 8];
    const char *argv[] = {key, worker->token};
    (void)snprintf(key, sizeof key, "lock:%.40s", user);
    (void)redis_script(worker, 0, &sk_approach_scripts[APPROACH_SCRIPT_LOCK_RELEASE], 1, 2, argv);
}

static bool lock(struct worker *worker, const char *user)
{
    return take(worker, user) && sql(worker, APPROACH_SQL_BEGIN, 0, NULL) != NONE;
}

static void unlock(struct worker *worker, const char *user)
{
    release(worker, user);
    at(worker, "released");
    (void)sql(worker, APPROACH_SQL_COMMIT, 0, NULL);
}

const struct approach approach_released_before_commit = {
    .number = 25,
    .title = "lock per user, released before COMMIT",
    .source = "E",
    .claim = "broken: the transaction outlives the lock",
    .guards = A_USER,
    .lives = IN_REDIS,
    .predicted =
        BUYS_TWICE | TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER | WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
