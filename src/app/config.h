// Configuration: one table of keys, each with environment variable, long option, default, bounds, unit and help. The
// command line overrides the environment.
#ifndef SK_APP_CONFIG_H
#define SK_APP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "api_options.h"
#include "identity_options.h"
#include "sale_options.h"
#include "server_options.h"
#include "status.h"
#include "store_options.h"

enum { SK_CONFIG_WORDS_MAX = 4, SK_ADMIN_CONNECTIONS = 256 };

// Each floor has its own part. The configuration owns its texts.
struct sk_config {
    const char *words[SK_CONFIG_WORDS_MAX + 1]; // arguments of the command; borrowed from argv; NULL after the last
    struct sk_server_options server;
    struct sk_identity_options identity;
    struct sk_store_options stores;
    struct sk_sale_options sale;
    struct sk_api_options api;
    char *log_level;
    char *webhooks, *webhooks_listen;
    int64_t reactors; // of buyers
    int64_t drain_timeout_ms;
};

enum sk_command {
    SK_COMMAND_SERVE,
    SK_COMMAND_CHECK,
    SK_COMMAND_CHECK_FILES,
    SK_COMMAND_MIGRATE,
    SK_COMMAND_OPENAPI,
    SK_COMMAND_TOKEN,
    SK_COMMAND_CHECK_TOKEN,
    SK_COMMAND_KEYS,
    SK_COMMAND_ARCHIVE,
    SK_COMMAND_ERASE,
    SK_COMMAND_WEBHOOKS,
    SK_COMMAND_HELP,
    SK_COMMAND_VERSION,
};

// Call before the threads start. Fills *config (owned: always pass it to sk_config_free) and *command. On a wrong key
// or value it reports which one on `err` and returns SK_FAIL.
enum sk_status sk_config_read(struct sk_config *config, enum sk_command *command, int argc, char **argv,
                              FILE *err) SK_MUST_CHECK;
void sk_config_free(struct sk_config *config);

// Whether the command works on the database; --check reports on it.
bool sk_config_needs_database(enum sk_command command);

// The number of reactors in the process: the buyers' ones, and one for operators if they have a listener of their own.
int64_t sk_config_reactors(const struct sk_config *config);

// Whether the settings are there without which no user's token can be checked or made; else `err` gets that `what`
// needs them.
bool sk_config_has_tokens(const struct sk_config *config, const char *what, FILE *err);

// The settings whose value is one of docker-compose.yml, which everybody knows; returns their number.
enum { SK_DEMO_SECRETS = 6 };
size_t sk_config_demo_secrets(const struct sk_config *config, const char *names[SK_DEMO_SECRETS]);

// Prints every key with its default, unit and meaning.
void sk_config_help(FILE *out);

#endif
