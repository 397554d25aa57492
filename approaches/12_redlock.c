// Redlock: a client holds the lock if a majority of five independent servers grants it in time. One or two servers may
// be lost. It is still a lock with a TTL: an owner that is paused for longer is no longer alone. If the majority's
// clocks jump, or it restarts empty, the lock is lost.
#include <stdlib.h>

#include "worker.h"

enum { MAJORITY = SERVERS / 2 + 1, DRIFT_MS = TTL_MS / 100 + 2 };

static void unlock(struct worker *worker, const char *user)
{
    const char *argv[] = {"lock", worker->token};
    (void)user;
    for (int i = 0; i < SERVERS; i++)
        (void)redis_script(worker, i, &sk_approach_scripts[APPROACH_SCRIPT_LOCK_RELEASE], 1, 2, argv);
    worker->is_broken = false;
}

static bool lock(struct worker *worker, const char *user)
{
    for (;;) {
        uint64_t began = steady_ms();
        int yes = 0;
        for (int i = 0; i < SERVERS; i++)
            yes += redis_number_at(worker, i, "SET lock %s NX PX %d", worker->token, TTL_MS) == 1;
        if (yes >= MAJORITY && steady_ms() - began < TTL_MS - DRIFT_MS)
            return true;
        unlock(worker, user);
        if (!wait_ms(worker, 3 + rand_r(&worker->dice) % 20))
            return false;
    }
}

const struct approach approach_redlock = {
    .number = 12,
    .title = "Redlock, five servers",
    .source = "A, B's links",
    .claim = "safe where one Redis is not",
    .guards = A_STOCK_IN_SQL,
    .lives = IN_FIVE_REDISES,
    .predicted = TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER | WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
