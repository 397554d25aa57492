// Long requests, while another instance changes what they wait for: GET /orders/{id}?wait= and GET
// /vouchers/{id}/events, and of several vouchers.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "books.h"
#include "http.h"
#include "sales.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { STOCK = 1000, MANY = 500, PATH_SIZE = 128, REQUEST_SIZE = 512, LONG_MS = 10000, PROMPT_MS = 300 };
enum { QUIET_MS = 700, STREAM_SIZE = 1 << 14 };

static struct service *here, *there;
static char voucher[VOUCHER_ID_SIZE];
static struct http_reply reply;

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void start(void)
{
    here = service_start(ENV("SECKILL_REACTORS=1"));
    there = service_start(ENV("SECKILL_REACTORS=1", "SECKILL_PG_TIMEOUT_MS=2000"));
    voucher_on_sale(here, STOCK, voucher);
}

static void buy(const char *user, char id[ORDER_ID_SIZE])
{
    char value[HTTP_FIELD_SIZE];
    ck_assert_int_eq(http_buy_patiently(here, voucher, user, &reply), 201);
    ck_assert(http_member(&reply, "id", value) && strlen(value) < ORDER_ID_SIZE);
    memcpy(id, value, strlen(value) + 1);
}

// Changes the status as the shop's payment side or an expiry would.
static void order_moves(const char *id, const char *status)
{
    db_run("WITH moved AS (UPDATE voucher_order SET status = '%s' WHERE id = '%s' RETURNING *)"
           " INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom)"
           " SELECT slot, voucher_id, id, status, 'test' FROM moved",
           status, id);
}

static int ask(const struct service *service, const char *id, const char *query, const char *user)
{
    char request[REQUEST_SIZE];
    int fd = http_connect(service);
    (void)snprintf(request, sizeof request, "GET /orders/%s%s HTTP/1.1\r\nHost: test\r\nX-User-Id: %s\r\n\r\n", id,
                   query, user);
    ck_assert(http_send_text(fd, request));
    return fd;
}

static void must_hear(int fd, const char *status)
{
    char heard[HTTP_FIELD_SIZE];
    ck_assert(http_receive(fd, &reply));
    ck_assert_int_eq(reply.status, 200);
    ck_assert(http_member(&reply, "status", heard));
    ck_assert_str_eq(heard, status);
}

static bool is_silent(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0;
}

// Whether any instance has queried for waiting requests in the last half second.
static bool waiting_is_asked(void)
{
    return db_number("SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                     " AND query ~ 'orders_(moved|changed)' AND query_start > clock_timestamp() - interval '0.5 s'") >
           0;
}

static void must_be_prompt(uint64_t since_ms)
{
    uint64_t ms = sk_monotonic_ms() - since_ms;
    sales_note("answered after the change", since_ms);
    ck_assert_uint_lt(ms, LONG_MS);
    if (sales_full())
        ck_assert_uint_lt(ms, PROMPT_MS);
}

// ---- an order's next change ----

TEST(a_pending_order_settles)
{
    char id[ORDER_ID_SIZE];
    start();
    db_hold_orders();
    sales_accept(here, voucher, "alice", id);
    int any = ask(there, id, "?wait=30", "alice"), pending = ask(there, id, "?wait=30&while=pending", "alice");
    int unpaid = ask(there, id, "?while=unpaid&wait=30", "alice");
    must_hear(unpaid, "pending"); // the client has not seen this status yet
    WAIT_FOR(waiting_is_asked());
    ck_assert(is_silent(any) && is_silent(pending));
    uint64_t since_ms = sk_monotonic_ms();
    db_let_orders_go();
    must_hear(any, "unpaid");
    must_hear(pending, "unpaid");
    must_be_prompt(since_ms);
    (void)close(any);
    (void)close(pending);
    (void)close(unpaid);
    books_must_balance(voucher);
}

// Also during an open transaction that is older than the move.
TEST(an_unpaid_order_moves)
{
    static const char *const moves[] = {"paid", "cancelled", "expired"};
    start();
    PGconn *old = db_connect();
    PQclear(PQexec(old, "BEGIN"));
    PQclear(PQexec(old, "SELECT pg_current_xact_id()"));
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        char id[ORDER_ID_SIZE];
        buy(moves[i], id);
        int settled = ask(there, id, "?wait=30&while=pending", moves[i]);
        must_hear(settled, "unpaid"); // at once
        int fds[] = {ask(here, id, "?wait=30", moves[i]), ask(there, id, "?wait=60", moves[i]),
                     ask(there, id, "?wait=30&while=unpaid", moves[i])};
        WAIT_FOR(waiting_is_asked());
        uint64_t since_ms = sk_monotonic_ms();
        order_moves(id, moves[i]);
        for (size_t k = 0; k < 3; k++)
            must_hear(fds[k], moves[i]);
        must_be_prompt(since_ms);
        (void)close(settled);
        settled = ask(there, id, "?wait=30", moves[i]); // final status: answered at once
        must_hear(settled, moves[i]);
        (void)close(settled);
        for (size_t k = 0; k < 3; k++)
            (void)close(fds[k]);
    }
    PQfinish(old);
}

