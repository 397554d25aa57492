// Every key is asked for by a command of its own, all in one write. Each question carries the index of its key,
// since those that are scripts need not be answered in the order of asking (redis_link.h).
//
// One timer serves all locks of a locker: it renews each lock when a third of its TTL has passed since
// the last renewal, and asks again for busy keys. A key counts as lost when Redis says so, or when a
// whole TTL has passed since the last renewal that Redis confirmed, by our own monotonic clock and
// counted from the moment of asking: so we give up before Redis does.
#include "lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "uuid.h"

enum { TOKEN_SIZE = 56, NAME_SIZE = 160, RELEASE_MAX = 1024, TICK_MS = 4, RETRY_FIRST_MS = 4, RETRY_MOST_MS = 100 };

struct sk_locker {
    uv_loop_t *loop;
    struct sk_redis *redis;
    uv_timer_t tick;
    struct sk_lock *locks;
    struct sk_backoff jitter;
    uint64_t counter;
    uint32_t ttl_ms;
    char ttl[12];
    char process[33]; // random: no two processes share a token
};

struct question {
    struct sk_lock *lock;
    size_t i; // of the key
};

struct sk_lock {
    struct sk_lock *prev, *next;
    struct sk_locker *locker;
    struct sk_lock_events events;
    void *arg;
    size_t n;
    size_t asked;         // replies under way
    bool taken;           // events.taken has run
    bool released;        // by the holder: freed when the last reply is in
    bool renewing;        // a renewal is under way
    bool shared;          // with others of the same holder
    uint64_t asked_at_ms; // the round of questions under way
    uint64_t held_until_ms;
    uint64_t renewal_asked_at_ms;
    uint64_t renew_at_ms;
    uint64_t retry_at_ms; // 0: no retry planned
    uint64_t give_up_at_ms;
    struct sk_backoff backoff;
    char token[TOKEN_SIZE];
    struct question *questions; // one for each key
    uint64_t *fences;           // NULL: not asked for
    const char **keys;          // point behind the states
    unsigned char *states;
};

static void ask_round(struct sk_lock *lock);
static void on_tick(uv_timer_t *timer);

static void unlink_lock(struct sk_lock *lock)
{
    if (lock->prev != NULL)
        lock->prev->next = lock->next;
    else
        lock->locker->locks = lock->next;
    if (lock->next != NULL)
        lock->next->prev = lock->prev;
}

static void free_if_done(struct sk_lock *lock)
{
    if (!lock->released || lock->asked > 0 || lock->renewing)
        return;
    unlink_lock(lock);
    free(lock);
}

static void on_released(void *arg, const struct sk_reply *reply)
{
    (void)arg;
    (void)reply; // if it failed, the TTL releases
}

// Another lock of the same holder that has this key; NULL: none.
static const struct sk_lock *fellow_with(const struct sk_lock *lock, const char *key, size_t *at)
{
    for (const struct sk_lock *other = lock->locker->locks; other != NULL; other = other->next) {
        if (other == lock || other->released || strcmp(other->token, lock->token) != 0)
            continue;
        for (*at = 0; *at < other->n; ++*at) {
            if (other->states[*at] == SK_LOCK_HELD && strcmp(other->keys[*at], key) == 0)
                return other;
        }
    }
    return NULL;
}

static bool is_to_be_freed(const struct sk_lock *lock, size_t i)
{
    size_t at;
    return lock->states[i] == SK_LOCK_HELD && (!lock->shared || fellow_with(lock, lock->keys[i], &at) == NULL);
}

static bool waits_for_one_of(const struct sk_lock *waiter, const struct sk_lock *lock)
{
    for (size_t i = 0; i < waiter->n; i++) {
        for (size_t k = 0; waiter->states[i] == SK_LOCK_BUSY && k < lock->n; k++) {
            if (lock->states[k] == SK_LOCK_HELD && strcmp(waiter->keys[i], lock->keys[k]) == 0)
                return true;
        }
    }
    return false;
}

// Those of this locker that wait for what has just been released ask again now: Redis gets it right after the release.
static void wake_waiters(const struct sk_lock *lock)
{
    for (struct sk_lock *other = lock->locker->locks; other != NULL; other = other->next) {
        if (other == lock || other->retry_at_ms == 0 || !waits_for_one_of(other, lock))
            continue;
        ask_round(other);
        if (other->asked == 0) // Redis is away; the next tick says so
            other->retry_at_ms = uv_now(other->locker->loop);
    }
}

