// Signatures: those of the RFCs, and that each bit of text, key and signature counts.
#include <check.h>
#include <string.h>

#include "jwt.h"
#include "stack.h"
#include "text.h"

// RFC 7515, A.1
#define HS_TEXT                                \
    "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9" \
    ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
#define HS_KEY       "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
#define HS_SIGNATURE "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
// RFC 8037, A.1 to A.4
#define ED_TEXT      "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
#define ED_PRIVATE   "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
#define ED_PUBLIC    "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
#define ED_SIGNATURE "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"

enum { READERS = 3, BYTES_SIZE = 300 };

static struct sk_jws *jws;

struct bytes {
    unsigned char at[BYTES_SIZE];
    size_t len;
};

static struct bytes bytes_of(const char *text)
{
    struct bytes bytes;
    ck_assert(sk_base64url_read(text, strlen(text), bytes.at, sizeof bytes.at, &bytes.len));
    return bytes;
}

static enum sk_status open_key(enum sk_jws_algorithm algorithm, const char *key, const char *private_key)
{
    struct bytes main_key = bytes_of(key), other = bytes_of(private_key);
    sk_jws_close(jws);
    return sk_jws_open(algorithm, (struct sk_jws_bytes){main_key.at, main_key.len},
                       (struct sk_jws_bytes){other.at, other.len}, READERS, &jws);
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
    enum sk_jws_algorithm algorithm;
    const char *key, *private_key, *text, *signature;
} vectors[] = {
    {SK_JWS_HS256, HS_KEY, "", HS_TEXT, HS_SIGNATURE},
    {SK_JWS_EDDSA, ED_PUBLIC, ED_PRIVATE, ED_TEXT, ED_SIGNATURE},
};

enum { VECTORS = sizeof vectors / sizeof vectors[0] };

START_TEST(the_vectors_of_the_rfcs_are_good)
{
    for (int i = 0; i < VECTORS; i++) {
        struct bytes signature = bytes_of(vectors[i].signature);
        ck_assert_int_eq(open_key(vectors[i].algorithm, vectors[i].key, ""), SK_OK);
        ck_assert_int_eq((int)sk_jws_algorithm(jws), (int)vectors[i].algorithm);
        for (unsigned round = 0; round < 2 * READERS; round++)
            ck_assert_int_eq(check(round % READERS, vectors[i].text, &signature), SK_JWS_GOOD);
    }
}
END_TEST

START_TEST(they_are_made_as_well)
{
    for (int i = 0; i < VECTORS; i++) {
        unsigned char made[SK_JWS_SIGNATURE_MAX];
        struct bytes signature = bytes_of(vectors[i].signature);
        ck_assert_int_eq(open_key(vectors[i].algorithm, vectors[i].key, vectors[i].private_key), SK_OK);
        ck_assert(sk_jws_can_sign(jws));
        for (int round = 0; round < 2; round++) {
            ck_assert_uint_eq(sk_jws_sign(jws, vectors[i].text, strlen(vectors[i].text), made), signature.len);
            ck_assert_mem_eq(made, signature.at, signature.len);
            ck_assert_int_eq(check(0, vectors[i].text, &signature), SK_JWS_GOOD);
        }
    }
}
END_TEST

START_TEST(every_bit_counts)
{
    for (int i = 0; i < VECTORS; i++) {
        char text[BYTES_SIZE];
        struct bytes signature = bytes_of(vectors[i].signature), other;
        ck_assert_int_eq(open_key(vectors[i].algorithm, vectors[i].key, ""), SK_OK);
        for (size_t bit = 0; bit < signature.len * 8; bit++) {
            other = signature;
            other.at[bit / 8] ^= (unsigned char)(1U << bit % 8);
            ck_assert_int_eq(check(0, vectors[i].text, &other), SK_JWS_BAD);
        }
        for (size_t at = 0; vectors[i].text[at] != '\0'; at++) {
            (void)snprintf(text, sizeof text, "%s", vectors[i].text);
            text[at] = (char)(text[at] ^ 1);
            ck_assert_int_eq(check(0, text, &signature), SK_JWS_BAD);
        }
        for (size_t len = 0; len < sizeof other.at; len++) {
            other = signature;
            other.len = len;
            ck_assert_int_eq(check(0, vectors[i].text, &other), len == signature.len ? SK_JWS_GOOD : SK_JWS_BAD);
        }
        ck_assert_int_eq(check(0, vectors[i].text, &signature), SK_JWS_GOOD);
    }
}
END_TEST

