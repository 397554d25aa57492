#include "pg_once.h"

#include <libpq-fe.h>
#include <stdlib.h>

#include "log.h"
#include "pg_hosts.h"

struct sk_pg_once {
    PGconn *conn;
    PGresult *result; // of the last call
};

struct sk_pg_once *sk_pg_once_open(const char *url)
{
    struct sk_pg_once *pg = calloc(1, sizeof *pg);
    if (pg == NULL)
        return NULL;
    pg->conn = sk_pg_hosts_connect_to_write(url);
    if (PQstatus(pg->conn) != CONNECTION_OK || PQsetClientEncoding(pg->conn, "UTF8") != 0) {
        sk_log_text(SK_LOG_ERROR, "cannot reach PostgreSQL", "reason", PQerrorMessage(pg->conn));
        sk_pg_once_close(pg);
        return NULL;
    }
    return pg;
}

void sk_pg_once_close(struct sk_pg_once *pg)
{
    if (pg == NULL)
        return;
    PQclear(pg->result);
    PQfinish(pg->conn);
    free(pg);
}

enum sk_status sk_pg_once_run(struct sk_pg_once *pg, enum sk_keeping statement, int n, const char *const *params,
                              const struct sk_rows **rows)
{
    PQclear(pg->result);
    pg->result = PQexecParams(pg->conn, sk_keepings[statement].text, n, NULL, params, NULL, NULL, 0);
    *rows = (const struct sk_rows *)(const void *)pg->result;
    if (PQresultStatus(pg->result) == PGRES_TUPLES_OK)
        return SK_OK;
    sk_log_text(SK_LOG_ERROR, "PostgreSQL refuses", "reason", PQerrorMessage(pg->conn));
    *rows = NULL;
    return SK_FAIL;
}
