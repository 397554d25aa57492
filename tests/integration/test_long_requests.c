// Event streams and long polls may use only a share of the connections, with a limit for each user and each address.
// However many a client opens, buyers, probes and operators are served.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "books.h"
#include "http.h"
#include "sales.h"
#include "stack.h"
#include "test.h"
#include "wait.h"

enum { STOCK = 1000, MANY = 40, OFTEN = 2000, REQUEST_SIZE = 512 };

static char voucher[VOUCHER_ID_SIZE];
static struct http_reply reply;

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void buy(const struct service *service, const char *user, char id[ORDER_ID_SIZE])
{
    char value[HTTP_FIELD_SIZE];
    ck_assert_int_eq(http_buy_patiently(service, voucher, user, &reply), 201);
    ck_assert(http_member(&reply, "id", value) && strlen(value) < ORDER_ID_SIZE);
    memcpy(id, value, strlen(value) + 1);
}

// ---- one client ----

static int ask(const struct service *service, const char *path, const char *headers)
{
    char request[REQUEST_SIZE];
    int fd = http_connect(service);
    (void)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: test\r\n%s\r\n", path, headers);
    ck_assert(http_send_text(fd, request));
    return fd;
}

static bool is_refused(int fd)
{
    char value[HTTP_FIELD_SIZE];
    ck_assert(http_receive(fd, &reply));
    http_must_be_problem(&reply, 503, "OVERLOADED");
    ck_assert(http_header(&reply, "Retry-After", value));
    ck_assert(http_header(&reply, "Connection", value));
    ck_assert_str_eq(value, "close");
    return http_closed(fd);
}

// By this limit, which the answer names. NULL: by another one.
static void must_be_refused(const struct service *service, const char *path, const char *headers, const char *limit)
{
    char value[HTTP_FIELD_SIZE];
    int fd = ask(service, path, headers);
    ck_assert(is_refused(fd));
    ck_assert_pstr_eq(http_member(&reply, "limit", value) ? value : NULL, limit);
    ck_assert(http_member(&reply, "title", value));
    ck_assert_str_eq(value, "Too many requests are waiting");
    (void)close(fd);
}

// Opens a stream, or a long poll, which must not be refused.
static int open_long(const struct service *service, const char *path, const char *headers)
{
    int before = (int)http_sample(service, "seckill_long_requests");
    int fd = ask(service, path, headers);
    WAIT_FOR((int)http_sample(service, "seckill_long_requests") == before + 1);
    return fd;
}

static void close_long(const struct service *service, int *fds, int count)
{
    int before = (int)http_sample(service, "seckill_long_requests");
    for (int i = 0; i < count; i++)
        (void)close(fds[i]);
    WAIT_FOR((int)http_sample(service, "seckill_long_requests") == before - count);
}

static void the_rest_is_served(const struct service *service)
{
    static int buyers;
    char user[32], path[64];
    (void)snprintf(user, sizeof user, "buyer-%d", buyers++);
    (void)snprintf(path, sizeof path, "/vouchers/%s", voucher);
    http_must_buy(service, voucher, user);
    ck_assert_int_eq(http_get(service, "/readyz", NULL, &reply), 200);
    ck_assert_int_eq(http_get(service, path, NULL, &reply), 200);
}

static void put_path(char path[64], const char *format)
{
    (void)snprintf(path, 64, format, voucher);
}

// ---- the share ----

