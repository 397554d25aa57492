// One timer renews all locks of a reactor every third of their TTL.
#include "named_lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"
#include "timer.h"

enum { TOKEN_SIZE = 72 };

// TAKING -> HELD or MISSED -> RELEASED. HELD also covers a lock that has been lost meanwhile: its owner is not
// notified.
enum lock_state { LOCK_TAKING, LOCK_HELD, LOCK_MISSED, LOCK_RELEASED };

struct sk_named_locks {
    struct sk_redis *redis;
    const struct sk_session *owner;
    struct sk_timer *tick;
    struct sk_named_lock *first;
    uint64_t counter;
    char ttl[12];
};

struct sk_named_lock {
    struct sk_named_lock *prev, *next;
    struct sk_named_locks *locks;
    sk_named_lock_cb *taken;
    void *arg;
    enum lock_state state;
    unsigned answers; // replies outstanding
    char key[SK_KEY_SIZE];
    char token[TOKEN_SIZE];
};

static void lock_on_taken(void *arg, const struct sk_reply *reply);
static void lock_on_tick(void *arg);
static void lock_on_renewed(void *arg, const struct sk_reply *reply);
static void lock_send_cut(const struct sk_named_lock *lock);
static void lock_send_release(const struct sk_named_lock *lock);
static void lock_on_sent(void *arg, const struct sk_reply *reply);
static void lock_free_if_done(struct sk_named_lock *lock);

static void lock_move(struct sk_named_lock *lock, enum lock_state state)
{
    static const bool allowed[LOCK_RELEASED + 1][LOCK_RELEASED + 1] = {
        [LOCK_TAKING] = {[LOCK_HELD] = true, [LOCK_MISSED] = true, [LOCK_RELEASED] = true},
        [LOCK_HELD] = {[LOCK_RELEASED] = true},
        [LOCK_MISSED] = {[LOCK_RELEASED] = true},
    };
    SK_ASSERT(allowed[lock->state][state]);
    lock->state = state;
}

struct sk_named_locks *sk_named_locks_open(uv_loop_t *loop, struct sk_redis *redis, const struct sk_session *owner,
                                           uint32_t ttl_ms)
{
    struct sk_named_locks *locks = calloc(1, sizeof *locks);
    if (locks != NULL)
        locks->tick = sk_timer_open(loop, ttl_ms / 3, lock_on_tick, locks);
    if (locks == NULL || locks->tick == NULL) {
        free(locks);
        return NULL;
    }
    locks->redis = redis;
    locks->owner = owner;
    (void)snprintf(locks->ttl, sizeof locks->ttl, "%" PRIu32, ttl_ms);
    return locks;
}

struct sk_named_lock *sk_named_lock_take(struct sk_named_locks *locks, const char *key, sk_named_lock_cb *taken,
                                         void *arg)
{
    struct sk_named_lock *lock = calloc(1, sizeof *lock);
    if (lock == NULL)
        return NULL;
    size_t len = strlen(key);
    SK_ASSERT(len < sizeof lock->key);
    memcpy(lock->key, key, len + 1);
    // Each attempt has its own token, so a release that comes too late cannot release the next holder's lock.
    (void)snprintf(lock->token, sizeof lock->token, "%s-%" PRIu64 "/%s", sk_session_id(locks->owner), ++locks->counter,
                   locks->ttl);
    lock->locks = locks;
    lock->taken = taken;
    lock->arg = arg;
    const char *set[] = {"SET", lock->key, lock->token, "NX", "PX", locks->ttl};
    if (sk_redis_command(locks->redis, 6, set, NULL, lock_on_taken, lock) != SK_OK) {
        free(lock);
        return NULL;
    }
    lock->answers = 1;
    lock->next = locks->first;
    if (lock->next != NULL)
        lock->next->prev = lock;
    locks->first = lock;
    return lock;
}

static void lock_on_taken(void *arg, const struct sk_reply *reply)
{
    struct sk_named_lock *lock = arg;
    const char *text = reply == NULL ? NULL : sk_reply_text(reply, NULL);
    bool held = text != NULL && sk_reply_error(reply) == NULL && strcmp(text, "OK") == 0;
    if (!held && reply != NULL && sk_reply_error(reply) == NULL)
        lock_send_cut(lock);
    if (lock->state == LOCK_TAKING) {
        lock_move(lock, held ? LOCK_HELD : LOCK_MISSED);
        lock->taken(lock->arg, held); // may release it
    } else if (held) {
        lock_send_release(lock); // it was released while it was being taken
    }
    lock->answers--;
    lock_free_if_done(lock);
}

static void lock_on_tick(void *arg)
{
    const struct sk_named_locks *locks = arg;
    for (struct sk_named_lock *lock = locks->first; lock != NULL; lock = lock->next) {
        const char *argv[] = {lock->key, lock->token, locks->ttl};
        if (lock->state == LOCK_HELD && lock->answers == 0 &&
            sk_redis_script(locks->redis, SK_SCRIPT_LOCK_RENEW, 1, 3, argv, NULL, lock_on_renewed, lock) == SK_OK)
            lock->answers++;
    }
}

static void lock_on_renewed(void *arg, const struct sk_reply *reply)
{
    struct sk_named_lock *lock = arg;
    (void)reply; // nothing to do if it is lost: a lock only saves work
    lock->answers--;
    lock_free_if_done(lock);
}

void sk_named_lock_release(struct sk_named_lock *lock)
{
    if (lock == NULL)
        return;
    if (lock->state == LOCK_HELD)
        lock_send_release(lock);
    lock_move(lock, LOCK_RELEASED);
    lock_free_if_done(lock);
}

// Another holds the lock. If the holder is dead, the TTL frees the lock, unless the clock was set back since.
static void lock_send_cut(const struct sk_named_lock *lock)
{
    const char *argv[] = {lock->key, lock->locks->ttl};
    if (sk_redis_script(lock->locks->redis, SK_SCRIPT_LOCK_CUT, 1, 2, argv, NULL, lock_on_sent, NULL) != SK_OK)
        return; // the next attempt sends it
}

static void lock_send_release(const struct sk_named_lock *lock)
{
    const char *argv[] = {lock->key, lock->token};
    if (sk_redis_script(lock->locks->redis, SK_SCRIPT_LOCK_RELEASE, 1, 2, argv, NULL, lock_on_sent, NULL) != SK_OK)
        return; // Redis is down: the TTL frees it
}

static void lock_on_sent(void *arg, const struct sk_reply *reply)
{
    (void)arg;
    (void)reply; // if it failed, the TTL frees the lock
}

static void lock_free_if_done(struct sk_named_lock *lock)
{
    if (lock->state != LOCK_RELEASED || lock->answers > 0)
        return;
    if (lock->prev != NULL)
        lock->prev->next = lock->next;
    else
        lock->locks->first = lock->next;
    if (lock->next != NULL)
        lock->next->prev = lock->prev;
    free(lock);
}

void sk_named_locks_close(struct sk_named_locks *locks)
{
    if (locks == NULL)
        return;
    while (locks->first != NULL) {
        struct sk_named_lock *next = locks->first->next;
        SK_ASSERT(locks->first->answers == 0);
        free(locks->first);
        locks->first = next;
    }
    sk_timer_close(locks->tick);
    free(locks);
}
