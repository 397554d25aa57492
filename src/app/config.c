// Reads the configuration. The table below has one row for each key, with everything about it; reading, checking and
// --help only walk the table. Secrets are never accepted on the command line, where every user of the machine can see
// them. They come from the environment or from a file.
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "text.h"

enum kind { TEXT, SECRET, NUMBER, CHOICE };

struct key {
    const char *env;
    enum kind kind;
    size_t offset;
    const char *fallback; // NULL: none
    int64_t least, most;
    const char *unit; // of a choice: its words, separated by |; the stored value is the index of the word
    const char *help;
};

#define AT(field) offsetof(struct sk_config, field)

static const struct key keys[] = {
    {"SECKILL_LISTEN", TEXT, AT(server.listen), "127.0.0.1:8080", 0, 0, "host:port", "address to serve HTTP on"},
    {"SECKILL_ADMIN_LISTEN", TEXT, AT(api.admin_listen), NULL, 0, 0, "host:port",
     "address of /admin, /metrics and the dashboard, with its own connections and store links; SECKILL_LISTEN serves "
     "none of them then"},
    {"SECKILL_REACTORS", NUMBER, AT(reactors), "1", 1, 64, "threads", "event loops; they share the port"},
    {"SECKILL_DATABASE_URL", SECRET, AT(stores.database_url), NULL, 0, 0, "URI",
     "PostgreSQL, in libpq's form; this or SECKILL_SHARDS is required"},
    {"SECKILL_SHARDS", TEXT, AT(stores.shards_file), NULL, 0, 0, "path",
     "file with the URLs of several PostgreSQL servers, one a line, which share the vouchers; instead of "
     "SECKILL_DATABASE_URL"},
    {"SECKILL_REDIS_URL", SECRET, AT(stores.redis_url), "redis://127.0.0.1:6379", 0, 0, "URI",
     "redis://[[user]:password@]host[:port][/db], redis+sentinel://[[user]:password@]host[:port],.../name[/db], "
     "redis+cluster://[[user]:password@]host[:port],..., unix://[[user]:password@]/path; with rediss instead of redis "
     "by TLS; %40 in user or password is @, %25 is %"},
    {"SECKILL_SENTINEL_PASSWORD", SECRET, AT(stores.sentinel_password), NULL, 0, 0, "",
     "password of the sentinels; that of Redis is in the URL"},
    {"SECKILL_REDIS_CA", TEXT, AT(stores.redis_ca), NULL, 0, 0, "path",
     "PEM file of the authorities that may sign Redis's certificate; without it those of the system may"},
    {"SECKILL_REDIS_CERT", TEXT, AT(stores.redis_cert), NULL, 0, 0, "path",
     "PEM file of the certificate that the service shows to Redis"},
    {"SECKILL_REDIS_KEY", TEXT, AT(stores.redis_key), NULL, 0, 0, "path", "PEM file of its private key"},
    {"SECKILL_ADMIN_TOKEN", SECRET, AT(identity.admin_token), NULL, 0, 0, "",
     "bearer token of admin calls, with all roles; 16 to 256 visible characters"},
    {"SECKILL_ADMIN_TOKENS", SECRET, AT(identity.admin_tokens), NULL, 0, 0, "",
     "more admin tokens, one a line: name role[,role...] token; roles: read, operate, payments, refunds, metrics"},
    {"SECKILL_PAYMENT_SECRET", SECRET, AT(identity.payment_secret), NULL, 0, 0, "",
     "signs payment callbacks (HMAC-SHA256); at least 16 bytes; a second line is the previous secret"},
    {"SECKILL_AUTH", CHOICE, AT(identity.auth), "gateway", 0, 0, "gateway|token",
     "how users are identified: X-User-Id of a trusted gateway, or the user's token"},
    {"SECKILL_GATEWAY_TRUSTED", CHOICE, AT(identity.gateway_trusted), "no", 0, 0, "no|yes",
     "only the gateway can reach SECKILL_LISTEN; needed if that is not a loopback address"},
    {"SECKILL_TOKEN_KEYS", TEXT, AT(identity.token_keys), NULL, 0, 0, "path",
     "file with the keys of users' tokens, a JWK Set or lines: kid algorithm key; read again on SIGHUP"},
    {"SECKILL_TOKEN_ISSUER", TEXT, AT(identity.token_issuer), NULL, 0, 0, "", "required iss of a user's token"},
    {"SECKILL_TOKEN_AUDIENCE", TEXT, AT(identity.token_audience), NULL, 0, 0, "",
     "required aud of a user's token, or one of its values"},
    {"SECKILL_TOKEN_USER", TEXT, AT(identity.token_user), "sub", 0, 0, "",
     "claim of a user's token that holds the user's id"},
    {"SECKILL_TOKEN_LIFETIME_S", NUMBER, AT(identity.token_lifetime_s), "0", 0, 31536000, "s",
     "longest lifetime of a user's token, exp - iat; 0: unlimited"},
    {"SECKILL_TOKEN_REVOKED", TEXT, AT(identity.token_revoked), NULL, 0, 0, "path",
     "file with the users' tokens that are revoked, one a line: jti:ID or sub:ID; read again on SIGHUP"},
    {"SECKILL_TOKEN_LEEWAY_S", NUMBER, AT(identity.token_leeway_s), "30", 0, 3600, "s",
     "allowed clock skew between the issuer and the service"},
    {"SECKILL_TOKEN_CACHE", NUMBER, AT(identity.token_cache), "65536", 0, 4194304, "tokens",
     "users' tokens that a reactor caches, so that each public-key signature is checked once"},
    {"SECKILL_TICKET_SECRET", SECRET, AT(identity.ticket_secret), NULL, 0, 0, "",
     "signs purchase tickets (HMAC-SHA256); at least 16 bytes; a second line is the previous secret"},
    {"SECKILL_TICKET_TTL_S", NUMBER, AT(identity.ticket_ttl_s), "300", 1, 86400, "s", "lifetime of a purchase ticket"},
    {"SECKILL_CORS_ORIGINS", TEXT, AT(identity.cors_origins), NULL, 0, 0, "",
     "web origins that may call (CORS), as scheme://host[:port], separated by commas"},
    {"SECKILL_MAX_CONNECTIONS", NUMBER, AT(server.max_connections), "4096", 1, 65536, "",
     "client connections of a reactor"},
    {"SECKILL_BODY_MAX_BYTES", NUMBER, AT(server.body_max_bytes), "16384", 0, 1048576, "bytes", "largest request body"},
    {"SECKILL_HEADER_MAX_BYTES", NUMBER, AT(server.header_max_bytes), "7000", 4096, 1048576, "bytes",
     "largest request line and header; each field, cookie and parameter counts 64 bytes more; above it, 431"},
    {"SECKILL_IDLE_TIMEOUT_MS", NUMBER, AT(server.idle_timeout_ms), "30000", 100, 3600000, "ms",
     "longest wait for the next request's header"},
    {"SECKILL_REQUEST_TIMEOUT_MS", NUMBER, AT(server.request_timeout_ms), "10000", 100, 600000, "ms",
     "time limits, each this long: for a client to send its header (from the first line on), to send its body, and to "
     "read its answer"},
    {"SECKILL_CONFIRM_TIMEOUT_MS", NUMBER, AT(api.confirm_timeout_ms), "2000", 1, 60000, "ms",
     "longest wait for the commit; after it the answer is 202"},
    {"SECKILL_REDIS_TIMEOUT_MS", NUMBER, AT(stores.redis_timeout_ms), "1000", 10, 60000, "ms",
     "longest wait for Redis"},
    {"SECKILL_PG_TIMEOUT_MS", NUMBER, AT(stores.pg_timeout_ms), "5000", 10, 60000, "ms", "longest wait for PostgreSQL"},
    {"SECKILL_BATCH_MAX", NUMBER, AT(sale.batch_max), "512", 1, 2048, "orders",
     "most orders in one script call and in one transaction"},
    {"SECKILL_ORDERS_MAX", NUMBER, AT(sale.orders_max), "500000", 1, 10000000, "orders",
     "most orders of a reactor that wait for PostgreSQL; above it, 503; at least the batch-max of every instance"},
    {"SECKILL_LOCK_TTL_MS", NUMBER, AT(sale.lock_ttl_ms), "3000", 100, 600000, "ms",
     "lifetime of a session or lock without renewal; after it other instances settle a dead one's orders"},
    {"SECKILL_RETIRE_AFTER_MS", NUMBER, AT(sale.retire_after_ms), "86400000", 0, INT64_C(315360000000), "ms",
     "time until a sale leaves Redis, after its end and the time to pay"},
    {"SECKILL_SOLD_OUT_MARK_MS", NUMBER, AT(sale.sold_out_mark_ms), "200", 0, 60000, "ms",
     "how long a refusal is cached in memory"},
    {"SECKILL_USER_RATE", NUMBER, AT(identity.user_rate), "0", 0, 10000, "1/s",
     "purchases and cancellations of a user; above it, 429; 0: unlimited"},
    {"SECKILL_ADDRESS_RATE", NUMBER, AT(identity.address_rate), "0", 0, 1000000, "1/s",
     "requests of a client address, except admin calls; above it, 429; 0: unlimited"},
    {"SECKILL_ADDRESS_CONNECTIONS", NUMBER, AT(identity.address_connections), "0", 0, 65536, "",
     "open connections of a client address; 0: unlimited"},
    {"SECKILL_LONG_SHARE", NUMBER, AT(server.long_share), "50", 1, 100, "%",
     "share of a reactor's connections that event streams and long polls may take; above it, 503"},
    {"SECKILL_LONG_PER_USER", NUMBER, AT(identity.long_per_user), "8", 0, 65536, "",
     "open event streams and long polls of a user; 0: unlimited"},
    {"SECKILL_LONG_PER_ADDRESS", NUMBER, AT(identity.long_per_address), "32", 0, 65536, "",
     "open event streams and long polls of a client address, if it is known; 0: unlimited"},
    {"SECKILL_TRUSTED_PROXIES", TEXT, AT(identity.trusted_proxies), NULL, 0, 0, "networks",
     "networks whose Forwarded or X-Forwarded-For is trusted: 10.0.0.0/8, 2001:db8::1"},
    {"SECKILL_PURCHASE_RATE", NUMBER, AT(identity.purchase_rate), "0", 0, 10000000, "1/s",
     "purchases of all clients that may reach the stores; above it, 503; 0: unlimited"},
    {"SECKILL_PURCHASES_MAX", NUMBER, AT(sale.purchases_max), "0", 0, 10000000, "orders",
     "most unsettled orders of a reactor for a new purchase; above it, 503; 0: only orders-max counts"},
    {"SECKILL_DRAIN_TIMEOUT_MS", NUMBER, AT(drain_timeout_ms), "10000", 0, 600000, "ms",
     "longest wait for open orders after SIGTERM"},
    {"SECKILL_METRICS_OPEN", CHOICE, AT(api.metrics_open), "no", 0, 0, "no|yes", "/metrics needs no token"},
    {"SECKILL_PAGES", CHOICE, AT(api.pages), "on", 0, 0, "off|on", "serves the shop page and the operators' dashboard"},
    {"SECKILL_DEMO", CHOICE, AT(api.demo), "off", 0, 0, "off|on",
     "anyone may log in under any name on the shop page, and pay without money; never use it on a real sale"},
    {"SECKILL_PICTURE_ORIGINS", TEXT, AT(api.picture_origins), NULL, 0, 0, "",
     "web origins of vouchers' pictures, as scheme://host[:port], separated by commas"},
    {"SECKILL_LOGIN_URL", TEXT, AT(api.login_url), NULL, 0, 0, "URL",
     "where the shop page sends buyers who are not logged in"},
    {"SECKILL_WEBHOOKS", TEXT, AT(webhooks), NULL, 0, 0, "path",
     "file of the receivers of `seckill webhooks`; the service does not read it"},
    {"SECKILL_WEBHOOKS_LISTEN", TEXT, AT(webhooks_listen), NULL, 0, 0, "host:port",
     "address of /metrics and /healthz of `seckill webhooks`"},
    {"SECKILL_LOG_LEVEL", TEXT, AT(log_level), "info", 0, 0, "", "debug, info, warn or error"},
    {"SECKILL_ACCESS_LOG", NUMBER, AT(server.access_log), "0", 0, 1000000, "requests",
     "one of this many requests has a line on standard output; 0: none"},
    {"SECKILL_TRACE", CHOICE, AT(server.trace), "auto", 0, 0, "auto|off|on",
     "which requests have a trace: auto: those with a traceparent; on: all; off: none"},
};

