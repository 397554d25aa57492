// Who the user is, over HTTP: tokens instead of X-User-Id, and one uniform answer to all rejected ones. Also keys that
// change under load, and the addresses where a gateway's X-User-Id is trusted.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "books.h"
#include "http.h"
#include "identity.h"
#include "service_log.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

#define ADMIN     "Authorization: Bearer admin-token-of-the-tests\r\n"
#define READER    "Authorization: Bearer reader-token-0001\r\n"
#define HEADER_A  "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"a\"}"
#define HEADER_ED "{\"alg\":\"EdDSA\",\"kid\":\"ed\"}"
#define HEADER_RS "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"rs\"}"
#define HEADER_ES "{\"alg\":\"ES256\",\"kid\":\"es\"}"
#define KEY_SET                                                                                         \
    JWK_SET(JWK_OCT("a", SECRET_A) "," JWK_OCT("b", SECRET_B) "," JWK_OKP("ed", ED_PUBLIC) "," JWK_RSA( \
        "rs", RSA_N, RSA_E) "," JWK_EC("es", EC_X, EC_Y))
#define KEY_A       "a HS256 " SECRET_A "\n"
#define KEY_B       "b HS256 " SECRET_B "\n"
#define KEY_ED      "ed EdDSA " ED_PUBLIC "\n"
#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])
#define WORDS(...)  ((const char *const[]){__VA_ARGS__, NULL})
#define NO_WORDS    ((const char *const[]){NULL})
#define DATABASE    "SECKILL_DATABASE_URL=postgresql://nobody@127.0.0.1:1/none"

enum { STOCK = 50, PATH_SIZE = 256, TEXT_SIZE = 8192, LOG_SIZE = 65536, LOADERS = 4, RELOADS = 40 };

static const struct token_key key_rs = {SK_JWS_RS256, {RSA_N, RSA_E}, RSA_PRIVATE},
                              key_es = {SK_JWS_ES256, {EC_X, EC_Y}, EC_PRIVATE},
                              confused_rs = {SK_JWS_HS256, {RSA_N}, NULL}, key_a = {SK_JWS_HS256, {SECRET_A}, NULL},
                              key_b = {SK_JWS_HS256, {SECRET_B}, NULL},
                              key_ed = {SK_JWS_EDDSA, {ED_PUBLIC}, ED_PRIVATE},
                              confused = {SK_JWS_HS256, {ED_PUBLIC}, NULL};
static char keys_path[] = "/tmp/seckill-keys-XXXXXX", keys_env[PATH_SIZE], revoked_path[PATH_SIZE],
            revoked_env[2 * PATH_SIZE];

// ---- keys and tokens ----

// Replaces the file atomically, as an operator should.
static void write_file(const char *path, const char *text)
{
    char beside[2 * PATH_SIZE];
    (void)snprintf(beside, sizeof beside, "%s.new", path);
    FILE *file = fopen(beside, "we");
    ck_assert_ptr_nonnull(file);
    (void)fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(rename(beside, path), 0);
}

static void write_keys(const char *text)
{
    write_file(keys_path, text);
}

static void write_revoked(const char *text)
{
    write_file(revoked_path, text);
}

static void setup(void)
{
    stack_start(STACK_ALL);
    int fd = mkstemp(keys_path);
    ck_assert_int_ge(fd, 0);
    (void)close(fd);
    (void)snprintf(keys_env, sizeof keys_env, "SECKILL_TOKEN_KEYS=%s", keys_path);
    (void)snprintf(revoked_path, sizeof revoked_path, "%s-revoked", keys_path);
    (void)snprintf(revoked_env, sizeof revoked_env, "SECKILL_TOKEN_REVOKED=%s", revoked_path);
}

static void remove_keys(void)
{
    (void)unlink(keys_path);
    (void)unlink(revoked_path);
}

#define BY_TOKEN "SECKILL_AUTH=token", "SECKILL_TOKEN_ISSUER=" ISSUER, "SECKILL_TOKEN_AUDIENCE=" AUDIENCE, keys_env

static struct service *start_by_token(const char *keys)
{
    write_keys(keys);
    return service_start(ENV(BY_TOKEN, "SECKILL_REACTORS=2", "SECKILL_ADMIN_TOKENS=reader read reader-token-0001"));
}

// `from_now_s`: when the token expires. It was issued now.
static void claims_of(char out[TEXT_SIZE], const char *user, long from_now_s, const char *more)
{
    (void)snprintf(out, TEXT_SIZE,
                   "{\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE "\",\"sub\":\"%s\",\"iat\":%ld,\"exp\":%ld%s}", user,
                   (long)time(NULL), (long)time(NULL) + from_now_s, more);
}

static void field_of(char out[TEXT_SIZE], const char *token)
{
    int n = snprintf(out, TEXT_SIZE, "Authorization: Bearer %s\r\n", token);
    ck_assert(n > 0 && n < TEXT_SIZE);
}

// The header field with a token signed by this key.
static void token_of(char out[TEXT_SIZE], const struct token_key *key, const char *header, const char *claims)
{
    char *token = token_make(key, header, claims);
    field_of(out, token);
    free(token);
}

static void good_token(char out[TEXT_SIZE], const char *user)
{
    char claims[TEXT_SIZE];
    claims_of(claims, user, 600, "");
    token_of(out, &key_a, HEADER_A, claims);
}

static int buy(const struct service *service, const char *voucher, const char *headers, struct http_reply *reply)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "/seckill/%s", voucher);
    return http_ask(service, "POST", path, headers, NULL, reply);
}

// ---- tokens that are not checked ----

