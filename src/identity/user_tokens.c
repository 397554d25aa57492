// Cheap checks come first, and no claim is read before the signature is known to be right. Only tokens signed with
// EdDSA are cached: checking an HMAC takes no longer than finding the token again.
#include "user_tokens.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth.h"
#include "editions.h"
#include "log.h"
#include "text.h"

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

// ---- keys ----
//
// A file with any error is rejected as a whole: an operator who believes that a key is gone, or has another algorithm,
// must not be mistaken.

enum { FILE_MAX_BYTES = 65536 };

struct sk_token_keys {
    size_t count;
    uint64_t next_number;
    struct sk_token_key all[SK_TOKEN_KEYS_MAX];
};

// The description of a key, in either form of the file.
struct keys_entry {
    struct sk_span kid, algorithm, key, private_key; // private_key of length 0: none
};

struct reading {
    struct sk_token_keys *keys;
    const struct sk_token_keys *before;
    unsigned readers;
    const char *wrong; // a constant; NULL: nothing so far
};

static void keys_read_set(struct reading *reading, const char *text, size_t len, char place[SK_TOKEN_KEYS_WRONG_SIZE]);
static const char *keys_read_jwk(struct reading *reading, const json_t *jwk);
static void keys_read_lines(struct reading *reading, const char *text, size_t len,
                            char place[SK_TOKEN_KEYS_WRONG_SIZE]);
static const char *keys_read_line(struct reading *reading, struct sk_span line);
static const char *keys_add(struct reading *reading, const struct keys_entry *entry);
static const char *keys_open(struct reading *reading, const struct keys_entry *entry, struct sk_token_key *key);
static uint64_t keys_number(struct reading *reading, const struct sk_token_key *key);

struct sk_token_keys *sk_token_keys_load(const char *path, unsigned readers, const struct sk_token_keys *before,
                                         char wrong[SK_TOKEN_KEYS_WRONG_SIZE])
{
    FILE *file = fopen(path, "re");
    char *text = file == NULL ? NULL : calloc(1, FILE_MAX_BYTES);
    struct sk_token_keys *keys = NULL;
    if (file == NULL) {
        (void)snprintf(wrong, SK_TOKEN_KEYS_WRONG_SIZE, "cannot be opened: %s", strerror(errno));
        return NULL;
    }
    size_t len = text == NULL ? 0 : fread(text, 1, FILE_MAX_BYTES, file);
    if (text == NULL)
        (void)snprintf(wrong, SK_TOKEN_KEYS_WRONG_SIZE, "out of memory");
    else if (ferror(file) != 0 || len == FILE_MAX_BYTES)
        (void)snprintf(wrong, SK_TOKEN_KEYS_WRONG_SIZE, "cannot be read, or holds %d bytes or more", FILE_MAX_BYTES);
    else
        keys = sk_token_keys_read(text, len, readers, before, wrong);
    if (text != NULL)
        explicit_bzero(text, len);
    free(text);
    (void)fclose(file);
    return keys;
}

struct sk_token_keys *sk_token_keys_read(const char *text, size_t len, unsigned readers,
                                         const struct sk_token_keys *before, char wrong[SK_TOKEN_KEYS_WRONG_SIZE])
{
    char place[SK_TOKEN_KEYS_WRONG_SIZE] = "";
    struct reading reading = {calloc(1, sizeof *reading.keys), before, readers, NULL};
    size_t blank = 0;
    while (blank < len && (text[blank] == ' ' || text[blank] == '\t' || text[blank] == '\r' || text[blank] == '\n'))
        blank++;
    if (reading.keys == NULL) {
        reading.wrong = "out of memory";
    } else {
        reading.keys->next_number = before == NULL ? 1 : before->next_number;
        if (blank < len && text[blank] == '{')
            keys_read_set(&reading, text, len, place);
        else
            keys_read_lines(&reading, text, len, place);
        if (reading.wrong == NULL && reading.keys->count == 0)
            reading.wrong = "there is no key for HS256 or EdDSA";
    }
    if (reading.wrong == NULL)
        return reading.keys;
    (void)snprintf(wrong, SK_TOKEN_KEYS_WRONG_SIZE, "%s%s", place, reading.wrong);
    sk_token_keys_free(reading.keys);
    return NULL;
}

void sk_token_keys_free(struct sk_token_keys *keys)
{
    if (keys == NULL)
        return;
    for (size_t i = 0; i < keys->count; i++)
        sk_jws_close(keys->all[i].jws);
    free(keys);
}

// ---- a JWK Set ----

