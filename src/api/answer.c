// The most frequent answers are made at the start; refusals with a trace or a limit, when they are first needed. All
// others are made for one request. So is every other answer of a request that has a trace or a line in the access log
// (trace.h). Values printed into such a body are constants, or were checked to need no escaping. jansson writes lists
// of errors, because they may contain what a client has sent.
#include "answer.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cors.h"
#include "measure.h"
#include "order_json.h"
#include "response.h"
#include "status.h"
#include "target.h"
#include "text.h"
#include "trace.h"
#include "traceparent.h"
#include "uuid.h"
#include "verdict.h"

enum {
    MEMBERS_SIZE = 320,
    TAG_SIZE = 32,
    LIMIT_SIZE = 40,
    LATEST_MAX = 1024,
    STATE_MAX = 32,
    PARAMETER_MAX = 64,
    DETAIL_MAX = 128,
    LINK_MAX = 320,
    PROBLEM_SIZE = 640,
    COPIES_MAX = 256
};

#define PROBLEM_MEDIA "application/problem+json"

static const char type_json[] = "application/json", type_problem[] = PROBLEM_MEDIA;

// ---- problem details ----

// `members`: further members, each after a comma, or "". `trace_id` NULL: none. All are printed without escaping.
// Returns the length.
static size_t problem_put(char out[PROBLEM_SIZE], enum sk_verdict verdict, const char *members, const char *trace_id)
{
    const char *code = sk_verdict_code(verdict);
    int n = snprintf(out, PROBLEM_SIZE,
                     "{\"type\":\"" SK_PROBLEM_TYPE "%s\",\"title\":\"%s\",\"status\":%u,\"code\":\"%s\"%s%s%s%s}\n",
                     code, sk_verdict_title(verdict), sk_verdict_http_status(verdict), code, members,
                     trace_id == NULL ? "" : ",\"trace_id\":\"", trace_id == NULL ? "" : trace_id,
                     trace_id == NULL ? "" : "\"");
    SK_ASSERT(n > 0 && n < PROBLEM_SIZE);
    return (size_t)n;
}

// `retry_after_ms` 0: the verdict's own; rounded up to seconds. `challenge` NULL: Bearer. `response` may be NULL. The
// field Accept-Encoding tells this 415 apart from that of a media type (RFC 9110 12.5.3).
static void problem_add_fields(struct sk_response *response, enum sk_verdict verdict, uint64_t retry_after_ms,
                               const char *challenge)
{
    if (retry_after_ms == 0)
        retry_after_ms = sk_verdict_retry_after_ms(verdict);
    if (retry_after_ms > 0) {
        char seconds[SK_NUMBER_SIZE];
        (void)sk_text_put_number((retry_after_ms + 999) / 1000, seconds);
        sk_response_header(response, "Retry-After", seconds);
    }
    if (verdict == SK_VERDICT_UNSUPPORTED_ENCODING)
        sk_response_header(response, "Accept-Encoding", "identity");
    if (sk_verdict_http_status(verdict) == 401)
        sk_response_header(response, "WWW-Authenticate", challenge == NULL ? "Bearer" : challenge);
}

static struct sk_response *answer_make_bare(struct sk_request *request, const char *type, const char *body, size_t len)
{
    if (request != NULL)
        request->trace.bytes = len;
    return sk_response_new(type, body, len);
}

// `request` NULL: for any request. No cache may keep it: it concerns one user, or one moment.
static struct sk_response *answer_make(struct sk_request *request, const char *type, const char *body, size_t len)
{
    struct sk_response *response = answer_make_bare(request, type, body, len);
    sk_response_header(response, "Cache-Control", "no-store");
    return response;
}

static struct sk_response *answer_make_ok(struct sk_request *request)
{
    static const char body[] = "{\"status\":\"ok\"}\n";
    return answer_make(request, type_json, body, sizeof body - 1);
}

