// No lock at all: the SET takes effect only if the stock is unchanged since the GET. This is correct, but with more
// buyers more attempts fail.
#include "worker.h"

static enum outcome buy(struct worker *worker, const char *user)
{
    (void)user;
    do {
        (void)redis_number(worker, "WATCH stock");
        long long stock = redis_number(worker, "GET stock");
        at(worker, "read");
        if (stock == NONE || stock <= 0) {
            (void)redis_number(worker, "UNWATCH");
            return broken(worker) ? BROKEN : SOLD_OUT;
        }
        (void)redis_number(worker, "MULTI");
        (void)redis_number(worker, "SET stock %lld", stock - 1);
        (void)redis_number(worker, "EXEC");
        if (worker->reply != NULL && worker->reply->type == REDIS_REPLY_ARRAY)
            return BOUGHT;
    } while (wait_ms(worker, 0));
    return broken(worker) ? BROKEN : GAVE_UP;
}

const struct approach approach_watch_multi = {
    .number = 14,
    .title = "WATCH, MULTI, EXEC on the stock",
    .source = "A",
    .claim = "optimistic: fails instead of overwriting",
    .guards = A_STOCK,
    .predicted = 0,
    .buy = buy,
};
