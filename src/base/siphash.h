// SipHash-2-4: a hash under a secret key. For tables whose keys clients choose: without the key nobody finds names that
// share a place, or a hash.
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

// A new key from the kernel.
enum sk_status sk_siphash_new_key(struct sk_siphash_key *key) SK_MUST_CHECK;

#endif
