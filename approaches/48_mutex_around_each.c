// A mutex in the function that reads and another time in the function that writes. Each call is alone; the two together
// are not: others read between them. It loses updates in a single process, whose threads are all that buy here.
#include <pthread.h>

#include "worker.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static long long get(struct worker *worker)
{
    (void)pthread_mutex_lock(&mutex);
    long long stock = redis_number(worker, "GET stock");
    (void)pthread_mutex_unlock(&mutex);
    return stock;
}

static void set(struct worker *worker, long long stock)
{
    (void)pthread_mutex_lock(&mutex);
    (void)redis_number(worker, "SET stock %lld", stock);
    (void)pthread_mutex_unlock(&mutex);
}

static enum outcome buy(struct worker *worker, const char *user)
{
    (void)user;
    long long stock = get(worker);
    if (stock == NONE)
        return BROKEN;
    if (stock <= 0)
        return SOLD_OUT;
    set(worker, stock - 1);
    return broken(worker) ? BROKEN : BOUGHT;
}

const struct approach approach_mutex_around_each = {
    .number = 48,
    .title = "2, around each call; one process",
    .source = "D",
    .claim = "right on one machine",
    .guards = A_STOCK,
    .lives = IN_THE_PROCESS,
    .one_process = true,
    .predicted = LOSES_UPDATES | OVERSELLS,
    .buy = buy,
};
