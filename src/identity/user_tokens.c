// A token is checked from cheap to expensive: its three parts; its header (an `alg` and a `kid`, no `crit`); the key,
// whose algorithm must be the header's; whether it was seen before (SHA-256 of the token, with the number of its key);
// the signature; the claims; the times, also of a token that was seen before; whether `jti` or `sub` is revoked, also
// then. No claim is read before the signature is known to be right. Tokens signed with HS256 are not cached: checking
// an HMAC takes no longer than finding the token again. A login gives all its tokens one header for each key, so the
// last four headers of valid tokens are kept as they were sent, with their keys; a new set of keys empties that cache.
#include "user_tokens.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "auth.h"
#include "base64url.h"
#include "editions.h"
#include "log.h"
#include "text.h"

// ---- keys ----
//
// Lines with any error are rejected as a whole: an operator who believes that a key is gone, or has another algorithm,
// must not be mistaken. A set is the login's: a key of it that we cannot use must not take the others away (RFC 7517
// 5).

enum { KEYS_MAX_BYTES = 65536, PLACE_SIZE = 100 };

static const char no_memory[] = "out of memory";

// The description of a key, in either form of the file.
struct keys_entry {
    enum sk_jws_algorithm algorithm;
    struct sk_span kid, parts[2], private_key; // of length 0: none
};

struct reading {
    struct sk_token_keys *keys;
    const struct sk_token_keys *before;
    unsigned readers;
    const char *wrong;      // a constant; NULL: nothing so far
    char place[PLACE_SIZE]; // where that is
};

const struct sk_token_key *sk_token_keys_find(const struct sk_token_keys *keys, const char *kid)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (strcmp(keys->all[i].kid, kid) == 0)
            return &keys->all[i];
    }
    return NULL;
}

// False: it is too long, or not base64url.
static bool keys_decode(struct sk_span text, unsigned char out[SK_JWS_PART_MAX], struct sk_jws_bytes *bytes)
{
    bytes->at = out;
    return text.len == 0 || sk_base64url_read(text.at, text.len, out, SK_JWS_PART_MAX, &bytes->len);
}

static const char *keys_open(const struct reading *reading, const struct keys_entry *entry, struct sk_jws **jws)
{
    static const char *const reasons[SK_JWS_ALGORITHMS] = {
        [SK_JWS_HS256] = "a secret of HS256 has 32 to 256 bytes, and no private key",
        [SK_JWS_EDDSA] = "the keys of Ed25519 have 32 bytes, and belong together",
        [SK_JWS_RS256] =
            "a key of RS256 has 2048 to 4096 bits and an odd exponent above 1, and a private key belongs to it",
        [SK_JWS_ES256] = "a key of ES256 is a point of P-256, x and y of 32 bytes, and a private key belongs to it",
    };
    unsigned char bytes[3][SK_JWS_PART_MAX];
    struct sk_jws_key parts = {0};
    const char *wrong = NULL;
    if (!keys_decode(entry->parts[0], bytes[0], &parts.parts[0]) ||
        !keys_decode(entry->parts[1], bytes[1], &parts.parts[1]) ||
        !keys_decode(entry->private_key, bytes[2], &parts.private_key) || parts.parts[0].len == 0) {
        wrong = "a key is missing, too long or not base64url";
    } else {
        enum sk_status status = sk_jws_open(entry->algorithm, &parts, reading->readers, jws);
        if (status != SK_OK)
            wrong = status == SK_NO_MEM ? no_memory : reasons[entry->algorithm];
    }
    explicit_bzero(bytes, sizeof bytes);
    return wrong;
}

