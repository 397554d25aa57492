// Web pages of other origins, over HTTP: every kind of answer has the CORS headers for pages of listed origins, and
// none for others. Without a list there are no such headers at all.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "books.h"
#include "http.h"
#include "sales.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

#define SHOP     "https://shop.example"
#define M_SHOP   "http://m.shop.example:8080"
#define ORIGINS  "SECKILL_CORS_ORIGINS=" SHOP ", " M_SHOP
#define FROM(at) "Origin: " at "\r\n"
#define ASKS     "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-user-id\r\n"
#define ADMIN    "Authorization: Bearer admin-token-of-the-tests\r\nContent-Type: application/json\r\n"

enum { REQUEST_SIZE = 1024, PATH_SIZE = 64 };

static struct service *service;
static char voucher[VOUCHER_ID_SIZE];
static struct http_reply reply;
static bool pages_are_foreign; // of other sites; for ask()

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void start(const char *const *env)
{
    pages_are_foreign = false;
    service = service_start(env);
    voucher_on_sale(service, 1, voucher);
    http_must_buy(service, voucher, "winner");
}

static bool has(const char *name, const char *value)
{
    char found[HTTP_FIELD_SIZE];
    return http_header(&reply, name, found) && strcmp(found, value) == 0;
}

static bool has_any(void)
{
    return strstr(reply.text, "Access-Control-") != NULL || strstr(reply.text, "access-control-") != NULL;
}

// ---- requests of every kind ----

// %s: the voucher.
static const struct {
    const char *method, *path, *headers, *body;
    int status;
} rows[] = {
    {"POST", "/seckill/%s", "X-User-Id: winner\r\n", NULL, 409},
    {"POST", "/seckill/%s", "X-User-Id: late\r\n", NULL, 409},
    {"POST", "/seckill/%s", "", NULL, 401},
    {"POST", "/seckill/x", "X-User-Id: late\r\n", NULL, 400},
    {"PUT", "/seckill/%s", "X-User-Id: late\r\n", NULL, 405},
    {"OPTIONS", "/seckill/%s", "", NULL, 405}, // names no method
    {"BREW", "/seckill/%s", "", NULL, 501},
    {"GET", "/nowhere", "", NULL, 404},
    {"GET", "/vouchers/%s", "", NULL, 200},
    {"GET", "/vouchers", "", NULL, 200},
    {"HEAD", "/vouchers/%s", "Connection: close\r\n", NULL, 200},
    {"GET", "/vouchers/%s/events", "", NULL, 200},
    {"GET", "/vouchers/%s/events", "Host: twice\r\n", NULL, 400}, // rejected before it is complete
    {"POST", "/vouchers/%s/ticket", "X-User-Id: late\r\n", NULL, 200},
    {"GET", "/orders", "X-User-Id: winner\r\n", NULL, 200},
    {"GET", "/healthz", "", NULL, 200},
    {"HEAD", "/openapi.json", "Connection: close\r\n", NULL, 200},
    {"GET", "/openapi.json", "If-None-Match: *\r\n", NULL, 304},
    {"GET", "/admin/vouchers", "", NULL, 401},
    {"GET", "/admin/vouchers", ADMIN, NULL, 200},
    {"POST", "/admin/vouchers", ADMIN, "{}", 400},
    {"POST", "/admin/vouchers", ADMIN, "{\"title\":\"this body is longer than this instance takes one to be\"}", 413},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

// Reads an answer to the end, without the body that its head announces.
static void receive_head(int fd)
{
    size_t len = 0;
    ssize_t n;
    while ((n = recv(fd, reply.text + len, sizeof reply.text - 1 - len, 0)) > 0)
        len += (size_t)n;
    reply.text[len] = '\0';
    reply.status = (int)strtol(reply.text + strlen("HTTP/1.1 "), NULL, 10);
}

static void ask(size_t i, const char *origin)
{
    char request[REQUEST_SIZE], path[PATH_SIZE];
    const char *body = rows[i].body == NULL ? "" : rows[i].body;
    int fd = http_connect(service);
    (void)snprintf(path, sizeof path, rows[i].path, voucher);
    (void)snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: test\r\n%s%sContent-Length: %zu\r\n\r\n%s",
                   rows[i].method, path, rows[i].headers, origin, strlen(body), body);
    ck_assert(fd >= 0 && http_send_text(fd, request));
    if (strcmp(rows[i].method, "HEAD") == 0)
        receive_head(fd);
    else
        ck_assert(http_receive(fd, &reply));
    (void)close(fd);
    // Here, requests that change something for a user are those about a voucher.
    bool for_user = strcmp(rows[i].method, "POST") == 0 && strstr(rows[i].path, "%s") != NULL;
    int expected = for_user && pages_are_foreign && origin[0] != '\0' ? 403 : rows[i].status;
    ck_assert_msg(reply.status == expected, "%s %s: %d %s", rows[i].method, path, reply.status, reply.text);
}

