// Formats into a buffer on the stack and writes it at once: no allocation, and no queue, so that the last lines before
// a crash are there. A line that is too long is truncated, never split.
//
// Writing never blocks. Others may share the pipe or the terminal, so they must not find it in non-blocking mode: it is
// opened again, which gives this process a mode of its own. A socket needs none. Where neither is possible, poll()
// comes first: a pipe that is writable takes PIPE_BUF bytes, which no line exceeds.
//
// Warnings and errors are rate limited, since a fault often repeats with each request. Lower levels are not: they
// report completed work, which is never much, or details that an operator asked for.
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "hash.h"
#include "status.h"

enum { LINE_MAX_BYTES = 1024, PRIORITY_SIZE = 4 };

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static enum sk_log_level lowest = SK_LOG_INFO;
static struct sk_log_limit flood;
static struct sk_log_repeats repeats; // under the lock, as the next two
static uint64_t dropped, dropped_reported;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint patience_ms = SK_LOG_PATIENCE_MS;
static bool is_socket, is_journal;      // set by sk_log_open()
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

static size_t log_put_priority(char *line, enum sk_log_level level)
{
    static const char priorities[][PRIORITY_SIZE] = {"<7>", "<6>", "<4>", "<3>"};
    if (!is_journal)
        return 0;
    memcpy(line, priorities[level], PRIORITY_SIZE - 1);
    return PRIORITY_SIZE - 1;
}

static size_t log_put_head(char *line, size_t room, enum sk_log_level level, const char *message, uint32_t suppressed)
{
    struct timespec now;
    struct tm parts;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &parts);
    size_t n = log_put_priority(line, level);
    n += strftime(line + n, room - n, "ts=%Y-%m-%dT%H:%M:%S", &parts);
    n += log_clip(
        snprintf(line + n, room - n, ".%03ldZ level=%s msg=\"%s\"", now.tv_nsec / 1000000, level_names[level], message),
        room - n);
    if (about != NULL)
        n += log_clip(snprintf(line + n, room - n, " trace_id=%s", about), room - n);
    if (suppressed > 0)
        n += log_clip(snprintf(line + n, room - n, " suppressed=%" PRIu32, suppressed), room - n);
    return n;
}

// Under the lock, or at the end of the process. False: it is not written, or not all of it.
static bool log_write(const char *line, size_t len)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    int ms = dropped == dropped_reported ? (int)atomic_load(&patience_ms) : 0, writable;
    while ((writable = poll(&out, 1, ms)) < 0 && errno == EINTR) {}
    if (writable <= 0)
        return false;
    ssize_t n = is_socket ? send(STDERR_FILENO, line, len, MSG_DONTWAIT | MSG_NOSIGNAL) //
                          : write(STDERR_FILENO, line, len);
    return n == (ssize_t)len;
}

// Under the lock.
static void log_report_dropped(void)
{
    char line[LINE_MAX_BYTES];
    if (dropped == dropped_reported)
        return;
    const char *trace_id = sk_log_about(NULL);
    size_t n = log_put_head(line, sizeof line - 1, SK_LOG_WARN, "log: lines dropped", 0);
    (void)sk_log_about(trace_id);
    n += log_clip(snprintf(line + n, sizeof line - 1 - n, " dropped=%" PRIu64 " dropped_in_all=%" PRIu64,
                           dropped - dropped_reported, dropped),
                  sizeof line - 1 - n);
    line[n++] = '\n';
    if (log_write(line, n))
        dropped_reported = dropped;
}

