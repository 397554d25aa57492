// SO_REUSEPORT lets the kernel spread connections over reactors and instances without a lock between them.
#include "listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "listen_address.h"
#include "log.h"

enum { BACKLOG = 4096, UNSENT_MAX_BYTES = 65536 };

// Connections inherit the last option. It limits what the kernel keeps for a client that does not read, which is
// megabytes otherwise. It does not limit the data in flight to a client that reads.
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
    struct addrinfo *found = sk_listen_address_resolve(address);
    if (found == NULL)
        return -1;
    int fd = listener_try(found);
    if (fd < 0)
        sk_log_text(SK_LOG_ERROR, "cannot listen", "reason", strerror(errno));
    freeaddrinfo(found);
    return fd;
}
