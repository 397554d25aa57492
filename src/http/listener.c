// SO_REUSEPORT lets the kernel spread connections over reactors and instances without a lock between them.
#include "listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "text.h"

enum { BACKLOG = 4096, UNSENT_MAX_BYTES = 65536 };

// Connections inherit the last option: it bounds what the kernel keeps for a client that does not read, which is
// megabytes otherwise, and not what is on its way to one that does.
static int listener_try(const struct addrinfo *at)
{
    int on = 1, unsent = UNSENT_MAX_BYTES;
    int fd = socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0 &&
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent) == 0 &&
        bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int saved = errno;
    (void)close(fd);
    errno = saved;
    return -1;
}

int sk_listen(const char *address)
{
    char host[256];
    const char *colon = strrchr(address, ':');
    uint64_t port; // the resolver would cut a larger number down to size
    if (colon == NULL || (size_t)(colon - address) >= sizeof host || !sk_text_number(colon + 1, UINT16_MAX, &port)) {
        sk_log_text(SK_LOG_ERROR, "SECKILL_LISTEN is not of the form host:port", "value", address);
        return -1;
    }
    bool bracketed = address[0] == '[' && colon > address && colon[-1] == ']';
    size_t n = (size_t)(colon - address) - (bracketed ? 2 : 0);
    memcpy(host, address + bracketed, n);
    host[n] = '\0';
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(n == 0 ? NULL : host, colon + 1, &hints, &found);
    int fd = error == 0 ? listener_try(found) : -1;
    if (fd < 0)
        sk_log_text(SK_LOG_ERROR, "cannot listen", "reason", error != 0 ? gai_strerror(error) : strerror(errno));
    if (found != NULL)
        freeaddrinfo(found);
    return fd;
}
