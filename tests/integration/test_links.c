// The link to PostgreSQL with a real server: notifications arrive, also after a reconnect, and a statement soon gives
// up on a row that another transaction has locked.

#include "clock.h"
#include "pg_link.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { TIMEOUT_MS = 5000, MOST_WAITING = 16 };

static uv_loop_t loop;
static struct sk_pg *pg;

static struct {
    int ready, lost, notified, results;
    enum sk_result_kind kind; // of the latest result
} seen;

static bool run_once(void)
{
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    return true;
}

static void on_change(void *arg, bool ready)
{
    (void)arg;
    if (ready)
        seen.ready++;
    else
        seen.lost++;
}

static void on_notified(void *arg)
{
    (void)arg;
    seen.notified++;
}

static void on_result(void *arg, const struct sk_result *result)
{
    (void)arg;
    seen.results++;
    seen.kind = result->kind;
}

static void start(void)
{
    stack_start(STACK_POSTGRES);
}

static void setup(void)
{
    struct sk_pg_options options = {
        .url = stack_database_url(),
        .name = "test",
        .timeout_ms = TIMEOUT_MS,
        .on_change = on_change,
        .most_waiting = MOST_WAITING,
        .listen = true,
        .on_notified = on_notified,
    };
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    pg = sk_pg_open(&loop, &options);
    ck_assert_ptr_nonnull(pg);
    WAIT_FOR(run_once() && seen.ready == 1);
}

static void clear_up(void)
{
    sk_pg_close(pg);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void must_be_notified(void)
{
    seen.notified = 0;
    db_run("NOTIFY seckill_catalogue");
    WAIT_FOR(run_once() && seen.notified == 1);
}

TEST(changes_of_the_catalogue_are_told)
{
    must_be_notified();
    db_run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'seckill'");
    WAIT_FOR(run_once() && seen.lost == 1);
    WAIT_FOR(run_once() && seen.ready == 2);
    must_be_notified();
}

static void create_voucher(void)
{
    const char *params[] = {"a-key", "held", "1", "1",  "0",  "4102444800000", "1", "900", "CNY",
                            "ann",   "0",    "0", NULL, NULL, "120",           "3", "0",   NULL,
                            NULL};
    int results = seen.results;
    ck_assert_int_eq(
        sk_pg_call(pg, SK_STATEMENT_CREATE_VOUCHER, sizeof params / sizeof params[0], params, on_result, NULL), SK_OK);
    WAIT_FOR(run_once() && seen.results > results);
}

TEST(what_is_locked_is_given_up_soon)
{
    PGconn *holder = db_connect();
    PQclear(PQexec(holder, "BEGIN"));
    PQclear(PQexec(holder, "LOCK TABLE seckill_voucher IN SHARE MODE"));
    uint64_t since_ms = sk_monotonic_ms();
    create_voucher();
    ck_assert_int_eq(seen.kind, SK_RESULT_LOCKED);
    ck_assert_uint_lt(sk_monotonic_ms() - since_ms, TIMEOUT_MS); // not only after the statement's time-out
    PQfinish(holder);
    create_voucher();
    ck_assert_int_eq(seen.kind, SK_RESULT_ROWS);
    ck_assert_int_eq(seen.lost, 0);
}

SUITE(.timeout_s = 120, .begin = start, .setup = setup, .teardown = clear_up);
