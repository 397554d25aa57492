// The field Prefer of a request (RFC 7240).
#ifndef SK_WIRE_PREFER_H
#define SK_WIRE_PREFER_H

#include <stdbool.h>

// Any thread. Whether the list asks for respond-async. `value` is one field's value; check several fields one by one.
bool sk_prefer_async(const char *value);

// Whether it has `wait`, with a number of seconds, at most SK_PREFER_WAIT_MAX. The first one counts.
enum { SK_PREFER_WAIT_MAX = 86400 };
bool sk_prefer_wait(const char *value, unsigned *seconds);

#endif
