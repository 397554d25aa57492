// The text that is signed can be read in one way only: a time stamp has digits alone, and a path that the routes sign
// for has no dot.
#include "signature.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "buf.h"
#include "text.h"

enum { MAC_SIZE = 32 };

static bool signature_is_of_now(const char *timestamp, int64_t now_s)
{
    uint64_t stamp_s;
    if (!sk_text_number(timestamp, INT64_MAX, &stamp_s) || now_s < 0)
        return false;
    uint64_t now = (uint64_t)now_s;
    return (stamp_s < now ? now - stamp_s : stamp_s - now) <= SK_SIGNATURE_TOLERANCE_S;
}

// -1: none.
static int signature_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool signature_read(const char *text, unsigned char mac[MAC_SIZE])
{
    if (strlen(text) != (size_t)MAC_SIZE * 2)
        return false;
    for (size_t i = 0; i < MAC_SIZE; i++) {
        int high = signature_digit(text[2 * i]), low = signature_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        mac[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static bool signature_make(const char *secret, size_t secret_len, const struct sk_signed *said,
                           unsigned char mac[MAC_SIZE])
{
    unsigned char made[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    struct sk_buf text = {0};
    sk_buf_printf(&text, "%s.%s.", said->timestamp, said->path);
    if (said->body_len > 0)
        sk_buf_add(&text, said->body, said->body_len);
    bool done = !text.failed && HMAC(EVP_sha256(), secret, (int)secret_len, (const unsigned char *)text.data, text.len,
                                     made, &len) != NULL;
    sk_buf_free(&text);
    if (!done || len != MAC_SIZE)
        return false;
    memcpy(mac, made, MAC_SIZE);
    return true;
}

bool sk_signature_good(const char *secrets, const struct sk_signed *said, int64_t now_s)
{
    unsigned char sent[MAC_SIZE], made[MAC_SIZE];
    bool good = false;
    if (!signature_is_of_now(said->timestamp, now_s) || !signature_read(said->signature, sent))
        return false;
    for (const char *at = secrets; !good && *at != '\0'; at += *at == '\n') {
        size_t len = strcspn(at, "\n"), kept = len > 0 && at[len - 1] == '\r' ? len - 1 : len;
        good = kept > 0 && signature_make(at, kept, said, made) && CRYPTO_memcmp(sent, made, MAC_SIZE) == 0;
        at += len;
    }
    return good;
}
