// The life of an order over HTTP, on two instances: its quantity, repeats under an Idempotency-Key, and expiry, also
// while instances die and the voucher is rebuilt.
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "books.h"
#include "sales.h"
#include "service_log.h"
#include "stores.h"
#include "test.h"
#include "text.h"
#include "uuid.h"
#include "wait.h"

enum { PATH_SIZE = 96, BODY_SIZE = 512, MANY = 200, EACH = 20, LATE_MOST_MS = 15000 };

#define JSON         "Content-Type: application/json\r\n"
#define KEY(key)     "Idempotency-Key: " key "\r\n"
#define PREFER       "Prefer: respond-async\r\n"
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static struct http_reply reply;
static struct service *one, *other;
static char voucher[VOUCHER_ID_SIZE];

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void start(void)
{
    one = service_start(ENV(HASTY));
    other = service_start(ENV(HASTY));
}

static void teardown(void)
{
    service_stop_all();
}

// ---- requests ----

static void make_voucher(int stock, int limit, int pay_within_s)
{
    char body[BODY_SIZE], headers[HTTP_FIELD_SIZE], begin[SK_TIME_SIZE], end[SK_TIME_SIZE], value[HTTP_FIELD_SIZE];
    int64_t now_ms = db_number("SELECT unix_ms(now()) FROM seckill_shard WHERE number = 0");
    sk_text_put_time(now_ms - 1000, begin);
    sk_text_put_time(now_ms + 3600 * 1000, end);
    (void)snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\n" JSON, stack_admin_token);
    (void)snprintf(body, sizeof body,
                   "{\"title\":\"Test\",\"stock\":%d,\"price_cents\":100,\"begin_at\":\"%s\",\"end_at\":\"%s\","
                   "\"limit\":%d,\"pay_within_s\":%d}",
                   stock, begin, end, limit, pay_within_s);
    ck_assert_int_eq(http_ask(one, "POST", "/admin/vouchers", headers, body, &reply), 201);
    ck_assert(http_member(&reply, "id", value));
    (void)snprintf(voucher, sizeof voucher, "%.*s", VOUCHER_ID_SIZE - 1, value);
}

// `more`: further headers. `body` NULL: none.
static int buy(struct service *service, const char *user, const char *more, const char *body)
{
    char path[PATH_SIZE], headers[BODY_SIZE];
    (void)snprintf(path, sizeof path, "/seckill/%s", voucher);
    (void)snprintf(headers, sizeof headers, "X-User-Id: %s\r\n%s", user, more);
    WAIT_FOR(http_ask(service, "POST", path, headers, body, &reply) != 503); // the voucher is briefly being loaded
    return reply.status;
}

static int buy_units(struct service *service, const char *user, const char *more, int quantity)
{
    char body[BODY_SIZE], headers[BODY_SIZE];
    (void)snprintf(body, sizeof body, "{\"quantity\":%d}", quantity);
    (void)snprintf(headers, sizeof headers, JSON "%s", more);
    return buy(service, user, headers, body);
}

static void cancel(struct service *service, const char *user, const char *id)
{
    char path[PATH_SIZE], headers[HTTP_FIELD_SIZE];
    (void)snprintf(path, sizeof path, "/orders/%s/cancel", id);
    (void)snprintf(headers, sizeof headers, "X-User-Id: %s\r\n", user);
    WAIT_FOR(http_ask(service, "POST", path, headers, NULL, &reply) != 503);
    ck_assert_msg(reply.status == 200, "%s", reply.body);
}

// ---- answers ----

static void take_id(char id[ORDER_ID_SIZE])
{
    char value[HTTP_FIELD_SIZE], location[HTTP_FIELD_SIZE], path[HTTP_FIELD_SIZE];
    ck_assert_msg(http_member(&reply, "id", value), "%s", reply.body);
    ck_assert_uint_lt(strlen(value), ORDER_ID_SIZE);
    (void)snprintf(id, ORDER_ID_SIZE, "%.*s", ORDER_ID_SIZE - 1, value);
    (void)snprintf(path, sizeof path, "/orders/%s", id);
    ck_assert(http_header(&reply, "Location", location));
    ck_assert_str_eq(location, path);
}

static void must_have_member(const char *name, const char *value)
{
    char found[HTTP_FIELD_SIZE];
    (void)http_member(&reply, name, found);
    ck_assert_msg(strcmp(found, value) == 0, "%s is '%s' instead of '%s': %s", name, found, value, reply.body);
}

