// Operators change a voucher that is on sale through one instance, while buyers use another one; and the instance dies
// in the middle of a change.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "books.h"
#include "http.h"
#include "sales.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

#define ADMIN "Authorization: Bearer admin-token-of-the-tests\r\n"
#define JSON  "Content-Type: application/json\r\n"

enum { HEADERS_SIZE = 512, PATH_SIZE = 96, TEXT_SIZE = 64, WITHIN_MS = 1000 };

static struct service *ours, *other;
static char voucher[VOUCHER_ID_SIZE];

static void start(void)
{
    stack_start(STACK_ALL);
}

static void setup(void)
{
    ours = service_start(ENV(HASTY));
    other = service_start(ENV(HASTY));
}

static void put_on_sale(int stock)
{
    voucher_on_sale(ours, stock, voucher);
}

// ---- calls ----

static int operate_on(struct service *service, const char *method, const char *what, const char *headers,
                      const char *body, struct http_reply *reply)
{
    char all[HEADERS_SIZE], path[PATH_SIZE];
    (void)snprintf(all, sizeof all, ADMIN "%s%s", body == NULL ? "" : JSON, headers);
    (void)snprintf(path, sizeof path, "/admin/vouchers/%s%s", voucher, what);
    return http_ask(service, method, path, all, body, reply);
}

static void member_must_be(const struct http_reply *reply, const char *name, const char *value)
{
    char found[HTTP_FIELD_SIZE];
    (void)http_member(reply, name, found);
    ck_assert_msg(strcmp(found, value) == 0, "%s is '%s', not '%s': %s", name, found, value, reply->body);
}

// The answer must be 200 with the voucher as PostgreSQL has it, and its ETag; returns the version.
static int64_t must_be_done(const struct http_reply *reply)
{
    char version[HTTP_FIELD_SIZE], tag[HTTP_FIELD_SIZE], expected[HTTP_FIELD_SIZE + 4];
    ck_assert_msg(reply->status == 200, "not 200 but %d: %s", reply->status, reply->body);
    member_must_be(reply, "id", voucher);
    ck_assert(http_member(reply, "version", version));
    ck_assert(http_header(reply, "ETag", tag));
    (void)snprintf(expected, sizeof expected, "\"%s\"", version);
    ck_assert_str_eq(tag, expected);
    ck_assert_int_eq(strtoll(version, NULL, 10),
                     db_number("SELECT change FROM seckill_voucher WHERE id = %s", voucher));
    return strtoll(version, NULL, 10);
}

static int64_t must_do(const char *what, const char *body)
{
    struct http_reply reply;
    (void)operate_on(ours, "POST", what, "", body, &reply);
    return must_be_done(&reply);
}

static int64_t must_change(const char *body)
{
    struct http_reply reply;
    (void)operate_on(ours, "PATCH", "", "", body, &reply);
    return must_be_done(&reply);
}

static int64_t redis_field(const char *field)
{
    return redis_number("HGET seckill:{%s}:voucher %s", voucher, field);
}

static void redis_must_have(int64_t stock, int64_t change)
{
    ck_assert_int_eq(redis_field("stock"), stock);
    ck_assert_int_eq(redis_field("change"), change);
}

static bool buys(struct service *service, const char *user)
{
    struct http_reply reply;
    int status = http_buy(service, voucher, user, &reply);
    ck_assert_msg(status == 201 || status == 409 || status == 503, "%d: %s", status, reply.body);
    return status == 201;
}

// Users <name>0, <name>1 ... buy until `most` have succeeded or the time is over; returns how many did. After units
// return nobody can buy for a moment, so that winners are not refused from memory.
static int buy_all(struct service *service, const char *name, int most)
{
    char user[TEXT_SIZE];
    int n = 0;
    uint64_t until_ms = sk_monotonic_ms() + WITHIN_MS;
    while (n < most && sk_monotonic_ms() < until_ms) {
        (void)snprintf(user, sizeof user, "%s%d", name, n);
        n += buys(service, user);
    }
    return n;
}

// ---- states ----

