// Who may make which admin call, over HTTP: tokens with roles from a file, changes bound to a version, and queries. A
// rejected call leaves the voucher unchanged.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "books.h"
#include "http.h"
#include "service_log.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

#define ADMIN    "Authorization: Bearer admin-token-of-the-tests\r\n"
#define READER   "Authorization: Bearer reader-token-0001\r\n"
#define OPERATOR "Authorization: Bearer operator-token-01\r\n"
#define SHOP     "Authorization: Bearer payments-token-01\r\n"
#define SCRAPER  "Authorization: Bearer metrics-token-001\r\n"
#define DESK     "Authorization: Bearer refunds-token-001\r\n"
#define LINES                                                                                                         \
    "# of the tests\nreader read reader-token-0001\nops operate operator-token-01\nshop payments payments-token-01\n" \
    "scraper metrics metrics-token-001\ndesk refunds refunds-token-001\n"
#define USER        "X-User-Id: alice\r\n"
#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

enum { STOCK = 5, PATH_SIZE = 256, OUTPUT_SIZE = 16384, TRIES = 12, ROUNDS = 3 };

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void path_of(char path[PATH_SIZE], const char *pattern, const char *voucher)
{
    (void)snprintf(path, PATH_SIZE, pattern, voucher);
}

// A rebuild raises the epoch, so the epoch shows whether a call got through.
static int64_t epoch_of(const char *voucher)
{
    return db_number("SELECT epoch FROM voucher_stock WHERE voucher_id = %s", voucher);
}

