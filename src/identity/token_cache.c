// A token may lie in any of the places of its row, which the SHA-256 chooses: nobody can aim at a row, since only
// tokens that were issued get in. Rows are long, because tokens that do not fit into theirs push each other out, and
// are checked again each time: of 10,000 users and 65,536 places those were 20 with four places in a row, which cost as
// much as to find all others. A row's tags are one line of the processor's cache, so that its length costs a search
// little.
#include "token_cache.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum { WAYS = 16, DIGEST_SIZE = 32 };

struct place {
    unsigned char digest[DIGEST_SIZE];
    uint64_t key_number; // 0: free
    uint64_t asked;      // when, by the clock of the row
    struct sk_jwt_claims claims;
};

struct row {
    uint32_t tags[WAYS]; // of each place: some bits of its digest
    struct place places[WAYS];
};

struct sk_token_cache {
    EVP_MD *sha256;     // owned
    EVP_MD_CTX *hasher; // owned
    uint64_t clock;     // counts what was asked
    uint64_t mask;
    unsigned char digest[DIGEST_SIZE]; // of the token that was last asked for
    bool asked;                        // there is one
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

// Other bits than those that choose the row.
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
