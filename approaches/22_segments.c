// The stock is split (分段) over several keys, like the segments of a ConcurrentHashMap, so that it could be on several
// servers. A buyer who finds a segment empty has to try the others, or units stay unsold.
#include <stdlib.h>

#include "worker.h"

enum { SEGMENTS = 8 };

static bool prepare(struct worker *worker, long units)
{
    for (int i = 0; i < SEGMENTS; i++) {
        if (redis_number(worker, "SET stock:%d %ld", i, units / SEGMENTS + (i < units % SEGMENTS)) == NONE)
            return false;
    }
    return true;
}

static long long left(struct worker *worker)
{
    long long sum = 0;
    for (int i = 0; i < SEGMENTS; i++)
        sum += redis_number(worker, "GET stock:%d", i);
    return sum;
}

static enum outcome buy(struct worker *worker, const char *user)
{
    static const char *const keys[SEGMENTS] = {"stock:0", "stock:1", "stock:2", "stock:3",
                                               "stock:4", "stock:5", "stock:6", "stock:7"};
    int first = rand_r(&worker->dice) % SEGMENTS;
    (void)user;
    for (int i = 0; i < SEGMENTS; i++) {
        const char *argv[] = {keys[(first + i) % SEGMENTS]};
        if (!redis_script(worker, 0, &sk_approach_scripts[APPROACH_SCRIPT_BUY_ONE], 1, 1, argv))
            return BROKEN;
        if (worker->reply->integer == 1)
            return BOUGHT;
    }
    return SOLD_OUT;
}

const struct approach approach_segments = {
    .number = 22,
    .title = "stock in eight segments",
    .source = "B's links",
    .claim = "raises throughput",
    .guards = A_STOCK,
    .predicted = 0,
    .buy = buy,
    .prepare = prepare,
    .left = left,
};
