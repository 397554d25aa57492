// Uses libpq's blocking calls, since nothing else runs in this process. Writes nothing: it asks the system catalogue
// for rights, and only prepares the statements.
#include "check_postgres.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "clock.h"
#include "embedded.h"
#include "params.h"
#include "pg_hosts.h"
#include "text.h"

enum { VERSION_LEAST = 15, VERSION_PARTS = 10000 };

struct postgres_check {
    struct sk_findings *findings;
    const struct sk_store_options *options;
    size_t shard;
    int64_t reactors;
    struct sk_pg_hosts *hosts;
    PGconn *conn;             // to the primary
    const PGresult *settings; // the row of sql/checks/settings.sql; borrowed
};

// ---- connecting and asking ----

// NULL: the server refused, and a finding is recorded. The caller clears the result.
static PGresult *postgres_check_ask(const struct postgres_check *check, const char *what, const char *sql, int n,
                                    const char *const *params)
{
    PGresult *result = PQexecParams(check->conn, sql, n, NULL, params, NULL, NULL, 0);
    if (PQresultStatus(result) == PGRES_TUPLES_OK)
        return result;
    sk_find(check->findings, SK_FINDING_FAIL, what, "%s", PQerrorMessage(check->conn));
    PQclear(result);
    return NULL;
}

// Tries each host, as the service does, and keeps the connection to the primary.
static bool postgres_check_hosts(struct postgres_check *check)
{
    size_t count = sk_pg_hosts_count(check->hosts), primaries = 0;
    int most_s = (int)(check->options->pg_timeout_ms / 1000) + 1;
    for (size_t i = 0; i < count; i++) {
        PGconn *conn = sk_pg_hosts_connect(check->hosts, i, "seckill-check", most_s);
        const char *standby = PQparameterStatus(conn, "in_hot_standby"), *name = sk_pg_hosts_name(check->hosts, i);
        bool reached = PQstatus(conn) == CONNECTION_OK,
             is_primary = reached && standby != NULL && strcmp(standby, "off") == 0;
        primaries += is_primary;
        if (reached)
            sk_find(check->findings, SK_FINDING_OK, "postgresql host", "%s port %s, %s", name, PQport(conn),
                    is_primary ? "the primary" : "a standby");
        else
            sk_find(check->findings, SK_FINDING_WARN, "postgresql host", "%s: %s", name,
                    conn == NULL ? "out of memory" : PQerrorMessage(conn));
        if (is_primary && check->conn == NULL)
            check->conn = conn;
        else
            PQfinish(conn);
    }
    SK_FIND_UNLESS(check->findings, primaries <= 1, SK_FINDING_FAIL, "postgresql primaries",
                   "%zu; orders would be written to whichever comes first (P1, P3)", primaries);
    if (check->conn == NULL)
        sk_find(check->findings, SK_FINDING_FAIL, "postgresql reachable",
                "none of %zu hosts is a primary: purchases end as 202, then 503", count);
    return check->conn != NULL;
}

static bool postgres_check_connect(struct postgres_check *check)
{
    char patience[SK_PARAM_NUMBER_SIZE];
    int64_t ms = check->options->pg_timeout_ms;
    const char *const params[] = {sk_params_number(patience, ms)};
    check->hosts = sk_pg_hosts_open(check->options->shards.urls[check->shard]);
    if (check->hosts == NULL) {
        sk_find(check->findings, SK_FINDING_FAIL, "postgresql reachable", "%s is wrong",
                check->options->shards_file == NULL ? "SECKILL_DATABASE_URL" : "its URL in SECKILL_SHARDS");
        return false;
    }
    if (sk_pg_hosts_count(check->hosts) > 1) {
        if (!postgres_check_hosts(check))
            return false;
    } else {
        check->conn = sk_pg_hosts_connect(check->hosts, 0, "seckill-check", (int)(ms / 1000) + 1);
    }
    if (check->conn == NULL || PQstatus(check->conn) != CONNECTION_OK) {
        sk_find(check->findings, SK_FINDING_FAIL, "postgresql reachable", "%s: purchases end as 202, then 503",
                check->conn == NULL ? "out of memory" : PQerrorMessage(check->conn));
        return false;
    }
    PGresult *set = postgres_check_ask(check, "postgresql session", sk_checks[SK_CHECK_SESSION].text, 1, params);
    if (set == NULL)
        return false;
    PQclear(set);
    sk_find(check->findings, SK_FINDING_OK, "postgresql reachable", "%s, database %s", PQhost(check->conn),
            PQdb(check->conn));
    return true;
}

