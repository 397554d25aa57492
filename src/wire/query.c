// A control byte is of no use in a parameter, and could do harm in a log, a header or a C string. `+` has become a
// blank before: libmicrohttpd does that by itself.
#include "query.h"

#include <ctype.h>
#include <string.h>

enum { DEL = 0x7f, ESCAPE_LEN = 3 };

static const char query_digits[] = "0123456789ABCDEF";

// -1: none.
static int query_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The byte that an escape stands for; -1: it is none, or not allowed.
static int query_byte(const char *escape)
{
    int high = query_digit(escape[1]), low = high < 0 ? -1 : query_digit(escape[2]);
    int byte = low < 0 ? -1 : high * 16 + low;
    return byte < ' ' || byte == DEL ? -1 : byte;
}

bool sk_query_unescape(char *text, size_t *len)
{
    size_t n = 0;
    for (const char *at = strchr(text, '%'); at != NULL; at = strchr(at + 1, '%')) {
        if (query_byte(at) < 0)
            return false;
    }
    for (const char *at = text; *at != '\0'; n++) {
        bool escape = *at == '%';
        if (escape)
            text[n] = (char)query_byte(at);
        else
            text[n] = *at; // not ahead of `at`
        at += escape ? ESCAPE_LEN : 1;
    }
    text[n] = '\0';
    *len = n;
    return true;
}

void sk_query_put(struct sk_buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        char escape[ESCAPE_LEN] = {'%', query_digits[byte >> 4], query_digits[byte & 15]};
        bool stays = byte < DEL && (isalnum(byte) || strchr("-._~", byte) != NULL);
        sk_buf_add(out, stays ? text : escape, stays ? 1 : ESCAPE_LEN);
    }
}
