// The field Prefer of a request (RFC 7240).
#ifndef SK_WIRE_PREFER_H
#define SK_WIRE_PREFER_H

#include <stdbool.h>

// Any thread. Whether the list asks for respond-async. `value` is one field's value; check several fields one by one.
bool sk_prefer_async(const char *value);

#endif
