// Keys and tokens for the tests of users' tokens. The test makes them itself, not with the service's `token` command.
#ifndef HARNESS_IDENTITY_H
#define HARNESS_IDENTITY_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base64url.h"
#include "buf.h"
#include "jwt.h"
#include "key_texts.h"

#define ISSUER   "https://id.example"
#define AUDIENCE "shop"

struct token_key {
    enum sk_jws_algorithm algorithm;
    const char *parts[2], *private_key; // NULL: none
};

// Decodes the parts into `bytes`, which the result borrows.
static inline struct sk_jws_key token_key_read(const struct token_key *key, unsigned char bytes[3][SK_JWS_PART_MAX])
{
    struct sk_jws_key out = {0};
    const char *const texts[] = {key->parts[0], key->parts[1], key->private_key};
    struct sk_jws_bytes *const parts[] = {&out.parts[0], &out.parts[1], &out.private_key};
    for (size_t i = 0; i < 3; i++) {
        parts[i]->at = bytes[i];
        ck_assert(texts[i] == NULL ||
                  sk_base64url_read(texts[i], strlen(texts[i]), bytes[i], SK_JWS_PART_MAX, &parts[i]->len));
    }
    return out;
}

static inline void token_put_part(struct sk_buf *buf, const void *bytes, size_t len)
{
    char *text = calloc(1, SK_BASE64URL_CHARS(len) + 1);
    ck_assert_ptr_nonnull(text);
    sk_buf_add(buf, text, sk_base64url_put(bytes, len, text));
    free(text);
}

// A token with this header and these claims, valid or not, signed with the key. The caller frees it.
static inline char *token_make(const struct token_key *key, const char *header, const char *claims)
{
    unsigned char bytes[3][SK_JWS_PART_MAX], signature[SK_JWS_SIGNATURE_MAX];
    struct sk_jws_key parts = token_key_read(key, bytes);
    struct sk_jws *jws;
    struct sk_buf token = {0};
    ck_assert_int_eq(sk_jws_open(key->algorithm, &parts, 1, &jws), SK_OK);
    token_put_part(&token, header, strlen(header));
    sk_buf_puts(&token, ".");
    token_put_part(&token, claims, strlen(claims));
    size_t made = sk_jws_sign(jws, token.data, token.len, signature);
    ck_assert_uint_gt(made, 0);
    sk_buf_puts(&token, ".");
    token_put_part(&token, signature, made);
    sk_jws_close(jws);
    return token.data;
}

#endif
