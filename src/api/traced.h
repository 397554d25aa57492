// Refusals of requests that have a trace. They differ in the trace alone, so each is made once and kept: its trace is
// written over for the next request, once the one before has been sent. As many of a kind are kept as were under way at
// once, up to a bound.
//
// The loop's thread, as all functions.
#ifndef SK_API_TRACED_H
#define SK_API_TRACED_H

#include "request.h"

struct sk_traced;

// NULL: out of memory.
struct sk_traced *sk_traced_open(void);
void sk_traced_close(struct sk_traced *traced); // when no request is left; NULL is fine

// The refusal of this request, with its field `traceparent`. It is the request's until that ends (request->lease).
// NULL: none is free, or the request has no trace.
struct sk_response *sk_traced_take(struct sk_traced *traced, struct sk_request *request, enum sk_verdict verdict);

#endif
