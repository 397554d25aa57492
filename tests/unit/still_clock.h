// Time that stands still: the linker sends the clock of the code under test here (--wrap; tests/CMakeLists.txt), so
// that no rate is paid off between two lines of a test. Included by one source of a program.
#ifndef UNIT_STILL_CLOCK_H
#define UNIT_STILL_CLOCK_H

#include <time.h>

// The linker's name.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = 5};
    return 0;
}

#endif
