// WATCH and MULTI keep the losers of a take-over from moving the expiry time. The holder remembers its own value, so
// that it deletes no other. But it remembers the value that it reads back, not the one it wrote. GET and DEL are still
// two steps, and the clocks are still the clients' own.
#include "worker.h"

#include <stdio.h>
#include <string.h>

static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    while (redis_number(worker, "SETNX lock %lld", (long long)wall_ms(worker) + TTL_MS) != 1) {
        (void)redis_number(worker, "WATCH lock");
        long long old = redis_number(worker, "GET lock");
        if (old != NONE && old < wall_ms(worker)) {
            at(worker, "expired");
            (void)redis_number(worker, "MULTI");
            (void)redis_number(worker, "GETSET lock %lld", (long long)wall_ms(worker) + TTL_MS);
            (void)redis_number(worker, "EXEC");
            if (worker->reply != NULL && worker->reply->type == REDIS_REPLY_ARRAY)
                break;
        } else {
            (void)redis_number(worker, "UNWATCH");
        }
        if (!wait_ms(worker, 3))
            return false;
    }
    const char *end = redis_text(worker, "GET lock");
    (void)snprintf(worker->kept, TOKEN_SIZE, "%s", end == NULL ? "" : end);
    return true;
}

static void unlock(struct worker *worker, const char *user)
{
    (void)user;
    const char *end = redis_text(worker, "GET lock");
    bool mine = end != NULL && strcmp(end, worker->kept) == 0;
    at(worker, "checked");
    if (mine)
        (void)redis_number(worker, "DEL lock");
}

const struct approach approach_getset_watch = {
    .number = 10,
    .title = "the same; WATCH, own value kept",
    .source = "A",
    .claim = "the final, right version",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted = TWO_WHEN_SLOW | TWO_WHEN_PAUSED | FREES_ANOTHERS | FORGETS | TRUSTS_CLOCKS | FORGETS_IN_FAILOVER |
                 WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
