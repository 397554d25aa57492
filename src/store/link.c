// One timer drives all waiting: the next attempt after a loss (back-off with jitter, so that instances do not come back
// together), the time limit of connecting, and the owner's own deadlines.
//
// Memory is freed in two steps, because libuv finishes the timer and a lookup at different times. The last one to
// finish frees link and owner.
#include "link.h"

#include <netdb.h>
#include <stddef.h>
#include <stdlib.h>

#include "backoff.h"
#include "clock.h"
#include "status.h"

enum { TICK_MS = 50, PAUSE_MS = 4 * TICK_MS, RETRY_FIRST_MS = 50, RETRY_MOST_MS = 2000 };

struct sk_link {
    struct sk_link_options options;
    enum sk_link_state state;
    uint64_t since_ms; // when the state began; for connecting, when the lookup ended
    struct sk_backoff backoff;
    uint64_t retry_at_ms;
    bool at_once; // the next attempt does not wait for it
    uint64_t lost;
    uv_getaddrinfo_t lookup;
    bool resolving;
    uv_timer_t tick;
    uint64_t ticked_ms;
    bool postponed; // the last tick judged nothing
    bool tick_closed;
};

void sk_link_move(struct sk_link *link, enum sk_link_state state)
{
    static const bool allowed[SK_LINK_CLOSED + 1][SK_LINK_CLOSED + 1] = {
        [SK_LINK_DOWN] = {[SK_LINK_CONNECTING] = true, [SK_LINK_CLOSED] = true},
        [SK_LINK_CONNECTING] = {[SK_LINK_PREPARING] = true, [SK_LINK_DOWN] = true, [SK_LINK_CLOSED] = true},
        [SK_LINK_PREPARING] = {[SK_LINK_READY] = true, [SK_LINK_DOWN] = true, [SK_LINK_CLOSED] = true},
        [SK_LINK_READY] = {[SK_LINK_DOWN] = true, [SK_LINK_CLOSED] = true},
    };
    SK_ASSERT(allowed[link->state][state]);
    bool was_ready = link->state == SK_LINK_READY, is_ready = state == SK_LINK_READY;
    link->state = state;
    link->since_ms = sk_monotonic_ms();
    link->lost += was_ready && state == SK_LINK_DOWN;
    if (is_ready)
        sk_backoff_reset(&link->backoff);
    if (was_ready != is_ready && link->options.on_change != NULL)
        link->options.on_change(link->options.arg, is_ready);
}

static void link_free(struct sk_link *link)
{
    if (!link->tick_closed || link->resolving)
        return;
    link->options.steps->free(link->options.owner);
    free(link);
}

// The host is resolved without blocking the loop. Both client libraries would block on the lookup, and a slow name
// server would stop every sale.
static void link_on_resolved(uv_getaddrinfo_t *lookup, int status, struct addrinfo *found)
{
    struct sk_link *link = lookup->data;
    const struct sk_link_options *options = &link->options;
    char address[64];
    bool known = status == 0 && found != NULL &&
                 getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST) == 0;
    uv_freeaddrinfo(found);
    link->resolving = false;
    link->since_ms = sk_monotonic_ms();
    if (link->state == SK_LINK_CLOSED)
        link_free(link);
    else if (!known)
        options->steps->drop(options->owner, "the host name cannot be resolved");
    else
        options->steps->connect(options->owner, address);
}

static void link_connect(struct sk_link *link)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    const struct sk_link_options *options = &link->options;
    if (!link->at_once)
        link->retry_at_ms = sk_monotonic_ms() + sk_backoff_next(&link->backoff);
    link->at_once = false;
    sk_link_move(link, SK_LINK_CONNECTING);
    if (options->host == NULL) {
        options->steps->connect(options->owner, NULL);
        return;
    }
    link->lookup.data = link;
    link->resolving = uv_getaddrinfo(options->loop, &link->lookup, link_on_resolved, options->host, NULL, &hints) == 0;
    if (!link->resolving)
        options->steps->drop(options->owner, "the host name cannot be resolved");
}

static void link_on_tick(uv_timer_t *timer)
{
    struct sk_link *link = timer->data;
    const struct sk_link_options *options = &link->options;
    uint64_t now = sk_monotonic_ms();
    if (link->state == SK_LINK_DOWN && (link->at_once || now >= link->retry_at_ms))
        link_connect(link);
    // A tick that comes far too late follows a pause of the process. Replies that arrived meanwhile wait in the socket,
    // and the loop runs timers before it reads. So the next tick judges: once, since on a slow machine every tick may
    // be late.
    link->postponed = !link->postponed && now >= link->ticked_ms + PAUSE_MS;
    link->ticked_ms = now;
    if (link->postponed || link->state == SK_LINK_DOWN || link->resolving)
        return;
    const char *why = options->steps->tick(options->owner);
    bool opening = link->state == SK_LINK_CONNECTING || link->state == SK_LINK_PREPARING;
    if (why == NULL && opening && now >= link->since_ms + options->timeout_ms)
        why = "connecting takes too long";
    if (why != NULL)
        options->steps->drop(options->owner, why);
}

struct sk_link *sk_link_open(const struct sk_link_options *options)
{
    struct sk_link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return NULL;
    link->options = *options;
    link->backoff = (struct sk_backoff){.first_ms = RETRY_FIRST_MS, .most_ms = RETRY_MOST_MS};
    (void)uv_timer_init(options->loop, &link->tick);
    link->tick.data = link;
    link->ticked_ms = sk_monotonic_ms();
    (void)uv_timer_start(&link->tick, link_on_tick, 0, TICK_MS);
    return link;
}

enum sk_link_state sk_link_state(const struct sk_link *link)
{
    return link->state;
}

uint64_t sk_link_lost(const struct sk_link *link)
{
    return link->lost;
}

void sk_link_set_host(struct sk_link *link, const char *host)
{
    link->options.host = host;
    link->retry_at_ms = 0;
    sk_backoff_reset(&link->backoff);
}

void sk_link_next_host(struct sk_link *link, const char *host, bool at_once)
{
    link->options.host = host;
    link->at_once = at_once;
}

static void link_on_tick_closed(uv_handle_t *handle)
{
    struct sk_link *link = handle->data;
    link->tick_closed = true;
    link_free(link);
}

void sk_link_close(struct sk_link *link)
{
    sk_link_move(link, SK_LINK_CLOSED);
    if (link->resolving)
        (void)uv_cancel((uv_req_t *)&link->lookup);
    uv_close((uv_handle_t *)&link->tick, link_on_tick_closed);
}
