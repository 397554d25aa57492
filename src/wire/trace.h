// Records a request for those who follow it: the trace that it belongs to, its line in the access log, and how long it
// took.
//
// SECKILL_TRACE selects the requests that have a trace: those that come with the field `traceparent` (auto), all (on),
// none (off). The trace id is in the field `traceparent` of the answer, with a span of our own. It is also in the
// member `trace_id` of a problem, and in each log line that is written while the request is handled. `tracestate` is
// neither read nor sent: it is meant for the requests that a service makes itself, and there are none.
//
// SECKILL_ACCESS_LOG is N: one of N requests, chosen at random, has a line in logfmt on standard output when it is
// answered (a stream: when it begins). It also gets a trace, if it has none and SECKILL_TRACE allows that:
//
//   ts=... level=info msg="request" method=POST route=/seckill/{voucher} status=201 code=PLACED bytes=263 us=1234
//   trace_id=...
//
// The line has nothing that a client has sent but the trace id, whose form is checked. The route is the pattern of the
// table (`-`: none matches), the method one that is known to HTTP (else `-`). So it has no path, query, address, user
// or token. `bytes` is the length of the body, `us` the time from the complete request to its answer.
//
// The reactor's thread, as all functions, unless stated otherwise.
#ifndef SK_WIRE_TRACE_H
#define SK_WIRE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "traceparent.h"

// ---- the trace of a request ----

enum { SK_TRACE_CODE_MAX = 22 }; // the longest code of an answer

struct sk_server_options;
struct sk_request;
struct sk_response;
struct sk_spool_lane;
struct sk_tracer;

// Of a request; starts zeroed.
struct sk_trace {
    struct sk_tracer *tracer;  // NULL: nothing is recorded, as nearly always
    bool logged;               // it will have a line in the access log
    struct sk_traceparent own; // sent with its answer; no trace_id: it has no trace
    uint64_t began_ns;
    size_t bytes; // of the answer's body, as far as it was made
};

// The main thread, as the next two. Borrows options; NULL: out of memory.
struct sk_tracer *sk_tracer_open(const struct sk_server_options *options);
// Writes lines to `lane` from now on, as many as the options want. NULL: nowhere, as at first. Borrowed.
void sk_tracer_write(struct sk_tracer *tracer, struct sk_spool_lane *lane);
void sk_tracer_close(struct sk_tracer *tracer); // NULL is fine

// Call it when a request is about to be handled.
void sk_trace_begin(struct sk_tracer *tracer, struct sk_request *request);

// The trace id, for a problem; NULL: it has none.
const char *sk_trace_id(const struct sk_request *request);

// Log lines are about this request from now on. Returns what they were about before, for sk_trace_leave.
const char *sk_trace_enter(const struct sk_request *request);
void sk_trace_leave(const char *before);

// The request is being answered with `response`: adds the field to it, and writes the lines. The response is for this
// request alone (NULL: there was no memory, or it has the field already). Only if request->trace.tracer is not NULL.
void sk_trace_answer(struct sk_request *request, unsigned http_status, const char *code, struct sk_response *response);

#endif
