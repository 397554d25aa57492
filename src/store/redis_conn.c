#include "redis_conn.h"

#include <stdlib.h>

struct sk_redis_conn {
    struct sk_socket *socket; // owned, as the reader; NULL: closed
    struct sk_reader *reader;
    const struct sk_redis_conn_events *events;
    void *owner;
    size_t received, most; // bytes of replies; most 0: any number
    bool reading;          // the memory is needed until that has ended
};

static void conn_on_connected(void *arg)
{
    const struct sk_redis_conn *conn = arg;
    conn->events->connected(conn->owner);
}

static void conn_on_writable(void *arg)
{
    const struct sk_redis_conn *conn = arg;
    conn->events->writable(conn->owner);
}

static void conn_on_ended(void *arg, const char *why)
{
    const struct sk_redis_conn *conn = arg;
    conn->events->ended(conn->owner, why);
}

static void conn_free(struct sk_redis_conn *conn)
{
    sk_reader_close(conn->reader);
    free(conn);
}

// The next reply, and the end of the connection if there is a reason. False: there is no whole reply.
static bool conn_read(struct sk_redis_conn *conn)
{
    struct sk_reply *reply;
    const char *why;
    bool sound = sk_reader_next(conn->reader, &reply, &why), whole = reply != NULL;
    if (whole)
        why = conn->events->replied(conn->owner, &reply);
    else if (sound)
        why = conn->most > 0 && conn->received > conn->most ? "its reply is too long" : NULL;
    if (why != NULL && conn->socket != NULL)
        conn->events->ended(conn->owner, why);
    sk_reply_free(reply);
    return whole;
}

static void conn_on_bytes(void *arg, const char *bytes, size_t n)
{
    struct sk_redis_conn *conn = arg;
    conn->reading = true;
    conn->received += n;
    sk_reader_feed(conn->reader, bytes, n);
    while (conn->socket != NULL && conn_read(conn))
        continue;
    conn->reading = false;
    if (conn->socket == NULL)
        conn_free(conn);
}

struct sk_redis_conn *sk_redis_conn_open(uv_loop_t *loop, const struct sk_socket_target *target,
                                         const struct sk_redis_conn_events *events, void *owner, const char **why)
{
    static const struct sk_socket_events socket = {conn_on_connected, conn_on_bytes, conn_on_writable, conn_on_ended};
    struct sk_redis_conn *conn = calloc(1, sizeof *conn);
    *why = "out of memory";
    if (conn == NULL)
        return NULL;
    conn->events = events;
    conn->owner = owner;
    conn->reader = sk_reader_open();
    if (conn->reader != NULL)
        conn->socket = sk_socket_open(loop, target, &socket, conn, why);
    if (conn->socket != NULL)
        return conn;
    conn_free(conn);
    return NULL;
}

void sk_redis_conn_close(struct sk_redis_conn *conn)
{
    if (conn == NULL || conn->socket == NULL)
        return;
    sk_socket_close(conn->socket);
    conn->socket = NULL;
    if (!conn->reading)
        conn_free(conn);
}

void sk_redis_conn_limit(struct sk_redis_conn *conn, size_t most_bytes)
{
    conn->received = 0;
    conn->most = most_bytes;
}

size_t sk_redis_conn_write(struct sk_redis_conn *conn, const char *bytes, size_t n)
{
    return sk_socket_write(conn->socket, bytes, n);
}

int sk_redis_conn_fd(const struct sk_redis_conn *conn)
{
    return sk_socket_fd(conn->socket);
}
