#include "asking.h"

#include <stdlib.h>

#include "clock.h"
#include "link.h"
#include "redis_conn.h"
#include "redis_format.h"

struct sk_asking {
    struct sk_asking_options options;
    struct sk_link *link; // owned, as the next one
    struct sk_redis_conn *conn;
    unsigned left; // replies of what was sent
    uint64_t asked_ms;
};

static bool asking_begin(struct sk_asking *asking)
{
    asking->asked_ms = sk_monotonic_ms();
    sk_redis_conn_limit(asking->conn, asking->options.most_bytes);
    return asking->options.ask(asking, asking->options.arg);
}

static void asking_disconnect(struct sk_asking *asking)
{
    sk_redis_conn_close(asking->conn);
    asking->conn = NULL;
}

// Also the connection's `ended`.
static void asking_drop(void *owner, const char *why)
{
    struct sk_asking *asking = owner;
    asking->options.dropped(asking->options.arg, why);
    asking_disconnect(asking);
    sk_link_move(asking->link, SK_LINK_DOWN);
}

static void asking_on_connected(void *owner)
{
    struct sk_asking *asking = owner;
    const char *user = asking->options.user, *password = asking->options.password;
    const char *auth[] = {"AUTH", user == NULL ? password : user, password};
    sk_link_move(asking->link, SK_LINK_PREPARING);
    if ((password != NULL && !sk_asking_send(asking, 2 + (user != NULL), auth)) || !asking_begin(asking))
        asking_drop(asking, "the socket is full");
}

static const char *asking_on_reply(void *owner, struct sk_reply **taken)
{
    struct sk_asking *asking = owner;
    const struct sk_reply *reply = *taken;
    const struct sk_redis_conn *conn = asking->conn;
    if (asking->left == 0)
        return "it sends what was not asked for";
    asking->left--;
    sk_reply_log_denial(reply);
    const char *why = sk_reply_error(reply);
    if (why == NULL)
        why = asking->options.on_reply(asking->options.arg, asking->left, reply);
    if (asking->conn != conn)
        return NULL; // it was closed
    if (why == NULL && asking->left == 0 && sk_link_state(asking->link) == SK_LINK_PREPARING)
        sk_link_move(asking->link, SK_LINK_READY);
    return why;
}

static void asking_on_writable(void *owner)
{
    (void)owner; // a connection whose bytes were not taken at once was dropped
}

static const struct sk_redis_conn_events events = {asking_on_connected, asking_on_reply, asking_on_writable,
                                                   asking_drop};

static void asking_connect(void *owner, const char *address)
{
    struct sk_asking *asking = owner;
    const struct sk_asking_options *options = &asking->options;
    const struct sk_socket_target target = {address, options->at->port, options->tls, options->at->name};
    const char *why;
    asking->left = 0;
    asking->conn = sk_redis_conn_open(options->loop, &target, &events, asking, &why);
    if (asking->conn == NULL)
        asking_drop(asking, why);
}

static const char *asking_tick(void *owner)
{
    struct sk_asking *asking = owner;
    uint64_t now = sk_monotonic_ms();
    uint32_t pause_ms = asking->options.tick(asking->options.arg);
    if (sk_link_state(asking->link) == SK_LINK_CONNECTING)
        return NULL;
    if (asking->left > 0)
        return now >= asking->asked_ms + asking->options.timeout_ms ? "reply overdue" : NULL;
    return now >= asking->asked_ms + pause_ms && !asking_begin(asking) ? "the socket is full" : NULL;
}

static void asking_free(void *owner)
{
    struct sk_asking *asking = owner;
    const struct sk_asking_options options = asking->options;
    free(asking);
    options.freed(options.arg);
}

static const struct sk_link_steps steps = {asking_connect, asking_tick, asking_drop, asking_free};

struct sk_asking *sk_asking_open(const struct sk_asking_options *options)
{
    struct sk_asking *asking = calloc(1, sizeof *asking);
    if (asking == NULL)
        return NULL;
    asking->options = *options;
    const struct sk_link_options link = {
        options->loop, options->at->name, options->timeout_ms, NULL, NULL, &steps, asking,
    };
    asking->link = sk_link_open(&link);
    if (asking->link != NULL)
        return asking;
    free(asking);
    return NULL;
}

void sk_asking_close(struct sk_asking *asking)
{
    asking_disconnect(asking);
    sk_link_close(asking->link);
}

void sk_asking_next(struct sk_asking *asking, const struct sk_redis_host *at, bool at_once)
{
    asking->options.at = at;
    sk_link_next_host(asking->link, at->name, at_once);
}

// A new connection, or one that has answered all, takes some hundred bytes at once. False: this one does not.
bool sk_asking_send(struct sk_asking *asking, int argc, const char **argv)
{
    size_t len = 0;
    char *command = sk_redis_format(argc, argv, NULL, &len);
    bool sent = command != NULL && sk_redis_conn_write(asking->conn, command, len) == len;
    asking->left++;
    free(command);
    return sent;
}
