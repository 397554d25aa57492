// Repeats of POST /admin/vouchers never make two vouchers, whatever happened to the first call and its answer.
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "books.h"
#include "http.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

#define ADMIN       "Authorization: Bearer admin-token-of-the-tests\r\n"
#define JSON        "Content-Type: application/json\r\n"
#define KEY(text)   "Idempotency-Key: " text "\r\n"
#define TEN(text)   text text text text text text text text text text
#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

#define TERMS(title, stock, price, begin, end)                                                     \
    "{\"title\":\"" title "\",\"stock\":" stock ",\"price_cents\":" price ",\"begin_at\":\"" begin \
    "\",\"end_at\":\"" end "\"}"
#define T0    "2020-01-01T00:00:00Z"
#define T1    "2120-01-01T00:00:00Z"
#define GOODS TERMS("Goods", "5", "100", T0, T1)

enum { HEADERS_SIZE = 1024, REQUEST_SIZE = 2048 };

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void clean_up(void)
{
    service_stop_all();
    db_let_commits_go(); // if a test failed
}

static int64_t vouchers(void)
{
    return db_number("SELECT count(*) FROM seckill_voucher");
}

static int create(struct service *service, const char *headers, const char *body, struct http_reply *reply)
{
    char all[HEADERS_SIZE];
    (void)snprintf(all, sizeof all, ADMIN JSON "%s", headers);
    return http_ask(service, "POST", "/admin/vouchers", all, body, reply);
}

static void member_must_be(const struct http_reply *reply, const char *name, const char *value)
{
    char found[HTTP_FIELD_SIZE];
    (void)http_member(reply, name, found);
    ck_assert_msg(strcmp(found, value) == 0, "%s is '%s', not '%s': %s", name, found, value, reply->body);
}

// Checks a 201 with this state (NULL: any); returns the voucher's id, to which Location leads.
static void must_be_created(const struct http_reply *reply, const char *state, char id[VOUCHER_ID_SIZE])
{
    char value[HTTP_FIELD_SIZE], location[HTTP_FIELD_SIZE], expected[HTTP_FIELD_SIZE + 16];
    ck_assert_msg(reply->status == 201, "not 201 but %d: %s", reply->status, reply->body);
    if (state != NULL)
        member_must_be(reply, "state", state);
    ck_assert(http_member(reply, "id", value));
    (void)snprintf(expected, sizeof expected, "/vouchers/%s", value);
    ck_assert(http_header(reply, "Location", location));
    ck_assert_str_eq(location, expected);
    (void)snprintf(id, VOUCHER_ID_SIZE, "%.*s", VOUCHER_ID_SIZE - 1, value);
}

static void must_be_same(const struct http_reply *reply, const char *state, const char *id)
{
    char again[VOUCHER_ID_SIZE];
    must_be_created(reply, state, again);
    ck_assert_str_eq(again, id);
}

static void must_sell(struct service *service, const char *id)
{
    struct http_reply reply;
    ck_assert_int_eq(http_buy_patiently(service, id, "alice", &reply), 201);
    books_must_balance(id);
}

// ---- the same key ----

TEST(the_same_key_leads_to_the_same_voucher)
{
    // The same terms in other notations.
    static const char *const same[] = {
        GOODS,
        " " TERMS("Goods", "5", "100", "2020-01-01T08:00:00.000+08:00", "2119-12-31t19:00:00-05:00") "\n",
        "{\"end_at\":\"" T1 "\",\"begin_at\":\"" T0 "\",\"price_cents\":100,\"stock\":5,\"title\":\"G\\u006fods\"}",
    };
    struct service *service = service_start(NULL);
    char id[VOUCHER_ID_SIZE];
    struct http_reply reply;
    int64_t before = vouchers();
    (void)create(service, KEY("one"), GOODS, &reply);
    must_be_created(&reply, "open", id);
    member_must_be(&reply, "remaining", "5");
    must_sell(service, id);
    int64_t epoch = db_number("SELECT epoch FROM voucher_stock WHERE voucher_id = %s", id);
    for (size_t i = 0; i < COUNT(same); i++) {
        (void)create(service, KEY("one"), same[i], &reply);
        must_be_same(&reply, "open", id);
        member_must_be(&reply, "stock", "5");
        member_must_be(&reply, "remaining", "4"); // the current value
    }
    ck_assert_int_eq(vouchers(), before + 1);
    // The repeat has not closed it in order to load it again.
    ck_assert_int_eq(db_number("SELECT epoch FROM voucher_stock WHERE voucher_id = %s", id), epoch);
    books_must_balance(id);
}

