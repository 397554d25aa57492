// Configuration: defaults, the sources of values and their precedence, bounds, and that no secret comes from the
// command line or appears in a message.
#include <ctype.h>
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
    const char *env;
    size_t offset;
    int64_t fallback, least, most;
} numbers[] = {
    {"SECKILL_REACTORS", AT(reactors), 1, 1, 64},
    {"SECKILL_TICKET_TTL_S", AT(identity.ticket_ttl_s), 300, 1, 86400},
    {"SECKILL_MAX_CONNECTIONS", AT(server.max_connections), 4096, 1, 65536},
    {"SECKILL_BODY_MAX_BYTES", AT(server.body_max_bytes), 16384, 0, 1048576},
    {"SECKILL_HEADER_MAX_BYTES", AT(server.header_max_bytes), 7000, 4096, 1048576},
    {"SECKILL_IDLE_TIMEOUT_MS", AT(server.idle_timeout_ms), 30000, 100, 3600000},
    {"SECKILL_REQUEST_TIMEOUT_MS", AT(server.request_timeout_ms), 10000, 100, 600000},
    {"SECKILL_CONFIRM_TIMEOUT_MS", AT(api.confirm_timeout_ms), 2000, 1, 60000},
    {"SECKILL_TOKEN_LIFETIME_S", AT(identity.token_lifetime_s), 0, 0, 31536000},
    {"SECKILL_TOKEN_LEEWAY_S", AT(identity.token_leeway_s), 30, 0, 3600},
    {"SECKILL_TOKEN_CACHE", AT(identity.token_cache), 65536, 0, 4194304},
    {"SECKILL_REDIS_TIMEOUT_MS", AT(stores.redis_timeout_ms), 1000, 10, 60000},
    {"SECKILL_PG_TIMEOUT_MS", AT(stores.pg_timeout_ms), 5000, 10, 60000},
    {"SECKILL_BATCH_MAX", AT(sale.batch_max), 512, 1, 2048},
    {"SECKILL_ORDERS_MAX", AT(sale.orders_max), 500000, 1, 10000000},
    {"SECKILL_LOCK_TTL_MS", AT(sale.lock_ttl_ms), 3000, 100, 600000},
    {"SECKILL_RETIRE_AFTER_MS", AT(sale.retire_after_ms), 86400000, 0, INT64_C(315360000000)},
    {"SECKILL_SOLD_OUT_MARK_MS", AT(sale.sold_out_mark_ms), 200, 0, 60000},
    {"SECKILL_USER_RATE", AT(identity.user_rate), 0, 0, 10000},
    {"SECKILL_ADDRESS_RATE", AT(identity.address_rate), 0, 0, 1000000},
    {"SECKILL_ADDRESS_CONNECTIONS", AT(identity.address_connections), 0, 0, 65536},
    {"SECKILL_LONG_SHARE", AT(server.long_share), 50, 1, 100},
    {"SECKILL_LONG_PER_USER", AT(identity.long_per_user), 8, 0, 65536},
    {"SECKILL_LONG_PER_ADDRESS", AT(identity.long_per_address), 32, 0, 65536},
    {"SECKILL_PURCHASE_RATE", AT(identity.purchase_rate), 0, 0, 10000000},
    {"SECKILL_PURCHASES_MAX", AT(sale.purchases_max), 0, 0, 10000000},
    {"SECKILL_DRAIN_TIMEOUT_MS", AT(drain_timeout_ms), 10000, 0, 600000},
    {"SECKILL_ACCESS_LOG", AT(server.access_log), 0, 0, 1000000},
};

