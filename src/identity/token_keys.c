// A file with any error is rejected as a whole: an operator who believes that a key is gone, or has another algorithm,
// must not be mistaken.
#include "token_keys.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "editions.h"
#include "log.h"
#include "text.h"

enum { FILE_MAX_BYTES = 65536 };

struct sk_token_keys {
    size_t count;
    uint64_t next_number;
    struct sk_token_key all[SK_TOKEN_KEYS_MAX];
};

struct word {
    const char *at;
    size_t len;
};

// The description of a key, in either form of the file.
struct keys_entry {
    struct word kid, algorithm, key, private_key; // private_key of length 0: none
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
static const char *keys_read_line(struct reading *reading, struct word line);
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

static struct word keys_member(const json_t *jwk, const char *name)
{
    const json_t *value = json_object_get(jwk, name);
    return (struct word){json_string_value(value), json_string_length(value)};
}

static bool keys_is(struct word word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.at, text, word.len) == 0;
}

static const char *keys_read_jwk(struct reading *reading, const json_t *jwk)
{
    struct word type = keys_member(jwk, "kty"), use = keys_member(jwk, "use");
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
    unsigned number = 0;
    for (size_t from = 0; reading->wrong == NULL && from < len;) {
        const char *end = memchr(text + from, '\n', len - from);
        struct word line = {text + from, end == NULL ? len - from : (size_t)(end - text) - from};
        from += line.len + 1;
        number++;
        if (line.len > 0 && line.at[line.len - 1] == '\r')
            line.len--;
        reading->wrong = keys_read_line(reading, line);
    }
    if (reading->wrong != NULL)
        (void)snprintf(place, SK_TOKEN_KEYS_WRONG_SIZE, "line %u: ", number);
}

// Takes the next word off the line; length 0: there is none.
static struct word keys_next_word(struct word *line)
{
    struct word word;
    for (; line->len > 0 && (*line->at == ' ' || *line->at == '\t'); line->len--)
        line->at++;
    for (word = (struct word){line->at, 0}; line->len > 0 && *line->at != ' ' && *line->at != '\t'; line->len--) {
        line->at++;
        word.len++;
    }
    return word;
}

static const char *keys_read_line(struct reading *reading, struct word line)
{
    struct keys_entry entry;
    entry.kid = keys_next_word(&line);
    entry.algorithm = keys_next_word(&line);
    entry.key = keys_next_word(&line);
    entry.private_key = keys_next_word(&line);
    if (entry.kid.len == 0 || *entry.kid.at == '#')
        return NULL;
    if (entry.key.len == 0 || keys_next_word(&line).len > 0)
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

// ---- look-up ----

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
