// A request's trace and its access log line, as clients and operators see them.
#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "books.h"
#include "buf.h"
#include "http.h"
#include "service_log.h"
#include "stack.h"
#include "test.h"
#include "traceparent.h"
#include "wait.h"

enum { STOCK = 100, REQUEST_SIZE = 1024, LOG_SIZE = 1 << 20, MANY = 12000, PIPE_SIZE = 1 << 16 };

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define SPAN   "b7ad6b7169203331"
#define SENT   "traceparent: 00-" TRACE "-" SPAN "-01\r\n"
#define ALICE  "X-User-Id: alice\r\n"
#define SECRET "s3cr3t-t0ken"

static char voucher[VOUCHER_ID_SIZE];
static struct http_reply reply;
static char logged[LOG_SIZE];

static void setup(void)
{
    stack_start(STACK_ALL);
}

// The trace in a reply; false: none.
static bool given_trace(char trace_id[HTTP_FIELD_SIZE])
{
    char value[HTTP_FIELD_SIZE];
    trace_id[0] = '\0';
    if (!http_header(&reply, "traceparent", value))
        return false;
    ck_assert_uint_eq(strlen(value), 55);
    ck_assert_int_eq(strncmp(value, "00-", 3), 0);
    ck_assert_ptr_null(strstr(value, SPAN)); // the client's
    memcpy(trace_id, value + 3, 32);
    trace_id[32] = '\0';
    return true;
}

// The answer must belong to this trace; a problem also has it in its body. `trace_id` NULL: a new trace.
static void must_be_traced(const char *trace_id)
{
    char given[HTTP_FIELD_SIZE], member[HTTP_FIELD_SIZE], type[HTTP_FIELD_SIZE];
    ck_assert_msg(given_trace(given), "no traceparent: %s", reply.text);
    if (trace_id == NULL)
        ck_assert_str_ne(given, TRACE);
    else
        ck_assert_str_eq(given, trace_id);
    if (http_header(&reply, "Content-Type", type) && strcmp(type, "application/problem+json") == 0) {
        ck_assert(http_member(&reply, "trace_id", member));
        ck_assert_str_eq(member, given);
    }
}

static int ask(const struct service *service, const char *text)
{
    return http_raw(service, text, strlen(text), &reply);
}

// ---- traces ----

TEST(every_answer_carries_the_trace)
{
    static const struct {
        const char *request; // without the end of its head
        const char *body;
        int status;
    } rows[] = {
        {"GET /healthz HTTP/1.1\r\n", "", 200},
        {"GET /vouchers HTTP/1.1\r\n", "", 200},
        {"GET /nowhere HTTP/1.1\r\n", "", 404},
        {"PUT /healthz HTTP/1.1\r\n", "", 405},
        {"BREW /healthz HTTP/1.1\r\n", "", 501},
        {"GET /vouchers?limit=x HTTP/1.1\r\n", "", 422},
        {"GET /orders HTTP/1.1\r\n", "", 401},
        {"POST /seckill/0 HTTP/1.1\r\n" ALICE, "", 400},
        {"POST /seckill/9223372036854775807 HTTP/1.1\r\n" ALICE, "", 404},
        {"POST /seckill/1 HTTP/1.1\r\n" ALICE "Content-Type: application/json\r\nContent-Length: 14\r\n",
         "{\"quantity\":0}", 422},
        {"POST /admin/vouchers HTTP/1.1\r\n", "", 401},
        // Rejected before they are complete.
        {"POST /seckill/1 HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n", "", 400},
        {"GET /healthz HTTP/1.1\r\nX-Odd: \x01\r\n", "", 400},
        {"POST /seckill/1 HTTP/1.1\r\nContent-Length: 99999999\r\n", "", 413},
    };
    const struct service *service = service_start(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[REQUEST_SIZE];
        (void)snprintf(text, sizeof text, "%sHost: h\r\n" SENT "\r\n%s", rows[i].request, rows[i].body);
        ck_assert_msg(ask(service, text) == rows[i].status, "%s: %d", rows[i].request, reply.status);
        must_be_traced(TRACE);
        // The same without it: no trace is made up.
        (void)snprintf(text, sizeof text, "%sHost: h\r\n\r\n%s", rows[i].request, rows[i].body);
        ck_assert_int_eq(ask(service, text), rows[i].status);
        char given[HTTP_FIELD_SIZE];
        ck_assert_msg(!given_trace(given), "%s", rows[i].request);
        ck_assert(!http_member(&reply, "trace_id", given));
    }
}

