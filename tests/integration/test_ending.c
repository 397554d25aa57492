// Shutdown of an instance: it ends cleanly, whatever its clients, stores or resolver do at that moment. And the limit
// of file descriptors, without which clients could cut it off from its stores.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "books.h"
#include "http.h"
#include "service_log.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])
#define HOST        "Host: test\r\n"
#define ADMIN       "Authorization: Bearer admin-token-of-the-tests\r\n"
#define ORDER       "00000000-0000-7000-8000-000000000000"
#define TERMS                                                                    \
    "Content-Length: 105\r\n\r\n{\"title\":\"x\",\"stock\":1,\"price_cents\":1," \
    "\"begin_at\":\"2020-01-01T00:00:00Z\",\"end_at\":\"2040-01-01T00:00:00Z\"}"

enum { STOCK = 1000, CLIENTS = 600, TRIES = 5, REQUEST_SIZE = 1024, ANSWER_SIZE = 1 << 24, LOG_SIZE = 1 << 18 };
enum { SEND_PAUSE_US = 60, FLOOD = 300, REPORT_MAX = 1000 };

static void setup(void)
{
    stack_start(STACK_ALL);
}

// Every route; %s: the voucher's id, or nothing of it, %d: a number unique to the request.
static const char *const routes[] = {
    "POST /seckill/%s HTTP/1.1\r\n" HOST "X-User-Id: user%d\r\n\r\n",
    "POST /seckill/%s HTTP/1.1\r\n" HOST "X-User-Id: user%d\r\nPrefer: respond-async\r\n\r\n",
    "GET /orders%.0s HTTP/1.1\r\n" HOST "X-User-Id: user%d\r\n\r\n",
    "GET /orders/" ORDER "%.0s HTTP/1.1\r\n" HOST "X-User-Id: user%d\r\n\r\n",
    "GET /vouchers%.0s HTTP/1.1\r\n" HOST "X-Number: %d\r\n\r\n",
    "GET /vouchers/%s HTTP/1.1\r\n" HOST "X-Number: %d\r\n\r\n",
    "GET /vouchers/9%s%d HTTP/1.1\r\n" HOST "\r\n",
    "GET /admin/vouchers%.0s HTTP/1.1\r\n" HOST ADMIN "X-Number: %d\r\n\r\n",
    "POST /admin/vouchers%.0s HTTP/1.1\r\n" HOST ADMIN "X-Number: %d\r\nContent-Type: application/json\r\n" TERMS,
    "GET /admin/vouchers/%s HTTP/1.1\r\n" HOST ADMIN "X-Number: %d\r\n\r\n",
    "GET /admin/vouchers/%s/dead-letters HTTP/1.1\r\n" HOST ADMIN "X-Number: %d\r\n\r\n",
    "POST /admin/vouchers/%s/dead-letters/%d/requeue HTTP/1.1\r\n" HOST ADMIN "\r\n",
    "POST /admin/vouchers/%s/dead-letters/%d/write-off HTTP/1.1\r\n" HOST ADMIN "\r\n",
    "POST /admin/vouchers/%s/reconcile HTTP/1.1\r\n" HOST ADMIN "X-Number: %d\r\n\r\n",
    "GET /healthz%.0s HTTP/1.1\r\n" HOST "X-Number: %d\r\n\r\n",
    "GET /readyz%.0s HTTP/1.1\r\n" HOST "X-Number: %d\r\n\r\n",
    "DELETE /nowhere/%s HTTP/1.1\r\n" HOST "X-Number: %d\r\n\r\n",
};

static void send_route(int fd, size_t route, const char *voucher, int number)
{
    char request[REQUEST_SIZE];
    int n = snprintf(request, sizeof request, routes[route], voucher, number);
    ck_assert(n > 0 && n < REQUEST_SIZE);
    (void)http_send(fd, request, (size_t)n); // the service may have ended
}

static int keep_alive(struct service *service)
{
    struct http_reply reply;
    int fd = http_connect(service);
    ck_assert_int_ge(fd, 0);
    ck_assert(http_send_text(fd, "GET /healthz HTTP/1.1\r\n" HOST "\r\n") && http_receive(fd, &reply));
    ck_assert_int_eq(reply.status, 200);
    return fd;
}