static const char *keys_add(struct reading *reading, const struct keys_entry *entry)
{
    struct sk_token_keys *keys = reading->keys;
    struct sk_token_key key = {.jws = NULL};
    if (keys->count == SK_TOKEN_KEYS_MAX)
        return "there are more than 64 keys";
    if (entry->kid.len == 0 || entry->kid.len > SK_JWT_KID_MAX)
        return "the kid is missing, or longer than 128 bytes";
    memcpy(key.kid, entry->kid.at, entry->kid.len);
    if (strlen(key.kid) != entry->kid.len || !sk_text_within(key.kid, '!', '~'))
        return "the kid has other characters than visible ASCII";
    if (sk_token_keys_find(keys, key.kid) != NULL)
        return "the kid is taken";
    const char *wrong = keys_open(reading, entry, &key.jws);
    if (wrong != NULL)
        return wrong;
    const struct sk_token_key *old = reading->before == NULL ? NULL : sk_token_keys_find(reading->before, key.kid);
    key.number = old != NULL && sk_jws_same(old->jws, key.jws) ? old->number : keys->next_number++;
    keys->all[keys->count++] = key;
    return NULL;
}

static bool keys_is(struct sk_span word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.at, text, word.len) == 0;
}

static const char *keys_read_line(struct reading *reading, struct sk_span line)
{
    struct keys_entry entry = {.kid = sk_span_word(&line)};
    struct sk_span algorithm = sk_span_word(&line);
    entry.parts[0] = sk_span_word(&line);
    entry.private_key = sk_span_word(&line);
    if (entry.kid.len == 0 || *entry.kid.at == '#')
        return NULL;
    if (entry.parts[0].len == 0 || sk_span_word(&line).len > 0)
        return "is not of the form: kid algorithm key [private-key]";
    entry.algorithm = keys_is(algorithm, "HS256") ? SK_JWS_HS256 : SK_JWS_EDDSA;
    if (entry.algorithm == SK_JWS_EDDSA && !keys_is(algorithm, "EdDSA"))
        return "the algorithm is neither HS256 nor EdDSA (a JWK Set may have others)";
    return keys_add(reading, &entry);
}

static void keys_read_lines(struct reading *reading, const char *text, size_t len)
{
    struct sk_span rest = {text, len}, line;
    unsigned number = 0;
    for (; reading->wrong == NULL && sk_span_line(&rest, &line); number++)
        reading->wrong = keys_read_line(reading, line);
    if (reading->wrong != NULL)
        (void)snprintf(reading->place, PLACE_SIZE, "line %u: ", number);
}

static struct sk_span keys_member(const json_t *jwk, const char *name)
{
    const json_t *value = json_object_get(jwk, name);
    return (struct sk_span){json_string_value(value), json_string_length(value)};
}

// RFC 7517, 4.3. Without the member a key may do all.
static bool keys_may_verify(const json_t *operations)
{
    bool may = operations == NULL;
    for (size_t i = 0; i < json_array_size(operations); i++) {
        const char *name = json_string_value(json_array_get(operations, i));
        may = may || (name != NULL && strcmp(name, "verify") == 0);
    }
    return may;
}

// Why a key is not for us; NULL: it is.
static const char *keys_find_algorithm(const json_t *jwk, enum sk_jws_algorithm *out)
{
    struct sk_span type = keys_member(jwk, "kty"), curve = keys_member(jwk, "crv");
    if (json_object_get(jwk, "use") != NULL && !keys_is(keys_member(jwk, "use"), "sig"))
        return "it is for another `use` than sig";
    if (!keys_may_verify(json_object_get(jwk, "key_ops")))
        return "its `key_ops` lack verify";
    for (*out = 0; *out < SK_JWS_ALGORITHMS; (*out)++) {
        const struct sk_jws_names *names = sk_jws_names(*out);
        if (!keys_is(type, names->kty) || (names->crv != NULL && !keys_is(curve, names->crv)))
            continue;
        bool other = json_object_get(jwk, "alg") != NULL && !keys_is(keys_member(jwk, "alg"), names->alg);
        return other ? "its `alg` is not HS256 (kty oct), EdDSA (OKP), RS256 (RSA) or ES256 (EC)" : NULL;
    }
    return "its `kty` is not oct, RSA, EC (P-256) or OKP (Ed25519)";
}

