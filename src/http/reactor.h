// One reactor: a thread with a loop, an HTTP server, and a sale with its own connections to the stores.
// Reactors share the port and nothing else on the hot path.
#ifndef SK_HTTP_REACTOR_H
#define SK_HTTP_REACTOR_H

#include "config.h"

struct sk_reactor;

// The main thread, as all functions. Starts the thread; NULL on failure, whose reason is logged.
// Borrows config.
struct sk_reactor *sk_reactor_start(const struct sk_config *config);

// Asks it to end: it stops accepting, answers what waits, writes what was granted, within
// drain_timeout_ms.
void sk_reactor_stop(struct sk_reactor *reactor);

// Waits for its end and frees it. NULL is fine.
void sk_reactor_join(struct sk_reactor *reactor);

#endif
