// What is answered: valid JSON with the members promised, and the header fields beside it.
//
// The functions of responses and requests are replaced here by ones that keep what they are given: libmicrohttpd shows
// a response's header fields to clients alone.
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "answer.h"
#include "cors.h"
#include "sale.h"
#include "server_options.h"
#include "test.h"
#include "text.h"
#include "verdict.h"

enum { BODY_SIZE = 1024, FIELD_SIZE = 64, VALUE_SIZE = 2048, FIELDS = 12, RESPONSES = 2048 };

#define POLICY "\"user\";q=10;w=1, \"address\";q=5000;w=1"
#define ID     "018bcfe5-6800-7000-8000-0123456789ab"
#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define PARENT "00-" TRACE "-b7ad6b7169203331-01"

struct sk_response {
    char type[FIELD_SIZE], body[BODY_SIZE];
    char names[FIELDS][FIELD_SIZE], values[FIELDS][VALUE_SIZE];
    int fields;
    const char *over; // its text is there; NULL: in body
    size_t len;
    bool used;
};

static struct sk_response responses[RESPONSES], made; // as it was when it was sent
static bool no_memory, was_made;
static unsigned status_sent;
static const struct sk_response *sent_one; // that `made` is a copy of
static struct sk_answers *answers;
static struct sk_request asked;
static const char *query = ""; // what is put of it
static const char *origin;     // where it comes from; NULL: it does not say
static int fields_read;        // of requests, by now

struct sk_response *sk_response_new(const char *type, const char *body, size_t len)
{
    int i = 0;
    while (i < RESPONSES && responses[i].used)
        i++;
    ck_assert_int_lt(i, RESPONSES);
    ck_assert_uint_lt(len, sizeof responses[i].body);
    if (no_memory)
        return NULL;
    responses[i] = (struct sk_response){.len = len, .used = true};
    (void)snprintf(responses[i].type, sizeof responses[i].type, "%s", type);
    memcpy(responses[i].body, body, len);
    return &responses[i];
}

void sk_response_header(struct sk_response *response, const char *name, const char *value)
{
    if (response == NULL)
        return;
    ck_assert_int_lt(response->fields, FIELDS);
    (void)snprintf(response->names[response->fields], FIELD_SIZE, "%s", name);
    (void)snprintf(response->values[response->fields++], VALUE_SIZE, "%s", value);
}

struct sk_response *sk_response_of(const char *type, const char *body, size_t len)
{
    struct sk_response *response = sk_response_new(type, body, len);
    if (response != NULL)
        response->over = body;
    return response;
}

char *sk_response_value(struct sk_response *response, const char *name)
{
    for (int i = 0; response != NULL && i < response->fields; i++) {
        if (strcmp(response->names[i], name) == 0)
            return response->values[i];
    }
    return NULL;
}

void sk_response_free(struct sk_response *response)
{
    if (response != NULL)
        response->used = false;
}

void sk_request_answer(struct sk_request *request, unsigned http_status, struct sk_response *response)
{
    ck_assert_ptr_eq(request, &asked);
    status_sent = http_status;
    was_made = response != NULL;
    sent_one = response;
    if (was_made)
        made = *response;
    if (was_made && made.over != NULL)
        memcpy(made.body, made.over, made.len);
    ck_assert(!was_made || strlen(made.body) == made.len);
}

const char *sk_request_header(const struct sk_request *request, const char *name, unsigned *count)
{
    const char *value = strcmp(name, "origin") == 0 ? origin : "POST";
    ck_assert_ptr_eq(request, &asked);
    fields_read++;
    if (count != NULL)
        *count = value != NULL;
    return value;
}

void sk_request_put_query(const struct sk_request *request, const char *but, struct sk_buf *out)
{
    ck_assert_ptr_eq(request, &asked);
    ck_assert_str_eq(but, "cursor");
    sk_buf_puts(out, query);
}

// ---- every way to answer ----

