// The link to PostgreSQL, with a server under the test's control: deadlines, kinds of results, the queue's bound,
// notifications, and that each callback runs exactly once.
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "listening.h"
#include "log.h"
#include "pg_link.h"
#include "stub.h"
#include "test.h"

enum { TIMEOUT_MS = 300, CALLS_MAX = 500, URL_SIZE = 96 };

static uv_loop_t loop;
static struct stub stub;
static struct sk_pg *pg;

// ---- the server ----

static struct {
    int client; // the client that has connected
    bool parse;
    char bound[32];       // the statement to execute
    uv_timer_t answer;    // to a call
    uint32_t delay_ms;    // of an answer
    bool silent;          // sends no replies
    const char *sqlstate; // replies with an error; NULL: success
    int listened;
    int asked;           // calls received
    int standby;         // it is one for so many clients
    int prepared_there;  // statements prepared at a standby
    const char *warning; // the source file of a warning at the end of a statement; NULL: none
    const char *severity;
    uint32_t statement_ms; // from the link's options
} server;

static void send_message(char type, const void *body, size_t n)
{
    char message[128] = {type};
    uint32_t len = htonl((uint32_t)n + 4);
    ck_assert_uint_le(n + 5, sizeof message);
    memcpy(message + 1, &len, sizeof len);
    memcpy(message + 5, body, n);
    stub_send(&stub, message, n + 5);
}

static void send_ready(void)
{
    send_message('Z', "I", 1);
}

// Fields as a server sends them, with `/` for the end of each.
static void send_fields(char type, const char *format, const char *one, const char *other)
{
    char fields[128];
    int n = snprintf(fields, sizeof fields, format, one, other);
    ck_assert_int_lt(n, (int)sizeof fields);
    for (char *at = fields; (at = strchr(at, '/')) != NULL; at++)
        *at = '\0';
    send_message(type, fields, (size_t)n + 1);
}

static void answer(void)
{
    char error[64];
    send_message('2', "", 0);
    if (server.sqlstate != NULL) {
        int n = snprintf(error, sizeof error, "SERROR%cC%s%cMno%c", 0, server.sqlstate, 0, 0);
        send_message('E', error, (size_t)n + 1);
    } else {
        send_message('n', "", 0);
        send_message('C', "SELECT 0", sizeof "SELECT 0");
        if (server.warning != NULL)
            send_fields('N', "SWARNUNG/V%s/C01000/MRT, Abbruch/F%s/", server.severity, server.warning);
    }
    send_ready();
}

static void on_answer(uv_timer_t *timer)
{
    (void)timer;
    if (stub.client != NULL)
        answer();
}

static void on_sync(void)
{
    if (server.parse) {
        server.parse = false;
        send_message('1', "", 0);
        send_ready();
    } else if (strcmp(server.bound, "session") == 0 || strcmp(server.bound, "listen") == 0) {
        server.listened += server.bound[0] == 'l';
        const char *sqlstate = server.sqlstate, *warning = server.warning;
        server.sqlstate = server.warning = NULL;
        answer();
        server.sqlstate = sqlstate;
        server.warning = warning;
    } else {
        server.asked++;
        if (!server.silent)
            (void)uv_timer_start(&server.answer, on_answer, server.delay_ms, 0);
    }
}

static size_t receive(const char *bytes, size_t n)
{
    bool started = server.client == stub.clients;
    size_t head = started ? 1 : 0;
    uint32_t len;
    if (n < head + sizeof len)
        return 0;
    memcpy(&len, bytes + head, sizeof len);
    size_t size = head + ntohl(len);
    if (n < size)
        return 0;
    if (!started) {
        static const char authenticated[4];
        server.client = stub.clients;
        send_message('R', authenticated, sizeof authenticated);
        send_fields('S', "server_version/%s%s", "15.0", "");
        send_fields('S', "default_transaction_read_only/%s%s", "off", "");
        send_fields('S', "in_hot_standby/%s%s", server.client <= server.standby ? "on" : "off", "");
        send_ready();
    } else if (bytes[0] == 'P') {
        server.parse = true;
        server.prepared_there += server.client <= server.standby;
    } else if (bytes[0] == 'B') {
        (void)snprintf(server.bound, sizeof server.bound, "%s", bytes + 5 + strlen(bytes + 5) + 1);
    } else if (bytes[0] == 'S') {
        on_sync();
    }
    return size;
}

static void notify(void)
{
    static const char body[] = "\0\0\0\1seckill_catalogue\0";
    send_message('A', body, sizeof body);
}

