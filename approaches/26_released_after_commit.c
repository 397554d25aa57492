// The transaction inside the lock. This is correct as long as the lock is, and a lock with a TTL is not always correct.
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
    (void)sql(worker, APPROACH_SQL_COMMIT, 0, NULL);
    release(worker, user);
}

const struct approach approach_released_after_commit = {
    .number = 26,
    .title = "lock per user, released after COMMIT",
    .source = "E",
    .claim = "right",
    .guards = A_USER,
    .lives = IN_REDIS,
    .predicted = TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER | WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
