// If nothing is recorded, which is nearly always, this costs about 100 instructions for a request. Random words are
// drawn in blocks: a system call for each would cost more than all the rest.
#include "trace.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "clock.h"
#include "log.h"
#include "metrics.h"
#include "request.h"
#include "server_options.h"
#include "spool.h"
#include "text.h"
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

static uint64_t trace_random(struct sk_tracer *tracer);
static void trace_begin(struct sk_tracer *tracer, struct sk_request *request) __attribute__((noinline));
static void trace_take_up(struct sk_tracer *tracer, struct sk_request *request);
static void trace_put_line(const struct sk_request *request, unsigned http_status, const char *code);
static const char *trace_method(const struct sk_request *request);
static char *trace_put(char *at, const char *text);
static char *trace_put_number(char *at, uint64_t number);

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

// ---- a request ----

void sk_trace_begin(struct sk_tracer *tracer, struct sk_request *request)
{
    if (request->traceparent != NULL || tracer->all)
        trace_begin(tracer, request);
}

static void trace_begin(struct sk_tracer *tracer, struct sk_request *request)
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

// ---- the line ----

static void trace_put_line(const struct sk_request *request, unsigned http_status, const char *code)
{
    char line[SK_SPOOL_LINE_MAX], time[SK_TIME_SIZE], *at = line;
    const struct sk_trace *trace = &request->trace;
    sk_text_put_time((int64_t)sk_wall_ms(), time);
    at = trace_put(at, "ts=");
    at = trace_put(at, time);
    at = trace_put(at, " level=info msg=\"request\" method=");
    at = trace_put(at, trace_method(request));
    at = trace_put(at, " route=");
    at = trace_put(at, request->route == NULL ? "-" : request->route);
    at = trace_put(at, " status=");
    at = trace_put_number(at, http_status);
    at = trace_put(at, " code=");
    at = trace_put(at, code);
    at = trace_put(at, " bytes=");
    at = trace_put_number(at, request->is_head ? 0 : trace->bytes);
    at = trace_put(at, " us=");
    at = trace_put_number(at, (uv_hrtime() - trace->began_ns) / 1000);
    at = trace_put(at, " trace_id=");
    at = trace_put(at, trace->own.trace_id[0] == '\0' ? "-" : trace->own.trace_id);
    *at++ = '\n';
    sk_spool_put(trace->tracer->lane, line, (size_t)(at - line));
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

// Appends a constant or a number, and returns the end. All of them together are far shorter than a line may be.
static char *trace_put(char *at, const char *text)
{
    return stpcpy(at, text);
}

static char *trace_put_number(char *at, uint64_t number)
{
    return at + sk_text_put_number(number, at);
}

// ---- traceparent ----

// Version 00 is of fixed width, and later versions may only append to it.

// 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
enum { AT_TRACE = 3, AT_SPAN = 36, AT_FLAGS = 53, CHARS = 55, VERSION_NONE = 0xff };

static const char digits[] = "0123456789abcdef";

static bool traceparent_read_hex(const char *text, size_t n, bool *nonzero);
static unsigned traceparent_byte(const char *text);
static void traceparent_put_hex(char *out, uint64_t word);

bool sk_traceparent_read(const char *text, struct sk_traceparent *read)
{
    bool any, trace_set, span_set;
    text += strspn(text, " \t");
    size_t len = strlen(text);
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    if (len < CHARS || !traceparent_read_hex(text, 2, &any) || text[AT_TRACE - 1] != '-' ||
        !traceparent_read_hex(text + AT_TRACE, SK_TRACE_ID_CHARS, &trace_set) || text[AT_SPAN - 1] != '-' ||
        !traceparent_read_hex(text + AT_SPAN, SK_SPAN_ID_CHARS, &span_set) || text[AT_FLAGS - 1] != '-' ||
        !traceparent_read_hex(text + AT_FLAGS, 2, &any) || !trace_set || !span_set)
        return false;
    unsigned version = traceparent_byte(text), flags = traceparent_byte(text + AT_FLAGS);
    if (version == VERSION_NONE || (len > CHARS && (version == 0 || text[CHARS] != '-')))
        return false;
    memcpy(read->trace_id, text + AT_TRACE, SK_TRACE_ID_CHARS);
    memcpy(read->span_id, text + AT_SPAN, SK_SPAN_ID_CHARS);
    read->trace_id[SK_TRACE_ID_CHARS] = read->span_id[SK_SPAN_ID_CHARS] = '\0';
    read->flags = (uint8_t)(flags & (version == 0 ? SK_TRACE_SAMPLED | SK_TRACE_RANDOM : SK_TRACE_SAMPLED));
    return true;
}

// Lower case only. *nonzero: a digit is not 0.
static bool traceparent_read_hex(const char *text, size_t n, bool *nonzero)
{
    *nonzero = false;
    for (size_t i = 0; i < n; i++) {
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
        *nonzero = *nonzero || text[i] != '0';
    }
    return true;
}

// The value of two digits that were checked.
static unsigned traceparent_byte(const char *text)
{
    unsigned high = (unsigned)(strchr(digits, text[0]) - digits), low = (unsigned)(strchr(digits, text[1]) - digits);
    return high << 4 | low;
}

void sk_traceparent_make(struct sk_traceparent *made, const uint64_t random[3])
{
    traceparent_put_hex(made->trace_id, random[0]);
    traceparent_put_hex(made->trace_id + SK_SPAN_ID_CHARS, random[1] == 0 ? 1 : random[1]);
    made->trace_id[SK_TRACE_ID_CHARS] = '\0';
    made->flags = SK_TRACE_RANDOM;
    sk_traceparent_new_span(made, random[2]);
}

void sk_traceparent_new_span(struct sk_traceparent *parent, uint64_t random)
{
    traceparent_put_hex(parent->span_id, random == 0 ? 1 : random);
    parent->span_id[SK_SPAN_ID_CHARS] = '\0';
}

static void traceparent_put_hex(char *out, uint64_t word)
{
    for (int i = SK_SPAN_ID_CHARS - 1; i >= 0; i--) {
        out[i] = digits[word & 0xf];
        word >>= 4;
    }
}

void sk_traceparent_put(const struct sk_traceparent *parent, char out[SK_TRACEPARENT_SIZE])
{
    memcpy(out, "00-", AT_TRACE);
    memcpy(out + AT_TRACE, parent->trace_id, SK_TRACE_ID_CHARS);
    out[AT_SPAN - 1] = '-';
    memcpy(out + AT_SPAN, parent->span_id, SK_SPAN_ID_CHARS);
    out[AT_FLAGS - 1] = '-';
    out[AT_FLAGS] = digits[parent->flags >> 4];
    out[AT_FLAGS + 1] = digits[parent->flags & 0xf];
    out[CHARS] = '\0';
}

// ---- durations ----
//
// Answers of one route to requests that came in one turn took the same time, so they are kept as one entry until the
// turn ends. The time of all requests of a turn counts from its first one, so a reported time is too long rather than
// too short.

enum { KEPT_MAX = 32 };

struct kept {
    uint64_t began_ns, n;
    unsigned row;
    bool traced;
    char trace_id[SK_EXEMPLAR_CHARS]; // of the last request that has one
};

struct sk_measure {
    struct sk_metrics *metrics;
    uint64_t turn_ns; // when its first request was complete; 0: there was none yet
    struct kept kept[KEPT_MAX];
    size_t count;
};

static void measure_flush(struct sk_measure *measure);

struct sk_measure *sk_measure_open(struct sk_metrics *metrics)
{
    struct sk_measure *measure = calloc(1, sizeof *measure);
    if (measure != NULL)
        measure->metrics = metrics;
    return measure;
}

void sk_measure_close(struct sk_measure *measure)
{
    free(measure);
}

void sk_measure_began(struct sk_measure *measure, struct sk_request *request)
{
    if (measure == NULL)
        return;
    if (measure->turn_ns == 0)
        measure->turn_ns = uv_hrtime();
    request->measure = measure;
    request->began_ns = measure->turn_ns;
}

void sk_measure_answered(const struct sk_request *request, unsigned code, const char *trace_id)
{
    struct sk_measure *measure = request->measure;
    if (measure == NULL)
        return;
    sk_metrics_answered(measure->metrics, request->row, code);
    struct kept *last = measure->count == 0 ? NULL : &measure->kept[measure->count - 1];
    if (last == NULL || last->row != request->row || last->began_ns != request->began_ns) {
        if (measure->count == KEPT_MAX)
            measure_flush(measure);
        last = &measure->kept[measure->count++];
        last->began_ns = request->began_ns;
        last->row = request->row;
        last->n = 0;
        last->traced = false;
    }
    last->n++;
    if (trace_id != NULL) {
        last->traced = true;
        memcpy(last->trace_id, trace_id, sizeof last->trace_id);
    }
}

void sk_measure_turn(struct sk_measure *measure)
{
    if (measure == NULL)
        return;
    if (measure->count > 0)
        measure_flush(measure);
    measure->turn_ns = 0;
}

static void measure_flush(struct sk_measure *measure)
{
    uint64_t now_ns = uv_hrtime();
    for (size_t i = 0; i < measure->count; i++) {
        const struct kept *kept = &measure->kept[i];
        uint64_t took_ns = now_ns - kept->began_ns;
        sk_metrics_took(measure->metrics, kept->row, took_ns, kept->n);
        if (kept->traced)
            sk_distribution_mark(&measure->metrics->durations[kept->row], SK_SCALE_SECONDS, took_ns, kept->trace_id,
                                 sk_wall_ms());
    }
    measure->count = 0;
}