TEST(a_key_is_not_used_for_other_terms)
{
    static const char *const others[] = {
        TERMS("goods", "5", "100", T0, T1),
        TERMS("Goods ", "5", "100", T0, T1),
        TERMS("Goods", "6", "100", T0, T1),
        TERMS("Goods", "5", "101", T0, T1),
        TERMS("Goods", "100", "5", T0, T1),
        TERMS("Goods", "5", "100", "2020-01-01T00:00:00.001Z", T1),
        TERMS("Goods", "5", "100", T0, "2120-01-01T00:00:01Z"),
    };
    struct service *service = service_start(NULL);
    char id[VOUCHER_ID_SIZE];
    struct http_reply reply;
    (void)create(service, KEY("two"), GOODS, &reply);
    must_be_created(&reply, "open", id);
    int64_t before = vouchers();
    for (size_t i = 0; i < COUNT(others); i++) {
        (void)create(service, KEY("two"), others[i], &reply);
        http_must_be_problem(&reply, 422, "IDEMPOTENCY_KEY_REUSED");
    }
    ck_assert_int_eq(vouchers(), before);
    (void)create(service, KEY("two"), GOODS, &reply);
    must_be_same(&reply, "open", id);

    // The requested terms count, not the current ones.
    db_run("UPDATE voucher_stock SET units = 7, stock = 7 WHERE voucher_id = %s", id);
    db_run("UPDATE seckill_voucher SET title = 'Changed' WHERE id = %s", id);
    (void)create(service, KEY("two"), GOODS, &reply);
    must_be_same(&reply, "open", id);
    member_must_be(&reply, "title", "Changed");
    (void)create(service, KEY("two"), TERMS("Changed", "7", "100", T0, T1), &reply);
    http_must_be_problem(&reply, 422, "IDEMPOTENCY_KEY_REUSED");
}

TEST(other_keys_and_none_are_other_wishes)
{
    static const char *const headers[] = {"", "", KEY("three"), KEY("Three"), KEY("\"thr\\\"ee\"")};
    struct service *service = service_start(NULL);
    struct http_reply reply;
    char ids[COUNT(headers)][VOUCHER_ID_SIZE], id[VOUCHER_ID_SIZE];
    int64_t before = vouchers();
    for (size_t i = 0; i < COUNT(headers); i++) {
        (void)create(service, headers[i], GOODS, &reply);
        must_be_created(&reply, "open", ids[i]);
    }
    ck_assert_int_eq(vouchers(), before + (int64_t)COUNT(headers));
    // A string of structured fields is the same key without its quotes and escapes.
    (void)create(service, KEY("\"three\""), GOODS, &reply);
    must_be_created(&reply, "open", id);
    ck_assert_str_eq(id, ids[2]);
    (void)create(service, KEY("thr\"ee"), GOODS, &reply);
    must_be_created(&reply, "open", id);
    ck_assert_str_eq(id, ids[4]);
}