TEST(they_have_a_share_of_the_connections)
{
    enum { CONNECTIONS = 40, SHARE = 20 };
    struct service *service =
        service_start(ENV("SECKILL_REACTORS=1", "SECKILL_MAX_CONNECTIONS=40", "SECKILL_LONG_PER_USER=0"));
    char events[64], of_several[64], order[ORDER_ID_SIZE], poll[96];
    int fds[SHARE];
    voucher_on_sale(service, STOCK, voucher);
    put_path(events, "/vouchers/%s/events");
    put_path(of_several, "/vouchers/events?ids=%s");
    buy(service, "alice", order);
    (void)snprintf(poll, sizeof poll, "/orders/%s?wait=60", order);
    const char *const paths[] = {events, of_several, poll};
    for (int i = 0; i < SHARE; i++) // all kinds share it
        fds[i] = open_long(service, paths[i % 3], "X-User-Id: alice\r\n");
    for (int i = 0; i < 2 * MANY; i++)
        must_be_refused(service, paths[i % 3], "X-User-Id: alice\r\n", "SECKILL_LONG_SHARE");
    ck_assert_double_eq(http_sample(service, "seckill_long_requests"), SHARE);
    ck_assert_double_eq(http_sample(service, "seckill_long_requests_max"), SHARE);
    ck_assert_double_eq(http_sample(service, "seckill_long_requests_refused_total{reason=\"share\"}"), 2 * MANY);
    the_rest_is_served(service);
    // Without ?wait= the order is still shown.
    (void)snprintf(poll, sizeof poll, "/orders/%s", order);
    ck_assert_int_eq(http_get(service, poll, "alice", &reply), 200);
    close_long(service, fds, 1);
    fds[0] = open_long(service, events, "");
    must_be_refused(service, events, "", "SECKILL_LONG_SHARE");
    close_long(service, fds, SHARE);
    books_must_balance(voucher);
}

// However a long request ends, it frees its place.
TEST(places_are_given_back)
{
    struct service *service = service_start(ENV("SECKILL_REACTORS=1", "SECKILL_MAX_CONNECTIONS=40"));
    char events[64], order[ORDER_ID_SIZE], poll[96];
    voucher_on_sale(service, STOCK, voucher);
    buy(service, "alice", order);
    put_path(events, "/vouchers/%s/events");
    (void)snprintf(poll, sizeof poll, "/orders/%s?wait=1&while=pending", order);
    for (int i = 0; i < OFTEN; i++) {
        int fd = -1;
        if (i % 4 == 0)
            fd = ask(service, events, "X-User-Id: alice\r\n"); // hangs up, perhaps before it is answered
        else if (i % 4 == 1)
            fd = ask(service, poll, "X-User-Id: alice\r\n"); // is answered at once: it is not pending
        else if (i % 4 == 2)
            fd = ask(service, "/vouchers/999999999/events", "X-User-Id: alice\r\n"); // there is no such voucher
        else
            fd = ask(service, "/orders/x?wait=1", "X-User-Id: alice\r\n");
        if (i % 4 == 1)
            ck_assert(http_receive(fd, &reply) && (reply.status == 200 || reply.status == 503));
        (void)close(fd);
    }
    WAIT_FOR((int)http_sample(service, "seckill_long_requests") == 0);
    int fds[8];
    for (int i = 0; i < 8; i++)
        fds[i] = open_long(service, events, "X-User-Id: alice\r\n");
    must_be_refused(service, events, "X-User-Id: alice\r\n", "SECKILL_LONG_PER_USER");
    close_long(service, fds, 8);
    // A long poll that runs into its time limit.
    (void)snprintf(poll, sizeof poll, "/orders/%s?wait=1", order);
    ck_assert_int_eq(http_get(service, poll, "alice", &reply), 200);
    WAIT_FOR((int)http_sample(service, "seckill_long_requests") == 0);
}

// ---- users and addresses ----

TEST(a_user_has_so_many)
{
    enum { OF_USER = 8 };
    struct service *service = service_start(ENV("SECKILL_REACTORS=2"));
    char events[64], of_several[64];
    int alice[OF_USER], bob[1];
    voucher_on_sale(service, STOCK, voucher);
    put_path(events, "/vouchers/%s/events");
    put_path(of_several, "/vouchers/events?ids=%s");
    for (int i = 0; i < OF_USER; i++)
        alice[i] = open_long(service, i % 2 == 0 ? events : of_several, "X-User-Id: alice\r\n");
    for (int i = 0; i < MANY; i++) // at either reactor
        must_be_refused(service, i % 2 == 0 ? events : of_several, "X-User-Id: alice\r\n", "SECKILL_LONG_PER_USER");
    ck_assert_double_eq(http_sample(service, "seckill_long_requests_refused_total{reason=\"user\"}"), MANY);
    bob[0] = open_long(service, of_several, "X-User-Id: bob\r\n");
    close_long(service, bob, 1);
    close_long(service, alice, 1);
    alice[0] = open_long(service, events, "X-User-Id: alice\r\n");
    close_long(service, alice, OF_USER);
}

