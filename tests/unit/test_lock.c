// The session and the named locks under every reply, also those that no real Redis sends. Another test covers the rest
// with a real Redis.

#include "clock.h"
#include "fake_stores.h"
#include "keys.h"
#include "lock.h"
#include "still_clock.h"
#include "test.h"

enum { TTL_MS = 400, SHARDS = 2 };

#define OTHER "018bcfe5-6800-7000-8000-00000000000b"
#define THIRD "018bcfe5-6800-7000-8000-00000000000c"

static uv_loop_t loop;
static struct sk_session *session;
static struct sk_metrics metrics;
static struct sk_named_locks *locks;

static const struct sk_reply gone_items[] = {NUMBER(0)}, other_items[] = {NUMBER(0), TEXT("2")};
static const struct sk_reply gone = LIST_OF(gone_items), other_protocol = LIST_OF(other_items);
static const struct sk_reply error = ERROR("OOM"), ok = TEXT("OK"), nil = NIL;

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    fake_redis.run_number = 1;
    session = sk_session_open(&loop, NULL, &metrics, &(struct sk_session_options){TTL_MS, SHARDS, 0xabc});
    locks = sk_named_locks_open(&loop, NULL, session, TTL_MS);
    ck_assert_ptr_nonnull(session);
    ck_assert_ptr_nonnull(locks);
}

static void teardown(void)
{
    fake_redis.down = true;
    while (fake_redis.answered < fake_redis.count)
        redis_answers(NULL);
    sk_named_locks_close(locks);
    sk_session_close(session);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    fake_stores_forget();
}

#define RUN_UNTIL(condition) STILL_UNTIL(&loop, condition)

static uint64_t linked_ms;

static void link_up(void)
{
    linked_ms = sk_monotonic_ms();
    sk_session_link(session);
}

static void must_ask_to(const char *how)
{
    ck_assert_uint_eq(fake_redis.count, fake_redis.answered + 1);
    const struct asked *asked = &fake_redis.asked[fake_redis.count - 1];
    ck_assert_int_eq(asked->what, SK_SCRIPT_SESSION_KEEP);
    ck_assert_int_eq(asked->keys, SHARDS + (fake_redis.cluster ? 4 : 5));
    ck_assert_str_eq(asked->argv[asked->keys + 2], sk_session_id(session));
    ck_assert_str_eq(asked->argv[asked->keys + 3], how);
    ck_assert_str_eq(asked->argv[asked->keys + 4], SK_PROTOCOL);
}

// Redis has renewed or granted it, and lists these living sessions. None is able.
#define KEPT(...)                                        \
    do {                                                 \
        const struct sk_reply living_[] = {__VA_ARGS__}; \
        REDIS_LISTS(NUMBER(1), LIST_OF(living_));        \
    } while (0)

static void hold(void)
{
    link_up();
    KEPT();
}

static bool asks(void)
{
    return fake_redis.count > fake_redis.answered;
}

static uint64_t losses(void)
{
    return sk_metrics_read(&metrics, SK_METRIC_SESSIONS_LOST);
}

TEST(a_session_is_held_once_redis_has_said_so)
{
    ck_assert(!sk_session_held(session));
    link_up();
    must_ask_to("take");
    ck_assert(!sk_session_held(session));
    ck_assert(sk_session_await(session)); // a request is in progress
    KEPT();
    ck_assert(sk_session_held(session));
    RUN_UNTIL(fake_redis.count == 2);
    must_ask_to("renew");
    KEPT();
    ck_assert(sk_session_held(session));
}

// It retries after a pause. Instances of another protocol version, which Redis names, may have ended by then.
TEST_EACH(what_is_no_yes_gives_no_session, 5)
{
    static const struct sk_reply *const answers[] = {&gone, &error, &ok, &other_protocol, NULL};
    link_up();
    redis_answers(answers[_i]);
    ck_assert(!sk_session_held(session));
    ck_assert(!sk_session_await(session)); // until then there is none
    RUN_UNTIL(fake_redis.count == 2);
    must_ask_to("take");
    KEPT();
    ck_assert(sk_session_held(session));
}

