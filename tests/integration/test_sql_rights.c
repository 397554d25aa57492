// What the tables and the rights of the service's role forbid.
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

static void must_fail(PGconn *conn, const char *sql, const char *sqlstate)
{
    PGresult *result = PQexec(conn, sql);
    const char *is = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    ck_assert_msg(is != NULL && strcmp(is, sqlstate) == 0, "%s instead of %s: %s", is == NULL ? "success" : is,
                  sqlstate, sql);
    PQclear(result);
}

#define CHECK_VIOLATION       "23514"
#define UNIQUE_VIOLATION      "23505"
#define NOT_NULL_VIOLATION    "23502"
#define FOREIGN_KEY_VIOLATION "23503"
#define NO_SUCH_VALUE         "22P02"
#define NO_PRIVILEGE          "42501"

#define VOUCHER_ROW(price, begin_at, end_at)                             \
    "INSERT INTO seckill_voucher (title, price_cents, begin_at, end_at)" \
    " VALUES ('T', " price ", '2026-11-11 " begin_at "', '2026-11-11 " end_at "')"
#define STOCK_ROW(voucher, tag, slot, units, left)                    \
    "INSERT INTO voucher_stock (voucher_id, tag, slot, units, stock)" \
    " SELECT " voucher ", " tag ", " slot ", " units ", " left " FROM seckill_voucher"
#define ORDER_ROW(id, user, status, reason)                                     \
    "INSERT INTO voucher_order (id, slot, user_id, voucher_id, status, reason)" \
    " VALUES ('00000000-0000-7000-8000-00000000000" id "', 5, " user ", 1, '" status "', " reason ")"

#define PAYMENT_ROW(reference, state)                                                                     \
    "INSERT INTO payment (reference, slot, voucher_id, order_id, amount_cents, currency, state, by_whom)" \
    " VALUES ('" reference "', 5, 1, '00000000-0000-7000-8000-000000000001', 1, 'CNY', '" state "', 'till')"

TEST(the_tables_refuse_what_must_not_be)
{
    static const struct {
        const char *sql, *sqlstate;
    } rows[] = {
        {STOCK_ROW("0", "'x'", "1", "1", "-1"), CHECK_VIOLATION},
        {STOCK_ROW("0", "'x'", "1", "-1", "-1"), CHECK_VIOLATION},
        {STOCK_ROW("0", "'x'", "1", "1", "2"), CHECK_VIOLATION}, // more left than offered
        {STOCK_ROW("0", "'x'", "16384", "1", "1"), CHECK_VIOLATION},
        {STOCK_ROW("0", "'x'", "-1", "1", "1"), CHECK_VIOLATION},
        {STOCK_ROW("id", "'x'", "1", "1", "1"), UNIQUE_VIOLATION},     // a voucher twice
        {STOCK_ROW("0", "id::text", "1", "1", "1"), UNIQUE_VIOLATION}, // a tag twice
        {STOCK_ROW("0", "'x'", "1", "1", "1"), FOREIGN_KEY_VIOLATION},
        {VOUCHER_ROW("-1", "08:00", "09:00"), CHECK_VIOLATION},
        {VOUCHER_ROW("1", "09:00", "09:00"), CHECK_VIOLATION},
        {VOUCHER_ROW("1", "09:00", "08:00"), CHECK_VIOLATION},
        {"UPDATE voucher_stock SET stock = -1", CHECK_VIOLATION},
        {"UPDATE voucher_stock SET stock = units + 1", CHECK_VIOLATION},
        {"UPDATE voucher_stock SET live = -1", CHECK_VIOLATION},
        {"UPDATE seckill_voucher SET state = 'no such'", CHECK_VIOLATION},
        {"UPDATE voucher_stock SET stock = NULL", NOT_NULL_VIOLATION},
        {"UPDATE seckill_voucher SET title = NULL", NOT_NULL_VIOLATION},
        {"UPDATE seckill_voucher SET create_key = 'x', create_terms = NULL", CHECK_VIOLATION},
        {ORDER_ROW("2", "'alice'", "unpaid", "NULL"), UNIQUE_VIOLATION}, // a second live order
        {ORDER_ROW("2", "'alice'", "paid", "NULL"), UNIQUE_VIOLATION},
        {ORDER_ROW("1", "'bob'", "unpaid", "NULL"), UNIQUE_VIOLATION}, // an id twice
        {ORDER_ROW("3", "'bob'", "refused", "NULL"), CHECK_VIOLATION}, // refused without a reason
        {ORDER_ROW("3", "'bob'", "unpaid", "'SOLD_OUT'"), CHECK_VIOLATION},
        {ORDER_ROW("3", "NULL", "unpaid", "NULL"), NOT_NULL_VIOLATION},
        {ORDER_ROW("3", "'bob'", "pending", "NULL"), NO_SUCH_VALUE},
        {ORDER_ROW("3", "'bob'", "refunded", "NULL"), CHECK_VIOLATION}, // must record where its units went
        {PAYMENT_ROW("r", "accepted"), UNIQUE_VIOLATION},               // a reference twice
        {PAYMENT_ROW("s", "returned"), CHECK_VIOLATION},
    };
    PGconn *superuser = db_connect(); // not even a superuser may
    sql_make_voucher(10);
    db_run(ORDER_ROW("1", "'alice'", "unpaid", "NULL"));
    db_run(PAYMENT_ROW("r", "accepted"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        must_fail(superuser, rows[i].sql, rows[i].sqlstate);
        // A value outside the type fails before any rights are checked.
        must_fail(sql_service, rows[i].sql,
                  strcmp(rows[i].sqlstate, NO_SUCH_VALUE) == 0 ? NO_SUCH_VALUE : NO_PRIVILEGE);
    }
    // Ended orders do not count, nor do another voucher's.
    db_run(ORDER_ROW("4", "'alice'", "cancelled", "NULL"));
    db_run(ORDER_ROW("5", "'alice'", "refused", "'SOLD_OUT'"));
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id) VALUES (gen_random_uuid(), 5, 'alice', 2)");
    // Nor may an ended order become live beside another live one.
    must_fail(superuser, "UPDATE voucher_order SET status = 'unpaid' WHERE user_id = 'alice' AND status = 'cancelled'",
              UNIQUE_VIOLATION);
    PQfinish(superuser);
}

