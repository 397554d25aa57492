// Configuration: defaults, the sources of values and their precedence, bounds, and that no secret comes from the
// command line or appears in a message.
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"
#include "test.h"

#define AT(field) offsetof(struct sk_config, field)

static const struct number {
    const char *env, *option;
    size_t offset;
    int64_t fallback, least, most;
} numbers[] = {
    {"SECKILL_REACTORS", "--reactors", AT(reactors), 1, 1, 64},
    {"SECKILL_TICKET_TTL_S", "--ticket-ttl-s", AT(identity.ticket_ttl_s), 300, 1, 86400},
    {"SECKILL_MAX_CONNECTIONS", "--max-connections", AT(server.max_connections), 4096, 1, 65536},
    {"SECKILL_BODY_MAX_BYTES", "--body-max-bytes", AT(server.body_max_bytes), 16384, 0, 1048576},
    {"SECKILL_HEADER_MAX_BYTES", "--header-max-bytes", AT(server.header_max_bytes), 7000, 4096, 1048576},
    {"SECKILL_IDLE_TIMEOUT_MS", "--idle-timeout-ms", AT(server.idle_timeout_ms), 30000, 100, 3600000},
    {"SECKILL_REQUEST_TIMEOUT_MS", "--request-timeout-ms", AT(server.request_timeout_ms), 10000, 100, 600000},
    {"SECKILL_CONFIRM_TIMEOUT_MS", "--confirm-timeout-ms", AT(api.confirm_timeout_ms), 2000, 1, 60000},
    {"SECKILL_TOKEN_LIFETIME_S", "--token-lifetime-s", AT(identity.token_lifetime_s), 0, 0, 31536000},
    {"SECKILL_TOKEN_LEEWAY_S", "--token-leeway-s", AT(identity.token_leeway_s), 30, 0, 3600},
    {"SECKILL_TOKEN_CACHE", "--token-cache", AT(identity.token_cache), 65536, 0, 4194304},
    {"SECKILL_REDIS_TIMEOUT_MS", "--redis-timeout-ms", AT(stores.redis_timeout_ms), 1000, 10, 60000},
    {"SECKILL_PG_TIMEOUT_MS", "--pg-timeout-ms", AT(stores.pg_timeout_ms), 5000, 10, 60000},
    {"SECKILL_BATCH_MAX", "--batch-max", AT(sale.batch_max), 512, 1, 2048},
    {"SECKILL_ORDERS_MAX", "--orders-max", AT(sale.orders_max), 500000, 1, 10000000},
    {"SECKILL_LOCK_TTL_MS", "--lock-ttl-ms", AT(sale.lock_ttl_ms), 3000, 100, 600000},
    {"SECKILL_SOLD_OUT_MARK_MS", "--sold-out-mark-ms", AT(sale.sold_out_mark_ms), 200, 0, 60000},
    {"SECKILL_ORDERS_PER_USER", "--orders-per-user", AT(sale.orders_per_user), 20, 1, 1000},
    {"SECKILL_USER_RATE", "--user-rate", AT(identity.user_rate), 0, 0, 10000},
    {"SECKILL_ADDRESS_RATE", "--address-rate", AT(identity.address_rate), 0, 0, 1000000},
    {"SECKILL_ADDRESS_CONNECTIONS", "--address-connections", AT(identity.address_connections), 0, 0, 65536},
    {"SECKILL_LONG_SHARE", "--long-share", AT(server.long_share), 50, 1, 100},
    {"SECKILL_LONG_PER_USER", "--long-per-user", AT(identity.long_per_user), 8, 0, 65536},
    {"SECKILL_LONG_PER_ADDRESS", "--long-per-address", AT(identity.long_per_address), 32, 0, 65536},
    {"SECKILL_PURCHASE_RATE", "--purchase-rate", AT(identity.purchase_rate), 0, 0, 10000000},
    {"SECKILL_PURCHASES_MAX", "--purchases-max", AT(sale.purchases_max), 0, 0, 10000000},
    {"SECKILL_DRAIN_TIMEOUT_MS", "--drain-timeout-ms", AT(drain_timeout_ms), 10000, 0, 600000},
};

