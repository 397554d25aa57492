// Who may report that an order is paid: a token with the role, or a signature. A rejected call leaves the order unpaid
// and records no payment.
#include <check.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "http.h"
#include "stack.h"
#include "stores.h"

#define SECRET      "a-secret-of-the-tests"
#define ADMIN       "Authorization: Bearer admin-token-of-the-tests\r\n"
#define READER      "Authorization: Bearer reader-token-0001\r\n"
#define SHOP        "Authorization: Bearer payments-token-01\r\n"
#define LINES       "reader read reader-token-0001\nshop payments payments-token-01"
#define JSON        "Content-Type: application/json\r\n"
#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

enum {
    STOCK = 5,
    PATH_SIZE = 128,
    FIELDS_SIZE = 1024,
    MAC_SIZE = 65,
    MAC_BYTES = 32,
    TEXT_SIZE = 512,
    BODY_SIZE = 256
};

static struct service *service;
static char voucher[VOUCHER_ID_SIZE], order[HTTP_FIELD_SIZE], path[PATH_SIZE], body[BODY_SIZE];

static void setup(void)
{
    stack_start(STACK_ALL);
}

// Buys a unit, for a separate order of each test.
static void order_one(const char *user)
{
    struct http_reply reply;
    http_must_buy(service, voucher, user);
    ck_assert_int_eq(http_buy(service, voucher, user, &reply), 409);
    ck_assert(http_member(&reply, "order_id", order));
    (void)snprintf(path, sizeof path, "/orders/%.36s/pay", order);
    (void)snprintf(body, sizeof body, "{\"reference\":\"p-%s\",\"amount_cents\":100,\"currency\":\"CNY\"}", user);
}

static void begin(const char *user)
{
    service = service_start(ENV("SECKILL_PAYMENT_SECRET=" SECRET, "SECKILL_ADMIN_TOKENS=" LINES));
    voucher_on_sale(service, STOCK, voucher);
    order_one(user);
}

static void sign(const char *secret, const char *stamp, const char *signed_path, const char *text, char mac[MAC_SIZE])
{
    unsigned char made[EVP_MAX_MD_SIZE];
    char all[TEXT_SIZE];
    int n = snprintf(all, sizeof all, "%s.%s.%s", stamp, signed_path, text);
    ck_assert_int_lt(n, (int)sizeof all);
    ck_assert_ptr_nonnull(
        HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)all, (size_t)n, made, NULL));
    for (size_t i = 0; i < MAC_BYTES; i++)
        (void)snprintf(mac + 2 * i, 3, "%02x", made[i]);
}

static int64_t now_s(void)
{
    return (int64_t)(sk_wall_ms() / 1000);
}

// The deviations of a row: values signed differently, and fields that are added, missing or repeated.
struct row {
    const char *beside; // additional fields
    int64_t ago_s;
    const char *secret, *path, *text; // NULL: the correct ones
    const char *stamp_as;             // NULL: the signed timestamp
    bool no_stamp, no_signature, stamp_twice, signature_twice;
    int status;
    const char *code;
};

static int send_signed(const struct row *row, struct http_reply *reply)
{
    char stamp[24], mac[MAC_SIZE], fields[FIELDS_SIZE];
    (void)snprintf(stamp, sizeof stamp, "%lld", (long long)(now_s() - row->ago_s));
    sign(row->secret == NULL ? SECRET : row->secret, stamp, row->path == NULL ? path : row->path,
         row->text == NULL ? body : row->text, mac);
    int n = snprintf(fields, sizeof fields, "%s%s", JSON, row->beside == NULL ? "" : row->beside);
    for (int i = 0; i < (row->no_stamp ? 0 : row->stamp_twice ? 2 : 1); i++)
        n += snprintf(fields + n, sizeof fields - (size_t)n, "X-Seckill-Timestamp: %s\r\n",
                      row->stamp_as == NULL ? stamp : row->stamp_as);
    for (int i = 0; i < (row->no_signature ? 0 : row->signature_twice ? 2 : 1); i++)
        n += snprintf(fields + n, sizeof fields - (size_t)n, "X-Seckill-Signature: %s\r\n", mac);
    return http_ask(service, "POST", path, fields, body, reply);
}

static int64_t payments(void)
{
    return db_number("SELECT count(*) FROM payment WHERE order_id = '%s'", order);
}

