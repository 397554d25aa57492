// Purchases that need a ticket: who gets one, the work it may require, and that nothing else replaces it.
#include <openssl/sha.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "books.h"
#include "http.h"
#include "sales.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

#define SECRET     "SECKILL_TICKET_SECRET=the-first-secret-of-tickets"
#define NEW_SECRET "the-next-secret-of-tickets"
#define SOON       "SECKILL_RETIRE_AFTER_MS=0", "SECKILL_LOCK_TTL_MS=1000"
#define DIGITS     "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

enum { STOCK = 10, PATH_SIZE = 64, HEADERS_SIZE = 1024, BODY_SIZE = 512, TICKET_SIZE = 64, CHARS = 51, ROUNDS = 3 };

static struct service *here, *there;
static char voucher[VOUCHER_ID_SIZE];
static struct http_reply reply;

static void setup(void)
{
    stack_start(STACK_ALL);
}

// `terms`: additional members.
static void make_voucher(const char *terms)
{
    char body[BODY_SIZE], value[HTTP_FIELD_SIZE];
    (void)snprintf(body, sizeof body,
                   "{\"title\":\"T\",\"stock\":%d,\"price_cents\":100,\"begin_at\":\"2020-01-01T00:00:00Z\","
                   "\"end_at\":\"2120-01-01T00:00:00Z\"%s}",
                   STOCK, terms);
    (void)http_ask(here, "POST", "/admin/vouchers",
                   "Authorization: Bearer admin-token-of-the-tests\r\nContent-Type: application/json\r\n", body,
                   &reply);
    ck_assert_msg(reply.status == 201, "%s", reply.body);
    ck_assert(http_member(&reply, "id", value));
    (void)snprintf(voucher, sizeof voucher, "%.*s", VOUCHER_ID_SIZE - 1, value);
}

static void write_secrets(const char *path, const char *lines)
{
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    (void)fputs(lines, file);
    ck_assert_int_eq(fclose(file), 0);
}

static void start(void)
{
    here = service_start(ENV(SECRET));
    there = service_start(ENV(SECRET));
    make_voucher(",\"ticket\":true");
}

// ---- calls ----

static int ask_for(const struct service *service, const char *method, const char *id, const char *user,
                   const char *body)
{
    char path[PATH_SIZE], headers[HEADERS_SIZE];
    (void)snprintf(path, sizeof path, "/vouchers/%s/ticket", id);
    (void)snprintf(headers, sizeof headers, "X-User-Id: %s\r\n%s", user,
                   body == NULL ? "" : "Content-Type: application/json\r\n");
    return http_ask(service, method, path, headers, body, &reply);
}

static void must_get(const char *name, char out[TICKET_SIZE])
{
    char value[HTTP_FIELD_SIZE];
    ck_assert_msg(reply.status == 200, "%d %s", reply.status, reply.body);
    ck_assert(http_member(&reply, name, value));
    ck_assert_uint_eq(strlen(value), CHARS);
    (void)snprintf(out, TICKET_SIZE, "%s", value);
    ck_assert(http_header(&reply, "Cache-Control", value));
    ck_assert_str_eq(value, "no-store");
    ck_assert(http_member(&reply, "expires_at", value));
}

static void get_ticket(const struct service *service, const char *user, char out[TICKET_SIZE])
{
    (void)ask_for(service, "POST", voucher, user, NULL);
    must_get("ticket", out);
}

// Buys with this ticket (NULL: without one). Retries while the voucher is being loaded.
static int ask_to_buy(const struct service *service, const char *id, const char *user, const char *ticket,
                      const char *body)
{
    char path[PATH_SIZE], headers[HEADERS_SIZE];
    (void)snprintf(path, sizeof path, "/seckill/%s", id);
    int n = snprintf(headers, sizeof headers, "X-User-Id: %s\r\nContent-Type: application/json\r\n", user);
    if (ticket != NULL)
        (void)snprintf(headers + n, sizeof headers - (size_t)n, "X-Seckill-Ticket: %s\r\n", ticket);
    WAIT_FOR(http_ask(service, "POST", path, headers, body, &reply) != 503 ||
             http_is_problem(&reply, 503, "TICKETS_OFF"));
    return reply.status;
}

static int buy(const struct service *service, const char *id, const char *user, const char *ticket)
{
    return ask_to_buy(service, id, user, ticket, NULL);
}