// The headings of --help: each stands before the setting that it names.
static const struct {
    const char *before, *heading;
} headings[] = {
    {"SECKILL_LISTEN", "Addresses and stores"},
    {"SECKILL_ADMIN_TOKEN", "Operators and payments"},
    {"SECKILL_AUTH", "Users and their tokens"},
    {"SECKILL_TICKET_SECRET", "Purchase tickets and pages of other origins"},
    {"SECKILL_MAX_CONNECTIONS", "Connections and waiting"},
    {"SECKILL_BATCH_MAX", "Orders and sales"},
    {"SECKILL_USER_RATE", "Limits"},
    {"SECKILL_DRAIN_TIMEOUT_MS", "Shutdown, metrics and built-in pages"},
    {"SECKILL_WEBHOOKS", "Webhooks"},
    {"SECKILL_LOG_LEVEL", "Logs and traces"},
};

struct command {
    const char *name;
    enum sk_command command;
    int least_words, most_words;
    const char *words; // as the usage shows them; one that begins with -- is given as it is
    const char *help;
};

static const struct command commands[] = {
    {"--check", SK_COMMAND_CHECK, 0, 0, "",
     "checks configuration, stores, roles and settings, reports which promise each finding breaks, and ends: "
     "0 good, 1 warnings, 2 failures"},
    {"--check-files", SK_COMMAND_CHECK_FILES, 0, 0, "",
     "checks the settings and the files that they name, asks no store, and ends: 0 good, 2 failures"},
    {"--migrate", SK_COMMAND_MIGRATE, 0, 0, "", "updates the database's tables and functions and ends"},
    {"--openapi", SK_COMMAND_OPENAPI, 0, 0, "", "prints the OpenAPI document of the interface and ends"},
    {"token", SK_COMMAND_TOKEN, 1, 2, "USER [SECONDS]",
     "prints a token of this user for tests, valid for SECONDS (3600), and ends"},
    {"check-token", SK_COMMAND_CHECK_TOKEN, 0, 0, "",
     "reads a user's token from standard input, prints its user or the rule that it fails, and ends"},
    {"keys", SK_COMMAND_KEYS, 1, 1, "FILE",
     "checks a file of SECKILL_TOKEN_KEYS, prints which keys are used and which are not, and ends"},
    {"archive", SK_COMMAND_ARCHIVE, 1, 3, "FOLDER [DAYS [ORDERS]]",
     "moves orders of retired vouchers whose sale ended at least DAYS (30) days ago to files of at most ORDERS orders "
     "each"},
    {"erase", SK_COMMAND_ERASE, 1, 2, "USER [FOLDER]",
     "replaces the user's id by a pseudonym, also in the files that archive has written to FOLDER; refused while "
     "the user has orders of vouchers that are not retired"},
    {"webhooks", SK_COMMAND_WEBHOOKS, 0, 2, "[--check | --test NAME | --skip NAME | --resume NAME | --forget NAME]",
     "posts the events of orders and sales to the receivers of SECKILL_WEBHOOKS until SIGTERM or SIGINT; --check: "
     "checks the file and shows where each receiver is; --test: posts a test event; --skip: passes over the page that "
     "the "
     "receiver does not take; --resume: tries at once, also one that has stopped; --forget: removes its place"},
    {"--help", SK_COMMAND_HELP, 0, 0, "", "prints this help and ends"},
    {"--version", SK_COMMAND_VERSION, 0, 0, "", "prints the version and ends"},
};

