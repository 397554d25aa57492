// The service from its start to its end: starts the reactors, waits for a signal, stops them.
#include "commands.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client_limits.h"
#include "clock.h"
#include "history.h"
#include "jwt.h"
#include "log.h"
#include "nodes.h"
#include "outages.h"
#include "reactor.h"
#include "secrets.h"
#include "spool.h"
#include "text.h"
#include "user_tokens.h"
#include "uuid.h"

enum { LAST_LINES_MS = 1000 };

// Notifies the process's manager (systemd or a replacement) of the state: datagrams to the socket in NOTIFY_SOCKET, as
// sd_notify(3) describes them. This is our own code, since libsystemd would be a library for one sendto().
struct notify {
    int fd; // -1: there is no manager
    struct sockaddr_un address;
    socklen_t address_len;
    uint64_t watchdog_ms; // the manager ends a process that is silent for so long; 0: it does not
};

enum {
    SOON_MS = 50,        // until it is ready, and while it ends
    SELDOM_MS = 1000,    // after that, without a watchdog
    EXTEND_MS = 1000,    // how often to ask for more time,
    PATIENCE_MS = 10000, // and how much
    PINGS = 4,           // within the watchdog's time
    LINES_SIZE = 160,
};

enum { SUPERVISED_MAX = 65 }; // reactors: as many as the configuration allows, and the operators' one

struct supervisor {
    struct notify notify;
    struct sk_reactor *const *reactors; // borrowed
    size_t count;
    uint64_t beats[SUPERVISED_MAX]; // of each reactor, when all were last seen to turn
    uint64_t sent_ms;               // when that was
    uint64_t extend_ms;             // when the start, or the end, was last given more time
    bool ready_sent, ready, stuck, stopping;
};

struct command_line {
    int argc;
    char **argv;
};

static void serve_block_signals(sigset_t *signals);
static enum sk_status serve_prepare(const struct sk_config *config, struct sk_token_ring **ring);
static void serve_warn(const struct sk_config *config);
static enum sk_status serve_start(struct sk_reactor_options shared, const struct sk_config *of_operators,
                                  struct sk_spool *log, struct sk_reactor **reactors, int64_t *started);
static struct sk_config *serve_operators_config(const struct sk_config *config);
static struct sk_identity_options *serve_read_secrets(void *arg, FILE *err);
static void serve_release_secrets(struct sk_identity_options *options);
static enum sk_status serve_open_log(const struct sk_config *config, struct sk_spool **log);
static bool serve_close_log(struct sk_spool *log);
static int serve_until_signal(const sigset_t *signals, struct sk_token_ring *ring, struct sk_secrets *secrets,
                              struct supervisor *supervisor, struct sk_outages *outages);

static enum sk_status supervise_open(struct supervisor *supervisor);
static void supervise_close(struct supervisor *supervisor);
static void supervise_reactors(struct supervisor *supervisor, struct sk_reactor *const *reactors, size_t count);
static int64_t supervise_check(struct supervisor *supervisor);
static void supervise_reloading(struct supervisor *supervisor);
static void supervise_reloaded(struct supervisor *supervisor);
static void supervise_stopping(struct supervisor *supervisor);
static void supervise_end(struct supervisor *supervisor);
static enum sk_status notify_open(struct notify *notify);
static bool notify_send(const struct notify *notify, const char *lines);