// It expires by our own clock, counted from the request: earlier than by Redis's.
TEST(a_session_that_is_not_renewed_in_time_is_lost)
{
    hold();
    RUN_UNTIL(!sk_session_held(session)); // the renewal gets no reply
    ck_assert(!sk_session_away(session)); // this Redis is no node of a cluster
    ck_assert_uint_ge(sk_monotonic_ms(), linked_ms + TTL_MS);
    ck_assert(sk_session_await(session));
    KEPT(); // too late: it is taken again, under the same id
    ck_assert(!sk_session_held(session));
    must_ask_to("take");
    KEPT();
    ck_assert(sk_session_held(session));
}

TEST(a_session_that_redis_has_lost_is_taken_again_at_once)
{
    hold();
    RUN_UNTIL(fake_redis.count == 2);
    ck_assert_uint_eq(losses(), 0);
    redis_answers(&gone);
    ck_assert(!sk_session_held(session));
    ck_assert_uint_eq(losses(), 1);
    must_ask_to("take");
    KEPT();
    ck_assert(sk_session_held(session));
    fake_redis.run_number++; // another process
    ck_assert(!sk_session_held(session));
    ck_assert(sk_session_await(session));
    must_ask_to("take");
    ck_assert_uint_eq(losses(), 2);
}

// ---- the node of the sessions is away ----

enum { SELLS_NOTHING, SELLS_ELSEWHERE, SELLS_ALL };

// With vouchers of the sessions' node, and of another one.
static void must_sell(int what)
{
    ck_assert_int_eq(sk_session_sells(session, SK_SHARED_SLOT), what == SELLS_ALL);
    ck_assert_int_eq(sk_session_sells(session, SK_SHARED_SLOT + 1), what != SELLS_NOTHING);
}

static void must_be(bool away, int selling)
{
    ck_assert_int_eq(sk_session_away(session), away);
    must_sell(selling);
}

static const struct sk_reply is_unstable = ERROR("CLUSTERDOWN The cluster is down"), has_moved = ERROR("MOVED 1 a:1"),
                             refuses_writes = ERROR("NOREPLICAS Not enough good replicas to write.");

// Held, and the renewal is sent: RUN_UNTIL has nothing else to do.
static void renewal_is_asked(void)
{
    fake_redis.cluster = true;
    fake_redis.second_run_number = 7;
    hold();
    RUN_UNTIL(fake_redis.count == 2);
}

// ... and then the node is lost; the call in progress ends, too.
static void node_goes_away(void)
{
    renewal_is_asked();
    fake_redis.first_down = true;
    sk_session_link(session);
    redis_answers(NULL);
}

TEST_EACH(while_its_node_is_away_a_held_session_sells_at_the_others, 3)
{
    node_goes_away();
    must_be(true, SELLS_ALL); // still held
    RUN_UNTIL(!sk_session_held(session));
    must_sell(SELLS_ELSEWHERE);
    const char ids[1][SK_UUID_SIZE] = {OTHER};
    ck_assert_int_eq(sk_sessions_judge(session, 1, ids, NULL, NULL), SK_DOWN);
    // It is back, as another process; what is no word of the sessions changes nothing.
    static const struct sk_reply *const answers[] = {&is_unstable, &has_moved, &refuses_writes};
    fake_redis.first_down = false;
    fake_redis.run_number++;
    sk_session_link(session);
    must_ask_to("take");
    must_sell(SELLS_ELSEWHERE);
    redis_answers(answers[_i]);
    must_sell(SELLS_ELSEWHERE);
    RUN_UNTIL(asks());
    KEPT();
    must_be(false, SELLS_ALL);
    ck_assert_int_eq(sk_sessions_judge(session, 1, ids, NULL, NULL), SK_DOWN); // nor within a TTL
}

