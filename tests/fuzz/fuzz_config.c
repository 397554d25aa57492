// The environment and the command line. An input has one setting a line: SECKILL_...=value goes into the environment,
// any other line is a command-line argument. The lines after "--" are the content of a file; each @ in the input is
// replaced by its path.
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"
#include "fuzz.h"

enum { WORDS_MAX = 64, ENVIRONMENT_MAX = 64, PATH_SIZE = 40 };

static FILE *nowhere;
static int secret_fd = -1;
static char secret_path[PATH_SIZE];

// NOLINTNEXTLINE(readability-non-const-parameter)
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    nowhere = fopen("/dev/null", "we");
    secret_fd = memfd_create("secret", MFD_CLOEXEC);
    MUST(nowhere != NULL && secret_fd >= 0);
    (void)snprintf(secret_path, sizeof secret_path, "/proc/self/fd/%d", secret_fd);
    return 0;
}

static void put_secret(const char *text, size_t len)
{
    MUST(ftruncate(secret_fd, 0) == 0);
    MUST(pwrite(secret_fd, text, len, 0) == (ssize_t)len);
}

// Without our file an input could name any path, such as a terminal that blocks forever.
static char *with_path(const char *line)
{
    const char *at = strchr(line, '@');
    size_t room = strlen(line) + PATH_SIZE;
    char *word = malloc(room);
    MUST(word != NULL);
    if (at == NULL)
        (void)snprintf(word, room, "%s", line);
    else
        (void)snprintf(word, room, "%.*s%s%s", (int)(at - line), line, secret_path, at + 1);
    return word;
}

static void must_be_whole(const struct sk_config *config, enum sk_command command)
{
    MUST(config->server.listen != NULL && config->stores.redis_url != NULL && config->log_level != NULL);
    MUST(config->stores.database_url != NULL || (command != SK_COMMAND_SERVE && command != SK_COMMAND_MIGRATE));
    MUST(config->reactors >= 1 && config->reactors <= 64);
    MUST(config->server.access_log >= 0 && config->server.access_log <= 1000000);
    MUST(config->server.trace >= SK_TRACE_AUTO && config->server.trace <= SK_TRACE_ON);
    MUST(config->server.max_connections >= 1 && config->server.max_connections <= 65536);
    MUST(config->server.header_max_bytes >= 4096 && config->server.body_max_bytes >= 0);
    MUST(config->sale.batch_max >= 1 && config->sale.batch_max <= 2048);
    MUST(config->sale.orders_max >= (command == SK_COMMAND_SERVE ? config->sale.batch_max : 1));
    MUST(config->stores.redis_timeout_ms >= 10 && config->stores.pg_timeout_ms >= 10 &&
         config->sale.lock_ttl_ms >= 100);
    MUST(config->identity.admin_token == NULL || config->identity.admin_token[0] != '\0');
    MUST(config->identity.admin_tokens == NULL || config->identity.admin_tokens[0] != '\0');
    MUST(config->identity.auth == SK_AUTH_GATEWAY || config->identity.auth == SK_AUTH_TOKEN);
    MUST(config->identity.auth == SK_AUTH_GATEWAY || command != SK_COMMAND_SERVE ||
         (config->identity.token_keys != NULL && config->identity.token_issuer != NULL &&
          config->identity.token_audience != NULL));
    MUST(config->identity.gateway_trusted == 0 || config->identity.gateway_trusted == 1);
    MUST(command != SK_COMMAND_TOKEN || config->words[0] != NULL);
    MUST(config->identity.payment_secret == NULL || command != SK_COMMAND_SERVE ||
         strlen(config->identity.payment_secret) >= 16);
}

struct input {
    char *words[WORDS_MAX], *environment[ENVIRONMENT_MAX];
    int word_count;
    size_t environment_count;
    bool path_follows; // the last argument expects a path
};

static void take_line(struct input *input, const char *line)
{
    bool file = strstr(line, "FILE") != NULL || strstr(line, "file") != NULL;
    if ((file || input->path_follows) && strchr(line, '/') != NULL)
        return;
    if (strncmp(line, "SECKILL_", 8) == 0 && strchr(line, '=') != NULL) {
        if (input->environment_count < ENVIRONMENT_MAX)
            input->environment[input->environment_count++] = with_path(line);
    } else if (input->word_count < WORDS_MAX - 1) {
        input->words[input->word_count++] = with_path(line);
        input->path_follows = file;
    }
}

static void read_input(struct input *input, char *text)
{
    input->words[input->word_count++] = with_path("seckill");
    put_secret("", 0);
    for (char *line = text, *next; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        if (strcmp(line, "--") == 0) {
            put_secret(next == NULL ? "" : next, next == NULL ? 0 : strlen(next));
            return;
        }
        take_line(input, line);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sk_config config;
    enum sk_command command;
    struct input input = {.word_count = 0};
    char *text = fuzz_text(data, size);
    read_input(&input, text);
    (void)clearenv();
    for (size_t i = 0; i < input.environment_count; i++)
        (void)putenv(input.environment[i]);
    if (sk_config_read(&config, &command, input.word_count, input.words, nowhere) == SK_OK)
        must_be_whole(&config, command);
    sk_config_free(&config);
    (void)clearenv();
    for (size_t i = 0; i < input.environment_count; i++)
        free(input.environment[i]);
    for (int i = 0; i < input.word_count; i++)
        free(input.words[i]);
    free(text);
    return 0;
}
