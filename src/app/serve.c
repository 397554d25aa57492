#include "serve.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client_limits.h"
#include "descriptors.h"
#include "jwt.h"
#include "listener.h"
#include "log.h"
#include "reactor.h"
#include "secrets.h"
#include "spool.h"
#include "supervise.h"
#include "user_tokens.h"

enum { LAST_LINES_MS = 1000 };

struct command_line {
    int argc;
    char **argv;
};

static void serve_block_signals(sigset_t *signals);
static enum sk_status serve_prepare(const struct sk_config *config, struct sk_token_ring **ring);
static struct sk_config *serve_operators_config(const struct sk_config *config);
static struct sk_identity_options *serve_read_secrets(void *arg, FILE *err);
static void serve_release_secrets(struct sk_identity_options *options);
static enum sk_status serve_open_log(const struct sk_config *config, struct sk_spool **log);
static bool serve_close_log(struct sk_spool *log);
static int serve_until_signal(const sigset_t *signals, struct sk_token_ring *ring, struct sk_secrets *secrets,
                              struct sk_supervisor *supervisor);

enum sk_status sk_serve(const struct sk_config *config, int argc, char **argv, bool *left_behind)
{
    sigset_t signals;
    struct command_line line = {argc, argv};
    struct sk_token_ring *ring = NULL;
    struct sk_spool *log = NULL;
    struct sk_supervisor supervisor;
    serve_block_signals(&signals);
    sk_json_memory_watch();
    enum sk_status status = sk_supervise_open(&supervisor);
    if (status == SK_OK)
        status = serve_prepare(config, &ring);
    struct sk_limits *limits = sk_limits_open(&config->identity, &config->server, stderr);
    struct sk_secrets *secrets =
        sk_secrets_open(&(struct sk_secrets_source){serve_read_secrets, serve_release_secrets, &line});
    struct sk_reactor **reactors = calloc((size_t)sk_config_reactors(config), sizeof(struct sk_reactor *));
    struct sk_config *of_operators = serve_operators_config(config);
    int64_t started = 0;
    if (status == SK_OK && (reactors == NULL || limits == NULL || secrets == NULL || of_operators == NULL))
        status = SK_NO_MEM;
    if (status == SK_OK)
        status = serve_open_log(config, &log);
    while (status == SK_OK && started < sk_config_reactors(config)) {
        struct sk_spool_lane *lane = log == NULL ? NULL : sk_spool_lane(log, (size_t)started);
        struct sk_reactor_options options = {config, ring, secrets, limits, (unsigned)started, lane, false};
        if (started == config->reactors)
            options = (struct sk_reactor_options){of_operators, NULL, secrets, limits, 0, lane, true};
        status = sk_reactor_start(&options, &reactors[started]);
        started += reactors[started] != NULL;
    }
    sk_supervise_reactors(&supervisor, reactors, (size_t)started);
    if (status == SK_OK) {
        sk_log(SK_LOG_INFO, "serving", "listen=%s reactors=%d admin_listen=%s", config->server.listen,
               (int)config->reactors, config->api.admin_listen == NULL ? "none" : config->api.admin_listen);
        sk_log(SK_LOG_INFO, "stopping", "signal=%d", serve_until_signal(&signals, ring, secrets, &supervisor));
    } else {
        sk_log(SK_LOG_ERROR, "cannot start", "reactors=%d of=%d", (int)started, (int)sk_config_reactors(config));
    }
    sk_supervise_stopping(&supervisor);
    for (int64_t i = 0; i < started; i++)
        sk_reactor_stop(reactors[i]);
    sk_supervise_end(&supervisor);
    for (int64_t i = 0; i < started; i++)
        *left_behind = !sk_reactor_join(reactors[i]) || *left_behind;
    free(reactors);
    sk_supervise_close(&supervisor);
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

static enum sk_status serve_prepare(const struct sk_config *config, struct sk_token_ring **ring)
{
    if (config->identity.auth == SK_AUTH_TOKEN) {
        *ring = sk_token_ring_open(config->identity.token_keys, (unsigned)config->reactors);
        if (*ring == NULL)
            return SK_FAIL;
    } else if (config->identity.gateway_trusted == 0 && !sk_listen_address_is_loopback(config->server.listen)) {
        sk_log_text(SK_LOG_ERROR,
                    "SECKILL_LISTEN can be reached from other machines, and SECKILL_AUTH=gateway believes every "
                    "X-User-Id: set SECKILL_GATEWAY_TRUSTED=yes if only your gateway can, or SECKILL_AUTH=token",
                    "value", config->server.listen);
        return SK_FAIL;
    }
    if (config->api.admin_listen != NULL &&
        sk_listen_address_is_same(config->api.admin_listen, config->server.listen)) {
        sk_log_text(SK_LOG_ERROR, "SECKILL_ADMIN_LISTEN and SECKILL_LISTEN are the same", "value",
                    config->server.listen);
        return SK_FAIL;
    }
    if (config->api.demo != 0)
        sk_log(SK_LOG_WARN, "SECKILL_DEMO is on: orders are paid without money", "");
    return sk_descriptors_reserve(config);
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
                              struct sk_supervisor *supervisor)
{
    for (;;) {
        int64_t ms = sk_supervise(supervisor);
        const struct timespec most = {ms / 1000, ms % 1000 * 1000000};
        int caught = ms < 0 ? sigwaitinfo(signals, NULL) : sigtimedwait(signals, NULL, &most);
        if (caught > 0 && caught != SIGHUP)
            return caught;
        if (caught != SIGHUP)
            continue; // the time is over, or a debugger stopped the process
        sk_supervise_reloading(supervisor);
        (void)sk_secrets_reload(secrets); // secrets that cannot be read stay unchanged, which is logged
        if (ring != NULL)
            (void)sk_token_ring_reload(ring);
        sk_supervise_reloaded(supervisor);
    }
}

// Opens the access log. *log is NULL unless the log is configured.
static enum sk_status serve_open_log(const struct sk_config *config, struct sk_spool **log)
{
    *log = NULL;
    if (config->server.access_log == 0)
        return SK_OK;
    *log = sk_spool_open(STDOUT_FILENO, (size_t)sk_config_reactors(config), "access log: lines dropped");
    return *log == NULL ? SK_NO_MEM : SK_OK;
}

static bool serve_close_log(struct sk_spool *log)
{
    bool closed = sk_spool_close(log, LAST_LINES_MS);
    if (!closed)
        sk_log(SK_LOG_WARN, "standard output does not take the access log; not waiting for it", "");
    return closed;
}
