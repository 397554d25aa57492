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
    LIMITED_MAX = 1024,
    STATE_MAX = 32,
    PARAMETER_MAX = 64,
    DETAIL_MAX = 128,
    LINK_MAX = 320,
    PROBLEM_SIZE = 640,
    KEPT_MAX = 256
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

// ---- refusals with a trace ----
//
// Refusals of requests that have a trace differ in the trace alone, so they are made once and kept. The next request
// writes its trace over the old one, once the refusal before has been sent. Of each verdict as many are kept as were in
// progress at once, up to KEPT_MAX. Making a response for one request costs a dozen allocations, a third of all the
// work of a refusal.

#define NO_TRACE_ID "00000000000000000000000000000000"
#define NO_TRACE    "00-" NO_TRACE_ID "-0000000000000000-00"

_Static_assert(sizeof NO_TRACE == SK_TRACEPARENT_SIZE, "each trace fits where another one was");

struct kept {
    struct sk_response *response; // owned, and so is the body
    char *body, *id, *field;      // id points into the body, field into the response
    size_t len;
};

// The refusals of one verdict.
struct row {
    size_t count;
    bool busy[KEPT_MAX];
    struct kept all[KEPT_MAX];
};

struct traced {
    struct row *rows[SK_VERDICT_COUNT]; // NULL: none was needed
};

static struct kept *traced_find(struct row *row, enum sk_verdict verdict);
static bool traced_make(struct kept *kept, enum sk_verdict verdict);
static void traced_free(struct kept *kept);

static struct traced *traced_open(void)
{
    return calloc(1, sizeof(struct traced));
}

static void traced_close(struct traced *traced)
{
    for (int i = 0; traced != NULL && i < SK_VERDICT_COUNT; i++) {
        for (size_t n = 0; traced->rows[i] != NULL && n < traced->rows[i]->count; n++)
            traced_free(&traced->rows[i]->all[n]);
        free(traced->rows[i]);
    }
    free(traced);
}

// Returns the refusal with the request's trace in its body and its field `traceparent`. The request holds it until it
// ends (request->lease). NULL: none is free, or the request has no trace.
static struct sk_response *traced_take(struct traced *traced, struct sk_request *request, enum sk_verdict verdict)
{
    struct row **row = &traced->rows[verdict];
    if (sk_trace_id(request) == NULL)
        return NULL;
    if (*row == NULL && (*row = calloc(1, sizeof **row)) == NULL)
        return NULL;
    struct kept *kept = traced_find(*row, verdict);
    if (kept == NULL)
        return NULL;
    memcpy(kept->id, request->trace.own.trace_id, SK_TRACE_ID_CHARS);
    sk_traceparent_put(&request->trace.own, kept->field);
    request->trace.bytes = kept->len;
    request->lease = &(*row)->busy[kept - (*row)->all];
    *request->lease = true;
    return kept->response;
}

// Returns the first free one, which is most likely in the CPU's cache, or makes one.
static struct kept *traced_find(struct row *row, enum sk_verdict verdict)
{
    const bool *free_one = memchr(row->busy, false, row->count);
    if (free_one != NULL)
        return &row->all[free_one - row->busy];
    if (row->count == KEPT_MAX || !traced_make(&row->all[row->count], verdict))
        return NULL;
    return &row->all[row->count++];
}

static bool traced_make(struct kept *kept, enum sk_verdict verdict)
{
    static const char member[] = "\"trace_id\":\"";
    *kept = (struct kept){.body = malloc(PROBLEM_SIZE)};
    if (kept->body == NULL)
        return false;
    kept->len = problem_put(kept->body, verdict, "", NO_TRACE_ID);
    kept->id = strstr(kept->body, member) + sizeof member - 1;
    kept->response = sk_response_of(PROBLEM_MEDIA, kept->body, kept->len);
    sk_response_header(kept->response, "Cache-Control", "no-store");
    problem_add_fields(kept->response, verdict, 0, NULL);
    sk_response_header(kept->response, "traceparent", NO_TRACE);
    kept->field = sk_response_value(kept->response, "traceparent");
    if (kept->field == NULL)
        traced_free(kept);
    return kept->field != NULL;
}