// Whether the instance accepts the ticket, checked without a purchase: two units exceed the limit.
static bool is_good(const struct service *service, const char *user, const char *ticket)
{
    int status = ask_to_buy(service, voucher, user, ticket, "{\"quantity\":2}");
    ck_assert_msg(status == 422 || status == 403, "%d %s", status, reply.body);
    return status == 422;
}

static void must_buy(const struct service *service, const char *user, const char *ticket)
{
    ck_assert_msg(buy(service, voucher, user, ticket) == 201, "%d %s", reply.status, reply.body);
}

static void stock_must_be(const char *id, int stock)
{
    ck_assert_int_eq(redis_number("HGET seckill:{%s}:voucher stock", id), stock);
    ck_assert_int_eq(db_number("SELECT stock FROM voucher_stock WHERE voucher_id = %s", id), stock);
}

// All invalid tickets get the same answer, byte by byte.
static void must_be_no_ticket(const struct service *service, const char *user, const char *ticket)
{
    static char first[HTTP_FIELD_SIZE];
    (void)buy(service, voucher, user, ticket);
    ck_assert_msg(http_is_problem(&reply, 403, "TICKET_INVALID"), "'%s': %s", ticket, reply.body);
    if (first[0] == '\0')
        (void)snprintf(first, sizeof first, "%s", reply.body);
    ck_assert_str_eq(reply.body, first);
}

// ---- who may buy ----

TEST(only_holders_of_a_ticket_buy)
{
    char ticket[TICKET_SIZE], order[HTTP_FIELD_SIZE], value[HTTP_FIELD_SIZE], path[PATH_SIZE];
    start();
    (void)buy(here, voucher, "alice", NULL);
    http_must_be_problem(&reply, 403, "TICKET_REQUIRED");
    stock_must_be(voucher, STOCK);
    get_ticket(here, "alice", ticket);
    must_buy(there, "alice", ticket);
    ck_assert(http_member(&reply, "id", order));
    ck_assert_int_eq(buy(here, voucher, "alice", ticket), 409); // a repeat returns its order
    ck_assert(http_member(&reply, "order_id", value));
    ck_assert_str_eq(value, order);
    (void)buy(here, voucher, "alice", NULL);
    http_must_be_problem(&reply, 403, "TICKET_REQUIRED");
    (void)snprintf(path, sizeof path, "/vouchers/%s", voucher);
    ck_assert_int_eq(http_get(there, path, NULL, &reply), 200);
    ck_assert_ptr_nonnull(strstr(reply.body, "\"ticket\":true,\"work_bits\":0,\"offer\":1,"));
    // Other vouchers are not affected.
    make_voucher("");
    ck_assert_int_eq(buy(here, voucher, "alice", NULL), 201);
    ck_assert_int_eq(buy(here, voucher, "bob", "nonsense"), 201);
    books_must_balance(voucher);
}

TEST(tickets_are_given_to_users_for_vouchers_that_there_are)
{
    char path[PATH_SIZE];
    start();
    (void)snprintf(path, sizeof path, "/vouchers/%s/ticket", voucher);
    (void)http_ask(here, "POST", path, "", NULL, &reply);
    http_must_be_problem(&reply, 401, "UNAUTHENTICATED");
    (void)http_ask(here, "GET", path, "", NULL, &reply);
    http_must_be_problem(&reply, 401, "UNAUTHENTICATED");
    (void)ask_for(here, "POST", "999999", "alice", NULL);
    http_must_be_problem(&reply, 404, "UNKNOWN_VOUCHER");
    (void)ask_for(here, "POST", "x", "alice", NULL);
    http_must_be_problem(&reply, 400, "BAD_VOUCHER_ID");
    ck_assert_int_eq(ask_for(here, "GET", voucher, "alice", NULL), 200);
    ck_assert_str_eq(reply.body, "{\"work_bits\":0}\n");
    (void)ask_for(here, "PATCH", voucher, "alice", NULL);
    http_must_be_problem(&reply, 405, "METHOD_NOT_ALLOWED");
}

// ---- invalid tickets ----

TEST(a_ticket_is_of_one_user_and_one_voucher)
{
    char ticket[TICKET_SIZE], other[VOUCHER_ID_SIZE];
    start();
    memcpy(other, voucher, sizeof other);
    make_voucher(",\"ticket\":true");
    get_ticket(here, "alice", ticket);
    must_be_no_ticket(here, "bob", ticket);
    must_be_no_ticket(here, "alic", ticket);
    must_be_no_ticket(there, "alice2", ticket);
    (void)buy(here, other, "alice", ticket);
    http_must_be_problem(&reply, 403, "TICKET_INVALID");
    stock_must_be(other, STOCK);
    stock_must_be(voucher, STOCK);
    must_buy(here, "alice", ticket);
    books_must_balance(voucher);
    books_must_balance(other);
}