enum {
    KEY_COUNT = sizeof keys / sizeof keys[0],
    COMMAND_COUNT = sizeof commands / sizeof commands[0],
    SECRET_MAX_BYTES = 32768,
    PAYMENT_SECRET_MIN = 16,
    PAYMENT_SECRETS_MAX = 2,
    NAME_MAX_CHARS = 64,
    CREDENTIAL_SIZE = 256
};

// Whether it is one of the words that a command has in its usage: "--check" in "[--check | ...]".
static bool config_has_word(const struct command *command, const char *word)
{
    const char *at = command == NULL ? NULL : strstr(command->words, word);
    size_t len = strlen(word);
    return at != NULL && len > 2 && (at[len] == ' ' || at[len] == ']') && (at[-1] == ' ' || at[-1] == '[');
}

// SECKILL_BATCH_MAX -> batch-max
static void config_option_name(const struct key *key, char out[NAME_MAX_CHARS])
{
    size_t n = 0;
    for (const char *c = key->env + strlen("SECKILL_"); *c != '\0' && n < NAME_MAX_CHARS - 1; c++)
        out[n++] = (char)(*c == '_' ? '-' : tolower((unsigned char)*c));
    out[n] = '\0';
}

// A char *, or an int64_t of a NUMBER and a CHOICE.
static void *config_at(struct sk_config *config, const struct key *key)
{
    return (char *)config + key->offset;
}

