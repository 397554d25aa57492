// A parked connection is suspended in libmicrohttpd: it leaves the lists and the epoll set, so no turn of the loop
// meets it. Two traits of version 0.9.75 shape this file:
// - it does not notice a suspended client that hangs up: struct sk_hangups does;
// - to resume any number of connections, it walks the list of all suspended ones. So they are resumed in batches, with
//   a pause that grows with that list. The batches are bounded, too: if thousands are answered at once, their answers
//   are sent over several turns, in which others are served.
#include "connection.h"

#include <linux/sockios.h>
#include <microhttpd.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "deadlines.h"
#include "hangups.h"
#include "log.h"

enum { OVERDUE_AGAIN_MS = 1000, RESUME_MAX = 512, WALKED_PER_MS = 500, PERCENT = 100 };

static void connections_on_hangup(void *arg, uint64_t handle)
{
    struct sk_connection *connection = sk_connections_find(arg, handle, SK_PHASES_OPEN | SK_PHASES_STREAM);
    if (connection != NULL) // else it is answered, and not resumed yet
        sk_connection_drop(connection);
}

enum sk_status sk_connections_open(struct sk_connections *pool, uv_loop_t *loop,
                                   const struct sk_server_options *options, const struct sk_handler *handler)
{
    uint32_t count = (uint32_t)options->max_connections;
    *pool = (struct sk_connections){.loop = loop, .options = options, .handler = handler, .count = count};
    pool->all = calloc(count, sizeof *pool->all);
    if (pool->all == NULL)
        return SK_NO_MEM;
    for (uint32_t i = 0; i < count; i++) {
        pool->all[i].pool = pool;
        pool->all[i].index = i;
        pool->all[i].next_free = i + 1 < count ? &pool->all[i + 1] : NULL;
    }
    pool->first_free = pool->all;
    pool->in_phase[SK_PHASE_FREE] = count;
    pool->held_most = (size_t)(count * options->long_share / PERCENT);
    pool->held_most += pool->held_most == 0;
    pool->deadlines = sk_deadlines_open(uv_now(loop));
    pool->hangups = sk_hangups_open(loop, connections_on_hangup, pool);
    return pool->deadlines != NULL && pool->hangups != NULL ? SK_OK : SK_FAIL;
}

void sk_connections_close(struct sk_connections *pool)
{
    SK_ASSERT(pool->suspended == 0);
    for (uint32_t i = 0; pool->all != NULL && i < pool->used; i++)
        sk_buf_free(&pool->all[i].request.body);
    sk_hangups_close(pool->hangups);
    sk_deadlines_close(pool->deadlines);
    free(pool->all);
}

struct sk_connection *sk_connection_take(struct sk_connections *pool, struct MHD_Connection *library, int fd)
{
    struct sk_connection *connection = pool->first_free;
    SK_ASSERT(connection != NULL);
    pool->first_free = connection->next_free;
    if (connection->index >= pool->used)
        pool->used = connection->index + 1;
    connection->library = library;
    connection->fd = fd;
    connection->unanswerable = false;
    sk_connection_move(connection, SK_PHASE_HEADER, (uint64_t)pool->options->idle_timeout_ms);
    pool->filled += pool->in_phase[SK_PHASE_FREE] == 0;
    return connection;
}

void sk_connection_free(struct sk_connection *connection)
{
    SK_ASSERT(!connection->suspended);
    sk_connection_move(connection, SK_PHASE_FREE, 0);
    connection->generation++;
    connection->library = NULL;
    connection->next_free = connection->pool->first_free;
    connection->pool->first_free = connection;
}

void sk_connection_begin_request(struct sk_connection *connection)
{
    connection->generation++;
    if (connection->generation == 0)
        connection->generation = 1; // a handle is never 0
    struct sk_buf body = connection->request.body;
    sk_buf_clear(&body);
    connection->request =
        (struct sk_request){.body = body, .handle = (uint64_t)connection->generation << 32 | connection->index};
    connection->too_large = false;
    connection->discarded = 0;
}

void sk_connection_end_request(struct sk_connection *connection)
{
    struct sk_connections *pool = connection->pool;
    struct sk_request *request = &connection->request;
    request->handle = 0; // late answers do not find it
    if (request->lease != NULL)
        *request->lease = false;
    request->lease = NULL;
    if (request->hold.place) {
        SK_ASSERT(pool->held > 0);
        pool->held--;
        if (pool->handler->released != NULL)
            pool->handler->released(pool->handler->arg, &request->hold);
        request->hold = (struct sk_hold){0};
    }
    sk_buf_free(&request->body);
    sk_connection_move(connection, SK_PHASE_HEADER, (uint64_t)pool->options->idle_timeout_ms);
}

