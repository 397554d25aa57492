// Waits until a condition becomes true: polls with a deadline, never with a fixed sleep.
#ifndef HARNESS_WAIT_H
#define HARNESS_WAIT_H

#include <check.h>
#include <stdint.h>
#include <unistd.h>

#include "clock.h"

// Long enough for a busy machine and a sanitizer build: it is reached only if something is broken.
enum { WAIT_DEADLINE_MS = 20000, WAIT_PAUSE_US = 5000 };

// Polls until the condition holds; the test fails at the deadline.
#define WAIT_FOR(condition)                                                                \
    do {                                                                                   \
        uint64_t wait_until_ms = sk_monotonic_ms() + WAIT_DEADLINE_MS;                     \
        while (!(condition)) {                                                             \
            if (sk_monotonic_ms() > wait_until_ms)                                         \
                ck_abort_msg("%s:%d: waited in vain: %s", __FILE__, __LINE__, #condition); \
            (void)usleep(WAIT_PAUSE_US);                                                   \
        }                                                                                  \
    } while (0)

#endif