static struct sk_response *answer_make_problem(struct sk_request *request, const struct sk_answer *answer,
                                               const char *members)
{
    char body[PROBLEM_SIZE];
    size_t n = problem_put(body, answer->verdict, members, request == NULL ? NULL : sk_trace_id(request));
    struct sk_response *response = answer_make(request, type_problem, body, n);
    problem_add_fields(response, answer->verdict, answer->retry_after_ms, answer->challenge);
    return response;
}

static const char *const answer_policies[] = {[SK_POLICY_USER] = "user", [SK_POLICY_ADDRESS] = "address"};

// `limit`: that of the request. A refusal for a rate names it (draft-ietf-httpapi-ratelimit-headers-11).
static struct sk_response *answer_make_refusal(struct sk_request *request, enum sk_verdict verdict,
                                               const struct sk_limit *limit)
{
    char members[MEMBERS_SIZE] = "";
    if (verdict == SK_VERDICT_RATE_LIMITED && limit->policy != SK_POLICY_NONE)
        (void)snprintf(members, sizeof members, ",\"violated-policies\":[\"%s\"]", answer_policies[limit->policy]);
    return answer_make_problem(request, &(struct sk_answer){.verdict = verdict}, members);
}

// ---- canned answers ----
//
// An answer that depends on its key alone is made once and sent many times. Those without a limit are made at the
// start: they need no memory then. Those with one are kept, a latest at each place of a table: many clients of a crowd
// have the same number of tries left.
//
// A refusal with a trace is a copy of such an answer, and the next request writes its trace over the old one, once the
// refusal before has been sent. Of each as many are made as were in progress at once, up to COPIES_MAX: making a
// response for one request costs a dozen allocations, a third of all the work of a refusal.

#define NO_TRACE_ID "00000000000000000000000000000000"
#define NO_TRACE    "00-" NO_TRACE_ID "-0000000000000000-00"

_Static_assert(sizeof NO_TRACE == SK_TRACEPARENT_SIZE, "each trace fits where another one was");

enum { CANNED_OK = SK_VERDICT_COUNT, CANNED_PREFLIGHT, CANNED_COUNT };

struct canned_key {
    unsigned what;         // the refusal of this verdict, CANNED_OK or CANNED_PREFLIGHT
    unsigned origin;       // of CORS; 0: none
    bool last;             // with "Connection: close"
    struct sk_limit limit; // with RateLimit
};

struct copy {
    struct sk_response *response; // owned, and so is the body
    char *body, *id, *field;      // id points into the body, field into the response
    size_t len;
};

struct copies {
    bool busy[COPIES_MAX];
    struct copy all[COPIES_MAX]; // made when first needed, in this order
};

struct canned {
    struct canned_key key;
    struct sk_response *response; // owned
    struct copies *copies;        // owned; NULL: none was needed
};

struct sk_answers {
    bool keep_alive;
    const char *policy;         // NULL: no limit is set
    const struct sk_cors *cors; // borrowed; NULL: there are no origins
    struct canned *canned;      // owned: made_count of them, in the order of their keys, then LATEST_MAX with a limit
    size_t made_count;
};

// Adds what the key says of any answer. A preflight has its fields of CORS. RateLimit is as in
// draft-ietf-httpapi-ratelimit-headers-11; used tries come back within a second (rates.h).
static struct sk_response *canned_finish(const struct sk_answers *answers, const struct canned_key *key,
                                         struct sk_response *response)
{
    if (answers->cors != NULL && key->what != CANNED_PREFLIGHT)
        sk_cors_mark(answers->cors, key->origin, response);
    if (key->last)
        sk_response_header(response, "Connection", "close");
    if (key->limit.policy != SK_POLICY_NONE) {
        char left[LIMIT_SIZE];
        (void)snprintf(left, sizeof left, "\"%s\";r=%" PRIu32 ";t=1", answer_policies[key->limit.policy],
                       key->limit.left);
        sk_response_header(response, "RateLimit-Policy", answers->policy);
        sk_response_header(response, "RateLimit", left);
    }
    return response;
}

