// Users' tokens, from text to user: each rejection with its reason, key changes during use, the cache, and memory
// failures.
#include "failing_memory.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <unistd.h>

#include "commands.h"
#include "identity.h"
#include "jwt.h"
#include "test.h"
#include "user_tokens.h"

#define HEADER_A    "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"a\"}"
#define HEADER_ED   "{\"alg\":\"EdDSA\",\"typ\":\"JWT\",\"kid\":\"ed\"}"
#define CLAIMS      "{" CLAIMS_REST
#define CLAIMS_REST "\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE "\",\"sub\":\"alice\",\"exp\":2000}"
#define HEADER_RS   "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"rs\"}"
#define HEADER_ES   "{\"alg\":\"ES256\",\"typ\":\"JWT\",\"kid\":\"es\"}"
#define SET                                                                                             \
    JWK_SET(JWK_OCT("a", SECRET_A) "," JWK_OCT("b", SECRET_B) "," JWK_OKP("ed", ED_PUBLIC) "," JWK_RSA( \
        "rs", RSA_N, RSA_E) "," JWK_EC("es", EC_X, EC_Y))
#define LINES "a HS256 " SECRET_A "\nb HS256 " SECRET_B "\ned EdDSA " ED_PUBLIC "\n"

enum { NOW_S = 1000, LEEWAY_S = 30 };

static const struct token_key key_a = {SK_JWS_HS256, {SECRET_A}, NULL}, key_b = {SK_JWS_HS256, {SECRET_B}, NULL},
                              key_ed = {SK_JWS_EDDSA, {ED_PUBLIC}, ED_PRIVATE},
                              key_rs = {SK_JWS_RS256, {RSA_N, RSA_E}, RSA_PRIVATE},
                              key_es = {SK_JWS_ES256, {EC_X, EC_Y}, EC_PRIVATE};
static const struct {
    const struct token_key *key;
    const char *header;
} signers[] = {{&key_a, HEADER_A}, {&key_ed, HEADER_ED}, {&key_rs, HEADER_RS}, {&key_es, HEADER_ES}};
enum { SIGNERS = sizeof signers / sizeof signers[0] };

static char issuer[] = ISSUER, audience[] = AUDIENCE, sub[] = "sub", path[32], revoked_path[40];
static struct sk_identity_options options = {.token_keys = path,
                                             .token_issuer = issuer,
                                             .token_audience = audience,
                                             .token_user = sub,
                                             .token_leeway_s = LEEWAY_S,
                                             .token_cache = 16};
static struct sk_token_ring *ring;
static struct sk_user_tokens *tokens;
static struct sk_metrics metrics;

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "we");
    ck_assert_ptr_nonnull(file);
    (void)fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

static void write_keys(const char *text)
{
    write_file(path, text);
}

// With the options as they are now.
static void open_tokens(void)
{
    sk_user_tokens_close(tokens);
    sk_token_ring_close(ring);
    ring = sk_token_ring_open(&options, 1);
    ck_assert_ptr_nonnull(ring);
    tokens = sk_user_tokens_open(&options, ring, 0, &metrics);
    ck_assert_ptr_nonnull(tokens);
}

static void reload(const char *text)
{
    write_keys(text);
    ck_assert(sk_token_ring_reload(ring));
}

