// What is noted of a request for those who follow it: the trace that it belongs to, and its line in the access log.
//
// SECKILL_TRACE says which requests have a trace: those that come with the field `traceparent` (auto), all (on), none
// (off). Its id is in the field `traceparent` of the answer, with a span of our own, in the member `trace_id` of a
// problem, and in each log line that is written while the request is handled. `tracestate` is neither read nor given:
// it is meant for the requests that a service makes itself, and there are none.
//
// SECKILL_ACCESS_LOG is N: of N requests one, chosen by chance, has a line in logfmt on standard output when it is
// answered (of a stream: when it begins), and gets a trace if it has none and SECKILL_TRACE allows that:
//
//   ts=... level=info msg="request" method=POST route=/seckill/{voucher} status=201 code=PLACED bytes=263 us=1234
//   trace_id=...
//
// It holds nothing of what a client has sent but the trace id, whose form is checked: the route is the pattern of the
// table (`-`: none fits), the method one that is known to HTTP (else `-`). So there is no path, query, address, user or
// token in it. `bytes` are those of the body, `us` lead from the whole request to its answer.
//
// The reactor's thread, as all functions, unless stated otherwise.
#ifndef SK_WIRE_TRACE_H
#define SK_WIRE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "traceparent.h"
#include "verdict.h"

struct sk_server_options;
struct sk_request;
struct sk_response;
struct sk_spool_lane;
struct sk_tracer;

// Of a request; starts zeroed.
struct sk_trace {
    struct sk_tracer *tracer;  // NULL: nothing is noted, as nearly always
    bool logged;               // it will have a line in the access log
    struct sk_traceparent own; // what its answer carries; no trace_id: it has no trace
    uint64_t began_ns;
    size_t bytes; // of the answer's body, as far as it was made
};

// The main thread, as the next two. Borrows options; NULL: out of memory.
struct sk_tracer *sk_tracer_open(const struct sk_server_options *options);
// Lines are written there from now on, as many as the options want; NULL: nowhere, as at first. Borrowed.
void sk_tracer_write(struct sk_tracer *tracer, struct sk_spool_lane *lane);
void sk_tracer_close(struct sk_tracer *tracer); // NULL is fine

// A request that is to be handled now.
void sk_trace_begin(struct sk_tracer *tracer, struct sk_request *request);

// The trace id, for a problem; NULL: it has none.
const char *sk_trace_id(const struct sk_request *request);

// Log lines are about this request from now on; gives what they were about before, for sk_trace_leave.
const char *sk_trace_enter(const struct sk_request *request);
void sk_trace_leave(const char *before);

// It is being answered with this: adds the field to the response, which is for this request alone (NULL: there was no
// memory, or it has the field already), and writes the lines. Only if request->trace.tracer is not NULL.
void sk_trace_answer(struct sk_request *request, unsigned http_status, enum sk_verdict verdict,
                     struct sk_response *response);

#endif
