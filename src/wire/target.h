// The target of a request, in the forms that a server must know (RFC 9112 3.2).
#ifndef SK_WIRE_TARGET_H
#define SK_WIRE_TARGET_H

// Any thread. The path of a target, borrowed from it: of "http://host/path" it is "/path", of "http://host" it is "/",
// and of a target in another form all of it. NULL: begins as an http or https URL and is none.
const char *sk_target_path(const char *target);

#endif
