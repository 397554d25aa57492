// A thread that renews a worker's lock while it is held (看门狗).
#ifndef APPROACH_WATCHDOG_H
#define APPROACH_WATCHDOG_H

#include <pthread.h>

#include "worker.h"

// Lives as long as the process, as its thread does.
struct watchdog {
    struct worker self; // with connections of its own
    const struct sk_embedded *renew;
    pthread_t thread;
    atomic_bool held; // set by the worker
};

// Starts the thread, which renews the key "lock" of this worker by this script: KEYS 1 lock; ARGV 1 ttl_ms, 2 holder.
bool watchdog_start(struct watchdog *watchdog, const struct worker *worker, const struct sk_embedded *renew);

#endif
