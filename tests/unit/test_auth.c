// Who is calling: one X-User-Id in the allowed form, or nobody; for admin calls, a token with the right role.
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "admin_tokens.h"
#include "auth.h"
#include "clock.h"
#include "test.h"

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
static struct field sent, stamp, signature;

const char *sk_request_header(const struct sk_request *request, const char *name, unsigned *count)
{
    (void)request;
    const struct field *const fields[] = {&sent, &stamp, &signature};
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
    struct sk_request request = {0};
    sent.name = "authorization";
    sent.value = value;
    sent.count = count;
    return sk_auth_admin(&request, tokens, role, name);
}

TEST(a_user_is_one_field_of_the_allowed_form)
{
    static const struct {
        const char *value;
        unsigned count;
        bool good;
    } rows[] = {
        {"alice", 1, true},
        {"0", 1, true},
        {"a.b-c_D", 1, true},
        {NULL, 0, false},
        {"alice", 2, false}, // sent twice, even with the same value
        {"alice", 3, false},
        {"", 1, false},
        {" alice", 1, false},
        {"alice ", 1, false},
        {"alice,bob", 1, false},
        {"alice@example.org", 1, false},
        {"alice\"", 1, false},
        {"\xc3\xa4", 1, false},
        {"0123456789012345678901234567890123456789012345678901234567890123", 1, true},   // 64
        {"01234567890123456789012345678901234567890123456789012345678901234", 1, false}, // 65
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_request request = {0};
        char user[SK_USER_SIZE];
        sent.name = "x-user-id";
        sent.value = rows[i].value;
        sent.count = rows[i].count;
        enum sk_caller auth = rows[i].good ? SK_CALLER_KNOWN : SK_CALLER_UNKNOWN;
        ck_assert_msg(sk_auth_user(&request, NULL, user) == auth, "'%s'", rows[i].value);
        if (rows[i].good)
            ck_assert_str_eq(user, rows[i].value);
    }
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

TEST(an_admin_has_the_one_token)
{
    static const struct {
        const char *value;
        unsigned count;
        enum sk_caller auth;
    } rows[] = {
        {"Bearer s3cret-token-123", 1, SK_CALLER_KNOWN},
        {"bearer s3cret-token-123", 1, SK_CALLER_KNOWN}, // schemes are case-insensitive
        {"BEARER s3cret-token-123", 1, SK_CALLER_KNOWN},
        {NULL, 0, SK_CALLER_UNKNOWN},
        {"Bearer s3cret-token-123", 2, SK_CALLER_UNKNOWN},
        {"", 1, SK_CALLER_UNKNOWN},
        {"Bearer", 1, SK_CALLER_UNKNOWN},
        {"Bearer ", 1, SK_CALLER_UNKNOWN},
        {"Bearer  s3cret-token-123", 1, SK_CALLER_KNOWN},
        {"Bearer s3cret-token-123 ", 1, SK_CALLER_UNKNOWN},
        {"Bearer\ts3cret-token-123", 1, SK_CALLER_UNKNOWN},
        {"Bearers3cret-token-123", 1, SK_CALLER_UNKNOWN},
        {"s3cret-token-123", 1, SK_CALLER_UNKNOWN},
        {"Basic s3cret-token-123", 1, SK_CALLER_UNKNOWN},
        {"Token s3cret-token-123", 1, SK_CALLER_UNKNOWN},
        {"Bearer S3cret-token-123", 1, SK_CALLER_UNKNOWN},
        {"Bearer s3cret-token-124", 1, SK_CALLER_UNKNOWN}, // wrong at the end
        {"Bearer t3cret-token-123", 1, SK_CALLER_UNKNOWN}, // at the beginning
        {"Bearer s3cret-token-12", 1, SK_CALLER_UNKNOWN},
        {"Bearer s3cret-token-123n", 1, SK_CALLER_UNKNOWN},
        {"Bearer s3cret-token-123s3cret-token-123", 1, SK_CALLER_UNKNOWN},
        {"Bearer s3cret-token-123, Bearer s3cret-token-123", 1, SK_CALLER_UNKNOWN},
        {"Bearer \xff", 1, SK_CALLER_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[SK_ADMIN_NAME_SIZE] = "";
        ck_assert_msg(ask(rows[i].value, rows[i].count, SK_ROLE_OPERATE, name) == rows[i].auth, "'%s'", rows[i].value);
        ck_assert_str_eq(name, rows[i].auth == SK_CALLER_KNOWN ? "admin" : "");
    }
}

// Every bit of every character counts, so the comparison cannot report "equal" early.
TEST(a_token_wrong_in_one_bit_is_wrong)
{
    char value[64] = "Bearer ", name[SK_ADMIN_NAME_SIZE];
    for (size_t at = 0; at < sizeof token - 1; at++) {
        for (int bit = 0; bit < 8; bit++) {
            memcpy(value + 7, token, sizeof token);
            value[7 + at] = (char)(value[7 + at] ^ 1 << bit);
            ck_assert_int_eq(ask(value, 1, SK_ROLE_READ, name), SK_CALLER_UNKNOWN);
        }
    }
}

TEST(a_role_allows_what_it_names)
{
    static const struct {
        const char *value, *name;
        bool reads, operates, pays, scrapes, refunds;
    } rows[] = {
        {"Bearer reader-token-0001", "reader", true, false, false, true, false},
        {"Bearer operator-token-01", "operator", true, true, false, true, true},
        {"Bearer payments-token-01", "shop", false, false, true, false, false},
        {"Bearer metrics-token-001", "scraper", false, false, false, true, false},
        {"Bearer refunds-token-001", "desk", false, false, false, false, true},
        {"Bearer s3cret-token-123", "admin", true, true, true, true, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[SK_ADMIN_NAME_SIZE];
        const enum sk_caller auths[] = {SK_CALLER_FORBIDDEN, SK_CALLER_KNOWN};
        ck_assert_int_eq(ask(rows[i].value, 1, SK_ROLE_READ, name), auths[rows[i].reads]);
        ck_assert_int_eq(ask(rows[i].value, 1, SK_ROLE_OPERATE, name), auths[rows[i].operates]);
        ck_assert_int_eq(ask(rows[i].value, 1, SK_ROLE_PAYMENTS, name), auths[rows[i].pays]);
        ck_assert_int_eq(ask(rows[i].value, 1, SK_ROLE_METRICS, name), auths[rows[i].scrapes]);
        ck_assert_int_eq(ask(rows[i].value, 1, SK_ROLE_REFUNDS, name), auths[rows[i].refunds]);
        ck_assert_int_eq(ask(rows[i].value, 1, SK_ROLE_ANY, name), SK_CALLER_KNOWN);
        ck_assert_str_eq(name, rows[i].name);
        ck_assert_int_eq(ask(rows[i].value, 2, SK_ROLE_ANY, name), SK_CALLER_UNKNOWN);
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
static const struct field no_field;

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
    char name[SK_ADMIN_NAME_SIZE];
    sent = (struct field){"authorization", "Bearer payments-token-01", 1};
    ck_assert_int_eq(pay(secret, name), SK_CALLER_KNOWN);
    ck_assert_str_eq(name, "shop");
    ck_assert_int_eq(pay(NULL, name), SK_CALLER_KNOWN);
    sent.value = "Bearer operator-token-01";
    ck_assert_int_eq(pay(secret, name), SK_CALLER_FORBIDDEN);
    sent = no_field;
    ck_assert_int_eq(pay(secret, name), SK_CALLER_UNKNOWN);
    sign(0);
    ck_assert_int_eq(pay(secret, name), SK_CALLER_KNOWN);
    ck_assert_str_eq(name, "payment callback");
    ck_assert_int_eq(pay(secret, name), SK_CALLER_KNOWN); // again
    sign(250);
    ck_assert_int_eq(pay(secret, name), SK_CALLER_KNOWN);
    sign(-250);
    ck_assert_int_eq(pay(secret, name), SK_CALLER_KNOWN);
}

// Whatever token is also sent.
TEST(a_signature_that_is_not_good_is_refused)
{
    char name[SK_ADMIN_NAME_SIZE], other[] = "0123456789abcdeg";
    sent = (struct field){"authorization", "Bearer payments-token-01", 1};
    sign(400);
    ck_assert_int_eq(pay(secret, name), SK_CALLER_BAD_SIGNATURE);
    sign(-400);
    ck_assert_int_eq(pay(secret, name), SK_CALLER_BAD_SIGNATURE);
    sign(0);
    ck_assert_int_eq(pay(other, name), SK_CALLER_BAD_SIGNATURE);
    ck_assert_int_eq(pay(NULL, name), SK_CALLER_BAD_SIGNATURE);
    body[0] = '[';
    ck_assert_int_eq(pay(secret, name), SK_CALLER_BAD_SIGNATURE);
    body[0] = '{';
    signature.count = 2;
    ck_assert_int_eq(pay(secret, name), SK_CALLER_BAD_SIGNATURE);
    signature.count = 1;
    stamp.count = 2;
    ck_assert_int_eq(pay(secret, name), SK_CALLER_BAD_SIGNATURE);
    stamp = no_field;
    ck_assert_int_eq(pay(secret, name), SK_CALLER_BAD_SIGNATURE);
    sign(0);
    signature = no_field;
    ck_assert_int_eq(pay(secret, name), SK_CALLER_BAD_SIGNATURE);
    ck_assert_str_eq(name, "");
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

SUITE(.setup = setup, .teardown = teardown);
