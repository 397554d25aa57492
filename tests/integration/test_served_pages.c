// The pages over HTTP: each plain and compressed, their headers, their caching, and the settings that turn them off;
// and the demo, in which buyers pay their own orders.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "books.h"
#include "http.h"
#include "pages.h"
#include "proc.h"
#include "sales.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

#define CLOSE "Connection: close\r\n"
#define GZIP  "Accept-Encoding: gzip, deflate, br\r\n"
#define JSON  "Content-Type: application/json\r\n"
#define POLICY                                                                                                   \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action " \
    "'self'; "                                                                                                   \
    "frame-ancestors 'none'; require-trusted-types-for 'script'; img-src 'self'"
#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

enum { PATH_SIZE = 160, FIELDS_SIZE = 512 };

static struct service *service;
static struct http_reply reply;
static char voucher[VOUCHER_ID_SIZE];

static void setup(void)
{
    stack_start(STACK_ALL);
}

static int get(const char *path, const char *headers)
{
    return http_ask(service, "GET", path, headers, NULL, &reply);
}

static const char *field(const char *name)
{
    static char value[HTTP_FIELD_SIZE];
    (void)http_header(&reply, name, value);
    return value;
}

static void must_be_guarded(void)
{
    static const char *const fields[][2] = {
        {"Cache-Control", "no-cache"},
        {"Vary", "Accept-Encoding"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Content-Security-Policy", POLICY},
    };
    for (size_t i = 0; i < COUNT(fields); i++)
        ck_assert_msg(strcmp(field(fields[i][0]), fields[i][1]) == 0, "%s: %s", fields[i][0], field(fields[i][0]));
}

static void must_be_text(const struct sk_embedded_page *page, const char *body, size_t len)
{
    ck_assert_msg(len == page->len && memcmp(body, page->text, len) == 0, "%s: other bytes", page->path);
}

// Unpacks with gzip, which every machine has.
static void must_unpack_to(const struct sk_embedded_page *page)
{
    char packed[PATH_SIZE], unpacked[PATH_SIZE];
    static char text[HTTP_REPLY_SIZE];
    struct proc gzip = {0};
    (void)snprintf(packed, sizeof packed, "%s/page.gz", proc_scratch());
    (void)snprintf(unpacked, sizeof unpacked, "%s/page", proc_scratch());
    FILE *file = fopen(packed, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(reply.body, 1, reply.body_len, file), reply.body_len);
    (void)fclose(file);
    file = fopen(unpacked, "w+e");
    ck_assert_ptr_nonnull(file);
    const char *const words[] = {"gzip", "-dc", packed, NULL};
    proc_start(&gzip, &(struct proc_options){.name = "gzip", .argv = words, .out_fd = fileno(file)});
    ck_assert_int_eq(proc_wait(&gzip), 0);
    ck_assert_int_eq(fseek(file, 0, SEEK_SET), 0); // both have moved the same file offset
    must_be_text(page, text, fread(text, 1, sizeof text, file));
    (void)fclose(file);
}

// ---- pages ----

static void must_be_unchanged(const char *path, const char *accepts, const char *tag)
{
    static const char *const forms[] = {"%.*s\"", "\"other\", %.*s\"", "W/%.*s\"", "%.*s-gzip\", \"other\"",
                                        "W/%.*s--gzip\""};
    char headers[FIELDS_SIZE], value[FIELDS_SIZE], wanted[HTTP_FIELD_SIZE];
    (void)snprintf(wanted, sizeof wanted, "%s", tag); // it may be what the next answer overwrites
    for (size_t i = 0; i < COUNT(forms); i++) {
        (void)snprintf(value, sizeof value, forms[i], (int)strlen(wanted) - 1, wanted); // without its closing quote
        (void)snprintf(headers, sizeof headers, "%sIf-None-Match: %s\r\n", accepts, value);
        ck_assert_msg(get(path, headers) == 304, "%s: %s: %d", path, value, reply.status);
        ck_assert_uint_eq(reply.body_len, 0);
        ck_assert_str_eq(field("ETag"), wanted);
        must_be_guarded();
    }
}

static void must_be_sent(const char *path, const char *accepts, const char *known)
{
    char headers[FIELDS_SIZE];
    (void)snprintf(headers, sizeof headers, "%sIf-None-Match: %s\r\n", accepts, known);
    ck_assert_msg(get(path, headers) == 200, "%s: %s: %d", path, known, reply.status);
}

TEST(each_page_is_served)
{
    char tag[HTTP_FIELD_SIZE], packed_tag[HTTP_FIELD_SIZE];
    service = service_start(ENV("SECKILL_DEMO=on"));
    ck_assert_uint_ge(sk_embedded_page_count, 3);
    for (size_t i = 0; i < sk_embedded_page_count; i++) {
        const struct sk_embedded_page *page = &sk_embedded_pages[i];
        ck_assert_msg(get(page->path, "") == 200, "%s: %d", page->path, reply.status);
        must_be_text(page, reply.body, reply.body_len);
        ck_assert_str_eq(field("Content-Type"), page->type);
        ck_assert_str_eq(field("Content-Encoding"), "");
        must_be_guarded();
        (void)snprintf(tag, sizeof tag, "%s", field("ETag"));
        must_be_unchanged(page->path, "", tag);
        must_be_sent(page->path, "", "\"0123456789abcdef-gzip\"");
        must_be_sent(page->path, "", "\"-gzip\"");
        ck_assert_int_eq(get(page->path, GZIP), 200);
        must_be_guarded();
        if (page->packed == NULL) {
            ck_assert_str_eq(field("Content-Encoding"), "");
            continue;
        }
        ck_assert_str_eq(field("Content-Encoding"), "gzip");
        ck_assert_str_eq(field("Content-Type"), page->type);
        ck_assert_uint_lt(reply.body_len, page->len);
        (void)snprintf(packed_tag, sizeof packed_tag, "%s", field("ETag"));
        must_unpack_to(page);
        ck_assert_str_ne(tag, packed_tag);
        must_be_unchanged(page->path, GZIP, packed_tag);
        must_be_sent(page->path, GZIP, tag); // it belongs to the other encoding
        ck_assert_int_eq(get(page->path, "Accept-Encoding: gzip;q=0\r\n"), 200);
        ck_assert_str_eq(field("Content-Encoding"), "");
    }
}

// The pages are at their documented paths, whatever else exists.
TEST(pages_have_their_paths)
{
    static const char *const html[] = {"/", "/admin/ui", "/pay", "/?lang=zh", "/pay?order=x"};
    service = service_start(ENV("SECKILL_DEMO=on"));
    for (size_t i = 0; i < COUNT(html); i++) {
        ck_assert_msg(get(html[i], "") == 200, "%s: %d", html[i], reply.status);
        ck_assert_str_eq(field("Content-Type"), "text/html; charset=utf-8");
    }
    ck_assert_int_eq(get("/web/settings.json", GZIP), 200);
    ck_assert_str_eq(field("Content-Type"), "application/json");
    ck_assert_ptr_nonnull(strstr(reply.body, "{\"auth\":\"gateway\",\"demo\":true,"));
    ck_assert_ptr_nonnull(strstr(reply.body, "\"version\":\"" SK_VERSION "\",\"pictures\":[]}"));
    must_be_guarded();
    must_be_unchanged("/web/settings.json", "", field("ETag"));
}

TEST(a_head_has_no_body)
{
    char wanted[HTTP_FIELD_SIZE];
    service = service_start(NULL);
    ck_assert_int_eq(get("/", ""), 200);
    (void)snprintf(wanted, sizeof wanted, "Content-Length: %zu\r\n", reply.body_len);
    for (int known = 0; known < 2; known++) {
        const char *more = known == 0 ? "" : "If-None-Match: *\r\n";
        char request[FIELDS_SIZE];
        (void)snprintf(request, sizeof request, "HEAD / HTTP/1.1\r\nHost: test\r\n%s" CLOSE "\r\n", more);
        int fd = http_connect(service);
        ck_assert(fd >= 0 && http_send_text(fd, request));
        size_t len = 0;
        ssize_t n;
        while ((n = read(fd, reply.text + len, sizeof reply.text - 1 - len)) > 0)
            len += (size_t)n;
        reply.text[len] = '\0';
        (void)close(fd);
        ck_assert_int_eq(strncmp(reply.text, known == 0 ? "HTTP/1.1 200" : "HTTP/1.1 304", 12), 0);
        ck_assert_str_eq(reply.text + len - 4, "\r\n\r\n");
        ck_assert_ptr_eq(strstr(reply.text, "\r\n\r\n"), reply.text + len - 4); // and nothing after it
        ck_assert_ptr_nonnull(strstr(reply.text, "\r\nETag: \""));
        ck_assert(known == 1 || strstr(reply.text, wanted) != NULL);
    }
}

TEST(what_is_no_page_is_not_found)
{
    static const char *const paths[] = {
        "/index.html",
        "/web",
        "/web/",
        "/web/index.html",
        "/web/admin.html",
        "/web/pay.html",
        "/web/../web/",
        "/web/..",
        "/web/%2e%2e/",
        "/web/%2e%2e/%2e%2e/etc/passwd",
        "/web/..%2fsecret",
        "/web/.gitignore",
        "//",
        "/%2e",
        "/./",
        "/web/settings.json/",
        "/web/SETTINGS.JSON",
        "/admin/ui/x",
        "/admin/ui.html",
        "/pay/",
        "/web/settings.json%00",
        "/web/\\..\\x",
    };
    service = service_start(ENV("SECKILL_DEMO=on"));
    for (size_t i = 0; i < COUNT(paths); i++) {
        ck_assert_msg(get(paths[i], "") == 404, "%s: %d", paths[i], reply.status);
        http_must_be_problem(&reply, 404, "NOT_FOUND");
    }
    ck_assert_int_eq(get("/?a=%zz", ""), 422); // like any query with an invalid escape
}

TEST(operators_find_the_dashboard)
{
    static const char *const paths[] = {"/admin", "/admin/", "/admin/ui/", "/admin?utm_source=mail"};
    char location[HTTP_FIELD_SIZE];
    service = service_start(NULL);
    for (size_t i = 0; i < COUNT(paths); i++) {
        ck_assert_msg(get(paths[i], "") == 302, "%s: %d", paths[i], reply.status);
        ck_assert(http_header(&reply, "Location", location));
        ck_assert_str_eq(location, "/admin/ui");
        ck_assert_int_eq(reply.body[0], '\0');
    }
    ck_assert_int_eq(get(location, ""), 200);
}

TEST(other_methods_are_not_allowed)
{
    static const char *const paths[] = {"/", "/admin/ui", "/pay", "/web/settings.json", "/web/nothing"};
    static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"};
    service = service_start(ENV("SECKILL_DEMO=on"));
    for (size_t i = 0; i < COUNT(paths); i++) {
        for (size_t j = 0; j < COUNT(methods); j++) {
            ck_assert_int_eq(http_ask(service, methods[j], paths[i], "", NULL, &reply), 405);
            ck_assert_str_eq(field("Allow"), "GET, HEAD");
        }
        ck_assert_int_eq(http_ask(service, "BREW", paths[i], "", NULL, &reply), 501);
    }
}

TEST(pages_and_the_demo_are_switched)
{
    static const char *const pages[] = {"/", "/admin/ui", "/web/settings.json", "/web/x"};
    static const char pay[] = "/demo/orders/01a1fbe1-0c46-72f8-bdd2-587980274994/pay";
    struct service *off = service_start(ENV("SECKILL_PAGES=off", "SECKILL_DEMO=on"));
    struct service *plain = service_start(NULL);
    service = off;
    for (size_t i = 0; i < COUNT(pages); i++) {
        http_must_be_problem((get(pages[i], ""), &reply), 404, "NOT_FOUND");
        ck_assert_int_eq(http_ask(service, "POST", pages[i], "", NULL, &reply), 404);
    }
    ck_assert_int_eq(get("/pay", ""), 404);
    service = plain;
    ck_assert_int_eq(get("/", ""), 200);
    ck_assert_int_eq(get("/web/settings.json", ""), 200);
    ck_assert_ptr_nonnull(strstr(reply.body, "\"demo\":false"));
    ck_assert_int_eq(get("/pay", ""), 404);
    ck_assert_int_eq(http_ask(service, "POST", "/pay", "", NULL, &reply), 404);
    ck_assert_int_eq(http_ask(service, "POST", pay, "X-User-Id: anna\r\n" JSON, "{}", &reply), 404);
    ck_assert_int_eq(http_ask(service, "GET", pay, "", NULL, &reply), 404);
}

// A page of another origin gets neither CORS headers nor a different answer.
TEST(pages_are_for_their_own_origin)
{
    service = service_start(ENV("SECKILL_CORS_ORIGINS=https://shop.example"));
    ck_assert_int_eq(get("/", "Origin: https://shop.example\r\n"), 200);
    ck_assert_ptr_null(strstr(reply.text, "Access-Control-"));
    must_be_guarded();
}

// ---- paying in the demo ----

static int demo_pay(const char *order, const char *user, const char *body)
{
    char path[PATH_SIZE], headers[HTTP_FIELD_SIZE];
    (void)snprintf(path, sizeof path, "/demo/orders/%s/pay", order);
    (void)snprintf(headers, sizeof headers, "X-User-Id: %s\r\n%s", user, body == NULL ? "" : JSON);
    return http_ask(service, "POST", path, headers, body, &reply);
}

static void buy(const char *user, char order[ORDER_ID_SIZE])
{
    char value[HTTP_FIELD_SIZE];
    WAIT_FOR(http_buy(service, voucher, user, &reply) == 201);
    ck_assert(http_member(&reply, "id", value));
    (void)snprintf(order, ORDER_ID_SIZE, "%.*s", ORDER_ID_SIZE - 1, value);
}

#define PRICE "{\"amount_cents\":100,\"currency\":\"CNY\"}" // of the harness's vouchers

TEST(buyers_pay_orders_of_their_own)
{
    char order[ORDER_ID_SIZE], status[HTTP_FIELD_SIZE], reference[PATH_SIZE];
    service = service_start(ENV("SECKILL_DEMO=on"));
    voucher_on_sale(service, 3, voucher);
    buy("anna", order);
    http_must_be_problem((demo_pay(order, "ben", PRICE), &reply), 404, "NOT_FOUND");
    http_must_be_problem((demo_pay(order, "anna", "{\"amount_cents\":99,\"currency\":\"CNY\"}"), &reply), 422,
                         "WRONG_AMOUNT");
    http_must_be_problem((demo_pay(order, "anna", "{\"amount_cents\":100,\"currency\":\"EUR\"}"), &reply), 422,
                         "WRONG_AMOUNT");
    http_must_be_problem((demo_pay(order, "anna", "{\"amount_cents\":100}"), &reply), 400, "BAD_JSON");
    http_must_be_problem((demo_pay(order, "anna", NULL), &reply), 415, "UNSUPPORTED_MEDIA_TYPE");
    http_must_be_problem((demo_pay("x", "anna", PRICE), &reply), 400, "BAD_ORDER_ID");
    http_must_be_problem((demo_pay(order, "an na", PRICE), &reply), 401, "UNAUTHENTICATED");
    http_must_be_problem((demo_pay("01a1fbe1-0c46-72f8-bdd2-587980274994", "anna", PRICE), &reply), 404, "NOT_FOUND");
    ck_assert_int_eq(db_number("SELECT count(*) FROM payment"), 0);
    for (int times = 0; times < 2; times++) {
        ck_assert_int_eq(demo_pay(order, "anna", PRICE), 200);
        ck_assert(http_member(&reply, "status", status));
        ck_assert_str_eq(status, "paid");
    }
    db_text(reference, sizeof reference, "SELECT reference FROM payment");
    ck_assert_int_eq(strncmp(reference, "demo-", 5), 0);
    ck_assert_str_eq(reference + 5, order);
    books_must_balance(voucher);
}

TEST(an_order_that_ended_is_paid_in_vain)
{
    static const char terms[] = "{\"title\":\"Short\",\"stock\":3,\"price_cents\":100,\"pay_within_s\":1,"
                                "\"begin_at\":\"2026-01-01T00:00:00Z\",\"end_at\":\"2099-01-01T00:00:00Z\"}";
    char order[ORDER_ID_SIZE], status[HTTP_FIELD_SIZE], headers[HTTP_FIELD_SIZE], id[HTTP_FIELD_SIZE];
    service = service_start(ENV("SECKILL_DEMO=on"));
    (void)snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\n" JSON, stack_admin_token);
    ck_assert_int_eq(http_ask(service, "POST", "/admin/vouchers", headers, terms, &reply), 201);
    ck_assert(http_member(&reply, "id", id));
    (void)snprintf(voucher, sizeof voucher, "%.*s", VOUCHER_ID_SIZE - 1, id);
    buy("carla", order);
    WAIT_FOR(sales_order_is(service, order, "carla", "expired"));
    ck_assert_int_eq(demo_pay(order, "carla", PRICE), 200); // the payment is recorded, and to be refunded
    ck_assert(http_member(&reply, "status", status));
    ck_assert_str_eq(status, "expired");
    books_must_balance(voucher);
}

SUITE(.timeout_s = 120, .begin = setup, .teardown = service_stop_all, .in_one_process = true);
