// Signatures: those of the RFCs, and that each bit of text, key and signature counts.
#include <string.h>

#include "base64url.h"
#include "identity.h"
#include "jwt.h"
#include "test.h"

// RFC 7515, A.1 to A.3; RFC 8037, A.4
#define CLAIMS       "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
#define HS_TEXT      "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." CLAIMS
#define HS_SIGNATURE "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
#define RS_TEXT      "eyJhbGciOiJSUzI1NiJ9." CLAIMS
#define RS_SIGNATURE                                                                                       \
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9" \
    "uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB" \
    "_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rq" \
    "Vt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
#define ES_TEXT      "eyJhbGciOiJFUzI1NiJ9." CLAIMS
#define ES_SIGNATURE "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
#define ED_TEXT      "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
#define ED_SIGNATURE "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"

enum { READERS = 3, BYTES_SIZE = 600 };

static struct sk_jws *jws;

struct bytes {
    unsigned char at[BYTES_SIZE];
    size_t len;
};

static struct bytes bytes_of(const char *text)
{
    struct bytes bytes = {.len = 0};
    ck_assert(sk_base64url_read(text, strlen(text), bytes.at, sizeof bytes.at, &bytes.len));
    return bytes;
}

static enum sk_status open_key(const struct token_key *key, bool with_private)
{
    unsigned char bytes[3][SK_JWS_PART_MAX];
    struct sk_jws_key parts = token_key_read(key, bytes);
    if (!with_private)
        parts.private_key.len = 0;
    sk_jws_close(jws);
    return sk_jws_open(key->algorithm, &parts, READERS, &jws);
}

static enum sk_jws_result check(unsigned reader, const char *text, const struct bytes *signature)
{
    return sk_jws_verify(jws, reader, text, strlen(text), (struct sk_jws_bytes){signature->at, signature->len});
}

static void teardown(void)
{
    sk_jws_close(jws);
    jws = NULL;
}

static const struct {
    struct token_key key;
    const char *text, *signature;
} vectors[] = {
    {{SK_JWS_HS256, {SECRET_A}, NULL}, HS_TEXT, HS_SIGNATURE},
    {{SK_JWS_EDDSA, {ED_PUBLIC}, ED_PRIVATE}, ED_TEXT, ED_SIGNATURE},
    {{SK_JWS_RS256, {RSA_N, RSA_E}, RSA_PRIVATE}, RS_TEXT, RS_SIGNATURE},
    {{SK_JWS_ES256, {EC_X, EC_Y}, EC_PRIVATE}, ES_TEXT, ES_SIGNATURE},
};

enum { VECTORS = sizeof vectors / sizeof vectors[0] };

// With the public key alone, and with both.
TEST_EACH(the_vectors_of_the_rfcs_are_good_and_are_made, VECTORS)
{
    unsigned char made[SK_JWS_SIGNATURE_MAX];
    struct bytes signature = bytes_of(vectors[_i].signature);
    for (int signs = 0; signs <= 1; signs++) {
        ck_assert_int_eq(open_key(&vectors[_i].key, signs), SK_OK);
        ck_assert_int_eq((int)sk_jws_algorithm(jws), (int)vectors[_i].key.algorithm);
        ck_assert(sk_jws_can_sign(jws) == (signs || vectors[_i].key.algorithm == SK_JWS_HS256));
        for (unsigned round = 0; round < 2 * READERS; round++)
            ck_assert_int_eq(check(round % READERS, vectors[_i].text, &signature), SK_JWS_GOOD);
    }
    for (int round = 0; round < 2; round++) {
        ck_assert_uint_eq(sk_jws_sign(jws, vectors[_i].text, strlen(vectors[_i].text), made), signature.len);
        if (vectors[_i].key.algorithm == SK_JWS_ES256) // each one differs
            memcpy(signature.at, made, signature.len);
        ck_assert_mem_eq(made, signature.at, signature.len);
        ck_assert_int_eq(check(0, vectors[_i].text, &signature), SK_JWS_GOOD);
    }
}

