// Every key is asked for by a command of its own, all in one write. One timer serves all locks of a locker: it renews
// each when a third of its TTL has passed since the last renewal was sent.
//
// A lost key (expired, removed, or another owner's by now) is not looked for: renewal and release change in Redis only
// what is still under the token.
#include "lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uuid.h"

enum { TOKEN_SIZE = 56, RELEASE_MAX = 1024, TICK_MS = 4 };

enum lock_phase {
    LOCK_TAKING, // answers are under way
    LOCK_TAKEN,
    LOCK_RELEASED, // freed when the last answer is in
};

struct lock_key {
    struct sk_lock *lock;
    const char *name; // points behind the keys
    enum sk_lock_state state;
};

struct sk_lock {
    struct sk_lock *prev, *next;
    struct sk_locker *locker;
    struct sk_lock_events events;
    void *arg;
    enum lock_phase phase;
    size_t unanswered; // keys asked for, or one renewal
    uint64_t renew_at_ms;
    char token[TOKEN_SIZE];
    size_t n;
    struct lock_key keys[];
};

struct sk_locker {
    uv_loop_t *loop;
    struct sk_redis *redis;
    uv_timer_t tick;
    struct sk_lock *locks;
    uint64_t counter;
    uint32_t ttl_ms;
    char ttl[12];
    char process[33]; // random: no two processes share a token
};

static void locker_on_tick(uv_timer_t *timer);
static void locker_on_closed(uv_handle_t *handle);
static struct sk_lock *lock_new(size_t n, const char *const *keys);
static void lock_ask(struct sk_lock *lock);
static void lock_on_asked(void *arg, const struct sk_reply *reply);
static void lock_move(struct sk_lock *lock, enum lock_phase phase);
static void lock_renew(struct sk_lock *lock);
static void lock_on_renewed(void *arg, const struct sk_reply *reply);
static void lock_send_release(struct sk_lock *lock);
static void lock_on_released(void *arg, const struct sk_reply *reply);
static void lock_free_if_done(struct sk_lock *lock);

struct sk_locker *sk_locker_open(uv_loop_t *loop, struct sk_redis *redis, uint32_t ttl_ms)
{
    struct sk_locker *locker = calloc(1, sizeof *locker);
    if (locker == NULL)
        return NULL;
    uint64_t random[2];
    sk_random_bytes(random, sizeof random);
    locker->loop = loop;
    locker->redis = redis;
    locker->ttl_ms = ttl_ms;
    (void)snprintf(locker->ttl, sizeof locker->ttl, "%" PRIu32, ttl_ms);
    (void)snprintf(locker->process, sizeof locker->process, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    (void)uv_timer_init(loop, &locker->tick);
    locker->tick.data = locker;
    return locker;
}

void sk_locker_close(struct sk_locker *locker)
{
    if (locker == NULL)
        return;
    while (locker->locks != NULL) {
        struct sk_lock *next = locker->locks->next;
        SK_ASSERT(locker->locks->unanswered == 0);
        free(locker->locks);
        locker->locks = next;
    }
    uv_close((uv_handle_t *)&locker->tick, locker_on_closed);
}

static void locker_on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

// ---- take ----

struct sk_lock *sk_lock_take(struct sk_locker *locker, size_t n, const char *const *keys,
                             const struct sk_lock_events *events, void *arg)
{
    struct sk_lock *lock = sk_redis_ready(locker->redis) && n > 0 ? lock_new(n, keys) : NULL;
    if (lock == NULL)
        return NULL;
    lock->locker = locker;
    lock->events = *events;
    lock->arg = arg;
    (void)snprintf(lock->token, sizeof lock->token, "%s-%" PRIu64, locker->process, ++locker->counter);
    lock_ask(lock);
    if (lock->unanswered == 0) { // nothing could be asked
        free(lock);
        return NULL;
    }
    lock->next = locker->locks;
    if (lock->next != NULL)
        lock->next->prev = lock;
    locker->locks = lock;
    if (!uv_is_active((uv_handle_t *)&locker->tick))
        (void)uv_timer_start(&locker->tick, locker_on_tick, TICK_MS, TICK_MS);
    return lock;
}

static struct sk_lock *lock_new(size_t n, const char *const *keys)
{
    size_t bytes = n * sizeof(struct lock_key);
    for (size_t i = 0; i < n; i++)
        bytes += strlen(keys[i]) + 1;
    struct sk_lock *lock = calloc(1, sizeof *lock + bytes);
    if (lock == NULL)
        return NULL;
    char *text = (char *)(lock->keys + n);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(keys[i]) + 1;
        memcpy(text, keys[i], len);
        lock->keys[i] = (struct lock_key){.lock = lock, .name = text, .state = SK_LOCK_ASKED};
        text += len;
    }
    lock->n = n;
    return lock;
}

