// inet_pton is strict where it matters: no octal and no short forms of IPv4, no zone of IPv6.
#include "address.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "text.h"

enum { V4_AT = 12, V4_BITS = 32, V6_BITS = 128, LENGTH_SIZE = 4 };

static const unsigned char v4_prefix[V4_AT] = {[10] = 0xff, [11] = 0xff};

static bool address_is_v4(const struct sk_address *address)
{
    return memcmp(address->bytes, v4_prefix, V4_AT) == 0;
}

static void address_put_v4(struct sk_address *out, const void *four_bytes)
{
    memcpy(out->bytes, v4_prefix, V4_AT);
    memcpy(out->bytes + V4_AT, four_bytes, sizeof out->bytes - V4_AT);
}

bool sk_address_is_loopback(const struct sk_address *address)
{
    static const struct sk_address v6_loopback = {{[15] = 1}};
    return address_is_v4(address) ? address->bytes[V4_AT] == 127
                                  : memcmp(address, &v6_loopback, sizeof v6_loopback) == 0;
}

void sk_address_put(const struct sk_address *address, char out[SK_ADDRESS_SIZE])
{
    bool v4 = address_is_v4(address);
    // Cannot fail: SK_ADDRESS_SIZE fits the longest address.
    (void)inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? address->bytes + V4_AT : address->bytes, out, SK_ADDRESS_SIZE);
}

bool sk_address_parse(const char *text, size_t len, struct sk_address *out)
{
    char copy[INET6_ADDRSTRLEN];
    struct in_addr v4;
    if (len >= sizeof copy || memchr(text, '\0', len) != NULL)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (memchr(text, ':', len) != NULL)
        return inet_pton(AF_INET6, copy, out->bytes) == 1;
    if (inet_pton(AF_INET, copy, &v4) != 1)
        return false;
    address_put_v4(out, &v4);
    return true;
}

bool sk_address_of(const struct sockaddr *from, struct sk_address *out)
{
    if (from != NULL && from->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, from, sizeof v4);
        address_put_v4(out, &v4.sin_addr);
        return true;
    }
    if (from != NULL && from->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, from, sizeof v6);
        memcpy(out->bytes, &v6.sin6_addr, sizeof out->bytes);
        return true;
    }
    return false;
}

uint64_t sk_address_key(const struct sk_address *address)
{
    bool v4 = address_is_v4(address);
    uint64_t key = v4 ? 0xffff : 0;
    for (size_t i = v4 ? V4_AT : 0; i < (v4 ? sizeof address->bytes : sizeof key); i++)
        key = key << 8 | address->bytes[i];
    return key;
}

// ---- networks ----

static bool networks_same_bits(const unsigned char *one, const unsigned char *other, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    if (memcmp(one, other, whole) != 0)
        return false;
    return rest == 0 || (one[whole] ^ other[whole]) >> (8 - rest) == 0;
}

// Whether all bits after the prefix are zero: the text must name the network, not one of its hosts.
static bool networks_ends_there(const struct sk_network *network)
{
    static const struct sk_address zeros;
    struct sk_address rest = network->first;
    unsigned whole = network->bits / 8;
    memset(rest.bytes, 0, whole);
    if (network->bits % 8 != 0)
        rest.bytes[whole] &= (unsigned char)(0xff >> network->bits % 8);
    return memcmp(rest.bytes, zeros.bytes, sizeof rest.bytes) == 0;
}

static bool networks_parse_one(const char *text, size_t len, struct sk_network *out)
{
    const char *slash = memchr(text, '/', len);
    size_t address_len = slash == NULL ? len : (size_t)(slash - text);
    char length[LENGTH_SIZE];
    uint64_t bits;
    out->bits = V6_BITS;
    if (!sk_address_parse(text, address_len, &out->first))
        return false;
    if (slash == NULL)
        return true;
    size_t length_len = len - address_len - 1;
    unsigned most = memchr(text, ':', address_len) == NULL ? V4_BITS : V6_BITS;
    if (length_len >= sizeof length)
        return false;
    memcpy(length, slash + 1, length_len);
    length[length_len] = '\0';
    if (!sk_text_number(length, most, &bits) || bits == 0)
        return false;
    out->bits = (unsigned)bits + V6_BITS - most;
    return networks_ends_there(out);
}

const char *sk_networks_parse(const char *text, struct sk_networks *out, size_t *bad_len)
{
    static const char parting[] = ", \t\r\n";
    out->count = 0;
    for (text += strspn(text, parting); *text != '\0'; text += strspn(text, parting)) {
        size_t len = strcspn(text, parting);
        if (out->count == SK_NETWORKS_MAX || !networks_parse_one(text, len, &out->all[out->count])) {
            *bad_len = len;
            return text;
        }
        out->count++;
        text += len;
    }
    return NULL;
}

bool sk_networks_have(const struct sk_networks *networks, const struct sk_address *address)
{
    for (size_t i = 0; i < networks->count; i++) {
        if (networks_same_bits(networks->all[i].first.bytes, address->bytes, networks->all[i].bits))
            return true;
    }
    return false;
}
