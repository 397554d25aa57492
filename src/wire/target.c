// Clients send the absolute form to proxies, and a server must accept it as well (RFC 9112 3.2.2). The host in it is
// ignored, as Host is: we serve one host.
#include "target.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

const char *sk_target_path(const char *target)
{
    static const char *const schemes[] = {"http://", "https://"};
    const char *authority = NULL;
    if (target[0] == '/')
        return target;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (strncasecmp(target, schemes[i], strlen(schemes[i])) == 0)
            authority = target + strlen(schemes[i]);
    }
    if (authority == NULL)
        return target;
    size_t n = strcspn(authority, "/");
    // A user name before the host is there to mislead (RFC 9110 4.2.4).
    if (n == 0 || authority[0] == ':' || memchr(authority, '@', n) != NULL)
        return NULL;
    return authority[n] == '\0' ? "/" : authority + n;
}

// ---- query ----

// A control byte is of no use in a parameter, and could do harm in a log, a header or a C string. libmicrohttpd has
// already turned `+` into a blank.

enum { DEL = 0x7f, ESCAPE_LEN = 3 };

static const char query_digits[] = "0123456789ABCDEF";

// -1: not a hexadecimal digit.
static int query_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The byte that an escape stands for; -1: it is invalid, or not allowed.
static int query_byte(const char *escape)
{
    int high = query_digit(escape[1]), low = high < 0 ? -1 : query_digit(escape[2]);
    int byte = low < 0 ? -1 : high * 16 + low;
    return byte < ' ' || byte == DEL ? -1 : byte;
}

bool sk_url_unescape(char *text, size_t *len)
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
            text[n] = *at; // never ahead of `at`
        at += escape ? ESCAPE_LEN : 1;
    }
    text[n] = '\0';
    *len = n;
    return true;
}

void sk_url_put(struct sk_buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        char escape[ESCAPE_LEN] = {'%', query_digits[byte >> 4], query_digits[byte & 15]};
        bool stays = byte < DEL && (isalnum(byte) || strchr("-._~", byte) != NULL);
        sk_buf_add(out, stays ? text : escape, stays ? 1 : ESCAPE_LEN);
    }
}