START_TEST(another_key_is_another_key)
{
    char other[sizeof HS_KEY] = HS_KEY;
    struct bytes signature = bytes_of(HS_SIGNATURE);
    struct sk_jws *first;
    other[0] = 'B';
    ck_assert_int_eq(open_key(SK_JWS_HS256, HS_KEY, ""), SK_OK);
    first = jws;
    jws = NULL;
    ck_assert_int_eq(open_key(SK_JWS_HS256, other, ""), SK_OK);
    ck_assert_int_eq(check(0, HS_TEXT, &signature), SK_JWS_BAD);
    ck_assert(!sk_jws_same(first, jws));
    ck_assert_int_eq(open_key(SK_JWS_HS256, HS_KEY, ""), SK_OK);
    ck_assert(sk_jws_same(first, jws));
    // The public key used as a secret: its signature must not pass for EdDSA, and it is not the same key.
    ck_assert_int_eq(open_key(SK_JWS_HS256, ED_PUBLIC, ""), SK_OK);
    sk_jws_close(first);
    first = jws;
    jws = NULL;
    ck_assert_int_eq(open_key(SK_JWS_EDDSA, ED_PUBLIC, ""), SK_OK);
    ck_assert(!sk_jws_same(first, jws));
    struct bytes mac = {.len = sk_jws_sign(first, ED_TEXT, strlen(ED_TEXT), mac.at)};
    ck_assert_uint_eq(mac.len, 32);
    ck_assert_int_eq(check(0, ED_TEXT, &mac), SK_JWS_BAD);
    sk_jws_close(first);
}
END_TEST

START_TEST(what_is_no_key)
{
    static const struct {
        enum sk_jws_algorithm algorithm;
        size_t len, private_len;
        enum sk_status status;
    } rows[] = {
        {SK_JWS_HS256, 0, 0, SK_FAIL},   {SK_JWS_HS256, 31, 0, SK_FAIL},  {SK_JWS_HS256, 32, 0, SK_OK},
        {SK_JWS_HS256, 256, 0, SK_OK},   {SK_JWS_HS256, 257, 0, SK_FAIL}, {SK_JWS_HS256, 32, 32, SK_FAIL},
        {SK_JWS_EDDSA, 31, 0, SK_FAIL},  {SK_JWS_EDDSA, 32, 0, SK_OK},    {SK_JWS_EDDSA, 33, 0, SK_FAIL},
        {SK_JWS_EDDSA, 32, 31, SK_FAIL}, {SK_JWS_EDDSA, 32, 33, SK_FAIL},
    };
    static const unsigned char bytes[BYTES_SIZE] = {9};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sk_jws_close(jws);
        ck_assert_msg(sk_jws_open(rows[i].algorithm, (struct sk_jws_bytes){bytes, rows[i].len},
                                  (struct sk_jws_bytes){bytes, rows[i].private_len}, 1, &jws) == rows[i].status,
                      "row %zu", i);
        ck_assert((jws == NULL) == (rows[i].status != SK_OK));
    }
    // Keys of one pair, and of two.
    ck_assert_int_eq(open_key(SK_JWS_EDDSA, ED_PUBLIC, ED_PRIVATE), SK_OK);
    ck_assert_int_eq(open_key(SK_JWS_EDDSA, ED_PRIVATE, ED_PRIVATE), SK_FAIL);
    unsigned char made[SK_JWS_SIGNATURE_MAX];
    ck_assert_int_eq(open_key(SK_JWS_EDDSA, ED_PUBLIC, ""), SK_OK);
    ck_assert(!sk_jws_can_sign(jws));
    ck_assert_uint_eq(sk_jws_sign(jws, ED_TEXT, strlen(ED_TEXT), made), 0);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("jws");
    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, the_vectors_of_the_rfcs_are_good);
    tcase_add_test(tcase, they_are_made_as_well);
    tcase_add_test(tcase, every_bit_counts);
    tcase_add_test(tcase, another_key_is_another_key);
    tcase_add_test(tcase, what_is_no_key);
    return harness_main(tcase, CK_FORK);
}
