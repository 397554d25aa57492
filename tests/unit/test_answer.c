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
static const struct sk_answer found = {.verdict = SK_VERDICT_FOUND, .body = "{}", .version = 1, .next = "x"};
static const struct sk_answer created = {.verdict = SK_VERDICT_CREATED, .body = "{}", .location = "/vouchers/7"};

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

static void answer_problem(enum sk_verdict verdict, const char *order_id, uint64_t retry_after_ms)
{
    struct sk_answer answer = {.verdict = verdict, .order_id = order_id, .retry_after_ms = retry_after_ms};
    sk_answer_send(answers, &asked, &answer);
}

static void answer_csv(const char *text)
{
    sk_answer_send(answers, &asked, &(struct sk_answer){.verdict = SK_VERDICT_FOUND, .body = text, .type = "text/csv"});
}

static void setup(void)
{
    origin = NULL;
    answers = sk_answers_open(NULL);
    ck_assert_ptr_nonnull(answers);
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
    for (int i = 0; i < made.fields; i++) {
        if (strcmp(made.names[i], name) == 0)
            return made.values[i];
    }
    return NULL;
}

static json_t *read_body(void)
{
    json_error_t error;
    json_t *json = json_loads(made.body, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(json != NULL, "not JSON (%s): %s", error.text, made.body);
    return json;
}

static bool says_when_to_try_again(enum sk_verdict verdict)
{
    bool helps = verdict != SK_VERDICT_TICKETS_OFF; // another configuration does
    return (sk_verdict_http_status(verdict) == 503 && helps) || verdict == SK_VERDICT_PENDING ||
           verdict == SK_VERDICT_RATE_LIMITED;
}

TEST(every_refusal_is_a_problem_document)
{
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        enum sk_verdict verdict = (enum sk_verdict)i;
        const char *type, *title, *code;
        char expected_type[FIELD_SIZE * 2];
        int status;
        sk_answer_refusal(answers, &asked, verdict);
        ck_assert_uint_eq(status_sent, sk_verdict_http_status(verdict));
        ck_assert_str_eq(made.type, "application/problem+json");
        json_t *json = read_body();
        ck_assert_int_eq(
            json_unpack(json, "{s:s,s:s,s:i,s:s!}", "type", &type, "title", &title, "status", &status, "code", &code),
            0);
        (void)snprintf(expected_type, sizeof expected_type, "urn:seckill:problem:%s", sk_verdict_code(verdict));
        ck_assert_str_eq(type, expected_type);
        ck_assert_str_eq(title, sk_verdict_title(verdict));
        ck_assert_str_eq(code, sk_verdict_code(verdict));
        ck_assert_uint_eq((unsigned)status, sk_verdict_http_status(verdict));
        ck_assert_int_eq(field("Retry-After") != NULL, says_when_to_try_again(verdict));
        ck_assert_ptr_null(field("Connection"));
        json_decref(json);
    }
}

TEST(a_challenge_may_be_another)
{
    sk_answer_refusal(answers, &asked, SK_VERDICT_UNAUTHENTICATED);
    ck_assert_str_eq(field("WWW-Authenticate"), "Bearer");
    sk_answer_send(answers, &asked, &(struct sk_answer){.verdict = SK_VERDICT_UNAUTHENTICATED, .challenge = "Gateway"});
    ck_assert_str_eq(field("WWW-Authenticate"), "Gateway");
}

// The longest of all, and all at once that an answer can have.
TEST(members_fit)
{
    static const char id[] = "018bcfe5-6800-7000-8000-0123456789ab";
    char name[200], detail[200];
    memset(name, 'n', sizeof name - 1);
    memset(detail, 'd', sizeof detail - 1);
    name[sizeof name - 1] = detail[sizeof detail - 1] = '\0';
    const struct sk_answer all[] = {
        {.verdict = SK_VERDICT_NOT_ENOUGH, .order_id = id, .left = INT64_MIN, .status = name},
        {.verdict = SK_VERDICT_OVERLOADED, .limit = "SECKILL_LONG_PER_ADDRESS", .order_id = id, .status = name},
        {.verdict = SK_VERDICT_BAD_PARAMETER, .parameter = name, .detail = detail},
        {.verdict = SK_VERDICT_WRONG_AMOUNT, .member = name, .detail = detail},
        {.verdict = SK_VERDICT_UNAUTHENTICATED, .detail = detail},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        sk_answer_send(answers, &asked, &all[i]);
        json_decref(read_body());
    }
}