static void traced_free(struct kept *kept)
{
    sk_response_free(kept->response);
    free(kept->body);
}

// ---- all answers ----

// A refusal with RateLimit.
struct limited {
    struct sk_response *response; // owned; NULL: none yet
    enum sk_verdict verdict;
    struct sk_limit limit;
};

// All owned. The second of each pair is the same with "Connection: close".
struct answer_set {
    struct sk_response *refusals[SK_VERDICT_COUNT], *last_refusals[SK_VERDICT_COUNT];
    struct sk_response *ok, *last_ok;
    struct sk_response *preflight, *last_preflight; // only for an origin
};

struct sk_answers {
    bool keep_alive;
    const char *policy;         // NULL: no limit is set
    struct limited *limited;    // owned: LIMITED_MAX of them, for requests of no origin; NULL: none yet
    struct traced *traced;      // owned; used only if there are no origins
    const struct sk_cors *cors; // borrowed; NULL: there are no origins
    unsigned count;
    struct answer_set sets[]; // the first is for requests of no origin, then one for each origin
};

static bool answer_make_set(const struct sk_cors *cors, unsigned origin, struct answer_set *set);
static void answer_free_set(struct answer_set *set);
static const struct answer_set *answer_set_for(const struct sk_answers *answers, const struct sk_request *request);
static struct sk_response *answer_make(struct sk_request *request, const char *type, const char *body, size_t len);
static struct sk_response *answer_make_bare(struct sk_request *request, const char *type, const char *body, size_t len);
static struct sk_response *answer_make_refusal(struct sk_request *request, enum sk_verdict verdict);
static struct sk_response *answer_make_ok(struct sk_request *request);
static struct sk_response *answer_make_problem(struct sk_request *request, const struct sk_answer *answer,
                                               const char *members);
static struct sk_response *answer_make_body(struct sk_request *request, const struct sk_answer *answer);
static bool answer_is_plain(const struct sk_answer *answer);
static void answer_put_members(char members[MEMBERS_SIZE], const struct sk_answer *answer);
static struct sk_response *answer_make_last(struct sk_response *response);
static void answer_limited(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict);
static void answer_add_limit(struct sk_response *response, const char *policy, const struct sk_limit *limit);
static bool answer_is_noted(const struct sk_request *request);
static void answer_noted(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict);
static void answer_once(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                        struct sk_response *response);
static void answer_send(struct sk_request *request, enum sk_verdict verdict, struct sk_response *response);
static void answer_send_as(struct sk_request *request, enum sk_verdict verdict, unsigned status,
                           struct sk_response *response);
static void answer_mark(const struct sk_answers *answers, const struct sk_request *request,
                        struct sk_response *response);
static void answer_add_next(struct sk_response *response, const struct sk_request *request, const char *cursor);

// ---- answers made at the start ----

struct sk_answers *sk_answers_open(const struct sk_cors *cors)
{
    unsigned count = 1 + sk_cors_count(cors);
    struct sk_answers *answers = calloc(1, sizeof *answers + count * sizeof answers->sets[0]);
    bool complete = answers != NULL && (answers->traced = traced_open()) != NULL;
    if (complete && count > 1)
        answers->cors = cors;
    for (unsigned i = 0; complete && i < count; i++) {
        answers->count = i + 1;
        complete = answer_make_set(answers->cors, i, &answers->sets[i]);
    }
    if (!complete) {
        sk_answers_close(answers);
        return NULL;
    }
    return answers;
}

static struct sk_response *answer_for(const struct sk_cors *cors, unsigned origin, struct sk_response *response)
{
    if (cors != NULL)
        sk_cors_mark(cors, origin, response);
    return response;
}

