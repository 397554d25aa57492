// Finds the client of a request that came through proxies.
#ifndef SK_IDENTITY_FORWARDED_H
#define SK_IDENTITY_FORWARDED_H

#include <stddef.h>

#include "address.h"

// The fields in which proxies report it.
enum sk_forwarded {
    SK_FORWARDED,     // RFC 7239: for=192.0.2.1;proto=https, for="[2001:db8::1]:4711"
    SK_FORWARDED_FOR, // X-Forwarded-For: 192.0.2.1, 2001:db8::1
};

enum { SK_FORWARDED_HOPS_MAX = 32 };

// Any thread. The client of a request from `peer` with these values of the field, in their order: from the right, the
// first hop that is not trusted. If the peer is not trusted, it is the client. If a proxy does not report its client
// (unknown, an obfuscated name, nonsense), or there are more than SK_FORWARDED_HOPS_MAX hops, the result is the last
// proxy read. So nothing that a client writes counts, but only what the first trusted proxy has seen.
struct sk_address sk_forwarded_client(enum sk_forwarded form, const struct sk_networks *trusted,
                                      const struct sk_address *peer, const char *const *values, size_t count);

#endif