// Sends the release of all keys in `state`; in chunks, so that Redis is never held up for long.
static void send_release(struct sk_lock *lock)
{
    const char *argv[RELEASE_MAX + 1];
    size_t i = 0;
    while (i < lock->n) {
        int n = 0;
        for (; i < lock->n && n < RELEASE_MAX; i++) {
            if (is_to_be_freed(lock, i))
                argv[n++] = lock->keys[i];
        }
        if (n == 0)
            break;
        argv[n] = lock->token;
        if (sk_redis_script(lock->locker->redis, SK_SCRIPT_LOCK_RELEASE, n, n + 1, argv, NULL, on_released, NULL) !=
            SK_OK)
            return; // Redis is away: the TTL releases
    }
    wake_waiters(lock);
}

static size_t count_state(const struct sk_lock *lock, enum sk_lock_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < lock->n; i++)
        count += lock->states[i] == state;
    return count;
}

static void round_answered(struct sk_lock *lock)
{
    uint64_t now = uv_now(lock->locker->loop);
    if (lock->released) {
        send_release(lock);
        free_if_done(lock);
        return;
    }
    if (count_state(lock, SK_LOCK_BUSY) > 0 && now < lock->give_up_at_ms) {
        lock->retry_at_ms = now + sk_backoff_next(&lock->backoff);
        return;
    }
    lock->taken = true;
    lock->events.taken(lock->arg, lock);
}

static bool is_granted(struct sk_lock *lock, size_t i, const struct sk_reply *reply)
{
    int64_t number = 0;
    const char *text = sk_reply_text(reply, NULL);
    if (lock->fences == NULL)
        return text != NULL && strcmp(text, "OK") == 0;
    if (!sk_reply_number(reply, &number) || number <= 0)
        return false;
    lock->fences[i] = (uint64_t)number;
    return true;
}

// Somebody has the key. If that is a fellow, it is ours as well, for as long as the fellow is sure of it.
static bool enter(struct sk_lock *lock, size_t i)
{
    size_t at;
    const struct sk_lock *fellow = lock->shared ? fellow_with(lock, lock->keys[i], &at) : NULL;
    if (fellow == NULL)
        return false;
    if (lock->fences != NULL)
        lock->fences[i] = fellow->fences == NULL ? 0 : fellow->fences[at];
    if (lock->held_until_ms == 0 || fellow->held_until_ms < lock->held_until_ms)
        lock->held_until_ms = fellow->held_until_ms;
    lock->renew_at_ms = lock->asked_at_ms;
    return true;
}

static void on_asked(void *arg, const struct sk_reply *reply)
{
    const struct question *question = arg;
    struct sk_lock *lock = question->lock;
    size_t i = question->i;
    if (reply == NULL || sk_reply_error(reply) != NULL)
        lock->states[i] = SK_LOCK_UNKNOWN;
    else
        lock->states[i] = is_granted(lock, i, reply) || enter(lock, i) ? SK_LOCK_HELD : SK_LOCK_BUSY;
    if (--lock->asked > 0)
        return;
    if (lock->held_until_ms == 0) { // the round of the first key counts for all
        lock->held_until_ms = lock->asked_at_ms + lock->locker->ttl_ms;
        lock->renew_at_ms = lock->asked_at_ms + lock->locker->ttl_ms / 3;
    }
    round_answered(lock);
}

static enum sk_status ask(struct sk_lock *lock, size_t i)
{
    struct sk_locker *locker = lock->locker;
    char name[NAME_SIZE];
    if (lock->fences == NULL) {
        const char *set[] = {"SET", lock->keys[i], lock->token, "NX", "PX", locker->ttl};
        return sk_redis_command(locker->redis, 6, set, NULL, on_asked, &lock->questions[i]);
    }
    const char *argv[] = {lock->keys[i], name, lock->token, locker->ttl};
    int len = snprintf(name, sizeof name, "%s:fence", lock->keys[i]);
    SK_ASSERT(len > 0 && len < NAME_SIZE);
    return sk_redis_script(locker->redis, SK_SCRIPT_LOCK_TAKE, 2, 4, argv, NULL, on_asked, &lock->questions[i]);
}

