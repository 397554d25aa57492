// The lock module on a real Redis: what a lock promises its owner and the others, also when owners are paused, stopped
// or killed, and when Redis is.
#include <check.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "lock.h"
#include "parties.h"
#include "stack.h"
#include "stores.h"

enum {
    KEYS_MAX = 500,
    VALUE_SIZE = 80,
    KEY_SIZE = 24,
    REDIS_TIMEOUT_MS = 5000,
    LONG_TTL_MS = 10000, // is not even renewed within a test
    KEPT_TTL_MS = 1000,  // is renewed, and survives a busy machine
    SHORT_TTL_MS = 200,  // for tests that want it to run out
    CLOCK_GRAIN_MS = 5,  // Redis and we round differently
};

// A lock as its owner sees it.
struct view {
    struct sk_lock *lock;
    bool release_when_taken;
    int taken;
};

// ---- parties with a locker ----

static void close_locker(void *locker)
{
    sk_locker_close(locker);
}

static struct party *open_with(uint32_t ttl_ms, uint32_t redis_timeout_ms)
{
    struct party *party = party_open(redis_timeout_ms);
    party->part = sk_locker_open(&party->loop, party->redis, ttl_ms);
    party->close_part = close_locker;
    must(party->part != NULL, "locker");
    return party;
}

static struct party *open_party(uint32_t ttl_ms)
{
    return open_with(ttl_ms, REDIS_TIMEOUT_MS);
}

static void on_taken(void *arg, struct sk_lock *lock)
{
    struct view *view = arg;
    must(view->lock == NULL || view->lock == lock, "another lock's event");
    view->taken++;
    if (view->release_when_taken)
        sk_lock_release(lock);
}

static const struct sk_lock_events events = {on_taken};

static void ask_many(struct party *party, struct view *view, size_t n, const char *const *keys)
{
    view->lock = sk_lock_take(party->part, n, keys, &events, view);
    must(view->lock != NULL, "nothing was asked");
    must(view->taken == 0, "a callback inside the call");
}

static void ask(struct party *party, struct view *view, const char *key)
{
    ask_many(party, view, 1, &key);
}

// Asks, waits for the answer, and returns it.
static enum sk_lock_state take(struct party *party, struct view *view, const char *key)
{
    *view = (struct view){0};
    ask(party, view, key);
    RUN_UNTIL(view->taken > 0);
    return sk_lock_state(view->lock, 0);
}

// Asks until it is granted.
static void take_in_the_end(struct party *party, struct view *view, const char *key)
{
    RUN_UNTIL(take(party, view, key) == SK_LOCK_HELD || (sk_lock_release(view->lock), false));
}

static void take_all(struct party *party, struct view *view, size_t n, const char *const *keys)
{
    *view = (struct view){0};
    ask_many(party, view, n, keys);
    RUN_UNTIL(view->taken > 0);
    for (size_t i = 0; i < n; i++)
        must(sk_lock_state(view->lock, i) == SK_LOCK_HELD, "a free key was not given");
}

static void release(struct party *party, struct view *view)
{
    sk_lock_release(view->lock);
    view->lock = NULL;
    party_settle(party);
}

static bool exists(const char *key)
{
    return redis_number("EXISTS %s", key) == 1;
}

static void must_hold(const char *key, const char *value)
{
    char now[VALUE_SIZE];
    (void)redis_text(now, sizeof now, "GET %s", key);
    ck_assert_str_eq(now, value);
}

// ---- fixtures ----

static void start(void)
{
    stack_start(STACK_REDIS);
}

static void setup(void)
{
    redis_run("FLUSHALL");
    redis_run("CONFIG RESETSTAT");
}

static void teardown(void)
{
    parties_give_up();
    service_stop_all(); // brings Redis back if a test has left it stopped
}

// ---- exclusion ----

enum { PROCESSES = 4, ROUNDS = 40 };

struct shared {
    bool locked;
    volatile long count; // read, then written: two at a time lose one
    atomic_int inside, overlaps;
};

