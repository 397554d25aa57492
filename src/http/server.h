// The HTTP server of one reactor: libmicrohttpd in external epoll mode on the reactor's loop. The only
// module that includes libmicrohttpd.
//
// All functions: the loop's thread. A request belongs to the server; handlers borrow it until it is
// answered, and find a waiting one again by its ticket, never by a kept pointer: its client may be gone.
#ifndef SK_HTTP_SERVER_H
#define SK_HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "buf.h"
#include "config.h"
#include "uuid.h"
#include "verdict.h"

struct sk_server;

// A response, ready to be sent any number of times.
typedef struct MHD_Response sk_response;

enum sk_method { SK_GET, SK_POST, SK_OTHER_METHOD, SK_UNKNOWN_METHOD }; // HEAD counts as GET

struct sk_request {
    enum sk_method method;
    const char *path; // as sent: nothing is unescaped; without the scheme and host of an absolute target
    // Header fields that somebody asks for; `..._count` tells how often the field was sent.
    const char *user_id;
    const char *authorization;
    const char *content_type;
    const char *idempotency_key;
    unsigned user_id_count, authorization_count, idempotency_key_count;
    bool respond_async; // Prefer: respond-async
    struct sk_buf body;

    uint64_t ticket; // names this request as long as it lives; never 0
    // What a handler wants to remember while the request waits.
    const char *user; // who asks; lives as long as the request
    int64_t voucher_id;
    char order_id[SK_UUID_SIZE];
};

struct sk_handler {
    // A whole request: answer it, or keep it waiting with sk_request_wait.
    void (*handle)(void *arg, struct sk_request *request);
    // A waiting request has reached its deadline: answer it.
    void (*expired)(void *arg, struct sk_request *request);
    // A request is broken before it is whole; gives the response, which ends the connection.
    sk_response *(*malformed)(void *arg, enum sk_verdict verdict);
    void *arg;
};

// Listens and serves. NULL on failure; the reason is logged. Borrows loop and config.
struct sk_server *sk_server_open(uv_loop_t *loop, const struct sk_config *config, const struct sk_handler *handler);

// Stops accepting; what is open goes on. Whoever answers from now on says "Connection: close".
void sk_server_drain(struct sk_server *server);

// Requests that wait for an answer.
size_t sk_server_waiting(const struct sk_server *server);

// Requests whose answer the client has not taken yet.
size_t sk_server_sending(const struct sk_server *server);

// Every waiting request has reached its deadline now.
void sk_server_expire(struct sk_server *server);

// Ends: every request that is there is handled, or expires, and answered; then all connections are closed. The loop
// must run until the handles are closed. NULL is fine.
void sk_server_close(struct sk_server *server);

// The end of a loop turn: sends the answers that were given outside of a handler. Returns whether there
// were any.
bool sk_server_turn(struct sk_server *server);

// The request is answered later, at the latest after `ms`.
void sk_request_wait(struct sk_request *request, uint64_t ms);

// A waiting request; NULL if it is answered or its client is gone.
struct sk_request *sk_server_find(struct sk_server *server, uint64_t ticket);

// Answers the request: once. The response stays the caller's.
void sk_request_answer(struct sk_request *request, unsigned http_status, sk_response *response);

// Gives a response, whose text is copied; NULL: out of memory, which sk_request_answer and
// sk_response_header take as "cut the connection". `type` NULL: no body.
sk_response *sk_response_new(const char *type, const char *body, size_t len);
void sk_response_header(sk_response *response, const char *name, const char *value);
void sk_response_free(sk_response *response); // NULL is fine

#endif
