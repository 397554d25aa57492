// A response, ready to be sent any number of times.
//
// The loop's thread, as all functions.
#ifndef SK_WIRE_RESPONSE_H
#define SK_WIRE_RESPONSE_H

#include <stddef.h>

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

#endif
