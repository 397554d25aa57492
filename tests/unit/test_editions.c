// Editions: a holder keeps its edition, taking returns the newest, and each is freed once, when nobody holds it.
#include <pthread.h>
#include <stdatomic.h>

#include "editions.h"
#include "test.h"

enum { VALUES = 2000, READERS = 4 };

static struct value {
    _Atomic int freed;
} values[VALUES];

static struct sk_editions *editions;

static void free_value(void *value)
{
    (void)atomic_fetch_add(&((struct value *)value)->freed, 1);
}

static void setup(void)
{
    for (int i = 0; i < VALUES; i++)
        atomic_store(&values[i].freed, 0);
    editions = sk_editions_open(free_value);
    ck_assert_ptr_nonnull(editions);
    ck_assert_uint_eq(sk_editions_version(editions), 0);
    ck_assert_ptr_null(sk_editions_current(editions));
}

static void teardown(void)
{
    sk_editions_close(editions);
}

TEST(what_is_held_stays)
{
    uint64_t first, second;
    ck_assert(sk_editions_publish(editions, &values[0]));
    const void *old = sk_editions_take(editions, &first);
    ck_assert_ptr_eq(old, &values[0]);
    ck_assert_ptr_eq(sk_editions_take(editions, &first), old);
    ck_assert(sk_editions_publish(editions, &values[1]));
    ck_assert_uint_ne(sk_editions_version(editions), first);
    ck_assert_ptr_eq(sk_editions_current(editions), &values[1]);
    const void *new = sk_editions_take(editions, &second);
    ck_assert_ptr_eq(new, &values[1]);
    ck_assert_uint_eq(second, sk_editions_version(editions));
    sk_editions_give_back(editions, old);
    ck_assert_int_eq(values[0].freed, 0); // still held
    ck_assert_uint_eq(sk_editions_count(editions), 2);
    sk_editions_give_back(editions, old);
    ck_assert_int_eq(values[0].freed, 1);
    sk_editions_give_back(editions, new);
    ck_assert_int_eq(values[1].freed, 0); // still current
    ck_assert(sk_editions_publish(editions, &values[2]));
    ck_assert_int_eq(values[1].freed, 1);
    sk_editions_close(editions);
    ck_assert_int_eq(values[2].freed, 1);
    editions = NULL;
}

static void *read_on(void *arg)
{
    uint64_t version = 0, last = 0;
    while (last < VALUES) {
        struct value *value = sk_editions_take(editions, &version);
        bool good = version >= last && atomic_load(&value->freed) == 0;
        sk_editions_give_back(editions, value);
        if (!good)
            return editions; // not NULL
        last = version;
    }
    return arg;
}

TEST(readers_never_meet_one_that_is_freed)
{
    pthread_t threads[READERS];
    ck_assert(sk_editions_publish(editions, &values[0]));
    for (int i = 0; i < READERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, read_on, NULL), 0);
    for (int i = 1; i < VALUES; i++)
        ck_assert(sk_editions_publish(editions, &values[i]));
    for (int i = 0; i < READERS; i++) {
        void *wrong;
        ck_assert_int_eq(pthread_join(threads[i], &wrong), 0);
        ck_assert_ptr_null(wrong);
    }
    for (int i = 0; i < VALUES - 1; i++)
        ck_assert_int_eq(values[i].freed, 1);
    ck_assert_uint_eq(sk_editions_count(editions), 1);
}

SUITE(.setup = setup, .teardown = teardown);