// As after a fail-over: a link that is not ready yet, or that is.
TEST_EACH(a_session_whose_slot_has_another_node_sells_at_the_others, 2)
{
    renewal_is_asked();
    fake_redis.second_down = _i == 0;
    fake_redis.swapped = true;
    ck_assert(!sk_session_held(session));
    must_sell(SELLS_ELSEWHERE); // before any tick
    sk_session_link(session);
    must_be(true, SELLS_ELSEWHERE);
    redis_answers(NULL);
    must_sell(SELLS_ELSEWHERE);
    fake_redis.second_down = false;
    RUN_UNTIL(fake_redis.count == 3);
    must_ask_to("take");
    KEPT();
    must_be(false, SELLS_ALL);
}

// MOVED has corrected the map before the reply comes here.
TEST(a_renewal_that_is_led_to_another_node_ends_no_sale)
{
    renewal_is_asked();
    fake_redis.second_down = fake_redis.swapped = true;
    redis_answers(&has_moved);
    must_be(true, SELLS_ELSEWHERE);
}

// The lease may be shorter than the time in which a link without replies is given up.
TEST(a_node_that_answers_no_renewal_is_away)
{
    renewal_is_asked();
    RUN_UNTIL(!sk_session_held(session));
    RUN_UNTIL(losses() == 1);
    must_sell(SELLS_ELSEWHERE);
    KEPT(); // too late: it is taken again
    ck_assert(!sk_session_away(session));
    must_ask_to("take");
}

// The same, but the process did not run: first comes a tick, or the loss of the call.
TEST_EACH(a_process_that_was_paused_has_missed_the_reply, 2)
{
    renewal_is_asked();
    still_at_ms += TTL_MS + 100;
    must_be(false, SELLS_NOTHING);
    if (_i == 1)
        redis_answers(NULL);
    RUN_UNTIL(losses() == 1);
    must_be(false, SELLS_NOTHING);
}

TEST(what_the_old_node_acknowledges_does_not_count_for_the_new_one)
{
    fake_redis.cluster = true;
    fake_redis.second_run_number = 7;
    link_up();
    must_ask_to("take");
    fake_redis.swapped = true;
    KEPT();
    ck_assert(!sk_session_held(session) && !sk_session_sells(session, SK_SHARED_SLOT));
    must_ask_to("take");
    KEPT();
    ck_assert(sk_session_held(session));
}

TEST_EACH(a_node_that_is_back_and_refuses_ends_the_sale, 3)
{
    static const struct sk_reply *const answers[] = {&gone, &other_protocol, &ok};
    node_goes_away();
    RUN_UNTIL(!sk_session_held(session));
    fake_redis.first_down = false;
    sk_session_link(session);
    must_ask_to("take");
    redis_answers(answers[_i]);
    must_be(false, SELLS_NOTHING);
}

TEST(a_session_that_was_not_held_does_not_sell)
{
    fake_redis.cluster = fake_redis.first_down = true;
    sk_session_link(session);
    must_be(false, SELLS_NOTHING);
    fake_redis.first_down = false;
    link_up();
    redis_answers(&is_unstable);
    ck_assert(!sk_session_away(session));
}

// The others may have judged it while it did not run.
TEST(a_process_that_was_paused_does_not_sell_on)
{
    node_goes_away();
    still_at_ms += TTL_MS + 100;
    ck_assert(sk_session_away(session));
    RUN_UNTIL(!sk_session_away(session));
    must_sell(SELLS_NOTHING);
}

TEST(one_redis_is_never_away)
{
    hold();
    fake_redis.down = true;
    sk_session_link(session);
    ck_assert(!sk_session_away(session));
    RUN_UNTIL(!sk_session_held(session));
    must_be(false, SELLS_NOTHING);
}

TEST(the_living_are_known_and_deaths_are_counted)
{
    size_t count;
    link_up();
    KEPT(TEXT(THIRD), TEXT("junk"), TEXT(OTHER), NUMBER(7), NIL);
    const char(*living)[SK_UUID_SIZE] = sk_session_living(session, &count);
    ck_assert_uint_eq(count, 3); // it includes itself, whatever Redis returns
    for (size_t i = 1; i < count; i++)
        ck_assert_str_lt(living[i - 1], living[i]);
    ck_assert(sk_session_lives(session, sk_session_id(session)));
    ck_assert(sk_session_lives(session, OTHER));
    ck_assert_uint_eq(sk_session_deaths(session), 0);
    RUN_UNTIL(fake_redis.count == 2);
    KEPT(TEXT(sk_session_id(session)), TEXT(THIRD));
    ck_assert(!sk_session_lives(session, OTHER));
    ck_assert(sk_session_lives(session, THIRD));
    ck_assert_uint_eq(sk_session_deaths(session), 1);
}

