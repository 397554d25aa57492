// A waiting request is not suspended: its handler returns without an answer, and libmicrohttpd calls it again in every
// run. The answer is queued from outside as soon as it is known, and one run at the end of the turn sends all of them.
// Suspending would cost two epoll_ctl calls and one more recv for each request.
//
// This depends on two traits of libmicrohttpd's external epoll mode. A handler may return MHD_YES without a response
// after the request is complete, and MHD_queue_response moves such a connection on at once. A parked request waits too
// long for that, and is suspended (connection.c).
//
// An answer's head is written into the same memory that holds the request's: where that is full, libmicrohttpd closes
// the connection without an answer, to a purchase that is committed. So the memory is ANSWER_RESERVE larger than a
// request may fill, and a larger head is refused before it is routed. Only the bytes of a pipelined request can still
// fill the reserve, of a client that sends it behind one with more than about 50 fields.
//
// Every phase of a connection has an absolute deadline (connection.h): libmicrohttpd's own restarts with each byte.
#include "server.h"

#include <microhttpd.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "connection.h"
#include "deadlines.h"
#include "head.h"
#include "listener.h"
#include "log.h"
#include "probe.h"
#include "response.h"
#include "target.h"
#include "timer.h"

// ANSWER_RESERVE: the longest head of an answer is a list's, with a Link of LINK_MAX (answer.c), an origin of 255
// bytes, a trace, limits and the connection's end. A page's is shorter, but for its picture origins.
enum {
    ANSWER_RESERVE = 1192,
    FIELD_MARKS = sizeof ": \r\n" - 1,
    DISCARD_FACTOR = 8,
    POOL_INCREMENT = 1024,
    RUNS_MAX = 128,
    SENDING_RUNS_MAX = 3,
    BACKLOG_RUNS_MAX = 64,
    RESERVED_PART = 10
};

struct sk_server {
    uv_loop_t *loop;
    const struct sk_server_options *options;
    struct sk_handler handler;
    struct sk_connections connections;
    struct MHD_Daemon *daemon;
    int listen_fd;
    uv_poll_t *poll;              // a separate allocation: libuv uses it after the server is gone
    struct sk_timer *tick, *more; // the second one: a tick before its time
    bool progress;                // a piece of a body arrived: there may be more to read
    bool completed;               // a request ended in this run: its client's next one may be there already
    bool counted;                 // handler.peers has counted `newest`, which has no connection yet
    struct sk_address newest;
};

// ---- called by libmicrohttpd, in the order of a connection's life ----

static void server_log_library(void *arg, const char *format, va_list args)
{
    char line[256];
    (void)arg;
    (void)vsnprintf(line, sizeof line, format, args);
    sk_log_text(SK_LOG_DEBUG, "libmicrohttpd", "text", line);
}

// Only with handler.peers. An accepted peer becomes a connection at once, unless there is no memory for it.
static enum MHD_Result server_may_connect(void *arg, const struct sockaddr *from, socklen_t len)
{
    struct sk_server *server = arg;
    const struct sk_peers *peers = server->handler.peers;
    (void)len;
    if (server->counted)
        peers->disconnects(peers->arg, &server->newest);
    server->counted = false;
    if (!sk_address_of(from, &server->newest))
        return MHD_YES; // has no address to count
    server->counted = peers->connects(peers->arg, &server->newest);
    server->connections.refused += !server->counted;
    return server->counted ? MHD_YES : MHD_NO;
}

static void server_on_connection(void *arg, struct MHD_Connection *connection, void **context,
                                 enum MHD_ConnectionNotificationCode code)
{
    struct sk_server *server = arg;
    const struct sk_peers *peers = server->handler.peers;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        *context = sk_connection_take(&server->connections, connection, fd);
        server->counted = false;
    } else {
        struct sk_address peer;
        if (peers != NULL && sk_request_peer(*context, &peer))
            peers->disconnects(peers->arg, &peer);
        sk_connection_free(*context);
    }
}