// ---- the client ----

static struct {
    int ready, lost, notified;
    int results[CALLS_MAX];
    char order[CALLS_MAX]; // the letters of the classes in order of their results
    int kinds[SK_RESULT_REFUSED + 1];
    int total;
    bool in_call, close, call_again;
} seen;

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

static void on_result(void *arg, const struct sk_result *result);

static enum sk_pg_class classes[CALLS_MAX];

static enum sk_status call_as(enum sk_pg_class class, int i)
{
    const char *params[] = {"1", NULL};
    classes[i] = class;
    seen.in_call = true;
    enum sk_status status = sk_pg_call_as(pg, class, SK_STATEMENT_FIND_VOUCHER, 2, params, on_result, &seen.results[i]);
    seen.in_call = false;
    return status;
}

static enum sk_status call(int i)
{
    return call_as(SK_PG_COMMANDS, i);
}

static void on_result(void *arg, const struct sk_result *result)
{
    ck_assert(!seen.in_call);
    ck_assert((result->kind == SK_RESULT_ROWS) == (result->rows != NULL));
    ++*(int *)arg;
    seen.order[seen.total] = "cmq"[classes[(int *)arg - seen.results]];
    seen.kinds[result->kind]++;
    seen.total++;
    if (seen.close) {
        seen.close = false;
        sk_pg_close(pg);
        pg = NULL;
    }
    if (seen.call_again) {
        seen.call_again = false;
        ck_assert_int_eq(call(1), SK_OK);
    }
}

static void connect_to(const char *url, size_t most_waiting, bool listen)
{
    struct sk_pg_options options = {
        .url = url,
        .name = "test",
        .timeout_ms = TIMEOUT_MS,
        .statement_ms = server.statement_ms,
        .on_change = on_change,
        .most_waiting = most_waiting,
        .listen = listen,
        .on_notified = on_notified,
    };
    pg = sk_pg_open(&loop, &options);
    ck_assert_ptr_nonnull(pg);
    ck_assert_int_eq(call(0), SK_DOWN);
    RUN_UNTIL(seen.ready == 1);
}

static void connect_link(size_t most_waiting, bool listen)
{
    char url[URL_SIZE];
    (void)snprintf(url, sizeof url, "postgresql://u@127.0.0.1:%d/d?sslmode=disable&gssencmode=disable", stub.port);
    connect_to(url, most_waiting, listen);
}

// To the stub under two names, after one that is not it.
static void connect_to_hosts(int first_port, const char *more)
{
    char url[2 * URL_SIZE];
    (void)snprintf(url, sizeof url,
                   "user=u dbname=d sslmode=disable gssencmode=disable host=first.example,second.example,third.example"
                   " hostaddr=127.0.0.1,127.0.0.1,127.0.0.1 port=%d,%d,%d %s",
                   first_port, stub.port, stub.port, more);
    connect_to(url, 1, false);
}

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    stub_open(&stub, &loop, receive);
    (void)uv_timer_init(&loop, &server.answer);
}

