// Signatures of webhooks: the example of the standard, and what is refused as a secret or a key.
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "test.h"
#include "webhook_keys.h"

#define SECRET_BYTES "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define OTHER_BYTES  "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
// RFC 8032, 7.1, test 1: the seed, and its public key.
#define SEED   "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="
#define PUBLIC "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
#define PAIR   "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2DXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGg=="

static const char example[] = "{\"test\": 2432232314}";
static const struct sk_webhook_message message = {"msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", example,
                                                  sizeof example - 1};
static const char signature[] = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

static struct sk_webhook_keys keys;

static void teardown(void)
{
    sk_webhook_keys_free(&keys);
}

static void add(const char *text)
{
    const char *why = sk_webhook_keys_add(&keys, text);
    ck_assert_msg(why == NULL, "%s", why);
}

TEST(the_standards_example)
{
    char signatures[SK_WEBHOOK_SIGNATURES_SIZE];
    add("whsec_" SECRET_BYTES);
    ck_assert_int_eq(sk_webhook_keys_sign(&keys, &message, signatures), SK_OK);
    ck_assert_str_eq(signatures, signature);
}

TEST(each_secret_signs)
{
    char signatures[SK_WEBHOOK_SIGNATURES_SIZE];
    add("whsec_" OTHER_BYTES);
    add("whsec_" SECRET_BYTES);
    ck_assert_int_eq(sk_webhook_keys_sign(&keys, &message, signatures), SK_OK);
    const char *second = strchr(signatures, ' ');
    ck_assert_ptr_nonnull(second);
    ck_assert_str_eq(second + 1, signature);
    ck_assert_int_ne(strncmp(signatures, signature, sizeof signature - 1), 0);
    ck_assert_str_eq(sk_webhook_keys_add(&keys, "whsec_" SECRET_BYTES), "there are more than two secrets");
}

// The longest that there can be: all of it fits.
TEST(a_key_signs_too)
{
    char signatures[SK_WEBHOOK_SIGNATURES_SIZE], public_key[SK_WEBHOOK_PUBLIC_SIZE], text[256];
    unsigned char raw[72];
    sk_webhook_keys_public(&keys, public_key);
    ck_assert_str_eq(public_key, "");
    add("whsec_" OTHER_BYTES);
    add("whsec_" SECRET_BYTES);
    add("whsk_" SEED);
    sk_webhook_keys_public(&keys, public_key);
    ck_assert_str_eq(public_key, "whpk_" PUBLIC);
    ck_assert_int_eq(sk_webhook_keys_sign(&keys, &message, signatures), SK_OK);
    const char *third = strstr(signatures, " v1a,");
    ck_assert_ptr_nonnull(third);
    third += strlen(" v1a,");
    ck_assert_int_eq(EVP_DecodeBlock(raw, (const unsigned char *)third, (int)strlen(third)), 66);
    int len = snprintf(text, sizeof text, "%s.%s.%s", message.id, message.timestamp, example);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    ck_assert_int_eq(EVP_DigestVerifyInit(context, NULL, NULL, NULL, keys.key), 1);
    ck_assert_int_eq(EVP_DigestVerify(context, raw, 64, (const unsigned char *)text, (size_t)len), 1);
    EVP_MD_CTX_free(context);
}

TEST(a_pair_is_a_key)
{
    char public_key[SK_WEBHOOK_PUBLIC_SIZE];
    add("whsk_" PAIR);
    sk_webhook_keys_public(&keys, public_key);
    ck_assert_str_eq(public_key, "whpk_" PUBLIC);
    ck_assert_str_eq(sk_webhook_keys_add(&keys, "whsk_" SEED), "there is more than one key");
}

TEST(what_is_neither_a_secret_nor_a_key)
{
    static const char secret[] = "a secret is whsec_ and the base64 of 24 to 64 bytes",
                      key[] = "a key is whsk_ and the base64 of the 32 bytes of an Ed25519 key, or of these and its "
                              "public key";
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "a secret begins with whsec_, a key with whsk_"},
        {SECRET_BYTES, "a secret begins with whsec_, a key with whsk_"},
        {"WHSEC_" SECRET_BYTES, "a secret begins with whsec_, a key with whsk_"},
        {"whsec_", secret},
        {"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRY=", secret}, // 23 bytes
        {"whsec_" SECRET_BYTES "\n", secret},
        {"whsec_ " SECRET_BYTES, secret},
        {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", secret},  // not whole
        {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa-_", secret}, // base64url
        {"whsec_" SECRET_BYTES SECRET_BYTES SECRET_BYTES, secret},
        {"whsk_" SECRET_BYTES, key},
        {"whsk_", key},
        {"whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2B=", key}, // bits at the end that belong to no byte
        {"whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2DXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGw==",
         "the public key behind a key is not its own"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *why = sk_webhook_keys_add(&keys, rows[i].text);
        ck_assert_msg(why != NULL && strcmp(why, rows[i].why) == 0, "row %zu: %s", i, why == NULL ? "taken" : why);
        sk_webhook_keys_free(&keys);
    }
    add("whsec_" SECRET_BYTES SECRET_BYTES); // 48 bytes
}

// ---- signatures of others ----

#define RIGHT "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
#define WRONG "v1,A0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

TEST(a_signature_is_checked)
{
    static const struct {
        const char *secrets, *sent;
        bool good;
    } rows[] = {
        {"whsec_" SECRET_BYTES, RIGHT, true},
        {"whsec_" SECRET_BYTES "\n", WRONG " " RIGHT, true},
        {"whsec_" SECRET_BYTES, "v1a,x  " RIGHT " v2,y", true},
        {"whsec_" OTHER_BYTES "\nwhsec_" SECRET_BYTES, RIGHT, true},
        {"whsec_" SECRET_BYTES "\nwhsec_" OTHER_BYTES, RIGHT, true},
        {"a secret of ours\r\nwhsec_" SECRET_BYTES "\r\n", RIGHT, true},
        {"whsec_" SECRET_BYTES, WRONG, false},
        {"whsec_" OTHER_BYTES, RIGHT, false},
        {"whsec_" SECRET_BYTES, "", false},
        {"whsec_" SECRET_BYTES, " ", false},
        {"whsec_" SECRET_BYTES, "v1," RIGHT, false},
        {"whsec_" SECRET_BYTES, RIGHT "=", false},
        {"whsec_" SECRET_BYTES, "v1 g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", false},
        {"whsec_" SECRET_BYTES, RIGHT "," RIGHT, false},
        {SECRET_BYTES, RIGHT, false}, // a secret of ours signs nothing here
        {"", RIGHT, false},
        {"whsec_", RIGHT, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(sk_webhook_signature_good(rows[i].secrets, &message, rows[i].sent) == rows[i].good, "row %zu", i);
}

TEST(all_that_is_signed_is_checked)
{
    static const char secret[] = "whsec_" SECRET_BYTES;
    struct sk_webhook_message other = message;
    other.id = "msg_p5jXN8AQM9LWM0D4loKWxJel";
    ck_assert(!sk_webhook_signature_good(secret, &other, RIGHT));
    other = message;
    other.timestamp = "1614265331";
    ck_assert(!sk_webhook_signature_good(secret, &other, RIGHT));
    other = message;
    other.body_len--;
    ck_assert(!sk_webhook_signature_good(secret, &other, RIGHT));
}

SUITE(.teardown = teardown);
