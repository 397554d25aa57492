#include "jwt.h"

#include <jansson.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base64url.h"
#include "text.h"

enum { PART_SIZE = SK_BASE64URL_BYTES(SK_JWT_MAX_BYTES) };

static const double latest_s = 9007199254740991.0; // 2^53 - 1: beyond it a double skips seconds

const char *sk_jwt_reason(enum sk_jwt_result result)
{
    static const char *const reasons[] = {
#define SK_JWT_REASON(name, reason) reason,
        SK_JWT_RESULTS(SK_JWT_REASON)
#undef SK_JWT_REASON
    };
    return reasons[result];
}

enum sk_jwt_result sk_jwt_split(const char *text, struct sk_jwt *out)
{
    size_t len = strnlen(text, SK_JWT_MAX_BYTES + 1);
    const char *first = memchr(text, '.', len);
    const char *second = first == NULL ? NULL : memchr(first + 1, '.', len - (size_t)(first + 1 - text));
    if (len > SK_JWT_MAX_BYTES || second == NULL)
        return SK_JWT_FORM;
    *out = (struct sk_jwt){text, len, (size_t)(first - text), (size_t)(second - text)};
    size_t rest = len - out->signed_len - 1;
    bool whole = out->header_len > 0 && second > first + 1 && rest > 0;
    return whole && memchr(second + 1, '.', rest) == NULL ? SK_JWT_GOOD : SK_JWT_FORM;
}

bool sk_jwt_signature(const struct sk_jwt *jwt, unsigned char out[SK_JWS_SIGNATURE_MAX], size_t *len)
{
    const char *part = jwt->text + jwt->signed_len + 1;
    return sk_base64url_read(part, jwt->len - jwt->signed_len - 1, out, SK_JWS_SIGNATURE_MAX, len);
}

// The caller frees *out, which is NULL after an error.
static enum sk_jwt_result jwt_read_part(const char *text, size_t len, enum sk_jwt_result wrong, json_t **out)
{
    unsigned char bytes[PART_SIZE];
    size_t size;
    *out = NULL;
    if (!sk_base64url_read(text, len, bytes, sizeof bytes, &size))
        return wrong;
    sk_json_memory_begin();
    *out = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(*out) && !sk_json_memory_failed())
        return SK_JWT_GOOD;
    json_decref(*out);
    *out = NULL;
    return sk_json_memory_failed() ? SK_JWT_NO_MEM : wrong;
}

static bool jwt_is_text(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

// False: it is not a text of 1 to size - 1 bytes.
static bool jwt_take_text(const json_t *value, char *out, size_t size)
{
    size_t len = json_string_length(value); // 0: it is no text
    if (len == 0 || len >= size)
        return false;
    memcpy(out, json_string_value(value), len + 1);
    return true;
}

enum sk_jwt_result sk_jwt_read_header(const struct sk_jwt *jwt, struct sk_jwt_header *out)
{
    json_t *header;
    enum sk_jwt_result result = jwt_read_part(jwt->text, jwt->header_len, SK_JWT_HEADER, &header);
    const json_t *typ = json_object_get(header, "typ");
    const char *type = typ == NULL ? "JWT" : json_string_value(typ); // NULL: no text
    if (result == SK_JWT_GOOD &&
        (type == NULL || (strcasecmp(type, "JWT") != 0 && strcasecmp(type, "at+jwt") != 0) ||
         !jwt_take_text(json_object_get(header, "alg"), out->algorithm, sizeof out->algorithm) ||
         !jwt_take_text(json_object_get(header, "kid"), out->kid, sizeof out->kid) ||
         json_object_get(header, "crit") != NULL))
        result = SK_JWT_HEADER;
    json_decref(header);
    return result;
}

static const char *const ids[SK_JWT_IDS] = {[SK_JWT_ID_SUB] = "sub", [SK_JWT_ID_JTI] = "jti"};

// Seconds since 1970, perhaps with a fraction (RFC 7519, 2).
static bool jwt_take_time(const json_t *value, bool round_up, int64_t *out)
{
    double s = json_is_number(value) ? json_number_value(value) : -1;
    if (!(s >= 0 && s < latest_s))
        return false;
    *out = (int64_t)s;
    *out += round_up && (double)*out < s;
    return true;
}

// One text, or a list of texts.
static bool jwt_take_audience(const json_t *value, const char *audience, bool *found)
{
    *found = jwt_is_text(value, audience);
    if (json_is_string(value))
        return true;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_string(item))
            return false;
        *found = *found || jwt_is_text(item, audience);
    }
    return json_is_array(value);
}

