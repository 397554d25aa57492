#include "pg_once.h"

#include <libpq-fe.h>
#include <stdlib.h>

#include "log.h"
#include "params.h"
#include "pg_hosts.h"

struct sk_pg_once {
    PGconn *conn;
    PGresult *result; // of the last call
};

static bool pg_once_fits(struct sk_pg_once *pg, const struct sk_shards *shards, size_t number)
{
    char which[SK_PARAM_NUMBER_SIZE], of[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(which, (int64_t)number), sk_params_number(of, (int64_t)shards->count)};
    const struct sk_rows *rows;
    if (sk_pg_once_run(pg, SK_KEEPING_SHARD_FITS, 2, params, &rows) != SK_OK)
        return false;
    const char *misfit = sk_rows_text(rows, 0, 0);
    if (misfit != NULL)
        sk_log_text(SK_LOG_ERROR, "wrong shard", "reason", misfit);
    return misfit == NULL;
}

struct sk_pg_once *sk_pg_once_open(const struct sk_shards *shards, size_t number)
{
    struct sk_pg_once *pg = calloc(1, sizeof *pg);
    if (pg == NULL)
        return NULL;
    pg->conn = sk_pg_hosts_connect_to_write(shards->urls[number]);
    bool connected = PQstatus(pg->conn) == CONNECTION_OK && PQsetClientEncoding(pg->conn, "UTF8") == 0;
    if (connected && pg_once_fits(pg, shards, number))
        return pg;
    if (!connected && pg->conn != NULL)
        sk_log_text(SK_LOG_ERROR, "cannot reach PostgreSQL", "reason", PQerrorMessage(pg->conn));
    sk_pg_once_close(pg);
    return NULL;
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