static enum sk_status config_set_choice(struct sk_config *config, const struct key *key, const char *value, FILE *err)
{
    int64_t number = 0;
    for (const char *word = key->unit; *word != '\0'; number++) {
        size_t len = strcspn(word, "|");
        if (strlen(value) == len && strncmp(word, value, len) == 0) {
            *(int64_t *)config_at(config, key) = number;
            return SK_OK;
        }
        word += len + (word[len] == '|');
    }
    (void)fprintf(err, "seckill: %s: '%s' is none of %s\n", key->env, value, key->unit);
    return SK_FAIL;
}

static enum sk_status config_set_value(struct sk_config *config, const struct key *key, const char *value, FILE *err)
{
    if (key->kind == CHOICE)
        return config_set_choice(config, key, value, err);
    if (key->kind == NUMBER) {
        uint64_t number;
        if (!sk_text_number(value, (uint64_t)key->most, &number) || (int64_t)number < key->least) {
            (void)fprintf(err, "seckill: %s: '%s' is not a number from %" PRId64 " to %" PRId64 "\n", key->env, value,
                          key->least, key->most);
            return SK_FAIL;
        }
        *(int64_t *)config_at(config, key) = (int64_t)number;
        return SK_OK;
    }
    if (value[0] == '\0') {
        (void)fprintf(err, "seckill: %s: is empty\n", key->env);
        return SK_FAIL;
    }
    char **text = config_at(config, key), *copy = strdup(value);
    if (copy == NULL) {
        (void)fprintf(err, "seckill: out of memory\n");
        return SK_NO_MEM;
    }
    free(*text);
    *text = copy;
    return SK_OK;
}

