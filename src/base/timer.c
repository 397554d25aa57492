#include "timer.h"

#include <stdlib.h>

struct sk_timer {
    uv_timer_t handle;
    sk_timer_cb *tick;
    void *arg;
};

static void timer_on_tick(uv_timer_t *handle)
{
    struct sk_timer *timer = handle->data;
    timer->tick(timer->arg);
}

struct sk_timer *sk_timer_open(uv_loop_t *loop, uint32_t every_ms, sk_timer_cb *tick, void *arg)
{
    struct sk_timer *timer = calloc(1, sizeof *timer);
    if (timer == NULL)
        return NULL;
    timer->tick = tick;
    timer->arg = arg;
    (void)uv_timer_init(loop, &timer->handle);
    timer->handle.data = timer;
    if (every_ms > 0)
        (void)uv_timer_start(&timer->handle, timer_on_tick, every_ms, every_ms);
    return timer;
}

void sk_timer_once(struct sk_timer *timer, uint32_t ms)
{
    (void)uv_timer_start(&timer->handle, timer_on_tick, ms, 0);
}

static void timer_on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void sk_timer_close(struct sk_timer *timer)
{
    if (timer != NULL)
        uv_close((uv_handle_t *)&timer->handle, timer_on_closed);
}