// Reads until the connection ends: one complete answer, or nothing.
static void must_be_whole(int fd, size_t number)
{
    static char answer[ANSWER_SIZE];
    size_t len = 0;
    ssize_t n;
    while ((n = recv(fd, answer + len, sizeof answer - 1 - len, 0)) > 0)
        len += (size_t)n;
    answer[len] = '\0';
    if (len == 0)
        return;
    const char *end = strstr(answer, "\r\n\r\n"), *length = strcasestr(answer, "\r\nContent-Length: ");
    ck_assert_msg(strncmp(answer, "HTTP/1.1 ", 9) == 0 && end != NULL && length != NULL && length < end,
                  "client %zu: half a head: %.*s", number, REPORT_MAX, answer);
    size_t body = strtoul(length + strlen("\r\nContent-Length: "), NULL, 10);
    ck_assert_msg(answer + len == end + 4 + body, "client %zu: not one whole answer: %.*s", number, REPORT_MAX, answer);
}

static void must_have_ended_well(struct service *service)
{
    static char log[LOG_SIZE];
    int code = service_wait(service);
    service_read_log(service, log, sizeof log);
    const char *report = strstr(log, "ERROR: "); // of a sanitizer
    ck_assert_msg(code == 0, "exit code %d: %.*s", code, REPORT_MAX, report == NULL ? "" : report);
}

// Hundreds of idle connections send requests for every route, one after the other, around the shutdown.
TEST_EACH(every_route_around_the_end, 2 * TRIES)
{
    static const char *const drain[] = {"SECKILL_DRAIN_TIMEOUT_MS=0", "SECKILL_DRAIN_TIMEOUT_MS=100"};
    struct service *service = service_start(ENV(drain[_i % 2], "SECKILL_REACTORS=2"));
    char voucher[VOUCHER_ID_SIZE];
    int fds[CLIENTS];
    voucher_on_sale(service, STOCK, voucher);
    for (size_t i = 0; i < CLIENTS; i++)
        fds[i] = keep_alive(service);
    service_signal(service, SIGTERM);
    for (size_t i = 0; i < CLIENTS; i++) {
        send_route(fds[i], i % COUNT(routes), voucher, _i * CLIENTS + (int)i);
        (void)usleep(SEND_PAUSE_US);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        must_be_whole(fds[i], i);
        (void)close(fds[i]);
    }
    must_have_ended_well(service);
    (void)service_start(ENV(HASTY)); // settles what the ended instance left
    books_must_balance(voucher);
}

// While work is pending, every route is served or rejected because of the shutdown, and every answer is the last one of
// its connection.
TEST(every_route_while_draining)
{
    struct service *service = service_start(ENV("SECKILL_CONFIRM_TIMEOUT_MS=20000"));
    char voucher[VOUCHER_ID_SIZE], value[HTTP_FIELD_SIZE];
    struct http_reply reply;
    int fds[COUNT(routes)];
    voucher_on_sale(service, STOCK, voucher);
    int waiting = keep_alive(service);
    for (size_t i = 0; i < COUNT(routes); i++)
        fds[i] = keep_alive(service);
    db_hold_orders();
    send_route(waiting, 0, voucher, 0);
    WAIT_FOR(db_orders_held_ms() > 0);
    service_signal(service, SIGTERM);
    int fd;
    WAIT_FOR((fd = http_connect(service)) < 0 || close(fd) != 0);
    for (size_t i = 0; i < COUNT(routes); i++)
        send_route(fds[i], i, voucher, (int)i + 1);
    db_let_orders_go();
    for (size_t i = 0; i < COUNT(routes); i++) {
        ck_assert_msg(http_receive(fds[i], &reply), "route %zu", i);
        ck_assert_msg(http_header(&reply, "Connection", value) && strcmp(value, "close") == 0, "route %zu: %s", i,
                      reply.text);
        if (i < 2)
            http_must_be_problem(&reply, 503, "SHUTTING_DOWN");
        ck_assert(http_closed(fds[i]));
        (void)close(fds[i]);
    }
    http_end_buying(waiting, 201);
    must_have_ended_well(service);
    (void)service_start(ENV(HASTY));
    books_must_balance(voucher);
}

