// The settings that the service fixes in its PostgreSQL sessions, whatever its role is configured with.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "books.h"
#include "http.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

enum { STOCK = 5, TEXT_SIZE = 64 };

#define ADMIN "Authorization: Bearer admin-token-of-the-tests\r\nContent-Type: application/json\r\n"

// A trigger records the settings under which an order is written.
static void setup(void)
{
    stack_start(STACK_ALL);
    db_run("CREATE TABLE IF NOT EXISTS seen (name text PRIMARY KEY, value text)");
    db_run("CREATE OR REPLACE FUNCTION see() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN"
           " INSERT INTO public.seen SELECT n, current_setting(n) FROM unnest('{transaction_isolation,"
           "default_transaction_isolation,synchronous_commit,lock_timeout,statement_timeout,"
           "idle_in_transaction_session_timeout,client_encoding,jit,client_min_messages}'::text[]) n ON CONFLICT DO "
           "NOTHING;"
           " RETURN NEW; END $$");
    db_run("CREATE OR REPLACE TRIGGER see BEFORE INSERT ON voucher_order FOR EACH ROW EXECUTE FUNCTION see()");
}

// Settings of the service's login apply to its next connection.
static void configure(const char *name, const char *value)
{
    db_run("ALTER ROLE seckill SET %s = %s", name, value);
}

static void clear_up(void)
{
    service_stop_all();
    db_run("ALTER ROLE seckill RESET ALL");
}

static void must_be(const char *name, const char *expected)
{
    char value[TEXT_SIZE];
    db_text(value, sizeof value, "SELECT value FROM seen WHERE name = '%s'", name);
    ck_assert_msg(strcmp(value, expected) == 0, "%s is '%s', not '%s'", name, value, expected);
}

// Buys under the current settings, which are stored in `seen`.
static void buy(void)
{
    struct http_reply reply;
    char voucher[VOUCHER_ID_SIZE];
    db_run("TRUNCATE seen");
    struct service *service = service_start(ENV("SECKILL_PG_TIMEOUT_MS=7000"));
    voucher_on_sale(service, STOCK, voucher);
    ck_assert_int_eq(http_buy_patiently(service, voucher, "alice", &reply), 201);
    books_must_balance(voucher);
    service_signal(service, SIGTERM);
    ck_assert_int_eq(service_wait(service), 0);
}

TEST(a_role_cannot_loosen_what_the_promises_need)
{
    configure("default_transaction_isolation", "'repeatable read'");
    configure("synchronous_commit", "off");
    configure("lock_timeout", "1");
    configure("statement_timeout", "3600000");
    configure("idle_in_transaction_session_timeout", "0");
    configure("client_encoding", "latin1");
    configure("jit", "on");
    configure("client_min_messages", "error"); // it would hide that a commit was not replicated
    buy();
    must_be("transaction_isolation", "read committed");
    must_be("default_transaction_isolation", "read committed");
    must_be("synchronous_commit", "on");
    must_be("lock_timeout", "100ms");
    must_be("statement_timeout", "7s");
    must_be("idle_in_transaction_session_timeout", "7s");
    must_be("client_encoding", "UTF8");
    must_be("jit", "off");
    must_be("client_min_messages", "warning");
}

TEST(a_commit_waits_for_as_much_as_the_operator_asks)
{
    static const struct {
        const char *configured, *seen;
    } rows[] = {
        {"off", "on"},
        {"local", "on"},
        {"on", "on"},
        {"remote_write", "remote_write"},
        {"remote_apply", "remote_apply"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        configure("synchronous_commit", rows[i].configured);
        buy();
        must_be("synchronous_commit", rows[i].seen);
    }
}

// Times and texts have the same format, whatever the session's settings would be.
TEST(forms_of_text_do_not_depend_on_the_role)
{
    static const char title[] = "\xe7\xa7\x92\xe6\x9d\x80 \xc3\xbc";
    struct http_reply reply;
    char body[HTTP_FIELD_SIZE], value[HTTP_FIELD_SIZE], id[HTTP_FIELD_SIZE], path[HTTP_FIELD_SIZE];
    configure("client_encoding", "latin1");
    configure("timezone", "'Asia/Shanghai'");
    configure("datestyle", "'German'");
    configure("intervalstyle", "'sql_standard'");
    configure("extra_float_digits", "-15");
    configure("bytea_output", "escape");
    struct service *service = service_start(NULL);
    (void)snprintf(body, sizeof body,
                   "{\"title\":\"%s\",\"stock\":3,\"price_cents\":1,\"begin_at\":\"2024-01-02T03:04:05.678Z\","
                   "\"end_at\":\"2199-01-02T03:04:05.678+08:00\"}",
                   title);
    ck_assert_int_eq(http_ask(service, "POST", "/admin/vouchers", ADMIN, body, &reply), 201);
    ck_assert(http_member(&reply, "title", value));
    ck_assert_str_eq(value, title);
    ck_assert(http_member(&reply, "begin_at", value));
    ck_assert_str_eq(value, "2024-01-02T03:04:05.678Z");
    ck_assert(http_member(&reply, "end_at", value));
    ck_assert_str_eq(value, "2199-01-01T19:04:05.678Z");
    ck_assert(http_member(&reply, "id", id));
    ck_assert_int_eq(db_number("SELECT count(*) FROM seckill_voucher WHERE id = %s AND title = '%s'"
                               " AND begin_at = '2024-01-02T03:04:05.678Z'",
                               id, title),
                     1);
    ck_assert_int_eq(http_buy_patiently(service, id, "bob", &reply), 201);
    (void)snprintf(path, sizeof path, "/vouchers/%.20s", id);
    ck_assert_int_eq(http_get(service, path, NULL, &reply), 200);
    ck_assert(http_member(&reply, "title", value));
    ck_assert_str_eq(value, title);
    books_must_balance(id);
}

SUITE(.timeout_s = 120, .begin = setup, .teardown = clear_up, .in_one_process = true);