static const struct secret {
    const char *env, *file_env, *option;
    size_t offset;
} secrets[] = {
    {"SECKILL_DATABASE_URL", "SECKILL_DATABASE_URL_FILE", "--database-url", AT(stores.database_url)},
    {"SECKILL_REDIS_URL", "SECKILL_REDIS_URL_FILE", "--redis-url", AT(stores.redis_url)},
    {"SECKILL_ADMIN_TOKEN", "SECKILL_ADMIN_TOKEN_FILE", "--admin-token", AT(identity.admin_token)},
    {"SECKILL_ADMIN_TOKENS", "SECKILL_ADMIN_TOKENS_FILE", "--admin-tokens", AT(identity.admin_tokens)},
    {"SECKILL_PAYMENT_SECRET", "SECKILL_PAYMENT_SECRET_FILE", "--payment-secret", AT(identity.payment_secret)},
    {"SECKILL_TICKET_SECRET", "SECKILL_TICKET_SECRET_FILE", "--ticket-secret", AT(identity.ticket_secret)},
};

enum {
    NUMBERS = sizeof numbers / sizeof numbers[0],
    SECRETS = sizeof secrets / sizeof secrets[0],
    PATH_SIZE = 64,
};

static struct sk_config config;
static enum sk_command command;
static char *said; // on the error stream

// The arguments after the program's name.
#define WORDS(...) ((const char *[]){"seckill", __VA_ARGS__, NULL})
#define NO_WORDS   ((const char *[]){"seckill", NULL})

static enum sk_status read_config(const char **words)
{
    // Arguments are not written to; the interface is that of main().
    union {
        const char **in;
        char **out;
    } argv = {.in = words};
    int argc = 0;
    size_t size;
    while (words[argc] != NULL)
        argc++;
    sk_config_free(&config);
    free(said);
    FILE *err = open_memstream(&said, &size);
    enum sk_status status = sk_config_read(&config, &command, argc, argv.out, err);
    (void)fclose(err);
    return status;
}

static void must_refuse(const char **words, const char *name)
{
    ck_assert_msg(read_config(words) == SK_FAIL, "not refused: %s %s", name, words[1] == NULL ? "" : words[1]);
    ck_assert_msg(strstr(said, name) != NULL, "'%s' does not name %s", said, name);
    ck_assert_msg(said[strlen(said) - 1] == '\n', "'%s' is no line", said);
}

static void must_accept(const char **words)
{
    enum sk_status status = read_config(words);
    ck_assert_msg(status == SK_OK, "refused: %s", said);
    ck_assert_str_eq(said, "");
}

static int64_t number_at(const struct number *number)
{
    int64_t value;
    memcpy(&value, (const char *)&config + number->offset, sizeof value);
    return value;
}

static const char *text_at(size_t offset)
{
    const char *text;
    memcpy((void *)&text, (const char *)&config + offset, sizeof text);
    return text;
}

static void set_number(const char *name, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    (void)setenv(name, text, 1);
}

// Sets the values that must stay within this setting's bounds to small ones.
static void make_room_for(const struct number *number)
{
    if (strcmp(number->env, "SECKILL_ORDERS_MAX") == 0)
        set_number("SECKILL_BATCH_MAX", 1);
}

// A file in memory; `path` is valid while this process lives.
static void make_file(char path[PATH_SIZE], const char *bytes, size_t n)
{
    int fd = memfd_create("secret", 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, n), (ssize_t)n);
    (void)snprintf(path, PATH_SIZE, "/proc/self/fd/%d", fd);
}

static void setup(void)
{
    (void)clearenv();
    (void)setenv("SECKILL_DATABASE_URL", "postgresql:///seckill", 1);
}

static void teardown(void)
{
    sk_config_free(&config);
    free(said);
    said = NULL;
}

TEST(there_are_defaults)
{
    must_accept(NO_WORDS);
    for (int i = 0; i < NUMBERS; i++)
        ck_assert_msg(number_at(&numbers[i]) == numbers[i].fallback, "default of %s", numbers[i].env);
    ck_assert_str_eq(config.server.listen, "127.0.0.1:8080");
    ck_assert_str_eq(config.stores.redis_url, "redis://127.0.0.1:6379");
    ck_assert_str_eq(config.log_level, "info");
    ck_assert_ptr_null(config.identity.admin_token);
    ck_assert_ptr_null(config.identity.admin_tokens);
    ck_assert_ptr_null(config.identity.payment_secret);
    ck_assert_ptr_null(config.identity.trusted_proxies);
    ck_assert_int_eq(command, SK_COMMAND_SERVE);
}