static struct sk_response *canned_make(const struct sk_answers *answers, const struct canned_key *key)
{
    return canned_finish(answers, key,
                         key->what == CANNED_PREFLIGHT ? sk_cors_preflight(answers->cors, key->origin)
                         : key->what == CANNED_OK      ? answer_make_ok(NULL)
                                                  : answer_make_refusal(NULL, (enum sk_verdict)key->what, &key->limit));
}

struct sk_answers *sk_answers_open(const struct sk_cors *cors)
{
    size_t made_count = (size_t)CANNED_COUNT * 2 * (1 + sk_cors_count(cors));
    struct sk_answers *answers = calloc(1, sizeof *answers);
    if (answers == NULL || (answers->canned = calloc(made_count + LATEST_MAX, sizeof *answers->canned)) == NULL) {
        sk_answers_close(answers);
        return NULL;
    }
    answers->cors = sk_cors_count(cors) == 0 ? NULL : cors;
    for (answers->made_count = 0; answers->made_count < made_count; answers->made_count++) {
        struct canned *canned = &answers->canned[answers->made_count];
        unsigned at = (unsigned)answers->made_count;
        canned->key = (struct canned_key){at % CANNED_COUNT, at / CANNED_COUNT / 2, at / CANNED_COUNT % 2 != 0, {0}};
        if (canned->key.what == CANNED_PREFLIGHT && canned->key.origin == 0)
            continue; // it is sent to pages of an origin alone
        canned->response = canned_make(answers, &canned->key);
        if (canned->response == NULL) {
            sk_answers_close(answers);
            return NULL;
        }
    }
    return answers;
}

static void copy_free(struct copy *copy)
{
    sk_response_free(copy->response);
    free(copy->body);
    *copy = (struct copy){0};
}

void sk_answers_close(struct sk_answers *answers)
{
    if (answers == NULL)
        return;
    for (size_t i = 0; answers->canned != NULL && i < answers->made_count + LATEST_MAX; i++) {
        struct canned *canned = &answers->canned[i];
        sk_response_free(canned->response);
        for (size_t copy = 0; canned->copies != NULL && copy < COPIES_MAX; copy++)
            copy_free(&canned->copies->all[copy]);
        free(canned->copies);
    }
    free(answers->canned);
    free(answers);
}

void sk_answers_limit(struct sk_answers *answers, const char *policy)
{
    answers->policy = policy;
}

void sk_answers_keep_alive(struct sk_answers *answers, bool keep_alive)
{
    answers->keep_alive = keep_alive;
}

static bool key_is(const struct canned_key *a, const struct canned_key *b)
{
    return a->what == b->what && a->origin == b->origin && a->last == b->last && a->limit.policy == b->limit.policy &&
           a->limit.left == b->limit.left;
}

// Its place; `response` is NULL if memory is short.
static struct canned *canned_find(const struct sk_answers *answers, const struct canned_key *key)
{
    size_t at = key->what + (size_t)CANNED_COUNT * (key->last + 2 * (size_t)key->origin);
    if (key->limit.policy == SK_POLICY_NONE)
        return &answers->canned[at];
    at += (size_t)CANNED_COUNT * (key->limit.left + (size_t)key->limit.policy * (LATEST_MAX / 2));
    struct canned *latest = &answers->canned[answers->made_count + at % LATEST_MAX];
    if (latest->response == NULL || !key_is(&latest->key, key)) {
        sk_response_free(latest->response);
        *latest = (struct canned){.key = *key, .response = canned_make(answers, key)};
    }
    return latest;
}

// ---- copies for requests with a trace ----