static bool answer_make_set(const struct sk_cors *cors, unsigned origin, struct answer_set *set)
{
    set->ok = answer_for(cors, origin, answer_make_ok(NULL));
    set->last_ok = answer_make_last(answer_for(cors, origin, answer_make_ok(NULL)));
    bool complete = set->ok != NULL && set->last_ok != NULL;
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        set->refusals[i] = answer_for(cors, origin, answer_make_refusal(NULL, (enum sk_verdict)i));
        set->last_refusals[i] =
            answer_make_last(answer_for(cors, origin, answer_make_refusal(NULL, (enum sk_verdict)i)));
        complete = complete && set->refusals[i] != NULL && set->last_refusals[i] != NULL;
    }
    if (origin > 0) {
        set->preflight = sk_cors_preflight(cors, origin);
        set->last_preflight = answer_make_last(sk_cors_preflight(cors, origin));
        complete = complete && set->preflight != NULL && set->last_preflight != NULL;
    }
    return complete;
}

// `request` NULL: for any request. No cache may keep it: it concerns one user, or one moment.
static struct sk_response *answer_make(struct sk_request *request, const char *type, const char *body, size_t len)
{
    struct sk_response *response = answer_make_bare(request, type, body, len);
    sk_response_header(response, "Cache-Control", "no-store");
    return response;
}

static struct sk_response *answer_make_bare(struct sk_request *request, const char *type, const char *body, size_t len)
{
    if (request != NULL)
        request->trace.bytes = len;
    return sk_response_new(type, body, len);
}

static struct sk_response *answer_make_ok(struct sk_request *request)
{
    static const char body[] = "{\"status\":\"ok\"}\n";
    return answer_make(request, type_json, body, sizeof body - 1);
}

static struct sk_response *answer_make_refusal(struct sk_request *request, enum sk_verdict verdict)
{
    return answer_make_problem(request, &(struct sk_answer){.verdict = verdict}, "");
}

static struct sk_response *answer_make_last(struct sk_response *response)
{
    sk_response_header(response, "Connection", "close");
    return response;
}

void sk_answers_close(struct sk_answers *answers)
{
    for (unsigned i = 0; answers != NULL && i < answers->count; i++)
        answer_free_set(&answers->sets[i]);
    for (int i = 0; answers != NULL && answers->limited != NULL && i < LIMITED_MAX; i++)
        sk_response_free(answers->limited[i].response);
    if (answers != NULL) {
        traced_close(answers->traced);
        free(answers->limited);
    }
    free(answers);
}

static void answer_free_set(struct answer_set *set)
{
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        sk_response_free(set->refusals[i]);
        sk_response_free(set->last_refusals[i]);
    }
    sk_response_free(set->ok);
    sk_response_free(set->last_ok);
    sk_response_free(set->preflight);
    sk_response_free(set->last_preflight);
}

void sk_answers_keep_alive(struct sk_answers *answers, bool keep_alive)
{
    answers->keep_alive = keep_alive;
}

// Whether the connection stays open after the answer.
static bool answer_stays(const struct sk_answers *answers, const struct sk_request *request)
{
    return answers->keep_alive && !request->last;
}

static const struct answer_set *answer_set_for(const struct sk_answers *answers, const struct sk_request *request)
{
    return &answers->sets[answers->cors == NULL ? 0 : sk_cors_origin_of(answers->cors, request)];
}

void sk_answer_refusal(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict)
{
    if (answer_is_noted(request))
        answer_noted(answers, request, verdict);
    else if (request->limit.policy != SK_POLICY_NONE)
        answer_limited(answers, request, verdict);
    else {
        const struct answer_set *set = answer_set_for(answers, request);
        answer_send(request, verdict,
                    answer_stays(answers, request) ? set->refusals[verdict] : set->last_refusals[verdict]);
    }
}

// Sends a kept refusal if nothing but the trace differs.
static void answer_noted(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict)
{
    bool plain = answers->cors == NULL && request->limit.policy == SK_POLICY_NONE && answer_stays(answers, request);
    struct sk_response *kept = plain ? traced_take(answers->traced, request, verdict) : NULL;
    if (kept == NULL)
        answer_once(answers, request, verdict, answer_make_refusal(request, verdict));
    else
        answer_send(request, verdict, kept);
}