static void setup(void)
{
    (void)snprintf(path, sizeof path, "/tmp/seckill-keys-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    (void)close(fd);
    (void)snprintf(revoked_path, sizeof revoked_path, "%s-revoked", path);
    write_keys(SET);
    open_tokens();
}

static void teardown(void)
{
    sk_user_tokens_close(tokens);
    sk_token_ring_close(ring);
    (void)unlink(path);
    (void)unlink(revoked_path);
}

static enum sk_jwt_result check_at(const char *token, int64_t now_s)
{
    char user[SK_USER_SIZE] = "";
    enum sk_jwt_result result = sk_user_tokens_check(tokens, token, now_s, user);
    ck_assert_str_eq(user, result == SK_JWT_GOOD ? "alice" : "");
    return result;
}

static enum sk_jwt_result check(const struct token_key *key, const char *header, const char *claims)
{
    char *token = token_make(key, header, claims);
    enum sk_jwt_result result = check_at(token, NOW_S);
    free(token);
    return result;
}

TEST(a_good_token_names_its_user)
{
    for (int i = 0; i < SIGNERS; i++)
        ck_assert_int_eq(check(signers[i].key, signers[i].header, CLAIMS), SK_JWT_GOOD);
    ck_assert_int_eq(check(&key_b, "{\"alg\":\"HS256\",\"kid\":\"b\"}", CLAIMS), SK_JWT_GOOD);
}

// Each algorithm's name, with each key: only its own is good. Each key's signature, under each other kid: none is good.
TEST(no_algorithm_passes_for_another)
{
    static const char *const names[] = {"HS256", "EdDSA", "RS256", "ES256", "none",   "None",
                                        "HS512", "RS384", "PS256", "ES384", "Ed25519"};
    static const char *const kids[] = {"a", "ed", "rs", "es"};
    for (int i = 0; i < SIGNERS; i++) {
        for (size_t j = 0; j < sizeof names / sizeof names[0]; j++) {
            char header[80];
            (void)snprintf(header, sizeof header, "{\"alg\":\"%s\",\"kid\":\"%s\"}", names[j], kids[i]);
            enum sk_jwt_result result = check(signers[i].key, header, CLAIMS);
            ck_assert_msg(result == ((size_t)i == j ? SK_JWT_GOOD : SK_JWT_ALGORITHM), "%s: %d", header, (int)result);
        }
        for (int j = 0; j < SIGNERS; j++) {
            enum sk_jwt_result result = check(signers[i].key, signers[j].header, CLAIMS);
            ck_assert_int_eq(result, i == j ? SK_JWT_GOOD : SK_JWT_SIGNATURE);
        }
    }
}

// Which claims are good is test_jwt.c's; here each step of the check refuses once.
TEST(each_refusal_has_its_reason)
{
#define CLAIMS_OF(iss, sub, rest) "{\"iss\":\"" iss "\",\"aud\":\"" AUDIENCE "\",\"sub\":\"" sub "\"," rest "}"
    // A public key as an HS256 secret, under its own key id and another.
    static const struct token_key confused = {SK_JWS_HS256, {ED_PUBLIC}, NULL},
                                  confused_rs = {SK_JWS_HS256, {RSA_N}, NULL};
    static const struct {
        const struct token_key *key;
        const char *header, *claims;
        enum sk_jwt_result result;
    } rows[] = {
        {&key_a, "{\"alg\":\"HS256\",\"kid\":\"c\"}", CLAIMS, SK_JWT_UNKNOWN_KEY},
        {&key_a, "{\"alg\":\"HS256\"}", CLAIMS, SK_JWT_HEADER},
        {&key_a, HEADER_A, CLAIMS_OF("x", "alice", "\"exp\":2000"), SK_JWT_ISSUER},
        {&key_a, HEADER_A, CLAIMS_OF(ISSUER, "", "\"exp\":2000"), SK_JWT_SUBJECT},
        {&key_a, HEADER_A, CLAIMS_OF(ISSUER, "alice", "\"exp\":970"), SK_JWT_EXPIRED},
        {&key_ed, HEADER_ED, CLAIMS_OF(ISSUER, "alice", "\"exp\":2000,\"nbf\":1031"), SK_JWT_EARLY},
        {&key_ed, HEADER_ED, CLAIMS_OF(ISSUER, "alice", "\"exp\":2000,\"nbf\":1030"), SK_JWT_GOOD},
        {&key_a, HEADER_A, "{}", SK_JWT_CLAIMS},
        {&confused, "{\"alg\":\"HS256\",\"kid\":\"ed\"}", CLAIMS, SK_JWT_ALGORITHM},
        {&confused, HEADER_ED, CLAIMS, SK_JWT_SIGNATURE},
        {&confused, HEADER_A, CLAIMS, SK_JWT_SIGNATURE},
        {&confused_rs, "{\"alg\":\"HS256\",\"kid\":\"rs\"}", CLAIMS, SK_JWT_ALGORITHM},
        {&confused_rs, HEADER_RS, CLAIMS, SK_JWT_SIGNATURE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(check(rows[i].key, rows[i].header, rows[i].claims) == rows[i].result, "row %zu", i);
    ck_assert_int_eq(check_at("x", NOW_S), SK_JWT_FORM);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_TOKENS_TAKEN), 1);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_TOKENS_REFUSED), sizeof rows / sizeof rows[0]);
}