TEST(nothing_changes)
{
    static const char *const bad[] = {"?wait=61",       "?wait=-1",
                                      "?wait=",         "?wait=1.5",
                                      "?wait=x",        "?wait=1&wait=1",
                                      "?while=unpaid",  "?wait=1&while=paid",
                                      "?wait=1&while=", "?wait=9999999999999999999999"};
    char id[ORDER_ID_SIZE];
    start();
    buy("alice", id);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int fd = ask(there, id, bad[i], "alice");
        ck_assert(http_receive(fd, &reply));
        http_must_be_problem(&reply, 422, "BAD_PARAMETER");
        (void)close(fd);
    }
    int zero = ask(there, id, "?wait=0", "alice"), foreign = ask(there, id, "?wait=30", "eve");
    must_hear(zero, "unpaid");
    ck_assert(http_receive(foreign, &reply));
    http_must_be_problem(&reply, 404, "NOT_FOUND");
    uint64_t since_ms = sk_monotonic_ms();
    int fd = ask(there, id, "?wait=1", "alice");
    must_hear(fd, "unpaid");
    ck_assert_uint_ge(sk_monotonic_ms() + 1, since_ms + 1000);
    (void)close(fd);
    (void)close(zero);
    (void)close(foreign);
}

// The queries continue as long as somebody waits, and no longer.
TEST(clients_hang_up)
{
    char id[ORDER_ID_SIZE];
    int fds[MANY / 10];
    start();
    buy("alice", id);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        fds[i] = ask(there, id, "?wait=60", "alice");
    WAIT_FOR(waiting_is_asked());
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        (void)close(fds[i]);
    WAIT_FOR(!waiting_is_asked());
    int fd = ask(there, id, "?wait=60", "alice");
    WAIT_FOR(waiting_is_asked());
    order_moves(id, "paid");
    must_hear(fd, "paid");
    (void)close(fd);
}

static char ids[MANY][ORDER_ID_SIZE];
static int many[MANY];

static void many_wait(void)
{
    for (int i = 0; i < MANY; i++) {
        char user[16];
        (void)snprintf(user, sizeof user, "user%d", i);
        buy(user, ids[i]);
        many[i] = ask(there, ids[i], "?wait=60", user);
    }
    WAIT_FOR(waiting_is_asked());
}

TEST(many_wait_and_some_move)
{
    start();
    many_wait();
    db_run("WITH moved AS (UPDATE voucher_order SET status = 'cancelled'"
           " WHERE voucher_id = %s AND substr(user_id, 5)::integer %% 2 = 0 RETURNING *)"
           " INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom)"
           " SELECT slot, voucher_id, id, status, 'test' FROM moved",
           voucher);
    for (int i = 0; i < MANY; i += 2)
        must_hear(many[i], "cancelled");
    for (int i = 1; i < MANY; i += 2)
        ck_assert(is_silent(many[i]));
    for (int i = 1; i < MANY; i += 2)
        order_moves(ids[i], "paid");
    for (int i = 1; i < MANY; i += 2)
        must_hear(many[i], "paid");
    for (int i = 0; i < MANY; i++)
        (void)close(many[i]);
}

// Shutdown answers all waiting requests at once with the current status, and the instance exits with 0.
TEST(the_end)
{
    char value[HTTP_FIELD_SIZE];
    start();
    many_wait();
    service_signal(there, SIGTERM);
    for (int i = 0; i < MANY; i++) {
        must_hear(many[i], "unpaid");
        ck_assert(http_header(&reply, "Connection", value) && strcmp(value, "close") == 0);
        ck_assert(http_closed(many[i]));
        (void)close(many[i]);
    }
    ck_assert_int_eq(service_wait(there), 0);
}