static struct sk_connection *server_connection_at(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

// As libmicrohttpd refuses a head that does not fit at all: its memory may have no room for an answer.
static enum MHD_Result server_refuse_large_head(const struct sk_connection *connection)
{
    static const char answer[] =
        "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    (void)send(connection->fd, answer, sizeof answer - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    return MHD_NO;
}

// The request line was read. Only here is the target still as sent: its query is split next.
static void *server_on_target(void *arg, const char *target, struct MHD_Connection *library)
{
    const struct sk_server *server = arg;
    struct sk_connection *connection = server_connection_at(library);
    sk_connection_move(connection, SK_PHASE_HEADER, (uint64_t)server->options->request_timeout_ms);
    // libmicrohttpd fails to answer when the records of parameters or cookies do not fit. Cookies cannot be seen
    // before.
    if (sk_head_target(&connection->head, target) > (size_t)server->options->header_max_bytes) {
        (void)server_refuse_large_head(connection);
        (void)shutdown(connection->fd, SHUT_RDWR);
    }
    return NULL; // server_on_request gets it as *context
}

static size_t server_on_escaped(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg;
    return sk_head_unescape(&server_connection_at(connection)->head, text);
}

static enum MHD_Result server_reject(struct sk_server *server, struct sk_connection *connection, enum sk_malformed what)
{
    server->handler.malformed(server->handler.arg, &connection->request, what);
    return connection->unanswerable ? MHD_NO : MHD_YES;
}

static enum MHD_Result server_on_field(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                       const char *value, size_t value_len)
{
    struct sk_connection *connection = arg;
    if (kind == MHD_HEADER_KIND)
        sk_head_field(&connection->head, name, name_len, (char *)value, value_len); // lies in its pool
    return MHD_YES;
}

static enum MHD_Result server_on_head(struct sk_server *server, struct sk_connection *connection)
{
    sk_connection_move(connection, SK_PHASE_BODY, (uint64_t)server->options->request_timeout_ms);
    int records = MHD_get_connection_values_n(
        connection->library, MHD_HEADER_KIND | MHD_COOKIE_KIND | MHD_GET_ARGUMENT_KIND, server_on_field, connection);
    size_t len = MHD_get_connection_info(connection->library, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
    sk_head_use(&connection->head, (size_t)records, len);
    if (connection->head.used > (size_t)server->options->header_max_bytes)
        return server_refuse_large_head(connection);
    if (connection->request.path == NULL || !sk_head_good(&connection->head, len))
        return server_reject(server, connection, SK_MALFORMED_HEAD);
    if (connection->head.length > (uint64_t)server->options->body_max_bytes)
        return server_reject(server, connection, SK_MALFORMED_TOO_LARGE);
    return MHD_YES;
}

// If a body exceeds the limit, the server reads on for a while, so that the client sees the 413.
static enum MHD_Result server_on_body(struct sk_server *server, struct sk_connection *connection, const char *data,
                                      size_t n)
{
    size_t most = (size_t)server->options->body_max_bytes;
    struct sk_buf *body = &connection->request.body;
    server->progress = true;
    if (body->len + n > most)
        connection->too_large = true;
    if (!connection->too_large) {
        sk_buf_add(body, data, n);
        return body->failed ? MHD_NO : MHD_YES;
    }
    connection->discarded += n;
    return connection->discarded > most * DISCARD_FACTOR ? MHD_NO : MHD_YES;
}

static enum MHD_Result server_on_asked_again(struct sk_connection *connection)
{
    if (connection->phase == SK_PHASE_PARKED)
        sk_connection_suspend(connection);
    return connection->phase == SK_PHASE_GONE || connection->unanswerable ? MHD_NO : MHD_YES;
}

static enum MHD_Result server_on_trailer(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                         const char *value, size_t value_len)
{
    struct sk_connection *connection = arg;
    (void)kind;
    (void)name;
    (void)value;
    sk_head_use(&connection->head, 1, name_len + value_len + FIELD_MARKS);
    return MHD_YES;
}

// The fields behind a chunked body take memory as those of the head do.
static bool server_trailer_fits(const struct sk_server *server, struct sk_connection *connection)
{
    if (connection->head.chunked)
        (void)MHD_get_connection_values_n(connection->library, MHD_FOOTER_KIND, server_on_trailer, connection);
    return connection->head.used <= (size_t)server->options->header_max_bytes;
}

static enum MHD_Result server_on_whole(struct sk_server *server, struct sk_connection *connection)
{
    if (connection->too_large)
        return server_reject(server, connection, SK_MALFORMED_TOO_LARGE);
    if (!server_trailer_fits(server, connection))
        return server_refuse_large_head(connection);
    SK_PROBE3(request_read, connection->request.handle, connection->request.path, connection->request.body.len);
    server->handler.handle(server->handler.arg, &connection->request);
    if (connection->phase == SK_PHASE_BODY)
        return MHD_NO; // neither answered nor kept: out of memory
    return server_on_asked_again(connection);
}

// Called with the head, with each piece of the body, when the request is complete, and then again until it is answered.
static enum MHD_Result server_on_request(void *arg, struct MHD_Connection *library, const char *url, const char *method,
                                         const char *version, const char *upload, size_t *upload_len, void **context)
{
    struct sk_server *server = arg;
    struct sk_connection *connection = *context;
    size_t n = *upload_len;
    if (connection == NULL) {
        connection = *context = server_connection_at(library);
        sk_connection_begin_request(connection);
        connection->request.path = sk_target_path(url);
        sk_head_begin(&connection->head, &connection->request, method, url, version);
        return server_on_head(server, connection);
    }
    *upload_len = 0;
    if (connection->phase != SK_PHASE_BODY)
        return server_on_asked_again(connection);
    return n > 0 ? server_on_body(server, connection, upload, n) : server_on_whole(server, connection);
}

static void server_on_completed(void *arg, struct MHD_Connection *connection, void **context,
                                enum MHD_RequestTerminationCode code)
{
    struct sk_server *server = arg;
    (void)connection;
    (void)code;
    struct sk_connection *ended = *context;
    server->completed = true;
    if (ended != NULL && ended->phase == SK_PHASE_PARKED) // parked, but not suspended yet
        server->handler.gone(server->handler.arg, &ended->request);
    if (ended != NULL)
        sk_connection_end_request(ended);
    *context = NULL;
}

// ---- running ----

// A header longer than the library's first read, and the next one of pipelined requests, take more runs. While a
// request waits, MHD_get_timeout is always 0 and no help; then the runs that send the answers do the rest.
static bool server_has_more_to_do(struct sk_server *server)
{
    MHD_UNSIGNED_LONG_LONG wait_ms;
    return server->connections.in_phase[SK_PHASE_WAITING] == 0 &&
           MHD_get_timeout(server->daemon, &wait_ms) == MHD_YES && wait_ms == 0;
}

// Each run moves a connection by one step. An answer that was queued from outside is sent in one run and finished in
// the next, and a body may have more to read. Without more runs, this work would wait for the next event. If a client
// pipelines more requests than the runs serve, the rest is served in the loop's next turn, after the others.
static void server_run(struct sk_server *server)
{
    struct sk_connections *connections = &server->connections;
    int runs = 0;
    server->completed = false;
    connections->running = true;
    do {
        connections->answered = false;
        server->progress = false;
        (void)MHD_run(server->daemon);
        runs++;
    } while (((server->progress || server_has_more_to_do(server)) && runs < RUNS_MAX) ||
             (connections->in_phase[SK_PHASE_SENDING] > 0 && runs < SENDING_RUNS_MAX));
    connections->running = false;
    if (runs == RUNS_MAX && (server->progress || server->completed))
        sk_timer_once(server->more, 0);
}

bool sk_server_turn(struct sk_server *server)
{
    bool resumed = sk_connections_resume(&server->connections, false);
    if (!resumed && !server->connections.answered)
        return false;
    server_run(server);
    return true;
}

static void server_on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    server_run(poll->data);
}

static void server_on_tick(void *arg)
{
    struct sk_server *server = arg;
    struct sk_connection *connection;
    while ((connection = sk_connections_next_overdue(&server->connections)) != NULL) {
        if (connection->phase == SK_PHASE_WAITING || connection->phase == SK_PHASE_PARKED)
            server->handler.expired(server->handler.arg, &connection->request);
        else
            sk_connection_cut(connection);
    }
    (void)sk_connections_resume(&server->connections, false);
    server_run(server);
}

struct sk_request *sk_server_find(struct sk_server *server, uint64_t handle)
{
    struct sk_connection *connection = sk_connections_find(&server->connections, handle, SK_PHASES_OPEN);
    return connection == NULL ? NULL : &connection->request;
}

struct sk_request *sk_server_find_stream(struct sk_server *server, uint64_t handle)
{
    struct sk_connection *connection = sk_connections_find(&server->connections, handle, SK_PHASES_STREAM);
    return connection == NULL ? NULL : &connection->request;
}

size_t sk_server_waiting(const struct sk_server *server)
{
    return server->connections.in_phase[SK_PHASE_WAITING] + server->connections.in_phase[SK_PHASE_PARKED];
}

size_t sk_server_sending(const struct sk_server *server)
{
    return server->connections.in_phase[SK_PHASE_RESUMING] + server->connections.in_phase[SK_PHASE_SENDING];
}

bool sk_server_crowded(const struct sk_server *server)
{
    return server->connections.in_phase[SK_PHASE_FREE] < server->connections.count / RESERVED_PART;
}

void sk_server_measure(const struct sk_server *server, struct sk_metrics *metrics)
{
    const struct sk_connections *pool = &server->connections;
    const size_t *in_phase = pool->in_phase;
    sk_metrics_set(metrics, SK_METRIC_CONNECTIONS_IDLE, in_phase[SK_PHASE_HEADER]);
    sk_metrics_set(metrics, SK_METRIC_CONNECTIONS_READING, in_phase[SK_PHASE_BODY]);
    sk_metrics_set(metrics, SK_METRIC_CONNECTIONS_WAITING, in_phase[SK_PHASE_WAITING]);
    sk_metrics_set(metrics, SK_METRIC_CONNECTIONS_PARKED, in_phase[SK_PHASE_PARKED]);
    sk_metrics_set(metrics, SK_METRIC_CONNECTIONS_SENDING, sk_server_sending(server) + in_phase[SK_PHASE_GONE]);
    sk_metrics_set(metrics, SK_METRIC_CONNECTIONS_STREAMING, in_phase[SK_PHASE_STREAMING] + in_phase[SK_PHASE_STUCK]);
    sk_metrics_set(metrics, SK_METRIC_LONG_REQUESTS, pool->held);
    sk_metrics_set(metrics, SK_METRIC_LONG_REQUESTS_MAX, pool->held_most);
    sk_metrics_set(metrics, SK_METRIC_CONNECTIONS_REFUSED, pool->refused);
    sk_metrics_set(metrics, SK_METRIC_CONNECTIONS_FULL, pool->filled);
}

// ---- opening ----

static struct MHD_Daemon *server_start_daemon(struct sk_server *server)
{
    const struct sk_server_options *options = server->options;
    size_t connection_bytes = (size_t)(options->header_max_bytes + ANSWER_RESERVE + options->policy_bytes);
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    MHD_AcceptPolicyCallback may_connect = server->handler.peers == NULL ? NULL : server_may_connect;
    return MHD_start_daemon(flags, 0, may_connect, server, server_on_request, server,         //
                            MHD_OPTION_EXTERNAL_LOGGER, server_log_library, NULL,             //
                            MHD_OPTION_LISTEN_SOCKET, server->listen_fd,                      //
                            MHD_OPTION_CONNECTION_LIMIT, (unsigned)server->connections.count, //
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, connection_bytes,             //
                            MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)POOL_INCREMENT,   //
                            MHD_OPTION_URI_LOG_CALLBACK, server_on_target, server,            //
                            MHD_OPTION_UNESCAPE_CALLBACK, server_on_escaped, NULL,            //
                            MHD_OPTION_NOTIFY_CONNECTION, server_on_connection, server,       //
                            MHD_OPTION_NOTIFY_COMPLETED, server_on_completed, server,         //
                            MHD_OPTION_END);
}

