// No store is asked, but for the list of instances. Any reactor answers GET /metrics for the whole process.
#include "about.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "accept.h"
#include "admin_tokens.h"
#include "answer.h"
#include "auth.h"
#include "clock.h"
#include "embedded_openapi.h"
#include "instances.h"
#include "keys.h"
#include "pages.h"
#include "route_table.h"
#include "text.h"
#include "verdict.h"

enum { HANGING_MS = 10000 }; // a loop that has not turned for so long hangs, as the unit's watchdog sees it

// An orchestrator probes the operators' listener, which a crowd cannot fill. So that one answers for all reactors of
// the process; the buyers' answers for its own, which turns if it answers. Out of memory is no reason to restart.
static bool about_all_turn(const struct sk_context *context, bool and_ready)
{
    struct sk_metrics_sum *sum = context->options->operators ? malloc(sizeof *sum) : NULL;
    if (sum == NULL)
        return true;
    sk_metrics_sum(sum, sk_monotonic_ms());
    bool turn = sum->values[SK_METRIC_LOOP_AT] < HANGING_MS &&
                (!and_ready || sum->values[SK_METRIC_REACTORS_READY] == sum->values[SK_METRIC_REACTORS]);
    free(sum);
    return turn;
}

void sk_handle_health(const struct sk_context *context, struct sk_request *request)
{
    if (about_all_turn(context, false))
        sk_answer_ok(context->answers, request);
    else
        sk_answer_refusal(context->answers, request, SK_VERDICT_UNAVAILABLE);
}

// Able to take orders. The body names the shards whose orders wait for PostgreSQL; a lone server is shard 0.
void sk_handle_ready(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_control *control = context->control;
    if (context->draining || !control->ready(control->arg) || !about_all_turn(context, true)) {
        sk_answer_refusal(context->answers, request, SK_VERDICT_UNAVAILABLE);
        return;
    }
    struct sk_buf away = {0};
    for (size_t i = 0; i < control->sale->shard_count; i++) {
        if (control->shard_away(control->arg, i))
            sk_buf_printf(&away, "%s%zu", away.len == 0 ? "{\"status\":\"ok\",\"shards_away\":[" : ",", i);
    }
    if (away.len > 0)
        sk_buf_puts(&away, "]}");
    if (away.len == 0 || away.failed)
        sk_answer_ok(context->answers, request);
    else
        sk_answer_send(context->answers, request, &(struct sk_answer){.verdict = SK_VERDICT_FOUND, .body = away.data});
    sk_buf_free(&away);
}

void sk_handle_openapi(const struct sk_context *context, struct sk_request *request)
{
    sk_document_answer(context->openapi, request, !context->draining && !request->last);
}

void sk_handle_not_found(const struct sk_context *context, struct sk_request *request)
{
    sk_answer_refusal(context->answers, request, SK_VERDICT_NOT_FOUND);
}

void sk_handle_metrics(const struct sk_context *context, struct sk_request *request)
{
    bool open_metrics = sk_accept_openmetrics(sk_request_header(request, "accept", NULL));
    struct sk_metrics_sum *sum = malloc(sizeof *sum);
    struct sk_buf page = {0};
    if (sum != NULL) {
        sk_metrics_sum(sum, sk_monotonic_ms());
        context->options->render_metrics(sum, open_metrics, &page);
    }
    if (sum == NULL || page.failed)
        sk_answer_refusal(context->answers, request, SK_VERDICT_OVERLOADED);
    else
        sk_answer_send(context->answers, request,
                       &(struct sk_answer){.verdict = SK_VERDICT_FOUND,
                                           .body = page.data,
                                           .type = open_metrics
                                                       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                                       : "text/plain; version=0.0.4; charset=utf-8"});
    sk_buf_free(&page);
    free(sum);
}

// Which roles the caller's token has, with those that they include.
void sk_handle_me(const struct sk_context *context, struct sk_request *request)
{
    char name[SK_ADMIN_NAME_SIZE];
    const char *comma = "";
    struct sk_buf body = {0};
    sk_buf_printf(&body, "{\"name\":\"%s\",\"roles\":[", sk_call_of(request)->by);
    for (size_t i = 0; i < SK_ROLE_NAMES; i++) {
        if (sk_auth_admin(request, context->tokens, sk_role_names[i].role, name) != SK_CALLER_KNOWN)
            continue;
        sk_buf_printf(&body, "%s\"%s\"", comma, sk_role_names[i].name);
        comma = ",";
    }
    sk_buf_puts(&body, "]}");
    sk_answer_text(context->answers, request, &body);
}