// Asks for every key that is BUSY (or new). Keys of a later round count as held no longer than those of
// the first round that got any: the next renewal treats all alike.
static void ask_round(struct sk_lock *lock)
{
    lock->asked_at_ms = uv_now(lock->locker->loop);
    lock->retry_at_ms = 0;
    if (count_state(lock, SK_LOCK_HELD) == 0)
        lock->held_until_ms = 0;
    for (size_t i = 0; i < lock->n; i++) {
        if (lock->states[i] != SK_LOCK_BUSY)
            continue;
        if (ask(lock, i) == SK_OK) {
            lock->states[i] = SK_LOCK_ASKED;
            lock->asked++;
        } else {
            lock->states[i] = SK_LOCK_UNKNOWN;
        }
    }
}

static struct sk_lock *new_lock(size_t n, const char *const *keys, bool fenced)
{
    size_t bytes = n * (sizeof(struct question) + sizeof(char *) + 1) + (fenced ? n * sizeof(uint64_t) : 0);
    for (size_t i = 0; i < n; i++)
        bytes += strlen(keys[i]) + 1;
    struct sk_lock *lock = calloc(1, sizeof *lock + bytes);
    if (lock == NULL)
        return NULL;
    lock->questions = (struct question *)(void *)(lock + 1);
    void *behind = lock->questions + n;
    lock->fences = fenced ? behind : NULL;
    lock->keys = fenced ? (const char **)(void *)(lock->fences + n) : behind;
    lock->states = (unsigned char *)(lock->keys + n);
    char *text = (char *)(lock->states + n);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(keys[i]) + 1;
        memcpy(text, keys[i], len);
        lock->keys[i] = text;
        lock->states[i] = SK_LOCK_BUSY;
        lock->questions[i] = (struct question){lock, i};
        text += len;
    }
    lock->n = n;
    return lock;
}

struct sk_lock *sk_lock_take(struct sk_locker *locker, size_t n, const char *const *keys,
                             const struct sk_lock_terms *terms, const struct sk_lock_events *events, void *arg)
{
    static const struct sk_lock_terms plain = {.wait_ms = 0};
    if (terms == NULL)
        terms = &plain;
    SK_ASSERT(terms->holder == NULL || strlen(terms->holder) <= SK_LOCK_HOLDER_MAX);
    struct sk_lock *lock = sk_redis_ready(locker->redis) && n > 0 ? new_lock(n, keys, terms->fenced) : NULL;
    if (lock == NULL)
        return NULL;
    lock->locker = locker;
    lock->events = *events;
    lock->arg = arg;
    lock->shared = terms->holder != NULL;
    lock->give_up_at_ms = uv_now(locker->loop) + terms->wait_ms;
    lock->backoff = (struct sk_backoff){.first_ms = RETRY_FIRST_MS,
                                        .most_ms = RETRY_MOST_MS,
                                        .random = ++locker->counter * UINT64_C(0x9e3779b97f4a7c15)};
    if (lock->shared) // a number would do for a name, hence the colon
        (void)snprintf(lock->token, sizeof lock->token, "%s:%s", locker->process, terms->holder);
    else
        (void)snprintf(lock->token, sizeof lock->token, "%s-%" PRIu64, locker->process, locker->counter);
    ask_round(lock);
    if (lock->asked == 0) { // nothing could be asked
        free(lock);
        return NULL;
    }
    lock->next = locker->locks;
    if (lock->next != NULL)
        lock->next->prev = lock;
    locker->locks = lock;
    if (!uv_is_active((uv_handle_t *)&locker->tick))
        (void)uv_timer_start(&locker->tick, on_tick, TICK_MS, TICK_MS);
    return lock;
}

enum sk_lock_state sk_lock_state(const struct sk_lock *lock, size_t i)
{
    SK_ASSERT(i < lock->n);
    return (enum sk_lock_state)lock->states[i];
}

uint64_t sk_lock_fence(const struct sk_lock *lock, size_t i)
{
    SK_ASSERT(i < lock->n);
    return lock->fences == NULL ? 0 : lock->fences[i];
}