// Returns why the key is not used; NULL: it is. Of two keys with one kid the first that can be used is: a token has one
// key, and so one algorithm.
static const char *keys_read_jwk(struct reading *reading, const json_t *jwk, bool *foreign)
{
    struct keys_entry entry = {.kid = keys_member(jwk, "kid")};
    if (!json_is_object(jwk) || keys_member(jwk, "kty").len == 0)
        return "it is not an object with a `kty`";
    const char *unused = keys_find_algorithm(jwk, &entry.algorithm);
    *foreign = unused != NULL;
    if (*foreign)
        return unused;
    const struct sk_jws_names *names = sk_jws_names(entry.algorithm);
    for (size_t i = 0; i < 2 && names->parts[i] != NULL; i++)
        entry.parts[i] = keys_member(jwk, names->parts[i]);
    if (entry.algorithm != SK_JWS_HS256 && json_object_get(jwk, "d") != NULL) {
        entry.private_key = keys_member(jwk, "d");
        if (entry.private_key.len == 0)
            return "its `d` is no text";
    }
    return keys_add(reading, &entry);
}

static void keys_read_set(struct reading *reading, const char *text, size_t len)
{
    json_error_t error;
    json_t *document = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    const json_t *list = json_object_get(document, "keys");
    if (document == NULL) {
        (void)snprintf(reading->place, PLACE_SIZE, "line %d: ", error.line);
        reading->wrong = error.text[0] == '\0' ? no_memory : "is not JSON, or has a member twice";
    } else if (!json_is_array(list)) {
        reading->wrong = "is not an object with a list of `keys`";
    } else if (json_array_size(list) > SK_TOKEN_KEYS_MAX) {
        reading->wrong = "there are more than 64 keys";
    }
    for (size_t i = 0; reading->wrong == NULL && i < json_array_size(list); i++) {
        struct sk_token_keys *keys = reading->keys;
        bool foreign = false;
        const char *unused = keys_read_jwk(reading, json_array_get(list, i), &foreign);
        if (unused == no_memory)
            reading->wrong = unused;
        else if (unused != NULL)
            keys->unused[keys->unused_count++] = (struct sk_token_key_unused){i, unused, foreign};
    }
    json_decref(document);
}

struct sk_token_keys *sk_token_keys_read(const char *text, size_t len, unsigned readers,
                                         const struct sk_token_keys *before, char wrong[SK_TOKEN_KEYS_WRONG_SIZE])
{
    static const char none[] = "there is no key for HS256, EdDSA, RS256 or ES256";
    struct sk_token_keys *keys = calloc(1, sizeof *keys);
    struct reading reading = {keys, before, readers, keys == NULL ? no_memory : NULL, ""};
    size_t blank = 0;
    while (blank < len && (text[blank] == ' ' || text[blank] == '\t' || text[blank] == '\r' || text[blank] == '\n'))
        blank++;
    if (keys != NULL) {
        keys->next_number = before == NULL ? 1 : before->next_number;
        if (blank < len && text[blank] == '{')
            keys_read_set(&reading, text, len);
        else
            keys_read_lines(&reading, text, len);
        if (reading.wrong == NULL && keys->count > 0)
            return keys;
    }
    if (reading.wrong == NULL && keys->unused_count > 0) {
        (void)snprintf(reading.place, PLACE_SIZE, "%s; keys[%zu]: ", none, keys->unused[0].place);
        reading.wrong = keys->unused[0].reason;
    }
    (void)snprintf(wrong, SK_TOKEN_KEYS_WRONG_SIZE, "%s%s", reading.place,
                   reading.wrong == NULL ? none : reading.wrong);
    sk_token_keys_free(keys);
    return NULL;
}

