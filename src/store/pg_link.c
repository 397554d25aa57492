// Keeps one connection to PostgreSQL alive. States: DOWN -> (resolve) -> CONNECTING -> PREPARING -> READY.
//
// A call waits in a list until the ones before it have their results. While connecting, the statements
// of sql/statements are prepared one after the other and the session's time-outs are set; after that a
// call is one round trip. When a result is overdue the connection is dropped: the server ends the
// statement by its own time-out, and what became of it is found out by asking again.
#include "pg_link.h"

#include <libpq-fe.h>
#include <string.h>

#include "backoff.h"
#include "clock.h"
#include "log.h"
#include "resolve.h"

enum { TICK_MS = 50 };

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_PREPARING, LINK_READY, LINK_CLOSED };

struct call {
    struct call *next; // younger
    sk_pg_cb *done;
    void *arg;
    uint64_t since_ms;
    enum sk_statement statement;
    int n;
    const char *params[SK_PG_PARAMS_MAX]; // point into `text`
    char text[];
};

struct sk_pg {
    uv_loop_t *loop;
    uv_timer_t tick;
    char *url;  // owned
    char *host; // owned; NULL: nothing to resolve
    struct sk_resolve resolve;
    bool resolving;
    bool tick_closed;
    PGconn *conn;
    uv_poll_t *poll; // a block of its own: libuv frees it later than the connection goes
    int fd;
    struct call *oldest, *youngest;
    size_t waiting;
    bool busy;    // oldest has been sent
    int prepared; // statements prepared so far
    PGresult *result;
    enum sk_result_kind kind; // of `result`
    struct sk_backoff backoff;
    uint64_t retry_at_ms;
    uint64_t state_since_ms;
    enum link_state state;
    uint32_t timeout_ms;
    void (*on_change)(void *arg, bool ready);
    void *arg;
};

static void on_poll(uv_poll_t *poll, int status, int events);
static void pump(struct sk_pg *pg);

static void set_state(struct sk_pg *pg, enum link_state state)
{
    static const bool allowed[LINK_CLOSED + 1][LINK_CLOSED + 1] = {
        [LINK_DOWN] = {[LINK_CONNECTING] = true, [LINK_CLOSED] = true},
        [LINK_CONNECTING] = {[LINK_PREPARING] = true, [LINK_DOWN] = true, [LINK_CLOSED] = true},
        [LINK_PREPARING] = {[LINK_READY] = true, [LINK_DOWN] = true, [LINK_CLOSED] = true},
        [LINK_READY] = {[LINK_DOWN] = true, [LINK_CLOSED] = true},
    };
    SK_ASSERT(allowed[pg->state][state]);
    bool was_ready = pg->state == LINK_READY;
    pg->state = state;
    pg->state_since_ms = sk_monotonic_ms();
    if (state == LINK_READY) {
        sk_backoff_reset(&pg->backoff);
        sk_log(SK_INFO, "PostgreSQL is ready", "host=%s port=%s", PQhost(pg->conn), PQport(pg->conn));
    }
    if (was_ready != (state == LINK_READY))
        pg->on_change(pg->arg, state == LINK_READY);
}

// ---- watching the socket ----

static void free_poll(uv_handle_t *handle)
{
    free(handle);
}

static void unwatch(struct sk_pg *pg)
{
    if (pg->poll == NULL)
        return;
    (void)uv_poll_stop(pg->poll);
    uv_close((uv_handle_t *)pg->poll, free_poll);
    pg->poll = NULL;
    pg->fd = -1;
}

// libpq may change sockets while it connects, and may get the same number again: so each call starts
// the watching anew.
static enum sk_status watch_for(struct sk_pg *pg, int events)
{
    int fd = PQsocket(pg->conn);
    if (pg->poll != NULL && fd != pg->fd)
        unwatch(pg);
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
    return uv_poll_start(pg->poll, events, on_poll) == 0 ? SK_OK : SK_FAIL;
}

// ---- ending a connection ----

static void fail_all(struct sk_pg *pg)
{
    struct call *call = pg->oldest;
    const struct sk_result lost = {.kind = SK_RESULT_LOST};
    pg->oldest = pg->youngest = NULL; // callbacks may look, but cannot queue: the link is down
    pg->waiting = 0;
    pg->busy = false;
    while (call != NULL) {
        struct call *next = call->next;
        call->done(call->arg, &lost);
        free(call);
        call = next;
    }
}