void sk_lock_release(struct sk_lock *lock)
{
    if (lock == NULL)
        return;
    SK_ASSERT(!lock->released);
    lock->released = true;
    if (lock->asked == 0)
        send_release(lock);
    free_if_done(lock);
}

// ---- keeping ----

static void lose(struct sk_lock *lock, size_t i)
{
    if (lock->states[i] != SK_LOCK_HELD)
        return;
    lock->states[i] = SK_LOCK_LOST;
    if (lock->events.lost != NULL && lock->taken && !lock->released)
        lock->events.lost(lock->arg, lock, i);
}

static void on_renewed(void *arg, const struct sk_reply *reply)
{
    struct sk_lock *lock = arg;
    size_t len = 0;
    const char *held = reply == NULL ? NULL : sk_reply_text(reply, &len);
    if (held != NULL && lock->renewal_asked_at_ms != 0 && len == count_state(lock, SK_LOCK_HELD)) {
        lock->held_until_ms = lock->renewal_asked_at_ms + lock->locker->ttl_ms;
        // `held` speaks of the keys that were held when we asked, in order; nothing was lost meanwhile.
        for (size_t i = 0, at = 0; i < lock->n; i++) {
            if (lock->states[i] == SK_LOCK_HELD && held[at++] == '0')
                lose(lock, i);
        }
    }
    lock->renewing = false; // only now, so that a holder who releases when told does not free it under us
    free_if_done(lock);
}

static void renew(struct sk_lock *lock, uint64_t now)
{
    size_t held = count_state(lock, SK_LOCK_HELD);
    lock->renew_at_ms = now + lock->locker->ttl_ms / 3;
    if (held == 0 || held + 2 > SK_REDIS_ARGS_MAX)
        return;
    const char **argv = malloc((held + 2) * sizeof *argv);
    if (argv == NULL)
        return; // the next tick tries again
    size_t n = 0;
    for (size_t i = 0; i < lock->n; i++) {
        if (lock->states[i] == SK_LOCK_HELD)
            argv[n++] = lock->keys[i];
    }
    argv[n] = lock->token;
    argv[n + 1] = lock->locker->ttl;
    lock->renewal_asked_at_ms = now;
    lock->renewing = sk_redis_script(lock->locker->redis, SK_SCRIPT_LOCK_RENEW, (int)n, (int)n + 2, argv, NULL,
                                     on_renewed, lock) == SK_OK;
    free(argv);
}

// The TTL has passed. What is waited for goes on being waited for; a renewal under way has come too late.
static void lose_all(struct sk_lock *lock)
{
    bool renewing = lock->renewing;
    lock->renewing = true; // keeps the lock in place while its holder is told
    lock->held_until_ms = 0;
    lock->renewal_asked_at_ms = 0;
    for (size_t i = 0; i < lock->n; i++)
        lose(lock, i);
    lock->renewing = renewing;
}

static void keep(struct sk_lock *lock, uint64_t now)
{
    if (lock->released)
        return;
    if (lock->held_until_ms != 0 && now >= lock->held_until_ms) {
        lose_all(lock);
        if (lock->released) {
            free_if_done(lock);
            return;
        }
    }
    if (lock->held_until_ms != 0 && !lock->renewing && now >= lock->renew_at_ms)
        renew(lock, now);
    if (lock->retry_at_ms != 0 && now >= lock->retry_at_ms) {
        ask_round(lock);
        if (lock->asked == 0)
            round_answered(lock); // Redis is away: what is left is UNKNOWN
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct sk_locker *locker = timer->data;
    uint64_t now = uv_now(locker->loop);
    if (locker->locks == NULL)
        (void)uv_timer_stop(timer);
    for (struct sk_lock *lock = locker->locks, *next; lock != NULL; lock = next) {
        next = lock->next; // a holder may release inside its callback, and only its own lock
        keep(lock, now);
    }
}

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

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void sk_locker_close(struct sk_locker *locker)
{
    if (locker == NULL)
        return;
    while (locker->locks != NULL) {
        struct sk_lock *next = locker->locks->next;
        SK_ASSERT(locker->locks->asked == 0 && !locker->locks->renewing);
        free(locker->locks);
        locker->locks = next;
    }
    uv_close((uv_handle_t *)&locker->tick, on_closed);
}
