// Strict readers for ids, names and times. They avoid the C library's: strtol accepts signs and spaces, strptime uses
// the locale, timegm wraps around.
#include "text.h"

#include <stdint.h>
#include <string.h>

#include "status.h"

bool sk_text_number(const char *text, uint64_t most, uint64_t *value)
{
    if (text[0] == '\0' || (text[0] == '0' && text[1] != '\0'))
        return false;
    uint64_t n = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c < '0' || *c > '9')
            return false;
        uint64_t digit = (uint64_t)(*c - '0');
        if (n > (most - digit) / 10 || digit > most)
            return false;
        n = n * 10 + digit;
    }
    *value = n;
    return true;
}

bool sk_text_voucher_id(const char *text, int64_t *id)
{
    uint64_t value;
    if (!sk_text_number(text, INT64_MAX, &value) || value == 0)
        return false;
    *id = (int64_t)value;
    return true;
}

bool sk_text_user(const char *text)
{
    size_t n = 0;
    for (; text[n] != '\0'; n++) {
        char c = text[n];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
                  c == '-';
        if (!ok || n == SK_USER_MAX)
            return false;
    }
    return n > 0;
}

bool sk_text_within(const char *text, char first, char last)
{
    while (*text >= first && *text <= last)
        text++;
    return *text == '\0';
}

bool sk_text_url(const char *text)
{
    return sk_text_within(text, '!', '~') && strpbrk(text, "\"\\<>") == NULL && strlen(text) <= SK_URL_MAX &&
           (strncmp(text, "https://", 8) == 0 || strncmp(text, "http://", 7) == 0);
}

bool sk_text_utf8(const char *text)
{
    // For a sequence's first byte: how many bytes follow, and the range of the next one.
    static const struct {
        unsigned char from, to, more, least, most;
    } forms[] = {{0x01, 0x7f, 0, 0, 0},       {0xc2, 0xdf, 1, 0x80, 0xbf}, {0xe0, 0xe0, 2, 0xa0, 0xbf},
                 {0xe1, 0xec, 2, 0x80, 0xbf}, {0xed, 0xed, 2, 0x80, 0x9f}, {0xee, 0xef, 2, 0x80, 0xbf},
                 {0xf0, 0xf0, 3, 0x90, 0xbf}, {0xf1, 0xf3, 3, 0x80, 0xbf}, {0xf4, 0xf4, 3, 0x80, 0x8f}};
    const size_t count = sizeof forms / sizeof forms[0];
    const unsigned char *at = (const unsigned char *)text;
    while (*at != '\0') {
        size_t form = 0;
        while (form < count && (*at < forms[form].from || *at > forms[form].to))
            form++;
        if (form == count)
            return false;
        unsigned char least = forms[form].least, most = forms[form].most;
        at++;
        for (int more = forms[form].more; more > 0; more--, at++) {
            if (*at < least || *at > most)
                return false;
            least = 0x80;
            most = 0xbf;
        }
    }
    return true;
}

static bool text_digits(const char **at, int n, int least, int most, int *value)
{
    int v = 0;
    for (int i = 0; i < n; i++) {
        char c = (*at)[i];
        if (c < '0' || c > '9')
            return false;
        v = v * 10 + (c - '0');
    }
    *at += n;
    *value = v;
    return v >= least && v <= most;
}

static bool text_literal(const char **at, char c)
{
    if (**at != c)
        return false;
    (*at)++;
    return true;
}

// Days since 1970-01-01 in the proleptic Gregorian calendar. Years are counted from March, so that the leap day is the
// last of its year.
static int64_t text_days_of(int year, int month, int day)
{
    int64_t y = month > 2 ? year : year - 1;
    int64_t m = month > 2 ? month - 3 : month + 9;
    return y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719468;
}

