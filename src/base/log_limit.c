// Open addressing by the message's address; a place that is taken is never given back. One compare-and-swap decides
// each line, so the limit is exact also between threads.
#include "log_limit.h"

#include <stddef.h>

static atomic_uint_least64_t *log_limit_lines(struct sk_log_limit *limit, const char *message)
{
    // Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, 6.4): neighbours are spread.
    size_t first = (size_t)((uint64_t)(uintptr_t)message * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    for (size_t i = 0; i < SK_LOG_MESSAGES_MAX; i++) {
        size_t at = (first + i) % SK_LOG_MESSAGES_MAX;
        const char *owner = atomic_load_explicit(&limit->places[at].message, memory_order_relaxed);
        if (owner == NULL) { // a swap that fails leaves in `owner` whose it is now
            if (atomic_compare_exchange_strong(&limit->places[at].message, &owner, message))
                owner = message;
        }
        if (owner == message)
            return &limit->places[at].lines;
    }
    return &limit->places[SK_LOG_MESSAGES_MAX].lines;
}

bool sk_log_limit_passes(struct sk_log_limit *limit, const char *message, uint32_t now_s, uint32_t *suppressed)
{
    atomic_uint_least64_t *lines = log_limit_lines(limit, message);
    uint64_t was = atomic_load_explicit(lines, memory_order_relaxed), is;
    uint32_t asked;
    do {
        // Another thread may have seen a later second: then this line counts there.
        bool same = was != 0 && now_s <= was >> 32;
        asked = same ? (uint32_t)was + 1 : 1;
        is = (same ? was >> 32 : now_s) << 32 | asked;
    } while (!atomic_compare_exchange_weak(lines, &was, is));
    *suppressed = asked == 1 && (uint32_t)was > SK_LOG_LINES_PER_S ? (uint32_t)was - SK_LOG_LINES_PER_S : 0;
    return asked <= SK_LOG_LINES_PER_S;
}
