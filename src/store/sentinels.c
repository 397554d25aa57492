// Each sentinel has a seat: a link (link.h) that is ready once the sentinel has answered. A seat whose link is lost
// says nothing. The master that was agreed on stays until more than half name another one: sentinels that are away are
// no reason to leave a Redis that works.
//
// What a sentinel sends is not trusted: its replies are bounded in bytes and time, and a host name has plain
// characters.
#include "sentinels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "link.h"
#include "log.h"
#include "redis_link.h"
#include "text.h"

enum { ASK_MS = 200, REPLY_MAX = 4096, WHY_SIZE = SK_REDIS_HOST_SIZE + 256 };

struct seat {
    struct sk_sentinels *sentinels;
    struct sk_link *link; // owned, as the next two
    struct sk_socket *socket;
    struct sk_reader *reader;
    const struct sk_redis_host *at;
    struct sk_redis_host *named; // the master, in its last answer; port 0: none
    size_t replies_left;         // of what was sent
    uint64_t asked_ms;
    size_t received; // bytes since then
    bool logged;     // why it is away
};

struct sk_sentinels {
    struct sk_sentinels_options options;
    struct seat seats[SK_SENTINELS_MAX];
    struct sk_redis_host named[SK_SENTINELS_MAX]; // by the seats
    size_t open;                                  // links
    struct sk_redis_host master;                  // no name: none was agreed on yet
};

static void sentinels_connect(void *owner, const char *address);
static const char *sentinels_tick(void *owner);
static void sentinels_drop(void *owner, const char *why);
static void sentinels_free(void *owner);
static void sentinels_on_connected(void *owner);
static void sentinels_on_bytes(void *owner, const char *bytes, size_t n);
static void sentinels_on_writable(void *owner);
static bool sentinels_ask(struct seat *seat);
static void sentinels_on_reply(struct seat *seat, const struct sk_reply *reply);
static void sentinels_judge(struct sk_sentinels *sentinels);

static const struct sk_link_steps steps = {sentinels_connect, sentinels_tick, sentinels_drop, sentinels_free};
static const struct sk_socket_events events = {sentinels_on_connected, sentinels_on_bytes, sentinels_on_writable,
                                               sentinels_drop};

// ---- opening and closing ----

struct sk_sentinels *sk_sentinels_open(const struct sk_sentinels_options *options)
{
    struct sk_sentinels *sentinels = calloc(1, sizeof *sentinels);
    if (sentinels == NULL)
        return NULL;
    sentinels->options = *options;
    for (size_t i = 0; i < options->url->sentinel_count; i++) {
        struct seat *seat = &sentinels->seats[i];
        *seat = (struct seat){.sentinels = sentinels, .at = &options->url->sentinels[i], .named = &sentinels->named[i]};
        const struct sk_link_options link = {
            options->loop, seat->at->name, options->timeout_ms, NULL, NULL, &steps, seat,
        };
        seat->link = sk_link_open(&link);
        sentinels->open += seat->link != NULL; // one without memory is a sentinel that is away
    }
    if (sentinels->open > 0)
        return sentinels;
    free(sentinels);
    return NULL;
}

void sk_sentinels_close(struct sk_sentinels *sentinels)
{
    for (size_t i = 0; i < SK_SENTINELS_MAX; i++) {
        struct seat *seat = &sentinels->seats[i];
        if (seat->link == NULL)
            continue;
        sk_socket_close(seat->socket);
        seat->socket = NULL;
        sk_reader_close(seat->reader);
        seat->reader = NULL;
        sk_link_close(seat->link);
    }
}

// A seat's link has been freed.
static void sentinels_free(void *owner)
{
    struct sk_sentinels *sentinels = ((struct seat *)owner)->sentinels;
    if (--sentinels->open > 0)
        return;
    const struct sk_sentinels_options options = sentinels->options;
    free(sentinels);
    options.closed(options.arg);
}

// ---- a seat ----

static void sentinels_connect(void *owner, const char *address)
{
    struct seat *seat = owner;
    const struct sk_sentinels_options *options = &seat->sentinels->options;
    const struct sk_socket_target target = {address, seat->at->port, options->url->tls ? options->tls : NULL,
                                            seat->at->name};
    const char *why = "out of memory";
    seat->replies_left = 0;
    seat->reader = sk_reader_open();
    if (seat->reader != NULL)
        seat->socket = sk_socket_open(options->loop, &target, &events, seat, &why);
    if (seat->socket == NULL)
        sentinels_drop(seat, why);
}

// A new connection, or one that has answered all, takes a few hundred bytes at once. False: this one does not.
static bool sentinels_send(struct seat *seat, int argc, const char **argv)
{
    size_t len = 0;
    char *command = sk_redis_format(argc, argv, NULL, &len);
    bool sent = command != NULL && sk_socket_write(seat->socket, command, len) == len;
    seat->replies_left++;
    free(command);
    return sent;
}

static void sentinels_on_connected(void *owner)
{
    struct seat *seat = owner;
    const char *password = seat->sentinels->options.password, *auth[] = {"AUTH", password};
    sk_link_move(seat->link, SK_LINK_PREPARING);
    if ((password != NULL && !sentinels_send(seat, 2, auth)) || !sentinels_ask(seat))
        sentinels_drop(seat, "it takes no bytes");
}