// The text of a file of fewer than `room` bytes, which the caller frees. NULL: an error, which `wrong` describes.
static char *load_text(const char *path, size_t room, size_t *len, char wrong[SK_TOKEN_KEYS_WRONG_SIZE])
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        (void)snprintf(wrong, SK_TOKEN_KEYS_WRONG_SIZE, "cannot be opened: %s", strerror(errno));
        return NULL;
    }
    char *text = calloc(1, room);
    *len = text == NULL ? 0 : fread(text, 1, room, file);
    bool whole = ferror(file) == 0 && *len < room;
    (void)fclose(file);
    if (text != NULL && whole)
        return text;
    if (text == NULL) {
        (void)snprintf(wrong, SK_TOKEN_KEYS_WRONG_SIZE, "%s", no_memory);
        return NULL;
    }
    (void)snprintf(wrong, SK_TOKEN_KEYS_WRONG_SIZE, "cannot be read, or holds %zu bytes or more", room);
    explicit_bzero(text, *len);
    free(text);
    return NULL;
}

struct sk_token_keys *sk_token_keys_load(const char *path, unsigned readers, const struct sk_token_keys *before,
                                         char wrong[SK_TOKEN_KEYS_WRONG_SIZE])
{
    size_t len;
    char *text = load_text(path, KEYS_MAX_BYTES, &len, wrong);
    if (text == NULL)
        return NULL;
    struct sk_token_keys *keys = sk_token_keys_read(text, len, readers, before, wrong);
    explicit_bzero(text, len);
    free(text);
    return keys;
}

void sk_token_keys_free(struct sk_token_keys *keys)
{
    if (keys == NULL)
        return;
    for (size_t i = 0; i < keys->count; i++)
        sk_jws_close(keys->all[i].jws);
    free(keys);
}

// ---- revocations ----
//
// A hash of 64 bits under a key of the process stands for an id: a cached token is compared without its text. Two ids
// with one hash would reject one user too many; nobody can look for them without the key.

enum { REVOKED_MAX_BYTES = 1 << 22, REVOKED_ID_MIN_BYTES = sizeof "jti:x" };

// The revoked tokens, as sorted hashes of their ids.
struct revoked {
    struct {
        size_t count;
        uint64_t *all; // owned
    } ids[SK_JWT_IDS];
};