// By a line of the file of revoked tokens, whose ids have no blanks.
static bool jwt_can_be_named(const json_t *id)
{
    const char *at = json_is_string(id) ? json_string_value(id) : "";
    size_t n = 0;
    while ((unsigned char)at[n] > ' ')
        n++;
    return n > 0 && at[n] == '\0';
}

static enum sk_jwt_result jwt_take_claims(const json_t *claims, const struct sk_jwt_expected *expected,
                                          struct sk_jwt_claims *out)
{
    const json_t *issuer = json_object_get(claims, "iss"), *user = json_object_get(claims, expected->user),
                 *from = json_object_get(claims, "nbf");
    bool for_us = false;
    out->nbf_s = 0;
    if (!jwt_take_time(json_object_get(claims, "exp"), false, &out->exp_s) ||
        (from != NULL && !jwt_take_time(from, true, &out->nbf_s)) || !json_is_string(issuer) ||
        !jwt_take_audience(json_object_get(claims, "aud"), expected->audience, &for_us) || !json_is_string(user))
        return SK_JWT_CLAIMS;
    if (!jwt_is_text(issuer, expected->issuer))
        return SK_JWT_ISSUER;
    if (!for_us)
        return SK_JWT_AUDIENCE;
    if (!jwt_take_text(user, out->user, sizeof out->user) || !sk_text_user(out->user))
        return SK_JWT_SUBJECT;
    bool named = false, texts = true;
    for (int i = 0; i < SK_JWT_IDS; i++) {
        const json_t *id = json_object_get(claims, ids[i]);
        texts = texts && (id == NULL || json_is_string(id));
        named = named || jwt_can_be_named(id);
        out->ids[i] =
            !json_is_string(id) ? 0 : sk_siphash(&expected->id_keys[i], json_string_value(id), json_string_length(id));
    }
    out->revocable = texts && named;
    if (expected->lifetime_s == 0)
        return SK_JWT_GOOD;
    int64_t issued_s;
    if (!jwt_take_time(json_object_get(claims, "iat"), true, &issued_s) || out->exp_s - issued_s > expected->lifetime_s)
        return SK_JWT_LIFETIME;
    out->nbf_s = issued_s > out->nbf_s ? issued_s : out->nbf_s;
    return SK_JWT_GOOD;
}

enum sk_jwt_result sk_jwt_read_claims(const struct sk_jwt *jwt, const struct sk_jwt_expected *expected,
                                      struct sk_jwt_claims *out)
{
    json_t *claims;
    const char *text = jwt->text + jwt->header_len + 1;
    enum sk_jwt_result result = jwt_read_part(text, jwt->signed_len - jwt->header_len - 1, SK_JWT_CLAIMS, &claims);
    if (result == SK_JWT_GOOD)
        result = jwt_take_claims(claims, expected, out);
    json_decref(claims);
    return result;
}

enum sk_jwt_result sk_jwt_check_times(const struct sk_jwt_claims *claims, int64_t leeway_s, int64_t now_s)
{
    if (now_s >= claims->exp_s + leeway_s)
        return SK_JWT_EXPIRED;
    return now_s < claims->nbf_s - leeway_s ? SK_JWT_EARLY : SK_JWT_GOOD;
}

// ---- signatures ----
//
// HS256 keeps, for each reader, a context that has hashed the secret. Starting again costs a copy of its state, but no
// lookup of the algorithm and no hashing of the key's two blocks. The others keep OpenSSL's key, and a context to check
// with.

enum { MAC_SIZE = 32, POINT_SIZE = 32, ECDSA_SIZE = 2 * POINT_SIZE, DER_MAX = 2 + 2 * (2 + POINT_SIZE + 1) };
enum { EXPONENT_MAX = 8, PARTS = 3 };

