// A mutex (synchronized, sync.Mutex). It is correct with one process. A second process has its own mutex, and the two
// do not exclude each other.
#include "worker.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static bool lock(struct worker *worker, const char *user)
{
    (void)worker;
    (void)user;
    return pthread_mutex_lock(&mutex) == 0;
}

static void unlock(struct worker *worker, const char *user)
{
    (void)worker;
    (void)user;
    (void)pthread_mutex_unlock(&mutex);
}

const struct approach approach_process_mutex = {
    .number = 2,
    .title = "a mutex of the process",
    .source = "B case 2",
    .claim = "right on one machine, useless on two",
    .guards = A_STOCK,
    .lives = IN_THE_PROCESS,
    .predicted = LOSES_UPDATES | OVERSELLS,
    .lock = lock,
    .unlock = unlock,
};
