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

// ---- traceparent ----

// The header field `traceparent` of W3C Trace Context (levels 1 and 2, which both write version 00): the trace that a
// request belongs to.
//
// Any thread.

enum { SK_TRACE_ID_CHARS = 32, SK_TRACE_ID_SIZE = SK_TRACE_ID_CHARS + 1 };
enum { SK_SPAN_ID_CHARS = 16, SK_SPAN_ID_SIZE = SK_SPAN_ID_CHARS + 1 };
enum { SK_TRACEPARENT_SIZE = 56 };

enum { SK_TRACE_SAMPLED = 1, SK_TRACE_RANDOM = 2 };

struct sk_traceparent {
    char trace_id[SK_TRACE_ID_SIZE]; // lower-case hexadecimal digits, not all of them 0
    char span_id[SK_SPAN_ID_SIZE];   // the same: of the client where it was read, of this request where it is sent
    uint8_t flags;                   // the two above; all others are dropped
};

// Whether the text is valid: version 00 in exactly its form, or a later version that begins with that form. Of a later
// version only the sampled flag counts, as the specification requires. Blanks and tabs around the text are ignored, as
// in any field.
bool sk_traceparent_read(const char *text, struct sk_traceparent *read);

// Makes a new trace from three random words, and a new span from one.
void sk_traceparent_make(struct sk_traceparent *made, const uint64_t random[3]);
void sk_traceparent_new_span(struct sk_traceparent *parent, uint64_t random);

// Writes version 00.
void sk_traceparent_put(const struct sk_traceparent *parent, char out[SK_TRACEPARENT_SIZE]);

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

// ---- durations ----
//
// Measures the outcomes and durations of requests, by route, for the reactor's metrics (metrics.h). The clock is read
// twice in a turn of the loop: at its first request, and at its end, when the answers are out.
//
// `measure` NULL: nothing is counted.

struct sk_measure;
struct sk_metrics;

// Borrows the metrics. NULL: out of memory.
struct sk_measure *sk_measure_open(struct sk_metrics *metrics);
void sk_measure_close(struct sk_measure *measure); // NULL is fine

// A request is complete, or will never be: then its row is 0.
void sk_measure_began(struct sk_measure *measure, struct sk_request *request);

// The request is answered with this code (metrics.h). `trace_id`: for an exemplar, SK_EXEMPLAR_CHARS hexadecimal
// digits; NULL: it has none. A request that did not begin here is not counted.
void sk_measure_answered(const struct sk_request *request, unsigned code, const char *trace_id);

// The end of a turn.
void sk_measure_turn(struct sk_measure *measure);

#endif