static const struct algorithm {
    struct sk_jws_names names;
    const char *openssl, *digest; // the type of its keys; the hash of the text, NULL: its own
    struct {
        const char *name; // OpenSSL's
        bool number;      // else bytes
    } parts[PARTS];       // of a key: the two that are public, and the private one
} algorithms[SK_JWS_ALGORITHMS] = {
    [SK_JWS_HS256] = {.names = {"HS256", "oct", NULL, {"k", NULL}}},
    [SK_JWS_EDDSA] = {{"EdDSA", "OKP", "Ed25519", {"x", NULL}},
                      "ED25519",
                      NULL,
                      {{OSSL_PKEY_PARAM_PUB_KEY, false}, {NULL, false}, {OSSL_PKEY_PARAM_PRIV_KEY, false}}},
    [SK_JWS_RS256] = {{"RS256", "RSA", NULL, {"n", "e"}},
                      "RSA",
                      "SHA256",
                      {{OSSL_PKEY_PARAM_RSA_N, true}, {OSSL_PKEY_PARAM_RSA_E, true}, {OSSL_PKEY_PARAM_RSA_D, true}}},
    [SK_JWS_ES256] = {{"ES256", "EC", "P-256", {"x", "y"}},
                      "EC",
                      "SHA256",
                      {{OSSL_PKEY_PARAM_PUB_KEY, false}, {NULL, false}, {OSSL_PKEY_PARAM_PRIV_KEY, true}}},
};

struct sk_jws {
    enum sk_jws_algorithm algorithm;
    bool can_sign;
    size_t signature_len;
    size_t secret_len;
    unsigned char secret[SK_JWS_SECRET_MAX]; // of HS256
    EVP_PKEY *key;                           // owned; of the others
    unsigned readers;
    struct {
        EVP_MAC_CTX *mac; // owned; of HS256
        EVP_MD_CTX *md;   // owned; of the others
    } at[];
};

const struct sk_jws_names *sk_jws_names(enum sk_jws_algorithm algorithm)
{
    return &algorithms[algorithm].names;
}

static bool jws_is_of_size(enum sk_jws_algorithm algorithm, const struct sk_jws_key *key)
{
    size_t first = key->parts[0].len, second = key->parts[1].len, secret = key->private_key.len;
    switch (algorithm) {
    case SK_JWS_HS256:
        return first >= SK_JWS_SECRET_MIN && first <= SK_JWS_SECRET_MAX && second == 0 && secret == 0;
    case SK_JWS_EDDSA:
        return first == POINT_SIZE && second == 0 && (secret == 0 || secret == POINT_SIZE);
    case SK_JWS_ES256:
        return first == POINT_SIZE && second == POINT_SIZE && (secret == 0 || secret == POINT_SIZE);
    default:
        return first <= SK_JWS_PART_MAX && second > 0 && second <= EXPONENT_MAX && secret <= SK_JWS_PART_MAX;
    }
}

static enum sk_status jws_open_hs256(struct sk_jws *jws, struct sk_jws_bytes secret)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("digest", digest, 0), OSSL_PARAM_construct_end()};
    jws->signature_len = MAC_SIZE;
    jws->secret_len = secret.len;
    memcpy(jws->secret, secret.at, secret.len);
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    bool done = mac != NULL;
    for (unsigned i = 0; done && i < jws->readers; i++) {
        jws->at[i].mac = EVP_MAC_CTX_new(mac);
        done = jws->at[i].mac != NULL && EVP_MAC_init(jws->at[i].mac, jws->secret, jws->secret_len, params) == 1;
    }
    EVP_MAC_free(mac); // the contexts keep a reference
    return done ? SK_OK : SK_NO_MEM;
}

// NULL: they are no key, or out of memory; *enough: not, as far as it is seen here. A part of length 0 is not there.
static EVP_PKEY *jws_make_key(enum sk_jws_algorithm algorithm, const struct sk_jws_key *key, bool *enough)
{
    const struct algorithm *of = &algorithms[algorithm];
    struct sk_jws_bytes parts[PARTS] = {key->parts[0], key->parts[1], key->private_key};
    unsigned char point[1 + ECDSA_SIZE] = {POINT_CONVERSION_UNCOMPRESSED};
    BIGNUM *numbers[PARTS] = {NULL};
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new(); // borrows the parts
    bool done = builder != NULL;
    if (algorithm == SK_JWS_ES256) {
        memcpy(point + 1, parts[0].at, POINT_SIZE);
        memcpy(point + 1 + POINT_SIZE, parts[1].at, POINT_SIZE);
        parts[0] = (struct sk_jws_bytes){point, sizeof point};
        parts[1].len = 0;
        done = done && OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, of->names.crv, 0) == 1;
    }
    for (size_t i = 0; done && i < PARTS; i++) {
        const char *name = of->parts[i].name;
        if (of->parts[i].number && parts[i].len > 0) {
            numbers[i] = BN_bin2bn(parts[i].at, (int)parts[i].len, NULL);
            done = numbers[i] != NULL && OSSL_PARAM_BLD_push_BN(builder, name, numbers[i]) == 1;
        } else if (parts[i].len > 0) {
            done = OSSL_PARAM_BLD_push_octet_string(builder, name, parts[i].at, parts[i].len) == 1;
        }
    }
    *enough = done;
    EVP_PKEY *made = NULL;
    int selection = key->private_key.len > 0 ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY;
    OSSL_PARAM *params = done ? OSSL_PARAM_BLD_to_param(builder) : NULL;
    EVP_PKEY_CTX *context = params == NULL ? NULL : EVP_PKEY_CTX_new_from_name(NULL, of->openssl, NULL);
    if (context == NULL || EVP_PKEY_fromdata_init(context) != 1 ||
        EVP_PKEY_fromdata(context, &made, selection, params) != 1)
        made = NULL;
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(builder);
    for (size_t i = 0; i < PARTS; i++)
        BN_clear_free(numbers[i]);
    return made;
}

