// Formats into a buffer on the stack and writes it at once: no lock, no allocation. A line that is too long is
// truncated, never split.
//
// Warnings and errors are rate limited, since a fault often repeats with each request. Lower levels are not: they
// report completed work, which is never much, or details that an operator asked for.
#include "log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

enum { LINE_MAX_BYTES = 1024 };

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static enum sk_log_level lowest = SK_LOG_INFO;
static struct sk_log_limit flood;
static _Thread_local const char *about; // set by sk_log_about()

void sk_log_set_level(enum sk_log_level level)
{
    lowest = level;
}

bool sk_log_parse_level(const char *name, enum sk_log_level *level)
{
    for (unsigned i = 0; i < sizeof level_names / sizeof level_names[0]; i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *level = (enum sk_log_level)i;
            return true;
        }
    }
    return false;
}

const char *sk_log_about(const char *trace_id)
{
    const char *before = about;
    about = trace_id;
    return before;
}

static size_t log_clip(int printed, size_t room)
{
    if (printed < 0)
        return 0;
    return (size_t)printed < room ? (size_t)printed : room - 1;
}

static bool log_is_plain(char c)
{
    return c >= ' ' && c <= '~';
}

static bool log_passes(enum sk_log_level level, const char *message, uint32_t *suppressed)
{
    *suppressed = 0;
    if (level < SK_LOG_WARN)
        return level >= lowest;
    return level >= lowest && sk_log_limit_passes(&flood, message, (uint32_t)(sk_monotonic_ms() / 1000), suppressed);
}

static size_t log_put_head(char *line, size_t room, enum sk_log_level level, const char *message, uint32_t suppressed)
{
    struct timespec now;
    struct tm parts;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &parts);
    size_t n = strftime(line, room, "ts=%Y-%m-%dT%H:%M:%S", &parts);
    n += log_clip(
        snprintf(line + n, room - n, ".%03ldZ level=%s msg=\"%s\"", now.tv_nsec / 1000000, level_names[level], message),
        room - n);
    if (about != NULL)
        n += log_clip(snprintf(line + n, room - n, " trace_id=%s", about), room - n);
    if (suppressed > 0)
        n += log_clip(snprintf(line + n, room - n, " suppressed=%" PRIu32, suppressed), room - n);
    return n;
}

static void log_put_line(char *line, size_t n)
{
    line[n++] = '\n';
    // If the log cannot be written, the error has nowhere to go.
    if (write(STDERR_FILENO, line, n) < 0)
        return;
}

void sk_log(enum sk_log_level level, const char *message, const char *format, ...)
{
    uint32_t suppressed;
    if (!log_passes(level, message, &suppressed))
        return;
    char line[LINE_MAX_BYTES];
    size_t room = sizeof line - 1; // one byte stays free for the newline
    size_t n = log_put_head(line, room, level, message, suppressed);
    if (format[0] != '\0' && n + 1 < room) {
        line[n++] = ' ';
        size_t pairs = n;
        va_list args;
        va_start(args, format);
        n += log_clip(vsnprintf(line + n, room - n, format, args), room - n);
        va_end(args);
        for (size_t i = pairs; i < n; i++) {
            if (!log_is_plain(line[i]))
                line[i] = '?';
        }
    }
    log_put_line(line, n);
}

void sk_log_text(enum sk_log_level level, const char *message, const char *key, const char *value)
{
    static const char hex[] = "0123456789abcdef";
    uint32_t suppressed;
    if (!log_passes(level, message, &suppressed))
        return;
    char line[LINE_MAX_BYTES];
    size_t room = sizeof line - 8; // an escape, the closing quote and the newline always fit
    size_t n = log_put_head(line, room, level, message, suppressed);
    n += log_clip(snprintf(line + n, room - n, " %s=\"", key), room - n);
    size_t len = strlen(value);
    while (len > 0 && strchr(" \r\n", value[len - 1]) != NULL) // libpq ends its messages with a newline
        len--;
    for (size_t i = 0; i < len && n < room; i++) {
        unsigned char c = (unsigned char)value[i];
        if (!log_is_plain(value[i])) {
            line[n++] = '\\';
            line[n++] = 'x';
            line[n++] = hex[c >> 4];
            line[n++] = hex[c & 15];
            continue;
        }
        if (c == '"' || c == '\\')
            line[n++] = '\\';
        line[n++] = value[i];
    }
    line[n++] = '"';
    log_put_line(line, n);
}

// ---- log limit ----

// Open addressing by the message's address. A place is never freed. One compare-and-swap decides each line, so the
// limit is exact across threads, too.

static atomic_uint_least64_t *log_limit_lines(struct sk_log_limit *limit, const char *message)
{
    // Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, 6.4) spreads neighbouring addresses.
    size_t first = (size_t)((uint64_t)(uintptr_t)message * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    for (size_t i = 0; i < SK_LOG_MESSAGES_MAX; i++) {
        size_t at = (first + i) % SK_LOG_MESSAGES_MAX;
        const char *owner = atomic_load_explicit(&limit->places[at].message, memory_order_relaxed);
        if (owner == NULL) { // a failed swap stores the actual owner in `owner`
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
        // Another thread may have seen a later second: then this line counts in that one.
        bool same = was != 0 && now_s <= was >> 32;
        asked = same ? (uint32_t)was + 1 : 1;
        is = (same ? was >> 32 : now_s) << 32 | asked;
    } while (!atomic_compare_exchange_weak(lines, &was, is));
    *suppressed = asked == 1 && (uint32_t)was > SK_LOG_LINES_PER_S ? (uint32_t)was - SK_LOG_LINES_PER_S : 0;
    return asked <= SK_LOG_LINES_PER_S;
}
