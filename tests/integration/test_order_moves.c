// Moves of an order over HTTP: pay, cancel, refund. Each is repeated, and tried in a wrong state, by a wrong caller,
// while the order is pending, with a store down, and for a retired voucher. Two moves also race on two instances.
#include <check.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "books.h"
#include "sales.h"
#include "stores.h"
#include "wait.h"

enum { STOCK = 5, PATH_SIZE = 96, BODY_SIZE = 512, RACES = 40, HMAC_BLOCK = 64 };

#define MADE_UP "01a1fbe1-0c46-72f8-bdd2-587980274994"
#define CENTS   "100" // the price of the harness's vouchers
#define SECRET  "0123456789abcdef0123"
#define SIGNED  "SECKILL_PAYMENT_SECRET=" SECRET
#define SOON    "SECKILL_RETIRE_AFTER_MS=0", "SECKILL_LOCK_TTL_MS=1000"

static struct http_reply reply;
static char voucher[VOUCHER_ID_SIZE];

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void teardown(void)
{
    service_stop_all();
}

// ---- requests ----

// `who`: a user; NULL: the admin.
static int move_to(struct service *service, const char *id, const char *what, const char *who, const char *body,
                   struct http_reply *told)
{
    char path[PATH_SIZE], headers[HTTP_FIELD_SIZE];
    (void)snprintf(path, sizeof path, "/orders/%s/%s", id, what);
    (void)snprintf(headers, sizeof headers, "%s%s\r\n%s",
                   who == NULL ? "Authorization: Bearer " : "X-User-Id: ", who == NULL ? stack_admin_token : who,
                   body == NULL ? "" : "Content-Type: application/json\r\n");
    return http_ask(service, "POST", path, headers, body, told);
}

static void put_payment(char out[BODY_SIZE], const char *reference, const char *cents)
{
    (void)snprintf(out, BODY_SIZE, "{\"reference\":\"%s\",\"amount_cents\":%s,\"currency\":\"CNY\"}", reference, cents);
}

static int pay(struct service *service, const char *id, const char *reference)
{
    char body[BODY_SIZE];
    put_payment(body, reference, CENTS);
    return move_to(service, id, "pay", NULL, body, &reply);
}

static int cancel(struct service *service, const char *id, const char *user)
{
    return move_to(service, id, "cancel", user, NULL, &reply);
}

static int refund(struct service *service, const char *id, const char *body)
{
    return move_to(service, id, "refund", NULL, body, &reply);
}

// A new order of the voucher.
static void buy(struct service *service, const char *user, char id[ORDER_ID_SIZE])
{
    char value[HTTP_FIELD_SIZE];
    WAIT_FOR(http_buy(service, voucher, user, &reply) == 201);
    ck_assert(http_member(&reply, "id", value));
    (void)snprintf(id, ORDER_ID_SIZE, "%.*s", ORDER_ID_SIZE - 1, value);
}

// ---- answers ----

// Checks the order in the last answer: status, payments "reference state,...", events "status by why,...".
static void must_be_order(const char *status, const char *payments, const char *events)
{
    char told[HTTP_FIELD_SIZE * 4] = "";
    size_t i, n = 0;
    json_t *one, *order = json_loads(reply.body, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(reply.status == 200 && order != NULL, "%s %s", reply.text, reply.body);
    ck_assert_str_eq(json_string_value(json_object_get(order, "status")), status);
    json_array_foreach(json_object_get(order, "payments"), i, one) n += (size_t)snprintf(
        told + n, sizeof told - n, "%s%s %s", n == 0 ? "" : ",", json_string_value(json_object_get(one, "reference")),
        json_string_value(json_object_get(one, "state")));
    ck_assert_str_eq(told, payments);
    told[n = 0] = '\0';
    json_array_foreach(json_object_get(order, "events"), i, one)
    {
        const char *why = json_string_value(json_object_get(one, "why"));
        n += (size_t)snprintf(told + n, sizeof told - n, "%s%s %s%s%s", n == 0 ? "" : ",",
                              json_string_value(json_object_get(one, "status")),
                              json_string_value(json_object_get(one, "by")), why == NULL ? "" : " ",
                              why == NULL ? "" : why);
    }
    ck_assert_str_eq(told, events);
    json_decref(order);
}

static void must_show(struct service *service, const char *id, const char *user, const char *status,
                      const char *payments, const char *events)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "/orders/%s", id);
    ck_assert_int_eq(http_get(service, path, user, &reply), 200);
    must_be_order(status, payments, events);
}