TEST(postgres_is_away)
{
    char id[ORDER_ID_SIZE];
    start();
    buy("alice", id);
    int brief = ask(there, id, "?wait=3", "alice"), patient = ask(there, id, "?wait=60", "alice");
    WAIT_FOR(waiting_is_asked());
    postgres_stop();
    ck_assert(http_receive(brief, &reply));
    http_must_be_problem(&reply, 503, "UNAVAILABLE");
    ck_assert(is_silent(patient));
    postgres_start();
    order_moves(id, "expired");
    must_hear(patient, "expired");
    (void)close(brief);
    (void)close(patient);
}

// ---- a voucher's events ----

struct stream {
    int fd;
    size_t len;
    char text[STREAM_SIZE];
};

static void open_stream(struct stream *stream, const struct service *service, const char *path, const char *headers)
{
    char request[REQUEST_SIZE];
    stream->fd = http_connect(service);
    stream->len = 0;
    stream->text[0] = '\0';
    (void)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: test\r\n%s\r\n", path, headers);
    ck_assert(http_send_text(stream->fd, request));
}

static void listen_to(struct stream *stream, const struct service *service, const char *headers)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "/vouchers/%s/events", voucher);
    open_stream(stream, service, path, headers);
}

// Whether this text has arrived.
static bool hears(struct stream *stream, const char *text)
{
    ssize_t n = recv(stream->fd, stream->text + stream->len, STREAM_SIZE - 1 - stream->len, MSG_DONTWAIT);
    if (n > 0)
        stream->len += (size_t)n;
    stream->text[stream->len] = '\0';
    return strstr(stream->text, text) != NULL;
}