TEST(a_pause_counts_on_every_instance)
{
    struct http_reply reply;
    put_on_sale(5);
    http_must_buy(other, voucher, "alice");
    int64_t change = must_do("/pause", NULL);
    ck_assert(redis_field("change") == change);
    (void)http_buy(other, voucher, "bob", &reply); // at once, since Redis has the change
    http_must_be_problem(&reply, 409, "PAUSED");
    (void)http_buy(other, voucher, "alice", &reply); // P6
    http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
    ck_assert_int_eq(must_do("/pause", NULL), change); // already in effect
    ck_assert(must_do("/resume", NULL) > change);
    uint64_t since_ms = sk_monotonic_ms();
    WAIT_FOR(buys(other, "bob"));
    ck_assert_uint_lt(sk_monotonic_ms() - since_ms, WITHIN_MS);
    books_must_balance(voucher);
    ck_assert_int_eq(db_number("SELECT count(*) FROM admin_event WHERE voucher_id = %s AND by_whom = 'admin'"
                               " AND what IN ('created', 'paused', 'resumed')",
                               voucher),
                     3);
}

TEST(closed_early_stays_closed)
{
    struct http_reply reply;
    put_on_sale(5);
    http_must_buy(other, voucher, "alice");
    (void)must_do("/close", NULL);
    (void)http_buy(other, voucher, "bob", &reply);
    http_must_be_problem(&reply, 409, "ENDED");
    (void)http_buy(other, voucher, "alice", &reply); // P6
    http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
    static const char *const calls[][2] = {
        {"/resume", NULL}, {"/pause", NULL}, {"/stock", "{\"add\":1}"}, {"/stock", "{\"reduce\":1}"}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        (void)operate_on(ours, "POST", calls[i][0], "", calls[i][1], &reply);
        http_must_be_problem(&reply, 409, "WRONG_STATE");
        member_must_be(&reply, "state", "closed");
    }
    (void)operate_on(ours, "PATCH", "", "", "{\"title\":\"T\"}", &reply);
    http_must_be_problem(&reply, 409, "WRONG_STATE");
    (void)must_do("/close", NULL);
    books_must_balance(voucher);
}

// ---- terms ----

TEST(terms_change_before_the_start)
{
    struct voucher_terms terms = {.stock = 3, .begin_in_s = 600, .end_in_s = 1200};
    struct http_reply reply;
    voucher_make(ours, &terms, voucher);
    (void)http_buy(other, voucher, "alice", &reply);
    http_must_be_problem(&reply, 409, "NOT_STARTED");
    (void)operate_on(ours, "PATCH", "", "",
                     "{\"title\":\"New\",\"price_cents\":7,\"limit\":2,\"pay_within_s\":60,\"currency\":\"EUR\"}",
                     &reply);
    (void)must_be_done(&reply);
    member_must_be(&reply, "title", "New");
    member_must_be(&reply, "price_cents", "7");
    member_must_be(&reply, "limit", "2");
    member_must_be(&reply, "pay_within_s", "60");
    member_must_be(&reply, "currency", "EUR");
    (void)operate_on(ours, "PATCH", "", "", "{\"end_at\":\"2020-01-01T00:00:00Z\"}", &reply);
    http_must_be_problem(&reply, 422, "INVALID");
    (void)operate_on(ours, "PATCH", "", "", "{\"begin_at\":\"2999-01-01T00:00:00Z\"}", &reply); // with the end it has
    http_must_be_problem(&reply, 422, "INVALID");
    ck_assert_ptr_nonnull(strstr(reply.body, "\"errors\":[{\"pointer\":\"/end_at\",\"detail\":"));
    (void)must_change("{\"begin_at\":\"2020-01-01T00:00:00Z\"}"); // starts the sale now
    WAIT_FOR(buys(other, "alice"));
    books_must_balance(voucher);
}

