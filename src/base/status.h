// The three kinds of error of this code base, never mixed:
// - business outcomes are enums of their floor, such as sk_purchase_code (purchase_result.h);
// - operating errors are an enum sk_status, logged once, where they are first seen;
// - programmer errors are SK_ASSERT, which stays on in release builds.
#ifndef SK_BASE_STATUS_H
#define SK_BASE_STATUS_H

#include <stdio.h>
#include <stdlib.h>

enum sk_status {
    SK_OK = 0,
    SK_FAIL,   // it did not work; the reason is in the log
    SK_DOWN,   // the store is not connected: try again later
    SK_FULL,   // a bound was reached: try again later
    SK_NO_MEM, // out of memory
};

#define SK_MUST_CHECK __attribute__((warn_unused_result))

#define SK_ASSERT(condition)                                  \
    do {                                                      \
        if (!(condition))                                     \
            sk_assert_failed(__FILE__, __LINE__, #condition); \
    } while (0)

// In log.c. Any thread. Logs it, for which it waits a second at most, and ends the process with abort().
_Noreturn void sk_assert_failed(const char *file, int line, const char *condition);

#endif