void sk_answer_ok(const struct sk_answers *answers, struct sk_request *request)
{
    if (answer_is_noted(request)) {
        answer_once(answers, request, SK_VERDICT_FOUND, answer_make_ok(request));
        return;
    }
    const struct answer_set *set = answer_set_for(answers, request);
    answer_send(request, SK_VERDICT_FOUND, answer_stays(answers, request) ? set->ok : set->last_ok);
}

bool sk_answer_preflight(const struct sk_answers *answers, struct sk_request *request)
{
    const struct answer_set *set = answer_set_for(answers, request);
    if (set->preflight == NULL || !sk_cors_is_preflight(request))
        return false;
    sk_measure_answered(request, SK_VERDICT_FOUND, NULL);
    sk_request_answer(request, 204, answer_stays(answers, request) ? set->preflight : set->last_preflight);
    return true;
}

void sk_answer_text(const struct sk_answers *answers, struct sk_request *request, struct sk_buf *text)
{
    if (text->failed || text->data == NULL)
        sk_answer_refusal(answers, request, SK_VERDICT_OVERLOADED);
    else
        sk_answer_send(answers, request, &(struct sk_answer){.verdict = SK_VERDICT_FOUND, .body = text->data});
    sk_buf_free(text);
}

void sk_answer_last(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict)
{
    if (!answer_is_noted(request)) {
        answer_send(request, verdict, answer_set_for(answers, request)->last_refusals[verdict]);
        return;
    }
    struct sk_response *response = answer_make_last(answer_make_refusal(request, verdict));
    answer_mark(answers, request, response);
    answer_send(request, verdict, response);
    sk_response_free(response);
}

// ---- answers made when first needed ----

void sk_answers_limit(struct sk_answers *answers, const char *policy)
{
    answers->policy = policy;
    answers->limited = calloc(LIMITED_MAX, sizeof *answers->limited); // NULL: each is made for its request
}

// Many clients of a crowd have the same number of tries left. So the latest refusals are kept, one at each place of a
// table, found by verdict and limit.
static void answer_limited(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict)
{
    const struct sk_limit *limit = &request->limit;
    if (!answer_stays(answers, request) || answers->limited == NULL ||
        answer_set_for(answers, request) != answers->sets) {
        answer_once(answers, request, verdict, answer_make_refusal(request, verdict));
        return;
    }
    size_t at =
        (verdict + (size_t)SK_VERDICT_COUNT * (limit->left + (size_t)limit->policy * (LIMITED_MAX / 2))) % LIMITED_MAX;
    struct limited *kept = &answers->limited[at];
    if (kept->response == NULL || kept->verdict != verdict || kept->limit.policy != limit->policy ||
        kept->limit.left != limit->left) {
        sk_response_free(kept->response);
        *kept = (struct limited){answer_for(answers->cors, 0, answer_make_refusal(NULL, verdict)), verdict, *limit};
        answer_add_limit(kept->response, answers->policy, limit);
    }
    answer_send(request, verdict, kept->response);
}

// draft-ietf-httpapi-ratelimit-headers-11. Used tries come back within a second (rates.h).
static void answer_add_limit(struct sk_response *response, const char *policy, const struct sk_limit *limit)
{
    static const char *const names[] = {[SK_POLICY_USER] = "user", [SK_POLICY_ADDRESS] = "address"};
    char left[LIMIT_SIZE];
    (void)snprintf(left, sizeof left, "\"%s\";r=%" PRIu32 ";t=1", names[limit->policy], limit->left);
    sk_response_header(response, "RateLimit-Policy", policy);
    sk_response_header(response, "RateLimit", left);
}

// ---- answers made for one request ----

static bool answer_is_noted(const struct sk_request *request)
{
    return request->trace.tracer != NULL;
}

