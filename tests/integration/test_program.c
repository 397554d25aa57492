// The program as its operator sees it: the arguments it accepts, those it rejects, and its output.
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proc.h"
#include "stack.h"
#include "test.h"

enum { OUTPUT_SIZE = 16384, SETTING_SIZE = 64 };

#define DATABASE   "SECKILL_DATABASE_URL=postgresql://nobody@127.0.0.1:1/none"
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_WORDS   ((const char *const[]){NULL})

TEST(help_lists_every_key)
{
    static const char *const keys[][2] = {
        {"SECKILL_LISTEN", "--listen VALUE"},
        {"SECKILL_REACTORS", "--reactors VALUE"},
        {"SECKILL_DATABASE_URL", "--database-url-file PATH"},
        {"SECKILL_REDIS_URL", "--redis-url-file PATH"},
        {"SECKILL_ADMIN_TOKEN", "--admin-token-file PATH"},
        {"SECKILL_ADMIN_TOKENS", "--admin-tokens-file PATH"},
        {"SECKILL_PAYMENT_SECRET", "--payment-secret-file PATH"},
        {"SECKILL_AUTH", "--auth VALUE"},
        {"SECKILL_GATEWAY_TRUSTED", "--gateway-trusted VALUE"},
        {"SECKILL_TOKEN_KEYS", "--token-keys VALUE"},
        {"SECKILL_TOKEN_ISSUER", "--token-issuer VALUE"},
        {"SECKILL_TOKEN_AUDIENCE", "--token-audience VALUE"},
        {"SECKILL_TOKEN_USER", "--token-user VALUE"},
        {"SECKILL_TOKEN_LIFETIME_S", "--token-lifetime-s VALUE"},
        {"SECKILL_TOKEN_REVOKED", "--token-revoked VALUE"},
        {"SECKILL_TOKEN_LEEWAY_S", "--token-leeway-s VALUE"},
        {"SECKILL_TOKEN_CACHE", "--token-cache VALUE"},
        {"SECKILL_MAX_CONNECTIONS", "--max-connections VALUE"},
        {"SECKILL_BODY_MAX_BYTES", "--body-max-bytes VALUE"},
        {"SECKILL_HEADER_MAX_BYTES", "--header-max-bytes VALUE"},
        {"SECKILL_IDLE_TIMEOUT_MS", "--idle-timeout-ms VALUE"},
        {"SECKILL_REQUEST_TIMEOUT_MS", "--request-timeout-ms VALUE"},
        {"SECKILL_CONFIRM_TIMEOUT_MS", "--confirm-timeout-ms VALUE"},
        {"SECKILL_REDIS_TIMEOUT_MS", "--redis-timeout-ms VALUE"},
        {"SECKILL_PG_TIMEOUT_MS", "--pg-timeout-ms VALUE"},
        {"SECKILL_BATCH_MAX", "--batch-max VALUE"},
        {"SECKILL_ORDERS_MAX", "--orders-max VALUE"},
        {"SECKILL_LOCK_TTL_MS", "--lock-ttl-ms VALUE"},
        {"SECKILL_SOLD_OUT_MARK_MS", "--sold-out-mark-ms VALUE"},
        {"SECKILL_USER_RATE", "--user-rate VALUE"},
        {"SECKILL_ADDRESS_RATE", "--address-rate VALUE"},
        {"SECKILL_ADDRESS_CONNECTIONS", "--address-connections VALUE"},
        {"SECKILL_ADMIN_LISTEN", "--admin-listen VALUE"},
        {"SECKILL_LONG_SHARE", "--long-share VALUE"},
        {"SECKILL_LONG_PER_USER", "--long-per-user VALUE"},
        {"SECKILL_LONG_PER_ADDRESS", "--long-per-address VALUE"},
        {"SECKILL_TRUSTED_PROXIES", "--trusted-proxies VALUE"},
        {"SECKILL_PURCHASE_RATE", "--purchase-rate VALUE"},
        {"SECKILL_PURCHASES_MAX", "--purchases-max VALUE"},
        {"SECKILL_DRAIN_TIMEOUT_MS", "--drain-timeout-ms VALUE"},
        {"SECKILL_LOG_LEVEL", "--log-level VALUE"},
        {"SECKILL_ACCESS_LOG", "--access-log VALUE"},
        {"SECKILL_TRACE", "--trace VALUE"},
        {"SECKILL_PAGES", "--pages VALUE"},
        {"SECKILL_DEMO", "--demo VALUE"},
    };
    char out[OUTPUT_SIZE];
    ck_assert_int_eq(service_run(WORDS("--help"), NULL, out, sizeof out), 0);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        ck_assert_msg(strstr(out, keys[i][0]) != NULL, "--help does not say %s", keys[i][0]);
        ck_assert_msg(strstr(out, keys[i][1]) != NULL, "--help does not say %s", keys[i][1]);
    }
    ck_assert_int_eq(service_run(WORDS("--version"), NULL, out, sizeof out), 0);
    ck_assert_int_eq(strncmp(out, "seckill ", strlen("seckill ")), 0);
}

