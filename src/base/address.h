// Addresses of clients, and networks of them. An IPv4 address is held in its IPv6 form (::ffff:a.b.c.d), so that a
// client has one address whichever kind of socket it came to.
#ifndef SK_BASE_ADDRESS_H
#define SK_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;

struct sk_address {
    unsigned char bytes[16];
};

// Any thread, as all functions. Exactly one address: dotted IPv4 of four decimal numbers, or IPv6 without a zone.
bool sk_address_parse(const char *text, size_t len, struct sk_address *out);

// Of the other end of a connection; false: it is neither IPv4 nor IPv6.
bool sk_address_of(const struct sockaddr *from, struct sk_address *out);

// 127.0.0.0/8 or ::1.
bool sk_address_is_loopback(const struct sk_address *address);

enum { SK_ADDRESS_SIZE = 46 };

// As it is written: IPv4 with dots.
void sk_address_put(const struct sk_address *address, char out[SK_ADDRESS_SIZE]);

// What counts as one client: an IPv4 address, or the first 64 bits of an IPv6 one, since a subscriber is given that
// many at least. No two share a key: IPv4 has those of 0:ffff::/32, which is reserved.
uint64_t sk_address_key(const struct sk_address *address);

enum { SK_NETWORKS_MAX = 64 };

struct sk_networks {
    size_t count;
    struct sk_network {
        struct sk_address first;
        unsigned bits; // of 128
    } all[SK_NETWORKS_MAX];
};

// A list of networks (10.0.0.0/8, 2001:db8::/32) and addresses, parted by commas or blanks. NULL: it is good; else the
// place of the first piece that is not, of *bad_len characters: no network, more than SK_NETWORKS_MAX, with bits beyond
// its length, or of the length 0, which would be every address.
const char *sk_networks_parse(const char *text, struct sk_networks *out, size_t *bad_len);

bool sk_networks_have(const struct sk_networks *networks, const struct sk_address *address);

#endif