TEST(any_byte_that_differs_is_refused)
{
    for (int i = 0; i < SIGNERS; i++) {
        char *token = token_make(signers[i].key, signers[i].header, CLAIMS);
        for (size_t at = 0; token[at] != '\0'; at++) {
            char kept = token[at];
            token[at] = kept == 'A' ? 'B' : 'A';
            ck_assert_int_ne(check_at(token, NOW_S), SK_JWT_GOOD);
            token[at] = kept;
        }
        ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_GOOD);
        free(token);
    }
}

static uint64_t checked(void)
{
    return sk_metrics_read(&metrics, SK_METRIC_SIGNATURES);
}

TEST_EACH(a_public_key_signature_is_checked_once_with_a_cache, 2)
{
    options.token_cache = _i == 0 ? 0 : 16;
    open_tokens();
    for (int i = 0; i < SIGNERS; i++) {
        char *token = token_make(signers[i].key, signers[i].header, CLAIMS);
        uint64_t before = checked();
        for (int j = 0; j < 5; j++)
            ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_GOOD);
        ck_assert_int_eq(check_at(token, 2000 + LEEWAY_S - 1), SK_JWT_GOOD);
        ck_assert_int_eq(check_at(token, 2000 + LEEWAY_S), SK_JWT_EXPIRED);
        ck_assert_uint_eq(checked() - before, _i == 0 || signers[i].key->algorithm == SK_JWS_HS256 ? 7 : 1);
        free(token);
    }
}

TEST(what_is_refused_is_not_kept)
{
    char *token = token_make(&key_ed, HEADER_ED, CLAIMS);
    ck_assert_int_eq(check_at(token, 3000), SK_JWT_EXPIRED);
    ck_assert_int_eq(check_at(token, 3000), SK_JWT_EXPIRED);
    ck_assert_uint_eq(checked(), 2);
    ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_GOOD); // the clock was wrong before
    ck_assert_uint_eq(checked(), 3);
    token[strlen(token) - 4] ^= 1;
    ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_SIGNATURE);
    ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_SIGNATURE);
    ck_assert_uint_eq(checked(), 5);
    free(token);
}

TEST(a_key_that_is_removed_takes_its_tokens_along)
{
    char *token = token_make(&key_ed, HEADER_ED, CLAIMS), *mac = token_make(&key_a, HEADER_A, CLAIMS);
    ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_GOOD);
    ck_assert_int_eq(check_at(mac, NOW_S), SK_JWT_GOOD);
    // With one more key, cached tokens stay cached.
    reload(LINES "c HS256 " SECRET_B);
    ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_GOOD);
    ck_assert_uint_eq(checked(), 2);
    reload("b HS256 " SECRET_B);
    ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_UNKNOWN_KEY);
    ck_assert_int_eq(check_at(mac, NOW_S), SK_JWT_UNKNOWN_KEY);
    ck_assert_uint_eq(sk_editions_count(sk_token_ring_keys(ring)), 1);
    // The same key id with another key, and with another algorithm.
    reload("a HS256 " SECRET_B "\ned EdDSA AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n");
    ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_SIGNATURE);
    ck_assert_int_eq(check_at(mac, NOW_S), SK_JWT_SIGNATURE);
    reload("ed HS256 " SECRET_B);
    ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_ALGORITHM);
    // After a return to the old keys it is checked again.
    reload(LINES);
    uint64_t before = checked();
    ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_GOOD);
    ck_assert_uint_eq(checked(), before + 1);
    free(token);
    free(mac);
}

