// Cheap checks come first, and no claim is read before the signature is known to be right. Only tokens signed with
// EdDSA are cached: checking an HMAC takes no longer than finding the token again.
#include "user_tokens.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum { HEADERS_MAX = 4, HEADER_MAX_BYTES = 256 };

// The header of a good token, as sent, and the key that it names.
struct known_header {
    char text[HEADER_MAX_BYTES];
    size_t len; // 0: none
    const struct sk_token_key *key;
};

struct sk_user_tokens {
    struct sk_token_ring *ring;
    const struct sk_token_keys *keys; // held
    uint64_t version;
    unsigned reader;
    struct sk_jwt_expected expected;
    int64_t leeway_s;
    struct sk_token_cache *cache; // owned; NULL: none
    struct known_header headers[HEADERS_MAX];
    size_t next_header; // where the next one goes
    struct sk_metrics *metrics;
};

static enum sk_jwt_result users_check(struct sk_user_tokens *users, const char *token, int64_t now_s,
                                      struct sk_jwt_claims *out);
static const struct sk_token_key *users_known_key(const struct sk_user_tokens *users, const struct sk_jwt *jwt);
static void users_keep_header(struct sk_user_tokens *users, const struct sk_jwt *jwt, const struct sk_token_key *key);
static enum sk_jwt_result users_find_key(const struct sk_user_tokens *users, const struct sk_jwt *jwt,
                                         const struct sk_token_key **out);
static enum sk_jwt_result users_verify(const struct sk_user_tokens *users, const struct sk_jwt *jwt,
                                       const struct sk_token_key *key, struct sk_jwt_claims *out);

struct sk_user_tokens *sk_user_tokens_open(const struct sk_identity_options *options, struct sk_token_ring *ring,
                                           unsigned reader, struct sk_metrics *metrics)
{
    struct sk_user_tokens *users = calloc(1, sizeof *users);
    if (users == NULL)
        return NULL;
    users->expected = (struct sk_jwt_expected){options->token_issuer, options->token_audience};
    users->leeway_s = options->token_leeway_s;
    users->reader = reader;
    users->metrics = metrics;
    if (options->token_cache > 0) {
        users->cache = sk_token_cache_open((size_t)options->token_cache);
        if (users->cache == NULL) {
            free(users);
            return NULL;
        }
    }
    users->ring = ring;
    users->keys = sk_token_ring_take(ring, &users->version);
    return users;
}

void sk_user_tokens_close(struct sk_user_tokens *users)
{
    if (users == NULL)
        return;
    sk_token_ring_give_back(users->ring, users->keys);
    sk_token_cache_close(users->cache);
    free(users);
}

void sk_user_tokens_turn(struct sk_user_tokens *users)
{
    if (sk_token_ring_version(users->ring) == users->version)
        return;
    const struct sk_token_keys *old = users->keys;
    memset(users->headers, 0, sizeof users->headers); // their keys are of the old set
    users->keys = sk_token_ring_take(users->ring, &users->version);
    sk_token_ring_give_back(users->ring, old);
}

enum sk_jwt_result sk_user_tokens_check(struct sk_user_tokens *users, const char *text, int64_t now_s,
                                        char id[SK_USER_SIZE])
{
    struct sk_jwt_claims claims;
    sk_user_tokens_turn(users); // reject tokens of keys that were removed
    enum sk_jwt_result result = users_check(users, text, now_s, &claims);
    if (result == SK_JWT_GOOD)
        memcpy(id, claims.user, sizeof claims.user);
    sk_metrics_add(users->metrics, result == SK_JWT_GOOD ? SK_METRIC_TOKENS_TAKEN : SK_METRIC_TOKENS_REFUSED, 1);
    return result;
}

static enum sk_jwt_result users_check(struct sk_user_tokens *users, const char *token, int64_t now_s,
                                      struct sk_jwt_claims *out)
{
    struct sk_jwt jwt;
    enum sk_jwt_result result = sk_jwt_split(token, &jwt);
    if (result != SK_JWT_GOOD)
        return result;
    const struct sk_token_key *key = users_known_key(users, &jwt);
    bool new_header = key == NULL;
    if (new_header)
        result = users_find_key(users, &jwt, &key);
    if (result != SK_JWT_GOOD)
        return result;
    bool keep = users->cache != NULL && sk_jws_algorithm(key->jws) == SK_JWS_EDDSA;
    const struct sk_jwt_claims *known = keep ? sk_token_cache_find(users->cache, jwt.text, jwt.len, key->number) : NULL;
    if (known != NULL)
        *out = *known;
    else
        result = users_verify(users, &jwt, key, out);
    if (result == SK_JWT_GOOD)
        result = sk_jwt_check_times(out, users->leeway_s, now_s);
    if (result == SK_JWT_GOOD && keep && known == NULL)
        sk_token_cache_put(users->cache, key->number, out);
    if (result == SK_JWT_GOOD && new_header)
        users_keep_header(users, &jwt, key);
    return result;
}

// A login gives all its tokens the same header, one for each of its keys, so it is read once. Only headers of good
// tokens are kept, so nobody else can evict them.
static const struct sk_token_key *users_known_key(const struct sk_user_tokens *users, const struct sk_jwt *jwt)
{
    for (size_t i = 0; i < HEADERS_MAX; i++) {
        const struct known_header *header = &users->headers[i];
        if (header->len == jwt->header_len && memcmp(header->text, jwt->text, header->len) == 0)
            return header->key;
    }
    return NULL;
}

static void users_keep_header(struct sk_user_tokens *users, const struct sk_jwt *jwt, const struct sk_token_key *key)
{
    if (jwt->header_len > HEADER_MAX_BYTES)
        return;
    struct known_header *header = &users->headers[users->next_header++ % HEADERS_MAX];
    memcpy(header->text, jwt->text, jwt->header_len);
    header->len = jwt->header_len;
    header->key = key;
}

