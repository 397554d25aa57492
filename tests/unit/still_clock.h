// A stopped clock: the linker redirects the clock of the code under test to this one (--wrap; tests/CMakeLists.txt), so
// that no rate recovers between two lines of a test. Included by one source of a program.
#ifndef UNIT_STILL_CLOCK_H
#define UNIT_STILL_CLOCK_H

#include <time.h>

// Names required by the linker. The second exists only with --wrap: without it the program does not link.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
__attribute__((used)) static int (*const wrapped)(clockid_t, struct timespec *) = __real_clock_gettime;
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

static time_t still_at_s = 5; // until the test changes it

// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = still_at_s};
    return 0;
}

#endif