TEST(what_only_looks_like_a_ticket)
{
    static const char *const others[] = {
        " ",
        "x",
        "AQFrSdIAAAAAAAAAAAcAAAAAAAAABfNkN2HqpQvBW3YLcZcSgYI",
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.",
        ("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMDAwMDAwMH0."
         "XbPfbIHMI6arZ3Y922BhjWgQzWXcXNrz0ogtVhfEd2o"),
    };
    char ticket[TICKET_SIZE], wrong[TICKET_SIZE + 1], both[HEADERS_SIZE];
    start();
    get_ticket(here, "alice", ticket);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        must_be_no_ticket(here, "alice", others[i]);
    for (size_t len = 1; len < CHARS; len++) {
        (void)snprintf(wrong, sizeof wrong, "%.*s", (int)len, ticket);
        must_be_no_ticket(here, "alice", wrong);
    }
    (void)snprintf(wrong, sizeof wrong, "%sA", ticket);
    must_be_no_ticket(here, "alice", wrong);
    for (int i = 0; i < CHARS; i++) { // each bit of each character
        const char *digit = strchr(DIGITS, ticket[i]);
        for (int bit = 0; bit < 6; bit++) {
            memcpy(wrong, ticket, sizeof ticket);
            wrong[i] = DIGITS[(digit - DIGITS) ^ 1 << bit];
            must_be_no_ticket(here, "alice", wrong);
        }
    }
    (void)snprintf(both, sizeof both, "%s\r\nX-Seckill-Ticket: %s", ticket, ticket); // sent twice
    must_be_no_ticket(here, "alice", both);
    stock_must_be(voucher, STOCK);
    must_buy(here, "alice", ticket);
    books_must_balance(voucher);
}

TEST(a_ticket_expires)
{
    char ticket[TICKET_SIZE];
    start();
    struct service *hasty = service_start(ENV(SECRET, "SECKILL_TICKET_TTL_S=1"));
    get_ticket(hasty, "alice", ticket);
    WAIT_FOR(!is_good(here, "alice", ticket));
    WAIT_FOR(ask_for(here, "POST", voucher, "alice", NULL) == 200); // it requires no work now
    must_be_no_ticket(here, "alice", ticket);
    get_ticket(here, "alice", ticket);
    must_buy(here, "alice", ticket);
    books_must_balance(voucher);
}

// ---- offers ----

static void operate(const char *method, const char *what, const char *body)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "/admin/vouchers/%s%s", voucher, what);
    WAIT_FOR(http_ask(here, method, path,
                      "Authorization: Bearer admin-token-of-the-tests\r\nContent-Type: application/json\r\n", body,
                      &reply) != 503);
    ck_assert_msg(reply.status == 200, "%s: %s", what, reply.body);
}

TEST(a_ticket_is_for_one_offer)
{
    char ticket[TICKET_SIZE];
    start();
    get_ticket(here, "alice", ticket);
    ck_assert(is_good(there, "alice", ticket));
    operate("PATCH", "", "{\"work_bits\":2}");
    operate("PATCH", "", "{\"work_bits\":0}");
    WAIT_FOR(!is_good(here, "alice", ticket));
    must_be_no_ticket(here, "alice", ticket);
    get_ticket(here, "alice", ticket);
    must_buy(there, "alice", ticket); // at once: an instance that is briefly behind answers 503
    get_ticket(here, "bob", ticket);
    operate("PATCH", "", "{\"work_bits\":1}");
    WAIT_FOR(!is_good(there, "bob", ticket));
    stock_must_be(voucher, STOCK - 1);
    operate("PATCH", "", "{\"ticket\":false}");
    WAIT_FOR(buy(there, voucher, "bob", NULL) == 201);
    books_must_balance(voucher);
}