TEST(the_environment_sets_every_key)
{
    for (int i = 0; i < NUMBERS; i++)
        set_number(numbers[i].env, numbers[i].most - i);
    for (int i = 0; i < SECRETS; i++)
        (void)setenv(secrets[i].env, secrets[i].env, 1);
    (void)setenv("SECKILL_LISTEN", "[::1]:1", 1);
    (void)setenv("SECKILL_LOG_LEVEL", "debug", 1);
    (void)setenv("SECKILL_TRUSTED_PROXIES", "10.0.0.0/8", 1);
    must_accept(NO_WORDS);
    ck_assert_str_eq(config.identity.trusted_proxies, "10.0.0.0/8");
    for (int i = 0; i < NUMBERS; i++)
        ck_assert_msg(number_at(&numbers[i]) == numbers[i].most - i, "%s", numbers[i].env);
    for (int i = 0; i < SECRETS; i++)
        ck_assert_str_eq(text_at(secrets[i].offset), secrets[i].env);
    ck_assert_str_eq(config.server.listen, "[::1]:1");
    ck_assert_str_eq(config.log_level, "debug");
}

TEST(options_set_every_key_and_win_over_the_environment)
{
    for (int i = 0; i < NUMBERS; i++) {
        char value[24], joined[64];
        set_number(numbers[i].env, numbers[i].most);
        make_room_for(&numbers[i]);
        (void)snprintf(value, sizeof value, "%lld", (long long)numbers[i].least);
        must_accept(WORDS(numbers[i].option, value));
        ck_assert_msg(number_at(&numbers[i]) == numbers[i].least, "%s", numbers[i].option);
        (void)snprintf(joined, sizeof joined, "%s=%s", numbers[i].option, value);
        must_accept(WORDS(joined));
        ck_assert_msg(number_at(&numbers[i]) == numbers[i].least, "%s", joined);
    }
    must_accept(WORDS("--listen", "0.0.0.0:80", "--log-level=error", "--reactors", "2", "--reactors=3"));
    ck_assert_str_eq(config.server.listen, "0.0.0.0:80");
    ck_assert_str_eq(config.log_level, "error");
    ck_assert_int_eq(config.reactors, 3); // the last one wins
}

TEST(bounds_are_kept)
{
    for (int i = 0; i < NUMBERS; i++) {
        const struct number *number = &numbers[i];
        make_room_for(number);
        set_number(number->env, number->least);
        must_accept(NO_WORDS);
        ck_assert_int_eq(number_at(number), number->least);
        set_number(number->env, number->most);
        must_accept(NO_WORDS);
        ck_assert_int_eq(number_at(number), number->most);
        set_number(number->env, number->most + 1);
        must_refuse(NO_WORDS, number->env);
        if (number->least > 0) {
            set_number(number->env, number->least - 1);
            must_refuse(NO_WORDS, number->env);
        }
        (void)unsetenv(number->env);
    }
}

TEST(a_wrong_value_is_refused_with_its_name)
{
    static const char *const wrong[] = {"",
                                        "abc",
                                        "-1",
                                        "+100",
                                        "1.5",
                                        "1e3",
                                        " 100",
                                        "100 ",
                                        "0x10",
                                        "0100",
                                        "100ms",
                                        "9999999999999999999999",
                                        "\xef\xbc\x91"};
    for (int i = 0; i < NUMBERS; i++) {
        for (size_t j = 0; j < sizeof wrong / sizeof wrong[0]; j++) {
            (void)setenv(numbers[i].env, wrong[j], 1);
            must_refuse(NO_WORDS, numbers[i].env);
            (void)unsetenv(numbers[i].env);
            must_refuse(WORDS(numbers[i].option, wrong[j]), numbers[i].env);
        }
    }
    (void)setenv("SECKILL_LOG_LEVEL", "loud", 1);
    must_refuse(NO_WORDS, "SECKILL_LOG_LEVEL");
    (void)setenv("SECKILL_LOG_LEVEL", "", 1);
    must_refuse(NO_WORDS, "SECKILL_LOG_LEVEL");
    (void)unsetenv("SECKILL_LOG_LEVEL");
    must_refuse(WORDS("--listen="), "SECKILL_LISTEN");
}