// The last answer must be this order. `order_status` NULL: either the status of its first answer or its current one.
static void must_answer(int status, const char *id, const char *quantity, const char *order_status)
{
    char found[ORDER_ID_SIZE];
    ck_assert_msg(reply.status == status, "%s %s", reply.text, reply.body);
    take_id(found);
    ck_assert_str_eq(found, id);
    must_have_member("quantity", quantity);
    if (order_status != NULL)
        must_have_member("status", order_status);
}

// -1: the stores disagree at the moment.
static int64_t units_left(void)
{
    int64_t left = redis_number("HGET seckill:{%s}:voucher stock", voucher);
    return db_number("SELECT stock FROM voucher_stock WHERE voucher_id = %s", voucher) == left ? left : -1;
}

// How many orders of the voucher have this status.
static int64_t orders_that_are(const char *status)
{
    return db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s AND status = '%s'", voucher, status);
}

static void must_have_expired_once(int count)
{
    ck_assert_int_eq(orders_that_are("expired"), count);
    ck_assert_int_eq(db_number("SELECT count(*) FROM order_event WHERE voucher_id = %s AND status = 'expired'"
                               " AND by_whom = 'expiry'",
                               voucher),
                     count);
    ck_assert_int_eq(db_number("SELECT count(DISTINCT order_id) FROM order_event WHERE voucher_id = %s", voucher),
                     count);
}

// ---- quantity ----

TEST(an_order_may_have_several_units)
{
    char id[ORDER_ID_SIZE];
    start();
    make_voucher(7, 3, 900);
    ck_assert_int_eq(buy_units(one, "alice", "", 3), 201);
    take_id(id);
    must_have_member("quantity", "3");
    ck_assert_int_eq(buy(other, "bob", "", NULL), 201);
    must_have_member("quantity", "1");
    ck_assert_int_eq(buy(other, "carol", "", ""), 201); // an empty body counts as none
    must_have_member("quantity", "1");
    ck_assert_int_eq(buy_units(other, "alice", "", 1), 409); // one order per user, whatever its quantity
    http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
    must_have_member("order_id", id);
    ck_assert_int_eq(units_left(), 2);
    cancel(other, "alice", id);
    WAIT_FOR(units_left() == 5);
    books_must_balance(voucher);
}

TEST(an_order_gets_all_its_units_or_none)
{
    start();
    make_voucher(5, 4, 900);
    ck_assert_int_eq(buy_units(one, "alice", "", 3), 201);
    for (int i = 0; i < 4; i++) {
        (void)buy_units(i % 2 == 0 ? one : other, "bob", "", 3);
        http_must_be_problem(&reply, 409, "NOT_ENOUGH");
        must_have_member("left", "2");
    }
    ck_assert_int_eq(units_left(), 2);
    ck_assert_int_eq(buy_units(one, "bob", "", 2), 201); // the sold-out refusal is not cached
    (void)buy_units(other, "carol", "", 2);
    http_must_be_problem(&reply, 409, "SOLD_OUT");
    ck_assert_int_eq(units_left(), 0);
    books_must_balance(voucher);
}

