// Who is calling: one X-User-Id of the allowed form, or none; for admin calls, a token with the right role.
#include <string.h>

#include "auth.h"
#include "stack.h"

static char token[] = "s3cret-token";
static char lines[] = "reader read reader-token-0001\n"
                      "operator operate operator-token-01\n"
                      "shop payments payments-token-01\n";
static struct sk_tokens *tokens;

// The one field that the request has.
static struct {
    const char *name, *value;
    unsigned count;
} sent;

const char *sk_request_header(const struct sk_request *request, const char *name, unsigned *count)
{
    (void)request;
    bool found = sent.name != NULL && strcmp(sent.name, name) == 0;
    *count = found ? sent.count : 0;
    return found ? sent.value : NULL;
}

static void setup(void)
{
    struct sk_config config = {.admin_token = token, .admin_tokens = lines};
    tokens = sk_tokens_open(&config, stderr);
    ck_assert_ptr_nonnull(tokens);
}

static void teardown(void)
{
    sk_tokens_close(tokens);
}

static enum sk_verdict ask(const char *value, unsigned count, enum sk_role role, char name[SK_ADMIN_NAME_SIZE])
{
    struct sk_request request = {0};
    sent.name = "authorization";
    sent.value = value;
    sent.count = count;
    return sk_auth_admin(&request, tokens, role, name);
}

START_TEST(a_user_is_one_field_of_the_allowed_form)
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
        {"alice", 2, false}, // sent twice, even if both say the same
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
        ck_assert_msg(sk_auth_user(&request, user) == rows[i].good, "'%s'", rows[i].value);
        if (rows[i].good)
            ck_assert_str_eq(user, rows[i].value);
    }
}
END_TEST

START_TEST(an_admin_has_the_one_token)
{
    static const struct {
        const char *value;
        unsigned count;
        enum sk_verdict verdict;
    } rows[] = {
        {"Bearer s3cret-token", 1, SK_VERDICT_FOUND},
        {"bearer s3cret-token", 1, SK_VERDICT_FOUND}, // schemes have no case
        {"BEARER s3cret-token", 1, SK_VERDICT_FOUND},
        {NULL, 0, SK_VERDICT_UNAUTHENTICATED},
        {"Bearer s3cret-token", 2, SK_VERDICT_UNAUTHENTICATED},
        {"", 1, SK_VERDICT_UNAUTHENTICATED},
        {"Bearer", 1, SK_VERDICT_UNAUTHENTICATED},
        {"Bearer ", 1, SK_VERDICT_UNAUTHENTICATED},
        {"Bearer  s3cret-token", 1, SK_VERDICT_UNAUTHENTICATED},
        {"Bearer s3cret-token ", 1, SK_VERDICT_UNAUTHENTICATED},
        {"Bearer\ts3cret-token", 1, SK_VERDICT_UNAUTHENTICATED},
        {"Bearers3cret-token", 1, SK_VERDICT_UNAUTHENTICATED},
        {"s3cret-token", 1, SK_VERDICT_UNAUTHENTICATED},
        {"Basic s3cret-token", 1, SK_VERDICT_UNAUTHENTICATED},
        {"Token s3cret-token", 1, SK_VERDICT_UNAUTHENTICATED},
        {"Bearer S3cret-token", 1, SK_VERDICT_UNAUTHENTICATED},
        {"Bearer s3cret-tokem", 1, SK_VERDICT_UNAUTHENTICATED}, // wrong at the end
        {"Bearer t3cret-token", 1, SK_VERDICT_UNAUTHENTICATED}, // at the beginning
        {"Bearer s3cret-toke", 1, SK_VERDICT_UNAUTHENTICATED},
        {"Bearer s3cret-tokenn", 1, SK_VERDICT_UNAUTHENTICATED},
        {"Bearer s3cret-tokens3cret-token", 1, SK_VERDICT_UNAUTHENTICATED},
        {"Bearer s3cret-token, Bearer s3cret-token", 1, SK_VERDICT_UNAUTHENTICATED},
        {"Bearer \xff", 1, SK_VERDICT_UNAUTHENTICATED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[SK_ADMIN_NAME_SIZE] = "";
        ck_assert_msg(ask(rows[i].value, rows[i].count, SK_ROLE_OPERATE, name) == rows[i].verdict, "'%s'",
                      rows[i].value);
        ck_assert_str_eq(name, rows[i].verdict == SK_VERDICT_FOUND ? "admin" : "");
    }
}
END_TEST

// Every single bit of every character counts, so the comparison cannot stop early with "equal".
START_TEST(a_token_wrong_in_one_bit_is_wrong)
{
    char value[64] = "Bearer ", name[SK_ADMIN_NAME_SIZE];
    for (size_t at = 0; at < sizeof token - 1; at++) {
        for (int bit = 0; bit < 8; bit++) {
            memcpy(value + 7, token, sizeof token);
            value[7 + at] = (char)(value[7 + at] ^ 1 << bit);
            ck_assert_int_eq(ask(value, 1, SK_ROLE_READ, name), SK_VERDICT_UNAUTHENTICATED);
        }
    }
}
END_TEST

START_TEST(a_role_allows_what_it_names)
{
    static const struct {
        const char *value, *name;
        bool reads, operates, pays;
    } rows[] = {
        {"Bearer reader-token-0001", "reader", true, false, false},
        {"Bearer operator-token-01", "operator", true, true, false},
        {"Bearer payments-token-01", "shop", false, false, true},
        {"Bearer s3cret-token", "admin", true, true, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[SK_ADMIN_NAME_SIZE];
        const enum sk_verdict verdicts[] = {SK_VERDICT_FORBIDDEN, SK_VERDICT_FOUND};
        ck_assert_int_eq(ask(rows[i].value, 1, SK_ROLE_READ, name), verdicts[rows[i].reads]);
        ck_assert_int_eq(ask(rows[i].value, 1, SK_ROLE_OPERATE, name), verdicts[rows[i].operates]);
        ck_assert_int_eq(ask(rows[i].value, 1, SK_ROLE_PAYMENTS, name), verdicts[rows[i].pays]);
        ck_assert_int_eq(ask(rows[i].value, 1, SK_ROLE_ANY, name), SK_VERDICT_FOUND);
        ck_assert_str_eq(name, rows[i].name);
        ck_assert_int_eq(ask(rows[i].value, 2, SK_ROLE_ANY, name), SK_VERDICT_UNAUTHENTICATED);
    }
}
END_TEST

START_TEST(without_a_token_admin_calls_are_off)
{
    struct sk_config config = {0};
    char name[SK_ADMIN_NAME_SIZE];
    sk_tokens_close(tokens);
    tokens = sk_tokens_open(&config, stderr);
    ck_assert_int_eq(ask(NULL, 0, SK_ROLE_ANY, name), SK_VERDICT_ADMIN_OFF);
    ck_assert_int_eq(ask("Bearer x", 1, SK_ROLE_ANY, name), SK_VERDICT_ADMIN_OFF);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("auth");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_user_is_one_field_of_the_allowed_form);
    tcase_add_test(tcase, an_admin_has_the_one_token);
    tcase_add_test(tcase, a_token_wrong_in_one_bit_is_wrong);
    tcase_add_test(tcase, a_role_allows_what_it_names);
    tcase_add_test(tcase, without_a_token_admin_calls_are_off);
    return harness_main(tcase, CK_FORK);
}