static enum sk_jwt_result users_find_key(const struct sk_user_tokens *users, const struct sk_jwt *jwt,
                                         const struct sk_token_key **out)
{
    struct sk_jwt_header header;
    enum sk_jwt_result result = sk_jwt_read_header(jwt, &header);
    if (result != SK_JWT_GOOD)
        return result;
    *out = sk_token_keys_find(users->keys, header.kid);
    if (*out == NULL)
        return SK_JWT_UNKNOWN_KEY;
    return sk_jwt_is_algorithm(header.algorithm, sk_jws_algorithm((*out)->jws)) ? SK_JWT_GOOD : SK_JWT_ALGORITHM;
}

static enum sk_jwt_result users_verify(const struct sk_user_tokens *users, const struct sk_jwt *jwt,
                                       const struct sk_token_key *key, struct sk_jwt_claims *out)
{
    unsigned char signature[SK_JWS_SIGNATURE_MAX];
    size_t len;
    if (!sk_jwt_signature(jwt, signature, &len))
        return SK_JWT_SIGNATURE;
    sk_metrics_add(users->metrics, SK_METRIC_SIGNATURES, 1);
    switch (sk_jws_verify(key->jws, users->reader, jwt->text, jwt->signed_len, (struct sk_jws_bytes){signature, len})) {
    case SK_JWS_GOOD:
        return sk_jwt_read_claims(jwt, &users->expected, out);
    case SK_JWS_BAD:
        return SK_JWT_SIGNATURE;
    default:
        return SK_JWT_NO_MEM;
    }
}

// ---- token cache ----

// A token may be in any place of its row, which its SHA-256 selects. Nobody can aim at a row, since only issued tokens
// get in. Rows are long, because tokens that do not fit into their row evict each other, and are checked again each
// time. With 10,000 users, 65,536 places and four places in a row, those were 20 tokens, which cost as much as finding
// all others. A row's tags are one line of the processor's cache, so a long row adds little to a search.

enum { WAYS = 16, DIGEST_SIZE = 32 };

struct place {
    unsigned char digest[DIGEST_SIZE];
    uint64_t key_number; // 0: free
    uint64_t asked;      // when it was last asked for, by the cache's clock
    struct sk_jwt_claims claims;
};

struct row {
    uint32_t tags[WAYS]; // of each place: some bits of its digest
    struct place places[WAYS];
};

struct sk_token_cache {
    EVP_MD *sha256;     // owned
    EVP_MD_CTX *hasher; // owned
    uint64_t clock;     // counts hits and additions
    uint64_t mask;
    unsigned char digest[DIGEST_SIZE]; // of the token that was last looked up
    bool asked;                        // `digest` is valid
    struct row *rows;                  // owned
};

struct sk_token_cache *sk_token_cache_open(size_t tokens)
{
    size_t rows = 1;
    while (rows * WAYS < tokens)
        rows *= 2;
    struct sk_token_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL)
        return NULL;
    cache->mask = rows - 1;
    cache->rows = calloc(rows, sizeof *cache->rows);
    cache->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    cache->hasher = EVP_MD_CTX_new();
    if (cache->rows == NULL || cache->sha256 == NULL || cache->hasher == NULL) {
        sk_token_cache_close(cache);
        return NULL;
    }
    return cache;
}

void sk_token_cache_close(struct sk_token_cache *cache)
{
    if (cache == NULL)
        return;
    EVP_MD_CTX_free(cache->hasher);
    EVP_MD_free(cache->sha256);
    free(cache->rows);
    free(cache);
}

static struct row *cache_row(const struct sk_token_cache *cache)
{
    uint64_t n;
    memcpy(&n, cache->digest, sizeof n);
    return &cache->rows[n & cache->mask];
}

// Uses other bits than those that select the row.
static uint32_t cache_tag(const struct sk_token_cache *cache)
{
    uint32_t tag;
    memcpy(&tag, cache->digest + sizeof(uint64_t), sizeof tag);
    return tag;
}

const struct sk_jwt_claims *sk_token_cache_find(struct sk_token_cache *cache, const char *token, size_t len,
                                                uint64_t key_number)
{
    cache->asked = EVP_DigestInit_ex2(cache->hasher, cache->sha256, NULL) == 1 &&
                   EVP_DigestUpdate(cache->hasher, token, len) == 1 &&
                   EVP_DigestFinal_ex(cache->hasher, cache->digest, NULL) == 1;
    if (!cache->asked)
        return NULL;
    struct row *row = cache_row(cache);
    uint32_t tag = cache_tag(cache);
    for (size_t i = 0; i < WAYS; i++) {
        struct place *place = &row->places[i];
        if (row->tags[i] == tag && place->key_number == key_number &&
            CRYPTO_memcmp(place->digest, cache->digest, DIGEST_SIZE) == 0) {
            place->asked = ++cache->clock;
            return &place->claims;
        }
    }
    return NULL;
}

void sk_token_cache_put(struct sk_token_cache *cache, uint64_t key_number, const struct sk_jwt_claims *claims)
{
    if (!cache->asked)
        return;
    struct row *row = cache_row(cache);
    struct place *oldest = &row->places[0];
    for (size_t i = 1; i < WAYS; i++) {
        if (row->places[i].asked < oldest->asked)
            oldest = &row->places[i];
    }
    row->tags[oldest - row->places] = cache_tag(cache);
    memcpy(oldest->digest, cache->digest, DIGEST_SIZE);
    oldest->key_number = key_number;
    oldest->asked = ++cache->clock;
    oldest->claims = *claims;
    cache->asked = false;
}
