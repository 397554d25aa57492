// Clients that exceed limits: each limit on a running instance, also with several reactors, its answer, and who gets
// it. Loopback has many addresses, so a client may use any 127.x.y.z.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "books.h"
#include "buf.h"
#include "clock.h"
#include "http.h"
#include "sales.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

#define HOST "Host: test\r\n"

enum { REQUEST_SIZE = 1024, CROWD = 70000, PIPELINED = 50 };

static struct http_reply reply;

static void setup(void)
{
    stack_start(STACK_ALL);
}

static int connect_from(const struct service *service, const char *address)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)service_port(service))};
    struct timeval limit = {.tv_sec = WAIT_DEADLINE_MS / 1000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(inet_pton(AF_INET, address, &from.sin_addr), 1);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

// Sends one request from this address with these header lines; returns the status.
static int ask_from(const struct service *service, const char *address, const char *line, const char *headers)
{
    char request[REQUEST_SIZE];
    int fd = connect_from(service, address);
    (void)snprintf(request, sizeof request, "%s HTTP/1.1\r\n" HOST "%s\r\n", line, headers);
    ck_assert(http_send_text(fd, request));
    (void)http_receive(fd, &reply);
    (void)close(fd);
    return reply.status;
}

static void field_must_be(const char *name, const char *expected)
{
    char value[HTTP_FIELD_SIZE];
    (void)http_header(&reply, name, value);
    ck_assert_msg(strcmp(value, expected) == 0, "%s is '%s', not '%s'", name, value, expected);
}

// Returns how many of `tries` are rejected. As many must pass as the rate allows in the time that they took.
static int pass(const struct service *service, const char *line, const char *headers, int tries, int rate)
{
    uint64_t began_ms = sk_monotonic_ms();
    int passed = 0, refused = 0;
    for (int i = 0; i < tries; i++) {
        if (ask_from(service, "127.0.0.1", line, headers) == 429)
            refused++;
        else
            passed++;
    }
    uint64_t took_ms = sk_monotonic_ms() - began_ms;
    ck_assert_int_ge(passed, rate);
    ck_assert_int_le(passed, rate + (int)((took_ms * (uint64_t)rate + 999) / 1000));
    ck_assert_int_eq(passed + refused, tries);
    return refused;
}

// ---- rates ----

// Each request uses a new connection, and so may reach any reactor.
TEST(a_user_has_one_rate_at_all_reactors)
{
    enum { RATE = 5 };
    struct service *service = service_start(ENV("SECKILL_REACTORS=4", "SECKILL_USER_RATE=5"));
    char voucher[VOUCHER_ID_SIZE], line[REQUEST_SIZE];
    voucher_on_sale(service, 1, voucher);
    (void)snprintf(line, sizeof line, "POST /seckill/%s", voucher);
    WAIT_FOR(pass(service, line, "X-User-Id: alice\r\n", 40, RATE) > 0);
    WAIT_FOR(ask_from(service, "127.0.0.1", line, "X-User-Id: alice\r\n") == 429);
    http_must_be_problem(&reply, 429, "RATE_LIMITED");
    ck_assert(strstr(reply.body, "\"violated-policies\":[\"user\"]") != NULL);
    field_must_be("Retry-After", "1");
    field_must_be("RateLimit-Policy", "\"user\";q=5;w=1");
    field_must_be("RateLimit", "\"user\";r=0;t=1");
    (void)ask_from(service, "127.0.0.1", line, "X-User-Id: bob\r\n"); // other users are not limited
    http_must_be_problem(&reply, 409, "SOLD_OUT");
    field_must_be("RateLimit", "\"user\";r=4;t=1");
    ck_assert_int_eq(ask_from(service, "127.0.0.1", "GET /orders", "X-User-Id: alice\r\n"), 200);
    field_must_be("RateLimit", "");
    books_must_balance(voucher);
}

// Cancellations count against the same rate, so that buying and cancelling cannot be repeated without end.
TEST(cancellations_are_tries_of_the_user)
{
    enum { RATE = 5 };
    static const char line[] = "POST /orders/01a1ff71-fdd4-746e-a972-2a140b584401/cancel";
    struct service *service = service_start(ENV("SECKILL_USER_RATE=5"));
    WAIT_FOR(pass(service, line, "X-User-Id: alice\r\n", 40, RATE) > 0);
    WAIT_FOR(ask_from(service, "127.0.0.1", line, "X-User-Id: alice\r\n") == 429);
    http_must_be_problem(&reply, 429, "RATE_LIMITED");
    field_must_be("RateLimit", "\"user\";r=0;t=1");
    WAIT_FOR(ask_from(service, "127.0.0.1", line, "X-User-Id: alice\r\n") == 429 &&
             ask_from(service, "127.0.0.1", "POST /seckill/1", "X-User-Id: alice\r\n") == 429);
    ck_assert_int_ne(ask_from(service, "127.0.0.1", line, "X-User-Id: bob\r\n"), 429);
    field_must_be("RateLimit", "\"user\";r=4;t=1");
}

TEST(an_address_has_one_rate)
{
    enum { RATE = 5 };
    struct service *service = service_start(ENV("SECKILL_REACTORS=2", "SECKILL_ADDRESS_RATE=5"));
    WAIT_FOR(pass(service, "GET /vouchers", "", 40, RATE) > 0);
    WAIT_FOR(ask_from(service, "127.0.0.1", "GET /nowhere", "") == 429);
    http_must_be_problem(&reply, 429, "RATE_LIMITED");
    field_must_be("RateLimit-Policy", "\"address\";q=5;w=1");
    field_must_be("RateLimit", "\"address\";r=0;t=1");
    // The client's X-Forwarded-For has no effect: no proxy is trusted.
    WAIT_FOR(ask_from(service, "127.0.0.1", "GET /vouchers", "X-Forwarded-For: 192.0.2.1\r\n") == 429);
    WAIT_FOR(ask_from(service, "127.0.0.1", "GET /vouchers", "Forwarded: for=192.0.2.1\r\n") == 429);
    ck_assert_int_eq(ask_from(service, "127.0.0.2", "GET /vouchers", ""), 200);
    field_must_be("RateLimit", "");
    for (int i = 0; i < 3 * RATE; i++) { // probes and operators are not clients
        ck_assert_int_eq(ask_from(service, "127.0.0.1", "GET /readyz", ""), 200);
        ck_assert_int_eq(ask_from(service, "127.0.0.1", "GET /admin/vouchers", ""), 401);
    }
}

// The answer to a purchase reports the limit that is nearest to exhaustion.
TEST(purchases_are_told_what_is_left)
{
    struct service *service = service_start(ENV("SECKILL_ADDRESS_RATE=1000000", "SECKILL_USER_RATE=2"));
    char voucher[VOUCHER_ID_SIZE], line[REQUEST_SIZE];
    voucher_on_sale(service, 1, voucher);
    (void)snprintf(line, sizeof line, "POST /seckill/%s", voucher);
    WAIT_FOR(ask_from(service, "127.0.0.1", line, "X-User-Id: alice\r\n") != 503);
    ck_assert_int_eq(reply.status, 201);
    field_must_be("RateLimit-Policy", "\"user\";q=2;w=1, \"address\";q=1000000;w=1");
    ck_assert_ptr_nonnull(strstr(reply.text, "RateLimit: \"user\";r="));
    (void)ask_from(service, "127.0.0.1", line, "X-User-Id: bob\r\n");
    http_must_be_problem(&reply, 409, "SOLD_OUT");
    field_must_be("RateLimit", "\"user\";r=1;t=1");
    books_must_balance(voucher);
    service_stop_all();
    service = service_start(NULL); // limits that are off are not reported
    (void)ask_from(service, "127.0.0.1", line, "X-User-Id: bob\r\n");
    ck_assert_ptr_null(strstr(reply.text, "RateLimit"));
}

// ---- proxies ----

static int ask_through(const struct service *service, const char *proxy, const char *said)
{
    char headers[REQUEST_SIZE];
    (void)snprintf(headers, sizeof headers, "%s\r\n", said);
    return ask_from(service, proxy, "GET /vouchers", headers);
}

TEST(behind_proxies_the_client_counts)
{
    static const char *const same[] = {
        // all of them 192.0.2.1, behind 127.0.0.1
        "X-Forwarded-For: 192.0.2.1",
        "X-Forwarded-For: 203.0.113.9, 192.0.2.1",
        "X-Forwarded-For: 192.0.2.1:4711, 127.0.1.1",
        "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-For: 192.0.2.1",
        "X-Forwarded-For: \"\\, for=1.1.1.1\"=;, 192.0.2.1",
        "Forwarded: for=192.0.2.1;proto=https",
        "Forwarded: for=\", for=\"192.0.2.1:99\"",
        "Forwarded: for=192.0.2.1\r\nX-Forwarded-For: 192.0.2.1",
    };
    struct service *service =
        service_start(ENV("SECKILL_ADDRESS_RATE=1", "SECKILL_TRUSTED_PROXIES=127.0.0.1, 127.0.1.0/24"));
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        WAIT_FOR(ask_through(service, "127.0.0.1", "X-Forwarded-For: 192.0.2.1") == 200 &&
                 ask_through(service, "127.0.0.1", same[i]) == 429);
    ck_assert_int_eq(ask_through(service, "127.0.0.1", "X-Forwarded-For: 192.0.2.2"), 200);
    ck_assert_int_eq(ask_through(service, "127.0.0.1", "Forwarded: for=\"[2001:db8::1]\""), 200);
    WAIT_FOR(ask_through(service, "127.0.0.1", "Forwarded: for=\"[2001:db8::2]:80\"") == 429);
    // An untrusted address counts as itself, whatever it sends.
    WAIT_FOR(ask_through(service, "127.0.0.2", "X-Forwarded-For: 192.0.2.77") == 429);
    WAIT_FOR(ask_through(service, "127.0.0.2", "Forwarded: for=192.0.2.78") == 429);
    ck_assert_int_eq(ask_through(service, "127.0.0.1", "X-Forwarded-For: 192.0.2.77"), 200);
}

// If the two fields disagree, or name no address, the request counts for the proxy.
TEST(what_cannot_be_believed_counts_for_the_proxy)
{
    static const char *const same[] = {
        "Forwarded: for=192.0.2.5\r\nX-Forwarded-For: 192.0.2.6",
        "X-Forwarded-For: unknown",
        "Forwarded: for=_hidden",
        "X-Forwarded-For: ,",
        "X-Nothing: x",
    };
    struct service *service = service_start(ENV("SECKILL_ADDRESS_RATE=1", "SECKILL_TRUSTED_PROXIES=127.0.0.1"));
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        WAIT_FOR(ask_through(service, "127.0.0.1", same[i]) == 200 &&
                 ask_through(service, "127.0.0.1", same[(i + 1) % (sizeof same / sizeof same[0])]) == 429);
}

// More addresses than the table can hold: none is rejected for that.
TEST(a_crowd_of_addresses_is_not_refused)
{
    struct service *service = service_start(ENV("SECKILL_ADDRESS_RATE=1", "SECKILL_TRUSTED_PROXIES=127.0.0.0/8"));
    int fd = http_connect(service), crowd = sales_full() ? 4 * CROWD : CROWD;
    struct sk_buf all = {0};
    for (int i = 0; i < crowd; i += PIPELINED) {
        sk_buf_clear(&all);
        for (int n = i; n < i + PIPELINED; n++)
            sk_buf_printf(&all, "GET /nowhere HTTP/1.1\r\n" HOST "X-Forwarded-For: 10.%d.%d.%d\r\n\r\n", n >> 16,
                          n >> 8 & 255, n & 255);
        ck_assert(http_send(fd, all.data, all.len));
        for (int n = 0; n < PIPELINED; n++) {
            ck_assert(http_receive(fd, &reply));
            ck_assert_int_eq(reply.status, 404);
        }
    }
    sk_buf_free(&all);
    (void)close(fd);
}

// ---- connections ----

static bool answers(int fd)
{
    return http_send_text(fd, "GET /healthz HTTP/1.1\r\n" HOST "\r\n") && http_receive(fd, &reply) &&
           reply.status == 200;
}

// Closed at once. The end may be a reset, since the service has not read what was sent.
static bool is_turned_away(const struct service *service, const char *address)
{
    int fd = connect_from(service, address);
    char byte;
    (void)http_send_text(fd, "GET /healthz HTTP/1.1\r\n" HOST "\r\n");
    ssize_t n = recv(fd, &byte, 1, 0);
    ck_assert_msg(n >= 0 || errno == ECONNRESET, "no end before the deadline");
    (void)close(fd);
    return n <= 0;
}

// Retries until a connection is accepted: the service forgets closed ones after a moment.
static int connect_patiently(const struct service *service, const char *address)
{
    int fd;
    WAIT_FOR((fd = connect_from(service, address), answers(fd)) || (close(fd), false));
    return fd;
}

TEST(an_address_has_so_many_connections)
{
    enum { MOST = 3, ROUNDS = 3, GATEWAYS = 12 };
    struct service *service = service_start(
        ENV("SECKILL_REACTORS=3", "SECKILL_ADDRESS_CONNECTIONS=3", "SECKILL_TRUSTED_PROXIES=127.0.9.0/24"));
    int fds[MOST], gateway[GATEWAYS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < MOST; i++)
            fds[i] = connect_patiently(service, "127.0.0.2");
        for (int i = 0; i < 10; i++)
            ck_assert(is_turned_away(service, "127.0.0.2"));
        ck_assert(!is_turned_away(service, "127.0.0.3"));
        for (int i = 0; i < MOST; i++) { // existing connections are not affected
            ck_assert(answers(fds[i]));
            (void)close(fds[i]);
        }
    }
    ck_assert(http_sample(service, "seckill_connections_refused_total") >= ROUNDS * 10);
    for (int i = 0; i < GATEWAYS; i++) // connections of proxies are not counted
        gateway[i] = connect_from(service, "127.0.9.1");
    for (int i = 0; i < GATEWAYS; i++) {
        ck_assert(answers(gateway[i]));
        (void)close(gateway[i]);
    }
}

