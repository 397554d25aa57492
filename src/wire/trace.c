// If nothing is recorded, which is nearly always, this costs about 100 instructions for a request. Random words are
// drawn in blocks: a system call for each would cost more than all the rest.
#include "trace.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "clock.h"
#include "log.h"
#include "request.h"
#include "server_options.h"
#include "spool.h"
#include "text.h"
#include "traceparent.h"
#include "uuid.h"

enum { WORDS = 128, ERROR_FROM = 400, FAILURE_FROM = 500, UNAVAILABLE = 503 };

struct sk_tracer {
    const struct sk_server_options *options; // borrowed
    enum sk_trace_mode mode;
    uint64_t one_in; // one of this many requests has a line; 0: none
    bool all;        // check requests without the field, too
    struct sk_spool_lane *lane;
    size_t words_left;
    uint64_t words[WORDS];
};

struct sk_tracer *sk_tracer_open(const struct sk_server_options *options)
{
    struct sk_tracer *tracer = calloc(1, sizeof *tracer);
    if (tracer == NULL)
        return NULL;
    tracer->options = options;
    tracer->mode = (enum sk_trace_mode)options->trace;
    sk_tracer_write(tracer, NULL);
    return tracer;
}

void sk_tracer_write(struct sk_tracer *tracer, struct sk_spool_lane *lane)
{
    tracer->lane = lane;
    tracer->one_in = lane == NULL ? 0 : (uint64_t)tracer->options->access_log;
    tracer->all = tracer->mode == SK_TRACE_ON || tracer->one_in > 0;
}

void sk_tracer_close(struct sk_tracer *tracer)
{
    free(tracer);
}

static uint64_t trace_random(struct sk_tracer *tracer)
{
    if (tracer->words_left == 0) {
        sk_random_bytes(tracer->words, sizeof tracer->words);
        tracer->words_left = WORDS;
    }
    return tracer->words[--tracer->words_left];
}

// Joins the client's trace. Starts a new one if the client has none, or sends a malformed one.
static void trace_take_up(struct sk_tracer *tracer, struct sk_request *request)
{
    struct sk_traceparent *own = &request->trace.own;
    if (request->traceparent != NULL && sk_traceparent_read(request->traceparent, own)) {
        sk_traceparent_new_span(own, trace_random(tracer));
        return;
    }
    const uint64_t random[] = {trace_random(tracer), trace_random(tracer), trace_random(tracer)};
    sk_traceparent_make(own, random);
}

static __attribute__((noinline)) void trace_begin(struct sk_tracer *tracer, struct sk_request *request)
{
    struct sk_trace *trace = &request->trace;
    trace->logged = tracer->one_in == 1 || (tracer->one_in > 1 && trace_random(tracer) % tracer->one_in == 0);
    bool wanted = tracer->mode == SK_TRACE_ON ||
                  (tracer->mode == SK_TRACE_AUTO && (request->traceparent != NULL || trace->logged));
    if (wanted)
        trace_take_up(tracer, request);
    if (!wanted && !trace->logged)
        return;
    trace->tracer = tracer;
    trace->began_ns = uv_hrtime();
}

void sk_trace_begin(struct sk_tracer *tracer, struct sk_request *request)
{
    if (request->traceparent != NULL || tracer->all)
        trace_begin(tracer, request);
}

const char *sk_trace_id(const struct sk_request *request)
{
    const struct sk_trace *trace = &request->trace;
    return trace->tracer == NULL || trace->own.trace_id[0] == '\0' ? NULL : trace->own.trace_id;
}

const char *sk_trace_enter(const struct sk_request *request)
{
    return sk_log_about(sk_trace_id(request));
}

void sk_trace_leave(const char *before)
{
    (void)sk_log_about(before);
}

static const char *trace_method(const struct sk_request *request)
{
    static const char *const names[] = {
        [SK_METHOD_GET] = "GET",         [SK_METHOD_POST] = "POST", [SK_METHOD_PATCH] = "PATCH",
        [SK_METHOD_OPTIONS] = "OPTIONS", [SK_METHOD_OTHER] = "-",   [SK_METHOD_UNKNOWN] = "-",
    };
    _Static_assert(sizeof names / sizeof names[0] == SK_METHOD_UNKNOWN + 1, "each method has a name");
    return request->is_head ? "HEAD" : names[request->method];
}

// All of the parts together are far shorter than a line may be.
static void trace_put_line(const struct sk_request *request, unsigned http_status, const char *code)
{
    const struct sk_trace *trace = &request->trace;
    char line[SK_SPOOL_LINE_MAX], time[SK_TIME_SIZE], status[SK_NUMBER_SIZE], bytes[SK_NUMBER_SIZE], us[SK_NUMBER_SIZE];
    sk_text_put_time((int64_t)sk_wall_ms(), time);
    (void)sk_text_put_number(http_status, status);
    (void)sk_text_put_number(request->is_head ? 0 : trace->bytes, bytes);
    (void)sk_text_put_number((uv_hrtime() - trace->began_ns) / 1000, us);
    const char *const parts[] = {"ts=",
                                 time,
                                 " level=info msg=\"request\" method=",
                                 trace_method(request),
                                 " route=",
                                 request->route == NULL ? "-" : request->route,
                                 " status=",
                                 status,
                                 " code=",
                                 code,
                                 " bytes=",
                                 bytes,
                                 " us=",
                                 us,
                                 " trace_id=",
                                 trace->own.trace_id[0] == '\0' ? "-" : trace->own.trace_id,
                                 "\n"};
    char *at = line;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        at = stpcpy(at, parts[i]);
    sk_spool_put(trace->tracer->lane, line, (size_t)(at - line));
}

void sk_trace_answer(struct sk_request *request, unsigned http_status, const char *code, struct sk_response *response)
{
    if (request->trace.own.trace_id[0] != '\0') {
        char text[SK_TRACEPARENT_SIZE];
        sk_traceparent_put(&request->trace.own, text);
        sk_response_header(response, "traceparent", text);
        const char *before = sk_trace_enter(request);
        const char *route = request->route == NULL ? "-" : request->route;
        if (http_status >= FAILURE_FROM && http_status != UNAVAILABLE)
            sk_log(SK_LOG_WARN, "a request failed", "route=%s code=%s", route, code);
        else if (http_status >= ERROR_FROM)
            sk_log(SK_LOG_DEBUG, "a request was refused", "route=%s code=%s", route, code);
        sk_trace_leave(before);
    }
    if (request->trace.logged)
        trace_put_line(request, http_status, code);
}
