// Users' tokens: the keys that they are signed with, and whether a token identifies a user.
#ifndef SK_IDENTITY_USER_TOKENS_H
#define SK_IDENTITY_USER_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "editions.h"
#include "identity_options.h"
#include "jwt.h"
#include "metrics.h"

// ---- keys ----
//
// A set that is read from a file and never changes. The file is one of
// - a JWK Set (RFC 7517): {"keys": [...]}, as logins publish it. kty and crv determine the algorithm: "oct" HS256;
// "RSA"
//   RS256; "EC" with "P-256" ES256; "OKP" with "Ed25519" EdDSA. A key of another type, alg or use (a foreign one), and
//   one that is wrong, are not used, and listed with the reason. One key at least must be usable. Other members are
//   ignored;
// - lines "kid HS256 secret" or "kid EdDSA public-key [private-key]", with the keys in base64url; empty lines and those
//   that begin with # are ignored. Any other line is an error.
//
// A token's algorithm is that of its key, whatever the token names.

enum { SK_TOKEN_KEYS_MAX = 64, SK_TOKEN_KEYS_WRONG_SIZE = 200 };

struct sk_token_key {
    char kid[SK_JWT_KID_SIZE];
    struct sk_jws *jws; // owned by the set
    uint64_t number;    // identifies this kid with this key, also in all later sets; never 0
};

struct sk_token_key_unused {
    size_t place;       // in the list
    const char *reason; // a constant
    bool foreign;       // it is not for us; false: it would be, but something is wrong with it
};

struct sk_token_keys {
    size_t count, unused_count;
    struct sk_token_key all[SK_TOKEN_KEYS_MAX];
    struct sk_token_key_unused unused[SK_TOKEN_KEYS_MAX];
    uint64_t next_number; // of a key that a later set has more
};

// Any thread. `readers`: as in jwt.h. `before`: the set that this one will replace, or NULL; keys that are in both keep
// their numbers. NULL: an error, which `wrong` describes without repeating what was read.
struct sk_token_keys *sk_token_keys_read(const char *text, size_t len, unsigned readers,
                                         const struct sk_token_keys *before, char wrong[SK_TOKEN_KEYS_WRONG_SIZE]);
// The same for a file.
struct sk_token_keys *sk_token_keys_load(const char *path, unsigned readers, const struct sk_token_keys *before,
                                         char wrong[SK_TOKEN_KEYS_WRONG_SIZE]);
void sk_token_keys_free(struct sk_token_keys *keys); // NULL is fine

const struct sk_token_key *sk_token_keys_find(const struct sk_token_keys *keys, const char *kid); // NULL: unknown

// ---- token ring ----

// The keys of users' tokens in the process, and the revoked tokens: what their files hold, and how a new reading
// reaches the reactors. A reactor holds the set that it checks with. A replaced set is freed when the last reactor
// gives it back.
//
// The file of revoked tokens has lines "jti:ID" or "sub:ID"; empty lines and those that begin with # are ignored. A
// token with one of these claims is rejected, also one whose signature was checked before.

struct sk_token_ring;

// The main thread, as sk_token_ring_close. Reads the files, whose paths it borrows. `readers`: as in jwt.h, one for
// each reactor. NULL: the reason is logged.
struct sk_token_ring *sk_token_ring_open(const struct sk_identity_options *options, unsigned readers);
void sk_token_ring_close(struct sk_token_ring *ring); // every taken set must be back; NULL is fine

// One thread. Reads the files again: from now on their keys and revocations count. False: a file has an error, which is
// logged, and what it held before stays.
bool sk_token_ring_reload(struct sk_token_ring *ring);

// Any thread. The sets of keys (struct sk_token_keys) that were read and are not freed. Borrowed; only the ring
// publishes.
struct sk_editions *sk_token_ring_keys(struct sk_token_ring *ring);

// ---- checking ----
//
// The state of one reactor, and the reactor's thread, as all below.

struct sk_user_tokens;

// `reader`: this reactor's number (jwt.h). `metrics` NULL: nothing is counted. NULL: out of memory. Borrows all.
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