static void keys_read_set(struct reading *reading, const char *text, size_t len, char place[SK_TOKEN_KEYS_WRONG_SIZE])
{
    json_error_t error;
    json_t *document = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    const json_t *list = json_object_get(document, "keys");
    if (document == NULL) {
        (void)snprintf(place, SK_TOKEN_KEYS_WRONG_SIZE, "line %d: ", error.line);
        reading->wrong = error.text[0] == '\0' ? "out of memory" : "is not JSON, or has a member twice";
    } else if (!json_is_array(list)) {
        reading->wrong = "is not an object with a list of `keys`";
    }
    for (size_t i = 0; reading->wrong == NULL && i < json_array_size(list); i++) {
        (void)snprintf(place, SK_TOKEN_KEYS_WRONG_SIZE, "keys[%zu]: ", i);
        reading->wrong = keys_read_jwk(reading, json_array_get(list, i));
    }
    if (reading->wrong == NULL)
        place[0] = '\0';
    json_decref(document);
}

static struct sk_span keys_member(const json_t *jwk, const char *name)
{
    const json_t *value = json_object_get(jwk, name);
    return (struct sk_span){json_string_value(value), json_string_length(value)};
}

static bool keys_is(struct sk_span word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.at, text, word.len) == 0;
}

static const char *keys_read_jwk(struct reading *reading, const json_t *jwk)
{
    struct sk_span type = keys_member(jwk, "kty"), use = keys_member(jwk, "use");
    struct keys_entry entry = {keys_member(jwk, "kid"), keys_member(jwk, "alg"), {NULL, 0}, {NULL, 0}};
    bool symmetric = keys_is(type, "oct");
    if (!json_is_object(jwk) || type.len == 0)
        return "is not an object with a `kty`";
    if ((!symmetric && !keys_is(type, "OKP")) || (json_object_get(jwk, "use") != NULL && !keys_is(use, "sig")))
        return NULL;
    if (entry.algorithm.len == 0)
        return "has no `alg`: it would be left to the token";
    if (symmetric != keys_is(entry.algorithm, "HS256"))
        return "has another `alg` than HS256 (kty oct) or EdDSA (kty OKP)";
    if (!symmetric && !keys_is(keys_member(jwk, "crv"), "Ed25519"))
        return "has another `crv` than Ed25519";
    entry.key = keys_member(jwk, symmetric ? "k" : "x");
    if (!symmetric && json_object_get(jwk, "d") != NULL) {
        entry.private_key = keys_member(jwk, "d");
        if (entry.private_key.len == 0)
            return "has a `d` that is no text";
    }
    return keys_add(reading, &entry);
}

// ---- lines ----

static void keys_read_lines(struct reading *reading, const char *text, size_t len, char place[SK_TOKEN_KEYS_WRONG_SIZE])
{
    struct sk_span rest = {text, len}, line;
    unsigned number = 0;
    for (; reading->wrong == NULL && sk_span_line(&rest, &line); number++)
        reading->wrong = keys_read_line(reading, line);
    if (reading->wrong != NULL)
        (void)snprintf(place, SK_TOKEN_KEYS_WRONG_SIZE, "line %u: ", number);
}

static const char *keys_read_line(struct reading *reading, struct sk_span line)
{
    struct keys_entry entry;
    entry.kid = sk_span_word(&line);
    entry.algorithm = sk_span_word(&line);
    entry.key = sk_span_word(&line);
    entry.private_key = sk_span_word(&line);
    if (entry.kid.len == 0 || *entry.kid.at == '#')
        return NULL;
    if (entry.key.len == 0 || sk_span_word(&line).len > 0)
        return "is not of the form: kid algorithm key [private-key]";
    return keys_add(reading, &entry);
}

// ---- a key ----

static const char *keys_add(struct reading *reading, const struct keys_entry *entry)
{
    struct sk_token_keys *keys = reading->keys;
    struct sk_token_key key = {.jws = NULL};
    if (keys->count == SK_TOKEN_KEYS_MAX)
        return "there are more than 64 keys";
    if (entry->kid.len == 0 || entry->kid.len > SK_JWT_KID_MAX)
        return "the kid is missing, or longer than 128 bytes";
    memcpy(key.kid, entry->kid.at, entry->kid.len);
    for (size_t i = 0; i < entry->kid.len; i++) {
        if (key.kid[i] <= ' ' || key.kid[i] > '~')
            return "the kid has other characters than visible ASCII";
    }
    if (sk_token_keys_find(keys, key.kid) != NULL)
        return "the kid is taken";
    const char *wrong = keys_open(reading, entry, &key);
    if (wrong != NULL)
        return wrong;
    key.number = keys_number(reading, &key);
    keys->all[keys->count++] = key;
    return NULL;
}

