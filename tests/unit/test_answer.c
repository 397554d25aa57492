// What is answered: valid JSON with the members promised, and the header fields beside it.
//
// The functions of responses and requests are replaced here by ones that keep what they are given: libmicrohttpd shows
// a response's header fields to clients alone.
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "answer.h"
#include "stack.h"
#include "text.h"

enum { BODY_SIZE = 1024, FIELD_SIZE = 64, FIELDS = 4, RESPONSES = 128 };

struct sk_response {
    char type[FIELD_SIZE], body[BODY_SIZE];
    char names[FIELDS][FIELD_SIZE], values[FIELDS][FIELD_SIZE];
    int fields;
    bool used;
};

static struct sk_response responses[RESPONSES], made; // as it was when it was sent
static bool no_memory, was_made;
static unsigned status_sent;
static struct sk_answers *answers;
static struct sk_request asked;

struct sk_response *sk_response_new(const char *type, const char *body, size_t len)
{
    int i = 0;
    while (i < RESPONSES && responses[i].used)
        i++;
    ck_assert_int_lt(i, RESPONSES);
    ck_assert_uint_lt(len, sizeof responses[i].body);
    if (no_memory)
        return NULL;
    responses[i] = (struct sk_response){.used = true};
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
    (void)snprintf(response->values[response->fields++], FIELD_SIZE, "%s", value);
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
    if (was_made)
        made = *response;
}

static void setup(void)
{
    answers = sk_answers_open();
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
    return sk_verdict_http_status(verdict) == 503 || verdict == SK_VERDICT_PENDING;
}

START_TEST(every_refusal_is_a_problem_document)
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
END_TEST

START_TEST(only_401_asks_for_credentials)
{
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        sk_answer_problem(answers, &asked, (enum sk_verdict)i, NULL, 0);
        ck_assert_int_eq(field("WWW-Authenticate") != NULL, sk_verdict_http_status((enum sk_verdict)i) == 401);
    }
}
END_TEST

START_TEST(a_winner_who_repeats_is_told_the_order_id)
{
    static const char id[] = "018bcfe5-6800-7000-8000-0123456789ab";
    const char *order_id, *code;
    sk_answer_problem(answers, &asked, SK_VERDICT_ALREADY_ORDERED, id, 0);
    json_t *json = read_body();
    ck_assert_int_eq(json_unpack(json, "{s:s,s:s}", "order_id", &order_id, "code", &code), 0);
    ck_assert_str_eq(order_id, id);
    ck_assert_str_eq(code, "ALREADY_ORDERED");
    json_decref(json);
}
END_TEST

// Also one that names an order.
START_TEST(every_503_says_when_to_try_again)
{
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        enum sk_verdict verdict = (enum sk_verdict)i;
        sk_answer_problem(answers, &asked, verdict, "018bcfe5-6800-7000-8000-0123456789ab", 0);
        ck_assert_int_eq(field("Retry-After") != NULL, says_when_to_try_again(verdict));
        sk_answer_problem(answers, &asked, verdict, NULL, 5000); // what is known better
        ck_assert_pstr_eq(field("Retry-After"), "5");
        ck_assert_int_eq(sk_answers_last(answers, verdict)->fields,
                         1 + (says_when_to_try_again(verdict) || sk_verdict_http_status(verdict) == 401));
    }
}
END_TEST