// What is no JSON object of these members is in test_terms.c.
TEST(what_is_no_quantity_changes_nothing)
{
    static const struct {
        const char *headers, *body, *code;
        int status;
    } rows[] = {
        {JSON, "{\"quantity\":4}", "INVALID", 422},
        {JSON, "{\"quantity\":0}", "INVALID", 422},
        {JSON, "{\"quantity\":-1}", "INVALID", 422},
        {JSON, "{\"quantity\":1.0}", "INVALID", 422},
        {JSON, "{\"quantity\":\"1\"}", "INVALID", 422},
        {JSON, "{\"quantity\":null}", "INVALID", 422},
        {JSON, "{\"quantity\":1000}", "INVALID", 422},
        {JSON, "{\"quantity\":65537}", "INVALID", 422}, // becomes 1 if cut to 16 bits
        {JSON, "{\"quantity\":2147483648}", "INVALID", 422},
        {JSON, "{\"quantity\":4294967297}", "INVALID", 422},
        {JSON, "{\"quantity\":9223372036854775808}", "BAD_JSON", 400},
        {JSON, "null", "BAD_JSON", 400},
        {JSON, "[]", "BAD_JSON", 400},
        {JSON, "[1]", "BAD_JSON", 400},
        {JSON, "{\"amount\":1}", "BAD_JSON", 400},
        {JSON, "quantity=1", "BAD_JSON", 400},
        {"Content-Type: text/plain\r\n", "{\"quantity\":1}", "UNSUPPORTED_MEDIA_TYPE", 415},
        {JSON "Content-Encoding: gzip\r\n", "\x1f\x8b", "UNSUPPORTED_ENCODING", 415},
        {JSON "Content-Encoding: gzip\r\nContent-Encoding: identity\r\n", "{}", "UNSUPPORTED_ENCODING", 415},
        {"", "{\"quantity\":1}", "UNSUPPORTED_MEDIA_TYPE", 415},
    };
    start();
    make_voucher(10, 3, 900);
    ck_assert_int_eq(buy(one, "bob", "", NULL), 201);
    for (size_t i = 0; i < COUNT(rows); i++) {
        (void)buy(i % 2 == 0 ? one : other, "alice", rows[i].headers, rows[i].body);
        http_must_be_problem(&reply, rows[i].status, rows[i].code);
        ck_assert_int_eq(strstr(reply.body, "\"errors\":[{") != NULL, rows[i].status != 415);
        ck_assert(rows[i].status != 422 || strstr(reply.body, "\"pointer\":\"/quantity\"") != NULL);
    }
    ck_assert_int_eq(units_left(), 9);
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s", voucher), 1);
    ck_assert_int_eq(buy_units(one, "alice", "", 3), 201);                                   // the largest
    ck_assert_int_eq(buy(other, "carol", JSON "Content-Encoding: Identity\r\n", "{}"), 201); // as without a body
    must_have_member("quantity", "1");
    ck_assert_int_eq(units_left(), 5);
    books_must_balance(voucher);
}

// ---- an order's document ----

// The order in this JSON value.
static void must_show(const json_t *order, const char *id, int64_t pay_within_ms)
{
    int64_t created_ms, expires_ms;
    ck_assert_str_eq(json_string_value(json_object_get(order, "id")), id);
    ck_assert_int_eq(json_integer_value(json_object_get(order, "quantity")), 2);
    ck_assert(sk_text_time(json_string_value(json_object_get(order, "created_at")), &created_ms));
    ck_assert_int_eq(created_ms, db_number("SELECT unix_ms(created_at) FROM voucher_order WHERE id = '%s'", id));
    if (pay_within_ms == 0) {
        ck_assert_ptr_null(json_object_get(order, "expires_at"));
        return;
    }
    ck_assert(sk_text_time(json_string_value(json_object_get(order, "expires_at")), &expires_ms));
    ck_assert_int_eq(expires_ms - created_ms, pay_within_ms);
}