TEST(wrong_settings_are_refused)
{
    static const struct {
        const char *word, *env, *named;
    } rows[] = {
        {NULL, "SECKILL_REACTORS=0", "SECKILL_REACTORS"},
        {NULL, "SECKILL_REACTORS=65", "SECKILL_REACTORS"},
        {NULL, "SECKILL_BATCH_MAX=many", "SECKILL_BATCH_MAX"},
        {NULL, "SECKILL_BATCH_MAX=-1", "SECKILL_BATCH_MAX"},
        {NULL, "SECKILL_BATCH_MAX=", "SECKILL_BATCH_MAX"},
        {NULL, "SECKILL_PG_TIMEOUT_MS=1e3", "SECKILL_PG_TIMEOUT_MS"},
        {NULL, "SECKILL_LOCK_TTL_MS=99999999999999999999", "SECKILL_LOCK_TTL_MS"},
        {NULL, "SECKILL_LOG_LEVEL=loud", "SECKILL_LOG_LEVEL"},
        {NULL, "SECKILL_ACCESS_LOG=all", "SECKILL_ACCESS_LOG"},
        {NULL, "SECKILL_ACCESS_LOG=1000001", "SECKILL_ACCESS_LOG"},
        {NULL, "SECKILL_TRACE=yes", "SECKILL_TRACE"},
        {NULL, "SECKILL_PAGES=yes", "SECKILL_PAGES"},
        {NULL, "SECKILL_DEMO=1", "SECKILL_DEMO"},
        {NULL, "SECKILL_TRACE=", "SECKILL_TRACE"},
        {NULL, "SECKILL_LISTEN=", "SECKILL_LISTEN"},
        {NULL, "SECKILL_ADMIN_TOKEN_FILE=/nowhere", "SECKILL_ADMIN_TOKEN_FILE"},
        {NULL, "SECKILL_ADMIN_TOKENS_FILE=/nowhere", "SECKILL_ADMIN_TOKENS_FILE"},
        {NULL, "SECKILL_PAYMENT_SECRET=secret-of-15-by", "SECKILL_PAYMENT_SECRET"},
        {NULL, "SECKILL_PAYMENT_SECRET=secret-of-16-byt\nsecret", "SECKILL_PAYMENT_SECRET"},
        {NULL, "SECKILL_DATABASE_URL", "SECKILL_DATABASE_URL"},
        {"--user-rate=fast", "SECKILL_USER_RATE=1", "SECKILL_USER_RATE"},
        {"--user-rate", "SECKILL_USER_RATE=1", "--user-rate"},
        {"--no-such-thing", "SECKILL_USER_RATE=1", "--no-such-thing"},
        {"--database-url=postgresql://secret", "SECKILL_USER_RATE=1", "--database-url"}, // only allowed in a file
        {"serve", "SECKILL_USER_RATE=1", "serve"},
    };
    char out[OUTPUT_SIZE];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *const words[] = {rows[i].word, NULL};
        int code = service_run(words, ENV(DATABASE, rows[i].env), out, sizeof out);
        ck_assert_msg(code == 2, "%s: exit code %d: %s", rows[i].named, code, out);
        ck_assert_msg(strstr(out, rows[i].named) != NULL, "%s is not named: %s", rows[i].named, out);
        ck_assert_msg(strstr(out, "secret") == NULL, "a secret is shown: %s", out);
    }
}