// Checking an Ed25519 signature takes longer than everything else in a rejected request.
TEST(an_operators_call_computes_no_signature)
{
    static const char *const calls[][2] = {{"GET", "/admin/vouchers"},
                                           {"POST", "/admin/vouchers"},
                                           {"POST", "/orders/018bcfe5-6800-7000-8000-0123456789ab/pay"},
                                           {"POST", "/orders/018bcfe5-6800-7000-8000-0123456789ab/refund"},
                                           {"GET", "/metrics"}};
    enum { CALLS = sizeof calls / sizeof calls[0], FORGED = 60 };
    char claims[TEXT_SIZE], field[TEXT_SIZE], path[PATH_SIZE];
    struct http_reply reply;
    write_keys(KEY_ED);
    struct service *service = service_start(ENV(BY_TOKEN));
    for (int i = 0; i < FORGED; i++) {
        claims_of(claims, "alice", 600 + i, "");
        token_of(field, &key_ed, HEADER_ED, claims);
        field[strlen(field) - 6] ^= 1; // in its signature
        (void)http_ask(service, calls[i % CALLS][0], calls[i % CALLS][1], field, NULL, &reply);
        http_must_be_problem(&reply, 401, "UNAUTHENTICATED");
    }
    ck_assert_int_eq((int)http_sample(service, "seckill_user_token_signatures_total"), 0);
    ck_assert_int_eq((int)http_sample(service, "seckill_auth_failures_total{kind=\"admin_token\"}"), FORGED);
    good_token(field, "alice"); // a valid user token does not count there either
    (void)snprintf(path, sizeof path, "/admin/vouchers");
    (void)http_ask(service, "GET", path, field, NULL, &reply);
    http_must_be_problem(&reply, 401, "UNAUTHENTICATED");
}

// Wrong tokens from one address are checked only up to its rate.
TEST(guessing_is_limited_and_counted)
{
    enum { GUESSES = 300, RATE = 20 };
    char field[TEXT_SIZE];
    struct http_reply reply;
    int refused = 0, limited = 0;
    struct service *service = service_start(ENV("SECKILL_ADDRESS_RATE=20"));
    for (int i = 0; i < GUESSES; i++) {
        (void)snprintf(field, sizeof field, "Authorization: Bearer guess-number-%08d\r\n", i);
        int status = http_ask(service, "GET", "/admin/vouchers", field, NULL, &reply);
        ck_assert_int_eq(status == 401 || status == 429, true);
        refused += status == 401;
        limited += status == 429;
    }
    ck_assert_int_ge(refused, RATE);
    ck_assert_int_gt(limited, 0);
    ck_assert_int_eq(refused + limited, GUESSES);
    WAIT_FOR(http_ask(service, "GET", "/admin/vouchers", ADMIN, NULL, &reply) == 200);
    ck_assert_int_eq((int)http_sample(service, "seckill_auth_failures_total{kind=\"admin_token\"}"), refused);
}

// ---- valid tokens ----