static void drop(struct sk_pg *pg, const char *why)
{
    sk_log_text(SK_WARN, pg->state == LINK_READY ? "PostgreSQL is gone" : "cannot connect to PostgreSQL", "reason",
                why);
    unwatch(pg);
    PQclear(pg->result);
    pg->result = NULL;
    PQfinish(pg->conn);
    pg->conn = NULL;
    set_state(pg, LINK_DOWN);
    fail_all(pg);
}

// ---- calls ----

static void finish_oldest(struct sk_pg *pg)
{
    struct call *call = pg->oldest;
    PGresult *taken = pg->result;
    const struct sk_result result = {
        .kind = pg->kind, .rows = pg->kind == SK_RESULT_ROWS ? (const struct sk_rows *)(const void *)taken : NULL};
    SK_ASSERT(call != NULL && pg->busy);
    pg->oldest = call->next;
    if (pg->oldest == NULL)
        pg->youngest = NULL;
    pg->waiting--;
    pg->busy = false;
    pg->result = NULL;
    call->done(call->arg, &result);
    PQclear(taken);
    free(call);
}

// Permanent errors are those of the data: bad values, violated constraints, raised exceptions. All others are of
// the server (connections, conflicts, resources, rights, read-only) and may pass.
static enum sk_result_kind kind_of(const PGresult *result)
{
    static const char *const permanent[] = {"21", "22", "23", "44", "P0"};
    if (PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK)
        return SK_RESULT_ROWS;
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (sqlstate != NULL && strcmp(sqlstate, "55P03") == 0)
        return SK_RESULT_LOCKED;
    for (size_t i = 0; sqlstate != NULL && i < sizeof permanent / sizeof permanent[0]; i++) {
        if (strncmp(sqlstate, permanent[i], 2) == 0)
            return SK_RESULT_REFUSED;
    }
    return SK_RESULT_FAILED;
}

// Keeps one result for the call under way.
static void take_result(struct sk_pg *pg, PGresult *result)
{
    PQclear(pg->result);
    pg->result = result;
    pg->kind = kind_of(result);
    if (pg->kind != SK_RESULT_ROWS)
        sk_log_text(SK_WARN, "PostgreSQL refused a statement", "reason", PQresultErrorMessage(result));
}

static int send_next(struct sk_pg *pg)
{
    pg->kind = SK_RESULT_LOST; // until a result has come
    if (pg->state == LINK_PREPARING && pg->prepared < SK_STATEMENT_COUNT) {
        const struct sk_embedded *statement = &sk_statements[pg->prepared];
        return PQsendPrepare(pg->conn, statement->name, statement->text, 0, NULL);
    }
    if (pg->state == LINK_PREPARING) {
        char ms[16];
        const char *params[] = {ms};
        (void)snprintf(ms, sizeof ms, "%u", pg->timeout_ms);
        return PQsendQueryPrepared(pg->conn, sk_statements[SK_STATEMENT_SESSION].name, 1, params, NULL, NULL, 0);
    }
    struct call *call = pg->oldest;
    return PQsendQueryPrepared(pg->conn, sk_statements[call->statement].name, call->n, call->params, NULL, NULL, 0);
}

// A statement has ended: prepare the next one, open for business, or hand out the result.
static void step(struct sk_pg *pg)
{
    if (pg->state == LINK_READY) {
        finish_oldest(pg);
        return;
    }
    pg->busy = false;
    if (pg->kind != SK_RESULT_ROWS) {
        drop(pg, "the statements do not fit this database; has it been migrated?");
        return;
    }
    PQclear(pg->result);
    pg->result = NULL;
    if (pg->prepared++ == SK_STATEMENT_COUNT)
        set_state(pg, LINK_READY);
}

// Sends what can be sent and watches for what must be waited for.
static void pump(struct sk_pg *pg)
{
    while (pg->conn != NULL && !pg->busy && (pg->state == LINK_PREPARING || pg->oldest != NULL)) {
        if (send_next(pg) != 1) {
            drop(pg, PQerrorMessage(pg->conn));
            return;
        }
        pg->busy = true;
        int left = PQflush(pg->conn);
        if (left < 0) {
            drop(pg, PQerrorMessage(pg->conn));
            return;
        }
        if (left > 0 && watch_for(pg, UV_READABLE | UV_WRITABLE) != SK_OK)
            drop(pg, "cannot watch the socket");
    }
}

static void receive(struct sk_pg *pg)
{
    if (PQconsumeInput(pg->conn) != 1) {
        drop(pg, PQerrorMessage(pg->conn));
        return;
    }
    while (pg->conn != NULL && pg->busy && PQisBusy(pg->conn) == 0) {
        PGresult *result = PQgetResult(pg->conn);
        if (result != NULL) {
            take_result(pg, result);
            continue;
        }
        step(pg);
        pump(pg);
    }
    if (pg->conn != NULL && PQstatus(pg->conn) == CONNECTION_BAD)
        drop(pg, PQerrorMessage(pg->conn));
}

