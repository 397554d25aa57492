// Resolves host names without blocking the loop. Both client libraries would block on the look-up, and a slow name
// server would stop every sale.
#ifndef SK_STORE_RESOLVE_H
#define SK_STORE_RESOLVE_H

#include <stdbool.h>
#include <uv.h>

// `address` is numeric and borrowed for the call. NULL: the name could not be resolved.
typedef void sk_resolve_cb(void *arg, const char *address);

struct sk_resolve {
    uv_getaddrinfo_t request;
    sk_resolve_cb *done;
    void *arg;
};

// The loop's thread. `done` runs exactly once, later; *resolve stays in place until then. False: the look-up could not
// start, and `done` does not run.
bool sk_resolve(uv_loop_t *loop, struct sk_resolve *resolve, const char *host, sk_resolve_cb *done, void *arg);

#endif
