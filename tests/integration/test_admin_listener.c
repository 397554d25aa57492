// A separate listener for operators: which routes each listener serves, which credentials count, and that operators are
// served while clients hold every connection of the public listener.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "books.h"
#include "http.h"
#include "proc.h"
#include "sales.h"
#include "stack.h"
#include "test.h"
#include "wait.h"

enum { STOCK = 100, CONNECTIONS = 20, PATH_SIZE = 512, HEADERS_SIZE = 256 };

static struct service *buyers;
static const struct service *operators;
static char voucher[VOUCHER_ID_SIZE], token[HEADERS_SIZE];
static struct http_reply reply;

static void setup(void)
{
    stack_start(STACK_ALL);
    (void)snprintf(token, sizeof token, "Authorization: Bearer %s\r\n", stack_admin_token);
}

static int ask(const struct service *at, const char *method, const char *path, const char *headers)
{
    return http_ask(at, method, path, headers, NULL, &reply);
}

static void start(const char *const *env)
{
    buyers = service_start_apart(env, &operators);
    voucher_on_sale(operators, STOCK, voucher);
}

TEST(each_listener_serves_its_own)
{
    static const char *const pages[] = {"/admin/ui"};
    char of_voucher[3][PATH_SIZE];
    start(NULL);
    (void)snprintf(of_voucher[0], PATH_SIZE, "/vouchers/%s", voucher);
    (void)snprintf(of_voucher[1], PATH_SIZE, "/admin/vouchers/%s", voucher);
    (void)snprintf(of_voucher[2], PATH_SIZE, "/admin/orders?voucher=%s", voucher);
    const char *const ours[] = {"/vouchers", of_voucher[0], "/orders", "/openapi.json", "/"};
    const char *const theirs[] = {"/admin/vouchers", of_voucher[1],      of_voucher[2],
                                  "/admin/events",   "/admin/instances", "/admin/troubles",
                                  "/admin/webhooks", "/admin/me",        "/metrics"};
    for (size_t i = 0; i < sizeof theirs / sizeof theirs[0]; i++) {
        ck_assert_msg(ask(operators, "GET", theirs[i], token) == 200, "%s: %d", theirs[i], reply.status);
        ck_assert_int_eq(ask(operators, "GET", theirs[i], ""), 401);
        ck_assert_int_eq(ask(buyers, "GET", theirs[i], token), 404);
        ck_assert_int_eq(ask(buyers, "POST", theirs[i], ""), 404); // reveals nothing about what exists
    }
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        ck_assert_int_eq(ask(operators, "GET", pages[i], ""), 200);
        ck_assert_int_eq(ask(buyers, "GET", pages[i], ""), 404);
    }
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        ck_assert_msg(ask(buyers, "GET", ours[i], "X-User-Id: alice\r\n") == 200, "%s: %d", ours[i], reply.status);
        ck_assert_int_eq(ask(operators, "GET", ours[i], "X-User-Id: alice\r\n"), 404);
    }
    static const char *const both[] = {"/healthz", "/readyz", "/web/shop.css"};
    for (size_t i = 0; i < sizeof both / sizeof both[0]; i++) {
        ck_assert_int_eq(ask(buyers, "GET", both[i], ""), 200);
        ck_assert_int_eq(ask(operators, "GET", both[i], ""), 200);
    }
}

TEST(operators_are_no_users)
{
    char path[PATH_SIZE], headers[2 * HEADERS_SIZE], id[HTTP_FIELD_SIZE];
    start(ENV("SECKILL_PAYMENT_SECRET=a-secret-of-payments"));
    ck_assert_int_eq(http_buy_patiently(buyers, voucher, "alice", &reply), 201);
    ck_assert(http_member(&reply, "id", id));
    ck_assert_int_eq(http_buy(operators, voucher, "bob", &reply), 404);
    (void)snprintf(path, sizeof path, "/orders/%s", id);
    ck_assert_int_eq(http_get(operators, path, "alice", &reply), 401); // X-User-Id does not count there
    (void)snprintf(headers, sizeof headers, "%sX-User-Id: bob\r\n", token);
    ck_assert_int_eq(ask(operators, "GET", path, headers), 200); // a token sees every order
    ck_assert_int_eq(http_get(buyers, path, "alice", &reply), 200);
    ck_assert_int_eq(http_get(buyers, path, "bob", &reply), 404);
    (void)snprintf(path, sizeof path, "/orders/%s/cancel", id);
    ck_assert_int_eq(ask(operators, "POST", path, "X-User-Id: alice\r\n"), 404);
    (void)snprintf(path, sizeof path, "/orders/%s/pay", id);
    ck_assert_int_eq(ask(operators, "POST", path, token), 404);
    (void)snprintf(path, sizeof path, "/orders/%s/refund", id);
    ck_assert_int_eq(ask(operators, "POST", path, ""), 401); // it is an operator's call
    books_must_balance(voucher);
}