void sk_connection_move(struct sk_connection *connection, enum sk_phase phase, uint64_t limit_ms)
{
#define TO(phase) (1U << SK_PHASE_##phase)
    static const unsigned allowed[SK_PHASE_COUNT] = {
        [SK_PHASE_FREE] = TO(HEADER),
        [SK_PHASE_HEADER] = TO(BODY) | TO(HEADER) | TO(FREE),
        [SK_PHASE_BODY] = TO(WAITING) | TO(PARKED) | TO(SENDING) | TO(HEADER) | TO(FREE),
        [SK_PHASE_WAITING] = TO(WAITING) | TO(PARKED) | TO(SENDING) | TO(HEADER) | TO(FREE),
        [SK_PHASE_PARKED] = TO(PARKED) | TO(RESUMING) | TO(GONE) | TO(SENDING) | TO(HEADER) | TO(FREE),
        [SK_PHASE_RESUMING] = TO(SENDING),
        [SK_PHASE_GONE] = TO(HEADER),
        [SK_PHASE_SENDING] = TO(STREAMING) | TO(HEADER) | TO(FREE),
        [SK_PHASE_STREAMING] = TO(STUCK) | TO(RESUMING) | TO(GONE),
        [SK_PHASE_STUCK] = TO(STREAMING) | TO(RESUMING) | TO(GONE),
    };
#undef TO
    struct sk_connections *pool = connection->pool;
    SK_ASSERT((allowed[connection->phase] & 1U << phase) != 0);
    SK_ASSERT(pool->in_phase[connection->phase] > 0);
    pool->in_phase[connection->phase]--;
    pool->in_phase[phase]++;
    connection->phase = phase;
    if (phase == SK_PHASE_FREE || phase == SK_PHASE_STREAMING)
        sk_deadlines_clear(&connection->deadline);
    else
        sk_deadlines_set(pool->deadlines, &connection->deadline, uv_now(pool->loop) + limit_ms);
}

struct sk_connection *sk_connection_of(struct sk_request *request)
{
    return (struct sk_connection *)(void *)request;
}

struct sk_connection *sk_connections_find(struct sk_connections *pool, uint64_t handle, unsigned phases)
{
    uint32_t index = (uint32_t)handle;
    SK_ASSERT(index < pool->count);
    struct sk_connection *connection = &pool->all[index];
    return (phases & 1U << connection->phase) != 0 && connection->request.handle == handle ? connection : NULL;
}

struct sk_connection *sk_connections_next_overdue(struct sk_connections *pool)
{
    uint64_t now = uv_now(pool->loop);
    struct sk_deadline *deadline = sk_deadlines_next(pool->deadlines, now);
    if (deadline == NULL)
        return NULL;
    sk_deadlines_set(pool->deadlines, deadline, now + OVERDUE_AGAIN_MS);
    return (struct sk_connection *)(void *)((char *)deadline - offsetof(struct sk_connection, deadline));
}

// ---- parking ----

void sk_connection_suspend(struct sk_connection *connection)
{
    MHD_suspend_connection(connection->library);
    connection->suspended = true;
    connection->pool->suspended++;
    if (sk_hangups_watch(connection->pool->hangups, connection->fd, connection->request.handle) != SK_OK)
        sk_log(SK_LOG_DEBUG, "a parked connection is not watched: no memory", "");
}

void sk_connection_drop(struct sk_connection *connection)
{
    struct sk_connections *pool = connection->pool;
    pool->handler->gone(pool->handler->arg, &connection->request);
    connection->request.handle = 0;
    sk_connection_move(connection, SK_PHASE_GONE, (uint64_t)pool->options->request_timeout_ms);
    sk_connection_resume_soon(connection);
}

// Without the reset the kernel would keep the unsent data, and retry it for many minutes.
void sk_connection_cut(struct sk_connection *connection)
{
    const struct linger none = {.l_onoff = 1, .l_linger = 0};
    int unsent = 0;
    if (ioctl(connection->fd, SIOCOUTQ, &unsent) == 0 && unsent > 0)
        (void)setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    if (connection->phase == SK_PHASE_STUCK)
        sk_connection_drop(connection);
    else
        (void)shutdown(connection->fd, SHUT_RDWR); // the next run of libmicrohttpd sees the end and closes
}

void sk_connection_resume_soon(struct sk_connection *connection)
{
    struct sk_connections *pool = connection->pool;
    connection->next_to_resume = NULL;
    if (pool->resume_first == NULL)
        pool->resume_first = connection;
    else
        pool->resume_last->next_to_resume = connection;
    pool->resume_last = connection;
}

bool sk_connections_resume(struct sk_connections *pool, bool all)
{
    if (pool->resume_first == NULL || (!all && uv_now(pool->loop) < pool->resume_at_ms))
        return false;
    pool->resume_at_ms = uv_now(pool->loop) + pool->suspended / WALKED_PER_MS;
    for (int n = 0; pool->resume_first != NULL && (all || n < RESUME_MAX); n++) {
        struct sk_connection *connection = pool->resume_first;
        pool->resume_first = connection->next_to_resume;
        sk_hangups_unwatch(pool->hangups, connection->fd);
        MHD_resume_connection(connection->library);
        connection->suspended = false;
        SK_ASSERT(pool->suspended > 0);
        pool->suspended--;
        if (connection->phase == SK_PHASE_RESUMING)
            sk_connection_move(connection, SK_PHASE_SENDING, (uint64_t)pool->options->request_timeout_ms);
    }
    return true;
}