// A reactor must have room for at least one batch.
TEST(settings_that_do_not_fit_each_other_are_refused)
{
    set_number("SECKILL_ORDERS_MAX", 511);
    must_refuse(NO_WORDS, "SECKILL_ORDERS_MAX");
    ck_assert_ptr_nonnull(strstr(said, "SECKILL_BATCH_MAX"));
    must_accept(WORDS("--batch-max", "511"));
    must_accept(WORDS("--orders-max", "512"));
    must_refuse(WORDS("--batch-max", "511", "--orders-max", "510"), "SECKILL_ORDERS_MAX");
    must_refuse(WORDS("--check"), "SECKILL_ORDERS_MAX"); // as at a start
    must_accept(WORDS("--help"));
    must_accept(WORDS("--migrate")); // does not use these
}

TEST(a_choice_is_one_of_its_words)
{
    static const char *const wrong[] = {"",  "Gateway", "gatewa", "gateways", "gateway|token",
                                        "|", "0",       "tokens", " token"};
    ck_assert_int_eq(config.identity.auth, SK_AUTH_GATEWAY);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)setenv("SECKILL_AUTH", wrong[i], 1);
        must_refuse(NO_WORDS, "SECKILL_AUTH");
    }
    (void)setenv("SECKILL_AUTH", "gateway", 1);
    must_accept(WORDS("--gateway-trusted", "yes"));
    ck_assert_int_eq(config.identity.auth, SK_AUTH_GATEWAY);
    ck_assert_int_eq(config.identity.gateway_trusted, 1);
    must_accept(WORDS("--gateway-trusted=no"));
    ck_assert_int_eq(config.identity.gateway_trusted, 0);
    must_accept(NO_WORDS);
    ck_assert_int_eq(config.identity.gateway_trusted, 0);
    must_refuse(WORDS("--gateway-trusted=true"), "SECKILL_GATEWAY_TRUSTED");
}

TEST(a_certificate_needs_its_key)
{
    static const char *const both[] = {"SECKILL_REDIS_CERT", "SECKILL_REDIS_KEY"};
    for (size_t left = 0; left < 2; left++) {
        (void)setenv(both[1 - left], "/file", 1);
        (void)unsetenv(both[left]);
        must_refuse(NO_WORDS, "SECKILL_REDIS_KEY");
        must_accept(WORDS("--migrate")); // asks no Redis
    }
    (void)setenv(both[1], "/file", 1);
    must_accept(NO_WORDS);
}

TEST(tokens_need_keys_an_issuer_and_an_audience)
{
    static const char *const needed[] = {"SECKILL_TOKEN_KEYS", "SECKILL_TOKEN_ISSUER", "SECKILL_TOKEN_AUDIENCE"};
    (void)setenv("SECKILL_AUTH", "token", 1);
    must_refuse(NO_WORDS, "SECKILL_TOKEN_KEYS");
    must_accept(WORDS("--migrate")); // serves nobody
    for (size_t left = 0; left < 3; left++) {
        for (size_t i = 0; i < 3; i++)
            (void)(i == left ? unsetenv(needed[i]) : setenv(needed[i], "x", 1));
        must_refuse(NO_WORDS, needed[left]);
    }
    (void)setenv(needed[2], "x", 1);
    must_accept(NO_WORDS);
    ck_assert_int_eq(config.identity.auth, SK_AUTH_TOKEN);
    ck_assert_str_eq(config.identity.token_keys, "x");
}

