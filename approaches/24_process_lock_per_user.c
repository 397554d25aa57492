// synchronized on the user's id: one mutex per user, in each process. The load balancer sends the second request to the
// other process.
#include <pthread.h>

#include "worker.h"

enum { MUTEXES = 64 };

static pthread_mutex_t mutexes[MUTEXES]; // all zero is PTHREAD_MUTEX_INITIALIZER

static pthread_mutex_t *mutex_of(const char *user)
{
    unsigned hash = 0;
    for (; *user != '\0'; user++)
        hash = hash * 31 + (unsigned char)*user;
    return &mutexes[hash % MUTEXES];
}

static bool lock(struct worker *worker, const char *user)
{
    (void)worker;
    return pthread_mutex_lock(mutex_of(user)) == 0;
}

static void unlock(struct worker *worker, const char *user)
{
    (void)worker;
    (void)pthread_mutex_unlock(mutex_of(user));
}

const struct approach approach_process_lock_per_user = {
    .number = 24,
    .title = "a mutex per user, in the process",
    .source = "E",
    .claim = "right on one machine, useless in a cluster",
    .guards = A_USER,
    .lives = IN_THE_PROCESS,
    .predicted = BUYS_TWICE,
    .lock = lock,
    .unlock = unlock,
};
