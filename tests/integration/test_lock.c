// The lock module on a real Redis: what a lock promises its holder and the others, also when holders are
// paused, stopped or killed, and when Redis is.
//
// A party is a process's worth of it: a loop, a link, a locker. Most tests keep several parties in this
// process and let one stand still by not running its loop; the others fork real processes.
#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock.h"
#include "stack.h"
#include "stores.h"
#include "wait.h"

enum {
    PARTIES_MAX = 3,
    CHILDREN_MAX = 4,
    KEYS_MAX = 500,
    VALUE_SIZE = 80,
    KEY_SIZE = 24,
    REDIS_TIMEOUT_MS = 5000,
    LONG_TTL_MS = 10000, // is not even renewed within a test
    KEPT_TTL_MS = 1000,  // is renewed, and survives a busy machine
    SHORT_TTL_MS = 200,  // for tests that want it to run out
    DEADLINE_MS = 3 * WAIT_DEADLINE_MS,
    CLOCK_GRAIN_MS = 5, // Redis and we round differently
};

struct party {
    uv_loop_t loop;
    uv_prepare_t turn;
    struct sk_redis *redis;
    struct sk_locker *locker;
    bool open, paused;
};

// A lock as its holder sees it.
struct view {
    struct sk_lock *lock;
    bool release_when_taken, release_when_lost;
    int taken, lost;
    size_t lost_key; // the last one
    uint64_t taken_at_ms;
};

struct child {
    pid_t pid; // 0: none
    int says;  // its end of the pipe
};

static struct party parties[PARTIES_MAX];
static struct child children[CHILDREN_MAX];
static bool in_child;

// ---- waiting ----

// A failed check in a child would return into the test runner; there it ends the child instead.
static void must(bool ok, const char *what)
{
    if (ok)
        return;
    if (in_child) {
        (void)fprintf(stderr, "in a child: %s\n", what);
        _exit(EXIT_FAILURE);
    }
    ck_abort_msg("%s", what);
}

// Lets every party run, but those that are paused, until the condition holds.
static void run_parties(void)
{
    for (int i = 0; i < PARTIES_MAX; i++) {
        if (parties[i].open && !parties[i].paused)
            (void)uv_run(&parties[i].loop, UV_RUN_NOWAIT);
    }
    (void)usleep(500);
}

