// Distributed locks in Redis: SET key token NX PX ttl, released and renewed only by whoever holds the
// token (Redis documentation, "Distributed locks with Redis", the single-instance algorithm).
//
// One struct sk_lock holds a set of keys under one token: a batch takes the locks of all its users in
// one write, a single lock is a set of one. A lock saves work; it never carries a promise, because its
// holder may be paused past the TTL. What must not happen twice is guarded in PostgreSQL.
//
// All functions: the loop's thread. No callback runs inside the call that asked for it.
#ifndef SK_SALE_LOCK_H
#define SK_SALE_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "redis_link.h"

struct sk_locker;
struct sk_lock;

enum sk_lock_state {
    SK_LOCK_ASKED, // no answer yet
    SK_LOCK_HELD,
    SK_LOCK_BUSY,    // somebody else holds it
    SK_LOCK_UNKNOWN, // Redis did not answer: it may be held until the TTL ends
    SK_LOCK_LOST,    // it was ours, and the TTL ran out or somebody removed it
};

struct sk_lock_events {
    // Once: every key is HELD, BUSY or UNKNOWN, and no longer waited for.
    void (*taken)(void *arg, struct sk_lock *lock);
    // Once for each key that was HELD and is LOST. May be NULL.
    void (*lost)(void *arg, struct sk_lock *lock, size_t i);
};

// Gives a source of locks with this TTL; it borrows loop and redis. NULL: out of memory.
struct sk_locker *sk_locker_open(uv_loop_t *loop, struct sk_redis *redis, uint32_t ttl_ms);
// Forgets all locks without a word to Redis: the TTL frees them. Its memory goes with the loop's next
// turn; close the Redis link first, so that no reply is under way. NULL is fine.
void sk_locker_close(struct sk_locker *locker);

// Tries to take `n` keys (copied). Those that are busy are tried again with back-off and jitter for
// wait_ms; 0: once. NULL while Redis is down or memory is short: then nothing was asked.
struct sk_lock *sk_lock_take(struct sk_locker *locker, size_t n, const char *const *keys, uint32_t wait_ms,
                             const struct sk_lock_events *events, void *arg);

enum sk_lock_state sk_lock_state(const struct sk_lock *lock, size_t i);

// Gives back what is held and forgets the lock, whose pointer is dead afterwards. Also while it is being
// taken: what is granted later is given back at once. NULL is fine.
void sk_lock_release(struct sk_lock *lock);

#endif
