// Log lines in logfmt on standard error, one write each, so that lines of different threads never mix.
#ifndef SK_BASE_LOG_H
#define SK_BASE_LOG_H

#include <stdbool.h>

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

#endif
