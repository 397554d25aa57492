// A well-mixed hash of a name.
#ifndef SK_BASE_HASH_H
#define SK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

// Any thread.
uint64_t sk_hash(const char *name, size_t len);

// ---- siphash ----

// SipHash-2-4: a hash under a secret key, for tables whose keys clients choose. Without the key, nobody can find names
// that collide.

struct sk_siphash_key {
    uint64_t words[2];
};

// Any thread, as both functions.
uint64_t sk_siphash(const struct sk_siphash_key *key, const void *data, size_t len);

// Makes a new key from the kernel's random numbers.
enum sk_status sk_siphash_new_key(struct sk_siphash_key *key) SK_MUST_CHECK;

// ---- slot ----

// The slot routes a key. It is one of 16384, as in Redis Cluster (cluster specification, "Key distribution model"):
// CRC16 of the text between the key's braces, modulo 16384. PostgreSQL's rows carry the same number.

enum { SK_SLOTS = 16384 };

// The slot of a tag, given without its braces. Any thread.
uint16_t sk_slot(const char *tag, size_t len);

#endif
