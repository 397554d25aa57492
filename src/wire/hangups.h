// Watches the sockets of parked connections for clients that hang up, since libmicrohttpd does not look at them.
//
// All functions: the loop's thread.
#ifndef SK_WIRE_HANGUPS_H
#define SK_WIRE_HANGUPS_H

#include <stdint.h>
#include <uv.h>

#include "status.h"

struct sk_hangups;

// NULL: out of memory or file descriptors. Borrows the loop. The event comes once for each socket that is watched.
struct sk_hangups *sk_hangups_open(uv_loop_t *loop, void (*on_hangup)(void *arg, uint64_t ticket), void *arg);
// The loop must run until the handle is closed. NULL is fine.
void sk_hangups_close(struct sk_hangups *hangups);

// From now on, or since before: that the client has closed its side, or the connection has failed. On failure (the
// kernel has no memory) the hang-up goes unnoticed.
enum sk_status sk_hangups_watch(struct sk_hangups *hangups, int fd, uint64_t ticket) SK_MUST_CHECK;
void sk_hangups_unwatch(struct sk_hangups *hangups, int fd); // before the socket is closed; may be unwatched

#endif
