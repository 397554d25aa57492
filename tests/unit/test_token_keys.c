// The keys of users' tokens: files of both formats, rejections and their texts, which never repeat a key, how readers
// get a new set, and the cache.
#include <stdio.h>
#include <unistd.h>

#include "identity.h"
#include "test.h"
#include "user_tokens.h"

#define OCT(kid, k) JWK_OCT(kid, k)
#define OKP(kid)    JWK_OKP(kid, ED_PUBLIC)
#define SET(list)   JWK_SET(list)
#define U64         "0123456789012345678901234567890123456789012345678901234567890123"

static struct sk_token_keys *keys;
static char wrong[SK_TOKEN_KEYS_WRONG_SIZE];

static bool read_keys(const char *text)
{
    sk_token_keys_free(keys);
    wrong[0] = '\0';
    keys = sk_token_keys_read(text, strlen(text), 1, NULL, wrong);
    ck_assert((keys == NULL) == (wrong[0] != '\0'));
    return keys != NULL;
}

static void teardown(void)
{
    sk_token_keys_free(keys);
    keys = NULL;
}

static void must_have(const char *kid, enum sk_jws_algorithm algorithm, bool signs)
{
    const struct sk_token_key *key = sk_token_keys_find(keys, kid);
    ck_assert_msg(key != NULL, "%s is not there", kid);
    ck_assert_str_eq(key->kid, kid);
    ck_assert_uint_ne(key->number, 0);
    ck_assert_int_eq((int)sk_jws_algorithm(key->jws), (int)algorithm);
    ck_assert(sk_jws_can_sign(key->jws) == signs);
}

TEST(lines_are_read)
{
    ck_assert_msg(read_keys("# of the login\n"
                            "\n"
                            "a HS256 " SECRET_A "\n"
                            "  https://id.example/keys#2\tEdDSA \t " ED_PUBLIC " \r\n"
                            "c EdDSA " ED_PUBLIC " " ED_PRIVATE "\n"
                            "d HS256 " SECRET_B),
                  "%s", wrong);
    ck_assert_uint_eq(keys->count, 4);
    must_have("a", SK_JWS_HS256, true);
    must_have("https://id.example/keys#2", SK_JWS_EDDSA, false);
    must_have("c", SK_JWS_EDDSA, true);
    must_have("d", SK_JWS_HS256, true);
    ck_assert_ptr_null(sk_token_keys_find(keys, "A"));
    ck_assert_ptr_null(sk_token_keys_find(keys, ""));
    ck_assert_ptr_null(sk_token_keys_find(keys, "aa"));
}

TEST(a_set_is_read)
{
    ck_assert_msg(read_keys(" \n" SET(OCT("a", SECRET_A) "," OKP(
                      "b") "," //
                           "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"c\",\"alg\":\"EdDSA\",\"use\":\"sig\",\"x\":"
                           "\"" ED_PUBLIC "\",\"d\":\"" ED_PRIVATE
                           "\",\"x5t\":\"abc\"}," JWK_RSA("r", RSA_N, RSA_E) "," JWK_EC("e", EC_X, EC_Y))),
                  "%s", wrong);
    ck_assert_uint_eq(keys->count, 5);
    ck_assert_uint_eq(keys->unused_count, 0);
    must_have("a", SK_JWS_HS256, true);
    must_have("b", SK_JWS_EDDSA, false);
    must_have("c", SK_JWS_EDDSA, true);
    must_have("r", SK_JWS_RS256, false);
    must_have("e", SK_JWS_ES256, false);
    ck_assert_ptr_null(sk_token_keys_find(keys, "x"));
}

