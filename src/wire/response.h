// A response, ready to be sent any number of times.
//
// The loop's thread, as all functions.
#ifndef SK_WIRE_RESPONSE_H
#define SK_WIRE_RESPONSE_H

#include <stddef.h>

struct sk_response;

// Gives a response, whose text is copied; NULL: out of memory, which sk_request_answer and
// sk_response_header take as "cut the connection". `type` NULL: no body.
struct sk_response *sk_response_new(const char *type, const char *body, size_t len);
// The same of a body that outlives it: nothing is copied. As long as no request has the response, the body may be
// changed.
struct sk_response *sk_response_of(const char *type, const char *body, size_t len);

void sk_response_header(struct sk_response *response, const char *name, const char *value);
// Where the response keeps the value of this field, which may be changed then, too; its length may not. NULL: it has no
// such field, or the response is NULL.
char *sk_response_value(struct sk_response *response, const char *name);

void sk_response_free(struct sk_response *response); // NULL is fine

#endif
