// SipHash-2-4: a hash under a secret key, for tables whose keys clients choose. Without the key, nobody can find names
// that collide.
#ifndef SK_BASE_SIPHASH_H
#define SK_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

struct sk_siphash_key {
    uint64_t words[2];
};

// Any thread, as both functions.
uint64_t sk_siphash(const struct sk_siphash_key *key, const void *data, size_t len);

// Makes a new key from the kernel's random numbers.
enum sk_status sk_siphash_new_key(struct sk_siphash_key *key) SK_MUST_CHECK;

#endif
