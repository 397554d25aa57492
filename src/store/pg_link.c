// Keeps one connection to PostgreSQL alive (link.h has the states).
//
// A call waits in the queue of its class until the ones before it have their results. While the link is PREPARING, it
// prepares the statements of sql/statements one by one, sets up the session, and issues LISTEN if notifications are
// wanted. After that a call is one round trip. The deadline of a statement counts from when it was sent. If the result
// is overdue, the link drops the connection, and the caller gets LOST and retries. The server ends the statement by its
// own time-out.
//
// With several hosts (pg_hosts.h) each attempt takes the next one alone. When one fails the next is tried at once; the
// back-off begins when all have failed. A connection that was lost is first tried where it was. A server that has
// become read-only is left.
//
// A commit may succeed here and be lost in a fail-over: when its wait for the synchronous standbys is cancelled,
// PostgreSQL ends the statement as usual, after a warning. Such a result is not handed out. The connection is dropped,
// and the caller gets LOST: the outcome is unknown, so it retries. A repeat that may count as done must wait for the
// standbys itself, even if it changes nothing: it locks a row or writes an empty message
// (sql/migrations/018_repeats_wait.sql, 020_first_answers.sql).
//
// Callbacks run from the loop only, never inside sk_pg_call: a send that fails there is left to the next tick.
#include "pg_link.h"

#include <libpq-fe.h>
#include <string.h>

#include "clock.h"
#include "link.h"
#include "log.h"
#include "params.h"
#include "pg_hosts.h"

enum { NS_PER_MS = 1000000, LAGS_MS = 1000 };

struct pg_call {
    struct pg_call *next; // younger, of the same class
    uint64_t number;      // in the order of the calls of all classes
    sk_pg_cb *done;
    void *arg;
    enum sk_statement statement;
    int n;
    const char *params[SK_PG_PARAMS_MAX]; // point into `text`
    char text[];
};

struct pg_queue {
    struct pg_call *oldest, *youngest;
};

struct sk_pg {
    uv_loop_t *loop;
    struct sk_link *link;
    struct sk_pg_hosts *hosts;    // owned
    size_t host;                  // of the present attempt or connection
    size_t failed;                // attempts since the link was ready
    uint64_t attempt_ms;          // when the present one began
    struct sk_pg_options options; // except its URL, which is not kept
    PGconn *conn;
    uv_poll_t *poll; // a separate allocation: libuv still uses it after the connection is gone
    int fd;
    int prepared; // steps of the session that are done: each statement, SESSION, LISTEN
    struct pg_queue queues[SK_PG_CLASSES];
    struct pg_call *current; // the call in progress, no longer in a queue
    uint64_t called;         // calls so far
    size_t waiting;          // calls without a result
    bool busy;               // a statement is in progress: a session step or the current call
    uint64_t sent_ns;        // when it was sent
    uint64_t took, took_ns;  // statements of calls, answered or lost
    bool held;               // connected or not, it takes no calls
    bool unsent;             // sending failed; the next tick drops the connection
    bool unreplicated;       // the statement in progress has committed, but did not wait for the standbys
    bool read_only;          // the server has refused a statement for this, and another host may not
    PGresult *result;        // of the statement in progress
    enum sk_result_kind kind;
};

static bool pg_link_is_up(const struct sk_pg *pg)
{
    return sk_link_state(pg->link) == SK_LINK_READY;
}

// ---- watching the socket ----

static void pg_link_free_poll(uv_handle_t *handle)
{
    free(handle);
}

static void pg_link_unwatch(struct sk_pg *pg)
{
    if (pg->poll == NULL)
        return;
    (void)uv_poll_stop(pg->poll);
    uv_close((uv_handle_t *)pg->poll, pg_link_free_poll);
    pg->poll = NULL;
    pg->fd = -1;
}

static void pg_link_on_poll(uv_poll_t *poll, int status, int events);

// libpq may change sockets while it connects, and may get the same number again. uv_poll_start() then registers it
// anew.
static enum sk_status pg_link_watch(struct sk_pg *pg, int events)
{
    int fd = PQsocket(pg->conn);
    if (pg->poll != NULL && fd != pg->fd)
        pg_link_unwatch(pg);
    if (pg->poll == NULL) {
        pg->poll = calloc(1, sizeof *pg->poll);
        if (pg->poll == NULL)
            return SK_NO_MEM;
        if (uv_poll_init(pg->loop, pg->poll, fd) != 0) {
            free(pg->poll);
            pg->poll = NULL;
            return SK_FAIL;
        }
        pg->poll->data = pg;
        pg->fd = fd;
    }
    return uv_poll_start(pg->poll, events, pg_link_on_poll) == 0 ? SK_OK : SK_FAIL;
}