// ---- all together ----

TEST(so_many_purchases_a_second)
{
    struct service *service = service_start(ENV("SECKILL_REACTORS=2", "SECKILL_PURCHASE_RATE=1"));
    char voucher[VOUCHER_ID_SIZE], user[32];
    int placed = 0, refused = 0;
    uint64_t began_ms = sk_monotonic_ms();
    voucher_on_sale(service, 1000, voucher);
    for (int i = 0; placed == 0 || refused < 20; i++) {
        ck_assert_uint_lt(sk_monotonic_ms() - began_ms, WAIT_DEADLINE_MS);
        (void)snprintf(user, sizeof user, "user-%d", i);
        (void)http_buy(service, voucher, user, &reply);
        if (reply.status == 503 && http_is_problem(&reply, 503, "OVERLOADED")) {
            field_must_be("Retry-After", "1");
            refused++;
        }
        placed += reply.status == 201;
    }
    ck_assert_uint_le((uint64_t)placed, 2 + (sk_monotonic_ms() - began_ms) / 1000);
    ck_assert_int_eq(http_get(service, "/vouchers", NULL, &reply), 200); // not a purchase
    books_must_balance(voucher);
}

TEST(so_many_purchases_under_way)
{
    STACK_SKIP_SHARDS("each shard may have only a part of them");
    struct service *service = service_start(ENV("SECKILL_PURCHASES_MAX=2"));
    char voucher[VOUCHER_ID_SIZE], user[16], id[ORDER_ID_SIZE];
    voucher_on_sale(service, 10, voucher);
    http_must_buy(service, voucher, "first");
    db_hold_orders();
    for (int i = 0; i < 2; i++) {
        (void)snprintf(user, sizeof user, "user-%d", i);
        sales_accept(service, voucher, user, id); // retries: the first request may still be in progress
    }
    (void)http_buy(service, voucher, "one-too-many", &reply);
    http_must_be_problem(&reply, 503, "OVERLOADED");
    field_must_be("Retry-After", "1");
    db_let_orders_go();
    WAIT_FOR(http_buy(service, voucher, "one-too-many", &reply) == 201);
    books_must_balance(voucher);
}

