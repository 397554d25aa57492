// The keys of users' tokens: files of both formats, rejections and their texts, which never repeat a key, how readers
// get a new set, and the cache.
#include <stdio.h>
#include <unistd.h>

#include "identity.h"
#include "stack.h"
#include "user_tokens.h"

#define OCT(kid, k) "{\"kty\":\"oct\",\"kid\":\"" kid "\",\"alg\":\"HS256\",\"k\":\"" k "\"}"
#define OKP(kid)    "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"" kid "\",\"alg\":\"EdDSA\",\"x\":\"" ED_PUBLIC "\"}"
#define SET(list)   "{\"keys\":[" list "]}"
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

START_TEST(lines_are_read)
{
    ck_assert_msg(read_keys("# of the login\n"
                            "\n"
                            "a HS256 " SECRET_A "\n"
                            "  https://id.example/keys#2\tEdDSA \t " ED_PUBLIC " \r\n"
                            "c EdDSA " ED_PUBLIC " " ED_PRIVATE "\n"
                            "d HS256 " SECRET_B),
                  "%s", wrong);
    ck_assert_uint_eq(sk_token_keys_count(keys), 4);
    must_have("a", SK_JWS_HS256, true);
    must_have("https://id.example/keys#2", SK_JWS_EDDSA, false);
    must_have("c", SK_JWS_EDDSA, true);
    must_have("d", SK_JWS_HS256, true);
    ck_assert_ptr_null(sk_token_keys_find(keys, "A"));
    ck_assert_ptr_null(sk_token_keys_find(keys, ""));
    ck_assert_ptr_null(sk_token_keys_find(keys, "aa"));
}
END_TEST

START_TEST(a_set_is_read)
{
    ck_assert_msg(read_keys(" \n" SET(OCT("a", SECRET_A) "," OKP(
                      "b") "," //
                           "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"c\",\"alg\":\"EdDSA\",\"use\":\"sig\",\"x\":"
                           "\"" ED_PUBLIC "\",\"d\":\"" ED_PRIVATE "\",\"x5t\":\"abc\"},"
                           "{\"kty\":\"RSA\",\"kid\":\"r\",\"alg\":\"RS256\",\"n\":\"AQAB\",\"e\":\"AQAB\"},"
                           "{\"kty\":\"EC\",\"kid\":\"e\",\"crv\":\"P-256\"},"
                           "{\"kty\":\"oct\",\"use\":\"enc\",\"kid\":\"x\",\"k\":\"AAAA\"}")),
                  "%s", wrong);
    ck_assert_uint_eq(sk_token_keys_count(keys), 3);
    must_have("a", SK_JWS_HS256, true);
    must_have("b", SK_JWS_EDDSA, false);
    must_have("c", SK_JWS_EDDSA, true);
    ck_assert_ptr_null(sk_token_keys_find(keys, "r"));
    ck_assert_ptr_null(sk_token_keys_find(keys, "x"));
}
END_TEST