static void must_be_wrong_state(const char *state)
{
    char value[HTTP_FIELD_SIZE];
    http_must_be_problem(&reply, 409, "WRONG_STATE");
    ck_assert(http_member(&reply, "state", value));
    ck_assert_str_eq(value, state);
}

static void must_be_pending(void)
{
    char seconds[HTTP_FIELD_SIZE];
    http_must_be_problem(&reply, 409, "PENDING");
    ck_assert(http_header(&reply, "Retry-After", seconds));
    ck_assert_str_eq(seconds, "1");
}

static int64_t stock_in_redis(void)
{
    return redis_number("HGET seckill:{%s}:voucher stock", voucher);
}

// ---- pay ----

START_TEST(an_order_is_paid_once)
{
    struct service *service = service_start(NULL), *other = service_start(NULL);
    char id[ORDER_ID_SIZE], bobs[ORDER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    buy(service, "alice", id);
    buy(service, "bob", bobs);
    for (int i = 0; i < 4; i++) {
        (void)pay(i % 2 == 0 ? service : other, id, "ref-1");
        must_be_order("paid", "ref-1 accepted", "paid admin");
    }
    must_show(other, id, "alice", "paid", "ref-1 accepted", "paid admin");
    (void)pay(other, id, "ref-2");
    http_must_be_problem(&reply, 409, "ALREADY_PAID");
    (void)pay(other, bobs, "ref-1");
    http_must_be_problem(&reply, 409, "REFERENCE_USED");
    must_show(other, bobs, "bob", "unpaid", "", "");
    (void)pay(service, MADE_UP, "ref-3");
    http_must_be_problem(&reply, 404, "NOT_FOUND");
    ck_assert_int_eq(http_buy(service, voucher, "alice", &reply), 409); // she still has the order
    http_must_be_problem(&reply, 409, "ALREADY_ORDERED");
    books_must_balance(voucher);
}
END_TEST

START_TEST(what_is_no_payment_is_refused)
{
    static const struct {
        const char *body, *code;
        int status;
    } rows[] = {
        {"{\"reference\":\"r\",\"amount_cents\":99,\"currency\":\"CNY\"}", "WRONG_AMOUNT", 422},
        {"{\"reference\":\"r\",\"amount_cents\":100,\"currency\":\"USD\"}", "WRONG_AMOUNT", 422},
        {"{\"reference\":\"r\",\"amount_cents\":0,\"currency\":\"CNY\"}", "WRONG_AMOUNT", 422},
        {"{\"reference\":\"r\",\"amount_cents\":-100,\"currency\":\"CNY\"}", "INVALID", 422},
        {"{\"reference\":\"r\",\"amount_cents\":100.0,\"currency\":\"CNY\"}", "INVALID", 422},
        {"{\"reference\":\"r\",\"amount_cents\":\"100\",\"currency\":\"CNY\"}", "INVALID", 422},
        {"{\"reference\":\"\",\"amount_cents\":100,\"currency\":\"CNY\"}", "INVALID", 422},
        {"{\"reference\":\"r\",\"amount_cents\":100}", "BAD_JSON", 400},
        {"{\"reference\":\"r\",\"amount_cents\":100,\"currency\":\"CNY\",\"x\":1}", "BAD_JSON", 400},
        {"{\"reference\":\"r\",\"reference\":\"r\",\"amount_cents\":100,\"currency\":\"CNY\"}", "BAD_JSON", 400},
        {"", "BAD_JSON", 400},
        {"[]", "BAD_JSON", 400},
    };
    struct service *service = service_start(NULL);
    char id[ORDER_ID_SIZE], path[PATH_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    buy(service, "alice", id);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)move_to(service, id, "pay", NULL, rows[i].body, &reply);
        http_must_be_problem(&reply, rows[i].status, rows[i].code);
        ck_assert_int_eq(strstr(reply.body, "\"errors\":[{") != NULL, strcmp(rows[i].code, "WRONG_AMOUNT") != 0);
    }
    (void)move_to(service, id, "pay", "alice", rows[0].body, &reply); // buyers may not pay
    http_must_be_problem(&reply, 401, "UNAUTHENTICATED");
    (void)move_to(service, "x", "pay", NULL, rows[0].body, &reply);
    http_must_be_problem(&reply, 400, "BAD_ORDER_ID");
    (void)snprintf(path, sizeof path, "/orders/%s/pay", id);
    (void)http_ask(service, "GET", path, "", NULL, &reply);
    http_must_be_problem(&reply, 401, "UNAUTHENTICATED"); // checked before the method
    must_show(service, id, "alice", "unpaid", "", "");
    ck_assert_int_eq(db_number("SELECT count(*) FROM payment WHERE voucher_id = %s", voucher), 0);
    books_must_balance(voucher);
}
END_TEST