TEST(an_address_has_so_many_where_it_is_known)
{
    enum { OF_ADDRESS = 32, MORE = 40 };
    static const char one[] = "X-Forwarded-For: 192.0.2.1\r\n", other[] = "X-Forwarded-For: 192.0.2.2\r\n";
    char events[64];
    int fds[MORE];
    for (int known = 0; known < 2; known++) {
        struct service *service = service_start(known ? ENV("SECKILL_REACTORS=1", "SECKILL_TRUSTED_PROXIES=127.0.0.1")
                                                      : ENV("SECKILL_REACTORS=1"));
        voucher_on_sale(service, STOCK, voucher);
        put_path(events, "/vouchers/%s/events");
        int most = known ? OF_ADDRESS : MORE;
        for (int i = 0; i < most; i++)
            fds[i] = open_long(service, events, one);
        if (known) {
            must_be_refused(service, events, one, "SECKILL_LONG_PER_ADDRESS");
            ck_assert_double_eq(http_sample(service, "seckill_long_requests_refused_total{reason=\"address\"}"), 1);
            int fd = open_long(service, events, other);
            close_long(service, &fd, 1);
            fd = open_long(service, events, ""); // the gateway sends no client address
            close_long(service, &fd, 1);
        }
        close_long(service, fds, most);
        service_kill(service);
    }
}

// ---- nearly all connections are taken ----

TEST(the_last_tenth_is_for_buyers_operators_and_probes)
{
    enum { CONNECTIONS = 40, IDLE = 37 }; // and the one that asks
    struct service *service = service_start(ENV("SECKILL_REACTORS=1", "SECKILL_MAX_CONNECTIONS=40"));
    char path[64];
    int fds[IDLE];
    voucher_on_sale(service, STOCK, voucher);
    put_path(path, "/vouchers/%s");
    for (int i = 0; i < IDLE; i++) {
        fds[i] = ask(service, "/healthz", "");
        ck_assert(http_receive(fds[i], &reply) && reply.status == 200);
    }
    const char *const others[] = {path, "/vouchers", "/orders", "/metrics", "/openapi.json", "/", "/nowhere"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        must_be_refused(service, others[i], "X-User-Id: alice\r\n", NULL);
    ck_assert_int_eq(http_get(service, "/healthz", NULL, &reply), 200);
    ck_assert_int_eq(http_get(service, "/readyz", NULL, &reply), 200);
    ck_assert_int_eq(sales_admin(service, "POST", voucher, "/pause", &reply), 200);
    ck_assert_int_eq(sales_admin(service, "POST", voucher, "/resume", &reply), 200);
    http_must_buy(service, voucher, "alice");
    // An existing connection is closed at its next such request, which makes room.
    char text[REQUEST_SIZE];
    (void)snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: test\r\n\r\n", path);
    ck_assert(http_send_text(fds[0], text));
    ck_assert(is_refused(fds[0]));
    // The client may see the close before the service has counted it; after one more answer it is counted.
    ck_assert(http_send_text(fds[1], "GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n"));
    ck_assert(http_receive(fds[1], &reply) && reply.status == 200);
    ck_assert(http_send_text(fds[1], text));
    ck_assert_msg(http_receive(fds[1], &reply) && reply.status == 200, "%s", reply.text);
    for (int i = 0; i < IDLE; i++)
        (void)close(fds[i]);
    WAIT_FOR(http_sample(service, "seckill_crowded_requests_total") >= 8);
    books_must_balance(voucher);
}

SUITE(.timeout_s = 200, .setup = setup);