START_TEST(what_is_wrong_is_refused)
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
        {"a none " SECRET_A, "line 1: ", "neither"},
        {"a hs256 " SECRET_A, "line 1: ", "neither"},
        {"a HS256 MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZQ", "line 1: ", "32 to 256 bytes"}, // 31
        {"a HS256 " SECRET_A "=", "line 1: ", "base64url"},
        {"a HS256 ABC/", "line 1: ", "base64url"},
        {"a HS256 " SECRET_A " " SECRET_B, "line 1: ", "no private key"},
        {"a EdDSA " SECRET_A, "line 1: ", "32 bytes"},
        {"a EdDSA " ED_PRIVATE " " ED_PRIVATE, "line 1: ", "belong together"},
        {"a EdDSA " ED_PUBLIC " " ED_PUBLIC, "line 1: ", "belong together"},
        {"a EdDSA " ED_PUBLIC " " ED_PRIVATE "A", "line 1: ", "base64url"},
        {"\xc3\xa4 HS256 " SECRET_A, "line 1: ", "visible ASCII"},
        {U64 U64 "0 HS256 " SECRET_A, "line 1: ", "longer than 128"},
        {"{", "line 1: ", "not JSON"},
        {"{}", "", "list of `keys`"},
        {"{\"keys\":{}}", "", "list of `keys`"},
        {"{\"keys\":[]}", "", "no key"},
        {"{\"keys\":[],\"keys\":[]}", "line 1: ", "twice"},
        {SET("1"), "keys[0]: ", "kty"},
        {SET("{\"kid\":\"a\"}"), "keys[0]: ", "kty"},
        {SET("{\"kty\":\"RSA\",\"kid\":\"a\"}"), "", "no key"},
        {SET(OKP("a") ",{\"kty\":\"oct\",\"kid\":\"b\",\"k\":\"" SECRET_A "\"}"), "keys[1]: ", "no `alg`"},
        {SET("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"b\",\"x\":\"" ED_PUBLIC "\"}"), "keys[0]: ", "no `alg`"},
        {SET("{\"kty\":\"oct\",\"kid\":\"b\",\"alg\":\"HS512\",\"k\":\"" SECRET_A "\"}"), "keys[0]: ", "another `alg`"},
        {SET("{\"kty\":\"oct\",\"kid\":\"b\",\"alg\":\"EdDSA\",\"k\":\"" SECRET_A "\"}"), "keys[0]: ", "another `alg`"},
        {SET("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"b\",\"alg\":\"HS256\",\"x\":\"" ED_PUBLIC "\"}"),
         "keys[0]: ", "another `alg`"},
        {SET("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"b\",\"alg\":\"none\",\"x\":\"" ED_PUBLIC "\"}"),
         "keys[0]: ", "neither"},
        {SET("{\"kty\":\"OKP\",\"crv\":\"Ed448\",\"kid\":\"b\",\"alg\":\"EdDSA\",\"x\":\"" ED_PUBLIC "\"}"),
         "keys[0]: ", "another `crv`"},
        {SET("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"b\",\"alg\":\"EdDSA\"}"), "keys[0]: ", "missing"},
        {SET("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"b\",\"alg\":\"EdDSA\",\"x\":\"" ED_PUBLIC "\",\"d\":1}"),
         "keys[0]: ", "`d`"},
        {SET("{\"kty\":\"oct\",\"alg\":\"HS256\",\"k\":\"" SECRET_A "\"}"), "keys[0]: ", "kid is missing"},
        {SET("{\"kty\":\"oct\",\"kid\":7,\"alg\":\"HS256\",\"k\":\"" SECRET_A "\"}"), "keys[0]: ", "kid is missing"},
        {SET("{\"kty\":\"oct\",\"kid\":\"a b\",\"alg\":\"HS256\",\"k\":\"" SECRET_A "\"}"), "keys[0]: ", "visible"},
        {SET(OCT("a", SECRET_A) "," OCT("b", SECRET_B) "," OCT("a", SECRET_B)), "keys[2]: ", "taken"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_msg(!read_keys(rows[i].text), "%s", rows[i].text);
        ck_assert_msg(strncmp(wrong, rows[i].place, strlen(rows[i].place)) == 0, "%s -> %s", rows[i].text, wrong);
        ck_assert_msg(strstr(wrong, rows[i].reason) != NULL, "%s -> %s", rows[i].text, wrong);
        ck_assert_msg(strstr(wrong, "AyM1") == NULL && strstr(wrong, "MDEy") == NULL && strstr(wrong, "nWGx") == NULL,
                      "%s", wrong);
    }
}
END_TEST

START_TEST(there_is_a_most)
{
    struct sk_buf lines = {0};
    for (int i = 0; i < SK_TOKEN_KEYS_MAX; i++)
        sk_buf_printf(&lines, "k%d HS256 %s\n", i, SECRET_A);
    ck_assert(read_keys(lines.data));
    ck_assert_uint_eq(sk_token_keys_count(keys), SK_TOKEN_KEYS_MAX);
    must_have("k63", SK_JWS_HS256, true);
    sk_buf_puts(&lines, "more HS256 " SECRET_A "\n");
    ck_assert(!read_keys(lines.data));
    ck_assert_ptr_nonnull(strstr(wrong, "line 65: there are more than 64"));
    sk_buf_free(&lines);
}
END_TEST

// An unchanged key keeps its number. A kid with another key is another key, and a key that returns counts as new.
START_TEST(numbers_last_as_long_as_the_key)
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
END_TEST

// ---- the ring ----

static char path[] = "/tmp/seckill-keys-XXXXXX";