TEST(a_token_is_a_user)
{
    struct service *service = start_by_token(KEY_SET);
    char voucher[VOUCHER_ID_SIZE], alice[TEXT_SIZE], bob[TEXT_SIZE], others[TEXT_SIZE], claims[TEXT_SIZE],
        path[PATH_SIZE];
    char user[HTTP_FIELD_SIZE], order[HTTP_FIELD_SIZE], both[TEXT_SIZE + PATH_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    good_token(alice, "alice");
    claims_of(claims, "bob", 600, ",\"nbf\":1,\"name\":\"B\\u00f6b\"");
    token_of(bob, &key_ed, HEADER_ED, claims);
    // X-User-Id next to a token does not count.
    (void)snprintf(both, sizeof both, "X-User-Id: mallory\r\nX-User-Id: eve\r\nX_User_Id: eve\r\n%s", alice);
    WAIT_FOR(buy(service, voucher, both, &reply) != 503);
    ck_assert_msg(reply.status == 201, "%s", reply.body);
    ck_assert(http_member(&reply, "user_id", user) && http_member(&reply, "id", order));
    ck_assert_str_eq(user, "alice");
    ck_assert_int_eq(buy(service, voucher, bob, &reply), 201);
    ck_assert_int_eq(buy(service, voucher, bob, &reply), 409);
    ck_assert(http_is_problem(&reply, 409, "ALREADY_ORDERED"));
    (void)snprintf(path, sizeof path, "/orders/%.64s", order);
    ck_assert_int_eq(http_ask(service, "GET", path, alice, NULL, &reply), 200);
    ck_assert_int_eq(http_ask(service, "GET", path, bob, NULL, &reply), 404); // another user's
    ck_assert_int_eq(http_ask(service, "GET", path, READER, NULL, &reply), 200);
    ck_assert_int_eq(http_ask(service, "GET", path, ADMIN, NULL, &reply), 200);
    ck_assert_int_eq(http_ask(service, "GET", "/orders", bob, NULL, &reply), 200);
    ck_assert_ptr_null(strstr(reply.body, order));
    claims_of(claims, "carol", 600, "");
    token_of(others, &key_rs, HEADER_RS, claims);
    ck_assert_int_eq(buy(service, voucher, others, &reply), 201);
    ck_assert(http_member(&reply, "user_id", user) && strcmp(user, "carol") == 0);
    claims_of(claims, "dave", 600, "");
    token_of(others, &key_es, HEADER_ES, claims);
    ck_assert_int_eq(buy(service, voucher, others, &reply), 201);
    ck_assert(http_member(&reply, "user_id", user) && strcmp(user, "dave") == 0);
    // The scheme is case-insensitive.
    strstr(alice, "Bearer")[1] = 'E';
    ck_assert_int_eq(http_ask(service, "GET", path, alice, NULL, &reply), 200);
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s", voucher), 4);
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE user_id IN ('mallory', 'eve')"), 0);
    books_must_balance(voucher);
}

TEST(a_minted_token_is_good)
{
    struct service *service = start_by_token(KEY_ED KEY_A);
    char said[TEXT_SIZE], voucher[VOUCHER_ID_SIZE], field[TEXT_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    ck_assert_int_eq(service_run(WORDS("token", "carol", "60"), ENV(BY_TOKEN), said, sizeof said), 0);
    ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1); // and prints nothing else
    said[strlen(said) - 1] = '\0';
    field_of(field, said);
    WAIT_FOR(buy(service, voucher, field, &reply) != 503);
    ck_assert_msg(reply.status == 201 && strstr(reply.body, "\"carol\"") != NULL, "%s", reply.body);
    static const struct {
        const char *user, *seconds, *says;
    } rows[] = {{"a b", NULL, "USER"},  {"", NULL, "USER"},      {"a", "0", "SECONDS"},
                {"a", "-1", "SECONDS"}, {"a", "1e3", "SECONDS"}, {"a", "31536001", "SECONDS"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *const words[] = {"token", rows[i].user, rows[i].seconds, NULL};
        ck_assert_int_eq(service_run(words, ENV(BY_TOKEN), said, sizeof said), 1);
        ck_assert_msg(strstr(said, rows[i].says) != NULL, "%s", said);
    }
    ck_assert_int_eq(service_run(WORDS("token", "carol"), ENV("SECKILL_TOKEN_ISSUER=x"), said, sizeof said), 1);
    ck_assert_msg(strstr(said, "SECKILL_TOKEN_KEYS") != NULL, "%s", said);
    write_keys(KEY_ED); // without its private key
    ck_assert_int_eq(service_run(WORDS("token", "carol"), ENV(BY_TOKEN), said, sizeof said), 1);
    ck_assert_msg(strstr(said, "no key can sign") != NULL, "%s", said);
    ck_assert_int_eq(service_run(WORDS("token"), ENV(BY_TOKEN), said, sizeof said), 2);
    books_must_balance(voucher);
}

// Runs `check-token` with this text on its standard input.
static int check_token(const char *text, char said[TEXT_SIZE])
{
    FILE *file = tmpfile();
    int before = dup(STDIN_FILENO);
    ck_assert(file != NULL && before >= 0);
    ck_assert_int_ge(fputs(text, file), 0);
    rewind(file);
    ck_assert_int_ge(dup2(fileno(file), STDIN_FILENO), 0);
    int code = service_run(WORDS("check-token"), ENV(BY_TOKEN), said, TEXT_SIZE);
    ck_assert_int_ge(dup2(before, STDIN_FILENO), 0);
    (void)close(before);
    (void)fclose(file);
    return code;
}

// It prints the rule that the token fails, and nothing of the token.
TEST(a_token_can_be_checked)
{
    static const struct {
        const char *claims; // %ld: ten minutes from now
        int code;
        const char *says;
    } rows[] = {
        {"\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE "\",\"sub\":\"alice\",\"exp\":%ld", 0,
         "good: the user is alice\n"},
        {"\"iss\":\"" ISSUER "\",\"aud\":\"account\",\"sub\":\"alice\",\"exp\":%ld", 1,
         "refused: its aud does not contain SECKILL_TOKEN_AUDIENCE\n"},
        {"\"iss\":\"" ISSUER "/\",\"aud\":\"" AUDIENCE "\",\"sub\":\"alice\",\"exp\":%ld", 1,
         "refused: its iss is not SECKILL_TOKEN_ISSUER\n"},
        {"\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE "\",\"sub\":\"a b\",\"exp\":%ld", 1,
         "refused: the user's claim is no user id\n"},
        {"\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE "\",\"sub\":\"alice\",\"exp\":1,\"iat\":%ld", 1,
         "refused: it has expired\n"},
    };
    char claims[TEXT_SIZE], text[TEXT_SIZE], said[TEXT_SIZE];
    write_keys(KEY_ED KEY_A);
    for (size_t i = 0; i < COUNT(rows); i++) {
        (void)snprintf(text, sizeof text, rows[i].claims, (long)time(NULL) + 600);
        (void)snprintf(claims, sizeof claims, "{%s}", text);
        char *token = token_make(&key_a, HEADER_A, claims);
        (void)snprintf(text, sizeof text, "%s\n", token);
        free(token);
        ck_assert_int_eq(check_token(text, said), rows[i].code);
        ck_assert_str_eq(said, rows[i].says);
        text[0] ^= 1;
        ck_assert_int_eq(check_token(text, said), 1);
        ck_assert_str_eq(said, "refused: its header is not that of a signed token with a key id\n");
    }
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ck_assert_int_eq(check_token(text, said), 1);
    ck_assert_str_eq(said, "refused: it is not of three parts, or too long\n");
    ck_assert_int_eq(check_token("", said), 1);
    ck_assert_int_eq(service_run(WORDS("check-token"), ENV("SECKILL_TOKEN_ISSUER=x"), said, sizeof said), 1);
    ck_assert_msg(strstr(said, "SECKILL_TOKEN_KEYS") != NULL, "%s", said);
}

// ---- invalid tokens ----

struct refused {
    const char *name;
    char field[TEXT_SIZE];
};

static struct refused refused[64];
static size_t refused_count;

static char *refuse(const char *name)
{
    ck_assert_uint_lt(refused_count, COUNT(refused));
    refused[refused_count].name = name;
    return refused[refused_count++].field;
}

static void refuse_claims(const char *name, const char *format, long seconds)
{
    char claims[TEXT_SIZE];
    (void)snprintf(claims, sizeof claims, format, (long)time(NULL) + seconds);
    token_of(refuse(name), &key_a, HEADER_A, claims);
}

static void refuse_fields(void)
{
    char alice[TEXT_SIZE];
    int n;
    good_token(alice, "alice");
    refuse("no field")[0] = '\0';
    (void)snprintf(refuse("X-User-Id alone"), TEXT_SIZE, "X-User-Id: alice\r\n");
    (void)snprintf(refuse("X-User-Id twice"), TEXT_SIZE, "X-User-Id: alice\r\nX-User-Id: alice\r\n");
    (void)snprintf(refuse("with an underscore"), TEXT_SIZE, "X_User_Id: alice\r\n");
    (void)snprintf(refuse("Basic"), TEXT_SIZE, "Authorization: Basic YWxpY2U6YWxpY2U=\r\n");
    (void)snprintf(refuse("a token as Basic"), TEXT_SIZE, "Authorization: Basic%s", strstr(alice, "Bearer") + 6);
    (void)snprintf(refuse("no scheme"), TEXT_SIZE, "Authorization:%s", strstr(alice, "Bearer") + 6);
    n = snprintf(refuse("the same field twice"), TEXT_SIZE, "%s%s", alice, alice);
    ck_assert_int_lt(n, TEXT_SIZE);
    (void)snprintf(refuse("two tokens in one field"), TEXT_SIZE, "%.*s, %s", (int)strlen(alice) - 2, alice,
                   strstr(alice, "Bearer"));
    (void)snprintf(refuse("an admin's token"), TEXT_SIZE, "Authorization: Bearer admin-token-of-the-testz\r\n");
    (void)snprintf(refuse("a word behind it"), TEXT_SIZE, "%.*s x\r\n", (int)strlen(alice) - 2, alice);
    (void)snprintf(refuse("nothing"), TEXT_SIZE, "Authorization: Bearer \r\n");
}

static void refuse_headers(void)
{
    static const char none[] = "{\"alg\":\"none\",\"kid\":\"a\"}";
    char claims[TEXT_SIZE], *token;
    claims_of(claims, "alice", 600, "");
    token_of(refuse("alg none, signed"), &key_a, none, claims);
    token = token_make(&key_a, none, claims);
    strrchr(token, '.')[1] = '\0';
    field_of(refuse("alg none, without a signature"), token);
    *strrchr(token, '.') = '\0';
    field_of(refuse("1 dot"), token);
    free(token);
    token_of(refuse("HS256 with the public key, under its kid"), &confused, "{\"alg\":\"HS256\",\"kid\":\"ed\"}",
             claims);
    token_of(refuse("the same, said to be EdDSA"), &confused, HEADER_ED, claims);
    token_of(refuse("HS256 with the modulus, under its kid"), &confused_rs, "{\"alg\":\"HS256\",\"kid\":\"rs\"}",
             claims);
    token_of(refuse("the same, said to be RS256"), &confused_rs, HEADER_RS, claims);
    token_of(refuse("RS256, said to be PS256"), &key_rs, "{\"alg\":\"PS256\",\"kid\":\"rs\"}", claims);
    token_of(refuse("RS256 under the kid of ES256"), &key_rs, HEADER_ES, claims);
    token_of(refuse("ES256 under the kid of RS256"), &key_es, HEADER_RS, claims);
    token_of(refuse("ES256 under the kid of EdDSA"), &key_es, HEADER_ED, claims);
    token_of(refuse("HS512"), &key_a, "{\"alg\":\"HS512\",\"kid\":\"a\"}", claims);
    token_of(refuse("wrong kid"), &key_a, "{\"alg\":\"HS256\",\"kid\":\"z\"}", claims);
    token_of(refuse("another key's kid"), &key_a, "{\"alg\":\"HS256\",\"kid\":\"b\"}", claims);
    token_of(refuse("no kid"), &key_a, "{\"alg\":\"HS256\"}", claims);
    token_of(refuse("no alg"), &key_a, "{\"kid\":\"a\"}", claims);
    token_of(refuse("crit"), &key_a, "{\"alg\":\"HS256\",\"kid\":\"a\",\"crit\":[\"exp\"]}", claims);
    token_of(refuse("alg twice"), &key_a, "{\"alg\":\"HS256\",\"kid\":\"a\",\"alg\":\"HS256\"}", claims);
    token_of(refuse("a header that is no JSON"), &key_a, "alg HS256 kid a", claims);
}

static void refuse_forms(void)
{
    char claims[TEXT_SIZE], long_claims[TEXT_SIZE], filler[4200], *token;
    claims_of(claims, "alice", 600, "");
    token = token_make(&key_a, HEADER_A, claims);
    (void)snprintf(refuse("3 dots"), TEXT_SIZE, "Authorization: Bearer %s.\r\n", token);
    (void)snprintf(refuse("4 dots"), TEXT_SIZE, "Authorization: Bearer %s.AAAA.AAAA\r\n", token);
    (void)snprintf(refuse("padding"), TEXT_SIZE, "Authorization: Bearer %s=\r\n", token);
    token[strlen(token) - 5] = '+';
    field_of(refuse("bad base64 in the signature"), token);
    token[strlen(token) - 5] = token[5] = '!';
    field_of(refuse("bad base64 in the header"), token);
    free(token);
    token = token_make(&key_a, HEADER_A, claims);
    token[strlen(token) - 5] = token[strlen(token) - 5] == 'A' ? 'B' : 'A';
    field_of(refuse("a bit of the signature"), token);
    free(token);
    token = token_make(&key_a, HEADER_A, claims);
    char *second = strchr(token, '.') + 1;
    second[9] = second[9] == 'A' ? 'B' : 'A';
    field_of(refuse("a bit of the claims"), token);
    free(token);
    memset(filler, 'x', sizeof filler - 1);
    filler[sizeof filler - 1] = '\0';
    claims_of(long_claims, "alice", 600, ",\"x\":\"");
    (void)snprintf(claims, sizeof claims, "%.*s%s\"}", (int)strlen(long_claims) - 1, long_claims, filler);
    token = token_make(&key_a, HEADER_A, claims);
    ck_assert_uint_gt(strlen(token), 5700); // 6 KB
    field_of(refuse("6 KB"), token);
    free(token);
}

#define CLAIMS_BUT_EXP "\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE "\",\"sub\":\"alice\""

static void refuse_all_claims(void)
{
    char long_sub[TEXT_SIZE];
    refuse_claims("expired", "{" CLAIMS_BUT_EXP ",\"exp\":%ld}", -31);
    refuse_claims("future nbf", "{" CLAIMS_BUT_EXP ",\"exp\":99999999999,\"nbf\":%ld}", 60);
    refuse_claims("wrong iss", "{\"iss\":\"evil\",\"aud\":\"" AUDIENCE "\",\"sub\":\"alice\",\"exp\":%ld}", 600);
    refuse_claims("no iss", "{\"aud\":\"" AUDIENCE "\",\"sub\":\"alice\",\"exp\":%ld}", 600);
    refuse_claims("wrong aud", "{\"iss\":\"" ISSUER "\",\"aud\":\"evil\",\"sub\":\"alice\",\"exp\":%ld}", 600);
    refuse_claims("no aud", "{\"iss\":\"" ISSUER "\",\"sub\":\"alice\",\"exp\":%ld}", 600);
    refuse_claims("exp as string", "{" CLAIMS_BUT_EXP ",\"exp\":\"%ld\"}", 600);
    refuse_claims("no exp", "{" CLAIMS_BUT_EXP "}", 600);
    refuse_claims("sub twice", "{" CLAIMS_BUT_EXP ",\"exp\":%ld,\"sub\":\"bob\"}", 600);
    refuse_claims("exp twice", "{" CLAIMS_BUT_EXP ",\"exp\":%ld,\"exp\":99999999999}", 600);
    refuse_claims("sub twice, escaped", "{" CLAIMS_BUT_EXP ",\"exp\":%ld,\"\\u0073ub\":\"bob\"}", 600);
    refuse_claims("no sub", "{\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE "\",\"exp\":%ld}", 600);
    claims_of(long_sub, "", 600, "");
    token_of(refuse("empty sub"), &key_a, HEADER_A, long_sub);
    claims_of(long_sub, "01234567890123456789012345678901234567890123456789012345678901234", 600, "");
    token_of(refuse("sub of 65"), &key_a, HEADER_A, long_sub);
    claims_of(long_sub, "alice@example.org", 600, "");
    token_of(refuse("sub of other characters"), &key_a, HEADER_A, long_sub);
    refuse_claims("claims that are a list", "[%ld]", 600);
    claims_of(long_sub, "mallory", 600, "");
    token_of(refuse("a revoked user"), &key_rs, HEADER_RS, long_sub);
    claims_of(long_sub, "alice", 600, ",\"jti\":\"stolen\"");
    token_of(refuse("a revoked token"), &key_es, HEADER_ES, long_sub);
}

// The answer without its date.
static void without_date(const struct http_reply *reply, struct sk_buf *out)
{
    const char *date = strstr(reply->text, "\r\nDate: ");
    ck_assert_ptr_nonnull(date);
    sk_buf_clear(out);
    sk_buf_add(out, reply->text, (size_t)(date - reply->text));
    sk_buf_puts(out, date + 2 + strcspn(date + 2, "\r"));
    sk_buf_puts(out, reply->body);
    ck_assert(!out->failed);
}

TEST(all_refusals_are_one)
{
    static const char *const asks[][2] = {{"POST", "/seckill/%s"},
                                          {"GET", "/orders"},
                                          {"GET", "/orders/018bcfe5-6800-7000-8000-0123456789ab"},
                                          {"POST", "/orders/018bcfe5-6800-7000-8000-0123456789ab/cancel"}};
    write_keys(KEY_SET);
    write_revoked("jti:stolen\nsub:mallory\n");
    struct service *service = service_start(ENV(BY_TOKEN, revoked_env));
    char voucher[VOUCHER_ID_SIZE], path[PATH_SIZE], alice[TEXT_SIZE];
    struct sk_buf first = {0}, text = {0};
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    refuse_fields();
    refuse_headers();
    refuse_forms();
    refuse_all_claims();
    for (size_t i = 0; i < refused_count; i++) {
        for (size_t j = 0; j < COUNT(asks); j++) {
            (void)snprintf(path, sizeof path, asks[j][1], voucher);
            int status = http_ask(service, asks[j][0], path, refused[i].field, NULL, &reply);
            ck_assert_msg(status == 401, "%s: %s %s: %d %s", refused[i].name, asks[j][0], path, status, reply.body);
            ck_assert(http_is_problem(&reply, 401, "UNAUTHENTICATED"));
            without_date(&reply, first.len == 0 ? &first : &text);
            ck_assert_msg(text.len == 0 || strcmp(first.data, text.data) == 0, "%s: %s", refused[i].name, text.data);
        }
    }
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s", voucher), 0);
    sk_buf_free(&first);
    sk_buf_free(&text);
    // The control: the same claims with a valid signature are accepted.
    good_token(alice, "alice");
    WAIT_FOR(buy(service, voucher, alice, &reply) != 503);
    ck_assert_int_eq(reply.status, 201);
    books_must_balance(voucher);
}

TEST(a_user_is_no_admin)
{
    static const struct {
        const char *method, *path, *body;
    } rows[] = {
        {"GET", "/admin/vouchers", NULL},
        {"GET", "/admin/vouchers/%s", NULL},
        {"GET", "/admin/orders?voucher=1", NULL},
        {"GET", "/admin/vouchers/%s/nowhere", NULL},
        {"DELETE", "/admin/vouchers/%s", NULL},
        {"POST", "/admin/vouchers", "{}"},
        {"POST", "/admin/vouchers/%s/pause", NULL},
        {"POST", "/admin/vouchers/%s/reconcile", NULL},
        {"POST", "/orders/018bcfe5-6800-7000-8000-0123456789ab/pay", "{}"},
        {"POST", "/orders/018bcfe5-6800-7000-8000-0123456789ab/refund", "{}"},
    };
    struct service *service = start_by_token(KEY_A KEY_ED);
    char voucher[VOUCHER_ID_SIZE], path[PATH_SIZE], alice[TEXT_SIZE], late[TEXT_SIZE], claims[TEXT_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    int64_t epoch = db_number("SELECT epoch FROM voucher_stock WHERE voucher_id = %s", voucher);
    good_token(alice, "admin");
    claims_of(claims, "admin", -31, ",\"roles\":[\"operate\"]");
    token_of(late, &key_a, HEADER_A, claims);
    for (size_t i = 0; i < COUNT(rows); i++) {
        (void)snprintf(path, sizeof path, rows[i].path, voucher);
        (void)http_ask(service, rows[i].method, path, alice, rows[i].body, &reply);
        ck_assert_msg(http_is_problem(&reply, 401, "UNAUTHENTICATED"), "%s: %s", path, reply.body);
        (void)http_ask(service, rows[i].method, path, late, rows[i].body, &reply);
        ck_assert_msg(http_is_problem(&reply, 401, "UNAUTHENTICATED"), "%s: %s", path, reply.body);
    }
    ck_assert_int_eq(db_number("SELECT epoch FROM voucher_stock WHERE voucher_id = %s", voucher), epoch);
    ck_assert_int_eq(http_ask(service, "GET", "/admin/vouchers", ADMIN, NULL, &reply), 200);
    books_must_balance(voucher);
}

// ---- new keys ----

struct load {
    const struct service *service;
    char request[TEXT_SIZE];
    atomic_bool *stop;
    long answers, lost;
};

// Sends requests on one connection, one after the other.
static void *keep_asking(void *arg)
{
    struct load *load = arg;
    static _Thread_local struct http_reply reply;
    int fd = http_connect(load->service);
    while (fd >= 0 && !atomic_load(load->stop)) {
        bool answered = http_send_text(fd, load->request) && http_receive(fd, &reply);
        load->answers += answered && reply.status == 200;
        load->lost += !answered || reply.status != 200;
        if (!answered)
            break;
    }
    if (fd >= 0)
        (void)close(fd);
    return NULL;
}

TEST(new_keys_lose_no_request)
{
    struct service *service = start_by_token(KEY_A KEY_ED);
    static struct load loads[LOADERS];
    pthread_t threads[LOADERS];
    atomic_bool stop = false;
    char claims[TEXT_SIZE], field[TEXT_SIZE];
    claims_of(claims, "alice", 600, "");
    for (int i = 0; i < LOADERS; i++) {
        token_of(field, i % 2 == 0 ? &key_a : &key_ed, i % 2 == 0 ? HEADER_A : HEADER_ED, claims);
        loads[i] = (struct load){.service = service, .stop = &stop};
        int n = snprintf(loads[i].request, TEXT_SIZE, "GET /orders HTTP/1.1\r\nHost: test\r\n%s\r\n", field);
        ck_assert(n > 0 && n < TEXT_SIZE);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, keep_asking, &loads[i]), 0);
    }
    for (int i = 1; i <= RELOADS; i++) {
        write_keys(i % 2 == 0 ? KEY_A KEY_ED : KEY_B KEY_ED KEY_A);
        service_signal(service, SIGHUP);
        service_log_must_have(service, i + 1, "msg=\"keys of users' tokens\"");
        if (i % 10 == 0) {
            write_keys("a HS256 broken\n");
            service_signal(service, SIGHUP);
            service_log_must_have(service, i / 10, "the old ones stay");
        }
    }
    atomic_store(&stop, true);
    for (int i = 0; i < LOADERS; i++) {
        (void)pthread_join(threads[i], NULL);
        ck_assert_int_eq(loads[i].lost, 0);
        ck_assert_int_gt(loads[i].answers, 0);
    }
}

TEST(keys_rotate)
{
    struct service *service = start_by_token(KEY_A);
    char claims[TEXT_SIZE], old[TEXT_SIZE], new[TEXT_SIZE], point[TEXT_SIZE];
    struct http_reply reply;
    claims_of(claims, "alice", 600, "");
    token_of(old, &key_a, HEADER_A, claims);
    token_of(new, &key_b, "{\"alg\":\"HS256\",\"kid\":\"b\"}", claims);
    token_of(point, &key_ed, HEADER_ED, claims);
    ck_assert_int_eq(http_ask(service, "GET", "/orders", old, NULL, &reply), 200);
    ck_assert_int_eq(http_ask(service, "GET", "/orders", new, NULL, &reply), 401);
    write_keys(KEY_A KEY_B KEY_ED);
    service_signal(service, SIGHUP);
    WAIT_FOR(http_ask(service, "GET", "/orders", new, NULL, &reply) == 200);
    ck_assert_int_eq(http_ask(service, "GET", "/orders", old, NULL, &reply), 200);
    for (int i = 0; i < 8; i++) // both reactors have cached it; one may not be ready yet
        WAIT_FOR(http_ask(service, "GET", "/orders", point, NULL, &reply) == 200);
    // After garbage, or without the file, the previous keys stay in use.
    write_keys("{\"keys\":[");
    service_signal(service, SIGHUP);
    service_log_must_have(service, 1, "the old ones stay");
    (void)unlink(keys_path);
    service_signal(service, SIGHUP);
    service_log_must_have(service, 2, "the old ones stay");
    ck_assert_int_eq(http_ask(service, "GET", "/orders", old, NULL, &reply), 200);
    // A key that cannot be used takes no other away, and is named once.
    write_keys(JWK_SET("{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"n\"}," JWK_OCT("b", SECRET_B)));
    service_signal(service, SIGHUP);
    service_log_must_have(service, 1, "keys=1 version=3");
    ck_assert_int_eq(service_log_count(service, "a key of users' tokens is not used"), 1);
    service_log_must_have(service, 1, "level=warn msg=\"a key of users' tokens is not used\" reason=\"keys[0]: ");
    for (int i = 0; i < 16; i++) { // at either reactor
        ck_assert_int_eq(http_ask(service, "GET", "/orders", old, NULL, &reply), 401);
        ck_assert_int_eq(http_ask(service, "GET", "/orders", point, NULL, &reply), 401);
        ck_assert_int_eq(http_ask(service, "GET", "/orders", new, NULL, &reply), 200);
    }
    ck_assert_int_eq(service_log_count(service, SECRET_B), 0);
}

// A token that both reactors have cached ends with the next SIGHUP.
TEST(tokens_are_revoked)
{
    write_keys(KEY_SET);
    write_revoked("# nobody yet\n");
    struct service *service = service_start(ENV(BY_TOKEN, revoked_env, "SECKILL_REACTORS=2"));
    char claims[TEXT_SIZE], stolen[TEXT_SIZE], other[TEXT_SIZE];
    struct http_reply reply;
    claims_of(claims, "alice", 600, ",\"jti\":\"stolen\"");
    token_of(stolen, &key_rs, HEADER_RS, claims);
    claims_of(claims, "alice", 600, ",\"jti\":\"other\"");
    token_of(other, &key_es, HEADER_ES, claims);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(http_ask(service, "GET", "/orders", stolen, NULL, &reply), 200);
        ck_assert_int_eq(http_ask(service, "GET", "/orders", other, NULL, &reply), 200);
    }
    write_revoked("jti:stolen\n");
    service_signal(service, SIGHUP);
    service_log_must_have(service, 1, "msg=\"revoked users' tokens\" jti=1 sub=0");
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(http_ask(service, "GET", "/orders", stolen, NULL, &reply), 401);
        ck_assert_int_eq(http_ask(service, "GET", "/orders", other, NULL, &reply), 200);
    }
    write_revoked("stolen\n");
    service_signal(service, SIGHUP);
    service_log_must_have(service, 1, "the old ones stay revoked");
    ck_assert_int_eq(http_ask(service, "GET", "/orders", stolen, NULL, &reply), 401);
    write_revoked("sub:alice\n");
    service_signal(service, SIGHUP);
    service_log_must_have(service, 1, "jti=0 sub=1");
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(http_ask(service, "GET", "/orders", other, NULL, &reply), 401);
    write_revoked("");
    service_signal(service, SIGHUP);
    WAIT_FOR(http_ask(service, "GET", "/orders", stolen, NULL, &reply) == 200);
}

