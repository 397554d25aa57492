// A response, ready to be sent any number of times; and one without an end, a stream.
//
// The loop's thread, as all functions.
#ifndef SK_WIRE_RESPONSE_H
#define SK_WIRE_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>

struct sk_request;
struct sk_response;

// Gives a response with a copy of the text. NULL: out of memory. sk_request_answer takes NULL as "cut the connection",
// and sk_response_header ignores it. `type` NULL: no body.
struct sk_response *sk_response_new(const char *type, const char *body, size_t len);
// The same for a body that outlives the response: nothing is copied. The body may be changed while no request has the
// response.
struct sk_response *sk_response_of(const char *type, const char *body, size_t len);

void sk_response_header(struct sk_response *response, const char *name, const char *value);
// Where the response keeps the value of this field. The value may be changed at the same times, but its length may not.
// NULL: it has no such field, or the response is NULL.
char *sk_response_value(struct sk_response *response, const char *name);

void sk_response_free(struct sk_response *response); // NULL is fine

// ---- streams ----
//
// Texts are sent as they come, until one side ends the stream. It is found by its request's handle
// (sk_server_find_stream).

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
