// Order ids from a time stamp in seconds, shifted left, plus a daily counter in Redis. They are ordered and short, but
// each id costs a call. A lost counter starts again at 1, so the same ids repeat within the same second.
#include <stdio.h>
#include <time.h>

#include "ids.h"

enum { BASE_S = 1640995200, COUNTER_BITS = 32 };

static enum outcome buy(struct worker *worker, const char *user)
{
    char day[16], id[24];
    uint64_t began_us = ids_now_us();
    time_t now_s = (time_t)(wall_ms(worker) / 1000);
    struct tm now;
    (void)user;
    (void)strftime(day, sizeof day, "%Y:%m:%d", gmtime_r(&now_s, &now));
    long long count = redis_number(worker, "INCR icr:order:%s", day);
    (void)snprintf(id, sizeof id, "%020lld", ((long long)now_s - BASE_S) << COUNTER_BITS | count);
    if (count == NONE)
        return BROKEN;
    ids_keep(worker, began_us, id);
    return BOUGHT;
}

const struct approach approach_stamp_and_counter = {
    .number = 30,
    .title = "order ids: time stamp << 32 | daily INCR",
    .source = "E",
    .claim = "unique in the cluster",
    .guards = AN_ID,
    .predicted = FORGETS,
    .buy = buy,
};
