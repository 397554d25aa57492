// Log lines: one line each whatever the value holds, cut when too long, dropped below the level.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "log.h"
#include "stack.h"

enum { SEEN_SIZE = 8192, LINE_MAX_BYTES = 1024 };

static char seen[SEEN_SIZE];
static int memory_fd, real_stderr;

// What is logged between the two calls ends up in `seen`.
static void begin_listening(void)
{
    memory_fd = memfd_create("log", MFD_CLOEXEC);
    real_stderr = dup(STDERR_FILENO);
    ck_assert_int_ge(memory_fd, 0);
    ck_assert_int_eq(dup2(memory_fd, STDERR_FILENO), STDERR_FILENO);
}

static void end_listening(void)
{
    (void)dup2(real_stderr, STDERR_FILENO);
    ssize_t n = pread(memory_fd, seen, sizeof seen - 1, 0);
    ck_assert_int_ge(n, 0);
    seen[n] = '\0';
    (void)close(memory_fd);
    (void)close(real_stderr);
}

// What follows the time stamp, whose form is checked.
static const char *after_time(void)
{
    static const char form[] = "ts=0000-00-00T00:00:00.000Z ";
    for (size_t i = 0; form[i] != '\0'; i++)
        ck_assert_msg(form[i] == '0' ? seen[i] >= '0' && seen[i] <= '9' : seen[i] == form[i], "time stamp of %s", seen);
    return seen + sizeof form - 1;
}

START_TEST(lines_are_logfmt)
{
    begin_listening();
    sk_log(SK_INFO, "serving", "listen=%s reactors=%d", "127.0.0.1:8080", 2);
    end_listening();
    ck_assert_str_eq(after_time(), "level=info msg=\"serving\" listen=127.0.0.1:8080 reactors=2\n");

    begin_listening();
    sk_log(SK_ERROR, "no pairs", "");
    end_listening();
    ck_assert_str_eq(after_time(), "level=error msg=\"no pairs\"\n");
}
END_TEST

START_TEST(values_from_outside_are_quoted_and_escaped)
{
    static const struct {
        const char *value, *shown;
    } rows[] = {
        {"plain", "plain"},
        {"", ""},
        {"two words", "two words"},
        {"say \"hi\"", "say \\\"hi\\\""},
        {"back\\slash", "back\\\\slash"},
        {"ends in \\", "ends in \\\\"},
        {"ends in \"", "ends in \\\""},
        {"two\nlines level=info msg=\"forged\"", "two lines level=info msg=\\\"forged\\\""},
        {"carriage\r\nreturn", "carriage  return"},
        {"tab\tbell\aescape\x1b[31m", "tab bell escape [31m"},
        {"libpq ends its messages so\n", "libpq ends its messages so"},
        {"\n\n\n", ""},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char expected[256];
        begin_listening();
        sk_log_text(SK_WARN, "refused", "reason", rows[i].value);
        end_listening();
        (void)snprintf(expected, sizeof expected, "level=warn msg=\"refused\" reason=\"%s\"\n", rows[i].shown);
        ck_assert_str_eq(after_time(), expected);
    }
}
END_TEST

// Whether the line is one line, not too long, and its last value ends with a quote that is not escaped.
static void must_be_whole(size_t value_len)
{
    size_t n = strlen(seen), slashes = 0;
    ck_assert_uint_le(n, LINE_MAX_BYTES);
    ck_assert_msg(strchr(seen, '\n') == seen + n - 1, "one line for %zu bytes", value_len);
    ck_assert_int_eq(seen[n - 2], '"');
    while (seen[n - 3 - slashes] == '\\')
        slashes++;
    ck_assert_msg(slashes % 2 == 0, "the closing quote is escaped for %zu bytes", value_len);
}

START_TEST(long_values_are_cut_within_the_line)
{
    static const char fillings[] = {'x', '"', '\\', '\n', ' ', '\xff'};
    static char value[4 * LINE_MAX_BYTES];
    for (size_t f = 0; f < sizeof fillings; f++) {
        for (size_t len = LINE_MAX_BYTES / 2 - 100; len < sizeof value - 1; len += len < LINE_MAX_BYTES ? 1 : 997) {
            memset(value, fillings[f], len);
            value[len] = '\0';
            begin_listening();
            sk_log_text(SK_WARN, "refused", "reason", value);
            end_listening();
            must_be_whole(len);
        }
    }
}
END_TEST

START_TEST(long_formats_are_cut_within_the_line)
{
    static char value[4 * LINE_MAX_BYTES];
    memset(value, 'x', sizeof value - 1);
    begin_listening();
    sk_log(SK_WARN, "long", "value=%s", value);
    end_listening();
    size_t n = strlen(seen);
    ck_assert_uint_le(n, LINE_MAX_BYTES);
    ck_assert_ptr_eq(strchr(seen, '\n'), seen + n - 1);
}
END_TEST

START_TEST(lines_below_the_level_are_dropped)
{
    for (int level = SK_DEBUG; level <= SK_ERROR; level++) {
        sk_log_set_level((enum sk_log_level)level);
        begin_listening();
        for (int at = SK_DEBUG; at <= SK_ERROR; at++) {
            sk_log((enum sk_log_level)at, "x", "");
            sk_log_text((enum sk_log_level)at, "x", "key", "value");
        }
        end_listening();
        int lines = 0;
        for (const char *c = seen; *c != '\0'; c++)
            lines += *c == '\n';
        ck_assert_int_eq(lines, 2 * (SK_ERROR - level + 1));
    }
}
END_TEST

START_TEST(levels_are_known_by_name)
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
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("log");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, lines_are_logfmt);
    tcase_add_test(tcase, values_from_outside_are_quoted_and_escaped);
    tcase_add_test(tcase, long_values_are_cut_within_the_line);
    tcase_add_test(tcase, long_formats_are_cut_within_the_line);
    tcase_add_test(tcase, lines_below_the_level_are_dropped);
    tcase_add_test(tcase, levels_are_known_by_name);
    return harness_main(tcase, CK_FORK);
}