static int revoked_compare(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static void revoked_free(void *value)
{
    struct revoked *revoked = value;
    if (revoked == NULL)
        return;
    for (int i = 0; i < SK_JWT_IDS; i++)
        free(revoked->ids[i].all);
    free(revoked);
}

static bool revoked_has(const struct revoked *revoked, const struct sk_jwt_claims *claims)
{
    for (int i = 0; i < SK_JWT_IDS; i++) {
        if (revoked->ids[i].count > 0 && bsearch(&claims->ids[i], revoked->ids[i].all, revoked->ids[i].count,
                                                 sizeof claims->ids[i], revoked_compare) != NULL)
            return true;
    }
    return false;
}

// A blank in an id is a slip ("sub: alice", "sub:alice # stolen"), by which the line would revoke nothing.
static const char *revoked_read_line(struct revoked *revoked, const struct sk_siphash_key *id_keys, struct sk_span line)
{
    static const char *const prefixes[SK_JWT_IDS] = {[SK_JWT_ID_JTI] = "jti:", [SK_JWT_ID_SUB] = "sub:"};
    while (line.len > 0 && (line.at[line.len - 1] == ' ' || line.at[line.len - 1] == '\t'))
        line.len--;
    if (line.len == 0 || *line.at == '#')
        return NULL;
    for (int i = 0; i < SK_JWT_IDS; i++) {
        size_t len = strlen(prefixes[i]);
        if (line.len > len && memcmp(line.at, prefixes[i], len) == 0) {
            if (memchr(line.at, ' ', line.len) != NULL || memchr(line.at, '\t', line.len) != NULL)
                return "has a blank in its id";
            revoked->ids[i].all[revoked->ids[i].count++] = sk_siphash(&id_keys[i], line.at + len, line.len - len);
            return NULL;
        }
    }
    return "is neither jti:ID nor sub:ID";
}

// `path` NULL: nothing is revoked. NULL: an error, which `wrong` describes.
static struct revoked *revoked_load(const char *path, const struct sk_siphash_key *id_keys,
                                    char wrong[SK_TOKEN_KEYS_WRONG_SIZE])
{
    size_t len = 0;
    char *text = path == NULL ? NULL : load_text(path, REVOKED_MAX_BYTES, &len, wrong);
    if (path != NULL && text == NULL)
        return NULL;
    struct revoked *revoked = calloc(1, sizeof *revoked);
    bool enough = revoked != NULL;
    for (int i = 0; enough && i < SK_JWT_IDS; i++) {
        revoked->ids[i].all = calloc(len / REVOKED_ID_MIN_BYTES + 1, sizeof(uint64_t));
        enough = revoked->ids[i].all != NULL;
    }
    struct sk_span rest = {text, len}, line;
    const char *reason = enough ? NULL : no_memory;
    unsigned number = 0;
    for (; reason == NULL && sk_span_line(&rest, &line); number++)
        reason = revoked_read_line(revoked, id_keys, line);
    free(text);
    if (reason != NULL) {
        (void)snprintf(wrong, SK_TOKEN_KEYS_WRONG_SIZE, "line %u: %s", number, reason);
        revoked_free(revoked);
        return NULL;
    }
    for (int i = 0; i < SK_JWT_IDS; i++)
        qsort(revoked->ids[i].all, revoked->ids[i].count, sizeof revoked->ids[i].all[0], revoked_compare);
    return revoked;
}

// ---- token ring ----

// A set is made with all that a reactor needs of it, so taking it cannot fail: after a key was removed, no reactor may
// go on with the old set.

struct sk_token_ring {
    const char *keys_path, *revoked_path; // borrowed; revoked_path NULL: nothing is revoked
    unsigned readers;
    struct sk_siphash_key id_keys[SK_JWT_IDS];
    struct sk_editions *keys, *revoked; // owned
};

static void ring_free_set(void *value)
{
    sk_token_keys_free(value);
}

static bool ring_publish(struct sk_editions *editions, void *value, void (*free_value)(void *value))
{
    if (sk_editions_publish(editions, value))
        return true;
    sk_log(SK_LOG_ERROR, "no memory for the keys of users' tokens", "");
    free_value(value);
    return false;
}

static bool ring_reload_keys(const struct sk_token_ring *ring)
{
    char wrong[SK_TOKEN_KEYS_WRONG_SIZE];
    const struct sk_token_keys *old = sk_editions_current(ring->keys);
    struct sk_token_keys *set = sk_token_keys_load(ring->keys_path, ring->readers, old, wrong);
    if (set == NULL) {
        sk_log_text(SK_LOG_ERROR,
                    old == NULL ? "SECKILL_TOKEN_KEYS: cannot read the keys of users' tokens"
                                : "SECKILL_TOKEN_KEYS: cannot read the new keys of users' tokens; the old ones stay",
                    "reason", wrong);
        return false;
    }
    for (size_t i = 0; i < set->unused_count; i++) {
        (void)snprintf(wrong, sizeof wrong, "keys[%zu]: %s", set->unused[i].place, set->unused[i].reason);
        sk_log_text(set->unused[i].foreign ? SK_LOG_INFO : SK_LOG_WARN, "a key of users' tokens is not used", "reason",
                    wrong);
    }
    if (!ring_publish(ring->keys, set, ring_free_set))
        return false;
    sk_log(SK_LOG_INFO, "keys of users' tokens", "keys=%zu version=%" PRIu64, set->count,
           sk_editions_version(ring->keys));
    return true;
}

static bool ring_reload_revoked(const struct sk_token_ring *ring)
{
    char wrong[SK_TOKEN_KEYS_WRONG_SIZE];
    struct revoked *revoked = revoked_load(ring->revoked_path, ring->id_keys, wrong);
    if (revoked == NULL) {
        sk_log_text(SK_LOG_ERROR,
                    sk_editions_current(ring->revoked) == NULL
                        ? "SECKILL_TOKEN_REVOKED: cannot read the revoked tokens"
                        : "SECKILL_TOKEN_REVOKED: cannot read the revoked tokens; the old ones stay revoked",
                    "reason", wrong);
        return false;
    }
    if (!ring_publish(ring->revoked, revoked, revoked_free))
        return false;
    if (ring->revoked_path != NULL)
        sk_log(SK_LOG_INFO, "revoked users' tokens", "jti=%zu sub=%zu", revoked->ids[SK_JWT_ID_JTI].count,
               revoked->ids[SK_JWT_ID_SUB].count);
    return true;
}

// Each file counts alone: a revocation must not wait for keys that are wrong.
bool sk_token_ring_reload(struct sk_token_ring *ring)
{
    bool keys = ring_reload_keys(ring), revoked = ring_reload_revoked(ring);
    return keys && revoked;
}

struct sk_token_ring *sk_token_ring_open(const struct sk_identity_options *options, unsigned readers)
{
    struct sk_token_ring *ring = calloc(1, sizeof *ring);
    bool opened = ring != NULL;
    if (opened) {
        ring->keys_path = options->token_keys;
        ring->revoked_path = options->token_revoked;
        ring->readers = readers;
        ring->keys = sk_editions_open(ring_free_set);
        ring->revoked = sk_editions_open(revoked_free);
        opened = ring->keys != NULL && ring->revoked != NULL;
        for (int i = 0; i < SK_JWT_IDS; i++)
            opened = sk_siphash_new_key(&ring->id_keys[i]) == SK_OK && opened;
    }
    if (!opened)
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
    sk_editions_close(ring->keys);
    sk_editions_close(ring->revoked);
    free(ring);
}

struct sk_editions *sk_token_ring_keys(struct sk_token_ring *ring)
{
    return ring->keys;
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
    EVP_MD *sha256;                    // owned
    EVP_MD_CTX *hasher;                // owned
    uint64_t clock;                    // counts hits and additions
    unsigned char digest[DIGEST_SIZE]; // of the token that was last looked up
    bool asked;                        // `digest` is valid
    size_t count;                      // a power of two
    struct row *rows;                  // owned
};

// Each search reads two places of these megabytes. In huge pages it seldom waits for their addresses, too.
static struct row *cache_map_rows(size_t count)
{
    size_t size = count * sizeof(struct row);
    void *rows = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (rows == MAP_FAILED)
        return NULL;
    (void)madvise(rows, size, MADV_HUGEPAGE); // only saves time
    return rows;
}

struct sk_token_cache *sk_token_cache_open(size_t tokens)
{
    size_t rows = 1;
    while (rows * WAYS < tokens)
        rows *= 2;
    struct sk_token_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL)
        return NULL;
    cache->count = rows;
    cache->rows = cache_map_rows(rows);
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
    if (cache->rows != NULL)
        (void)munmap(cache->rows, cache->count * sizeof *cache->rows);
    free(cache);
}

