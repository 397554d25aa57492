// Locks in Redis: SET key token NX PX ttl, renewed and released only under the same token (Redis documentation,
// "Distributed locks with Redis", the single-instance algorithm).
//
// One struct sk_lock holds a set of keys under one token: a batch takes the locks of all its users in one write, a
// single lock is a set of one. A lock saves work; it never carries a promise, because its owner may be paused past the
// TTL, and is not told. What must not happen twice is guarded in PostgreSQL.
//
// There is no waiting for a busy key, no re-entrancy and no numbering: no caller needs them. A lock that has all three
// is shown in approaches/lock.h.
//
// All functions: the loop's thread. No callback runs inside the call that asked for it.
#ifndef SK_SALE_LOCK_H
#define SK_SALE_LOCK_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "redis_link.h"

struct sk_locker;
struct sk_lock;

enum sk_lock_state {
    SK_LOCK_ASKED, // no answer yet
    SK_LOCK_HELD,
    SK_LOCK_BUSY,    // another owner has it
    SK_LOCK_UNKNOWN, // Redis did not answer: it may be held until the TTL ends
};

struct sk_lock_events {
    // Once: every key is HELD, BUSY or UNKNOWN. The lock may be released inside.
    void (*taken)(void *arg, struct sk_lock *lock);
};

// Gives a source of locks with this TTL; it borrows loop and redis. NULL: out of memory.
struct sk_locker *sk_locker_open(uv_loop_t *loop, struct sk_redis *redis, uint32_t ttl_ms);
// Frees all locks; their keys expire by their TTL. Its own memory goes with the loop's next turn. Close the Redis link
// first, so that no reply is under way. NULL is fine.
void sk_locker_close(struct sk_locker *locker);

// Tries once to take `n` keys (copied). NULL while Redis is down or memory is short: then nothing was asked.
struct sk_lock *sk_lock_take(struct sk_locker *locker, size_t n, const char *const *keys,
                             const struct sk_lock_events *events, void *arg);

// As Redis answered when the key was taken.
enum sk_lock_state sk_lock_state(const struct sk_lock *lock, size_t i);

// Releases what is held and frees the lock, now or with its last answer: the pointer is dead afterwards. Also while it
// is being taken: what is granted later is released at once. NULL is fine.
void sk_lock_release(struct sk_lock *lock);

#endif