TEST(a_flag_is_yes_or_no)
{
    must_accept(NO_WORDS);
    ck_assert_int_eq(config.api.metrics_open, 0);
    must_accept(WORDS("--metrics-open", "yes"));
    ck_assert_int_eq(config.api.metrics_open, 1);
    (void)setenv("SECKILL_METRICS_OPEN", "yes", 1);
    must_accept(NO_WORDS);
    ck_assert_int_eq(config.api.metrics_open, 1);
    must_accept(WORDS("--metrics-open=no"));
    ck_assert_int_eq(config.api.metrics_open, 0);
    must_refuse(WORDS("--metrics-open=1"), "SECKILL_METRICS_OPEN");
    must_refuse(WORDS("--metrics-open=YES"), "SECKILL_METRICS_OPEN");
    must_refuse(WORDS("--metrics-open="), "SECKILL_METRICS_OPEN");
    (void)unsetenv("SECKILL_METRICS_OPEN");
}

TEST(a_payment_secret_can_not_be_guessed)
{
    (void)setenv("SECKILL_PAYMENT_SECRET", "0123456789abcde", 1);
    must_refuse(NO_WORDS, "SECKILL_PAYMENT_SECRET");
    ck_assert_ptr_null(strstr(said, "0123"));
    must_accept(WORDS("--migrate"));
    (void)setenv("SECKILL_PAYMENT_SECRET", "0123456789abcdef", 1);
    must_accept(NO_WORDS);
    // During a change there are two.
    (void)setenv("SECKILL_PAYMENT_SECRET", "0123456789abcdef\nfedcba9876543210\n", 1);
    must_accept(NO_WORDS);
    static const char *const wrong[] = {"0123456789abcdef\nfedcba987654321", "0123456789abcdef\n\nfedcba9876543210",
                                        "0123456789abcdef\n0123456789abcdee\n0123456789abcded", ""};
    for (size_t i = 0; wrong[i][0] != '\0'; i++) {
        (void)setenv("SECKILL_PAYMENT_SECRET", wrong[i], 1);
        must_refuse(NO_WORDS, "SECKILL_PAYMENT_SECRET");
        ck_assert_ptr_null(strstr(said, "0123"));
    }
}

TEST(wrong_words_are_refused_by_name)
{
    must_refuse(WORDS("--no-such-option", "1"), "--no-such-option");
    must_refuse(WORDS("--no-such-option=1"), "--no-such-option");
    must_refuse(WORDS("--reactor", "1"), "--reactor"); // no abbreviations
    must_refuse(WORDS("--reactorss", "1"), "--reactorss");
    must_refuse(WORDS("--REACTORS", "1"), "--REACTORS");
    must_refuse(WORDS("--"), "--");
    must_refuse(WORDS("-h"), "-h");
    must_refuse(WORDS("serve"), "serve");
    must_refuse(WORDS("--reactors"), "--reactors"); // without a value
    must_refuse(WORDS(""), "''");
}

TEST(commands_are_told_apart)
{
    must_accept(WORDS("--migrate"));
    ck_assert_int_eq(command, SK_COMMAND_MIGRATE);
    must_accept(WORDS("--check"));
    ck_assert_int_eq(command, SK_COMMAND_CHECK);
    must_accept(WORDS("--help"));
    ck_assert_int_eq(command, SK_COMMAND_HELP);
    must_accept(WORDS("--version"));
    ck_assert_int_eq(command, SK_COMMAND_VERSION);
    must_accept(WORDS("token", "alice", "--token-keys", "k", "60"));
    ck_assert_int_eq(command, SK_COMMAND_TOKEN);
    ck_assert_str_eq(config.words[0], "alice");
    ck_assert_str_eq(config.words[1], "60");
    ck_assert_ptr_null(config.words[2]);
    must_refuse(WORDS("token"), "USER");
    must_accept(WORDS("check-token", "--token-keys", "k"));
    must_refuse(WORDS("check-token", "more"), "more");
    must_refuse(WORDS("token", "alice", "60", "more"), "more");
}

// Otherwise the second would replace the first: `--migrate --check` would migrate nothing.
TEST(two_commands_at_once_are_refused)
{
    must_refuse(WORDS("--migrate", "--check"), "--check");
    ck_assert_ptr_nonnull(strstr(said, "--migrate"));
    must_refuse(WORDS("--check", "--migrate"), "--migrate");
    must_refuse(WORDS("--check", "--reactors", "2", "--check"), "--check");
    must_refuse(WORDS("token", "alice", "--migrate"), "--migrate");
    must_accept(WORDS("token", "archive")); // a user with that name
    ck_assert_int_eq(command, SK_COMMAND_TOKEN);
}

