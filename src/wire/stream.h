// A response without an end: text that is sent as it comes, until one side ends it.
//
// All functions: the loop's thread. A stream is found by its request's handle (sk_server_find_stream).
#ifndef SK_WIRE_STREAM_H
#define SK_WIRE_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "request.h"

// Gives the head of a stream of events, for the request, which waits or is handled and is answered with it, and 200,
// next. Once the client has it, `streams` of struct sk_handler is called; to HEAD there is nothing more, and it is not.
// NULL: out of memory.
struct sk_response *sk_stream_new(struct sk_request *request);

// Sends a text. False: it is not sent, and nothing of it will be, because the client has not taken what it was sent
// before, or is gone. A client that takes nothing for request_timeout_ms is dropped. Of each stream one text at most is
// kept, the end of one that was taken in part.
bool sk_stream_send(struct sk_request *request, const char *text, size_t len);

// Ends it behind what was sent.
void sk_stream_end(struct sk_request *request);

#endif
