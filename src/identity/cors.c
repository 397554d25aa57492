// An origin is compared byte by byte with what the browser sends. So an origin that no browser could send is rejected
// at the start: it would allow nothing, and its operator would search for the reason elsewhere.
#include "cors.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text.h"

#define SMALL   "abcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"
#define SCHEME  SMALL DIGITS "+-."
#define HOST    SMALL DIGITS "-._"
#define ADDRESS DIGITS "abcdef:." // of IPv6, in brackets

enum { PORT_MAX = 65535 };

// All methods of the routes, and all fields that they read. A browser caches this for two hours at most.
static const char allow_methods[] = "GET, HEAD, POST, PATCH";
static const char allow_headers[] = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, "
                                    "Last-Event-ID, Prefer, X-Seckill-Ticket, X-User-Id, traceparent, tracestate";
static const char max_age_s[] = "7200";
static const char expose_headers[] = "Allow, ETag, Idempotency-Key, Link, Location, Preference-Applied, RateLimit, "
                                     "RateLimit-Policy, Retry-After, WWW-Authenticate, traceparent";

struct sk_cors {
    unsigned count;
    char origins[SK_CORS_ORIGINS_MAX][SK_CORS_ORIGIN_SIZE];
};

// ---- the list ----

struct sk_cors *sk_cors_open(const char *origins, FILE *err)
{
    return sk_cors_open_list("SECKILL_CORS_ORIGINS", origins, err);
}

static const char *cors_check(const char *origin)
{
    static const char form[] = "is not of the form scheme://host or scheme://host:port, in small letters, with no path";
    size_t scheme_len = strspn(origin, SCHEME);
    uint64_t port;
    const char *host = origin + scheme_len + strlen("://"), *end;
    if (strcmp(origin, "*") == 0)
        return "* is none: each origin has to be listed";
    if (scheme_len == 0 || strchr(SMALL, origin[0]) == NULL || strncmp(origin + scheme_len, "://", 3) != 0)
        return form;
    if (*host == '[') {
        size_t len = strspn(host + 1, ADDRESS);
        end = host + 1 + len;
        if (len == 0 || *end++ != ']')
            return form;
    } else {
        end = host + strspn(host, HOST);
        if (end == host)
            return form;
    }
    if (*end == '\0')
        return NULL;
    if (*end != ':')
        return form;
    if (!sk_text_number(end + 1, PORT_MAX, &port) || port == 0)
        return "its port is not a number from 1 to 65535";
    if ((port == 80 && strncmp(origin, "http:", 5) == 0) || (port == 443 && strncmp(origin, "https:", 6) == 0))
        return "has the port that its scheme has anyway: browsers leave it out";
    return NULL;
}

static const char *cors_add(struct sk_cors *cors, const char *at, size_t len)
{
    if (cors->count == SK_CORS_ORIGINS_MAX)
        return "there are more than 16";
    if (len >= SK_CORS_ORIGIN_SIZE)
        return "is longer than 255 bytes";
    char *origin = cors->origins[cors->count];
    memcpy(origin, at, len);
    origin[len] = '\0';
    const char *wrong = cors_check(origin);
    for (unsigned i = 0; wrong == NULL && i < cors->count; i++) {
        if (strcmp(cors->origins[i], origin) == 0)
            wrong = "is there twice";
    }
    cors->count += wrong == NULL;
    return wrong;
}

// Returns what is wrong with the next origin; NULL: nothing.
static const char *cors_read(struct sk_cors *cors, const char *origins)
{
    static const char between[] = ", \t\r\n";
    const char *wrong = NULL, *at = origins + strspn(origins, between);
    for (; wrong == NULL && *at != '\0'; at += strspn(at, between)) {
        size_t len = strcspn(at, between);
        wrong = cors_add(cors, at, len);
        at += len;
    }
    return wrong == NULL && cors->count == 0 ? "there is none" : wrong;
}

