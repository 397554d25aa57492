// seckill: reads its configuration, starts the reactors, waits for a signal, stops them.
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "config.h"
#include "descriptors.h"
#include "log.h"
#include "migrate.h"
#include "reactor.h"

#ifndef SK_VERSION
#define SK_VERSION "0"
#endif

// *left_behind: a reactor still waits for an answer of the resolver.
static enum sk_status serve(const struct sk_config *config, const sigset_t *signals, bool *left_behind)
{
    enum sk_status status = sk_descriptors_reserve(config);
    struct sk_reactor **reactors = calloc((size_t)config->reactors, sizeof(struct sk_reactor *));
    int64_t started = 0;
    if (status == SK_OK && reactors == NULL)
        status = SK_NO_MEM;
    while (status == SK_OK && started < config->reactors) {
        status = sk_reactor_start(config, &reactors[started]);
        started += reactors[started] != NULL;
    }
    if (status == SK_OK) {
        int caught = 0;
        sk_log(SK_LOG_INFO, "serving", "listen=%s reactors=%d", config->listen, (int)config->reactors);
        (void)sigwait(signals, &caught);
        sk_log(SK_LOG_INFO, "stopping", "signal=%d", caught);
    } else {
        sk_log(SK_LOG_ERROR, "cannot start", "reactors=%d of=%d", (int)started, (int)config->reactors);
    }
    for (int64_t i = 0; i < started; i++)
        sk_reactor_stop(reactors[i]);
    for (int64_t i = 0; i < started; i++)
        *left_behind = !sk_reactor_join(reactors[i]) || *left_behind;
    free(reactors);
    return status;
}

int main(int argc, char **argv)
{
    struct sk_config config;
    enum sk_command command;
    sigset_t signals;
    bool left_behind = false;
    enum sk_status status = sk_config_read(&config, &command, argc, argv, stderr);
    if (status != SK_OK) {
        sk_config_free(&config);
        return 2;
    }
    // Blocked before any thread starts, so that sigwait is the one place that sees them.
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);

    enum sk_log_level level = SK_LOG_INFO;
    (void)sk_log_parse_level(config.log_level, &level); // was checked
    sk_log_set_level(level);
    switch (command) {
    case SK_COMMAND_HELP:
        sk_config_help(stdout);
        break;
    case SK_COMMAND_VERSION:
        (void)printf("seckill %s\n", SK_VERSION);
        break;
    case SK_COMMAND_MIGRATE:
        status = sk_migrate(config.database_url);
        break;
    case SK_COMMAND_SERVE:
        status = serve(&config, &signals, &left_behind);
        break;
    }
    sk_config_free(&config);
    int code = status == SK_OK ? 0 : 1;
    if (left_behind) {
        sk_log(SK_LOG_WARN, "the resolver does not answer; not waiting for it", "");
        (void)fflush(NULL);
        _exit(code);
    }
    return code;
}
