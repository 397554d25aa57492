// The general lock on a real Redis: its guarantees to its owner and to others, also when owners or Redis are paused,
// stopped or killed.
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stack.h"
#include "stores.h"
#include "test.h"
#include "views.h"

enum { KEYS_MAX = 500, KEY_SIZE = 24 };

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
            must(take(party, &view, "counter", PARTY_DEADLINE_MS) == GENERAL_LOCK_HELD, "waited in vain for the lock");
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

TEST(processes_exclude_each_other)
{
    struct shared *shared = count_in_processes(true);
    ck_assert_int_eq(shared->overlaps, 0);
    ck_assert_int_eq(shared->count, PROCESSES * ROUNDS);
    (void)munmap(shared, sizeof *shared);
}

// The negative control of the test above.
TEST(without_the_lock_counts_are_lost)
{
    struct shared *shared = count_in_processes(false);
    ck_assert_int_gt(shared->overlaps, 0);
    ck_assert_int_lt(shared->count, PROCESSES * ROUNDS);
    (void)munmap(shared, sizeof *shared);
}

TEST(a_holder_excludes_even_itself)
{
    struct party *party = open_party(LONG_TTL_MS);
    struct view first, second;
    ck_assert_int_eq(take(party, &first, "key", 0), GENERAL_LOCK_HELD);
    ck_assert_int_eq(take(party, &second, "key", 0), GENERAL_LOCK_BUSY);
    release(party, &second); // holds nothing, so it releases nothing
    ck_assert(exists("key"));
    release(party, &first);
    ck_assert(!exists("key"));
    ck_assert_int_eq(take(party, &second, "key", 0), GENERAL_LOCK_HELD);
    release(party, &second);
    party_close(party);
}

// A lock without a TTL would outlive a crash, however short the time between two commands.
TEST(a_lock_is_never_without_a_ttl)
{
    struct party *party = open_party(LONG_TTL_MS);
    struct view view;
    ck_assert_int_eq(take(party, &view, "key", 0), GENERAL_LOCK_HELD);
    ck_assert_int_gt(redis_number("PTTL key"), 0);
    ck_assert_int_le(redis_number("PTTL key"), LONG_TTL_MS);
    ck_assert_int_eq(redis_calls_of("set"), 1);
    ck_assert_int_eq(redis_calls_of("pexpire") + redis_calls_of("expire") + redis_calls_of("setnx"), 0);
    release(party, &view);
    party_close(party);
}

// ---- paused holders ----

// The holder is paused past its TTL, another takes over, and the first one releases without knowing.
TEST(a_late_release_leaves_anothers_lock_alone)
{
    struct party *slow = open_party(SHORT_TTL_MS), *other = open_party(LONG_TTL_MS);
    struct view slow_view, other_view;
    char value[VALUE_SIZE];
    ck_assert_int_eq(take(slow, &slow_view, "key", 0), GENERAL_LOCK_HELD);
    slow->paused = true;
    WAIT_FOR(!exists("key"));
    ck_assert_int_eq(take(other, &other_view, "key", 0), GENERAL_LOCK_HELD);
    ck_assert(redis_text(value, sizeof value, "GET key"));

    slow->paused = false;
    ck_assert_int_eq(general_lock_state(slow_view.lock, 0), GENERAL_LOCK_HELD); // as far as it knows
    release(slow, &slow_view);
    must_hold("key", value);
    ck_assert_int_eq(other_view.lost, 0);
    release(other, &other_view);
    ck_assert(!exists("key"));
    party_close(slow);
    party_close(other);
}

TEST(a_paused_holder_is_told_of_the_loss_and_renews_nothing)
{
    static const char *const keys[] = {"key-0", "key-1"};
    struct party *slow = open_party(SHORT_TTL_MS), *other = open_party(LONG_TTL_MS);
    struct view slow_view, other_view;
    char value[VALUE_SIZE];
    take_all(slow, &slow_view, 2, keys);
    slow->paused = true;
    WAIT_FOR(!exists("key-0") && !exists("key-1"));
    ck_assert_int_eq(take(other, &other_view, "key-1", 0), GENERAL_LOCK_HELD);
    ck_assert(redis_text(value, sizeof value, "GET key-1"));

    slow->paused = false;
    RUN_UNTIL(slow_view.lost > 0);
    ck_assert_int_eq(slow_view.lost, 2);
    ck_assert_int_eq(general_lock_state(slow_view.lock, 0), GENERAL_LOCK_LOST);
    ck_assert_int_eq(general_lock_state(slow_view.lock, 1), GENERAL_LOCK_LOST);
    uint64_t later_ms = sk_monotonic_ms() + SHORT_TTL_MS; // renewals would come now
    RUN_UNTIL(sk_monotonic_ms() >= later_ms);
    party_settle(slow);
    ck_assert(!exists("key-0"));
    must_hold("key-1", value);
    release(slow, &slow_view);
    must_hold("key-1", value);
    ck_assert_int_eq(slow_view.lost, 2); // each once
    release(other, &other_view);
    party_close(slow);
    party_close(other);
}