enum sk_status sk_serve(const struct sk_config *config, int argc, char **argv, bool *left_behind)
{
    sigset_t signals;
    struct command_line line = {argc, argv};
    struct sk_token_ring *ring = NULL;
    struct sk_spool *log = NULL;
    struct supervisor supervisor;
    serve_block_signals(&signals);
    sk_json_memory_watch();
    enum sk_status status = supervise_open(&supervisor);
    if (status == SK_OK)
        status = serve_prepare(config, &ring);
    struct sk_limits *limits = sk_limits_open(&config->identity, &config->server, stderr);
    struct sk_secrets *secrets =
        sk_secrets_open(&(struct sk_secrets_source){serve_read_secrets, serve_release_secrets, &line});
    struct sk_reactor **reactors = calloc((size_t)sk_config_reactors(config), sizeof(struct sk_reactor *));
    struct sk_config *of_operators = serve_operators_config(config);
    struct sk_history *history = sk_history_open();
    struct sk_outages *outages = sk_outages_open();
    int64_t started = 0;
    bool enough = reactors != NULL && limits != NULL && secrets != NULL && of_operators != NULL && history != NULL &&
                  outages != NULL;
    if (status == SK_OK)
        status = enough ? serve_open_log(config, &log) : SK_NO_MEM;
    struct sk_reactor_options shared = {
        .config = config, .ring = ring, .secrets = secrets, .limits = limits, .history = history};
    if (status == SK_OK)
        status = serve_start(shared, of_operators, log, reactors, &started);
    supervise_reactors(&supervisor, reactors, (size_t)started);
    if (status == SK_OK) {
        sk_log_set_patience(0);
        sk_log(SK_LOG_INFO, "serving", "listen=%s reactors=%d admin_listen=%s", config->server.listen,
               (int)config->reactors, config->api.admin_listen == NULL ? "none" : config->api.admin_listen);
        sk_log(SK_LOG_INFO, "stopping", "signal=%d", serve_until_signal(&signals, ring, secrets, &supervisor, outages));
    } else {
        sk_log(SK_LOG_ERROR, "cannot start", "reactors=%d of=%d", (int)started, (int)sk_config_reactors(config));
    }
    supervise_stopping(&supervisor);
    for (int64_t i = 0; i < started; i++)
        sk_reactor_stop(reactors[i]);
    supervise_end(&supervisor);
    for (int64_t i = 0; i < started; i++)
        status = sk_reactor_misfits(reactors[i]) ? SK_FAIL : status;
    for (int64_t i = 0; i < started; i++)
        *left_behind = !sk_reactor_join(reactors[i]) || *left_behind;
    sk_log_set_patience(SK_LOG_PATIENCE_MS);
    free(reactors);
    sk_outages_close(outages);
    supervise_close(&supervisor);
    if (!*left_behind) { // else a thread that uses them may still run
        sk_token_ring_close(ring);
        sk_secrets_close(secrets);
        sk_limits_close(limits);
        free(of_operators);
        sk_history_close(history);
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
        *ring = sk_token_ring_open(&config->identity, (unsigned)config->reactors);
        if (*ring == NULL)
            return SK_FAIL;
    }
    serve_warn(config);
    return sk_descriptors_reserve(config);
}