// Buffers of rejected requests are reused: concurrent ones must not mix, also if a client does not read.
TEST(each_refusal_of_many_has_its_own_trace)
{
    enum { CLIENTS = 12, EACH = 120 };
    const struct service *service = service_start(ENV("SECKILL_REACTORS=2"));
    int fds[CLIENTS];
    struct sk_buf text = {0};
    for (int client = 0; client < CLIENTS; client++) {
        fds[client] = http_connect(service);
        sk_buf_clear(&text);
        for (int i = 0; i < EACH; i++)
            sk_buf_printf(&text, "%s HTTP/1.1\r\nHost: h\r\ntraceparent: 00-%016x%016x-b7ad6b7169203331-01\r\n\r\n",
                          i % 3 == 0 ? "PUT /healthz" : "GET /nowhere", client + 1, i);
        ck_assert(http_send(fds[client], text.data, text.len));
    }
    for (int client = CLIENTS; client-- > 0;) {
        for (int i = 0; i < EACH; i++) {
            char trace_id[SK_TRACE_ID_SIZE];
            (void)snprintf(trace_id, sizeof trace_id, "%016x%016x", client + 1, i);
            ck_assert(http_receive(fds[client], &reply));
            ck_assert_int_eq(reply.status, i % 3 == 0 ? 405 : 404);
            must_be_traced(trace_id);
        }
        (void)close(fds[client]);
    }
    sk_buf_free(&text);
}

TEST(a_purchase_carries_the_trace)
{
    const struct service *service = service_start(NULL);
    char path[64];
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "carol");
    (void)snprintf(path, sizeof path, "/seckill/%s", voucher);
    ck_assert_int_eq(http_ask(service, "POST", path, ALICE SENT, NULL, &reply), 201);
    must_be_traced(TRACE);
    ck_assert_int_eq(http_ask(service, "POST", path, ALICE SENT, NULL, &reply), 409);
    http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
    must_be_traced(TRACE);
    ck_assert_int_eq(http_ask(service, "POST", path, "X-User-Id: bob\r\nPrefer: respond-async\r\n" SENT, NULL, &reply),
                     202);
    must_be_traced(TRACE);
    // For a stream, its head.
    char text[REQUEST_SIZE];
    int fd = http_connect(service);
    (void)snprintf(text, sizeof text, "GET /vouchers/%s/events HTTP/1.1\r\nHost: h\r\n" SENT "\r\n", voucher);
    ck_assert(http_send_text(fd, text));
    ssize_t n = 0, got;
    char head[REQUEST_SIZE];
    for (head[0] = '\0'; strstr(head, "\r\n\r\n") == NULL; head[n] = '\0') {
        got = read(fd, head + n, sizeof head - 1 - (size_t)n);
        ck_assert_int_gt(got, 0);
        n += got;
    }
    (void)close(fd);
    ck_assert_ptr_nonnull(strstr(head, "traceparent: 00-" TRACE "-"));
    books_must_balance(voucher);
}