START_TEST(signatures_that_are_not_good)
{
    static const struct row rows[] = {
        {.ago_s = 400, .status = 401, .code = "BAD_SIGNATURE"},
        {.ago_s = -400, .status = 401, .code = "BAD_SIGNATURE"},
        {.secret = "a-secret-of-the-testz", .status = 401, .code = "BAD_SIGNATURE"},
        {.path = "/orders/018bcfe5-6800-7000-8000-0123456789ab/pay", .status = 401, .code = "BAD_SIGNATURE"},
        {.text = "{\"reference\":\"p-alice\",\"amount_cents\":10,\"currency\":\"CNY\"}",
         .status = 401,
         .code = "BAD_SIGNATURE"},
        {.text = "", .status = 401, .code = "BAD_SIGNATURE"},
        {.stamp_as = "1", .status = 401, .code = "BAD_SIGNATURE"},
        {.stamp_as = "", .status = 401, .code = "BAD_SIGNATURE"},
        {.stamp_as = "99999999999999999999", .status = 401, .code = "BAD_SIGNATURE"},
        {.stamp_twice = true, .status = 401, .code = "BAD_SIGNATURE"},
        {.signature_twice = true, .status = 401, .code = "BAD_SIGNATURE"},
        {.no_stamp = true, .status = 401, .code = "BAD_SIGNATURE"},
        {.no_signature = true, .status = 401, .code = "BAD_SIGNATURE"},
        {.beside = SHOP, .ago_s = 400, .status = 401, .code = "BAD_SIGNATURE"}, // despite a valid token
        {.beside = ADMIN, .secret = "a-secret-of-the-testz", .status = 401, .code = "BAD_SIGNATURE"},
        {.no_stamp = true, .no_signature = true, .status = 401, .code = "UNAUTHENTICATED"},
        {.beside = SHOP SHOP, .no_stamp = true, .no_signature = true, .status = 401, .code = "UNAUTHENTICATED"},
        {.beside = READER, .no_stamp = true, .no_signature = true, .status = 403, .code = "FORBIDDEN"},
        {.beside = "X-User-Id: alice\r\n",
         .no_stamp = true,
         .no_signature = true,
         .status = 401,
         .code = "UNAUTHENTICATED"},
    };
    struct http_reply reply;
    begin("alice");
    for (size_t i = 0; i < COUNT(rows); i++) {
        (void)send_signed(&rows[i], &reply);
        ck_assert_msg(http_is_problem(&reply, rows[i].status, rows[i].code), "row %zu: %s", i, reply.body);
    }
    ck_assert_int_eq(payments(), 0);
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE id = "
                               "'%s' AND status = 'unpaid'",
                               order),
                     1);
}
END_TEST

START_TEST(a_signed_payment_may_be_repeated_and_belongs_to_its_order)
{
    const struct row good = {.ago_s = 250};
    char first[PATH_SIZE];
    struct http_reply reply;
    begin("bob");
    for (int i = 0; i < 3; i++) // a copy has no further effect
        ck_assert_msg(send_signed(&good, &reply) == 200, "%s", reply.body);
    ck_assert_int_eq(payments(), 1);
    ck_assert_int_eq(db_number("SELECT count(*) FROM payment WHERE order_id = "
                               "'%s' AND by_whom = 'payment callback'",
                               order),
                     1);
    (void)snprintf(first, sizeof first, "%s", path);
    order_one("carol");
    const struct row moved = {.path = first}; // a copy sent for another order
    (void)send_signed(&moved, &reply);
    ck_assert_msg(http_is_problem(&reply, 401, "BAD_SIGNATURE"), "%s", reply.body);
    ck_assert_int_eq(payments(), 0);
}
END_TEST

// The payment side may use the old secret until it has the new one.
START_TEST(while_the_secret_changes_either_is_good)
{
    const struct row with_old = {0}, with_new = {.secret = "the-next-secret-of-tests"},
                     with_none = {.secret = "the-next-secret-of-test"};
    struct http_reply reply;
    service = service_start(ENV("SECKILL_PAYMENT_SECRET=the-next-secret-of-tests\n" SECRET));
    voucher_on_sale(service, STOCK, voucher);
    order_one("erin");
    ck_assert_msg(send_signed(&with_none, &reply) == 401, "%s", reply.body);
    ck_assert_msg(send_signed(&with_old, &reply) == 200, "%s", reply.body);
    order_one("frank");
    ck_assert_msg(send_signed(&with_new, &reply) == 200, "%s", reply.body);
    ck_assert_int_eq((int)http_sample(service, "seckill_auth_failures_total{kind=\"signature\"}"), 1);
}
END_TEST

START_TEST(a_token_tells_it_as_well)
{
    const struct row shop = {.beside = SHOP, .no_stamp = true, .no_signature = true};
    struct http_reply reply;
    begin("dave");
    ck_assert_msg(send_signed(&shop, &reply) == 200, "%s", reply.body);
    ck_assert_int_eq(db_number("SELECT count(*) FROM payment WHERE order_id = "
                               "'%s' AND by_whom = 'shop'",
                               order),
                     1);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("payments");
    tcase_add_unchecked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, signatures_that_are_not_good);
    tcase_add_test(tcase, a_signed_payment_may_be_repeated_and_belongs_to_its_order);
    tcase_add_test(tcase, while_the_secret_changes_either_is_good);
    tcase_add_test(tcase, a_token_tells_it_as_well);
    return harness_main(tcase, CK_NOFORK);
}
