// A connection to Redis for a command that runs to its end: one call after the other, on a loop of its own. The service
// itself uses redis_link.h.
//
// All functions: the thread that opened it.
#ifndef SK_STORE_REDIS_ONCE_H
#define SK_STORE_REDIS_ONCE_H

#include <stdint.h>

#include "redis_reply.h"
#include "redis_url.h"
#include "socket.h"

struct sk_redis_once;

// Connects to an address as of redis_url.h; a name is resolved here. NULL: out of memory. If it cannot connect,
// sk_redis_once_why() says why. The files are borrowed for the call; NULL: without TLS.
struct sk_redis_once *sk_redis_once_open(const struct sk_redis_host *at, const struct sk_tls_files *files,
                                         uint32_t timeout_ms);
void sk_redis_once_close(struct sk_redis_once *redis); // NULL is fine

// Why the connection failed or was lost; NULL: it is well.
const char *sk_redis_once_why(const struct sk_redis_once *redis);
int sk_redis_once_fd(const struct sk_redis_once *redis);

// Sends a command and waits for the reply, which the caller gives to sk_reply_free. NULL: the connection is lost.
struct sk_reply *sk_redis_once_ask(struct sk_redis_once *redis, int argc, const char **argv);

#endif
