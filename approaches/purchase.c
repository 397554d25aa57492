#include "purchase.h"

#include <time.h>

#include "careless.h"

static enum outcome purchase_under_lock(struct worker *worker, const char *user);

enum outcome purchase(struct worker *worker, const char *user)
{
    struct shared *shared = worker->shared;
    atomic_long *const counters[] = {&shared->sold, &shared->sold_out, &shared->already, &shared->gave_up,
                                     &shared->broken};
    struct timespec began, ended;
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    worker->is_broken = false;
    enum outcome outcome =
        worker->approach->lock != NULL ? purchase_under_lock(worker, user) : worker->approach->buy(worker, user);
    (void)clock_gettime(CLOCK_MONOTONIC, &ended);
    long us = (long)((ended.tv_sec - began.tv_sec) * 1000000 + (ended.tv_nsec - began.tv_nsec) / 1000);
    long longest = atomic_load(&shared->longest_wait_us);
    while (us > longest && !atomic_compare_exchange_weak(&shared->longest_wait_us, &longest, us)) {}
    atomic_fetch_add(counters[outcome], 1);
    return outcome;
}

static enum outcome purchase_under_lock(struct worker *worker, const char *user)
{
    const struct approach *approach = worker->approach;
    if (!approach->lock(worker, user))
        return broken(worker) ? BROKEN : GAVE_UP;
    enter(worker);
    bool again = worker->locks_again && approach->lock(worker, user);
    if (worker->locks_again && !again)
        atomic_fetch_add(&worker->shared->refused_owner, 1);
    enum outcome outcome = buy_carelessly(worker, user);
    leave(worker);
    if (again)
        approach->unlock(worker, user);
    approach->unlock(worker, user);
    return outcome;
}
