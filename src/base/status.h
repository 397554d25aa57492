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

#define SK_ASSERT(condition)                                                                          \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            (void)fprintf(stderr, "level=fatal msg=\"%s:%d: %s\"\n", __FILE__, __LINE__, #condition); \
            abort();                                                                                  \
        }                                                                                             \
    } while (0)

#endif