// What logins publish, in the form of each: RSA keys of one shape, with members of their own. Entra names no `alg`;
// Keycloak adds a key for encryption.
TEST(sets_of_logins_are_read)
{
#define RSA(kid, n, more) "{\"kty\":\"RSA\",\"kid\":\"" kid "\",\"n\":\"" n "\",\"e\":\"AQAB\"," more "}"
#define SIG               "\"use\":\"sig\""
#define RS                "\"alg\":\"RS256\""
#define X5                "\"x5c\":[\"MIICmzCCAYMCBgGK\"],\"x5t\":\"q\""
    static const struct {
        const char *text;
        size_t keys, unused;
    } rows[] = {
        // Keycloak
        {SET(RSA("k1", RSA_N, RS "," SIG "," X5 ",\"x5t#S256\":\"z\"") "," RSA(
             "k2", RSA_OTHER_N, "\"alg\":\"RSA-OAEP\",\"use\":\"enc\"," X5)),
         1, 1},
        // Auth0, with the next key
        {SET(RSA("k1", RSA_N, SIG "," X5 "," RS) "," RSA("k2", RSA_OTHER_N, SIG "," X5 "," RS)), 2, 0},
        // Cognito
        {SET(RSA("k1", RSA_N, RS ",\"key_ops\":[\"verify\"]," SIG) "," RSA("k2", RSA_OTHER_N, RS "," SIG)), 2, 0},
        // Entra
        {SET(RSA("k1", RSA_N, SIG "," X5 ",\"issuer\":\"https://login.microsoftonline.com/{tenantid}/v2.0\"")), 1, 0},
        {SET(JWK_EC("k1", EC_X, EC_Y) ",{\"kty\":\"EC\",\"crv\":\"P-384\",\"kid\":\"k2\",\"x\":\"AA\",\"y\":\"AA\"},"
                                      "{\"kty\":\"RSA\",\"kid\":\"k3\",\"alg\":\"RS512\",\"n\":\"AA\",\"e\":\"AQAB\"},"
                                      "{\"kty\":\"AKP\",\"alg\":\"ML-DSA-44\",\"kid\":\"k4\",\"pub\":\"AA\"},"
                                      "{\"kty\":\"oct\",\"alg\":\"HS512\",\"kid\":\"k5\",\"k\":\"AA\"}"),
         1, 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_msg(read_keys(rows[i].text), "row %zu: %s", i, wrong);
        ck_assert_uint_eq(keys->count, rows[i].keys);
        ck_assert_uint_eq(keys->unused_count, rows[i].unused);
        must_have("k1", i < 4 ? SK_JWS_RS256 : SK_JWS_ES256, false);
        if (rows[i].keys == 2)
            must_have("k2", SK_JWS_RS256, false);
    }
}

static void must_be_wrong(const char *place, const char *reason)
{
    static const char *const secrets[] = {"AyM1", "MDEy", "nWGx", "f83O"}; // no text repeats a key
    ck_assert_msg(strncmp(wrong, place, strlen(place)) == 0 && strstr(wrong, reason) != NULL, "%s: %s", reason, wrong);
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++)
        ck_assert_msg(strstr(wrong, secrets[i]) == NULL, "%s", wrong);
}

