// Parsers of ids, numbers and times: what they accept and, above all, what they reject.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "test.h"
#include "text.h"

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

enum { DAY_S = 86400, DAYS_TO_9999 = 2932896 };

TEST(numbers_end_at_their_bound_and_never_overflow)
{
    static const struct {
        const char *text;
        uint64_t most;
        bool good;
        uint64_t value;
    } rows[] = {
        {"0", 0, true, 0},
        {"1", 0, false, 0},
        {"9", 0, false, 0},
        {"5", 4, false, 0},
        {"5", 5, true, 5},
        {"9", 9, true, 9},
        {"10", 9, false, 0},
        {"10", 10, true, 10},
        {"11", 10, false, 0},
        {"65535", 65535, true, 65535},
        {"65536", 65535, false, 0},
        {"9223372036854775807", INT64_MAX, true, INT64_MAX},
        {"9223372036854775808", INT64_MAX, false, 0},
        {"18446744073709551615", UINT64_MAX, true, UINT64_MAX},
        {"18446744073709551616", UINT64_MAX, false, 0},
        {"18446744073709551620", UINT64_MAX, false, 0},
        {"28446744073709551615", UINT64_MAX, false, 0},
        {"184467440737095516150", UINT64_MAX, false, 0},
    };
    static const char *const bad[] = {"",    "abc", "-1", "-0",    "+1",  "00",   "01",           "1.0",
                                      "1e3", "0x1", " 1", "1 ",    "1\n", "\t1",  "1,000",        "1_000",
                                      "1/",  "/",   ":",  "1%00x", "%FF", "\xff", "\xef\xbc\x91", "\xd9\xa1"};
    char digits[401];
    uint64_t value = 0;
    for (size_t i = 0; i < COUNT(rows); i++) {
        ck_assert_msg(sk_text_number(rows[i].text, rows[i].most, &value) == rows[i].good, "'%s'", rows[i].text);
        if (rows[i].good)
            ck_assert_uint_eq(value, rows[i].value);
    }
    for (size_t i = 0; i < COUNT(bad); i++)
        ck_assert_msg(!sk_text_number(bad[i], UINT64_MAX, &value), "taken for a number: '%s'", bad[i]);
    for (int digit = '0'; digit <= '1'; digit++) {
        memset(digits, digit, sizeof digits - 1);
        digits[sizeof digits - 1] = '\0';
        ck_assert(!sk_text_number(digits, UINT64_MAX, &value));
    }
}

TEST(voucher_ids_are_numbers_from_1_to_the_largest)
{
    static const struct {
        const char *text;
        int64_t id; // 0: refused
    } rows[] = {{"1", 1}, {"4294967296", INT64_C(4294967296)}, {"9223372036854775807", INT64_MAX},
                {"0", 0}, {"9223372036854775808", 0},          {"", 0}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t id = 0;
        ck_assert_msg(sk_text_voucher_id(rows[i].text, &id) == (rows[i].id > 0), "'%s'", rows[i].text);
        ck_assert_int_eq(id, rows[i].id);
    }
}

TEST(utf8_has_one_form_for_each_character)
{
    static const char *const good[] = {"",
                                       "\x01 a~\x7f\n",
                                       "\xc2\x80\xdf\xbf",
                                       "\xe0\xa0\x80\xec\xbf\xbf\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80\xf1\x80\x80\x80\xf4\x8f\xbf\xbf",
                                       "\xe5\x9d\x8fx\xc3\xa4"};
    static const char *const bad[] = {
        "\x80", // a continuation byte alone
        "\xbf.",
        "\xc2", // cut
        "\xe5\xae",
        "\xf0\x9f\x98",
        "\xc3x",
        "\xc3\xc3\xa4",
        "\xe5\x9dx",
        "\xe5.\x80",
        "\xf0\x9f\x93x",
        "\xf0\x9f.\x80",
        "\xc0\x80", // overlong
        "\xc1\xbf",
        "\xe0\x9f\xbf",
        "\xf0\x8f\xbf\xbf",
        "\xed\xa0\x80", // a surrogate
        "\xed\xbf\xbf",
        "\xf4\x90\x80\x80", // above the last character
        "\xf5\x80\x80\x80",
        "\xfe",
        "\xff",
    };
    for (size_t i = 0; i < COUNT(good); i++)
        ck_assert_msg(sk_text_utf8(good[i]), "good row %zu", i);
    for (size_t i = 0; i < COUNT(bad); i++)
        ck_assert_msg(!sk_text_utf8(bad[i]), "bad row %zu", i);
}

TEST(users_are_1_to_64_harmless_characters)
{
    static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    char user[SK_USER_MAX + 2];
    for (int c = 1; c < 256; c++) {
        char one[] = {'u', (char)c, '\0'};
        ck_assert_msg(sk_text_user(one) == (strchr(all, c) != NULL), "character %d", c);
    }
    memset(user, 'u', sizeof user);
    user[SK_USER_MAX + 1] = '\0';
    ck_assert_msg(!sk_text_user(user), "65 characters");
    user[SK_USER_MAX] = '\0';
    ck_assert_msg(sk_text_user(user), "64 characters");
    ck_assert(sk_text_user("u"));
    ck_assert(sk_text_user("..")); // opaque: it never becomes a path
    ck_assert(!sk_text_user(""));
}

