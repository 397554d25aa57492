// Redlock: a client holds the lock if a majority of five independent servers grants it in time. One or two servers may
// be lost. It is still a lock with a TTL: an owner that is paused for longer is no longer alone. If the majority's
// clocks jump, or it restarts empty, the lock is lost.
#include <stdio.h>
#include <stdlib.h>

#include "worker.h"

enum { MAJORITY = SERVERS / 2 + 1, DRIFT_MS = TTL_MS / 100 + 2 };

static void release(struct worker *worker, const char *value)
{
    const char *argv[] = {"lock", value};
    for (int i = 0; i < SERVERS; i++)
        (void)redis_script(worker, i, &sk_approach_scripts[APPROACH_SCRIPT_LOCK_RELEASE], 1, 2, argv);
    worker->is_broken = false;
}

// Each try has a value of its own: one that fails gives back what it got, and no lock that its owner already holds.
static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    for (;;) {
        char value[TOKEN_SIZE];
        uint64_t began = steady_ms();
        int yes = 0;
        (void)snprintf(value, sizeof value, "%.32s-%08x", worker->token, (unsigned)rand_r(&worker->dice));
        for (int i = 0; i < SERVERS; i++)
            yes += redis_number_at(worker, i, "SET lock %s NX PX %d", value, TTL_MS) == 1;
        if (yes >= MAJORITY && steady_ms() - began < TTL_MS - DRIFT_MS) {
            (void)snprintf(worker->kept, TOKEN_SIZE, "%s", value);
            return true;
        }
        release(worker, value);
        if (!wait_ms(worker, 3 + rand_r(&worker->dice) % 20))
            return false;
    }
}

static void unlock(struct worker *worker, const char *user)
{
    (void)user;
    release(worker, worker->kept);
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
