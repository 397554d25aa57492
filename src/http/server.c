// One request at a time on a connection, so a connection and its request share a slot of a fixed pool.
//
// A request that must wait is not suspended: its handler returns without an answer, and libmicrohttpd
// keeps the connection on its list of ready ones and asks the handler again in every run. The answer is
// queued from outside as soon as it is known, and one run at the end of the turn sends all of them.
// Suspending would cost two epoll_ctl calls and one more recv for each request. It leans on two traits of
// libmicrohttpd's external epoll mode: a handler may return MHD_YES without a response after the
// request is whole, and MHD_queue_response moves such a connection on at once.
//
// Slow clients are cut by deadlines of ours, because the library's time-out starts anew with each
// byte: every phase of a connection has an absolute limit.
#include "server.h"

#include <microhttpd.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "head.h"
#include "listener.h"
#include "log.h"
#include "status.h"
#include "target.h"

enum { TICK_MS = 50, DISCARD_FACTOR = 8, POOL_INCREMENT = 1024 };
enum { RUNS_MAX = 128, SENDING_RUNS_MAX = 3, BACKLOG_RUNS_MAX = 64 };

enum phase {
    PHASE_FREE,    // the slot is not in use
    PHASE_HEADER,  // waits for the next request header: idle_timeout_ms
    PHASE_BODY,    // the header is there, the body is not: request_timeout_ms
    PHASE_WAITING, // the handler works on it: its own deadline
    PHASE_SENDING, // answered, and the client has not taken all of it: request_timeout_ms
};

struct slot {
    struct sk_request request; // first, so that a request leads to its slot
    struct sk_server *server;
    struct MHD_Connection *connection;
    int fd;
    enum phase phase;
    uint64_t deadline_ms;
    uint32_t generation;
    uint32_t index;
    uint32_t next_free;
    struct sk_head head;
    bool too_large;
    size_t discarded;
};

struct sk_server {
    uv_loop_t *loop;
    const struct sk_config *config;
    struct sk_handler handler;
    struct MHD_Daemon *daemon;
    int listen_fd;
    uv_poll_t *poll; // blocks of their own: libuv frees them later than the server goes
    uv_timer_t *tick;
    struct slot *slots;
    uint32_t slot_count, first_free;
    uint32_t used;           // slots that were ever in use: the rest needs no look
    size_t waiting, sending; // slots in these phases
    bool running;            // inside MHD_run
    bool answered;           // outside of a handler, since the last run
    bool progress;           // a body arrived in pieces: there may be more to read
};

enum { NO_SLOT = UINT32_MAX };

static struct slot *slot_of(struct sk_request *request)
{
    return (struct slot *)(void *)request;
}

static void set_phase(struct slot *slot, enum phase phase, uint64_t limit_ms)
{
    static const bool allowed[PHASE_SENDING + 1][PHASE_SENDING + 1] = {
        [PHASE_FREE] = {[PHASE_HEADER] = true},
        [PHASE_HEADER] = {[PHASE_BODY] = true, [PHASE_HEADER] = true, [PHASE_FREE] = true},
        [PHASE_BODY] = {[PHASE_WAITING] = true, [PHASE_SENDING] = true, [PHASE_HEADER] = true, [PHASE_FREE] = true},
        [PHASE_WAITING] = {[PHASE_SENDING] = true, [PHASE_HEADER] = true, [PHASE_FREE] = true},
        [PHASE_SENDING] = {[PHASE_HEADER] = true, [PHASE_FREE] = true},
    };
    SK_ASSERT(allowed[slot->phase][phase]);
    slot->server->waiting -= slot->phase == PHASE_WAITING;
    slot->server->waiting += phase == PHASE_WAITING;
    slot->server->sending -= slot->phase == PHASE_SENDING;
    slot->server->sending += phase == PHASE_SENDING;
    slot->phase = phase;
    slot->deadline_ms = uv_now(slot->server->loop) + limit_ms;
}

// ---- connections ----

static void on_connection(void *arg, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct sk_server *server = arg;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        // There is a slot for each connection the library may accept.
        SK_ASSERT(server->first_free != NO_SLOT);
        struct slot *slot = &server->slots[server->first_free];
        server->first_free = slot->next_free;
        if (slot->index >= server->used)
            server->used = slot->index + 1;
        slot->connection = connection;
        slot->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        set_phase(slot, PHASE_HEADER, (uint64_t)server->config->idle_timeout_ms);
        *context = slot;
        return;
    }
    struct slot *slot = *context;
    set_phase(slot, PHASE_FREE, 0);
    slot->generation++;
    slot->connection = NULL;
    slot->next_free = server->first_free;
    server->first_free = slot->index;
}