static void close_all(void)
{
    sk_pg_close(pg);
    stub_close(&stub);
    uv_close((uv_handle_t *)&server.answer, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

// ---- the tests ----

TEST(a_long_queue_costs_no_connection)
{
    server.delay_ms = 2;
    connect_link(CALLS_MAX, false);
    for (int i = 0; i < CALLS_MAX; i++)
        ck_assert_int_eq(call(i), SK_OK);
    RUN_UNTIL(seen.total == CALLS_MAX);
    ck_assert_int_eq(seen.kinds[SK_RESULT_ROWS], CALLS_MAX);
    ck_assert_int_eq(seen.lost, 0);
    for (int i = 0; i < CALLS_MAX; i++)
        ck_assert_int_eq(seen.results[i], 1);
    close_all();
}

// Every eighth call is the oldest of all, so that none starves.
TEST(commands_go_before_moves_and_those_before_questions)
{
    enum { QUESTIONS = 30, COMMANDS = 20, MOVES = 5 };
    int n = 0;
    connect_link(CALLS_MAX, false);
    for (int i = 0; i < QUESTIONS; i++)
        ck_assert_int_eq(call_as(SK_PG_QUERIES, n++), SK_OK);
    for (int i = 0; i < MOVES; i++)
        ck_assert_int_eq(call_as(SK_PG_MOVES, n++), SK_OK);
    for (int i = 0; i < COMMANDS; i++)
        ck_assert_int_eq(call_as(SK_PG_COMMANDS, n++), SK_OK);
    RUN_UNTIL(seen.total == n);
    ck_assert_int_eq(strncmp(seen.order,
                             "qccccccq"
                             "cccccccq"
                             "cccccccq"
                             "mmmmmqqq"
                             "qqqq",
                             36),
                     0);
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(seen.results[i], 1);
    close_all();
}

TEST(calls_of_all_classes_are_lost_once)
{
    server.silent = true;
    connect_link(CALLS_MAX, false);
    for (int i = 0; i < 9; i++)
        ck_assert_int_eq(call_as((enum sk_pg_class)(i % SK_PG_CLASSES), i), SK_OK);
    sk_pg_close(pg);
    pg = NULL;
    ck_assert_int_eq(seen.kinds[SK_RESULT_LOST], 9);
    for (int i = 0; i < 9; i++)
        ck_assert_int_eq(seen.results[i], 1);
    close_all();
}

TEST(an_overdue_result_costs_the_connection)
{
    server.silent = true;
    connect_link(CALLS_MAX, false);
    uint64_t since_ms = sk_monotonic_ms();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(call(i), SK_OK);
    RUN_UNTIL(seen.lost == 1);
    ck_assert_uint_ge(sk_monotonic_ms() - since_ms, TIMEOUT_MS);
    ck_assert_int_eq(server.asked, 1); // one statement at a time
    ck_assert_int_eq(seen.kinds[SK_RESULT_LOST], 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(seen.results[i], 1);
    server.silent = false;
    RUN_UNTIL(seen.ready == 2);
    ck_assert_int_eq(call(3), SK_OK);
    RUN_UNTIL(seen.results[3] == 1);
    ck_assert_int_eq(seen.kinds[SK_RESULT_ROWS], 1);
    close_all();
}

TEST(statements_may_have_a_time_of_their_own)
{
    server.statement_ms = 4 * TIMEOUT_MS;
    connect_link(1, false);
    server.delay_ms = 2 * TIMEOUT_MS;
    ck_assert_int_eq(call(0), SK_OK);
    RUN_UNTIL(seen.results[0] == 1);
    ck_assert_int_eq(seen.kinds[SK_RESULT_ROWS], 1);
    ck_assert_int_eq(seen.lost, 0);
    server.silent = true;
    uint64_t since_ms = sk_monotonic_ms();
    ck_assert_int_eq(call(1), SK_OK);
    RUN_UNTIL(seen.lost == 1);
    ck_assert_uint_ge(sk_monotonic_ms() - since_ms, 4 * TIMEOUT_MS);
    close_all();
}

TEST(a_statement_that_takes_a_second_lags)
{
    server.statement_ms = 8 * TIMEOUT_MS;
    connect_link(1, false);
    ck_assert(!sk_pg_lags(pg));
    server.silent = true;
    uint64_t since_ms = sk_monotonic_ms();
    ck_assert_int_eq(call(0), SK_OK);
    RUN_UNTIL(sk_pg_lags(pg));
    ck_assert_uint_ge(sk_monotonic_ms() - since_ms, 1000 - 1);
    RUN_UNTIL(seen.lost == 1);
    ck_assert(!sk_pg_lags(pg));
    close_all();
}

TEST(a_result_says_of_which_kind_it_is)
{
    static const struct {
        const char *sqlstate;
        enum sk_result_kind kind;
    } rows[] = {
        {NULL, SK_RESULT_ROWS},       {"55P03", SK_RESULT_LOCKED},  {"55006", SK_RESULT_FAILED},
        {"40001", SK_RESULT_FAILED},  {"57014", SK_RESULT_FAILED},  {"53300", SK_RESULT_FAILED},
        {"25006", SK_RESULT_FAILED},  {"23505", SK_RESULT_REFUSED}, {"22P02", SK_RESULT_REFUSED},
        {"P0001", SK_RESULT_REFUSED},
    };
    uint64_t since_ms = sk_monotonic_ms();
    connect_link(1, false);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memset(seen.kinds, 0, sizeof seen.kinds);
        server.sqlstate = rows[i].sqlstate;
        ck_assert_int_eq(call((int)i), SK_OK);
        RUN_UNTIL(seen.results[i] == 1);
        ck_assert_msg(seen.kinds[rows[i].kind] == 1, "row %zu", i);
    }
    struct sk_server_row measured = {.up = true};
    sk_pg_measure(pg, &measured);
    ck_assert_uint_eq(measured.answers, sizeof rows / sizeof rows[0]);
    ck_assert_uint_le(measured.answered_ns, (sk_monotonic_ms() - since_ms + 1) * 1000000);
    ck_assert_int_eq(seen.lost, 0);
    close_all();
}

static void give_notice(void)
{
    static const char notice[] = "SNOTICE\0C00000\0Msomething \"odd\"\0";
    send_message('N', notice, sizeof notice);
}

// A notice is logged like any other line, for those who enable it.
TEST(a_notice_is_logged)
{
    connect_link(1, false);
    for (int i = 0; i < 2; i++) {
        sk_log_set_level(i == 0 ? SK_LOG_INFO : SK_LOG_DEBUG);
        begin_listening();
        give_notice();
        ck_assert_int_eq(call(i), SK_OK);
        RUN_UNTIL(seen.results[i] == 1);
        end_listening();
        if (i == 0)
            ck_assert_str_eq(heard, "");
    }
    ck_assert_ptr_nonnull(strstr(heard, "level=debug msg=\"PostgreSQL gives notice\""));
    ck_assert_ptr_nonnull(strstr(heard, " text=\"test: NOTICE:  something \\\"odd\\\"\"\n"));
    close_all();
}

// The caller knows the row, and reports it.
TEST(a_locked_row_is_no_warning)
{
    connect_link(1, false);
    sk_log_set_level(SK_LOG_INFO);
    begin_listening();
    server.sqlstate = "55P03";
    ck_assert_int_eq(call(0), SK_OK);
    RUN_UNTIL(seen.results[0] == 1);
    server.sqlstate = "40001";
    ck_assert_int_eq(call(1), SK_OK);
    RUN_UNTIL(seen.results[1] == 1);
    end_listening();
    const char *first = strstr(heard, "refused a statement");
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_null(strstr(first + 1, "refused a statement"));
    close_all();
}

TEST(no_more_wait_than_the_options_allow)
{
    connect_link(2, false);
    ck_assert_int_eq(call(0), SK_OK);
    ck_assert_int_eq(call(1), SK_OK);
    ck_assert_int_eq(call(2), SK_FULL);
    RUN_UNTIL(seen.total == 1);
    ck_assert_int_eq(call(3), SK_OK);
    RUN_UNTIL(seen.total == 3);
    ck_assert_int_eq(seen.results[2], 0);
    close_all();
}

TEST(changes_are_told_again_after_a_reconnect)
{
    connect_link(1, true);
    for (int i = 1; i <= 2; i++) {
        RUN_UNTIL(seen.ready == i);
        ck_assert_int_eq(server.listened, i);
        seen.notified = 0;
        notify();
        RUN_UNTIL(seen.notified == 1);
        stub_hang_up(&stub);
        RUN_UNTIL(seen.lost == i);
    }
    close_all();
}

TEST(a_held_link_takes_no_calls)
{
    connect_link(1, true);
    stub_hang_up(&stub);
    RUN_UNTIL(seen.lost == 1);
    sk_pg_hold(pg, true);
    RUN_UNTIL(server.listened == 2); // it connects
    ck_assert(!sk_pg_ready(pg));
    ck_assert_int_eq(call(0), SK_DOWN);
    RUN_UNTIL(seen.ready == 2);
    sk_pg_hold(pg, false);
    ck_assert_int_eq(seen.ready, 3); // now it is
    ck_assert_int_eq(call(0), SK_OK);
    RUN_UNTIL(seen.results[0] == 1);
    close_all();
}

TEST(who_did_not_ask_is_not_told)
{
    connect_link(1, false);
    ck_assert_int_eq(server.listened, 0);
    notify();
    ck_assert_int_eq(call(0), SK_OK);
    RUN_UNTIL(seen.results[0] == 1);
    ck_assert_int_eq(seen.notified, 0);
    close_all();
}

TEST(a_callback_may_call_or_close)
{
    connect_link(3, false);
    seen.call_again = true;
    ck_assert_int_eq(call(0), SK_OK);
    RUN_UNTIL(seen.results[1] == 1);
    seen.close = true;
    for (int i = 2; i < 5; i++)
        ck_assert_int_eq(call(i), SK_OK);
    RUN_UNTIL(seen.total == 5);
    ck_assert_int_eq(seen.kinds[SK_RESULT_ROWS], 3);
    ck_assert_int_eq(seen.kinds[SK_RESULT_LOST], 2);
    close_all();
}

// The socket is full and the server gone: the call was accepted, and its callback still runs later.
TEST(a_call_on_a_dead_connection_ends_lost)
{
    connect_link(3, false);
    stub_hang_up(&stub);
    ck_assert_int_eq(call(0), SK_OK);
    ck_assert_int_eq(call(1), SK_OK);
    RUN_UNTIL(seen.total == 2);
    ck_assert_int_eq(seen.kinds[SK_RESULT_LOST], 2);
    close_all();
}

// The server's last bytes and the reset that follows come in one event: the bytes are read, and the error must be, too.
TEST(a_reset_behind_the_last_bytes_is_noticed)
{
    static const struct linger reset = {.l_onoff = 1};
    uv_os_fd_t fd;
    connect_link(1, false);
    give_notice();
    ck_assert_int_eq(uv_fileno((uv_handle_t *)stub.client, &fd), 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    stub_hang_up(&stub);
    RUN_UNTIL(!sk_pg_ready(pg));
    close_all();
}

// ---- several hosts ----

static int count(const char *text)
{
    int n = 0;
    for (const char *at = heard; (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

// Binds a port. Nobody listens there; or somebody does, and never answers.
static int open_port(bool listens, int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listens ? listen(fd, 1) : 0, 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

TEST_EACH(a_host_that_is_away_or_silent_is_passed_over, 2)
{
    int port, fd = open_port(_i == 1, &port);
    begin_listening();
    connect_to_hosts(port, "");
    end_listening();
    ck_assert_int_eq(count("cannot connect to PostgreSQL"), 1);
    ck_assert_int_eq(count("connecting takes too long"), _i);
    ck_assert_int_eq(count("PostgreSQL is ready\" host=second.example"), 1);
    (void)close(fd);
    close_all();
}

// All hosts are standbys, for a while.
TEST_EACH(a_standby_is_not_taken, 2)
{
    server.standby = 7;
    begin_listening();
    connect_to_hosts(stub.port, _i == 0 ? "" : "target_session_attrs=primary");
    end_listening();
    ck_assert_int_eq(stub.clients, 8);
    ck_assert_int_eq(server.prepared_there, 0);
    ck_assert_int_eq(count("PostgreSQL is ready\" host=second.example"), 1); // the eighth, of three in turn
    close_all();
}

TEST(a_server_that_has_become_read_only_is_left)
{
    connect_to_hosts(stub.port, "");
    begin_listening();
    server.sqlstate = "25006";
    ck_assert_int_eq(call(0), SK_OK);
    RUN_UNTIL(seen.ready == 2);
    end_listening();
    ck_assert_int_eq(seen.kinds[SK_RESULT_LOST], 1);
    ck_assert_int_eq(count("PostgreSQL is ready\" host=second.example"), 1);
    close_all();
}

TEST(a_lost_connection_is_first_tried_where_it_was)
{
    connect_to_hosts(stub.port, "");
    begin_listening();
    stub_hang_up(&stub);
    RUN_UNTIL(seen.ready == 2);
    end_listening();
    ck_assert_int_eq(count("PostgreSQL is ready\" host=first.example"), 1);
    close_all();
}

// A synchronous wait was cancelled: the server ends the statement as usual, after a warning.
TEST_EACH(a_commit_that_did_not_wait_for_the_standbys_is_lost, 3)
{
    static const struct {
        const char *file, *severity;
        bool lost;
    } rows[] = {
        {"syncrep.c", "WARNING", true},
        {"syncrep.c", "DEBUG3", false},
        {"xact.c", "WARNING", false},
    };
    connect_link(2, false);
    server.warning = rows[_i].file;
    server.severity = rows[_i].severity;
    ck_assert_int_eq(call(0), SK_OK);
    ck_assert_int_eq(call(1), SK_OK);
    RUN_UNTIL(seen.total == 2);
    ck_assert_int_eq(seen.kinds[rows[_i].lost ? SK_RESULT_LOST : SK_RESULT_ROWS], 2);
    ck_assert_int_eq(server.asked, rows[_i].lost ? 1 : 2);
    server.warning = NULL;
    RUN_UNTIL(sk_pg_ready(pg));
    ck_assert_int_eq(call(2), SK_OK);
    RUN_UNTIL(seen.results[2] == 1);
    ck_assert_int_eq(seen.kinds[SK_RESULT_ROWS], rows[_i].lost ? 1 : 3);
    close_all();
}

SUITE(.timeout_s = 60, .setup = setup);
