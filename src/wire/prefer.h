// The field Prefer of a request (RFC 7240).
#ifndef SK_WIRE_PREFER_H
#define SK_WIRE_PREFER_H

#include <stdbool.h>

// Any thread. Whether the list asks for respond-async. One field's value; of several fields each is read by itself.
bool sk_prefer_async(const char *value);

#endif
