// The second implementation of pg_link.h: the same states, queues and time-outs as src/store/pg_link.c, on the network
// of the simulation.
#include "pg_link.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "link.h"
#include "log.h"
#include "net.h"
#include "params.h"

enum { LAGS_MS = 1000 };

struct pg_call {
    struct pg_call *next; // younger, of the same class
    uint64_t number;
    sk_pg_cb *done;
    void *arg;
    struct net_packet *packet;
};

struct pg_queue {
    struct pg_call *oldest, *youngest;
};

struct sk_pg {
    struct sk_link *link;
    struct sk_pg_options options;
    struct net_conn *conn; // NULL: none
    struct pg_queue queues[SK_PG_CLASSES];
    struct pg_call *current; // the call in progress
    uint64_t called, answered;
    size_t waiting;
    bool busy;
    uint64_t sent_ms;
    bool held;
};

static void pg_link_connect(void *owner, const char *address);
static const char *pg_link_tick(void *owner);
static void pg_link_drop(void *owner, const char *why);
static void pg_link_free(void *owner);
static void pg_link_on_connected(void *link);
static void pg_link_on_lost(void *link, const char *why);
static void pg_link_on_answer(void *link, struct net_packet *packet);
static void pg_link_pump(struct sk_pg *pg);
static void pg_link_lose_calls(struct sk_pg *pg);

static const struct sk_link_steps steps = {pg_link_connect, pg_link_tick, pg_link_drop, pg_link_free};
static const struct net_events events = {pg_link_on_connected, pg_link_on_lost, pg_link_on_answer};

// ---- the interface ----

struct sk_pg *sk_pg_open(uv_loop_t *loop, const struct sk_pg_options *options)
{
    struct sk_pg *pg = calloc(1, sizeof *pg);
    if (pg == NULL)
        return NULL;
    pg->options = *options;
    if (options->statement_ms == 0)
        pg->options.statement_ms = options->timeout_ms;
    if (options->shards == 0)
        pg->options.shards = 1;
    const struct sk_link_options link = {.loop = loop,
                                         .timeout_ms = options->timeout_ms,
                                         .on_change = options->on_change,
                                         .arg = options->arg,
                                         .steps = &steps,
                                         .owner = pg};
    pg->link = sk_link_open(&link);
    if (pg->link != NULL)
        return pg;
    free(pg);
    return NULL;
}

void sk_pg_close(struct sk_pg *pg)
{
    if (pg == NULL)
        return;
    net_leave(pg->conn);
    pg->conn = NULL;
    sk_link_close(pg->link);
    pg_link_lose_calls(pg);
}

void sk_pg_drop(struct sk_pg *pg, const char *why)
{
    if (pg->conn != NULL)
        pg_link_drop(pg, why);
}

void sk_pg_hold(struct sk_pg *pg, bool held)
{
    bool was_ready = sk_pg_ready(pg);
    SK_ASSERT(!was_ready || !held);
    pg->held = held;
    if (!was_ready && sk_pg_ready(pg) && pg->options.on_change != NULL)
        pg->options.on_change(pg->options.arg, true);
}

static bool pg_link_is_up(const struct sk_pg *pg)
{
    return sk_link_state(pg->link) == SK_LINK_READY;
}

bool sk_pg_ready(const struct sk_pg *pg)
{
    return pg_link_is_up(pg) && !pg->held;
}

bool sk_pg_lags(const struct sk_pg *pg)
{
    return pg->busy && sk_monotonic_ms() >= pg->sent_ms + LAGS_MS;
}

void sk_pg_measure(const struct sk_pg *pg, struct sk_server_row *row)
{
    row->up = row->up && sk_pg_ready(pg);
    row->lost += sk_link_lost(pg->link);
    row->answers += pg->answered;
}

static struct net_packet *pg_link_packet(enum sk_statement statement, int n, const char *const *params)
{
    struct net_packet *packet = net_packet_new(sk_statements[statement].name);
    packet->statement = statement;
    packet->n = n;
    for (int i = 0; i < n; i++) {
        if (params[i] != NULL) {
            size_t size = strlen(params[i]) + 1;
            packet->params[i] = memcpy(world_alloc(size), params[i], size);
        }
    }
    return packet;
}

enum sk_status sk_pg_call(struct sk_pg *pg, enum sk_statement statement, int n, const char *const *params,
                          sk_pg_cb *done, void *arg)
{
    return sk_pg_call_as(pg, SK_PG_COMMANDS, statement, n, params, done, arg);
}

enum sk_status sk_pg_call_as(struct sk_pg *pg, enum sk_pg_class class, enum sk_statement statement, int n,
                             const char *const *params, sk_pg_cb *done, void *arg)
{
    struct pg_queue *queue = &pg->queues[class];
    SK_ASSERT(n <= SK_PG_PARAMS_MAX);
    if (!sk_pg_ready(pg))
        return SK_DOWN;
    if (pg->waiting >= pg->options.most_waiting)
        return SK_FULL;
    struct pg_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return SK_NO_MEM;
    *call = (struct pg_call){NULL, pg->called++, done, arg, pg_link_packet(statement, n, params)};
    if (queue->youngest != NULL)
        queue->youngest->next = call;
    else
        queue->oldest = call;
    queue->youngest = call;
    pg->waiting++;
    pg_link_pump(pg);
    return SK_OK;
}

// ---- statements ----

