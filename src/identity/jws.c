// HS256 keeps, for each reader, a context that has hashed the secret. Starting again costs a copy of its state, but no
// look-up of the algorithm and no hashing of the key's two blocks. Ed25519 keeps the key, and a context to check with.
#include "jws.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>

enum { MAC_SIZE = 32, SIGNATURE_SIZE = 64 };

struct sk_jws {
    enum sk_jws_algorithm algorithm;
    bool can_sign;
    size_t len;
    unsigned char bytes[SK_JWS_SECRET_MAX]; // the secret, or the public key
    EVP_PKEY *key;                          // owned; of EdDSA
    unsigned readers;
    struct {
        EVP_MAC_CTX *mac; // owned; of HS256
        EVP_MD_CTX *md;   // owned; of EdDSA
    } at[];
};

static enum sk_status jws_open_hs256(struct sk_jws *jws);
static enum sk_status jws_open_eddsa(struct sk_jws *jws, struct sk_jws_bytes private_key);
static enum sk_jws_result jws_mac(const struct sk_jws *jws, unsigned reader, const char *text, size_t len,
                                  unsigned char out[MAC_SIZE]);

enum sk_status sk_jws_open(enum sk_jws_algorithm algorithm, struct sk_jws_bytes key, struct sk_jws_bytes private_key,
                           unsigned readers, struct sk_jws **out)
{
    bool symmetric = algorithm == SK_JWS_HS256;
    *out = NULL;
    if (symmetric ? key.len < SK_JWS_SECRET_MIN || key.len > SK_JWS_SECRET_MAX || private_key.len > 0
                  : key.len != SK_JWS_POINT_SIZE || (private_key.len > 0 && private_key.len != SK_JWS_POINT_SIZE))
        return SK_FAIL;
    struct sk_jws *jws = calloc(1, sizeof *jws + readers * sizeof jws->at[0]);
    if (jws == NULL)
        return SK_NO_MEM;
    jws->algorithm = algorithm;
    jws->can_sign = symmetric || private_key.len > 0;
    jws->readers = readers;
    jws->len = key.len;
    memcpy(jws->bytes, key.at, key.len);
    enum sk_status status = symmetric ? jws_open_hs256(jws) : jws_open_eddsa(jws, private_key);
    if (status != SK_OK) {
        ERR_clear_error();
        sk_jws_close(jws);
        return status;
    }
    *out = jws;
    return SK_OK;
}

static enum sk_status jws_open_hs256(struct sk_jws *jws)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("digest", digest, 0), OSSL_PARAM_construct_end()};
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    bool done = mac != NULL;
    for (unsigned i = 0; done && i < jws->readers; i++) {
        jws->at[i].mac = EVP_MAC_CTX_new(mac);
        done = jws->at[i].mac != NULL && EVP_MAC_init(jws->at[i].mac, jws->bytes, jws->len, params) == 1;
    }
    EVP_MAC_free(mac); // the contexts keep a reference
    return done ? SK_OK : SK_NO_MEM;
}

static enum sk_status jws_open_eddsa(struct sk_jws *jws, struct sk_jws_bytes private_key)
{
    unsigned char made[SK_JWS_POINT_SIZE];
    size_t len = sizeof made;
    jws->key = private_key.len > 0
                   ? EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, private_key.at, private_key.len)
                   : EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, jws->bytes, jws->len);
    if (jws->key == NULL || EVP_PKEY_get_raw_public_key(jws->key, made, &len) != 1)
        return SK_NO_MEM;
    if (len != jws->len || memcmp(made, jws->bytes, len) != 0)
        return SK_FAIL;
    for (unsigned i = 0; i < jws->readers; i++) {
        jws->at[i].md = EVP_MD_CTX_new();
        if (jws->at[i].md == NULL)
            return SK_NO_MEM;
    }
    return SK_OK;
}

void sk_jws_close(struct sk_jws *jws)
{
    if (jws == NULL)
        return;
    for (unsigned i = 0; i < jws->readers; i++) {
        EVP_MAC_CTX_free(jws->at[i].mac);
        EVP_MD_CTX_free(jws->at[i].md);
    }
    EVP_PKEY_free(jws->key);
    OPENSSL_cleanse(jws->bytes, sizeof jws->bytes);
    free(jws);
}

enum sk_jws_algorithm sk_jws_algorithm(const struct sk_jws *jws)
{
    return jws->algorithm;
}

bool sk_jws_same(const struct sk_jws *a, const struct sk_jws *b)
{
    return a->algorithm == b->algorithm && a->len == b->len && CRYPTO_memcmp(a->bytes, b->bytes, a->len) == 0;
}

bool sk_jws_can_sign(const struct sk_jws *jws)
{
    return jws->can_sign;
}

// ---- checking ----

enum sk_jws_result sk_jws_verify(const struct sk_jws *jws, unsigned reader, const char *text, size_t len,
                                 struct sk_jws_bytes signature)
{
    unsigned char made[MAC_SIZE];
    if (jws->algorithm == SK_JWS_HS256) {
        if (signature.len != MAC_SIZE)
            return SK_JWS_BAD;
        enum sk_jws_result result = jws_mac(jws, reader, text, len, made);
        if (result == SK_JWS_GOOD && CRYPTO_memcmp(made, signature.at, MAC_SIZE) != 0)
            return SK_JWS_BAD;
        return result;
    }
    if (signature.len != SIGNATURE_SIZE)
        return SK_JWS_BAD;
    EVP_MD_CTX *md = jws->at[reader].md;
    enum sk_jws_result result = SK_JWS_NO_MEM;
    if (EVP_MD_CTX_reset(md) == 1 && EVP_DigestVerifyInit(md, NULL, NULL, NULL, jws->key) == 1) {
        int good = EVP_DigestVerify(md, signature.at, signature.len, (const unsigned char *)text, len);
        result = good == 1 ? SK_JWS_GOOD : SK_JWS_BAD;
    }
    if (result != SK_JWS_GOOD)
        ERR_clear_error();
    return result;
}

static enum sk_jws_result jws_mac(const struct sk_jws *jws, unsigned reader, const char *text, size_t len,
                                  unsigned char out[MAC_SIZE])
{
    EVP_MAC_CTX *mac = jws->at[reader].mac;
    size_t made = 0;
    if (EVP_MAC_init(mac, NULL, 0, NULL) == 1 && EVP_MAC_update(mac, (const unsigned char *)text, len) == 1 &&
        EVP_MAC_final(mac, out, &made, MAC_SIZE) == 1 && made == MAC_SIZE)
        return SK_JWS_GOOD;
    ERR_clear_error();
    return SK_JWS_NO_MEM;
}

// ---- signing ----

size_t sk_jws_sign(const struct sk_jws *jws, const char *text, size_t len, unsigned char out[SK_JWS_SIGNATURE_MAX])
{
    if (jws->algorithm == SK_JWS_HS256)
        return jws_mac(jws, 0, text, len, out) == SK_JWS_GOOD ? MAC_SIZE : 0;
    EVP_MD_CTX *md = jws->at[0].md;
    size_t made = SIGNATURE_SIZE;
    if (jws->can_sign && EVP_MD_CTX_reset(md) == 1 && EVP_DigestSignInit(md, NULL, NULL, NULL, jws->key) == 1 &&
        EVP_DigestSign(md, out, &made, (const unsigned char *)text, len) == 1)
        return made;
    ERR_clear_error();
    return 0;
}
