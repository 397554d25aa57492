// The link to PostgreSQL, with a server under the test's control: what every link promises (link_stage.h), kinds of
// results, notifications, and several hosts.
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link_stage.h"
#include "listening.h"
#include "log.h"
#include "pg_link.h"

static struct sk_pg *pg;

// ---- the server ----

static struct {
    int client; // the client that has connected
    bool parse;
    char bound[32];       // the statement to execute
    const char *sqlstate; // replies to calls with an error; NULL: success
    const char *warning;  // the source file of a warning at the end of a call; NULL: none
    const char *severity;
    int listened;
    int standby;        // it is one for so many clients
    int prepared_there; // statements prepared at a standby
} process;

static void send_message(char type, const void *body, size_t n)
{
    char message[128] = {type};
    uint32_t len = htonl((uint32_t)n + 4);
    ck_assert_uint_le(n + 5, sizeof message);
    memcpy(message + 1, &len, sizeof len);
    memcpy(message + 5, body, n);
    stub_send(&stub, message, n + 5);
}

// Fields as a server sends them, with `/` for the end of each.
__attribute__((format(printf, 2, 3))) static void send_fields(char type, const char *format, ...)
{
    char fields[128];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(fields, sizeof fields, format, args);
    va_end(args);
    ck_assert_int_lt(n, (int)sizeof fields);
    for (char *at = fields; (at = strchr(at, '/')) != NULL; at++)
        *at = '\0';
    send_message(type, fields, (size_t)n + 1);
}

static void send_ready(void)
{
    send_message('Z', "I", 1);
}

// `sqlstate`: of an error; NULL: success.
static void answer(const char *sqlstate, const char *warning)
{
    send_message('2', "", 0);
    if (sqlstate != NULL) {
        send_fields('E', "SERROR/C%s/Mno/", sqlstate);
    } else {
        send_message('n', "", 0);
        send_message('C', "SELECT 0", sizeof "SELECT 0");
        if (warning != NULL)
            send_fields('N', "SWARNUNG/V%s/C01000/MRT, Abbruch/F%s/", process.severity, warning);
    }
    send_ready();
}

static void answer_calls(void)
{
    answer(process.sqlstate, process.warning);
}

static void on_sync(void)
{
    if (process.parse) {
        process.parse = false;
        send_message('1', "", 0);
        send_ready();
    } else if (strcmp(process.bound, "session") == 0 || strcmp(process.bound, "listen") == 0) {
        process.listened += process.bound[0] == 'l';
        answer(NULL, NULL);
    } else {
        take_call();
    }
}

