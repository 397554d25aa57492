// The general lock: everything that one server of Redis can give a lock, in one module. SET key token NX PX ttl,
// renewed and released only under the token, as in approach 7; and besides:
//   waiting      busy keys are asked for again with back-off, and at once when this locker releases one of them
//   re-entrancy  locks of one owner may have a key together
//   numbering    each taking of a key gets a greater number (a fencing token)
//   loss         the owner is told when a key is not its own any more
// What each costs and needs, and why the service's own lock (src/sale/lock.h) has none of it: docs/approaches.md.
//
// One struct general_lock holds a set of keys under one token. Unlike the approaches beside it, it does not block: it
// lives on a libuv loop and the service's link to Redis.
//
// All functions: the loop's thread. No callback runs inside the call that asked for it.
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
    uint32_t wait_ms; // busy keys are tried again for so long; 0: once
    // All locks that a locker has under one name are one owner: each may enter what another one holds, and a key is
    // released with the last of them. NULL: an owner of its own. At most GENERAL_LOCK_OWNER_MAX characters.
    const char *owner;
    // It protects only work that compares it: the store that is written to must refuse a number smaller than one it
    // has seen.
    bool numbered;
};

struct general_lock_events {
    // Once: every key is HELD, BUSY, UNKNOWN or LOST, and no longer waited for. The lock may be released inside.
    void (*taken)(void *arg, struct general_lock *lock);
    // After `taken`, once for each key that was HELD and is LOST. May be NULL. The lock may be released inside.
    void (*lost)(void *arg, struct general_lock *lock, size_t i);
};

// Gives a source of locks with this TTL; it borrows loop and redis. NULL: out of memory.
struct general_locker *general_locker_open(uv_loop_t *loop, struct sk_redis *redis, uint32_t ttl_ms);
// Frees all locks; their keys expire by their TTL. Its own memory goes with the loop's next turn. Close the Redis link
// first, so that no reply is under way. NULL is fine.
void general_locker_close(struct general_locker *locker);

// Tries to take `n` keys (copied). `options` NULL: once, an owner of its own, no numbers. NULL while Redis is down or
// memory is short: then nothing was asked.
struct general_lock *general_lock_take(struct general_locker *locker, size_t n, const char *const *keys,
                                       const struct general_lock_options *options,
                                       const struct general_lock_events *events, void *arg);

enum general_lock_state general_lock_state(const struct general_lock *lock, size_t i);

// The number of a key that is, or was, HELD; 0 unless the options asked for it.
uint64_t general_lock_number(const struct general_lock *lock, size_t i);

// Releases what is held and frees the lock, now or with its last answer: the pointer is dead afterwards. Also while it
// is being taken: what is granted later is released at once. NULL is fine.
void general_lock_release(struct general_lock *lock);

#endif