// Data that a slow reader has not read yet is sent completely before the process ends.
TEST(answers_are_sent_to_their_end)
{
    struct service *service = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE], byte;
    voucher_on_sale(service, STOCK, voucher);
    db_run("UPDATE seckill_voucher SET title = repeat('x', 10000000) WHERE id = %s", voucher); // no socket takes it
    int fd = http_connect(service), other;
    send_route(fd, 5, voucher, 0);
    ck_assert_int_eq(recv(fd, &byte, 1, MSG_PEEK), 1);
    db_run("UPDATE seckill_voucher SET title = 'x' WHERE id = %s", voucher);
    service_signal(service, SIGTERM);
    WAIT_FOR((other = http_connect(service)) < 0 || close(other) != 0);
    (void)usleep(200000); // time in which it could end
    must_be_whole(fd, 0);
    (void)close(fd);
    must_have_ended_well(service);
}

// ---- a resolver that does not answer ----

TEST_EACH(resolver_hangs_at_the_end, 3)
{
    static const char *const urls[] = {"SECKILL_REDIS_URL=redis://hangs.test:6379",
                                       "SECKILL_DATABASE_URL=postgresql://nobody@hangs.test/none",
                                       "SECKILL_DATABASE_URL=postgresql://nobody@hangs.test,127.0.0.1:1/none"};
    struct service *service = service_launch(ENV("LD_PRELOAD=" HANGING_RESOLVER, service_preload_options(), urls[_i],
                                                 "SECKILL_DRAIN_TIMEOUT_MS=100", "SECKILL_REACTORS=2"));
    service_log_must_have(service, 1, "msg=\"serving\"");
    service_log_must_have(service, 2, "the resolver hangs");
    service_signal(service, SIGTERM);
    must_have_ended_well(service);
    service_log_must_have(service, 1, "the resolver does not answer");
}

TEST(resolver_hangs_at_a_start_that_fails)
{
    static char out[LOG_SIZE];
    ck_assert_int_eq(
        service_run(ENV("--log-level=info"),
                    ENV("LD_PRELOAD=" HANGING_RESOLVER, service_preload_options(), "SECKILL_LISTEN=192.0.2.1:1",
                        "SECKILL_GATEWAY_TRUSTED=yes", "SECKILL_REDIS_URL=redis://hangs.test:6379",
                        "SECKILL_DATABASE_URL=postgresql://nobody@127.0.0.1:1/none"),
                    out, sizeof out),
        1);
    ck_assert_ptr_nonnull(strstr(out, "cannot listen"));
}

// ---- file descriptors ----

static bool links_are_back(struct service *service, int *client)
{
    (void)close(*client); // a waiting client takes its place
    *client = http_connect(service);
    return service_log_count(service, "Redis is ready") >= 2 && service_log_count(service, "PostgreSQL is ready") >= 2;
}

// Clients hold every allowed connection, and more are waiting. When the links to both stores break, they still
// reconnect.
TEST(clients_do_not_keep_the_stores_away)
{
    service_limit_descriptors(64, 0); // the soft limit, set too low
    struct service *service = service_start(ENV("SECKILL_MAX_CONNECTIONS=100", "SECKILL_IDLE_TIMEOUT_MS=60000"));
    char voucher[VOUCHER_ID_SIZE];
    struct http_reply reply;
    int fds[FLOOD], next = 0;
    voucher_on_sale(service, STOCK, voucher);
    for (int i = 0; i < FLOOD; i++)
        fds[i] = http_connect(service);
    redis_run("CLIENT KILL TYPE normal");
    db_run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'seckill'");
    WAIT_FOR(links_are_back(service, &fds[next++ % FLOOD]));
    for (int i = 0; i < FLOOD; i++)
        (void)close(fds[i]);
    service_await(service, true);
    ck_assert_int_eq(http_buy_patiently(service, voucher, "alice", &reply), 201);
    books_must_balance(voucher);
}

SUITE(.begin = setup, .teardown = service_stop_all, .in_one_process = true);