// `list` NULL: the document is the order.
static void must_show_in(const char *path, const char *headers, const char *list, const char *id, int64_t pay_within_ms)
{
    if (path != NULL)
        ck_assert_int_eq(http_ask(other, "GET", path, headers, NULL, &reply), 200);
    json_t *json = json_loads(reply.body, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(json != NULL, "%s", reply.body);
    must_show(list == NULL ? json : json_array_get(json_object_get(json, list), 0), id, pay_within_ms);
    json_decref(json);
}

TEST(every_order_says_when_it_expires)
{
    start();
    for (int i = 0; i < 2; i++) {
        char id[ORDER_ID_SIZE], path[PATH_SIZE], user[HTTP_FIELD_SIZE], admin[HTTP_FIELD_SIZE];
        int64_t within_ms = i == 0 ? 900 * 1000 : 0; // the order never expires
        (void)snprintf(user, sizeof user, "X-User-Id: shown-%d\r\n", i);
        (void)snprintf(admin, sizeof admin, "Authorization: Bearer %s\r\n", stack_admin_token);
        make_voucher(10, 3, i == 0 ? 900 : 0);
        ck_assert_int_eq(buy_units(one, i == 0 ? "shown-0" : "shown-1", KEY("k"), 2), 201);
        take_id(id);
        must_show_in(NULL, NULL, NULL, id, within_ms);
        ck_assert_int_eq(buy_units(other, i == 0 ? "shown-0" : "shown-1", KEY("k"), 2), 201);
        must_show_in(NULL, NULL, NULL, id, within_ms);
        (void)snprintf(path, sizeof path, "/orders/%s", id);
        must_show_in(path, user, NULL, id, within_ms);
        must_show_in(path, admin, NULL, id, within_ms);
        must_show_in("/orders", user, "orders", id, within_ms);
        (void)snprintf(path, sizeof path, "/admin/orders?voucher=%s", voucher);
        must_show_in(path, admin, "orders", id, within_ms);
        books_must_balance(voucher);
    }
}

// ---- Idempotency-Key ----

TEST(the_same_key_gets_the_first_answer)
{
    char id[ORDER_ID_SIZE], bobs[ORDER_ID_SIZE], created[HTTP_FIELD_SIZE];
    start();
    make_voucher(10, 3, 900);
    ck_assert_int_eq(buy_units(one, "alice", KEY("k-1"), 2), 201);
    take_id(id);
    ck_assert(http_member(&reply, "created_at", created));
    for (int i = 0; i < 4; i++) {
        // A string of structured fields is the same key without its quotes.
        (void)buy_units(i % 2 == 0 ? other : one, "alice", i < 2 ? KEY("k-1") : KEY("\"k-1\""), 2);
        must_answer(201, id, "2", "unpaid");
        must_have_member("created_at", created);
        must_have_member("user_id", "alice");
        must_have_member("voucher_id", voucher);
        (void)buy_units(i % 2 == 0 ? other : one, "alice", KEY("k-1"), 1);
        http_must_be_problem(&reply, 422, "IDEMPOTENCY_KEY_REUSED");
        (void)buy_units(i % 2 == 0 ? other : one, "alice", i < 2 ? KEY("k-2") : "", 2);
        http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
        must_have_member("order_id", id);
    }
    (void)buy(other, "alice", KEY("k-1"), NULL); // one unit, without a body
    http_must_be_problem(&reply, 422, "IDEMPOTENCY_KEY_REUSED");
    (void)buy(other, "carol", KEY("a b"), NULL); // test_vouchers.c has all that is no key
    http_must_be_problem(&reply, 422, "BAD_IDEMPOTENCY_KEY");
    // A key belongs to its user and its URL.
    ck_assert_int_eq(buy_units(other, "bob", KEY("k-1"), 1), 201);
    take_id(bobs);
    ck_assert_str_ne(bobs, id);
    books_must_balance(voucher);
    make_voucher(10, 3, 900);
    ck_assert_int_eq(buy_units(other, "alice", KEY("k-1"), 3), 201);
    take_id(bobs);
    ck_assert_str_ne(bobs, id);
    books_must_balance(voucher);
}

// ---- as many orders as a user may have ----

// Buys under a new key, then cancels the order.
static void buy_and_cancel(const char *user, int n, char id[ORDER_ID_SIZE])
{
    char key[HTTP_FIELD_SIZE];
    (void)snprintf(key, sizeof key, "Idempotency-Key: %s-%d\r\n", user, n);
    ck_assert_int_eq(buy(n % 2 == 0 ? one : other, user, key, NULL), 201);
    take_id(id);
    cancel(n % 2 == 0 ? other : one, user, id);
}

TEST(orders_of_a_user_are_bounded)
{
    enum { MOST = 3 }; // the default
    char ids[MOST + 1][ORDER_ID_SIZE], bobs[ORDER_ID_SIZE];
    start();
    make_voucher(MOST, 1, 900);
    for (int i = 0; i < MOST; i++)
        buy_and_cancel("alice", i, ids[i]);
    ck_assert_int_eq(redis_number("HGET seckill:{%s}:ended alice", voucher), MOST);
    ck_assert_int_eq(redis_number("HLEN seckill:{%s}:repeats", voucher), MOST);
    buy_and_cancel("bob", 1, bobs); // other users are not affected
    for (int i = 0; i < 8; i++) {
        struct service *asked = i % 2 == 0 ? one : other;
        (void)buy(asked, "alice", i % 4 < 2 ? "" : KEY("another"), NULL);
        http_must_be_problem(&reply, 409, "TOO_MANY_ORDERS");
        (void)buy(asked, "alice", KEY("alice-1"), NULL); // a repeat stays a repeat
        must_answer(201, ids[1], "1", NULL);
        if (i == 3) {
            WAIT_FOR(sales_admin(one, "POST", voucher, "/reconcile", &reply) == 200);
            ck_assert_int_eq(redis_number("HLEN seckill:{%s}:ended", voucher), 1); // only users at the bound are listed
        }
    }
    ck_assert_int_eq(buy(one, "bob", "", NULL), 201);
    make_voucher(1, 1, 900); // another voucher is not affected
    buy_and_cancel("alice", 0, ids[MOST]);
}

TEST(the_same_key_waits_with_its_order)
{
    char id[ORDER_ID_SIZE];
    start();
    make_voucher(10, 3, 900);
    ck_assert_int_eq(buy(one, "bob", "", NULL), 201); // it is loaded
    db_hold_orders();
    (void)buy_units(one, "alice", KEY("k") PREFER, 2);
    ck_assert_int_eq(reply.status, 202);
    take_id(id);
    for (int i = 0; i < 2; i++) {
        (void)buy_units(i == 0 ? one : other, "alice", KEY("k"), 2);
        must_answer(202, id, "2", "pending");
        (void)buy_units(i == 0 ? one : other, "alice", KEY("k"), 3);
        http_must_be_problem(&reply, 422, "IDEMPOTENCY_KEY_REUSED");
        (void)buy_units(i == 0 ? one : other, "alice", "", 2);
        http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
    }
    db_let_orders_go();
    WAIT_FOR(buy_units(other, "alice", KEY("k"), 2) == 201);
    must_answer(201, id, "2", "unpaid");
    books_must_balance(voucher);
}

// Also after a sell-out in between, and after a rebuild.
TEST(the_same_key_gets_the_first_answer_after_a_cancel)
{
    char id[ORDER_ID_SIZE], next[ORDER_ID_SIZE];
    start();
    make_voucher(2, 2, 900);
    ck_assert_int_eq(buy_units(one, "alice", KEY("k-1"), 2), 201);
    take_id(id);
    cancel(other, "alice", id);
    (void)buy_units(other, "alice", KEY("k-1"), 2);
    must_answer(201, id, "2", NULL);
    WAIT_FOR(buy_units(one, "bob", "", 2) == 201);
    for (int i = 0; i < 6; i++) {
        struct service *asked = i % 2 == 0 ? one : other;
        (void)buy_units(asked, "carol", KEY("k-1"), 2); // the instances cache that all is sold out
        http_must_be_problem(&reply, 409, "SOLD_OUT");
        (void)buy_units(asked, "alice", KEY("k-1"), 2);
        must_answer(201, id, "2", NULL);
        (void)buy_units(asked, "alice", KEY("k-1"), 1);
        http_must_be_problem(&reply, 422, "IDEMPOTENCY_KEY_REUSED");
        if (i == 3)
            WAIT_FOR(sales_admin(one, "POST", voucher, "/reconcile", &reply) == 200);
    }
    (void)buy_units(one, "alice", "", 2);
    http_must_be_problem(&reply, 409, "SOLD_OUT");
    db_text(next, sizeof next, "SELECT id FROM voucher_order WHERE user_id = 'bob' AND voucher_id = %s", voucher);
    cancel(one, "bob", next);
    WAIT_FOR(buy_units(other, "alice", KEY("k-2"), 1) == 201); // another key makes another order
    take_id(next);
    ck_assert_str_ne(next, id);
    for (int i = 0; i < 4; i++) { // each key keeps its order, live or ended
        (void)buy_units(i % 2 == 0 ? one : other, "alice", KEY("k-1"), 2);
        must_answer(201, id, "2", NULL);
        (void)buy_units(i % 2 == 0 ? one : other, "alice", KEY("k-2"), 1);
        must_answer(201, next, "1", "unpaid");
        (void)buy_units(i % 2 == 0 ? one : other, "alice", KEY("k-2"), 2);
        http_must_be_problem(&reply, 422, "IDEMPOTENCY_KEY_REUSED");
        if (i == 1)
            WAIT_FOR(sales_admin(one, "POST", voucher, "/reconcile", &reply) == 200);
    }
    books_must_balance(voucher);
}

// ---- expiry ----

TEST(an_expired_unit_sells_again_on_every_instance)
{
    char id[ORDER_ID_SIZE], bobs[ORDER_ID_SIZE];
    start();
    make_voucher(2, 2, 2);
    ck_assert_int_eq(buy_units(one, "alice", KEY("k"), 2), 201);
    take_id(id);
    for (int i = 0; i < 2; i++) { // both instances have seen it sold out
        (void)buy_units(i == 0 ? one : other, "bob", "", 1);
        http_must_be_problem(&reply, 409, "SOLD_OUT");
    }
    WAIT_FOR(sales_order_is(other, id, "alice", "expired"));
    WAIT_FOR(buy_units(other, "bob", "", 2) != 409);
    ck_assert_int_eq(reply.status, 201);
    take_id(bobs);
    // A generous limit: the benchmarks measure how long it takes.
    ck_assert_int_le(db_number("SELECT unix_ms(e.at) - unix_ms(o.created_at) - 2000 FROM order_event e"
                               " JOIN voucher_order o ON o.id = e.order_id WHERE o.id = '%s'",
                               id),
                     LATE_MOST_MS);
    ck_assert_int_ge(db_number("SELECT unix_ms(e.at) - unix_ms(o.created_at) - 2000 FROM order_event e"
                               " JOIN voucher_order o ON o.id = e.order_id WHERE o.id = '%s'",
                               id),
                     0);
    (void)buy_units(one, "alice", KEY("k"), 2); // her first answer
    must_answer(201, id, "2", NULL);
    cancel(one, "bob", bobs);
    WAIT_FOR(buy_units(one, "alice", "", 1) == 201); // and she may buy again
    take_id(bobs);
    ck_assert_str_ne(bobs, id);
    books_must_balance(voucher);
}

TEST(a_paid_order_does_not_expire)
{
    char id[ORDER_ID_SIZE], bobs[ORDER_ID_SIZE], path[PATH_SIZE], headers[HTTP_FIELD_SIZE];
    start();
    make_voucher(5, 2, 1);
    ck_assert_int_eq(buy_units(one, "alice", "", 2), 201);
    take_id(id);
    (void)snprintf(path, sizeof path, "/orders/%s/pay", id);
    (void)snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\n" JSON, stack_admin_token);
    (void)http_ask(other, "POST", path, headers, "{\"reference\":\"life-1\",\"amount_cents\":200,\"currency\":\"CNY\"}",
                   &reply);
    ck_assert_msg(reply.status == 200, "%s", reply.body);
    must_have_member("status", "paid");
    ck_assert_int_eq(buy(one, "bob", "", NULL), 201);
    take_id(bobs);
    WAIT_FOR(sales_order_is(other, bobs, "bob", "expired"));
    ck_assert(sales_order_is(other, id, "alice", "paid"));
    WAIT_FOR(units_left() == 3);
    books_must_balance(voucher);
}

static void buy_many(struct service *service, int first, int count)
{
    for (int i = first; i < first + count; i++) {
        char user[32];
        (void)snprintf(user, sizeof user, "user-%d", i);
        (void)buy_units(service, user, i % 2 == 0 ? KEY("k") : "", 1 + i % 3);
        ck_assert_msg(reply.status == 201, "%s", reply.body);
    }
}

// The instance that lets the voucher's orders expire: it holds the lock, whose value begins with its session id.
static struct service *find_holder(void)
{
    char lock[HTTP_FIELD_SIZE];
    WAIT_FOR(redis_number("XLEN seckill:{%s}:journal", voucher) > 0 &&
             redis_text(lock, sizeof lock, "GET seckill:lock:expire:{%s}", voucher));
    lock[SK_UUID_CHARS] = '\0';
    bool is_one = service_log_count(one, lock) > 0;
    ck_assert_int_ne(is_one, service_log_count(other, lock) > 0);
    return is_one ? one : other;
}

// Its batch is in the journal and was sent to PostgreSQL, which may or may not execute it.
TEST(when_the_holder_dies_another_goes_on)
{
    start();
    make_voucher(1000, 3, 2);
    buy_many(one, 0, EACH);
    db_hold_orders();
    struct service *holder = find_holder();
    service_kill(holder);
    db_let_orders_go();
    buy_many(holder == one ? other : one, EACH, EACH);
    WAIT_FOR(orders_that_are("expired") == 2 * EACH);
    must_have_expired_once(2 * EACH);
    WAIT_FOR(units_left() == 1000);
    books_must_balance(voucher);
}

TEST(orders_expire_once_while_the_voucher_is_rebuilt)
{
    int rebuilds = 0;
    start();
    make_voucher(1000, 3, 1);
    for (int i = 0; i < MANY; i += EACH / 2) {
        buy_many(i % EACH == 0 ? one : other, i, EACH / 2);
        rebuilds += sales_admin(i % EACH == 0 ? other : one, "POST", voucher, "/reconcile", &reply) == 200;
    }
    uint64_t until_ms = sk_monotonic_ms() + 2 * WAIT_DEADLINE_MS;
    while (orders_that_are("expired") < MANY) {
        ck_assert_msg(sk_monotonic_ms() < until_ms, "%d have expired", (int)orders_that_are("expired"));
        rebuilds += sales_admin(one, "POST", voucher, "/reconcile", &reply) == 200;
    }
    ck_assert_int_gt(rebuilds, 0);
    must_have_expired_once(MANY);
    books_must_balance(voucher);
    ck_assert_int_eq(units_left(), 1000);
}

SUITE(.timeout_s = 120, .begin = setup, .teardown = teardown, .in_one_process = true);