TEST(roles)
{
    static const struct {
        const char *headers, *method, *path;
        int status;
        const char *code; // NULL: the call is allowed
    } rows[] = {
        {READER, "GET", "/admin/vouchers", 200, NULL},
        {READER, "GET", "/metrics", 200, NULL},
        {SCRAPER, "GET", "/metrics", 200, NULL}, // and nothing else
        {SCRAPER, "GET", "/admin/vouchers", 403, "FORBIDDEN"},
        {SCRAPER, "GET", "/admin/orders", 403, "FORBIDDEN"},
        {SCRAPER, "GET", "/admin/events", 403, "FORBIDDEN"},
        {SCRAPER, "GET", "/orders/018bcfe5-6800-7000-8000-0123456789ab", 403, "FORBIDDEN"},
        {SCRAPER, "POST", "/orders/018bcfe5-6800-7000-8000-0123456789ab/refund", 403, "FORBIDDEN"},
        {SCRAPER, "POST", "/orders/018bcfe5-6800-7000-8000-0123456789ab/pay", 403, "FORBIDDEN"},
        {DESK, "POST", "/orders/018bcfe5-6800-7000-8000-0123456789ab/refund", 415, "UNSUPPORTED_MEDIA_TYPE"}, // it may
        {DESK, "POST", "/orders/018bcfe5-6800-7000-8000-0123456789ab/pay", 403, "FORBIDDEN"},
        {DESK, "POST", "/admin/vouchers/%s/pause", 403, "FORBIDDEN"},
        {DESK, "GET", "/admin/vouchers", 403, "FORBIDDEN"},
        {DESK, "GET", "/metrics", 403, "FORBIDDEN"},
        {OPERATOR, "POST", "/orders/018bcfe5-6800-7000-8000-0123456789ab/refund", 415, "UNSUPPORTED_MEDIA_TYPE"},
        {SHOP, "POST", "/orders/018bcfe5-6800-7000-8000-0123456789ab/refund", 403, "FORBIDDEN"},
        {SHOP, "GET", "/metrics", 403, "FORBIDDEN"},
        {READER, "GET", "/admin/vouchers/%s", 200, NULL},
        {READER, "GET", "/admin/vouchers/%s/dead-letters", 200, NULL},
        {READER, "GET", "/admin/vouchers/%s/nowhere", 404, "NOT_FOUND"},
        {READER, "POST", "/admin/vouchers", 403, "FORBIDDEN"},
        {READER, "POST", "/admin/vouchers/%s/reconcile", 403, "FORBIDDEN"},
        {READER, "POST", "/admin/vouchers/%s/dead-letters/1/write-off", 403, "FORBIDDEN"},
        {READER, "DELETE", "/admin/vouchers/%s", 405, "METHOD_NOT_ALLOWED"},
        {SHOP, "GET", "/admin/vouchers/%s", 403, "FORBIDDEN"},
        {SHOP, "GET", "/admin/vouchers/%s/nowhere", 403, "FORBIDDEN"},
        {SHOP, "POST", "/admin/vouchers/%s/reconcile", 403, "FORBIDDEN"},
        {ADMIN READER, "GET", "/admin/vouchers/%s", 401, "UNAUTHENTICATED"},
        {READER ADMIN, "GET", "/admin/vouchers/%s", 401, "UNAUTHENTICATED"},
        {OPERATOR OPERATOR, "POST", "/admin/vouchers/%s/reconcile", 401, "UNAUTHENTICATED"},
        {"Authorization: Bearer reader-token-0002\r\n", "GET", "/admin/vouchers/%s", 401, "UNAUTHENTICATED"},
        {"Authorization: Bearer reader\r\n", "GET", "/admin/vouchers/%s", 401, "UNAUTHENTICATED"},
        {OPERATOR, "GET", "/admin/vouchers/%s", 200, NULL},
        {ADMIN, "GET", "/admin/vouchers/%s", 200, NULL},
        {READER, "POST", "/seckill/%s", 401, "UNAUTHENTICATED"}, // a token does not identify a user
        {ADMIN, "GET", "/orders", 401, "UNAUTHENTICATED"},
        {SHOP, "GET", "/orders/018bcfe5-6800-7000-8000-0123456789ab", 403, "FORBIDDEN"},
    };
    struct service *service = service_start(ENV("SECKILL_ADMIN_TOKENS=" LINES));
    char voucher[VOUCHER_ID_SIZE], path[PATH_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    int64_t epoch = epoch_of(voucher), vouchers = db_number("SELECT count(*) FROM seckill_voucher");
    for (size_t i = 0; i < COUNT(rows); i++) {
        path_of(path, rows[i].path, voucher);
        int status = http_ask(service, rows[i].method, path, rows[i].headers, NULL, &reply);
        ck_assert_msg(status == rows[i].status, "row %zu: %d %s", i, status, reply.body);
        ck_assert_msg(rows[i].code == NULL || http_is_problem(&reply, rows[i].status, rows[i].code), "row %zu: %s", i,
                      reply.body);
    }
    ck_assert_int_eq(epoch_of(voucher), epoch);
    ck_assert_int_eq(db_number("SELECT count(*) FROM seckill_voucher"), vouchers);
    path_of(path, "/admin/vouchers/%s/reconcile", voucher);
    ck_assert_int_eq(http_ask(service, "POST", path, OPERATOR, NULL, &reply), 200);
    ck_assert_int_gt(epoch_of(voucher), epoch);
    books_must_balance(voucher);
}

TEST(a_token_is_told_its_roles)
{
    struct service *service = service_start(NULL);
    struct http_reply reply;
    ck_assert_int_eq(http_ask(service, "GET", "/admin/me", ADMIN, NULL, &reply), 200);
    ck_assert_str_eq(reply.body,
                     "{\"name\":\"admin\",\"roles\":[\"read\",\"operate\",\"refunds\",\"payments\",\"metrics\"]}");
    ck_assert_int_eq(http_ask(service, "GET", "/admin/me", "", NULL, &reply), 401);
}

TEST(tokens_come_from_a_file)
{
    char path[] = "/tmp/seckill-tokens-XXXXXX", env[PATH_SIZE], out[OUTPUT_SIZE];
    struct http_reply reply;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, LINES, sizeof LINES - 1), sizeof LINES - 1);
    (void)snprintf(env, sizeof env, "SECKILL_ADMIN_TOKENS_FILE=%s", path);
    struct service *service = service_start(ENV("SECKILL_ADMIN_TOKEN", env)); // tokens come from the file alone
    ck_assert_int_eq(http_ask(service, "GET", "/admin/vouchers", READER, NULL, &reply), 200);
    ck_assert_int_eq(http_ask(service, "GET", "/admin/vouchers", ADMIN, NULL, &reply), 401);
    // With one more line no instance starts.
    ck_assert_int_eq(write(fd, "reader read another-token-0001\n", 31), 31);
    (void)close(fd);
    int code = service_run((const char *const[]){NULL},
                           ENV("SECKILL_DATABASE_URL=postgresql://nobody@127.0.0.1:1/none", env), out, sizeof out);
    ck_assert_msg(code == 2 && strstr(out, "SECKILL_ADMIN_TOKENS: line 7: the name is taken") != NULL, "%d: %s", code,
                  out);
    ck_assert_ptr_null(strstr(out, "another-token"));
    (void)unlink(path);
}

static void write_lines(const char *path, const char *lines)
{
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    (void)fputs(lines, file);
    ck_assert_int_eq(fclose(file), 0);
}

// Asks until all reactors have answered, since any of them may get the connection.
static bool all_say(const struct service *service, const char *headers, int status)
{
    struct http_reply reply;
    for (int i = 0; i < TRIES; i++) {
        if (http_ask(service, "GET", "/admin/vouchers", headers, NULL, &reply) != status)
            return false;
    }
    return true;
}

