// Keys and tokens for the tests of users' tokens. The test makes them itself, not with the service's `token` command.
#ifndef HARNESS_IDENTITY_H
#define HARNESS_IDENTITY_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "jwt.h"
#include "text.h"

#define SECRET_A   "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
#define SECRET_B   "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
#define ED_PRIVATE "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
#define ED_PUBLIC  "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
#define ISSUER     "https://id.example"
#define AUDIENCE   "shop"

struct token_key {
    enum sk_jws_algorithm algorithm;
    const char *key, *private_key;
};

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
    unsigned char bytes[SK_JWS_SECRET_MAX], other[SK_JWS_POINT_SIZE], signature[SK_JWS_SIGNATURE_MAX];
    size_t len, other_len = 0;
    struct sk_jws *jws;
    struct sk_buf token = {0};
    ck_assert(sk_base64url_read(key->key, strlen(key->key), bytes, sizeof bytes, &len));
    if (key->private_key != NULL)
        ck_assert(sk_base64url_read(key->private_key, strlen(key->private_key), other, sizeof other, &other_len));
    ck_assert_int_eq(sk_jws_open(key->algorithm, (struct sk_jws_bytes){bytes, len},
                                 (struct sk_jws_bytes){other, other_len}, 1, &jws),
                     SK_OK);
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