// Cached or not, a token ends with its line in the file, and is good again without it.
TEST(what_is_revoked_is_refused)
{
    static const struct {
        const char *file;
        enum sk_jwt_result result;
    } rows[] = {
        {"", SK_JWT_GOOD},
        {"jti:one\n", SK_JWT_REVOKED},
        {"sub:alice\r\n", SK_JWT_REVOKED},
        {"# stolen\n\njti:zero\njti:one  \njti:two", SK_JWT_REVOKED},
        {"jti:two\nsub:bob\n", SK_JWT_GOOD},
        {"jti:alice\nsub:one\n", SK_JWT_GOOD}, // the other claim's
        {"jti:One\njti:on\njti:one1\nsub:\xc3\xa4\n", SK_JWT_GOOD},
        {"#jti:one", SK_JWT_GOOD},
    };
    write_file(revoked_path, "");
    options.token_revoked = revoked_path;
    open_tokens();
    for (int i = 0; i < SIGNERS; i++) {
        char *token = token_make(signers[i].key, signers[i].header, "{\"jti\":\"one\"," CLAIMS_REST);
        for (size_t j = 0; j < sizeof rows / sizeof rows[0]; j++) {
            write_file(revoked_path, rows[j].file);
            ck_assert(sk_token_ring_reload(ring));
            ck_assert_msg(check_at(token, NOW_S) == rows[j].result, "row %zu", j);
            ck_assert_int_eq(check(signers[i].key, signers[i].header, CLAIMS), j == 2 ? SK_JWT_REVOKED : SK_JWT_GOOD);
        }
        free(token);
    }
    // Four algorithms, of which one is not cached, and a revoked token is cached only by those that were good before.
    char *token = token_make(&key_rs, HEADER_RS, "{\"jti\":\"one\"," CLAIMS_REST);
    uint64_t before = checked();
    ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_GOOD);
    ck_assert_uint_eq(checked(), before); // still in the cache
    free(token);
}

// With a list of revoked ones, a token is refused if no line can name it: where another claim names the user, it may
// have neither jti nor sub, or such as no line can hold.
TEST(what_cannot_be_revoked_is_refused)
{
#define OF_UID "\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE "\",\"uid\":\"alice\",\"exp\":2000}"
    static const struct {
        const char *claims;
        bool named;
    } rows[] = {
        {"{" OF_UID, false},
        {"{\"sub\":\"\"," OF_UID, false},
        {"{\"sub\":\"two words\"," OF_UID, false},
        {"{\"sub\":\"two words\",\"jti\":\"a\\tb\"," OF_UID, false},
        {"{\"jti\":\"a\\nb\"," OF_UID, false},
        {"{\"sub\":\"s1\"," OF_UID, true},
        {"{\"jti\":\"j1\"," OF_UID, true},
        {"{\"sub\":\"two words\",\"jti\":\"j1\"," OF_UID, true},
        {"{\"sub\":\"s1\",\"jti\":7," OF_UID, false},
        {"{\"sub\":\"s1\",\"jti\":null," OF_UID, false},
        {"{\"sub\":\"s1\",\"jti\":[\"one\"]," OF_UID, false},
    };
    static char uid[] = "uid";
    options.token_user = uid;
    for (int with_list = 0; with_list <= 1; with_list++) {
        write_file(revoked_path, "");
        options.token_revoked = with_list ? revoked_path : NULL;
        open_tokens();
        for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) // each twice: it is not cached either
            ck_assert_msg(check(&key_rs, HEADER_RS, rows[i / 2].claims) ==
                              (with_list && !rows[i / 2].named ? SK_JWT_NOT_REVOCABLE : SK_JWT_GOOD),
                          "row %zu", i / 2);
    }
    ck_assert_int_eq(check(&key_a, HEADER_A, CLAIMS), SK_JWT_CLAIMS); // without the claim that is set
    options.token_user = sub;
}

TEST(a_list_that_is_wrong_changes_nothing)
{
    static const char *const wrong[] = {"jti:two\nalice", "jti:",     "sub: \n",      "JTI:one",
                                        "iss:x",          " jti:one", "sub: alice\n", "sub:alice # stolen",
                                        "jti:o\tne"};
    char *token = token_make(&key_es, HEADER_ES, "{\"jti\":\"one\"," CLAIMS_REST);
    options.token_revoked = revoked_path;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_file(revoked_path, wrong[i]);
        ck_assert_ptr_null(sk_token_ring_open(&options, 1)); // a start
    }
    write_file(revoked_path, "jti:one");
    open_tokens();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_file(revoked_path, wrong[i]);
        ck_assert(!sk_token_ring_reload(ring));
        ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_REVOKED);
    }
    (void)unlink(revoked_path);
    ck_assert(!sk_token_ring_reload(ring));
    ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_REVOKED);
    // Each file counts alone.
    write_keys("a HS256 short");
    write_file(revoked_path, "jti:two");
    ck_assert(!sk_token_ring_reload(ring));
    ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_GOOD);
    free(token);
}

