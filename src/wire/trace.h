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

#include "verdict.h"

// ---- traceparent ----

// The header field `traceparent` of W3C Trace Context (levels 1 and 2, which both write version 00): which trace a
// request belongs to.
//
// Any thread.

enum { SK_TRACE_ID_CHARS = 32, SK_TRACE_ID_SIZE = SK_TRACE_ID_CHARS + 1 };
enum { SK_SPAN_ID_CHARS = 16, SK_SPAN_ID_SIZE = SK_SPAN_ID_CHARS + 1 };
enum { SK_TRACEPARENT_SIZE = 56 };

enum { SK_TRACE_SAMPLED = 1, SK_TRACE_RANDOM = 2 };

struct sk_traceparent {
    char trace_id[SK_TRACE_ID_SIZE]; // lower-case hexadecimal digits, not all of them 0
    char span_id[SK_SPAN_ID_SIZE];   // the same: of the client where it was read, of this request where it is given
    uint8_t flags;                   // those of above; all others are dropped
};

// Whether the text is one that must be taken up: of version 00 in exactly its form, or of a later one whose beginning
// has that form. Of that, as the specification wants it, only the sampled flag counts. Blanks and tabs around the text
// do not count, as in any field.
bool sk_traceparent_read(const char *text, struct sk_traceparent *read);

// A new trace of these three random words; a new span of one.
void sk_traceparent_make(struct sk_traceparent *made, const uint64_t random[3]);
void sk_traceparent_new_span(struct sk_traceparent *parent, uint64_t random);

// Writes version 00.
void sk_traceparent_put(const struct sk_traceparent *parent, char out[SK_TRACEPARENT_SIZE]);

// ---- the trace of a request ----

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