TEST(a_lifetime_and_another_claim_may_be_set)
{
    static const struct {
        const char *more; // after sub and exp
        long seconds;
        int status;
    } rows[] = {
        {",\"user\":\"alice\"", 600, 200},
        {"", 600, 401},
        {",\"user\":\"auth0|1\"", 600, 401},
        {",\"user\":\"alice\"", 3700, 401},
    };
    write_keys(JWK_SET(JWK_OCT("a", SECRET_A) "," JWK_RSA("rs", RSA_N, RSA_E) ",{\"kty\":\"RSA\",\"use\":\"enc\"}"));
    struct service *service = service_start(ENV(BY_TOKEN, "SECKILL_TOKEN_LIFETIME_S=3600", "SECKILL_TOKEN_USER=user"));
    service_log_must_have(service, 1, "keys[2]: it is for another `use` than sig");
    char claims[TEXT_SIZE], field[TEXT_SIZE];
    struct http_reply reply;
    for (size_t i = 0; i < COUNT(rows); i++) {
        claims_of(claims, "auth0|1", rows[i].seconds, rows[i].more);
        token_of(field, &key_rs, HEADER_RS, claims);
        ck_assert_int_eq(http_ask(service, "GET", "/orders", field, NULL, &reply), rows[i].status);
    }
    (void)snprintf(claims, sizeof claims,
                   "{\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE "\",\"user\":\"alice\",\"exp\":%ld}",
                   (long)time(NULL) + 600);
    token_of(field, &key_rs, HEADER_RS, claims); // without iat
    ck_assert_int_eq(http_ask(service, "GET", "/orders", field, NULL, &reply), 401);
    ck_assert_int_eq(
        service_run(WORDS("token", "alice"), ENV(BY_TOKEN, "SECKILL_TOKEN_USER=user"), claims, sizeof claims), 0);
    claims[strcspn(claims, "\n")] = '\0';
    field_of(field, claims);
    ck_assert_int_eq(http_ask(service, "GET", "/orders", field, NULL, &reply), 200);
}