// The size of an RSA key, an exponent other than 1, a point that is on the curve.
static bool jws_is_valid(const struct sk_jws *jws)
{
    int bits = EVP_PKEY_get_bits(jws->key);
    if (jws->algorithm == SK_JWS_RS256 && (bits < SK_JWS_RSA_BITS_MIN || bits > SK_JWS_RSA_BITS_MAX))
        return false;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, jws->key, NULL);
    bool valid = context != NULL && EVP_PKEY_public_check(context) == 1;
    EVP_PKEY_CTX_free(context);
    return valid;
}

static enum sk_status jws_open_public(struct sk_jws *jws, const struct sk_jws_key *key)
{
    bool enough;
    jws->key = jws_make_key(jws->algorithm, key, &enough);
    for (unsigned i = 0; i < jws->readers; i++) {
        jws->at[i].md = EVP_MD_CTX_new();
        enough = enough && jws->at[i].md != NULL;
    }
    if (!enough)
        return SK_NO_MEM;
    if (jws->key == NULL || !jws_is_valid(jws))
        return SK_FAIL;
    jws->signature_len = jws->algorithm == SK_JWS_ES256 ? ECDSA_SIZE : (size_t)EVP_PKEY_get_size(jws->key);
    if (!jws->can_sign)
        return SK_OK;
    // Only a pair verifies what it has signed.
    static const char text[] = "a pair";
    unsigned char made[SK_JWS_SIGNATURE_MAX];
    struct sk_jws_bytes signature = {made, sk_jws_sign(jws, text, sizeof text, made)};
    bool pair = signature.len > 0 && sk_jws_verify(jws, 0, text, sizeof text, signature) == SK_JWS_GOOD;
    return pair ? SK_OK : SK_FAIL;
}

enum sk_status sk_jws_open(enum sk_jws_algorithm algorithm, const struct sk_jws_key *key, unsigned readers,
                           struct sk_jws **out)
{
    bool symmetric = algorithm == SK_JWS_HS256;
    *out = NULL;
    if (!jws_is_of_size(algorithm, key))
        return SK_FAIL;
    struct sk_jws *jws = calloc(1, sizeof *jws + readers * sizeof jws->at[0]);
    if (jws == NULL)
        return SK_NO_MEM;
    jws->algorithm = algorithm;
    jws->can_sign = symmetric || key->private_key.len > 0;
    jws->readers = readers;
    enum sk_status status = symmetric ? jws_open_hs256(jws, key->parts[0]) : jws_open_public(jws, key);
    ERR_clear_error();
    if (status != SK_OK) {
        sk_jws_close(jws);
        return status;
    }
    *out = jws;
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
    OPENSSL_cleanse(jws->secret, sizeof jws->secret);
    free(jws);
}

enum sk_jws_algorithm sk_jws_algorithm(const struct sk_jws *jws)
{
    return jws->algorithm;
}

bool sk_jws_same(const struct sk_jws *a, const struct sk_jws *b)
{
    if (a->algorithm != b->algorithm)
        return false;
    if (a->algorithm == SK_JWS_HS256)
        return a->secret_len == b->secret_len && CRYPTO_memcmp(a->secret, b->secret, a->secret_len) == 0;
    return EVP_PKEY_eq(a->key, b->key) == 1;
}

