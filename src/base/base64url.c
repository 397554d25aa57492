#include "base64url.h"

#include <stdint.h>

enum { DIGIT = 0x80 };

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// The value of each byte. A digit also has DIGIT set; all other bytes are 0.
#define RUN4(c, n) \
    [(c)] = DIGIT + (n), [(c) + 1] = DIGIT + (n) + 1, [(c) + 2] = DIGIT + (n) + 2, [(c) + 3] = DIGIT + (n) + 3
#define RUN12(c, n) RUN4(c, n), RUN4((c) + 4, (n) + 4), RUN4((c) + 8, (n) + 8)
#define RUN26(c, n) RUN12(c, n), RUN12((c) + 12, (n) + 12), [(c) + 24] = DIGIT + (n) + 24, [(c) + 25] = DIGIT + (n) + 25
static const uint8_t values[256] = {
    RUN26('A', 0),      RUN26('a', 26),     RUN4('0', 52),      RUN4('4', 56),
    ['8'] = DIGIT + 60, ['9'] = DIGIT + 61, ['-'] = DIGIT + 62, ['_'] = DIGIT + 63,
};

static uint32_t base64url_value(char c)
{
    return values[(unsigned char)c];
}

// Joins four digits to 24 bits, and removes their four DIGIT flags at once.
static uint32_t base64url_join(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    return (a << 18 ^ b << 12 ^ c << 6 ^ d) ^ ((uint32_t)DIGIT << 18 ^ DIGIT << 12 ^ DIGIT << 6 ^ DIGIT);
}

bool sk_base64url_read(const char *text, size_t chars, unsigned char *out, size_t room, size_t *len)
{
    size_t n = 0;
    uint32_t all = DIGIT; // stays DIGIT only if every character has it
    if (chars % 4 == 1 || SK_BASE64URL_BYTES(chars) > room)
        return false;
    for (; chars >= 4; chars -= 4, text += 4) {
        uint32_t a = base64url_value(text[0]), b = base64url_value(text[1]), c = base64url_value(text[2]),
                 d = base64url_value(text[3]), bits = base64url_join(a, b, c, d);
        all &= a & b & c & d;
        out[n++] = (unsigned char)(bits >> 16);
        out[n++] = (unsigned char)(bits >> 8);
        out[n++] = (unsigned char)bits;
    }
    if (chars > 0) {
        uint32_t a = base64url_value(text[0]), b = base64url_value(text[1]),
                 c = chars == 3 ? base64url_value(text[2]) : (uint32_t)DIGIT, bits = base64url_join(a, b, c, DIGIT);
        all &= a & b & c;
        if ((bits & (chars == 3 ? 0xffU : 0xffffU)) != 0)
            return false; // bits that belong to no byte
        out[n++] = (unsigned char)(bits >> 16);
        if (chars == 3)
            out[n++] = (unsigned char)(bits >> 8);
    }
    *len = n;
    return all == DIGIT;
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
