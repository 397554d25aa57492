// The value is a time stamp, as in 8, but a client deletes an expired lock and then takes it with SETNX. Between the
// check and the DEL another client may have done the same. The DEL then removes a living owner's lock, and both hold
// it.
#include "worker.h"

static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    while (redis_number(worker, "SETNX lock %lld", (long long)wall_ms(worker) + TTL_MS) != 1) {
        long long end = redis_number(worker, "GET lock");
        if (end != NONE && end < wall_ms(worker)) {
            at(worker, "expired");
            (void)redis_number(worker, "DEL lock");
        } else if (!wait_ms(worker, 3)) {
            return false;
        }
    }
    return true;
}

static void unlock(struct worker *worker, const char *user)
{
    (void)user;
    (void)redis_number(worker, "DEL lock");
}

const struct approach approach_del_setnx = {
    .number = 33,
    .title = "time stamp; DEL, SETNX when it is old",
    .source = "C, D",
    .claim = "wrong: two take over at once",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted = TWO_AT_TAKEOVER | TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FREES_ANOTHERS | FORGETS | TRUSTS_CLOCKS |
                 FORGETS_IN_FAILOVER | WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
