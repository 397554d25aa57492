// Exponential back-off with equal jitter: half of a growing span plus a random part of the other half. So clients that
// failed together do not retry together.
#ifndef SK_BASE_BACKOFF_H
#define SK_BASE_BACKOFF_H

#include <stdint.h>

struct sk_backoff {
    uint32_t first_ms;
    uint32_t most_ms;
    uint32_t span_ms; // 0: start with first_ms
    uint64_t random;  // state of the generator; 0: not seeded yet
};

// The thread that owns *backoff. Returns the next wait and doubles the span, up to most_ms.
uint32_t sk_backoff_next(struct sk_backoff *backoff);

// After a success: the next wait is a short one again.
void sk_backoff_reset(struct sk_backoff *backoff);

#endif
