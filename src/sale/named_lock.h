// Named maintenance locks (rebuilding a voucher, settling a dead session's entries ...): SET key token NX PX ttl,
// renewed and released only under the same token (Redis documentation, "Distributed locks with Redis", the
// single-instance algorithm). The token begins with the id of the owner's session and ends with the TTL. Whoever finds
// the lock taken cuts its remaining time to that TTL (lock_cut.lua), so setting the clock back prolongs no lock. A lock
// saves work; it never carries a promise, because its owner may be paused past the TTL and is not notified.
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
// Frees all locks; their keys expire. Close the Redis link first, so that no reply is outstanding. NULL is fine.
void sk_named_locks_close(struct sk_named_locks *locks);

// Runs once, later. False: another has it, or Redis did not answer. The lock must be released in both cases.
typedef void sk_named_lock_cb(void *arg, bool held);

// Tries to take the key (sk_key_of_lock), which is copied. NULL while Redis is down or memory is short: nothing was
// sent.
struct sk_named_lock *sk_named_lock_take(struct sk_named_locks *locks, const char *key, sk_named_lock_cb *taken,
                                         void *arg);

// Releases the lock if it is held and frees it, now or with its last reply: the pointer is dead afterwards. May be
// called while the lock is being taken (then `taken` does not run), and inside `taken`. NULL is fine.
void sk_named_lock_release(struct sk_named_lock *lock);

#endif
