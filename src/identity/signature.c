// The signed text can be read in one way only: a time stamp has digits alone, and the paths of calls that take
// signatures have no dot.
#include "signature.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "auth.h"
#include "buf.h"
#include "text.h"

enum { MAC_SIZE = 32 };

bool sk_signature_is_of_now(const char *timestamp, int64_t now_s)
{
    uint64_t stamp_s;
    if (!sk_text_number(timestamp, INT64_MAX, &stamp_s) || now_s < 0)
        return false;
    uint64_t now = (uint64_t)now_s;
    return (stamp_s < now ? now - stamp_s : stamp_s - now) <= SK_SIGNATURE_TOLERANCE_S;
}

static bool signature_read(const char *text, unsigned char mac[MAC_SIZE])
{
    if (strlen(text) != (size_t)MAC_SIZE * 2)
        return false;
    for (size_t i = 0; i < MAC_SIZE; i++) {
        int high = sk_hex_digit(text[2 * i]), low = sk_hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        mac[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static bool signature_make(struct sk_span secret, const struct sk_signed *message, unsigned char mac[MAC_SIZE])
{
    unsigned char made[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    struct sk_buf text = {0};
    sk_buf_printf(&text, "%s.%s.", message->timestamp, message->path);
    if (message->body_len > 0)
        sk_buf_add(&text, message->body, message->body_len);
    bool done = !text.failed && HMAC(EVP_sha256(), secret.at, (int)secret.len, (const unsigned char *)text.data,
                                     text.len, made, &len) != NULL;
    sk_buf_free(&text);
    if (!done || len != MAC_SIZE)
        return false;
    memcpy(mac, made, MAC_SIZE);
    return true;
}

bool sk_signature_good(const char *secrets, const struct sk_signed *message, int64_t now_s)
{
    unsigned char sent[MAC_SIZE], made[MAC_SIZE];
    struct sk_span text = {secrets, strlen(secrets)}, secret;
    bool good = false;
    if (!sk_signature_is_of_now(message->timestamp, now_s) || !signature_read(message->signature, sent))
        return false;
    while (!good && sk_span_line(&text, &secret))
        good = secret.len > 0 && signature_make(secret, message, made) && CRYPTO_memcmp(sent, made, MAC_SIZE) == 0;
    return good;
}
