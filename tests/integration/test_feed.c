// The feed over HTTP: each placed order once, what became of a sale, and readers that wait for the next event.
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "http.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { STOCK = 3, CROWD = 240, PATH_SIZE = 512, CURSOR_SIZE = 128, EVENTS_SIZE = 1024 };

#define ADMIN "Authorization: Bearer admin-token-of-the-tests\r\n"

static struct service *service;
static struct http_reply reply;
static char voucher[VOUCHER_ID_SIZE];

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void start(void)
{
    service = service_start(NULL);
}

static json_t *page(const char *query)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "/admin/events?%s", query);
    ck_assert_msg(http_ask(service, "GET", path, ADMIN, NULL, &reply) == 200, "%s: %d %s", path, reply.status,
                  reply.body);
    json_t *json = json_loads(reply.body, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(json);
    return json;
}

static const char *text(const json_t *event, const char *member)
{
    const char *value = json_string_value(json_object_get(event, member));
    return value == NULL ? "" : value;
}

// Where the feed ends now, or as soon as nothing holds it back.
static void end_of_feed(char cursor[CURSOR_SIZE])
{
    json_t *json = page("last=1");
    (void)snprintf(cursor, CURSOR_SIZE, "%s", text(json, "next"));
    json_decref(json);
}

// The events of the voucher's sale so far, each with a blank.
static void sale_events(char out[EVENTS_SIZE])
{
    json_t *json = page("only=sales"), *event;
    size_t i, len = 0;
    out[0] = '\0';
    json_array_foreach(json_object_get(json, "events"), i, event)
    {
        if (strcmp(text(event, "voucher_id"), voucher) == 0)
            len += (size_t)snprintf(out + len, EVENTS_SIZE - len, "%s ", text(event, "event"));
    }
    json_decref(json);
}

static bool sale_events_are(const char *expected)
{
    char events[EVENTS_SIZE];
    sale_events(events);
    return strcmp(events, expected) == 0;
}

static int ask(const char *query)
{
    char request[PATH_SIZE];
    int fd = http_connect(service);
    (void)snprintf(request, sizeof request, "GET /admin/events?%s HTTP/1.1\r\nHost: test\r\n" ADMIN "\r\n", query);
    ck_assert(http_send_text(fd, request));
    return fd;
}

// The reply's first event; "": it has none.
static void hear(int fd, char event[HTTP_FIELD_SIZE])
{
    ck_assert(http_receive(fd, &reply));
    ck_assert_msg(reply.status == 200, "%d %s", reply.status, reply.body);
    json_t *json = json_loads(reply.body, 0, NULL);
    (void)snprintf(event, HTTP_FIELD_SIZE, "%s", text(json_array_get(json_object_get(json, "events"), 0), "event"));
    json_decref(json);
    ck_assert_int_eq(close(fd), 0);
}

// Users buy in a crowd, some twice, and a reader follows: what it has read is what PostgreSQL has, each order once.
TEST(each_placed_order_is_told_once)
{
    char user[32], after[CURSOR_SIZE], query[PATH_SIZE];
    int fds[CROWD];
    size_t seen = 0;
    voucher_on_sale(service, CROWD, voucher);
    http_must_buy(service, voucher, "first");
    end_of_feed(after);
    for (int i = 0; i < CROWD; i++) {
        (void)snprintf(user, sizeof user, "user%d", i % (CROWD - 40));
        fds[i] = http_begin_buying(service, voucher, user);
    }
    for (int i = 0; i < CROWD; i++) {
        ck_assert(http_receive(fds[i], &reply));
        ck_assert_int_eq(close(fds[i]), 0);
    }
    json_t *orders = json_object();
    for (size_t read = 1; read > 0;) {
        json_t *event;
        size_t i;
        (void)snprintf(query, sizeof query, "limit=7&only=placed&after=%s", after);
        json_t *json = page(query);
        read = json_array_size(json_object_get(json, "events"));
        json_array_foreach(json_object_get(json, "events"), i, event)
        {
            ck_assert_str_eq(text(event, "event"), "order.placed");
            ck_assert_str_eq(text(event, "status"), "unpaid");
            ck_assert_ptr_null(json_object_get(orders, text(event, "order_id")));
            ck_assert_int_eq(json_object_set_new(orders, text(event, "order_id"), json_true()), 0);
            seen += strcmp(text(event, "voucher_id"), voucher) == 0;
        }
        (void)snprintf(after, sizeof after, "%s", text(json, "next"));
        json_decref(json);
    }
    json_decref(orders);
    ck_assert_int_eq(seen, CROWD - 40);
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s", voucher), CROWD - 40 + 1);
}

TEST(a_reader_waits_for_the_next_event)
{
    char after[CURSOR_SIZE], query[PATH_SIZE], event[HTTP_FIELD_SIZE], path[PATH_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    WAIT_FOR(sale_events_are("sale.opened "));
    end_of_feed(after);
    (void)snprintf(query, sizeof query, "wait=60&after=%s", after);
    int any = ask(query), gone = ask(query);
    (void)snprintf(query, sizeof query, "wait=60&only=sales&after=%s", after);
    int sales = ask(query);
    (void)snprintf(query, sizeof query, "wait=1&only=moves&after=%s", after);
    int moves = ask(query);
    ck_assert_int_eq(close(gone), 0);
    http_must_buy(service, voucher, "bob");
    hear(any, event);
    ck_assert_str_eq(event, "order.placed");
    hear(moves, event); // what was placed is no move, and its second is over
    ck_assert_str_eq(event, "");
    http_must_buy(service, voucher, "carol");
    hear(sales, event);
    ck_assert_str_eq(event, "sale.sold_out");
    (void)snprintf(query, sizeof query, "wait=60&only=moves&after=%s", after);
    moves = ask(query);
    (void)snprintf(path, sizeof path, "/admin/vouchers/%s/close", voucher);
    ck_assert_int_eq(http_ask(service, "POST", path, ADMIN, NULL, &reply), 200);
    WAIT_FOR(sale_events_are("sale.opened sale.sold_out sale.ended "));
    service_signal(service, SIGTERM); // a reader that waits is answered, and not kept until its time is up
    hear(moves, event);
    ck_assert_str_eq(event, "");
    ck_assert_int_eq(service_wait(service), 0);
}

// A cancelled order's unit is for sale again.
TEST(a_sale_that_was_sold_out_reopens)
{
    char id[HTTP_FIELD_SIZE], path[PATH_SIZE];
    voucher_on_sale(service, 1, voucher);
    ck_assert_int_eq(http_buy_patiently(service, voucher, "alice", &reply), 201);
    ck_assert(http_member(&reply, "id", id));
    WAIT_FOR(sale_events_are("sale.opened sale.sold_out "));
    (void)snprintf(path, sizeof path, "/orders/%s/cancel", id);
    ck_assert_int_eq(http_ask(service, "POST", path, "X-User-Id: alice\r\n", NULL, &reply), 200);
    WAIT_FOR(sale_events_are("sale.opened sale.sold_out sale.reopened "));
    http_must_buy(service, voucher, "bob");
    WAIT_FOR(sale_events_are("sale.opened sale.sold_out sale.reopened sale.sold_out "));
}

SUITE(.timeout_s = 120, .begin = setup, .setup = start, .teardown = service_stop_all);