// ---- who can do background work ----

// Redis lists these sessions as able in shard 1, and none in shard 0.
#define KEPT_WITH_ABLE(...)                                                          \
    do {                                                                             \
        const struct sk_reply able_[] = {__VA_ARGS__}, none_ = {.kind = REPLY_LIST}; \
        REDIS_LISTS(NUMBER(1), none_, none_, LIST_OF(able_));                        \
    } while (0)

#define SAME_PROCESS  " 0000000000000abc"
#define OTHER_PROCESS " 0000000000000def"

static size_t able_count(size_t shard)
{
    size_t count;
    (void)sk_session_others_able(session, shard, &count);
    return count;
}

TEST(the_able_sessions_of_each_shard_are_known)
{
    char own[80];
    size_t count;
    (void)snprintf(own, sizeof own, "%s" SAME_PROCESS, sk_session_id(session));
    hold();
    uint64_t lists = sk_session_lists(session);
    ck_assert_uint_gt(lists, 0);
    RUN_UNTIL(fake_redis.count == 2);
    KEPT_WITH_ABLE(TEXT(THIRD SAME_PROCESS), TEXT(own), TEXT("junk"), NUMBER(7), NIL, TEXT(OTHER),
                   TEXT(OTHER "+0000000000000abc"), TEXT("x18bcfe5-6800-7000-8000-00000000000b" SAME_PROCESS),
                   TEXT(OTHER SAME_PROCESS));
    const char(*able)[SK_UUID_SIZE] = sk_session_others_able(session, 1, &count);
    ck_assert_uint_eq(count, 2); // without itself
    ck_assert_str_eq(able[0], OTHER);
    ck_assert_str_eq(able[1], THIRD);
    ck_assert_uint_eq(able_count(0), 0);
    ck_assert(!sk_session_able_elsewhere(session, 1));
    ck_assert_uint_gt(sk_session_lists(session), lists);
    lists = sk_session_lists(session);
    RUN_UNTIL(fake_redis.count == 3);
    KEPT_WITH_ABLE(TEXT(OTHER SAME_PROCESS), TEXT(THIRD OTHER_PROCESS)); // the same ones, in the sequence of their ends
    ck_assert_uint_eq(sk_session_lists(session), lists);
    ck_assert(sk_session_able_elsewhere(session, 1));
    ck_assert(!sk_session_able_elsewhere(session, 0));
    RUN_UNTIL(fake_redis.count == 4);
    KEPT();
    ck_assert_uint_eq(able_count(1), 0);
    ck_assert(!sk_session_able_elsewhere(session, 1));
    ck_assert_uint_gt(sk_session_lists(session), lists);
}

static void must_be_written(const char *in_0, const char *in_1)
{
    char *const *argv = fake_redis.asked[fake_redis.count - 1].argv;
    char as_able[80];
    (void)snprintf(as_able, sizeof as_able, "%s" SAME_PROCESS, sk_session_id(session));
    must_ask_to("renew");
    const char *const words[] = {as_able, "2", in_0, in_1};
    ck_assert_str_eq(argv[4], "seckill:{shared}:session:able:0");
    ck_assert_str_eq(argv[5], "seckill:{shared}:session:able:1");
    for (int i = 0; i < 4; i++)
        ck_assert_str_eq(argv[5 + SHARDS + 5 + i], words[i]);
}

TEST(ability_is_written_at_once)
{
    hold();
    uint64_t lists = sk_session_lists(session);
    ck_assert(!sk_session_is_able(session, 1));
    sk_session_set_able(session, 1, true);
    ck_assert(sk_session_is_able(session, 1) && !sk_session_is_able(session, 0));
    ck_assert_uint_gt(sk_session_lists(session), lists);
    must_be_written("0", "1"); // long before the next renewal
    sk_session_set_able(session, 0, true);
    sk_session_set_able(session, 1, false);
    KEPT();
    must_be_written("1", "0"); // what changed during a renewal, right behind it
    KEPT();
    sk_session_set_able(session, 0, true);
    ck_assert(!asks()); // no change
}