static void answer_once(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                        struct sk_response *response)
{
    answer_mark(answers, request, response);
    if (!answer_stays(answers, request))
        response = answer_make_last(response);
    if (request->limit.policy != SK_POLICY_NONE)
        answer_add_limit(response, answers->policy, &request->limit);
    answer_send(request, verdict, response);
    sk_response_free(response);
}

// All answers of this file but preflights leave here. A shared response is sent only for requests without a trace or a
// log line. A kept refusal contains the trace already.
static void answer_send(struct sk_request *request, enum sk_verdict verdict, struct sk_response *response)
{
    answer_send_as(request, verdict, sk_verdict_http_status(verdict), response);
}

static void answer_send_as(struct sk_request *request, enum sk_verdict verdict, unsigned status,
                           struct sk_response *response)
{
    sk_measure_answered(request, verdict, sk_trace_id(request));
    if (answer_is_noted(request))
        sk_trace_answer(request, status, sk_verdict_code(verdict), request->lease == NULL ? response : NULL);
    sk_request_answer(request, status, response);
}

static void answer_mark(const struct sk_answers *answers, const struct sk_request *request,
                        struct sk_response *response)
{
    if (answers->cors != NULL)
        sk_cors_mark(answers->cors, sk_cors_origin_of(answers->cors, request), response);
}

void sk_answer_send(const struct sk_answers *answers, struct sk_request *request, const struct sk_answer *answer)
{
    char members[MEMBERS_SIZE];
    if (answer->body != NULL) {
        answer_once(answers, request, answer->verdict, answer_make_body(request, answer));
    } else if (answer_is_plain(answer)) {
        sk_answer_refusal(answers, request, answer->verdict);
    } else {
        answer_put_members(members, answer);
        answer_once(answers, request, answer->verdict, answer_make_problem(request, answer, members));
    }
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

// Whether the refusal has no members or times of its own.
static bool answer_is_plain(const struct sk_answer *answer)
{
    return answer->order_id == NULL && answer->retry_after_ms == 0 && answer->status == NULL && answer->limit == NULL &&
           answer->parameter == NULL && answer->member == NULL && answer->detail == NULL && answer->challenge == NULL &&
           answer->verdict != SK_VERDICT_NOT_ENOUGH && answer->verdict != SK_VERDICT_BELOW_SOLD;
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
    struct sk_response *response = answer_make_refusal(request, verdict);
    sk_response_header(response, "Allow", allow);
    answer_once(answers, request, verdict, response);
}

void sk_answer_nothing(const struct sk_answers *answers, struct sk_request *request)
{
    struct sk_response *response = answer_make(request, NULL, "", 0);
    answer_mark(answers, request, response);
    if (!answer_stays(answers, request))
        response = answer_make_last(response);
    answer_send_as(request, SK_VERDICT_FOUND, 204, response);
    sk_response_free(response);
}

void sk_answer_stream(const struct sk_answers *answers, struct sk_request *request, struct sk_response *head)
{
    answer_mark(answers, request, head);
    answer_send(request, SK_VERDICT_FOUND, head);
    sk_response_free(head);
}

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
                     const struct sk_answer_order *order)
{
    char body[SK_ORDER_JSON_SIZE];
    size_t n = sk_order_json(body, &order->order);
    body[n++] = '\n';
    struct sk_response *response = answer_make_bare(request, type_json, body, n);
    if (verdict == SK_VERDICT_ACCEPTED && order->respond_async)
        sk_response_header(response, "Preference-Applied", "respond-async");
    answer_order_at(answers, request, verdict, response, order->order.id);
}

void sk_answer_repeated(const struct sk_answers *answers, struct sk_request *request, const char *order_id,
                        const struct sk_answer *answer)
{
    bool pending = answer->status != NULL && strcmp(answer->status, "pending") == 0;
    struct sk_response *response = answer_make_bare(request, type_json, answer->body, strlen(answer->body));
    answer_order_at(answers, request, pending ? SK_VERDICT_ACCEPTED : SK_VERDICT_PLACED, response, order_id);
}
