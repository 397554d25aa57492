#include "watchdog.h"

#include <stdio.h>
#include <unistd.h>

static void *watch(void *arg)
{
    struct watchdog *watchdog = arg;
    char ttl[12];
    const char *argv[] = {"lock", ttl, watchdog->self.token};
    (void)snprintf(ttl, sizeof ttl, "%d", TTL_MS);
    while (usleep(TTL_MS * 1000 / 3) == 0) {
        if (atomic_load(&watchdog->held))
            (void)redis_script(&watchdog->self, 0, watchdog->renew, 1, 3, argv);
    }
    return NULL;
}

bool watchdog_start(struct watchdog *watchdog, const struct worker *worker, const struct sk_embedded *renew)
{
    watchdog->self = (struct worker){.approach = worker->approach, .place = worker->place, .shared = worker->shared};
    (void)snprintf(watchdog->self.token, TOKEN_SIZE, "%s", worker->token);
    watchdog->renew = renew;
    return pthread_create(&watchdog->thread, NULL, watch, watchdog) == 0;
}
