// The HTTP server of one reactor: libmicrohttpd in external epoll mode on the reactor's loop. Only server.c,
// connection.c, request.c and response.c include libmicrohttpd.
//
// All functions: the loop's thread.
#ifndef SK_WIRE_SERVER_H
#define SK_WIRE_SERVER_H

#include <uv.h>

#include "metrics.h"
#include "request.h"
#include "server_options.h"

struct sk_server;
struct sk_address;

// Decides who may connect. An accepted peer is reported again when it is gone.
struct sk_peers {
    bool (*connects)(void *arg, const struct sk_address *peer); // false: the connection is closed at once
    void (*disconnects)(void *arg, const struct sk_address *peer);
    void *arg;
};

// What is wrong with a request.
enum sk_malformed { SK_MALFORMED_HEAD, SK_MALFORMED_TOO_LARGE };

struct sk_handler {
    // A complete request: answer it, or keep it with sk_request_wait or sk_request_park.
    void (*handle)(void *arg, struct sk_request *request);
    // A request that waits or is parked has reached its deadline: answer it.
    void (*expired)(void *arg, struct sk_request *request);
    // A request is malformed before it is complete: answer it, which ends the connection.
    void (*malformed)(void *arg, struct sk_request *request, enum sk_malformed what);
    // The head of a stream is sent: texts may follow (response.h).
    void (*streams)(void *arg, struct sk_request *request);
    // The client of a parked or streaming request is gone, or the server ends the stream: the handle is invalid when
    // this returns. Not called for streams that the handlers end.
    void (*gone)(void *arg, struct sk_request *request);
    void *arg;
    const struct sk_peers *peers; // borrowed; NULL: all may connect
    // A request with a place among the long ones has ended. NULL: not wanted.
    void (*released)(void *arg, const struct sk_hold *hold);
};

// Listens and serves. NULL on failure; the reason is logged. Borrows loop and options.
struct sk_server *sk_server_open(uv_loop_t *loop, const struct sk_server_options *options,
                                 const struct sk_handler *handler);

// Call it at the end of a loop turn: sends the answers that were given outside of a handler. Returns whether there were
// any.
bool sk_server_turn(struct sk_server *server);

// A request that waits or is parked; NULL if it is answered or its client is gone.
struct sk_request *sk_server_find(struct sk_server *server, uint64_t handle);

// A request that streams; NULL if the stream is at its end, or its client is gone.
struct sk_request *sk_server_find_stream(struct sk_server *server, uint64_t handle);

// Requests that wait for an answer, parked or not.
size_t sk_server_waiting(const struct sk_server *server);

// Requests whose answer the client has not taken yet.
size_t sk_server_sending(const struct sk_server *server);

// Whether nine tenths of its connections are taken.
bool sk_server_crowded(const struct sk_server *server);

// Sets the gauges of connections.
void sk_server_measure(const struct sk_server *server, struct sk_metrics *metrics);

// Stops accepting connections. Open ones go on, but parked requests expire and streams end, now and from now on. The
// handlers send "Connection: close" with their answers from now on.
void sk_server_drain(struct sk_server *server);

// Expires every waiting or parked request now.
void sk_server_expire(struct sk_server *server);

// Closes the server. Each request that is there is handled or expires, and is answered; then all connections are
// closed. The loop must run until the handles are closed. NULL is fine.
void sk_server_close(struct sk_server *server);

#endif
