// Strict. Allocates user and password only.
#include "redis_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "text.h"

enum { REDIS_PORT = 6379, SENTINEL_PORT = 26379, PORT_MOST = 65535 };

struct scheme {
    const char *prefix;
    bool tls, sentinel, cluster, local;
};

static const struct scheme schemes[] = {
    {"redis://", false, false, false, false},         {"rediss://", true, false, false, false},
    {"redis+sentinel://", false, true, false, false}, {"rediss+sentinel://", true, true, false, false},
    {"redis+cluster://", false, false, true, false},  {"rediss+cluster://", true, false, true, false},
    {"unix://", false, false, false, true},
};

bool sk_redis_host_read(const char *name, size_t n, uint64_t port, struct sk_redis_host *host)
{
    *host = (struct sk_redis_host){0};
    if (n == 0 || n >= sizeof host->name || port == 0 || port > PORT_MOST)
        return false;
    memcpy(host->name, name, n);
    host->port = (int)port;
    if (strspn(host->name, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.:_-") == n)
        return true;
    *host = (struct sk_redis_host){0};
    return false;
}

bool sk_redis_host_same(const struct sk_redis_host *a, const struct sk_redis_host *b)
{
    return a->port == b->port && strcmp(a->name, b->name) == 0;
}

// A user or a password of n bytes (RFC 3986 3.2.1).
static enum sk_status redis_url_decode(const char *text, size_t n, struct sk_redis_url *url, char **out)
{
    *out = strndup(text, n);
    if (*out == NULL) {
        url->wrong = "cannot be read: out of memory";
        return SK_NO_MEM;
    }
    if (sk_url_unescape(*out, &n))
        return SK_OK;
    url->wrong = "has a % in its user or password that begins no escape of a printable byte: write %25 for it";
    return SK_FAIL;
}

// Takes "[user]:password" of n bytes. A user without a password could not log in.
static enum sk_status redis_url_take_login(const char *login, size_t n, struct sk_redis_url *url)
{
    const char *colon = memchr(login, ':', n);
    if (colon == NULL)
        return SK_FAIL;
    size_t user_len = (size_t)(colon - login);
    enum sk_status status = redis_url_decode(colon + 1, n - user_len - 1, url, &url->password);
    return status != SK_OK || user_len == 0 ? status : redis_url_decode(login, user_len, url, &url->user);
}

static enum sk_status redis_url_take_path(const char *rest, struct sk_redis_url *url)
{
    int n = snprintf(url->at.name, sizeof url->at.name, "%s", rest);
    bool fits = (size_t)n < sizeof((struct sockaddr_un *)NULL)->sun_path;
    return fits && url->at.name[0] == '/' ? SK_OK : SK_FAIL;
}

// Takes "host[:port]" from *at, up to one of the bytes that may follow it.
static bool redis_url_take_host(const char **at, int port, struct sk_redis_host *host)
{
    const char *rest = *at;
    bool bracketed = rest[0] == '[';
    const char *name = rest + bracketed;
    size_t n = strcspn(name, bracketed ? "]" : ":/,");
    rest = name + n;
    if (n == 0 || n >= sizeof host->name || (bracketed && *rest++ != ']'))
        return false;
    memcpy(host->name, name, n);
    host->port = port;
    if (*rest == ':') {
        char digits[8] = {0};
        uint64_t number;
        size_t len = strcspn(rest + 1, "/,");
        if (len >= sizeof digits)
            return false;
        memcpy(digits, rest + 1, len);
        if (!sk_text_number(digits, PORT_MOST, &number) || number == 0)
            return false;
        host->port = (int)number;
        rest += 1 + len;
    }
    *at = rest;
    return *rest == '\0' || *rest == '/' || *rest == ',';
}

// "/db", or nothing.
static enum sk_status redis_url_take_db(const char *rest, struct sk_redis_url *url)
{
    uint64_t number;
    if (*rest == '\0' || strcmp(rest, "/") == 0)
        return SK_OK;
    if (*rest != '/' || !sk_text_number(rest + 1, 99999, &number))
        return SK_FAIL;
    (void)snprintf(url->db, sizeof url->db, "%u", (unsigned)number);
    return SK_OK;
}

// Whether the last host is also an earlier one: a sentinel would have two votes.
static bool redis_url_repeats(const struct sk_redis_host *hosts, const struct sk_redis_host *last)
{
    for (const struct sk_redis_host *at = hosts; at < last; at++) {
        if (at->port == last->port && strcasecmp(at->name, last->name) == 0)
            return true;
    }
    return false;
}

// "host,host", from *rest on, at most `most`.
static bool redis_url_take_hosts(const char **rest, int port, size_t most, struct sk_redis_host *hosts, size_t *count)
{
    for (;; ++*rest) {
        if (*count == most || !redis_url_take_host(rest, port, &hosts[*count]) ||
            redis_url_repeats(hosts, &hosts[*count]))
            return false;
        ++*count;
        if (**rest != ',')
            return true;
    }
}

// "host,host/name[/db]"
static enum sk_status redis_url_take_sentinels(const char *rest, struct sk_redis_url *url)
{
    if (!redis_url_take_hosts(&rest, SENTINEL_PORT, SK_SENTINELS_MAX, url->sentinels, &url->sentinel_count))
        return SK_FAIL;
    size_t n = *rest == '/' ? strcspn(rest + 1, "/") : 0;
    if (n == 0 || n >= sizeof url->master)
        return SK_FAIL;
    memcpy(url->master, rest + 1, n);
    return redis_url_take_db(rest + 1 + n, url);
}

// "host,host": a cluster has one database.
static enum sk_status redis_url_take_seeds(const char *rest, struct sk_redis_url *url)
{
    if (!redis_url_take_hosts(&rest, REDIS_PORT, SK_SEEDS_MAX, url->seeds, &url->seed_count))
        return SK_FAIL;
    return strcmp(rest, "") == 0 || strcmp(rest, "/") == 0 ? SK_OK : SK_FAIL;
}

enum sk_status sk_redis_url_parse(const char *text, struct sk_redis_url *url)
{
    const struct scheme *scheme = NULL;
    url->wrong = "is not of a form that --help shows";
    memcpy(url->db, "0", 2);
    for (size_t i = 0; scheme == NULL && i < sizeof schemes / sizeof schemes[0]; i++) {
        if (strncmp(text, schemes[i].prefix, strlen(schemes[i].prefix)) == 0)
            scheme = &schemes[i];
    }
    if (scheme == NULL)
        return SK_FAIL;
    const char *rest = text + strlen(scheme->prefix);
    url->tls = scheme->tls;
    const char *at = !scheme->local ? strrchr(rest, '@') : rest[0] == '/' ? NULL : strstr(rest, "@/");
    if (at != NULL) {
        enum sk_status status = redis_url_take_login(rest, (size_t)(at - rest), url);
        if (status != SK_OK)
            return status;
        rest = at + 1;
    }
    if (scheme->local)
        return redis_url_take_path(rest, url);
    if (scheme->sentinel)
        return redis_url_take_sentinels(rest, url);
    if (scheme->cluster)
        return redis_url_take_seeds(rest, url);
    if (!redis_url_take_host(&rest, REDIS_PORT, &url->at))
        return SK_FAIL;
    return redis_url_take_db(rest, url);
}

void sk_redis_url_free(struct sk_redis_url *url)
{
    free(url->user);
    free(url->password);
    *url = (struct sk_redis_url){0};
}