static struct row *cache_row(const struct sk_token_cache *cache)
{
    uint64_t n;
    memcpy(&n, cache->digest, sizeof n);
    return &cache->rows[n & (cache->count - 1)];
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

// ---- checking ----

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
    const struct revoked *revoked; // held
    uint64_t revoked_version;
    unsigned reader;
    struct sk_jwt_expected expected;
    int64_t leeway_s;
    struct sk_token_cache *cache; // owned; NULL: none
    struct known_header headers[HEADERS_MAX];
    size_t next_header; // where the next one goes
    struct sk_metrics *metrics;
};

struct sk_user_tokens *sk_user_tokens_open(const struct sk_identity_options *options, struct sk_token_ring *ring,
                                           unsigned reader, struct sk_metrics *metrics)
{
    bool caches = options->token_cache > 0;
    struct sk_token_cache *cache = caches ? sk_token_cache_open((size_t)options->token_cache) : NULL;
    struct sk_user_tokens *users = calloc(1, sizeof *users);
    if (users == NULL || (caches && cache == NULL)) {
        sk_token_cache_close(cache);
        free(users);
        return NULL;
    }
    users->ring = ring;
    users->reader = reader;
    users->expected = (struct sk_jwt_expected){options->token_issuer, options->token_audience, options->token_user,
                                               options->token_lifetime_s, ring->id_keys};
    users->leeway_s = options->token_leeway_s;
    users->cache = cache;
    users->metrics = metrics;
    users->keys = sk_editions_take(ring->keys, &users->version);
    users->revoked = sk_editions_take(ring->revoked, &users->revoked_version);
    return users;
}

