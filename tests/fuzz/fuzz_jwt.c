// Users' tokens. An input that begins with '{' is a header, a line break and claims. The target signs it with the key
// that the header names, if any; jansson must then agree on every token accepted. Any other input is a token from a
// client and must be rejected, since nobody can sign without a key.
#include <jansson.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../harness/key_texts.h"
#include "base64url.h"
#include "buf.h"
#include "fuzz.h"
#include "text.h"
#include "user_tokens.h"

#define KEYS                                                                                                       \
    "{\"keys\":[" JWK_OCT("a", SECRET_A) ",{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"ed\",\"x\":\"" ED_PUBLIC \
                                         "\",\"d\":\"" ED_PRIVATE "\"},"                                           \
                                         "{\"kty\":\"RSA\",\"kid\":\"rs\",\"n\":\"" RSA_N "\",\"e\":\"" RSA_E      \
                                         "\",\"d\":\"" RSA_PRIVATE "\"},"                                          \
                                         "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"es\",\"x\":\"" EC_X          \
                                         "\",\"y\":\"" EC_Y "\",\"d\":\"" EC_PRIVATE "\"}]}"

enum { NOW_S = 1000, LEEWAY_S = 30, PATH_SIZE = 40 };

static char issuer[] = "i", audience[] = "shop", sub[] = "sub", path[PATH_SIZE];
static struct sk_token_ring *ring;
static struct sk_user_tokens *tokens;
static const struct sk_token_keys *keys;

static void open_once(void)
{
    uint64_t version;
    const struct sk_identity_options options = {.token_keys = path,
                                                .token_issuer = issuer,
                                                .token_audience = audience,
                                                .token_user = sub,
                                                .token_leeway_s = LEEWAY_S,
                                                .token_cache = 8};
    if (ring != NULL)
        return;
    int fd = memfd_create("keys", MFD_CLOEXEC);
    MUST(fd >= 0 && write(fd, KEYS, sizeof KEYS - 1) == sizeof KEYS - 1);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ring = sk_token_ring_open(&options, 1);
    MUST(ring != NULL);
    tokens = sk_user_tokens_open(&options, ring, 0, NULL);
    keys = sk_editions_take(sk_token_ring_keys(ring), &version);
    MUST(tokens != NULL);
    (void)close(fd);
}

static void put_part(struct sk_buf *token, const void *bytes, size_t len)
{
    char *text = malloc(SK_BASE64URL_CHARS(len) + 1);
    MUST(text != NULL);
    sk_buf_add(token, text, sk_base64url_put(bytes, len, text));
    free(text);
}

static const struct sk_token_key *key_of(const char *header, size_t len)
{
    json_t *document = json_loadb(header, len, JSON_REJECT_DUPLICATES, NULL);
    const char *kid = json_string_value(json_object_get(document, "kid"));
    const struct sk_token_key *key = kid == NULL ? NULL : sk_token_keys_find(keys, kid);
    json_decref(document);
    return key != NULL ? key : &keys->all[0];
}

static bool is_for_us(const json_t *aud)
{
    bool found = json_is_string(aud) && strcmp(json_string_value(aud), audience) == 0;
    for (size_t i = 0; i < json_array_size(aud); i++) {
        const json_t *item = json_array_get(aud, i);
        MUST(json_is_string(item));
        found = found || strcmp(json_string_value(item), audience) == 0;
    }
    return found;
}

static void must_be_good(const char *header, size_t header_len, const char *claims, size_t claims_len, const char *user)
{
    json_t *head = json_loadb(header, header_len, JSON_REJECT_DUPLICATES, NULL);
    json_t *body = json_loadb(claims, claims_len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *exp = json_object_get(body, "exp"), *nbf = json_object_get(body, "nbf");
    const char *kid = json_string_value(json_object_get(head, "kid"));
    const char *alg = json_string_value(json_object_get(head, "alg"));
    MUST(json_is_object(head) && json_is_object(body) && kid != NULL && alg != NULL);
    const struct sk_token_key *key = sk_token_keys_find(keys, kid);
    MUST(key != NULL && strcmp(alg, sk_jws_names(sk_jws_algorithm(key->jws))->alg) == 0);
    MUST(json_object_get(head, "crit") == NULL);
    MUST(json_is_number(exp) && json_number_value(exp) + LEEWAY_S > NOW_S);
    MUST(nbf == NULL || (json_is_number(nbf) && json_number_value(nbf) - LEEWAY_S <= NOW_S));
    MUST(strcmp(json_string_value(json_object_get(body, "iss")), issuer) == 0);
    MUST(is_for_us(json_object_get(body, "aud")));
    MUST(strcmp(json_string_value(json_object_get(body, "sub")), user) == 0 && sk_text_user(user));
    json_decref(head);
    json_decref(body);
}

static void try_signed(const char *text, size_t size)
{
    unsigned char signature[SK_JWS_SIGNATURE_MAX];
    char user[SK_USER_SIZE];
    struct sk_buf token = {0};
    const char *end = memchr(text, '\n', size);
    size_t header_len = end == NULL ? size : (size_t)(end - text), from = end == NULL ? size : header_len + 1;
    put_part(&token, text, header_len);
    sk_buf_puts(&token, ".");
    put_part(&token, text + from, size - from);
    size_t len = sk_jws_sign(key_of(text, header_len)->jws, token.data, token.len, signature);
    MUST(len > 0);
    sk_buf_puts(&token, ".");
    put_part(&token, signature, len);
    MUST(!token.failed);
    if (sk_user_tokens_check(tokens, token.data, NOW_S, user) == SK_JWT_GOOD) {
        must_be_good(text, header_len, text + from, size - from, user);
        MUST(sk_user_tokens_check(tokens, token.data, NOW_S, user) == SK_JWT_GOOD); // from the cache
        token.data[token.len - 2] = token.data[token.len - 2] == 'A' ? 'B' : 'A';
        MUST(sk_user_tokens_check(tokens, token.data, NOW_S, user) == SK_JWT_SIGNATURE);
    }
    sk_buf_free(&token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char user[SK_USER_SIZE];
    open_once();
    if (size > 0 && data[0] == '{') {
        char *text = fuzz_bytes(data, size);
        try_signed(text, size);
        free(text);
    } else {
        char *token = fuzz_text(data, size);
        MUST(sk_user_tokens_check(tokens, token, NOW_S, user) != SK_JWT_GOOD);
        free(token);
    }
    return 0;
}
