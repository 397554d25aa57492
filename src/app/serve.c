// The service from its start to its end: starts the reactors, waits for a signal, stops them.
#include "commands.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "client_limits.h"
#include "clock.h"
#include "descriptors.h"
#include "jwt.h"
#include "log.h"
#include "outages.h"
#include "reactor.h"
#include "secrets.h"
#include "spool.h"
#include "supervisor.h"
#include "user_tokens.h"
#include "uuid.h"

enum { LAST_LINES_MS = 1000 };

struct command_line {
    int argc;
    char **argv;
};

// Blocks the signals before any thread starts, so that only sigwait receives them.
static void serve_block_signals(sigset_t *signals)
{
    (void)sigemptyset(signals);
    (void)sigaddset(signals, SIGTERM);
    (void)sigaddset(signals, SIGINT);
    (void)sigaddset(signals, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

// What the reactors need. *ring and *log stay NULL unless they are configured.
static enum sk_status serve_prepare(const struct sk_config *config, struct sk_token_ring **ring, struct sk_spool **log)
{
    const char *names[SK_DEMO_SECRETS];
    if (config->identity.auth == SK_AUTH_TOKEN) {
        *ring = sk_token_ring_open(&config->identity, (unsigned)config->reactors);
        if (*ring == NULL)
            return SK_FAIL;
    }
    if (config->api.demo != 0)
        sk_log(SK_LOG_WARN, "SECKILL_DEMO is on: orders are paid without money", "");
    size_t n = sk_config_demo_secrets(config, names);
    for (size_t i = 0; i < n; i++)
        sk_log(SK_LOG_WARN, "a secret has a value of the demo, which everybody knows", "setting=%s", names[i]);
    if (sk_descriptors_reserve(config) != SK_OK)
        return SK_FAIL;
    if (config->server.access_log != 0) {
        *log = sk_spool_open(STDOUT_FILENO, (size_t)sk_config_reactors(config), "access log: lines dropped");
        if (*log == NULL)
            return SK_NO_MEM;
    }
    return SK_OK;
}

// Starts the reactors, and the operators' one behind them if there is one. *started: so many are to be joined.
static enum sk_status serve_start(struct sk_reactor_options shared, const struct sk_config *of_operators,
                                  struct sk_spool *log, struct sk_reactor **reactors, int64_t *started)
{
    int64_t buyers = shared.config->reactors, count = sk_config_reactors(shared.config);
    enum sk_status status = SK_OK;
    sk_random_bytes(&shared.process, sizeof shared.process);
    while (status == SK_OK && *started < count) {
        struct sk_reactor_options options = shared;
        options.lane = log == NULL ? NULL : sk_spool_lane(log, (size_t)*started);
        options.measures_process = *started + 1 == count; // the last
        options.operators = *started == buyers;
        if (options.operators) {
            options.config = of_operators;
            options.ring = NULL;
        } else {
            options.number = (unsigned)*started;
        }
        status = sk_reactor_start(&options, &reactors[*started]);
        *started += reactors[*started] != NULL;
    }
    return status;
}

// The configuration of the operators' reactor; it shares the texts of `config`. NULL: out of memory.
static struct sk_config *serve_operators_config(const struct sk_config *config)
{
    struct sk_config *own = malloc(sizeof *own);
    if (own == NULL)
        return NULL;
    *own = *config;
    own->server.listen = config->api.admin_listen;
    own->server.max_connections = SK_ADMIN_CONNECTIONS;
    return own;
}

// A reload reads the whole configuration, as a start does.
static struct sk_identity_options *serve_read_secrets(void *arg, FILE *err)
{
    const struct command_line *line = arg;
    enum sk_command command;
    struct sk_config *config = calloc(1, sizeof *config);
    if (config == NULL)
        return NULL;
    if (sk_config_read(config, &command, line->argc, line->argv, err) == SK_OK)
        return &config->identity;
    sk_config_free(config);
    free(config);
    return NULL;
}

static void serve_release_secrets(struct sk_identity_options *options)
{
    struct sk_config *config = (struct sk_config *)(void *)((char *)options - offsetof(struct sk_config, identity));
    sk_config_free(config);
    free(config);
}

// Returns the signal that ends the service.
static int serve_until_signal(const sigset_t *signals, struct sk_token_ring *ring, struct sk_secrets *secrets,
                              struct sk_supervisor *supervisor, struct sk_outages *outages)
{
    for (;;) {
        sk_outages_check(outages, sk_monotonic_ms());
        int64_t ms = sk_supervisor_check(supervisor);
        const struct timespec most = {ms / 1000, ms % 1000 * 1000000};
        int caught = sigtimedwait(signals, NULL, &most);
        if (caught > 0 && caught != SIGHUP)
            return caught;
        if (caught != SIGHUP)
            continue; // the time is over, or a debugger stopped the process
        sk_supervisor_reloading(supervisor);
        (void)sk_secrets_reload(secrets); // secrets that cannot be read stay unchanged, which is logged
        if (ring != NULL)
            (void)sk_token_ring_reload(ring);
        sk_supervisor_reloaded(supervisor);
    }
}

static bool serve_close_log(struct sk_spool *log)
{
    bool closed = sk_spool_close(log, LAST_LINES_MS);
    if (!closed)
        sk_log(SK_LOG_WARN, "standard output does not take the access log; not waiting for it", "");
    return closed;
}

enum sk_status sk_serve(const struct sk_config *config, int argc, char **argv, bool *left_behind)
{
    sigset_t signals;
    struct command_line line = {argc, argv};
    struct sk_token_ring *ring = NULL;
    struct sk_spool *log = NULL;
    struct sk_supervisor supervisor;
    serve_block_signals(&signals);
    sk_json_memory_watch();
    enum sk_status status = sk_supervisor_open(&supervisor);
    if (status == SK_OK)
        status = serve_prepare(config, &ring, &log);
    struct sk_limits *limits = sk_limits_open(&config->identity, &config->server, stderr);
    struct sk_secrets *secrets =
        sk_secrets_open(&(struct sk_secrets_source){serve_read_secrets, serve_release_secrets, &line});
    struct sk_reactor **reactors = calloc((size_t)sk_config_reactors(config), sizeof(struct sk_reactor *));
    struct sk_config *of_operators = serve_operators_config(config);
    struct sk_outages *outages = sk_outages_open();
    int64_t started = 0;
    if (reactors == NULL || limits == NULL || secrets == NULL || of_operators == NULL || outages == NULL)
        status = SK_NO_MEM;
    struct sk_reactor_options shared = {.config = config, .ring = ring, .secrets = secrets, .limits = limits};
    if (status == SK_OK)
        status = serve_start(shared, of_operators, log, reactors, &started);
    sk_supervisor_reactors(&supervisor, reactors, (size_t)started);
    if (status == SK_OK) {
        sk_log_set_patience(0);
        sk_log(SK_LOG_INFO, "serving", "listen=%s reactors=%d admin_listen=%s", config->server.listen,
               (int)config->reactors, config->api.admin_listen == NULL ? "none" : config->api.admin_listen);
        sk_log(SK_LOG_INFO, "stopping", "signal=%d", serve_until_signal(&signals, ring, secrets, &supervisor, outages));
    } else {
        sk_log(SK_LOG_ERROR, "cannot start", "reactors=%d of=%d", (int)started, (int)sk_config_reactors(config));
    }
    sk_supervisor_stopping(&supervisor);
    for (int64_t i = 0; i < started; i++)
        sk_reactor_stop(reactors[i]);
    sk_supervisor_end(&supervisor);
    for (int64_t i = 0; i < started; i++)
        status = sk_reactor_misfits(reactors[i]) ? SK_FAIL : status;
    for (int64_t i = 0; i < started; i++)
        *left_behind = !sk_reactor_join(reactors[i]) || *left_behind;
    sk_log_set_patience(SK_LOG_PATIENCE_MS);
    free(reactors);
    sk_outages_close(outages);
    sk_supervisor_close(&supervisor);
    if (!*left_behind) { // else a thread that uses them may still run
        sk_token_ring_close(ring);
        sk_secrets_close(secrets);
        sk_limits_close(limits);
        free(of_operators);
    } else {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a thread that still runs may read it
        sk_log(SK_LOG_WARN, "the resolver does not answer; not waiting for it", "");
    }
    *left_behind = !serve_close_log(log) || *left_behind;
    return status;
}