static void hold_until_lost(int says, void *arg)
{
    struct party *party = open_party(KEPT_TTL_MS);
    struct view view;
    (void)arg;
    must(take(party, &view, "key", 0) == GENERAL_LOCK_HELD, "the key is free");
    child_say(says, 'h');
    RUN_UNTIL(view.lost == 1);
    child_say(says, 'l');
    release(party, &view);
    child_say(says, 'r');
    party_close(party);
}

TEST(a_stopped_process_loses_its_lock_and_learns_of_it)
{
    struct party *other = open_party(LONG_TTL_MS);
    struct view view;
    char value[VALUE_SIZE];
    struct child *holder = child_start(hold_until_lost, NULL);
    child_must_say(holder, 'h');
    ck_assert_int_eq(take(other, &view, "key", 0), GENERAL_LOCK_BUSY);
    release(other, &view);
    child_signal(holder, SIGSTOP);
    ck_assert_int_eq(take(other, &view, "key", PARTY_DEADLINE_MS), GENERAL_LOCK_HELD);
    ck_assert(redis_text(value, sizeof value, "GET key"));

    child_signal(holder, SIGCONT);
    child_must_say(holder, 'l');
    child_must_say(holder, 'r');
    ck_assert_int_eq(child_wait(holder), 0);
    must_hold("key", value);
    release(other, &view);
    ck_assert(!exists("key"));
    party_close(other);
}

// ---- crashed holders ----

static void hold_for_ever(int says, void *arg)
{
    struct party *party = open_party(KEPT_TTL_MS);
    struct view view;
    (void)arg;
    must(take(party, &view, "key", 0) == GENERAL_LOCK_HELD, "the key is free");
    child_say(says, 'h');
    RUN_UNTIL(false);
}

TEST(a_crashed_holders_lock_frees_itself_and_not_before_its_time)
{
    struct party *heir = open_party(LONG_TTL_MS);
    struct view view;
    struct child *holder = child_start(hold_for_ever, NULL);
    child_must_say(holder, 'h');
    child_signal(holder, SIGKILL);
    ck_assert(WIFSIGNALED(child_wait(holder)));
    ck_assert_int_eq(take(heir, &view, "key", 0), GENERAL_LOCK_BUSY);
    release(heir, &view);

    uint64_t since_ms = sk_monotonic_ms();
    int64_t left_ms = redis_number("PTTL key");
    ck_assert_int_gt(left_ms, 0);
    ck_assert_int_eq(take(heir, &view, "key", PARTY_DEADLINE_MS), GENERAL_LOCK_HELD);
    ck_assert_int_ge((int64_t)(view.taken_at_ms - since_ms), left_ms - CLOCK_GRAIN_MS);
    release(heir, &view);
    party_close(heir);
}

// ---- renewal ----

TEST(renewal_keeps_the_lock_of_a_long_job)
{
    static const char *const keys[] = {"key-0", "key-1", "key-2"};
    struct party *holder = open_party(KEPT_TTL_MS);
    struct party *other = open_party(KEPT_TTL_MS);
    struct view view, try;
    char value[VALUE_SIZE];
    take_all(holder, &view, 3, keys);
    ck_assert(redis_text(value, sizeof value, "GET key-0"));
    uint64_t until_ms = sk_monotonic_ms() + (uint64_t)4 * KEPT_TTL_MS;
    for (int i = 0; sk_monotonic_ms() < until_ms; i++) {
        ck_assert_int_eq(take(other, &try, keys[i % 3], 0), GENERAL_LOCK_BUSY);
        general_lock_release(try.lock);
    }
    ck_assert_int_eq(view.lost, 0);
    for (int i = 0; i < 3; i++)
        must_hold(keys[i], value);
    release(holder, &view);
    ck_assert_int_eq(redis_number("DBSIZE"), 0);
    party_close(holder);
    party_close(other);
}

TEST(renewal_survives_the_loss_of_the_scripts)
{
    struct party *party = open_party(KEPT_TTL_MS);
    struct view view;
    ck_assert_int_eq(take(party, &view, "key", 0), GENERAL_LOCK_HELD);
    uint64_t until_ms = sk_monotonic_ms() + 3 * KEPT_TTL_MS / 2;
    while (sk_monotonic_ms() < until_ms) {
        redis_run("SCRIPT FLUSH");
        parties_run();
    }
    ck_assert_int_eq(view.lost, 0);
    redis_run("SCRIPT FLUSH");
    general_lock_release(view.lock);
    RUN_UNTIL(!exists("key"));
    party_close(party);
}