// An instance that does not know the offer yet answers 503; it does not reject the ticket.
TEST(an_instance_that_is_behind_refuses_no_new_ticket)
{
    char ticket[TICKET_SIZE];
    start();
    sales_stop_notifying();
    for (int round = 0; round < ROUNDS; round++) {
        char user[16], old[TICKET_SIZE];
        (void)snprintf(user, sizeof user, "user-%d", round);
        get_ticket(here, user, old);
        operate("PATCH", "", "{\"work_bits\":2}");
        operate("PATCH", "", "{\"work_bits\":0}");
        WAIT_FOR(!is_good(here, user, old));
        WAIT_FOR(ask_for(here, "POST", voucher, user, NULL) == 200); // it requires no work now
        get_ticket(here, user, ticket);
        must_buy(there, user, ticket); // 503 as often as needed, never 403
    }
    sales_notify_again();
    books_must_balance(voucher);
}

TEST(what_leaves_the_offer_as_it_is_leaves_tickets_good)
{
    char ticket[TICKET_SIZE];
    start();
    get_ticket(here, "alice", ticket);
    operate("PATCH", "", "{\"title\":\"Another\",\"price_cents\":100,\"end_at\":\"2121-01-01T00:00:00Z\"}");
    operate("POST", "/pause", NULL);
    operate("POST", "/resume", NULL);
    operate("POST", "/stock", "{\"add\":2}");
    operate("POST", "/stock", "{\"reduce\":1}");
    operate("POST", "/reconcile", NULL);
    must_buy(there, "alice", ticket);
    books_must_balance(voucher);
}

// A retired voucher issues no tickets, and its winners get their order without one.
TEST(after_the_sale_none_is_needed)
{
    char ticket[TICKET_SIZE], order[HTTP_FIELD_SIZE], value[HTTP_FIELD_SIZE];
    here = there = service_start(ENV(SECRET, SOON));
    make_voucher(",\"ticket\":true");
    get_ticket(here, "alice", ticket);
    must_buy(here, "alice", ticket);
    ck_assert(http_member(&reply, "id", order));
    sales_end(voucher);
    WAIT_FOR(sales_redis_has(voucher, "retired"));
    WAIT_FOR(buy(here, voucher, "alice", NULL) == 409);
    ck_assert(http_member(&reply, "order_id", value));
    ck_assert_str_eq(value, order);
    (void)buy(here, voucher, "bob", NULL);
    http_must_be_problem(&reply, 409, "ENDED");
    (void)ask_for(here, "POST", voucher, "bob", NULL);
    http_must_be_problem(&reply, 409, "ENDED");
}

// ---- secrets ----

TEST(a_new_secret_takes_over)
{
    char old[TICKET_SIZE], new[TICKET_SIZE];
    start();
    struct service *both = service_start(ENV("SECKILL_TICKET_SECRET=" NEW_SECRET "\nthe-first-secret-of-tickets"));
    struct service *after = service_start(ENV("SECKILL_TICKET_SECRET=" NEW_SECRET));
    get_ticket(here, "alice", old);
    get_ticket(both, "bob", new);
    must_be_no_ticket(here, "bob", new);
    must_be_no_ticket(after, "alice", old);
    stock_must_be(voucher, STOCK);
    must_buy(both, "alice", old);
    must_buy(after, "bob", new);
    books_must_balance(voucher);
}

static void must_refuse_ticket(const struct service *service, const char *method, const char *path, const char *body)
{
    (void)http_ask(service, method, path,
                   "Authorization: Bearer admin-token-of-the-tests\r\nContent-Type: application/json\r\n", body,
                   &reply);
    http_must_be_problem(&reply, 422, "INVALID");
    ck_assert_msg(strstr(reply.body, "\"pointer\":\"/ticket\",\"detail\":\"needs SECKILL_TICKET_SECRET") != NULL, "%s",
                  reply.body);
}

TEST(without_a_secret_no_such_voucher_is_made)
{
#define TERMS                                                                                            \
    "{\"title\":\"T\",\"stock\":1,\"price_cents\":100,\"begin_at\":\"2100-01-01T00:00:00Z\",\"end_at\":" \
    "\"2120-01-01T00:00:00Z\""
    char path[PATH_SIZE];
    start();
    make_voucher("");
    struct service *bare = service_start(ENV("SECKILL_TICKET_SECRET"));
    must_refuse_ticket(bare, "POST", "/admin/vouchers", TERMS ",\"ticket\":true}");
    must_refuse_ticket(bare, "POST", "/admin/vouchers", TERMS ",\"ticket\":true,\"work_bits\":8}");
    (void)snprintf(path, sizeof path, "/admin/vouchers/%s", voucher);
    must_refuse_ticket(bare, "PATCH", path, "{\"ticket\":true}");
    ck_assert_int_eq(buy(bare, voucher, "alice", NULL), 201); // the voucher was not changed
#undef TERMS
}

