// Base64 here is that of RFC 4648, 4, with padding, as the standard has it; base64url.h has the other one.
#include "webhook_keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "auth.h"
#include "buf.h"

enum {
    SEED_SIZE = 32,
    PAIR_SIZE = 64, // a seed, and its public key
    MAC_SIZE = 32,
    SIGNATURE_SIZE = 64,
    BYTES_MAX = 66, // what EVP_DecodeBlock() writes for the longest text: with the padding
    CHARS_MAX = 88,
};
_Static_assert(SK_WEBHOOK_SECRETS_MAX *(3 + 44 + 1) + 4 + CHARS_MAX + 1 <= SK_WEBHOOK_SIGNATURES_SIZE, "all of them");

// Returns the number of bytes; 0: it is no base64 of 1 to 64 bytes. EVP_DecodeBlock() takes blanks around it, so a text
// counts only if the bytes lead back to it.
static size_t keys_decode(const char *text, unsigned char out[BYTES_MAX])
{
    unsigned char again[CHARS_MAX + 1];
    size_t chars = strlen(text), padding = 0;
    if (chars == 0 || chars > CHARS_MAX || chars % 4 != 0)
        return 0;
    while (padding < 2 && text[chars - 1 - padding] == '=')
        padding++;
    int len = EVP_DecodeBlock(out, (const unsigned char *)text, (int)chars);
    if (len <= 0)
        return 0;
    size_t bytes = (size_t)len - padding;
    (void)EVP_EncodeBlock(again, out, (int)bytes);
    return strcmp((const char *)again, text) == 0 ? bytes : 0;
}

static const char *keys_add_secret(struct sk_webhook_keys *keys, const char *text)
{
    unsigned char bytes[BYTES_MAX];
    size_t len = keys_decode(text, bytes);
    const char *why = NULL;
    if (len < SK_WEBHOOK_SECRET_MIN || len > SK_WEBHOOK_SECRET_MAX)
        why = "a secret is whsec_ and the base64 of 24 to 64 bytes";
    else if (keys->count == SK_WEBHOOK_SECRETS_MAX)
        why = "there are more than two secrets";
    if (why == NULL) {
        struct sk_webhook_secret *secret = &keys->secrets[keys->count++];
        memcpy(secret->bytes, bytes, len);
        secret->len = len;
    }
    OPENSSL_cleanse(bytes, sizeof bytes);
    return why;
}

static const char *keys_add_key(struct sk_webhook_keys *keys, const char *text)
{
    unsigned char bytes[BYTES_MAX], own[SEED_SIZE];
    size_t len = keys_decode(text, bytes), own_len = sizeof own;
    const char *why = NULL;
    if (keys->key != NULL)
        return "there is more than one key";
    if (len == SEED_SIZE || len == PAIR_SIZE)
        keys->key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, bytes, SEED_SIZE);
    if (keys->key == NULL)
        why = "a key is whsk_ and the base64 of the 32 bytes of an Ed25519 key, or of these and its public key";
    else if (len == PAIR_SIZE && (EVP_PKEY_get_raw_public_key(keys->key, own, &own_len) != 1 ||
                                  memcmp(own, bytes + SEED_SIZE, SEED_SIZE) != 0))
        why = "the public key behind a key is not its own";
    OPENSSL_cleanse(bytes, sizeof bytes);
    return why;
}

const char *sk_webhook_keys_add(struct sk_webhook_keys *keys, const char *text)
{
    static const char secret[] = "whsec_", key[] = "whsk_";
    if (strncmp(text, secret, strlen(secret)) == 0)
        return keys_add_secret(keys, text + strlen(secret));
    if (strncmp(text, key, strlen(key)) == 0)
        return keys_add_key(keys, text + strlen(key));
    return "a secret begins with whsec_, a key with whsk_";
}

void sk_webhook_keys_free(struct sk_webhook_keys *keys)
{
    EVP_PKEY_free(keys->key);
    OPENSSL_cleanse(keys, sizeof *keys);
}

void sk_webhook_keys_public(const struct sk_webhook_keys *keys, char out[SK_WEBHOOK_PUBLIC_SIZE])
{
    unsigned char bytes[SEED_SIZE], text[SK_WEBHOOK_PUBLIC_SIZE - 8]; // has room for 44 characters
    size_t len = sizeof bytes;
    out[0] = '\0';
    if (keys->key == NULL || EVP_PKEY_get_raw_public_key(keys->key, bytes, &len) != 1)
        return;
    (void)EVP_EncodeBlock(text, bytes, (int)len);
    (void)snprintf(out, SK_WEBHOOK_PUBLIC_SIZE, "whpk_%s", text);
}