// ---- time ----

// Sends `requests` requests, `at_once` of them in one write, and returns how long all answers took.
static uint64_t ask_piped(int fd, int requests, int at_once)
{
    uint64_t began_ms = sk_monotonic_ms();
    struct sk_buf some = {0};
    for (int n = 0; n < at_once; n++)
        sk_buf_puts(&some, "GET /healthz HTTP/1.1\r\n" HOST "\r\n");
    for (int n = 0; n < requests; n += at_once) {
        ck_assert(http_send(fd, some.data, some.len));
        for (int i = 0; i < at_once; i++) {
            ck_assert(http_receive(fd, &reply));
            ck_assert_int_eq(reply.status, 200);
        }
    }
    sk_buf_free(&some);
    return sk_monotonic_ms() - began_ms;
}

// All but the first wait in the server's own buffer, where no socket event reports them.
TEST(a_long_pipeline_is_no_slower_than_one_by_one)
{
    enum { REQUESTS = 2000, MARGIN_MS = 200 };
    struct service *service = service_start(NULL);
    int fd = http_connect(service);
    uint64_t one_by_one_ms = ask_piped(fd, REQUESTS, 1), piped_ms = ask_piped(fd, REQUESTS, REQUESTS);
    ck_assert_msg(piped_ms <= one_by_one_ms + MARGIN_MS, "%d requests: %d ms, and %d ms in one piece", REQUESTS,
                  (int)one_by_one_ms, (int)piped_ms);
    (void)close(fd);
}