static struct sk_clock_seen postgres_check_clock(const struct postgres_check *check)
{
    struct sk_clock_seen seen = {0};
    uint64_t asked_ms = sk_wall_ms();
    PGresult *result = postgres_check_ask(check, "postgresql clock", sk_checks[SK_CHECK_CLOCK].text, 0, NULL);
    uint64_t answered_ms = sk_wall_ms(), says_ms;
    if (result != NULL && PQntuples(result) == 1 && sk_text_number(PQgetvalue(result, 0, 0), INT64_MAX, &says_ms))
        seen = sk_clock_compare((int64_t)says_ms, asked_ms, answered_ms);
    PQclear(result);
    return seen;
}

// Returns "" for NULL, or if there is no such column.
static const char *postgres_check_value(const struct postgres_check *check, const char *column)
{
    int at = PQfnumber(check->settings, column);
    return at < 0 ? "" : PQgetvalue(check->settings, 0, at);
}

static bool postgres_check_is(const struct postgres_check *check, const char *column, const char *value)
{
    return strcmp(postgres_check_value(check, column), value) == 0;
}

// ---- the server ----

// Whether a commit under this setting of synchronous_commit is durable.
static bool postgres_check_waits(const char *commit)
{
    return strcmp(commit, "off") != 0 && strcmp(commit, "local") != 0;
}