static void serve_warn(const struct sk_config *config)
{
    const char *names[SK_DEMO_SECRETS];
    size_t n = sk_config_demo_secrets(config, names);
    if (config->api.demo != 0)
        sk_log(SK_LOG_WARN, "SECKILL_DEMO is on: orders are paid without money", "");
    for (size_t i = 0; i < n; i++)
        sk_log(SK_LOG_WARN, "a secret has a value of the demo, which everybody knows", "setting=%s", names[i]);
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
        options.samples = *started + 1 == count; // the last
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
                              struct supervisor *supervisor, struct sk_outages *outages)
{
    for (;;) {
        sk_outages_check(outages, sk_monotonic_ms());
        int64_t ms = supervise_check(supervisor);
        const struct timespec most = {ms / 1000, ms % 1000 * 1000000};
        int caught = sigtimedwait(signals, NULL, &most);
        if (caught > 0 && caught != SIGHUP)
            return caught;
        if (caught != SIGHUP)
            continue; // the time is over, or a debugger stopped the process
        supervise_reloading(supervisor);
        (void)sk_secrets_reload(secrets); // secrets that cannot be read stay unchanged, which is logged
        if (ring != NULL)
            (void)sk_token_ring_reload(ring);
        supervise_reloaded(supervisor);
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

// ---- the service manager ----
//
// The manager gets READY=1 once every reactor is ready, as /readyz reports it. It gets WATCHDOG=1 only if the pulse of
// every reactor has grown since the last one. The process could answer while one of its loops hangs, which keeps that
// loop's buyers waiting. Before it is ready, and while it drains, the manager's time-out is extended as long as the
// loops turn. Missing stores are no reason to restart an instance; a hanging loop is one.

// SK_FAIL: the manager cannot be reached. In any case pass *supervisor to supervise_close().
static enum sk_status supervise_open(struct supervisor *supervisor)
{
    *supervisor = (struct supervisor){0};
    return notify_open(&supervisor->notify);
}

static void supervise_close(struct supervisor *supervisor)
{
    if (supervisor->notify.fd >= 0)
        (void)close(supervisor->notify.fd);
}

// The started reactors; they must stay until the end.
static void supervise_reactors(struct supervisor *supervisor, struct sk_reactor *const *reactors, size_t count)
{
    SK_ASSERT(count <= SUPERVISED_MAX);
    supervisor->reactors = reactors;
    supervisor->count = count;
    supervisor->sent_ms = sk_monotonic_ms();
}

// Where it matters, the next check sends again what the manager did not accept.
static bool supervise_send(const struct supervisor *supervisor, const char *lines)
{
    return notify_send(&supervisor->notify, lines);
}

// True: every reactor has turned since the last note of the beats, or has ended. *stuck: the first that has not.
static bool supervise_all_turn(const struct supervisor *supervisor, size_t *stuck)
{
    for (size_t i = 0; i < supervisor->count; i++) {
        struct sk_pulse pulse = sk_reactor_pulse(supervisor->reactors[i]);
        if (!pulse.ended && pulse.beats == supervisor->beats[i]) {
            *stuck = i;
            return false;
        }
    }
    return true;
}

static bool supervise_all_ready(const struct supervisor *supervisor)
{
    for (size_t i = 0; i < supervisor->count; i++) {
        if (!sk_reactor_pulse(supervisor->reactors[i]).ready)
            return false;
    }
    return true;
}

static void supervise_note_beats(struct supervisor *supervisor, uint64_t now)
{
    for (size_t i = 0; i < supervisor->count; i++)
        supervisor->beats[i] = sk_reactor_pulse(supervisor->reactors[i]).beats;
    supervisor->sent_ms = now;
    if (supervisor->stuck)
        sk_log(SK_LOG_INFO, "all loops turn again", "");
    supervisor->stuck = false;
}

static void supervise_send_ready(struct supervisor *supervisor)
{
    bool ready = supervise_all_ready(supervisor);
    if (ready && !supervisor->ready_sent)
        supervisor->ready_sent = supervise_send(supervisor, "READY=1\nSTATUS=ready");
    else if (supervisor->ready_sent && ready != supervisor->ready)
        (void)supervise_send(supervisor, ready ? "STATUS=ready" : "STATUS=not ready: see /readyz");
    supervisor->ready = ready;
}

// The loops must turn within each PATIENCE_MS, or the manager's own time-out ends the instance.
static void supervise_extend(struct supervisor *supervisor, uint64_t now, bool turning)
{
    char lines[LINES_SIZE];
    if (!turning || now < supervisor->extend_ms + EXTEND_MS)
        return;
    (void)snprintf(lines, sizeof lines, "EXTEND_TIMEOUT_USEC=%d%s", PATIENCE_MS * 1000,
                   supervisor->stopping ? "" : "\nSTATUS=waits for the stores");
    if (supervise_send(supervisor, lines))
        supervisor->extend_ms = now;
}

// Checks the reactors and notifies the manager. Returns in how many ms to call again.
static int64_t supervise_check(struct supervisor *supervisor)
{
    const struct notify *notify = &supervisor->notify;
    if (notify->fd < 0)
        return SELDOM_MS;
    uint64_t now = sk_monotonic_ms(), ping_ms = notify->watchdog_ms / PINGS;
    ping_ms = ping_ms < SOON_MS ? SOON_MS : ping_ms;
    bool extending = !supervisor->ready_sent || supervisor->stopping;
    uint64_t due_ms = notify->watchdog_ms > 0 ? ping_ms : EXTEND_MS;
    size_t stuck = 0;
    if (!supervisor->stopping)
        supervise_send_ready(supervisor);
    if (now >= supervisor->sent_ms + due_ms) {
        bool turning = supervise_all_turn(supervisor, &stuck);
        if (turning && (notify->watchdog_ms == 0 || supervise_send(supervisor, "WATCHDOG=1"))) {
            supervise_note_beats(supervisor, now);
        } else if (!turning && !supervisor->stuck) {
            sk_log(SK_LOG_WARN, "a loop does not turn", "reactor=%zu for_ms=%" PRIu64, stuck,
                   now - supervisor->sent_ms);
            supervisor->stuck = true;
        }
    }
    if (extending)
        supervise_extend(supervisor, now, !supervisor->stuck);
    if (extending || supervisor->stuck)
        return SOON_MS;
    return notify->watchdog_ms > 0 && ping_ms < SELDOM_MS ? (int64_t)ping_ms : SELDOM_MS;
}

// Called around a reload: the manager waits until it is over.
static void supervise_reloading(struct supervisor *supervisor)
{
    char lines[LINES_SIZE];
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    (void)snprintf(lines, sizeof lines, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
                   (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
    (void)supervise_send(supervisor, lines);
}

static void supervise_reloaded(struct supervisor *supervisor)
{
    if (supervisor->ready_sent)
        supervisor->ready_sent = supervise_send(supervisor, "READY=1"); // else the next check sends it
}

// The instance ends, and its reactors are not stopped yet.
static void supervise_stopping(struct supervisor *supervisor)
{
    supervisor->stopping = true;
    supervisor->extend_ms = 0;
    (void)supervise_send(supervisor, "STOPPING=1\nSTATUS=drains");
}

// Waits until all reactors have ended, and meanwhile notifies the manager whether they turn.
static void supervise_end(struct supervisor *supervisor)
{
    const struct timespec pause = {0, SOON_MS * 1000000L};
    size_t ended = 0;
    while (supervisor->notify.fd >= 0 && ended < supervisor->count) {
        (void)supervise_check(supervisor);
        for (ended = 0; ended < supervisor->count && sk_reactor_pulse(supervisor->reactors[ended]).ended;)
            ended++;
        if (ended < supervisor->count)
            (void)nanosleep(&pause, NULL);
    }
}

// ---- notify ----

// Each datagram names the socket. A restarted manager has a new socket under the old name, which a connected socket
// would never find.

static bool notify_read_address(struct notify *notify, const char *name)
{
    size_t len = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || name[1] == '\0' || len >= sizeof notify->address.sun_path)
        return false;
    notify->address.sun_family = AF_UNIX;
    memcpy(notify->address.sun_path, name, len);
    notify->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (name[0] == '@')
        notify->address.sun_path[0] = '\0'; // an abstract name is all bytes, without a NUL at the end
    else
        notify->address_len++;
    return true;
}

// The watchdog is meant for one process, not for a child that inherits the environment.
static bool notify_read_watchdog(struct notify *notify)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t number;
    if (usec == NULL)
        return true;
    if (pid != NULL && (!sk_text_number(pid, INT32_MAX, &number) || number != (uint64_t)getpid()))
        return true;
    if (!sk_text_number(usec, UINT64_MAX / 2, &number))
        return false;
    notify->watchdog_ms = number / 1000;
    return true;
}

// Before the threads start. Reads NOTIFY_SOCKET (a path, or @name for an abstract socket), WATCHDOG_USEC and
// WATCHDOG_PID. SK_FAIL: a manager is named and cannot be reached; the reason is logged.
static enum sk_status notify_open(struct notify *notify)
{
    const char *name = getenv("NOTIFY_SOCKET");
    *notify = (struct notify){.fd = -1};
    if (name == NULL || name[0] == '\0')
        return SK_OK;
    if (!notify_read_address(notify, name)) {
        sk_log_text(SK_LOG_ERROR, "NOTIFY_SOCKET is neither a path nor @name", "value", name);
        return SK_FAIL;
    }
    if (!notify_read_watchdog(notify)) {
        sk_log_text(SK_LOG_ERROR, "WATCHDOG_USEC is not a number", "value", getenv("WATCHDOG_USEC"));
        return SK_FAIL;
    }
    notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (notify->fd < 0) {
        sk_log_text(SK_LOG_ERROR, "cannot notify the service manager", "reason", strerror(errno));
        return SK_FAIL;
    }
    return SK_OK;
}

// One datagram of lines NAME=value. Never waits. False: the manager did not accept it. True without a manager.
static bool notify_send(const struct notify *notify, const char *lines)
{
    if (notify->fd < 0)
        return true;
    ssize_t sent = sendto(notify->fd, lines, strlen(lines), MSG_NOSIGNAL, (const struct sockaddr *)&notify->address,
                          notify->address_len);
    if (sent >= 0)
        return true;
    sk_log_repeat(SK_LOG_WARN, "the service manager does not take a notification", "reason", strerror(errno));
    return false;
}

// ---- file descriptors ----
//
// The server limits its client connections by number, not by free descriptors. So the limit must cover all of them and
// everything else. Otherwise idle clients could hold every descriptor, and a lost store link could not be reopened.

// Per reactor: its loop, the server, the listener. Per process: the standard streams, and what a host name lookup opens
// for a moment in each of libuv's threads.
enum { PER_REACTOR = 11, PER_PROCESS = 64 };

// Of a reactor. Each of its links to Redis has a connection to each sentinel. How many masters a cluster has is known
// only later, and may grow; one connection more reads its slots.
static uint64_t descriptors_of_redis(const char *redis_url)
{
    uint64_t servers = 1;
    if (strstr(redis_url, "+cluster://") != NULL)
        return SK_NODES_MAX * SK_NODE_LINKS + 1;
    servers += strstr(redis_url, "+sentinel://") != NULL;
    for (const char *at = strchr(redis_url, ','); servers > 1 && at != NULL; at = strchr(at + 1, ','))
        servers++; // a comma in the password only makes it too many
    return servers * SK_NODE_LINKS;
}

uint64_t sk_descriptors_needed(const struct sk_config *config)
{
    uint64_t each = PER_REACTOR + descriptors_of_redis(config->stores.redis_url) +
                    (uint64_t)config->stores.shards.count * SK_SHARD_LINKS;
    uint64_t operators = config->api.admin_listen == NULL ? 0 : SK_ADMIN_CONNECTIONS + each;
    return (uint64_t)config->reactors * ((uint64_t)config->server.max_connections + each) + operators + PER_PROCESS;
}

enum sk_status sk_descriptors_reserve(const struct sk_config *config)
{
    uint64_t needed = sk_descriptors_needed(config);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        sk_log_text(SK_LOG_ERROR, "cannot read the limit of file descriptors", "reason", strerror(errno));
        return SK_FAIL;
    }
    if (limit.rlim_cur >= needed)
        return SK_OK;
    limit.rlim_cur = needed;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return SK_OK;
    sk_log_text(SK_LOG_ERROR, "cannot raise the limit of file descriptors", "reason", strerror(errno));
    return SK_FAIL;
}