static bool copy_make(const struct sk_answers *answers, struct copy *copy, const struct canned_key *key)
{
    static const char member[] = "\"trace_id\":\"";
    enum sk_verdict verdict = (enum sk_verdict)key->what;
    *copy = (struct copy){.body = malloc(PROBLEM_SIZE)};
    if (copy->body == NULL)
        return false;
    copy->len = problem_put(copy->body, verdict, "", NO_TRACE_ID);
    copy->id = strstr(copy->body, member) + sizeof member - 1;
    copy->response = sk_response_of(type_problem, copy->body, copy->len);
    sk_response_header(copy->response, "Cache-Control", "no-store");
    problem_add_fields(copy->response, verdict, 0, NULL);
    canned_finish(answers, key, copy->response);
    sk_response_header(copy->response, "traceparent", NO_TRACE);
    copy->field = sk_response_value(copy->response, "traceparent");
    if (copy->field == NULL)
        copy_free(copy);
    return copy->field != NULL;
}

// A copy with the request's trace in its body and its field `traceparent`: the first free one, which is most likely in
// the CPU's cache. The request holds it until it ends (request->lease). NULL: none is free, or memory is short.
static struct sk_response *copy_take(const struct sk_answers *answers, struct canned *canned,
                                     struct sk_request *request)
{
    if (canned->copies == NULL && (canned->copies = calloc(1, sizeof *canned->copies)) == NULL)
        return NULL;
    bool *free_one = memchr(canned->copies->busy, false, COPIES_MAX);
    if (free_one == NULL)
        return NULL;
    struct copy *copy = &canned->copies->all[free_one - canned->copies->busy];
    if (copy->response == NULL && !copy_make(answers, copy, &canned->key))
        return NULL;
    memcpy(copy->id, request->trace.own.trace_id, SK_TRACE_ID_CHARS);
    sk_traceparent_put(&request->trace.own, copy->field);
    request->trace.bytes = copy->len;
    request->lease = free_one;
    *free_one = true;
    return copy->response;
}

// ---- sending ----

static struct canned_key answer_key(const struct sk_answers *answers, const struct sk_request *request, unsigned what)
{
    unsigned origin = answers->cors == NULL ? 0 : sk_cors_origin_of(answers->cors, request);
    return (struct canned_key){what, origin, request->last || !answers->keep_alive, request->limit};
}

// All answers of this file but preflights leave here. A shared response is sent only for requests without a trace or a
// log line. A kept refusal contains the trace already.
static void answer_send(struct sk_request *request, enum sk_verdict verdict, unsigned status,
                        struct sk_response *response)
{
    sk_measure_answered(request, verdict, sk_trace_id(request));
    if (request->trace.tracer != NULL)
        sk_trace_answer(request, status, sk_verdict_code(verdict), request->lease == NULL ? response : NULL);
    sk_request_answer(request, status, response);
}

// A response that was made for this request. Takes it.
static void answer_once_as(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                           unsigned status, struct sk_response *response)
{
    struct canned_key key = answer_key(answers, request, verdict);
    answer_send(request, verdict, status, canned_finish(answers, &key, response));
    sk_response_free(response);
}

static void answer_once(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                        struct sk_response *response)
{
    answer_once_as(answers, request, verdict, sk_verdict_http_status(verdict), response);
}

void sk_answer_refusal(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict)
{
    struct canned_key key = answer_key(answers, request, verdict);
    bool traced = sk_trace_id(request) != NULL;
    struct sk_response *response = NULL;
    if (request->trace.tracer == NULL)
        response = canned_find(answers, &key)->response;
    else if (traced && key.limit.policy == SK_POLICY_NONE)
        response = copy_take(answers, canned_find(answers, &key), request);
    if (response == NULL)
        answer_once(answers, request, verdict, answer_make_refusal(request, verdict, &request->limit));
    else
        answer_send(request, verdict, sk_verdict_http_status(verdict), response);
}

void sk_answer_ok(const struct sk_answers *answers, struct sk_request *request)
{
    struct canned_key key = answer_key(answers, request, CANNED_OK);
    if (request->trace.tracer != NULL)
        answer_once(answers, request, SK_VERDICT_FOUND, answer_make_ok(request));
    else
        answer_send(request, SK_VERDICT_FOUND, 200, canned_find(answers, &key)->response);
}

