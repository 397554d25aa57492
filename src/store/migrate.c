// Uses libpq's blocking calls: migrations run once, at a quiet moment.
//
// The database's list of migrations and ours must be of one lineage: the shorter list begins the longer one, with the
// same names and texts. If the database is behind, the rest is applied. If it is ahead, a newer version has migrated
// it, and it is left alone. In any other case a migration was edited, removed or inserted. Then ours were written for
// other tables, so none is applied.
#include "migrate.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>

#include "embedded.h"
#include "log.h"
#include "params.h"
#include "pg_hosts.h"

enum { NAME_SIZE = 128 };

enum migrate_place {
    MIGRATE_SAME,
    MIGRATE_NONE,  // the database has no migration at this place
    MIGRATE_OTHER, // the database has another migration there
    MIGRATE_FAILED,
};

// Clears the result.
static enum sk_status migrate_check(PGconn *conn, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    bool ok = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    if (!ok)
        sk_log_text(SK_LOG_ERROR, "migration failed", "reason", PQerrorMessage(conn));
    PQclear(result);
    return ok ? SK_OK : SK_FAIL;
}

static enum sk_status migrate_run(PGconn *conn, enum sk_bookkeeping step)
{
    return migrate_check(conn, PQexec(conn, sk_bookkeepings[step].text));
}

// The owner should not be able to create roles, so they may have to exist already.
static enum sk_status migrate_find_roles(PGconn *conn)
{
    PGresult *result = PQexec(conn, sk_bookkeepings[SK_BOOKKEEPING_ROLES].text);
    bool missing = PQntuples(result) == 1 && !PQgetisnull(result, 0, 0);
    if (missing)
        sk_log(SK_LOG_ERROR,
               "roles are missing, and this login may not create them: run deploy/owner.sql as a superuser first",
               "roles=\"%s\"", PQgetvalue(result, 0, 0));
    return migrate_check(conn, result) == SK_OK && !missing ? SK_OK : SK_FAIL;
}

// We have no migration after our last one: one found there is MIGRATE_OTHER.
static enum migrate_place migrate_compare_one(PGconn *conn, int place, char found[NAME_SIZE])
{
    static const struct sk_embedded none = {"", ""};
    const struct sk_embedded *ours = place < SK_MIGRATION_COUNT ? &sk_migrations[place] : &none;
    char number[SK_PARAM_NUMBER_SIZE];
    const char *const params[] = {ours->name, ours->text, sk_params_number(number, place)};
    enum migrate_place seen = MIGRATE_FAILED;
    PGresult *result = PQexecParams(conn, sk_bookkeepings[SK_BOOKKEEPING_COMPARE].text, 3, NULL, params, NULL, NULL, 0);
    if (PQresultStatus(result) == PGRES_TUPLES_OK) {
        bool there = PQntuples(result) == 1;
        (void)snprintf(found, NAME_SIZE, "%s", there ? PQgetvalue(result, 0, 0) : "");
        seen = !there ? MIGRATE_NONE : PQgetvalue(result, 0, 1)[0] == 't' ? MIGRATE_SAME : MIGRATE_OTHER;
    }
    return migrate_check(conn, result) == SK_OK ? seen : MIGRATE_FAILED;
}

// Compares all migrations before any is applied. Changes nothing, not even the list.
static enum sk_status migrate_compare(PGconn *conn)
{
    char found[NAME_SIZE];
    enum migrate_place seen = MIGRATE_SAME;
    int place = 0;
    if (migrate_run(conn, SK_BOOKKEEPING_BEGIN) != SK_OK)
        return SK_FAIL;
    while (seen == MIGRATE_SAME) {
        seen = migrate_compare_one(conn, place, found);
        place += seen == MIGRATE_SAME;
    }
    if (seen == MIGRATE_FAILED)
        return SK_FAIL;
    if (seen == MIGRATE_OTHER && place < SK_MIGRATION_COUNT) {
        sk_log(SK_LOG_ERROR, "the database was not migrated by a version of this line; nothing was changed",
               "migration=%s expected=%s", found, sk_migrations[place].name);
        return SK_FAIL;
    }
    if (seen == MIGRATE_OTHER)
        sk_log(SK_LOG_INFO, "a newer version has migrated the database; that is left as it is", "migration=%s", found);
    return migrate_run(conn, SK_BOOKKEEPING_ROLLBACK);
}