static size_t receive(struct stub *of, const char *bytes, size_t n)
{
    (void)of;
    bool started = process.client == stub.clients;
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
        process.client = stub.clients;
        send_message('R', authenticated, sizeof authenticated);
        send_fields('S', "server_version/15.0");
        send_fields('S', "default_transaction_read_only/off");
        send_fields('S', "in_hot_standby/%s", process.client <= process.standby ? "on" : "off");
        send_ready();
    } else if (bytes[0] == 'P') {
        process.parse = true;
        process.prepared_there += process.client <= process.standby;
    } else if (bytes[0] == 'B') {
        (void)snprintf(process.bound, sizeof process.bound, "%s", bytes + 5 + strlen(bytes + 5) + 1);
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

static void give_notice(void)
{
    send_fields('N', "SNOTICE/C00000/Msomething \"odd\"/");
}

// ---- the client ----

static bool wants_changes, call_again;
static uint32_t statement_ms;
static int notified, kinds[SK_RESULT_REFUSED + 1];
static enum sk_pg_class next_class, classes[CALLS_MAX];
static char order[CALLS_MAX]; // the letters of the classes in order of their results

static void on_notified(void *arg)
{
    (void)arg;
    notified++;
}

static void on_result(void *arg, const struct sk_result *result)
{
    ck_assert((result->kind == SK_RESULT_ROWS) == (result->rows != NULL));
    order[seen.total] = "cmq"[classes[(int *)arg - seen.results]];
    kinds[result->kind]++;
    note_result(arg, result->kind == SK_RESULT_ROWS);
    if (call_again) {
        call_again = false;
        must_take(1, 1);
    }
}

static enum sk_status send_call(int *result)
{
    const char *params[] = {"1", NULL};
    classes[result - seen.results] = next_class;
    return sk_pg_call_as(pg, next_class, SK_STATEMENT_FIND_VOUCHER, 2, params, on_result, result);
}

static void flush_link(void) {}

static void close_link(void)
{
    sk_pg_close(pg);
    pg = NULL;
}

// Makes a call and waits for its result.
static void ask(int i)
{
    must_take(i, 1);
    RUN_UNTIL(seen.results[i] == 1);
}

static void connect_to(const char *url, size_t most_waiting)
{
    const struct sk_pg_options options = {
        .url = url,
        .name = "test",
        .timeout_ms = TIMEOUT_MS,
        .statement_ms = statement_ms,
        .on_change = on_change,
        .most_waiting = most_waiting,
        .listen = wants_changes,
        .on_notified = on_notified,
    };
    pg = sk_pg_open(&loop, &options);
    ck_assert_ptr_nonnull(pg);
    ck_assert_int_eq(call(0), SK_DOWN);
    RUN_UNTIL(seen.ready == 1);
}

static void connect_link(size_t most_waiting)
{
    char url[96];
    (void)snprintf(url, sizeof url, "postgresql://u@127.0.0.1:%d/d?sslmode=disable&gssencmode=disable", stub.port);
    connect_to(url, most_waiting);
}

// To the stub under two names, after one that is not it. `heard` has the log.
static void connect_to_hosts(int first_port, const char *more)
{
    char url[192];
    (void)snprintf(url, sizeof url,
                   "user=u dbname=d sslmode=disable gssencmode=disable host=first.example,second.example,third.example"
                   " hostaddr=127.0.0.1,127.0.0.1,127.0.0.1 port=%d,%d,%d %s",
                   first_port, stub.port, stub.port, more);
    begin_listening();
    connect_to(url, 1);
    end_listening();
}

// How often the log has a text.
static int count(const char *text)
{
    int n = 0;
    for (const char *at = heard; (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

// ---- calls ----

// Every eighth call is the oldest of all, so that none starves.
TEST(commands_go_before_moves_and_those_before_questions)
{
    connect_link(CALLS_MAX);
    next_class = SK_PG_QUERIES;
    must_take(0, 30);
    next_class = SK_PG_MOVES;
    must_take(30, 5);
    next_class = SK_PG_COMMANDS;
    must_take(35, 20);
    RUN_UNTIL(seen.total == 55);
    ck_assert_int_eq(strncmp(order,
                             "qccccccq"
                             "cccccccq"
                             "cccccccq"
                             "mmmmmqqq"
                             "qqqq",
                             36),
                     0);
    must_have_each_once(55);
}

TEST(calls_of_all_classes_are_lost_once)
{
    connect_link(CALLS_MAX);
    server.silent = true;
    for (int i = 0; i < 9; i++) {
        next_class = (enum sk_pg_class)(i % SK_PG_CLASSES);
        must_take(i, 1);
    }
    close_link();
    ck_assert_int_eq(kinds[SK_RESULT_LOST], 9);
    must_have_each_once(9);
}

TEST(statements_may_have_a_time_of_their_own_and_lag_after_a_second)
{
    statement_ms = 4 * TIMEOUT_MS;
    connect_link(1);
    server.delay_ms = 2 * TIMEOUT_MS;
    ask(0);
    ck_assert_int_eq(kinds[SK_RESULT_ROWS], 1);
    ck_assert_int_eq(seen.lost, 0);
    ck_assert(!sk_pg_lags(pg));
    server.silent = true;
    uint64_t since_ms = sk_monotonic_ms();
    must_take(1, 1);
    RUN_UNTIL(sk_pg_lags(pg));
    ck_assert_uint_ge(sk_monotonic_ms() - since_ms, 1000 - 1);
    RUN_UNTIL(seen.lost == 1);
    ck_assert_uint_ge(sk_monotonic_ms() - since_ms, 4 * TIMEOUT_MS);
    ck_assert(!sk_pg_lags(pg));
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
    connect_link(1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memset(kinds, 0, sizeof kinds);
        process.sqlstate = rows[i].sqlstate;
        ask((int)i);
        ck_assert_msg(kinds[rows[i].kind] == 1, "row %zu", i);
    }
    struct sk_server_row measured = {.up = true};
    sk_pg_measure(pg, &measured);
    ck_assert_uint_eq(measured.answers, sizeof rows / sizeof rows[0]);
    ck_assert_uint_le(measured.answered_ns, (sk_monotonic_ms() - since_ms + 1) * 1000000);
    ck_assert_int_eq(seen.lost, 0);
}

// A notice is for those who want details. So is a locked row: the caller knows it, and reports it.
TEST(a_notice_is_logged_and_a_locked_row_is_no_warning)
{
    static const char *const sqlstates[] = {NULL, "55P03", "40001"};
    connect_link(1);
    sk_log_set_level(SK_LOG_INFO);
    begin_listening();
    give_notice();
    for (int i = 0; i < 3; i++) {
        process.sqlstate = sqlstates[i];
        ask(i);
    }
    end_listening();
    ck_assert_int_eq(count("msg="), 1);
    ck_assert_int_eq(count("level=warn msg=\"PostgreSQL refused a statement\""), 1);
    sk_log_set_level(SK_LOG_DEBUG);
    begin_listening();
    give_notice();
    ask(3);
    end_listening();
    ck_assert_int_eq(count("level=debug msg=\"PostgreSQL gives notice\""), 1);
    ck_assert_int_eq(count(" text=\"test: NOTICE:  something \\\"odd\\\"\"\n"), 1);
}

// The next call finds room.
TEST(a_callback_may_call)
{
    connect_link(1);
    call_again = true;
    ask(0);
    RUN_UNTIL(seen.results[1] == 1);
}

// ---- the connection ----

TEST_EACH(changes_are_told_to_who_asked_and_again_after_a_reconnect, 2)
{
    wants_changes = _i == 1;
    connect_link(1);
    for (int i = 1; i <= 2; i++) {
        RUN_UNTIL(seen.ready == i);
        ck_assert_int_eq(process.listened, i * _i);
        notify();
        ask(i);
        ck_assert_int_eq(notified, i * _i);
        stub_hang_up(&stub);
        RUN_UNTIL(seen.lost == i);
    }
}

TEST(a_held_link_takes_no_calls)
{
    wants_changes = true;
    connect_link(1);
    stub_hang_up(&stub);
    RUN_UNTIL(seen.lost == 1);
    sk_pg_hold(pg, true);
    RUN_UNTIL(process.listened == 2); // it connects
    ck_assert(!sk_pg_ready(pg));
    ck_assert_int_eq(call(0), SK_DOWN);
    RUN_UNTIL(seen.ready == 2);
    sk_pg_hold(pg, false);
    ck_assert_int_eq(seen.ready, 3); // now it is
    ask(0);
}

// The server's last bytes and the reset that follows come in one event: the bytes are read, and the error must be, too.
TEST(a_reset_behind_the_last_bytes_is_noticed)
{
    static const struct linger reset = {.l_onoff = 1};
    uv_os_fd_t fd;
    connect_link(1);
    give_notice();
    ck_assert_int_eq(uv_fileno((uv_handle_t *)stub.client, &fd), 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    stub_hang_up(&stub);
    RUN_UNTIL(!sk_pg_ready(pg));
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
    connect_link(2);
    process.warning = rows[_i].file;
    process.severity = rows[_i].severity;
    must_take(0, 2);
    RUN_UNTIL(seen.total == 2);
    ck_assert_int_eq(kinds[rows[_i].lost ? SK_RESULT_LOST : SK_RESULT_ROWS], 2);
    ck_assert_int_eq(server.asked, rows[_i].lost ? 1 : 2);
    process.warning = NULL;
    RUN_UNTIL(sk_pg_ready(pg));
    ask(2);
    ck_assert_int_eq(kinds[SK_RESULT_ROWS], rows[_i].lost ? 1 : 3);
}

// ---- several hosts ----

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
    connect_to_hosts(port, "");
    ck_assert_int_eq(count("cannot connect to PostgreSQL"), 1);
    ck_assert_int_eq(count("connecting takes too long"), _i);
    ck_assert_int_eq(count("PostgreSQL is ready\" host=second.example"), 1);
    (void)close(fd);
}

// All hosts are standbys, for a while.
TEST_EACH(a_standby_is_not_taken, 2)
{
    process.standby = 7;
    connect_to_hosts(stub.port, _i == 0 ? "" : "target_session_attrs=primary");
    ck_assert_int_eq(stub.clients, 8);
    ck_assert_int_eq(process.prepared_there, 0);
    ck_assert_int_eq(count("PostgreSQL is ready\" host=second.example"), 1); // the eighth, of three in turn
}

// A lost connection is first tried where it was.
TEST_EACH(a_server_that_has_become_read_only_is_left, 2)
{
    connect_to_hosts(stub.port, "");
    begin_listening();
    process.sqlstate = "25006";
    if (_i == 0)
        stub_hang_up(&stub);
    else
        must_take(0, 1);
    RUN_UNTIL(seen.ready == 2);
    end_listening();
    ck_assert_int_eq(kinds[SK_RESULT_LOST], _i);
    ck_assert_int_eq(count(_i == 0 ? "ready\" host=first.example" : "ready\" host=second.example"), 1);
}