TEST(what_is_wrong_with_the_request_is_told)
{
    const char *detail;
    sk_answer_send(answers, &asked,
                   &(struct sk_answer){.verdict = SK_VERDICT_BAD_SIGNATURE, .detail = "it is too old"});
    json_t *json = read_body();
    ck_assert_int_eq(json_unpack(json, "{s:s}", "detail", &detail), 0);
    ck_assert_str_eq(detail, "it is too old");
    ck_assert_ptr_null(json_object_get(json, "errors"));
    json_decref(json);
}

// RFC 9110 12.5.3: it tells a wrong coding from a wrong media type.
TEST(only_a_wrong_coding_names_those_that_are_right)
{
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        answer_problem((enum sk_verdict)i, NULL, 0);
        ck_assert_pstr_eq(field("Accept-Encoding"), i == SK_VERDICT_UNSUPPORTED_ENCODING ? "identity" : NULL);
    }
}

TEST(only_401_asks_for_credentials)
{
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        answer_problem((enum sk_verdict)i, NULL, 0);
        ck_assert_int_eq(field("WWW-Authenticate") != NULL, sk_verdict_http_status((enum sk_verdict)i) == 401);
    }
}

TEST(a_limit_is_named)
{
    const char *limit, *title;
    sk_answer_send(answers, &asked,
                   &(struct sk_answer){.verdict = SK_VERDICT_OVERLOADED, .limit = "SECKILL_LONG_PER_ADDRESS"});
    json_t *json = read_body();
    ck_assert_int_eq(json_unpack(json, "{s:s,s:s}", "limit", &limit, "title", &title), 0);
    ck_assert_str_eq(limit, "SECKILL_LONG_PER_ADDRESS");
    ck_assert_str_eq(title, "Too many requests are waiting");
    json_decref(json);
}

TEST(a_winner_who_repeats_is_told_the_order_id)
{
    static const char id[] = "018bcfe5-6800-7000-8000-0123456789ab";
    const char *order_id, *code;
    answer_problem(SK_VERDICT_ALREADY_ORDERED, id, 0);
    json_t *json = read_body();
    ck_assert_int_eq(json_unpack(json, "{s:s,s:s}", "order_id", &order_id, "code", &code), 0);
    ck_assert_str_eq(order_id, id);
    ck_assert_str_eq(code, "ALREADY_ORDERED");
    json_decref(json);
}

// Also one that names an order.
// As for a request that ends its connection.
static void answer_last(enum sk_verdict verdict)
{
    asked.last = true;
    sk_answer_refusal(answers, &asked, verdict);
    asked.last = false;
}

TEST(every_503_says_when_to_try_again)
{
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        enum sk_verdict verdict = (enum sk_verdict)i;
        answer_problem(verdict, "018bcfe5-6800-7000-8000-0123456789ab", 0);
        ck_assert_int_eq(field("Retry-After") != NULL, says_when_to_try_again(verdict));
        answer_problem(verdict, NULL, 5000); // what is known better
        ck_assert_pstr_eq(field("Retry-After"), "5");
        answer_last(verdict);
        ck_assert_int_eq(made.fields, 2 + (says_when_to_try_again(verdict) || sk_verdict_http_status(verdict) == 401 ||
                                           verdict == SK_VERDICT_UNSUPPORTED_ENCODING));
    }
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
        const char *seconds = field("Retry-After");
        if (rows[i].seconds == NULL)
            ck_assert_ptr_null(seconds);
        else
            ck_assert_pstr_eq(seconds, rows[i].seconds);
        json_decref(read_body());
    }
}

