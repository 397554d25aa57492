// Each sentinel has a seat, with a connection of its own (asking.h). A seat whose connection is lost says nothing. The
// master that was agreed on stays until more than half name another one: sentinels that are away are no reason to leave
// a Redis that works.
//
// What a sentinel sends is not trusted: a host name has plain characters.
#include "sentinels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asking.h"
#include "log.h"
#include "text.h"

enum { ASK_MS = 200, REPLY_MAX = 4096, WHY_SIZE = SK_REDIS_HOST_SIZE + 256 };

struct seat {
    struct sk_sentinels *sentinels;
    struct sk_asking *asking; // owned
    const struct sk_redis_host *at;
    struct sk_redis_host *named; // the master, in its last answer; port 0: none
};

struct sk_sentinels {
    struct sk_sentinels_options options;
    struct seat seats[SK_SENTINELS_MAX];
    struct sk_redis_host named[SK_SENTINELS_MAX]; // by the seats
    size_t open;                                  // links
    struct sk_redis_host master;                  // no name: none was agreed on yet
};

bool sk_sentinels_read(const struct sk_reply *reply, struct sk_redis_host *master)
{
    const char *host = sk_reply_text(sk_reply_at(reply, 0), NULL), *port = sk_reply_text(sk_reply_at(reply, 1), NULL);
    uint64_t number = 0;
    *master = (struct sk_redis_host){0};
    return host != NULL && port != NULL && sk_text_number(port, UINT16_MAX, &number) &&
           sk_redis_host_read(host, strlen(host), number, master);
}

const struct sk_redis_host *sk_sentinels_most_named(const struct sk_redis_host *named, size_t n, size_t *votes)
{
    const struct sk_redis_host *most = NULL;
    *votes = 0;
    for (size_t i = 0; i < n; i++) {
        size_t same = 0;
        for (size_t k = 0; named[i].port != 0 && k < n; k++)
            same += sk_redis_host_same(&named[i], &named[k]);
        if (same <= *votes)
            continue;
        most = &named[i];
        *votes = same;
    }
    return most;
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

static void sentinels_judge(struct sk_sentinels *sentinels)
{
    size_t votes, all = sentinels->options.url->sentinel_count;
    const struct sk_redis_host *named = sk_sentinels_most_named(sentinels->named, all, &votes);
    if (2 * votes <= all || sk_redis_host_same(named, &sentinels->master))
        return;
    sentinels->master = *named;
    sk_log(SK_LOG_INFO, "the sentinels name the master", "host=%s port=%d", named->name, named->port);
    sentinels->options.on_master(sentinels->options.arg, &sentinels->master);
}

static bool sentinels_ask(struct sk_asking *asking, void *arg)
{
    const struct seat *seat = arg;
    const char *argv[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", seat->sentinels->options.url->master};
    return sk_asking_send(asking, 3, argv);
}

static uint32_t sentinels_tick(void *arg)
{
    (void)arg;
    return ASK_MS;
}

// The reply to AUTH, or the master's address: nil if the sentinel does not know the name.
static const char *sentinels_on_reply(void *arg, unsigned left, const struct sk_reply *reply)
{
    struct seat *seat = arg;
    if (left > 0)
        return NULL;
    (void)sk_sentinels_read(reply, seat->named); // one that names none has no vote
    sentinels_judge(seat->sentinels);
    return NULL;
}

static void sentinels_dropped(void *arg, const char *why)
{
    struct seat *seat = arg;
    char text[WHY_SIZE];
    (void)snprintf(text, sizeof text, "%s:%d: %s", seat->at->name, seat->at->port, why);
    sk_log_repeat(SK_LOG_WARN, "a sentinel does not answer", "reason", text);
    *seat->named = (struct sk_redis_host){0};
}

static void sentinels_freed(void *arg)
{
    struct sk_sentinels *sentinels = ((struct seat *)arg)->sentinels;
    SK_ASSERT(sentinels->open > 0);
    if (--sentinels->open > 0)
        return;
    const struct sk_sentinels_options options = sentinels->options;
    free(sentinels);
    options.closed(options.arg);
}

struct sk_sentinels *sk_sentinels_open(const struct sk_sentinels_options *options)
{
    struct sk_sentinels *sentinels = calloc(1, sizeof *sentinels);
    if (sentinels == NULL)
        return NULL;
    sentinels->options = *options;
    for (size_t i = 0; i < options->url->sentinel_count; i++) {
        struct seat *seat = &sentinels->seats[i];
        *seat = (struct seat){.sentinels = sentinels, .at = &options->url->sentinels[i], .named = &sentinels->named[i]};
        const struct sk_asking_options asking = {.loop = options->loop,
                                                 .at = seat->at,
                                                 .tls = options->url->tls ? options->tls : NULL,
                                                 .password = options->password,
                                                 .timeout_ms = options->timeout_ms,
                                                 .most_bytes = REPLY_MAX,
                                                 .ask = sentinels_ask,
                                                 .tick = sentinels_tick,
                                                 .on_reply = sentinels_on_reply,
                                                 .dropped = sentinels_dropped,
                                                 .freed = sentinels_freed,
                                                 .arg = seat};
        seat->asking = sk_asking_open(&asking);
        sentinels->open += seat->asking != NULL; // one without memory is a sentinel that is away
    }
    if (sentinels->open > 0)
        return sentinels;
    free(sentinels);
    return NULL;
}

void sk_sentinels_close(struct sk_sentinels *sentinels)
{
    for (size_t i = 0; i < SK_SENTINELS_MAX; i++) {
        if (sentinels->seats[i].asking != NULL)
            sk_asking_close(sentinels->seats[i].asking);
    }
}