TEST(every_answer_is_for_the_pages_of_its_origin)
{
    char exposed[HTTP_FIELD_SIZE];
    start(ENV(ORIGINS, "SECKILL_TICKET_SECRET=the-secret-of-tickets", "SECKILL_BODY_MAX_BYTES=300"));
    for (size_t i = 0; i < ROWS - 1; i++) {
        ask(i, FROM(SHOP));
        ck_assert_msg(has("Access-Control-Allow-Origin", SHOP), "%s %s: %s", rows[i].method, rows[i].path, reply.text);
        ck_assert(has("Access-Control-Allow-Credentials", "true"));
        ck_assert(strstr(reply.text, "Vary: Origin\r\n") != NULL);
        ck_assert(http_header(&reply, "Access-Control-Expose-Headers", exposed));
        ck_assert(strstr(exposed, "Location") != NULL && strstr(exposed, "Retry-After") != NULL);
        ask(i, FROM(M_SHOP));
        ck_assert(has("Access-Control-Allow-Origin", M_SHOP));
    }
    books_must_balance(voucher);
}

TEST(a_body_that_is_too_large_is_told_so)
{
    service = service_start(ENV(ORIGINS, "SECKILL_BODY_MAX_BYTES=16"));
    ask(ROWS - 1, FROM(SHOP));
    ck_assert(has("Access-Control-Allow-Origin", SHOP));
    ask(ROWS - 1, FROM("https://other.example"));
    ck_assert(!has_any());
}

TEST(nothing_is_allowed_to_others)
{
    static const char *const others[] = {
        "",
        FROM("https://other.example"),
        FROM("http://shop.example"),
        FROM("https://shop.example:8443"),
        FROM("https://shop.example.other.example"),
        FROM("null"),
        FROM("*"),
        FROM(SHOP) FROM("https://other.example"),
    };
    start(ENV(ORIGINS, "SECKILL_TICKET_SECRET=the-secret-of-tickets", "SECKILL_BODY_MAX_BYTES=300"));
    pages_are_foreign = true;
    for (size_t i = 0; i < ROWS - 1; i++) {
        for (size_t j = 0; j < sizeof others / sizeof others[0]; j++) {
            ask(i, others[j]);
            ck_assert_msg(!has_any(), "%s %s, %s: %s", rows[i].method, rows[i].path, others[j], reply.text);
            ck_assert(strstr(reply.text, "Vary: Origin\r\n") != NULL); // caches must keep origins apart
        }
    }
}

TEST(without_a_list_there_is_nothing_of_it)
{
    start(ENV("SECKILL_TICKET_SECRET=the-secret-of-tickets", "SECKILL_BODY_MAX_BYTES=300"));
    pages_are_foreign = true;
    for (size_t i = 0; i < ROWS - 1; i++) {
        ask(i, FROM(SHOP));
        ck_assert(!has_any() && strstr(reply.text, "Vary: Origin") == NULL);
    }
    ck_assert_int_eq(http_ask(service, "OPTIONS", "/orders", FROM(SHOP) ASKS, NULL, &reply), 405);
    ck_assert(has("Allow", "GET, HEAD"));
    ck_assert(!has_any());
}

