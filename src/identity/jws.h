// Signatures of JSON Web tokens (RFC 7515): HS256, and EdDSA on Ed25519 (RFC 8037). jws.c calls OpenSSL to check and
// make them.
#ifndef SK_IDENTITY_JWS_H
#define SK_IDENTITY_JWS_H

#include <stdbool.h>
#include <stddef.h>

#include "status.h"

enum sk_jws_algorithm { SK_JWS_HS256, SK_JWS_EDDSA };

enum {
    SK_JWS_SECRET_MIN = 32, // of HS256, in bytes (RFC 7518, 3.2)
    SK_JWS_SECRET_MAX = 256,
    SK_JWS_POINT_SIZE = 32, // of Ed25519: a public key, and a private one
    SK_JWS_SIGNATURE_MAX = 64,
};

enum sk_jws_result { SK_JWS_GOOD, SK_JWS_BAD, SK_JWS_NO_MEM };

// A key. It never changes, but has a separate context for each thread that checks signatures: a reader.
struct sk_jws;

struct sk_jws_bytes {
    const unsigned char *at;
    size_t len;
};

// Any thread. `key`: the secret of HS256, or the public key of EdDSA. `private_key`: of EdDSA; with length 0 the key
// cannot sign. FAIL: these are no valid keys, or not a pair. Nothing is borrowed.
enum sk_status sk_jws_open(enum sk_jws_algorithm algorithm, struct sk_jws_bytes key, struct sk_jws_bytes private_key,
                           unsigned readers, struct sk_jws **out) SK_MUST_CHECK;
void sk_jws_close(struct sk_jws *jws); // overwrites the secret; NULL is fine

enum sk_jws_algorithm sk_jws_algorithm(const struct sk_jws *jws);
bool sk_jws_same(const struct sk_jws *a, const struct sk_jws *b); // algorithm and key; in constant time
bool sk_jws_can_sign(const struct sk_jws *jws);

// One thread for each reader (0 to readers - 1). A wrong signature takes as long as a right one of its length.
enum sk_jws_result sk_jws_verify(const struct sk_jws *jws, unsigned reader, const char *text, size_t len,
                                 struct sk_jws_bytes signature) SK_MUST_CHECK;

// Uses reader 0. Returns the length of the signature; 0: it cannot sign, or out of memory.
size_t sk_jws_sign(const struct sk_jws *jws, const char *text, size_t len, unsigned char out[SK_JWS_SIGNATURE_MAX]);

#endif
