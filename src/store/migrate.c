// Migrations run once, at a quiet moment, so this is the one place that uses libpq's blocking calls.
#include "migrate.h"

#include <libpq-fe.h>
#include <stdbool.h>

#include "embedded.h"
#include "log.h"

// Takes the result over; *rows may be NULL.
static enum sk_status migrate_check(PGconn *conn, PGresult *result, int *rows)
{
    ExecStatusType status = PQresultStatus(result);
    bool ok = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    if (!ok)
        sk_log_text(SK_LOG_ERROR, "migration failed", "reason", PQerrorMessage(conn));
    if (rows != NULL)
        *rows = PQntuples(result);
    PQclear(result);
    return ok ? SK_OK : SK_FAIL;
}

// A file of several statements.
static enum sk_status migrate_run(PGconn *conn, const char *sql)
{
    return migrate_check(conn, PQexec(conn, sql), NULL);
}

static enum sk_status migrate_run_named(PGconn *conn, enum sk_bookkeeping step, const char *name, int *rows)
{
    return migrate_check(conn, PQexecParams(conn, sk_bookkeepings[step].text, 1, NULL, &name, NULL, NULL, 0), rows);
}

static enum sk_status migrate_apply(PGconn *conn, const struct sk_embedded *migration)
{
    int rows = 0;
    if (migrate_run(conn, sk_bookkeepings[SK_BOOKKEEPING_BEGIN].text) != SK_OK ||
        migrate_run_named(conn, SK_BOOKKEEPING_APPLIED, migration->name, &rows) != SK_OK)
        return SK_FAIL;
    bool fresh = rows == 0;
    if (fresh && (migrate_run(conn, migration->text) != SK_OK ||
                  migrate_run_named(conn, SK_BOOKKEEPING_RECORD, migration->name, &rows) != SK_OK))
        return SK_FAIL;
    if (migrate_run(conn, sk_bookkeepings[SK_BOOKKEEPING_COMMIT].text) != SK_OK)
        return SK_FAIL;
    sk_log(SK_LOG_INFO, fresh ? "migration applied" : "migration was there", "name=%s", migration->name);
    return SK_OK;
}

enum sk_status sk_migrate(const char *database_url)
{
    enum sk_status status = SK_OK;
    PGconn *conn = PQconnectdb(database_url);
    if (PQstatus(conn) != CONNECTION_OK) {
        sk_log_text(SK_LOG_ERROR, "cannot reach PostgreSQL", "reason", PQerrorMessage(conn));
        status = SK_FAIL;
    }
    for (int i = 0; status == SK_OK && i < SK_MIGRATION_COUNT; i++)
        status = migrate_apply(conn, &sk_migrations[i]);
    PQfinish(conn); // rolls back what is open
    return status;
}
