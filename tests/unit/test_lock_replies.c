// What the answers to a lock's questions make of its keys, in whatever order they come, and which keys are then
// released. The rest of the locks is tested against a real Redis.
#include <stdio.h>

#include "fake_stores.h"
#include "lock.h"
#include "stack.h"

enum { KEYS = 5, TTL_MS = 60000 };

static const char *const keys[KEYS] = {"a", "b", "c", "d", "e"};
static uv_loop_t loop;
static struct sk_locker *locker;
static int taken;

static void on_taken(void *arg, struct sk_lock *lock)
{
    (void)arg;
    (void)lock;
    taken++;
}

static const struct sk_lock_events events = {.taken = on_taken};

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    locker = sk_locker_open(&loop, NULL, TTL_MS);
    ck_assert_ptr_nonnull(locker);
    taken = 0;
}

static void teardown(void)
{
    sk_locker_close(locker);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    fake_stores_forget();
}

// Two keys are granted, one is busy, one answer is an error, and one does not come because the link has died.
static struct sk_lock *answered(void)
{
    static const struct sk_reply ok = TEXT("OK"), nil = NIL, error = ERROR("OOM");
    static const struct sk_reply *const answers[KEYS] = {&ok, &nil, &ok, &error, NULL};
    static const size_t order[KEYS] = {2, 0, 4, 3, 1};
    struct sk_lock *lock = sk_lock_take(locker, KEYS, keys, &events, NULL);
    ck_assert_uint_eq(fake_redis.count, KEYS);
    for (size_t i = 0; i < KEYS; i++) {
        ck_assert_int_eq(taken, 0);
        ck_assert_str_eq(fake_redis.asked[order[i]].argv[1], keys[order[i]]);
        redis_answers_at(order[i], answers[order[i]]);
    }
    ck_assert_int_eq(taken, 1);
    return lock;
}

static void must_release_what_is_held(const struct asked *release)
{
    ck_assert_uint_eq(fake_redis.count, KEYS + 1);
    ck_assert_int_eq(release->what, SK_SCRIPT_LOCK_RELEASE);
    ck_assert_int_eq(release->keys, 2);
    ck_assert_str_eq(release->argv[0], "a");
    ck_assert_str_eq(release->argv[1], "c");
    ck_assert_str_eq(release->argv[2], fake_redis.asked[0].argv[2]); // the token
}

START_TEST(an_answer_belongs_to_the_key_that_was_asked_for)
{
    static const enum sk_lock_state states[KEYS] = {SK_LOCK_HELD, SK_LOCK_BUSY, SK_LOCK_HELD, SK_LOCK_UNKNOWN,
                                                    SK_LOCK_UNKNOWN};
    struct sk_lock *lock = answered();
    for (size_t i = 0; i < KEYS; i++)
        ck_assert_int_eq(sk_lock_state(lock, i), states[i]);
    sk_lock_release(lock);
    must_release_what_is_held(&fake_redis.asked[KEYS]);
}
END_TEST

START_TEST(what_is_granted_after_the_release_is_released_at_once)
{
    static const struct sk_reply ok = TEXT("OK"), nil = NIL;
    static const struct sk_reply *const answers[KEYS] = {&ok, &nil, &ok, NULL, NULL};
    struct sk_lock *lock = sk_lock_take(locker, KEYS, keys, &events, NULL);
    sk_lock_release(lock);
    for (size_t i = 0; i < KEYS; i++) {
        ck_assert_uint_eq(fake_redis.count, KEYS);
        redis_answers(answers[i]);
    }
    ck_assert_int_eq(taken, 0);
    must_release_what_is_held(&fake_redis.asked[KEYS]);
}
END_TEST

START_TEST(nothing_is_asked_while_redis_is_down)
{
    fake_redis.down = true;
    ck_assert_ptr_null(sk_lock_take(locker, KEYS, keys, &events, NULL));
    ck_assert_uint_eq(fake_redis.count, 0);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("lock replies");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, an_answer_belongs_to_the_key_that_was_asked_for);
    tcase_add_test(tcase, what_is_granted_after_the_release_is_released_at_once);
    tcase_add_test(tcase, nothing_is_asked_while_redis_is_down);
    return harness_main(tcase, CK_FORK);
}