// A set is the login's: its other keys stay. A foreign key is not for us; the others are wrong.
TEST(a_key_that_is_not_used_has_a_reason_and_takes_no_other_away)
{
#define JWK(kty, more)    "{\"kty\":\"" kty "\",\"kid\":\"k\"," more "}"
#define OF_RSA(more)      JWK("RSA", more ",\"n\":\"" RSA_N "\",\"e\":\"AQAB\"")
#define OF_OCT(more)      JWK("oct", more ",\"k\":\"" SECRET_A "\"")
#define OF_EC(more)       JWK("EC", more ",\"x\":\"" EC_X "\",\"y\":\"" EC_Y "\"")
#define OF_OKP(crv, more) JWK("OKP", "\"crv\":\"" crv "\"" more ",\"x\":\"" ED_PUBLIC "\"")
    static const struct {
        const char *jwk, *reason;
        bool foreign;
    } rows[] = {
        {OF_RSA("\"use\":\"enc\""), "`use`", true},
        {OF_RSA("\"use\":7"), "`use`", true},
        {OF_RSA("\"alg\":\"PS256\""), "`alg`", true},
        {OF_RSA("\"alg\":\"HS256\""), "`alg`", true},
        {OF_RSA("\"alg\":\"none\""), "`alg`", true},
        {OF_RSA("\"alg\":7"), "`alg`", true},
        {OF_OCT("\"alg\":\"HS512\""), "`alg`", true},
        {OF_OCT("\"alg\":\"EdDSA\""), "`alg`", true},
        {OF_OKP("Ed25519", ",\"alg\":\"HS256\""), "`alg`", true},
        {OF_EC("\"crv\":\"P-256\",\"alg\":\"RS256\""), "`alg`", true},
        {OF_EC("\"crv\":\"P-521\""), "`kty`", true},
        {OF_EC("\"x5t\":\"q\""), "`kty`", true},
        {OF_OKP("Ed448", ",\"alg\":\"EdDSA\""), "`kty`", true},
        {OF_OKP("P-256", ""), "`kty`", true},
        {JWK("rsa", "\"n\":\"" RSA_N "\",\"e\":\"AQAB\""), "`kty`", true},
        {OF_OCT("\"key_ops\":[\"sign\",1]"), "`key_ops`", true},
        {OF_OCT("\"key_ops\":\"verify\""), "`key_ops`", true},
        {"7", "`kty`", false},
        {"{\"kid\":\"k\"}", "`kty`", false},
        {"{\"kty\":\"RSA\",\"n\":\"" RSA_N "\",\"e\":\"AQAB\"}", "kid is missing", false},
        {"{\"kty\":\"oct\",\"kid\":7,\"k\":\"" SECRET_A "\"}", "kid is missing", false},
        {JWK_OCT("a b", SECRET_A), "visible", false},
        {JWK("RSA", "\"n\":\"" RSA_N "\""), "exponent", false},
        {JWK_RSA("k", RSA_N, "AQ"), "exponent", false},
        {JWK_RSA("k", RSA_N, ""), "exponent", false},
        {JWK("RSA", "\"e\":\"AQAB\""), "missing", false},
        {JWK_RSA("k", "", RSA_E), "missing", false},
        {JWK_RSA("k", RSA_N_2047_BITS, RSA_E), "2048 to 4096 bits", false},
        {JWK_RSA("k", RSA_N RSA_N RSA_N, RSA_E), "too long", false},
        {JWK_RSA("k", RSA_N "=", RSA_E), "base64url", false},
        {JWK_EC("k", EC_X, EC_Y "A"), "x and y of 32 bytes", false},
        {JWK_EC("k", "AA", EC_Y), "x and y of 32 bytes", false},
        {JWK_EC("k", EC_X, EC_Y "="), "base64url", false},
        {JWK_EC("k", EC_X, ""), "a point of P-256", false},
        {JWK_EC("k", EC_X, EC_OTHER_Y), "a point of P-256", false},
        {JWK_OKP("k", SECRET_A "AA"), "32 bytes", false},
        {JWK("OKP", "\"crv\":\"Ed25519\""), "missing", false},
        {JWK("OKP", "\"crv\":\"Ed25519\",\"x\":\"" ED_PUBLIC "\",\"d\":1"), "`d`", false},
        {JWK_OCT("k", "AAAA"), "32 to 256 bytes", false},
        {JWK_OCT("good", SECRET_B), "taken", false},
        {JWK_OKP("good", ED_PUBLIC), "taken", false},
    };
    static const char good[] = JWK_RSA("good", RSA_N, RSA_E) "," JWK_EC("next", EC_X, EC_Y);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[4096];
        bool taken = strcmp(rows[i].reason, "taken") == 0; // of one kid the first is used
        // Before the others, and behind them.
        for (int behind = taken; behind <= 1; behind++) {
            (void)snprintf(text, sizeof text, SET("%s,%s"), behind ? good : rows[i].jwk, behind ? rows[i].jwk : good);
            ck_assert_msg(read_keys(text), "row %zu: %s", i, wrong);
            ck_assert_uint_eq(keys->count, 2);
            must_have("good", SK_JWS_RS256, false);
            must_have("next", SK_JWS_ES256, false);
            ck_assert_uint_eq(keys->unused_count, 1);
            struct sk_token_key_unused unused = keys->unused[0];
            ck_assert_uint_eq(unused.place, behind ? 2 : 0);
            ck_assert_msg(strstr(unused.reason, rows[i].reason) != NULL, "row %zu: %s", i, unused.reason);
            ck_assert_msg(unused.foreign == rows[i].foreign, "row %zu", i);
        }
        (void)snprintf(text, sizeof text, SET("%s,1"), rows[i].jwk);
        if (!taken) {
            ck_assert(!read_keys(text)); // for the first one's reason
            must_be_wrong("there is no key for HS256, EdDSA, RS256 or ES256; keys[0]: ", rows[i].reason);
        }
    }
    // One that cannot be used holds no kid.
    ck_assert(read_keys(SET("{\"kty\":\"AKP\",\"kid\":\"good\"}," JWK_OCT("good", "AAAA") "," OKP("good"))));
    must_have("good", SK_JWS_EDDSA, false);
    ck_assert(keys->unused[0].foreign && !keys->unused[1].foreign);
}

