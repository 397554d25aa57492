// The target of a request, in the forms that a server must know (RFC 9112 3.2).
#ifndef SK_WIRE_TARGET_H
#define SK_WIRE_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

// Any thread. The path of a target, borrowed from it: "/path" of "http://host/path", "/" of "http://host", and all of a
// target in another form. NULL: it begins as an http or https URL but is not valid.
const char *sk_target_path(const char *target);

// ---- query ----

// The escapes of a request's query (RFC 3986 2.1).

// Any thread, as both. Undoes the escapes of a name or a value in place; *len is the new length. False: an escape is
// truncated or invalid, or stands for a NUL or another control byte; the text is unchanged.
bool sk_url_unescape(char *text, size_t *len);

// Appends the text, escaped: only letters, digits and -._~ stay as they are.
void sk_url_put(struct sk_buf *out, const char *text);

#endif
