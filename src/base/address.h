// Client addresses and networks. An IPv4 address is stored in its IPv6 form (::ffff:a.b.c.d), so a client has the same
// address on every kind of socket.
#ifndef SK_BASE_ADDRESS_H
#define SK_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;

struct sk_address {
    unsigned char bytes[16];
};

// Any thread, as all functions here. Accepts exactly one address: dotted IPv4 with four decimal numbers, or IPv6
// without a zone.
bool sk_address_parse(const char *text, size_t len, struct sk_address *out);

// The peer address of a connection. False: it is neither IPv4 nor IPv6.
bool sk_address_of(const struct sockaddr *from, struct sk_address *out);

// 127.0.0.0/8 or ::1.
bool sk_address_is_loopback(const struct sk_address *address);

enum { SK_ADDRESS_SIZE = 46 };

// Writes the address as text: IPv4 in dotted form.
void sk_address_put(const struct sk_address *address, char out[SK_ADDRESS_SIZE]);

// The key that identifies one client: an IPv4 address, or the first 64 bits of an IPv6 address, since a subscriber gets
// at least that many. Keys of IPv4 and IPv6 never collide: IPv4 uses those of 0:ffff::/32, which is reserved.
uint64_t sk_address_key(const struct sk_address *address);

enum { SK_NETWORKS_MAX = 64 };

struct sk_networks {
    size_t count;
    struct sk_network {
        struct sk_address first;
        unsigned bits; // of 128
    } all[SK_NETWORKS_MAX];
};

// Parses a list of networks (10.0.0.0/8, 2001:db8::/32) and addresses, separated by commas or white space. NULL: the
// list is valid. Otherwise returns the first bad item, which is *bad_len characters long. An item is bad if it is no
// network, has bits set beyond its length, has the length 0 (every address), or exceeds SK_NETWORKS_MAX.
const char *sk_networks_parse(const char *text, struct sk_networks *out, size_t *bad_len);

bool sk_networks_have(const struct sk_networks *networks, const struct sk_address *address);

#endif
