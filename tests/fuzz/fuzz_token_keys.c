// The file with the keys of users' tokens. Accepted keys have a valid key id each, and reading the file again gives the
// same keys. A rejection repeats nothing of the file.
#include "fuzz.h"
#include "user_tokens.h"

// A rejection has a place, which is only a number, and a fixed text: nothing of the file.
static void must_be_a_refusal(const char *wrong)
{
    static const char *const places[] = {"line ", "keys["};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (strncmp(wrong, places[i], strlen(places[i])) == 0) {
            wrong += strlen(places[i]);
            wrong += strspn(wrong, "0123456789]");
            MUST(strncmp(wrong, ": ", 2) == 0);
            wrong += 2;
        }
    }
    MUST(strlen(wrong) > 10 &&
         wrong[strspn(wrong, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ,;-:.`()[]")] == '\0');
}

// OpenSSL tries a modulus with random numbers: one that is no product of two large primes may pass only sometimes.
static bool has_rsa(const struct sk_token_keys *keys)
{
    for (size_t i = 0; keys != NULL && i < keys->count; i++) {
        if (sk_jws_algorithm(keys->all[i].jws) == SK_JWS_RS256)
            return true;
    }
    return false;
}

static bool are_same(const struct sk_token_keys *keys, const struct sk_token_keys *again)
{
    bool same = again != NULL && again->count == keys->count;
    for (size_t i = 0; same && i < keys->count; i++) {
        const struct sk_token_key *key = sk_token_keys_find(again, keys->all[i].kid);
        same = key != NULL && sk_jws_same(key->jws, keys->all[i].jws);
    }
    return same;
}

static void must_be_keys(const struct sk_token_keys *keys, const struct sk_token_keys *again)
{
    MUST(keys->count >= 1 && keys->count <= SK_TOKEN_KEYS_MAX);
    MUST(keys->unused_count < SK_TOKEN_KEYS_MAX);
    MUST(again != NULL && again->count == keys->count);
    for (size_t i = 0; i < keys->count; i++) {
        const struct sk_token_key *key = &keys->all[i], *same = sk_token_keys_find(again, key->kid);
        unsigned char signature[SK_JWS_SIGNATURE_MAX];
        size_t kid_len = strlen(key->kid);
        MUST(kid_len >= 1 && kid_len <= SK_JWT_KID_MAX && sk_token_keys_find(keys, key->kid) == key);
        MUST(same != NULL && same->number == key->number && sk_jws_same(same->jws, key->jws));
        size_t len = sk_jws_sign(key->jws, "x", 1, signature);
        MUST((len > 0) == sk_jws_can_sign(key->jws));
        MUST(len == 0 || sk_jws_verify(key->jws, 0, "x", 1, (struct sk_jws_bytes){signature, len}) == SK_JWS_GOOD);
        signature[0] ^= 1;
        MUST(len == 0 || sk_jws_verify(key->jws, 0, "x", 1, (struct sk_jws_bytes){signature, len}) == SK_JWS_BAD);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char wrong[SK_TOKEN_KEYS_WRONG_SIZE] = "", *text = fuzz_bytes(data, size);
    struct sk_token_keys *keys = sk_token_keys_read(text, size, 1, NULL, wrong);
    if (keys == NULL) {
        must_be_a_refusal(wrong);
    } else {
        struct sk_token_keys *again = sk_token_keys_read(text, size, 1, keys, wrong);
        if (are_same(keys, again) || (!has_rsa(keys) && !has_rsa(again)))
            must_be_keys(keys, again);
        sk_token_keys_free(again);
    }
    sk_token_keys_free(keys);
    free(text);
    return 0;
}