TEST(a_file_of_keys_can_be_checked)
{
    static const struct {
        const char *keys;
        int code;
        const char *says;
    } rows[] = {
        {KEY_SET, 0, "a HS256\nb HS256\ned EdDSA\nrs RS256\nes ES256\n"},
        {KEY_A, 0, "a HS256\n"},
        {JWK_SET(JWK_RSA("rs", RSA_N, RSA_E) ",{\"kty\":\"RSA\",\"use\":\"enc\"}"), 0,
         "rs RS256\nkeys[1] is not used: it is for another `use` than sig\n"},
        {JWK_SET(JWK_RSA("rs", RSA_N_2047_BITS, RSA_E)), 1, "keys[0]: a key of RS256 has 2048"},
        {JWK_SET(JWK_RSA("rs", RSA_N, RSA_E) "," JWK_OCT("rs", SECRET_A)), 0,
         "rs RS256\nkeys[1] is not used: the kid is taken\n"},
        {"<html>", 1, "line 1: "},
    };
    char out[TEXT_SIZE];
    for (size_t i = 0; i < COUNT(rows); i++) {
        write_keys(rows[i].keys);
        int code = service_run(WORDS("keys", keys_path), NO_WORDS, out, sizeof out);
        ck_assert_msg(code == rows[i].code && strstr(out, rows[i].says) != NULL, "row %zu: %d: %s", i, code, out);
    }
    ck_assert_int_eq(service_run(WORDS("keys", "/nowhere"), NO_WORDS, out, sizeof out), 1);
    ck_assert_int_eq(service_run(WORDS("keys"), NO_WORDS, out, sizeof out), 2);
}