enum way {
    REFUSAL,
    PROBLEM,
    ERRORS,
    ALLOW,
    BROKEN, // of a request that ends its connection
    FINE,
    DOCUMENT,
    VOUCHER,
    TEXT,
    STREAM,
    NOTHING,
    REPEATED,
    ORDER,
    WAYS
};
enum { PROBLEM_WAYS = FINE };

static void answer_problem(enum sk_verdict verdict, const char *order_id, uint64_t retry_after_ms)
{
    struct sk_answer answer = {.verdict = verdict, .order_id = order_id, .retry_after_ms = retry_after_ms};
    sk_answer_send(answers, &asked, &answer);
}

static void answer_last(enum sk_verdict verdict)
{
    bool last = asked.last;
    asked.last = true;
    sk_answer_refusal(answers, &asked, verdict);
    asked.last = last;
}

static void answer_in_way(int way)
{
    static const struct sk_answer document = {.verdict = SK_VERDICT_FOUND, .body = "{}", .version = 1, .next = "x"},
                                  voucher = {.verdict = SK_VERDICT_CREATED, .body = "{}", .location = "/vouchers/7"},
                                  text = {.verdict = SK_VERDICT_FOUND, .body = "a,b\r\n", .type = "text/csv"};
    static const struct sk_order_shown order = {.id = ID, .user = "u", .voucher_id = 1, .status = "pending"};
    json_t *errors = json_array();
    switch ((enum way)way) {
    case REFUSAL:
        sk_answer_refusal(answers, &asked, SK_VERDICT_SOLD_OUT);
        break;
    case PROBLEM:
        answer_problem(SK_VERDICT_NOT_STARTED, NULL, 1);
        break;
    case ERRORS:
        sk_answer_errors(answers, &asked, SK_VERDICT_INVALID, errors);
        break;
    case ALLOW:
        sk_answer_allow(answers, &asked, SK_VERDICT_METHOD_NOT_ALLOWED, "GET, HEAD");
        break;
    case BROKEN:
        answer_last(SK_VERDICT_BAD_REQUEST);
        break;
    case FINE:
        sk_answer_ok(answers, &asked);
        break;
    case DOCUMENT:
    case VOUCHER:
    case TEXT:
        sk_answer_send(answers, &asked, way == DOCUMENT ? &document : way == VOUCHER ? &voucher : &text);
        break;
    case STREAM:
        sk_answer_stream(answers, &asked, sk_response_new("text/event-stream", "", 0));
        break;
    case NOTHING:
        sk_answer_nothing(answers, &asked);
        break;
    case REPEATED:
        sk_answer_repeated(answers, &asked, ID, &document);
        break;
    default:
        sk_answer_order(answers, &asked, SK_VERDICT_ACCEPTED, &order, true);
    }
    json_decref(errors);
}

// ---- fixture ----

static void setup(void)
{
    origin = NULL;
    answers = sk_answers_open(NULL);
    ck_assert_ptr_nonnull(answers);
    sk_answers_keep_alive(answers, true);
}

static void open_again(const struct sk_cors *cors)
{
    sk_answers_close(answers);
    answers = sk_answers_open(cors);
    sk_answers_keep_alive(answers, true);
}

// Every response that was made for one request is freed by then.
static void teardown(void)
{
    sk_answers_close(answers);
    for (int i = 0; i < RESPONSES; i++)
        ck_assert(!responses[i].used);
}

// NULL: not set.
static const char *field(const char *name)
{
    return sk_response_value(&made, name);
}