// HMAC-SHA256, with PostgreSQL's hash.
static void sign(const char *text, char out[2 * HMAC_BLOCK])
{
    char pads[2][2 * HMAC_BLOCK + 1];
    for (int i = 0; i < HMAC_BLOCK; i++) {
        unsigned byte = i < (int)strlen(SECRET) ? (unsigned char)SECRET[i] : 0;
        (void)snprintf(&pads[0][2 * i], 3, "%02x", byte ^ 0x36);
        (void)snprintf(&pads[1][2 * i], 3, "%02x", byte ^ 0x5c);
    }
    db_text(out, 2 * HMAC_BLOCK,
            "SELECT encode(sha256('\\x%s'::bytea || sha256('\\x%s'::bytea || '%s'::bytea)), 'hex')", pads[1], pads[0],
            text);
}

START_TEST(a_payment_may_be_signed)
{
    struct service *service = service_start(ENV(SIGNED));
    char id[ORDER_ID_SIZE], path[PATH_SIZE], body[BODY_SIZE], text[BODY_SIZE * 2], signature[2 * HMAC_BLOCK],
        headers[BODY_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    buy(service, "alice", id);
    put_payment(body, "signed-1", CENTS);
    (void)snprintf(path, sizeof path, "/orders/%s/pay", id);
    (void)snprintf(text, sizeof text, "%lld.%s.%s", (long long)time(NULL), path, body);
    sign(text, signature);
    for (int i = 0; i < 3; i++) {
        signature[0] = (char)(signature[0] ^ (i == 0)); // invalid at first
        (void)snprintf(headers, sizeof headers,
                       "X-Seckill-Timestamp: %.*s\r\nX-Seckill-Signature: %s\r\nContent-Type: application/json\r\n",
                       (int)strcspn(text, "."), text, signature);
        signature[0] = (char)(signature[0] ^ (i == 0));
        (void)http_ask(service, "POST", path, headers, body, &reply);
        if (i == 0)
            http_must_be_problem(&reply, 401, "BAD_SIGNATURE");
        else
            must_be_order("paid", "signed-1 accepted", "paid payment callback");
    }
    books_must_balance(voucher);
}
END_TEST

// ---- cancel ----

START_TEST(a_cancelled_unit_can_be_bought_again)
{
    struct service *service = service_start(NULL), *other = service_start(NULL);
    char id[ORDER_ID_SIZE], next[ORDER_ID_SIZE];
    voucher_on_sale(service, 1, voucher);
    buy(service, "alice", id);
    (void)cancel(service, id, "bob");
    http_must_be_problem(&reply, 404, "NOT_FOUND");
    (void)cancel(service, MADE_UP, "alice");
    http_must_be_problem(&reply, 404, "NOT_FOUND");
    (void)move_to(service, id, "cancel", NULL, NULL, &reply); // admins own no orders
    http_must_be_problem(&reply, 401, "UNAUTHENTICATED");
    must_show(service, id, "alice", "unpaid", "", "");
    for (int i = 0; i < 3; i++) {
        (void)cancel(i == 1 ? other : service, id, "alice");
        must_be_order("cancelled", "", "cancelled user");
    }
    buy(other, "alice", next);
    ck_assert_str_ne(next, id);
    (void)cancel(service, id, "alice"); // the new order is not affected by the old one
    must_be_order("cancelled", "", "cancelled user");
    must_show(service, next, "alice", "unpaid", "", "");
    WAIT_FOR(http_buy(service, voucher, "bob", &reply) == 409);
    books_must_balance(voucher);
}
END_TEST

START_TEST(what_cannot_be_cancelled_is_told)
{
    static const char *const ends[][2] = {
        {"paid", "NULL"}, {"expired", "NULL"}, {"refused", "'GRANT_LOST'"}, {"refunded", "'KEPT'"}};
    struct service *service = service_start(NULL);
    char id[ORDER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    buy(service, "alice", id);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        db_run("UPDATE voucher_order SET status = '%s', reason = %s WHERE id = '%s'", ends[i][0], ends[i][1], id);
        (void)cancel(service, id, "alice");
        must_be_wrong_state(ends[i][0]);
    }
    db_run("UPDATE voucher_order SET status = 'unpaid', reason = NULL WHERE id = '%s'", id);
    books_must_balance(voucher);
}
END_TEST

// ---- refund ----

START_TEST(a_paid_order_is_refunded)
{
    struct service *service = service_start(NULL), *other = service_start(NULL);
    char id[ORDER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    buy(service, "alice", id);
    (void)refund(service, id, "{}");
    must_be_wrong_state("unpaid");
    (void)pay(service, id, "ref-a");
    for (int i = 0; i < 3; i++) {
        (void)refund(i == 1 ? other : service, id, i == 0 ? "{\"restock\":true,\"why\":\"broken\"}" : "{}");
        must_be_order("refunded", "ref-a refunded", "paid admin,refunded admin broken");
    }
    (void)pay(service, id, "ref-a"); // reported again
    must_be_order("refunded", "ref-a refunded", "paid admin,refunded admin broken");
    (void)cancel(service, id, "alice");
    must_be_wrong_state("refunded");
    books_must_balance(voucher);
    ck_assert_int_eq(stock_in_redis(), STOCK);
    buy(service, "alice", id);
    (void)refund(service, MADE_UP, "{}");
    http_must_be_problem(&reply, 404, "NOT_FOUND");
    (void)move_to(service, id, "refund", "alice", "{}", &reply);
    http_must_be_problem(&reply, 401, "UNAUTHENTICATED");
    (void)refund(service, id, "{\"restock\":1}");
    http_must_be_problem(&reply, 422, "INVALID");
    (void)refund(service, id, "");
    http_must_be_problem(&reply, 400, "BAD_JSON");
}
END_TEST

START_TEST(a_refund_keeps_its_unit_unless_asked)
{
    struct service *service = service_start(NULL);
    char id[ORDER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    buy(service, "alice", id);
    (void)pay(service, id, "ref-b");
    (void)refund(service, id, "{\"restock\":false}");
    must_be_order("refunded", "ref-b refunded", "paid admin,refunded admin");
    ck_assert_int_eq(db_number("SELECT stock FROM voucher_stock WHERE voucher_id = %s", voucher), STOCK - 1);
    WAIT_FOR(redis_number("HLEN seckill:{%s}:buyers", voucher) == 0);
    ck_assert_int_eq(stock_in_redis(), STOCK - 1);
    buy(service, "alice", id); // takes another unit
    WAIT_FOR(stock_in_redis() == STOCK - 2);
    books_must_balance(voucher);
}
END_TEST

START_TEST(what_is_paid_too_late_is_given_back)
{
    struct service *service = service_start(NULL);
    char id[ORDER_ID_SIZE], next[ORDER_ID_SIZE];
    voucher_on_sale(service, 1, voucher);
    buy(service, "alice", id);
    (void)cancel(service, id, "alice");
    (void)refund(service, id, "{}");
    must_be_wrong_state("cancelled"); // nothing to refund
    buy(service, "bob", next);
    for (int i = 0; i < 2; i++) {
        (void)pay(service, id, "late-1");
        must_be_order("cancelled", "late-1 to_refund", "cancelled user,cancelled admin PAYMENT_TO_REFUND");
    }
    (void)pay(service, next, "late-1");
    http_must_be_problem(&reply, 409, "REFERENCE_USED");
    for (int i = 0; i < 2; i++) {
        (void)refund(service, id, "{\"restock\":true,\"why\":\"late\"}"); // bob has its unit: nothing is restocked
        must_be_order("cancelled", "late-1 refunded",
                      "cancelled user,cancelled admin PAYMENT_TO_REFUND,cancelled admin late");
    }
    must_show(service, next, "bob", "unpaid", "", "");
    books_must_balance(voucher);
    ck_assert_int_eq(stock_in_redis(), 0);
}
END_TEST

START_TEST(who_pays_after_the_expiry_gets_the_money_back)
{
    struct service *service = service_start(NULL);
    char id[ORDER_ID_SIZE], next[ORDER_ID_SIZE];
    voucher_on_sale(service, 1, voucher);
    db_run("UPDATE seckill_voucher SET pay_within_s = 1 WHERE id = %s", voucher);
    buy(service, "alice", id);
    WAIT_FOR(sales_order_is(service, id, "alice", "expired"));
    db_run("UPDATE seckill_voucher SET pay_within_s = 900 WHERE id = %s", voucher);
    buy(service, "bob", next); // takes her unit
    (void)pay(service, id, "late-2");
    must_be_order("expired", "late-2 to_refund", "expired expiry,expired admin PAYMENT_TO_REFUND");
    (void)cancel(service, id, "alice");
    must_be_wrong_state("expired");
    (void)refund(service, id, "{}");
    must_be_order("expired", "late-2 refunded",
                  "expired expiry,expired admin PAYMENT_TO_REFUND,expired admin PAYMENT_REFUNDED");
    (void)pay(service, next, "in-time");
    must_be_order("paid", "in-time accepted", "paid admin");
    books_must_balance(voucher);
}
END_TEST

// The refund's answer was lost, and a payment came before the repeat: it is owed until a refund names it.
START_TEST(a_repeated_refund_gives_no_later_payment_back)
{
    struct service *service = service_start(NULL), *other = service_start(NULL);
    char id[ORDER_ID_SIZE], bobs[ORDER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    buy(service, "alice", id);
    buy(service, "bob", bobs);
    (void)pay(service, id, "n-1");
    (void)pay(service, bobs, "n-2");
    (void)refund(service, id, "{\"restock\":true,\"reference\":\"n-2\"}");
    http_must_be_problem(&reply, 409, "UNKNOWN_PAYMENT");
    (void)refund(service, id, "{\"restock\":true,\"reference\":\"n-9\"}");
    http_must_be_problem(&reply, 409, "UNKNOWN_PAYMENT");
    must_show(service, id, "alice", "paid", "n-1 accepted", "paid admin");
    (void)refund(service, id, "{\"restock\":true,\"reference\":\"n-1\"}");
    must_be_order("refunded", "n-1 refunded", "paid admin,refunded admin");
    (void)pay(service, id, "n-3");
    for (int i = 0; i < 3; i++) {
        (void)refund(i == 1 ? other : service, id, i == 0 ? "{\"restock\":true,\"reference\":\"n-1\"}" : "{}");
        must_be_order("refunded", "n-1 refunded,n-3 to_refund",
                      "paid admin,refunded admin,refunded admin PAYMENT_TO_REFUND");
    }
    for (int i = 0; i < 2; i++) {
        (void)refund(other, id, "{\"reference\":\"n-3\",\"why\":\"sent\"}");
        must_be_order("refunded", "n-1 refunded,n-3 refunded",
                      "paid admin,refunded admin,refunded admin PAYMENT_TO_REFUND,refunded admin sent");
    }
    (void)refund(service, id, "{\"reference\":\"\"}");
    http_must_be_problem(&reply, 422, "INVALID");
    books_must_balance(voucher);
    ck_assert_int_eq(stock_in_redis(), STOCK - 1);
}
END_TEST

// ---- pending orders ----

START_TEST(a_pending_order_cannot_be_moved)
{
    struct service *service = service_start(NULL), *other = service_start(NULL);
    char id[ORDER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    db_hold_orders();
    sales_accept(service, voucher, "bob", id);
    for (int i = 0; i < 2; i++) {
        struct service *asked = i == 0 ? service : other;
        (void)cancel(asked, id, "bob");
        must_be_pending();
        (void)pay(asked, id, "ref-p");
        must_be_pending();
        (void)refund(asked, id, "{}");
        must_be_pending();
        (void)cancel(asked, id, "mallory");
        http_must_be_problem(&reply, 404, "NOT_FOUND");
    }
    db_let_orders_go();
    WAIT_FOR(pay(other, id, "ref-p") == 200);
    must_be_order("paid", "ref-p accepted", "paid admin");
    books_must_balance(voucher);
}
END_TEST

// Redis still has one more buyer than PostgreSQL.
START_TEST(a_pending_order_without_a_journal_is_pending)
{
    struct service *service = service_start(NULL), *other = service_start(NULL);
    char id[ORDER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    db_hold_orders();
    sales_accept(service, voucher, "bob", id);
    redis_run("DEL seckill:{%s}:journal", voucher);
    (void)pay(other, id, "ref-j");
    must_be_pending();
    db_let_orders_go();
    WAIT_FOR(pay(other, id, "ref-j") == 200);
    must_be_order("paid", "ref-j accepted", "paid admin");
    books_must_balance(voucher);
}
END_TEST

// PostgreSQL rejects the order, so it exists only in a dead letter.
START_TEST(an_order_in_a_dead_letter_is_pending)
{
    struct service *service = service_start(ENV("SECKILL_BATCH_MAX=1"));
    char id[ORDER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    http_must_buy(service, voucher, "alice");
    sales_refuse_user("bob");
    sales_accept(service, voucher, "bob", id);
    WAIT_FOR(db_number("SELECT count(*) FROM held_order WHERE id = '%s'", id) == 1 &&
             redis_number("XLEN seckill:{%s}:journal", voucher) == 0);
    (void)pay(service, id, "ref-l");
    must_be_pending();
    (void)cancel(service, id, "bob");
    must_be_pending();
    sales_refuse_none();
    books_must_balance(voucher);
}
END_TEST

// ---- trouble ----

START_TEST(without_postgres_nothing_is_moved)
{
    struct service *service = service_start(ENV(HASTY));
    char id[ORDER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    buy(service, "alice", id);
    postgres_stop();
    (void)pay(service, id, "ref-n");
    http_must_be_problem(&reply, 503, "UNAVAILABLE");
    (void)cancel(service, id, "alice");
    http_must_be_problem(&reply, 503, "UNAVAILABLE");
    (void)refund(service, id, "{}");
    http_must_be_problem(&reply, 503, "UNAVAILABLE");
    postgres_start();
    WAIT_FOR(pay(service, id, "ref-n") == 200);
    must_be_order("paid", "ref-n accepted", "paid admin");
    books_must_balance(voucher);
}
END_TEST

// A payment needs no Redis; returning a unit does.
START_TEST(without_redis_orders_are_paid)
{
    struct service *service = service_start(ENV(HASTY));
    char id[ORDER_ID_SIZE], bobs[ORDER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    buy(service, "alice", id);
    buy(service, "bob", bobs);
    redis_kill();
    (void)pay(service, id, "ref-r");
    must_be_order("paid", "ref-r accepted", "paid admin");
    WAIT_FOR(cancel(service, bobs, "bob") == 503);
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE id = '%s' AND status = 'unpaid'", bobs), 1);
    redis_start();
    WAIT_FOR(cancel(service, bobs, "bob") == 200);
    must_be_order("cancelled", "", "cancelled user");
    books_must_balance(voucher);
}
END_TEST

START_TEST(the_orders_of_a_retired_voucher_can_be_moved)
{
    struct service *service = service_start(ENV(SOON));
    char ids[3][ORDER_ID_SIZE];
    voucher_on_sale(service, STOCK, voucher);
    db_run("UPDATE seckill_voucher SET pay_within_s = 0 WHERE id = %s", voucher); // none expires
    buy(service, "alice", ids[0]);
    buy(service, "bob", ids[1]);
    buy(service, "carol", ids[2]);
    (void)pay(service, ids[1], "ref-x");
    sales_end(voucher);
    WAIT_FOR(sales_redis_has(voucher, "retired"));
    WAIT_FOR(cancel(service, ids[0], "alice") == 200);
    must_be_order("cancelled", "", "cancelled user");
    (void)refund(service, ids[1], "{\"restock\":true}");
    must_be_order("refunded", "ref-x refunded", "paid admin,refunded admin");
    (void)pay(service, ids[2], "ref-y");
    must_be_order("paid", "ref-y accepted", "paid admin");
    (void)cancel(service, ids[2], "carol");
    must_be_wrong_state("paid");
    ck_assert_int_eq(db_number("SELECT stock FROM voucher_stock WHERE voucher_id = %s", voucher), STOCK - 1);
    ck_assert_int_eq(db_number("SELECT live FROM voucher_stock WHERE voucher_id = %s", voucher), 1);
    ck_assert(sales_redis_has(voucher, "retired"));
}
END_TEST

// ---- concurrent calls ----

struct canceller {
    struct service *service;
    const char *id, *user;
    struct http_reply told;
};

static void *cancel_beside(void *arg)
{
    struct canceller *canceller = arg;
    char path[PATH_SIZE], request[BODY_SIZE];
    (void)snprintf(path, sizeof path, "/orders/%s/cancel", canceller->id);
    (void)snprintf(request, sizeof request, "POST %s HTTP/1.1\r\nHost: test\r\nX-User-Id: %s\r\n\r\n", path,
                   canceller->user);
    (void)http_raw(canceller->service, request, strlen(request), &canceller->told);
    return NULL;
}

// On two instances: whichever comes first, the order ends in one state, and its payment matches.
START_TEST(pay_and_cancel_at_once_agree)
{
    struct service *service = service_start(NULL), *other = service_start(NULL);
    int paid = 0;
    voucher_on_sale(service, RACES, voucher);
    for (int i = 0; i < RACES; i++) {
        static struct canceller canceller;
        char id[ORDER_ID_SIZE], user[16], reference[32];
        pthread_t thread;
        (void)snprintf(user, sizeof user, "user-%d", i);
        (void)snprintf(reference, sizeof reference, "race-%s-%d", voucher, i);
        buy(service, user, id);
        canceller = (struct canceller){.service = other, .id = id, .user = user};
        ck_assert_int_eq(pthread_create(&thread, NULL, cancel_beside, &canceller), 0);
        WAIT_FOR(pay(service, id, reference) != 503);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        if (canceller.told.status == 503) // the other transaction held the row for too long
            WAIT_FOR(move_to(other, id, "cancel", user, NULL, &canceller.told) != 503);
        bool kept = db_number("SELECT count(*) FROM voucher_order WHERE id = '%s' AND status = 'paid'", id) == 1;
        ck_assert_int_eq(reply.status, 200);
        ck_assert_int_eq(strstr(reply.body, "to_refund") != NULL, !kept);
        ck_assert_int_eq(canceller.told.status, kept ? 409 : 200);
        ck_assert_int_eq(db_number("SELECT count(*) FROM payment WHERE order_id = '%s' AND state = '%s'", id,
                                   kept ? "accepted" : "to_refund"),
                         1);
        paid += kept;
    }
    ck_assert_int_eq(db_number("SELECT live FROM voucher_stock WHERE voucher_id = %s", voucher), paid);
    books_must_balance(voucher);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("order_moves");
    tcase_add_unchecked_fixture(tcase, setup, NULL);
    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, an_order_is_paid_once);
    tcase_add_test(tcase, what_is_no_payment_is_refused);
    tcase_add_test(tcase, a_payment_may_be_signed);
    tcase_add_test(tcase, a_cancelled_unit_can_be_bought_again);
    tcase_add_test(tcase, what_cannot_be_cancelled_is_told);
    tcase_add_test(tcase, a_paid_order_is_refunded);
    tcase_add_test(tcase, a_refund_keeps_its_unit_unless_asked);
    tcase_add_test(tcase, what_is_paid_too_late_is_given_back);
    tcase_add_test(tcase, a_repeated_refund_gives_no_later_payment_back);
    tcase_add_test(tcase, who_pays_after_the_expiry_gets_the_money_back);
    tcase_add_test(tcase, a_pending_order_cannot_be_moved);
    tcase_add_test(tcase, a_pending_order_without_a_journal_is_pending);
    tcase_add_test(tcase, an_order_in_a_dead_letter_is_pending);
    tcase_add_test(tcase, without_postgres_nothing_is_moved);
    tcase_add_test(tcase, without_redis_orders_are_paid);
    tcase_add_test(tcase, the_orders_of_a_retired_voucher_can_be_moved);
    tcase_add_test(tcase, pay_and_cancel_at_once_agree);
    return harness_main(tcase, CK_NOFORK);
}
