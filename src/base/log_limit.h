// A limit on log lines: a store that refuses everything, or a client that provokes a warning with each request,
// must not make the process write, and wait for, as many lines.
//
// Each message (a constant sentence, known by its address) has a place in a fixed table with the current second
// and the lines of that second. There are far more places than messages in the code; should they run out all the
// same, further messages share one place and so get fewer lines, never more.
#ifndef SK_BASE_LOG_LIMIT_H
#define SK_BASE_LOG_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SK_LOG_LINES_PER_S = 10, SK_LOG_MESSAGES_MAX = 256 };

// Starts zeroed.
struct sk_log_limit {
    struct {
        _Atomic(const char *) message; // NULL: free
        atomic_uint_least64_t lines;   // high half: a second; low half: lines asked for in it
    } places[SK_LOG_MESSAGES_MAX + 1]; // the last one is shared
};

// Any thread, without a lock. Whether a line with this message may be written in the second `now_s` of a monotonic
// clock. If so, *suppressed is how many before it were not, since one was written last. The end of a flood is thus told
// by the next line of its message, whenever that comes.
bool sk_log_limit_passes(struct sk_log_limit *limit, const char *message, uint32_t now_s, uint32_t *suppressed);

#endif
