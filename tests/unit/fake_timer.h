// Time under the test's control, for units with one timer of timer.h. Included by one source of a program.
#ifndef UNIT_FAKE_TIMER_H
#define UNIT_FAKE_TIMER_H

#include <check.h>

#include "timer.h"

static uint64_t now_ms, due_ms; // 0: not set
static sk_timer_cb *on_time;
static void *on_time_arg;

uint64_t uv_now(const uv_loop_t *of)
{
    (void)of;
    return now_ms;
}

struct sk_timer *sk_timer_open(uv_loop_t *loop, uint32_t every_ms, sk_timer_cb *tick, void *arg)
{
    static int one;
    (void)loop;
    on_time = tick;
    on_time_arg = arg;
    due_ms = every_ms > 0 ? now_ms + every_ms : 0;
    return (struct sk_timer *)(void *)&one;
}

void sk_timer_once(struct sk_timer *timer, uint32_t ms)
{
    ck_assert_ptr_nonnull(timer);
    due_ms = now_ms + ms;
}

void sk_timer_close(struct sk_timer *timer)
{
    ck_assert_ptr_nonnull(timer);
    on_time = NULL;
    due_ms = 0;
}

// The timer fires now.
static inline void time_comes(void)
{
    due_ms = 0;
    on_time(on_time_arg);
}

#endif
