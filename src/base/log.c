// Formats into a buffer on the stack and writes it at once: no lock, no allocation. A line that is too
// long is cut, never split.
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024 };

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static enum sk_log_level lowest = SK_INFO;

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

static size_t clip(int printed, size_t room)
{
    if (printed < 0)
        return 0;
    return (size_t)printed < room ? (size_t)printed : room - 1;
}

static size_t put_head(char *line, size_t room, enum sk_log_level level, const char *message)
{
    struct timespec now;
    struct tm parts;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &parts);
    size_t n = strftime(line, room, "ts=%Y-%m-%dT%H:%M:%S", &parts);
    return n + clip(snprintf(line + n, room - n, ".%03ldZ level=%s msg=\"%s\"", now.tv_nsec / 1000000,
                             level_names[level], message),
                    room - n);
}

static void put_line(char *line, size_t n)
{
    line[n++] = '\n';
    // A log that cannot be written has nowhere to say so.
    if (write(STDERR_FILENO, line, n) < 0)
        return;
}

void sk_log(enum sk_log_level level, const char *message, const char *format, ...)
{
    if (level < lowest)
        return;
    char line[LINE_MAX_BYTES];
    size_t room = sizeof line - 1; // one byte stays free for the newline
    size_t n = put_head(line, room, level, message);
    if (format[0] != '\0' && n + 1 < room) {
        line[n++] = ' ';
        va_list args;
        va_start(args, format);
        n += clip(vsnprintf(line + n, room - n, format, args), room - n);
        va_end(args);
    }
    put_line(line, n);
}

void sk_log_text(enum sk_log_level level, const char *message, const char *key, const char *value)
{
    if (level < lowest)
        return;
    char line[LINE_MAX_BYTES];
    size_t room = sizeof line - 8; // an escape, the closing quote and the newline always fit
    size_t n = put_head(line, room, level, message);
    n += clip(snprintf(line + n, room - n, " %s=\"", key), room - n);
    for (const char *c = value; *c != '\0' && n < room; c++) {
        if (*c == '"' || *c == '\\') {
            line[n++] = '\\';
            line[n++] = *c;
        } else {
            line[n++] = *c;
            if ((unsigned char)*c < ' ')
                line[n - 1] = ' ';
        }
    }
    while (n > 0 && line[n - 1] == ' ')
        n--;
    line[n++] = '"';
    put_line(line, n);
}
