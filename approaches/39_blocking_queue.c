// A queue in the memory of the process (BlockingQueue). The buyer's request succeeds once the order is in it, and the
// order is lost with the process. When the queue is full, put() blocks the thread that serves the buyer.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "queue.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char users[QUEUE_FULL][QUEUE_USER_SIZE];
    int first, count;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

// Call with the lock. False: the time is over.
static bool wait_a_little(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_cond_timedwait(&queue.changed, &queue.lock, &until) == 0;
}

static enum outcome buy(struct worker *worker, const char *user)
{
    enum outcome outcome = queue_grant(worker, &sk_approach_scripts[APPROACH_SCRIPT_GRANT_ONLY], user);
    if (outcome != BOUGHT)
        return outcome;
    (void)pthread_mutex_lock(&queue.lock);
    while (queue.count == QUEUE_FULL && !atomic_load(&worker->shared->stop))
        (void)wait_a_little();
    bool room = queue.count < QUEUE_FULL;
    if (room)
        (void)snprintf(queue.users[(queue.first + queue.count++) % QUEUE_FULL], QUEUE_USER_SIZE, "%s", user);
    (void)pthread_cond_broadcast(&queue.changed);
    (void)pthread_mutex_unlock(&queue.lock);
    return room ? BOUGHT : GAVE_UP;
}

static bool take(struct worker *worker, char user[QUEUE_USER_SIZE])
{
    (void)worker;
    (void)pthread_mutex_lock(&queue.lock);
    if (queue.count == 0)
        (void)wait_a_little();
    bool has = queue.count > 0;
    if (has) {
        memcpy(user, queue.users[queue.first], QUEUE_USER_SIZE);
        queue.first = (queue.first + 1) % QUEUE_FULL;
        queue.count--;
        (void)pthread_cond_broadcast(&queue.changed);
    }
    (void)pthread_mutex_unlock(&queue.lock);
    return has;
}

const struct queue_way queue_blocking = {
    .number = 39,
    .title = "a queue in the process (BlockingQueue)",
    .source = "the course",
    .claim = "memory is bounded; lost with the process",
    .predicted = LOST_WITH_CONSUMER | BLOCKS_WHEN_FULL,
    .buy = buy,
    .take = take,
};
