#include "base64url.h"

#include <stdint.h>

enum { NO_DIGIT = 64 };

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// What each byte stands for: a digit plus one, so that all others are 0.
#define RUN4(c, n)  [(c)] = (n) + 1, [(c) + 1] = (n) + 2, [(c) + 2] = (n) + 3, [(c) + 3] = (n) + 4
#define RUN12(c, n) RUN4(c, n), RUN4((c) + 4, (n) + 4), RUN4((c) + 8, (n) + 8)
#define RUN26(c, n) RUN12(c, n), RUN12((c) + 12, (n) + 12), [(c) + 24] = (n) + 25, [(c) + 25] = (n) + 26
static const uint8_t values[256] = {
    RUN26('A', 0), RUN26('a', 26), RUN4('0', 52), RUN4('4', 56), ['8'] = 61, ['9'] = 62, ['-'] = 63, ['_'] = 64,
};

static unsigned base64url_value(char c)
{
    return (values[(unsigned char)c] - 1U) & 0xffU; // 255: none
}

bool sk_base64url_read(const char *text, size_t chars, unsigned char *out, size_t room, size_t *len)
{
    size_t n = 0;
    unsigned seen = 0; // all bits that any value had: 64 and above only where one was none
    if (chars % 4 == 1 || SK_BASE64URL_BYTES(chars) > room)
        return false;
    for (; chars >= 4; chars -= 4, text += 4) {
        unsigned a = base64url_value(text[0]), b = base64url_value(text[1]), c = base64url_value(text[2]),
                 d = base64url_value(text[3]);
        seen |= a | b | c | d;
        out[n++] = (unsigned char)(a << 2 | b >> 4);
        out[n++] = (unsigned char)(b << 4 | c >> 2);
        out[n++] = (unsigned char)(c << 6 | d);
    }
    if (chars > 0) {
        unsigned a = base64url_value(text[0]), b = base64url_value(text[1]),
                 c = chars == 3 ? base64url_value(text[2]) : 0, rest = chars == 3 ? c & 3U : b & 15U;
        seen |= a | b | c | (rest == 0 ? 0U : (unsigned)NO_DIGIT);
        out[n++] = (unsigned char)(a << 2 | b >> 4);
        if (chars == 3)
            out[n++] = (unsigned char)(b << 4 | c >> 2);
    }
    *len = n;
    return seen < NO_DIGIT;
}

size_t sk_base64url_put(const unsigned char *bytes, size_t len, char *out)
{
    size_t n = 0;
    for (; len >= 3; len -= 3, bytes += 3) {
        out[n++] = digits[bytes[0] >> 2];
        out[n++] = digits[(bytes[0] & 3U) << 4 | bytes[1] >> 4];
        out[n++] = digits[(bytes[1] & 15U) << 2 | bytes[2] >> 6];
        out[n++] = digits[bytes[2] & 63U];
    }
    if (len > 0) {
        out[n++] = digits[bytes[0] >> 2];
        out[n++] = digits[(bytes[0] & 3U) << 4 | (len == 2 ? bytes[1] >> 4 : 0)];
        if (len == 2)
            out[n++] = digits[(bytes[1] & 15U) << 2];
    }
    return n;
}