// ---- judging ----

static enum sk_life said[2];
static int judgements;

static void on_judged(void *arg, const enum sk_life *lives, size_t n)
{
    ck_assert_ptr_eq(arg, said);
    ck_assert_uint_eq(n, 2);
    memcpy(said, lives, sizeof said);
    judgements++;
}

static enum sk_status judge(void)
{
    static const char ids[2][SK_UUID_SIZE] = {OTHER, THIRD};
    return sk_sessions_judge(session, 2, ids, on_judged, said);
}

// Keeps the session until it may judge.
static void wait_for_the_right_to_judge(void)
{
    while (judge() != SK_OK) {
        still_at_ms++;
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        if (fake_redis.answered < fake_redis.count)
            KEPT();
        ck_assert_uint_lt(sk_monotonic_ms(), linked_ms + 100 * TTL_MS);
    }
    ck_assert_uint_ge(sk_monotonic_ms(), linked_ms + TTL_MS);
}

TEST(only_a_session_that_has_lived_for_a_ttl_judges)
{
    ck_assert_int_eq(judge(), SK_DOWN);
    hold();
    ck_assert_int_eq(judge(), SK_DOWN);
    wait_for_the_right_to_judge();
    const struct asked *asked = &fake_redis.asked[fake_redis.count - 1];
    ck_assert_int_eq(asked->what, SK_SCRIPT_SESSIONS_JUDGE);
    ck_assert_str_eq(asked->argv[1], sk_session_id(session));
    ck_assert_str_eq(asked->argv[2], OTHER);
    redis_answers(NULL);
    fake_redis.down = true;
    sk_session_link(session);
    fake_redis.down = false;
    link_up(); // the link was away: others may not have renewed yet
    ck_assert_int_eq(judge(), SK_DOWN);
    KEPT();
    wait_for_the_right_to_judge();
}

// Only what Redis does not have is dead; what is no number says nothing. If it has lost this session it may have lost
// all.
TEST_EACH(a_session_is_judged_by_what_redis_has_of_it_and_of_the_judge, 7)
{
    static const struct sk_reply items[][3] = {
        {NUMBER(1), NUMBER(0), NUMBER(1)}, {NUMBER(1), NIL, TEXT("dead")},    {NUMBER(0), NUMBER(0), NUMBER(0)},
        {NIL, NUMBER(0), NUMBER(0)},       {NUMBER(1), NUMBER(0), NUMBER(0)},
    };
    const struct sk_reply list = {.kind = REPLY_LIST, .count = _i == 4 ? 1 : 3, .items = items[_i < 5 ? _i : 0]};
    hold();
    wait_for_the_right_to_judge();
    redis_answers(_i < 5 ? &list : _i == 5 ? &error : NULL);
    ck_assert_int_eq(judgements, 1);
    ck_assert_int_eq(said[0], _i == 0 ? SK_LIFE_DEAD : SK_LIFE_UNKNOWN);
    ck_assert_int_eq(said[1], _i == 0 ? SK_LIFE_LIVING : SK_LIFE_UNKNOWN);
}

// ---- judging, while their node refuses writes ----

// Held, with the right to judge, and then a renewal is refused: the last replica of a node with min-replicas-to-write
// is lost. The node still shows which sessions it has, but the others could not renew theirs.
static void writes_are_refused(void)
{
    fake_redis.cluster = true;
    hold();
    wait_for_the_right_to_judge();
    redis_answers(NULL);
    RUN_UNTIL(asks());
    redis_answers(&refuses_writes);
}