static void begin_request(struct slot *slot)
{
    slot->generation++;
    if (slot->generation == 0)
        slot->generation = 1; // a ticket is never 0
    struct sk_buf body = slot->request.body;
    sk_buf_clear(&body);
    slot->request = (struct sk_request){.body = body, .ticket = (uint64_t)slot->generation << 32 | slot->index};
    slot->too_large = false;
    slot->discarded = 0;
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct sk_server *server = arg;
    struct slot *slot = *context;
    (void)connection;
    (void)code;
    if (slot == NULL)
        return;
    slot->request.ticket = 0; // late answers do not find it
    sk_buf_free(&slot->request.body);
    set_phase(slot, PHASE_HEADER, (uint64_t)server->config->idle_timeout_ms);
    *context = NULL;
}

// ---- reading a request ----

static enum MHD_Result on_field(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                const char *value, size_t value_len)
{
    struct slot *slot = arg;
    (void)kind;
    sk_head_field(&slot->head, &slot->request, name, name_len, value, value_len);
    return MHD_YES;
}

static enum MHD_Result reject(struct slot *slot, enum sk_verdict verdict)
{
    sk_response *response = slot->server->handler.malformed(slot->server->handler.arg, verdict);
    sk_request_answer(&slot->request, sk_verdict_http_status(verdict), response);
    return response == NULL ? MHD_NO : MHD_YES;
}