// ---- losing the connection ----

static void pg_link_disconnect(struct sk_pg *pg)
{
    pg_link_unwatch(pg);
    PQclear(pg->result);
    pg->result = NULL;
    PQfinish(pg->conn);
    pg->conn = NULL;
    pg->busy = pg->unsent = pg->unreplicated = pg->read_only = false;
}

static void pg_link_took(struct sk_pg *pg)
{
    pg->took++;
    pg->took_ns += uv_hrtime() - pg->sent_ns;
}

static void pg_link_lose_calls(struct sk_pg *pg)
{
    const struct sk_result lost = {.kind = SK_RESULT_LOST};
    struct pg_call *lists[1 + SK_PG_CLASSES] = {pg->current};
    if (pg->current != NULL)
        pg_link_took(pg);
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

static void pg_link_next_host(struct sk_pg *pg)
{
    size_t count = sk_pg_hosts_count(pg->hosts);
    pg->failed++;
    pg->host = (pg->host + 1) % count;
    sk_link_next_host(pg->link, sk_pg_hosts_to_resolve(pg->hosts, pg->host), pg->failed % count != 0);
}

static void pg_link_drop(void *owner, const char *why)
{
    struct sk_pg *pg = owner;
    sk_log_repeat(SK_LOG_WARN, pg_link_is_up(pg) ? "PostgreSQL is gone" : "cannot connect to PostgreSQL", "reason",
                  why);
    if (!pg_link_is_up(pg) || pg->read_only)
        pg_link_next_host(pg);
    pg_link_disconnect(pg);
    sk_link_move(pg->link, SK_LINK_DOWN);
    pg_link_lose_calls(pg); // after the move, so that the callbacks cannot queue anything
}

// ---- sending ----

// The next call becomes the current one. There must be one.
static struct pg_call *pg_link_take_call(struct sk_pg *pg)
{
    bool any = pg->took % SK_PG_TURN == SK_PG_TURN - 1;
    struct pg_queue *next = NULL;
    for (struct pg_queue *queue = pg->queues; queue < pg->queues + SK_PG_CLASSES; queue++) {
        if (queue->oldest != NULL && (next == NULL || (any && queue->oldest->number < next->oldest->number)))
            next = queue;
    }
    SK_ASSERT(next != NULL && pg->current == NULL);
    struct pg_call *call = pg->current = next->oldest;
    next->oldest = call->next;
    if (next->oldest == NULL)
        next->youngest = NULL;
    call->next = NULL;
    return call;
}

static int pg_link_send_call(struct sk_pg *pg, enum sk_statement statement, int n, const char *const *params)
{
    return PQsendQueryPrepared(pg->conn, sk_statements[statement].name, n, params, NULL, NULL, 0);
}

static int pg_link_send_step(struct sk_pg *pg)
{
    char ms[SK_PARAM_NUMBER_SIZE], shard[SK_PARAM_NUMBER_SIZE], shards[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(ms, pg->options.statement_ms), pg->options.name,
                            sk_params_number(shard, pg->options.shard), sk_params_number(shards, pg->options.shards)};
    if (pg->prepared < SK_STATEMENT_COUNT)
        return PQsendPrepare(pg->conn, sk_statements[pg->prepared].name, sk_statements[pg->prepared].text, 0, NULL);
    if (pg->prepared == SK_STATEMENT_COUNT)
        return pg_link_send_call(pg, SK_STATEMENT_SESSION, 4, params);
    return pg_link_send_call(pg, SK_STATEMENT_LISTEN, 0, NULL);
}

// Sends as much of the next statement as the socket takes. The rest follows when the socket is writable again.
static enum sk_status pg_link_send(struct sk_pg *pg)
{
    const struct pg_call *call = pg_link_is_up(pg) ? pg_link_take_call(pg) : NULL;
    pg->kind = SK_RESULT_LOST; // until a result has come
    int sent = call == NULL ? pg_link_send_step(pg) : pg_link_send_call(pg, call->statement, call->n, call->params);
    if (sent != 1)
        return SK_FAIL;
    pg->busy = true;
    pg->sent_ns = uv_hrtime();
    int left = PQflush(pg->conn);
    if (left > 0)
        return pg_link_watch(pg, UV_READABLE | UV_WRITABLE);
    return left == 0 ? SK_OK : SK_FAIL;
}

static void pg_link_pump(struct sk_pg *pg)
{
    bool wanted = sk_link_state(pg->link) == SK_LINK_PREPARING || pg->waiting > 0;
    if (pg->conn != NULL && !pg->busy && !pg->unsent && wanted && pg_link_send(pg) != SK_OK)
        pg_link_drop(pg, PQerrorMessage(pg->conn));
}

// ---- receiving ----

static void pg_link_take_result(struct sk_pg *pg, PGresult *result)
{
    PQclear(pg->result);
    pg->result = result;
    pg->kind = sk_result_kind_of((const struct sk_rows *)(const void *)result);
    // The caller reports a locked row: it knows which one, and how long it waits.
    enum sk_log_level level = pg->kind == SK_RESULT_LOCKED ? SK_LOG_DEBUG : SK_LOG_WARN;
    if (pg->kind == SK_RESULT_FAILED && sk_pg_hosts_leave_read_only(pg->hosts))
        pg->read_only = sk_result_is_read_only((const struct sk_rows *)(const void *)result);
    if (pg->kind != SK_RESULT_ROWS)
        sk_log_repeat(level, "PostgreSQL refused a statement", "reason", PQresultErrorMessage(result));
}

// Why the database is not to be used, after the step that sets up the session. NULL: it is.
static const char *pg_link_find_misfit(const struct sk_pg *pg)
{
    const struct sk_rows *rows = (const struct sk_rows *)(const void *)pg->result;
    int misfit = PQfnumber(pg->result, "misfit"), beat = PQfnumber(pg->result, "beat");
    if (misfit < 0 || beat < 0 || sk_rows_count(rows) != 1)
        return NULL;
    const char *reason = sk_rows_text(rows, 0, misfit);
    if (pg->options.on_session != NULL)
        reason = pg->options.on_session(pg->options.arg, reason, sk_rows_number(rows, 0, beat));
    return reason;
}

static void pg_link_finish_step(struct sk_pg *pg)
{
    const char *misfit = NULL;
    pg->busy = false;
    if (pg->kind != SK_RESULT_ROWS) {
        pg_link_drop(pg, "the statements do not fit this database; has it been migrated?");
        return;
    }
    if (pg->prepared == SK_STATEMENT_COUNT && (misfit = pg_link_find_misfit(pg)) != NULL) {
        pg_link_drop(pg, misfit);
        return;
    }
    PQclear(pg->result);
    pg->result = NULL;
    if (++pg->prepared > SK_STATEMENT_COUNT + (pg->options.listen ? 1 : 0)) {
        pg->failed = 0;
        sk_log(SK_LOG_INFO, "PostgreSQL is ready", "host=%s port=%s", PQhost(pg->conn), PQport(pg->conn));
        sk_link_move(pg->link, SK_LINK_READY);
    }
}

static void pg_link_finish_call(struct sk_pg *pg)
{
    struct pg_call *call = pg->current;
    PGresult *taken = pg->result;
    struct sk_result result = {.kind = pg->kind};
    if (pg->kind == SK_RESULT_ROWS)
        result.rows = (const struct sk_rows *)(const void *)taken;
    SK_ASSERT(call != NULL && pg->busy);
    pg->current = NULL;
    pg_link_took(pg);
    SK_ASSERT(pg->waiting > 0);
    pg->waiting--;
    pg->busy = false;
    pg->result = NULL;
    call->done(call->arg, &result); // may queue calls, or close the link
    PQclear(taken);
    free(call);
}

static void pg_link_take_notifications(struct sk_pg *pg)
{
    bool any = false;
    for (PGnotify *notify; (notify = PQnotifies(pg->conn)) != NULL; any = true)
        PQfreemem(notify);
    if (any && pg->options.listen && sk_pg_ready(pg))
        pg->options.on_notified(pg->options.arg);
}

static void pg_link_receive(struct sk_pg *pg)
{
    if (PQconsumeInput(pg->conn) != 1) {
        pg_link_drop(pg, PQerrorMessage(pg->conn));
        return;
    }
    while (pg->conn != NULL && pg->busy && PQisBusy(pg->conn) == 0) {
        PGresult *result = PQgetResult(pg->conn);
        if (result != NULL) {
            pg_link_take_result(pg, result);
            continue;
        }
        // Only now has the server reported that the transaction is over, so only now is a result handed out.
        if (pg->unreplicated || pg->read_only) {
            pg_link_drop(pg, pg->read_only ? "the server is read-only" : "a commit did not wait for the standbys");
            return;
        }
        if (pg_link_is_up(pg))
            pg_link_finish_call(pg);
        else
            pg_link_finish_step(pg);
        pg_link_pump(pg);
    }
    if (pg->conn != NULL)
        pg_link_take_notifications(pg);
    if (pg->conn != NULL && PQstatus(pg->conn) == CONNECTION_BAD)
        pg_link_drop(pg, PQerrorMessage(pg->conn));
}

// ---- connecting ----

// Any warning of PostgreSQL's syncrep.c is about a wait that was cancelled. Its text may be translated, and its
// SQLSTATE depends on how the wait was cancelled.
static bool pg_link_is_unreplicated(const PGresult *notice)
{
    const char *file = PQresultErrorField(notice, PG_DIAG_SOURCE_FILE);
    const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    return file != NULL && strcmp(file, "syncrep.c") == 0 && severity != NULL && strcmp(severity, "WARNING") == 0;
}

static void pg_link_on_notice(void *arg, const PGresult *notice)
{
    struct sk_pg *pg = arg;
    const char *message = PQresultErrorMessage(notice);
    char text[512]; // libpq would print it, in lines of its own format
    (void)snprintf(text, sizeof text, "%s: %.*s", pg->options.name, (int)strcspn(message, "\n"), message);
    sk_log_text(SK_LOG_DEBUG, "PostgreSQL gives notice", "text", text);
    pg->unreplicated = pg->unreplicated || pg_link_is_unreplicated(notice);
}

static void pg_link_connecting(struct sk_pg *pg)
{
    PostgresPollingStatusType polled = PQconnectPoll(pg->conn);
    if (polled == PGRES_POLLING_FAILED) {
        pg_link_drop(pg, PQerrorMessage(pg->conn));
        return;
    }
    if (polled == PGRES_POLLING_OK) {
        pg->prepared = 0;
        sk_link_move(pg->link, SK_LINK_PREPARING);
        if (PQsetnonblocking(pg->conn, 1) != 0 || pg_link_watch(pg, UV_READABLE) != SK_OK)
            pg_link_drop(pg, "cannot watch the socket");
        else
            pg_link_pump(pg);
        return;
    }
    if (pg_link_watch(pg, polled == PGRES_POLLING_READING ? UV_READABLE : UV_WRITABLE) != SK_OK)
        pg_link_drop(pg, "cannot watch the socket");
}

static void pg_link_on_poll(uv_poll_t *poll, int status, int events)
{
    struct sk_pg *pg = poll->data;
    if (sk_link_state(pg->link) == SK_LINK_CONNECTING) {
        pg_link_connecting(pg);
        return;
    }
    if ((events & UV_WRITABLE) != 0) {
        int left = PQflush(pg->conn);
        if (left < 0 || (left == 0 && pg_link_watch(pg, UV_READABLE) != SK_OK)) {
            pg_link_drop(pg, PQerrorMessage(pg->conn));
            return;
        }
    }
    if (status < 0 || (events & UV_READABLE) != 0)
        pg_link_receive(pg);
    // After an error libuv watches no more. There may have been bytes before it; then the next read returns the error.
    if (status < 0 && pg->poll == poll && pg_link_watch(pg, UV_READABLE) != SK_OK)
        pg_link_drop(pg, "cannot watch the socket");
}

static void pg_link_connect(void *owner, const char *address)
{
    struct sk_pg *pg = owner;
    pg->attempt_ms = sk_monotonic_ms();
    pg->conn = sk_pg_hosts_start(pg->hosts, pg->host, address);
    if (pg->conn == NULL || PQstatus(pg->conn) == CONNECTION_BAD) {
        pg_link_drop(pg, pg->conn == NULL ? "out of memory" : PQerrorMessage(pg->conn));
        return;
    }
    (void)PQsetNoticeReceiver(pg->conn, pg_link_on_notice, pg);
    if (pg_link_watch(pg, UV_WRITABLE) != SK_OK)
        pg_link_drop(pg, "cannot watch the socket");
}

static const char *pg_link_tick(void *owner)
{
    const struct sk_pg *pg = owner;
    if (pg->unsent)
        return PQerrorMessage(pg->conn);
    // All hosts together have the time of one.
    if (sk_link_state(pg->link) == SK_LINK_CONNECTING &&
        sk_monotonic_ms() >= pg->attempt_ms + pg->options.timeout_ms / sk_pg_hosts_count(pg->hosts))
        return "connecting takes too long";
    // The server's own time-out comes first. Ours is for a server that no longer answers at all.
    if (pg_link_is_up(pg) && pg->busy &&
        sk_monotonic_ms() >= pg->sent_ns / NS_PER_MS + pg->options.statement_ms + pg->options.statement_ms / 2)
        return "result overdue";
    return NULL;
}

static void pg_link_free(void *owner)
{
    struct sk_pg *pg = owner;
    sk_pg_hosts_close(pg->hosts);
    free(pg);
}

static const struct sk_link_steps steps = {pg_link_connect, pg_link_tick, pg_link_drop, pg_link_free};

// ---- the interface ----

struct sk_pg *sk_pg_open(uv_loop_t *loop, const struct sk_pg_options *options)
{
    SK_ASSERT(options->name != NULL && options->most_waiting > 0 && (!options->listen || options->on_notified != NULL));
    struct sk_pg *pg = calloc(1, sizeof *pg);
    if (pg == NULL)
        return NULL;
    pg->loop = loop;
    pg->options = *options;
    if (options->statement_ms == 0)
        pg->options.statement_ms = options->timeout_ms;
    if (options->shards == 0)
        pg->options.shards = 1;
    pg->fd = -1;
    pg->hosts = sk_pg_hosts_open(options->url);
    if (pg->hosts != NULL) {
        struct sk_link_options link = {.loop = loop,
                                       .host = sk_pg_hosts_to_resolve(pg->hosts, 0),
                                       .timeout_ms = options->timeout_ms,
                                       .on_change = options->on_change,
                                       .arg = options->arg,
                                       .steps = &steps,
                                       .owner = pg};
        pg->link = sk_link_open(&link);
    }
    if (pg->link == NULL) {
        pg_link_free(pg);
        return NULL;
    }
    return pg;
}

void sk_pg_close(struct sk_pg *pg)
{
    if (pg == NULL)
        return;
    pg_link_disconnect(pg);
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

bool sk_pg_ready(const struct sk_pg *pg)
{
    return pg_link_is_up(pg) && !pg->held;
}

bool sk_pg_lags(const struct sk_pg *pg)
{
    return pg->busy && sk_monotonic_ms() >= pg->sent_ns / NS_PER_MS + LAGS_MS;
}

void sk_pg_measure(const struct sk_pg *pg, struct sk_server_row *row)
{
    row->up = row->up && sk_pg_ready(pg);
    row->lost += sk_link_lost(pg->link);
    row->answers += pg->took;
    row->answered_ns += pg->took_ns;
}

static struct pg_call *pg_call_new(enum sk_statement statement, int n, const char *const *params)
{
    SK_ASSERT(n <= SK_PG_PARAMS_MAX);
    size_t lens[SK_PG_PARAMS_MAX], total = 0;
    for (int i = 0; i < n; i++) {
        lens[i] = params[i] == NULL ? 0 : strlen(params[i]) + 1;
        total += lens[i];
    }
    struct pg_call *call = calloc(1, sizeof *call + total);
    if (call == NULL)
        return NULL;
    call->statement = statement;
    call->n = n;
    char *text = call->text;
    for (int i = 0; i < n; i++) {
        if (params[i] == NULL)
            continue;
        call->params[i] = memcpy(text, params[i], lens[i]);
        text += lens[i];
    }
    return call;
}

enum sk_status sk_pg_call_as(struct sk_pg *pg, enum sk_pg_class class, enum sk_statement statement, int n,
                             const char *const *params, sk_pg_cb *done, void *arg)
{
    struct pg_queue *queue = &pg->queues[class];
    if (!sk_pg_ready(pg))
        return SK_DOWN;
    if (pg->waiting >= pg->options.most_waiting)
        return SK_FULL;
    struct pg_call *call = pg_call_new(statement, n, params);
    if (call == NULL)
        return SK_NO_MEM;
    call->number = pg->called++;
    call->done = done;
    call->arg = arg;
    if (queue->youngest != NULL)
        queue->youngest->next = call;
    else
        queue->oldest = call;
    queue->youngest = call;
    pg->waiting++;
    if (!pg->busy && !pg->unsent)
        pg->unsent = pg_link_send(pg) != SK_OK;
    return SK_OK;
}

enum sk_status sk_pg_call(struct sk_pg *pg, enum sk_statement statement, int n, const char *const *params,
                          sk_pg_cb *done, void *arg)
{
    return sk_pg_call_as(pg, SK_PG_COMMANDS, statement, n, params, done, arg);
}
