// Fakes of the named locks: the test decides when one is held. Included by one source of a program.
#ifndef UNIT_FAKE_NAMED_LOCKS_H
#define UNIT_FAKE_NAMED_LOCKS_H

#include <check.h>
#include <stdio.h>

#include "keys.h"
#include "lock.h"

enum { LOCKS_MAX = 1024 };

static struct {
    bool cannot; // none can be requested
    size_t count, released;
    char key[SK_KEY_SIZE]; // the last
    sk_named_lock_cb *taken[LOCKS_MAX];
    void *args[LOCKS_MAX];
} locks;

struct sk_named_lock *sk_named_lock_take(struct sk_named_locks *its_locks, const char *key, sk_named_lock_cb *taken,
                                         void *arg)
{
    (void)its_locks;
    if (locks.cannot)
        return NULL;
    ck_assert_uint_lt(locks.count, LOCKS_MAX);
    (void)snprintf(locks.key, sizeof locks.key, "%s", key);
    locks.taken[locks.count] = taken;
    locks.args[locks.count] = arg;
    return (struct sk_named_lock *)(void *)&locks.args[locks.count++];
}

void sk_named_lock_release(struct sk_named_lock *lock)
{
    locks.released += lock != NULL;
}

// The answer for one of those that were requested.
static inline void lock_answers(size_t lock, bool held)
{
    ck_assert_uint_lt(lock, locks.count);
    locks.taken[lock](locks.args[lock], held);
}

#endif