static enum sk_status config_set_from_file(struct sk_config *config, const struct key *key, const char *path, FILE *err)
{
    char secret[SECRET_MAX_BYTES];
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        (void)fprintf(err, "seckill: %s_FILE: %s: %s\n", key->env, path, strerror(errno));
        return SK_FAIL;
    }
    size_t n = fread(secret, 1, sizeof secret, file);
    (void)fclose(file);
    if (n == sizeof secret || memchr(secret, '\0', n) != NULL) {
        (void)fprintf(err, "seckill: %s_FILE: %s: holds %d bytes or more, or NUL\n", key->env, path, SECRET_MAX_BYTES);
        return SK_FAIL;
    }
    while (n > 0 && (secret[n - 1] == '\n' || secret[n - 1] == '\r'))
        n--;
    secret[n] = '\0';
    return config_set_value(config, key, secret, err);
}

// systemd passes a secret (LoadCredential) as a file with a known name, in a folder that only this process may read.
// For a setting that is itself a path, the value is the path of that file.
static bool config_find_credential(const struct key *key, char path[CREDENTIAL_SIZE])
{
    char name[NAME_MAX_CHARS];
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    config_option_name(key, name);
    int n = folder == NULL ? -1 : snprintf(path, CREDENTIAL_SIZE, "%s/seckill.%s", folder, name);
    return n > 0 && n < CREDENTIAL_SIZE && access(path, F_OK) == 0;
}

static enum sk_status config_read_environment(struct sk_config *config, FILE *err)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const struct key *key = &keys[i];
        char file_env[NAME_MAX_CHARS], credential[CREDENTIAL_SIZE];
        (void)snprintf(file_env, sizeof file_env, "%s_FILE", key->env);
        const char *value = getenv(key->env);
        const char *path = key->kind == SECRET ? getenv(file_env) : NULL;
        enum sk_status status = SK_OK;
        if (value != NULL)
            status = config_set_value(config, key, value, err);
        else if (path != NULL)
            status = config_set_from_file(config, key, path, err);
        else if (key->kind == SECRET && config_find_credential(key, credential))
            status = config_set_from_file(config, key, credential, err);
        else if (strcmp(key->unit, "path") == 0 && config_find_credential(key, credential))
            status = config_set_value(config, key, credential, err);
        else if (key->fallback != NULL)
            status = config_set_value(config, key, key->fallback, err);
        if (status != SK_OK)
            return status;
    }
    return SK_OK;
}

// ---- names in the environment ----

static const char prefix[] = "SECKILL_";

// Names that begin like settings and are none: those of failpoints, and of clients of the service (.dev/env); and what
// Kubernetes tells pods of a Service named `seckill`, among it for each port PORT_<number>_TCP, alone or with _PROTO,
// _PORT or _ADDR. UDP may replace TCP.
static bool environment_passes(const char *rest)
{
    static const char *const whole[] = {"FAILPOINTS",   "FAIL_MALLOC",  "URL", "URLS",
                                        "SERVICE_HOST", "SERVICE_PORT", "PORT"};
    static const char *const ends[] = {"", "_PROTO", "_PORT", "_ADDR"};
    static const char of_port[] = "SERVICE_PORT_";
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        if (strcmp(rest, whole[i]) == 0)
            return true;
    }
    if (strncmp(rest, of_port, strlen(of_port)) == 0)
        return rest[strlen(of_port)] != '\0';
    if (strncmp(rest, "PORT_", 5) != 0)
        return false;
    size_t digits = strspn(rest + 5, "0123456789");
    const char *protocol = rest + 5 + digits;
    if (digits == 0 || (strncmp(protocol, "_TCP", 4) != 0 && strncmp(protocol, "_UDP", 4) != 0))
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (strcmp(protocol + 4, ends[i]) == 0)
            return true;
    }
    return false;
}