static int count(const char *out, const char *text)
{
    int times = 0;
    for (; (out = strstr(out, text)) != NULL; out++)
        times++;
    return times;
}

// Gives a port in use, so that a start gets that far and fails.
static int take_port(char setting[SETTING_SIZE])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(setting, SETTING_SIZE, "SECKILL_LISTEN=127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

// What everybody knows is named at each start, also if this one fails later.
TEST(secrets_of_the_demo_are_named)
{
    char out[OUTPUT_SIZE], taken[SETTING_SIZE];
    int fd = take_port(taken);
    static const char token[] = "SECKILL_ADMIN_TOKEN=demo-admin-token";
    ck_assert_int_eq(service_run(NO_WORDS, ENV(DATABASE, taken, token), out, sizeof out), 1);
    ck_assert_msg(strstr(out, "setting=SECKILL_ADMIN_TOKEN") != NULL, "%s", out);
    ck_assert_msg(strstr(out, "demo-admin-token") == NULL, "%s", out);
    ck_assert_int_eq(service_run(NO_WORDS, ENV(DATABASE, taken), out, sizeof out), 1);
    ck_assert_msg(strstr(out, "everybody knows") == NULL, "%s", out);
    (void)close(fd);
}

// A restart would not cure these: exit status 2, and one line that names the setting.
TEST(settings_with_a_form_of_their_own_are_refused)
{
    static const char *const rows[][2] = {
        {"SECKILL_LISTEN=nowhere", "SECKILL_LISTEN"},
        {"SECKILL_LISTEN=18991", "SECKILL_LISTEN"},
        {"SECKILL_LISTEN=127.0.0.1:65536", "SECKILL_LISTEN"},
        {"SECKILL_LISTEN=0.0.0.0:18991", "SECKILL_LISTEN"}, // without SECKILL_GATEWAY_TRUSTED
        {"SECKILL_ADMIN_LISTEN=nowhere", "SECKILL_ADMIN_LISTEN"},
        {"SECKILL_ADMIN_LISTEN=localhost:8080", "SECKILL_ADMIN_LISTEN"}, // that of SECKILL_LISTEN
        {"SECKILL_REDIS_URL=http://127.0.0.1", "SECKILL_REDIS_URL"},
        {"SECKILL_REDIS_URL=redis://127.0.0.1:99999", "SECKILL_REDIS_URL"},
        {"SECKILL_REDIS_URL=redis://:100%@127.0.0.1", "write %25 for it"},
        {"SECKILL_DATABASE_URL=nonsense=1", "SECKILL_DATABASE_URL"},
        {"SECKILL_DATABASE_URL=jdbc:postgresql://x", "SECKILL_DATABASE_URL"},
        {"SECKILL_TRUSTED_PROXIES=10.0.0.0/33", "SECKILL_TRUSTED_PROXIES"},
        {"SECKILL_TRUSTED_PROXIES=0.0.0.0/0", "SECKILL_TRUSTED_PROXIES"},
        {"SECKILL_TRUSTED_PROXIES=10.0.0.1/8", "SECKILL_TRUSTED_PROXIES"},
        {"SECKILL_TRUSTED_PROXIES=gateway", "SECKILL_TRUSTED_PROXIES"},
        {"SECKILL_CORS_ORIGINS=shop.example", "SECKILL_CORS_ORIGINS"},
        {"SECKILL_PICTURE_ORIGINS=shop.example", "SECKILL_PICTURE_ORIGINS"},
        {"SECKILL_LOGIN_URL=shop.example", "SECKILL_LOGIN_URL"},
        {"SECKILL_TICKET_SECRET=short", "SECKILL_TICKET_SECRET"},
        {"SECKILL_ADMIN_TOKEN=short", "SECKILL_ADMIN_TOKEN"},
        {"SECKILL_ADMIN_TOKENS=alice", "SECKILL_ADMIN_TOKENS"},
    };
    char out[OUTPUT_SIZE];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int code = service_run(NO_WORDS, ENV(DATABASE, rows[i][0]), out, sizeof out);
        ck_assert_msg(code == 2, "%s: exit code %d: %s", rows[i][0], code, out);
        ck_assert_msg(count(out, "\n") == 1 && strstr(out, "level=error") != NULL, "%s: %s", rows[i][0], out);
        ck_assert_msg(strstr(out, rows[i][1]) != NULL, "%s is not named: %s", rows[i][1], out);
    }
    ck_assert_int_eq(service_run(NO_WORDS,
                                 ENV(DATABASE, "SECKILL_AUTH=token", "SECKILL_TOKEN_KEYS=/nowhere",
                                     "SECKILL_TOKEN_ISSUER=i", "SECKILL_TOKEN_AUDIENCE=a"),
                                 out, sizeof out),
                     2);
    ck_assert_msg(count(out, "\n") == 1 && strstr(out, "SECKILL_TOKEN_KEYS") != NULL, "%s", out);
}

