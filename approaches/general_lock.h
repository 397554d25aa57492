// The general lock: everything that one Redis server can offer a lock, in one module. SET key token NX PX ttl, renewed
// and released only under the token, as in approach 7. In addition:
//   waiting      retries busy keys with back-off, and at once when this locker releases one of them
//   re-entrancy  locks of one owner may share a key
//   numbering    each taking of a key gets a greater number (a fencing token)
//   loss         a callback reports when a key no longer belongs to its owner
// docs/approaches.md describes what each costs and needs, and why the service's own lock (src/sale/lock.h) has none of
// it.
//
// One struct general_lock holds a set of keys under one token. Unlike the other approaches it does not block: it runs
// on a libuv loop and the service's link to Redis.
//
// All functions: the loop's thread. No callback runs inside the call that requested it.
#ifndef APPROACH_GENERAL_LOCK_H
#define APPROACH_GENERAL_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "redis_link.h"

struct general_locker;
struct general_lock;

enum general_lock_state {
    GENERAL_LOCK_ASKED, // no answer yet
    GENERAL_LOCK_HELD,
    GENERAL_LOCK_BUSY,    // another owner has it
    GENERAL_LOCK_UNKNOWN, // Redis did not answer: it may be held until the TTL ends
    GENERAL_LOCK_LOST,    // it was held, and the TTL ran out or the key was removed or overwritten
};

enum { GENERAL_LOCK_OWNER_MAX = 20 };

struct general_lock_options {
    uint32_t wait_ms; // how long to retry busy keys; 0: try once
    // All locks that a locker has under one name are one owner. Each may share a key that another one holds, and a key
    // is released with the last of them. NULL: an owner of its own. At most GENERAL_LOCK_OWNER_MAX characters.
    const char *owner;
    // Protects only work that compares the number: the store must reject a number smaller than one it has seen.
    bool numbered;
};

struct general_lock_events {
    // Once: every key is HELD, BUSY, UNKNOWN or LOST, and no longer waited for. The callback may release the lock.
    void (*taken)(void *arg, struct general_lock *lock);
    // After `taken`, once for each key that was HELD and is LOST. May be NULL. The callback may release the lock.
    void (*lost)(void *arg, struct general_lock *lock, size_t i);
};

// Returns a source of locks with this TTL; it borrows loop and redis. NULL: out of memory.
struct general_locker *general_locker_open(uv_loop_t *loop, struct sk_redis *redis, uint32_t ttl_ms);
// Frees all locks; their keys expire by their TTL. Its own memory is freed in the loop's next turn. Close the Redis
// link first, so that no reply is under way. NULL is fine.
void general_locker_close(struct general_locker *locker);

// Tries to take `n` keys (copied). `options` NULL: once, an owner of its own, no numbers. NULL while Redis is down or
// memory is short: then nothing was sent.
struct general_lock *general_lock_take(struct general_locker *locker, size_t n, const char *const *keys,
                                       const struct general_lock_options *options,
                                       const struct general_lock_events *events, void *arg);

enum general_lock_state general_lock_state(const struct general_lock *lock, size_t i);

// The number of a key that is, or was, HELD; 0 unless the options request numbers.
uint64_t general_lock_number(const struct general_lock *lock, size_t i);

// Releases held keys and frees the lock, now or with its last reply: do not use the pointer afterwards. It may be
// called while the lock is being taken; keys granted later are released at once. NULL is fine.
void general_lock_release(struct general_lock *lock);

#endif
