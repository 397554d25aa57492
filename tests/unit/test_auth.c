// Who is calling: one X-User-Id in the allowed form, or nobody; for admin calls, a token with the right role.
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "admin_tokens.h"
#include "auth.h"
#include "clock.h"
#include "test.h"
#include "webhook_keys.h"

#define SIXTY_FOUR "0123456789012345678901234567890123456789012345678901234567890123"

static char token[] = "s3cret-token-123";
static char lines[] = "reader read reader-token-0001\n"
                      "operator operate operator-token-01\n"
                      "shop payments payments-token-01\n"
                      "scraper metrics metrics-token-001\n"
                      "desk refunds refunds-token-001\n";
static struct sk_tokens *tokens;

struct field {
    const char *name, *value;
    unsigned count;
};

// The fields of the request.
static struct field sent, stamp, signature, webhook[3];
static const struct field no_field;

const char *sk_request_header(const struct sk_request *request, const char *name, unsigned *count)
{
    (void)request;
    const struct field *const fields[] = {&sent, &stamp, &signature, &webhook[0], &webhook[1], &webhook[2]};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i]->name == NULL || strcmp(fields[i]->name, name) != 0)
            continue;
        *count = fields[i]->count;
        return fields[i]->value;
    }
    *count = 0;
    return NULL;
}

static void setup(void)
{
    struct sk_identity_options options = {.admin_token = token, .admin_tokens = lines};
    tokens = sk_tokens_open(&options, stderr);
    ck_assert_ptr_nonnull(tokens);
}

static void teardown(void)
{
    sk_tokens_close(tokens);
}

static enum sk_caller ask(const char *value, unsigned count, enum sk_role role, char name[SK_ADMIN_NAME_SIZE])
{
    static const struct sk_request request;
    sent = (struct field){"authorization", value, count};
    return sk_auth_admin(&request, tokens, role, name);
}

TEST(a_user_is_one_field_of_the_allowed_form)
{
    static const struct sk_request request;
    static const char *const good[] = {"alice", "0", "a.b-c_D", SIXTY_FOUR};
    static const char *const wrong[] = {"",        " alice",   "alice ",      "alice,bob", "alice@example.org",
                                        "alice\"", "\xc3\xa4", SIXTY_FOUR "4"};
    char user[SK_USER_SIZE];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        sent = (struct field){"x-user-id", good[i], 1};
        ck_assert_int_eq(sk_auth_user(&request, NULL, user), SK_CALLER_KNOWN);
        ck_assert_str_eq(user, good[i]);
        sent.count = 2 + i % 2; // sent twice, even with the same value
        ck_assert_int_eq(sk_auth_user(&request, NULL, user), SK_CALLER_UNKNOWN);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        sent = (struct field){"x-user-id", wrong[i], 1};
        ck_assert_msg(sk_auth_user(&request, NULL, user) == SK_CALLER_UNKNOWN, "'%s'", wrong[i]);
    }
    sent = no_field;
    ck_assert_int_eq(sk_auth_user(&request, NULL, user), SK_CALLER_UNKNOWN);
}

// ---- users with tokens ----

// Replaces the verifier: the token it was asked about, and its answer.
static char asked_about[64];
static enum sk_jwt_result finding;

enum sk_jwt_result sk_user_tokens_check(struct sk_user_tokens *users, const char *text, int64_t now_s,
                                        char id[SK_USER_SIZE])
{
    (void)users;
    ck_assert_int_gt(now_s, 1700000000);
    (void)snprintf(asked_about, sizeof asked_about, "%s", text);
    if (finding == SK_JWT_GOOD)
        memcpy(id, "alice", sizeof "alice");
    return finding;
}

