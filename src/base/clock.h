// Deadlines use the monotonic clock. Only ids and times for people use the wall clock.
#ifndef SK_BASE_CLOCK_H
#define SK_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t sk_clock_ms(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now); // cannot fail for the two clocks we use
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static inline uint64_t sk_clock_ns(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline uint64_t sk_wall_ms(void)
{
    return sk_clock_ms(CLOCK_REALTIME);
}

static inline uint64_t sk_monotonic_ms(void)
{
    return sk_clock_ms(CLOCK_MONOTONIC);
}

#endif