static void must_suggest(const char *name, const char *nearest)
{
    (void)setenv(name, "hunter2", 1);
    must_refuse(NO_WORDS, name);
    ck_assert_msg(strstr(said, nearest) != NULL, "'%s' does not suggest %s", said, nearest);
    ck_assert_ptr_null(strstr(said, "hunter2"));
    (void)unsetenv(name);
    must_accept(NO_WORDS);
}

TEST(an_unknown_variable_is_refused_with_the_nearest_name)
{
    static const char long_name[] = "SECKILL_LOCK_TTL_MS_AND_WHAT_FOLLOWS_IT_IS_LONGER_THAN_ANY_NAME_OF_A_SETTING_IS";
    must_suggest("SECKILL_REACTOR", "SECKILL_REACTORS?");
    must_suggest("SECKILL_LOCK_TTL", "SECKILL_LOCK_TTL_MS?");
    must_suggest("SECKILL_LOCK_TLT_MS", "SECKILL_LOCK_TTL_MS?");
    must_suggest("SECKILL_lISTEN", "SECKILL_LISTEN?");
    must_suggest("SECKILL_LISTEN_FILE", "SECKILL_LISTEN?"); // only secrets come from files
    must_suggest("SECKILL_REDIS_URL_FIL", "SECKILL_REDIS_URL_FILE?");
    must_suggest("SECKILL_", "SECKILL_");
    (void)setenv(long_name, "1", 1);
    must_refuse(NO_WORDS, "SECKILL_LOCK_TTL_MS_AND");
    (void)unsetenv(long_name);

    (void)setenv("SECKILL_REACTOR", "2", 1);
    must_refuse(WORDS("--check"), "SECKILL_REACTORS?");
    must_refuse(WORDS("--migrate"), "SECKILL_REACTORS?");
    must_accept(WORDS("--help")); // shows the right name
    (void)setenv("SECKILL_LOCK_TTL", "100", 1);
    must_refuse(NO_WORDS, "SECKILL_REACTORS?"); // all are reported
    ck_assert_ptr_nonnull(strstr(said, "SECKILL_LOCK_TTL_MS?"));
}

TEST(names_of_others_pass)
{
    static const char *const pass[] = {
        "SECKILL_FAILPOINTS",
        "SECKILL_FAIL_MALLOC",
        "SECKILL_URL",
        "SECKILL_URLS",
        "SECKILL_SERVICE_HOST",
        "SECKILL_SERVICE_PORT",
        "SECKILL_SERVICE_PORT_WEB",
        "SECKILL_PORT",
        "SECKILL_PORT_8080_TCP",
        "SECKILL_PORT_8080_TCP_PROTO",
        "SECKILL_PORT_8080_UDP",
        "SECKILL_PORT_8080_TCP_PORT",
        "MY_SECKILL_PORT",
        "SECKILL_PORT_8080_UDP_ADDR",
        "SECKILLS",
        "SECKILL_ADMIN_TOKEN_FILE", // the token below takes precedence
    };
    static const char *const stay[] = {
        "SECKILL_SERVICE",
        "SECKILL_SERVICE_HOSTS",
        "SECKILL_SERVICE_PORT_",
        "SECKILL_PORTS",
        "SECKILL_PORT_TCP",
        "SECKILL_PORT_8080_SCTP",
        "SECKILL_PORT__TCP",
        "SECKILL_PORT_8080_TCP_HOST",
        "SECKILL_PORT_8080_TCP_ADDR_",
        "SECKILL_FAILPOINTS_X",
        "SECKILL_URI",
    };
    (void)setenv("SECKILL_ADMIN_TOKEN", "a-token-of-some-length", 1);
    for (size_t i = 0; i < sizeof pass / sizeof pass[0]; i++)
        (void)setenv(pass[i], "tcp://10.96.0.7:8080", 1);
    must_accept(NO_WORDS);
    for (size_t i = 0; i < sizeof stay / sizeof stay[0]; i++) {
        (void)setenv(stay[i], "1", 1);
        must_refuse(NO_WORDS, stay[i]);
        (void)unsetenv(stay[i]);
    }
}