TEST(keys_are_checked)
{
    static const struct {
        const char *headers;
        bool good;
    } rows[] = {
        {KEY(""), false},
        {KEY("a b"), false},
        {KEY("a\tb"), false},
        {KEY("\xc3\xa9"), false},
        {KEY("twice") KEY("twice"), false},
        {KEY("twice") KEY("other"), false},
        {KEY("twice") KEY(""), false},
        {KEY(TEN(TEN("ab")) TEN("12345") "123456"), false}, // 256
        {KEY(TEN(TEN("ab")) TEN("12345") "12345"), true},
        {KEY("\"\""), false},
        {KEY("\"a"), false},
        {KEY("\"a\"b"), false},
        {KEY("\"a\\b\""), false},
        {KEY("\"a b\""), false},
        {KEY("\"" TEN(TEN("ab")) TEN("12345") "123456\""), false}, // 256
        {KEY("\"" TEN(TEN("cd")) TEN("12345") "12345\""), true},
        {KEY("!"), true},
        {KEY("~"), true},
        {"idempotency-key:   spaces-before\r\n", true},
    };
    struct service *service = service_start(NULL);
    struct http_reply reply;
    char id[VOUCHER_ID_SIZE];
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t before = vouchers();
        (void)create(service, rows[i].headers, GOODS, &reply);
        if (rows[i].good)
            must_be_created(&reply, "open", id);
        else
            ck_assert_msg(http_is_problem(&reply, 422, "BAD_IDEMPOTENCY_KEY"), "%s-> %d %s", rows[i].headers,
                          reply.status, reply.body);
        ck_assert_int_eq(vouchers(), before + rows[i].good);
    }
}

// ---- concurrent calls ----

// Creating then waits for the catalogue as long as it is locked, not only for the session's lock_timeout.
static PGconn *hold_catalogue(void)
{
    db_run("ALTER FUNCTION create_voucher SET lock_timeout = 0");
    PGconn *conn = db_connect();
    PQclear(PQexec(conn, "BEGIN"));
    PGresult *result = PQexec(conn, "LOCK TABLE seckill_catalogue IN EXCLUSIVE MODE");
    ck_assert_int_eq(PQresultStatus(result), PGRES_COMMAND_OK);
    PQclear(result);
    return conn;
}

static int64_t held_up(void)
{
    return db_number("SELECT count(*) FROM pg_locks WHERE relation = 'seckill_catalogue'::regclass AND NOT granted");
}

static int ask_for(struct service *service, const char *key, const char *body)
{
    char request[REQUEST_SIZE];
    int fd = http_connect(service);
    (void)snprintf(request, sizeof request,
                   "POST /admin/vouchers HTTP/1.1\r\nHost: test\r\n" ADMIN JSON "%sContent-Length: %zu\r\n\r\n%s", key,
                   strlen(body), body);
    ck_assert(http_send_text(fd, request));
    return fd;
}

static void receive(int fd, struct http_reply *reply)
{
    ck_assert(http_receive(fd, reply));
    (void)close(fd);
}

TEST(two_instances_asked_at_once_create_one_voucher)
{
    STACK_SKIP_SHARDS("it holds one server, and the voucher may get another");
    struct service *const services[] = {service_start(NULL), service_start(NULL)};
    static struct http_reply replies[2];
    int fds[2];
    char ids[2][VOUCHER_ID_SIZE], state[HTTP_FIELD_SIZE];
    int64_t before = vouchers();
    PGconn *holder = hold_catalogue();
    for (int i = 0; i < 2; i++)
        fds[i] = ask_for(services[i], KEY("at-once"), GOODS);
    WAIT_FOR(held_up() == 2);
    PQfinish(holder);
    for (int i = 0; i < 2; i++) {
        receive(fds[i], &replies[i]);
        ck_assert(http_member(&replies[i], "state", state)); // the other call may still be loading it
        must_be_created(&replies[i], state, ids[i]);
        ck_assert(strcmp(state, "open") == 0 || strcmp(state, "loading") == 0);
    }
    ck_assert_str_eq(ids[0], ids[1]);
    ck_assert_int_eq(vouchers(), before + 1);
    must_sell(services[0], ids[0]);
}

