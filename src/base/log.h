// Log lines in logfmt on standard error, one write each, so that lines of different threads never mix.
#ifndef SK_BASE_LOG_H
#define SK_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum sk_log_level { SK_LOG_DEBUG, SK_LOG_INFO, SK_LOG_WARN, SK_LOG_ERROR };

// Before the threads start. Lines below `level` are dropped.
void sk_log_set_level(enum sk_log_level level);

// Finds a level by its name in lower case.
bool sk_log_parse_level(const char *name, enum sk_log_level *level);

// Any thread. `message` is a constant sentence; `format` adds key=value pairs and may be "". A byte that is not
// printable ASCII is written as '?', so that no value can end the line; values that may hold spaces or quotes belong
// into sk_log_text().
//
// Warnings and errors: at most 10 lines in a second for each message. The next line of that message says with the pair
// `suppressed` how many were left out.
void sk_log(enum sk_log_level level, const char *message, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Lines of this thread carry this trace id, as the pair `trace_id`, from now on; NULL: none. Borrowed, as long as it is
// set. Gives the one from before.
const char *sk_log_about(const char *trace_id);

// Any thread. As sk_log, with one pair whose value comes from outside: it is quoted and escaped, bytes that are not
// printable ASCII as \xNN.
void sk_log_text(enum sk_log_level level, const char *message, const char *key, const char *value);

// ---- log limit ----

// A limit on log lines: a store that refuses everything, or a client that provokes a warning with each request,
// must not make the process write, and wait for, as many lines.
//
// Each message (a constant sentence, known by its address) has a place in a fixed table with the current second
// and the lines of that second. There are far more places than messages in the code; should they run out all the
// same, further messages share one place and so get fewer lines, never more.

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
