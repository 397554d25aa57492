// The keys of users' tokens: a set that is read from a file and never changes. It is one of
// - a JWK Set (RFC 7517): {"keys": [...]}, with keys of kty "oct" (HS256) and of kty "OKP", crv "Ed25519" (EdDSA), each
//   with its kid and its alg; keys of other types, or for another use than "sig", are left out;
// - lines "kid HS256 secret" or "kid EdDSA public-key [private-key]", with the keys in base64url; empty lines and those
//   that begin with # are none.
// A token's algorithm is that of its key, whatever the token says.
#ifndef SK_IDENTITY_TOKEN_KEYS_H
#define SK_IDENTITY_TOKEN_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "jws.h"
#include "jwt.h"

enum { SK_TOKEN_KEYS_MAX = 64, SK_TOKEN_KEYS_WRONG_SIZE = 160 };

struct sk_token_key {
    char kid[SK_JWT_KID_SIZE];
    struct sk_jws *jws; // owned by the set
    uint64_t number;    // of this kid with this key, in all sets that follow each other; never 0
};

struct sk_token_keys;

// Any thread. `readers`: as jws.h. `before`: the set that this one is to replace: what it has, keeps its number; NULL:
// none. NULL: something is wrong, which `wrong` tells without repeating what it reads.
struct sk_token_keys *sk_token_keys_read(const char *text, size_t len, unsigned readers,
                                         const struct sk_token_keys *before, char wrong[SK_TOKEN_KEYS_WRONG_SIZE]);
// The same of a file.
struct sk_token_keys *sk_token_keys_load(const char *path, unsigned readers, const struct sk_token_keys *before,
                                         char wrong[SK_TOKEN_KEYS_WRONG_SIZE]);
void sk_token_keys_free(struct sk_token_keys *keys); // NULL is fine

size_t sk_token_keys_count(const struct sk_token_keys *keys);
const struct sk_token_key *sk_token_keys_at(const struct sk_token_keys *keys, size_t i);
const struct sk_token_key *sk_token_keys_find(const struct sk_token_keys *keys, const char *kid); // NULL: unknown

#endif