static int text_month_days(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

static bool text_read_offset(const char **at, int *minutes)
{
    *minutes = 0;
    if (text_literal(at, 'Z') || text_literal(at, 'z'))
        return true;
    int sign = **at == '-' ? -1 : 1;
    if (!text_literal(at, '+') && !text_literal(at, '-'))
        return false;
    int hour, minute;
    if (!text_digits(at, 2, 0, 23, &hour) || !text_literal(at, ':') || !text_digits(at, 2, 0, 59, &minute))
        return false;
    *minutes = sign * (hour * 60 + minute);
    return true;
}

bool sk_text_time(const char *text, int64_t *unix_ms)
{
    const char *at = text;
    int year, month, day, hour, minute, second, ms = 0, offset;
    if (!text_digits(&at, 4, 1970, 9999, &year) || !text_literal(&at, '-') || !text_digits(&at, 2, 1, 12, &month) ||
        !text_literal(&at, '-') || !text_digits(&at, 2, 1, text_month_days(year, month), &day))
        return false;
    if (!text_literal(&at, 'T') && !text_literal(&at, 't'))
        return false;
    if (!text_digits(&at, 2, 0, 23, &hour) || !text_literal(&at, ':') || !text_digits(&at, 2, 0, 59, &minute) ||
        !text_literal(&at, ':') || !text_digits(&at, 2, 0, 59, &second))
        return false;
    if (text_literal(&at, '.')) {
        int scale = 100, places = 0;
        for (; *at >= '0' && *at <= '9'; at++, places++) {
            ms += (*at - '0') * scale;
            scale /= 10;
        }
        if (places == 0)
            return false;
    }
    if (!text_read_offset(&at, &offset) || *at != '\0')
        return false;
    int64_t minutes = (text_days_of(year, month, day) * 24 + hour) * 60 + minute - offset;
    *unix_ms = (minutes * 60 + second) * 1000 + ms;
    // An offset can move the time out of the years that can be written.
    return *unix_ms >= 0 && *unix_ms < text_days_of(10000, 1, 1) * 86400000;
}

static void text_put_pair(char *out, uint32_t value)
{
    out[0] = (char)('0' + value / 10);
    out[1] = (char)('0' + value % 10);
}

// Without printf: each answered order has one or two times, and printf would cost more than the rest of such an answer.
// 32 bits are enough for days and for the time of a day, and take fewer instructions.
void sk_text_put_time(int64_t unix_ms, char out[SK_TIME_SIZE])
{
    SK_ASSERT(unix_ms >= 0);
    uint32_t days = (uint32_t)(unix_ms / 86400000), rest = (uint32_t)(unix_ms % 86400000), seconds = rest / 1000;
    uint32_t z = days + 719468, era = z / 146097, doe = z % 146097;
    uint32_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    uint32_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), m = (5 * doy + 2) / 153;
    uint32_t year = yoe + era * 400 + (m >= 10);
    memcpy(out, "0000-00-00T00:00:00.000Z", SK_TIME_SIZE);
    text_put_pair(out, year / 100 % 100);
    text_put_pair(out + 2, year % 100);
    text_put_pair(out + 5, m < 10 ? m + 3 : m - 9);
    text_put_pair(out + 8, doy - (153 * m + 2) / 5 + 1);
    text_put_pair(out + 11, seconds / 3600);
    text_put_pair(out + 14, seconds / 60 % 60);
    text_put_pair(out + 17, seconds % 60);
    text_put_pair(out + 20, rest % 1000 / 10);
    out[22] = (char)('0' + rest % 10);
}

size_t sk_text_put_number(uint64_t value, char out[SK_NUMBER_SIZE])
{
    size_t len = 1;
    for (uint64_t rest = value; rest > 9; rest /= 10)
        len++;
    out[len] = '\0';
    size_t i = len - 1;
    for (; value > 9; value /= 10)
        out[i--] = (char)('0' + value % 10);
    out[i] = (char)('0' + value);
    return len;
}

bool sk_text_copy(char **copy, const char *text)
{
    *copy = text == NULL ? NULL : strdup(text);
    return text == NULL || *copy != NULL;
}

// ---- escapes ----

// A control byte is of no use in a parameter or a password, and could do harm in a log, a header or a C string.

enum { ESCAPE_LEN = 3, DEL = 0x7f };

int sk_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The byte that an escape stands for; -1: it is invalid, or not allowed.
static int url_byte(const char *escape)
{
    int high = sk_hex_digit(escape[1]), low = high < 0 ? -1 : sk_hex_digit(escape[2]);
    int byte = low < 0 ? -1 : high * 16 + low;
    return byte < ' ' || byte == DEL ? -1 : byte;
}

bool sk_url_unescape(char *text, size_t *len)
{
    size_t n = 0;
    for (const char *at = strchr(text, '%'); at != NULL; at = strchr(at + 1, '%')) {
        if (url_byte(at) < 0)
            return false;
    }
    for (const char *at = text; *at != '\0'; n++) {
        bool escape = *at == '%';
        if (escape)
            text[n] = (char)url_byte(at);
        else
            text[n] = *at; // never ahead of `at`
        at += escape ? ESCAPE_LEN : 1;
    }
    text[n] = '\0';
    *len = n;
    return true;
}
