// A timer on a loop. It is a separate allocation, because libuv needs the handle for longer than its owner lives.
//
// All functions: the loop's thread.
#ifndef SK_BASE_TIMER_H
#define SK_BASE_TIMER_H

#include <stdint.h>
#include <uv.h>

struct sk_timer;

typedef void sk_timer_cb(void *arg);

// Runs `tick` every `every_ms`, first after `every_ms`. 0: not before sk_timer_once. NULL: out of memory.
struct sk_timer *sk_timer_open(uv_loop_t *loop, uint32_t every_ms, sk_timer_cb *tick, void *arg);

// `tick` does not run again; the memory is freed in the loop's next turn. Also inside `tick`. NULL is fine.
void sk_timer_close(struct sk_timer *timer);

// Replaces the previous setting: runs `tick` once, in `ms` (0: in the loop's next turn).
void sk_timer_once(struct sk_timer *timer, uint32_t ms);

#endif