static enum sk_status server_start(struct sk_server *server)
{
    server->daemon = server_start_daemon(server);
    if (server->daemon == NULL)
        return SK_FAIL;
    int fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    if (uv_poll_init(server->loop, server->poll, fd) != 0)
        return SK_FAIL;
    server->poll->data = server;
    (void)uv_poll_start(server->poll, UV_READABLE, server_on_readable);
    server_run(server); // arms the listening socket
    return SK_OK;
}

// After a failed open; the loop does not know server->poll then.
static void server_free(struct sk_server *server)
{
    if (server->daemon != NULL)
        MHD_stop_daemon(server->daemon);
    else if (server->listen_fd >= 0)
        (void)close(server->listen_fd);
    sk_connections_close(&server->connections);
    sk_timer_close(server->tick);
    sk_timer_close(server->more);
    free(server->poll);
    free(server);
}

struct sk_server *sk_server_open(uv_loop_t *loop, const struct sk_server_options *options,
                                 const struct sk_handler *handler)
{
    struct sk_server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return NULL;
    server->loop = loop;
    server->options = options;
    server->handler = *handler;
    server->poll = calloc(1, sizeof *server->poll);
    server->tick = sk_timer_open(loop, SK_DEADLINES_TICK_MS, server_on_tick, server);
    server->more = sk_timer_open(loop, 0, server_on_tick, server);
    server->listen_fd = sk_listen(options->listen);
    enum sk_status opened = sk_connections_open(&server->connections, loop, options, &server->handler);
    if (server->poll == NULL || server->tick == NULL || server->more == NULL || server->listen_fd < 0 ||
        opened != SK_OK || server_start(server) != SK_OK) {
        server_free(server);
        return NULL;
    }
    return server;
}

