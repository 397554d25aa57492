// The target of a request, in the forms that a server must know (RFC 9112 3.2).
#ifndef SK_WIRE_TARGET_H
#define SK_WIRE_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

// Any thread. The path of a target, borrowed from it: of "http://host/path" it is "/path", of "http://host" it is "/",
// and of a target in another form all of it. NULL: begins as an http or https URL and is none.
const char *sk_target_path(const char *target);

// ---- query ----

// The escapes of a request's query (RFC 3986 2.1).

// Any thread, as both. Undoes the escapes of a name or a value, in place; *len is its length then. False: an escape is
// cut short or is none, or stands for a NUL or another control byte; the text is as it was.
bool sk_query_unescape(char *text, size_t *len);

// Appends the text, escaped: only letters, digits and -._~ stand for themselves.
void sk_query_put(struct sk_buf *out, const char *text);

#endif
