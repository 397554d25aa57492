// The record of a request: its trace, and its line in the access log. The test keeps the lines instead of writing them.
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "listening.h"
#include "log.h"
#include "request.h"
#include "server_options.h"
#include "spool.h"
#include "test.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN  "b7ad6b7169203331"
#define SENT  "00-" TRACE "-" SPAN "-01"

enum { ASKED = 20000 };

static struct sk_request asked;
static char written[SK_SPOOL_LINE_MAX + 1]; // the last line
static int lines;
static char given[SK_TRACEPARENT_SIZE]; // in the answer; "": none

void sk_spool_put(struct sk_spool_lane *lane, const char *line, size_t len)
{
    if (lane != (struct sk_spool_lane *)(void *)written || len > SK_SPOOL_LINE_MAX)
        ck_abort_msg("%zu bytes in another lane", len);
    memcpy(written, line, len);
    written[len] = '\0';
    lines++;
}

void sk_response_header(struct sk_response *response, const char *name, const char *value)
{
    (void)response;
    if (strcmp(name, "traceparent") != 0)
        ck_abort_msg("%s", name);
    (void)snprintf(given, sizeof given, "%s", value);
}

static struct sk_tracer *open_tracer(enum sk_trace_mode mode, int64_t access_log)
{
    static struct sk_server_options options;
    options = (struct sk_server_options){.trace = mode, .access_log = access_log};
    struct sk_tracer *tracer = sk_tracer_open(&options);
    ck_assert_ptr_nonnull(tracer);
    sk_tracer_write(tracer, (struct sk_spool_lane *)(void *)written);
    return tracer;
}

static void ask(struct sk_tracer *tracer, const char *traceparent)
{
    asked = (struct sk_request){.method = SK_METHOD_POST, .route = "/seckill/{voucher}", .traceparent = traceparent};
    given[0] = written[0] = '\0';
    lines = 0;
    sk_trace_begin(tracer, &asked);
}

static void answer(unsigned status, const char *code)
{
    if (asked.trace.tracer != NULL)
        sk_trace_answer(&asked, status, code, NULL);
}