static enum sk_status migrate_apply(PGconn *conn, int place)
{
    const struct sk_embedded *migration = &sk_migrations[place];
    const char *const params[] = {migration->name, migration->text};
    char found[NAME_SIZE];
    if (migrate_run(conn, SK_BOOKKEEPING_BEGIN) != SK_OK)
        return SK_FAIL;
    // Check again: another process may have been faster.
    enum migrate_place seen = migrate_compare_one(conn, place, found);
    if (seen != MIGRATE_SAME && seen != MIGRATE_NONE)
        return SK_FAIL;
    if (seen == MIGRATE_NONE && migrate_check(conn, PQexec(conn, migration->text)) != SK_OK)
        return SK_FAIL;
    if (migrate_check(conn, PQexecParams(conn, sk_bookkeepings[SK_BOOKKEEPING_RECORD].text, 2, NULL, params, NULL, NULL,
                                         0)) != SK_OK ||
        migrate_run(conn, SK_BOOKKEEPING_COMMIT) != SK_OK)
        return SK_FAIL;
    sk_log(SK_LOG_INFO, seen == MIGRATE_NONE ? "migration applied" : "migration was there", "name=%s", migration->name);
    return SK_OK;
}

static enum sk_status migrate_number(PGconn *conn, size_t number, size_t count)
{
    char texts[2][SK_PARAM_NUMBER_SIZE];
    const char *const params[] = {sk_params_number(texts[0], (int64_t)number),
                                  sk_params_number(texts[1], (int64_t)count)};
    PGresult *result = PQexecParams(conn, sk_bookkeepings[SK_BOOKKEEPING_SHARD].text, 2, NULL, params, NULL, NULL, 0);
    bool misfit = PQntuples(result) == 1 && !PQgetisnull(result, 0, 0);
    if (misfit)
        sk_log_text(SK_LOG_ERROR, "it has vouchers, or instances are connected, so its number stays", "reason",
                    PQgetvalue(result, 0, 0));
    return migrate_check(conn, result) == SK_OK && !misfit ? SK_OK : SK_FAIL;
}

enum sk_status sk_migrate_shard(const char *database_url, size_t number, size_t count)
{
    enum sk_status status = SK_OK;
    PGconn *conn = sk_pg_hosts_connect_to_write(database_url);
    if (PQstatus(conn) != CONNECTION_OK) {
        if (conn != NULL)
            sk_log_text(SK_LOG_ERROR, "cannot reach PostgreSQL", "reason", PQerrorMessage(conn));
        status = SK_FAIL;
    }
    if (status == SK_OK)
        status = migrate_find_roles(conn);
    if (status == SK_OK)
        status = migrate_compare(conn);
    for (int i = 0; status == SK_OK && i < SK_MIGRATION_COUNT; i++)
        status = migrate_apply(conn, i);
    if (status == SK_OK)
        status = migrate_number(conn, number, count);
    PQfinish(conn); // rolls back what is open
    return status;
}

enum sk_status sk_migrate(const struct sk_shards *shards)
{
    enum sk_status status = SK_OK;
    for (size_t i = 0; i < shards->count; i++) {
        if (shards->count > 1)
            sk_log(SK_LOG_INFO, "migrating a shard", "shard=%zu of=%zu", i, shards->count);
        if (sk_migrate_shard(shards->urls[i], i, shards->count) != SK_OK)
            status = SK_FAIL;
    }
    return status;
}
