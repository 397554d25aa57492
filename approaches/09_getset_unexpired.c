// The release first checks whether the lock has expired. That check is wrong. If the lock has expired and another
// client has taken it, the new expiry time lies in the future: the DEL frees the other client's lock. Random waits of
// 50 to 100 ms save Redis calls and delay the buyers.
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    char end[24], *seen = worker->kept;
    for (;;) {
        (void)snprintf(end, sizeof end, "%lld", (long long)wall_ms(worker) + TTL_MS + 1);
        if (redis_number(worker, "SETNX lock %s", end) == 1)
            return true;
        const char *value = redis_text(worker, "GET lock");
        if (value != NULL && strtoll(value, NULL, 10) < wall_ms(worker)) {
            (void)snprintf(seen, TOKEN_SIZE, "%s", value);
            at(worker, "expired");
            const char *old = redis_text(worker, "GETSET lock %s", end);
            if (old != NULL && strcmp(old, seen) == 0)
                return true;
        }
        if (!wait_ms(worker, 50 + rand_r(&worker->dice) % 50))
            return false;
    }
}

static void unlock(struct worker *worker, const char *user)
{
    (void)user;
    long long end = redis_number(worker, "GET lock");
    bool expired = end == NONE || end < wall_ms(worker);
    at(worker, "checked");
    if (!expired)
        (void)redis_number(worker, "DEL lock");
}

const struct approach approach_getset_unexpired = {
    .number = 9,
    .title = "the same; DEL unless expired",
    .source = "C",
    .claim = "deletes only what has not expired, so its own",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted = TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FREES_ANOTHERS | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER |
                 WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