static void pg_link_send(struct sk_pg *pg, struct net_packet *packet)
{
    pg->busy = true;
    pg->sent_ms = sk_monotonic_ms();
    net_send(pg->conn, packet);
}

static void pg_link_pump(struct sk_pg *pg)
{
    bool any = pg->answered % SK_PG_TURN == SK_PG_TURN - 1;
    struct pg_queue *next = NULL;
    if (pg->busy || !pg_link_is_up(pg))
        return;
    for (struct pg_queue *queue = pg->queues; queue < pg->queues + SK_PG_CLASSES; queue++) {
        if (queue->oldest != NULL && (next == NULL || (any && queue->oldest->number < next->oldest->number)))
            next = queue;
    }
    if (next == NULL)
        return;
    pg->current = next->oldest;
    next->oldest = pg->current->next;
    if (next->oldest == NULL)
        next->youngest = NULL;
    pg->current->next = NULL;
    pg_link_send(pg, pg->current->packet);
}

static void pg_link_finish_call(struct sk_pg *pg, const struct net_packet *packet)
{
    struct pg_call *call = pg->current;
    struct sk_result result = {.kind = packet->kind};
    if (packet->kind == SK_RESULT_ROWS)
        result.rows = (const struct sk_rows *)(const void *)packet->result;
    SK_ASSERT(call != NULL);
    pg->current = NULL;
    pg->answered++;
    pg->waiting--;
    call->done(call->arg, &result);
    free(call);
}

static const char *pg_link_find_misfit(const struct sk_pg *pg, const PGresult *result)
{
    const struct sk_rows *rows = (const struct sk_rows *)(const void *)result;
    int misfit = PQfnumber(result, "misfit"), beat = PQfnumber(result, "beat");
    const char *reason = sk_rows_text(rows, 0, misfit);
    if (pg->options.on_session != NULL)
        reason = pg->options.on_session(pg->options.arg, reason, sk_rows_number(rows, 0, beat));
    return reason;
}

static void pg_link_finish_session(struct sk_pg *pg, const struct net_packet *packet)
{
    const char *misfit = packet->kind == SK_RESULT_ROWS ? pg_link_find_misfit(pg, packet->result) : "it fails";
    if (misfit != NULL) {
        pg_link_drop(pg, misfit);
        return;
    }
    if (pg->options.listen)
        net_listen(pg->conn);
    sk_link_move(pg->link, SK_LINK_READY);
}

static void pg_link_on_answer(void *link, struct net_packet *packet)
{
    struct sk_pg *pg = link;
    if (packet->notification) {
        if (pg->options.listen && sk_pg_ready(pg))
            pg->options.on_notified(pg->options.arg);
        return;
    }
    pg->busy = false;
    if (pg_link_is_up(pg))
        pg_link_finish_call(pg, packet);
    else
        pg_link_finish_session(pg, packet);
    pg_link_pump(pg);
}

// ---- the connection ----

static void pg_link_connect(void *owner, const char *address)
{
    struct sk_pg *pg = owner;
    (void)address;
    pg->conn = net_connect(NET_POSTGRES, &events, pg);
}

static void pg_link_on_connected(void *link)
{
    struct sk_pg *pg = link;
    char ms[SK_PARAM_NUMBER_SIZE], shard[SK_PARAM_NUMBER_SIZE], shards[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(ms, pg->options.statement_ms), pg->options.name,
                            sk_params_number(shard, pg->options.shard), sk_params_number(shards, pg->options.shards)};
    sk_link_move(pg->link, SK_LINK_PREPARING);
    pg_link_send(pg, pg_link_packet(SK_STATEMENT_SESSION, 4, params));
}

static const char *pg_link_tick(void *owner)
{
    const struct sk_pg *pg = owner;
    if (pg_link_is_up(pg) && pg->busy &&
        sk_monotonic_ms() >= pg->sent_ms + pg->options.statement_ms + pg->options.statement_ms / 2)
        return "result overdue";
    return NULL;
}

static void pg_link_on_lost(void *link, const char *why)
{
    struct sk_pg *pg = link;
    pg->conn = NULL;
    pg_link_drop(pg, why);
}

static void pg_link_drop(void *owner, const char *why)
{
    struct sk_pg *pg = owner;
    sk_log_repeat(SK_LOG_WARN, "PostgreSQL is gone", "reason", why);
    net_leave(pg->conn);
    pg->conn = NULL;
    pg->busy = false;
    sk_link_move(pg->link, SK_LINK_DOWN);
    pg_link_lose_calls(pg); // after the move, so that the callbacks cannot queue anything
}

static void pg_link_lose_calls(struct sk_pg *pg)
{
    const struct sk_result lost = {.kind = SK_RESULT_LOST};
    struct pg_call *lists[1 + SK_PG_CLASSES] = {pg->current};
    pg->current = NULL;
    pg->waiting = 0;
    for (int i = 0; i < SK_PG_CLASSES; i++) {
        lists[1 + i] = pg->queues[i].oldest;
        pg->queues[i] = (struct pg_queue){0};
    }
    for (int i = 0; i <= SK_PG_CLASSES; i++) {
        for (struct pg_call *call; (call = lists[i]) != NULL; free(call)) {
            lists[i] = call->next;
            call->done(call->arg, &lost);
        }
    }
}

static void pg_link_free(void *owner)
{
    free(owner);
}
