// Distributed locks in Redis: SET key token NX PX ttl, released and renewed only by whoever holds the
// token (Redis documentation, "Distributed locks with Redis", the single-instance algorithm).
//
// One struct sk_lock holds a set of keys under one token: a batch takes the locks of all its users in
// one write, a single lock is a set of one. A lock saves work; it never carries a promise, because its
// holder may be paused past the TTL. What must not happen twice is guarded in PostgreSQL.
//
// Whoever waits for a lock of the same locker is told when it is released; others are polled for, with back-off. A
// channel in Redis would tell them, too, but costs more than it gives (docs/approaches.md, 7 and 32).
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

enum { SK_LOCK_HOLDER_MAX = 20 };

struct sk_lock_terms {
    uint32_t wait_ms; // busy keys are tried again for so long; 0: once
    // All locks that a locker has under one name are one holder: each may enter what another one holds, and a key is
    // free when the last of them releases it. NULL: nobody else enters.
    const char *holder;
    // Each taking of a key gets a number greater than all before it (a fencing token). It protects what compares it:
    // whoever does the work must refuse a number that is smaller than one it has seen.
    bool fenced;
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

// Tries to take `n` keys (copied). `terms` NULL: once, for nobody else, without numbers. NULL while Redis is down or
// memory is short: then nothing was asked.
struct sk_lock *sk_lock_take(struct sk_locker *locker, size_t n, const char *const *keys,
                             const struct sk_lock_terms *terms, const struct sk_lock_events *events, void *arg);

enum sk_lock_state sk_lock_state(const struct sk_lock *lock, size_t i);

// The number of a key that is, or was, HELD; 0 unless the terms asked for it.
uint64_t sk_lock_fence(const struct sk_lock *lock, size_t i);

// Gives back what is held and forgets the lock, whose pointer is dead afterwards. Also while it is being
// taken: what is granted later is given back at once. NULL is fine.
void sk_lock_release(struct sk_lock *lock);

#endif
