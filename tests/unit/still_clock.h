// A clock that moves only when the test moves it: for the code under test, and for libuv, whose timers follow. It
// stands where the C library's would (a program's own symbol comes first), so that nothing expires between two lines of
// a test, however slow the machine. Included by one source of a program.
#ifndef UNIT_STILL_CLOCK_H
#define UNIT_STILL_CLOCK_H

#include <check.h>
#include <stdint.h>
#include <time.h>
#include <uv.h>

static uint64_t still_at_ms = 5000;

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the C library's are reserved
int clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){(time_t)(still_at_ms / 1000), (long)(still_at_ms % 1000) * 1000000};
    return 0;
}

// Runs the loop a millisecond at a time until the condition holds; the test fails after a minute of this clock.
#define STILL_UNTIL(loop, condition)                                                       \
    do {                                                                                   \
        uint64_t still_until_ms_ = still_at_ms + 60000;                                    \
        while ((void)uv_run((loop), UV_RUN_NOWAIT), !(condition)) {                        \
            ck_assert_msg(still_at_ms++ < still_until_ms_, "waited in vain: " #condition); \
        }                                                                                  \
    } while (0)

#endif
