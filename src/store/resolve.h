// Host names to addresses without blocking the loop: both client libraries would look names up in
// place, and a slow name server would stop every sale.
#ifndef SK_STORE_RESOLVE_H
#define SK_STORE_RESOLVE_H

#include <stdbool.h>
#include <uv.h>

// `address` is NULL when the name could not be resolved; else numeric, borrowed for the call.
typedef void sk_resolve_cb(void *arg, const char *address);

struct sk_resolve {
    uv_getaddrinfo_t request;
    sk_resolve_cb *done;
    void *arg;
};

// The loop's thread. `done` runs exactly once, later; *resolve stays in place until then. Returns false
// if the look-up could not even start (then `done` does not run).
bool sk_resolve(uv_loop_t *loop, struct sk_resolve *resolve, const char *host, sk_resolve_cb *done, void *arg);

#endif
