// The escapes of a request's query (RFC 3986 2.1).
#ifndef SK_WIRE_QUERY_H
#define SK_WIRE_QUERY_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

// Any thread, as both. Undoes the escapes of a name or a value, in place; *len is its length then. False: an escape is
// cut short or is none, or stands for a NUL or another control byte; the text is as it was.
bool sk_query_unescape(char *text, size_t *len);

// Appends the text, escaped: only letters, digits and -._~ stand for themselves.
void sk_query_put(struct sk_buf *out, const char *text);

#endif
