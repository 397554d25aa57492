#include "redis_once.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis_conn.h"
#include "redis_format.h"

enum { ADDRESS_SIZE = 64, WHY_SIZE = 256 };

struct sk_redis_once {
    uv_loop_t loop;
    uv_timer_t deadline;
    uint32_t timeout_ms;
    struct sk_redis_conn *conn; // NULL: not connected
    bool connected, late;
    const char *unsent; // of the command under way
    size_t unsent_len;
    struct sk_reply *reply;
    char why[WHY_SIZE]; // "": nothing is wrong
};

// Also the connection's `ended`.
static void once_fail(void *owner, const char *why)
{
    struct sk_redis_once *redis = owner;
    (void)snprintf(redis->why, sizeof redis->why, "%s", why);
    sk_redis_conn_close(redis->conn);
    redis->conn = NULL;
}

static void once_on_connected(void *owner)
{
    ((struct sk_redis_once *)owner)->connected = true;
}

static void once_write(void *owner)
{
    struct sk_redis_once *redis = owner;
    size_t taken = sk_redis_conn_write(redis->conn, redis->unsent, redis->unsent_len);
    redis->unsent += taken;
    redis->unsent_len -= taken;
}

static const char *once_on_reply(void *owner, struct sk_reply **reply)
{
    struct sk_redis_once *redis = owner;
    sk_reply_free(redis->reply);
    redis->reply = *reply;
    *reply = NULL;
    return NULL;
}

static const struct sk_redis_conn_events events = {once_on_connected, once_on_reply, once_write, once_fail};

static void once_on_deadline(uv_timer_t *timer)
{
    ((struct sk_redis_once *)timer->data)->late = true;
}

// Runs the loop until the connection is made or a reply is there, or it has failed.
static void once_wait(struct sk_redis_once *redis, bool for_reply)
{
    redis->late = false;
    (void)uv_timer_start(&redis->deadline, once_on_deadline, redis->timeout_ms, 0);
    while (redis->conn != NULL && !redis->late && (for_reply ? redis->reply == NULL : !redis->connected))
        (void)uv_run(&redis->loop, UV_RUN_ONCE);
    (void)uv_timer_stop(&redis->deadline);
    if (redis->conn != NULL && redis->late)
        once_fail(redis, "no answer in time");
}

// The first numeric address of a name. False: there is none.
static bool once_resolve(const char *name, char address[ADDRESS_SIZE])
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    bool good = getaddrinfo(name, NULL, &hints, &found) == 0 &&
                getnameinfo(found->ai_addr, found->ai_addrlen, address, ADDRESS_SIZE, NULL, 0, NI_NUMERICHOST) == 0;
    if (found != NULL)
        freeaddrinfo(found);
    return good;
}

struct sk_redis_once *sk_redis_once_open(const struct sk_redis_host *at, const struct sk_tls_files *files,
                                         uint32_t timeout_ms)
{
    struct sk_redis_once *redis = calloc(1, sizeof *redis);
    if (redis == NULL || uv_loop_init(&redis->loop) != 0) {
        free(redis);
        return NULL;
    }
    (void)uv_timer_init(&redis->loop, &redis->deadline);
    redis->deadline.data = redis;
    redis->timeout_ms = timeout_ms;
    char address[ADDRESS_SIZE];
    const char *why;
    if (at->port != 0 && !once_resolve(at->name, address)) {
        once_fail(redis, "the host name cannot be resolved");
        return redis;
    }
    struct sk_socket_target target = {at->port == 0 ? at->name : address, at->port, files, at->name};
    redis->conn = sk_redis_conn_open(&redis->loop, &target, &events, redis, &why);
    if (redis->conn == NULL)
        once_fail(redis, why);
    else
        once_wait(redis, false);
    return redis;
}

void sk_redis_once_close(struct sk_redis_once *redis)
{
    if (redis == NULL)
        return;
    sk_redis_conn_close(redis->conn);
    uv_close((uv_handle_t *)&redis->deadline, NULL);
    (void)uv_run(&redis->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&redis->loop);
    sk_reply_free(redis->reply);
    free(redis);
}

const char *sk_redis_once_why(const struct sk_redis_once *redis)
{
    return redis->why[0] == '\0' ? NULL : redis->why;
}

int sk_redis_once_fd(const struct sk_redis_once *redis)
{
    return sk_redis_conn_fd(redis->conn);
}

struct sk_reply *sk_redis_once_ask(struct sk_redis_once *redis, int argc, const char **argv)
{
    size_t len = 0;
    if (redis->conn == NULL)
        return NULL;
    char *command = sk_redis_format(argc, argv, NULL, &len);
    if (command == NULL) {
        once_fail(redis, "out of memory");
        return NULL;
    }
    redis->unsent = command;
    redis->unsent_len = len;
    once_write(redis);
    once_wait(redis, true);
    free(command);
    struct sk_reply *reply = redis->reply;
    redis->reply = NULL;
    return reply;
}