// It has just read the catalogue, for a voucher that it did not know. Without notifications it reads again a second
// later.
TEST(an_instance_that_is_behind_tells_no_old_time_to_pay)
{
    struct voucher_terms terms = {.stock = 3, .begin_in_s = 600, .end_in_s = 1200};
    struct http_reply reply;
    char created[HTTP_FIELD_SIZE], expires[HTTP_FIELD_SIZE];
    sales_stop_notifying();
    voucher_make(ours, &terms, voucher);
    (void)http_buy(other, voucher, "alice", &reply);
    http_must_be_problem(&reply, 409, "NOT_STARTED");
    (void)must_change("{\"pay_within_s\":60,\"begin_at\":\"2020-01-01T00:00:00Z\"}");
    WAIT_FOR(http_buy(other, voucher, "alice", &reply) == 201);
    sales_notify_again();
    ck_assert(http_member(&reply, "created_at", created) && http_member(&reply, "expires_at", expires));
    ck_assert_int_eq(db_number("SELECT (timestamptz '%s' - interval '60 s' = '%s')::int", expires, created), 1);
    books_must_balance(voucher);
}

TEST(after_the_start_it_may_be_extended)
{
    static const char *const refused[] = {
        "{\"price_cents\":1}",
        "{\"limit\":5}",
        "{\"pay_within_s\":1}",
        "{\"currency\":\"EUR\"}",
        "{\"begin_at\":\"2119-01-01T00:00:00Z\",\"end_at\":\"2120-01-01T00:00:00Z\"}",
        "{\"end_at\":\"2021-01-01T00:00:00Z\",\"allow_past\":true}",
    };
    struct voucher_terms terms = {.stock = 3, .begin_in_s = -10, .end_in_s = 1};
    struct http_reply reply;
    voucher_make(ours, &terms, voucher);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        (void)operate_on(ours, "PATCH", "", "", refused[i], &reply);
        http_must_be_problem(&reply, 409, "STARTED");
    }
    WAIT_FOR(db_number("SELECT (end_at < clock_timestamp())::int FROM seckill_voucher WHERE id = %s", voucher) == 1);
    (void)http_buy_patiently(other, voucher, "alice", &reply);
    http_must_be_problem(&reply, 409, "ENDED");
    (void)must_change("{\"end_at\":\"2120-01-01T00:00:00Z\",\"price_cents\":100}"); // the price is unchanged
    uint64_t since_ms = sk_monotonic_ms();
    WAIT_FOR(buys(other, "alice"));
    ck_assert_uint_lt(sk_monotonic_ms() - since_ms, WITHIN_MS);
    books_must_balance(voucher);
}

// ---- stock ----

TEST(what_is_added_sells_and_no_more)
{
    put_on_sale(2);
    ck_assert_int_eq(buy_all(other, "a", 5), 2); // sold out, and instances refuse from memory
    int64_t change = must_do("/stock", "{\"add\":3}");
    redis_must_have(3, change);
    uint64_t since_ms = sk_monotonic_ms();
    WAIT_FOR(buys(other, "b"));
    ck_assert_uint_lt(sk_monotonic_ms() - since_ms, WITHIN_MS);
    ck_assert_int_eq(buy_all(other, "c", 5), 2);
    ck_assert_int_eq(db_number("SELECT units FROM voucher_stock WHERE voucher_id = %s", voucher), 5);
    books_must_balance(voucher);
}

TEST(what_is_reduced_is_not_sold)
{
    struct http_reply reply;
    put_on_sale(5);
    http_must_buy(other, voucher, "alice");
    http_must_buy(other, voucher, "bob");
    (void)operate_on(ours, "POST", "/stock", "", "{\"reduce\":4}", &reply);
    http_must_be_problem(&reply, 409, "BELOW_SOLD");
    member_must_be(&reply, "left", "3");
    ck_assert_int_eq(redis_field("stock"), 3);
    int64_t change = must_do("/stock", "{\"reduce\":2}");
    redis_must_have(1, change);
    ck_assert_int_eq(buy_all(other, "c", 5), 1);
    (void)operate_on(ours, "POST", "/stock", "", "{\"reduce\":1}", &reply);
    http_must_be_problem(&reply, 409, "BELOW_SOLD");
    member_must_be(&reply, "left", "0");
    ck_assert_int_eq(db_number("SELECT units FROM voucher_stock WHERE voucher_id = %s", voucher), 3);
    books_must_balance(voucher);
}