static bool has_ended(struct stream *stream)
{
    char byte;
    (void)hears(stream, "");
    return recv(stream->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

// The id of the last event.
static uint64_t last_id(const struct stream *stream)
{
    uint64_t id = 0;
    for (const char *at = stream->text; (at = strstr(at, "\nid: ")) != NULL; at++)
        id = strtoull(at + 5, NULL, 10);
    return id;
}

// A client that has seen the end of these vouchers' stream gets 204, from any instance.
static void must_not_return(const struct service *service, const char *list)
{
    char path[PATH_SIZE], value[HTTP_FIELD_SIZE];
    static const char *const forms[] = {"/vouchers/%s/events", "/vouchers/events?ids=%s"};
    for (size_t i = strchr(list, ',') == NULL ? 0 : 1; i < sizeof forms / sizeof forms[0]; i++) {
        (void)snprintf(path, sizeof path, forms[i], list);
        WAIT_FOR(http_ask(service, "GET", path, "Last-Event-ID: end\r\n", NULL, &reply) == 204);
        ck_assert(http_header(&reply, "Cache-Control", value) && strcmp(value, "no-store") == 0);
        ck_assert_uint_eq(strlen(reply.body), 0);
    }
}

TEST(a_sale_is_followed)
{
    static struct stream stream, other;
    start();
    listen_to(&stream, there, "");
    WAIT_FOR(hears(&stream, "\"remaining\":1000,\"state\":\"open\",\"phase\":\"on_sale\",\"rate\":0.0"));
    ck_assert(strncmp(stream.text, "HTTP/1.1 200", 12) == 0 && strstr(stream.text, "text/event-stream") != NULL);
    ck_assert_ptr_nonnull(strstr(stream.text, "retry: "));
    uint64_t first = last_id(&stream);
    uint64_t since_ms = sk_monotonic_ms();
    http_must_buy(here, voucher, "alice");
    WAIT_FOR(hears(&stream, "\"remaining\":999,"));
    sales_note("told after an order", since_ms);
    WAIT_FOR(hears(&stream, "\"remaining\":999,\"state\":\"open\",\"phase\":\"on_sale\",\"rate\":0.0"));
    ck_assert_uint_gt(last_id(&stream), first);

    // A second listener that has seen the current state receives nothing; a third receives it at once.
    char header[HTTP_FIELD_SIZE];
    (void)snprintf(header, sizeof header, "Last-Event-ID: %llu\r\n", (unsigned long long)last_id(&stream));
    listen_to(&other, there, header);
    WAIT_FOR(hears(&other, "retry: "));
    uint64_t until_ms = sk_monotonic_ms() + QUIET_MS;
    while (sk_monotonic_ms() < until_ms)
        ck_assert(!hears(&other, "id: "));
    (void)close(other.fd);
    listen_to(&other, there, "Last-Event-ID: x\r\n");
    WAIT_FOR(hears(&other, "\"remaining\":999,"));
    ck_assert(!hears(&other, "\"remaining\":1000,"));

    db_run("UPDATE seckill_voucher SET state = 'paused' WHERE id = %s", voucher);
    WAIT_FOR(hears(&other, "\"state\":\"paused\""));
    db_run("UPDATE seckill_voucher SET state = 'closed' WHERE id = %s", voucher);
    WAIT_FOR(hears(&other, "\"state\":\"closed\"") && has_ended(&other));
    WAIT_FOR(hears(&stream, "\"state\":\"closed\"") && has_ended(&stream));
    (void)close(other.fd);
    listen_to(&other, there, ""); // a later client receives it, too
    WAIT_FOR(hears(&other, "\"state\":\"closed\"") && has_ended(&other));
    (void)close(other.fd);
    (void)close(stream.fd);
    ck_assert_ptr_nonnull(strstr(stream.text, "\n\nid: end\ndata: {"));
    must_not_return(here, voucher);
}

static bool hears_of(struct stream *stream, const char *id, const char *text)
{
    char data[PATH_SIZE];
    (void)snprintf(data, sizeof data, "data: {\"voucher_id\":\"%s\",%s", id, text);
    return hears(stream, data);
}

// One stream of three sales. The instance does not have one of them in its catalogue: it was retired before.
TEST(several_sales_are_followed)
{
    static struct stream stream;
    char other[VOUCHER_ID_SIZE], old[VOUCHER_ID_SIZE], path[PATH_SIZE], header[HTTP_FIELD_SIZE];
    start();
    voucher_on_sale(here, STOCK, old);
    voucher_on_sale(here, STOCK, other);
    db_run("UPDATE seckill_voucher SET state = 'retired' WHERE id = %s", old);
    struct service *later = service_start(ENV("SECKILL_REACTORS=1"));
    (void)snprintf(path, sizeof path, "/vouchers/events?ids=%s,%s%%2C%s", voucher, old, other);
    open_stream(&stream, later, path, "");
    WAIT_FOR(hears_of(&stream, voucher, "\"remaining\":1000,") && hears_of(&stream, other, "\"remaining\":1000,"));
    WAIT_FOR(hears_of(&stream, old, "\"remaining\":null,\"state\":\"retired\""));
    http_must_buy(here, other, "alice");
    WAIT_FOR(hears_of(&stream, other, "\"remaining\":999,"));
    ck_assert(!hears_of(&stream, voucher, "\"remaining\":999,"));
    http_must_buy(here, voucher, "alice");
    WAIT_FOR(hears_of(&stream, voucher, "\"remaining\":999,"));

    // A client that reconnects receives each state again, whatever it has seen.
    (void)snprintf(header, sizeof header, "Last-Event-ID: %llu\r\n", (unsigned long long)last_id(&stream));
    (void)close(stream.fd);
    open_stream(&stream, later, path, header);
    WAIT_FOR(hears_of(&stream, voucher, "\"remaining\":999,") && hears_of(&stream, other, "\"remaining\":999,"));

    db_run("UPDATE seckill_voucher SET state = 'closed' WHERE id = %s", voucher);
    WAIT_FOR(hears_of(&stream, voucher, "\"remaining\":999,\"state\":\"closed\""));
    (void)close(stream.fd);
    open_stream(&stream, later, path, "Last-Event-ID: end\r\n"); // one of the three goes on
    WAIT_FOR(hears_of(&stream, voucher, "\"remaining\":999,\"state\":\"closed\""));
    http_must_buy(here, other, "bob");
    WAIT_FOR(hears_of(&stream, other, "\"remaining\":998,"));
    ck_assert(!has_ended(&stream));
    db_run("UPDATE seckill_voucher SET state = 'closed' WHERE id = %s", other);
    WAIT_FOR(hears_of(&stream, other, "\"remaining\":998,\"state\":\"closed\"") && has_ended(&stream));
    (void)close(stream.fd);
    (void)snprintf(path, sizeof path, "%s,%s,%s", voucher, old, other);
    must_not_return(later, path);
}

TEST(there_is_nothing_to_follow)
{
    char path[PATH_SIZE], value[HTTP_FIELD_SIZE];
    start();
    (void)snprintf(path, sizeof path, "/vouchers/%s/events", voucher);
    int fd = http_connect(there);
    (void)snprintf(path, sizeof path, "HEAD /vouchers/%s/events HTTP/1.1\r\nHost: test\r\n\r\n", voucher);
    ck_assert(http_send_text(fd, path));
    ck_assert(http_closed(fd));
    (void)close(fd);
    ck_assert_int_eq(http_ask(there, "GET", "/vouchers/999999/events", "", NULL, &reply), 404);
    http_must_be_problem(&reply, 404, "UNKNOWN_VOUCHER");
    ck_assert_int_eq(http_ask(there, "POST", "/vouchers/1/events", "", NULL, &reply), 405);
    ck_assert(http_header(&reply, "Allow", value) && strcmp(value, "GET, HEAD") == 0);
    ck_assert_int_eq(http_ask(there, "POST", "/vouchers/events", "", NULL, &reply), 405);
}

TEST(such_vouchers_there_are_not)
{
    static const char *const bad[] = {
        "",
        "?ids=",
        "?ids=,",
        "?ids=1,",
        "?ids=,1",
        "?ids=1,x",
        "?ids=1;2",
        "?ids=1,%202",
        "?ids=1,2,1",
        "?ids=0",
        "?ids=01",
        "?ids=-1",
        "?ids=1,+2",
        "?ids=1,9223372036854775808",
        "?ids=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33"};
    char path[REQUEST_SIZE];
    start();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(path, sizeof path, "/vouchers/events%s", bad[i]);
        ck_assert_int_eq(http_ask(there, "GET", path, "", NULL, &reply), 422);
        http_must_be_problem(&reply, 422, "BAD_PARAMETER");
        ck_assert_ptr_nonnull(strstr(reply.body, "\"errors\":[{\"parameter\":\"ids\",\"detail\":\"must be 1 to 32 "));
    }
    ck_assert_int_eq(http_ask(there, "GET", "/vouchers/events?id=1", "", NULL, &reply), 422);
    ck_assert_ptr_nonnull(strstr(reply.body, "{\"parameter\":\"id\",\"detail\":\"is not known here\"}"));
    (void)snprintf(path, sizeof path, "/vouchers/events?ids=%s,999999,999998", voucher);
    ck_assert_int_eq(http_ask(there, "GET", path, "", NULL, &reply), 404);
    http_must_be_problem(&reply, 404, "UNKNOWN_VOUCHER");
    ck_assert_ptr_nonnull(strstr(reply.body, "{\"parameter\":\"ids\",\"detail\":\"there is no voucher 999999\"}"));
}

// The streams end with the instance; clients that hang up are dropped.
TEST(many_listen)
{
    static struct stream streams[MANY / 10];
    enum { STREAMS = MANY / 10 };
    start();
    for (int i = 0; i < STREAMS; i++)
        listen_to(&streams[i], there, "");
    for (int i = 0; i < STREAMS; i++)
        WAIT_FOR(hears(&streams[i], "\"remaining\":1000,"));
    for (int i = 0; i < STREAMS; i += 2)
        (void)close(streams[i].fd);
    http_must_buy(here, voucher, "alice");
    for (int i = 1; i < STREAMS; i += 2)
        WAIT_FOR(hears(&streams[i], "\"remaining\":999,"));
    service_signal(there, SIGTERM);
    for (int i = 1; i < STREAMS; i += 2) {
        WAIT_FOR(has_ended(&streams[i]));
        (void)close(streams[i].fd);
    }
    ck_assert_int_eq(service_wait(there), 0);
}

TEST(redis_is_away)
{
    static struct stream stream;
    start();
    listen_to(&stream, there, "");
    WAIT_FOR(hears(&stream, "\"remaining\":1000,"));
    redis_kill();
    redis_start();
    service_await(here, true);
    service_await(there, true);
    http_must_buy(here, voucher, "alice");
    WAIT_FOR(hears(&stream, "\"remaining\":999,"));
    (void)close(stream.fd);
}

SUITE(.timeout_s = 120, .begin = setup, .teardown = service_stop_all, .in_one_process = true);