// The header has begun, so the idle time-out no longer applies, and further bytes extend no deadline.
TEST(a_header_ends_in_time_or_never)
{
    struct service *service = service_start(ENV("SECKILL_IDLE_TIMEOUT_MS=3600000", "SECKILL_REQUEST_TIMEOUT_MS=300"));
    int fd = http_connect(service), idle = http_connect(service);
    ck_assert(http_send_text(fd, "GET /healthz HTTP/1.1\r\nX-Slow: "));
    WAIT_FOR(!http_send_text(fd, "x"));
    (void)close(fd);
    ck_assert(answers(idle));
    fd = http_connect(service); // also in the second request of a connection
    ck_assert(answers(fd));
    ck_assert(http_send_text(fd, "GET /healthz HTTP/1.1\r\nX-Slow: "));
    WAIT_FOR(!http_send_text(fd, "x"));
    (void)close(fd);
    ck_assert(answers(idle));
    (void)close(idle);
}

// The bytes that the kernel queues for the client of this connection; -1: no such connection.
static long queued_for(const struct service *service, int fd)
{
    struct sockaddr_in mine = {0};
    socklen_t len = sizeof mine;
    char line[256];
    unsigned local = 0, remote = 0;
    unsigned long queue = 0;
    long found = -1;
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&mine, &len), 0);
    FILE *table = fopen("/proc/net/tcp", "re");
    ck_assert_ptr_nonnull(table);
    while (fgets(line, sizeof line, table) != NULL) {
        if (sscanf(line, "%*d: %*x:%x %*x:%x %*x %lx:", &local, &remote, &queue) == 3 &&
            (int)local == service_port(service) && remote == ntohs(mine.sin_port))
            found = (long)queue;
    }
    (void)fclose(table);
    return found;
}

