// The address to serve on, host:port ([host] for IPv6).
#ifndef SK_WIRE_LISTEN_ADDRESS_H
#define SK_WIRE_LISTEN_ADDRESS_H

#include <stdbool.h>

struct addrinfo;

// Any thread, as all functions. Resolves the address; the caller frees the result with freeaddrinfo. NULL and a log
// line on failure.
struct addrinfo *sk_listen_address_resolve(const char *address);

// Whether no other machine can reach it. False also if it cannot be resolved, which is logged.
bool sk_listen_address_is_loopback(const char *address);

// Whether the two have an address in common, however it is written (localhost:8080 and 127.0.0.1:8080). If so, the
// kernel would give each connection to either of them.
bool sk_listen_address_is_same(const char *one, const char *other);

#endif