static void postgres_check_server(const struct postgres_check *check)
{
    static const struct {
        const char *what, *column, *wanted, *good, *bad;
    } rows[] = {
        {"postgresql role", "standby", "0", "primary", "a standby; only a primary takes orders"},
        {"postgresql default_transaction_read_only", "read_only", "off", "off", "on: no order can be written"},
        {"postgresql fsync", "fsync", "on", "on",
         "off: a crash of the machine loses committed orders, or the database (P3)"},
        {"postgresql full_page_writes", "full_page_writes", "on", "on",
         "off: a crash of the machine may leave half a page, and orders on it (P3)"},
    };
    struct sk_findings *findings = check->findings;
    long version = strtol(postgres_check_value(check, "version_number"), NULL, 10);
    SK_FIND_UNLESS(findings, version >= (long)VERSION_LEAST * VERSION_PARTS, SK_FINDING_FAIL, "postgresql version",
                   "%s; %d or newer is needed", postgres_check_value(check, "version"), VERSION_LEAST);
    SK_FIND_UNLESS(findings, postgres_check_is(check, "encoding", "UTF8"), SK_FINDING_FAIL, "postgresql encoding",
                   "%s; titles are UTF-8", postgres_check_value(check, "encoding"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool good = postgres_check_is(check, rows[i].column, rows[i].wanted);
        SK_FIND_UNLESS(findings, good, SK_FINDING_FAIL, rows[i].what, "%s", good ? rows[i].good : rows[i].bad);
    }
    const char *commit = postgres_check_value(check, "synchronous_commit");
    bool waits = postgres_check_waits(commit);
    SK_FIND_UNLESS(findings, waits, SK_FINDING_WARN, "postgresql synchronous_commit",
                   waits ? "%s" : "%s: the service commits as `on` all the same (P3 holds), your own tools do not",
                   commit);
}

// What makes buyers wait in a rush: two settings each, and the column of the statement that is 1 if they do.
static void postgres_check_rush(const struct postgres_check *check)
{
    static const struct {
        const char *what, *bad, *settings[2], *advice;
    } rows[] = {
        // Each page is written whole once more after a checkpoint.
        {"postgresql checkpoints",
         "checkpoints_often",
         {"max_wal_size", "checkpoint_timeout"},
         ": one may fall into a sale, and buyers wait for it; 2GB and 15min or more are better"},
        // A segment that does not exist yet is filled with zeros while orders wait for it.
        {"postgresql log segments",
         "segments_removed",
         {"min_wal_size", "wal_recycle"},
         ": those made ahead of a sale are removed; 512MB or more and on are better"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool bad = postgres_check_is(check, rows[i].bad, "1");
        const char *one = rows[i].settings[0], *other = rows[i].settings[1];
        SK_FIND_UNLESS(check->findings, !bad, SK_FINDING_WARN, rows[i].what, "%s %s, %s %s%s", one,
                       postgres_check_value(check, one), other, postgres_check_value(check, other),
                       bad ? rows[i].advice : "");
    }
}

static void postgres_check_standbys(const struct postgres_check *check)
{
    static const char what[] = "postgresql synchronous standbys";
    PGresult *result = postgres_check_ask(check, what, sk_checks[SK_CHECK_STANDBYS].text, 0, NULL);
    if (result == NULL)
        return;
    const char *wanted = PQgetvalue(result, 0, 0), *attached = PQgetvalue(result, 0, 1);
    const char *synchronous = PQgetvalue(result, 0, 2);
    bool known = PQgetisnull(result, 0, 2) == 0, alone = strcmp(attached, "0") == 0;
    if (wanted[0] == '\0')
        sk_find(check->findings, SK_FINDING_WARN, what,
                "none: a fail-over may lose the newest orders, and a lost disk all (P3)");
    else if (alone || (known && synchronous[0] == '\0'))
        sk_find(check->findings, SK_FINDING_WARN, what, "none of `%s` is attached: no order is confirmed until one is",
                wanted);
    else
        sk_find(check->findings, SK_FINDING_OK, what, known ? "%s" : "`%s`, of which this login sees no more",
                known ? synchronous : wanted);
    PQclear(result);
}

static void postgres_check_connections(const struct postgres_check *check)
{
    static const char *const rows[][2] = {
        {"postgresql connections", "free_server"},
        {"postgresql connections of the login", "free_role"},
        {"postgresql connections of the database", "free_database"},
    };
    int64_t needed = check->reactors * SK_SHARD_LINKS;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *text = postgres_check_value(check, rows[i][1]);
        if (text[0] != '\0') // else there is no limit
            SK_FIND_UNLESS(check->findings, strtoll(text, NULL, 10) >= needed, SK_FINDING_WARN, rows[i][0],
                           "%s more may be opened; this instance needs %" PRId64, text, needed);
    }
}

// ---- the login ----

static void postgres_check_login(const struct postgres_check *check)
{
    const char *login = postgres_check_value(check, "login");
    bool superuser = postgres_check_is(check, "superuser", "1"), owner = postgres_check_is(check, "owner", "1");
    if (superuser || owner)
        sk_find(check->findings, SK_FINDING_WARN, "postgresql role of the login",
                "%s %s: the service needs the role seckill_service only", login,
                superuser ? "is a superuser" : "owns the tables");
    else if (!postgres_check_is(check, "has_role", "1"))
        sk_find(check->findings, SK_FINDING_FAIL, "postgresql role of the login",
                "%s has not the role seckill_service: GRANT seckill_service TO it", login);
    else
        sk_find(check->findings, SK_FINDING_OK, "postgresql role of the login", "%s has seckill_service", login);
    const char *mighty = postgres_check_value(check, "mighty_owner");
    if (mighty[0] != '\0')
        sk_find(check->findings, SK_FINDING_WARN, "postgresql owner of the tables",
                "%s may create roles, or run programs or write files on the server, and all functions have its rights: "
                "run deploy/owner.sql",
                mighty);
}

static void postgres_check_rights(const struct postgres_check *check)
{
    struct sk_buf grants = {0};
    PGresult *missing = NULL;
    if (!postgres_check_is(check, "has_tables", "1")) {
        sk_find(check->findings, SK_FINDING_FAIL, "postgresql schema",
                "there is no table voucher_order: run --migrate");
        return;
    }
    for (int i = SK_MIGRATION_016_GRANTS; i < SK_MIGRATION_COUNT; i++)
        sk_buf_puts(&grants, sk_migrations[i].text);
    const char *const params[] = {grants.data};
    if (grants.failed)
        sk_find(check->findings, SK_FINDING_FAIL, "postgresql rights", "no memory");
    else
        missing = postgres_check_ask(check, "postgresql rights", sk_checks[SK_CHECK_RIGHTS].text, 1, params);
    sk_buf_free(&grants);
    for (int i = 0; i < PQntuples(missing); i++)
        sk_find(check->findings, SK_FINDING_FAIL, "postgresql rights", "the login has not %s",
                PQgetvalue(missing, i, 0));
    if (missing != NULL && PQntuples(missing) == 0)
        sk_find(check->findings, SK_FINDING_OK, "postgresql rights", "all that are used are there");
    PQclear(missing);
}

// Prepares all statements, as the service's links do when they connect. A database that was not migrated, or is of
// another version, refuses one of them.
static void postgres_check_statements(const struct postgres_check *check)
{
    int refused = 0;
    for (int i = 0; i < SK_STATEMENT_COUNT; i++) {
        PGresult *result = PQprepare(check->conn, sk_statements[i].name, sk_statements[i].text, 0, NULL);
        if (PQresultStatus(result) != PGRES_COMMAND_OK && refused++ == 0)
            sk_find(check->findings, SK_FINDING_FAIL, "postgresql schema", "%s: %s: run --migrate of this version",
                    sk_statements[i].name, PQerrorMessage(check->conn));
        PQclear(result);
    }
    if (refused == 0)
        sk_find(check->findings, SK_FINDING_OK, "postgresql schema", "all %d statements fit", (int)SK_STATEMENT_COUNT);
    else if (refused > 1)
        sk_find(check->findings, SK_FINDING_FAIL, "postgresql schema", "%d more statements do not fit", refused - 1);
}

// Sets the session up as the service's links do: whether this is the right shard, and what commits then wait for.
static void postgres_check_commit(const struct postgres_check *check)
{
    char ms[SK_PARAM_NUMBER_SIZE], shard[SK_PARAM_NUMBER_SIZE], shards[SK_PARAM_NUMBER_SIZE];
    const char *const params[] = {sk_params_number(ms, check->options->pg_timeout_ms), "seckill-check",
                                  sk_params_number(shard, (int64_t)check->shard),
                                  sk_params_number(shards, (int64_t)check->options->shards.count)};
    PGresult *set =
        postgres_check_ask(check, "postgresql session", sk_statements[SK_STATEMENT_SESSION].text, 4, params);
    if (set == NULL)
        return;
    int misfit = PQfnumber(set, "misfit");
    bool fits = misfit >= 0 && PQgetisnull(set, 0, misfit) != 0;
    SK_FIND_UNLESS(check->findings, fits, SK_FINDING_FAIL, "postgresql shard", "%s",
                   fits ? "is the one that belongs here" : PQgetvalue(set, 0, misfit < 0 ? 0 : misfit));
    PQclear(set);
    PGresult *now = postgres_check_ask(check, "postgresql session", sk_checks[SK_CHECK_COMMIT].text, 0, NULL);
    if (now != NULL && PQntuples(now) == 1) {
        const char *commit = PQgetvalue(now, 0, 0);
        bool waits = postgres_check_waits(commit);
        SK_FIND_UNLESS(check->findings, waits, SK_FINDING_FAIL, "postgresql commits of the service",
                       "wait as `%s` says%s", commit, waits ? "" : ": committed is not durable (P3)");
    }
    PQclear(now);
}

void sk_check_postgres(struct sk_findings *findings, const struct sk_store_options *options, size_t shard,
                       int64_t reactors, struct sk_clock_seen *clock)
{
    struct postgres_check check = {.findings = findings, .options = options, .shard = shard, .reactors = reactors};
    PGresult *settings = NULL;
    *clock = (struct sk_clock_seen){0};
    if (postgres_check_connect(&check))
        settings = postgres_check_ask(&check, "postgresql settings", sk_checks[SK_CHECK_SETTINGS].text, 0, NULL);
    if (PQntuples(settings) == 1) {
        check.settings = settings;
        sk_find_way_of(findings, "postgresql way", PQsocket(check.conn), PQsslInUse(check.conn) != 0);
        *clock = postgres_check_clock(&check);
        postgres_check_server(&check);
        postgres_check_rush(&check);
        postgres_check_standbys(&check);
        postgres_check_connections(&check);
        postgres_check_login(&check);
        postgres_check_rights(&check);
        postgres_check_statements(&check);
        postgres_check_commit(&check);
    } else if (settings != NULL) {
        sk_find(findings, SK_FINDING_FAIL, "postgresql settings", "have %d rows, not one", PQntuples(settings));
    }
    PQclear(settings);
    PQfinish(check.conn);
    sk_pg_hosts_close(check.hosts);
}