// ---- batches ----

TEST(a_batch_is_taken_in_a_few_writes_and_leaves_others_locks_alone)
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
    ask_many(party, &view, KEYS_MAX, keys, 0);
    RUN_UNTIL(view.taken == 1);
    char stats[8192];
    ck_assert(redis_text(stats, sizeof stats, "INFO stats"));
    const char *reads = strstr(stats, "total_reads_processed:");
    ck_assert_ptr_nonnull(reads);
    ck_assert_int_le(atoi(reads + strlen("total_reads_processed:")), 40); // of 500 commands, and of the test's own
    ck_assert_int_eq(redis_calls_of("set"), KEYS_MAX);
    for (int i = 0; i < KEYS_MAX; i++)
        ck_assert_int_eq(general_lock_state(view.lock, (size_t)i), i % 10 == 3 ? GENERAL_LOCK_BUSY : GENERAL_LOCK_HELD);
    ck_assert_int_eq(redis_number("DBSIZE"), KEYS_MAX);

    release(party, &view);
    ck_assert_int_eq(redis_number("DBSIZE"), KEYS_MAX / 10);
    for (int i = 3; i < KEYS_MAX; i += 10)
        must_hold(names[i], "other");
    party_close(party);
}

// The largest possible batch: release and renewal are sent in chunks that the scripts accept.
TEST(the_largest_batch_is_kept_and_released)
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
    ck_assert_int_eq(view.lost, 0);
    ck_assert_int_eq(redis_number("DBSIZE"), LARGEST);
    release(party, &view);
    ck_assert_int_eq(redis_number("DBSIZE"), 0);
    party_close(party);
}

// ---- Redis goes away ----

TEST(redis_silent_while_asked_gives_unknown)
{
    static const char *const keys[] = {"key-0", "key-1", "key-2"};
    struct party *party = open_impatient_party(500, 200);
    struct view view = {0};
    redis_pause();
    ask_many(party, &view, 3, keys, PARTY_DEADLINE_MS);
    RUN_UNTIL(view.taken == 1);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(general_lock_state(view.lock, i), GENERAL_LOCK_UNKNOWN);
    ck_assert(!sk_redis_ready(party_redis(party)));
    general_lock_release(view.lock);
    redis_resume();
    // Redis may have granted them after all; then their TTL frees them.
    WAIT_FOR(redis_number("DBSIZE") == 0);
    RUN_UNTIL(sk_redis_ready(party_redis(party)));
    take_all(party, &view, 3, keys);
    release(party, &view);
    party_close(party);
}

TEST(redis_killed_while_asked_gives_unknown)
{
    struct party *party = open_party(LONG_TTL_MS);
    struct view asked = {0}, waiting = {0}, held;
    const char *key = "key";
    redis_run("SET busy other");
    ck_assert_int_eq(take(party, &held, "held", 0), GENERAL_LOCK_HELD);
    ask(party, &waiting, "busy", PARTY_DEADLINE_MS);
    RUN_UNTIL(redis_calls_of("set") >= 5);
    ask(party, &asked, key, 0);
    redis_kill();
    RUN_UNTIL(asked.taken == 1 && waiting.taken == 1); // nobody waits for a Redis that is gone
    ck_assert_int_eq(general_lock_state(asked.lock, 0), GENERAL_LOCK_UNKNOWN);
    ck_assert_int_eq(general_lock_state(waiting.lock, 0), GENERAL_LOCK_UNKNOWN);
    ck_assert_ptr_null(general_lock_take(party->part, 1, &key, NULL, &view_events, &asked));
    general_lock_release(asked.lock);
    general_lock_release(waiting.lock);
    general_lock_release(held.lock);

    redis_start();
    RUN_UNTIL(sk_redis_ready(party_redis(party)));
    ck_assert_int_eq(take(party, &asked, "other-key", 0), GENERAL_LOCK_HELD);
    release(party, &asked);
    party_close(party);
}

TEST(closing_the_link_ends_every_question)
{
    struct party *party = open_party(LONG_TTL_MS);
    struct view asked = {.release_when_taken = true}, forgotten = {0};
    ask(party, &asked, "key-0", PARTY_DEADLINE_MS);
    ask(party, &forgotten, "key-1", PARTY_DEADLINE_MS);
    party_close(party);
    ck_assert_int_eq(asked.taken, 1);
    ck_assert_int_eq(forgotten.taken, 1);
}

SUITE(.begin = views_start, .setup = views_setup, .teardown = views_teardown, .in_one_process = true);