TEST_EACH(every_bit_counts, VECTORS)
{
    char text[BYTES_SIZE];
    struct bytes signature = bytes_of(vectors[_i].signature), other;
    ck_assert_int_eq(open_key(&vectors[_i].key, false), SK_OK);
    for (size_t bit = 0; bit < signature.len * 8; bit++) {
        other = signature;
        other.at[bit / 8] ^= (unsigned char)(1U << bit % 8);
        ck_assert_int_eq(check(0, vectors[_i].text, &other), SK_JWS_BAD);
    }
    for (size_t at = 0; vectors[_i].text[at] != '\0'; at++) {
        (void)snprintf(text, sizeof text, "%s", vectors[_i].text);
        text[at] = (char)(text[at] ^ 1);
        ck_assert_int_eq(check(0, text, &signature), SK_JWS_BAD);
    }
    other = signature;
    for (other.len = 0; other.len < sizeof other.at; other.len++)
        ck_assert_int_eq(check(0, vectors[_i].text, &other), other.len == signature.len ? SK_JWS_GOOD : SK_JWS_BAD);
}

static const struct token_key others[] = {
    {SK_JWS_HS256, {SECRET_B}, NULL},
    {SK_JWS_EDDSA, {EC_X}, NULL}, // any 32 bytes
    {SK_JWS_RS256, {RSA_OTHER_N, RSA_E}, NULL},
    {SK_JWS_ES256, {EC_OTHER_X, EC_OTHER_Y}, NULL},
};

// Opens the key, and gives it away.
static struct sk_jws *open_another(const struct token_key *key)
{
    ck_assert_int_eq(open_key(key, key->private_key != NULL), SK_OK);
    struct sk_jws *opened = jws;
    jws = NULL;
    return opened;
}

TEST(another_key_is_another_key)
{
    for (int i = 0; i < VECTORS; i++) {
        struct bytes signature = bytes_of(vectors[i].signature);
        struct sk_jws *first = open_another(&vectors[i].key);
        for (int j = 0; j < VECTORS; j++) {
            ck_assert_int_eq(open_key(&others[j], false), SK_OK);
            ck_assert(!sk_jws_same(first, jws));
            ck_assert_int_eq(check(0, vectors[i].text, &signature), SK_JWS_BAD);
            ck_assert_int_eq(open_key(&vectors[j].key, false), SK_OK);
            ck_assert(sk_jws_same(first, jws) == (i == j));
            ck_assert_int_eq(check(0, vectors[i].text, &signature), i == j ? SK_JWS_GOOD : SK_JWS_BAD);
        }
        sk_jws_close(first);
    }
}

// A public key used as a secret: its signature passes for none of the others, and it is not the same key.
TEST(a_public_key_is_no_secret)
{
    static const struct token_key secrets[] = {
        {SK_JWS_HS256, {ED_PUBLIC}, NULL}, {SK_JWS_HS256, {RSA_N}, NULL}, {SK_JWS_HS256, {EC_X}, NULL}};
    for (int i = 0; i < 3; i++) {
        struct sk_jws *secret = open_another(&secrets[i]);
        ck_assert_int_eq(open_key(&vectors[i + 1].key, false), SK_OK);
        ck_assert(!sk_jws_same(secret, jws));
        struct bytes mac = {.len = sk_jws_sign(secret, ED_TEXT, strlen(ED_TEXT), mac.at)};
        ck_assert_uint_eq(mac.len, 32);
        ck_assert_int_eq(check(0, ED_TEXT, &mac), SK_JWS_BAD);
        sk_jws_close(secret);
    }
}

