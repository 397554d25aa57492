#include "views.h"

#include <check.h>

#include "stack.h"
#include "stores.h"

static void view_on_taken(void *arg, struct general_lock *lock);
static void view_on_lost(void *arg, struct general_lock *lock, size_t i);

const struct general_lock_events view_events = {view_on_taken, view_on_lost};

// ---- parties ----

static void close_locker(void *locker)
{
    general_locker_close(locker);
}

struct party *open_impatient_party(uint32_t ttl_ms, uint32_t redis_timeout_ms)
{
    struct party *party = party_open(redis_timeout_ms);
    party->part = general_locker_open(&party->loop, party_redis(party), ttl_ms);
    party->close_part = close_locker;
    must(party->part != NULL, "locker");
    return party;
}

struct party *open_party(uint32_t ttl_ms)
{
    return open_impatient_party(ttl_ms, REDIS_TIMEOUT_MS);
}

// ---- locks ----

static void view_on_taken(void *arg, struct general_lock *lock)
{
    struct view *view = arg;
    must(view->lock == NULL || view->lock == lock, "another lock's event");
    view->taken++;
    view->taken_at_ms = sk_monotonic_ms();
    if (view->release_when_taken)
        general_lock_release(lock);
}

static void view_on_lost(void *arg, struct general_lock *lock, size_t i)
{
    struct view *view = arg;
    view->lost++;
    view->lost_key = i;
    if (view->release_when_lost && view->lost == 1) {
        view->lock = NULL;
        general_lock_release(lock);
    }
}

void ask_with(struct party *party, struct view *view, size_t n, const char *const *keys,
              const struct general_lock_options *options)
{
    view->lock = general_lock_take(party->part, n, keys, options, &view_events, view);
    must(view->lock != NULL, "nothing was asked");
    must(view->taken == 0, "a callback inside the call");
}

void ask_many(struct party *party, struct view *view, size_t n, const char *const *keys, uint32_t wait_ms)
{
    const struct general_lock_options options = {.wait_ms = wait_ms};
    ask_with(party, view, n, keys, wait_ms == 0 ? NULL : &options);
}

void ask(struct party *party, struct view *view, const char *key, uint32_t wait_ms)
{
    ask_many(party, view, 1, &key, wait_ms);
}

enum general_lock_state take(struct party *party, struct view *view, const char *key, uint32_t wait_ms)
{
    *view = (struct view){0};
    ask(party, view, key, wait_ms);
    RUN_UNTIL(view->taken > 0);
    return general_lock_state(view->lock, 0);
}

void take_all(struct party *party, struct view *view, size_t n, const char *const *keys)
{
    *view = (struct view){0};
    ask_many(party, view, n, keys, 0);
    RUN_UNTIL(view->taken > 0);
    for (size_t i = 0; i < n; i++)
        must(general_lock_state(view->lock, i) == GENERAL_LOCK_HELD, "a free key was not given");
}

void release(struct party *party, struct view *view)
{
    general_lock_release(view->lock);
    view->lock = NULL;
    party_settle(party);
}

bool exists(const char *key)
{
    return redis_number("EXISTS %s", key) == 1;
}

void must_hold(const char *key, const char *value)
{
    char now[VALUE_SIZE];
    (void)redis_text(now, sizeof now, "GET %s", key);
    ck_assert_str_eq(now, value);
}

// ---- fixtures ----

void views_start(void)
{
    stack_redis_with_all_rights(); // the general lock names its keys itself
    stack_start(STACK_REDIS);
}

void views_setup(void)
{
    redis_run("FLUSHALL");
    redis_run("CONFIG RESETSTAT");
}

void views_teardown(void)
{
    parties_give_up();
    service_stop_all(); // resumes Redis if a test has left it stopped
}
