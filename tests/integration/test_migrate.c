// Migrations: each is applied once, completely or not at all, and only to a database of the same lineage.
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "embedded.h"
#include "migrate.h"
#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { URL_SIZE = 256, TEXT_SIZE = 4096 };

// The owner's URL for a separate schema, which works like another database.
static void make_schema(const char *name, char url[URL_SIZE])
{
    db_run("CREATE SCHEMA %s AUTHORIZATION owner", name);
    (void)snprintf(url, URL_SIZE, "%s?options=-csearch_path%%3D%s", stack_owner_url(), name);
}

static void must_be_migrated(const char *schema)
{
    ck_assert_int_eq(db_number("SELECT count(*) FROM %s.seckill_migration", schema), SK_MIGRATION_COUNT);
    ck_assert_int_eq(db_number("SELECT count(*) FROM pg_proc WHERE proname = 'place_orders'"
                               " AND pronamespace = '%s'::regnamespace",
                               schema),
                     1);
}

TEST(migrating_again_changes_nothing)
{
    char url[URL_SIZE + 32], output[4096];
    sql_make_voucher(10);
    int64_t applied = db_number("SELECT sum(extract(epoch FROM applied_at) * 1000000)::bigint FROM seckill_migration");
    (void)snprintf(url, sizeof url, "SECKILL_DATABASE_URL=%s", stack_owner_url());
    for (int i = 0; i < 2; i++) {
        int exit_code = service_run((const char *const[]){"--migrate", NULL}, ENV(url), output, sizeof output);
        ck_assert_msg(exit_code == 0, "%s", output);
    }
    must_be_migrated("public");
    ck_assert_int_eq(db_number("SELECT sum(extract(epoch FROM applied_at) * 1000000)::bigint FROM seckill_migration"),
                     applied);
    sql_must_have(0, 10);
}

TEST(several_may_migrate_at_once)
{
    enum { MIGRATORS = 4 };
    char url[URL_SIZE];
    pid_t pids[MIGRATORS];
    make_schema("at_once", url);
    for (int i = 0; i < MIGRATORS; i++) {
        pids[i] = fork();
        ck_assert_int_ge(pids[i], 0);
        if (pids[i] == 0)
            _exit(sk_migrate_shard(url, 0, 1) == SK_OK ? 0 : 1);
    }
    for (int i = 0; i < MIGRATORS; i++) {
        int status = -1;
        WAIT_FOR(waitpid(pids[i], &status, WNOHANG) == pids[i]);
        ck_assert_int_eq(status, 0);
    }
    must_be_migrated("at_once");
}

TEST(a_migration_that_fails_leaves_nothing_half_done)
{
    char url[URL_SIZE];
    make_schema("half_done", url);
    db_run("CREATE TABLE half_done.voucher_order (n int)"); // conflicts with the second table
    ck_assert_int_ne(sk_migrate_shard(url, 0, 1), SK_OK);
    ck_assert_int_eq(db_number("SELECT count(*) FROM pg_class WHERE relnamespace = 'half_done'::regnamespace"), 1);
    db_run("DROP TABLE half_done.voucher_order");
    ck_assert_int_eq(sk_migrate_shard(url, 0, 1), SK_OK);
    must_be_migrated("half_done");
}

TEST(without_rights_or_server_migrating_fails)
{
    char url[URL_SIZE + 32], output[4096];
    (void)snprintf(url, sizeof url, "SECKILL_DATABASE_URL=%s", stack_database_url());
    ck_assert_int_eq(service_run((const char *const[]){"--migrate", NULL}, ENV(url), output, sizeof output), 1);
    ck_assert_int_ne(sk_migrate_shard("postgresql://nobody@127.0.0.1:1/nothing", 0, 1), SK_OK);
    const char *const wrong[] = {"p@sesame", "p/sesame", "p%sesame"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)snprintf(url, sizeof url, "SECKILL_DATABASE_URL=postgresql://nobody:%s@127.0.0.1:1/nothing", wrong[i]);
        int code = service_run((const char *const[]){"--migrate", NULL}, ENV(url), output, sizeof output);
        ck_assert_msg(code == 2 && strstr(output, "SECKILL_DATABASE_URL is wrong") != NULL, "%d: %s", code, output);
        ck_assert_msg(strstr(output, "sesame") == NULL, "%s", output);
    }
}