#define RUN_UNTIL(condition)                                                \
    do {                                                                    \
        uint64_t run_until_ms = sk_monotonic_ms() + DEADLINE_MS;            \
        while (!(condition)) {                                              \
            must(sk_monotonic_ms() < run_until_ms, "in vain: " #condition); \
            run_parties();                                                  \
        }                                                                   \
    } while (0)

// ---- parties ----

static void on_turn(uv_prepare_t *turn)
{
    struct party *party = turn->data;
    if (party->redis != NULL)
        sk_redis_flush(party->redis);
}

static void on_change(void *arg, bool ready)
{
    (void)arg;
    (void)ready;
}

static struct party *party_open(uint32_t ttl_ms, uint32_t redis_timeout_ms)
{
    int free_one = 0;
    while (parties[free_one].open)
        free_one++;
    struct party *party = &parties[free_one];
    *party = (struct party){.open = true};
    must(uv_loop_init(&party->loop) == 0, "loop");
    (void)uv_prepare_init(&party->loop, &party->turn);
    party->turn.data = party;
    (void)uv_prepare_start(&party->turn, on_turn);
    struct sk_redis_options options = {stack_redis_url(), redis_timeout_ms, on_change, party};
    party->redis = sk_redis_open(&party->loop, &options);
    must(party->redis != NULL, "link");
    party->locker = sk_locker_open(&party->loop, party->redis, ttl_ms);
    must(party->locker != NULL, "locker");
    RUN_UNTIL(sk_redis_ready(party->redis));
    return party;
}

// As a process that ends in order: its locks are released or forgotten by now.
static void party_close(struct party *party)
{
    sk_redis_close(party->redis);
    party->redis = NULL;
    sk_locker_close(party->locker);
    uv_close((uv_handle_t *)&party->turn, NULL);
    (void)uv_run(&party->loop, UV_RUN_DEFAULT);
    must(uv_loop_close(&party->loop) == 0, "handles are left");
    party->open = false;
}

static void on_pong(void *arg, const struct sk_reply *reply)
{
    (void)reply;
    *(bool *)arg = true;
}

// Waits until Redis has done all that the party has asked for.
static void settle(struct party *party)
{
    const char *argv[] = {"PING"};
    bool answered = false;
    must(sk_redis_command(party->redis, 1, argv, NULL, on_pong, &answered) == SK_OK, "PING");
    RUN_UNTIL(answered);
}

// ---- locks ----

static void on_taken(void *arg, struct sk_lock *lock)
{
    struct view *view = arg;
    must(view->lock == NULL || view->lock == lock, "another lock's event");
    view->taken++;
    view->taken_at_ms = sk_monotonic_ms();
    if (view->release_when_taken)
        sk_lock_release(lock);
}

static void on_lost(void *arg, struct sk_lock *lock, size_t i)
{
    struct view *view = arg;
    view->lost++;
    view->lost_key = i;
    if (view->release_when_lost && view->lost == 1) {
        view->lock = NULL;
        sk_lock_release(lock);
    }
}

static const struct sk_lock_events events = {on_taken, on_lost};

static void ask_on(struct party *party, struct view *view, size_t n, const char *const *keys,
                   const struct sk_lock_terms *terms)
{
    view->lock = sk_lock_take(party->locker, n, keys, terms, &events, view);
    must(view->lock != NULL, "nothing was asked");
    must(view->taken == 0, "no callback inside the call");
}

static void ask_many(struct party *party, struct view *view, size_t n, const char *const *keys, uint32_t wait_ms)
{
    const struct sk_lock_terms terms = {.wait_ms = wait_ms};
    ask_on(party, view, n, keys, wait_ms == 0 ? NULL : &terms);
}

static void ask(struct party *party, struct view *view, const char *key, uint32_t wait_ms)
{
    ask_many(party, view, 1, &key, wait_ms);
}

// Asks, waits for the answer, and returns it.
static enum sk_lock_state take(struct party *party, struct view *view, const char *key, uint32_t wait_ms)
{
    *view = (struct view){0};
    ask(party, view, key, wait_ms);
    RUN_UNTIL(view->taken > 0);
    return sk_lock_state(view->lock, 0);
}

static void take_all(struct party *party, struct view *view, size_t n, const char *const *keys)
{
    *view = (struct view){0};
    ask_many(party, view, n, keys, 0);
    RUN_UNTIL(view->taken > 0);
    for (size_t i = 0; i < n; i++)
        must(sk_lock_state(view->lock, i) == SK_LOCK_HELD, "a free key was not given");
}

static void release(struct party *party, struct view *view)
{
    sk_lock_release(view->lock);
    view->lock = NULL;
    settle(party);
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

// How often Redis has executed a command since the statistics were reset.
static int64_t calls_of(const char *command)
{
    char stats[8192], name[32];
    ck_assert(redis_text(stats, sizeof stats, "INFO commandstats"));
    (void)snprintf(name, sizeof name, "cmdstat_%s:calls=", command);
    const char *at = strstr(stats, name);
    return at == NULL ? 0 : strtoll(at + strlen(name), NULL, 10);
}

// ---- processes ----

static struct child *child_start(void (*body)(int says, void *arg), void *arg)
{
    int fds[2], free_one = 0;
    while (children[free_one].pid != 0)
        free_one++;
    ck_assert_int_eq(pipe(fds), 0);
    pid_t parent = getpid(), pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        in_child = true;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(EXIT_FAILURE);
        memset(parties, 0, sizeof parties); // the parent's
        body(fds[1], arg);
        _exit(EXIT_SUCCESS);
    }
    (void)close(fds[1]);
    children[free_one] = (struct child){pid, fds[0]};
    return &children[free_one];
}

static void say(int says, char word)
{
    must(write(says, &word, 1) == 1, "nobody listens");
}

static void must_say(const struct child *child, char word)
{
    struct pollfd waits = {.fd = child->says, .events = POLLIN};
    char said = 0;
    ck_assert_msg(poll(&waits, 1, DEADLINE_MS) == 1, "the child does not say '%c'", word);
    ck_assert_msg(read(child->says, &said, 1) == 1, "the child ended before it said '%c'", word);
    ck_assert_int_eq(said, word);
}

static void child_signal(const struct child *child, int signal)
{
    ck_assert_int_eq(kill(child->pid, signal), 0);
}

static int child_wait(struct child *child)
{
    int status = 0;
    RUN_UNTIL(waitpid(child->pid, &status, WNOHANG) == child->pid);
    (void)close(child->says);
    child->pid = 0;
    return status;
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

// Only a failed test leaves children behind. Its parties are given up.
static void teardown(void)
{
    for (int i = 0; i < CHILDREN_MAX; i++) {
        if (children[i].pid != 0) {
            (void)kill(children[i].pid, SIGKILL);
            (void)child_wait(&children[i]);
        }
    }
    memset(parties, 0, sizeof parties);
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
    struct party *party = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
    (void)says;
    for (int i = 0; i < ROUNDS; i++) {
        struct view view = {0};
        if (shared->locked)
            must(take(party, &view, "counter", DEADLINE_MS) == SK_LOCK_HELD, "waited in vain for the lock");
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
    ck_assert(shared != MAP_FAILED);
    shared->locked = locked;
    for (int i = 0; i < PROCESSES; i++)
        (void)child_start(count_up, shared);
    for (int i = 0; i < PROCESSES; i++)
        ck_assert_int_eq(child_wait(&children[i]), 0);
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

START_TEST(a_holder_excludes_even_itself)
{
    struct party *party = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
    struct view first, second;
    ck_assert_int_eq(take(party, &first, "key", 0), SK_LOCK_HELD);
    ck_assert_int_eq(take(party, &second, "key", 0), SK_LOCK_BUSY);
    release(party, &second); // holds nothing, so nothing goes
    ck_assert(exists("key"));
    release(party, &first);
    ck_assert(!exists("key"));
    ck_assert_int_eq(take(party, &second, "key", 0), SK_LOCK_HELD);
    release(party, &second);
    party_close(party);
}
END_TEST

// A lock without a TTL would outlive a crash, however short the moment between two commands.
START_TEST(a_lock_is_never_without_a_ttl)
{
    struct party *party = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view;
    ck_assert_int_eq(take(party, &view, "key", 0), SK_LOCK_HELD);
    ck_assert_int_gt(redis_number("PTTL key"), 0);
    ck_assert_int_le(redis_number("PTTL key"), LONG_TTL_MS);
    ck_assert_int_eq(calls_of("set"), 1);
    ck_assert_int_eq(calls_of("pexpire") + calls_of("expire") + calls_of("setnx"), 0);
    release(party, &view);
    party_close(party);
}
END_TEST

// ---- paused holders ----

// The holder stands still past its TTL, another takes over, and the first one releases without knowing.
START_TEST(a_late_release_leaves_anothers_lock_alone)
{
    struct party *slow = party_open(SHORT_TTL_MS, REDIS_TIMEOUT_MS), *other = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
    struct view slow_view, other_view;
    char value[VALUE_SIZE];
    ck_assert_int_eq(take(slow, &slow_view, "key", 0), SK_LOCK_HELD);
    slow->paused = true;
    WAIT_FOR(!exists("key"));
    ck_assert_int_eq(take(other, &other_view, "key", 0), SK_LOCK_HELD);
    ck_assert(redis_text(value, sizeof value, "GET key"));

    slow->paused = false;
    ck_assert_int_eq(sk_lock_state(slow_view.lock, 0), SK_LOCK_HELD); // as far as it knows
    release(slow, &slow_view);
    must_hold("key", value);
    ck_assert_int_eq(other_view.lost, 0);
    release(other, &other_view);
    ck_assert(!exists("key"));
    party_close(slow);
    party_close(other);
}
END_TEST

START_TEST(a_paused_holder_is_told_of_the_loss_and_renews_nothing)
{
    static const char *const keys[] = {"key-0", "key-1"};
    struct party *slow = party_open(SHORT_TTL_MS, REDIS_TIMEOUT_MS), *other = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
    struct view slow_view, other_view;
    char value[VALUE_SIZE];
    take_all(slow, &slow_view, 2, keys);
    slow->paused = true;
    WAIT_FOR(!exists("key-0") && !exists("key-1"));
    ck_assert_int_eq(take(other, &other_view, "key-1", 0), SK_LOCK_HELD);
    ck_assert(redis_text(value, sizeof value, "GET key-1"));

    slow->paused = false;
    RUN_UNTIL(slow_view.lost > 0);
    ck_assert_int_eq(slow_view.lost, 2);
    ck_assert_int_eq(sk_lock_state(slow_view.lock, 0), SK_LOCK_LOST);
    ck_assert_int_eq(sk_lock_state(slow_view.lock, 1), SK_LOCK_LOST);
    uint64_t later_ms = sk_monotonic_ms() + SHORT_TTL_MS; // renewals would come now
    RUN_UNTIL(sk_monotonic_ms() >= later_ms);
    settle(slow);
    ck_assert(!exists("key-0"));
    must_hold("key-1", value);
    release(slow, &slow_view);
    must_hold("key-1", value);
    ck_assert_int_eq(slow_view.lost, 2); // each once
    release(other, &other_view);
    party_close(slow);
    party_close(other);
}
END_TEST

static void hold_until_lost(int says, void *arg)
{
    struct party *party = party_open(KEPT_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view;
    (void)arg;
    must(take(party, &view, "key", 0) == SK_LOCK_HELD, "the key is free");
    say(says, 'h');
    RUN_UNTIL(view.lost == 1);
    say(says, 'l');
    release(party, &view);
    say(says, 'r');
    party_close(party);
}

START_TEST(a_stopped_process_loses_its_lock_and_learns_of_it)
{
    struct party *other = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view;
    char value[VALUE_SIZE];
    struct child *holder = child_start(hold_until_lost, NULL);
    must_say(holder, 'h');
    ck_assert_int_eq(take(other, &view, "key", 0), SK_LOCK_BUSY);
    release(other, &view);
    child_signal(holder, SIGSTOP);
    ck_assert_int_eq(take(other, &view, "key", DEADLINE_MS), SK_LOCK_HELD);
    ck_assert(redis_text(value, sizeof value, "GET key"));

    child_signal(holder, SIGCONT);
    must_say(holder, 'l');
    must_say(holder, 'r');
    ck_assert_int_eq(child_wait(holder), 0);
    must_hold("key", value);
    release(other, &view);
    ck_assert(!exists("key"));
    party_close(other);
}
END_TEST

// ---- crashed holders ----

static void hold_for_ever(int says, void *arg)
{
    struct party *party = party_open(KEPT_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view;
    (void)arg;
    must(take(party, &view, "key", 0) == SK_LOCK_HELD, "the key is free");
    say(says, 'h');
    RUN_UNTIL(false);
}

START_TEST(a_crashed_holders_lock_frees_itself_and_not_before_its_time)
{
    struct party *heir = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view;
    struct child *holder = child_start(hold_for_ever, NULL);
    must_say(holder, 'h');
    child_signal(holder, SIGKILL);
    ck_assert(WIFSIGNALED(child_wait(holder)));
    ck_assert_int_eq(take(heir, &view, "key", 0), SK_LOCK_BUSY);
    release(heir, &view);

    uint64_t since_ms = sk_monotonic_ms();
    int64_t left_ms = redis_number("PTTL key");
    ck_assert_int_gt(left_ms, 0);
    ck_assert_int_eq(take(heir, &view, "key", DEADLINE_MS), SK_LOCK_HELD);
    ck_assert_int_ge((int64_t)(view.taken_at_ms - since_ms), left_ms - CLOCK_GRAIN_MS);
    release(heir, &view);
    party_close(heir);
}
END_TEST

// ---- renewal ----

START_TEST(renewal_keeps_the_lock_of_a_long_job)
{
    static const char *const keys[] = {"key-0", "key-1", "key-2"};
    struct party *holder = party_open(KEPT_TTL_MS, REDIS_TIMEOUT_MS);
    struct party *other = party_open(KEPT_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view, try;
    char value[VALUE_SIZE];
    take_all(holder, &view, 3, keys);
    ck_assert(redis_text(value, sizeof value, "GET key-0"));
    uint64_t until_ms = sk_monotonic_ms() + (uint64_t)4 * KEPT_TTL_MS;
    for (int i = 0; sk_monotonic_ms() < until_ms; i++) {
        ck_assert_int_eq(take(other, &try, keys[i % 3], 0), SK_LOCK_BUSY);
        sk_lock_release(try.lock);
    }
    ck_assert_int_eq(view.lost, 0);
    for (int i = 0; i < 3; i++)
        must_hold(keys[i], value);
    release(holder, &view);
    ck_assert_int_eq(redis_number("DBSIZE"), 0);
    party_close(holder);
    party_close(other);
}
END_TEST

START_TEST(renewal_survives_the_loss_of_the_scripts)
{
    struct party *party = party_open(KEPT_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view;
    ck_assert_int_eq(take(party, &view, "key", 0), SK_LOCK_HELD);
    uint64_t until_ms = sk_monotonic_ms() + 3 * KEPT_TTL_MS / 2;
    while (sk_monotonic_ms() < until_ms) {
        redis_run("SCRIPT FLUSH");
        run_parties();
    }
    ck_assert_int_eq(view.lost, 0);
    redis_run("SCRIPT FLUSH");
    sk_lock_release(view.lock);
    RUN_UNTIL(!exists("key"));
    party_close(party);
}
END_TEST

// ---- loss ----

START_TEST(a_removed_key_is_reported_once_and_the_others_stay)
{
    static const char *const keys[] = {"key-0", "key-1", "key-2"};
    struct party *party = party_open(KEPT_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view;
    take_all(party, &view, 3, keys);
    redis_run("DEL key-1");
    RUN_UNTIL(view.lost > 0);
    ck_assert_uint_eq(view.lost_key, 1);
    ck_assert_int_eq(sk_lock_state(view.lock, 0), SK_LOCK_HELD);
    ck_assert_int_eq(sk_lock_state(view.lock, 1), SK_LOCK_LOST);
    ck_assert_int_eq(sk_lock_state(view.lock, 2), SK_LOCK_HELD);
    uint64_t later_ms = sk_monotonic_ms() + 3 * KEPT_TTL_MS / 2;
    RUN_UNTIL(sk_monotonic_ms() >= later_ms);
    ck_assert_int_eq(view.lost, 1);
    ck_assert(exists("key-0") && !exists("key-1") && exists("key-2"));
    release(party, &view);
    ck_assert_int_eq(redis_number("DBSIZE"), 0);
    party_close(party);
}
END_TEST

START_TEST(a_stolen_key_is_reported_and_left_to_the_thief)
{
    struct party *party = party_open(SHORT_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view;
    ck_assert_int_eq(take(party, &view, "key", 0), SK_LOCK_HELD);
    redis_run("SET key thief");
    RUN_UNTIL(view.lost == 1);
    must_hold("key", "thief");
    ck_assert_int_eq(redis_number("PTTL key"), -1); // not even its TTL was touched
    release(party, &view);
    must_hold("key", "thief");
    party_close(party);
}
END_TEST

// Nobody needs Redis's word to know that a TTL has passed.
START_TEST(a_silent_redis_counts_as_loss_after_the_ttl)
{
    struct party *party = party_open(SHORT_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view;
    ck_assert_int_eq(take(party, &view, "key", 0), SK_LOCK_HELD);
    redis_pause();
    RUN_UNTIL(view.lost == 1);
    ck_assert_int_eq(sk_lock_state(view.lock, 0), SK_LOCK_LOST);
    ck_assert(sk_redis_ready(party->redis)); // the link still waits for the renewal's answer
    redis_resume();
    release(party, &view);
    ck_assert_int_eq(view.lost, 1);
    party_close(party);
}
END_TEST

START_TEST(a_holder_may_release_while_it_is_told_of_a_loss)
{
    static const char *const keys[] = {"key-0", "key-1", "key-2"};
    struct party *party = party_open(SHORT_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view;
    // Redis says that one key is gone; the others are released.
    take_all(party, &view, 3, keys);
    view.release_when_lost = true;
    redis_run("DEL key-0");
    RUN_UNTIL(view.lost > 0);
    settle(party);
    ck_assert_int_eq(redis_number("DBSIZE"), 0);
    ck_assert_int_eq(view.lost, 1); // nothing is reported of a lock that is released
    // The TTL has passed while the holder stood still.
    take_all(party, &view, 3, keys);
    view.release_when_lost = true;
    party->paused = true;
    WAIT_FOR(redis_number("DBSIZE") == 0);
    party->paused = false;
    RUN_UNTIL(view.lost > 0);
    settle(party);
    ck_assert_int_eq(view.lost, 1);
    party_close(party);
}
END_TEST

// ---- trying and waiting ----

START_TEST(trying_asks_once_and_says_busy_at_once)
{
    struct party *party = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view;
    redis_run("SET key other");
    redis_run("CONFIG RESETSTAT");
    ck_assert_int_eq(take(party, &view, "key", 0), SK_LOCK_BUSY);
    settle(party);
    ck_assert_int_eq(calls_of("set"), 1);
    release(party, &view);
    must_hold("key", "other");
    party_close(party);
}
END_TEST

START_TEST(waiting_gets_the_lock_when_it_is_freed)
{
    struct party *holder = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
    struct party *waiter = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
    struct view held, waiting = {0};
    ck_assert_int_eq(take(holder, &held, "key", 0), SK_LOCK_HELD);
    ask(waiter, &waiting, "key", DEADLINE_MS);
    RUN_UNTIL(calls_of("set") >= 4); // it has been refused, and asks again
    ck_assert_int_eq(waiting.taken, 0);
    release(holder, &held);
    RUN_UNTIL(waiting.taken == 1);
    ck_assert_int_eq(sk_lock_state(waiting.lock, 0), SK_LOCK_HELD);
    release(waiter, &waiting);
    party_close(holder);
    party_close(waiter);
}
END_TEST

// A wait of 600 ms has room for 10 to 18 questions: spans of 4, 8, 16, 32, 64 and then 100 ms, of which half
// to all is waited. Without back-off there would be more than a hundred.
START_TEST(waiting_backs_off_and_gives_up_at_its_bound)
{
    enum { WAIT_MS = 600 };
    struct party *party = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view;
    redis_run("SET key other");
    redis_run("CONFIG RESETSTAT");
    uint64_t since_ms = sk_monotonic_ms();
    ck_assert_int_eq(take(party, &view, "key", WAIT_MS), SK_LOCK_BUSY);
    ck_assert_uint_ge(view.taken_at_ms - since_ms, WAIT_MS - CLOCK_GRAIN_MS);
    ck_assert_int_ge(calls_of("set"), 3);
    ck_assert_int_le(calls_of("set"), 20);
    release(party, &view);
    must_hold("key", "other");
    party_close(party);
}
END_TEST

START_TEST(what_is_held_stays_held_while_the_rest_is_waited_for)
{
    static const char *const keys[] = {"mine", "busy"};
    struct party *party = party_open(KEPT_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view = {0};
    char value[VALUE_SIZE] = "", now[VALUE_SIZE];
    redis_run("SET busy other");
    ask_many(party, &view, 2, keys, 2 * KEPT_TTL_MS);
    RUN_UNTIL(redis_text(value, sizeof value, "GET mine"));
    RUN_UNTIL(view.taken > 0 || !redis_text(now, sizeof now, "GET mine") || strcmp(now, value) != 0);
    ck_assert_int_eq(view.taken, 1);
    ck_assert_int_eq(sk_lock_state(view.lock, 0), SK_LOCK_HELD);
    ck_assert_int_eq(sk_lock_state(view.lock, 1), SK_LOCK_BUSY);
    must_hold("mine", value);
    release(party, &view);
    ck_assert(!exists("mine"));
    must_hold("busy", "other");
    party_close(party);
}
END_TEST

// The pauses between two questions may be longer than such a TTL.
START_TEST(waiting_outlasts_a_ttl_shorter_than_its_pauses)
{
    struct party *party = party_open(40, REDIS_TIMEOUT_MS);
    struct view view = {0};
    redis_run("SET key other");
    ask(party, &view, "key", DEADLINE_MS);
    RUN_UNTIL(calls_of("set") >= 12); // past the short pauses at the beginning
    redis_run("DEL key");
    RUN_UNTIL(view.taken == 1);
    ck_assert_int_eq(sk_lock_state(view.lock, 0), SK_LOCK_HELD);
    release(party, &view);
    party_close(party);
}
END_TEST

START_TEST(waiting_ends_also_when_what_was_held_is_lost_meanwhile)
{
    static const char *const keys[] = {"mine", "busy"};
    struct party *party = party_open(KEPT_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view = {0};
    redis_run("SET busy other");
    ask_many(party, &view, 2, keys, DEADLINE_MS);
    RUN_UNTIL(exists("mine") && calls_of("set") >= 5);
    party->paused = true;
    WAIT_FOR(!exists("mine"));
    party->paused = false;
    redis_run("DEL busy");
    RUN_UNTIL(view.taken == 1);
    ck_assert_int_eq(sk_lock_state(view.lock, 0), SK_LOCK_LOST);
    ck_assert_int_eq(sk_lock_state(view.lock, 1), SK_LOCK_HELD);
    // What came later has a life of its own.
    uint64_t later_ms = sk_monotonic_ms() + 3 * KEPT_TTL_MS / 2;
    RUN_UNTIL(sk_monotonic_ms() >= later_ms);
    ck_assert_int_eq(sk_lock_state(view.lock, 1), SK_LOCK_HELD);
    ck_assert(exists("busy") && !exists("mine"));
    release(party, &view);
    ck_assert_int_eq(redis_number("DBSIZE"), 0);
    party_close(party);
}
END_TEST

START_TEST(a_lock_released_while_it_is_being_taken_is_given_back)
{
    static const char *const keys[] = {"key-0", "busy"};
    struct party *party = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view = {0};
    redis_run("SET busy other");
    ask_many(party, &view, 2, keys, DEADLINE_MS);
    release(party, &view); // before the first answer
    RUN_UNTIL(!exists("key-0"));
    ck_assert_int_eq(view.taken, 0);

    ask_many(party, &view, 2, keys, DEADLINE_MS);
    RUN_UNTIL(exists("key-0"));
    release(party, &view); // while it waits for the other key
    RUN_UNTIL(!exists("key-0"));
    ck_assert_int_eq(view.taken, 0);
    must_hold("busy", "other");

    view.lock = NULL;
    view.release_when_taken = true; // inside the event
    ask(party, &view, "key-0", 0);
    RUN_UNTIL(view.taken == 1);
    RUN_UNTIL(!exists("key-0"));
    sk_lock_release(NULL);
    party_close(party);
}
END_TEST

// ---- batches ----

START_TEST(a_batch_is_taken_in_a_few_writes_and_leaves_others_locks_alone)
{
    static char names[KEYS_MAX][KEY_SIZE];
    static const char *keys[KEYS_MAX];
    struct party *party = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
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
    ck_assert_int_le(atoi(reads + strlen("total_reads_processed:")), 40); // of 500 commands, and of our questions
    ck_assert_int_eq(calls_of("set"), KEYS_MAX);
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
    struct party *party = party_open(2 * KEPT_TTL_MS, REDIS_TIMEOUT_MS);
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
END_TEST

// ---- Redis goes away ----

START_TEST(redis_silent_while_asked_gives_unknown)
{
    static const char *const keys[] = {"key-0", "key-1", "key-2"};
    struct party *party = party_open(500, 200);
    struct view view = {0};
    redis_pause();
    ask_many(party, &view, 3, keys, DEADLINE_MS);
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
    struct party *party = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
    struct view asked = {0}, waiting = {0}, held;
    const char *key = "key";
    redis_run("SET busy other");
    ck_assert_int_eq(take(party, &held, "held", 0), SK_LOCK_HELD);
    ask(party, &waiting, "busy", DEADLINE_MS);
    RUN_UNTIL(calls_of("set") >= 5);
    ask(party, &asked, key, 0);
    redis_kill();
    RUN_UNTIL(asked.taken == 1 && waiting.taken == 1); // nobody waits for a Redis that is gone
    ck_assert_int_eq(sk_lock_state(asked.lock, 0), SK_LOCK_UNKNOWN);
    ck_assert_int_eq(sk_lock_state(waiting.lock, 0), SK_LOCK_UNKNOWN);
    ck_assert_ptr_null(sk_lock_take(party->locker, 1, &key, NULL, &events, &asked));
    sk_lock_release(asked.lock);
    sk_lock_release(waiting.lock);
    sk_lock_release(held.lock);

    redis_start();
    RUN_UNTIL(sk_redis_ready(party->redis));
    ck_assert_int_eq(take(party, &asked, "other-key", 0), SK_LOCK_HELD);
    release(party, &asked);
    party_close(party);
}
END_TEST

START_TEST(closing_the_link_ends_every_question)
{
    struct party *party = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
    struct view asked = {.release_when_taken = true}, forgotten = {0};
    ask(party, &asked, "key-0", DEADLINE_MS);
    ask(party, &forgotten, "key-1", DEADLINE_MS);
    party_close(party);
    ck_assert_int_eq(asked.taken, 1);
    ck_assert_int_eq(forgotten.taken, 1);
}
END_TEST

// ---- holders, numbers, waking ----

static enum sk_lock_state take_as(struct party *party, struct view *view, const char *key, const char *holder)
{
    const struct sk_lock_terms terms = {.holder = holder, .fenced = true};
    *view = (struct view){0};
    ask_on(party, view, 1, &key, &terms);
    RUN_UNTIL(view->taken > 0);
    return sk_lock_state(view->lock, 0);
}

START_TEST(a_holder_enters_what_it_has)
{
    struct party *party = party_open(KEPT_TTL_MS, REDIS_TIMEOUT_MS), *other = party_open(KEPT_TTL_MS, REDIS_TIMEOUT_MS);
    struct view first, second, third, stranger, nobody, namesake;
    ck_assert_int_eq(take_as(party, &first, "key", "holder"), SK_LOCK_HELD);
    ck_assert_int_eq(take_as(party, &second, "key", "holder"), SK_LOCK_HELD);
    ck_assert_int_eq(take_as(party, &third, "key", "holder"), SK_LOCK_HELD);
    ck_assert_uint_eq(sk_lock_fence(second.lock, 0), sk_lock_fence(first.lock, 0));
    ck_assert_int_eq(take_as(party, &stranger, "key", "another"), SK_LOCK_BUSY);
    ck_assert_int_eq(take(party, &nobody, "key", 0), SK_LOCK_BUSY);
    ck_assert_int_eq(take_as(other, &namesake, "key", "holder"), SK_LOCK_BUSY); // another process is somebody else

    release(party, &first); // in any order
    ck_assert(exists("key"));
    release(party, &third);
    ck_assert(exists("key"));
    ck_assert_int_eq(sk_lock_state(second.lock, 0), SK_LOCK_HELD);
    sk_lock_release(stranger.lock);
    sk_lock_release(nobody.lock);
    sk_lock_release(namesake.lock);
    settle(other);
    settle(party);
    ck_assert(exists("key"));
    release(party, &second);
    ck_assert(!exists("key"));
    party_close(party);
    party_close(other);
}
END_TEST

START_TEST(all_who_have_entered_are_told_of_the_loss)
{
    struct party *party = party_open(SHORT_TTL_MS, REDIS_TIMEOUT_MS);
    struct view first, second;
    ck_assert_int_eq(take_as(party, &first, "key", "holder"), SK_LOCK_HELD);
    ck_assert_int_eq(take_as(party, &second, "key", "holder"), SK_LOCK_HELD);
    redis_run("SET key thief");
    RUN_UNTIL(first.lost == 1 && second.lost == 1);
    release(party, &first);
    release(party, &second);
    must_hold("key", "thief");
    party_close(party);
}
END_TEST

START_TEST(each_taking_has_a_greater_number)
{
    struct party *party = party_open(KEPT_TTL_MS, REDIS_TIMEOUT_MS), *other = party_open(KEPT_TTL_MS, REDIS_TIMEOUT_MS);
    struct view view;
    uint64_t last = 0;
    for (int i = 0; i < 6; i++) {
        struct party *one = i % 2 == 0 ? party : other;
        ck_assert_int_eq(take_as(one, &view, "key", NULL), SK_LOCK_HELD);
        ck_assert_uint_gt(sk_lock_fence(view.lock, 0), last);
        last = sk_lock_fence(view.lock, 0);
        release(one, &view);
        if (i == 2)
            redis_run("FLUSHALL"); // also when Redis has forgotten
        if (i == 3)
            redis_run("SET key:fence %s", "8000000000000000"); // and when its clock has gone back
        if (i == 3)
            last = UINT64_C(8000000000000000);
    }
    ck_assert_int_eq(take(party, &view, "plain", 0), SK_LOCK_HELD);
    ck_assert_uint_eq(sk_lock_fence(view.lock, 0), 0);
    release(party, &view);
    party_close(party);
    party_close(other);
}
END_TEST

// Nobody of the same process waits for the end of a pause.
START_TEST(a_release_wakes_who_waits)
{
    struct party *party = party_open(LONG_TTL_MS, REDIS_TIMEOUT_MS);
    struct view held, waiting = {0}, elsewhere = {0};
    redis_run("SET busy other");
    ck_assert_int_eq(take(party, &held, "key", 0), SK_LOCK_HELD);
    ask(party, &waiting, "key", DEADLINE_MS);
    ask(party, &elsewhere, "busy", DEADLINE_MS);
    RUN_UNTIL(sk_lock_state(waiting.lock, 0) == SK_LOCK_BUSY && sk_lock_state(elsewhere.lock, 0) == SK_LOCK_BUSY);
    sk_lock_release(held.lock);
    ck_assert_int_eq(sk_lock_state(waiting.lock, 0), SK_LOCK_ASKED);
    ck_assert_int_eq(sk_lock_state(elsewhere.lock, 0), SK_LOCK_BUSY);
    RUN_UNTIL(waiting.taken == 1);
    ck_assert_int_eq(sk_lock_state(waiting.lock, 0), SK_LOCK_HELD);
    release(party, &waiting);
    sk_lock_release(elsewhere.lock);
    party_close(party);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("lock");
    tcase_add_unchecked_fixture(tcase, start, NULL);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, processes_exclude_each_other);
    tcase_add_test(tcase, without_the_lock_counts_are_lost);
    tcase_add_test(tcase, a_holder_excludes_even_itself);
    tcase_add_test(tcase, a_lock_is_never_without_a_ttl);
    tcase_add_test(tcase, a_late_release_leaves_anothers_lock_alone);
    tcase_add_test(tcase, a_paused_holder_is_told_of_the_loss_and_renews_nothing);
    tcase_add_test(tcase, a_stopped_process_loses_its_lock_and_learns_of_it);
    tcase_add_test(tcase, a_crashed_holders_lock_frees_itself_and_not_before_its_time);
    tcase_add_test(tcase, renewal_keeps_the_lock_of_a_long_job);
    tcase_add_test(tcase, renewal_survives_the_loss_of_the_scripts);
    tcase_add_test(tcase, a_removed_key_is_reported_once_and_the_others_stay);
    tcase_add_test(tcase, a_stolen_key_is_reported_and_left_to_the_thief);
    tcase_add_test(tcase, a_silent_redis_counts_as_loss_after_the_ttl);
    tcase_add_test(tcase, a_holder_may_release_while_it_is_told_of_a_loss);
    tcase_add_test(tcase, trying_asks_once_and_says_busy_at_once);
    tcase_add_test(tcase, waiting_gets_the_lock_when_it_is_freed);
    tcase_add_test(tcase, waiting_backs_off_and_gives_up_at_its_bound);
    tcase_add_test(tcase, what_is_held_stays_held_while_the_rest_is_waited_for);
    tcase_add_test(tcase, waiting_outlasts_a_ttl_shorter_than_its_pauses);
    tcase_add_test(tcase, waiting_ends_also_when_what_was_held_is_lost_meanwhile);
    tcase_add_test(tcase, a_lock_released_while_it_is_being_taken_is_given_back);
    tcase_add_test(tcase, a_batch_is_taken_in_a_few_writes_and_leaves_others_locks_alone);
    tcase_add_test(tcase, the_largest_batch_is_kept_and_released);
    tcase_add_test(tcase, redis_silent_while_asked_gives_unknown);
    tcase_add_test(tcase, redis_killed_while_asked_gives_unknown);
    tcase_add_test(tcase, closing_the_link_ends_every_question);
    tcase_add_test(tcase, a_holder_enters_what_it_has);
    tcase_add_test(tcase, all_who_have_entered_are_told_of_the_loss);
    tcase_add_test(tcase, each_taking_has_a_greater_number);
    tcase_add_test(tcase, a_release_wakes_who_waits);
    return harness_main(tcase, CK_NOFORK);
}