static void write_keys(const char *text)
{
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(a_new_set_reaches_the_readers)
{
    uint64_t version, first;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    (void)close(fd);
    ck_assert_ptr_null(sk_token_ring_open(path, 2));
    write_keys("a HS256 " SECRET_A);
    struct sk_token_ring *ring = sk_token_ring_open(path, 2);
    ck_assert_ptr_nonnull(ring);
    const struct sk_token_keys *old = sk_token_ring_take(ring, &first), *same = sk_token_ring_take(ring, &version);
    ck_assert_ptr_eq(old, same);
    ck_assert_uint_eq(first, sk_token_ring_version(ring));
    write_keys("a HS256 " SECRET_A "\nb HS256 " SECRET_B);
    ck_assert_uint_eq(first, sk_token_ring_version(ring)); // the file is not read unless requested
    ck_assert(sk_token_ring_reload(ring));
    ck_assert_uint_ne(first, sk_token_ring_version(ring));
    ck_assert_uint_eq(sk_token_ring_sets(ring), 2);
    ck_assert_ptr_null(sk_token_keys_find(old, "b"));
    const struct sk_token_keys *new = sk_token_ring_take(ring, &version);
    ck_assert_uint_eq(version, sk_token_ring_version(ring));
    ck_assert_ptr_nonnull(sk_token_keys_find(new, "b"));
    sk_token_ring_give_back(ring, old);
    ck_assert_uint_eq(sk_token_ring_sets(ring), 2); // the other reader's
    sk_token_ring_give_back(ring, same);
    ck_assert_uint_eq(sk_token_ring_sets(ring), 1);
    // An invalid file changes nothing.
    write_keys("a HS256 short");
    ck_assert(!sk_token_ring_reload(ring));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert(!sk_token_ring_reload(ring));
    ck_assert_uint_eq(version, sk_token_ring_version(ring));
    ck_assert_uint_eq(sk_token_ring_sets(ring), 1);
    sk_token_ring_give_back(ring, new);
    ck_assert_uint_eq(sk_token_ring_sets(ring), 1);
    sk_token_ring_close(ring);
    sk_token_ring_close(NULL);
}
END_TEST

START_TEST(a_file_has_a_most)
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
END_TEST

// ---- the cache ----

static struct sk_jwt_claims claims_of(const char *user)
{
    struct sk_jwt_claims claims = {.exp_s = 7};
    (void)snprintf(claims.user, sizeof claims.user, "%s", user);
    return claims;
}

START_TEST(the_cache_knows_tokens_by_key)
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
END_TEST

// The newest entry is always found, and the number of places is never exceeded.
START_TEST(the_cache_is_bounded)
{
    enum { TOKENS = 1000, PLACES = 64 };
    struct sk_token_cache *cache = sk_token_cache_open(PLACES);
    char token[16], user[16];
    int known = 0;
    for (int i = 0; i < TOKENS; i++) {
        int len = snprintf(token, sizeof token, "token-%d", i);
        (void)snprintf(user, sizeof user, "u%d", i);
        struct sk_jwt_claims claims = claims_of(user);
        ck_assert_ptr_null(sk_token_cache_find(cache, token, (size_t)len, 1));
        sk_token_cache_put(cache, 1, &claims);
        ck_assert_str_eq(sk_token_cache_find(cache, token, (size_t)len, 1)->user, user);
    }
    for (int i = 0; i < TOKENS; i++) {
        int len = snprintf(token, sizeof token, "token-%d", i);
        (void)snprintf(user, sizeof user, "u%d", i);
        const struct sk_jwt_claims *found = sk_token_cache_find(cache, token, (size_t)len, 1);
        ck_assert(found == NULL || strcmp(found->user, user) == 0);
        known += found != NULL;
    }
    ck_assert_int_le(known, PLACES);
    ck_assert_int_gt(known, PLACES / 2);
    sk_token_cache_close(cache);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("token_keys");
    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, lines_are_read);
    tcase_add_test(tcase, a_set_is_read);
    tcase_add_test(tcase, what_is_wrong_is_refused);
    tcase_add_test(tcase, there_is_a_most);
    tcase_add_test(tcase, numbers_last_as_long_as_the_key);
    tcase_add_test(tcase, a_new_set_reaches_the_readers);
    tcase_add_test(tcase, a_file_has_a_most);
    tcase_add_test(tcase, the_cache_knows_tokens_by_key);
    tcase_add_test(tcase, the_cache_is_bounded);
    return harness_main(tcase, CK_FORK);
}
