// In the forms that a server must know (RFC 9112 3.2).
//
// Any thread, as all below.
#ifndef SK_WIRE_TARGET_H
#define SK_WIRE_TARGET_H

#include "buf.h"

// The path of a target, borrowed from it: "/path" of "http://host/path", "/" of "http://host", and all of a
// target in another form. NULL: it begins as an http or https URL but is not valid.
const char *sk_target_path(const char *target);

// Appends the text, escaped: only letters, digits and -._~ stay as they are.
void sk_url_put(struct sk_buf *out, const char *text);

#endif
