// The link to Redis, with a server under the test's control: deadlines, the queue's bound, and that each callback runs
// exactly once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "redis_link.h"
#include "stub.h"
#include "test.h"

enum { TIMEOUT_MS = 300, CALLS_MAX = 8, URL_SIZE = 64 };

static uv_loop_t loop;
static uv_prepare_t turn;
static struct stub stub;
static struct sk_redis *redis;
static bool hushed; // the server reads, and does nothing

// ---- the server ----

static struct {
    uv_timer_t answer;
    uint32_t delay_ms; // before the replies to a write
    uint32_t pause_ms; // of the whole process, after the reply
    bool silent;       // sends no replies
    int asked;         // calls received
    int scripts;       // to be loaded, received
    bool withholds;    // sends no reply to the last of them
    bool replica;      // says that it is one
    int unanswered;
} server;

static void send_text(const char *text)
{
    stub_send(&stub, text, strlen(text));
}

static void on_answer(uv_timer_t *timer)
{
    (void)timer;
    while (stub.client != NULL && server.unanswered > 0) {
        server.unanswered--;
        send_text("+OK\r\n");
    }
}

static void on_command(const char *name)
{
    static const char id[] = "0123456789abcdef0123456789abcdef01234567";
    char reply[128];
    if (strncmp(name, "INFO", 4) == 0 && server.silent && server.unanswered > 0) {
        server.unanswered++; // replies come in order
    } else if (strncmp(name, "INFO", 4) == 0) {
        char info[96];
        int n = snprintf(info, sizeof info, "run_id:%s\r\nrole:%s\r\n", id, server.replica ? "slave" : "master");
        (void)snprintf(reply, sizeof reply, "$%d\r\n%s\r\n", n, info);
        send_text(reply);
    } else if (strncmp(name, "SCRIPT", 6) == 0) {
        (void)snprintf(reply, sizeof reply, "$40\r\n%s\r\n", id);
        server.scripts++;
        if (!server.withholds || server.scripts < SK_SCRIPT_COUNT)
            send_text(reply);
    } else if (strncmp(name, "SELECT", 6) == 0 || strncmp(name, "AUTH", 4) == 0) {
        send_text("+OK\r\n");
    } else {
        server.asked++;
        server.unanswered++;
        if (server.pause_ms > 0) {
            on_answer(&server.answer);
            uv_sleep(server.pause_ms);
        } else if (!server.silent)
            (void)uv_timer_start(&server.answer, on_answer, server.delay_ms, 0);
    }
}

// "*2\r\n$4\r\nECHO\r\n$1\r\na\r\n": reads a whole command, or nothing.
static size_t receive(const char *bytes, size_t n)
{
    char text[STUB_BYTES_MAX];
    if (hushed)
        return n;
    ck_assert_uint_lt(n, sizeof text);
    memcpy(text, bytes, n);
    text[n] = '\0';
    char *at = text, *name = NULL;
    long words = strtol(text + 1, NULL, 10);
    for (long i = 0; i <= words; i++) {
        char *line_end = strstr(at, "\r\n");
        if (line_end == NULL)
            return 0;
        long len = i == 0 ? -2 : strtol(at + 1, NULL, 10);
        at = line_end + 2;
        name = i == 1 ? at : name;
        if (len > text + n - at - 2)
            return 0;
        at += len + 2;
    }
    ck_assert_ptr_nonnull(name);
    on_command(name == NULL ? "" : name);
    return (size_t)(at - text);
}

// ---- the client ----

static struct {
    int ready, lost, total, answered;
    int results[CALLS_MAX];
    bool in_call, close;
} seen;

static void on_change(void *arg, bool ready)
{
    (void)arg;
    if (ready)
        seen.ready++;
    else
        seen.lost++;
}

static void on_reply(void *arg, const struct sk_reply *reply)
{
    ck_assert(!seen.in_call);
    ++*(int *)arg;
    seen.total++;
    seen.answered += reply != NULL;
    if (seen.close) {
        seen.close = false;
        sk_redis_close(redis);
        redis = NULL;
    }
}

static enum sk_status call(int i)
{
    const char *argv[] = {"PING"};
    seen.in_call = true;
    enum sk_status status = sk_redis_command(redis, 1, argv, NULL, on_reply, &seen.results[i]);
    seen.in_call = false;
    return status;
}

static void on_turn(uv_prepare_t *prepare)
{
    (void)prepare;
    if (redis != NULL)
        sk_redis_flush(redis);
}

static void open_link(const char *prefix, size_t most_waiting)
{
    char url[URL_SIZE];
    (void)snprintf(url, sizeof url, "%s127.0.0.1:%d", prefix, stub.port);
    struct sk_redis_options options = {
        .url = url, .timeout_ms = TIMEOUT_MS, .on_change = on_change, .most_waiting = most_waiting};
    redis = sk_redis_open(&loop, &options);
    ck_assert_ptr_nonnull(redis);
    ck_assert_int_eq(call(0), SK_DOWN);
}

static void connect_link(size_t most_waiting)
{
    open_link("redis://", most_waiting);
    RUN_UNTIL(seen.ready == 1);
}

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    stub_open(&stub, &loop, receive);
    (void)uv_timer_init(&loop, &server.answer);
    (void)uv_prepare_init(&loop, &turn);
    (void)uv_prepare_start(&turn, on_turn);
}