TEST(what_no_body_may_say)
{
    static const struct {
        const char *method, *what, *body;
        int status;
        const char *code;
    } rows[] = {
        {"POST", "/stock", "{}", 422, "INVALID"},
        {"POST", "/stock", "{\"add\":0}", 422, "INVALID"},
        {"POST", "/stock", "{\"add\":-1}", 422, "INVALID"},
        {"POST", "/stock", "{\"add\":2147483648}", 422, "INVALID"},
        {"POST", "/stock", "{\"add\":1.5}", 422, "INVALID"},
        {"POST", "/stock", "{\"add\":\"1\"}", 422, "INVALID"},
        {"POST", "/stock", "{\"add\":1,\"reduce\":1}", 422, "INVALID"},
        {"POST", "/stock", "{\"set\":1}", 400, "BAD_JSON"},
        {"POST", "/stock", "", 400, "BAD_JSON"},
        {"POST", "/stock", "{\"add\":100000000}", 422, "INVALID"}, // too many with the existing units
        {"PATCH", "", "{\"stock\":1}", 422, "INVALID"},
        {"PATCH", "", "{\"state\":\"open\"}", 400, "BAD_JSON"},
        {"PATCH", "", "{\"limit\":0}", 422, "INVALID"},
        {"PATCH", "", "[]", 400, "BAD_JSON"},
    };
    struct http_reply reply;
    put_on_sale(5);
    int64_t change = redis_field("change");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)operate_on(ours, rows[i].method, rows[i].what, "", rows[i].body, &reply);
        http_must_be_problem(&reply, rows[i].status, rows[i].code);
        ck_assert_msg(rows[i].status != 422 || strstr(reply.body, "\"errors\":[{\"pointer\":\"/") != NULL, "%s",
                      reply.body);
    }
    redis_must_have(5, change);
    (void)snprintf(voucher, sizeof voucher, "999999");
    (void)operate_on(ours, "POST", "/pause", "", NULL, &reply);
    http_must_be_problem(&reply, 404, "UNKNOWN_VOUCHER");
}

// ---- operators ----

TEST(of_two_operators_one_is_told_that_it_has_changed)
{
    struct http_reply reply;
    char match[TEXT_SIZE], rewritten[TEXT_SIZE];
    put_on_sale(5);
    int64_t seen = must_change("{\"title\":\"seen by both\"}");
    (void)snprintf(match, sizeof match, "If-Match: \"%lld\"\r\n", (long long)seen);
    (void)snprintf(rewritten, sizeof rewritten, "If-Match: W/\"%lld-gzip\"\r\n", (long long)seen); // by a gateway
    (void)operate_on(ours, "POST", "/stock", rewritten, "{\"add\":1}", &reply);
    ck_assert_int_gt(must_be_done(&reply), seen);
    static const char *const calls[][2] = {
        {"/stock", "{\"add\":1}"}, {"/stock", "{\"reduce\":1}"}, {"/pause", NULL}, {"/close", NULL}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        (void)operate_on(other, "POST", calls[i][0], match, calls[i][1], &reply);
        http_must_be_problem(&reply, 412, "VERSION_CHANGED");
    }
    (void)operate_on(other, "PATCH", "", rewritten, "{\"title\":\"mine\"}", &reply);
    http_must_be_problem(&reply, 412, "VERSION_CHANGED");
    ck_assert_int_eq(redis_field("stock"), 6);
    books_must_balance(voucher);
}

TEST(a_call_that_is_repeated_is_done_once)
{
    static const char *const bodies[] = {"{\"add\":2}", "{\"reduce\":3}"};
    static const int64_t stocks[] = {7, 4};
    struct http_reply reply;
    put_on_sale(5);
    for (int i = 0; i < 2; i++) {
        const char *key = i == 0 ? "Idempotency-Key: a\r\n" : "Idempotency-Key: b\r\n";
        (void)operate_on(ours, "POST", "/stock", key, bodies[i], &reply);
        int64_t change = must_be_done(&reply);
        redis_must_have(stocks[i], change);
        (void)operate_on(other, "POST", "/stock", key, bodies[i], &reply);
        ck_assert_int_eq(must_be_done(&reply), change);
        redis_must_have(stocks[i], change);
        (void)operate_on(other, "POST", "/stock", key, "{\"add\":9}", &reply);
        http_must_be_problem(&reply, 422, "IDEMPOTENCY_KEY_REUSED");
        (void)operate_on(other, "POST", "/pause", key, NULL, &reply);
        http_must_be_problem(&reply, 422, "IDEMPOTENCY_KEY_REUSED");
    }
    books_must_balance(voucher);
}

