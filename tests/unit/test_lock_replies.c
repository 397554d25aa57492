// Which key of a lock an answer belongs to, when answers come in another order than that of asking: as they do
// when Redis has lost a script. The rest of the locks is tested against a real Redis.
#include <stdio.h>

#include "fake_stores.h"
#include "lock.h"
#include "stack.h"

enum { KEYS = 4, TTL_MS = 60000 };

static const char *const keys[KEYS] = {"a", "b", "c", "d"};
static uv_loop_t loop;
static struct sk_locker *locker;
static int taken;

static void on_taken(void *arg, struct sk_lock *lock)
{
    (void)arg;
    (void)lock;
    taken++;
}

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

// Answers for key i come in the order 2, 0, 3, 1: c is somebody's, the answer for d is lost.
START_TEST(an_answer_belongs_to_the_key_that_was_asked_for)
{
    static const struct sk_lock_terms numbered = {.fenced = true};
    static const struct sk_lock_events events = {.taken = on_taken};
    static const size_t order[KEYS] = {2, 0, 3, 1};
    static const struct sk_reply answers[KEYS] = {NUMBER(11), NUMBER(12), NUMBER(0), ERROR("NOSCRIPT")};
    struct sk_lock *lock = sk_lock_take(locker, KEYS, keys, &numbered, &events, NULL);
    ck_assert_uint_eq(fake_redis.count, KEYS);
    for (size_t i = 0; i < KEYS; i++) {
        ck_assert_int_eq(taken, 0);
        ck_assert_str_eq(fake_redis.asked[order[i]].argv[0], keys[order[i]]);
        redis_answers_at(order[i], &answers[order[i]]);
    }
    ck_assert_int_eq(taken, 1);
    ck_assert_int_eq(sk_lock_state(lock, 0), SK_LOCK_HELD);
    ck_assert_int_eq(sk_lock_state(lock, 1), SK_LOCK_HELD);
    ck_assert_int_eq(sk_lock_state(lock, 2), SK_LOCK_BUSY);
    ck_assert_int_eq(sk_lock_state(lock, 3), SK_LOCK_UNKNOWN);
    ck_assert_uint_eq(sk_lock_fence(lock, 0), 11);
    ck_assert_uint_eq(sk_lock_fence(lock, 1), 12);
    sk_lock_release(lock);
    const struct asked *release = &fake_redis.asked[KEYS]; // of the two that are held
    ck_assert_uint_eq(fake_redis.count, KEYS + 1);
    ck_assert_int_eq(release->what, SK_SCRIPT_LOCK_RELEASE);
    ck_assert_int_eq(release->keys, 2);
    ck_assert_str_eq(release->argv[0], "a");
    ck_assert_str_eq(release->argv[1], "b");
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("lock replies");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, an_answer_belongs_to_the_key_that_was_asked_for);
    return harness_main(tcase, CK_FORK);
}