// As many as fit into the file, of tokens alone and of users alone.
TEST_EACH(many_may_be_revoked, 2)
{
    enum { MANY = 100000, STEP = 997 };
    const char *name = _i == 0 ? "jti" : "sub";
    options.token_revoked = revoked_path;
    FILE *file = fopen(revoked_path, "we");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < MANY; i++)
        (void)fprintf(file, "%s:%08d-%s\n", name, i, "0000-0000-0000");
    ck_assert_int_eq(fclose(file), 0);
    open_tokens();
    for (int i = 0; i < (_i == 0 ? 2 * MANY : MANY); i += STEP) {
        char claims[256];
        (void)snprintf(claims, sizeof claims,
                       "{\"%s\":\"%08d-%s\",\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE "\",\"exp\":2000%s}", name, i,
                       "0000-0000-0000", _i == 0 ? ",\"sub\":\"alice\"" : "");
        ck_assert_int_eq(check(&key_a, HEADER_A, claims), i < MANY ? SK_JWT_REVOKED : SK_JWT_GOOD);
    }
    ck_assert_int_eq(check(&key_a, HEADER_A, "{\"jti\":\"other\"," CLAIMS_REST), SK_JWT_GOOD);
    ck_assert_int_eq(truncate(revoked_path, 1 << 22), 0);
    ck_assert(!sk_token_ring_reload(ring));
}

TEST(a_lifetime_has_a_most)
{
    options.token_lifetime_s = 1000;
    open_tokens();
    for (int again = 0; again <= 1; again++) {
        ck_assert_int_eq(check(&key_rs, HEADER_RS, "{\"iat\":1000," CLAIMS_REST), SK_JWT_GOOD);
        ck_assert_int_eq(check(&key_rs, HEADER_RS, "{\"iat\":999," CLAIMS_REST), SK_JWT_LIFETIME);
        ck_assert_int_eq(check(&key_rs, HEADER_RS, "{\"iat\":1031," CLAIMS_REST), SK_JWT_EARLY);
    }
}

// More headers than a reactor caches, in turn, each formatted differently, and one too long to be cached.
TEST(headers_may_change_all_the_time)
{
    static const char *const headers[] = {
        "{\"alg\":\"HS256\",\"kid\":\"a\"}",
        "{\"kid\":\"a\",\"alg\":\"HS256\"}",
        "{\"alg\":\"HS256\",\"kid\":\"a\" }",
        "{\"alg\":\"HS256\", \"kid\":\"a\"}",
        "{\"alg\": \"HS256\",\"kid\":\"a\"}",
        HEADER_A,
        "{\"alg\":\"HS256\",\"kid\":\"a\",\"x5u\":\"https://login.example/"
        "0123456789012345678901234567890123456789012345678901234567890123456789"
        "0123456789012345678901234567890123456789012345678901234567890123456789"
        "0123456789012345678901234567890123456789012345678901234567890123456789\"}",
    };
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
            for (int again = 0; again < 2; again++) {
                ck_assert_int_eq(check(&key_a, headers[i], CLAIMS), SK_JWT_GOOD);
                ck_assert_int_eq(check(&key_b, headers[i], CLAIMS), SK_JWT_SIGNATURE);
                ck_assert_int_eq(check(&key_b, "{\"alg\":\"HS256\",\"kid\":\"b\"}", CLAIMS), SK_JWT_GOOD);
            }
        }
    }
}

// An idle reactor releases replaced keys.
TEST(a_turn_lets_go_of_old_keys)
{
    reload("b HS256 " SECRET_B);
    ck_assert_uint_eq(sk_editions_count(sk_token_ring_keys(ring)), 2);
    sk_user_tokens_turn(tokens);
    ck_assert_uint_eq(sk_editions_count(sk_token_ring_keys(ring)), 1);
}

// The tokens fill a quarter of the cache: each is checked once, however often it comes. With only four places a row
// some would keep evicting each other.
TEST(tokens_that_fit_are_checked_once)
{
    enum { TOKENS = 1000 };
    static char *all[TOKENS];
    sk_user_tokens_close(tokens);
    options.token_cache = 4 * TOKENS;
    tokens = sk_user_tokens_open(&options, ring, 0, &metrics);
    ck_assert_ptr_nonnull(tokens);
    for (int i = 0; i < TOKENS; i++) {
        char claims[256];
        (void)snprintf(claims, sizeof claims, "{\"jti\":%d,%s", i, CLAIMS_REST);
        all[i] = token_make(&key_ed, HEADER_ED, claims);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < TOKENS; i++)
            ck_assert_int_eq(check_at(all[i], NOW_S), SK_JWT_GOOD);
    }
    ck_assert_uint_eq(checked(), TOKENS);
    for (int i = 0; i < TOKENS; i++)
        free(all[i]);
}