static enum MHD_Result on_head(struct slot *slot)
{
    struct sk_server *server = slot->server;
    set_phase(slot, PHASE_BODY, (uint64_t)server->config->request_timeout_ms);
    (void)MHD_get_connection_values_n(slot->connection, MHD_HEADER_KIND, on_field, slot);
    size_t len = MHD_get_connection_info(slot->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
    if (slot->request.path == NULL || !sk_head_good(&slot->head, len))
        return reject(slot, SK_VERDICT_BAD_REQUEST);
    if (slot->head.length > (uint64_t)server->config->body_max_bytes)
        return reject(slot, SK_VERDICT_BODY_TOO_LARGE);
    return MHD_YES;
}

// A body that grows past the limit is read on for a while, so that the client gets to see our 413.
static enum MHD_Result on_body(struct slot *slot, const char *data, size_t n)
{
    size_t most = (size_t)slot->server->config->body_max_bytes;
    slot->server->progress = true;
    if (slot->request.body.len + n > most)
        slot->too_large = true;
    if (!slot->too_large) {
        sk_buf_add(&slot->request.body, data, n);
        return slot->request.body.failed ? MHD_NO : MHD_YES;
    }
    slot->discarded += n;
    return slot->discarded > most * DISCARD_FACTOR ? MHD_NO : MHD_YES;
}

static struct slot *slot_at(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

// The request line was read. Only here the target is still as it was sent: its query is taken apart next.
static void *on_target(void *arg, const char *target, struct MHD_Connection *connection)
{
    (void)arg;
    sk_head_target(&slot_at(connection)->head, target);
    return NULL; // what on_request finds as *context
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_len, void **context)
{
    struct sk_server *server = arg;
    struct slot *slot = *context;
    if (slot == NULL) {
        slot = slot_at(connection);
        *context = slot;
        begin_request(slot);
        slot->request.path = sk_target_path(url);
        sk_head_begin(&slot->head, &slot->request, method, url, version);
        return on_head(slot);
    }
    if (slot->phase != PHASE_BODY) { // asked again, and still no answer, or there is one already
        *upload_len = 0;
        return MHD_YES;
    }
    if (*upload_len > 0) {
        size_t n = *upload_len;
        *upload_len = 0;
        return on_body(slot, upload, n);
    }
    if (slot->too_large)
        return reject(slot, SK_VERDICT_BODY_TOO_LARGE);
    server->handler.handle(server->handler.arg, &slot->request);
    return slot->phase == PHASE_BODY ? MHD_NO : MHD_YES; // neither answered nor waiting: could not
}

// The path must reach us as it was sent: "/seckill/1%00x" is not "/seckill/1".
static size_t keep_escapes(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg;
    (void)connection;
    return strlen(text);
}

// ---- answering ----

void sk_request_wait(struct sk_request *request, uint64_t ms)
{
    set_phase(slot_of(request), PHASE_WAITING, ms);
}

struct sk_request *sk_server_find(struct sk_server *server, uint64_t ticket)
{
    uint32_t index = (uint32_t)ticket;
    SK_ASSERT(index < server->slot_count);
    struct slot *slot = &server->slots[index];
    return slot->request.ticket == ticket && slot->phase == PHASE_WAITING ? &slot->request : NULL;
}

void sk_request_answer(struct sk_request *request, unsigned http_status, sk_response *response)
{
    struct slot *slot = slot_of(request);
    struct sk_server *server = slot->server;
    if (!server->running)
        server->answered = true;
    set_phase(slot, PHASE_SENDING, (uint64_t)server->config->request_timeout_ms);
    if (response == NULL || MHD_queue_response(slot->connection, http_status, response) != MHD_YES)
        (void)shutdown(slot->fd, SHUT_RDWR); // no memory for an answer: the client sees the connection end
}

sk_response *sk_response_new(const char *type, const char *body, size_t len)
{
    // The library does not write to the buffer; its interface only lacks the const.
    union {
        const void *in;
        void *out;
    } text = {.in = body};
    sk_response *response = MHD_create_response_from_buffer(len, text.out, MHD_RESPMEM_MUST_COPY);
    if (response != NULL && type != NULL)
        sk_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    return response;
}

void sk_response_header(sk_response *response, const char *name, const char *value)
{
    if (response != NULL && MHD_add_response_header(response, name, value) != MHD_YES)
        sk_log(SK_WARN, "response header not added", "name=%s", name);
}

void sk_response_free(sk_response *response)
{
    if (response != NULL)
        MHD_destroy_response(response);
}

// ---- running ----

// A header longer than the library's first read, and the next one of pipelined requests, take more runs.
// The library keeps whoever waits among the ready, so while somebody waits it cannot tell; the runs that
// bring the answers get on with the rest.
static bool more_to_do(struct sk_server *server)
{
    MHD_UNSIGNED_LONG_LONG wait_ms;
    return server->waiting == 0 && MHD_get_timeout(server->daemon, &wait_ms) == MHD_YES && wait_ms == 0;
}

// The library moves a connection on by one step in each run: an answer that was queued from outside is sent
// in one and done with in the next, and a body may have more to read. What is not moved on now would lie
// until the next event.
static void run(struct sk_server *server)
{
    if (server->daemon == NULL)
        return;
    server->running = true;
    int runs = 0;
    do {
        server->answered = false;
        server->progress = false;
        (void)MHD_run(server->daemon);
        runs++;
    } while (((server->progress || more_to_do(server)) && runs < RUNS_MAX) ||
             (server->sending > 0 && runs < SENDING_RUNS_MAX));
    server->running = false;
}

bool sk_server_turn(struct sk_server *server)
{
    if (!server->answered)
        return false;
    run(server);
    return true;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    run(poll->data);
}

static void on_tick(uv_timer_t *timer)
{
    struct sk_server *server = timer->data;
    uint64_t now = uv_now(server->loop);
    for (uint32_t i = 0; i < server->used; i++) {
        struct slot *slot = &server->slots[i];
        if (slot->phase == PHASE_FREE || now < slot->deadline_ms)
            continue;
        if (slot->phase == PHASE_WAITING)
            server->handler.expired(server->handler.arg, &slot->request);
        else
            (void)shutdown(slot->fd, SHUT_RDWR); // the next run sees the end and closes
    }
    run(server);
}

// ---- opening and closing ----

static void log_library(void *arg, const char *format, va_list args)
{
    char line[256];
    (void)arg;
    (void)vsnprintf(line, sizeof line, format, args);
    sk_log_text(SK_DEBUG, "libmicrohttpd", "said", line);
}

static enum sk_status make_slots(struct sk_server *server)
{
    server->slot_count = (uint32_t)server->config->max_connections;
    server->slots = calloc(server->slot_count, sizeof *server->slots);
    if (server->slots == NULL)
        return SK_NO_MEM;
    for (uint32_t i = 0; i < server->slot_count; i++) {
        server->slots[i].server = server;
        server->slots[i].index = i;
        server->slots[i].next_free = i + 1 < server->slot_count ? i + 1 : NO_SLOT;
    }
    server->first_free = 0;
    return SK_OK;
}

static enum sk_status start_daemon(struct sk_server *server)
{
    server->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, server,         //
                                      MHD_OPTION_EXTERNAL_LOGGER, log_library, NULL,                                //
                                      MHD_OPTION_LISTEN_SOCKET, server->listen_fd,                                  //
                                      MHD_OPTION_CONNECTION_LIMIT, (unsigned)server->slot_count,                    //
                                      MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)server->config->header_max_bytes, //
                                      MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)POOL_INCREMENT,               //
                                      MHD_OPTION_STRICT_FOR_CLIENT, 1,                                              //
                                      MHD_OPTION_URI_LOG_CALLBACK, on_target, NULL,                                 //
                                      MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,                             //
                                      MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,                          //
                                      MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,                            //
                                      MHD_OPTION_END);
    if (server->daemon == NULL)
        return SK_FAIL;
    int fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    if (uv_poll_init(server->loop, server->poll, fd) != 0)
        return SK_FAIL;
    server->poll->data = server;
    (void)uv_poll_start(server->poll, UV_READABLE, on_readable);
    (void)uv_timer_init(server->loop, server->tick);
    server->tick->data = server;
    (void)uv_timer_start(server->tick, on_tick, TICK_MS, TICK_MS);
    run(server); // arms the listening socket
    return SK_OK;
}

