// Named locks of upkeep (rebuilding a voucher, settling what a dead session left ...): SET key token NX PX ttl, renewed
// and released only under the same token (Redis documentation, "Distributed locks with Redis", the single-instance
// algorithm). The token begins with the id of the owner's session and ends with the TTL, to which the next one that
// finds the lock taken cuts what is left of it (lock_cut.lua): a clock that is set back prolongs no lock. A lock saves
// work; it never carries a promise, because its owner may be paused past the TTL, and is not told.
//
// A lock is tried once; there is no waiting, no re-entrancy and no numbering. All functions: the loop's thread.
#ifndef SK_SALE_NAMED_LOCK_H
#define SK_SALE_NAMED_LOCK_H

#include "lock.h"

struct sk_named_locks;
struct sk_named_lock;

// Gives a source of locks with this TTL; it borrows all three. NULL: out of memory.
struct sk_named_locks *sk_named_locks_open(uv_loop_t *loop, struct sk_redis *redis, const struct sk_session *owner,
                                           uint32_t ttl_ms);
// Frees all locks; their keys expire. Close the Redis link first, so that no reply is under way. NULL is
// fine.
void sk_named_locks_close(struct sk_named_locks *locks);

// Runs once, later. False: another has it, or Redis did not answer; the lock is to be released all the same.
typedef void sk_named_lock_cb(void *arg, bool held);

// Tries to take the key (sk_key_of_lock), which is copied. NULL while Redis is down or memory is short: then nothing
// was asked.
struct sk_named_lock *sk_named_lock_take(struct sk_named_locks *locks, const char *key, sk_named_lock_cb *taken,
                                         void *arg);

// Releases what is held and frees the lock, now or with its last answer: the pointer is dead afterwards. While it is
// being taken, too: then `taken` does not run. Inside `taken` it may be called. NULL is fine.
void sk_named_lock_release(struct sk_named_lock *lock);

#endif