void sk_user_tokens_close(struct sk_user_tokens *users)
{
    if (users == NULL)
        return;
    sk_editions_give_back(users->ring->keys, users->keys);
    sk_editions_give_back(users->ring->revoked, users->revoked);
    sk_token_cache_close(users->cache);
    free(users);
}

void sk_user_tokens_turn(struct sk_user_tokens *users)
{
    struct sk_token_ring *ring = users->ring;
    if (sk_editions_version(ring->keys) != users->version) {
        memset(users->headers, 0, sizeof users->headers); // their keys are of the old set
        sk_editions_give_back(ring->keys, users->keys);
        users->keys = sk_editions_take(ring->keys, &users->version);
    }
    if (sk_editions_version(ring->revoked) != users->revoked_version) {
        sk_editions_give_back(ring->revoked, users->revoked);
        users->revoked = sk_editions_take(ring->revoked, &users->revoked_version);
    }
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
    const char *algorithm = sk_jws_names(sk_jws_algorithm((*out)->jws))->alg;
    return strcmp(header.algorithm, algorithm) == 0 ? SK_JWT_GOOD : SK_JWT_ALGORITHM;
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
    bool keep = users->cache != NULL && sk_jws_algorithm(key->jws) != SK_JWS_HS256;
    const struct sk_jwt_claims *known = keep ? sk_token_cache_find(users->cache, jwt.text, jwt.len, key->number) : NULL;
    if (known != NULL)
        *out = *known;
    else
        result = users_verify(users, &jwt, key, out);
    if (result == SK_JWT_GOOD)
        result = sk_jwt_check_times(out, users->leeway_s, now_s);
    if (result != SK_JWT_GOOD)
        return result;
    if (revoked_has(users->revoked, out))
        return SK_JWT_REVOKED;
    if (users->ring->revoked_path != NULL && !out->revocable)
        return SK_JWT_NOT_REVOCABLE;
    if (keep && known == NULL)
        sk_token_cache_put(users->cache, key->number, out);
    if (new_header)
        users_keep_header(users, &jwt, key);
    return SK_JWT_GOOD;
}

enum sk_jwt_result sk_user_tokens_check(struct sk_user_tokens *users, const char *text, int64_t now_s,
                                        char id[SK_USER_SIZE])
{
    struct sk_jwt_claims claims;
    sk_user_tokens_turn(users); // reject tokens of keys that were removed, and those that were revoked
    enum sk_jwt_result result = users_check(users, text, now_s, &claims);
    if (result == SK_JWT_GOOD)
        memcpy(id, claims.user, sizeof claims.user);
    sk_metrics_add(users->metrics, result == SK_JWT_GOOD ? SK_METRIC_TOKENS_TAKEN : SK_METRIC_TOKENS_REFUSED, 1);
    return result;
}