static void must_miss_roles(const char *url, char output[TEXT_SIZE])
{
    int code = service_run((const char *const[]){"--migrate", NULL}, ENV(url), output, TEXT_SIZE);
    ck_assert_msg(code == 1 && strstr(output, "deploy/owner.sql") != NULL, "%d: %s", code, output);
}

// The owner may not create roles: nothing is applied until a superuser has made them.
TEST(roles_that_the_owner_may_not_create_are_asked_for)
{
    char schema_url[URL_SIZE], url[URL_SIZE + 32], output[TEXT_SIZE];
    make_schema("no_roles", schema_url);
    (void)snprintf(url, sizeof url, "SECKILL_DATABASE_URL=%s", schema_url);
    db_run("ALTER ROLE seckill_keeper RENAME TO away");
    must_miss_roles(url, output);
    ck_assert_msg(strstr(output, "roles=\"seckill_keeper\"") != NULL, "%s", output);
    db_run("ALTER ROLE seckill_service RENAME TO away_too");
    must_miss_roles(url, output);
    ck_assert_msg(strstr(output, "roles=\"seckill_service, seckill_keeper\"") != NULL, "%s", output);
    ck_assert_int_eq(db_number("SELECT count(*) FROM pg_class WHERE relnamespace = 'no_roles'::regnamespace"), 0);
    db_run("ALTER ROLE away_too RENAME TO seckill_service");
    db_run("ALTER ROLE away RENAME TO seckill_keeper");
    ck_assert_int_eq(sk_migrate_shard(schema_url, 0, 1), SK_OK);
    must_be_migrated("no_roles");
}

// ---- other versions ----

static void list_now(const char *schema, char out[TEXT_SIZE])
{
    db_text(out, TEXT_SIZE,
            "SELECT string_agg(name || coalesce(encode(text_sha256, 'hex'), ''), ',' ORDER BY name)"
            " || (SELECT count(*) FROM pg_class WHERE relnamespace = '%s'::regnamespace) FROM %s.seckill_migration",
            schema, schema);
}

TEST(a_database_of_another_line_is_refused_and_left_alone)
{
    static const char *const changes[] = {
        "UPDATE line.seckill_migration SET name = '007_grants' WHERE name = '007_rebuild'",
        "DELETE FROM line.seckill_migration WHERE name = '009_retire'",
        "INSERT INTO line.seckill_migration (name) VALUES ('010_other')",
        "UPDATE line.seckill_migration SET text_sha256 = '\\x00' WHERE name = '001_tables'",
        "UPDATE line.seckill_migration SET text_sha256 = NULL; CREATE OR REPLACE FUNCTION line.csv_time(p_at "
        "timestamptz)"
        " RETURNS text LANGUAGE sql STABLE AS 'SELECT p_at::text'",
        "DELETE FROM line.seckill_migration WHERE name >= '012'; UPDATE line.seckill_migration SET name = '006_other'"
        " WHERE name = '006_dead_letters'", // a migration missing at the end would be applied
    };
    char url[URL_SIZE], before[TEXT_SIZE], after[TEXT_SIZE];
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        make_schema("line", url);
        ck_assert_int_eq(sk_migrate_shard(url, 0, 1), SK_OK);
        ck_assert_int_eq(sk_migrate_shard(url, 0, 1), SK_OK); // without the change it is fine
        db_run("%s", changes[i]);
        list_now("line", before);
        ck_assert_msg(sk_migrate_shard(url, 0, 1) != SK_OK, "%s", changes[i]);
        list_now("line", after);
        ck_assert_str_eq(after, before);
        db_run("DROP SCHEMA line CASCADE");
    }
}

