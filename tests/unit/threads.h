// Several threads that count the same thing at once. Included by one source of a program.
#ifndef UNIT_THREADS_H
#define UNIT_THREADS_H

#include <check.h>
#include <pthread.h>
#include <stdint.h>

enum { THREADS = 8 };

struct counting {
    pthread_t thread;
    uint64_t (*count)(void);
    uint64_t counted;
};

static void *counting_run(void *arg)
{
    struct counting *counting = arg;
    counting->counted = counting->count();
    return NULL;
}

// The sum of what they return.
static uint64_t count_in_threads(uint64_t (*count)(void))
{
    struct counting all[THREADS];
    uint64_t sum = 0;
    for (int i = 0; i < THREADS; i++) {
        all[i].count = count;
        ck_assert_int_eq(pthread_create(&all[i].thread, NULL, counting_run, &all[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(all[i].thread, NULL), 0);
        sum += all[i].counted;
    }
    return sum;
}

#endif