TEST(a_node_that_refuses_writes_ends_no_sale_and_judges_nobody)
{
    writes_are_refused();
    ck_assert_int_eq(judge(), SK_DOWN);
    for (int i = 0; i < 3; i++) { // renewals at first, then the session is lost and cannot be taken
        RUN_UNTIL(fake_redis.count > fake_redis.answered && (i == 0 || !sk_session_held(session)));
        while (fake_redis.answered < fake_redis.count)
            redis_answers(&refuses_writes);
        ck_assert(sk_session_sells(session, SK_SHARED_SLOT + 1));
    }
    ck_assert(!sk_session_held(session));
    must_sell(SELLS_ELSEWHERE);
}

// The lease of this session did not end meanwhile, but that of another may have.
TEST(after_a_refusal_nobody_is_judged_within_a_ttl)
{
    writes_are_refused();
    RUN_UNTIL(asks());
    linked_ms = sk_monotonic_ms();
    KEPT();
    ck_assert(!sk_session_away(session));
    ck_assert_int_eq(judge(), SK_DOWN);
    wait_for_the_right_to_judge();
}

// ---- the end ----

TEST_EACH(a_session_ends_once, 2)
{
    static const struct sk_reply done = NUMBER(1);
    hold();
    ck_assert(!sk_session_end(session));
    ck_assert(!sk_session_held(session)); // no more purchases
    ck_assert(!sk_session_end(session));
    ck_assert_uint_eq(fake_redis.count, 2);
    ck_assert_int_eq(fake_redis.asked[1].what, SK_SCRIPT_SESSION_END);
    redis_answers(_i == 0 ? &done : NULL);
    ck_assert(sk_session_end(session));
}

TEST(without_redis_a_session_ends_by_its_ttl)
{
    fake_redis.down = true;
    ck_assert(sk_session_end(session));
}

// ---- named locks ----

static int taken, held;

static void on_taken(void *arg, bool is_held)
{
    ck_assert_ptr_eq(arg, &taken);
    taken++;
    held += is_held;
}

static struct sk_named_lock *take(const char *key)
{
    return sk_named_lock_take(locks, key, on_taken, &taken);
}

// The last call is this script, for a key and with a word.
static void must_ask_for(enum sk_script script, const char *key, const char *word)
{
    const struct asked *asked = &fake_redis.asked[fake_redis.count - 1];
    ck_assert_int_eq(asked->what, (int)script);
    ck_assert_str_eq(asked->argv[0], key);
    ck_assert_str_eq(asked->argv[1], word);
}

TEST_EACH(a_lock_is_held_if_redis_says_ok, 4)
{
    static const struct sk_reply *const answers[] = {&ok, &nil, &error, NULL};
    static const size_t asked_after[] = {2, 2, 1, 1};
    struct sk_named_lock *lock = take("key");
    const struct asked *asked = &fake_redis.asked[0];
    ck_assert_str_eq(asked->argv[1], "key");
    ck_assert_int_eq(strncmp(asked->argv[2], sk_session_id(session), SK_UUID_CHARS), 0); // the owner
    ck_assert_str_eq(strrchr(asked->argv[2], '/'), "/400");                              // the TTL
    redis_answers(answers[_i]);
    ck_assert_int_eq(taken, 1);
    ck_assert_int_eq(held, _i == 0);
    sk_named_lock_release(lock);
    ck_assert_uint_eq(fake_redis.count, asked_after[_i]);
    if (_i == 0)
        must_ask_for(SK_SCRIPT_LOCK_RELEASE, "key", asked->argv[2]);
    else if (_i == 1) // another instance has it, and may be dead
        must_ask_for(SK_SCRIPT_LOCK_CUT, "key", "400");
}

// A lock of another session, which has this token.
static void find_taken(const char *token)
{
    const struct sk_reply found = TEXT(token);
    struct sk_named_lock *lock = take("key");
    redis_answers(&nil);
    sk_named_lock_release(lock);
    must_ask_for(SK_SCRIPT_LOCK_CUT, "key", "400");
    redis_answers(&found);
}