// Sends while the other end reads; returns false if it reads nothing.
static bool is_read(int fd, const char *text)
{
    ssize_t first = send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT), n = first;
    while (n > 0)
        n = send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
    ck_assert_int_eq(errno, EAGAIN);
    return first > 0;
}

// The client only sends, and reads nothing. The service answers more only after some output is sent.
TEST(little_is_kept_for_a_client_that_does_not_read)
{
    enum { LEAST = 32768, MOST = 524288 }; // 3.9 MB without the listener's bound
    static const char request[] = "GET /vouchers HTTP/1.1\r\n" HOST "\r\n";
    struct service *service = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE];
    for (int i = 0; i < 50; i++)
        voucher_on_sale(service, 1, voucher);
    int fd = http_connect(service);
    // Until the service stops reading: it does not read on while it has output to send.
    WAIT_FOR(!is_read(fd, request) && queued_for(service, fd) > LEAST);
    ck_assert_int_lt(queued_for(service, fd), MOST);
    (void)close(fd);
}

// A client that did not read in time never gets the rest: neither the service nor the kernel keeps it.
TEST(a_reader_that_was_cut_gets_no_rest)
{
    struct service *service = service_start(ENV("SECKILL_REQUEST_TIMEOUT_MS=300"));
    char voucher[VOUCHER_ID_SIZE], bytes[4096];
    static const char request[] = "GET /vouchers HTTP/1.1\r\n" HOST "\r\n";
    int least = 1;
    ssize_t n = 1;
    for (int i = 0; i < 20; i++)
        voucher_on_sale(service, 1, voucher); // so that the answer is long
    int fd = http_connect(service);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
    WAIT_FOR((send(fd, request, sizeof request - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN));
    ck_assert(errno == ECONNRESET || errno == EPIPE);
    uint64_t left = 0;
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0)
        left += (uint64_t)n;
    ck_assert_uint_lt(left, 1 << 20);
    (void)close(fd);
    ck_assert_int_eq(http_get(service, "/healthz", NULL, &reply), 200);
}

SUITE(.timeout_s = 120, .begin = setup, .teardown = service_stop_all, .in_one_process = true);