bool sk_answer_preflight(const struct sk_answers *answers, struct sk_request *request)
{
    struct canned_key key = answer_key(answers, request, CANNED_PREFLIGHT);
    if (key.origin == 0 || !sk_cors_is_preflight(request))
        return false;
    sk_measure_answered(request, SK_VERDICT_FOUND, NULL);
    sk_request_answer(request, 204, canned_find(answers, &key)->response);
    return true;
}

// ---- answers made for one request ----

static void answer_add_next(struct sk_response *response, const struct sk_request *request, const char *cursor)
{
    struct sk_buf link = {0};
    sk_buf_printf(&link, "<%s?", request->path);
    sk_request_put_query(request, "cursor", &link);
    sk_buf_puts(&link, "cursor=");
    sk_url_put(&link, cursor);
    sk_buf_puts(&link, ">; rel=\"next\"");
    if (!link.failed && link.len <= LINK_MAX)
        sk_response_header(response, "Link", link.data);
    sk_buf_free(&link);
}

static struct sk_response *answer_make_body(struct sk_request *request, const struct sk_answer *answer)
{
    const char *type = answer->type == NULL ? type_json : answer->type;
    size_t len = strlen(answer->body);
    struct sk_response *response = answer_make(request, type, answer->body, len);
    if (answer->version != 0) {
        char tag[TAG_SIZE];
        (void)snprintf(tag, sizeof tag, "\"%" PRId64 "\"", answer->version);
        sk_response_header(response, "ETag", tag);
    }
    if (answer->location != NULL)
        sk_response_header(response, "Location", answer->location);
    if (answer->next != NULL)
        answer_add_next(response, request, answer->next);
    return response;
}

// Appends to the members, which must have room: a part of them would be no JSON. Returns their new length.
__attribute__((format(printf, 3, 4))) static int answer_put(char members[MEMBERS_SIZE], int n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(members + n, (size_t)(MEMBERS_SIZE - n), format, args);
    va_end(args);
    SK_ASSERT(len >= 0 && len < MEMBERS_SIZE - n);
    return n + len;
}

static void answer_put_members(char members[MEMBERS_SIZE], const struct sk_answer *answer)
{
    bool has_left = answer->verdict == SK_VERDICT_NOT_ENOUGH || answer->verdict == SK_VERDICT_BELOW_SOLD;
    int n = 0;
    members[0] = '\0';
    if (answer->order_id != NULL)
        n = answer_put(members, n, ",\"order_id\":\"%.*s\"", SK_UUID_CHARS, answer->order_id);
    if (answer->voucher_id != 0)
        n = answer_put(members, n, ",\"voucher_id\":\"%" PRId64 "\"", answer->voucher_id);
    if (has_left)
        n = answer_put(members, n, ",\"left\":%" PRId64, answer->left);
    if (answer->status != NULL)
        n = answer_put(members, n, ",\"state\":\"%.*s\"", STATE_MAX, answer->status);
    if (answer->limit != NULL)
        n = answer_put(members, n, ",\"limit\":\"%s\"", answer->limit);
    const char *wrong = answer->parameter != NULL ? answer->parameter : answer->member;
    if (wrong != NULL)
        (void)answer_put(members, n, ",\"errors\":[{\"%s%.*s\",\"detail\":\"%.*s\"}]",
                         answer->parameter != NULL ? "parameter\":\"" : "pointer\":\"/", PARAMETER_MAX, wrong,
                         DETAIL_MAX, answer->detail);
    else if (answer->detail != NULL)
        (void)answer_put(members, n, ",\"detail\":\"%.*s\"", DETAIL_MAX, answer->detail);
}

void sk_answer_send(const struct sk_answers *answers, struct sk_request *request, const struct sk_answer *answer)
{
    char members[MEMBERS_SIZE];
    if (answer->body != NULL) {
        answer_once(answers, request, answer->verdict, answer_make_body(request, answer));
        return;
    }
    answer_put_members(members, answer);
    if (members[0] == '\0' && answer->retry_after_ms == 0 && answer->challenge == NULL)
        sk_answer_refusal(answers, request, answer->verdict);
    else
        answer_once(answers, request, answer->verdict, answer_make_problem(request, answer, members));
}