TEST(what_is_no_key)
{
    static const struct {
        enum sk_jws_algorithm algorithm;
        size_t len, second_len, private_len;
        enum sk_status status;
    } rows[] = {
        {SK_JWS_HS256, 0, 0, 0, SK_FAIL},    {SK_JWS_HS256, 31, 0, 0, SK_FAIL},  {SK_JWS_HS256, 32, 0, 0, SK_OK},
        {SK_JWS_HS256, 256, 0, 0, SK_OK},    {SK_JWS_HS256, 257, 0, 0, SK_FAIL}, {SK_JWS_HS256, 32, 0, 32, SK_FAIL},
        {SK_JWS_HS256, 32, 32, 0, SK_FAIL},  {SK_JWS_EDDSA, 31, 0, 0, SK_FAIL},  {SK_JWS_EDDSA, 32, 0, 0, SK_OK},
        {SK_JWS_EDDSA, 33, 0, 0, SK_FAIL},   {SK_JWS_EDDSA, 32, 0, 31, SK_FAIL}, {SK_JWS_EDDSA, 32, 0, 33, SK_FAIL},
        {SK_JWS_EDDSA, 32, 1, 0, SK_FAIL},   {SK_JWS_ES256, 32, 0, 0, SK_FAIL},  {SK_JWS_ES256, 31, 32, 0, SK_FAIL},
        {SK_JWS_ES256, 32, 33, 0, SK_FAIL},  {SK_JWS_ES256, 32, 32, 0, SK_FAIL}, // not on the curve
        {SK_JWS_ES256, 32, 32, 31, SK_FAIL}, {SK_JWS_RS256, 0, 3, 0, SK_FAIL},   {SK_JWS_RS256, 256, 0, 0, SK_FAIL},
        {SK_JWS_RS256, 256, 9, 0, SK_FAIL},  {SK_JWS_RS256, 513, 3, 0, SK_FAIL}, {SK_JWS_RS256, 128, 3, 0, SK_FAIL},
    };
    static const unsigned char bytes[BYTES_SIZE] = {9};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sk_jws_close(jws);
        const struct sk_jws_key key = {{{bytes, rows[i].len}, {bytes, rows[i].second_len}},
                                       {bytes, rows[i].private_len}};
        ck_assert_msg(sk_jws_open(rows[i].algorithm, &key, 1, &jws) == rows[i].status, "row %zu", i);
        ck_assert((jws == NULL) == (rows[i].status != SK_OK));
    }
}

TEST(a_key_is_as_strong_as_its_algorithm)
{
    static const struct token_key good[] = {
        {SK_JWS_RS256, {RSA_N, RSA_E}, NULL},        {SK_JWS_RS256, {RSA_N, "Aw"}, NULL}, // e = 3
        {SK_JWS_RS256, {RSA_N, RSA_E}, RSA_PRIVATE}, {SK_JWS_ES256, {EC_X, EC_Y}, EC_PRIVATE},
        {SK_JWS_EDDSA, {ED_PUBLIC}, ED_PRIVATE},     {SK_JWS_EDDSA, {ED_PUBLIC}, NULL},
    };
    static const struct token_key wrong[] = {
        {SK_JWS_RS256, {RSA_N, "AQ"}, NULL},   // e = 1: the signature would be the text
        {SK_JWS_RS256, {RSA_N, "AA"}, NULL},   // e = 0
        {SK_JWS_RS256, {RSA_N, "AQAA"}, NULL}, // even
        {SK_JWS_RS256, {RSA_N_2047_BITS, RSA_E}, NULL},
        {SK_JWS_RS256, {RSA_OTHER_N, RSA_E}, RSA_PRIVATE},    // not a pair
        {SK_JWS_ES256, {EC_OTHER_X, EC_OTHER_Y}, EC_PRIVATE}, // not a pair
        {SK_JWS_EDDSA, {ED_PRIVATE}, ED_PRIVATE},             // not a pair
        {SK_JWS_ES256, {EC_X, EC_OTHER_Y}, NULL},             // no point of the curve
        {SK_JWS_ES256, {EC_Y, EC_X}, NULL},
    };
    unsigned char made[SK_JWS_SIGNATURE_MAX];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(open_key(&good[i], true) == SK_OK, "row %zu", i);
        ck_assert(sk_jws_can_sign(jws) == (good[i].private_key != NULL));
    }
    ck_assert_uint_eq(sk_jws_sign(jws, ED_TEXT, strlen(ED_TEXT), made), 0); // the last one
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_msg(open_key(&wrong[i], true) == SK_FAIL, "row %zu", i);
}

// Each has its own name, and its own type and curve.
TEST(a_type_of_key_is_an_algorithm)
{
    static const char *const names[SK_JWS_ALGORITHMS] = {"HS256", "EdDSA", "RS256", "ES256"};
    for (int i = 0; i < SK_JWS_ALGORITHMS; i++)
        ck_assert_str_eq(sk_jws_names((enum sk_jws_algorithm)i)->alg, names[i]);
}

SUITE(.teardown = teardown);