TEST(two_instances_asked_at_once_for_different_vouchers_create_one)
{
    STACK_SKIP_SHARDS("it holds one server, and the voucher may get another");
    static const char *const terms[] = {GOODS, TERMS("Goods", "6", "100", T0, T1)};
    struct service *const services[] = {service_start(NULL), service_start(NULL)};
    static struct http_reply replies[2];
    int fds[2];
    int64_t before = vouchers();
    PGconn *holder = hold_catalogue();
    for (int i = 0; i < 2; i++)
        fds[i] = ask_for(services[i], KEY("at-odds"), terms[i]);
    WAIT_FOR(held_up() == 2);
    PQfinish(holder);
    for (int i = 0; i < 2; i++)
        receive(fds[i], &replies[i]);
    int winner = replies[0].status == 201 ? 0 : 1;
    ck_assert_int_eq(replies[winner].status, 201);
    http_must_be_problem(&replies[1 - winner], 422, "IDEMPOTENCY_KEY_REUSED");
    ck_assert_int_eq(vouchers(), before + 1);
}

TEST(a_key_outlives_the_instance)
{
    struct service *service = service_start(NULL);
    char id[VOUCHER_ID_SIZE];
    struct http_reply reply;
    (void)create(service, KEY("restart"), GOODS, &reply);
    must_be_created(&reply, "open", id);
    service_signal(service, SIGTERM);
    ck_assert_int_eq(service_wait(service), 0);
    postgres_stop();
    postgres_start();
    service = service_start(NULL);
    (void)create(service, KEY("restart"), GOODS, &reply);
    must_be_same(&reply, "open", id);
    must_sell(service, id);
}

// ---- Redis cannot be loaded ----

TEST(without_redis_a_voucher_is_created_and_sells_later)
{
    struct service *service = service_start(NULL);
    char id[VOUCHER_ID_SIZE];
    struct http_reply reply;
    int64_t before = vouchers();
    redis_kill();
    service_await(service, false);
    for (int i = 0; i < 2; i++) {
        (void)create(service, KEY("no-redis"), GOODS, &reply);
        if (i == 0)
            must_be_created(&reply, "loading", id);
        else
            must_be_same(&reply, "loading", id);
    }
    ck_assert_int_eq(vouchers(), before + 1);
    redis_start();
    service_await(service, true);
    must_sell(service, id);
    (void)create(service, KEY("no-redis"), GOODS, &reply);
    must_be_same(&reply, "open", id);
    ck_assert_int_eq(vouchers(), before + 1);
}

TEST(redis_that_does_not_answer_is_not_waited_for)
{
    struct service *service = service_start(ENV("SECKILL_REDIS_TIMEOUT_MS=300"));
    char id[VOUCHER_ID_SIZE];
    struct http_reply reply;
    redis_pause();
    (void)create(service, KEY("paused"), GOODS, &reply);
    must_be_created(&reply, "loading", id);
    redis_resume();
    service_await(service, true);
    must_sell(service, id);
}

// Another instance holds the lock for loading a voucher, or died with it.
TEST(a_voucher_that_cannot_be_loaded_is_not_made_twice)
{
    STACK_SKIP_SHARDS("chance decides on the shard, and so on the next id");
    struct service *service = service_start(NULL);
    char id[VOUCHER_ID_SIZE];
    struct http_reply reply;
    int64_t before = vouchers();
    // The next id is known in advance, because no other client creates vouchers here.
    int64_t next =
        db_number("SELECT last_value + 1 FROM pg_sequences"
                  " WHERE sequencename = replace(pg_get_serial_sequence('seckill_voucher', 'id'), 'public.', '')");
    redis_run("SET seckill:lock:rebuild:{%lld} somebody PX 60000", (long long)next);
    (void)create(service, KEY("locked"), GOODS, &reply);
    must_be_created(&reply, "loading", id);
    ck_assert_int_eq(strtoll(id, NULL, 10), next);
    // The lock is cut to the TTL of all locks; a repeated call waits until the voucher is loaded.
    (void)create(service, KEY("locked"), GOODS, &reply);
    must_be_same(&reply, "open", id);
    ck_assert_int_eq(vouchers(), before + 1);
    must_sell(service, id);
}

// ---- the answer is lost ----