// ---- the OpenAPI document ----
//
// Writes the text in one pass, without a tree: everything printed into it is a constant of ours that needs no escaping
// in JSON (tests/unit/test_openapi.c parses it).

#ifndef SK_VERSION
#define SK_VERSION "0"
#endif

enum { STATUS_FIRST = 200, STATUS_PROBLEM = 400, STATUS_END = 600 };

static void openapi_put_paths(struct sk_buf *out);
static void openapi_put_operation(struct sk_buf *out, const struct sk_route *route);
static void openapi_put_security(struct sk_buf *out, enum sk_route_caller caller);
static void openapi_put_params(struct sk_buf *out, const struct sk_route *route);
static void openapi_put_responses(struct sk_buf *out, const struct sk_route *route);
static void openapi_put_status(struct sk_buf *out, unsigned status);
static const char *openapi_put_success(struct sk_buf *out, unsigned status, const char *gives);
static void openapi_put_problem(struct sk_buf *out, uint64_t verdicts, unsigned status);
static void openapi_put_headers(struct sk_buf *out, uint64_t verdicts, unsigned status);
static void openapi_put_components(struct sk_buf *out);
static void openapi_put_problem_code(struct sk_buf *out);
static void openapi_put_examples(struct sk_buf *out);
static void openapi_put_text(struct sk_buf *out, const char *text);

struct sk_document *sk_openapi_open(const struct sk_cors *cors)
{
    // Cached only briefly: another version of the service may run a moment later.
    static const struct sk_document_field fields[] = {
        {"Cache-Control", "public, max-age=60"}, {"Vary", "Accept-Encoding"}, {NULL, NULL}};
    struct sk_document_source source = {.type = "application/json", .fields = fields, .cors = cors};
    sk_openapi_put(&source.own);
    if (sk_openapi_packed != NULL)
        source.packed = (struct sk_document_body){(const char *)sk_openapi_packed, sk_openapi_packed_len};
    return sk_document_open(&source);
}

enum sk_status sk_openapi_print(FILE *out)
{
    struct sk_buf text = {0};
    sk_openapi_put(&text);
    bool ok = !text.failed && fwrite(text.data, 1, text.len, out) == text.len;
    sk_buf_free(&text);
    return ok ? SK_OK : SK_FAIL;
}

void sk_openapi_put(struct sk_buf *out)
{
    sk_buf_puts(out, "{\"openapi\":\"3.1.0\",\"info\":{\"version\":\"" SK_VERSION "\",");
    openapi_put_text(out, strchr(sk_openapis[SK_OPENAPI_INFO].text, '{') + 1);
    sk_buf_puts(out, ",\"servers\":[{\"url\":\"/\",\"description\":\"Where this document came from\"}],\"paths\":{");
    openapi_put_paths(out);
    sk_buf_puts(out, "},\"components\":{");
    openapi_put_components(out);
    sk_buf_puts(out, "}}\n");
}

// ---- calls ----

static void openapi_put_paths(struct sk_buf *out)
{
    const struct sk_route *end = sk_route_table + sk_route_count;
    const char *pattern = "", *comma = "";
    for (const struct sk_route *route = sk_route_table; route < end; route++) {
        if (route->doc.id == NULL)
            continue;
        if (strcmp(pattern, route->pattern) != 0)
            sk_buf_printf(out, "%s\"%s\":{", comma, route->pattern);
        else
            sk_buf_puts(out, ",");
        openapi_put_operation(out, route);
        pattern = route->pattern;
        const struct sk_route *next = sk_route_next_method(route);
        sk_buf_puts(out, next == NULL ? "}" : "");
        comma = ",";
    }
}

static void openapi_put_operation(struct sk_buf *out, const struct sk_route *route)
{
    static const char *const methods[] = {[SK_ROUTE_GET] = "get", [SK_ROUTE_POST] = "post", [SK_ROUTE_PATCH] = "patch"};
    const struct sk_route_doc *doc = &route->doc;
    SK_ASSERT(route->method != SK_ROUTE_ANY);
    sk_buf_printf(out, "\"%s\":{\"operationId\":\"%s\",\"summary\":\"%s\",\"tags\":[\"%.*s\"]", methods[route->method],
                  doc->id, doc->summary, (int)strcspn(route->pattern + 1, "/."), route->pattern + 1);
    openapi_put_security(out, route->caller);
    openapi_put_params(out, route);
    if (doc->takes != NULL)
        sk_buf_printf(out, ",\"requestBody\":{\"$ref\":\"#/components/requestBodies/%s\"}", doc->takes);
    openapi_put_responses(out, route);
    sk_buf_puts(out, "}");
}