TEST(an_order_is_shown_with_ids_as_strings_and_its_place)
{
    static const char id[] = "018bcfe5-6800-7000-8000-0123456789ab";
    static const int64_t vouchers[] = {1, INT64_C(9007199254740993), INT64_MAX};
    char user[SK_USER_SIZE];
    memset(user, 'u', SK_USER_MAX); // the longest
    user[SK_USER_MAX] = '\0';
    for (size_t i = 0; i < sizeof vouchers / sizeof vouchers[0]; i++) {
        const char *shown_id, *voucher, *shown_user, *status;
        int quantity;
        char expected[24], location[FIELD_SIZE];
        struct sk_answer_order order = {
            .order = {.id = id, .user = user, .voucher_id = vouchers[i], .quantity = 1, .status = "pending"},
            .respond_async = i == 0};
        sk_answer_order(answers, &asked, SK_VERDICT_ACCEPTED, &order);
        ck_assert_uint_eq(status_sent, 202);
        ck_assert_int_eq(field("Preference-Applied") != NULL, i == 0);
        ck_assert_str_eq(made.type, "application/json");
        json_t *json = read_body();
        ck_assert_int_eq(json_unpack(json, "{s:s,s:s,s:s,s:i,s:s!}", "id", &shown_id, "voucher_id", &voucher, "user_id",
                                     &shown_user, "quantity", &quantity, "status", &status),
                         0);
        (void)snprintf(expected, sizeof expected, "%" PRId64, vouchers[i]);
        ck_assert_str_eq(shown_id, id);
        ck_assert_str_eq(voucher, expected);
        ck_assert_str_eq(shown_user, user);
        ck_assert_str_eq(status, "pending");
        (void)snprintf(location, sizeof location, "/orders/%s", id);
        ck_assert_pstr_eq(field("Location"), location);
        json_decref(json);
    }
}

// What a client named comes back escaped.
TEST(errors_are_listed)
{
    const char *type, *title, *code;
    int status;
    json_t *list, *errors = json_pack("[{s:s,s:s},{s:s,s:s}]", "pointer", "/stock", "detail", "is required", "pointer",
                                      "/\"\n\\\xc3\xa9", "detail", "is not known");
    sk_answer_errors(answers, &asked, SK_VERDICT_INVALID, errors);
    ck_assert_str_eq(made.type, "application/problem+json");
    json_t *json = read_body();
    ck_assert_int_eq(json_unpack(json, "{s:s,s:s,s:i,s:s,s:o!}", "type", &type, "title", &title, "status", &status,
                                 "code", &code, "errors", &list),
                     0);
    ck_assert_str_eq(type, "urn:seckill:problem:INVALID");
    ck_assert_str_eq(title, sk_verdict_title(SK_VERDICT_INVALID));
    ck_assert_int_eq(status, 422);
    ck_assert_str_eq(code, "INVALID");
    ck_assert(json_equal(list, errors));
    json_decref(json);
    json_decref(errors);
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
    ck_assert_str_eq(made.body, "{\"id\":\"9223372036854775807\"}");
    ck_assert_pstr_eq(field("Location"), "/vouchers/9223372036854775807");
    ck_assert_pstr_eq(field("ETag"), "\"9223372036854775807\"");
}

TEST(a_document_says_its_version_and_its_next_page)
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

