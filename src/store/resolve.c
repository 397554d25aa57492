// A thin wrapper around libuv's getaddrinfo, which runs on libuv's thread pool.
#include "resolve.h"

#include <netdb.h>
#include <stddef.h>

static void resolve_on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct sk_resolve *resolve = request->data;
    char address[64];
    const char *result = NULL;
    if (status == 0 && found != NULL &&
        getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST) == 0)
        result = address;
    uv_freeaddrinfo(found);
    resolve->done(resolve->arg, result);
}

bool sk_resolve(uv_loop_t *loop, struct sk_resolve *resolve, const char *host, sk_resolve_cb *done, void *arg)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    resolve->request.data = resolve;
    resolve->done = done;
    resolve->arg = arg;
    return uv_getaddrinfo(loop, &resolve->request, resolve_on_resolved, host, NULL, &hints) == 0;
}