static json_t *read_body(void)
{
    json_error_t error;
    json_t *json = json_loads(made.body, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(json != NULL, "not JSON (%s): %s", error.text, made.body);
    return json;
}

static void must_have_text(const json_t *json, const char *member, const char *text)
{
    ck_assert_pstr_eq(json_string_value(json_object_get(json, member)), text);
}

// ---- problems ----

// The first four members of every problem.
static json_t *read_problem(enum sk_verdict verdict)
{
    char type[FIELD_SIZE * 2];
    json_t *json = read_body();
    (void)snprintf(type, sizeof type, "urn:seckill:problem:%s", sk_verdict_code(verdict));
    ck_assert_uint_eq(status_sent, sk_verdict_http_status(verdict));
    ck_assert_str_eq(made.type, "application/problem+json");
    must_have_text(json, "type", type);
    must_have_text(json, "title", sk_verdict_title(verdict));
    must_have_text(json, "code", sk_verdict_code(verdict));
    ck_assert_int_eq(json_integer_value(json_object_get(json, "status")), status_sent);
    return json;
}

// RFC 9110 12.5.3: Accept-Encoding tells a wrong coding from a wrong media type.
TEST(every_refusal_is_a_problem_document)
{
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        enum sk_verdict verdict = (enum sk_verdict)i;
        unsigned status = sk_verdict_http_status(verdict);
        bool again = (status == 503 && verdict != SK_VERDICT_TICKETS_OFF) || verdict == SK_VERDICT_PENDING ||
                     verdict == SK_VERDICT_RATE_LIMITED;
        sk_answer_refusal(answers, &asked, verdict);
        json_t *json = read_problem(verdict);
        ck_assert_uint_eq(json_object_size(json), 4);
        json_decref(json);
        ck_assert_int_eq(field("Retry-After") != NULL, again);
        ck_assert_pstr_eq(field("Accept-Encoding"), verdict == SK_VERDICT_UNSUPPORTED_ENCODING ? "identity" : NULL);
        ck_assert_pstr_eq(field("WWW-Authenticate"), status == 401 ? "Bearer" : NULL);
        ck_assert_ptr_null(field("Connection"));
        answer_last(verdict);
        ck_assert_pstr_eq(field("Connection"), "close");
        ck_assert_int_eq(made.fields, 2 + (again || status == 401 || verdict == SK_VERDICT_UNSUPPORTED_ENCODING));
        answer_problem(verdict, ID, 0);
        ck_assert_int_eq(field("Retry-After") != NULL, again);
        answer_problem(verdict, NULL, 5000); // what is known better
        ck_assert_pstr_eq(field("Retry-After"), "5");
    }
}