static void count_up(int says, void *arg)
{
    struct shared *shared = arg;
    struct party *party = open_party(LONG_TTL_MS);
    (void)says;
    for (int i = 0; i < ROUNDS; i++) {
        struct view view = {0};
        if (shared->locked)
            take_in_the_end(party, &view, "counter");
        shared->overlaps += shared->inside++ != 0;
        long count = shared->count;
        (void)usleep(300);
        shared->count = count + 1;
        shared->inside--;
        if (shared->locked)
            release(party, &view);
    }
    party_close(party);
}

static struct shared *count_in_processes(bool locked)
{
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct child *counting[PROCESSES];
    ck_assert(shared != MAP_FAILED);
    shared->locked = locked;
    for (int i = 0; i < PROCESSES; i++)
        counting[i] = child_start(count_up, shared);
    for (int i = 0; i < PROCESSES; i++)
        ck_assert_int_eq(child_wait(counting[i]), 0);
    return shared;
}

START_TEST(processes_exclude_each_other)
{
    struct shared *shared = count_in_processes(true);
    ck_assert_int_eq(shared->overlaps, 0);
    ck_assert_int_eq(shared->count, PROCESSES * ROUNDS);
    (void)munmap(shared, sizeof *shared);
}
END_TEST

// The negative control of the test above.
START_TEST(without_the_lock_counts_are_lost)
{
    struct shared *shared = count_in_processes(false);
    ck_assert_int_gt(shared->overlaps, 0);
    ck_assert_int_lt(shared->count, PROCESSES * ROUNDS);
    (void)munmap(shared, sizeof *shared);
}
END_TEST

START_TEST(a_busy_key_is_asked_for_once_and_left_alone)
{
    struct party *party = open_party(LONG_TTL_MS);
    struct view first, second;
    ck_assert_int_eq(take(party, &first, "key"), SK_LOCK_HELD);
    redis_run("CONFIG RESETSTAT");
    ck_assert_int_eq(take(party, &second, "key"), SK_LOCK_BUSY); // even for the owner of another lock in this process
    party_settle(party);
    ck_assert_int_eq(redis_calls_of("set"), 1);
    release(party, &second); // holds nothing, so nothing goes
    ck_assert(exists("key"));
    release(party, &first);
    ck_assert(!exists("key"));
    ck_assert_int_eq(take(party, &second, "key"), SK_LOCK_HELD);
    release(party, &second);
    party_close(party);
}
END_TEST

// A lock without a TTL would outlive a crash, however short the moment between two commands.
START_TEST(a_lock_is_never_without_a_ttl)
{
    struct party *party = open_party(LONG_TTL_MS);
    struct view view;
    ck_assert_int_eq(take(party, &view, "key"), SK_LOCK_HELD);
    ck_assert_int_gt(redis_number("PTTL key"), 0);
    ck_assert_int_le(redis_number("PTTL key"), LONG_TTL_MS);
    ck_assert_int_eq(redis_calls_of("set"), 1);
    ck_assert_int_eq(redis_calls_of("pexpire") + redis_calls_of("expire") + redis_calls_of("setnx"), 0);
    release(party, &view);
    party_close(party);
}
END_TEST

// ---- paused and crashed owners ----

// The owner stands still past its TTL, another one takes over, and the first one renews and releases without knowing.
START_TEST(a_paused_owner_renews_and_releases_nothing_of_anothers)
{
    static const char *const keys[] = {"key-0", "key-1"};
    struct party *slow = open_party(SHORT_TTL_MS), *other = open_party(LONG_TTL_MS);
    struct view slow_view, other_view;
    char value[VALUE_SIZE];
    take_all(slow, &slow_view, 2, keys);
    slow->paused = true;
    WAIT_FOR(!exists("key-0") && !exists("key-1"));
    ck_assert_int_eq(take(other, &other_view, "key-1"), SK_LOCK_HELD);
    ck_assert(redis_text(value, sizeof value, "GET key-1"));

    slow->paused = false;
    redis_run("CONFIG RESETSTAT");
    RUN_UNTIL(redis_calls_of("evalsha") >= 2); // renewals
    ck_assert(!exists("key-0"));
    must_hold("key-1", value);
    ck_assert_int_gt(redis_number("PTTL key-1"), SHORT_TTL_MS);
    release(slow, &slow_view);
    must_hold("key-1", value);
    release(other, &other_view);
    ck_assert(!exists("key-1"));
    party_close(slow);
    party_close(other);
}
END_TEST