// A restart may find it free.
TEST(a_port_in_use_is_no_wrong_setting)
{
    char out[OUTPUT_SIZE], taken[SETTING_SIZE], reason[SETTING_SIZE + 64];
    int fd = take_port(taken);
    ck_assert_int_eq(service_run(NO_WORDS, ENV(DATABASE, taken), out, sizeof out), 1);
    (void)snprintf(reason, sizeof reason, "msg=\"cannot listen\" reason=\"%s: Address already in use\"",
                   strchr(taken, '=') + 1);
    ck_assert_msg(strstr(out, reason) != NULL, "not '%s': %s", reason, out);
    (void)close(fd);
}

TEST(too_few_descriptors_are_refused)
{
    char out[OUTPUT_SIZE];
    service_limit_descriptors(0, 300);
    int code =
        service_run(NO_WORDS, ENV(DATABASE, "SECKILL_REACTORS=2", "SECKILL_MAX_CONNECTIONS=103"), out, sizeof out);
    service_limit_descriptors(0, 0);
    ck_assert_int_eq(code, 2);
    // 2 x (103 + 16) + 64
    static const char *const named[] = {"302 needed", "hard limit here is 300", "SECKILL_MAX_CONNECTIONS",
                                        "SECKILL_REACTORS"};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        ck_assert_msg(strstr(out, named[i]) != NULL, "%s is not said: %s", named[i], out);
}

// What `systemctl reload` asks: no store takes part.
TEST(files_are_checked_without_a_store)
{
    char out[OUTPUT_SIZE], path[PROC_PATH_SIZE + 16], setting[PROC_PATH_SIZE + 64];
    (void)snprintf(path, sizeof path, "%s/tokens", proc_scratch());
    (void)snprintf(setting, sizeof setting, "SECKILL_ADMIN_TOKENS_FILE=%s", path);
    static const char *const rows[][2] = {
        {"alice read 0123456789abcdef\n", "ok   admin tokens: read"},
        {"alice read short\n", "fail admin tokens: SECKILL_ADMIN_TOKENS: line 1: "},
        {"alice read 0123456789abcdef\nbob write 0123456789abcdef\n",
         "fail admin tokens: SECKILL_ADMIN_TOKENS: line 2: "},
    };
    for (int i = 0; i < 3; i++) {
        FILE *file = fopen(path, "we");
        ck_assert_ptr_nonnull(file);
        (void)fputs(rows[i][0], file);
        (void)fclose(file);
        ck_assert_int_eq(service_run(WORDS("--check-files"), ENV(DATABASE, setting), out, sizeof out), i == 0 ? 0 : 2);
        ck_assert_msg(strstr(out, rows[i][1]) != NULL, "not '%s': %s", rows[i][1], out);
    }
}

TEST(migrate_needs_a_database)
{
    char out[OUTPUT_SIZE];
    ck_assert_int_eq(service_run(WORDS("--migrate"), ENV(DATABASE), out, sizeof out), 1);
    ck_assert_ptr_nonnull(strstr(out, "level=error"));
}

SUITE(.in_one_process = true);
