// A response is libmicrohttpd's under another name. Only a stream needs more.
#include "response.h"

#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "connection.h"
#include "log.h"

static struct MHD_Response *response_of_library(struct sk_response *response)
{
    return (struct MHD_Response *)(void *)response;
}

static struct sk_response *response_make(const char *type, const char *body, size_t len,
                                         enum MHD_ResponseMemoryMode mode)
{
    // The library does not write to the buffer; its interface only lacks the const.
    union {
        const void *in;
        void *out;
    } text = {.in = body};
    void *made = MHD_create_response_from_buffer(len, text.out, mode);
    struct sk_response *response = made;
    if (type != NULL)
        sk_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    return response;
}

struct sk_response *sk_response_new(const char *type, const char *body, size_t len)
{
    return response_make(type, body, len, MHD_RESPMEM_MUST_COPY);
}

struct sk_response *sk_response_of(const char *type, const char *body, size_t len)
{
    return response_make(type, body, len, MHD_RESPMEM_PERSISTENT);
}

void sk_response_header(struct sk_response *response, const char *name, const char *value)
{
    if (response != NULL && MHD_add_response_header(response_of_library(response), name, value) != MHD_YES)
        sk_log(SK_LOG_WARN, "response header not added", "name=%s", name);
}

// The library copies values into separate blocks, and reads them when it sends a response. Its interface makes them
// const so that their length stays.
char *sk_response_value(struct sk_response *response, const char *name)
{
    union {
        const char *in;
        char *out;
    } value = {.in = response == NULL ? NULL : MHD_get_response_header(response_of_library(response), name)};
    return value.out;
}

void sk_response_free(struct sk_response *response)
{
    if (response != NULL)
        MHD_destroy_response(response_of_library(response));
}

// ---- streams ----
//
// libmicrohttpd sends the head and asks for the body; then the connection is suspended. From then on the texts go
// straight to the socket, one system call each. Resuming a connection for every text would cost libmicrohttpd a walk
// along all suspended ones, and two epoll_ctl calls. So the body is not chunked, since libmicrohttpd would have to
// write the chunks. It lasts until the connection closes, as both HTTP/1.1 and HTTP/1.0 allow. To end it, the
// connection is resumed, and libmicrohttpd closes it.
//
// A client that reads slowly fills a small buffer of the kernel, then at most one text here. It is sent nothing else
// until it has taken both.

enum { BLOCK_SIZE = 512, SOCKET_BUFFER = 4096 }; // which the kernel doubles

static ssize_t stream_open(struct sk_connection *connection)
{
    int on = 1, off = 0, size = SOCKET_BUFFER;
    connection->stream_open = true;
    if (connection->pool->draining)
        return MHD_CONTENT_READER_END_OF_STREAM;
    (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off);
    (void)setsockopt(connection->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    sk_connection_move(connection, SK_PHASE_STREAMING, 0);
    sk_connection_suspend(connection);
    connection->pool->handler->streams(connection->pool->handler->arg, &connection->request);
    return 0;
}

// Called when the head was sent, and again to end, after the connection was resumed.
static ssize_t stream_on_read(void *arg, uint64_t pos, char *out, size_t room)
{
    struct sk_connection *connection = arg;
    struct sk_buf *unsent = &connection->request.body;
    size_t n = unsent->len - connection->unsent_at;
    (void)pos;
    if (connection->phase == SK_PHASE_GONE)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (!connection->stream_open)
        return stream_open(connection);
    if (n == 0)
        return MHD_CONTENT_READER_END_OF_STREAM;
    n = n < room ? n : room;
    memcpy(out, unsent->data + connection->unsent_at, n);
    connection->unsent_at += n;
    return (ssize_t)n;
}

struct sk_response *sk_stream_new(struct sk_request *request)
{
    struct sk_connection *connection = sk_connection_of(request);
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_SIZE, stream_on_read, connection, NULL);
    bool made = response != NULL &&
                MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END) == MHD_YES &&
                MHD_add_response_header(response, "Content-Type", "text/event-stream") == MHD_YES &&
                MHD_add_response_header(response, "Cache-Control", "no-store") == MHD_YES &&
                MHD_add_response_header(response, "X-Accel-Buffering", "no") == MHD_YES; // nginx would hold events back
    sk_buf_clear(&request->body); // for text that the client takes later
    connection->unsent_at = 0;
    connection->stream_open = false;
    if (!made && response != NULL)
        MHD_destroy_response(response);
    return made ? (struct sk_response *)(void *)response : NULL;
}

// Returns how much of the text the socket takes. Drops a failed connection.
static size_t stream_write(struct sk_connection *connection, const char *text, size_t len)
{
    ssize_t n = send(connection->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        sk_connection_drop(connection);
    else if (n == (ssize_t)len && connection->phase == SK_PHASE_STUCK)
        sk_connection_move(connection, SK_PHASE_STREAMING, 0);
    return n < 0 ? 0 : (size_t)n;
}

// Sends the rest of a text that was taken in part. Returns whether all of it is sent, and more may be.
static bool stream_flush(struct sk_connection *connection)
{
    struct sk_buf *unsent = &connection->request.body;
    size_t left = unsent->len - connection->unsent_at;
    if (left > 0) {
        size_t sent = stream_write(connection, unsent->data + connection->unsent_at, left);
        connection->unsent_at += sent;
        if (sent < left)
            return false;
        sk_buf_clear(unsent);
        connection->unsent_at = 0;
    }
    return connection->phase == SK_PHASE_STREAMING || connection->phase == SK_PHASE_STUCK;
}

bool sk_stream_send(struct sk_request *request, const char *text, size_t len)
{
    struct sk_connection *connection = sk_connection_of(request);
    if (!stream_flush(connection))
        return false;
    size_t sent = stream_write(connection, text, len);
    if (sent == len)
        return true;
    if (connection->phase == SK_PHASE_STREAMING)
        sk_connection_move(connection, SK_PHASE_STUCK, (uint64_t)connection->pool->options->request_timeout_ms);
    if (sent == 0 || connection->phase != SK_PHASE_STUCK)
        return false;
    connection->unsent_at = 0;
    sk_buf_add(&request->body, text + sent, len - sent);
    if (!request->body.failed)
        return true;
    sk_connection_drop(connection); // never send half a text
    return false;
}

void sk_stream_end(struct sk_request *request)
{
    struct sk_connection *connection = sk_connection_of(request);
    sk_connection_move(connection, SK_PHASE_RESUMING, (uint64_t)connection->pool->options->request_timeout_ms);
    sk_connection_resume_soon(connection);
}