TEST(what_is_minted_is_good)
{
    static const char *const files[] = {"a HS256 " SECRET_A, "ed EdDSA " ED_PUBLIC " " ED_PRIVATE,
                                        "{\"keys\":[{\"kty\":\"RSA\",\"kid\":\"rs\",\"n\":\"" RSA_N
                                        "\",\"e\":\"AQAB\",\"d\":\"" RSA_PRIVATE "\"}]}",
                                        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"es\",\"x\":\"" EC_X
                                        "\",\"y\":\"" EC_Y "\",\"d\":\"" EC_PRIVATE "\"}]}"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct sk_mint minted = {ISSUER, AUDIENCE, "sub", "alice", NOW_S, NOW_S + 60};
        reload(files[i]);
        const struct sk_token_keys *keys = sk_editions_current(sk_token_ring_keys(ring));
        char *token = sk_mint(&keys->all[0], &minted);
        ck_assert_ptr_nonnull(token);
        ck_assert_int_eq(check_at(token, NOW_S), SK_JWT_GOOD);
        ck_assert_int_eq(check_at(token, NOW_S + 60 + LEEWAY_S), SK_JWT_EXPIRED);
        free(token);
    }
}

// ---- memory ----

// Lets each allocation of a step fail in turn. Returns their number.
static int failures_of(int *left, bool *has_failed, bool (*step)(void))
{
    int failed = 0;
    for (bool more = true; more; failed += more) {
        *left = failed + 1;
        *has_failed = false;
        bool done = step();
        *left = 0;
        more = *has_failed;
        ck_assert(done != more);
    }
    return failed;
}

static bool open_others(void)
{
    struct sk_token_ring *other = sk_token_ring_open(&options, 2);
    struct sk_user_tokens *user = other == NULL ? NULL : sk_user_tokens_open(&options, other, 1, NULL);
    sk_user_tokens_close(user);
    sk_token_ring_close(other);
    return user != NULL;
}

TEST(no_memory_to_open)
{
    write_file(revoked_path, "jti:one\nsub:bob\n");
    options.token_revoked = revoked_path;
    ck_assert_int_ge(failures_of(&allocations_left, &memory_has_failed, open_others), 6);
}

static bool reload_others(void)
{
    int left = allocations_left;
    allocations_left = 0;
    reload(SET);
    uint64_t before = sk_editions_version(sk_token_ring_keys(ring));
    write_keys("b HS256 " SECRET_B);
    allocations_left = left;
    bool done = sk_token_ring_reload(ring);
    allocations_left = 0;
    bool published = sk_editions_version(sk_token_ring_keys(ring)) != before; // if it failed for the other file
    ck_assert(published || !done);
    ck_assert_int_eq(check(&key_a, HEADER_A, CLAIMS), published ? SK_JWT_UNKNOWN_KEY : SK_JWT_GOOD);
    return done;
}

TEST(no_memory_to_reload)
{
    ck_assert_int_ge(failures_of(&allocations_left, &memory_has_failed, reload_others), 5);
}

static bool mint(void)
{
    const struct sk_token_keys *keys = sk_editions_current(sk_token_ring_keys(ring));
    struct sk_mint minted = {ISSUER, AUDIENCE, "sub", "alice", NOW_S, NOW_S + 60};
    char *token = sk_mint(&keys->all[0], &minted);
    free(token);
    return token != NULL;
}

TEST(no_memory_to_mint)
{
    ck_assert_int_ge(failures_of(&allocations_left, &memory_has_failed, mint), 3);
}

// Our code allocates nothing to check a token.
TEST(a_check_needs_no_memory)
{
    char *token = token_make(&key_a, HEADER_A, CLAIMS), *signed_token = token_make(&key_ed, HEADER_ED, CLAIMS);
    allocations_left = 1;
    enum sk_jwt_result first = check_at(token, NOW_S), second = check_at(signed_token, NOW_S);
    allocations_left = 0;
    ck_assert_int_eq(first, SK_JWT_GOOD);
    ck_assert_int_eq(second, SK_JWT_GOOD);
    ck_assert(!memory_has_failed);
    free(token);
    free(signed_token);
}

