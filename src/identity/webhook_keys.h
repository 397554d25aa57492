// Signatures of Standard Webhooks 1.0 (github.com/standard-webhooks): over "<id>.<timestamp>.<body>", by HMAC-SHA256
// with a secret that both sides have (`v1`), or by Ed25519 (`v1a`). Each is in base64, and a header has several of
// them, so that a receiver may accept an old secret and a new one.
//
// The thread that owns the keys, as all functions; the last one: any thread.
#ifndef SK_IDENTITY_WEBHOOK_KEYS_H
#define SK_IDENTITY_WEBHOOK_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "status.h"

enum {
    SK_WEBHOOK_SECRETS_MAX = 2, // the new one, and the one before it
    SK_WEBHOOK_SECRET_MIN = 24, // bytes
    SK_WEBHOOK_SECRET_MAX = 64,
    SK_WEBHOOK_SIGNATURES_SIZE = 256, // of all of them, as the header has them
    SK_WEBHOOK_PUBLIC_SIZE = 64,
};

// Starts zeroed.
struct sk_webhook_keys {
    size_t count;
    struct sk_webhook_secret {
        unsigned char bytes[SK_WEBHOOK_SECRET_MAX];
        size_t len;
    } secrets[SK_WEBHOOK_SECRETS_MAX];
    struct evp_pkey_st *key; // owned; NULL: no `v1a`
};

// What is signed. Borrowed.
struct sk_webhook_message {
    const char *id, *timestamp, *body;
    size_t body_len;
};

// Adds "whsec_<base64>", a secret of 24 to 64 bytes, or "whsk_<base64>", the 32 bytes of an Ed25519 key (its seed; a
// public key may follow it). NULL: it is added; else why not.
const char *sk_webhook_keys_add(struct sk_webhook_keys *keys, const char *text) SK_MUST_CHECK;
void sk_webhook_keys_free(struct sk_webhook_keys *keys); // overwrites the secrets

// Writes "whpk_<base64>", by which a receiver checks `v1a`; "" if there is no such key.
void sk_webhook_keys_public(const struct sk_webhook_keys *keys, char out[SK_WEBHOOK_PUBLIC_SIZE]);

// Writes one signature for each key, separated by blanks. SK_NO_MEM: out of memory.
enum sk_status sk_webhook_keys_sign(const struct sk_webhook_keys *keys, const struct sk_webhook_message *message,
                                    char out[SK_WEBHOOK_SIGNATURES_SIZE]) SK_MUST_CHECK;

// Whether `sent`, signatures separated by blanks, has a `v1` of one of these secrets, a line each: those that are
// whsec_... False also if out of memory. A wrong one takes as long as a right one.
bool sk_webhook_signature_good(const char *secrets, const struct sk_webhook_message *message, const char *sent);

#endif