// ---- changes that do not reach Redis ----

// The instance is killed after PostgreSQL's commit and before Redis has the change. Another one applies it, once.
TEST_EACH(what_a_dead_instance_left_is_carried_out, 3)
{
    static const struct {
        const char *what, *body;
        int64_t stock;
    } calls[] = {{"/stock", "{\"add\":4}", 9}, {"/close", NULL, 5}, {"/pause", NULL, 5}};
    char request[HEADERS_SIZE];
    put_on_sale(5);
    int64_t before = redis_field("change");
    const char *body = calls[_i].body == NULL ? "" : calls[_i].body;
    (void)snprintf(request, sizeof request,
                   "POST /admin/vouchers/%s%s HTTP/1.1\r\nHost: test\r\n" ADMIN JSON "Content-Length: %zu\r\n\r\n%s",
                   voucher, calls[_i].what, strlen(body), body);
    redis_pause();
    int fd = http_connect(ours);
    ck_assert(http_send_text(fd, request));
    WAIT_FOR(db_number("SELECT change FROM seckill_voucher WHERE id = %s", voucher) > before);
    service_kill(ours);
    (void)close(fd);
    redis_resume();
    int64_t change = db_number("SELECT change FROM seckill_voucher WHERE id = %s", voucher);
    WAIT_FOR(redis_field("change") == change);
    ck_assert_int_eq(redis_field("stock"), calls[_i].stock);
    books_must_balance(voucher);
    ck_assert_int_eq(redis_field("stock"), calls[_i].stock); // applied once
}

// Without notifications, too: the poll finds it within about a second, without a rebuild.
TEST(what_never_reached_redis_is_carried_out_in_about_a_second)
{
    put_on_sale(5);
    http_must_buy(ours, voucher, "alice");
    int64_t epoch = voucher_epoch(voucher);
    sales_stop_notifying();
    db_run("SELECT add_units(%s, 0, 'k1', 'test', 3)", voucher);
    db_run("SELECT set_voucher_state(%s, 0, 'k2', 'test', 'paused')", voucher);
    uint64_t since_ms = sk_monotonic_ms();
    int64_t change = db_number("SELECT change FROM seckill_voucher WHERE id = %s", voucher);
    WAIT_FOR(redis_field("change") == change);
    ck_assert_uint_lt(sk_monotonic_ms() - since_ms, 3 * WITHIN_MS); // a poll and a round of checks
    sales_notify_again();
    redis_must_have(7, change);
    ck_assert_int_eq(voucher_epoch(voucher), epoch);
    books_must_balance(voucher);
}

// A crash between Redis and PostgreSQL leaves Redis with fewer units; the audit repairs that.
TEST(units_that_were_only_taken_out_of_redis_come_back)
{
    put_on_sale(5);
    redis_run("HINCRBY seckill:{%s}:voucher stock -2", voucher);
    WAIT_FOR(redis_field("stock") == 5);
    books_must_balance(voucher);
}

TEST(terms_that_were_changed_by_hand_in_redis_are_put_right)
{
    put_on_sale(5);
    int64_t epoch = voucher_epoch(voucher);
    redis_run("HSET seckill:{%s}:voucher state closed", voucher);
    WAIT_FOR(voucher_epoch(voucher) > epoch && sales_redis_has(voucher, "open"));
    books_must_balance(voucher);
}

// While Redis is away the change is still made, and answered after a time-out.
TEST(without_redis_a_change_is_made_and_comes_later)
{
    struct http_reply reply;
    put_on_sale(5);
    redis_pause();
    (void)operate_on(ours, "POST", "/stock", "", "{\"add\":2}", &reply);
    int64_t change = must_be_done(&reply);
    (void)operate_on(ours, "POST", "/stock", "", "{\"reduce\":2}", &reply);
    ck_assert_int_eq(reply.status, 503);
    redis_resume();
    WAIT_FOR(redis_field("change") == change);
    ck_assert_int_eq(redis_field("stock"), 7);
    books_must_balance(voucher);
}

SUITE(.timeout_s = 120, .begin = start, .setup = setup, .teardown = service_stop_all, .in_one_process = true);