// A faulty file changes nothing. A valid one applies to all reactors at once, and removed tokens stop working.
TEST(tokens_are_read_again)
{
    char path[] = "/tmp/seckill-tokens-XXXXXX", env[PATH_SIZE];
    (void)close(mkstemp(path));
    write_lines(path, "reader read reader-token-0001\n");
    (void)snprintf(env, sizeof env, "SECKILL_ADMIN_TOKENS_FILE=%s", path);
    struct service *service = service_start(ENV("SECKILL_REACTORS=3", env));
    for (int round = 0; round < ROUNDS; round++) {
        ck_assert(all_say(service, READER, 200));
        write_lines(path, "ops operate operator-token-01\n");
        ck_assert(all_say(service, OPERATOR, 401)); // the file is not read before SIGHUP
        service_signal(service, SIGHUP);
        WAIT_FOR(all_say(service, OPERATOR, 200));
        WAIT_FOR(all_say(service, READER, 401));
        ck_assert(all_say(service, ADMIN, 200)); // the token from the environment stays
        write_lines(path, "ops operate odd-secret\n");
        service_signal(service, SIGHUP);
        service_log_must_have(service, round + 1, "cannot read the new secrets; the old ones stay");
        ck_assert(all_say(service, OPERATOR, 200));
        write_lines(path, "reader read reader-token-0001\n");
        service_signal(service, SIGHUP);
        WAIT_FOR(all_say(service, READER, 200));
        WAIT_FOR(all_say(service, OPERATOR, 401));
    }
    ck_assert_int_eq(service_log_count(service, "odd-secret"), 0);
    (void)unlink(path);
}

TEST(odd_versions)
{
    static const char *const values[] = {"1",
                                         "\"x\"",
                                         "\"1",
                                         "W/\"x\"",
                                         "\"x-gzip\"",
                                         "\"1\", \"2\"",
                                         "\"0\"",
                                         "\"-1\"",
                                         "\"\"",
                                         "",
                                         "\"1\"\r\nIf-Match: \"1\"",
                                         "*\r\nIf-Match: *"};
    struct service *service = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE], path[PATH_SIZE], headers[PATH_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    int64_t epoch = epoch_of(voucher);
    path_of(path, "/admin/vouchers/%s/reconcile", voucher);
    for (size_t i = 0; i < COUNT(values); i++) {
        (void)snprintf(headers, sizeof headers, ADMIN "If-Match: %s\r\n", values[i]);
        (void)http_ask(service, "POST", path, headers, NULL, &reply);
        ck_assert_msg(http_is_problem(&reply, 400, "BAD_REQUEST"), "%s: %s", values[i], reply.body);
    }
    ck_assert_int_eq(epoch_of(voucher), epoch);
    ck_assert_int_eq(http_ask(service, "POST", path, ADMIN "If-Match: *\r\n", NULL, &reply), 200);
    ck_assert_int_eq(http_ask(service, "GET", "/admin/vouchers", ADMIN "If-Match: x\r\n", NULL, &reply), 200);
    books_must_balance(voucher);
}

TEST(odd_queries)
{
    static const char *const queries[] = {"limit=%00",    "limit=1%00",       "limit=%", "cursor=%zz", "%=1",
                                          "x=%0d%0aY:+1", "limit=5&cursor=%", "a=%7f",   "%00",        "state=%1"};
    static const char *const paths[] = {"/vouchers", "/vouchers/1", "/orders", "/admin/vouchers"};
    struct service *service = service_start(NULL);
    char voucher[VOUCHER_ID_SIZE];
    struct http_reply reply;
    voucher_on_sale(service, STOCK, voucher);
    for (size_t i = 0; i < COUNT(queries); i++) {
        for (size_t j = 0; j < COUNT(paths); j++) {
            char path[PATH_SIZE];
            (void)snprintf(path, sizeof path, "%s?%s", paths[j], queries[i]);
            (void)http_ask(service, "GET", path, USER ADMIN, NULL, &reply);
            ck_assert_msg(http_is_problem(&reply, 422, "BAD_PARAMETER"), "%s: %s", path, reply.body);
        }
    }
    ck_assert_int_eq(http_ask(service, "GET", "/vouchers?limit=%31&", "", NULL, &reply), 200);
    ck_assert_int_eq(http_ask(service, "GET", "/vouchers?limit=%31&x=%C3%A9+%25", "", NULL, &reply), 422);
    ck_assert_int_eq(http_ask(service, "GET", "/vouchers?", "", NULL, &reply), 200);
    books_must_balance(voucher);
}

SUITE(.begin = setup, .in_one_process = true);