TEST(what_cannot_be_taken_up_gets_a_new_trace)
{
    static const char *const fields[] = {
        "traceparent:\r\n",
        "traceparent: nonsense\r\n",
        "traceparent: ff-" TRACE "-" SPAN "-01\r\n",
        "traceparent: 00-" TRACE "-" SPAN "-01-more\r\n",
        "traceparent: 00-" TRACE "-0000000000000000-01\r\n",
        SENT SENT,
        SENT "TRACEPARENT: 00-" TRACE "-" SPAN "-00\r\n",
    };
    const struct service *service = service_start(NULL);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        ck_assert_int_eq(http_ask(service, "GET", "/nowhere", fields[i], NULL, &reply), 404);
        must_be_traced(NULL);
    }
    // The name in any case, a future version, and blanks.
    ck_assert_int_eq(http_ask(service, "GET", "/healthz", "TraceParent: 00-" TRACE "-" SPAN "-00\r\n", NULL, &reply),
                     200);
    must_be_traced(TRACE);
    ck_assert_int_eq(
        http_ask(service, "GET", "/healthz", "traceparent:\tcc-" TRACE "-" SPAN "-00-x \r\n", NULL, &reply), 200);
    must_be_traced(TRACE);
    // tracestate is not returned, and may have any content.
    char value[HTTP_FIELD_SIZE];
    ck_assert_int_eq(http_ask(service, "GET", "/healthz", SENT "tracestate: a=1,,=\r\n", NULL, &reply), 200);
    must_be_traced(TRACE);
    ck_assert(!http_header(&reply, "tracestate", value));
}

TEST(traces_may_be_on_or_off)
{
    char given[HTTP_FIELD_SIZE];
    const struct service *on = service_start(ENV("SECKILL_TRACE=on"));
    const struct service *off = service_start(ENV("SECKILL_TRACE=off"));
    ck_assert_int_eq(http_ask(on, "GET", "/nowhere", "", NULL, &reply), 404);
    must_be_traced(NULL);
    ck_assert_int_eq(http_ask(on, "GET", "/nowhere", SENT, NULL, &reply), 404);
    must_be_traced(TRACE);
    ck_assert_int_eq(http_ask(off, "GET", "/nowhere", SENT, NULL, &reply), 404);
    ck_assert(!given_trace(given));
    ck_assert(!http_member(&reply, "trace_id", given));
}

TEST(the_log_says_which_trace_was_refused)
{
    const struct service *service = service_start(ENV("SECKILL_LOG_LEVEL=debug"));
    ck_assert_int_eq(http_ask(service, "GET", "/vouchers?limit=0", SENT, NULL, &reply), 422);
    service_log_must_have(service, 1,
                          "level=debug msg=\"a request was refused\" trace_id=" TRACE
                          " route=/vouchers code=BAD_PARAMETER\n");
}

// ---- the access log ----

