// Log lines: always one line whatever the value, cut if too long, dropped below the level, and rate-limited. A standard
// error that nobody reads costs lines, and blocks nobody.
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "clock.h"
#include "listening.h"
#include "log.h"
#include "status.h"
#include "test.h"
#include "threads.h"

enum { LINE_MAX_BYTES = 1024, LINES_EACH = 20000, MANY = 20000, TEXT_SIZE = 1 << 22 };

// The line after its time stamp, whose form is checked.
static const char *after_time(void)
{
    static const char form[] = "ts=0000-00-00T00:00:00.000Z ";
    for (size_t i = 0; form[i] != '\0'; i++)
        ck_assert_msg(form[i] == '0' ? heard[i] >= '0' && heard[i] <= '9' : heard[i] == form[i], "time stamp of %s",
                      heard);
    return heard + sizeof form - 1;
}

static int count_lines(const char *text)
{
    int lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

// What a call logs.
#define HEARD(call) (begin_listening(), (call), end_listening(), after_time())

TEST(lines_are_logfmt)
{
    ck_assert_str_eq(HEARD(sk_log(SK_LOG_INFO, "serving", "listen=%s reactors=%d", "127.0.0.1:8080", 2)),
                     "level=info msg=\"serving\" listen=127.0.0.1:8080 reactors=2\n");
    ck_assert_str_eq(HEARD(sk_log(SK_LOG_ERROR, "no pairs", "")), "level=error msg=\"no pairs\"\n");
    // A pair cannot end the line.
    ck_assert_str_eq(HEARD(sk_log(SK_LOG_WARN, "Redis cannot be relied on", "newest=%s",
                                  "1-1\nts=0 level=info msg=\"forged\"\x1b[0m\x7f\xff")),
                     "level=warn msg=\"Redis cannot be relied on\" "
                     "newest=1-1?ts=0 level=info msg=\"forged\"?[0m??\n");
}

TEST(values_from_outside_are_quoted_and_escaped)
{
    static const struct {
        const char *value, *shown;
    } rows[] = {
        {"", ""},
        {"two words", "two words"},
        {"say \"hi\"", "say \\\"hi\\\""},
        {"back\\slash", "back\\\\slash"},
        {"ends in \\", "ends in \\\\"},
        {"two\nlines level=info msg=\"forged\"", "two lines level=info msg=\\\"forged\\\""},
        {"carriage\r\nreturn", "carriage return"},
        {"connection refused\n\tIs the server running?\n", "connection refused Is the server running?"},
        {"tab\tbell\aescape\x1b[31m", "tab\\x09bell\\x07escape\\x1b[31m"},
        {"\n\n\n", ""},
        {"gr\xc3\xbc\xc3\x9f", "gr\\xc3\\xbc\\xc3\\x9f"},
        {"\x7e\x7f\x80\xff", "~\\x7f\\x80\\xff"},
        {"looks like \\x0a", "looks like \\\\x0a"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char expected[256];
        (void)snprintf(expected, sizeof expected, "level=info msg=\"refused\" reason=\"%s\"\n", rows[i].shown);
        // A level whose rate is not limited.
        ck_assert_str_eq(HEARD(sk_log_text(SK_LOG_INFO, "refused", "reason", rows[i].value)), expected);
    }
}

// Checks that it is one line, not too long, and that its last value ends with an unescaped quote.
static void must_be_whole(size_t value_len)
{
    size_t n = strlen(heard), slashes = 0;
    ck_assert_uint_le(n, LINE_MAX_BYTES);
    ck_assert_msg(strchr(heard, '\n') == heard + n - 1, "one line for %zu bytes", value_len);
    ck_assert_int_eq(heard[n - 2], '"');
    while (heard[n - 3 - slashes] == '\\')
        slashes++;
    ck_assert_msg(slashes % 2 == 0, "the closing quote is escaped for %zu bytes", value_len);
}

TEST(long_values_are_cut_within_the_line)
{
    static const char fillings[] = {'x', '"', '\\', '\n', ' ', '\xff'};
    static char value[4 * LINE_MAX_BYTES];
    for (size_t f = 0; f < sizeof fillings; f++) {
        for (size_t len = LINE_MAX_BYTES / 2 - 100; len < sizeof value - 1; len += len < LINE_MAX_BYTES ? 1 : 997) {
            memset(value, fillings[f], len);
            memset(value, 'x', len % 4); // so that each byte of an escape meets the end of the line
            value[len] = '\0';
            (void)HEARD(sk_log_text(SK_LOG_INFO, "refused", "reason", value));
            must_be_whole(len);
        }
    }
    memset(value, 'x', sizeof value - 1);
    (void)HEARD(sk_log(SK_LOG_INFO, "refused", "value=%s", value));
    ck_assert_uint_le(strlen(heard), LINE_MAX_BYTES);
    ck_assert_ptr_eq(strchr(heard, '\n'), heard + strlen(heard) - 1);
}

TEST(lines_below_the_level_are_dropped)
{
    static const char *const messages[] = {"debug", "info", "warn", "error"}; // few lines of each
    for (int level = SK_LOG_DEBUG; level <= SK_LOG_ERROR; level++) {
        sk_log_set_level((enum sk_log_level)level);
        begin_listening();
        for (int at = SK_LOG_DEBUG; at <= SK_LOG_ERROR; at++) {
            sk_log((enum sk_log_level)at, messages[at], "");
            sk_log_text((enum sk_log_level)at, messages[at], "key", "value");
        }
        end_listening();
        ck_assert_int_eq(count_lines(heard), 2 * (SK_LOG_ERROR - level + 1));
    }
}

// ---- rate limits ----

TEST(a_flood_of_one_message_is_thinned_out)
{
    static struct sk_log_limit limit;
    static const char first[] = "first", flood[] = "flood", other[] = "other";
    uint32_t suppressed;
    for (int i = 0; i < 2 * SK_LOG_LINES_PER_S; i++) // the clock's first second is one as well
        ck_assert_int_eq(sk_log_limit_passes(&limit, first, 0, &suppressed), i < SK_LOG_LINES_PER_S);
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(sk_log_limit_passes(&limit, flood, 7, &suppressed), i < SK_LOG_LINES_PER_S);
        ck_assert_uint_eq(suppressed, 0);
    }
    // Another message is not affected.
    ck_assert(sk_log_limit_passes(&limit, other, 7, &suppressed));
    ck_assert_uint_eq(suppressed, 0);
    // A thread that read the clock a moment earlier shares the limit.
    ck_assert(!sk_log_limit_passes(&limit, flood, 6, &suppressed));
    // The next line that passes reports the suppressed number, once.
    ck_assert(sk_log_limit_passes(&limit, flood, 9, &suppressed));
    ck_assert_uint_eq(suppressed, 1001 - SK_LOG_LINES_PER_S);
    ck_assert(sk_log_limit_passes(&limit, flood, 9, &suppressed));
    ck_assert_uint_eq(suppressed, 0);
    ck_assert(sk_log_limit_passes(&limit, flood, 10, &suppressed));
    ck_assert_uint_eq(suppressed, 0);
}

// More messages than the table holds share fewer lines, and the search for a place always ends.
TEST(messages_past_the_table_share_one_place)
{
    static struct sk_log_limit limit;
    static const char messages[2 * SK_LOG_MESSAGES_MAX];
    uint32_t suppressed;
    int passed = 0;
    for (int i = 0; i < 2 * SK_LOG_MESSAGES_MAX; i++)
        passed += sk_log_limit_passes(&limit, messages + i, 1, &suppressed);
    ck_assert_int_eq(passed, SK_LOG_MESSAGES_MAX + SK_LOG_LINES_PER_S);
    ck_assert(sk_log_limit_passes(&limit, messages, 1, &suppressed));
}

static struct sk_log_limit shared;

static uint64_t flood_it(void)
{
    uint64_t passed = 0;
    uint32_t suppressed;
    for (int i = 0; i < LINES_EACH; i++)
        passed += sk_log_limit_passes(&shared, "shared", 3, &suppressed);
    return passed;
}

TEST(threads_share_the_limit)
{
    uint32_t suppressed;
    ck_assert_uint_eq(count_in_threads(flood_it), SK_LOG_LINES_PER_S);
    ck_assert(sk_log_limit_passes(&shared, "shared", 4, &suppressed));
    ck_assert_uint_eq(suppressed, THREADS * LINES_EACH - SK_LOG_LINES_PER_S);
}

// The whole path, within one second of the clock: an attempt interrupted by a new second does not count.
TEST(warnings_and_errors_are_limited_and_work_done_is_not)
{
    static const char messages[] = "each attempt has a message of its own: one letter less";
    const char *message = messages;
    for (int level = SK_LOG_INFO; level <= SK_LOG_ERROR; level++) {
        uint64_t second;
        do {
            ck_assert_int_ne(*++message, '\0');
            second = sk_monotonic_ms() / 1000;
            begin_listening();
            for (int i = 0; i < 50; i++)
                sk_log((enum sk_log_level)level, message, "");
            end_listening();
        } while (sk_monotonic_ms() / 1000 != second);
        ck_assert_int_eq(count_lines(heard), level < SK_LOG_WARN ? 50 : SK_LOG_LINES_PER_S);
    }
}

// ---- repeats ----

TEST(what_a_retry_repeats_is_logged_twice_a_minute)
{
    static struct sk_log_repeats repeats;
    static const char message[] = "cannot connect";
    const uint64_t begin_ms = 1000;
    uint32_t suppressed;
    for (uint64_t ms = begin_ms; ms < begin_ms + 3 * SK_LOG_REPEAT_MS; ms += 500) {
        bool due = (ms - begin_ms) % SK_LOG_REPEAT_MS == 0;
        ck_assert_int_eq(sk_log_repeats_pass(&repeats, message, "refused", ms, &suppressed), due);
        if (due)
            ck_assert_uint_eq(suppressed, ms == begin_ms ? 0 : SK_LOG_REPEAT_MS / 500 - 1);
    }
    // Another reason, and another message, are news.
    ck_assert(sk_log_repeats_pass(&repeats, message, "wrong password", begin_ms, &suppressed));
    ck_assert(sk_log_repeats_pass(&repeats, "gone", "refused", begin_ms, &suppressed));
}

// With more reasons than places the oldest are forgotten, and each is still logged.
TEST(repeats_past_the_table_forget_the_oldest)
{
    static struct sk_log_repeats repeats;
    char reason[32];
    uint32_t suppressed;
    for (int i = 0; i < 3 * SK_LOG_REPEATS_MAX; i++) {
        (void)snprintf(reason, sizeof reason, "reason %d", i);
        ck_assert(sk_log_repeats_pass(&repeats, "m", reason, (uint64_t)i + 1, &suppressed));
        ck_assert(!sk_log_repeats_pass(&repeats, "m", reason, (uint64_t)i + 1, &suppressed));
    }
    ck_assert(!sk_log_repeats_pass(&repeats, "m", "reason 191", SK_LOG_REPEAT_MS, &suppressed));
    ck_assert(sk_log_repeats_pass(&repeats, "m", "reason 0", SK_LOG_REPEAT_MS, &suppressed));
}

TEST(a_repeated_line_is_one_line)
{
    begin_listening();
    sk_log_repeat(SK_LOG_DEBUG, "cannot connect", "reason", "refused\n"); // not at this level
    for (int i = 0; i < 1000; i++)
        sk_log_repeat(SK_LOG_WARN, "cannot connect", "reason", "refused\n");
    end_listening();
    ck_assert_str_eq(after_time(), "level=warn msg=\"cannot connect\" reason=\"refused\"\n");
}

// ---- standard error ----

static int ends[2], others;

// Standard error becomes a pipe, or a socket, whose other end is ends[0]; `others` is another process's view of it.
static void become_stderr(bool is_socket)
{
    if (is_socket)
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    else
        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    others = ends[1];
    sk_log_open();
}

// What ends[0] has now.
static size_t read_some(char *out, size_t size)
{
    size_t n = 0;
    struct pollfd in = {.fd = ends[0], .events = POLLIN};
    while (n < size - 1 && poll(&in, 1, 0) > 0) {
        ssize_t got = read(ends[0], out + n, size - 1 - n);
        ck_assert_int_gt(got, 0);
        n += (size_t)got;
    }
    out[n] = '\0';
    return n;
}

static char text[TEXT_SIZE];

// A blocking write would never return. _i: 0 a pipe, 1 a socket, 2 a pipe that cannot be opened again.
TEST_EACH(a_reader_that_does_not_read_blocks_nobody, 3)
{
    become_stderr(_i == 1);
    if (_i == 2)
        ck_assert_int_eq(dup2(others, STDERR_FILENO), STDERR_FILENO);
    sk_log_set_patience(0);
    for (int i = 0; i < MANY; i++)
        sk_log(SK_LOG_INFO, "line", "number=%d", i);
    ck_assert_int_eq(fcntl(others, F_GETFL) & O_NONBLOCK, 0); // of the others' it changes nothing
    uint64_t dropped = sk_log_dropped();
    ck_assert_uint_gt(dropped, 0);
    (void)read_some(text, sizeof text);
    int lines = count_lines(text);
    ck_assert_int_eq(text[strlen(text) - 1], '\n');
    ck_assert_ptr_null(strstr(text, "dropped"));
    ck_assert_uint_eq((uint64_t)lines + dropped, MANY);
    // The reader is back: one line reports it, with the next line or without.
    if (_i == 0)
        sk_log(SK_LOG_INFO, "next", "");
    ck_assert_uint_eq(sk_log_dropped(), dropped);
    (void)read_some(text, sizeof text);
    char expected[128];
    (void)snprintf(expected, sizeof expected,
                   "level=warn msg=\"log: lines dropped\" dropped=%" PRIu64 " dropped_in_all=%" PRIu64 "\n", dropped,
                   dropped);
    ck_assert_msg(strstr(text, expected) != NULL, "%s is not in %s", expected, text);
    ck_assert_int_eq(count_lines(text), _i == 0 ? 2 : 1);
}

static void *read_to_the_end(void *arg)
{
    int *lines = arg;
    char some[512];
    for (ssize_t n; (n = read(ends[0], some, sizeof some)) > 0;) {
        for (ssize_t i = 0; i < n; i++)
            *lines += some[i] == '\n';
    }
    return NULL;
}

// What commands log, and what a start that fails does.
TEST_EACH(a_slow_reader_gets_every_line, 2)
{
    pthread_t reader;
    int lines = 0;
    become_stderr(_i == 1);
    ck_assert_int_eq(pthread_create(&reader, NULL, read_to_the_end, &lines), 0);
    for (int i = 0; i < MANY; i++)
        sk_log(SK_LOG_INFO, "line", "number=%d", i);
    FILE *err = sk_log_stream();
    ck_assert_ptr_nonnull(err);
    (void)fprintf(err, "seckill: a setting is wrong\nseckill: another, too\n");
    ck_assert_int_eq(fclose(err), 0);
    ck_assert_uint_eq(sk_log_dropped(), 0);
    (void)close(others);
    (void)close(STDERR_FILENO);
    ck_assert_int_eq(pthread_join(reader, NULL), 0);
    ck_assert_int_eq(lines, MANY + 2);
}

TEST_EACH(where_there_is_no_reader_lines_are_dropped, 2)
{
    (void)signal(SIGPIPE, SIG_IGN);
    become_stderr(_i == 1);
    (void)close(ends[0]);
    for (int i = 0; i < 100; i++)
        sk_log(SK_LOG_INFO, "line", "");
    ck_assert_uint_eq(sk_log_dropped(), 100);
}

// Else the next socket would be standard error.
TEST_EACH(closed_streams_lead_to_null, 8)
{
    struct stat null, at;
    ck_assert_int_eq(stat("/dev/null", &null), 0);
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        if (_i & 1 << fd)
            (void)close(fd);
    }
    sk_log_open();
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        ck_assert_int_eq(fstat(fd, &at), 0);
        if (_i & 1 << fd)
            ck_assert_uint_eq(at.st_rdev, null.st_rdev);
    }
    sk_log(SK_LOG_ERROR, "line", "");
    ck_assert_uint_eq(sk_log_dropped(), 0);
}

