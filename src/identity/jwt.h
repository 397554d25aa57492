// The text of a user's token: a JSON Web Token (RFC 7519) in its compact form, header "." claims "." signature, each in
// base64url. The claims are what the token says; a key checks its signature (RFC 7515), which makes them true.
//
// Any thread, as all functions.
#ifndef SK_IDENTITY_JWT_H
#define SK_IDENTITY_JWT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "siphash.h"
#include "status.h"
#include "text.h"

// ---- signatures ----
//
// HS256, RS256 and ES256 (RFC 7518), and EdDSA on Ed25519 (RFC 8037).

enum sk_jws_algorithm { SK_JWS_HS256, SK_JWS_EDDSA, SK_JWS_RS256, SK_JWS_ES256, SK_JWS_ALGORITHMS };

enum {
    SK_JWS_SECRET_MIN = 32, // of HS256, in bytes (RFC 7518, 3.2)
    SK_JWS_SECRET_MAX = 256,
    SK_JWS_RSA_BITS_MIN = 2048,
    SK_JWS_RSA_BITS_MAX = 4096,
    SK_JWS_PART_MAX = SK_JWS_RSA_BITS_MAX / 8, // of a key
    SK_JWS_SIGNATURE_MAX = SK_JWS_RSA_BITS_MAX / 8,
};

// How a JSON Web Key describes a key of an algorithm. The key's type and curve determine the algorithm.
struct sk_jws_names {
    const char *alg, *kty, *crv; // crv NULL: the type has no curves
    const char *parts[2];        // the members that hold its parts; the second NULL: there is one
};

const struct sk_jws_names *sk_jws_names(enum sk_jws_algorithm algorithm); // a constant

enum sk_jws_result { SK_JWS_GOOD, SK_JWS_BAD, SK_JWS_NO_MEM };

// A key. It never changes, but has a separate context for each thread that checks signatures: a reader.
struct sk_jws;

struct sk_jws_bytes {
    const unsigned char *at;
    size_t len;
};

// `parts`: the secret of HS256, or the public key, as sk_jws_names() names them. `private_key`: the member `d`; with
// length 0 the key cannot sign.
struct sk_jws_key {
    struct sk_jws_bytes parts[2], private_key;
};

// FAIL: these are no valid keys, or not a pair. Nothing is borrowed.
enum sk_status sk_jws_open(enum sk_jws_algorithm algorithm, const struct sk_jws_key *key, unsigned readers,
                           struct sk_jws **out) SK_MUST_CHECK;
void sk_jws_close(struct sk_jws *jws); // overwrites the secret; NULL is fine

enum sk_jws_algorithm sk_jws_algorithm(const struct sk_jws *jws);
bool sk_jws_same(const struct sk_jws *a, const struct sk_jws *b); // algorithm and key; in constant time
bool sk_jws_can_sign(const struct sk_jws *jws);

// One thread for each reader (0 to readers - 1). A wrong signature takes as long as a right one of its length.
enum sk_jws_result sk_jws_verify(const struct sk_jws *jws, unsigned reader, const char *text, size_t len,
                                 struct sk_jws_bytes signature) SK_MUST_CHECK;

// Uses reader 0. Returns the length of the signature; 0: it cannot sign, or out of memory.
size_t sk_jws_sign(const struct sk_jws *jws, const char *text, size_t len, unsigned char out[SK_JWS_SIGNATURE_MAX]);

// ---- the text ----

enum { SK_JWT_MAX_BYTES = 4096, SK_JWT_KID_MAX = 128, SK_JWT_KID_SIZE = SK_JWT_KID_MAX + 1 };