// The number of bytes to insert, delete or replace (Levenshtein). row[j] is the distance between the bytes of `a` read
// so far and the first j bytes of `b`.
static size_t environment_distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_CHARS], len = strlen(b);
    for (size_t j = 0; j <= len; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= len; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            size_t changed = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = replaced < changed ? replaced : changed;
        }
    }
    return row[len];
}

// The distance of a name to the nearest one that names a setting; 0: it does so itself.
static size_t environment_find(const char *name, char nearest[NAME_MAX_CHARS])
{
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < (size_t)2 * KEY_COUNT; i++) { // each key alone, then with _FILE if it is a secret
        const struct key *key = &keys[i / 2];
        char known[NAME_MAX_CHARS];
        (void)snprintf(known, sizeof known, "%s%s", key->env, i % 2 == 1 && key->kind == SECRET ? "_FILE" : "");
        size_t distance = environment_distance(name, known);
        if (distance < least) {
            memcpy(nearest, known, sizeof known);
            least = distance;
        }
    }
    return least;
}

// A misspelt name must not be ignored: it is reported with the nearest one, without its value.
static enum sk_status environment_check(FILE *err)
{
    enum sk_status status = SK_OK;
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        char name[NAME_MAX_CHARS], nearest[NAME_MAX_CHARS];
        if (strncmp(*at, prefix, strlen(prefix)) != 0)
            continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(*at, "="), *at);
        if (environment_passes(name + strlen(prefix)) || environment_find(name, nearest) == 0)
            continue;
        status = SK_FAIL;
        if (strcmp(name, "SECKILL_ORDERS_PER_USER") == 0)
            (void)fprintf(err, "seckill: %s: it is a term of each voucher now, orders_per_user\n", name);
        else
            (void)fprintf(err, "seckill: %s: there is no such setting; did you mean %s?\n", name, nearest);
    }
    return status;
}

// ---- the command line ----

// Takes "--name=value" or "--name value"; leaves *at on the last argument used.
static enum sk_status config_read_option(struct sk_config *config, int argc, char **argv, int *at, FILE *err)
{
    const char *word = argv[*at] + 2;
    size_t word_len = strcspn(word, "=");
    for (size_t i = 0; i < KEY_COUNT; i++) {
        char name[NAME_MAX_CHARS];
        config_option_name(&keys[i], name);
        if (keys[i].kind == SECRET)
            (void)snprintf(name + strlen(name), sizeof name - strlen(name), "-file");
        if (strlen(name) != word_len || strncmp(name, word, word_len) != 0)
            continue;
        const char *value = word[word_len] == '=' ? word + word_len + 1 : NULL;
        if (value == NULL && *at + 1 < argc)
            value = argv[++*at];
        if (value == NULL) {
            (void)fprintf(err, "seckill: --%s: needs a value\n", name);
            return SK_FAIL;
        }
        return keys[i].kind == SECRET ? config_set_from_file(config, &keys[i], value, err)
                                      : config_set_value(config, &keys[i], value, err);
    }
    (void)fprintf(err, "seckill: unknown option --%.*s; see --help\n", (int)word_len, word);
    return SK_FAIL;
}

static const struct command *config_find_command(const char *word)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, word) == 0)
            return &commands[i];
    }
    return NULL;
}

