// Generates the header fields that identify a bound's crowd: one line for each user, all of one length.
//
//   seckill-tokens gateway COUNT                      X-User-Id
//   seckill-tokens KID COUNT KEYS ISSUER AUDIENCE     Authorization, with tokens of this key of the file
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base64url.h"
#include "clock.h"
#include "text.h"
#include "user_tokens.h"

enum { COUNT_MAX = 10000000, PART_SIZE = 512, LIFE_S = 86400 };

static size_t put_part(const char *json, char *out)
{
    return sk_base64url_put((const unsigned char *)json, strlen(json), out);
}

static size_t put_claims(uint64_t number, const char *issuer, const char *audience, int64_t now_s, char *out)
{
    char json[PART_SIZE];
    int n =
        snprintf(json, sizeof json,
                 "{\"iss\":\"%s\",\"aud\":\"%s\",\"sub\":\"u%08" PRIu64 "\",\"iat\":%" PRId64 ",\"exp\":%" PRId64 "}",
                 issuer, audience, number, now_s, now_s + LIFE_S);
    return n > 0 && (size_t)n < sizeof json ? put_part(json, out) : 0;
}

static bool put_tokens(const struct sk_token_key *key, uint64_t count, const char *issuer, const char *audience)
{
    char json[PART_SIZE], text[4 * PART_SIZE];
    unsigned char signature[SK_JWS_SIGNATURE_MAX];
    int64_t now_s = (int64_t)(sk_wall_ms() / 1000);
    (void)snprintf(json, sizeof json, "{\"alg\":\"%s\",\"typ\":\"JWT\",\"kid\":\"%s\"}",
                   sk_jws_names(sk_jws_algorithm(key->jws))->alg, key->kid);
    size_t header_len = put_part(json, text);
    text[header_len++] = '.';
    for (uint64_t i = 0; i < count; i++) {
        size_t claims_len = put_claims(i, issuer, audience, now_s, text + header_len), len = header_len + claims_len;
        size_t made = claims_len == 0 ? 0 : sk_jws_sign(key->jws, text, len, signature);
        if (made == 0)
            return false;
        text[len++] = '.';
        len += sk_base64url_put(signature, made, text + len);
        (void)printf("Authorization: Bearer %.*s\n", (int)len, text);
    }
    return fflush(stdout) == 0;
}

static bool put_users(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        (void)printf("X-User-Id: u%08" PRIu64 "\n", i);
    return fflush(stdout) == 0;
}

static bool put_tokens_of(char **words, uint64_t count)
{
    char wrong[SK_TOKEN_KEYS_WRONG_SIZE];
    struct sk_token_keys *keys = sk_token_keys_load(words[3], 1, NULL, wrong);
    const struct sk_token_key *key = keys == NULL ? NULL : sk_token_keys_find(keys, words[1]);
    bool done = key != NULL && put_tokens(key, count, words[4], words[5]);
    if (!done)
        (void)fprintf(stderr, "seckill-tokens: %s\n", keys == NULL ? wrong : "no such key, or it cannot sign");
    sk_token_keys_free(keys);
    return done;
}

int main(int argc, char **argv)
{
    uint64_t count;
    if (argc == 3 && strcmp(argv[1], "gateway") == 0 && sk_text_number(argv[2], COUNT_MAX, &count))
        return put_users(count) ? EXIT_SUCCESS : EXIT_FAILURE;
    if (argc == 6 && sk_text_number(argv[2], COUNT_MAX, &count))
        return put_tokens_of(argv, count) ? EXIT_SUCCESS : EXIT_FAILURE;
    (void)fprintf(stderr, "usage: seckill-tokens gateway COUNT | KID COUNT KEYS ISSUER AUDIENCE\n");
    return 2;
}