TEST(a_problem_says_what_is_known)
{
    static const struct {
        struct sk_answer answer;
        const char *members; // behind the code
    } rows[] = {
        {{.verdict = SK_VERDICT_NOT_ENOUGH, .left = 3}, ",\"left\":3"},
        {{.verdict = SK_VERDICT_NOT_ENOUGH}, ",\"left\":0"},
        {{.verdict = SK_VERDICT_BELOW_SOLD, .left = INT64_MAX}, ",\"left\":9223372036854775807"},
        {{.verdict = SK_VERDICT_SOLD_OUT, .left = 3}, ""},
        {{.verdict = SK_VERDICT_INVALID, .member = "end_at", .detail = "must be later than begin_at"},
         ",\"errors\":[{\"pointer\":\"/end_at\",\"detail\":\"must be later than begin_at\"}]"},
        {{.verdict = SK_VERDICT_BAD_PARAMETER, .parameter = "limit", .detail = "must be an integer"},
         ",\"errors\":[{\"parameter\":\"limit\",\"detail\":\"must be an integer\"}]"},
        {{.verdict = SK_VERDICT_BAD_SIGNATURE, .detail = "it is too old"}, ",\"detail\":\"it is too old\""},
        {{.verdict = SK_VERDICT_OVERLOADED, .limit = "SECKILL_LONG_PER_USER"}, ",\"limit\":\"SECKILL_LONG_PER_USER\""},
        {{.verdict = SK_VERDICT_WRONG_STATE, .status = "paid"}, ",\"state\":\"paid\""},
        {{.verdict = SK_VERDICT_ALREADY_ORDERED, .order_id = ID}, ",\"order_id\":\"" ID "\""},
        {{.verdict = SK_VERDICT_ALREADY_ORDERED, .order_id = ID, .voucher_id = 7},
         ",\"order_id\":\"" ID "\",\"voucher_id\":\"7\""},
        {{.verdict = SK_VERDICT_NOT_ENOUGH,
          .order_id = ID,
          .left = INT64_MIN,
          .status = "a-state-of-as-many-as-32-letters"},
         ",\"order_id\":\"" ID "\",\"left\":-9223372036854775808,\"state\":\"a-state-of-as-many-as-32-letters\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char end[BODY_SIZE];
        sk_answer_send(answers, &asked, &rows[i].answer);
        json_decref(read_problem(rows[i].answer.verdict));
        (void)snprintf(end, sizeof end, "\"code\":\"%s\"%s}\n", sk_verdict_code(rows[i].answer.verdict),
                       rows[i].members);
        ck_assert_str_eq(strstr(made.body, "\"code\""), end);
    }
}

// The longest of all, and all at once that an answer can have.
TEST(members_fit)
{
    char name[200], detail[200];
    memset(name, 'n', sizeof name - 1);
    memset(detail, 'd', sizeof detail - 1);
    name[sizeof name - 1] = detail[sizeof detail - 1] = '\0';
    const struct sk_answer all[] = {
        {.verdict = SK_VERDICT_NOT_ENOUGH, .order_id = ID, .left = INT64_MIN, .status = name},
        {.verdict = SK_VERDICT_OVERLOADED, .limit = "SECKILL_LONG_PER_ADDRESS", .order_id = ID, .status = name},
        {.verdict = SK_VERDICT_BAD_PARAMETER, .parameter = name, .detail = detail},
        {.verdict = SK_VERDICT_WRONG_AMOUNT, .member = name, .detail = detail},
        {.verdict = SK_VERDICT_UNAUTHENTICATED, .detail = detail},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        sk_answer_send(answers, &asked, &all[i]);
        json_decref(read_body());
    }
}

TEST(a_challenge_may_be_another)
{
    sk_answer_send(answers, &asked, &(struct sk_answer){.verdict = SK_VERDICT_UNAUTHENTICATED, .challenge = "Gateway"});
    ck_assert_str_eq(field("WWW-Authenticate"), "Gateway");
}

TEST(retry_after_is_rounded_up_to_seconds)
{
    static const struct {
        uint64_t ms;
        const char *seconds; // NULL: none
    } rows[] = {
        {0, NULL},   {1, "1"},    {999, "1"},    {1000, "1"},         {1001, "2"},
        {1999, "2"}, {2000, "2"}, {59001, "60"}, {86400000, "86400"}, {UINT64_C(253402300799999), "253402300800"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        answer_problem(SK_VERDICT_NOT_STARTED, NULL, rows[i].ms);
        ck_assert_pstr_eq(field("Retry-After"), rows[i].seconds);
        json_decref(read_body());
    }
}

// What a client named comes back escaped.
TEST(errors_are_listed)
{
    json_t *errors = json_pack("[{s:s,s:s},{s:s,s:s}]", "pointer", "/stock", "detail", "is required", "pointer",
                               "/\"\n\\\xc3\xa9", "detail", "is not known");
    sk_answer_errors(answers, &asked, SK_VERDICT_INVALID, errors);
    json_t *json = read_problem(SK_VERDICT_INVALID);
    ck_assert_uint_eq(json_object_size(json), 5);
    ck_assert(json_equal(json_object_get(json, "errors"), errors));
    json_decref(json);
    json_decref(errors);
}

TEST(other_methods_are_told_what_is_allowed)
{
    answer_in_way(ALLOW);
    json_decref(read_problem(SK_VERDICT_METHOD_NOT_ALLOWED));
    ck_assert_pstr_eq(field("Allow"), "GET, HEAD");
}

// ---- orders and documents ----

// No cache keeps an answer to a POST without a time until which it is fresh: an order does not pay for a field that
// says so.
TEST(an_order_is_shown_with_ids_as_strings_and_its_place)
{
#define USER_64       "uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu"
#define BEGIN(id, by) "{\"id\":\"" ID "\",\"voucher_id\":\"" id "\",\"user_id\":\"" by "\","
    static const struct sk_price price = {.cents = 9900, .currency = "CNY"};
    static const struct {
        enum sk_verdict verdict;
        struct sk_order_shown order;
        bool respond_async;
        const char *body, *applied;
    } rows[] = {
        {SK_VERDICT_ACCEPTED,
         {.id = ID, .user = "u", .voucher_id = 1, .quantity = 1, .status = "pending"},
         true,
         BEGIN("1", "u") "\"quantity\":1,\"status\":\"pending\"}\n",
         "respond-async"},
        {SK_VERDICT_ACCEPTED,
         {.id = ID, .user = USER_64, .voucher_id = INT64_MAX, .quantity = 1000, .status = "pending"},
         false,
         BEGIN("9223372036854775807", USER_64) "\"quantity\":1000,\"status\":\"pending\"}\n",
         NULL},
        {SK_VERDICT_PLACED,
         {.id = ID,
          .user = "u",
          .voucher_id = INT64_C(9007199254740993),
          .quantity = 2,
          .price = &price,
          .status = "unpaid",
          .created_ms = 1700000000001,
          .expires_ms = 1700000900001},
         true,
         BEGIN("9007199254740993", "u") "\"quantity\":2,\"price_cents\":9900,\"total_cents\":19800,"
                                        "\"currency\":\"CNY\",\"status\":\"unpaid\","
                                        "\"created_at\":\"2023-11-14T22:13:20.001Z\","
                                        "\"expires_at\":\"2023-11-14T22:28:20.001Z\"}\n",
         NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sk_answer_order(answers, &asked, rows[i].verdict, &rows[i].order, rows[i].respond_async);
        ck_assert_uint_eq(status_sent, rows[i].verdict == SK_VERDICT_PLACED ? 201 : 202);
        ck_assert_str_eq(made.type, "application/json");
        ck_assert_str_eq(made.body, rows[i].body);
        ck_assert_pstr_eq(field("Location"), "/orders/" ID);
        ck_assert_pstr_eq(field("Preference-Applied"), rows[i].applied);
    }
}

TEST(a_new_voucher_is_shown_with_its_place)
{
    const struct sk_answer answer = {.verdict = SK_VERDICT_CREATED,
                                     .location = "/vouchers/9223372036854775807",
                                     .version = INT64_MAX,
                                     .body = "{\"id\":\"9223372036854775807\"}"};
    sk_answer_send(answers, &asked, &answer);
    ck_assert_uint_eq(status_sent, 201);
    ck_assert_str_eq(made.type, "application/json");
    ck_assert_str_eq(made.body, answer.body);
    ck_assert_pstr_eq(field("Location"), answer.location);
    ck_assert_pstr_eq(field("ETag"), "\"9223372036854775807\"");
}

TEST(a_document_says_its_type_its_version_and_its_next_page)
{
    struct sk_answer answer = {.verdict = SK_VERDICT_FOUND, .body = "{}"};
    asked.path = "/orders";
    query = "limit=2&";
    sk_answer_send(answers, &asked, &answer);
    ck_assert_uint_eq(status_sent, 200);
    ck_assert_int_eq(made.fields, 1); // that no cache keeps it
    answer.version = 7;
    answer.next = "a.b/c+d>\"";
    sk_answer_send(answers, &asked, &answer);
    ck_assert_pstr_eq(field("ETag"), "\"7\"");
    ck_assert_pstr_eq(field("Link"), "</orders?limit=2&cursor=a.b%2Fc%2Bd%3E%22>; rel=\"next\"");
    query = "";
    answer.version = 0;
    sk_answer_send(answers, &asked, &answer); // nothing is left of the one before
    ck_assert_ptr_null(field("ETag"));
    ck_assert_pstr_eq(field("Link"), "</orders?cursor=a.b%2Fc%2Bd%3E%22>; rel=\"next\"");
    answer_in_way(TEXT);
    ck_assert_uint_eq(status_sent, 200);
    ck_assert_str_eq(made.type, "text/csv");
    ck_assert_str_eq(made.body, "a,b\r\n");
}

// The library has little room for a header.
TEST(a_link_that_is_too_long_is_left_out)
{
    struct sk_answer answer = {.verdict = SK_VERDICT_FOUND, .body = "{}", .next = "x"};
    static char text[400];
    asked.path = "/orders";
    query = text;
    memset(text, 'y', 320 - strlen("</orders?cursor=x>; rel=\"next\""));
    sk_answer_send(answers, &asked, &answer);
    ck_assert_ptr_nonnull(field("Link"));
    ck_assert_uint_eq(strlen(field("Link")), 320);
    text[strlen(text)] = 'y';
    sk_answer_send(answers, &asked, &answer);
    ck_assert_ptr_null(field("Link"));
    ck_assert_str_eq(made.body, "{}");
}

// ---- what every answer has ----

TEST(the_last_answers_end_their_connections)
{
    for (int way = 0; way < WAYS; way++) {
        answer_in_way(way);
        ck_assert_pstr_eq(field("Connection"), way == BROKEN ? "close" : NULL);
        asked.last = true;
        answer_in_way(way);
        ck_assert_pstr_eq(field("Connection"), "close");
        asked.last = false;
        sk_answers_keep_alive(answers, false);
        answer_in_way(way);
        ck_assert_pstr_eq(field("Connection"), "close");
        sk_answers_keep_alive(answers, true);
    }
}

// A stream's head says so itself (response.c).
TEST(no_cache_keeps_an_answer)
{
    for (int way = 0; way < WAYS; way++) {
        answer_in_way(way);
        ck_assert_pstr_eq(field("Cache-Control"), way == STREAM || way == REPEATED || way == ORDER ? NULL : "no-store");
    }
}

static void must_tell(const char *left)
{
    ck_assert_pstr_eq(field("RateLimit-Policy"), POLICY);
    ck_assert_pstr_eq(field("RateLimit"), left);
}

TEST(what_a_limit_leaves_is_told)
{
    sk_answers_limit(answers, POLICY);
    answer_in_way(REFUSAL);
    ck_assert_ptr_null(field("RateLimit"));
    ck_assert_ptr_null(field("RateLimit-Policy"));
    asked.limit = (struct sk_limit){SK_POLICY_USER, 3};
    for (int way = 0; way < WAYS; way++) {
        answer_in_way(way);
        must_tell("\"user\";r=3;t=1");
    }
    asked.limit = (struct sk_limit){SK_POLICY_ADDRESS, 0};
    for (int n = 0; n < 6; n++) { // one that is kept is not for a request that is the last one
        asked.last = n % 2 == 1;
        sk_answers_keep_alive(answers, n != 4);
        sk_answer_refusal(answers, &asked, SK_VERDICT_RATE_LIMITED);
        must_tell("\"address\";r=0;t=1");
        ck_assert_ptr_nonnull(strstr(made.body, "\"violated-policies\":[\"address\"]"));
        ck_assert_pstr_eq(field("Retry-After"), "1");
        ck_assert_pstr_eq(field("Connection"), n % 2 == 1 || n == 4 ? "close" : NULL);
    }
}

// They are kept by what they say, a thousand of them.
TEST(kept_refusals_are_not_mixed_up)
{
    static const enum sk_verdict verdicts[] = {SK_VERDICT_SOLD_OUT, SK_VERDICT_ENDED, SK_VERDICT_RATE_LIMITED};
    sk_answers_limit(answers, POLICY);
    for (unsigned i = 0; i < 6000; i++) {
        char left[FIELD_SIZE];
        enum sk_verdict verdict = verdicts[i % 3];
        bool of_user = i / 3 % 2 == 0;
        asked.limit = (struct sk_limit){of_user ? SK_POLICY_USER : SK_POLICY_ADDRESS, i * 7919 % 5000 / (1 + i % 50)};
        (void)snprintf(left, sizeof left, "\"%s\";r=%u;t=1", of_user ? "user" : "address", asked.limit.left);
        for (int again = 0; again < 2; again++) {
            sk_answer_refusal(answers, &asked, verdict);
            must_tell(left);
            ck_assert_uint_eq(status_sent, sk_verdict_http_status(verdict));
            ck_assert_ptr_nonnull(strstr(made.body, sk_verdict_code(verdict)));
        }
    }
}

// ---- origins ----

#define SHOP  "https://shop.example"
#define OTHER "https://other.example"

TEST(each_answer_says_what_pages_of_an_origin_may_do_with_it)
{
    struct sk_cors *cors = sk_cors_open("https://m.shop.example, " SHOP, stderr);
    int plain[WAYS];
    for (int way = 0; way < WAYS; way++) {
        answer_in_way(way);
        plain[way] = made.fields;
        ck_assert_ptr_null(field("Vary"));
    }
    ck_assert_int_eq(fields_read, 0); // without origins no request's origin is read
    open_again(cors);
    for (int last = 0; last < 2; last++) {
        sk_answers_keep_alive(answers, last == 0);
        for (int way = 0; way < WAYS; way++) {
            origin = SHOP;
            answer_in_way(way);
            ck_assert_pstr_eq(field("Access-Control-Allow-Origin"), SHOP);
            ck_assert_pstr_eq(field("Vary"), "Origin");
            ck_assert_ptr_nonnull(field("Access-Control-Expose-Headers"));
            origin = last == 0 ? OTHER : NULL;
            answer_in_way(way);
            ck_assert_ptr_null(field("Access-Control-Allow-Origin"));
            ck_assert_ptr_null(field("Access-Control-Expose-Headers"));
            ck_assert_pstr_eq(field("Vary"), "Origin");
            if (last == 0)
                ck_assert_int_eq(made.fields, plain[way] + 1);
        }
    }
    open_again(NULL);
    sk_cors_close(cors);
}

TEST(browsers_are_told_what_they_may_send)
{
    struct sk_cors *cors = sk_cors_open(SHOP, stderr);
    open_again(cors);
    asked.method = SK_METHOD_OPTIONS;
    origin = OTHER;
    ck_assert(!sk_answer_preflight(answers, &asked));
    origin = NULL;
    ck_assert(!sk_answer_preflight(answers, &asked));
    origin = SHOP;
    ck_assert(sk_answer_preflight(answers, &asked));
    ck_assert_uint_eq(status_sent, 204);
    ck_assert_pstr_eq(field("Access-Control-Allow-Origin"), SHOP);
    ck_assert_ptr_null(field("Connection"));
    sk_answers_keep_alive(answers, false);
    ck_assert(sk_answer_preflight(answers, &asked));
    ck_assert_pstr_eq(field("Connection"), "close");
    asked.method = SK_METHOD_POST;
    ck_assert(!sk_answer_preflight(answers, &asked));
    asked.method = SK_METHOD_OPTIONS;
    open_again(NULL);
    ck_assert(!sk_answer_preflight(answers, &asked)); // there are no origins
    sk_cors_close(cors);
}

// ---- traces ----

static struct sk_tracer *tracer;

static void begin_trace(const char *traceparent)
{
    static const struct sk_server_options options = {.trace = SK_TRACE_AUTO};
    if (tracer == NULL)
        tracer = sk_tracer_open(&options);
    ck_assert_ptr_nonnull(tracer);
    asked = (struct sk_request){.path = "/", .traceparent = traceparent};
    sk_trace_begin(tracer, &asked);
}

TEST(an_answer_carries_the_trace)
{
    for (int way = 0; way < WAYS; way++) {
        begin_trace(PARENT);
        answer_in_way(way);
        const char *given = field("traceparent");
        ck_assert_msg(given != NULL, "way %d", way);
        ck_assert_uint_eq(strlen(given), strlen(PARENT));
        ck_assert_int_eq(strncmp(given, PARENT, strlen("00-" TRACE "-")), 0);
        ck_assert_ptr_null(strstr(given, "b7ad6b7169203331")); // that is the client's span
        ck_assert_str_eq(given + strlen(given) - 3, "-01");
        ck_assert_uint_eq(asked.trace.bytes, strlen(made.body));
        if (way < PROBLEM_WAYS) {
            json_t *json = read_body();
            must_have_text(json, "trace_id", TRACE);
            json_decref(json);
        }
        asked = (struct sk_request){.path = "/"};
        answer_in_way(way);
        ck_assert_ptr_null(field("traceparent"));
        ck_assert_ptr_null(strstr(made.body, "trace_id"));
    }
    sk_tracer_close(tracer);
}

// Refuses with a trace that ends with this digit; gives the response.
static const struct sk_response *refuse_traced(struct sk_request *request, int digit, enum sk_verdict verdict)
{
    char field_sent[SK_TRACEPARENT_SIZE], id[SK_TRACE_ID_SIZE];
    (void)snprintf(id, sizeof id, "0af7651916cd43dd8448eb211c8031%02d", digit % 10);
    (void)snprintf(field_sent, sizeof field_sent, "00-%s-b7ad6b7169203331-01", id);
    begin_trace(field_sent);
    sk_answer_refusal(answers, &asked, verdict);
    ck_assert_int_eq(strncmp(field("traceparent") + 3, id, SK_TRACE_ID_CHARS), 0);
    json_t *json = read_problem(verdict);
    must_have_text(json, "trace_id", id);
    json_decref(json);
    ck_assert_uint_eq(asked.trace.bytes, strlen(made.body));
    ck_assert_pstr_eq(field("Cache-Control"), "no-store");
    ck_assert((field("Retry-After") != NULL) == (sk_verdict_retry_after_ms(verdict) > 0));
    *request = asked;
    return sent_one;
}

// One that is still being sent is not written over.
TEST(a_traced_refusal_is_kept_for_the_next)
{
    enum { MANY = 300 };
    static struct sk_request requests[MANY];
    const struct sk_response *first = refuse_traced(&requests[0], 1, SK_VERDICT_SOLD_OUT);
    ck_assert(requests[0].lease != NULL && *requests[0].lease);
    ck_assert_ptr_ne(refuse_traced(&requests[1], 2, SK_VERDICT_SOLD_OUT), first);
    ck_assert_ptr_ne(refuse_traced(&requests[2], 3, SK_VERDICT_OVERLOADED), first);
    *requests[0].lease = false; // it has ended
    ck_assert_ptr_eq(refuse_traced(&requests[3], 4, SK_VERDICT_SOLD_OUT), first);
    ck_assert(*requests[1].lease);
    // Past the bound each is made for its request.
    for (int i = 4; i < MANY; i++)
        (void)refuse_traced(&requests[i], i, SK_VERDICT_SOLD_OUT);
    ck_assert_ptr_null(requests[MANY - 1].lease);
    ck_assert_ptr_nonnull(requests[200].lease);
    sk_tracer_close(tracer);
}

TEST(a_traced_refusal_with_a_limit_is_made_for_its_request)
{
    begin_trace(PARENT);
    asked.last = true;
    answer_in_way(REFUSAL);
    ck_assert_pstr_eq(field("Connection"), "close");
    ck_assert_ptr_nonnull(asked.lease);
    sk_answers_limit(answers, POLICY);
    begin_trace(PARENT);
    asked.limit = (struct sk_limit){SK_POLICY_USER, 3};
    answer_in_way(REFUSAL);
    ck_assert_pstr_eq(field("RateLimit"), "\"user\";r=3;t=1");
    ck_assert_ptr_null(asked.lease);
    sk_tracer_close(tracer);
}

// ---- memory that is short ----

TEST(out_of_memory_gives_no_response)
{
    no_memory = true;
    for (int way = 0; way < WAYS; way++) {
        bool at_start = way == REFUSAL || way == BROKEN || way == FINE; // which needs none now
        answer_in_way(way);
        ck_assert_int_eq(was_made, at_start);
    }
    answer_problem(SK_VERDICT_UNAUTHENTICATED, NULL, 1000);
    ck_assert(!was_made);
    ck_assert_ptr_null(sk_answers_open(NULL));
}

SUITE(.setup = setup, .teardown = teardown);