// Adds "<version>,<base64> " to a text that has room for it.
static void keys_put(char *out, const char *version, const unsigned char *signature, size_t len)
{
    unsigned char text[CHARS_MAX + 1];
    size_t used = strlen(out);
    (void)EVP_EncodeBlock(text, signature, (int)len);
    (void)snprintf(out + used, SK_WEBHOOK_SIGNATURES_SIZE - used, "%s%s,%s", used == 0 ? "" : " ", version, text);
}

static bool keys_sign_with_key(struct evp_pkey_st *key, const struct sk_buf *text, unsigned char out[SIGNATURE_SIZE])
{
    size_t len = SIGNATURE_SIZE;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool done = context != NULL && EVP_DigestSignInit(context, NULL, NULL, NULL, key) == 1 &&
                EVP_DigestSign(context, out, &len, (const unsigned char *)text->data, text->len) == 1;
    EVP_MD_CTX_free(context);
    return done && len == SIGNATURE_SIZE;
}

enum sk_status sk_webhook_keys_sign(const struct sk_webhook_keys *keys, const struct sk_webhook_message *message,
                                    char out[SK_WEBHOOK_SIGNATURES_SIZE])
{
    unsigned char mac[EVP_MAX_MD_SIZE], signature[SIGNATURE_SIZE];
    unsigned len = 0;
    struct sk_buf text = {0};
    sk_buf_printf(&text, "%s.%s.", message->id, message->timestamp);
    sk_buf_add(&text, message->body, message->body_len);
    bool done = !text.failed;
    out[0] = '\0';
    for (size_t i = 0; done && i < keys->count; i++) {
        const struct sk_webhook_secret *secret = &keys->secrets[i];
        done = HMAC(EVP_sha256(), secret->bytes, (int)secret->len, (const unsigned char *)text.data, text.len, mac,
                    &len) != NULL &&
               len == MAC_SIZE;
        if (done)
            keys_put(out, "v1", mac, len);
    }
    if (done && keys->key != NULL) {
        done = keys_sign_with_key(keys->key, &text, signature);
        if (done)
            keys_put(out, "v1a", signature, sizeof signature);
    }
    sk_buf_free(&text);
    return done ? SK_OK : SK_NO_MEM;
}

// ---- signatures of others ----

enum { LINE_SIZE = 128, MADE_CHARS = 47 }; // "v1," and the base64 of a MAC

// The next of a list that blanks separate; its length is 0 at the end.
static struct sk_span keys_next(const char **list)
{
    *list += strspn(*list, " ");
    struct sk_span one = {*list, strcspn(*list, " ")};
    *list += one.len;
    return one;
}

static bool keys_made(const struct sk_webhook_keys *keys, const struct sk_webhook_message *message, const char *sent)
{
    char made[SK_WEBHOOK_SIGNATURES_SIZE];
    bool good = false;
    if (keys->count == 0 || sk_webhook_keys_sign(keys, message, made) != SK_OK)
        return false;
    for (struct sk_span one = keys_next(&sent); one.len > 0; one = keys_next(&sent)) {
        for (size_t i = 0; i < keys->count; i++)
            good =
                (one.len == MADE_CHARS && CRYPTO_memcmp(one.at, made + i * (MADE_CHARS + 1), MADE_CHARS) == 0) || good;
    }
    return good;
}

bool sk_webhook_signature_good(const char *secrets, const struct sk_webhook_message *message, const char *sent)
{
    struct sk_webhook_keys keys = {0};
    struct sk_span text = {secrets, strlen(secrets)}, line;
    char secret[LINE_SIZE];
    while (sk_span_line(&text, &line)) {
        (void)snprintf(secret, sizeof secret, "%.*s", (int)line.len, line.at);
        if (line.len < sizeof secret && strncmp(secret, "whsec_", 6) == 0 && sk_webhook_keys_add(&keys, secret) != NULL)
            continue; // it is wrong, and signs nothing
    }
    bool good = keys_made(&keys, message, sent);
    OPENSSL_cleanse(secret, sizeof secret);
    sk_webhook_keys_free(&keys);
    return good;
}
