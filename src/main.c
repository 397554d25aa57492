// seckill: reads its configuration and runs the command.
#include <stdio.h>
#include <unistd.h>

#include "about.h"
#include "commands.h"
#include "config.h"
#include "log.h"
#include "migrate.h"

#ifndef SK_VERSION
#define SK_VERSION "0"
#endif

// False: the configuration is refused, and the reason printed.
static bool main_configure(struct sk_config *config, enum sk_command *command, int argc, char **argv)
{
    enum sk_log_level level = SK_LOG_INFO;
    FILE *err = sk_log_stream();
    enum sk_status status = sk_config_read(config, command, argc, argv, err == NULL ? stderr : err);
    if (err != NULL)
        (void)fclose(err);
    if (status != SK_OK)
        return false;
    (void)sk_log_parse_level(config->log_level, &level); // was checked
    sk_log_set_level(SK_LOG_WARN);                       // a start itself reports what it has read
    bool good = sk_check_settings(config, *command);
    sk_log_set_level(level);
    return good;
}

int main(int argc, char **argv)
{
    struct sk_config config;
    enum sk_command command;
    enum sk_status status = SK_OK;
    bool left_behind = false;
    int found = 0;
    sk_log_open();
    if (!main_configure(&config, &command, argc, argv)) {
        sk_config_free(&config);
        return 2;
    }
    switch (command) {
    case SK_COMMAND_HELP:
        sk_config_help(stdout);
        break;
    case SK_COMMAND_VERSION:
        (void)printf("seckill %s\n", SK_VERSION);
        break;
    case SK_COMMAND_CHECK:
        found = sk_check_run(&config, stdout);
        break;
    case SK_COMMAND_CHECK_FILES:
        found = sk_check_files_run(&config, stdout);
        break;
    case SK_COMMAND_MIGRATE:
        status = sk_migrate(&config.stores.shards);
        break;
    case SK_COMMAND_TOKEN:
        status = sk_mint_run(&config, stdout, stderr);
        break;
    case SK_COMMAND_CHECK_TOKEN:
        status = sk_check_token_run(&config, stdin, stdout, stderr);
        break;
    case SK_COMMAND_KEYS:
        status = sk_keys_run(&config, stdout, stderr);
        break;
    case SK_COMMAND_OPENAPI:
        status = sk_openapi_print(stdout);
        break;
    case SK_COMMAND_ARCHIVE:
        status = sk_archive_run(&config);
        break;
    case SK_COMMAND_ERASE:
        status = sk_erase_run(&config);
        break;
    case SK_COMMAND_WEBHOOKS:
        found = sk_webhooks_run(&config, stdout);
        break;
    case SK_COMMAND_SERVE:
        status = sk_serve(&config, argc, argv, &left_behind);
        break;
    }
    sk_config_free(&config);
    int code = status == SK_OK ? found : 1;
    if (left_behind) {
        (void)fflush(NULL);
        _exit(code);
    }
    return code;
}
