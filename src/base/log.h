// Log lines in logfmt on standard error. Each line is one write, so lines of different threads never mix.
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
// printable ASCII is written as '?', so no value can end the line. Use sk_log_text() for values that may hold spaces or
// quotes.
//
// Warnings and errors are limited to 10 lines a second for each message. The next line of that message has the pair
// `suppressed`: the number of lines that were left out.
void sk_log(enum sk_log_level level, const char *message, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// All later lines of this thread carry this trace id as the pair `trace_id`; NULL: none. Borrows trace_id while it is
// set. Returns the previous one.
const char *sk_log_about(const char *trace_id);

// Any thread. Like sk_log, with one pair whose value comes from outside. The value is quoted and escaped: bytes that
// are not printable ASCII become \xNN.
void sk_log_text(enum sk_log_level level, const char *message, const char *key, const char *value);

// ---- log limit ----

// Limits log lines. A store that rejects everything, or a client that provokes a warning with each request, must not
// make the process write, and wait for, as many lines.
//
// Each message (a constant sentence, identified by its address) has a place in a fixed table. The place holds the
// current second and its number of lines. There are far more places than messages in the code. If they still run out,
// further messages share one place, and so get fewer lines, never more.

enum { SK_LOG_LINES_PER_S = 10, SK_LOG_MESSAGES_MAX = 256 };

// Starts zeroed.
struct sk_log_limit {
    struct {
        _Atomic(const char *) message; // NULL: free
        atomic_uint_least64_t lines;   // high half: a second; low half: lines requested in it
    } places[SK_LOG_MESSAGES_MAX + 1]; // the last one is shared
};

// Any thread, without a lock. Whether a line with this message may be written in the second `now_s` of a monotonic
// clock. If so, *suppressed is the number of lines left out since the last written one. So the next line of a message
// reports the end of a flood, whenever it comes.
bool sk_log_limit_passes(struct sk_log_limit *limit, const char *message, uint32_t now_s, uint32_t *suppressed);

#endif