// A rollback: whatever starts the old version may run its migrations first.
TEST(a_database_of_a_newer_version_is_left_alone)
{
    char url[URL_SIZE], before[TEXT_SIZE], after[TEXT_SIZE];
    make_schema("newer", url);
    ck_assert_int_eq(sk_migrate_shard(url, 0, 1), SK_OK);
    db_run("INSERT INTO newer.seckill_migration (name) VALUES ('999_newer')");
    list_now("newer", before);
    ck_assert_int_eq(sk_migrate_shard(url, 0, 1), SK_OK);
    list_now("newer", after);
    ck_assert_str_eq(after, before);
}

static void run_as_owner(PGconn *owner, const char *text)
{
    PGresult *result = PQexec(owner, text);
    ck_assert_msg(PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK, "%s",
                  PQerrorMessage(owner));
    PQclear(result);
}

// Makes a database of a version whose migrations end before `missing`.
static void make_older(const char *schema, const char *missing, char url[URL_SIZE])
{
    make_schema(schema, url);
    PGconn *owner = PQconnectdb(url);
    run_as_owner(owner, sk_bookkeepings[SK_BOOKKEEPING_BEGIN].text);
    for (int i = 0; i < SK_MIGRATION_COUNT && strcmp(sk_migrations[i].name, missing) < 0; i++) {
        const char *const params[] = {sk_migrations[i].name, sk_migrations[i].text};
        run_as_owner(owner, sk_migrations[i].text);
        PQclear(PQexecParams(owner, sk_bookkeepings[SK_BOOKKEEPING_RECORD].text, 2, NULL, params, NULL, NULL, 0));
    }
    run_as_owner(owner, sk_bookkeepings[SK_BOOKKEEPING_COMMIT].text);
    PQfinish(owner);
}

// Indexes whose texts are ordered by a collation of the C library, which an upgrade of it may change.
static void indexes_without_fixed_order(const char *schema, char out[TEXT_SIZE])
{
    db_text(out, TEXT_SIZE,
            "SELECT coalesce(string_agg(DISTINCT i.indexrelid::regclass::text, ','), '')"
            "  FROM pg_index i JOIN pg_class t ON t.oid = i.indexrelid, unnest(i.indcollation::oid[]) AS used (id)"
            "  JOIN pg_collation c ON c.oid = used.id"
            " WHERE t.relnamespace = '%s'::regnamespace AND c.collname <> 'C'",
            schema);
}

TEST(texts_in_indexes_have_a_fixed_order)
{
    char found[TEXT_SIZE];
    indexes_without_fixed_order("public", found);
    ck_assert_str_eq(found, "");
    db_run("CREATE TABLE of_words (word text PRIMARY KEY)");
    indexes_without_fixed_order("public", found);
    db_run("DROP TABLE of_words");
    ck_assert_str_eq(found, "of_words_pkey");
}

// Missing migrations are applied and recorded, with details that the first versions did not record.
TEST(a_database_of_an_older_version_is_brought_up_to_date)
{
    char url[URL_SIZE], found[TEXT_SIZE];
    make_older("older", "012", url);
    db_run("ALTER TABLE older.seckill_migration DROP text_sha256, ALTER name TYPE text COLLATE \"default\"");
    ck_assert_int_eq(sk_migrate_shard(url, 0, 1), SK_OK);
    must_be_migrated("older");
    indexes_without_fixed_order("older", found);
    ck_assert_str_eq(found, "");
    ck_assert_int_eq(db_number("SELECT count(*) FROM older.seckill_migration WHERE text_sha256 IS NULL"), 0);
    ck_assert_int_eq(db_number("SELECT count(*) FROM pg_proc WHERE proname = 'erase_in_part'"
                               " AND pronamespace = 'older'::regnamespace"),
                     1);
}

// A migration must not block a sale while it waits for a session that was left open.
TEST(a_lock_is_not_waited_for_long)
{
    char url[URL_SIZE];
    make_older("locked", "003", url); // it makes a trigger on this table
    PGconn *open = db_connect();
    PQclear(PQexec(open, "BEGIN; DELETE FROM locked.seckill_voucher"));
    ck_assert_int_ne(sk_migrate_shard(url, 0, 1), SK_OK);
    PQfinish(open);
    ck_assert_int_eq(sk_migrate_shard(url, 0, 1), SK_OK);
    must_be_migrated("locked");
}

SUITE(.begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