static void hold(int says, void *arg)
{
    struct party *party = open_party(KEPT_TTL_MS);
    struct view view;
    (void)arg;
    must(take(party, &view, "key") == SK_LOCK_HELD, "the key is free");
    child_say(says, 'h');
    RUN_UNTIL(false);
}

START_TEST(a_crashed_owners_lock_expires_and_not_before_its_time)
{
    struct party *heir = open_party(LONG_TTL_MS);
    struct view view;
    struct child *owner = child_start(hold, NULL);
    child_must_say(owner, 'h');
    child_signal(owner, SIGKILL);
    ck_assert(WIFSIGNALED(child_wait(owner)));
    ck_assert_int_eq(take(heir, &view, "key"), SK_LOCK_BUSY);
    release(heir, &view);

    uint64_t since_ms = sk_monotonic_ms();
    int64_t left_ms = redis_number("PTTL key");
    ck_assert_int_gt(left_ms, 0);
    take_in_the_end(heir, &view, "key");
    ck_assert_int_ge((int64_t)(sk_monotonic_ms() - since_ms), left_ms - CLOCK_GRAIN_MS);
    release(heir, &view);
    party_close(heir);
}
END_TEST

START_TEST(a_stopped_owners_lock_expires)
{
    struct party *heir = open_party(LONG_TTL_MS);
    struct view view;
    struct child *owner = child_start(hold, NULL);
    child_must_say(owner, 'h');
    child_signal(owner, SIGSTOP);
    take_in_the_end(heir, &view, "key");
    child_signal(owner, SIGKILL);
    ck_assert(WIFSIGNALED(child_wait(owner)));
    release(heir, &view);
    party_close(heir);
}
END_TEST

// ---- renewal ----

START_TEST(renewal_keeps_the_lock_of_a_long_job)
{
    static const char *const keys[] = {"key-0", "key-1", "key-2"};
    struct party *owner = open_party(KEPT_TTL_MS), *other = open_party(KEPT_TTL_MS);
    struct view view, try;
    char value[VALUE_SIZE];
    take_all(owner, &view, 3, keys);
    ck_assert(redis_text(value, sizeof value, "GET key-0"));
    uint64_t until_ms = sk_monotonic_ms() + (uint64_t)3 * KEPT_TTL_MS;
    for (int i = 0; sk_monotonic_ms() < until_ms; i++) {
        ck_assert_int_eq(take(other, &try, keys[i % 3]), SK_LOCK_BUSY);
        sk_lock_release(try.lock);
    }
    for (int i = 0; i < 3; i++)
        must_hold(keys[i], value);
    release(owner, &view);
    ck_assert_int_eq(redis_number("DBSIZE"), 0);
    party_close(owner);
    party_close(other);
}
END_TEST

START_TEST(renewal_survives_the_loss_of_the_scripts)
{
    struct party *party = open_party(KEPT_TTL_MS);
    struct view view;
    ck_assert_int_eq(take(party, &view, "key"), SK_LOCK_HELD);
    uint64_t until_ms = sk_monotonic_ms() + 3 * KEPT_TTL_MS / 2;
    while (sk_monotonic_ms() < until_ms) {
        redis_run("SCRIPT FLUSH");
        parties_run();
    }
    ck_assert(exists("key"));
    redis_run("SCRIPT FLUSH");
    sk_lock_release(view.lock);
    RUN_UNTIL(!exists("key"));
    party_close(party);
}
END_TEST

