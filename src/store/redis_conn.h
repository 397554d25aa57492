// A connection to Redis on which whole replies arrive. What is asked, and how long an answer may take, is its owner's:
// a link (redis_link.h), an asking (asking.h), a command of the program (redis_once.h).
//
// The server is not trusted: what makes no sense ends the connection. The loop's thread, as all functions.
#ifndef SK_STORE_REDIS_CONN_H
#define SK_STORE_REDIS_CONN_H

#include "redis_reply.h"
#include "socket.h"

struct sk_redis_conn;

// Each may close the connection. None runs after that.
struct sk_redis_conn_events {
    void (*connected)(void *owner); // once: it may be written to from now on
    // A reply, borrowed for the call; an owner that keeps it sets it to NULL. Returns why the connection must end,
    // which may be a text of the reply; NULL: it need not.
    const char *(*replied)(void *owner, struct sk_reply **reply);
    void (*writable)(void *owner); // after a write that did not take all bytes
    // It failed or has ended: close it. `why` is borrowed for the call.
    void (*ended)(void *owner, const char *why);
};

// As sk_socket_open().
struct sk_redis_conn *sk_redis_conn_open(uv_loop_t *loop, const struct sk_socket_target *target,
                                         const struct sk_redis_conn_events *events, void *owner, const char **why);
void sk_redis_conn_close(struct sk_redis_conn *conn); // NULL is fine

// From now on so many bytes of replies may come; 0: any number.
void sk_redis_conn_limit(struct sk_redis_conn *conn, size_t most_bytes);

// As sk_socket_write() and sk_socket_fd().
size_t sk_redis_conn_write(struct sk_redis_conn *conn, const char *bytes, size_t n);
int sk_redis_conn_fd(const struct sk_redis_conn *conn);

#endif
