// Whether a token identifies a user: what a reactor checks tokens with.
//
// The reactor's thread, as all functions.
#ifndef SK_IDENTITY_USER_TOKENS_H
#define SK_IDENTITY_USER_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "identity_options.h"
#include "jwt.h"
#include "metrics.h"
#include "token_keys.h"

struct sk_user_tokens;

// `reader`: this reactor's number (jws.h). `metrics` NULL: nothing is counted. NULL: out of memory. Borrows all.
struct sk_user_tokens *sk_user_tokens_open(const struct sk_identity_options *options, struct sk_token_ring *ring,
                                           unsigned reader, struct sk_metrics *metrics);
void sk_user_tokens_close(struct sk_user_tokens *users); // before the ring; NULL is fine

// GOOD, and the id of the user; or why not, which is for the log alone. Allocates nothing of its own for a token of the
// usual form.
enum sk_jwt_result sk_user_tokens_check(struct sk_user_tokens *users, const char *text, int64_t now_s,
                                        char id[SK_USER_SIZE]) SK_MUST_CHECK;

// Lets go of keys that were replaced: now and then also where no token comes.
void sk_user_tokens_turn(struct sk_user_tokens *users);

// ---- token cache ----

// Tokens whose signature was checked, for those to whom that costs much: a fixed number of places. A token is known by
// its SHA-256; it counts only under the key that it was checked with, so a key that is removed takes its tokens along.
//
// The reactor's thread, as all functions.

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
