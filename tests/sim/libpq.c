// The part of libpq that pg_link.c stands on, on the network of the simulation: the linker leads those calls here
// (--wrap). Results are real ones of PostgreSQL. pg_link.c itself is the service's.
//
// A descriptor that only counts takes the place of the socket, so libuv sees when there is something to read.
#include <libpq-fe.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "net.h"

struct pg_conn {
    struct net_conn *conn; // NULL: it has ended
    int fd;
    bool connected, busy;
    const char *error; // NULL: none
    PGresult *result;  // that has come
    unsigned notifications;
};

// The linker's names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
PGconn *__wrap_PQconnectStartParams(const char *const *keywords, const char *const *values, int expand);
PostgresPollingStatusType __wrap_PQconnectPoll(PGconn *conn);
ConnStatusType __wrap_PQstatus(const PGconn *conn);
char *__wrap_PQerrorMessage(const PGconn *conn);
char *__wrap_PQhost(const PGconn *conn);
char *__wrap_PQport(const PGconn *conn);
int __wrap_PQsocket(const PGconn *conn);
int __wrap_PQsetnonblocking(PGconn *conn, int on);
PQnoticeReceiver __wrap_PQsetNoticeReceiver(PGconn *conn, PQnoticeReceiver receiver, void *arg);
int __wrap_PQsendPrepare(PGconn *conn, const char *name, const char *text, int n, const Oid *types);
int __wrap_PQsendQueryPrepared(PGconn *conn, const char *name, int n, const char *const *params, const int *lens,
                               const int *formats, int format);
int __wrap_PQflush(PGconn *conn);
int __wrap_PQconsumeInput(PGconn *conn);
int __wrap_PQisBusy(PGconn *conn);
PGresult *__wrap_PQgetResult(PGconn *conn);
PGnotify *__wrap_PQnotifies(PGconn *conn);
void __wrap_PQfinish(PGconn *conn);

static void libpq_signal(const PGconn *conn)
{
    (void)eventfd_write(conn->fd, 1);
}

static void libpq_on_connected(void *link)
{
    PGconn *conn = link;
    conn->connected = true;
    libpq_signal(conn);
}

static void libpq_on_lost(void *link, const char *why)
{
    PGconn *conn = link;
    conn->conn = NULL;
    conn->error = why;
    libpq_signal(conn);
}

static void libpq_on_answer(void *link, struct net_packet *packet)
{
    PGconn *conn = link;
    conn->notifications += packet->result == NULL;
    if (packet->result != NULL) {
        conn->result = packet->result;
        conn->busy = false;
    }
    packet->result = NULL;
    net_packet_free(packet);
    libpq_signal(conn);
}

// ---- connecting ----

PGconn *__wrap_PQconnectStartParams(const char *const *keywords, const char *const *values, int expand)
{
    static const struct net_events events = {libpq_on_connected, libpq_on_lost, libpq_on_answer};
    PGconn *conn = world_alloc(sizeof *conn);
    const char *at = "";
    (void)expand;
    for (int i = 0; keywords[i] != NULL; i++) {
        if (strcmp(keywords[i], "hostaddr") == 0 && values[i] != NULL)
            at = values[i];
    }
    conn->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (conn->fd < 0)
        world_fail("no descriptor");
    conn->conn = net_connect(servers_at(at), &events, conn);
    return conn;
}

PostgresPollingStatusType __wrap_PQconnectPoll(PGconn *conn)
{
    (void)__wrap_PQconsumeInput(conn);
    return conn->error != NULL ? PGRES_POLLING_FAILED : conn->connected ? PGRES_POLLING_OK : PGRES_POLLING_READING;
}

ConnStatusType __wrap_PQstatus(const PGconn *conn)
{
    return conn->error != NULL ? CONNECTION_BAD : CONNECTION_OK;
}

char *__wrap_PQerrorMessage(const PGconn *conn)
{
    return (char *)(conn->error == NULL ? "" : conn->error);
}

char *__wrap_PQhost(const PGconn *conn)
{
    (void)conn;
    static char host[] = "a host";
    return host;
}

char *__wrap_PQport(const PGconn *conn)
{
    (void)conn;
    static char port[] = "5432";
    return port;
}

int __wrap_PQsocket(const PGconn *conn)
{
    return conn->fd;
}

int __wrap_PQsetnonblocking(PGconn *conn, int on)
{
    (void)conn;
    (void)on;
    return 0;
}

PQnoticeReceiver __wrap_PQsetNoticeReceiver(PGconn *conn, PQnoticeReceiver receiver, void *arg)
{
    (void)conn; // notices stay with the fault suite
    (void)receiver;
    (void)arg;
    return NULL;
}

void __wrap_PQfinish(PGconn *conn)
{
    if (conn == NULL)
        return;
    PQclear(conn->result);
    net_leave(conn->conn);
    (void)close(conn->fd);
    *conn = (PGconn){.fd = -1};
}

// ---- statements ----

// All connections share what was prepared when the simulation started.
int __wrap_PQsendPrepare(PGconn *conn, const char *name, const char *text, int n, const Oid *types)
{
    (void)name;
    (void)text;
    (void)n;
    (void)types;
    conn->result = PQmakeEmptyPGresult(NULL, PGRES_COMMAND_OK);
    libpq_signal(conn);
    return 1;
}

static enum sk_statement libpq_statement(const char *name)
{
    int i = 0;
    while (i < SK_STATEMENT_COUNT && strcmp(sk_statements[i].name, name) != 0)
        i++;
    if (i == SK_STATEMENT_COUNT)
        world_fail("a statement that is not the service's: %s", name);
    return (enum sk_statement)i;
}

int __wrap_PQsendQueryPrepared(PGconn *conn, const char *name, int n, const char *const *params, const int *lens,
                               const int *formats, int format)
{
    (void)lens;
    (void)formats;
    (void)format;
    if (conn->conn == NULL)
        return 0;
    enum sk_statement statement = libpq_statement(name);
    struct net_packet *packet = net_packet_new(sk_statements[statement].name);
    packet->statement = statement;
    packet->n = n;
    for (int i = 0; i < n; i++) {
        packet->params[i] = world_copy(params[i]);
    }
    conn->busy = true;
    net_send(conn->conn, packet);
    return 1;
}

int __wrap_PQflush(PGconn *conn)
{
    return conn->error != NULL ? -1 : 0;
}

int __wrap_PQconsumeInput(PGconn *conn)
{
    eventfd_t count;
    (void)eventfd_read(conn->fd, &count);
    return conn->error == NULL;
}

int __wrap_PQisBusy(PGconn *conn)
{
    return conn->busy;
}

PGresult *__wrap_PQgetResult(PGconn *conn)
{
    PGresult *result = conn->result;
    conn->result = NULL;
    return result;
}

PGnotify *__wrap_PQnotifies(PGconn *conn)
{
    if (conn->notifications == 0)
        return NULL;
    conn->notifications = 0;
    return world_alloc(sizeof(PGnotify));
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