TEST(the_services_role_defines_and_deletes_nothing)
{
    static const char *const denied[] = {
        "CREATE TABLE other (n int)",
        "CREATE SCHEMA other",
        "CREATE VIEW other AS SELECT 1",
        "CREATE FUNCTION other() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TYPE other AS ENUM ('a')",
        "CREATE INDEX ON voucher_order (reason)",
        "CREATE TRIGGER other BEFORE INSERT ON voucher_order EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CREATE ROLE other",
        "CREATE DATABASE other",
        "ALTER TABLE voucher_order ADD COLUMN other int",
        "ALTER TABLE voucher_stock DROP CONSTRAINT seckill_voucher_stock_check",
        "ALTER TABLE voucher_order DISABLE TRIGGER ALL",
        "ALTER TYPE order_status ADD VALUE 'other'",
        "ALTER ROLE seckill SUPERUSER",
        "DROP TABLE voucher_order",
        "DROP INDEX voucher_order_live",
        "DROP FUNCTION place_orders(integer, bigint, bigint, uuid[], text[], text, smallint[], text[], integer)",
        "CREATE OR REPLACE FUNCTION rfc3339(p_at timestamptz) RETURNS text LANGUAGE sql STABLE AS 'SELECT ''x'''",
        "TRUNCATE voucher_order",
        "TRUNCATE seckill_voucher",
        "DELETE FROM voucher_order",
        "DELETE FROM seckill_voucher",
        "DELETE FROM voucher_stock",
        "INSERT INTO seckill_catalogue VALUES (true, 7)",
        "DELETE FROM seckill_catalogue",
        "DROP TRIGGER number_change ON seckill_voucher",
        "ALTER TABLE seckill_voucher DISABLE TRIGGER USER",
        "DELETE FROM dead_letter",
        "UPDATE admin_event SET by_whom = 'other'",
        "DELETE FROM admin_event",
        "DELETE FROM payment",
        "UPDATE order_event SET why = 'x'",
        "DELETE FROM order_event",
        "INSERT INTO order_move VALUES ('expired', 'paid', 'user')",
        "UPDATE order_move SET to_status = 'paid'",
        "DELETE FROM order_move",
        "SELECT * FROM seckill_migration",
        "INSERT INTO seckill_migration (name) VALUES ('other')",
        "SET ROLE owner",
        "SELECT pg_read_file('PG_VERSION')",
        // It reads and writes rows only through functions.
        "SELECT FROM voucher_order",
        "SELECT FROM voucher_stock",
        "SELECT FROM held_order",
        "SELECT FROM admin_event",
        "INSERT INTO voucher_order (id, slot, user_id, voucher_id) VALUES (gen_random_uuid(), 1, 'a', 1)",
        "INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom) VALUES (1, 1, gen_random_uuid(), "
        "'paid', 'x')",
        "INSERT INTO admin_event (by_whom, what, voucher_id) VALUES ('x', 'closed', 1)",
        "UPDATE voucher_order SET status = 'paid'",
        "UPDATE voucher_stock SET stock = stock + 1",
        "UPDATE voucher_stock SET epoch = epoch + 1",
        "UPDATE seckill_voucher SET price_cents = 0",
        "UPDATE payment SET state = 'refunded'",
        "UPDATE dead_letter SET ended_at = now()",
        // Internal functions, and those of the keeper.
        "SELECT begin_operation(1, 0, 'k', 'r')",
        "SELECT voucher_of_order(1, gen_random_uuid())",
        "SELECT archive_next(0, 0)",
        "SELECT archive_part(1, 1)",
        "SELECT archive_drop(1, 1, 1, '')",
        "SELECT archive_end(1)",
        "SELECT archive_lines(1, 1, true)",
        "SELECT erase_user('alice')",
        "SELECT erase_in_part(1, 1, '', 'alice', 'bob')",
        "COPY voucher_order TO PROGRAM 'true'",
    };
    sql_make_voucher(10);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    for (size_t i = 0; i < sizeof denied / sizeof denied[0]; i++)
        must_fail(sql_service, denied[i], NO_PRIVILEGE);
    sql_must_have(1, 9);
}

