// The connections of a server: a fixed pool. A connection has one request at a time, so both share a slot of the pool,
// and a phase.
//
// For server.c, request.c and response.c. All functions: the loop's thread.
#ifndef SK_WIRE_CONNECTION_H
#define SK_WIRE_CONNECTION_H

#include <stdint.h>
#include <uv.h>

#include "deadlines.h"
#include "head.h"
#include "list.h"
#include "request.h"
#include "server.h"
#include "status.h"

struct MHD_Connection;
struct sk_hangups;

// Each phase has a deadline, counted from its start.
enum sk_phase {
    SK_PHASE_FREE,      // the slot is not in use
    SK_PHASE_HEADER,    // waits for the next request's header: idle_timeout_ms; for its rest: request_timeout_ms
    SK_PHASE_BODY,      // has the header, waits for the body: request_timeout_ms
    SK_PHASE_WAITING,   // a handler will answer soon: the handler's deadline, then the request expires
    SK_PHASE_PARKED,    // a handler will answer later: the same
    SK_PHASE_RESUMING,  // was parked and is answered, or streamed and ends; waits for its turn to be resumed
    SK_PHASE_GONE,      // was parked or streamed, and its client hung up; waits to be resumed and closed
    SK_PHASE_SENDING,   // answered, but the client has not taken all of it: request_timeout_ms
    SK_PHASE_STREAMING, // the head of a stream is sent, and texts are sent as they come: no deadline
    SK_PHASE_STUCK,     // the same, but the client has not taken the last text: request_timeout_ms
    SK_PHASE_COUNT
};

// Sets of phases: the request has no answer yet, and its answer has begun and goes on.
enum {
    SK_PHASES_OPEN = 1 << SK_PHASE_WAITING | 1 << SK_PHASE_PARKED,
    SK_PHASES_STREAM = 1 << SK_PHASE_STREAMING | 1 << SK_PHASE_STUCK,
};

struct sk_connection {
    struct sk_request request; // must be first: a request is cast to its connection
    struct sk_connections *pool;
    struct MHD_Connection *library; // borrowed while not FREE
    struct sk_deadline deadline;
    struct sk_connection *next_free, *next_to_resume;
    int fd; // owned by libmicrohttpd
    enum sk_phase phase;
    bool suspended;    // in libmicrohttpd
    bool unanswerable; // there was no memory for an answer: will be closed
    bool stream_open;  // of a stream: its head is sent
    size_t unsent_at;  // of a stream: how much of request.body its client has taken
    uint32_t generation, index;
    // Used while the request is read.
    struct sk_head head;
    bool too_large;
    size_t discarded;
};

struct sk_connections {
    uv_loop_t *loop;                         // borrowed
    const struct sk_server_options *options; // borrowed
    const struct sk_handler *handler;        // borrowed
    struct sk_connection *all, *first_free;
    uint32_t count;
    uint32_t used; // slots that were ever in use: the rest need no check
    size_t in_phase[SK_PHASE_COUNT];
    struct sk_deadlines *deadlines;
    struct sk_hangups *hangups;
    struct sk_connection *resume_first, *resume_last; // RESUMING and GONE, in their order
    uint64_t resume_at_ms;
    size_t suspended;
    size_t held, held_most; // places of long requests
    uint64_t refused;       // rejected by server.c before they took a slot
    uint64_t filled;        // how often the last free slot was taken
    bool running;           // libmicrohttpd runs: it sends answers given meanwhile by itself
    bool answered;          // an answer was given outside of such a run, since the last one
    bool draining;          // no request may be parked any more
};

enum sk_status sk_connections_open(struct sk_connections *pool, uv_loop_t *loop,
                                   const struct sk_server_options *options,
                                   const struct sk_handler *handler) SK_MUST_CHECK;
void sk_connections_close(struct sk_connections *pool); // none may be suspended; fine after a failed open

// The pool has a slot for each connection that libmicrohttpd may accept.
struct sk_connection *sk_connection_take(struct sk_connections *pool, struct MHD_Connection *library, int fd);
void sk_connection_free(struct sk_connection *connection);

void sk_connection_begin_request(struct sk_connection *connection);
void sk_connection_end_request(struct sk_connection *connection);

// The only function that changes a connection's phase.
void sk_connection_move(struct sk_connection *connection, enum sk_phase phase, uint64_t limit_ms);

struct sk_connection *sk_connection_of(struct sk_request *request);

// The connection with this request, if it is in one of the phases. NULL: it is not, or its client is gone.
struct sk_connection *sk_connections_find(struct sk_connections *pool, uint64_t handle, unsigned phases);

// Returns a connection whose deadline has come, and sets its deadline again, to a later time. NULL: all were returned.
struct sk_connection *sk_connections_next_overdue(struct sk_connections *pool);

// Makes libmicrohttpd ignore the connection until it is resumed. Only while libmicrohttpd asks for its answer.
void sk_connection_suspend(struct sk_connection *connection);
// Drops a parked or streaming connection whose client is gone, or is assumed to be.
void sk_connection_drop(struct sk_connection *connection);
// Closes a connection whose client has been too slow. The client does not get what it has not taken yet.
void sk_connection_cut(struct sk_connection *connection);
// Queues a suspended connection that is answered, or whose client is gone, to be resumed in its turn.
void sk_connection_resume_soon(struct sk_connection *connection);
// Resumes the connections whose turn it is, or all. Returns whether there were any: then libmicrohttpd must run.
bool sk_connections_resume(struct sk_connections *pool, bool all);

#endif