static void lock_ask(struct sk_lock *lock)
{
    struct sk_locker *locker = lock->locker;
    lock->renew_at_ms = uv_now(locker->loop) + locker->ttl_ms / 3;
    for (size_t i = 0; i < lock->n; i++) {
        const char *argv[] = {"SET", lock->keys[i].name, lock->token, "NX", "PX", locker->ttl};
        if (sk_redis_command(locker->redis, 6, argv, NULL, lock_on_asked, &lock->keys[i]) == SK_OK)
            lock->unanswered++;
        else
            lock->keys[i].state = SK_LOCK_UNKNOWN;
    }
}

static void lock_on_asked(void *arg, const struct sk_reply *reply)
{
    struct lock_key *key = arg;
    struct sk_lock *lock = key->lock;
    const char *text = reply == NULL ? NULL : sk_reply_text(reply, NULL);
    if (reply == NULL || sk_reply_error(reply) != NULL)
        key->state = SK_LOCK_UNKNOWN;
    else
        key->state = text != NULL && strcmp(text, "OK") == 0 ? SK_LOCK_HELD : SK_LOCK_BUSY;
    if (--lock->unanswered > 0)
        return;
    if (lock->phase == LOCK_RELEASED) {
        lock_send_release(lock);
        lock_free_if_done(lock);
        return;
    }
    lock_move(lock, LOCK_TAKEN);
    lock->events.taken(lock->arg, lock);
}

static void lock_move(struct sk_lock *lock, enum lock_phase phase)
{
    SK_ASSERT(phase > lock->phase);
    lock->phase = phase;
}

enum sk_lock_state sk_lock_state(const struct sk_lock *lock, size_t i)
{
    SK_ASSERT(i < lock->n);
    return lock->keys[i].state;
}

// ---- renew ----

static void locker_on_tick(uv_timer_t *timer)
{
    struct sk_locker *locker = timer->data;
    uint64_t now = uv_now(locker->loop);
    if (locker->locks == NULL)
        (void)uv_timer_stop(timer);
    for (struct sk_lock *lock = locker->locks; lock != NULL; lock = lock->next) {
        if (lock->phase == LOCK_TAKEN && lock->unanswered == 0 && now >= lock->renew_at_ms)
            lock_renew(lock);
    }
}

static void lock_renew(struct sk_lock *lock)
{
    struct sk_locker *locker = lock->locker;
    lock->renew_at_ms = uv_now(locker->loop) + locker->ttl_ms / 3;
    const char **argv = lock->n + 2 > SK_REDIS_ARGS_MAX ? NULL : malloc((lock->n + 2) * sizeof *argv);
    if (argv == NULL)
        return; // tried again in time, before the TTL ends
    int n = 0;
    for (size_t i = 0; i < lock->n; i++) {
        if (lock->keys[i].state == SK_LOCK_HELD)
            argv[n++] = lock->keys[i].name;
    }
    argv[n] = lock->token;
    argv[n + 1] = locker->ttl;
    if (n > 0 &&
        sk_redis_script(locker->redis, SK_SCRIPT_LOCK_RENEW, n, n + 2, argv, NULL, lock_on_renewed, lock) == SK_OK)
        lock->unanswered++;
    free(argv);
}

static void lock_on_renewed(void *arg, const struct sk_reply *reply)
{
    struct sk_lock *lock = arg;
    (void)reply; // what is lost cannot be renewed, and a failed renewal is repeated
    lock->unanswered--;
    lock_free_if_done(lock);
}

// ---- release ----

void sk_lock_release(struct sk_lock *lock)
{
    if (lock == NULL)
        return;
    bool taken = lock->phase == LOCK_TAKEN;
    lock_move(lock, LOCK_RELEASED);
    if (taken)
        lock_send_release(lock);
    lock_free_if_done(lock);
}

// In chunks, so that Redis is never held up for long.
static void lock_send_release(struct sk_lock *lock)
{
    const char *argv[RELEASE_MAX + 1];
    for (size_t i = 0; i < lock->n;) {
        int n = 0;
        for (; i < lock->n && n < RELEASE_MAX; i++) {
            if (lock->keys[i].state == SK_LOCK_HELD)
                argv[n++] = lock->keys[i].name;
        }
        argv[n] = lock->token;
        if (n == 0 || sk_redis_script(lock->locker->redis, SK_SCRIPT_LOCK_RELEASE, n, n + 1, argv, NULL,
                                      lock_on_released, NULL) != SK_OK)
            return; // nothing is left to release, or Redis is away and the TTL releases
    }
}

static void lock_on_released(void *arg, const struct sk_reply *reply)
{
    (void)arg;
    (void)reply; // if it failed, the TTL releases
}

static void lock_free_if_done(struct sk_lock *lock)
{
    if (lock->phase != LOCK_RELEASED || lock->unanswered > 0)
        return;
    if (lock->prev != NULL)
        lock->prev->next = lock->next;
    else
        lock->locker->locks = lock->next;
    if (lock->next != NULL)
        lock->next->prev = lock->prev;
    free(lock);
}