START_TEST(lost_keys_stay_lost_and_the_others_are_kept)
{
    static const char *const keys[] = {"key-0", "key-1", "key-2"};
    struct party *party = open_party(KEPT_TTL_MS);
    struct view view;
    take_all(party, &view, 3, keys);
    redis_run("DEL key-1");
    redis_run("SET key-2 thief");
    uint64_t later_ms = sk_monotonic_ms() + 3 * KEPT_TTL_MS / 2;
    RUN_UNTIL(sk_monotonic_ms() >= later_ms);
    ck_assert(exists("key-0") && !exists("key-1"));
    ck_assert_int_eq(redis_number("PTTL key-2"), -1); // not even its TTL was touched
    release(party, &view);
    ck_assert(!exists("key-0"));
    must_hold("key-2", "thief");
    party_close(party);
}
END_TEST

// ---- release ----

START_TEST(a_lock_may_be_released_at_any_time)
{
    struct party *party = open_party(LONG_TTL_MS);
    struct view view = {0};
    ask(party, &view, "key");
    release(party, &view); // before its answer
    RUN_UNTIL(!exists("key"));
    ck_assert_int_eq(view.taken, 0);

    view.release_when_taken = true; // inside the event
    ask(party, &view, "key");
    RUN_UNTIL(view.taken == 1);
    RUN_UNTIL(!exists("key"));

    party_close(party);
    party = open_party(SHORT_TTL_MS);
    ck_assert_int_eq(take(party, &view, "key"), SK_LOCK_HELD);
    redis_pause();
    uint64_t later_ms = sk_monotonic_ms() + SHORT_TTL_MS;
    RUN_UNTIL(sk_monotonic_ms() >= later_ms); // a renewal is under way
    sk_lock_release(view.lock);
    redis_resume();
    RUN_UNTIL(!exists("key"));
    sk_lock_release(NULL);
    party_close(party);
}
END_TEST

// ---- batches ----

START_TEST(a_batch_is_taken_in_a_few_writes_and_leaves_others_locks_alone)
{
    static char names[KEYS_MAX][KEY_SIZE];
    static const char *keys[KEYS_MAX];
    struct party *party = open_party(LONG_TTL_MS);
    struct view view = {0};
    for (int i = 0; i < KEYS_MAX; i++) {
        (void)snprintf(names[i], KEY_SIZE, "key-%d", i);
        keys[i] = names[i];
        if (i % 10 == 3)
            redis_run("SET %s other", names[i]);
    }
    redis_run("CONFIG RESETSTAT");
    ask_many(party, &view, KEYS_MAX, keys);
    RUN_UNTIL(view.taken == 1);
    char stats[8192];
    ck_assert(redis_text(stats, sizeof stats, "INFO stats"));
    const char *reads = strstr(stats, "total_reads_processed:");
    ck_assert_ptr_nonnull(reads);
    ck_assert_int_le(atoi(reads + strlen("total_reads_processed:")), 40); // of 500 commands, and of our questions
    ck_assert_int_eq(redis_calls_of("set"), KEYS_MAX);
    for (int i = 0; i < KEYS_MAX; i++)
        ck_assert_int_eq(sk_lock_state(view.lock, (size_t)i), i % 10 == 3 ? SK_LOCK_BUSY : SK_LOCK_HELD);
    ck_assert_int_eq(redis_number("DBSIZE"), KEYS_MAX);

    release(party, &view);
    ck_assert_int_eq(redis_number("DBSIZE"), KEYS_MAX / 10);
    for (int i = 3; i < KEYS_MAX; i += 10)
        must_hold(names[i], "other");
    party_close(party);
}
END_TEST

// The largest batch there may be: release and renewal go in chunks that the scripts can take.
START_TEST(the_largest_batch_is_kept_and_released)
{
    enum { LARGEST = 2048 };
    static char names[LARGEST][KEY_SIZE];
    static const char *keys[LARGEST];
    struct party *party = open_party(2 * KEPT_TTL_MS);
    struct view view;
    for (int i = 0; i < LARGEST; i++) {
        (void)snprintf(names[i], KEY_SIZE, "key-%d", i);
        keys[i] = names[i];
    }
    take_all(party, &view, LARGEST, keys);
    uint64_t later_ms = sk_monotonic_ms() + 3 * KEPT_TTL_MS;
    RUN_UNTIL(sk_monotonic_ms() >= later_ms);
    ck_assert_int_eq(redis_number("DBSIZE"), LARGEST);
    release(party, &view);
    ck_assert_int_eq(redis_number("DBSIZE"), 0);
    party_close(party);
}
END_TEST

