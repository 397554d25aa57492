// The per-user lock on a real Redis, made of claim and session. It tests the guarantees to the holder and to others,
// also when holders or Redis are paused, stopped or killed. Each guarantee has a control: without the claim, or without
// checking the session, two are inside at once.
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock.h"
#include "parties.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

#define LOCK_KEY "seckill:lock:rebuild:{1}"

enum {
    REDIS_TIMEOUT_MS = 5000,
    LONG_TTL_MS = 10000, // does not run out within a test
    KEPT_TTL_MS = 1000,  // is renewed, and survives a busy machine
    SHORT_TTL_MS = 200,  // for tests that want it to run out
    BATCH = 500,
    TEXT_SIZE = 80,
    WORDS_MAX = 20 + 2 * BATCH,
};

#define VOUCHER "seckill:{1}:voucher"
#define BUYERS  "seckill:{1}:buyers"
#define JOURNAL "seckill:{1}:journal"
#define REPEATS "seckill:{1}:repeats"
#define ENDED   "seckill:{1}:ended"

// ---- parties with a session ----

struct part {
    struct sk_session *session;
    struct sk_named_locks *locks;
};

static struct part parts[3];

static void close_part(void *arg)
{
    struct part *part = arg;
    sk_named_locks_close(part->locks);
    sk_session_close(part->session);
    *part = (struct part){0};
}

static struct party *open_party(uint32_t ttl_ms)
{
    struct party *party = party_open(REDIS_TIMEOUT_MS);
    struct part *part = parts;
    while (part->session != NULL)
        part++;
    part->session = sk_session_open(&party->loop, party->nodes, NULL, &(struct sk_session_options){ttl_ms, 1, 1});
    part->locks = sk_named_locks_open(&party->loop, party->nodes, part->session, ttl_ms);
    must(part->session != NULL && part->locks != NULL, "part");
    party->part = part;
    party->close_part = close_part;
    sk_session_link(part->session);
    RUN_UNTIL(sk_session_held(part->session));
    return party;
}

static struct sk_session *session_of(const struct party *party)
{
    return ((struct part *)party->part)->session;
}

static bool exists(const char *session_id)
{
    return redis_number("EXISTS seckill:{shared}:session:%s", session_id) == 1;
}

struct judgement {
    bool answered;
    enum sk_life life;
};

static void on_judged(void *arg, const enum sk_life *lives, size_t n)
{
    struct judgement *judgement = arg;
    must(n == 1, "one was asked about");
    *judgement = (struct judgement){true, lives[0]};
}

// The party's current judgement of a session.
static enum sk_life judge(const struct party *party, const char *id)
{
    struct judgement judgement = {0};
    char ids[1][SK_UUID_SIZE];
    memcpy(ids[0], id, SK_UUID_SIZE);
    if (sk_sessions_judge(session_of(party), 1, (const char(*)[SK_UUID_SIZE])ids, on_judged, &judgement) != SK_OK)
        return SK_LIFE_UNKNOWN;
    RUN_UNTIL(judgement.answered);
    return judgement.life;
}

// ---- claims ----

static redisContext *redis; // of this process
static char script[16384];  // place_orders.lua, or a copy with one check removed
static char run[TEXT_SIZE];

static void open_voucher(int units)
{
    char info[8192];
    static const char field[] = "run_id:";
    ck_assert(redis_text(info, sizeof info, "INFO server"));
    const char *at = strstr(info, field);
    ck_assert_ptr_nonnull(at);
    (void)snprintf(run, sizeof run, "%.40s", at + sizeof field - 1);
    redis_run("HSET " VOUCHER
              " state open stock %d begin_ms 0 end_ms 99999999999999 epoch 1 last epoch-1 offer 1 run %s",
              units, run);
}