// ---- ending ----

static void server_expire(struct sk_server *server, bool waiting_too)
{
    for (uint32_t i = 0; i < server->connections.used; i++) {
        struct sk_connection *connection = &server->connections.all[i];
        if (connection->phase == SK_PHASE_PARKED || (waiting_too && connection->phase == SK_PHASE_WAITING)) {
            server->handler.expired(server->handler.arg, &connection->request);
        } else if (connection->phase == SK_PHASE_STUCK) {
            sk_connection_drop(connection); // it would delay the end until its deadline
        } else if (connection->phase == SK_PHASE_STREAMING) {
            server->handler.gone(server->handler.arg, &connection->request);
            sk_stream_end(&connection->request);
        }
    }
}

void sk_server_expire(struct sk_server *server)
{
    server_expire(server, true);
}

// First serves the clients whose connection the kernel has made already: closing the socket would reset them.
static void server_stop_accepting(struct sk_server *server)
{
    struct pollfd backlog = {.fd = server->listen_fd, .events = POLLIN};
    const size_t *unused = &server->connections.in_phase[SK_PHASE_FREE];
    if (server->listen_fd < 0)
        return;
    for (int runs = 0; runs<BACKLOG_RUNS_MAX && * unused> 0 && poll(&backlog, 1, 0) > 0; runs++)
        server_run(server);
    MHD_socket fd = MHD_quiesce_daemon(server->daemon);
    server->listen_fd = -1;
    server_run(server); // takes the socket out of the epoll set before it is closed
    if (fd != MHD_INVALID_SOCKET)
        (void)close(fd);
}