void sk_answer_text(const struct sk_answers *answers, struct sk_request *request, struct sk_buf *text)
{
    if (text->failed || text->data == NULL)
        sk_answer_refusal(answers, request, SK_VERDICT_OVERLOADED);
    else
        sk_answer_send(answers, request, &(struct sk_answer){.verdict = SK_VERDICT_FOUND, .body = text->data});
    sk_buf_free(text);
}

bool sk_answer_parameter(const struct sk_answers *answers, struct sk_request *request, const char *parameter,
                         const char *detail)
{
    sk_answer_send(answers, request,
                   &(struct sk_answer){.verdict = SK_VERDICT_BAD_PARAMETER, .parameter = parameter, .detail = detail});
    return false;
}

void sk_answer_errors(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                      struct json_t *errors)
{
    const char *code = sk_verdict_code(verdict);
    json_t *document = json_pack("{s:s+,s:s,s:i,s:s,s:O,s:s*}", "type", SK_PROBLEM_TYPE, code, "title",
                                 sk_verdict_title(verdict), "status", (int)sk_verdict_http_status(verdict), "code",
                                 code, "errors", errors, "trace_id", sk_trace_id(request));
    char *body = json_dumps(document, JSON_COMPACT);
    answer_once(answers, request, verdict,
                body == NULL ? NULL : answer_make(request, type_problem, body, strlen(body)));
    free(body);
    json_decref(document);
}

void sk_answer_allow(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                     const char *allow)
{
    struct sk_response *response = answer_make_refusal(request, verdict, &request->limit);
    sk_response_header(response, "Allow", allow);
    answer_once(answers, request, verdict, response);
}

void sk_answer_nothing(const struct sk_answers *answers, struct sk_request *request)
{
    answer_once_as(answers, request, SK_VERDICT_FOUND, 204, answer_make(request, NULL, "", 0));
}

void sk_answer_stream(const struct sk_answers *answers, struct sk_request *request, struct sk_response *head)
{
    answer_once(answers, request, SK_VERDICT_FOUND, head);
}

static void answer_order_at(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                            struct sk_response *response, const char *order_id)
{
    static const char prefix[] = "/orders/";
    char location[sizeof prefix + SK_UUID_CHARS];
    size_t len = strnlen(order_id, SK_UUID_CHARS);
    memcpy(location, prefix, sizeof prefix - 1);
    memcpy(location + sizeof prefix - 1, order_id, len);
    location[sizeof prefix - 1 + len] = '\0';
    sk_response_header(response, "Location", location);
    answer_once(answers, request, verdict, response);
}

// Without "no-store", to save its cost for each order: no cache keeps an answer to a POST without explicit freshness
// (RFC 9110, 9.3.3).
void sk_answer_order(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                     const struct sk_order_shown *order, bool respond_async)
{
    char body[SK_ORDER_JSON_SIZE];
    size_t n = sk_order_json(body, order);
    body[n++] = '\n';
    struct sk_response *response = answer_make_bare(request, type_json, body, n);
    if (verdict == SK_VERDICT_ACCEPTED && respond_async)
        sk_response_header(response, "Preference-Applied", "respond-async");
    answer_order_at(answers, request, verdict, response, order->id);
}

void sk_answer_repeated(const struct sk_answers *answers, struct sk_request *request, const char *order_id,
                        const struct sk_answer *answer)
{
    enum sk_verdict verdict = SK_VERDICT_PLACED;
    if (answer->status != NULL && strcmp(answer->status, "pending") == 0)
        verdict = SK_VERDICT_ACCEPTED;
    else if (answer->status != NULL && strcmp(answer->status, "waiting") == 0)
        verdict = SK_VERDICT_WAITING;
    struct sk_response *response = answer_make_bare(request, type_json, answer->body, strlen(answer->body));
    answer_order_at(answers, request, verdict, response, order_id);
}