static void connecting(struct sk_pg *pg)
{
    PostgresPollingStatusType polled = PQconnectPoll(pg->conn);
    if (polled == PGRES_POLLING_FAILED) {
        drop(pg, PQerrorMessage(pg->conn));
        return;
    }
    if (polled == PGRES_POLLING_OK) {
        pg->prepared = 0;
        set_state(pg, LINK_PREPARING);
        if (PQsetnonblocking(pg->conn, 1) != 0 || watch_for(pg, UV_READABLE) != SK_OK)
            drop(pg, "cannot watch the socket");
        else
            pump(pg);
        return;
    }
    if (watch_for(pg, polled == PGRES_POLLING_READING ? UV_READABLE : UV_WRITABLE) != SK_OK)
        drop(pg, "cannot watch the socket");
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct sk_pg *pg = poll->data;
    if (pg->state == LINK_CONNECTING) {
        connecting(pg);
        return;
    }
    if ((events & UV_WRITABLE) != 0) {
        int left = PQflush(pg->conn);
        if (left < 0 || (left == 0 && watch_for(pg, UV_READABLE) != SK_OK)) {
            drop(pg, PQerrorMessage(pg->conn));
            return;
        }
    }
    if (status < 0 || (events & UV_READABLE) != 0)
        receive(pg);
}

enum sk_status sk_pg_call(struct sk_pg *pg, enum sk_statement statement, int n, const char *const *params,
                          sk_pg_cb *done, void *arg)
{
    SK_ASSERT(n <= SK_PG_PARAMS_MAX);
    if (pg->state != LINK_READY)
        return SK_DOWN;
    if (pg->waiting >= SK_PG_QUEUE_MAX)
        return SK_FULL;
    size_t lens[SK_PG_PARAMS_MAX], total = 0;
    for (int i = 0; i < n; i++) {
        lens[i] = params[i] == NULL ? 0 : strlen(params[i]) + 1;
        total += lens[i];
    }
    struct call *call = calloc(1, sizeof *call + total);
    if (call == NULL)
        return SK_NO_MEM;
    call->done = done;
    call->arg = arg;
    call->statement = statement;
    call->n = n;
    call->since_ms = uv_now(pg->loop);
    char *text = call->text;
    for (int i = 0; i < n; i++) {
        if (params[i] == NULL)
            continue;
        memcpy(text, params[i], lens[i]);
        call->params[i] = text;
        text += lens[i];
    }
    if (pg->youngest != NULL)
        pg->youngest->next = call;
    else
        pg->oldest = call;
    pg->youngest = call;
    pg->waiting++;
    // Sending can fail and then runs callbacks, never inside the caller's call: the tick sends instead
    // when a send here would not be safe. A send that fails outright is seen by the next read.
    if (!pg->busy && send_next(pg) == 1) {
        pg->busy = true;
        if (PQflush(pg->conn) > 0)
            (void)watch_for(pg, UV_READABLE | UV_WRITABLE);
    }
    return SK_OK;
}

// ---- connection ----

static void start_connection(struct sk_pg *pg, const char *address)
{
    // The URI goes in as dbname, where libpq expands it; what comes later in the list wins.
    const char *names[] = {"dbname", "hostaddr", "application_name", NULL};
    const char *values[] = {pg->url, address, "seckill", NULL};
    if (address == NULL) {
        names[1] = "application_name";
        values[1] = "seckill";
        names[2] = NULL;
    }
    pg->conn = PQconnectStartParams(names, values, 1);
    if (pg->conn == NULL || PQstatus(pg->conn) == CONNECTION_BAD) {
        drop(pg, pg->conn == NULL ? "out of memory" : PQerrorMessage(pg->conn));
        return;
    }
    if (watch_for(pg, UV_WRITABLE) != SK_OK)
        drop(pg, "cannot watch the socket");
}

static void free_pg(struct sk_pg *pg)
{
    free(pg->host);
    free(pg->url);
    free(pg);
}

static void on_resolved(void *arg, const char *address)
{
    struct sk_pg *pg = arg;
    pg->resolving = false;
    if (pg->state == LINK_CLOSED) {
        if (pg->tick_closed)
            free_pg(pg);
    } else if (address == NULL) {
        drop(pg, "the host name cannot be resolved");
    } else {
        start_connection(pg, address);
    }
}

