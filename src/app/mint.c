#include "commands.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base64url.h"
#include "buf.h"
#include "clock.h"
#include "log.h"
#include "text.h"

enum { DEFAULT_SECONDS = 3600 };

static bool mint_put_part(struct sk_buf *token, json_t *part)
{
    char *json = json_dumps(part, JSON_COMPACT);
    size_t len = json == NULL ? 0 : strlen(json);
    char *text = json == NULL ? NULL : calloc(1, SK_BASE64URL_CHARS(len) + 1);
    if (text != NULL)
        sk_buf_add(token, text, sk_base64url_put((const unsigned char *)json, len, text));
    bool done = text != NULL;
    free(text);
    free(json);
    return done;
}

char *sk_mint(const struct sk_token_key *key, const struct sk_mint *mint)
{
    struct sk_buf token = {0};
    unsigned char signature[SK_JWS_SIGNATURE_MAX];
    char text[SK_BASE64URL_CHARS(SK_JWS_SIGNATURE_MAX)];
    json_t *header =
        json_pack("{s:s,s:s,s:s}", "alg", sk_jws_names(sk_jws_algorithm(key->jws))->alg, "typ", "JWT", "kid", key->kid);
    // With `sub` in any case: where tokens can be revoked, each must have a claim that a line can name.
    json_t *claims =
        json_pack("{s:s,s:s,s:s,s:s,s:I,s:I}", "iss", mint->issuer, "aud", mint->audience, "sub", mint->user,
                  mint->claim, mint->user, "iat", (json_int_t)mint->now_s, "exp", (json_int_t)mint->exp_s);
    bool done = mint_put_part(&token, header);
    sk_buf_puts(&token, ".");
    done = done && mint_put_part(&token, claims);
    json_decref(header);
    json_decref(claims);
    size_t len = done && !token.failed ? sk_jws_sign(key->jws, token.data, token.len, signature) : 0;
    sk_buf_puts(&token, ".");
    sk_buf_add(&token, text, sk_base64url_put(signature, len, text));
    if (len > 0 && !token.failed)
        return token.data;
    sk_buf_free(&token);
    return NULL;
}

enum sk_status sk_mint_run(const struct sk_config *config, FILE *out, FILE *err)
{
    const char *user = config->words[0], *word = config->words[1];
    char why[SK_TOKEN_KEYS_WRONG_SIZE];
    uint64_t seconds = DEFAULT_SECONDS;
    if (!sk_config_has_tokens(config, "token", err))
        return SK_FAIL;
    if (!sk_text_user(user)) {
        (void)fprintf(err, "seckill: USER is not 1 to 64 of A-Za-z0-9_.-\n");
        return SK_FAIL;
    }
    if (word != NULL && (!sk_text_number(word, SK_MINT_SECONDS_MAX, &seconds) || seconds == 0)) {
        (void)fprintf(err, "seckill: SECONDS is not a number from 1 to 31536000\n");
        return SK_FAIL;
    }
    struct sk_token_keys *keys = sk_token_keys_load(config->identity.token_keys, 1, NULL, why);
    size_t i = 0, count = keys == NULL ? 0 : keys->count;
    while (i < count && !sk_jws_can_sign(keys->all[i].jws))
        i++;
    if (i == count) {
        (void)fprintf(err, "seckill: SECKILL_TOKEN_KEYS: %s\n", keys == NULL ? why : "no key can sign");
        sk_token_keys_free(keys);
        return SK_FAIL;
    }
    int64_t now_s = (int64_t)(sk_wall_ms() / 1000);
    const struct sk_mint mint = {.issuer = config->identity.token_issuer,
                                 .audience = config->identity.token_audience,
                                 .claim = config->identity.token_user,
                                 .user = user,
                                 .now_s = now_s,
                                 .exp_s = now_s + (int64_t)seconds};
    char *token = sk_mint(&keys->all[i], &mint);
    if (token == NULL)
        (void)fprintf(err, "seckill: out of memory\n");
    bool done = token != NULL && fprintf(out, "%s\n", token) > 0 && fflush(out) == 0;
    free(token);
    sk_token_keys_free(keys);
    return done ? SK_OK : SK_FAIL;
}

// A longer text than any token keeps its length, so that it is refused as too long.
enum sk_status sk_check_token_run(const struct sk_config *config, FILE *in, FILE *out, FILE *err)
{
    char token[SK_JWT_MAX_BYTES + 2], user[SK_USER_SIZE];
    if (!sk_config_has_tokens(config, "check-token", err))
        return SK_FAIL;
    size_t len = fread(token, 1, sizeof token - 1, in);
    while (len > 0 && strchr(" \r\n", token[len - 1]) != NULL)
        len--;
    token[len] = '\0';
    sk_log_set_level(SK_LOG_WARN); // a start reports how many keys there are
    struct sk_token_ring *ring = sk_token_ring_open(&config->identity, 1);
    struct sk_user_tokens *users = ring == NULL ? NULL : sk_user_tokens_open(&config->identity, ring, 0, NULL);
    enum sk_jwt_result result = SK_JWT_NO_MEM;
    if (users != NULL) {
        result = sk_user_tokens_check(users, token, (int64_t)(sk_wall_ms() / 1000), user);
        if (result == SK_JWT_GOOD)
            (void)fprintf(out, "good: the user is %s\n", user);
        else
            (void)fprintf(out, "refused: %s\n", sk_jwt_reason(result));
    }
    sk_user_tokens_close(users);
    sk_token_ring_close(ring);
    return result == SK_JWT_GOOD && fflush(out) == 0 ? SK_OK : SK_FAIL;
}

enum sk_status sk_keys_run(const struct sk_config *config, FILE *out, FILE *err)
{
    char wrong[SK_TOKEN_KEYS_WRONG_SIZE];
    struct sk_token_keys *keys = sk_token_keys_load(config->words[0], 1, NULL, wrong);
    if (keys == NULL) {
        (void)fprintf(err, "seckill: %s: %s\n", config->words[0], wrong);
        return SK_FAIL;
    }
    for (size_t i = 0; i < keys->count; i++) {
        const struct sk_token_key *key = &keys->all[i];
        (void)fprintf(out, "%s %s\n", key->kid, sk_jws_names(sk_jws_algorithm(key->jws))->alg);
    }
    for (size_t i = 0; i < keys->unused_count; i++) {
        struct sk_token_key_unused unused = keys->unused[i];
        (void)fprintf(out, "keys[%zu] is not used: %s\n", unused.place, unused.reason);
    }
    sk_token_keys_free(keys);
    return fflush(out) == 0 ? SK_OK : SK_FAIL;
}