START_TEST(retry_after_is_rounded_up_to_seconds)
{
    static const struct {
        uint64_t ms;
        const char *seconds; // NULL: none
    } rows[] = {
        {0, NULL},   {1, "1"},    {999, "1"},    {1000, "1"},         {1001, "2"},
        {1999, "2"}, {2000, "2"}, {59001, "60"}, {86400000, "86400"}, {UINT64_C(253402300799999), "253402300800"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sk_answer_problem(answers, &asked, SK_VERDICT_NOT_STARTED, NULL, rows[i].ms);
        const char *seconds = field("Retry-After");
        if (rows[i].seconds == NULL)
            ck_assert_ptr_null(seconds);
        else
            ck_assert_pstr_eq(seconds, rows[i].seconds);
        json_decref(read_body());
    }
}
END_TEST

START_TEST(an_order_is_shown_with_ids_as_strings_and_its_place)
{
    static const char id[] = "018bcfe5-6800-7000-8000-0123456789ab";
    static const int64_t vouchers[] = {1, INT64_C(9007199254740993), INT64_MAX};
    char user[SK_USER_SIZE];
    memset(user, 'u', SK_USER_MAX); // the longest
    user[SK_USER_MAX] = '\0';
    for (size_t i = 0; i < sizeof vouchers / sizeof vouchers[0]; i++) {
        const char *shown_id, *voucher, *shown_user, *status;
        char expected[24], location[FIELD_SIZE];
        struct sk_answer_order order = {id, user, vouchers[i], i == 0};
        sk_answer_order(answers, &asked, SK_VERDICT_ACCEPTED, &order);
        ck_assert_uint_eq(status_sent, 202);
        ck_assert_int_eq(field("Preference-Applied") != NULL, i == 0);
        ck_assert_str_eq(made.type, "application/json");
        json_t *json = read_body();
        ck_assert_int_eq(json_unpack(json, "{s:s,s:s,s:s,s:s!}", "id", &shown_id, "voucher_id", &voucher, "user_id",
                                     &shown_user, "status", &status),
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
END_TEST

// What a client named comes back escaped.
START_TEST(errors_are_listed)
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
END_TEST

START_TEST(a_new_voucher_is_shown_with_its_place)
{
    char location[FIELD_SIZE];
    sk_answer_voucher(answers, &asked, INT64_MAX, "{\"id\":\"9223372036854775807\"}");
    ck_assert_uint_eq(status_sent, 201);
    ck_assert_str_eq(made.type, "application/json");
    ck_assert_str_eq(made.body, "{\"id\":\"9223372036854775807\"}");
    (void)snprintf(location, sizeof location, "/vouchers/%" PRId64, INT64_MAX);
    ck_assert_pstr_eq(field("Location"), location);
}
END_TEST

START_TEST(an_order_that_is_committed_is_unpaid)
{
    const struct sk_answer_order order = {"018bcfe5-6800-7000-8000-0123456789ab", "u", 1, true};
    sk_answer_order(answers, &asked, SK_VERDICT_PLACED, &order);
    ck_assert_uint_eq(status_sent, 201);
    ck_assert_ptr_nonnull(strstr(made.body, "\"status\":\"unpaid\""));
    ck_assert_ptr_null(field("Preference-Applied"));
}
END_TEST

START_TEST(other_methods_are_told_what_is_allowed)
{
    sk_answer_allow(answers, &asked, SK_VERDICT_METHOD_NOT_ALLOWED, "GET, HEAD");
    ck_assert_uint_eq(status_sent, 405);
    ck_assert_pstr_eq(field("Allow"), "GET, HEAD");
    json_decref(read_body());
}
END_TEST

START_TEST(a_text_has_its_type)
{
    sk_answer_text(answers, &asked, "text/csv", "a,b\r\n");
    ck_assert_uint_eq(status_sent, 200);
    ck_assert_str_eq(made.type, "text/csv");
    ck_assert_str_eq(made.body, "a,b\r\n");
    ck_assert_ptr_null(field("Connection"));
    sk_answers_keep_alive(answers, false);
    sk_answer_text(answers, &asked, "text/csv", "");
    ck_assert_pstr_eq(field("Connection"), "close");
}
END_TEST

START_TEST(the_last_answers_end_their_connections)
{
    json_t *errors = json_array();
    const struct sk_answer_order order = {"018bcfe5-6800-7000-8000-0123456789ab", "u", 1, true};
    sk_answers_keep_alive(answers, false);
    for (int i = 0; i < 8; i++) {
        if (i == 0)
            sk_answer_refusal(answers, &asked, SK_VERDICT_SOLD_OUT);
        else if (i == 1)
            sk_answer_problem(answers, &asked, SK_VERDICT_NOT_STARTED, NULL, 1);
        else if (i == 2)
            sk_answer_errors(answers, &asked, SK_VERDICT_INVALID, errors);
        else if (i == 3)
            sk_answer_allow(answers, &asked, SK_VERDICT_METHOD_NOT_ALLOWED, "POST");
        else if (i == 4)
            sk_answer_ok(answers, &asked);
        else if (i == 5)
            sk_answer_document(answers, &asked, SK_VERDICT_FOUND, "{}");
        else if (i == 6)
            sk_answer_voucher(answers, &asked, 1, "{}");
        else
            sk_answer_order(answers, &asked, SK_VERDICT_ACCEPTED, &order);
        ck_assert_pstr_eq(field("Connection"), "close");
    }
    json_decref(errors);
}
END_TEST

START_TEST(out_of_memory_gives_no_response)
{
    json_t *errors = json_array();
    const struct sk_answer_order order = {"018bcfe5-6800-7000-8000-0123456789ab", "u", 1, true};
    no_memory = true;
    sk_answer_problem(answers, &asked, SK_VERDICT_UNAUTHENTICATED, NULL, 1000);
    ck_assert(!was_made);
    sk_answer_order(answers, &asked, SK_VERDICT_PLACED, &order);
    ck_assert(!was_made);
    sk_answer_voucher(answers, &asked, 1, "{}");
    ck_assert(!was_made);
    sk_answer_errors(answers, &asked, SK_VERDICT_INVALID, errors);
    ck_assert(!was_made);
    sk_answer_allow(answers, &asked, SK_VERDICT_METHOD_NOT_ALLOWED, "POST");
    ck_assert(!was_made);
    ck_assert_ptr_null(sk_answers_open());
    json_decref(errors);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("answer");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, every_refusal_is_a_problem_document);
    tcase_add_test(tcase, only_401_asks_for_credentials);
    tcase_add_test(tcase, a_winner_who_repeats_is_told_the_order_id);
    tcase_add_test(tcase, every_503_says_when_to_try_again);
    tcase_add_test(tcase, retry_after_is_rounded_up_to_seconds);
    tcase_add_test(tcase, an_order_is_shown_with_ids_as_strings_and_its_place);
    tcase_add_test(tcase, errors_are_listed);
    tcase_add_test(tcase, a_new_voucher_is_shown_with_its_place);
    tcase_add_test(tcase, an_order_that_is_committed_is_unpaid);
    tcase_add_test(tcase, other_methods_are_told_what_is_allowed);
    tcase_add_test(tcase, a_text_has_its_type);
    tcase_add_test(tcase, the_last_answers_end_their_connections);
    tcase_add_test(tcase, out_of_memory_gives_no_response);
    return harness_main(tcase, CK_FORK);
}
