// A response without an end: texts are sent as they come, until one side ends it.
//
// All functions: the loop's thread. A stream is found by its request's handle (sk_server_find_stream).
#ifndef SK_WIRE_STREAM_H
#define SK_WIRE_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "request.h"

// Gives the head of an event stream. The request waits or is being handled, and must be answered with it and 200 next.
// Once the client has the head, `streams` of struct sk_handler is called; for HEAD nothing follows, and it is not
// called. NULL: out of memory.
struct sk_response *sk_stream_new(struct sk_request *request);

// Sends a text. False: nothing of it is or will be sent, because the client has not taken what it was sent before, or
// is gone. A client that takes nothing for request_timeout_ms is dropped. Each stream keeps at most one text: the end
// of one that was taken in part.
bool sk_stream_send(struct sk_request *request, const char *text, size_t len);

// Ends the stream after the texts that were sent.
void sk_stream_end(struct sk_request *request);

#endif