// ---- memory of the libraries ----

static int library_allocations_left; // the allocation that makes it 0 fails; 0: none does
static bool library_memory_has_failed;

static bool library_memory_fails(void)
{
    if (library_allocations_left == 0 || --library_allocations_left > 0)
        return false;
    library_memory_has_failed = true;
    return true;
}

// For jansson, through jwt.c; names required by the linker.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void *__wrap_reallocarray(void *old, size_t n, size_t size);

void *__wrap_reallocarray(void *old, size_t n, size_t size)
{
    ck_assert_ptr_null(old);
    return library_memory_fails() ? NULL : calloc(n, size);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

static void *crypto_malloc(size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return library_memory_fails() ? NULL : malloc(size);
}

static void *crypto_realloc(void *old, size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return library_memory_fails() ? NULL : realloc(old, size);
}

static void crypto_free(void *old, const char *file, int line)
{
    (void)file;
    (void)line;
    free(old);
}

static char *all_tokens[SIGNERS];

static bool check_unusual(void)
{
    enum sk_jwt_result result = check_at(all_tokens[0], NOW_S);
    ck_assert_msg(result == SK_JWT_GOOD || result == SK_JWT_NO_MEM, "%s", sk_jwt_reason(result));
    return result == SK_JWT_GOOD;
}

// jansson parses unusual forms, and does not always report a lack of memory: without jwt.c the 18th allocation
// would cut the issuer short, and a later one the user.
TEST(no_memory_for_jansson)
{
    all_tokens[0] = token_make(&key_a, "{\"alg\":\"HS256\",\"kid\":\"\\u0061\"}",
                               "{\"iss\":\"" ISSUER "\",\"aud\":[\"x\",\"" AUDIENCE
                               "\"],\"sub\":\"\\u0061lice\",\"exp\":2e3,\"more\":{\"a\":[{}]}}");
    sk_json_memory_watch();
    ck_assert_int_ge(failures_of(&library_allocations_left, &library_memory_has_failed, check_unusual), 20);
    free(all_tokens[0]);
}

// OpenSSL does without some of its memory, so a step may succeed all the same.
static bool may_succeed(bool done)
{
    return done && !library_memory_has_failed;
}

static bool open_and_check(void)
{
    struct sk_token_ring *other = sk_token_ring_open(&options, 1);
    struct sk_user_tokens *user = other == NULL ? NULL : sk_user_tokens_open(&options, other, 0, NULL);
    char name[SK_USER_SIZE];
    bool done = user != NULL;
    for (int i = 0; i < SIGNERS; i++)
        done = done && sk_user_tokens_check(user, all_tokens[i], NOW_S, name) == SK_JWT_GOOD;
    sk_user_tokens_close(user);
    sk_token_ring_close(other);
    return may_succeed(done);
}

static bool check_again(void)
{
    bool done = true;
    for (int i = 0; i < SIGNERS; i++) {
        enum sk_jwt_result result = check_at(all_tokens[i], NOW_S);
        ck_assert(result == SK_JWT_GOOD || result == SK_JWT_NO_MEM || (i > 0 && result == SK_JWT_SIGNATURE));
        done = done && result == SK_JWT_GOOD;
    }
    return may_succeed(done);
}

// When OpenSSL's allocations fail, no invalid token is accepted, and nothing leaks.
TEST(no_memory_for_openssl)
{
    sk_user_tokens_close(tokens);
    options.token_cache = 0;
    tokens = sk_user_tokens_open(&options, ring, 0, NULL);
    for (int i = 0; i < SIGNERS; i++)
        all_tokens[i] = token_make(signers[i].key, signers[i].header, CLAIMS);
    ck_assert_int_ge(failures_of(&library_allocations_left, &library_memory_has_failed, open_and_check), 10);
    ck_assert_int_ge(failures_of(&library_allocations_left, &library_memory_has_failed, check_again), 2);
    for (int i = 0; i < SIGNERS; i++)
        free(all_tokens[i]);
}

static void begin(void)
{
    ck_assert_int_eq(CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc, crypto_free), 1);
}

SUITE(.begin = begin, .setup = setup, .teardown = teardown);