// The alerts compare what is in use with these.
TEST(limits_on_the_metrics_page_are_those_of_buyers)
{
    start(ENV("SECKILL_MAX_CONNECTIONS=20", "SECKILL_ORDERS_MAX=2000"));
    ck_assert_double_eq(http_sample(operators, "seckill_reactors"), 2);
    ck_assert_double_eq(http_sample(operators, "seckill_connections_max"), CONNECTIONS);
    ck_assert_double_eq(http_sample(operators, "seckill_orders_max"), 2000);
}

// No client connection is left, and none ends by itself.
TEST(operators_are_served_while_no_connection_is_left)
{
    int fds[CONNECTIONS];
    char id[HTTP_FIELD_SIZE];
    start(ENV("SECKILL_MAX_CONNECTIONS=20", "SECKILL_IDLE_TIMEOUT_MS=600000"));
    for (int i = 0; i < CONNECTIONS; i++) {
        fds[i] = http_connect(buyers);
        ck_assert(http_send_text(fds[i], "GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n"));
        ck_assert(http_receive(fds[i], &reply) && reply.status == 200);
    }
    ck_assert_int_eq(ask(operators, "GET", "/healthz", ""), 200);
    ck_assert_int_eq(ask(operators, "GET", "/readyz", ""), 200);
    ck_assert_double_ge(http_sample(operators, "seckill_connections_full_total"), 1);
    ck_assert_int_eq(sales_admin(operators, "POST", voucher, "/pause", &reply), 200);
    ck_assert(http_member(&reply, "state", id));
    ck_assert_str_eq(id, "paused");
    ck_assert_int_eq(sales_admin(operators, "POST", voucher, "/resume", &reply), 200);
    for (int i = 0; i < CONNECTIONS; i++)
        (void)close(fds[i]);
    http_must_buy(buyers, voucher, "alice");
    books_must_balance(voucher);
}

// Clients that wait there have a token, and the listener's own share of its connections: no share of an address.
TEST(operators_wait_without_a_share_of_their_address)
{
    enum { WAITING = 3 };
    int fds[WAITING];
    char id[HTTP_FIELD_SIZE], request[PATH_SIZE];
    start(ENV("SECKILL_LONG_PER_ADDRESS=1", "SECKILL_TRUSTED_PROXIES=192.0.2.1"));
    ck_assert_int_eq(http_buy_patiently(buyers, voucher, "alice", &reply), 201);
    ck_assert(http_member(&reply, "id", id));
    (void)snprintf(request, sizeof request, "GET /orders/%s?wait=60 HTTP/1.1\r\nHost: test\r\n%s\r\n", id, token);
    for (int i = 0; i < WAITING; i++) {
        fds[i] = http_connect(operators);
        ck_assert(http_send_text(fds[i], request));
        WAIT_FOR((int)http_sample(operators, "seckill_long_requests") == i + 1);
    }
    for (int i = 0; i < WAITING; i++)
        (void)close(fds[i]);
}

// The operators' listener answers probes for the whole process, so an orchestrator can replace one that has a hanging
// loop.
TEST(probes_find_a_loop_that_hangs)
{
    char file[PROC_PATH_SIZE + 16], hanging[PATH_SIZE];
    (void)snprintf(file, sizeof file, "%s/hang", proc_scratch());
    (void)snprintf(hanging, sizeof hanging, "HANGING_LOOP=%s", file);
    start(ENV(hanging, "LD_PRELOAD=" HANGING_LOOP_LIBRARY, service_preload_options()));
    ck_assert_int_eq(ask(operators, "GET", "/healthz", ""), 200);
    int fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    (void)close(fd);
    WAIT_FOR(ask(operators, "GET", "/healthz", "") == 503);
    ck_assert_int_eq(ask(operators, "GET", "/readyz", ""), 503);
    ck_assert_double_ge(http_sample(operators, "seckill_loop_age_seconds"), 10);
    ck_assert_int_eq(unlink(file), 0);
    WAIT_FOR(ask(operators, "GET", "/readyz", "") == 200);
    ck_assert_int_eq(ask(operators, "GET", "/healthz", ""), 200);
}

TEST(the_two_must_differ)
{
    static const char *const no_words[] = {NULL};
    static const char *const same[] = {"SECKILL_ADMIN_LISTEN=127.0.0.1:1", "SECKILL_ADMIN_LISTEN=localhost:1"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        char out[4096];
        int code =
            service_run(no_words, ENV("SECKILL_DATABASE_URL=postgresql://none", "SECKILL_LISTEN=127.0.0.1:1", same[i]),
                        out, sizeof out);
        ck_assert_int_eq(code, 2);
        ck_assert_msg(strstr(out, "SECKILL_ADMIN_LISTEN is that of SECKILL_LISTEN") != NULL, "%s: %s", same[i], out);
    }
}

SUITE(.timeout_s = 120, .setup = setup);