// All schemes send Authorization. A generated client sends what its one callback gives for every scheme of a call, so
// what the gateway sets and what is computed for a request are parameters, and `{}` stands for them.
static void openapi_put_security(struct sk_buf *out, enum sk_route_caller caller)
{
    static const char *const schemes[] = {
        [SK_ROUTE_PROBER] = "",
        [SK_ROUTE_ANYONE] = "",
        [SK_ROUTE_USER] = "{},{\"userToken\":[]}",
        [SK_ROUTE_USER_OR_READ] = "{},{\"userToken\":[]},{\"adminToken\":[\"read\"]}",
        [SK_ROUTE_READ] = "{\"adminToken\":[\"read\"]}",
        [SK_ROUTE_OPERATE] = "{\"adminToken\":[\"operate\"]}",
        [SK_ROUTE_REFUNDS] = "{\"adminToken\":[\"refunds\"]}",
        [SK_ROUTE_SCRAPER] = "{\"adminToken\":[\"metrics\"]}",
        [SK_ROUTE_PAYMENTS] = "{\"adminToken\":[\"payments\"]},{}",
    };
    sk_buf_printf(out, ",\"security\":[%s]", schemes[caller]);
}

static void openapi_put_param(struct sk_buf *out, const char *name, size_t len, const char *suffix)
{
    bool first = out->len > 0 && out->data[out->len - 1] == '[';
    sk_buf_printf(out, "%s{\"$ref\":\"#/components/parameters/%.*s%s\"}", first ? "" : ",", (int)len, name, suffix);
}

static void openapi_put_named_params(struct sk_buf *out, const char *names)
{
    for (const char *at = names; *at != '\0';) {
        size_t len = strcspn(at, " ");
        openapi_put_param(out, at, len, "");
        at += len + strspn(at + len, " ");
    }
}

static void openapi_put_params(struct sk_buf *out, const struct sk_route *route)
{
    enum sk_route_caller caller = route->caller;
    sk_buf_puts(out, ",\"parameters\":[");
    for (const char *at = strchr(route->pattern, '{'); at != NULL; at = strchr(at + 1, '{'))
        openapi_put_param(out, at + 1, strcspn(at + 1, "}"), "Id");
    openapi_put_named_params(out, route->doc.params);
    openapi_put_named_params(out, caller == SK_ROUTE_USER || caller == SK_ROUTE_USER_OR_READ ? "GatewayUser"
                                  : caller == SK_ROUTE_PAYMENTS ? "PaymentTimestamp PaymentSignature"
                                                                : "");
    openapi_put_named_params(out, "Traceparent"); // every call accepts it
    sk_buf_puts(out, "]");
}

// ---- answers ----

// The verdicts with this status.
static uint64_t openapi_of_status(uint64_t verdicts, unsigned status)
{
    uint64_t found = 0;
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        if (sk_verdict_http_status((enum sk_verdict)i) == status)
            found |= verdicts & SK_VERDICT_BIT(i);
    }
    return found;
}

static void openapi_put_responses(struct sk_buf *out, const struct sk_route *route)
{
    uint64_t verdicts = sk_route_verdicts(route);
    const char *gives = route->doc.gives;
    sk_buf_puts(out, ",\"responses\":{");
    for (unsigned status = STATUS_FIRST; status < STATUS_END; status++) {
        uint64_t these = openapi_of_status(verdicts, status);
        if (these == 0)
            continue;
        if (status >= STATUS_PROBLEM)
            openapi_put_problem(out, these, status);
        else
            gives = openapi_put_success(out, status, gives);
    }
    while (*gives != '\0') // "304:Name": statuses that no verdict has
        gives = openapi_put_success(out, (unsigned)strtoul(gives, NULL, 10), strchr(gives, ':') + 1);
    sk_buf_puts(out, "}");
}

static void openapi_put_status(struct sk_buf *out, unsigned status)
{
    bool first = out->len > 0 && out->data[out->len - 1] == '{';
    sk_buf_printf(out, "%s\"%u\":", first ? "" : ",", status);
}

// Returns the remaining names.
static const char *openapi_put_success(struct sk_buf *out, unsigned status, const char *gives)
{
    size_t len = strcspn(gives, " ");
    openapi_put_status(out, status);
    sk_buf_printf(out, "{\"$ref\":\"#/components/responses/%.*s\"}", (int)len, gives);
    return gives + len + strspn(gives + len, " ");
}