static void end_connections(const char *which)
{
    db_run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'seckill%%' AND %s",
           which);
}

// The connection is lost before the commit, with or without a key: the service retries by itself.
TEST(a_connection_lost_before_the_commit)
{
    STACK_SKIP_SHARDS("it holds one server, and the voucher may get another");
    static const char *const keys[] = {KEY("lost-before"), ""};
    struct service *service = service_start(NULL);
    struct http_reply reply;
    char id[VOUCHER_ID_SIZE];
    for (size_t i = 0; i < COUNT(keys); i++) {
        int64_t before = vouchers();
        PGconn *holder = hold_catalogue();
        int fd = ask_for(service, keys[i], GOODS);
        WAIT_FOR(held_up() == 1);
        end_connections("wait_event_type = 'Lock'");
        PQfinish(holder);
        receive(fd, &reply);
        must_be_created(&reply, "open", id);
        ck_assert_int_eq(vouchers(), before + 1);
        must_sell(service, id);
    }
}

// A commit that waits for a standby is durable; only its answer is missing.
static bool answer_is_held(void)
{
    return db_number("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
                     " AND query LIKE '%%create_voucher%%'") == 1;
}

TEST(a_connection_lost_after_the_commit)
{
    STACK_SKIP_SHARDS("it holds one server, and the voucher may get another");
    static const char *const keys[] = {KEY("lost-after"), ""};
    struct service *service = service_start(NULL);
    struct http_reply reply;
    char id[VOUCHER_ID_SIZE];
    for (size_t i = 0; i < COUNT(keys); i++) {
        int64_t before = vouchers();
        db_hold_commits();
        int fd = ask_for(service, keys[i], GOODS);
        WAIT_FOR(answer_is_held());
        ck_assert_int_eq(vouchers(), before); // not visible to others yet
        end_connections("wait_event = 'SyncRep'");
        WAIT_FOR(vouchers() == before + 1);
        db_let_commits_go();
        receive(fd, &reply);
        must_be_created(&reply, NULL, id); // its links may be back too late to load it in time
        ck_assert_int_eq(vouchers(), before + 1);
        must_sell(service, id);
    }
}

// If the outcome is unknown in time the answer reports that, here although the row exists; a repeat under the same key
// settles it.
TEST(an_unknown_outcome_is_settled_by_asking_again)
{
    STACK_SKIP_SHARDS("it holds one server, and the voucher may get another");
    struct service *service = service_start(ENV("SECKILL_PG_TIMEOUT_MS=3000"));
    struct http_reply reply;
    char id[VOUCHER_ID_SIZE], value[HTTP_FIELD_SIZE];
    int64_t before = vouchers();
    db_hold_commits();
    int fd = ask_for(service, KEY("unknown"), GOODS);
    WAIT_FOR(answer_is_held());
    db_run("ALTER SYSTEM RESET synchronous_standby_names"); // applies from the next start
    postgres_stop();
    receive(fd, &reply);
    http_must_be_problem(&reply, 503, "UNAVAILABLE");
    ck_assert(http_header(&reply, "Retry-After", value));
    postgres_start();
    ck_assert_int_eq(vouchers(), before + 1);
    WAIT_FOR(create(service, KEY("unknown"), GOODS, &reply) != 503);
    ck_assert(http_member(&reply, "state", value)); // the audit may be loading it
    must_be_created(&reply, value, id);
    ck_assert_int_eq(vouchers(), before + 1);
    must_sell(service, id);
}

// PostgreSQL is stuck: nothing is created, and the answer comes in time.
TEST(postgres_that_does_not_answer_is_not_waited_for)
{
    STACK_SKIP_SHARDS("it holds one server, and the voucher may get another");
    struct service *service = service_start(ENV("SECKILL_PG_TIMEOUT_MS=300"));
    struct http_reply reply;
    char id[VOUCHER_ID_SIZE];
    int64_t before = vouchers();
    PGconn *holder = hold_catalogue();
    (void)create(service, KEY("stuck"), GOODS, &reply);
    http_must_be_problem(&reply, 503, "UNAVAILABLE");
    PQfinish(holder);
    WAIT_FOR(create(service, KEY("stuck"), GOODS, &reply) != 503);
    must_be_created(&reply, "open", id);
    ck_assert_int_eq(vouchers(), before + 1);
    must_sell(service, id);
}