TEST(times_are_read_with_any_offset)
{
    static const struct {
        const char *text;
        int64_t unix_ms;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01t00:00:00z", 0},
        {"1970-01-01T05:45:00+05:45", 0},
        {"2024-02-29T12:00:00Z", INT64_C(1709208000000)},
        {"2026-11-11T00:00:00+08:00", INT64_C(1794326400000)},
        {"2026-11-11T00:00:00-03:30", INT64_C(1794367800000)},
        {"2026-11-10T16:00:00-00:00", INT64_C(1794326400000)},
        {"2026-11-10T16:00:00.1Z", INT64_C(1794326400100)},
        {"2026-11-10T16:00:00.12Z", INT64_C(1794326400120)},
        {"2026-11-10T16:00:00.123Z", INT64_C(1794326400123)},
        {"2026-11-10T16:00:00.123999999999999999999Z", INT64_C(1794326400123)},
        {"9999-12-31T23:59:59.999Z", INT64_C(253402300799999)},
        {"9999-12-31T22:59:59.999-01:00", INT64_C(253402300799999)},
    };
    for (size_t i = 0; i < COUNT(good); i++) {
        int64_t unix_ms = -1;
        ck_assert_msg(sk_text_time(good[i].text, &unix_ms), "%s", good[i].text);
        ck_assert_msg(unix_ms == good[i].unix_ms, "%s read as %lld", good[i].text, (long long)unix_ms);
    }
}

TEST(other_times_are_refused)
{
    static const char *const no_moment[] = {"2023-02-29T00:00:00Z", "2100-02-29T00:00:00Z", "2024-02-30T00:00:00Z",
                                            "2023-04-31T00:00:00Z", "2023-06-31T00:00:00Z", "2023-12-32T00:00:00Z",
                                            "2026-00-11T00:00:00Z", "2026-13-11T00:00:00Z", "2026-11-00T00:00:00Z",
                                            "2026-11-11T24:00:00Z", "2026-11-11T00:60:00Z", "2026-06-30T23:59:60Z",
                                            "1969-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "10000-01-01T00:00:00Z"};
    static const char *const malformed[] = {
        "",
        "2026-11-11",
        "2026-11-11T00:00:00",  // no offset
        "2026-11-11 00:00:00Z", // a space instead of T
        "2026-11-11T00:00Z",
        "2026-11-11T00:00:00.Z",
        "1970-01-01T00:00:00+00:01", // before the first ms
        "9999-12-31T23:59:59-00:01", // past the last year
        "+2026-11-11T00:00:00Z",
        "-026-11-11T00:00:00Z",
        "26-11-11T00:00:00Z",
        "2026-1-11T00:00:00Z",
        "2026-11-11T0:00:00Z",
        "2026-11-11T00:00:00+8:00",
        "2026-11-11T00:00:00+0800",
        "2026-11-11T00:00:00+08",
        "2026-11-11T00:00:00+24:00",
        "2026-11-11T00:00:00+08:60",
        "2026-11-11T00:00:00Z ",
        " 2026-11-11T00:00:00Z",
    };
    int64_t unix_ms;
    for (size_t i = 0; i < COUNT(no_moment); i++)
        ck_assert_msg(!sk_text_time(no_moment[i], &unix_ms), "taken for a time: '%s'", no_moment[i]);
    for (size_t i = 0; i < COUNT(malformed); i++)
        ck_assert_msg(!sk_text_time(malformed[i], &unix_ms), "taken for a time: '%s'", malformed[i]);
}

TEST(every_day_is_written_as_the_calendar_has_it_and_read_back)
{
    char text[SK_TIME_SIZE], expected[SK_TIME_SIZE + 8];
    for (int64_t day = 0; day <= DAYS_TO_9999; day++) {
        time_t seconds = (time_t)(day * DAY_S + day % DAY_S);
        int64_t unix_ms = (int64_t)seconds * 1000 + day % 1000, read_back = -1;
        struct tm parts;
        (void)gmtime_r(&seconds, &parts);
        size_t n = strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S", &parts);
        (void)snprintf(expected + n, sizeof expected - n, ".%03dZ", (int)(day % 1000));
        sk_text_put_time(unix_ms, text);
        if (strcmp(text, expected) != 0 || !sk_text_time(text, &read_back) || read_back != unix_ms)
            ck_abort_msg("day %d: %s, should be %s, read back as %lld", (int)day, text, expected, (long long)read_back);
    }
}

TEST(numbers_are_written_as_they_are_read)
{
    static const uint64_t numbers[] = {0, 1, 9, 10, 99, 100, 4294967296, INT64_MAX, UINT64_MAX - 1, UINT64_MAX};
    for (size_t i = 0; i < COUNT(numbers); i++) {
        char text[SK_NUMBER_SIZE], expected[SK_NUMBER_SIZE + 1];
        int n = snprintf(expected, sizeof expected, "%" PRIu64, numbers[i]);
        ck_assert_uint_eq(sk_text_put_number(numbers[i], text), (size_t)n);
        ck_assert_str_eq(text, expected);
    }
}

TEST(a_url_can_be_held_as_it_is)
{
    static const char *const wrong[] = {"",
                                        "nowhere",
                                        "/login",
                                        "ftp://a/",
                                        "javascript:alert(1)",
                                        "https:/a",
                                        "https://a/\"",
                                        "https://a b",
                                        "https://a\\b",
                                        "https://\xe5",
                                        "https://a/<b>"};
    char long_one[SK_URL_MAX + 2] = "https://";
    for (size_t i = 0; i < COUNT(wrong); i++)
        ck_assert_msg(!sk_text_url(wrong[i]), "'%s'", wrong[i]);
    ck_assert(sk_text_url("https://shop.example/login?to=x&lang=zh#y"));
    ck_assert(sk_text_url("http://127.0.0.1:8000/"));
    memset(long_one + 8, 'a', SK_URL_MAX - 8);
    ck_assert(sk_text_url(long_one));
    long_one[SK_URL_MAX] = 'a';
    ck_assert(!sk_text_url(long_one));
}

SUITE(.timeout_s = 30);