TEST(without_a_secret_such_a_voucher_does_not_sell)
{
    char ticket[TICKET_SIZE];
    start();
    struct service *bare = service_start(ENV("SECKILL_TICKET_SECRET"));
    get_ticket(here, "alice", ticket);
    (void)buy(bare, voucher, "alice", ticket);
    http_must_be_problem(&reply, 503, "TICKETS_OFF");
    (void)buy(bare, voucher, "alice", NULL);
    http_must_be_problem(&reply, 503, "TICKETS_OFF");
    (void)ask_for(bare, "POST", voucher, "alice", NULL);
    http_must_be_problem(&reply, 503, "TICKETS_OFF");
    (void)ask_for(bare, "GET", voucher, "alice", NULL);
    http_must_be_problem(&reply, 503, "TICKETS_OFF");
    char again[HTTP_FIELD_SIZE];
    ck_assert(!http_header(&reply, "Retry-After", again)); // this instance will have no secret later either
    ck_assert(http_sample(here, "seckill_tickets_on") == 1);
    ck_assert(http_sample(bare, "seckill_tickets_on") == 0); // the operators' page says so before a buyer does
    stock_must_be(voucher, STOCK);
    make_voucher("");
    ck_assert_int_eq(buy(bare, voucher, "alice", NULL), 201);
    books_must_balance(voucher);
}

TEST(a_secret_that_is_too_short_is_no_start)
{
    char said[HTTP_FIELD_SIZE];
    ck_assert_int_ne(service_run((const char *const[]){NULL},
                                 ENV("SECKILL_DATABASE_URL=postgresql:///none", "SECKILL_TICKET_SECRET=short"), said,
                                 sizeof said),
                     0);
    ck_assert_ptr_nonnull(strstr(said, "SECKILL_TICKET_SECRET: a line is shorter than 16 bytes"));
    ck_assert_ptr_null(strstr(said, "=short"));
}

// ---- the work ----

// The first number for which SHA-256(challenge "." number) begins with 8 zero bits or, if not `solves`, does not.
static void find_nonce(const char *challenge, bool solves, char nonce[TICKET_SIZE])
{
    char text[2 * TICKET_SIZE];
    unsigned char digest[SHA256_DIGEST_LENGTH];
    for (unsigned i = 0;; i++) {
        (void)snprintf(nonce, TICKET_SIZE, "%u", i);
        int n = snprintf(text, sizeof text, "%s.%s", challenge, nonce);
        (void)SHA256((const unsigned char *)text, (size_t)n, digest);
        if ((digest[0] == 0) == solves)
            return;
    }
}

static int show_work(const char *user, const char *challenge, const char *nonce)
{
    char body[BODY_SIZE];
    (void)snprintf(body, sizeof body, "{\"challenge\":\"%s\",\"nonce\":\"%s\"}", challenge, nonce);
    return ask_for(there, "POST", voucher, user, body);
}

TEST(a_ticket_may_take_work)
{
    char challenge[TICKET_SIZE], ticket[TICKET_SIZE], nonce[TICKET_SIZE], other[TICKET_SIZE], value[HTTP_FIELD_SIZE];
    start();
    make_voucher(",\"ticket\":true,\"work_bits\":8");
    (void)ask_for(here, "POST", voucher, "alice", NULL);
    http_must_be_problem(&reply, 403, "WORK_REQUIRED");
    (void)ask_for(here, "GET", voucher, "alice", NULL);
    must_get("challenge", challenge);
    ck_assert(http_member(&reply, "work_bits", value));
    ck_assert_str_eq(value, "8");
    find_nonce(challenge, false, nonce);
    (void)show_work("alice", challenge, nonce);
    http_must_be_problem(&reply, 403, "WORK_INVALID");
    find_nonce(challenge, true, nonce);
    (void)show_work("bob", challenge, nonce); // another user's work
    http_must_be_problem(&reply, 403, "WORK_INVALID");
    (void)show_work("alice", challenge, nonce);
    must_get("ticket", ticket);
    (void)show_work("alice", challenge, nonce); // again: the ticket is for the same user and voucher
    must_get("ticket", other);
    must_be_no_ticket(here, "alice", challenge);
    find_nonce(ticket, true, nonce);
    (void)show_work("alice", ticket, nonce); // a ticket is not a challenge
    http_must_be_problem(&reply, 403, "WORK_INVALID");
    must_buy(here, "alice", ticket);
    books_must_balance(voucher);
}