static enum sk_status config_read_command_line(struct sk_config *config, enum sk_command *command, int argc,
                                               char **argv, FILE *err)
{
    const struct command *taken = NULL;
    int words = 0;
    for (int i = 1; i < argc; i++) {
        bool option = strncmp(argv[i], "--", 2) == 0 && !config_has_word(taken, argv[i]);
        const struct command *named = option || taken == NULL ? config_find_command(argv[i]) : NULL;
        if (named != NULL && taken != NULL) {
            (void)fprintf(err, "seckill: %s and %s: one command at a time\n", taken->name, named->name);
            return SK_FAIL;
        }
        if (named != NULL) {
            taken = named;
        } else if (option) {
            enum sk_status status = config_read_option(config, argc, argv, &i, err);
            if (status != SK_OK)
                return status;
        } else if (taken != NULL && words < taken->most_words) {
            config->words[words++] = argv[i];
        } else {
            (void)fprintf(err, "seckill: unexpected word '%s'; see --help\n", argv[i]);
            return SK_FAIL;
        }
    }
    if (taken != NULL && words < taken->least_words) {
        (void)fprintf(err, "seckill: %s needs %s; see --help\n", taken->name, taken->words);
        return SK_FAIL;
    }
    if (taken != NULL)
        *command = taken->command;
    return SK_OK;
}

// One line, or two: the new secret and the one before it.
static bool config_check_payment_secrets(const char *lines, FILE *err)
{
    int count = 0;
    for (const char *at = lines; count == 0 || *at != '\0'; at += *at == '\n') {
        size_t len = strcspn(at, "\n");
        if (len < PAYMENT_SECRET_MIN || ++count > PAYMENT_SECRETS_MAX) {
            (void)fprintf(err, "seckill: SECKILL_PAYMENT_SECRET: %s\n",
                          len < PAYMENT_SECRET_MIN ? "a line is shorter than 16 bytes"
                                                   : "there are more than two lines");
            return false;
        }
        at += len;
    }
    return true;
}

bool sk_config_has_tokens(const struct sk_config *config, const char *what, FILE *err)
{
    const struct sk_identity_options *identity = &config->identity;
    bool has = identity->token_keys != NULL && identity->token_issuer != NULL && identity->token_audience != NULL;
    if (!has)
        (void)fprintf(err, "seckill: %s needs SECKILL_TOKEN_KEYS, SECKILL_TOKEN_ISSUER and SECKILL_TOKEN_AUDIENCE\n",
                      what);
    return has;
}

// Each value is within its own bounds; this checks combinations.
static enum sk_status config_check_together(const struct sk_config *config, FILE *err)
{
    // A reactor that cannot hold a whole batch could not settle a batch's journal entry, neither its own nor another's.
    // One of several shards has half of the room (order.h).
    int64_t batches = config->stores.shards.count > 1 ? 2 : 1;
    if (config->sale.orders_max < batches * config->sale.batch_max) {
        (void)fprintf(err, "seckill: SECKILL_ORDERS_MAX: %" PRId64 " is less than %sSECKILL_BATCH_MAX, %" PRId64 "\n",
                      config->sale.orders_max, batches > 1 ? "twice " : "", config->sale.batch_max);
        return SK_FAIL;
    }
    if ((config->stores.redis_cert == NULL) != (config->stores.redis_key == NULL)) {
        (void)fprintf(err, "seckill: SECKILL_REDIS_CERT and SECKILL_REDIS_KEY: one needs the other\n");
        return SK_FAIL;
    }
    if (config->identity.payment_secret != NULL && !config_check_payment_secrets(config->identity.payment_secret, err))
        return SK_FAIL;
    if (config->identity.auth == SK_AUTH_TOKEN && !sk_config_has_tokens(config, "SECKILL_AUTH: token", err))
        return SK_FAIL;
    return SK_OK;
}

bool sk_config_needs_database(enum sk_command command)
{
    return command == SK_COMMAND_SERVE || command == SK_COMMAND_MIGRATE || command == SK_COMMAND_ARCHIVE ||
           command == SK_COMMAND_ERASE || command == SK_COMMAND_WEBHOOKS;
}

static enum sk_status config_read_shards(struct sk_config *config, bool needed, FILE *err)
{
    struct sk_store_options *stores = &config->stores;
    if (stores->shards_file != NULL && stores->database_url != NULL) {
        (void)fprintf(err, "seckill: SECKILL_DATABASE_URL and SECKILL_SHARDS: only one of them\n");
        return SK_FAIL;
    }
    if (stores->shards_file != NULL)
        return needed ? sk_shards_read(&stores->shards, stores->shards_file, err) : SK_OK;
    if (needed && stores->database_url == NULL) {
        (void)fprintf(err, "seckill: SECKILL_DATABASE_URL: is required\n");
        return SK_FAIL;
    }
    stores->shards = (struct sk_shards){.count = 1, .urls = {stores->database_url}};
    return SK_OK;
}

