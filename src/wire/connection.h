// The connections of a server: a fixed pool. There is one request at a time on a connection, so both share a slot of
// the pool, and a phase.
//
// For server.c and request.c. All functions: the loop's thread.
#ifndef SK_WIRE_CONNECTION_H
#define SK_WIRE_CONNECTION_H

#include <stdint.h>
#include <uv.h>

#include "head.h"
#include "list.h"
#include "request.h"
#include "server_options.h"
#include "status.h"

// ---- deadlines ----

// Deadlines of many things at once: a timer wheel. To set one costs a comparison or two, whatever their number; a tick
// costs as much as there are deadlines that it has to look at.

// How exact they are: nothing comes early, and nothing later than this after its time.
enum { SK_DEADLINES_TICK_MS = 50 };

struct sk_deadlines;

// Part of what has the deadline, zeroed at first. Belongs to the wheel while it is set.
struct sk_deadline {
    struct sk_list list; // first; in none: not set
    uint64_t at_ms;
    uint64_t tick; // when the wheel looks at it: never after at_ms, but maybe well before
};

// One thread, as all functions. Times are those of one monotonic clock. NULL: out of memory.
struct sk_deadlines *sk_deadlines_open(uint64_t now_ms);
void sk_deadlines_close(struct sk_deadlines *deadlines); // NULL is fine

// Sets it, or replaces the one that was set.
void sk_deadlines_set(struct sk_deadlines *deadlines, struct sk_deadline *deadline, uint64_t at_ms);
void sk_deadlines_clear(struct sk_deadline *deadline); // may be clear already

// One deadline whose time has come; it is clear by then, and any may be set or cleared before the next call. To be
// asked until it gives NULL.
struct sk_deadline *sk_deadlines_next(struct sk_deadlines *deadlines, uint64_t now_ms);

// ---- hangups ----

// Watches the sockets of parked connections for clients that hang up, since libmicrohttpd does not look at them.
//
// All functions: the loop's thread.

struct sk_hangups;

// NULL: out of memory or file descriptors. Borrows the loop. The event comes once for each socket that is watched.
struct sk_hangups *sk_hangups_open(uv_loop_t *loop, void (*on_hangup)(void *arg, uint64_t handle), void *arg);
// The loop must run until the handle is closed. NULL is fine.
void sk_hangups_close(struct sk_hangups *hangups);

// From now on, or since before: that the client has closed its side, or the connection has failed. On failure (the
// kernel has no memory) the hang-up goes unnoticed.
enum sk_status sk_hangups_watch(struct sk_hangups *hangups, int fd, uint64_t handle) SK_MUST_CHECK;
void sk_hangups_unwatch(struct sk_hangups *hangups, int fd); // before the socket is closed; may be unwatched

// ---- connections ----

struct MHD_Connection;
struct sk_metrics;

// Each phase has a deadline, counted from its beginning.
enum sk_phase {
    SK_PHASE_FREE,      // the slot is not in use
    SK_PHASE_HEADER,    // the next request's header is not there: idle_timeout_ms; its rest: request_timeout_ms
    SK_PHASE_BODY,      // the header is there, the body is not: request_timeout_ms
    SK_PHASE_WAITING,   // a handler will answer soon: its own deadline; then it expires
    SK_PHASE_PARKED,    // a handler will answer some time: the same
    SK_PHASE_RESUMING,  // was parked and is answered, or streamed and ends, and has its turn to be resumed soon
    SK_PHASE_GONE,      // was parked or streamed, and its client hung up; will be resumed, too, to be closed
    SK_PHASE_SENDING,   // answered, and the client has not taken all of it: request_timeout_ms
    SK_PHASE_STREAMING, // the head of a stream is sent, and texts go as they come: no deadline
    SK_PHASE_STUCK,     // the same, and the client has not taken the last text: request_timeout_ms
    SK_PHASE_COUNT
};