static void log_put_line(char *line, size_t n)
{
    line[n++] = '\n';
    (void)pthread_mutex_lock(&log_lock);
    log_report_dropped();
    dropped += !log_write(line, n);
    (void)pthread_mutex_unlock(&log_lock);
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

static void log_put_text(enum sk_log_level level, const char *message, uint32_t suppressed, const char *key,
                         const char *value)
{
    static const char hex[] = "0123456789abcdef";
    char line[LINE_MAX_BYTES];
    size_t room = sizeof line - 8; // an escape, the closing quote and the newline always fit
    size_t n = log_put_head(line, room, level, message, suppressed);
    n += log_clip(snprintf(line + n, room - n, " %s=\"", key), room - n);
    size_t len = strlen(value);
    while (len > 0 && strchr(" \r\n", value[len - 1]) != NULL)
        len--;
    for (size_t i = 0; i < len && n < room; i++) {
        unsigned char c = (unsigned char)value[i];
        if (c == '\r' || c == '\n') { // libpq's messages have several lines
            i += strspn(value + i, " \t\r\n") - 1;
            line[n++] = ' ';
            continue;
        }
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

void sk_log_text(enum sk_log_level level, const char *message, const char *key, const char *value)
{
    uint32_t suppressed;
    if (log_passes(level, message, &suppressed))
        log_put_text(level, message, suppressed, key, value);
}

void sk_log_repeat(enum sk_log_level level, const char *message, const char *key, const char *value)
{
    uint32_t repeated, suppressed;
    if (level < lowest)
        return; // it is not counted either
    (void)pthread_mutex_lock(&log_lock);
    bool passes = sk_log_repeats_pass(&repeats, message, value, sk_monotonic_ms(), &repeated);
    (void)pthread_mutex_unlock(&log_lock);
    if (passes && log_passes(level, message, &suppressed))
        log_put_text(level, message, suppressed + repeated, key, value);
}

// ---- standard error ----

static void log_fill_gaps(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", O_RDWR); // the lowest free number, which is this one
    }
}

static bool log_leads_to_journal(const struct stat *at)
{
    const char *stream = getenv("JOURNAL_STREAM");
    char own[64];
    (void)snprintf(own, sizeof own, "%" PRIu64 ":%" PRIu64, (uint64_t)at->st_dev, (uint64_t)at->st_ino);
    return stream != NULL && strcmp(stream, own) == 0;
}

// On failure, as without /proc, it stays as it was.
static void log_open_again(void)
{
    int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)dup2(fd, STDERR_FILENO);
    (void)close(fd);
}

void sk_log_open(void)
{
    struct stat at;
    log_fill_gaps();
    if (fstat(STDERR_FILENO, &at) != 0)
        return;
    is_socket = S_ISSOCK(at.st_mode);
    is_journal = log_leads_to_journal(&at);
    if (S_ISFIFO(at.st_mode) || isatty(STDERR_FILENO) == 1)
        log_open_again();
}

static ssize_t log_on_stream(void *cookie, const char *text, size_t len)
{
    char line[LINE_MAX_BYTES];
    (void)cookie;
    for (size_t i = 0; i < len;) {
        const char *end = memchr(text + i, '\n', len - i);
        size_t n = log_put_priority(line, SK_LOG_ERROR), all = end == NULL ? len - i : (size_t)(end - text) - i;
        size_t most = all < sizeof line - 1 - n ? all : sizeof line - 1 - n;
        memcpy(line + n, text + i, most);
        log_put_line(line, n + most);
        i += all + 1;
    }
    return (ssize_t)len;
}

FILE *sk_log_stream(void)
{
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = log_on_stream});
    if (stream != NULL)
        (void)setvbuf(stream, NULL, _IOLBF, 0);
    return stream;
}

void sk_log_set_patience(unsigned ms)
{
    atomic_store(&patience_ms, ms);
}

uint64_t sk_log_dropped(void)
{
    (void)pthread_mutex_lock(&log_lock);
    log_report_dropped();
    uint64_t lines = dropped;
    (void)pthread_mutex_unlock(&log_lock);
    return lines;
}

// Without the lock: whatever the other threads do, the process ends.
void sk_assert_failed(const char *file, int line, const char *condition)
{
    char text[LINE_MAX_BYTES];
    int n = snprintf(text, sizeof text, "%slevel=fatal msg=\"%s:%d: %s\"\n", is_journal ? "<2>" : "", file, line,
                     condition);
    sk_log_set_patience(SK_LOG_PATIENCE_MS);
    (void)log_write(text, log_clip(n, sizeof text));
    abort();
}

// ---- repeats ----

bool sk_log_repeats_pass(struct sk_log_repeats *repeated, const char *message, const char *value, uint64_t now_ms,
                         uint32_t *suppressed)
{
    uint64_t what = (sk_hash(value, strlen(value)) ^ (uint64_t)(uintptr_t)message) | 1;
    size_t at = 0;
    bool known = false;
    for (size_t i = 0; i < SK_LOG_REPEATS_MAX && !known; i++) {
        known = repeated->places[i].what == what;
        if (known || repeated->places[i].at_ms < repeated->places[at].at_ms)
            at = i;
    }
    if (known && now_ms < repeated->places[at].at_ms + SK_LOG_REPEAT_MS) {
        repeated->places[at].suppressed++;
        return false;
    }
    *suppressed = known ? repeated->places[at].suppressed : 0;
    repeated->places[at].what = what;
    repeated->places[at].at_ms = now_ms;
    repeated->places[at].suppressed = 0;
    return true;
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
        bool same = now_s <= was >> 32;
        asked = same ? (uint32_t)was + 1 : 1;
        is = (same ? was >> 32 : now_s) << 32 | asked;
    } while (!atomic_compare_exchange_weak(lines, &was, is));
    *suppressed = asked == 1 && (uint32_t)was > SK_LOG_LINES_PER_S ? (uint32_t)was - SK_LOG_LINES_PER_S : 0;
    return asked <= SK_LOG_LINES_PER_S;
}
