// Clients send the absolute form to proxies, and a server must accept it as well (RFC 9112 3.2.2). The host in it is
// ignored, as Host is: we serve one host.
#include "target.h"

#include <ctype.h>
#include <stdbool.h>
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

// libmicrohttpd has already turned `+` into a blank.

enum { ESCAPE_LEN = 3, DEL = 0x7f };

static const char query_digits[] = "0123456789ABCDEF";

void sk_url_put(struct sk_buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        char escape[ESCAPE_LEN] = {'%', query_digits[byte >> 4], query_digits[byte & 15]};
        bool stays = byte < DEL && (isalnum(byte) || strchr("-._~", byte) != NULL);
        sk_buf_add(out, stays ? text : escape, stays ? 1 : ESCAPE_LEN);
    }
}