static void openapi_put_codes(struct sk_buf *out, uint64_t verdicts, const char *format, const char *between)
{
    const char *comma = "";
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        if ((verdicts & SK_VERDICT_BIT(i)) == 0)
            continue;
        sk_buf_puts(out, comma);
        for (const char *at = format; *at != '\0'; at++) {
            if (*at == '%')
                sk_buf_puts(out, sk_verdict_code((enum sk_verdict)i));
            else
                sk_buf_add(out, at, 1);
        }
        comma = between;
    }
}

static void openapi_put_code_schema(struct sk_buf *out, uint64_t verdicts)
{
    sk_buf_puts(out, "{\"type\":\"string\",\"enum\":[");
    openapi_put_codes(out, verdicts, "\"%\"", ",");
    sk_buf_puts(out, "]}");
}

// Generators drop what stands beside a $ref, so a status's own codes are the second part of an allOf.
static void openapi_put_problem(struct sk_buf *out, uint64_t verdicts, unsigned status)
{
    openapi_put_status(out, status);
    sk_buf_puts(out, "{\"description\":\"");
    openapi_put_codes(out, verdicts, "`%`", ", ");
    sk_buf_puts(out, "\"");
    openapi_put_headers(out, verdicts, status);
    sk_buf_printf(out,
                  ",\"content\":{\"application/problem+json\":{\"schema\":{\"allOf\":["
                  "{\"$ref\":\"#/components/schemas/Problem\"},{\"type\":\"object\","
                  "\"properties\":{\"status\":{\"type\":\"integer\",\"const\":%u},\"code\":",
                  status);
    openapi_put_code_schema(out, verdicts);
    sk_buf_puts(out, "}}]},\"examples\":{");
    openapi_put_codes(out, verdicts, "\"%\":{\"$ref\":\"#/components/examples/%\"}", ",");
    sk_buf_puts(out, "}}}}");
}

static void openapi_put_headers(struct sk_buf *out, uint64_t verdicts, unsigned status)
{
    static const struct {
        unsigned status;
        const char *name, *header;
    } always[] = {{401, "WWW-Authenticate", "WWWAuthenticate"},
                  {405, "Allow", "Allow"},
                  {429, "Retry-After", "RetryAfter"},
                  {429, "RateLimit", "RateLimit"},
                  {429, "RateLimit-Policy", "RateLimitPolicy"},
                  {501, "Allow", "Allow"},
                  {503, "Retry-After", "RetryAfter"}};
    static const uint64_t later = SK_VERDICT_BIT(SK_VERDICT_NOT_STARTED) | SK_VERDICT_BIT(SK_VERDICT_PENDING);
    static const uint64_t never = SK_VERDICT_BIT(SK_VERDICT_TICKETS_OFF);
    sk_buf_puts(out, ",\"headers\":{\"traceparent\":{\"$ref\":\"#/components/headers/Traceparent\"},"
                     "\"Cache-Control\":{\"$ref\":\"#/components/headers/NoStore\"}");
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
        if (always[i].status == status && (status != 503 || (verdicts & never) == 0))
            sk_buf_printf(out, ",\"%s\":{\"$ref\":\"#/components/headers/%s\"}", always[i].name, always[i].header);
    }
    if ((verdicts & (later | never)) != 0)
        sk_buf_puts(out, ",\"Retry-After\":{\"$ref\":\"#/components/headers/MayRetryAfter\"}");
    sk_buf_puts(out, "}");
}

// ---- components ----

static void openapi_put_components(struct sk_buf *out)
{
    static const struct {
        const char *name;
        enum sk_openapi file;
    } files[] = {{"schemas", SK_OPENAPI_SCHEMAS},     {"parameters", SK_OPENAPI_PARAMETERS},
                 {"headers", SK_OPENAPI_HEADERS},     {"requestBodies", SK_OPENAPI_REQUEST_BODIES},
                 {"responses", SK_OPENAPI_RESPONSES}, {"securitySchemes", SK_OPENAPI_SECURITY_SCHEMES}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        sk_buf_printf(out, "\"%s\":{", files[i].name);
        if (files[i].file == SK_OPENAPI_SCHEMAS)
            openapi_put_problem_code(out);
        openapi_put_text(out, strchr(sk_openapis[files[i].file].text, '{') + 1);
        sk_buf_puts(out, ",");
    }
    sk_buf_puts(out, "\"examples\":{");
    openapi_put_examples(out);
    sk_buf_puts(out, "}");
}

// The codes of all problems.
static void openapi_put_problem_code(struct sk_buf *out)
{
    uint64_t problems = 0;
    for (int i = 0; i < SK_VERDICT_COUNT; i++)
        problems |= sk_verdict_http_status((enum sk_verdict)i) < STATUS_PROBLEM ? 0 : SK_VERDICT_BIT(i);
    sk_buf_puts(out, "\"ProblemCode\":");
    openapi_put_code_schema(out, problems);
    sk_buf_puts(out, ",");
}