void sk_server_drain(struct sk_server *server)
{
    server->connections.draining = true;
    server_stop_accepting(server);
    server_expire(server, false);
}

// Idle connections get an orderly end, all of them before the first is closed. A request that crosses it is read, but
// not answered. Closing a connection with unread bytes would reset it, and its client might lose the answer before.
static void server_leave_idle(struct sk_server *server)
{
    for (uint32_t i = 0; i < server->connections.used; i++) {
        if (server->connections.all[i].phase == SK_PHASE_HEADER)
            (void)shutdown(server->connections.all[i].fd, SHUT_WR);
    }
    server_run(server);
}

static void server_free_handle(uv_handle_t *handle)
{
    free(handle);
}

void sk_server_close(struct sk_server *server)
{
    if (server == NULL)
        return;
    server->connections.draining = true;
    server_stop_accepting(server);
    sk_server_expire(server);
    (void)sk_connections_resume(&server->connections, true);
    server_run(server); // the last answers
    server_leave_idle(server);
    (void)uv_poll_stop(server->poll);
    uv_close((uv_handle_t *)server->poll, server_free_handle);
    sk_timer_close(server->tick);
    sk_timer_close(server->more);
    MHD_stop_daemon(server->daemon); // closes the connections, each through server_on_completed
    sk_connections_close(&server->connections);
    free(server);
}