TEST(what_is_wrong_is_refused)
{
    static const struct {
        const char *text, *place, *reason;
    } rows[] = {
        {"", "", "no key"},
        {"# nothing\n\n", "", "no key"},
        {"a", "line 1: ", "form"},
        {"a HS256", "line 1: ", "form"},
        {"\n\na HS256 " SECRET_A " x y", "line 3: ", "form"},
        {"a HS256 " SECRET_A "\na HS256 " SECRET_B, "line 2: ", "taken"},
        {"a HS256 " SECRET_A "\nb RS256 " SECRET_B, "line 2: ", "neither HS256 nor EdDSA"},
        {"b ES256 " SECRET_B " " SECRET_B, "line 1: ", "a JWK Set may have others"},
        {"a hs256 " SECRET_A, "line 1: ", "neither"},
        {"a HS256 MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZQ", "line 1: ", "32 to 256 bytes"}, // 31
        {"a HS256 " SECRET_A "=", "line 1: ", "base64url"},
        {"a HS256 " SECRET_A " " SECRET_B, "line 1: ", "no private key"},
        {"a EdDSA " SECRET_A, "line 1: ", "32 bytes"},
        {"a EdDSA " ED_PRIVATE " " ED_PRIVATE, "line 1: ", "belong together"},
        {"a EdDSA " ED_PUBLIC " " ED_PRIVATE "A", "line 1: ", "32 bytes"},
        {"\xc3\xa4 HS256 " SECRET_A, "line 1: ", "visible ASCII"},
        {U64 U64 "0 HS256 " SECRET_A, "line 1: ", "longer than 128"},
        {"{", "line 1: ", "not JSON"},
        {"{}", "", "list of `keys`"},
        {"{\"keys\":{}}", "", "list of `keys`"},
        {"{\"keys\":[]}", "", "no key"},
        {"{\"keys\":[],\"keys\":[]}", "line 1: ", "twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_msg(!read_keys(rows[i].text), "%s", rows[i].text);
        must_be_wrong(rows[i].place, rows[i].reason);
    }
    static const char nul[] = "a\0b HS256 " SECRET_A; // a kid is not read up to its first NUL
    ck_assert_ptr_null(sk_token_keys_read(nul, sizeof nul - 1, 1, NULL, wrong));
    must_be_wrong("line 1: ", "visible ASCII");
}

TEST(there_is_a_most)
{
    struct sk_buf lines = {0};
    for (int i = 0; i < SK_TOKEN_KEYS_MAX; i++)
        sk_buf_printf(&lines, "k%d HS256 %s\n", i, SECRET_A);
    ck_assert(read_keys(lines.data));
    ck_assert_uint_eq(keys->count, SK_TOKEN_KEYS_MAX);
    must_have("k63", SK_JWS_HS256, true);
    sk_buf_puts(&lines, "more HS256 " SECRET_A "\n");
    ck_assert(!read_keys(lines.data));
    ck_assert_ptr_nonnull(strstr(wrong, "line 65: there are more than 64"));
    // A set's keys count, too, if they are not used.
    sk_buf_clear(&lines);
    sk_buf_puts(&lines, "{\"keys\":[" OKP("a"));
    for (int i = 1; i < SK_TOKEN_KEYS_MAX; i++)
        sk_buf_puts(&lines, ",{\"kty\":\"x\"}");
    sk_buf_puts(&lines, "]}");
    ck_assert(read_keys(lines.data));
    ck_assert_uint_eq(keys->unused_count, SK_TOKEN_KEYS_MAX - 1);
    lines.len -= 2;
    sk_buf_puts(&lines, ",{\"kty\":\"x\"}]}");
    ck_assert(!read_keys(lines.data));
    ck_assert_ptr_nonnull(strstr(wrong, "there are more than 64"));
    sk_buf_free(&lines);
}

// An unchanged key keeps its number. A kid with another key is another key, and a key that returns counts as new.
TEST(numbers_last_as_long_as_the_key)
{
    static const char *const texts[] = {"a HS256 " SECRET_A "\nb HS256 " SECRET_B "\nc EdDSA " ED_PUBLIC,
                                        "c EdDSA " ED_PUBLIC " " ED_PRIVATE "\na HS256 " SECRET_B,
                                        "a HS256 " SECRET_B "\nb HS256 " SECRET_B "\nc HS256 " ED_PUBLIC};
    struct sk_token_keys *sets[3] = {NULL, NULL, NULL};
    uint64_t numbers[3][3] = {{0}};
    for (size_t i = 0; i < 3; i++) {
        sets[i] = sk_token_keys_read(texts[i], strlen(texts[i]), 1, i == 0 ? NULL : sets[i - 1], wrong);
        ck_assert_ptr_nonnull(sets[i]);
        for (size_t j = 0; j < 3; j++) {
            const char kid[] = {(char)('a' + j), '\0'};
            const struct sk_token_key *key = sk_token_keys_find(sets[i], kid);
            numbers[i][j] = key == NULL ? 0 : key->number;
        }
    }
    ck_assert_uint_eq(numbers[1][2], numbers[0][2]);
    ck_assert_uint_eq(numbers[2][0], numbers[1][0]);
    const uint64_t all[] = {numbers[0][0], numbers[0][1], numbers[0][2], numbers[1][0], numbers[2][1], numbers[2][2]};
    for (size_t i = 0; i < 6; i++) {
        ck_assert_uint_ne(all[i], 0);
        for (size_t j = 0; j < i; j++)
            ck_assert_uint_ne(all[i], all[j]);
    }
    for (size_t i = 0; i < 3; i++)
        sk_token_keys_free(sets[i]);
}

// ---- the ring ----

static char path[] = "/tmp/seckill-keys-XXXXXX";
static const struct sk_identity_options options = {.token_keys = path};

static void write_keys(const char *text)
{
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    ck_assert_int_eq(fclose(file), 0);
}

TEST(a_new_set_reaches_the_readers)
{
    uint64_t version;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    (void)close(fd);
    ck_assert_ptr_null(sk_token_ring_open(&options, 2));
    write_keys("a HS256 " SECRET_A);
    struct sk_token_ring *ring = sk_token_ring_open(&options, 2);
    ck_assert_ptr_nonnull(ring);
    struct sk_editions *sets = sk_token_ring_keys(ring);
    const struct sk_token_keys *old = sk_editions_take(sets, &version);
    write_keys("a HS256 " SECRET_A "\nb HS256 " SECRET_B);
    ck_assert_uint_eq(sk_editions_version(sets), version); // the file is not read unless requested
    ck_assert(sk_token_ring_reload(ring));
    ck_assert_uint_ne(sk_editions_version(sets), version);
    ck_assert_ptr_null(sk_token_keys_find(old, "b"));
    sk_editions_give_back(sets, old);
    ck_assert_uint_eq(sk_editions_count(sets), 1);
    ck_assert_ptr_nonnull(sk_token_keys_find(sk_editions_current(sets), "b"));
    // An invalid file changes nothing.
    version = sk_editions_version(sets);
    write_keys("a HS256 short");
    ck_assert(!sk_token_ring_reload(ring));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert(!sk_token_ring_reload(ring));
    ck_assert_uint_eq(sk_editions_version(sets), version);
    sk_token_ring_close(ring);
    sk_token_ring_close(NULL);
}

TEST(a_file_has_a_most)
{
    static char text[70000];
    char large[] = "/tmp/seckill-keys-XXXXXX";
    int fd = mkstemp(large);
    ck_assert_int_ge(fd, 0);
    memset(text, '#', sizeof text);
    text[0] = '\n';
    ck_assert_int_eq(write(fd, "a HS256 " SECRET_A, 8 + sizeof SECRET_A - 1), (ssize_t)(8 + sizeof SECRET_A - 1));
    ck_assert_int_eq(write(fd, text, sizeof text), (ssize_t)sizeof text);
    ck_assert_ptr_null(sk_token_keys_load(large, 1, NULL, wrong));
    ck_assert_ptr_nonnull(strstr(wrong, "65536 bytes or more"));
    ck_assert_int_eq(ftruncate(fd, 60000), 0);
    keys = sk_token_keys_load(large, 1, NULL, wrong);
    ck_assert_ptr_nonnull(keys);
    (void)close(fd);
    (void)unlink(large);
    ck_assert_ptr_null(sk_token_keys_load("/nowhere", 1, NULL, wrong));
    ck_assert_ptr_null(sk_token_keys_load("/", 1, NULL, wrong));
}

// ---- the cache ----

static struct sk_jwt_claims claims_of(const char *user)
{
    struct sk_jwt_claims claims = {.exp_s = 7};
    (void)snprintf(claims.user, sizeof claims.user, "%s", user);
    return claims;
}

TEST(the_cache_knows_tokens_by_key)
{
    struct sk_token_cache *cache = sk_token_cache_open(64);
    struct sk_jwt_claims alice = claims_of("alice"), bob = claims_of("bob");
    ck_assert_ptr_nonnull(cache);
    ck_assert_ptr_null(sk_token_cache_find(cache, "a", 1, 1));
    sk_token_cache_put(cache, 1, &alice);
    const struct sk_jwt_claims *found = sk_token_cache_find(cache, "a", 1, 1);
    ck_assert_ptr_nonnull(found);
    ck_assert_str_eq(found->user, "alice");
    ck_assert_int_eq(found->exp_s, 7);
    ck_assert_ptr_null(sk_token_cache_find(cache, "a", 1, 2)); // another key, or its replacement
    sk_token_cache_put(cache, 2, &bob);
    ck_assert_str_eq(sk_token_cache_find(cache, "a", 1, 2)->user, "bob");
    ck_assert_str_eq(sk_token_cache_find(cache, "a", 1, 1)->user, "alice");
    ck_assert_ptr_null(sk_token_cache_find(cache, "b", 1, 1));
    ck_assert_ptr_null(sk_token_cache_find(cache, "aa", 2, 1));
    sk_token_cache_close(cache);
    sk_token_cache_close(NULL);
}

// The newest entry is always found, and the number of places is never exceeded.
TEST(the_cache_is_bounded)
{
    enum { TOKENS = 1000, PLACES = 64 };
    struct sk_token_cache *cache = sk_token_cache_open(PLACES);
    char token[16];
    int known = 0;
    for (int i = 0; i < 2 * TOKENS; i++) {
        size_t len = (size_t)snprintf(token, sizeof token, "token-%d", i % TOKENS);
        const struct sk_jwt_claims *found = sk_token_cache_find(cache, token, len, 1);
        ck_assert(found == NULL || (i >= TOKENS && strcmp(found->user, token) == 0));
        known += found != NULL;
        if (i >= TOKENS)
            continue;
        struct sk_jwt_claims claims = claims_of(token);
        sk_token_cache_put(cache, 1, &claims);
        ck_assert_str_eq(sk_token_cache_find(cache, token, len, 1)->user, token);
    }
    ck_assert_int_le(known, PLACES);
    ck_assert_int_gt(known, PLACES / 2);
    sk_token_cache_close(cache);
}

SUITE(.teardown = teardown);
