// The second implementation of socket.h, and of uv_getaddrinfo(): what the links to Redis stand on. redis_link.c,
// asking.c and what they use are the service's. Bytes travel by whole commands, each on its own way (net.h).
#include "socket.h"

#include <netdb.h>
#include <string.h>

#include "instance.h"
#include "net.h"

enum { FULL_PER_MILLE = 1, FULL_MS = 3, RESOLVED_MS = 2 };

// It belongs to the world: an instance that is killed leaves it.
struct sk_socket {
    struct net_conn *conn; // NULL: it has ended
    const struct sk_socket_events *events;
    void *owner;
    struct instance *instance;
    char *bytes; // of a command that is not whole yet
    size_t len, room;
    bool closed;
};

static void socket_on_connected(void *link)
{
    const struct sk_socket *sock = link;
    sock->events->connected(sock->owner);
}

static void socket_on_lost(void *link, const char *why)
{
    struct sk_socket *sock = link;
    sock->conn = NULL;
    sock->events->ended(sock->owner, why);
}

static void socket_on_answer(void *link, struct net_packet *packet)
{
    const struct sk_socket *sock = link;
    sock->events->received(sock->owner, packet->bytes, packet->len);
    net_packet_free(packet);
}

struct sk_socket *sk_socket_open(uv_loop_t *loop, const struct sk_socket_target *target,
                                 const struct sk_socket_events *events, void *owner, const char **why)
{
    static const struct net_events of_net = {socket_on_connected, socket_on_lost, socket_on_answer};
    struct sk_socket *sock = world_alloc(sizeof *sock);
    (void)loop;
    (void)why;
    *sock = (struct sk_socket){.events = events, .owner = owner, .instance = instance_running()};
    sock->conn = net_connect(servers_at(target->address), &of_net, sock);
    return sock;
}

void sk_socket_close(struct sk_socket *sock)
{
    if (sock == NULL)
        return;
    sock->closed = true;
    net_leave(sock->conn);
}

static void socket_keep(struct sk_socket *sock, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sock->bytes = world_grow(sock->bytes, sock->len, &sock->room, 1);
        sock->bytes[sock->len++] = bytes[i];
    }
}

static void socket_send_whole(struct sk_socket *sock)
{
    struct command command;
    size_t sent = 0;
    for (; command_read(sock->bytes + sent, sock->len - sent, &command); sent += command.len) {
        struct net_packet *packet = net_packet_new(NULL);
        packet->bytes = memcpy(world_alloc(command.len), sock->bytes + sent, command.len);
        packet->len = command.len;
        net_send(sock->conn, packet);
    }
    memmove(sock->bytes, sock->bytes + sent, sock->len - sent);
    sock->len -= sent;
}

static void socket_be_writable(void *arg)
{
    const struct sk_socket *sock = arg;
    if (!sock->closed && sock->conn != NULL)
        sock->events->writable(sock->owner);
}

static void socket_on_room(void *arg)
{
    const struct sk_socket *sock = arg;
    (void)instance_run(sock->instance, socket_be_writable, arg);
}

size_t sk_socket_write(struct sk_socket *sock, const char *bytes, size_t n)
{
    size_t takes = world_chance(FULL_PER_MILLE) ? n / 2 : n;
    if (sock->conn == NULL || n == 0)
        return 0;
    socket_keep(sock, bytes, takes);
    socket_send_whole(sock);
    if (takes < n)
        world_at(world_now() + (uint64_t)FULL_MS * MS, socket_on_room, sock);
    return takes;
}

int sk_socket_fd(const struct sk_socket *sock)
{
    (void)sock;
    return -1;
}

// ---- names: all are addresses ----

struct lookup {
    uv_loop_t *loop; // which it keeps alive
    uv_getaddrinfo_t *request;
    uv_getaddrinfo_cb done;
    struct instance *instance;
};

static void socket_resolve(void *arg)
{
    const struct lookup *lookup = arg;
    lookup->loop->active_reqs.count--;
    lookup->done(lookup->request, 0, lookup->request->addrinfo);
}

static void socket_on_resolved(void *arg)
{
    (void)instance_run(((const struct lookup *)arg)->instance, socket_resolve, arg);
}

int uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *request, uv_getaddrinfo_cb done, const char *node,
                   const char *service, const struct addrinfo *hints)
{
    struct addrinfo numeric = *hints;
    struct lookup *lookup = world_alloc(sizeof *lookup);
    numeric.ai_flags |= AI_NUMERICHOST;
    request->type = UV_UNKNOWN_REQ; // uv_cancel() finds nothing to do
    if (getaddrinfo(node, service, &numeric, &request->addrinfo) != 0)
        return UV_EAI_NONAME;
    loop->active_reqs.count++;
    *lookup = (struct lookup){loop, request, done, instance_running()};
    world_at(world_now() + (uint64_t)RESOLVED_MS * MS, socket_on_resolved, lookup);
    return 0;
}
