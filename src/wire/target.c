// Clients send the absolute form to proxies, and a server must take it as well (RFC 9112 3.2.2). Which host it names
// does not matter here, as Host does not: we serve one.
#include "target.h"

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
    // A name before the host is there to mislead (RFC 9110 4.2.4).
    if (n == 0 || authority[0] == ':' || memchr(authority, '@', n) != NULL)
        return NULL;
    return authority[n] == '\0' ? "/" : authority + n;
}