// An instance that is stopped meanwhile exits cleanly and answers every client; a repeat under the same key returns the
// outcome.
TEST(an_instance_that_stops_answers_and_ends)
{
    STACK_SKIP_SHARDS("it holds one server, and the voucher may get another");
    char id[VOUCHER_ID_SIZE], state[HTTP_FIELD_SIZE];
    struct http_reply reply;
    for (int committed = 0; committed < 2; committed++) {
        struct service *service = service_start(ENV("SECKILL_DRAIN_TIMEOUT_MS=100", "SECKILL_REDIS_TIMEOUT_MS=60000"));
        const char *key = committed ? KEY("stop-loading") : KEY("stop-asking");
        int64_t before = vouchers();
        PGconn *holder = committed ? NULL : hold_catalogue();
        if (committed)
            redis_pause();
        int fd = ask_for(service, key, GOODS);
        WAIT_FOR(committed ? vouchers() == before + 1 : held_up() == 1);
        service_signal(service, SIGTERM);
        receive(fd, &reply);
        http_must_be_problem(&reply, 503, "UNAVAILABLE");
        ck_assert_int_eq(service_wait(service), 0);
        redis_resume();
        PQfinish(holder);
        service = service_start(NULL);
        (void)create(service, key, GOODS, &reply);
        ck_assert(http_member(&reply, "state", state)); // the lock of the ended instance may still exist
        must_be_created(&reply, state, id);
        ck_assert_int_eq(vouchers(), before + 1);
        must_sell(service, id);
    }
}

// ---- invalid terms ----

static void errors_must_be(const struct http_reply *reply, const char *expected)
{
    char told[1024] = "";
    size_t i, n = 0;
    json_t *json = json_loads(reply->body, JSON_REJECT_DUPLICATES, NULL), *error;
    json_array_foreach(json_object_get(json, "errors"), i, error)
    {
        n +=
            (size_t)snprintf(told + n, sizeof told - n, "%s %s\n", json_string_value(json_object_get(error, "pointer")),
                             json_string_value(json_object_get(error, "detail")));
        ck_assert_uint_lt(n, sizeof told);
    }
    json_decref(json);
    ck_assert_msg(strcmp(told, expected) == 0, "%s should say\n%s", reply->body, expected);
}

TEST(all_that_is_wrong_is_told)
{
    static const struct {
        const char *body;
        int status;
        const char *code, *errors;
    } rows[] = {
        {TERMS("", "-1", "\"1\"", T1, T0), 422, "INVALID",
         "/title must be a string of 1 to 200 bytes\n/stock must be an integer from 0 to 100000000\n"
         "/price_cents must be an integer from 0 to 100000000000\n/end_at must be later than begin_at\n"},
        {"{\"title\":\"x\",\"a/b~\\\"\\n\":1}", 400, "BAD_JSON",
         "/stock is required\n/price_cents is required\n/begin_at is required\n/end_at is required\n"
         "/a~1b~0\"\n is not known here\n"},
        {"{\"title\":\"secret", 400, "BAD_JSON", " cannot be read as JSON: it ends too early (line 1, column 16)\n"},
        {NULL, 400, "BAD_JSON", " must be a JSON object, but there is no body\n"},
    };
    struct service *service = service_start(NULL);
    struct http_reply reply;
    for (size_t i = 0; i < COUNT(rows); i++) {
        (void)create(service, "", rows[i].body, &reply);
        http_must_be_problem(&reply, rows[i].status, rows[i].code);
        errors_must_be(&reply, rows[i].errors);
        ck_assert_ptr_null(strstr(reply.body, "secret"));
    }
}

SUITE(.begin = setup, .teardown = clean_up, .in_one_process = true);
