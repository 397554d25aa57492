// 10 exactly as article A prints it. Inside MULTI the reply of GETSET is not available yet: getAndSet() returns null,
// Long.parseLong(null) throws, and no EXEC follows. So an expired lock is never taken over. The release compares a Long
// with a String, which are never equal, so a lock is never deleted. It guards the stock: one unit is sold.
#include "worker.h"

static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    while (redis_number(worker, "SETNX lock %lld", (long long)wall_ms(worker) + TTL_MS) != 1) {
        (void)redis_number(worker, "WATCH lock");
        long long old = redis_number(worker, "GET lock");
        if (old != NONE && old < wall_ms(worker)) {
            (void)redis_number(worker, "MULTI");
            (void)redis_number(worker, "GETSET lock %lld", (long long)wall_ms(worker) + TTL_MS); // "QUEUED"
            (void)redis_number(worker, "DISCARD"); // the pool does so with a connection after an exception
            return false;
        }
        (void)redis_number(worker, "UNWATCH");
        if (!wait_ms(worker, 3))
            return false;
    }
    return true;
}

static void unlock(struct worker *worker, const char *user)
{
    (void)user;
    (void)redis_number(worker, "GET lock"); // expire.equals(holder.get()): false
}

const struct approach approach_getset_printed = {
    .number = 35,
    .title = "10 as it is printed",
    .source = "A",
    .claim = "the final, right version",
    .guards = A_STOCK,
    .lives = IN_REDIS,
    .predicted = STUCK | FORGETS | FORGETS_IN_FAILOVER | TURNS_AWAY | WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