// ---- at the start ----

TEST(wrong_identity_is_refused)
{
    static const struct {
        const char *keys, *env[4];
        int code;
        const char *says;
    } rows[] = {
        {KEY_A, {"SECKILL_AUTH=jwt"}, 2, "SECKILL_AUTH"},
        {KEY_A, {"SECKILL_AUTH="}, 2, "SECKILL_AUTH"},
        {KEY_A, {"SECKILL_GATEWAY_TRUSTED=maybe"}, 2, "SECKILL_GATEWAY_TRUSTED"},
        {KEY_A, {"SECKILL_AUTH=token"}, 2, "SECKILL_TOKEN_ISSUER"},
        {KEY_A, {"SECKILL_AUTH=token", "SECKILL_TOKEN_ISSUER=x"}, 2, "SECKILL_TOKEN_AUDIENCE"},
        {"a HS256 short", {"SECKILL_AUTH=token", "SECKILL_TOKEN_ISSUER=x", "SECKILL_TOKEN_AUDIENCE=y"}, 2, "line 1"},
        {"a " SECRET_A, {"SECKILL_AUTH=token", "SECKILL_TOKEN_ISSUER=x", "SECKILL_TOKEN_AUDIENCE=y"}, 2, "line 1"},
        {JWK_SET(JWK_RSA("a", RSA_N_2047_BITS, RSA_E)),
         {"SECKILL_AUTH=token", "SECKILL_TOKEN_ISSUER=x", "SECKILL_TOKEN_AUDIENCE=y"},
         2,
         "2048 to 4096 bits"},
        {KEY_A,
         {"SECKILL_AUTH=token", "SECKILL_TOKEN_ISSUER=x", "SECKILL_TOKEN_AUDIENCE=y", "SECKILL_TOKEN_REVOKED=/nowhere"},
         2,
         "SECKILL_TOKEN_REVOKED"},
        {KEY_A, {"SECKILL_TOKEN_LIFETIME_S=-1"}, 2, "SECKILL_TOKEN_LIFETIME_S"},
        {KEY_A, {"SECKILL_TOKEN_USER="}, 2, "SECKILL_TOKEN_USER"},
    };
    char out[LOG_SIZE];
    for (size_t i = 0; i < COUNT(rows); i++) {
        write_keys(rows[i].keys);
        const char *const env[] = {DATABASE,       keys_env, rows[i].env[0], rows[i].env[1], rows[i].env[2],
                                   rows[i].env[3], NULL};
        int code = service_run(NO_WORDS, env, out, sizeof out);
        ck_assert_msg(code == rows[i].code && strstr(out, rows[i].says) != NULL, "row %zu: %d: %s", i, code, out);
        ck_assert_ptr_null(strstr(out, SECRET_A));
    }
}

