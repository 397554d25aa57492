// The value is the time when the lock expires, by the clock of the client that wrote it. A client takes over an expired
// lock with GETSET. The client that gets the old value back has won; the others have only moved the expiry time a
// little. The DEL does not check the owner, and two machines whose clocks differ disagree on what has expired.
#include "worker.h"

static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    long long old;
    while (redis_number(worker, "SETNX lock %lld", (long long)wall_ms(worker) + TTL_MS) != 1) {
        old = redis_number(worker, "GET lock");
        if (old != NONE && old < wall_ms(worker)) {
            at(worker, "expired");
            old = redis_number(worker, "GETSET lock %lld", (long long)wall_ms(worker) + TTL_MS);
            if (old != NONE && old < wall_ms(worker))
                return true;
        }
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

const struct approach approach_getset = {
    .number = 8,
    .title = "time stamp; GETSET when it is old",
    .source = "A, C, D",
    .claim = "solves the dead-lock without a TTL",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted = TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FREES_ANOTHERS | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER |
                 WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