// The next line of the access log, cut off at `*at` by a NUL; NULL: none.
static char *next_line(char **at)
{
    for (char *line = *at, *end; line != NULL && (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        if (strstr(line, "msg=\"request\"") != NULL) {
            *at = end + 1;
            return line;
        }
    }
    return NULL;
}

static void must_be_a_line(const char *line)
{
    regex_t regex;
    ck_assert_int_eq(
        regcomp(&regex,
                "^ts=[-0-9]{10}T[:0-9]{8}\\.[0-9]{3}Z level=info msg=\"request\" method=(GET|HEAD|POST|PATCH|-) "
                "route=(/[-a-z/{}*]*|-) status=[0-9]{3} code=[A-Z_]+ bytes=[0-9]+ us=[0-9]+ trace_id=[0-9a-f]{32}$",
                REG_EXTENDED | REG_NOSUB),
        0);
    ck_assert_msg(regexec(&regex, line, 0, NULL, 0) == 0, "%s", line);
    regfree(&regex);
}

static int count_lines(const struct service *service, const char *with)
{
    int count = 0;
    service_read_log(service, logged, sizeof logged);
    for (char *at = logged, *line; (line = next_line(&at)) != NULL;)
        count += strstr(line, with) != NULL;
    return count;
}

// One line for each answer, with what the client got, and nothing that it sent.
TEST(each_answer_has_a_line)
{
    static const char *const requests[] = {
        "GET /healthz HTTP/1.1\r\nHost: h\r\n" SENT "\r\n",
        "HEAD /vouchers HTTP/1.1\r\nHost: h\r\n" SENT "\r\n",
        "GET /" SECRET "?" SECRET "=" SECRET " HTTP/1.1\r\nHost: h\r\n" SENT "\r\n",
        "GET /a%0alevel=error%20msg=forged HTTP/1.1\r\nHost: h\r\n" SENT "\r\n",
        "GET /\"x\"=\\ HTTP/1.1\r\nHost: h\r\n" SENT "\r\n",
        SECRET " /healthz HTTP/1.1\r\nHost: h\r\n" SENT "\r\n",
        "GET /orders HTTP/1.1\r\nHost: h\r\nX-User-Id: " SECRET "\r\n" SENT "\r\n",
        "GET /admin/vouchers HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " SECRET "\r\n" SENT "\r\n",
        "POST /seckill/0 HTTP/1.1\r\nHost: h\r\nX-User-Id: " SECRET "\r\nIdempotency-Key: " SECRET "\r\n" SENT "\r\n",
        "GET /healthz HTTP/1.1\r\nHost: " SECRET "\r\nX-Odd: \x01" SECRET "\r\n" SENT "\r\n",
        "POST /seckill/1 HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n" SENT "\r\n",
    };
    enum { REQUESTS = sizeof requests / sizeof requests[0] };
    const struct service *service = service_start(ENV("SECKILL_ACCESS_LOG=1"));
    char status[32], bytes[32];
    for (int i = 0; i < REQUESTS; i++) {
        bool head = strncmp(requests[i], "HEAD", 4) == 0;
        if (head) { // a HEAD has no body, for which the harness would wait
            int fd = http_connect(service);
            ck_assert(http_send_text(fd, requests[i]));
            char text[REQUEST_SIZE];
            ck_assert_int_gt(read(fd, text, sizeof text), 0);
            (void)close(fd);
            (void)snprintf(status, sizeof status, " method=HEAD ");
            (void)snprintf(bytes, sizeof bytes, " bytes=0 ");
        } else {
            ck_assert_int_ne(ask(service, requests[i]), 0);
            must_be_traced(TRACE);
            (void)snprintf(status, sizeof status, " status=%d ", reply.status);
            (void)snprintf(bytes, sizeof bytes, " bytes=%zu ", reply.body_len);
        }
        WAIT_FOR(count_lines(service, "trace_id=" TRACE) == i + 1);
        char *last = NULL, *at = logged;
        service_read_log(service, logged, sizeof logged);
        for (char *line; (line = next_line(&at)) != NULL;)
            last = strstr(line, TRACE) != NULL ? line : last;
        ck_assert_ptr_nonnull(last);
        must_be_a_line(last);
        ck_assert_msg(strstr(last, status) != NULL && strstr(last, bytes) != NULL, "%s: %s %s", last, status, bytes);
    }
    service_read_log(service, logged, sizeof logged);
    ck_assert_ptr_null(strstr(logged, SECRET));
    ck_assert_ptr_null(strstr(logged, "forged"));
}

// Requests without a trace get one, and the client receives it.
TEST(lines_and_answers_have_the_same_trace)
{
    struct service *service = service_start(ENV("SECKILL_ACCESS_LOG=1", "SECKILL_REACTORS=2"));
    char given[HTTP_FIELD_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    for (int i = 0; i < STOCK; i++) {
        char user[16];
        (void)snprintf(user, sizeof user, "u%d", i);
        ck_assert_int_eq(http_buy_patiently(service, voucher, user, &reply), 201);
        ck_assert(given_trace(given));
    }
    WAIT_FOR(count_lines(service, "route=/seckill/{voucher} status=201 code=PLACED") == STOCK);
    ck_assert_int_eq(count_lines(service, given), 1);
    // At shutdown the remaining lines in the rings are written.
    ck_assert_int_eq(http_ask(service, "GET", "/nowhere", "", NULL, &reply), 404);
    ck_assert(given_trace(given));
    service_signal(service, SIGTERM);
    ck_assert_int_eq(service_wait(service), 0);
    ck_assert_int_eq(count_lines(service, given), 1);
    books_must_balance(voucher);
}

// If standard output accepts no more, lines are lost, but answers and the shutdown are not delayed.
TEST(a_slow_output_costs_lines_only)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    service_direct_output(ends[1]);
    struct service *service = service_start(ENV("SECKILL_ACCESS_LOG=1"));
    int fd = http_connect(service);
    for (int i = 0; i < MANY; i++) {
        ck_assert(http_send_text(fd, "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"));
        ck_assert(http_receive(fd, &reply));
        ck_assert_int_eq(reply.status, 200);
    }
    (void)close(fd);
    service_log_must_have(service, 1, "level=warn msg=\"access log: lines dropped\" dropped=");
    WAIT_FOR(http_sample(service, "seckill_access_log_dropped_total") > 0);
    service_signal(service, SIGTERM);
    ck_assert_int_eq(service_wait(service), 0);
    (void)close(ends[1]);
    // Only whole lines were written.
    char last = '\0', some[PIPE_SIZE];
    size_t lines = 0;
    for (ssize_t n; (n = read(ends[0], some, sizeof some)) > 0; last = some[n - 1]) {
        for (ssize_t i = 0; i < n; i++)
            lines += some[i] == '\n';
    }
    (void)close(ends[0]);
    ck_assert_int_eq(last, '\n');
    ck_assert_uint_gt(lines, 0);
    ck_assert_uint_lt(lines, MANY);
}

// The same for standard error: no answer, purchase or shutdown waits for its reader.
TEST(a_log_that_nobody_reads_costs_lines_only)
{
    int ends[2];
    char some[PIPE_SIZE];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    service_direct_errors(ends[1]);
    struct service *service = service_start(ENV("SECKILL_LOG_LEVEL=debug"));
    int fd = http_connect(service);
    while (http_sample(service, "seckill_log_dropped_total") == 0) {
        for (int i = 0; i < 100; i++) { // each is a line
            ck_assert(http_send_text(fd, "GET /none HTTP/1.1\r\nHost: h\r\n" SENT "\r\n"));
            ck_assert(http_receive(fd, &reply));
            ck_assert_int_eq(reply.status, 404);
        }
    }
    voucher_on_sale(service, STOCK, voucher);
    ck_assert_int_eq(http_buy(service, voucher, "alice", &reply), 201);
    ck_assert_int_gt(read(ends[0], some, sizeof some), 0); // the reader is back
    service_signal(service, SIGTERM);
    ck_assert_int_eq(service_wait(service), 0);
    (void)close(fd);
    (void)close(ends[1]);
    (void)close(ends[0]);
    service_direct_errors(0);
    service_start(NULL);
    books_must_balance(voucher);
}

// A connection that got the number of standard error would receive the log.
TEST(closed_standard_streams_are_no_connections)
{
    service_direct_errors(-1);
    const struct service *service = service_start(ENV("SECKILL_LOG_LEVEL=debug", "SECKILL_ACCESS_LOG=1"));
    voucher_on_sale(service, STOCK, voucher);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(http_ask(service, "GET", "/none", SENT, NULL, &reply), 404);
        ck_assert_int_eq(http_buy(service, voucher, "alice", &reply), i == 0 ? 201 : 409);
    }
    ck_assert(http_sample(service, "seckill_link_lost_total{store=\"redis\",link=\"orders\"}") == 0);
    ck_assert(http_sample(service, "seckill_link_lost_total{store=\"postgresql\",link=\"orders\"}") == 0);
    books_must_balance(voucher);
}

TEST(nothing_is_written_unless_it_is_asked_for)
{
    const struct service *service = service_start(NULL);
    ck_assert_int_eq(http_ask(service, "GET", "/healthz", SENT, NULL, &reply), 200);
    service_stop_all();
    ck_assert_int_eq(count_lines(service, ""), 0);
}

SUITE(.begin = setup, .teardown = service_stop_all, .in_one_process = true);