TEST(the_database_is_required_where_it_is_used)
{
    (void)unsetenv("SECKILL_DATABASE_URL");
    must_refuse(NO_WORDS, "SECKILL_DATABASE_URL");
    must_refuse(WORDS("--migrate"), "SECKILL_DATABASE_URL");
    must_refuse(WORDS("--check"), "SECKILL_DATABASE_URL");
    must_accept(WORDS("--help"));
    must_accept(WORDS("--version"));
    (void)setenv("SECKILL_DATABASE_URL", "", 1);
    must_refuse(NO_WORDS, "SECKILL_DATABASE_URL");
}

TEST(a_secret_has_no_option_and_is_not_repeated_in_a_message)
{
    for (int i = 0; i < SECRETS; i++) {
        char joined[64];
        must_refuse(WORDS(secrets[i].option, "hunter2"), secrets[i].option);
        ck_assert_ptr_null(strstr(said, "hunter2"));
        (void)snprintf(joined, sizeof joined, "%s=hunter2", secrets[i].option);
        must_refuse(WORDS(joined), secrets[i].option);
        ck_assert_ptr_null(strstr(said, "hunter2"));
    }
}

// As from systemd: files with fixed names in a folder. A named setting takes precedence.
TEST(secrets_come_from_credentials)
{
    char folder[] = "/tmp/seckill-credentials.XXXXXX", path[128], other[PATH_SIZE];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)setenv("CREDENTIALS_DIRECTORY", folder, 1);
    must_accept(NO_WORDS); // the folder is empty
    ck_assert_ptr_null(config.identity.admin_token);
    make_file(other, "the secret of a file", strlen("the secret of a file"));
    for (int i = 0; i < SECRETS; i++) {
        (void)unsetenv(secrets[i].env);
        (void)snprintf(path, sizeof path, "%s/seckill.%s", folder, secrets[i].option + 2);
        FILE *file = fopen(path, "we");
        ck_assert_ptr_nonnull(file);
        (void)fprintf(file, "credential of %s\n", secrets[i].env);
        (void)fclose(file);
        char wanted[64];
        (void)snprintf(wanted, sizeof wanted, "credential of %s", secrets[i].env);
        must_accept(NO_WORDS);
        ck_assert_str_eq(text_at(secrets[i].offset), wanted);
        (void)setenv(secrets[i].file_env, other, 1);
        must_accept(NO_WORDS);
        ck_assert_str_eq(text_at(secrets[i].offset), "the secret of a file");
        (void)unsetenv(secrets[i].file_env);
        ck_assert_int_eq(truncate(path, 0), 0);
        must_refuse(NO_WORDS, secrets[i].env); // an existing but empty file is not a default
        ck_assert_int_eq(unlink(path), 0);
        (void)setenv(secrets[i].env, "sixteen bytes of it", 1);
    }
    (void)snprintf(path, sizeof path, "%s/seckill.token-keys", folder); // settings that name a file use that file
    ck_assert_int_eq(close(creat(path, 0600)), 0);
    must_accept(NO_WORDS);
    ck_assert_str_eq(config.identity.token_keys, path);
    ck_assert_int_eq(unlink(path), 0);
    must_accept(NO_WORDS);
    ck_assert_ptr_null(config.identity.token_keys);
    ck_assert_int_eq(rmdir(folder), 0);
}

TEST(secrets_come_from_files_without_the_newline_at_their_end)
{
    static const struct {
        const char *content, *secret;
    } rows[] = {
        {"token-of-16-char", "token-of-16-char"},
        {"token-of-16-char\n", "token-of-16-char"},
        {"token-of-16-char\r\n", "token-of-16-char"},
        {"token-of-16-char\n\n", "token-of-16-char"},
        {" to ken of 16 ch \n", " to ken of 16 ch "},
        {"line-of-16-chars\nline-of-16-char2\n", "line-of-16-chars\nline-of-16-char2"},
        {"token-of-16-chars\xc3\xbc\n", "token-of-16-chars\xc3\xbc"},
    };
    for (int i = 0; i < SECRETS; i++) {
        for (size_t j = 0; j < sizeof rows / sizeof rows[0]; j++) {
            char path[PATH_SIZE], option[64];
            make_file(path, rows[j].content, strlen(rows[j].content));
            (void)unsetenv(secrets[i].env);
            (void)setenv(secrets[i].file_env, path, 1);
            must_accept(NO_WORDS);
            ck_assert_str_eq(text_at(secrets[i].offset), rows[j].secret);
            (void)unsetenv(secrets[i].file_env);
            // The option takes precedence over the environment.
            (void)setenv(secrets[i].env, "from the environment", 1);
            (void)snprintf(option, sizeof option, "%s-file", secrets[i].option);
            must_accept(WORDS(option, path));
            ck_assert_str_eq(text_at(secrets[i].offset), rows[j].secret);
        }
    }
}