TEST(the_keepers_role_moves_and_erases_and_nothing_else)
{
    static const char *const denied[] = {
        "SELECT FROM voucher_order",
        "DELETE FROM voucher_order",
        "DELETE FROM order_event",
        "UPDATE voucher_order SET user_id = 'x'",
        "UPDATE dead_letter SET orders = NULL",
        "UPDATE archived_part SET orders_sha256 = ''",
        "INSERT INTO admin_event (by_whom, what, voucher_id) VALUES ('x', 'erased', 1)",
        "SELECT archive_lines(1, 1, true)",
        "SELECT find_order(1, gen_random_uuid(), 'alice')",
        "SELECT find_replicated_order(1, gen_random_uuid(), 'alice')",
        "SELECT set_voucher_state(1, 0, 'k', 'x', 'paused')",
        "CREATE TABLE other (n int)",
    };
    PGconn *keeper = PQconnectdb(stack_keeper_url());
    for (size_t i = 0; i < sizeof denied / sizeof denied[0]; i++)
        must_fail(keeper, denied[i], NO_PRIVILEGE);
    PQfinish(keeper);
}

// Functions with the owner's rights cannot be misled by a caller's own tables.
TEST(functions_search_only_their_schema)
{
    ck_assert_int_eq(db_number("SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef"
                               " AND NOT ('search_path=public, pg_temp' = ANY (proconfig))"),
                     0);
    ck_assert_int_eq(
        db_number("SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND NOT prosecdef"
                  " AND has_function_privilege('seckill_service', oid, 'EXECUTE')"
                  " AND NOT has_function_privilege('public', oid, 'EXECUTE')"),
        0);
    sql_make_voucher(10);
    PQclear(PQexec(sql_service, "CREATE TEMPORARY TABLE seckill_voucher (id bigint, state text)"));
    PQclear(PQexec(sql_service, "CREATE TEMPORARY TABLE voucher_order (id uuid)"));
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    sql_must_have(1, 9);
}

TEST(other_roles_may_do_nothing_at_all)
{
    db_run("CREATE ROLE stranger");
    static const char *const questions[] = {
        // All functions that access a table; the purely computing ones are public.
        "(SELECT count(*) > 0 FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
        " AND has_function_privilege('stranger', oid, 'EXECUTE') AND proname NOT IN ('slot_of',"
        " 'csv_field', 'csv_time', 'erase_in_bytes', 'erase_in_orders', 'erase_in_file', 'rfc3339', 'unix_ms', "
        "'expires_at', "
        "'journal_number', 'operation_request', 'order_json', "
        "'order_details_json', 'voucher_json', 'dead_letter_json',"
        " 'number_voucher_change', 'keep_offer', 'uuid_at', 'shard_of_slot', 'check_voucher_shard'))",
        "has_table_privilege('stranger', 'order_event', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
        "has_table_privilege('stranger', 'admin_event', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
        "has_table_privilege('stranger', 'seckill_catalogue', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
        "has_table_privilege('stranger', 'voucher_stock', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
        "has_table_privilege('stranger', 'held_order', 'SELECT')",
        "has_table_privilege('stranger', 'dead_letter', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
        "has_table_privilege('stranger', 'payment', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
        "has_table_privilege('stranger', 'order_event', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
        "has_table_privilege('stranger', 'order_move', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
        "has_table_privilege('stranger', 'voucher_order', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
        "has_table_privilege('stranger', 'seckill_voucher', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
        "has_schema_privilege('stranger', 'public', 'CREATE')",
    };
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
        ck_assert_msg(db_number("SELECT (%s)::int", questions[i]) == 0, "%s", questions[i]);
    db_run("DROP ROLE stranger");
}

SUITE(.begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