struct sk_server *sk_server_open(uv_loop_t *loop, const struct sk_config *config, const struct sk_handler *handler)
{
    struct sk_server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return NULL;
    server->loop = loop;
    server->config = config;
    server->handler = *handler;
    server->poll = calloc(1, sizeof *server->poll);
    server->tick = calloc(1, sizeof *server->tick);
    server->listen_fd = sk_listen(config->listen);
    if (server->poll == NULL || server->tick == NULL || server->listen_fd < 0 || make_slots(server) != SK_OK ||
        start_daemon(server) != SK_OK) {
        if (server->daemon != NULL)
            MHD_stop_daemon(server->daemon);
        else if (server->listen_fd >= 0)
            (void)close(server->listen_fd);
        free(server->poll);
        free(server->tick);
        free(server->slots);
        free(server);
        return NULL;
    }
    return server;
}

// Clients whose connection the kernel has made already are served: closing the socket would reset them.
static void take_backlog(struct sk_server *server)
{
    struct pollfd backlog = {.fd = server->listen_fd, .events = POLLIN};
    for (int i = 0; i < BACKLOG_RUNS_MAX && server->first_free != NO_SLOT && poll(&backlog, 1, 0) > 0; i++)
        run(server);
}

static void stop_accepting(struct sk_server *server)
{
    if (server->listen_fd < 0)
        return;
    take_backlog(server);
    MHD_socket fd = MHD_quiesce_daemon(server->daemon);
    server->listen_fd = -1;
    run(server); // takes the socket out of the epoll set before it is closed
    if (fd != MHD_INVALID_SOCKET)
        (void)close(fd);
}

void sk_server_drain(struct sk_server *server)
{
    stop_accepting(server);
}

void sk_server_expire(struct sk_server *server)
{
    for (uint32_t i = 0; i < server->used; i++) {
        if (server->slots[i].phase == PHASE_WAITING)
            server->handler.expired(server->handler.arg, &server->slots[i].request);
    }
}

size_t sk_server_waiting(const struct sk_server *server)
{
    return server->waiting;
}

size_t sk_server_sending(const struct sk_server *server)
{
    return server->sending;
}

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

// Connections without a request see an orderly end, all of them before the first is closed. What crosses it is read
// and gets no answer: closing a connection with unread bytes would reset it, and its client might lose the answer
// before.
static void leave_idle(struct sk_server *server)
{
    for (uint32_t i = 0; i < server->used; i++) {
        if (server->slots[i].phase == PHASE_HEADER)
            (void)shutdown(server->slots[i].fd, SHUT_WR);
    }
    run(server);
}

void sk_server_close(struct sk_server *server)
{
    if (server == NULL)
        return;
    stop_accepting(server);
    sk_server_expire(server);
    run(server); // the last answers
    leave_idle(server);
    (void)uv_poll_stop(server->poll);
    uv_close((uv_handle_t *)server->poll, free_handle);
    uv_close((uv_handle_t *)server->tick, free_handle);
    MHD_stop_daemon(server->daemon); // closes the connections, each through on_completed
    for (uint32_t i = 0; i < server->slot_count; i++)
        sk_buf_free(&server->slots[i].request.body);
    free(server->slots);
    free(server);
}