static void connect_now(struct sk_pg *pg)
{
    pg->retry_at_ms = sk_monotonic_ms() + sk_backoff_next(&pg->backoff);
    set_state(pg, LINK_CONNECTING);
    if (pg->host == NULL) {
        start_connection(pg, NULL);
    } else if (sk_resolve(pg->loop, &pg->resolve, pg->host, on_resolved, pg)) {
        pg->resolving = true;
    } else {
        drop(pg, "the host name cannot be resolved");
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct sk_pg *pg = timer->data;
    uint64_t now = sk_monotonic_ms();
    if (pg->state == LINK_DOWN) {
        if (now >= pg->retry_at_ms)
            connect_now(pg);
        return;
    }
    if (pg->state == LINK_READY) {
        // The server's own time-out comes first; ours covers a server that no longer answers at all.
        if (pg->oldest != NULL && uv_now(pg->loop) >= pg->oldest->since_ms + pg->timeout_ms + pg->timeout_ms / 2)
            drop(pg, "result overdue");
        else
            pump(pg);
    } else if (!pg->resolving && now >= pg->state_since_ms + pg->timeout_ms) {
        drop(pg, "connecting takes too long");
    }
}

// ---- opening and closing ----

// Finds the host name to resolve, if the URI has just one and gives no address for it.
static enum sk_status find_host(struct sk_pg *pg)
{
    char *error = NULL;
    PQconninfoOption *options = PQconninfoParse(pg->url, &error);
    if (options == NULL) {
        sk_log(SK_ERROR, "SECKILL_DATABASE_URL is not a URI that libpq reads", "");
        PQfreemem(error);
        return SK_FAIL;
    }
    const char *host = NULL;
    bool has_address = false;
    for (PQconninfoOption *o = options; o->keyword != NULL; o++) {
        if (strcmp(o->keyword, "host") == 0)
            host = o->val;
        if (strcmp(o->keyword, "hostaddr") == 0)
            has_address = o->val != NULL;
    }
    enum sk_status status = SK_OK;
    if (host != NULL && host[0] != '\0' && host[0] != '/' && strchr(host, ',') == NULL && !has_address) {
        pg->host = strdup(host);
        status = pg->host == NULL ? SK_NO_MEM : SK_OK;
    }
    PQconninfoFree(options);
    return status;
}

struct sk_pg *sk_pg_open(uv_loop_t *loop, const struct sk_pg_options *options)
{
    struct sk_pg *pg = calloc(1, sizeof *pg);
    if (pg == NULL)
        return NULL;
    pg->loop = loop;
    pg->fd = -1;
    pg->timeout_ms = options->timeout_ms;
    pg->on_change = options->on_change;
    pg->arg = options->arg;
    pg->backoff = (struct sk_backoff){.first_ms = 50, .most_ms = 2000};
    pg->url = strdup(options->url);
    if (pg->url == NULL || find_host(pg) != SK_OK) {
        free_pg(pg);
        return NULL;
    }
    (void)uv_timer_init(loop, &pg->tick);
    pg->tick.data = pg;
    (void)uv_timer_start(&pg->tick, on_tick, TICK_MS, TICK_MS);
    connect_now(pg);
    return pg;
}

static void on_closed(uv_handle_t *handle)
{
    struct sk_pg *pg = handle->data;
    pg->tick_closed = true;
    if (!pg->resolving) // else the resolver's callback frees it
        free_pg(pg);
}

void sk_pg_close(struct sk_pg *pg)
{
    if (pg == NULL)
        return;
    unwatch(pg);
    PQclear(pg->result);
    pg->result = NULL;
    PQfinish(pg->conn);
    pg->conn = NULL;
    set_state(pg, LINK_CLOSED);
    fail_all(pg);
    if (pg->resolving)
        (void)uv_cancel((uv_req_t *)&pg->resolve.request);
    uv_close((uv_handle_t *)&pg->tick, on_closed);
}

bool sk_pg_ready(const struct sk_pg *pg)
{
    return pg->state == LINK_READY;
}

// ---- rows: struct sk_rows is libpq's PGresult under a name of ours ----

size_t sk_rows_count(const struct sk_rows *rows)
{
    return (size_t)PQntuples((const PGresult *)(const void *)rows);
}

const char *sk_rows_text(const struct sk_rows *rows, size_t row, int column)
{
    const PGresult *result = (const PGresult *)(const void *)rows;
    return PQgetisnull(result, (int)row, column) ? NULL : PQgetvalue(result, (int)row, column);
}

int64_t sk_rows_number(const struct sk_rows *rows, size_t row, int column)
{
    const char *text = sk_rows_text(rows, row, column);
    return text == NULL ? 0 : strtoll(text, NULL, 10);
}