// The gateway identifies the user by a cookie, which the browser sends for pages of any site.
TEST(no_page_of_another_site_acts_for_a_user)
{
    static const struct {
        const char *headers;
        bool foreign;
    } pages[] = {
        {"Sec-Fetch-Site: cross-site\r\n" FROM("https://evil.example"), true},
        {"Sec-Fetch-Site: cross-site\r\n", true},
        {"Sec-Fetch-Site: cross-site\r\n" FROM("null"), true},
        {"Sec-Fetch-Site: same-site\r\n" FROM("https://users.example"), true},
        {FROM("https://evil.example"), true}, // from a browser without Sec-Fetch-Site
        {FROM("null"), true},
        {FROM("http://test") FROM("http://test"), true},
        {FROM(SHOP), false},
        {"Sec-Fetch-Site: cross-site\r\n" FROM(SHOP), false},
        {"Sec-Fetch-Site: same-origin\r\n" FROM("http://test"), false},
        {FROM("http://test"), false},
        {FROM("https://test"), false},
        {"", false},
    };
    char headers[REQUEST_SIZE], path[PATH_SIZE], value[HTTP_FIELD_SIZE], order[ORDER_ID_SIZE] = "";
    service = service_start(ENV(ORIGINS));
    voucher_on_sale(service, sizeof pages / sizeof pages[0], voucher);
    int64_t bought = 0;
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        (void)snprintf(path, sizeof path, "/seckill/%s", voucher);
        (void)snprintf(headers, sizeof headers, "X-User-Id: victim-%zu\r\n%s", i, pages[i].headers);
        (void)http_ask(service, "POST", path, headers, NULL, &reply);
        if (pages[i].foreign)
            http_must_be_problem(&reply, 403, "CROSS_SITE");
        else
            ck_assert_msg(reply.status == 201, "row %zu: %s", i, reply.text);
        ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s", voucher),
                         bought += !pages[i].foreign);
        if (!pages[i].foreign && http_member(&reply, "id", value))
            (void)snprintf(order, sizeof order, "%.*s", ORDER_ID_SIZE - 1, value);
    }
    // Nor may it cancel. Read-only requests may come from anywhere, since the page cannot see the answer.
    size_t last = sizeof pages / sizeof pages[0] - 1;
    (void)snprintf(path, sizeof path, "/orders/%s/cancel", order);
    (void)snprintf(headers, sizeof headers, "X-User-Id: victim-%zu\r\n%s", last, pages[0].headers);
    (void)http_ask(service, "POST", path, headers, NULL, &reply);
    http_must_be_problem(&reply, 403, "CROSS_SITE");
    (void)snprintf(path, sizeof path, "/orders/%s", order);
    ck_assert_int_eq(http_ask(service, "GET", path, headers, NULL, &reply), 200);
    ck_assert(http_member(&reply, "status", value));
    ck_assert_str_eq(value, "unpaid");
    books_must_balance(voucher);
}

// ---- preflights ----

TEST(a_preflight_is_answered)
{
    static const char *const paths[] = {"/seckill/7", "/orders", "/nowhere", "/admin/vouchers", "/seckill/x"};
    char allowed[HTTP_FIELD_SIZE];
    service = service_start(ENV(ORIGINS));
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        ck_assert_int_eq(http_ask(service, "OPTIONS", paths[i], FROM(M_SHOP) ASKS, NULL, &reply), 204);
        ck_assert(has("Access-Control-Allow-Origin", M_SHOP));
        ck_assert(has("Access-Control-Allow-Methods", "GET, HEAD, POST, PATCH"));
        ck_assert(has("Access-Control-Max-Age", "7200"));
        ck_assert(strstr(reply.text, "Vary: Origin\r\n") != NULL);
        ck_assert(http_header(&reply, "Access-Control-Allow-Headers", allowed));
        ck_assert(strstr(allowed, "X-Seckill-Ticket") != NULL && strstr(allowed, "Idempotency-Key") != NULL);
        (void)http_ask(service, "OPTIONS", paths[i], FROM("https://other.example") ASKS, NULL, &reply);
        ck_assert_int_ne(reply.status, 204);
        ck_assert(!has_any());
    }
}

// On one connection, a preflight does not affect the request after it.
TEST(a_preflight_and_its_request)
{
    char request[REQUEST_SIZE];
    start(ENV(ORIGINS));
    int fd = http_connect(service);
    (void)snprintf(request, sizeof request,
                   "OPTIONS /seckill/%s HTTP/1.1\r\nHost: test\r\n" FROM(SHOP) ASKS
                   "\r\n"
                   "POST /seckill/%s HTTP/1.1\r\nHost: test\r\nX-User-Id: winner\r\n" FROM(SHOP) "\r\n",
                   voucher, voucher);
    ck_assert(http_send_text(fd, request));
    ck_assert(http_receive(fd, &reply));
    ck_assert_int_eq(reply.status, 204);
    ck_assert(http_receive(fd, &reply));
    http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
    ck_assert(has("Access-Control-Allow-Origin", SHOP));
    (void)close(fd);
}

TEST(a_list_that_is_wrong_is_no_start)
{
    char said[HTTP_FIELD_SIZE];
    const char *const none[] = {NULL};
    ck_assert_int_ne(service_run(none,
                                 ENV("SECKILL_DATABASE_URL=postgresql:///none", "SECKILL_CORS_ORIGINS=" SHOP " *"),
                                 said, sizeof said),
                     0);
    ck_assert_ptr_nonnull(strstr(said, "SECKILL_CORS_ORIGINS: origin 2: "));
}

SUITE(.timeout_s = 60, .begin = setup, .teardown = service_stop_all, .in_one_process = true);
