// Checks whether a token identifies a user: the state of one reactor.
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

// GOOD, and the user's id; or the error, which is for the log alone. Allocates nothing of its own for a token of the
// usual form.
enum sk_jwt_result sk_user_tokens_check(struct sk_user_tokens *users, const char *text, int64_t now_s,
                                        char id[SK_USER_SIZE]) SK_MUST_CHECK;

// Gives back keys that were replaced. Call it from time to time, even if no token comes.
void sk_user_tokens_turn(struct sk_user_tokens *users);

// ---- token cache ----

// A cache of tokens whose signature was checked, for algorithms where that is expensive. It has a fixed number of
// places. A token is identified by its SHA-256. It counts only under the key that it was checked with, so a removed key
// takes its tokens along.
//
// The reactor's thread, as all functions.

struct sk_token_cache;

// Has room for at least this many tokens, and for less than twice as many, or for 16. NULL: out of memory.
struct sk_token_cache *sk_token_cache_open(size_t tokens);
void sk_token_cache_close(struct sk_token_cache *cache); // NULL is fine

// The claims of the token; NULL: it is not in the cache under the key of this number. The caller checks the times.
// Borrowed until the next call.
const struct sk_jwt_claims *sk_token_cache_find(struct sk_token_cache *cache, const char *token, size_t len,
                                                uint64_t key_number);

// Keeps the claims of the token that was last looked up. Replaces the token in the same row that was looked up longest
// ago.
void sk_token_cache_put(struct sk_token_cache *cache, uint64_t key_number, const struct sk_jwt_claims *claims);

#endif