// 192.0.2.1 belongs to no machine: an instance that gets as far as listening there fails.
TEST(a_gateways_word_is_good_on_loopback)
{
    static const struct {
        const char *listen, *more;
        const char *says;
    } rows[] = {
        {"SECKILL_LISTEN=0.0.0.0:1", "SECKILL_AUTH=gateway", "SECKILL_GATEWAY_TRUSTED"},
        {"SECKILL_LISTEN=:1", "SECKILL_AUTH=gateway", "SECKILL_GATEWAY_TRUSTED"},
        {"SECKILL_LISTEN=[::]:1", "SECKILL_AUTH=gateway", "SECKILL_GATEWAY_TRUSTED"},
        {"SECKILL_LISTEN=[::ffff:192.0.2.1]:1", "SECKILL_AUTH=gateway", "SECKILL_GATEWAY_TRUSTED"},
        {"SECKILL_LISTEN=192.0.2.1:1", "SECKILL_AUTH=gateway", "SECKILL_GATEWAY_TRUSTED"},
        {"SECKILL_LISTEN=192.0.2.1:1", "SECKILL_GATEWAY_TRUSTED=no", "SECKILL_GATEWAY_TRUSTED"},
        {"SECKILL_LISTEN=192.0.2.1:1", "SECKILL_GATEWAY_TRUSTED=yes", "cannot listen"},
        {"SECKILL_LISTEN=192.0.2.1:1", "SECKILL_AUTH=token", "cannot listen"},
    };
    char out[LOG_SIZE];
    write_keys(KEY_A);
    for (size_t i = 0; i < COUNT(rows); i++) {
        int code = service_run(
            NO_WORDS,
            ENV(DATABASE, keys_env, "SECKILL_TOKEN_ISSUER=x", "SECKILL_TOKEN_AUDIENCE=y", rows[i].listen, rows[i].more),
            out, sizeof out);
        bool untrusted = strcmp(rows[i].says, "SECKILL_GATEWAY_TRUSTED") == 0;
        ck_assert_msg(code == (untrusted ? 2 : 1) && strstr(out, rows[i].says) != NULL, "row %zu: %d: %s", i, code,
                      out);
    }
    // SIGHUP without any file to read does not end the process.
    struct service *service = service_start(NULL);
    service_signal(service, SIGHUP);
    service_log_must_have(service, 1, "secrets read again");
    struct http_reply reply;
    ck_assert_int_eq(http_get(service, "/orders", "alice", &reply), 200);
}

SUITE(.timeout_s = 120, .begin = setup, .end = remove_keys, .teardown = service_stop_all, .in_one_process = true);
