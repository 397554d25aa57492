// Tokens whose signature was checked, for those to whom that costs much: a fixed number of places. A token is known by
// its SHA-256; it counts only under the key that it was checked with, so a key that is removed takes its tokens along.
//
// The reactor's thread, as all functions.
#ifndef SK_IDENTITY_TOKEN_CACHE_H
#define SK_IDENTITY_TOKEN_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jwt.h"

struct sk_token_cache;

// For at least so many tokens, and less than twice as many, or for 16. NULL: out of memory.
struct sk_token_cache *sk_token_cache_open(size_t tokens);
void sk_token_cache_close(struct sk_token_cache *cache); // NULL is fine

// What the token was found to claim; NULL: it is not known under the key of this number. The caller checks the times.
// Borrowed until the next call.
const struct sk_jwt_claims *sk_token_cache_find(struct sk_token_cache *cache, const char *token, size_t len,
                                                uint64_t key_number);

// Keeps what the token that was last asked for claims; of the tokens that share its places the one that was asked for
// longest ago goes.
void sk_token_cache_put(struct sk_token_cache *cache, uint64_t key_number, const struct sk_jwt_claims *claims);

#endif