bool sk_jws_can_sign(const struct sk_jws *jws)
{
    return jws->can_sign;
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

// OpenSSL's form of an ECDSA signature is DER; a token has r and s, 32 bytes each (RFC 7518, 3.4). Returns the length;
// 0: out of memory.
static size_t jws_ecdsa_to_der(const unsigned char raw[ECDSA_SIZE], unsigned char der[DER_MAX])
{
    int len = 0;
    ECDSA_SIG *pair = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(raw, POINT_SIZE, NULL), *s = BN_bin2bn(raw + POINT_SIZE, POINT_SIZE, NULL);
    if (pair != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(pair, r, s) == 1) {
        r = s = NULL; // the pair owns them
        len = i2d_ECDSA_SIG(pair, &der);
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(pair);
    return len > 0 ? (size_t)len : 0;
}

enum sk_jws_result sk_jws_verify(const struct sk_jws *jws, unsigned reader, const char *text, size_t len,
                                 struct sk_jws_bytes signature)
{
    unsigned char made[MAC_SIZE], der[DER_MAX];
    if (signature.len != jws->signature_len)
        return SK_JWS_BAD;
    if (jws->algorithm == SK_JWS_HS256) {
        enum sk_jws_result result = jws_mac(jws, reader, text, len, made);
        if (result == SK_JWS_GOOD && CRYPTO_memcmp(made, signature.at, MAC_SIZE) != 0)
            return SK_JWS_BAD;
        return result;
    }
    EVP_MD_CTX *md = jws->at[reader].md;
    enum sk_jws_result result = SK_JWS_NO_MEM;
    if (jws->algorithm == SK_JWS_ES256)
        signature = (struct sk_jws_bytes){der, jws_ecdsa_to_der(signature.at, der)};
    if (signature.len > 0 && EVP_MD_CTX_reset(md) == 1 &&
        EVP_DigestVerifyInit_ex(md, NULL, algorithms[jws->algorithm].digest, NULL, NULL, jws->key, NULL) == 1) {
        int good = EVP_DigestVerify(md, signature.at, signature.len, (const unsigned char *)text, len);
        result = good == 1 ? SK_JWS_GOOD : SK_JWS_BAD;
    }
    if (result != SK_JWS_GOOD)
        ERR_clear_error();
    return result;
}

static bool jws_ecdsa_from_der(const unsigned char *der, size_t len, unsigned char raw[ECDSA_SIZE])
{
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &der, (long)len);
    bool done = pair != NULL && BN_bn2binpad(ECDSA_SIG_get0_r(pair), raw, POINT_SIZE) == POINT_SIZE &&
                BN_bn2binpad(ECDSA_SIG_get0_s(pair), raw + POINT_SIZE, POINT_SIZE) == POINT_SIZE;
    ECDSA_SIG_free(pair);
    return done;
}

size_t sk_jws_sign(const struct sk_jws *jws, const char *text, size_t len, unsigned char out[SK_JWS_SIGNATURE_MAX])
{
    if (jws->algorithm == SK_JWS_HS256)
        return jws_mac(jws, 0, text, len, out) == SK_JWS_GOOD ? MAC_SIZE : 0;
    EVP_MD_CTX *md = jws->at[0].md;
    unsigned char made[SK_JWS_SIGNATURE_MAX];
    size_t made_len = sizeof made;
    bool done = jws->can_sign && EVP_MD_CTX_reset(md) == 1 &&
                EVP_DigestSignInit_ex(md, NULL, algorithms[jws->algorithm].digest, NULL, NULL, jws->key, NULL) == 1 &&
                EVP_DigestSign(md, made, &made_len, (const unsigned char *)text, len) == 1;
    if (done && jws->algorithm == SK_JWS_ES256)
        done = jws_ecdsa_from_der(made, made_len, out);
    else if (done)
        memcpy(out, made, made_len);
    ERR_clear_error();
    return done ? jws->signature_len : 0;
}

// ---- jansson's memory ----

static _Thread_local bool failed;

static void *memory_allocate(size_t size)
{
    void *block = reallocarray(NULL, 1, size);
    failed = failed || block == NULL;
    return block;
}

void sk_json_memory_watch(void)
{
    json_set_alloc_funcs(memory_allocate, free);
}

void sk_json_memory_begin(void)
{
    failed = false;
}

bool sk_json_memory_failed(void)
{
    return failed;
}