static const struct secret {
    const char *env;
    size_t offset;
} secrets[] = {
    {"SECKILL_DATABASE_URL", AT(stores.database_url)},       {"SECKILL_REDIS_URL", AT(stores.redis_url)},
    {"SECKILL_ADMIN_TOKEN", AT(identity.admin_token)},       {"SECKILL_ADMIN_TOKENS", AT(identity.admin_tokens)},
    {"SECKILL_PAYMENT_SECRET", AT(identity.payment_secret)}, {"SECKILL_TICKET_SECRET", AT(identity.ticket_secret)},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { NAME_SIZE = 64, WORDS_MAX = 6, FILE_MAX = 32768 };

static struct sk_config config;
static enum sk_command command;
static char *said; // on the error stream

// The arguments behind the program's name.
#define WORDS(...) ((const char *const[]){"seckill", __VA_ARGS__, NULL})
#define NO_WORDS   ((const char *const[]){"seckill", NULL})

static enum sk_status read_config(const char *const *words)
{
    // Arguments are not written to; the interface is that of main().
    union {
        const char *const *in;
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

static void must_refuse(const char *const *words, const char *name)
{
    ck_assert_msg(read_config(words) == SK_FAIL, "not refused: %s %s", name, words[1] == NULL ? "" : words[1]);
    ck_assert_msg(strstr(said, name) != NULL, "'%s' does not name %s", said, name);
    ck_assert_msg(said[strlen(said) - 1] == '\n', "'%s' is no line", said);
}

static void must_accept(const char *const *words)
{
    enum sk_status status = read_config(words);
    ck_assert_msg(status == SK_OK, "refused: %s", said);
    ck_assert_str_eq(said, "");
}

// name NULL: they are accepted.
static void must_be(const char *const *words, const char *name)
{
    if (name == NULL)
        must_accept(words);
    else
        must_refuse(words, name);
}

static int64_t number_at(size_t offset)
{
    int64_t value;
    memcpy(&value, (const char *)&config + offset, sizeof value);
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

// SECKILL_BATCH_MAX -> --batch-max, with what follows it.
static void option_of(const char *env, const char *end, char out[NAME_SIZE])
{
    (void)snprintf(out, NAME_SIZE, "--%s%s", env + strlen("SECKILL_"), end);
    for (char *c = out; *c != '\0'; c++)
        *c = (char)(*c == '_' ? '-' : tolower((unsigned char)*c));
}

// A file in memory; `path` is valid while this process lives.
static void make_file(char path[NAME_SIZE], const char *bytes, size_t n)
{
    int fd = memfd_create("secret", 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, n), (ssize_t)n);
    (void)snprintf(path, NAME_SIZE, "/proc/self/fd/%d", fd);
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
    for (size_t i = 0; i < COUNT(numbers); i++)
        ck_assert_msg(number_at(numbers[i].offset) == numbers[i].fallback, "default of %s", numbers[i].env);
    ck_assert_str_eq(config.server.listen, "127.0.0.1:8080");
    ck_assert_str_eq(config.stores.redis_url, "redis://127.0.0.1:6379");
    ck_assert_str_eq(config.log_level, "info");
    ck_assert_ptr_null(config.identity.admin_token);
    ck_assert_ptr_null(config.identity.admin_tokens);
    ck_assert_ptr_null(config.identity.payment_secret);
    ck_assert_ptr_null(config.identity.trusted_proxies);
    ck_assert_int_eq(config.identity.auth, SK_AUTH_GATEWAY);
    ck_assert_int_eq(config.identity.gateway_trusted, 0);
    ck_assert_int_eq(config.api.metrics_open, 0);
    ck_assert_int_eq(command, SK_COMMAND_SERVE);
}

TEST(the_environment_sets_every_key_and_options_win_over_it)
{
    for (size_t i = 0; i < COUNT(numbers); i++)
        set_number(numbers[i].env, numbers[i].most - (int64_t)i);
    for (size_t i = 0; i < COUNT(secrets); i++)
        (void)setenv(secrets[i].env, secrets[i].env, 1);
    (void)setenv("SECKILL_LISTEN", "[::1]:1", 1);
    (void)setenv("SECKILL_LOG_LEVEL", "debug", 1);
    (void)setenv("SECKILL_TRUSTED_PROXIES", "10.0.0.0/8", 1);
    must_accept(NO_WORDS);
    ck_assert_str_eq(config.identity.trusted_proxies, "10.0.0.0/8");
    for (size_t i = 0; i < COUNT(numbers); i++)
        ck_assert_msg(number_at(numbers[i].offset) == numbers[i].most - (int64_t)i, "%s", numbers[i].env);
    for (size_t i = 0; i < COUNT(secrets); i++)
        ck_assert_str_eq(text_at(secrets[i].offset), secrets[i].env);
    ck_assert_str_eq(config.server.listen, "[::1]:1");
    ck_assert_str_eq(config.log_level, "debug");
    must_accept(WORDS("--listen", "0.0.0.0:80", "--log-level=error", "--reactors", "2", "--reactors=3"));
    ck_assert_str_eq(config.server.listen, "0.0.0.0:80");
    ck_assert_str_eq(config.log_level, "error");
    ck_assert_int_eq(config.reactors, 3); // the last one wins
}

// From the environment, and from both forms of an option.
TEST(a_number_is_within_its_bounds)
{
    static const char *const wrong[] = {"", "abc", "100ms"}; // test_text.c has the others
    for (size_t i = 0; i < COUNT(numbers); i++) {
        const struct number *number = &numbers[i];
        set_number("SECKILL_BATCH_MAX", 1); // which must stay below ORDERS_MAX
        const int64_t values[] = {number->least, number->most, number->least - 1, number->most + 1};
        for (size_t j = 0; j < COUNT(values) + COUNT(wrong); j++) {
            char value[24], option[NAME_SIZE], joined[2 * NAME_SIZE];
            if (j < COUNT(values))
                (void)snprintf(value, sizeof value, "%lld", (long long)values[j]);
            else
                (void)snprintf(value, sizeof value, "%s", wrong[j - COUNT(values)]);
            option_of(number->env, "", option);
            (void)snprintf(joined, sizeof joined, "%s=%s", option, value);
            const char *const *const ways[] = {NO_WORDS, WORDS(option, value), WORDS(joined)};
            for (int way = 0; way < 3; way++) {
                set_number(number->env, values[j == 0]); // an option wins over it
                if (way == 0)
                    (void)setenv(number->env, value, 1);
                must_be(ways[way], j < 2 ? NULL : number->env);
                ck_assert_msg(j >= 2 || number_at(number->offset) == values[j], "%s", joined);
            }
        }
        (void)unsetenv(number->env);
    }
    must_refuse(WORDS("--log-level", "loud"), "SECKILL_LOG_LEVEL");
    must_refuse(WORDS("--log-level", ""), "SECKILL_LOG_LEVEL");
    must_refuse(WORDS("--listen="), "SECKILL_LISTEN");
}

TEST(a_choice_is_one_of_its_words)
{
    static const struct {
        const char *env;
        size_t offset;
        const char *good[2], *wrong[8];
    } rows[] = {
        {"SECKILL_AUTH",
         AT(identity.auth),
         {"gateway"},
         {"", "Gateway", "gatewa", "gateways", "gateway|token", "|", "0", " token"}},
        {"SECKILL_GATEWAY_TRUSTED", AT(identity.gateway_trusted), {"no", "yes"}, {"true"}},
        {"SECKILL_METRICS_OPEN", AT(api.metrics_open), {"no", "yes"}, {"1", "YES", ""}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char option[NAME_SIZE];
        option_of(rows[i].env, "", option);
        for (int j = 0; j < 2 && rows[i].good[j] != NULL; j++) {
            (void)setenv(rows[i].env, rows[i].good[j], 1);
            must_accept(NO_WORDS);
            ck_assert_int_eq(number_at(rows[i].offset), j);
            (void)setenv(rows[i].env, rows[i].good[0], 1);
            must_accept(WORDS(option, rows[i].good[j]));
            ck_assert_int_eq(number_at(rows[i].offset), j);
        }
        for (int j = 0; j < 8 && rows[i].wrong[j] != NULL; j++)
            must_refuse(WORDS(option, rows[i].wrong[j]), rows[i].env);
    }
}

// Each is right by itself. What serves nobody does not use these.
TEST(settings_that_do_not_fit_each_other_are_refused)
{
    static const struct {
        const char *set[4], *refused;
    } rows[] = {
        // A reactor has room for at least one batch.
        {{"SECKILL_ORDERS_MAX=511"}, "SECKILL_ORDERS_MAX: 511 is less than SECKILL_BATCH_MAX, 512"},
        {{"SECKILL_ORDERS_MAX=511", "SECKILL_BATCH_MAX=511"}, NULL},
        {{"SECKILL_ORDERS_MAX=512"}, NULL},
        {{"SECKILL_ORDERS_MAX=510", "SECKILL_BATCH_MAX=511"}, "SECKILL_ORDERS_MAX"},
        // A certificate needs its key.
        {{"SECKILL_REDIS_CERT=/file"}, "SECKILL_REDIS_KEY"},
        {{"SECKILL_REDIS_KEY=/file"}, "SECKILL_REDIS_KEY"},
        {{"SECKILL_REDIS_CERT=/file", "SECKILL_REDIS_KEY=/file"}, NULL},
        // Tokens need keys, an issuer and an audience.
        {{"SECKILL_AUTH=token"}, "SECKILL_AUTH: token needs SECKILL_TOKEN_KEYS"},
        {{"SECKILL_AUTH=token", "SECKILL_TOKEN_KEYS=x", "SECKILL_TOKEN_ISSUER=x"}, "SECKILL_TOKEN_AUDIENCE"},
        {{"SECKILL_AUTH=token", "SECKILL_TOKEN_KEYS=x", "SECKILL_TOKEN_AUDIENCE=x"}, "SECKILL_TOKEN_ISSUER"},
        {{"SECKILL_AUTH=token", "SECKILL_TOKEN_ISSUER=x", "SECKILL_TOKEN_AUDIENCE=x"}, "SECKILL_TOKEN_KEYS"},
        {{"SECKILL_AUTH=token", "SECKILL_TOKEN_KEYS=x", "SECKILL_TOKEN_ISSUER=x", "SECKILL_TOKEN_AUDIENCE=x"}, NULL},
        // A payment secret can not be guessed. During a change there are two.
        {{"SECKILL_PAYMENT_SECRET=0123456789abcde"}, "SECKILL_PAYMENT_SECRET"},
        {{"SECKILL_PAYMENT_SECRET=0123456789abcdef"}, NULL},
        {{"SECKILL_PAYMENT_SECRET=0123456789abcdef\nfedcba9876543210\n"}, NULL},
        {{"SECKILL_PAYMENT_SECRET=0123456789abcdef\nfedcba987654321"}, "SECKILL_PAYMENT_SECRET"},
        {{"SECKILL_PAYMENT_SECRET=0123456789abcdef\n\nfedcba9876543210"}, "SECKILL_PAYMENT_SECRET"},
        {{"SECKILL_PAYMENT_SECRET=0123456789abcdef\n0123456789abcdee\n0123456789abcded"}, "SECKILL_PAYMENT_SECRET"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        setup();
        for (int j = 0; j < 4 && rows[i].set[j] != NULL; j++) {
            const char *value = strchr(rows[i].set[j], '=');
            char name[NAME_SIZE];
            (void)snprintf(name, sizeof name, "%.*s", (int)(value - rows[i].set[j]), rows[i].set[j]);
            (void)setenv(name, value + 1, 1);
        }
        must_be(NO_WORDS, rows[i].refused);
        ck_assert_ptr_null(strstr(said, "0123"));
        must_be(WORDS("--check"), rows[i].refused);
        must_accept(WORDS("--migrate"));
        must_accept(WORDS("--help"));
    }
    setup();
    must_accept(WORDS("--auth=token", "--token-keys=k", "--token-issuer=i", "--token-audience=a"));
    ck_assert_int_eq(config.identity.auth, SK_AUTH_TOKEN);
    ck_assert_str_eq(config.identity.token_keys, "k");
}

// ---- words ----

TEST(words_are_a_command_and_its_arguments)
{
    static const struct {
        const char *words[WORDS_MAX];
        enum sk_command command;
        const char *refused;
    } rows[] = {
        {{"seckill", "--migrate"}, SK_COMMAND_MIGRATE, NULL},
        {{"seckill", "--check"}, SK_COMMAND_CHECK, NULL},
        {{"seckill", "--help"}, SK_COMMAND_HELP, NULL},
        {{"seckill", "--version"}, SK_COMMAND_VERSION, NULL},
        {{"seckill", "check-token", "--token-keys", "k"}, SK_COMMAND_CHECK_TOKEN, NULL},
        {{"seckill", "token", "archive"}, SK_COMMAND_TOKEN, NULL}, // a user with that name
        {{"seckill", "token"}, 0, "USER"},
        {{"seckill", "token", "alice", "60", "more"}, 0, "more"},
        {{"seckill", "check-token", "more"}, 0, "more"},
        // Else the second would replace the first: `--migrate --check` would migrate nothing.
        {{"seckill", "--migrate", "--check"}, 0, "--migrate and --check"},
        {{"seckill", "--check", "--migrate"}, 0, "--check and --migrate"},
        {{"seckill", "--check", "--reactors", "2", "--check"}, 0, "--check"},
        {{"seckill", "token", "alice", "--migrate"}, 0, "--migrate"},
        {{"seckill", "--no-such-option", "1"}, 0, "--no-such-option"},
        {{"seckill", "--reactor", "1"}, 0, "--reactor"}, // no abbreviations
        {{"seckill", "--REACTORS", "1"}, 0, "--REACTORS"},
        {{"seckill", "--"}, 0, "--"},
        {{"seckill", "serve"}, 0, "serve"},
        {{"seckill", "--reactors"}, 0, "--reactors"}, // without a value
        {{"seckill", ""}, 0, "''"},
        {{"seckill", "--reactors-file", "/dev/null"}, 0, "--reactors-file"}, // only secrets come from files
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        must_be(rows[i].words, rows[i].refused);
        ck_assert_int_eq(rows[i].refused == NULL ? command : 0, rows[i].command);
    }
    must_accept(WORDS("token", "alice", "--token-keys", "k", "60"));
    ck_assert_str_eq(config.words[0], "alice");
    ck_assert_str_eq(config.words[1], "60");
    ck_assert_ptr_null(config.words[2]);
}

// ---- names ----

TEST(an_unknown_variable_is_refused_with_the_nearest_name)
{
    static const struct {
        const char *name, *nearest;
    } rows[] = {
        {"SECKILL_REACTOR", "SECKILL_REACTORS?"},
        {"SECKILL_LOCK_TTL", "SECKILL_LOCK_TTL_MS?"},
        {"SECKILL_LOCK_TLT_MS", "SECKILL_LOCK_TTL_MS?"},
        {"SECKILL_lISTEN", "SECKILL_LISTEN?"},
        {"SECKILL_LISTEN_FILE", "SECKILL_LISTEN?"}, // only secrets come from files
        {"SECKILL_REDIS_URL_FIL", "SECKILL_REDIS_URL_FILE?"},
        {"SECKILL_", "SECKILL_"},
    };
    static const char long_name[] = "SECKILL_LOCK_TTL_MS_AND_WHAT_FOLLOWS_IT_IS_LONGER_THAN_ANY_NAME_OF_A_SETTING_IS";
    for (size_t i = 0; i < COUNT(rows); i++) {
        (void)setenv(rows[i].name, "hunter2", 1);
        must_refuse(NO_WORDS, rows[i].name);
        ck_assert_msg(strstr(said, rows[i].nearest) != NULL, "'%s' does not suggest %s", said, rows[i].nearest);
        ck_assert_ptr_null(strstr(said, "hunter2"));
        (void)unsetenv(rows[i].name);
        must_accept(NO_WORDS);
    }
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
    char pass[] = "FAILPOINTS FAIL_MALLOC URL URLS PORT SERVICE_HOST SERVICE_PORT SERVICE_PORT_WEB PORT_8080_TCP "
                  "PORT_8080_TCP_PROTO PORT_8080_TCP_PORT PORT_8080_UDP PORT_8080_UDP_ADDR";
    char stay[] = "SERVICE SERVICE_HOSTS SERVICE_PORT_ PORTS PORT_TCP PORT_8080_SCTP PORT__TCP PORT_8080_TCP_HOST "
                  "PORT_8080_TCP_ADDR_ FAILPOINTS_X URI";
    char name[NAME_SIZE];
    (void)setenv("SECKILL_ADMIN_TOKEN", "a-token-of-some-length", 1);
    (void)setenv("SECKILL_ADMIN_TOKEN_FILE", "the token takes precedence", 1);
    (void)setenv("MY_SECKILL_PORT", "8080", 1);
    (void)setenv("SECKILLS", "8080", 1);
    for (const char *rest = strtok(pass, " "); rest != NULL; rest = strtok(NULL, " ")) {
        (void)snprintf(name, sizeof name, "SECKILL_%s", rest);
        (void)setenv(name, "tcp://10.96.0.7:8080", 1);
    }
    must_accept(NO_WORDS);
    for (const char *rest = strtok(stay, " "); rest != NULL; rest = strtok(NULL, " ")) {
        (void)snprintf(name, sizeof name, "SECKILL_%s", rest);
        (void)setenv(name, "1", 1);
        must_refuse(NO_WORDS, name);
        (void)unsetenv(name);
    }
}

TEST(the_database_is_required_where_it_is_used)
{
    (void)unsetenv("SECKILL_DATABASE_URL");
    must_refuse(NO_WORDS, "SECKILL_DATABASE_URL: is required");
    must_refuse(WORDS("--migrate"), "SECKILL_DATABASE_URL");
    must_refuse(WORDS("--check"), "SECKILL_DATABASE_URL");
    must_accept(WORDS("--help"));
    must_accept(WORDS("--version"));
    (void)setenv("SECKILL_DATABASE_URL", "", 1);
    must_refuse(NO_WORDS, "SECKILL_DATABASE_URL");
}

// ---- secrets ----

// As from systemd: files with fixed names in a folder. A named setting takes precedence.
TEST(secrets_come_from_credentials)
{
    char folder[] = "/tmp/seckill-credentials.XXXXXX", path[128], other[NAME_SIZE], option[NAME_SIZE];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)setenv("CREDENTIALS_DIRECTORY", folder, 1);
    must_accept(NO_WORDS); // the folder is empty
    ck_assert_ptr_null(config.identity.admin_token);
    make_file(other, "the secret of a file", strlen("the secret of a file"));
    for (size_t i = 0; i < COUNT(secrets); i++) {
        (void)unsetenv(secrets[i].env);
        char wanted[NAME_SIZE], file_env[NAME_SIZE];
        (void)snprintf(file_env, sizeof file_env, "%s_FILE", secrets[i].env);
        (void)snprintf(wanted, sizeof wanted, "credential of %s", secrets[i].env);
        option_of(secrets[i].env, "", option);
        (void)snprintf(path, sizeof path, "%s/seckill.%s", folder, option + 2);
        FILE *file = fopen(path, "we");
        ck_assert_ptr_nonnull(file);
        (void)fprintf(file, "%s\n", wanted);
        (void)fclose(file);
        must_accept(NO_WORDS);
        ck_assert_str_eq(text_at(secrets[i].offset), wanted);
        (void)setenv(file_env, other, 1);
        must_accept(NO_WORDS);
        ck_assert_str_eq(text_at(secrets[i].offset), "the secret of a file");
        (void)unsetenv(file_env);
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

// Else the process list shows it.
TEST(a_secret_has_no_option_and_is_not_repeated_in_a_message)
{
    for (size_t i = 0; i < COUNT(secrets); i++) {
        char option[NAME_SIZE], joined[NAME_SIZE];
        option_of(secrets[i].env, "", option);
        option_of(secrets[i].env, "=hunter2", joined);
        const char *const *const ways[] = {WORDS(option, "hunter2"), WORDS(joined)};
        for (int way = 0; way < 2; way++) {
            must_refuse(ways[way], option);
            ck_assert_ptr_null(strstr(said, "hunter2"));
        }
    }
}

// By a name in the environment, and by an option, which wins over the environment.
TEST(secrets_come_from_files_without_the_newline_at_their_end)
{
    static char large[FILE_MAX];
    static const struct {
        const char *path, *content;
        size_t size;
        const char *secret; // NULL: refused
    } rows[] = {
        {NULL, "token-of-16-char", 16, "token-of-16-char"},
        {NULL, "token-of-16-char\n", 17, "token-of-16-char"},
        {NULL, "token-of-16-char\r\n", 18, "token-of-16-char"},
        {NULL, "token-of-16-char\n\n", 18, "token-of-16-char"},
        {NULL, " to ken of 16 ch \n", 18, " to ken of 16 ch "},
        {NULL, "line-of-16-chars\nline-of-16-char2\n", 34, "line-of-16-chars\nline-of-16-char2"},
        {NULL, "token-of-16-chars\xc3\xbc\n", 20, "token-of-16-chars\xc3\xbc"},
        {NULL, "", 0, NULL},
        {NULL, "\n", 1, NULL},
        {NULL, "to\0ken", 6, NULL},
        {NULL, large, sizeof large, NULL},
        {"/no/such/file", NULL, 0, NULL},
        {"/", NULL, 0, NULL},
        {"", NULL, 0, NULL},
    };
    memset(large, 'x', sizeof large);
    for (size_t i = 0; i < COUNT(secrets); i++) {
        for (size_t j = 0; j < COUNT(rows); j++) {
            char path[NAME_SIZE], option[NAME_SIZE], file_env[NAME_SIZE];
            option_of(secrets[i].env, "-file", option);
            (void)snprintf(file_env, sizeof file_env, "%s_FILE", secrets[i].env);
            (void)snprintf(path, sizeof path, "%s", rows[j].path == NULL ? "" : rows[j].path);
            if (rows[j].path == NULL)
                make_file(path, rows[j].content, rows[j].size);
            for (int by_option = 0; by_option < 2; by_option++) {
                (void)unsetenv(secrets[i].env);
                (void)setenv(by_option ? secrets[i].env : file_env, by_option ? "from the environment" : path, 1);
                must_be(by_option ? WORDS(option, path) : NO_WORDS, rows[j].secret == NULL ? secrets[i].env : NULL);
                if (rows[j].secret != NULL)
                    ck_assert_str_eq(text_at(secrets[i].offset), rows[j].secret);
                (void)unsetenv(file_env);
            }
        }
    }
}

// ---- help ----

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
    for (size_t i = 0; i < COUNT(numbers); i++) {
        option_of(numbers[i].env, "", text);
        must_mention(help, numbers[i].env);
        must_mention(help, text);
        (void)snprintf(text, sizeof text, "(default %lld)", (long long)numbers[i].fallback);
        must_mention(help, text);
    }
    for (size_t i = 0; i < COUNT(secrets); i++) {
        option_of(secrets[i].env, "-file", text);
        (void)strcat(text, " PATH");
        must_mention(help, text);
        (void)snprintf(text, sizeof text, "\n  %s\n", secrets[i].env);
        must_mention(help, text);
        (void)snprintf(text, sizeof text, "; %s_FILE names a file", secrets[i].env);
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
    for (size_t i = 0; i < COUNT(headings); i++) {
        (void)snprintf(text, sizeof text, "\n\n%s:\n\n  SECKILL_", headings[i]);
        at = strstr(at, text);
        ck_assert_msg(at != NULL, "no heading, or not in this order: %s", headings[i]);
    }
    free(help);
}

SUITE(.setup = setup, .teardown = teardown);
