// Each key has a command of its own; all commands go in one write. Scripts are sent as EVAL with their text, because
// the link knows only the service's scripts.
//
// One timer serves all locks of a locker. It renews each lock when a third of its TTL has passed since the last
// renewal, and retries busy keys. A key counts as lost when Redis reports it, or when a whole TTL has passed since the
// last renewal that Redis confirmed. That time is the process's monotonic clock, counted from sending the renewal. So
// the owner gives up before Redis does.
#include "general_lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "approach_embedded.h"
#include "backoff.h"
#include "uuid.h"

enum { TOKEN_SIZE = 56, NAME_SIZE = 160, RELEASE_MAX = 1024, TICK_MS = 4, RETRY_FIRST_MS = 4, RETRY_MOST_MS = 100 };
enum { EVAL_WORDS = 3 }; // EVAL, the text, the number of keys

struct general_locker {
    uv_loop_t *loop;
    struct sk_redis *redis;
    uv_timer_t tick;
    struct general_lock *locks;
    uint64_t counter;
    uint32_t ttl_ms;
    char ttl[12];
    char process[33]; // random: no two processes share a token
};

enum lock_phase {
    LOCK_ASKING,  // a round of requests is under way
    LOCK_WAITING, // for the next round
    LOCK_TAKEN,
    LOCK_RELEASED, // freed when the last reply has arrived
};

struct lock_key {
    struct general_lock *lock;
    const char *name; // points behind the keys
    uint64_t number;  // 0: none
    enum general_lock_state state;
};

struct general_lock {
    struct general_lock *prev, *next;
    struct general_locker *locker;
    struct general_lock_events events;
    void *arg;
    enum lock_phase phase;
    size_t asked;  // replies missing from this round
    bool renewing; // a renewal is under way, or the owner is in its `lost` callback: not freed meanwhile
    bool shared, numbered;
    uint64_t asked_at_ms;   // the time of this round
    uint64_t held_until_ms; // 0: nothing is held
    uint64_t renewal_asked_at_ms, renew_at_ms, retry_at_ms, give_up_at_ms;
    struct sk_backoff backoff;
    char token[TOKEN_SIZE];
    size_t n;
    struct lock_key keys[];
};

static void locker_on_tick(uv_timer_t *timer);
static void locker_on_closed(uv_handle_t *handle);
static struct general_lock *lock_new(size_t n, const char *const *keys);
static void lock_ask_round(struct general_lock *lock);
static enum sk_status lock_ask(struct lock_key *key);
static void lock_on_asked(void *arg, const struct sk_reply *reply);
static bool lock_is_granted(struct lock_key *key, const struct sk_reply *reply);
static bool lock_enter(struct lock_key *key);
static const struct lock_key *lock_fellow(const struct lock_key *key);
static void lock_round_answered(struct general_lock *lock);
static void lock_keep(struct general_lock *lock, uint64_t now);
static void lock_renew(struct general_lock *lock, uint64_t now);
static void lock_on_renewed(void *arg, const struct sk_reply *reply);
static void lock_lose_all(struct general_lock *lock);
static void lock_lose(struct general_lock *lock, size_t i);
static void lock_send_release(struct general_lock *lock);
static void lock_on_released(void *arg, const struct sk_reply *reply);
static void lock_wake_waiters(const struct general_lock *lock);
static bool lock_has_one_of(const struct general_lock *lock, const struct general_lock *waiter);
static void lock_move(struct general_lock *lock, enum lock_phase phase);
static size_t lock_count(const struct general_lock *lock, enum general_lock_state state);
static void lock_free_if_done(struct general_lock *lock);