// ---- Redis goes away ----

START_TEST(redis_silent_while_asked_gives_unknown)
{
    static const char *const keys[] = {"key-0", "key-1", "key-2"};
    struct party *party = open_with(500, 200);
    struct view view = {0};
    redis_pause();
    ask_many(party, &view, 3, keys);
    RUN_UNTIL(view.taken == 1);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(sk_lock_state(view.lock, i), SK_LOCK_UNKNOWN);
    ck_assert(!sk_redis_ready(party->redis));
    sk_lock_release(view.lock);
    redis_resume();
    // Redis may have given them after all; then their TTL frees them.
    WAIT_FOR(redis_number("DBSIZE") == 0);
    RUN_UNTIL(sk_redis_ready(party->redis));
    take_all(party, &view, 3, keys);
    release(party, &view);
    party_close(party);
}
END_TEST

START_TEST(redis_killed_while_asked_gives_unknown)
{
    struct party *party = open_party(LONG_TTL_MS);
    struct view asked = {0}, held;
    const char *key = "key";
    ck_assert_int_eq(take(party, &held, "held"), SK_LOCK_HELD);
    ask(party, &asked, key);
    redis_kill();
    RUN_UNTIL(asked.taken == 1);
    ck_assert_int_eq(sk_lock_state(asked.lock, 0), SK_LOCK_UNKNOWN);
    ck_assert_ptr_null(sk_lock_take(party->part, 1, &key, &events, &asked));
    sk_lock_release(asked.lock);
    sk_lock_release(held.lock);

    redis_start();
    RUN_UNTIL(sk_redis_ready(party->redis));
    ck_assert_int_eq(take(party, &asked, "other-key"), SK_LOCK_HELD);
    release(party, &asked);
    party_close(party);
}
END_TEST

START_TEST(closing_the_link_ends_every_question)
{
    struct party *party = open_party(LONG_TTL_MS);
    struct view asked = {.release_when_taken = true}, forgotten = {0};
    ask(party, &asked, "key-0");
    ask(party, &forgotten, "key-1");
    party_close(party);
    ck_assert_int_eq(asked.taken, 1);
    ck_assert_int_eq(forgotten.taken, 1);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("lock");
    tcase_add_unchecked_fixture(tcase, start, NULL);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, processes_exclude_each_other);
    tcase_add_test(tcase, without_the_lock_counts_are_lost);
    tcase_add_test(tcase, a_busy_key_is_asked_for_once_and_left_alone);
    tcase_add_test(tcase, a_lock_is_never_without_a_ttl);
    tcase_add_test(tcase, a_paused_owner_renews_and_releases_nothing_of_anothers);
    tcase_add_test(tcase, a_crashed_owners_lock_expires_and_not_before_its_time);
    tcase_add_test(tcase, a_stopped_owners_lock_expires);
    tcase_add_test(tcase, renewal_keeps_the_lock_of_a_long_job);
    tcase_add_test(tcase, renewal_survives_the_loss_of_the_scripts);
    tcase_add_test(tcase, lost_keys_stay_lost_and_the_others_are_kept);
    tcase_add_test(tcase, a_lock_may_be_released_at_any_time);
    tcase_add_test(tcase, a_batch_is_taken_in_a_few_writes_and_leaves_others_locks_alone);
    tcase_add_test(tcase, the_largest_batch_is_kept_and_released);
    tcase_add_test(tcase, redis_silent_while_asked_gives_unknown);
    tcase_add_test(tcase, redis_killed_while_asked_gives_unknown);
    tcase_add_test(tcase, closing_the_link_ends_every_question);
    return harness_main(tcase, CK_NOFORK);
}