TEST(which_requests_have_a_trace)
{
    static const struct {
        enum sk_trace_mode mode;
        int64_t access_log;
        const char *sent;
        bool has, theirs;
    } rows[] = {
        {SK_TRACE_AUTO, 0, NULL, false, false},
        {SK_TRACE_AUTO, 0, SENT, true, true},
        {SK_TRACE_AUTO, 0, "01-" TRACE "-" SPAN "-01-more", true, true},
        {SK_TRACE_AUTO, 0, "nonsense", true, false}, // a trace is made, with an id of ours
        {SK_TRACE_AUTO, 0, "", true, false},
        {SK_TRACE_AUTO, 1, NULL, true, false},
        {SK_TRACE_AUTO, 1, SENT, true, true},
        {SK_TRACE_ON, 0, NULL, true, false},
        {SK_TRACE_ON, 0, SENT, true, true},
        {SK_TRACE_ON, 0, "nonsense", true, false},
        {SK_TRACE_OFF, 0, NULL, false, false},
        {SK_TRACE_OFF, 0, SENT, false, false},
        {SK_TRACE_OFF, 1, SENT, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_tracer *tracer = open_tracer(rows[i].mode, rows[i].access_log);
        ask(tracer, rows[i].sent);
        const char *id = sk_trace_id(&asked);
        ck_assert_msg((id != NULL) == rows[i].has, "row %zu", i);
        ck_assert_msg((id != NULL && strcmp(id, TRACE) == 0) == rows[i].theirs, "row %zu", i);
        ck_assert_int_eq(asked.trace.tracer != NULL, rows[i].has || rows[i].access_log > 0);
        answer(201, "PLACED");
        struct sk_traceparent read;
        ck_assert_int_eq(sk_traceparent_read(given, &read), rows[i].has);
        ck_assert_int_eq(lines, rows[i].access_log == 1);
        if (rows[i].has) {
            ck_assert_str_eq(read.trace_id, id);
            ck_assert_str_ne(read.span_id, SPAN); // ours
            ck_assert_uint_eq(read.flags, rows[i].theirs ? SK_TRACE_SAMPLED : SK_TRACE_RANDOM);
        }
        sk_tracer_close(tracer);
    }
}

TEST(each_request_has_ids_of_its_own)
{
    struct sk_tracer *tracer = open_tracer(SK_TRACE_ON, 0);
    static struct sk_traceparent before;
    for (int i = 0; i < 1000; i++) {
        ask(tracer, NULL);
        ck_assert_str_ne(asked.trace.own.trace_id, before.trace_id);
        ck_assert_str_ne(asked.trace.own.span_id, before.span_id);
        before = asked.trace.own;
    }
    sk_tracer_close(tracer);
}

// Random: the bounds are 6 standard deviations away.
TEST(one_of_n_has_a_line)
{
    static const struct {
        int64_t one_in;
        int least, most;
    } rows[] = {{0, 0, 0}, {1, ASKED, ASKED}, {10, 1745, 2255}, {100, 115, 285}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_tracer *tracer = open_tracer(SK_TRACE_AUTO, rows[i].one_in);
        int count = 0, odd = 0; // an assertion for each would take minutes
        for (int k = 0; k < ASKED; k++) {
            ask(tracer, NULL);
            odd += asked.trace.logged != (sk_trace_id(&asked) != NULL);
            answer(409, "SOLD_OUT");
            count += lines;
        }
        ck_assert_int_eq(odd, 0);
        ck_assert_int_ge(count, rows[i].least);
        ck_assert_int_le(count, rows[i].most);
        sk_tracer_close(tracer);
    }
}

static void must_be(const char *pattern)
{
    char all[512];
    regex_t regex;
    (void)snprintf(all, sizeof all,
                   "^ts=[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z level=info msg=\"request\" "
                   "%s\n$",
                   pattern);
    ck_assert_int_eq(regcomp(&regex, all, REG_EXTENDED | REG_NOSUB), 0);
    ck_assert_msg(regexec(&regex, written, 0, NULL, 0) == 0, "%s is not %s", written, all);
    regfree(&regex);
}

TEST(what_a_line_says)
{
    struct sk_tracer *tracer = open_tracer(SK_TRACE_AUTO, 1);
    ask(tracer, SENT);
    asked.trace.bytes = 263;
    answer(201, "PLACED");
    must_be("method=POST route=/seckill/\\{voucher\\} status=201 code=PLACED bytes=263 us=[0-9]+ trace_id=" TRACE);
    ask(tracer, NULL);
    answer(409, "SOLD_OUT");
    must_be(
        "method=POST route=/seckill/\\{voucher\\} status=409 code=SOLD_OUT bytes=0 us=[0-9]+ trace_id=[0-9a-f]{32}");
    sk_tracer_close(tracer);
    tracer = open_tracer(SK_TRACE_OFF, 1);
    ask(tracer, SENT);
    answer(200, "FOUND");
    must_be("method=POST route=/seckill/\\{voucher\\} status=200 code=FOUND bytes=0 us=[0-9]+ trace_id=-");
    sk_tracer_close(tracer);
}

// A line contains nothing that a client has sent.
TEST(a_line_holds_nothing_from_outside)
{
    static const struct {
        enum sk_method method;
        bool is_head;
        const char *shown;
    } rows[] = {
        {SK_METHOD_GET, false, "GET"},   {SK_METHOD_GET, true, "HEAD"},         {SK_METHOD_PATCH, false, "PATCH"},
        {SK_METHOD_POST, false, "POST"}, {SK_METHOD_OPTIONS, false, "OPTIONS"}, // of no page: no preflight
        {SK_METHOD_OTHER, false, "-"},   {SK_METHOD_UNKNOWN, false, "-"},
    };
    ck_assert_uint_eq(sizeof rows / sizeof rows[0], SK_METHOD_UNKNOWN + 2); // each method, and HEAD
    struct sk_tracer *tracer = open_tracer(SK_TRACE_AUTO, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char pattern[128];
        ask(tracer, "00-\"\n forged=1-" SPAN "-01");
        asked.method = rows[i].method;
        asked.is_head = rows[i].is_head;
        asked.path = "/seckill/\"\\ \n forged=1";
        asked.route = NULL;
        asked.trace.bytes = 7;
        answer(404, "NOT_FOUND");
        (void)snprintf(pattern, sizeof pattern,
                       "method=%s route=- status=404 code=NOT_FOUND bytes=%d us=[0-9]+ trace_id=[0-9a-f]{32}",
                       rows[i].shown, rows[i].is_head ? 0 : 7);
        must_be(pattern);
    }
    sk_tracer_close(tracer);
}

// Each field of maximum length.
TEST(the_longest_line_fits)
{
    struct sk_tracer *tracer = open_tracer(SK_TRACE_ON, 1);
    char code[SK_TRACE_CODE_MAX + 1];
    memset(code, 'X', SK_TRACE_CODE_MAX);
    code[SK_TRACE_CODE_MAX] = '\0';
    ask(tracer, NULL);
    asked.method = SK_METHOD_OPTIONS;
    asked.route = "/admin/vouchers/{voucher}/dead-letters/{letter}/write-off";
    asked.trace.bytes = SIZE_MAX;
    asked.trace.began_ns = 0;
    answer(503, code);
    ck_assert_uint_lt(strlen(written), SK_SPOOL_LINE_MAX / 2);
    sk_tracer_close(tracer);
}

TEST(log_lines_carry_the_trace)
{
    struct sk_tracer *tracer = open_tracer(SK_TRACE_AUTO, 0);
    begin_listening();
    sk_log_set_level(SK_LOG_DEBUG);
    ask(tracer, SENT);
    const char *before = sk_trace_enter(&asked);
    sk_log(SK_LOG_DEBUG, "of this request", "a=%d", 1);
    struct sk_request other = {.path = "/"}; // without a trace, answered in between
    const char *between = sk_trace_enter(&other);
    sk_log(SK_LOG_INFO, "of another", "");
    sk_trace_leave(between);
    sk_log_text(SK_LOG_WARN, "of this one, too", "b", "c d");
    sk_trace_leave(before);
    sk_log(SK_LOG_INFO, "of none", "");
    end_listening();
    sk_tracer_close(tracer);
    ck_assert_ptr_nonnull(strstr(heard, "msg=\"of this request\" trace_id=" TRACE " a=1\n"));
    ck_assert_ptr_nonnull(strstr(heard, "msg=\"of another\"\n"));
    ck_assert_ptr_nonnull(strstr(heard, "msg=\"of this one, too\" trace_id=" TRACE " b=\"c d\"\n"));
    ck_assert_ptr_nonnull(strstr(heard, "msg=\"of none\"\n"));
}

TEST(what_goes_wrong_is_logged)
{
    static const struct {
        unsigned status;
        const char *code;
        const char *logged; // NULL: none
    } rows[] = {
        {201, "PLACED", NULL},
        {409, "SOLD_OUT",
         "level=debug msg=\"a request was refused\" trace_id=" TRACE " route=/seckill/{voucher} code=SOLD_OUT\n"},
        {503, "UNAVAILABLE",
         "level=debug msg=\"a request was refused\" trace_id=" TRACE " route=/seckill/{voucher} code=UNAVAILABLE\n"},
        {500, "INTERNAL",
         "level=warn msg=\"a request failed\" trace_id=" TRACE " route=/seckill/{voucher} code=INTERNAL\n"},
    };
    struct sk_tracer *tracer = open_tracer(SK_TRACE_AUTO, 0);
    sk_log_set_level(SK_LOG_DEBUG);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin_listening();
        ask(tracer, SENT);
        answer(rows[i].status, rows[i].code);
        end_listening();
        if (rows[i].logged == NULL)
            ck_assert_str_eq(heard, "");
        else
            ck_assert_msg(strstr(heard, rows[i].logged) != NULL, "%s", heard);
    }
    sk_tracer_close(tracer);
}
