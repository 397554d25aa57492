// A connection of bytes to Redis: TCP or a unix socket, with or without TLS, on the loop. It has no thread and no
// buffer.
//
// All functions: the loop's thread. A socket may be closed in each of its callbacks. None runs after that.
#ifndef SK_STORE_SOCKET_H
#define SK_STORE_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct sk_socket;

// Paths of PEM files, borrowed; NULL: none. They are read again for each connection.
struct sk_tls_files {
    const char *ca;   // authorities that may sign the server's certificate; NULL: those of the system
    const char *cert; // of this client, and its key
    const char *key;
};

struct sk_socket_target {
    const char *address; // numeric, or with port 0 the path of a unix socket
    int port;
    const struct sk_tls_files *tls; // NULL: without TLS
    const char *name;               // with TLS: the name or address that the server's certificate must have
};

struct sk_socket_events {
    void (*connected)(void *owner); // once, after the TLS handshake: bytes may be written from now on
    void (*received)(void *owner, const char *bytes, size_t n); // borrowed for the call
    void (*writable)(void *owner);                              // after a write that did not take all bytes
    // The connection failed or has ended: close the socket. `why` is borrowed for the call.
    void (*ended)(void *owner, const char *why);
};

// Begins to connect. The target is borrowed for the call, `events` for the socket's life. NULL: it cannot begin; *why
// is a constant, or lives until the next call.
struct sk_socket *sk_socket_open(uv_loop_t *loop, const struct sk_socket_target *target,
                                 const struct sk_socket_events *events, void *owner, const char **why);

// Closes the connection; the memory is freed in the loop's next turn. NULL is fine.
void sk_socket_close(struct sk_socket *sock);

// Writes what the system takes at once, and returns how much that was; if it is less, `writable` will run. Never runs a
// callback: if the connection has ended, it takes nothing, and `ended` runs in the loop's next turn.
size_t sk_socket_write(struct sk_socket *sock, const char *bytes, size_t n);

// For getpeername() and the like.
int sk_socket_fd(const struct sk_socket *sock);

#endif