// Loads the script unchanged, or with `old` replaced.
static void use_script(const char *old, const char *new)
{
    const char *text = sk_scripts[SK_SCRIPT_PLACE_ORDERS].text, *at = old == NULL ? NULL : strstr(text, old);
    ck_assert(old == NULL || at != NULL);
    if (at == NULL)
        (void)snprintf(script, sizeof script, "%s", text);
    else
        (void)snprintf(script, sizeof script, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    ck_assert_uint_lt(strlen(script), sizeof script - 1);
}

static redisReply *eval(const char *text, int argc, const char *const *argv)
{
    const char *words[WORDS_MAX] = {"EVAL", text, "5", VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED};
    if (redis == NULL)
        redis = redis_connect_to(VOUCHER);
    memcpy(words + 8, argv, (size_t)argc * sizeof *argv);
    redisReply *reply = redisCommandArgv(redis, argc + 8, words, NULL);
    must(reply != NULL && reply->type != REDIS_REPLY_ERROR, "the script failed");
    return reply;
}

// Tries to take the user's lock for a session, as the service does for a batch. Releasing it needs the journal id.
static bool claim(const char *session, const char *user, const char *order, char journal_id[TEXT_SIZE])
{
    const char *argv[] = {"100000", run, "new", "0", "", session, "-", "1", "20", user, order};
    redisReply *reply = eval(script, 11, argv);
    bool taken = reply->elements >= 7 && reply->element[6]->str[0] == 'p';
    if (taken)
        (void)snprintf(journal_id, TEXT_SIZE, "%s", reply->element[5]->str);
    freeReplyObject(reply);
    return taken;
}

// Releases the lock as a refusal does, so that it can be taken again.
static void release(const char *user, const char *order, const char *journal_id)
{
    const char *argv[] = {journal_id, "", "1", order, user, ""};
    freeReplyObject(eval(sk_scripts[SK_SCRIPT_SETTLE_ENTRY].text, 6, argv));
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
    use_script(NULL, NULL);
}

static void teardown(void)
{
    parties_give_up();
    memset(parts, 0, sizeof parts); // left by a failed test
    service_stop_all();             // restarts Redis if a test left it stopped
    if (redis != NULL)
        redisFree(redis);
    redis = NULL;
}

// ---- the claim ----

enum { PROCESSES = 4, ROUNDS = 60 };

struct shared {
    volatile long count; // read, then written: two at a time lose an increment
    atomic_int inside, overlaps;
    char session[SK_UUID_SIZE];
};

static struct shared *share(void)
{
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    return shared;
}

static void count_up(int says, void *arg)
{
    struct shared *shared = arg;
    char order[TEXT_SIZE], journal_id[TEXT_SIZE];
    (void)says;
    redis = NULL; // the parent's
    for (int i = 0; i < ROUNDS; i++) {
        (void)snprintf(order, sizeof order, "%d-%d", (int)getpid(), i);
        while (!claim("018bcfe5-6800-7000-8000-00000000005e", "alice", order, journal_id))
            (void)usleep(200);
        shared->overlaps += shared->inside++ != 0;
        long count = shared->count;
        (void)usleep(300);
        shared->count = count + 1;
        shared->inside--;
        release("alice", order, journal_id);
    }
    redisFree(redis);
}

static void count_in_processes(struct shared *shared)
{
    struct child *counting[PROCESSES];
    open_voucher(1000);
    for (int i = 0; i < PROCESSES; i++)
        counting[i] = child_start(count_up, shared);
    for (int i = 0; i < PROCESSES; i++)
        ck_assert_int_eq(child_wait(counting[i]), 0);
}

TEST(processes_exclude_each_other_for_a_user)
{
    struct shared *shared = share();
    count_in_processes(shared);
    ck_assert_int_eq(shared->overlaps, 0);
    ck_assert_int_eq(shared->count, PROCESSES * ROUNDS);
    ck_assert_int_eq(redis_number("HGET " VOUCHER " stock"), 1000); // each release returned its unit once
    ck_assert_int_eq(redis_number("XLEN " JOURNAL), 0);
    (void)munmap(shared, sizeof *shared);
}

// The control: the same without the check for an existing order of the user.
TEST(without_the_claim_two_are_inside)
{
    struct shared *shared = share();
    use_script("local order = bought[i] or seen[user]", "local order = seen[user]");
    count_in_processes(shared);
    ck_assert_int_gt(shared->overlaps, 0);
    ck_assert_int_lt(shared->count, PROCESSES * ROUNDS);
    (void)munmap(shared, sizeof *shared);
}

// One write takes all locks of a batch, and one releases them: nothing is written per user.
TEST(the_locks_of_a_batch_are_taken_and_released_at_once)
{
    static char users[BATCH][16], orders[BATCH][16];
    static const char *argv[WORDS_MAX] = {"100000", run, "new", "0", "", "018bcfe5-6800-7000-8000-00000000005e",
                                          "-",      "1", "20"};
    int argc = 9;
    open_voucher(1000);
    for (int i = 0; i < BATCH; i++) {
        (void)snprintf(users[i], sizeof users[i], "user-%d", i);
        (void)snprintf(orders[i], sizeof orders[i], "order-%d", i);
        argv[argc++] = users[i];
        argv[argc++] = orders[i];
    }
    redis_run("CONFIG RESETSTAT");
    redisReply *reply = eval(script, argc, argv);
    ck_assert_uint_eq(strspn(reply->element[6]->str, "p"), BATCH);
    ck_assert_int_eq(redis_calls_of("set"), 0);
    ck_assert_int_eq(redis_calls_of("hset"), 2); // one for all claims, one for the voucher
    ck_assert_int_eq(redis_calls_of("xadd"), 1);
    freeReplyObject(reply);
    reply = eval(script, argc, argv); // another holder finds all of them taken
    ck_assert_uint_eq(strspn(reply->element[6]->str, "a"), BATCH);
    freeReplyObject(reply);
    ck_assert_int_eq(redis_number("XLEN " JOURNAL), 1);
}

// ---- the session ----

TEST(a_session_is_never_without_a_ttl)
{
    struct party *party = open_party(LONG_TTL_MS);
    const char *id = sk_session_id(session_of(party));
    ck_assert_int_gt(redis_number("PTTL seckill:{shared}:session:%s", id), 0);
    ck_assert_int_le(redis_number("PTTL seckill:{shared}:session:%s", id), LONG_TTL_MS);
    party_close(party);
}

TEST(a_session_is_kept_over_several_ttls)
{
    struct party *owner = open_party(KEPT_TTL_MS), *other = open_party(KEPT_TTL_MS);
    const char *id = sk_session_id(session_of(owner));
    uint64_t until_ms = sk_monotonic_ms() + (uint64_t)4 * KEPT_TTL_MS;
    int living = 0;
    while (sk_monotonic_ms() < until_ms) {
        enum sk_life life = judge(other, id);
        ck_assert_int_ne(life, SK_LIFE_DEAD);
        living += life == SK_LIFE_LIVING;
        ck_assert(sk_session_held(session_of(owner)));
        parties_run();
    }
    ck_assert_int_gt(living, 0);
    ck_assert(sk_session_lives(session_of(other), id)); // also in the list of living sessions
    ck_assert_uint_eq(sk_session_deaths(session_of(other)), 0);
    party_close(owner);
    party_close(other);
}

TEST(a_session_that_ends_is_gone_at_once)
{
    struct party *owner = open_party(LONG_TTL_MS), *other = open_party(SHORT_TTL_MS);
    char id[SK_UUID_SIZE];
    memcpy(id, sk_session_id(session_of(owner)), sizeof id);
    RUN_UNTIL(sk_session_lives(session_of(other), id));
    RUN_UNTIL(sk_session_end(session_of(owner)));
    ck_assert(!exists(id));
    ck_assert(!sk_session_held(session_of(owner)));
    RUN_UNTIL(!sk_session_lives(session_of(other), id));
    ck_assert_uint_eq(sk_session_deaths(session_of(other)), 1);
    RUN_UNTIL(judge(other, id) == SK_LIFE_DEAD);
    party_close(owner);
    party_close(other);
}

// Sends 'h' when it holds its session, 'l' when it has lost it, 't' when it has taken it again.
static void hold(int says, void *arg)
{
    struct shared *shared = arg;
    struct party *party = open_party(KEPT_TTL_MS);
    const struct sk_session *session = session_of(party);
    memcpy(shared->session, sk_session_id(session), SK_UUID_SIZE);
    shared->inside++;
    child_say(says, 'h');
    RUN_UNTIL(!sk_session_held(session));
    shared->inside--;
    child_say(says, 'l');
    RUN_UNTIL(sk_session_held(session));
    must(strcmp(shared->session, sk_session_id(session)) == 0, "another id");
    child_say(says, 't');
    RUN_UNTIL(false);
}

TEST(a_crashed_holders_session_expires_and_not_before_its_time)
{
    struct shared *shared = share();
    struct party *heir = open_party(KEPT_TTL_MS);
    struct child *holder = child_start(hold, shared);
    child_must_say(holder, 'h');
    RUN_UNTIL(judge(heir, shared->session) == SK_LIFE_LIVING);
    child_signal(holder, SIGKILL);
    ck_assert(WIFSIGNALED(child_wait(holder)));
    uint64_t since_ms = sk_monotonic_ms();
    int64_t left_ms = redis_number("PTTL seckill:{shared}:session:%s", shared->session);
    ck_assert_int_gt(left_ms, 0);
    RUN_UNTIL(judge(heir, shared->session) == SK_LIFE_DEAD);
    ck_assert_int_ge((int64_t)(sk_monotonic_ms() - since_ms), left_ms - 5);
    ck_assert_int_le((int64_t)(sk_monotonic_ms() - since_ms), 3 * KEPT_TTL_MS);
    party_close(heir);
    (void)munmap(shared, sizeof *shared);
}

TEST(a_stopped_holder_is_told_of_its_loss_and_takes_its_session_again)
{
    struct shared *shared = share();
    struct party *heir = open_party(KEPT_TTL_MS);
    struct child *holder = child_start(hold, shared);
    child_must_say(holder, 'h');
    child_signal(holder, SIGSTOP);
    RUN_UNTIL(judge(heir, shared->session) == SK_LIFE_DEAD);
    child_signal(holder, SIGCONT);
    child_must_say(holder, 'l');
    child_must_say(holder, 't');
    RUN_UNTIL(judge(heir, shared->session) == SK_LIFE_LIVING);
    child_signal(holder, SIGKILL);
    ck_assert(WIFSIGNALED(child_wait(holder)));
    party_close(heir);
    (void)munmap(shared, sizeof *shared);
}

// How often an heir that takes over a holder's work finds the holder inside. `asks`: it checks the session first.
static int overlaps_of_an_heir(bool asks)
{
    struct shared *shared = share();
    struct party *heir = open_party(KEPT_TTL_MS);
    struct child *holder = child_start(hold, shared);
    child_must_say(holder, 'h');
    uint64_t until_ms = sk_monotonic_ms() + (uint64_t)3 * KEPT_TTL_MS;
    for (; sk_monotonic_ms() < until_ms; parties_run()) {
        if (!asks || judge(heir, shared->session) == SK_LIFE_DEAD)
            shared->overlaps += shared->inside > 0;
    }
    int overlaps = shared->overlaps;
    child_signal(holder, SIGKILL);
    ck_assert(WIFSIGNALED(child_wait(holder)));
    party_close(heir);
    (void)munmap(shared, sizeof *shared);
    return overlaps;
}

TEST(no_heir_takes_over_while_the_holder_lives)
{
    ck_assert_int_eq(overlaps_of_an_heir(true), 0);
}

// The control.
TEST(without_asking_for_the_session_two_are_inside)
{
    ck_assert_int_gt(overlaps_of_an_heir(false), 0);
}

// A session that another holder has taken meanwhile is neither renewed nor deleted.
TEST(a_paused_holder_touches_nothing_of_anothers)
{
    struct party *slow = open_party(SHORT_TTL_MS);
    char id[SK_UUID_SIZE], value[TEXT_SIZE];
    memcpy(id, sk_session_id(session_of(slow)), sizeof id);
    slow->paused = true;
    WAIT_FOR(!exists(id));
    redis_run("SET seckill:{shared}:session:%s another PX 60000", id);
    slow->paused = false;
    RUN_UNTIL(!sk_session_held(session_of(slow)));
    party_settle(slow);
    RUN_UNTIL(sk_session_end(session_of(slow)));
    ck_assert(redis_text(value, sizeof value, "GET seckill:{shared}:session:%s", id));
    ck_assert_str_eq(value, "another");
    ck_assert_int_gt(redis_number("PTTL seckill:{shared}:session:%s", id), 10000);
    party_close(slow);
}

// A restart may lose all sessions. They are taken again before any is judged dead.
TEST(a_restart_of_redis_kills_no_session)
{
    struct party *one = open_party(KEPT_TTL_MS), *two = open_party(KEPT_TTL_MS);
    char id[SK_UUID_SIZE];
    memcpy(id, sk_session_id(session_of(one)), sizeof id);
    RUN_UNTIL(judge(two, id) == SK_LIFE_LIVING);
    redis_kill();
    redis_start();
    redis_run("FLUSHALL");
    one->paused = true; // continues later
    RUN_UNTIL(sk_redis_ready(party_redis(two)));
    sk_session_link(session_of(two));
    RUN_UNTIL(sk_session_held(session_of(two)));
    uint64_t since_ms = sk_monotonic_ms();
    while (sk_monotonic_ms() < since_ms + KEPT_TTL_MS / 2) {
        ck_assert_int_eq(judge(two, id), SK_LIFE_UNKNOWN);
        parties_run();
    }
    one->paused = false;
    RUN_UNTIL(sk_redis_ready(party_redis(one)));
    sk_session_link(session_of(one));
    RUN_UNTIL(sk_session_held(session_of(one)));
    RUN_UNTIL(judge(two, id) == SK_LIFE_LIVING);
    ck_assert_str_eq(sk_session_id(session_of(one)), id);
    party_close(one);
    party_close(two);
}

TEST(a_session_that_redis_loses_is_found_lost_and_taken_again)
{
    struct party *party = open_party(KEPT_TTL_MS);
    const char *id = sk_session_id(session_of(party));
    redis_run("FLUSHALL");
    RUN_UNTIL(exists(id));
    RUN_UNTIL(sk_session_held(session_of(party)));
    ck_assert_int_eq(redis_number("ZCARD seckill:{shared}:sessions"), 1);
    party_close(party);
}

// ---- named locks ----

struct view {
    struct sk_named_lock *lock;
    int taken;
    bool held;
};

static void on_taken(void *arg, bool held)
{
    struct view *view = arg;
    view->taken++;
    view->held = held;
}

static bool take(struct party *party, struct view *view, const char *key)
{
    *view = (struct view){0};
    view->lock = sk_named_lock_take(((struct part *)party->part)->locks, key, on_taken, view);
    must(view->lock != NULL && view->taken == 0, "nothing was asked, or a callback inside the call");
    RUN_UNTIL(view->taken > 0);
    return view->held;
}

static void give(struct party *party, struct view *view)
{
    sk_named_lock_release(view->lock);
    party_settle(party);
}

TEST(a_named_lock_has_one_owner_until_it_is_released)
{
    struct party *one = open_party(KEPT_TTL_MS), *two = open_party(KEPT_TTL_MS);
    struct view first, second;
    ck_assert(take(one, &first, LOCK_KEY));
    uint64_t until_ms = sk_monotonic_ms() + (uint64_t)3 * KEPT_TTL_MS; // it is renewed meanwhile
    while (sk_monotonic_ms() < until_ms) {
        ck_assert(!take(two, &second, LOCK_KEY));
        give(two, &second); // it holds nothing, so nothing is released
    }
    give(one, &first);
    ck_assert_int_eq(redis_number("EXISTS " LOCK_KEY), 0);
    ck_assert(take(two, &second, LOCK_KEY));
    give(two, &second);
    party_close(one);
    party_close(two);
}

// Its owner is dead, and the clock went back before the TTL was over.
TEST(a_named_lock_is_free_after_a_ttl_whatever_the_clock)
{
    struct party *dead = open_party(KEPT_TTL_MS), *heir = open_party(LONG_TTL_MS);
    struct view view;
    ck_assert(take(dead, &view, LOCK_KEY));
    dead->paused = true;
    redis_run("PEXPIRE " LOCK_KEY " 3600000");
    uint64_t since_ms = sk_monotonic_ms();
    bool taken = false;
    while (!taken) {
        ck_assert_uint_lt(sk_monotonic_ms(), since_ms + LONG_TTL_MS);
        taken = take(heir, &view, LOCK_KEY);
        give(heir, &view);
    }
    ck_assert_uint_ge(sk_monotonic_ms(), since_ms + KEPT_TTL_MS); // its own TTL, not the heir's
    party_close(heir);
    party_close(dead);
}

TEST(a_paused_owner_of_a_named_lock_releases_nothing_of_anothers)
{
    struct party *slow = open_party(SHORT_TTL_MS), *other = open_party(LONG_TTL_MS);
    struct view slow_view, view;
    ck_assert(take(slow, &slow_view, LOCK_KEY));
    slow->paused = true;
    WAIT_FOR(redis_number("EXISTS " LOCK_KEY) == 0);
    ck_assert(take(other, &view, LOCK_KEY));
    slow->paused = false;
    uint64_t until_ms = sk_monotonic_ms() + SHORT_TTL_MS;
    RUN_UNTIL(sk_monotonic_ms() >= until_ms); // it also tries to renew
    give(slow, &slow_view);
    ck_assert_int_gt(redis_number("PTTL " LOCK_KEY), SHORT_TTL_MS);
    give(other, &view);
    ck_assert_int_eq(redis_number("EXISTS " LOCK_KEY), 0);
    party_close(slow);
    party_close(other);
}

SUITE(.timeout_s = 60, .begin = start, .setup = setup, .teardown = teardown, .in_one_process = true);
