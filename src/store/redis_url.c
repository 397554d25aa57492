// Strict. Allocates user and password only.
#include "redis_url.h"

#include <stdbool.h>
#include <string.h>
#include <sys/un.h>

#include "text.h"

// Takes "[user]:password" of n bytes. A user without a password could not log in.
static enum sk_status redis_url_take_login(const char *login, size_t n, struct sk_redis_url *endpoint)
{
    const char *colon = memchr(login, ':', n);
    if (colon == NULL)
        return SK_FAIL;
    size_t user_len = (size_t)(colon - login);
    endpoint->password = strndup(colon + 1, n - user_len - 1);
    if (user_len > 0)
        endpoint->user = strndup(login, user_len);
    return endpoint->password == NULL || (user_len > 0 && endpoint->user == NULL) ? SK_NO_MEM : SK_OK;
}

static enum sk_status redis_url_take_path(const char *rest, struct sk_redis_url *endpoint)
{
    const char *at = rest[0] == '/' ? NULL : strstr(rest, "@/");
    if (at != NULL) {
        enum sk_status status = redis_url_take_login(rest, (size_t)(at - rest), endpoint);
        if (status != SK_OK)
            return status;
        rest = at + 1;
    }
    int n = snprintf(endpoint->host, sizeof endpoint->host, "%s", rest);
    // hiredis would truncate a longer path and connect to another socket.
    bool fits = (size_t)n < sizeof((struct sockaddr_un *)NULL)->sun_path;
    return fits && endpoint->host[0] == '/' ? SK_OK : SK_FAIL;
}

enum sk_status sk_redis_url_parse(const char *url, struct sk_redis_url *endpoint)
{
    static const char tcp[] = "redis://", local[] = "unix://";
    memcpy(endpoint->db, "0", 2);
    if (strncmp(url, local, sizeof local - 1) == 0)
        return redis_url_take_path(url + sizeof local - 1, endpoint);
    if (strncmp(url, tcp, sizeof tcp - 1) != 0)
        return SK_FAIL;
    const char *rest = url + sizeof tcp - 1;
    const char *at = strrchr(rest, '@');
    if (at != NULL) {
        enum sk_status status = redis_url_take_login(rest, (size_t)(at - rest), endpoint);
        if (status != SK_OK)
            return status;
        rest = at + 1;
    }
    size_t host_len = rest[0] == '[' ? strcspn(rest, "]") : strcspn(rest, ":/");
    const char *host = rest[0] == '[' ? rest + 1 : rest;
    size_t n = rest[0] == '[' ? host_len - 1 : host_len;
    if (rest[0] == '[' && rest[host_len++] != ']')
        return SK_FAIL;
    if (n == 0 || n >= sizeof endpoint->host)
        return SK_FAIL;
    memcpy(endpoint->host, host, n);
    endpoint->port = 6379;
    rest += host_len;
    uint64_t number;
    if (*rest == ':') {
        char digits[8] = {0};
        size_t len = strcspn(rest + 1, "/");
        if (len >= sizeof digits)
            return SK_FAIL;
        memcpy(digits, rest + 1, len);
        if (!sk_text_number(digits, 65535, &number) || number == 0)
            return SK_FAIL;
        endpoint->port = (int)number;
        rest += 1 + len;
    }
    if (*rest == '/' && rest[1] != '\0') {
        if (!sk_text_number(rest + 1, 99999, &number))
            return SK_FAIL;
        (void)snprintf(endpoint->db, sizeof endpoint->db, "%u", (unsigned)number);
        return SK_OK;
    }
    return *rest == '\0' || *rest == '/' ? SK_OK : SK_FAIL;
}

void sk_redis_url_free(struct sk_redis_url *endpoint)
{
    free(endpoint->user);
    free(endpoint->password);
    *endpoint = (struct sk_redis_url){0};
}
