// Time under the test's control, for units with several timers of timer.h (fake_timer.h: with one). Included by one
// source of a program, before stage.h.
#ifndef UNIT_FAKE_TIMERS_H
#define UNIT_FAKE_TIMERS_H

#include <check.h>

#include "timer.h"

enum { TIMERS_MAX = 8 };

static uint64_t now_ms;
static struct {
    sk_timer_cb *tick;
    void *arg;
} timers[TIMERS_MAX];
static size_t timer_count;

uint64_t uv_now(const uv_loop_t *of)
{
    (void)of;
    return now_ms;
}

struct sk_timer *sk_timer_open(uv_loop_t *loop, uint32_t every_ms, sk_timer_cb *tick, void *arg)
{
    (void)loop;
    (void)every_ms;
    ck_assert_uint_lt(timer_count, TIMERS_MAX);
    timers[timer_count].tick = tick;
    timers[timer_count].arg = arg;
    return (struct sk_timer *)(void *)&timers[timer_count++];
}

void sk_timer_close(struct sk_timer *timer)
{
    ck_assert_ptr_nonnull(timer);
}

// So much time passes, and each timer fires once.
static inline void time_passes(uint64_t ms)
{
    now_ms += ms;
    for (size_t i = 0; i < timer_count; i++)
        timers[i].tick(timers[i].arg);
}

#endif