struct sk_cors *sk_cors_open_list(const char *setting, const char *origins, FILE *err)
{
    struct sk_cors *cors = calloc(1, sizeof *cors);
    if (cors == NULL) {
        (void)fprintf(err, "seckill: out of memory\n");
        return NULL;
    }
    const char *wrong = origins == NULL ? NULL : cors_read(cors, origins);
    if (wrong != NULL) {
        (void)fprintf(err, "seckill: %s: origin %u: %s\n", setting, cors->count + 1, wrong);
        sk_cors_close(cors);
        return NULL;
    }
    return cors;
}

void sk_cors_close(struct sk_cors *cors)
{
    free(cors);
}

// ---- requests and answers ----

unsigned sk_cors_count(const struct sk_cors *cors)
{
    return cors == NULL ? 0 : cors->count;
}

const char *sk_cors_origin(const struct sk_cors *cors, unsigned i)
{
    return cors->origins[i];
}

bool sk_cors_has_url(const struct sk_cors *cors, const char *url)
{
    for (unsigned i = 0; i < sk_cors_count(cors); i++) {
        size_t len = strlen(cors->origins[i]);
        if (strncmp(url, cors->origins[i], len) == 0 && url[len] == '/')
            return true;
    }
    return false;
}

unsigned sk_cors_origin_of(const struct sk_cors *cors, const struct sk_request *request)
{
    unsigned count;
    const char *value = sk_request_header(request, "origin", &count);
    for (unsigned i = 0; count == 1 && i < cors->count; i++) {
        if (strcmp(cors->origins[i], value) == 0)
            return i + 1;
    }
    return 0;
}

// A browser leaves the scheme's default port out of both; a gateway may put it into Host.
static bool cors_names_host(const char *origin, const char *host)
{
    static const char tls[] = "https://", plain[] = "http://";
    bool has_tls = strncmp(origin, tls, sizeof tls - 1) == 0;
    if (host == NULL || (!has_tls && strncmp(origin, plain, sizeof plain - 1) != 0))
        return false;
    const char *named = origin + (has_tls ? sizeof tls : sizeof plain) - 1;
    size_t len = strlen(named);
    return len > 0 && strncasecmp(named, host, len) == 0 &&
           (host[len] == '\0' || strcmp(host + len, has_tls ? ":443" : ":80") == 0);
}

bool sk_cors_is_foreign(const struct sk_cors *cors, const struct sk_request *request)
{
    unsigned sites, origins;
    if (!SK_REQUEST_MAY_HAVE(request, "sec-fetch-site") && !SK_REQUEST_MAY_HAVE(request, "origin"))
        return false;
    const char *site = sk_request_header(request, "sec-fetch-site", &sites);
    const char *origin = sk_request_header(request, "origin", &origins);
    if (sites + origins == 0 || sk_cors_origin_of(cors, request) != 0)
        return false;
    if (sites == 1 && strcmp(site, "cross-site") == 0)
        return true;
    if (sites == 1 && (strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0))
        return false;
    return origins != 1 || !cors_names_host(origin, sk_request_header(request, "host", NULL));
}

// A cache must not give an answer for one origin, or for none, to another origin.
void sk_cors_mark(const struct sk_cors *cors, unsigned origin, struct sk_response *response)
{
    sk_response_header(response, "Vary", "Origin");
    if (origin == 0)
        return;
    sk_response_header(response, "Access-Control-Allow-Origin", cors->origins[origin - 1]);
    sk_response_header(response, "Access-Control-Allow-Credentials", "true");
    sk_response_header(response, "Access-Control-Expose-Headers", expose_headers);
}

bool sk_cors_is_preflight(const struct sk_request *request)
{
    return request->method == SK_METHOD_OPTIONS &&
           sk_request_header(request, "access-control-request-method", NULL) != NULL;
}

struct sk_response *sk_cors_preflight(const struct sk_cors *cors, unsigned origin)
{
    struct sk_response *response = sk_response_new(NULL, "", 0);
    sk_response_header(response, "Vary", "Origin");
    sk_response_header(response, "Access-Control-Allow-Origin", cors->origins[origin - 1]);
    sk_response_header(response, "Access-Control-Allow-Credentials", "true");
    sk_response_header(response, "Access-Control-Allow-Methods", allow_methods);
    sk_response_header(response, "Access-Control-Allow-Headers", allow_headers);
    sk_response_header(response, "Access-Control-Max-Age", max_age_s);
    return response;
}