static bool sentinels_ask(struct seat *seat)
{
    const char *argv[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", seat->sentinels->options.url->master};
    seat->asked_ms = sk_monotonic_ms();
    seat->received = 0;
    return sentinels_send(seat, 3, argv);
}

static const char *sentinels_tick(void *owner)
{
    struct seat *seat = owner;
    uint64_t now = sk_monotonic_ms();
    if (sk_link_state(seat->link) == SK_LINK_CONNECTING)
        return NULL;
    if (seat->replies_left > 0)
        return now >= seat->asked_ms + seat->sentinels->options.timeout_ms ? "reply overdue" : NULL;
    return now >= seat->asked_ms + ASK_MS && !sentinels_ask(seat) ? "it takes no bytes" : NULL;
}

static void sentinels_on_writable(void *owner)
{
    (void)owner; // a seat whose bytes were not taken at once was dropped
}

static void sentinels_on_bytes(void *owner, const char *bytes, size_t n)
{
    struct seat *seat = owner;
    const struct sk_socket *socket = seat->socket;
    seat->received += n;
    sk_reader_feed(seat->reader, bytes, n);
    while (seat->socket == socket) { // on_master may close everything
        struct sk_reply *reply;
        const char *why;
        bool good = sk_reader_next(seat->reader, &reply, &why);
        if (good && reply == NULL && seat->received <= REPLY_MAX)
            return;
        if (!good)
            sentinels_drop(seat, why);
        else if (reply == NULL)
            sentinels_drop(seat, "its reply is too long");
        else if (seat->replies_left == 0)
            sentinels_drop(seat, "it sends what was not asked for");
        else
            sentinels_on_reply(seat, reply);
        sk_reply_free(reply);
    }
}

bool sk_sentinels_read(const struct sk_reply *reply, struct sk_redis_host *master)
{
    const char *host = sk_reply_text(sk_reply_at(reply, 0), NULL), *port = sk_reply_text(sk_reply_at(reply, 1), NULL);
    uint64_t number = 0;
    *master = (struct sk_redis_host){0};
    return host != NULL && port != NULL && sk_text_number(port, UINT16_MAX, &number) &&
           sk_redis_host_read(host, strlen(host), number, master);
}

// The reply to AUTH, or the master's address: nil if the sentinel does not know the name.
static void sentinels_on_reply(struct seat *seat, const struct sk_reply *reply)
{
    const char *error = sk_reply_error(reply);
    if (error != NULL) {
        sentinels_drop(seat, error);
        return;
    }
    if (--seat->replies_left > 0)
        return;
    (void)sk_sentinels_read(reply, seat->named); // one that names none has no vote
    seat->logged = false;
    if (sk_link_state(seat->link) == SK_LINK_PREPARING)
        sk_link_move(seat->link, SK_LINK_READY);
    sentinels_judge(seat->sentinels);
}

// Also the socket's `ended`. Logs the first reason since the sentinel has last answered, not each attempt's.
static void sentinels_drop(void *owner, const char *why)
{
    struct seat *seat = owner;
    if (!seat->logged) {
        char text[WHY_SIZE];
        (void)snprintf(text, sizeof text, "%s:%d: %s", seat->at->name, seat->at->port, why);
        sk_log_text(SK_LOG_WARN, "a sentinel does not answer", "reason", text);
        seat->logged = true;
    }
    *seat->named = (struct sk_redis_host){0};
    sk_socket_close(seat->socket);
    seat->socket = NULL;
    sk_reader_close(seat->reader);
    seat->reader = NULL;
    sk_link_move(seat->link, SK_LINK_DOWN);
}

// ---- what they agree on ----

static bool sentinels_same(const struct sk_redis_host *a, const struct sk_redis_host *b)
{
    return a->port == b->port && strcmp(a->name, b->name) == 0;
}

const struct sk_redis_host *sk_sentinels_most_named(const struct sk_redis_host *named, size_t n, size_t *votes)
{
    const struct sk_redis_host *most = NULL;
    *votes = 0;
    for (size_t i = 0; i < n; i++) {
        size_t same = 0;
        for (size_t k = 0; named[i].port != 0 && k < n; k++)
            same += sentinels_same(&named[i], &named[k]);
        if (same <= *votes)
            continue;
        most = &named[i];
        *votes = same;
    }
    return most;
}

static void sentinels_judge(struct sk_sentinels *sentinels)
{
    size_t votes, all = sentinels->options.url->sentinel_count;
    const struct sk_redis_host *named = sk_sentinels_most_named(sentinels->named, all, &votes);
    if (2 * votes <= all || sentinels_same(named, &sentinels->master))
        return;
    sentinels->master = *named;
    sk_log(SK_LOG_INFO, "the sentinels name the master", "host=%s port=%d", named->name, named->port);
    sentinels->options.on_master(sentinels->options.arg, &sentinels->master);
}

const char *sk_sentinels_why(const struct sk_sentinels *sentinels)
{
    size_t all = sentinels->options.url->sentinel_count, known = 0;
    for (size_t i = 0; i < all; i++)
        known += sentinels->named[i].port != 0;
    if (known == 0)
        return "no sentinel names a master";
    return 2 * known > all ? "the sentinels disagree" : "too few sentinels answer";
}
