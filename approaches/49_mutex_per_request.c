// synchronized(userId.toString()) without intern(): toString() makes a new object each time, so each request locks a
// monitor of its own, and nobody waits for anybody. It is wrong in a single process, whose threads are all that buy
// here.
#include <pthread.h>

#include "worker.h"

static _Thread_local pthread_mutex_t own;

static bool lock(struct worker *worker, const char *user)
{
    (void)worker;
    (void)user;
    return pthread_mutex_init(&own, NULL) == 0 && pthread_mutex_lock(&own) == 0;
}

static void unlock(struct worker *worker, const char *user)
{
    (void)worker;
    (void)user;
    (void)pthread_mutex_unlock(&own);
    (void)pthread_mutex_destroy(&own);
}

const struct approach approach_mutex_per_request = {
    .number = 49,
    .title = "24, a mutex made for each request; one process",
    .source = "E",
    .claim = "toString() makes new objects: intern() is needed",
    .guards = A_USER,
    .lives = IN_THE_PROCESS,
    .one_process = true,
    .predicted = BUYS_TWICE,
    .lock = lock,
    .unlock = unlock,
};