static const char *keys_open(struct reading *reading, const struct keys_entry *entry, struct sk_token_key *key)
{
    unsigned char bytes[SK_JWS_SECRET_MAX], private_bytes[SK_JWS_POINT_SIZE];
    size_t len, private_len = 0;
    bool symmetric = keys_is(entry->algorithm, "HS256");
    const char *wrong = NULL;
    if (!symmetric && !keys_is(entry->algorithm, "EdDSA"))
        return "the algorithm is neither HS256 nor EdDSA";
    if (entry->key.len == 0 || !sk_base64url_read(entry->key.at, entry->key.len, bytes, sizeof bytes, &len) ||
        (entry->private_key.len > 0 && !sk_base64url_read(entry->private_key.at, entry->private_key.len, private_bytes,
                                                          sizeof private_bytes, &private_len)))
        wrong = "a key is missing, too long or not base64url";
    if (wrong == NULL) {
        struct sk_jws_bytes main_key = {bytes, len}, private_key = {private_bytes, private_len};
        switch (
            sk_jws_open(symmetric ? SK_JWS_HS256 : SK_JWS_EDDSA, main_key, private_key, reading->readers, &key->jws)) {
        case SK_OK:
            break;
        case SK_NO_MEM:
            wrong = "out of memory";
            break;
        default:
            wrong = symmetric ? "a secret of HS256 has 32 to 256 bytes, and no private key"
                              : "the keys of Ed25519 have 32 bytes, and belong together";
        }
    }
    explicit_bzero(bytes, sizeof bytes);
    explicit_bzero(private_bytes, sizeof private_bytes);
    return wrong;
}

static uint64_t keys_number(struct reading *reading, const struct sk_token_key *key)
{
    const struct sk_token_key *old = reading->before == NULL ? NULL : sk_token_keys_find(reading->before, key->kid);
    return old != NULL && sk_jws_same(old->jws, key->jws) ? old->number : reading->keys->next_number++;
}

// ---- lookup ----

size_t sk_token_keys_count(const struct sk_token_keys *keys)
{
    return keys->count;
}

const struct sk_token_key *sk_token_keys_at(const struct sk_token_keys *keys, size_t i)
{
    return &keys->all[i];
}

const struct sk_token_key *sk_token_keys_find(const struct sk_token_keys *keys, const char *kid)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (strcmp(keys->all[i].kid, kid) == 0)
            return &keys->all[i];
    }
    return NULL;
}

// ---- token ring ----

// A set is made with all that a reactor needs of it, so taking it cannot fail: after a key was removed, no reactor may
// go on with the old set.

struct sk_token_ring {
    char *path; // owned
    unsigned readers;
    struct sk_editions *sets; // owned
};

static struct sk_token_keys *ring_read(const struct sk_token_ring *ring);

static void ring_free_set(void *value)
{
    sk_token_keys_free(value);
}

struct sk_token_ring *sk_token_ring_open(const char *path, unsigned readers)
{
    struct sk_token_ring *ring = calloc(1, sizeof *ring);
    if (ring != NULL) {
        ring->path = strdup(path);
        ring->sets = sk_editions_open(ring_free_set);
        ring->readers = readers;
    }
    if (ring == NULL || ring->path == NULL || ring->sets == NULL)
        sk_log(SK_LOG_ERROR, "no memory for the keys of users' tokens", "");
    else if (sk_token_ring_reload(ring))
        return ring;
    sk_token_ring_close(ring);
    return NULL;
}

void sk_token_ring_close(struct sk_token_ring *ring)
{
    if (ring == NULL)
        return;
    sk_editions_close(ring->sets);
    free(ring->path);
    free(ring);
}

// ---- reading ----

bool sk_token_ring_reload(struct sk_token_ring *ring)
{
    struct sk_token_keys *set = ring_read(ring);
    if (set == NULL)
        return false;
    size_t keys = sk_token_keys_count(set);
    if (!sk_editions_publish(ring->sets, set)) {
        sk_log(SK_LOG_ERROR, "no memory for the keys of users' tokens", "");
        sk_token_keys_free(set);
        return false;
    }
    sk_log(SK_LOG_INFO, "keys of users' tokens", "keys=%zu version=%" PRIu64, keys, sk_token_ring_version(ring));
    return true;
}

// NULL: the reason is logged.
static struct sk_token_keys *ring_read(const struct sk_token_ring *ring)
{
    char wrong[SK_TOKEN_KEYS_WRONG_SIZE] = "out of memory";
    const struct sk_token_keys *old = sk_editions_current(ring->sets);
    struct sk_token_keys *set = sk_token_keys_load(ring->path, ring->readers, old, wrong);
    if (set == NULL)
        sk_log_text(SK_LOG_ERROR,
                    old == NULL ? "SECKILL_TOKEN_KEYS: cannot read the keys of users' tokens"
                                : "SECKILL_TOKEN_KEYS: cannot read the new keys of users' tokens; the old ones stay",
                    "reason", wrong);
    return set;
}

// ---- holding ----

uint64_t sk_token_ring_version(const struct sk_token_ring *ring)
{
    return sk_editions_version(ring->sets);
}

const struct sk_token_keys *sk_token_ring_take(struct sk_token_ring *ring, uint64_t *version)
{
    return sk_editions_take(ring->sets, version);
}

void sk_token_ring_give_back(struct sk_token_ring *ring, const struct sk_token_keys *keys)
{
    sk_editions_give_back(ring->sets, keys);
}

size_t sk_token_ring_sets(struct sk_token_ring *ring)
{
    return sk_editions_count(ring->sets);
}