static void close_all(void)
{
    sk_redis_close(redis);
    redis = NULL;
    stub_close(&stub);
    uv_close((uv_handle_t *)&server.answer, NULL);
    uv_close((uv_handle_t *)&turn, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

// ---- the tests ----

// Calls are queued while a write is unanswered; that time does not count against them.
TEST(waiting_for_a_write_costs_no_connection)
{
    connect_link(CALLS_MAX);
    server.delay_ms = TIMEOUT_MS * 2 / 3;
    ck_assert_int_eq(call(0), SK_OK);
    sk_redis_flush(redis);
    for (int i = 1; i < CALLS_MAX; i++)
        ck_assert_int_eq(call(i), SK_OK);
    RUN_UNTIL(seen.total == CALLS_MAX);
    ck_assert_int_eq(seen.answered, CALLS_MAX);
    ck_assert_int_eq(seen.lost, 0);
    for (int i = 0; i < CALLS_MAX; i++)
        ck_assert_int_eq(seen.results[i], 1);
    close_all();
}

TEST(an_overdue_reply_costs_the_connection)
{
    connect_link(CALLS_MAX);
    server.silent = true;
    uint64_t since_ms = sk_monotonic_ms();
    ck_assert_int_eq(call(0), SK_OK);
    sk_redis_flush(redis);
    ck_assert_int_eq(call(1), SK_OK); // never written
    RUN_UNTIL(seen.lost == 1);
    ck_assert_uint_ge(sk_monotonic_ms() - since_ms, TIMEOUT_MS);
    RUN_UNTIL(seen.total == 2);
    ck_assert_int_eq(seen.answered, 0);
    ck_assert_int_eq(server.asked, 1);
    server.silent = false;
    server.unanswered = 0;
    RUN_UNTIL(seen.ready == 2);
    ck_assert_int_eq(call(2), SK_OK);
    RUN_UNTIL(seen.answered == 1);
    close_all();
}

// The loop runs the link's timer before it reads the reply.
TEST(a_reply_that_came_in_a_pause_is_read)
{
    connect_link(CALLS_MAX);
    server.pause_ms = TIMEOUT_MS * 2;
    ck_assert_int_eq(call(0), SK_OK);
    sk_redis_flush(redis);
    RUN_UNTIL(seen.total == 1);
    ck_assert_int_eq(seen.answered, 1);
    ck_assert_int_eq(seen.lost, 0);
    close_all();
}

TEST(no_more_wait_than_the_options_allow)
{
    connect_link(2);
    ck_assert_int_eq(call(0), SK_OK);
    ck_assert_int_eq(call(1), SK_OK);
    ck_assert_int_eq(call(2), SK_FULL);
    RUN_UNTIL(seen.total == 2);
    ck_assert_int_eq(call(3), SK_OK);
    RUN_UNTIL(seen.total == 3);
    ck_assert_int_eq(seen.results[2], 0);
    close_all();
}

TEST(a_callback_may_close)
{
    connect_link(3);
    seen.close = true;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(call(i), SK_OK);
    RUN_UNTIL(seen.total == 3);
    ck_assert_int_eq(seen.answered, 1);
    close_all();
}

TEST(calls_on_a_dead_connection_end_unanswered)
{
    connect_link(3);
    stub_hang_up(&stub);
    ck_assert_int_eq(call(0), SK_OK);
    ck_assert_int_eq(call(1), SK_OK);
    RUN_UNTIL(seen.total == 2);
    ck_assert_int_eq(seen.answered, 0);
    RUN_UNTIL(seen.ready == 2);
    close_all();
}

TEST(what_was_not_asked_for_costs_the_connection)
{
    connect_link(3);
    send_text("+OK\r\n");
    RUN_UNTIL(seen.lost == 1);
    RUN_UNTIL(seen.ready == 2);
    ck_assert_int_eq(seen.total, 0);
    close_all();
}

// No call is made: a link that only reads, or nothing at all, must notice as well.
TEST(a_master_that_became_a_replica_is_left)
{
    connect_link(3);
    server.replica = true;
    RUN_UNTIL(seen.lost == 1);
    int clients = stub.clients;
    RUN_UNTIL(stub.clients >= clients + 2); // it retries, and takes no replica
    ck_assert_int_eq(seen.ready, 1);
    server.replica = false;
    RUN_UNTIL(seen.ready == 2);
    close_all();
}

// A script that is not loaded could not be called.
TEST_EACH(it_is_ready_once_all_is_answered, 2)
{
    static const char *const prefixes[] = {"redis://", "redis://:secret@"};
    server.withholds = true;
    open_link(prefixes[_i], 3);
    RUN_UNTIL(server.scripts == SK_SCRIPT_COUNT);
    RUN_UNTIL(seen.ready > 0 || stub.clients == 2); // until it tries anew
    ck_assert_int_eq(seen.ready, 0);
    server.withholds = false;
    RUN_UNTIL(seen.ready == 1);
    close_all();
}

// The stub takes the client's first message, and says nothing.
TEST(a_handshake_without_an_answer_ends)
{
    uint64_t since_ms = sk_monotonic_ms();
    hushed = true;
    open_link("rediss://", 3);
    RUN_UNTIL(stub.clients == 2);
    ck_assert_uint_ge(sk_monotonic_ms() - since_ms, TIMEOUT_MS);
    ck_assert_int_eq(seen.ready, 0);
    close_all();
}

SUITE(.timeout_s = 60, .setup = setup);