TEST(a_problem_says_what_is_known)
{
    static const struct {
        struct sk_answer answer;
        const char *members; // the end of the body
    } rows[] = {
        {{.verdict = SK_VERDICT_NOT_ENOUGH, .left = 3}, ",\"left\":3}\n"},
        {{.verdict = SK_VERDICT_NOT_ENOUGH}, ",\"left\":0}\n"},
        {{.verdict = SK_VERDICT_INVALID, .member = "end_at", .detail = "must be later than begin_at"},
         ",\"errors\":[{\"pointer\":\"/end_at\",\"detail\":\"must be later than begin_at\"}]}\n"},
        {{.verdict = SK_VERDICT_BAD_PARAMETER, .parameter = "limit", .detail = "must be an integer"},
         ",\"errors\":[{\"parameter\":\"limit\",\"detail\":\"must be an integer\"}]}\n"},
        {{.verdict = SK_VERDICT_BELOW_SOLD, .left = INT64_MAX}, ",\"left\":9223372036854775807}\n"},
        {{.verdict = SK_VERDICT_SOLD_OUT, .left = 3}, ",\"code\":\"SOLD_OUT\"}\n"},
        {{.verdict = SK_VERDICT_WRONG_STATE, .status = "paid"}, ",\"state\":\"paid\"}\n"},
        {{.verdict = SK_VERDICT_NOT_ENOUGH,
          .order_id = "018bcfe5-6800-7000-8000-0123456789ab",
          .left = INT64_MIN,
          .status = "a-state-of-as-many-as-32-letters"},
         ",\"order_id\":\"018bcfe5-6800-7000-8000-0123456789ab\",\"left\":-9223372036854775808,"
         "\"state\":\"a-state-of-as-many-as-32-letters\"}\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t len = strlen(rows[i].members);
        sk_answer_send(answers, &asked, &rows[i].answer);
        json_t *json = read_body();
        ck_assert_uint_gt(strlen(made.body), len);
        ck_assert_str_eq(made.body + strlen(made.body) - len, rows[i].members);
        ck_assert_int_eq(json_integer_value(json_object_get(json, "status")),
                         sk_verdict_http_status(rows[i].answer.verdict));
        json_decref(json);
    }
}

TEST(an_order_that_is_committed_is_unpaid)
{
    const struct sk_answer_order order = {.order = {.id = "018bcfe5-6800-7000-8000-0123456789ab",
                                                    .user = "u",
                                                    .voucher_id = 1,
                                                    .quantity = 2,
                                                    .status = "unpaid",
                                                    .created_ms = 1700000000001,
                                                    .expires_ms = 1700000900001},
                                          .respond_async = true};
    sk_answer_order(answers, &asked, SK_VERDICT_PLACED, &order);
    ck_assert_uint_eq(status_sent, 201);
    ck_assert_ptr_nonnull(strstr(made.body, "\"quantity\":2,\"status\":\"unpaid\","
                                            "\"created_at\":\"2023-11-14T22:13:20.001Z\","
                                            "\"expires_at\":\"2023-11-14T22:28:20.001Z\"}"));
    ck_assert_ptr_null(field("Preference-Applied"));
}

TEST(other_methods_are_told_what_is_allowed)
{
    sk_answer_allow(answers, &asked, SK_VERDICT_METHOD_NOT_ALLOWED, "GET, HEAD");
    ck_assert_uint_eq(status_sent, 405);
    ck_assert_pstr_eq(field("Allow"), "GET, HEAD");
    json_decref(read_body());
}

TEST(a_text_has_its_type)
{
    answer_csv("a,b\r\n");
    ck_assert_uint_eq(status_sent, 200);
    ck_assert_str_eq(made.type, "text/csv");
    ck_assert_str_eq(made.body, "a,b\r\n");
    ck_assert_ptr_null(field("Connection"));
    sk_answers_keep_alive(answers, false);
    answer_csv("");
    ck_assert_pstr_eq(field("Connection"), "close");
}

TEST(the_last_answers_end_their_connections)
{
    json_t *errors = json_array();
    const struct sk_answer_order order = {.order = {.id = "018bcfe5-6800-7000-8000-0123456789ab",
                                                    .user = "u",
                                                    .voucher_id = 1,
                                                    .quantity = 2,
                                                    .status = "unpaid",
                                                    .created_ms = 1700000000001,
                                                    .expires_ms = 1700000900001},
                                          .respond_async = true};
    for (int n = 0; n < 16; n++) {
        int i = n % 8;
        sk_answers_keep_alive(answers, n < 8);
        asked.last = n < 8;
        if (i == 0)
            sk_answer_refusal(answers, &asked, SK_VERDICT_SOLD_OUT);
        else if (i == 1)
            answer_problem(SK_VERDICT_NOT_STARTED, NULL, 1);
        else if (i == 2)
            sk_answer_errors(answers, &asked, SK_VERDICT_INVALID, errors);
        else if (i == 3)
            sk_answer_allow(answers, &asked, SK_VERDICT_METHOD_NOT_ALLOWED, "POST");
        else if (i == 4)
            sk_answer_ok(answers, &asked);
        else if (i == 5)
            sk_answer_send(answers, &asked, &found);
        else if (i == 6)
            sk_answer_send(answers, &asked, &created);
        else
            sk_answer_order(answers, &asked, SK_VERDICT_ACCEPTED, &order);
        ck_assert_pstr_eq(field("Connection"), "close");
    }
    json_decref(errors);
}

static void must_tell(const char *left)
{
    ck_assert_pstr_eq(field("RateLimit-Policy"), POLICY);
    ck_assert_pstr_eq(field("RateLimit"), left);
}

TEST(what_a_limit_leaves_is_told)
{
    const struct sk_answer_order order = {.order = {.id = "018bcfe5-6800-7000-8000-0123456789ab",
                                                    .user = "u",
                                                    .voucher_id = 1,
                                                    .quantity = 1,
                                                    .status = "unpaid"}};
    sk_answers_limit(answers, POLICY);
    sk_answer_refusal(answers, &asked, SK_VERDICT_SOLD_OUT);
    ck_assert_ptr_null(field("RateLimit"));
    ck_assert_ptr_null(field("RateLimit-Policy"));
    asked.limit = (struct sk_limit){SK_POLICY_USER, 3};
    sk_answer_order(answers, &asked, SK_VERDICT_PLACED, &order);
    must_tell("\"user\";r=3;t=1");
    answer_problem(SK_VERDICT_ALREADY_ORDERED, order.order.id, 0);
    must_tell("\"user\";r=3;t=1");
    asked.limit = (struct sk_limit){SK_POLICY_ADDRESS, 0};
    sk_answer_refusal(answers, &asked, SK_VERDICT_RATE_LIMITED);
    must_tell("\"address\";r=0;t=1");
    ck_assert_pstr_eq(field("Retry-After"), "1");
    sk_answers_keep_alive(answers, false);
    sk_answer_refusal(answers, &asked, SK_VERDICT_RATE_LIMITED);
    must_tell("\"address\";r=0;t=1");
    ck_assert_pstr_eq(field("Connection"), "close");
    sk_answers_keep_alive(answers, true);
    for (int n = 0; n < 4; n++) { // one that is kept is not for a request that is the last one
        asked.last = n % 2 == 1;
        sk_answer_refusal(answers, &asked, SK_VERDICT_RATE_LIMITED);
        ck_assert_pstr_eq(field("Connection"), n % 2 == 1 ? "close" : NULL);
    }
    asked.last = false;
    asked.limit = (struct sk_limit){0};
}

// They are kept by what they say, a thousand of them.
TEST(kept_refusals_are_not_mixed_up)
{
    static const enum sk_verdict verdicts[] = {SK_VERDICT_SOLD_OUT, SK_VERDICT_ENDED, SK_VERDICT_RATE_LIMITED};
    sk_answers_limit(answers, POLICY);
    for (unsigned i = 0; i < 6000; i++) {
        char left[FIELD_SIZE];
        enum sk_verdict verdict = verdicts[i % 3];
        asked.limit =
            (struct sk_limit){i / 3 % 2 == 0 ? SK_POLICY_USER : SK_POLICY_ADDRESS, i * 7919 % 5000 / (1 + i % 50)};
        (void)snprintf(left, sizeof left, "\"%s\";r=%u;t=1", asked.limit.policy == SK_POLICY_USER ? "user" : "address",
                       asked.limit.left);
        for (int again = 0; again < 2; again++) {
            sk_answer_refusal(answers, &asked, verdict);
            must_tell(left);
            ck_assert_uint_eq(status_sent, sk_verdict_http_status(verdict));
            ck_assert_ptr_nonnull(strstr(made.body, sk_verdict_code(verdict)));
        }
    }
    asked.limit = (struct sk_limit){0};
}

// ---- origins ----

#define SHOP  "https://shop.example"
#define OTHER "https://other.example"

typedef void answer_any(void);

static void answer_a_refusal(void)
{
    sk_answer_refusal(answers, &asked, SK_VERDICT_SOLD_OUT);
}

static void answer_that_is_fine(void)
{
    sk_answer_ok(answers, &asked);
}

static void answer_a_problem(void)
{
    answer_problem(SK_VERDICT_ALREADY_ORDERED, "018bcfe5-6800-7000-8000-0123456789ab", 0);
}

static void answer_a_document(void)
{
    sk_answer_send(answers, &asked, &found);
}

static void answer_another_method(void)
{
    sk_answer_allow(answers, &asked, SK_VERDICT_METHOD_NOT_ALLOWED, "POST");
}

static void answer_a_ticket(void)
{
    sk_answer_send(answers, &asked, &(struct sk_answer){.verdict = SK_VERDICT_FOUND, .body = "{}"});
}

static void answer_a_stream(void)
{
    sk_answer_stream(answers, &asked, sk_response_new("text/event-stream", "", 0));
}

static void answer_one_that_is_broken(void)
{
    answer_last(SK_VERDICT_BAD_REQUEST);
}

static answer_any *const all_answers[] = {answer_a_refusal,  answer_that_is_fine,      answer_a_problem,
                                          answer_a_document, answer_another_method,    answer_a_ticket,
                                          answer_a_stream,   answer_one_that_is_broken};
enum { ALL_ANSWERS = sizeof all_answers / sizeof all_answers[0] };

TEST(each_answer_says_what_pages_of_an_origin_may_do_with_it)
{
    struct sk_cors *cors = sk_cors_open("https://m.shop.example, " SHOP, stderr);
    int plain[ALL_ANSWERS];
    for (int i = 0; i < ALL_ANSWERS; i++) {
        all_answers[i]();
        plain[i] = made.fields;
        ck_assert_ptr_null(field("Vary"));
    }
    ck_assert_int_eq(fields_read, 0); // without origins no request's origin is read
    sk_answers_close(answers);
    answers = sk_answers_open(cors);
    for (int last = 0; last < 2; last++) {
        sk_answers_keep_alive(answers, last == 0);
        for (int i = 0; i < ALL_ANSWERS; i++) {
            origin = SHOP;
            all_answers[i]();
            ck_assert_pstr_eq(field("Access-Control-Allow-Origin"), SHOP);
            ck_assert_pstr_eq(field("Vary"), "Origin");
            ck_assert_ptr_nonnull(field("Access-Control-Expose-Headers"));
            origin = last == 0 ? OTHER : NULL;
            all_answers[i]();
            ck_assert_ptr_null(field("Access-Control-Allow-Origin"));
            ck_assert_ptr_null(field("Access-Control-Expose-Headers"));
            ck_assert_pstr_eq(field("Vary"), "Origin");
            if (last == 0)
                ck_assert_int_eq(made.fields, plain[i] + 1);
        }
    }
    sk_answers_close(answers);
    answers = sk_answers_open(NULL);
    sk_cors_close(cors);
}

TEST(browsers_are_told_what_they_may_send)
{
    struct sk_cors *cors = sk_cors_open(SHOP, stderr);
    sk_answers_close(answers);
    answers = sk_answers_open(cors);
    sk_answers_keep_alive(answers, true);
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
    sk_answers_close(answers);
    answers = sk_answers_open(NULL);
    asked.method = SK_METHOD_OPTIONS;
    ck_assert(!sk_answer_preflight(answers, &asked)); // there are no origins
    sk_cors_close(cors);
}

// A stream's head says so itself (response.c).
TEST(no_cache_keeps_an_answer)
{
    for (int i = 0; i < ALL_ANSWERS; i++) {
        if (all_answers[i] == answer_a_stream)
            continue;
        all_answers[i]();
        ck_assert_pstr_eq(field("Cache-Control"), "no-store");
    }
}

// What a purchase has got is the answer to a POST, without a time until which it is fresh: no cache keeps it anyway.
TEST(an_order_does_not_pay_for_caches)
{
    const struct sk_answer_order order = {.order = {.id = "018bcfe5-6800-7000-8000-0123456789ab",
                                                    .voucher_id = 7,
                                                    .user = "u",
                                                    .quantity = 1,
                                                    .status = "unpaid"}};
    sk_answer_order(answers, &asked, SK_VERDICT_PLACED, &order);
    ck_assert_ptr_null(field("Cache-Control"));
    ck_assert_str_eq(field("Location"), "/orders/018bcfe5-6800-7000-8000-0123456789ab");
}

// In whichever way it is answered: the answers in the order of the_last_answers_end_their_connections.
static void answer_in_way(int way)
{
    json_t *errors = json_array();
    const struct sk_answer_order order = {
        .order = {.id = "018bcfe5-6800-7000-8000-0123456789ab", .user = "u", .voucher_id = 1, .status = "pending"}};
    if (way == 0)
        sk_answer_refusal(answers, &asked, SK_VERDICT_SOLD_OUT);
    else if (way == 1)
        answer_problem(SK_VERDICT_NOT_STARTED, NULL, 1);
    else if (way == 2)
        sk_answer_errors(answers, &asked, SK_VERDICT_INVALID, errors);
    else if (way == 3)
        sk_answer_allow(answers, &asked, SK_VERDICT_METHOD_NOT_ALLOWED, "POST");
    else if (way == 4)
        answer_last(SK_VERDICT_BAD_REQUEST);
    else if (way == 5)
        sk_answer_ok(answers, &asked);
    else if (way == 6)
        sk_answer_send(answers, &asked, &found);
    else if (way == 7)
        sk_answer_send(answers, &asked, &created);
    else if (way == 8)
        answer_csv("a");
    else if (way == 9)
        sk_answer_repeated(answers, &asked, order.order.id, &found);
    else
        sk_answer_order(answers, &asked, SK_VERDICT_ACCEPTED, &order);
    json_decref(errors);
}

enum { WAYS = 11, PROBLEM_WAYS = 5 };

TEST(an_answer_carries_the_trace)
{
    static const char sent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    struct sk_server_options options = {.trace = SK_TRACE_AUTO};
    struct sk_tracer *tracer = sk_tracer_open(&options);
    ck_assert_ptr_nonnull(tracer);
    for (int way = 0; way < WAYS; way++) {
        asked = (struct sk_request){.path = "/", .traceparent = sent};
        sk_trace_begin(tracer, &asked);
        answer_in_way(way);
        const char *given = field("traceparent");
        ck_assert_msg(given != NULL, "way %d", way);
        ck_assert_uint_eq(strlen(given), strlen(sent));
        ck_assert_int_eq(strncmp(given, sent, strlen("00-0af7651916cd43dd8448eb211c80319c-")), 0);
        ck_assert_ptr_null(strstr(given, "b7ad6b7169203331")); // that is the client's span
        ck_assert_str_eq(given + strlen(given) - 3, "-01");
        ck_assert_uint_eq(asked.trace.bytes, strlen(made.body));
        if (way < PROBLEM_WAYS) {
            json_t *json = read_body();
            ck_assert_pstr_eq(json_string_value(json_object_get(json, "trace_id")), "0af7651916cd43dd8448eb211c80319c");
            json_decref(json);
        }
    }
    sk_tracer_close(tracer);
}

// Refuses with a trace that ends with this digit; gives the response.
static const struct sk_response *refuse_traced(struct sk_tracer *tracer, struct sk_request *request, unsigned digit,
                                               enum sk_verdict verdict)
{
    char field_sent[SK_TRACEPARENT_SIZE], id[SK_TRACE_ID_SIZE];
    (void)snprintf(id, sizeof id, "0af7651916cd43dd8448eb211c8031%02u", digit % 10);
    (void)snprintf(field_sent, sizeof field_sent, "00-%s-b7ad6b7169203331-01", id);
    asked = (struct sk_request){.path = "/", .traceparent = field_sent};
    sk_trace_begin(tracer, &asked);
    sk_answer_refusal(answers, &asked, verdict);
    ck_assert_int_eq(strncmp(field("traceparent") + 3, id, SK_TRACE_ID_CHARS), 0);
    json_t *json = read_body();
    ck_assert_pstr_eq(json_string_value(json_object_get(json, "trace_id")), id);
    ck_assert_str_eq(json_string_value(json_object_get(json, "code")), sk_verdict_code(verdict));
    json_decref(json);
    ck_assert_uint_eq(asked.trace.bytes, strlen(made.body));
    ck_assert((field("Retry-After") != NULL) == (sk_verdict_retry_after_ms(verdict) > 0));
    *request = asked;
    return sent_one;
}

// One that is still being sent is not written over.
TEST(a_traced_refusal_is_kept_for_the_next)
{
    enum { MANY = 300 };
    static struct sk_request requests[MANY];
    struct sk_server_options options = {.trace = SK_TRACE_AUTO};
    struct sk_tracer *tracer = sk_tracer_open(&options);
    const struct sk_response *first = refuse_traced(tracer, &requests[0], 1, SK_VERDICT_SOLD_OUT);
    ck_assert(requests[0].lease != NULL && *requests[0].lease);
    const struct sk_response *second = refuse_traced(tracer, &requests[1], 2, SK_VERDICT_SOLD_OUT);
    ck_assert_ptr_ne(first, second);
    ck_assert_ptr_ne(refuse_traced(tracer, &requests[2], 3, SK_VERDICT_OVERLOADED), first);
    *requests[0].lease = false; // it has ended
    ck_assert_ptr_eq(refuse_traced(tracer, &requests[3], 4, SK_VERDICT_SOLD_OUT), first);
    ck_assert(*requests[1].lease);
    // Past the bound each is made for its request.
    for (int i = 4; i < MANY; i++)
        (void)refuse_traced(tracer, &requests[i], i % 100, SK_VERDICT_SOLD_OUT);
    ck_assert_ptr_null(requests[MANY - 1].lease);
    ck_assert_ptr_nonnull(requests[200].lease);
    sk_tracer_close(tracer);
}

TEST(a_traced_refusal_with_a_limit_is_made_for_its_request)
{
    static const char traced[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    struct sk_server_options options = {.trace = SK_TRACE_AUTO};
    struct sk_tracer *tracer = sk_tracer_open(&options);
    asked = (struct sk_request){.path = "/", .traceparent = traced, .last = true};
    sk_trace_begin(tracer, &asked);
    sk_answer_refusal(answers, &asked, SK_VERDICT_SOLD_OUT);
    ck_assert_pstr_eq(field("Connection"), "close");
    ck_assert_ptr_nonnull(asked.lease);
    sk_answers_limit(answers, POLICY);
    asked = (struct sk_request){.path = "/", .traceparent = traced, .limit = {SK_POLICY_USER, 3}};
    sk_trace_begin(tracer, &asked);
    sk_answer_refusal(answers, &asked, SK_VERDICT_SOLD_OUT);
    ck_assert_pstr_eq(field("RateLimit"), "\"user\";r=3;t=1");
    ck_assert_ptr_null(asked.lease);
    sk_tracer_close(tracer);
}

TEST(an_answer_without_a_trace_does_not)
{
    for (int way = 0; way < WAYS; way++) {
        asked = (struct sk_request){.path = "/"};
        answer_in_way(way);
        ck_assert_ptr_null(field("traceparent"));
        ck_assert_ptr_null(strstr(made.body, "trace_id"));
    }
}

TEST(out_of_memory_gives_no_response)
{
    json_t *errors = json_array();
    const struct sk_answer_order order = {.order = {.id = "018bcfe5-6800-7000-8000-0123456789ab",
                                                    .user = "u",
                                                    .voucher_id = 1,
                                                    .quantity = 2,
                                                    .status = "unpaid",
                                                    .created_ms = 1700000000001,
                                                    .expires_ms = 1700000900001},
                                          .respond_async = true};
    no_memory = true;
    answer_problem(SK_VERDICT_UNAUTHENTICATED, NULL, 1000);
    ck_assert(!was_made);
    sk_answer_order(answers, &asked, SK_VERDICT_PLACED, &order);
    ck_assert(!was_made);
    sk_answer_send(answers, &asked, &found);
    ck_assert(!was_made);
    sk_answer_send(answers, &asked, &found);
    ck_assert(!was_made);
    sk_answer_errors(answers, &asked, SK_VERDICT_INVALID, errors);
    ck_assert(!was_made);
    sk_answer_allow(answers, &asked, SK_VERDICT_METHOD_NOT_ALLOWED, "POST");
    ck_assert(!was_made);
    ck_assert_ptr_null(sk_answers_open(NULL));
    json_decref(errors);
}

SUITE(.setup = setup, .teardown = teardown);
