// SO_REUSEPORT lets the kernel spread connections over reactors and instances without a lock between them.
#include "listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "text.h"

enum { BACKLOG = 4096, UNSENT_MAX_BYTES = 65536, HOST_SIZE = 256, WHY_SIZE = HOST_SIZE + 256 };

// [::], which also takes IPv4, whatever net.ipv6.bindv6only is.
static bool listener_is_any(const struct sockaddr *at)
{
    struct sockaddr_in6 in6;
    if (at->sa_family != AF_INET6)
        return false;
    memcpy(&in6, at, sizeof in6);
    return IN6_IS_ADDR_UNSPECIFIED(&in6.sin6_addr);
}

// Connections inherit the last option. It limits what the kernel keeps for a client that does not read, which is
// megabytes otherwise. It does not limit the data in flight to a client that reads.
static int listener_try(const struct addrinfo *at)
{
    int on = 1, off = 0, unsent = UNSENT_MAX_BYTES;
    int fd = socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0 &&
        (!listener_is_any(at->ai_addr) || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) &&
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent) == 0 &&
        bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int saved = errno;
    (void)close(fd);
    errno = saved;
    return -1;
}

// Splits host:port; returns the port, or NULL: it is not of that form.
static const char *listener_split(const char *address, char host[HOST_SIZE])
{
    const char *colon = strrchr(address, ':');
    uint64_t port; // the resolver would truncate a larger number
    if (colon == NULL || (size_t)(colon - address) >= HOST_SIZE || !sk_text_number(colon + 1, UINT16_MAX, &port))
        return NULL;
    bool bracketed = address[0] == '[' && colon > address && colon[-1] == ']';
    size_t n = (size_t)(colon - address) - (bracketed ? 2 : 0);
    memcpy(host, address + bracketed, n);
    host[n] = '\0';
    return colon + 1;
}

static void listener_log(const char *address, const char *reason)
{
    char text[WHY_SIZE];
    (void)snprintf(text, sizeof text, "%s: %s", address, reason);
    sk_log_repeat(SK_LOG_ERROR, "cannot listen", "reason", text);
}

// The caller frees the result with freeaddrinfo. NULL: the reason is logged.
static struct addrinfo *listener_resolve(const char *address)
{
    char host[HOST_SIZE];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    const char *port = listener_split(address, host);
    int error = port == NULL ? 0 : getaddrinfo(host[0] == '\0' ? NULL : host, port, &hints, &found);
    if (port == NULL || error != 0)
        listener_log(address, port == NULL ? "it is not of the form host:port" : gai_strerror(error));
    return found;
}

// A kernel without IPv6 (ipv6.disable=1, or a sandbox) refuses the socket of [::], which is the address of an image
// that must start everywhere. IPv4 is then all there is.
static int listener_try_any(const struct addrinfo *at)
{
    int fd = listener_try(at);
    if (fd >= 0 || errno != EAFNOSUPPORT || !listener_is_any(at->ai_addr))
        return fd;
    struct sockaddr_in6 in6;
    memcpy(&in6, at->ai_addr, sizeof in6);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = in6.sin6_port};
    struct addrinfo v4 = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_addrlen = sizeof in};
    v4.ai_addr = (struct sockaddr *)&in;
    return listener_try(&v4);
}

int sk_listen(const char *address)
{
    struct addrinfo *found = listener_resolve(address);
    if (found == NULL)
        return -1;
    int fd = listener_try_any(found);
    if (fd < 0)
        listener_log(address, strerror(errno));
    freeaddrinfo(found);
    return fd;
}

bool sk_listen_address_is_formed(const char *address)
{
    char host[HOST_SIZE];
    return listener_split(address, host) != NULL;
}

bool sk_listen_address_is_good(const char *address)
{
    struct addrinfo *found = listener_resolve(address);
    if (found != NULL)
        freeaddrinfo(found);
    return found != NULL;
}

static bool listener_is_loopback(const struct sockaddr *at)
{
    if (at->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, at, sizeof in);
        return ntohl(in.sin_addr.s_addr) >> 24 == 127;
    }
    if (at->sa_family != AF_INET6)
        return false;
    struct sockaddr_in6 in6;
    memcpy(&in6, at, sizeof in6);
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr) && in6.sin6_addr.s6_addr[12] == 127);
}

bool sk_listen_address_is_reachable(const char *address)
{
    struct addrinfo *found = listener_resolve(address);
    bool any = false;
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next)
        any = any || !listener_is_loopback(at->ai_addr);
    if (found != NULL)
        freeaddrinfo(found);
    return any;
}

bool sk_listen_address_is_same(const char *one, const char *other)
{
    struct addrinfo *first = listener_resolve(one), *second = listener_resolve(other);
    bool same = false;
    for (const struct addrinfo *at = first; at != NULL; at = at->ai_next) {
        for (const struct addrinfo *with = second; with != NULL; with = with->ai_next)
            same =
                same || (at->ai_addrlen == with->ai_addrlen && memcmp(at->ai_addr, with->ai_addr, at->ai_addrlen) == 0);
    }
    if (first != NULL)
        freeaddrinfo(first);
    if (second != NULL)
        freeaddrinfo(second);
    return same;
}