struct sk_connection {
    struct sk_request request; // first, so that a request leads to its connection
    struct sk_connections *pool;
    struct MHD_Connection *library; // borrowed while not FREE
    struct sk_deadline deadline;
    struct sk_connection *next_to_resume;
    int fd; // libmicrohttpd's
    enum sk_phase phase;
    bool suspended;    // libmicrohttpd has it suspended
    bool unanswerable; // there was no memory for an answer: to be closed
    bool stream_open;  // of a stream: its head is sent
    size_t unsent_at;  // of a stream: what its client has taken of request.body
    uint32_t generation, index, next_free;
    // While the request is read.
    struct sk_head head;
    bool too_large;
    size_t discarded;
};

// Upwards, to the handlers (server.h says when).
struct sk_connection_hooks {
    void (*streams)(void *arg, struct sk_request *request);
    void (*gone)(void *arg, struct sk_request *request);
    void (*released)(void *arg, const struct sk_hold *hold);
    void *arg;
};

struct sk_connections {
    uv_loop_t *loop;                         // borrowed
    const struct sk_server_options *options; // borrowed
    struct sk_connection *all;
    uint32_t count, first_free;
    uint32_t used; // that were ever in use: the rest needs no look
    size_t in_phase[SK_PHASE_COUNT];
    struct sk_deadlines *deadlines;
    struct sk_hangups *hangups;
    struct sk_connection_hooks hooks;
    struct sk_connection *resume_first, *resume_last; // RESUMING and GONE, in their order
    uint64_t resume_at_ms;
    size_t suspended;
    size_t held, held_most; // places of long requests
    uint64_t refused;       // by server.c, that never became one
    uint64_t filled;        // how often the last free one was taken
    bool running;           // libmicrohttpd runs: it sends what is answered meanwhile by itself
    bool answered;          // outside of such a run, since the last one
    bool draining;          // nothing is parked any more
};

enum sk_status sk_connections_open(struct sk_connections *pool, uv_loop_t *loop,
                                   const struct sk_server_options *options) SK_MUST_CHECK;
void sk_connections_close(struct sk_connections *pool); // none is suspended; of one that did not open is fine

// The pool has a slot for each connection that libmicrohttpd may accept.
struct sk_connection *sk_connection_take(struct sk_connections *pool, struct MHD_Connection *library, int fd);
void sk_connection_free(struct sk_connection *connection);

void sk_connection_begin_request(struct sk_connection *connection);
void sk_connection_end_request(struct sk_connection *connection);

// The one place where a connection's phase changes.
void sk_connection_move(struct sk_connection *connection, enum sk_phase phase, uint64_t limit_ms);

struct sk_connection *sk_connection_of(struct sk_request *request);

// One that waits or is parked; NULL: it is answered, or its client is gone.
struct sk_connection *sk_connections_find(struct sk_connections *pool, uint64_t handle);

// One that streams; NULL: its stream is at an end, or its client is gone.
struct sk_connection *sk_connections_find_stream(struct sk_connections *pool, uint64_t handle);

// One whose deadline has come; until all were given, which is NULL. Its deadline is set again, to a moment later.
struct sk_connection *sk_connections_next_overdue(struct sk_connections *pool);

// Nine tenths of all are taken. Never with less than ten.
bool sk_connections_crowded(const struct sk_connections *pool);

// What is answered, or hung up, and not done with yet.
size_t sk_connections_sending(const struct sk_connections *pool);

// Sets the gauges and counters of connections.
void sk_connections_measure(const struct sk_connections *pool, struct sk_metrics *metrics);

// Makes libmicrohttpd forget the connection until it is resumed. Only while libmicrohttpd asks for its answer.
void sk_connection_suspend(struct sk_connection *connection);
// The client of one that is parked or streams is gone, or is taken to be.
void sk_connection_drop(struct sk_connection *connection);
// One whose client has been too slow: to be closed. What it has not taken yet it does not get.
void sk_connection_cut(struct sk_connection *connection);
// A parked one that is answered, or whose client is gone: to be resumed in its turn.
void sk_connection_resume_soon(struct sk_connection *connection);
// Resumes those whose turn it is, or all. Whether there were any: then libmicrohttpd must run.
bool sk_connections_resume(struct sk_connections *pool, bool all);

#endif