enum sk_status sk_config_read(struct sk_config *config, enum sk_command *command, int argc, char **argv, FILE *err)
{
    *config = (struct sk_config){0};
    *command = SK_COMMAND_SERVE;
    enum sk_status status = config_read_environment(config, err);
    if (status == SK_OK)
        status = config_read_command_line(config, command, argc, argv, err);
    // Help must work even with a misspelt name: it shows the right one.
    if (status == SK_OK && *command != SK_COMMAND_HELP && *command != SK_COMMAND_VERSION)
        status = environment_check(err);
    if (status != SK_OK)
        return status;
    config->identity.reactors = config->api.reactors = config->reactors;
    config->server.policy_bytes =
        config->api.picture_origins == NULL ? 0 : (int64_t)strlen(config->api.picture_origins);

    enum sk_log_level level;
    if (!sk_log_parse_level(config->log_level, &level)) {
        (void)fprintf(err, "seckill: SECKILL_LOG_LEVEL: '%s' is none of debug, info, warn, error\n", config->log_level);
        return SK_FAIL;
    }
    bool serves = *command == SK_COMMAND_SERVE || *command == SK_COMMAND_CHECK || *command == SK_COMMAND_CHECK_FILES;
    status = config_read_shards(config, serves || sk_config_needs_database(*command), err);
    if (status != SK_OK)
        return status;
    return serves ? config_check_together(config, err) : SK_OK;
}

void sk_config_free(struct sk_config *config)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (keys[i].kind == TEXT || keys[i].kind == SECRET)
            free(*(char **)config_at(config, &keys[i]));
    }
    sk_shards_free(&config->stores.shards);
    *config = (struct sk_config){0};
}

int64_t sk_config_reactors(const struct sk_config *config)
{
    return config->reactors + (config->api.admin_listen != NULL);
}

size_t sk_config_demo_secrets(const struct sk_config *config, const char *names[SK_DEMO_SECRETS])
{
    static const char demo[] = "demo-", last_word[] = " demo-", password[] = ":demo-";
    const struct sk_shards *shards = &config->stores.shards;
    size_t shard = 0;
    while (shard + 1 < shards->count && strstr(shards->urls[shard], password) == NULL)
        shard++;
    const struct {
        const char *name, *value, *known; // `known` demo: at its begin; else anywhere
    } rows[SK_DEMO_SECRETS] = {
        {"SECKILL_ADMIN_TOKEN", config->identity.admin_token, demo},
        {"SECKILL_ADMIN_TOKENS", config->identity.admin_tokens, last_word},
        {"SECKILL_PAYMENT_SECRET", config->identity.payment_secret, demo},
        {"SECKILL_TICKET_SECRET", config->identity.ticket_secret, demo},
        {config->stores.shards_file == NULL ? "SECKILL_DATABASE_URL" : "SECKILL_SHARDS", shards->urls[shard], password},
        {"SECKILL_REDIS_URL", config->stores.redis_url, password}};
    size_t n = 0;
    for (size_t i = 0; i < SK_DEMO_SECRETS; i++) {
        const char *found = rows[i].value == NULL ? NULL : strstr(rows[i].value, rows[i].known);
        if (found != NULL && (rows[i].known != demo || found == rows[i].value))
            names[n++] = rows[i].name;
    }
    return n;
}

void sk_config_help(FILE *out)
{
    (void)fprintf(out, "usage: seckill [COMMAND] [options]\n\n"
                       "Serves flash-sale orders over HTTP until SIGTERM or SIGINT; with a command:\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        (void)fprintf(out, "  %s%s%s\n      %s\n", commands[i].name, commands[i].words[0] == '\0' ? "" : " ",
                      commands[i].words, commands[i].help);
    (void)fprintf(out, "\nEach setting is an environment variable or the option below it.\n");
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const struct key *key = &keys[i];
        char name[NAME_MAX_CHARS];
        for (size_t j = 0; j < sizeof headings / sizeof headings[0]; j++) {
            if (strcmp(headings[j].before, key->env) == 0)
                (void)fprintf(out, "\n%s:\n\n", headings[j].heading);
        }
        config_option_name(key, name);
        (void)fprintf(out, "  %s\n  --%s%s\n      %s", key->env, name, key->kind == SECRET ? "-file PATH" : " VALUE",
                      key->help);
        if (key->unit[0] != '\0')
            (void)fprintf(out, " [%s]", key->unit);
        if (key->fallback != NULL)
            (void)fprintf(out, " (default %s)", key->fallback);
        if (key->kind == SECRET)
            (void)fprintf(out, "; %s_FILE names a file that holds it", key->env);
        (void)fprintf(out, "\n");
    }
}