// Else the next attempt would wait for the lock's own TTL.
TEST_EACH(a_lock_of_a_dead_session_is_freed, 4)
{
    static const struct sk_reply dead_items[] = {NUMBER(1), NUMBER(0)}, living_items[] = {NUMBER(1), NUMBER(1)};
    static const struct sk_reply dead = LIST_OF(dead_items), living = LIST_OF(living_items);
    static const struct sk_reply *const answers[] = {&dead, &living, &error, NULL};
    hold();
    wait_for_the_right_to_judge();
    redis_answers(NULL);
    find_taken(OTHER "-7/400");
    const struct asked *asked = &fake_redis.asked[fake_redis.count - 1];
    ck_assert_int_eq(asked->what, SK_SCRIPT_SESSIONS_JUDGE);
    ck_assert_str_eq(asked->argv[2], OTHER);
    redis_answers(answers[_i]);
    ck_assert_int_eq(asks(), _i == 0);
    if (_i == 0) // only if it is still that one
        must_ask_for(SK_SCRIPT_LOCK_RELEASE, "key", OTHER "-7/400");
}

TEST_EACH(a_lock_of_a_session_that_is_listed_or_none_stays, 4)
{
    static const char *const tokens[] = {OTHER "-7/400", "hand", "",
                                         OTHER "-7/400 and much more, which no lock of ours would ever have behind it"};
    link_up();
    KEPT(TEXT(OTHER));
    wait_for_the_right_to_judge();
    redis_answers(NULL);
    RUN_UNTIL(asks());
    KEPT(TEXT(OTHER));
    find_taken(tokens[_i]);
    ck_assert(!asks());
}

TEST(locks_of_a_shard_can_be_yielded)
{
    static const char *const keys[] = {"seckill:lock:expire:{1}", "seckill:lock:expire:{2}"};
    struct sk_named_lock *taking = take(keys[0]);
    struct sk_named_lock *held_one = take(keys[1]);
    size_t shard = sk_shard_of_slot(sk_key_slot(keys[1]), SHARDS);
    redis_answers(NULL);
    redis_answers(&ok);
    sk_named_locks_yield(locks, 1 - shard, SHARDS); // another shard's
    ck_assert_uint_eq(fake_redis.count, 2);
    sk_named_locks_yield(locks, shard, SHARDS);
    ck_assert_uint_eq(fake_redis.count, 3);
    must_ask_for(SK_SCRIPT_LOCK_RELEASE, keys[1], fake_redis.asked[1].argv[2]);
    sk_named_lock_release(taking);
    sk_named_lock_release(held_one);
}

TEST(what_is_granted_after_the_release_is_released_at_once)
{
    sk_named_lock_release(take("key"));
    ck_assert_uint_eq(fake_redis.count, 1);
    redis_answers(&ok);
    ck_assert_int_eq(taken, 0);
    ck_assert_uint_eq(fake_redis.count, 2);
    must_ask_for(SK_SCRIPT_LOCK_RELEASE, "key", fake_redis.asked[0].argv[2]);
}

// Answers all calls except the session's; returns how often the lock has been renewed so far.
static size_t renewals(void)
{
    static const struct sk_reply done = NUMBER(1);
    size_t count = 0;
    for (size_t i = 0; i < fake_redis.count; i++)
        count += fake_redis.asked[i].what == SK_SCRIPT_LOCK_RENEW;
    while (fake_redis.answered < fake_redis.count)
        redis_answers(fake_redis.asked[fake_redis.answered].what == SK_SCRIPT_SESSION_KEEP ? NULL : &done);
    return count;
}

TEST(a_lock_is_renewed_until_it_is_released)
{
    struct sk_named_lock *lock = take("key");
    redis_answers(&ok);
    RUN_UNTIL(renewals() == 3);
    sk_named_lock_release(lock);
    uint64_t until_ms = still_at_ms + TTL_MS;
    RUN_UNTIL(still_at_ms >= until_ms);
    ck_assert_uint_eq(renewals(), 3);
}

TEST(no_two_takings_share_a_token)
{
    struct sk_named_lock *one = take("key");
    struct sk_named_lock *two = take("key");
    ck_assert_str_ne(fake_redis.asked[0].argv[2], fake_redis.asked[1].argv[2]);
    fake_redis.down = true;
    ck_assert_ptr_null(take("key"));
    sk_named_lock_release(one);
    sk_named_lock_release(two);
}

SUITE(.timeout_s = 30, .setup = setup, .teardown = teardown);
