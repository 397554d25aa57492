// The socket that the reactors listen on, and its address: host:port ([host] for IPv6). [::] is every address, of IPv4
// and IPv6; where the kernel has no IPv6, of IPv4.
//
// Any thread, as all functions.
#ifndef SK_WIRE_LISTENER_H
#define SK_WIRE_LISTENER_H

#include <stdbool.h>

// Opens a non-blocking socket, which other reactors and instances of the same user may share. The caller owns it; -1
// and a log line on failure.
int sk_listen(const char *address);

// Whether it is of that form.
bool sk_listen_address_is_formed(const char *address);

// Whether it names an address: it is of that form, and its host is known. If not, the reason is logged.
bool sk_listen_address_is_good(const char *address);

// Whether other machines can reach the address. False also if it cannot be resolved, which is logged.
bool sk_listen_address_is_reachable(const char *address);

// Whether the two have an address in common, however it is written (localhost:8080 and 127.0.0.1:8080). If so, the
// kernel would give each connection to either of them.
bool sk_listen_address_is_same(const char *one, const char *other);

#endif
