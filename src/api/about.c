// No store is asked, but for the list of instances. Any reactor answers GET /metrics for the whole process.
#include "about.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "accept.h"
#include "admin_tokens.h"
#include "answer.h"
#include "auth.h"
#include "clock.h"
#include "instances.h"
#include "keys.h"
#include "pages.h"
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

struct sk_document *sk_openapi_open(const struct sk_cors *cors)
{
    // Cached only briefly: another version of the service may run a moment later.
    static const struct sk_document_field fields[] = {
        {"Cache-Control", "public, max-age=60"}, {"Vary", "Accept-Encoding"}, {NULL, NULL}};
    struct sk_document_source source = sk_embedded_source(&sk_embedded_openapi, fields);
    source.cors = cors;
    return sk_document_open(&source);
}

enum sk_status sk_openapi_print(FILE *out)
{
    const size_t len = sk_embedded_openapi.len;
    return fwrite(sk_embedded_openapi.text, 1, len, out) == len ? SK_OK : SK_FAIL;
}

// ---- instances ----
//
// One script call. Text from Redis is shown only if it has the form that instances write.

enum { NOW = 0, FIRST = 1, SESSION = 0, LEFT, TEXT, COLUMNS };

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

static void instances_start(struct sk_query *query)
{
    const char *keys[] = {SK_KEY_SESSIONS, SK_KEY_INSTANCES};
    if (sk_redis_script(sk_sale_ask_shared(query->control->sale), SK_SCRIPT_LIST_INSTANCES, 2, 2, keys, NULL,
                        instances_on_list, query) != SK_OK)
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
}

void sk_list_instances(struct sk_control *control, uint64_t handle)
{
    struct sk_query *query = sk_query_new(control, SK_PG_COMMANDS, handle, "instances", sizeof *query, instances_start);
    if (query != NULL)
        sk_query_start(query);
}

void sk_handle_instances(const struct sk_context *context, struct sk_request *request)
{
    sk_list_instances(context->control, request->handle);
}