struct general_locker *general_locker_open(uv_loop_t *loop, struct sk_redis *redis, uint32_t ttl_ms)
{
    struct general_locker *locker = calloc(1, sizeof *locker);
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

void general_locker_close(struct general_locker *locker)
{
    if (locker == NULL)
        return;
    while (locker->locks != NULL) {
        struct general_lock *next = locker->locks->next;
        SK_ASSERT(locker->locks->asked == 0 && !locker->locks->renewing);
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

struct general_lock *general_lock_take(struct general_locker *locker, size_t n, const char *const *keys,
                                       const struct general_lock_options *options,
                                       const struct general_lock_events *events, void *arg)
{
    static const struct general_lock_options plain = {.wait_ms = 0};
    options = options == NULL ? &plain : options;
    SK_ASSERT(options->owner == NULL || strlen(options->owner) <= GENERAL_LOCK_OWNER_MAX);
    struct general_lock *lock = sk_redis_ready(locker->redis) && n > 0 ? lock_new(n, keys) : NULL;
    if (lock == NULL)
        return NULL;
    lock->locker = locker;
    lock->events = *events;
    lock->arg = arg;
    lock->shared = options->owner != NULL;
    lock->numbered = options->numbered;
    lock->give_up_at_ms = uv_now(locker->loop) + options->wait_ms;
    lock->backoff = (struct sk_backoff){.first_ms = RETRY_FIRST_MS,
                                        .most_ms = RETRY_MOST_MS,
                                        .random = ++locker->counter * UINT64_C(0x9e3779b97f4a7c15)};
    if (lock->shared) // the colon: a name may also be a number
        (void)snprintf(lock->token, sizeof lock->token, "%s:%s", locker->process, options->owner);
    else
        (void)snprintf(lock->token, sizeof lock->token, "%s-%" PRIu64, locker->process, locker->counter);
    lock_ask_round(lock);
    if (lock->asked == 0) { // nothing could be sent
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

static struct general_lock *lock_new(size_t n, const char *const *keys)
{
    size_t bytes = n * sizeof(struct lock_key);
    for (size_t i = 0; i < n; i++)
        bytes += strlen(keys[i]) + 1;
    struct general_lock *lock = calloc(1, sizeof *lock + bytes);
    if (lock == NULL)
        return NULL;
    char *text = (char *)(lock->keys + n);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(keys[i]) + 1;
        memcpy(text, keys[i], len);
        lock->keys[i] = (struct lock_key){.lock = lock, .name = text, .state = GENERAL_LOCK_BUSY};
        text += len;
    }
    lock->n = n;
    return lock;
}

// Requests every key that is BUSY (or new). All keys share one expiry, from the first round that was granted any; the
// next renewal aligns the keys of later rounds.
static void lock_ask_round(struct general_lock *lock)
{
    lock->asked_at_ms = uv_now(lock->locker->loop);
    if (lock_count(lock, GENERAL_LOCK_HELD) == 0)
        lock->held_until_ms = 0;
    for (size_t i = 0; i < lock->n; i++) {
        if (lock->keys[i].state != GENERAL_LOCK_BUSY)
            continue;
        if (lock_ask(&lock->keys[i]) == SK_OK) {
            lock->keys[i].state = GENERAL_LOCK_ASKED;
            lock->asked++;
        } else {
            lock->keys[i].state = GENERAL_LOCK_UNKNOWN;
        }
    }
    if (lock->asked > 0 && lock->phase == LOCK_WAITING)
        lock_move(lock, LOCK_ASKING);
}

static enum sk_status lock_ask(struct lock_key *key)
{
    const struct general_lock *lock = key->lock;
    const struct general_locker *locker = lock->locker;
    char last[NAME_SIZE];
    if (!lock->numbered) {
        const char *set[] = {"SET", key->name, lock->token, "NX", "PX", locker->ttl};
        return sk_redis_command(locker->redis, 6, set, NULL, lock_on_asked, key);
    }
    const char *eval[] = {
        "EVAL", sk_approach_scripts[APPROACH_SCRIPT_LOCK_TAKE].text, "2", key->name, last, lock->token, locker->ttl};
    int len = snprintf(last, sizeof last, "%s:number", key->name);
    SK_ASSERT(len > 0 && len < NAME_SIZE);
    return sk_redis_command(locker->redis, 7, eval, NULL, lock_on_asked, key);
}

static void lock_on_asked(void *arg, const struct sk_reply *reply)
{
    struct lock_key *key = arg;
    struct general_lock *lock = key->lock;
    if (reply == NULL || sk_reply_error(reply) != NULL)
        key->state = GENERAL_LOCK_UNKNOWN;
    else
        key->state = lock_is_granted(key, reply) || lock_enter(key) ? GENERAL_LOCK_HELD : GENERAL_LOCK_BUSY;
    if (--lock->asked > 0)
        return;
    if (lock->held_until_ms == 0) {
        lock->held_until_ms = lock->asked_at_ms + lock->locker->ttl_ms;
        lock->renew_at_ms = lock->asked_at_ms + lock->locker->ttl_ms / 3;
    }
    lock_round_answered(lock);
}

static bool lock_is_granted(struct lock_key *key, const struct sk_reply *reply)
{
    int64_t number = 0;
    const char *text = sk_reply_text(reply, NULL);
    if (!key->lock->numbered)
        return text != NULL && strcmp(text, "OK") == 0;
    if (!sk_reply_number(reply, &number) || number <= 0)
        return false;
    key->number = (uint64_t)number;
    return true;
}

// The key is busy. If another lock of this owner (a fellow) holds it, this lock holds it too, as long as the fellow is
// sure of it.
static bool lock_enter(struct lock_key *key)
{
    struct general_lock *lock = key->lock;
    const struct lock_key *fellow = lock->shared ? lock_fellow(key) : NULL;
    if (fellow == NULL)
        return false;
    key->number = lock->numbered ? fellow->number : 0;
    if (lock->held_until_ms == 0 || fellow->lock->held_until_ms < lock->held_until_ms)
        lock->held_until_ms = fellow->lock->held_until_ms;
    lock->renew_at_ms = lock->asked_at_ms;
    return true;
}

// The same key in another lock of the same owner that holds it; NULL: none.
static const struct lock_key *lock_fellow(const struct lock_key *key)
{
    const struct general_lock *lock = key->lock;
    for (const struct general_lock *other = lock->locker->locks; other != NULL; other = other->next) {
        if (other == lock || other->phase == LOCK_RELEASED || strcmp(other->token, lock->token) != 0)
            continue;
        for (size_t i = 0; i < other->n; i++) {
            if (other->keys[i].state == GENERAL_LOCK_HELD && strcmp(other->keys[i].name, key->name) == 0)
                return &other->keys[i];
        }
    }
    return NULL;
}

static void lock_round_answered(struct general_lock *lock)
{
    uint64_t now = uv_now(lock->locker->loop);
    if (lock->phase == LOCK_RELEASED) {
        lock_send_release(lock);
        lock_free_if_done(lock);
        return;
    }
    if (lock_count(lock, GENERAL_LOCK_BUSY) > 0 && now < lock->give_up_at_ms) {
        lock->retry_at_ms = now + sk_backoff_next(&lock->backoff);
        lock_move(lock, LOCK_WAITING);
        return;
    }
    lock_move(lock, LOCK_TAKEN);
    lock->events.taken(lock->arg, lock);
}

enum general_lock_state general_lock_state(const struct general_lock *lock, size_t i)
{
    SK_ASSERT(i < lock->n);
    return lock->keys[i].state;
}

uint64_t general_lock_number(const struct general_lock *lock, size_t i)
{
    SK_ASSERT(i < lock->n);
    return lock->keys[i].number;
}

// ---- keep ----

static void locker_on_tick(uv_timer_t *timer)
{
    struct general_locker *locker = timer->data;
    uint64_t now = uv_now(locker->loop);
    if (locker->locks == NULL)
        (void)uv_timer_stop(timer);
    for (struct general_lock *lock = locker->locks, *next; lock != NULL; lock = next) {
        next = lock->next; // an owner may release inside its callback, and only its own lock
        if (lock->phase != LOCK_RELEASED)
            lock_keep(lock, now);
    }
}

static void lock_keep(struct general_lock *lock, uint64_t now)
{
    if (lock->held_until_ms != 0 && now >= lock->held_until_ms) {
        lock_lose_all(lock);
        if (lock->phase == LOCK_RELEASED) {
            lock_free_if_done(lock);
            return;
        }
    }
    if (lock->held_until_ms != 0 && !lock->renewing && now >= lock->renew_at_ms)
        lock_renew(lock, now);
    if (lock->phase == LOCK_WAITING && now >= lock->retry_at_ms) {
        lock_ask_round(lock);
        if (lock->asked == 0)
            lock_round_answered(lock); // Redis is away: the keys not answered yet are UNKNOWN
    }
}

static void lock_renew(struct general_lock *lock, uint64_t now)
{
    size_t n = EVAL_WORDS, held = lock_count(lock, GENERAL_LOCK_HELD), words = EVAL_WORDS + held + 2;
    char count[24];
    lock->renew_at_ms = now + lock->locker->ttl_ms / 3;
    if (held == 0 || words > SK_REDIS_ARGS_MAX)
        return;
    const char **argv = malloc(words * sizeof *argv);
    if (argv == NULL)
        return; // repeated after another third of the TTL
    (void)snprintf(count, sizeof count, "%zu", held);
    argv[0] = "EVAL";
    argv[1] = sk_approach_scripts[APPROACH_SCRIPT_LOCK_RENEW].text;
    argv[2] = count;
    for (size_t i = 0; i < lock->n; i++) {
        if (lock->keys[i].state == GENERAL_LOCK_HELD)
            argv[n++] = lock->keys[i].name;
    }
    argv[n] = lock->token;
    argv[n + 1] = lock->locker->ttl;
    lock->renewal_asked_at_ms = now;
    lock->renewing = sk_redis_command(lock->locker->redis, (int)words, argv, NULL, lock_on_renewed, lock) == SK_OK;
    free(argv);
}

static void lock_on_renewed(void *arg, const struct sk_reply *reply)
{
    struct general_lock *lock = arg;
    size_t len = 0;
    const char *held = reply == NULL ? NULL : sk_reply_text(reply, &len);
    if (held != NULL && lock->renewal_asked_at_ms != 0 && len == lock_count(lock, GENERAL_LOCK_HELD)) {
        lock->held_until_ms = lock->renewal_asked_at_ms + lock->locker->ttl_ms;
        // One character for each key held when the renewal was sent, in order; the equal count shows that the keys are
        // still the same.
        for (size_t i = 0, at = 0; i < lock->n; i++) {
            if (lock->keys[i].state == GENERAL_LOCK_HELD && held[at++] == '0')
                lock_lose(lock, i);
        }
    }
    lock->renewing = false; // only now, so that an owner who releases in `lost` does not free the lock during this loop
    lock_free_if_done(lock);
}

// The TTL has passed. Keys that are waited for are still waited for; a renewal under way is too late.
static void lock_lose_all(struct general_lock *lock)
{
    bool renewing = lock->renewing;
    lock->renewing = true; // keeps the lock allocated during the owner's callbacks
    lock->held_until_ms = 0;
    lock->renewal_asked_at_ms = 0;
    for (size_t i = 0; i < lock->n; i++)
        lock_lose(lock, i);
    lock->renewing = renewing;
}

static void lock_lose(struct general_lock *lock, size_t i)
{
    if (lock->keys[i].state != GENERAL_LOCK_HELD)
        return;
    lock->keys[i].state = GENERAL_LOCK_LOST;
    if (lock->events.lost != NULL && lock->phase == LOCK_TAKEN)
        lock->events.lost(lock->arg, lock, i);
}

// ---- release ----

void general_lock_release(struct general_lock *lock)
{
    if (lock == NULL)
        return;
    lock_move(lock, LOCK_RELEASED);
    if (lock->asked == 0)
        lock_send_release(lock);
    lock_free_if_done(lock);
}

// Sends chunks, so that Redis is never blocked for long. Keys that a fellow still holds stay.
static void lock_send_release(struct general_lock *lock)
{
    char count[12];
    const char *argv[EVAL_WORDS + RELEASE_MAX + 1] = {"EVAL", sk_approach_scripts[APPROACH_SCRIPT_LOCK_RELEASE].text,
                                                      count};
    for (size_t i = 0; i < lock->n;) {
        int n = 0;
        for (; i < lock->n && n < RELEASE_MAX; i++) {
            const struct lock_key *key = &lock->keys[i];
            if (key->state == GENERAL_LOCK_HELD && (!lock->shared || lock_fellow(key) == NULL))
                argv[EVAL_WORDS + n++] = key->name;
        }
        (void)snprintf(count, sizeof count, "%d", n);
        argv[EVAL_WORDS + n] = lock->token;
        if (n > 0 &&
            sk_redis_command(lock->locker->redis, EVAL_WORDS + n + 1, argv, NULL, lock_on_released, NULL) != SK_OK)
            return; // Redis is away: the TTL releases
    }
    lock_wake_waiters(lock);
}

static void lock_on_released(void *arg, const struct sk_reply *reply)
{
    (void)arg;
    (void)reply; // if it failed, the TTL releases
}

// Locks of this locker that wait for a key just released retry at once: Redis gets their request right after the
// release.
static void lock_wake_waiters(const struct general_lock *lock)
{
    for (struct general_lock *other = lock->locker->locks; other != NULL; other = other->next) {
        if (other->phase != LOCK_WAITING || !lock_has_one_of(lock, other))
            continue;
        lock_ask_round(other);
        if (other->asked == 0) // Redis is away; the next tick reports it to the owner
            other->retry_at_ms = uv_now(other->locker->loop);
    }
}

static bool lock_has_one_of(const struct general_lock *lock, const struct general_lock *waiter)
{
    for (size_t i = 0; i < waiter->n; i++) {
        for (size_t k = 0; waiter->keys[i].state == GENERAL_LOCK_BUSY && k < lock->n; k++) {
            if (lock->keys[k].state == GENERAL_LOCK_HELD && strcmp(waiter->keys[i].name, lock->keys[k].name) == 0)
                return true;
        }
    }
    return false;
}

// ---- what all share ----

static void lock_move(struct general_lock *lock, enum lock_phase phase)
{
    static const bool allowed[LOCK_RELEASED + 1][LOCK_RELEASED + 1] = {
        [LOCK_ASKING] = {[LOCK_WAITING] = true, [LOCK_TAKEN] = true, [LOCK_RELEASED] = true},
        [LOCK_WAITING] = {[LOCK_ASKING] = true, [LOCK_TAKEN] = true, [LOCK_RELEASED] = true},
        [LOCK_TAKEN] = {[LOCK_RELEASED] = true},
    };
    SK_ASSERT(allowed[lock->phase][phase]);
    lock->phase = phase;
}

static size_t lock_count(const struct general_lock *lock, enum general_lock_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < lock->n; i++)
        count += lock->keys[i].state == state;
    return count;
}

static void lock_free_if_done(struct general_lock *lock)
{
    if (lock->phase != LOCK_RELEASED || lock->asked > 0 || lock->renewing)
        return;
    if (lock->prev != NULL)
        lock->prev->next = lock->next;
    else
        lock->locker->locks = lock->next;
    if (lock->next != NULL)
        lock->next->prev = lock->prev;
    free(lock);
}