// A problem of each code.
static void openapi_put_examples(struct sk_buf *out)
{
    const char *comma = "";
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        enum sk_verdict verdict = (enum sk_verdict)i;
        const char *code = sk_verdict_code(verdict), *title = sk_verdict_title(verdict);
        unsigned status = sk_verdict_http_status(verdict);
        if (status < STATUS_PROBLEM)
            continue;
        sk_buf_printf(out,
                      "%s\"%s\":{\"value\":{\"type\":\"" SK_PROBLEM_TYPE
                      "%s\",\"title\":\"%s\",\"status\":%u,\"code\":\"%s\"}}",
                      comma, code, code, title, status, code);
        comma = ",";
    }
}

// Appends JSON without white space outside strings.
static void openapi_put_text(struct sk_buf *out, const char *text)
{
    bool in_string = false;
    const char *from = text;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"')
            in_string = !in_string;
        else if (in_string && *at == '\\')
            at++;
        else if (!in_string && isspace((unsigned char)*at)) {
            sk_buf_add(out, from, (size_t)(at - from));
            from = at + 1;
        }
    }
    sk_buf_add(out, from, strlen(from));
}

// ---- instances ----
//
// One script call. Text from Redis is shown only if it has the form that instances write.

enum { NOW = 0, FIRST = 1, SESSION = 0, LEFT, TEXT, COLUMNS };

static void instances_start(struct sk_query *query);
static void instances_on_list(void *arg, const struct sk_reply *reply);
static bool instances_add(struct sk_buf *body, const struct sk_reply *reply, size_t row, bool first);

void sk_handle_instances(const struct sk_context *context, struct sk_request *request)
{
    sk_list_instances(context->control, request->handle);
}

void sk_list_instances(struct sk_control *control, uint64_t handle)
{
    struct sk_query *query = sk_query_new(control, SK_PG_COMMANDS, handle, "instances", sizeof *query, instances_start);
    if (query != NULL)
        sk_query_start(query);
}

static void instances_start(struct sk_query *query)
{
    const char *keys[] = {SK_KEY_SESSIONS, SK_KEY_INSTANCES};
    if (sk_redis_script(sk_sale_ask_shared(query->control->sale), SK_SCRIPT_LIST_INSTANCES, 2, 2, keys, NULL,
                        instances_on_list, query) != SK_OK)
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
}

static void instances_on_list(void *arg, const struct sk_reply *reply)
{
    struct sk_query *query = arg;
    char now[SK_TIME_SIZE];
    int64_t now_ms;
    bool first = true;
    if (reply == NULL || !sk_reply_number(sk_reply_at(reply, NOW), &now_ms) || now_ms < 0) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    sk_text_put_time(now_ms, now);
    sk_buf_printf(&query->body, "{\"server_time\":\"%s\",\"instances\":[", now);
    for (size_t i = FIRST; i + COLUMNS <= sk_reply_count(reply); i += COLUMNS)
        first = !instances_add(&query->body, reply, i, first) && first;
    sk_buf_puts(&query->body, "]}");
    sk_query_end(query, SK_VERDICT_FOUND, query->body.data);
}

// False: it is no session.
static bool instances_add(struct sk_buf *body, const struct sk_reply *reply, size_t row, bool first)
{
    const char *session = sk_reply_text(sk_reply_at(reply, row + SESSION), NULL);
    const char *text = sk_reply_text(sk_reply_at(reply, row + TEXT), NULL);
    struct sk_instance one;
    char started[SK_TIME_SIZE];
    int64_t left_ms;
    if (session == NULL || !sk_uuid_valid(session) || !sk_reply_number(sk_reply_at(reply, row + LEFT), &left_ms))
        return false;
    sk_buf_printf(body, "%s{\"id\":\"%s\"", first ? "" : ",", session);
    if (text != NULL && sk_instances_read(text, &one)) {
        int64_t ago_ms = (int64_t)one.ttl_ms - left_ms;
        sk_text_put_time((int64_t)one.started_ms, started);
        sk_buf_printf(body,
                      ",\"name\":\"%s\",\"version\":\"%s\",\"started_at\":\"%s\",\"ttl_ms\":%" PRIu64
                      ",\"renewed_ago_ms\":%" PRId64,
                      one.name, one.version, started, one.ttl_ms, ago_ms < 0 ? 0 : ago_ms);
    }
    sk_buf_puts(body, "}");
    return true;
}