TEST(work_that_is_malformed)
{
    static const struct {
        const char *body;
        int status;
        const char *code;
    } rows[] = {
        {"{}", 403, "WORK_REQUIRED"}, // as no body
        {"{\"challenge\":\"x\"}", 400, "BAD_JSON"},
        {"{\"challenge\":\"x\",\"nonce\":\"1\",\"more\":1}", 400, "BAD_JSON"},
        {"[]", 400, "BAD_JSON"},
        {"x", 400, "BAD_JSON"},
        {"{\"challenge\":1,\"nonce\":\"1\"}", 422, "INVALID"},
        {"{\"challenge\":\"x\",\"nonce\":1}", 422, "INVALID"},
        {"{\"challenge\":\"x\",\"nonce\":\"\"}", 422, "INVALID"},
        {"{\"challenge\":\"x\",\"nonce\":\"1\"}", 403, "WORK_INVALID"},
        {"{\"challenge\":\"\",\"nonce\":\"1\"}", 403, "WORK_INVALID"},
    };
    char path[PATH_SIZE];
    start();
    make_voucher(",\"ticket\":true,\"work_bits\":24");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)ask_for(here, "POST", voucher, "alice", rows[i].body);
        http_must_be_problem(&reply, rows[i].status, rows[i].code);
    }
    (void)snprintf(path, sizeof path, "/vouchers/%s/ticket", voucher);
    (void)http_ask(here, "POST", path, "X-User-Id: alice\r\n", "{}", &reply);
    http_must_be_problem(&reply, 415, "UNSUPPORTED_MEDIA_TYPE");
}

// The procedure of gateway.md, with SIGHUP alone: tickets signed with either secret of the file are valid.
TEST(a_secret_is_exchanged_without_a_restart)
{
    char path[] = "/tmp/seckill-tickets-XXXXXX", env[PATH_SIZE + 32], old[TICKET_SIZE], new[TICKET_SIZE];
    (void)close(mkstemp(path));
    write_secrets(path, "the-first-secret-of-tickets\n");
    (void)snprintf(env, sizeof env, "SECKILL_TICKET_SECRET_FILE=%s", path);
    here = service_start(ENV(env, "SECKILL_REACTORS=3"));
    make_voucher(",\"ticket\":true");
    get_ticket(here, "alice", old);
    ck_assert(is_good(here, "alice", old));
    write_secrets(path, NEW_SECRET "\nthe-first-secret-of-tickets\n");
    service_signal(here, SIGHUP);
    WAIT_FOR((get_ticket(here, "alice", new), strcmp(new, old) != 0) && is_good(here, "alice", old));
    write_secrets(path, NEW_SECRET "\n");
    service_signal(here, SIGHUP);
    WAIT_FOR(!is_good(here, "alice", old));
    // At each reactor; one that lags behind may still sign with the first secret.
    for (int i = 0; i < STOCK; i++)
        WAIT_FOR((get_ticket(here, "alice", new), is_good(here, "alice", new)) && !is_good(here, "alice", old));
    must_buy(here, "alice", new);
    (void)unlink(path);
    books_must_balance(voucher);
}

// As a credential of systemd, which may come after the start.
TEST(a_secret_that_comes_later_turns_tickets_on)
{
    char folder[] = "/tmp/seckill-tickets-XXXXXX", path[PATH_SIZE], env[PATH_SIZE + 32], ticket[TICKET_SIZE];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/seckill.ticket-secret", folder);
    (void)snprintf(env, sizeof env, "CREDENTIALS_DIRECTORY=%s", folder);
    here = service_start(ENV(env, "SECKILL_TICKET_SECRET", "SECKILL_REACTORS=3"));
    ck_assert(http_sample(here, "seckill_tickets_on") == 0);
    write_secrets(path, NEW_SECRET "\n");
    service_signal(here, SIGHUP);
    WAIT_FOR(http_sample(here, "seckill_tickets_on") == 1);
    make_voucher("");
    db_run("UPDATE seckill_voucher SET ticket = true WHERE id = %s", voucher);
    WAIT_FOR(ask_for(here, "POST", voucher, "alice", NULL) == 200);
    get_ticket(here, "alice", ticket);
    (void)unlink(path);
    (void)rmdir(folder);
}

SUITE(.timeout_s = 60, .begin = setup, .teardown = service_stop_all, .in_one_process = true);
