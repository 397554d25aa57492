// SO_REUSEPORT lets the kernel spread connections over reactors and instances without a lock between them.
#include "listener.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "log.h"

enum { BACKLOG = 4096 };

static int listener_try(const struct addrinfo *at)
{
    int on = 1;
    int fd = socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0 && bind(fd, at->ai_addr, at->ai_addrlen) == 0 &&
        listen(fd, BACKLOG) == 0)
        return fd;
    int saved = errno;
    (void)close(fd);
    errno = saved;
    return -1;
}

int sk_listen(const char *address)
{
    struct addrinfo *found = sk_address_resolve(address);
    if (found == NULL)
        return -1;
    int fd = listener_try(found);
    if (fd < 0)
        sk_log_text(SK_LOG_ERROR, "cannot listen", "reason", strerror(errno));
    freeaddrinfo(found);
    return fd;
}
