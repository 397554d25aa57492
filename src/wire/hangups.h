// Notices clients that hang up while their connection is parked, which libmicrohttpd does not. The loop's thread.
#ifndef SK_WIRE_HANGUPS_H
#define SK_WIRE_HANGUPS_H

#include <stdint.h>
#include <uv.h>

#include "status.h"

struct sk_hangups;

// NULL: out of memory or file descriptors. on_hangup runs once for each watched socket.
struct sk_hangups *sk_hangups_open(uv_loop_t *loop, void (*on_hangup)(void *arg, uint64_t handle), void *arg);
// The loop must run until the handle is closed. NULL is fine.
void sk_hangups_close(struct sk_hangups *hangups);

// Reports that the client closes, or has closed, its side, or that the connection has failed. On failure (the kernel
// has no memory) the hang-up goes unnoticed.
enum sk_status sk_hangups_watch(struct sk_hangups *hangups, int fd, uint64_t handle);
void sk_hangups_unwatch(struct sk_hangups *hangups, int fd); // before the socket is closed; may be unwatched already

#endif