TEST(a_file_that_holds_no_secret_is_refused_with_its_name)
{
    static char large[70000];
    char empty_path[PATH_SIZE], newline_path[PATH_SIZE], large_path[PATH_SIZE], binary_path[PATH_SIZE];
    memset(large, 'x', sizeof large);
    make_file(empty_path, "", 0);
    make_file(newline_path, "\n", 1);
    make_file(large_path, large, sizeof large);
    make_file(binary_path, "to\0ken", 6);
    const char *const paths[] = {"/no/such/file", "/", "", empty_path, newline_path, large_path, binary_path};
    for (int i = 0; i < SECRETS; i++) {
        for (size_t j = 0; j < sizeof paths / sizeof paths[0]; j++) {
            char option[64];
            (void)unsetenv(secrets[i].env);
            (void)setenv(secrets[i].file_env, paths[j], 1);
            must_refuse(NO_WORDS, secrets[i].env);
            (void)unsetenv(secrets[i].file_env);
            (void)setenv(secrets[i].env, "secret", 1);
            (void)snprintf(option, sizeof option, "%s-file", secrets[i].option);
            must_refuse(WORDS(option, paths[j]), secrets[i].env);
        }
    }
}

TEST(a_plain_setting_is_not_read_from_a_file)
{
    char path[PATH_SIZE];
    make_file(path, "7\n", 2);
    (void)setenv("SECKILL_REACTORS_FILE", path, 1);
    must_refuse(NO_WORDS, "SECKILL_REACTORS_FILE");
    (void)unsetenv("SECKILL_REACTORS_FILE");
    must_refuse(WORDS("--reactors-file", path), "--reactors-file");
}

static void must_mention(const char *help, const char *what)
{
    ck_assert_msg(strstr(help, what) != NULL, "--help does not mention %s", what);
}

TEST(help_lists_every_key_with_its_default)
{
    char *help = NULL, text[64];
    size_t size;
    FILE *out = open_memstream(&help, &size);
    sk_config_help(out);
    (void)fclose(out);
    for (int i = 0; i < NUMBERS; i++) {
        must_mention(help, numbers[i].env);
        must_mention(help, numbers[i].option);
        (void)snprintf(text, sizeof text, "(default %lld)", (long long)numbers[i].fallback);
        must_mention(help, text);
    }
    for (int i = 0; i < SECRETS; i++) {
        must_mention(help, secrets[i].env);
        must_mention(help, secrets[i].file_env);
        (void)snprintf(text, sizeof text, "%s-file PATH", secrets[i].option);
        must_mention(help, text);
    }
    must_mention(help, "--listen VALUE");
    must_mention(help, "--log-level VALUE");
    // The settings stand under headings, each with at least one below it.
    static const char *const headings[] = {"Addresses and stores",
                                           "Operators and payments",
                                           "Users and their tokens",
                                           "Purchase tickets and pages of other origins",
                                           "Connections and waiting",
                                           "Orders and sales",
                                           "Limits",
                                           "Shutdown, metrics and built-in pages",
                                           "Logs and traces"};
    const char *at = help;
    for (size_t i = 0; i < sizeof headings / sizeof headings[0]; i++) {
        (void)snprintf(text, sizeof text, "\n\n%s:\n\n  SECKILL_", headings[i]);
        at = strstr(at, text);
        ck_assert_msg(at != NULL, "no heading, or not in this order: %s", headings[i]);
    }
    free(help);
}

SUITE(.setup = setup, .teardown = teardown);