// The possible results for a token, and their text in the log. Clients learn only that they are not identified.
#define SK_JWT_RESULTS(X)                                                                            \
    X(GOOD, "good")                                                                                  \
    X(NOT_SENT, "there is not one field `Authorization: Bearer`")                                    \
    X(FORM, "it is not of three parts, or too long")                                                 \
    X(HEADER, "its header is not that of a signed token with a key id")                              \
    X(UNKNOWN_KEY, "its key is not known")                                                           \
    X(ALGORITHM, "its algorithm is not that of its key")                                             \
    X(SIGNATURE, "its signature is wrong")                                                           \
    X(CLAIMS, "its claims are not an object with exp, iss, aud and the user's claim of their types") \
    X(ISSUER, "its iss is not SECKILL_TOKEN_ISSUER")                                                 \
    X(AUDIENCE, "its aud does not contain SECKILL_TOKEN_AUDIENCE")                                   \
    X(SUBJECT, "the user's claim is no user id")                                                     \
    X(LIFETIME, "it has no iat, or lives longer than SECKILL_TOKEN_LIFETIME_S")                      \
    X(EXPIRED, "it has expired")                                                                     \
    X(EARLY, "it is not yet good")                                                                   \
    X(REVOKED, "it is revoked")                                                                      \
    X(NOT_REVOCABLE, "no line of SECKILL_TOKEN_REVOKED could name it by jti or sub")                 \
    X(NO_MEM, "out of memory")

enum sk_jwt_result {
#define SK_JWT_ENUM(name, reason) SK_JWT_##name,
    SK_JWT_RESULTS(SK_JWT_ENUM)
#undef SK_JWT_ENUM
        SK_JWT_RESULT_COUNT
};

const char *sk_jwt_reason(enum sk_jwt_result result); // a constant

struct sk_jwt {
    const char *text; // borrowed; NUL-terminated
    size_t len;
    size_t header_len; // the first part
    size_t signed_len; // the first two, and the dot between them
};

struct sk_jwt_header {
    char algorithm[16]; // as sent; a longer name is a HEADER error
    char kid[SK_JWT_KID_SIZE];
};

// The claims by which a token may be revoked.
enum sk_jwt_id { SK_JWT_ID_SUB, SK_JWT_ID_JTI, SK_JWT_IDS };

struct sk_jwt_claims {
    int64_t exp_s, nbf_s;     // Unix time; nbf_s 0: the claim is absent
    uint64_t ids[SK_JWT_IDS]; // hashes; 0: the claim is not there, or no text
    bool revocable;           // each is a text, or not there, and one of them can stand in a line (without blanks)
    char user[SK_USER_SIZE];
};

// What valid tokens have. Borrowed.
struct sk_jwt_expected {
    const char *issuer, *audience;
    const char *user;                     // the claim with the user's id
    int64_t lifetime_s;                   // most seconds from iat to exp; 0: unlimited, and iat is not read
    const struct sk_siphash_key *id_keys; // SK_JWT_IDS keys of the hashes
};

// GOOD or FORM.
enum sk_jwt_result sk_jwt_split(const char *text, struct sk_jwt *out) SK_MUST_CHECK;

// GOOD, HEADER or NO_MEM. `typ` may be missing, but otherwise must be JWT or at+jwt. `crit` demands that an extension
// is understood, and is rejected. A key in the header, or the location of one, is ignored.
enum sk_jwt_result sk_jwt_read_header(const struct sk_jwt *jwt, struct sk_jwt_header *out) SK_MUST_CHECK;

// The third part. False: it is not base64url, or longer than any signature.
bool sk_jwt_signature(const struct sk_jwt *jwt, unsigned char out[SK_JWS_SIGNATURE_MAX], size_t *len) SK_MUST_CHECK;

// GOOD, or the first error. Does not check the times. With a longest lifetime a token is not good before its iat, which
// could otherwise lie as far ahead as its exp.
enum sk_jwt_result sk_jwt_read_claims(const struct sk_jwt *jwt, const struct sk_jwt_expected *expected,
                                      struct sk_jwt_claims *out) SK_MUST_CHECK;

// GOOD, EXPIRED or EARLY, with an allowed clock skew of leeway_s.
enum sk_jwt_result sk_jwt_check_times(const struct sk_jwt_claims *claims, int64_t leeway_s,
                                      int64_t now_s) SK_MUST_CHECK;

// ---- jansson's memory ----
//
// Whether one of jansson's allocations has failed. Version 2.14 goes on after some failures, and gives truncated texts:
// in a user's token, another user. So code that reads what a client sent must check this before it uses the result.

// Before other threads start, and before any call of jansson.
void sk_json_memory_watch(void);

// Each thread for itself. The first clears the flag; the second returns whether an allocation has failed since.
void sk_json_memory_begin(void);
bool sk_json_memory_failed(void);

#endif