// As systemd defines it: the journal if JOURNAL_STREAM is the device and inode of standard error.
TEST_EACH(lines_for_the_journal_have_a_priority, 3)
{
    static const char *const begins[] = {"<7>ts=", "<6>ts=", "<4>ts=", "<3>ts=", "<3>seckill: "};
    struct stat at;
    char stream[64];
    become_stderr(true);
    ck_assert_int_eq(fstat(STDERR_FILENO, &at), 0);
    (void)snprintf(stream, sizeof stream, "%" PRIu64 ":%" PRIu64, (uint64_t)at.st_dev, (uint64_t)at.st_ino + (_i == 1));
    ck_assert_int_eq(_i == 2 ? unsetenv("JOURNAL_STREAM") : setenv("JOURNAL_STREAM", stream, 1), 0);
    sk_log_open();
    sk_log_set_level(SK_LOG_DEBUG);
    for (int level = SK_LOG_DEBUG; level <= SK_LOG_ERROR; level++)
        sk_log((enum sk_log_level)level, "line", "");
    FILE *err = sk_log_stream();
    ck_assert_ptr_nonnull(err);
    (void)fprintf(err, "seckill: a setting is wrong\n");
    (void)fclose(err);
    (void)read_some(text, sizeof text);
    const char *line = text;
    for (int i = 0; i < 5; i++) {
        const char *begin = begins[i] + (_i == 0 ? 0 : strlen("<7>"));
        ck_assert_msg(strncmp(line, begin, strlen(begin)) == 0, "line %d begins otherwise: %s", i, line);
        line = strchr(line, '\n') + 1;
    }
    ck_assert_str_eq(line, "");
}

// _i: whether standard error is full.
TEST_EACH(a_failed_assertion_is_logged_and_ends_the_process, 2)
{
    int status;
    become_stderr(false);
    sk_log_set_patience(0);
    for (int i = 0; _i == 1 && i < MANY; i++)
        sk_log(SK_LOG_INFO, "line", "");
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        SK_ASSERT(_i > 1);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    (void)read_some(text, sizeof text);
    const char *fatal = strstr(text, "level=fatal msg=\"");
    ck_assert_int_eq(fatal != NULL && strstr(fatal, ": _i > 1\"\n") != NULL, _i == 0);
}

TEST(levels_are_known_by_name)
{
    static const char *const good[] = {"debug", "info", "warn", "error"};
    static const char *const bad[] = {"", "INFO", "warning", "information", "inf", " info", "fatal", "3"};
    enum sk_log_level level;
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert(sk_log_parse_level(good[i], &level));
        ck_assert_uint_eq(level, i);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!sk_log_parse_level(bad[i], &level), "taken for a level: '%s'", bad[i]);
}

SUITE(.timeout_s = 30);
