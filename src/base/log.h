// Log lines in logfmt on standard error. Each line is one write, so lines of different threads never mix.
//
// A standard error that nobody reads costs lines, never an answer.
#ifndef SK_BASE_LOG_H
#define SK_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum sk_log_level { SK_LOG_DEBUG, SK_LOG_INFO, SK_LOG_WARN, SK_LOG_ERROR };

// First in main(), before anything else is opened. Standard streams that are closed lead to /dev/null from now on: else
// a socket would get such a number, and what is printed would go to a client or a store. Where standard error is
// systemd's journal, each line begins with its priority from now on, as sd-daemon(3) defines it.
void sk_log_open(void);

// For messages that are no log lines: a stream to standard error, with a priority and bounds as lines of SK_LOG_ERROR
// have. Write whole lines. The caller closes it. NULL: out of memory.
FILE *sk_log_stream(void);

// Any thread. How long a line waits for a standard error that is full: SK_LOG_PATIENCE_MS at first, which suits a
// command; 0: it does not. Once a line had to be dropped, no line waits until one was taken again.
enum { SK_LOG_PATIENCE_MS = 1000 };
void sk_log_set_patience(unsigned ms);

// Any thread. How many lines were dropped so far. If standard error takes lines again, and none since has reported how
// many were dropped, logs it now.
uint64_t sk_log_dropped(void);

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

// Any thread. Like sk_log_text, for what a retry repeats: message and value together are logged at most once in
// SK_LOG_REPEAT_MS by the whole process. The next line has the pair `suppressed`.
void sk_log_repeat(enum sk_log_level level, const char *message, const char *key, const char *value);

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

// ---- repeats ----

enum { SK_LOG_REPEATS_MAX = 64, SK_LOG_REPEAT_MS = 30000 };

// What has been logged lately. When all places are in use, the oldest one is given away. Starts zeroed.
struct sk_log_repeats {
    struct {
        uint64_t what; // a hash; 0: free
        uint64_t at_ms;
        uint32_t suppressed;
    } places[SK_LOG_REPEATS_MAX];
};

// One thread at a time. Whether this is to be logged at now_ms of a monotonic clock; then *suppressed is how often it
// was not since the last time.
bool sk_log_repeats_pass(struct sk_log_repeats *repeats, const char *message, const char *value, uint64_t now_ms,
                         uint32_t *suppressed);

#endif