static enum sk_caller ask_user(const char *name, const char *value, unsigned count)
{
    static char verifier; // any address will do
    struct sk_request request = {0};
    char user[SK_USER_SIZE] = "";
    sent = (struct field){name, value, count};
    asked_about[0] = '\0';
    enum sk_caller auth = sk_auth_user(&request, (struct sk_user_tokens *)(void *)&verifier, user);
    ck_assert_str_eq(user, auth == SK_CALLER_KNOWN ? "alice" : "");
    return auth;
}

TEST(a_user_has_one_bearer_token)
{
    static const struct {
        const char *name, *value;
        unsigned count;
        const char *asked; // NULL: rejected without a check
    } rows[] = {
        {"authorization", "Bearer a.b.c", 1, "a.b.c"},
        {"authorization", "bEARER a.b.c", 1, "a.b.c"},
        {"authorization", "Bearer ", 1, ""},
        {"authorization", "Bearer  a.b.c", 1, "a.b.c"},
        {"authorization", "Bearer a b", 1, "a b"},
        {"authorization", "Bearer\ta.b.c", 1, NULL},
        {"authorization", "Bearer a.b.c", 2, NULL},
        {"authorization", "Basic a.b.c", 1, NULL},
        {"authorization", "Bearer", 1, NULL},
        {"authorization", "a.b.c", 1, NULL},
        {"authorization", "", 1, NULL},
        {"authorization", NULL, 0, NULL},
        {"x-user-id", "alice", 1, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        finding = SK_JWT_GOOD;
        ck_assert_int_eq(ask_user(rows[i].name, rows[i].value, rows[i].count),
                         rows[i].asked == NULL ? SK_CALLER_UNKNOWN : SK_CALLER_KNOWN);
        ck_assert_str_eq(asked_about, rows[i].asked == NULL ? "" : rows[i].asked);
    }
}

TEST(every_refusal_of_a_token_is_the_same)
{
    for (int result = SK_JWT_GOOD + 1; result < SK_JWT_RESULT_COUNT; result++) {
        finding = (enum sk_jwt_result)result;
        ck_assert_int_eq(ask_user("authorization", "Bearer a.b.c", 1),
                         result == SK_JWT_NO_MEM ? SK_CALLER_NO_MEM : SK_CALLER_UNKNOWN);
        ck_assert_ptr_nonnull(sk_jwt_reason(finding));
    }
}

// How the field is read is the rule of users' tokens, which has its test above; what a token is has
// test_admin_tokens.c.
TEST(an_admin_has_the_one_token)
{
    static const char *const wrong[] = {"",
                                        "Bearer ",
                                        "Bearer s3cret-token-123 ",
                                        "Bearer\ts3cret-token-123",
                                        "s3cret-token-123",
                                        "Bearer s3cret-token-124",
                                        "Bearer s3cret-token-123, Bearer s3cret-token-123"};
    char name[SK_ADMIN_NAME_SIZE] = "";
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_msg(ask(wrong[i], 1, SK_ROLE_OPERATE, name) == SK_CALLER_UNKNOWN, "'%s'", wrong[i]);
    ck_assert_int_eq(ask(NULL, 0, SK_ROLE_OPERATE, name), SK_CALLER_UNKNOWN);
    ck_assert_int_eq(ask("Bearer s3cret-token-123", 2, SK_ROLE_OPERATE, name), SK_CALLER_UNKNOWN);
    ck_assert_str_eq(name, "");
    ck_assert_int_eq(ask("bearer  s3cret-token-123", 1, SK_ROLE_OPERATE, name), SK_CALLER_KNOWN);
    ck_assert_str_eq(name, "admin");
}

TEST(a_role_allows_what_it_names)
{
    static const enum sk_role roles[] = {SK_ROLE_READ,    SK_ROLE_OPERATE, SK_ROLE_PAYMENTS,
                                         SK_ROLE_METRICS, SK_ROLE_REFUNDS, SK_ROLE_ANY};
    static const struct {
        const char *value, *name;
        bool may[6];
    } rows[] = {
        {"Bearer reader-token-0001", "reader", {true, false, false, true, false, true}},
        {"Bearer operator-token-01", "operator", {true, true, false, true, true, true}},
        {"Bearer payments-token-01", "shop", {false, false, true, false, false, true}},
        {"Bearer metrics-token-001", "scraper", {false, false, false, true, false, true}},
        {"Bearer refunds-token-001", "desk", {false, false, false, false, true, true}},
        {"Bearer s3cret-token-123", "admin", {true, true, true, true, true, true}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t j = 0; j < 6; j++) {
            char name[SK_ADMIN_NAME_SIZE];
            enum sk_caller auth = rows[i].may[j] ? SK_CALLER_KNOWN : SK_CALLER_FORBIDDEN;
            ck_assert_msg(ask(rows[i].value, 1, roles[j], name) == auth, "%s: %zu", rows[i].name, j);
            ck_assert_str_eq(name, rows[i].name);
        }
    }
}

TEST(without_a_token_admin_calls_are_off)
{
    struct sk_identity_options options = {0};
    char name[SK_ADMIN_NAME_SIZE];
    sk_tokens_close(tokens);
    tokens = sk_tokens_open(&options, stderr);
    ck_assert_int_eq(ask(NULL, 0, SK_ROLE_ANY, name), SK_CALLER_ADMIN_OFF);
    ck_assert_int_eq(ask("Bearer x", 1, SK_ROLE_ANY, name), SK_CALLER_ADMIN_OFF);
}

// ---- the payment side ----

static char secret[] = "0123456789abcdef", body[] = "{}";

static enum sk_caller pay(const char *with, char name[SK_ADMIN_NAME_SIZE])
{
    struct sk_request request = {.path = "/p", .body = {.data = body, .len = sizeof body - 1}};
    name[0] = '\0';
    return sk_auth_payment(&request, tokens, with, name);
}

// Sets fields with a signature made `ago_s` seconds ago.
static void sign(int64_t ago_s)
{
    static char stamped[24], mac[65];
    unsigned char made[EVP_MAX_MD_SIZE];
    char text[64];
    (void)snprintf(stamped, sizeof stamped, "%lld", (long long)(sk_wall_ms() / 1000) - (long long)ago_s);
    int n = snprintf(text, sizeof text, "%s./p.%s", stamped, body);
    ck_assert_ptr_nonnull(
        HMAC(EVP_sha256(), secret, sizeof secret - 1, (const unsigned char *)text, (size_t)n, made, NULL));
    for (size_t i = 0; i < 32; i++)
        (void)snprintf(mac + 2 * i, 3, "%02x", made[i]);
    stamp = (struct field){"x-seckill-timestamp", stamped, 1};
    signature = (struct field){"x-seckill-signature", mac, 1};
}

TEST(the_payment_side_signs_or_has_a_token)
{
    static const int64_t ago_s[] = {0, 250, -250};
    char name[SK_ADMIN_NAME_SIZE];
    sent = (struct field){"authorization", "Bearer payments-token-01", 1};
    ck_assert_int_eq(pay(secret, name), SK_CALLER_KNOWN);
    ck_assert_str_eq(name, "shop");
    ck_assert_int_eq(pay(NULL, name), SK_CALLER_KNOWN);
    sent.value = "Bearer operator-token-01";
    ck_assert_int_eq(pay(secret, name), SK_CALLER_FORBIDDEN);
    sent = no_field;
    ck_assert_int_eq(pay(secret, name), SK_CALLER_UNKNOWN);
    for (size_t i = 0; i < 3; i++) {
        sign(ago_s[i]);
        for (int again = 0; again <= 1; again++) {
            ck_assert_int_eq(pay(secret, name), SK_CALLER_KNOWN);
            ck_assert_str_eq(name, "payment callback");
        }
    }
}

static void must_be_bad(const char *with)
{
    char name[SK_ADMIN_NAME_SIZE];
    ck_assert_int_eq(pay(with, name), SK_CALLER_BAD_SIGNATURE);
    ck_assert_str_eq(name, "");
}

// Whatever token is also sent.
TEST(a_signature_that_is_not_good_is_refused)
{
    sent = (struct field){"authorization", "Bearer payments-token-01", 1};
    sign(400);
    must_be_bad(secret);
    sign(-400);
    must_be_bad(secret);
    sign(0);
    must_be_bad("0123456789abcdeg");
    must_be_bad(NULL);
    body[0] = '[';
    must_be_bad(secret);
    body[0] = '{';
    struct field *const fields[] = {&stamp, &signature};
    for (size_t i = 0; i < 2; i++) {
        struct field kept = *fields[i];
        fields[i]->count = 2;
        must_be_bad(secret);
        *fields[i] = no_field;
        must_be_bad(secret);
        *fields[i] = kept;
    }
}

TEST(with_a_secret_alone_a_signature_is_asked_for)
{
    struct sk_identity_options options = {0};
    char name[SK_ADMIN_NAME_SIZE];
    sk_tokens_close(tokens);
    tokens = sk_tokens_open(&options, stderr);
    ck_assert_int_eq(pay(secret, name), SK_CALLER_BAD_SIGNATURE);
    ck_assert_int_eq(pay(NULL, name), SK_CALLER_ADMIN_OFF);
    sign(0);
    ck_assert_int_eq(pay(secret, name), SK_CALLER_KNOWN);
    ck_assert_int_eq(pay(NULL, name), SK_CALLER_BAD_SIGNATURE);
}

// Sets the fields of Standard Webhooks.
static void sign_as_webhook(const char *text, int64_t ago_s)
{
    static char stamped[24], made[SK_WEBHOOK_SIGNATURES_SIZE];
    struct sk_webhook_keys keys = {0};
    (void)snprintf(stamped, sizeof stamped, "%lld", (long long)(sk_wall_ms() / 1000) - (long long)ago_s);
    const struct sk_webhook_message message = {"msg_1", stamped, body, sizeof body - 1};
    ck_assert_ptr_null(sk_webhook_keys_add(&keys, text));
    ck_assert_int_eq(sk_webhook_keys_sign(&keys, &message, made), SK_OK);
    sk_webhook_keys_free(&keys);
    webhook[0] = (struct field){"webhook-id", "msg_1", 1};
    webhook[1] = (struct field){"webhook-timestamp", stamped, 1};
    webhook[2] = (struct field){"webhook-signature", made, 1};
}

TEST(the_payment_side_may_sign_as_webhooks_do)
{
    static const char whsec[] = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
    static const struct sk_request request;
    char name[SK_ADMIN_NAME_SIZE];
    ck_assert(!sk_auth_signs_body_alone(&request));
    sign_as_webhook(whsec, 250);
    ck_assert(sk_auth_signs_body_alone(&request));
    ck_assert_int_eq(pay(whsec, name), SK_CALLER_KNOWN);
    ck_assert_str_eq(name, "payment callback");
    sent = (struct field){"authorization", "Bearer payments-token-01", 1}; // does not help a signature that is wrong
    must_be_bad(secret);
    must_be_bad(NULL);
    for (size_t i = 0; i < 3; i++) {
        struct field kept = webhook[i];
        webhook[i].count = 2;
        must_be_bad(whsec);
        if (i < 2) {
            webhook[i] = no_field;
            must_be_bad(whsec);
        }
        webhook[i] = kept;
    }
    sign_as_webhook(whsec, 301);
    must_be_bad(whsec);
    // With fields of ours, too, these count.
    sign_as_webhook(whsec, 0);
    sign(0);
    ck_assert(!sk_auth_signs_body_alone(&request));
    ck_assert_int_eq(pay(secret, name), SK_CALLER_KNOWN);
    must_be_bad(whsec);
}

SUITE(.setup = setup, .teardown = teardown);
