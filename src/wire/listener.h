// The socket that the reactors listen on.
#ifndef SK_WIRE_LISTENER_H
#define SK_WIRE_LISTENER_H

// Any thread. Opens a non-blocking socket on host:port ([host] for IPv6), which other reactors and instances of
// the same user may share. The caller owns it; -1 and a log line on failure.
int sk_listen(const char *address);

#endif
