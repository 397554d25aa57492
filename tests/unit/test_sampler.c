// The samples of the history: sums of what all instances wrote, of which nothing is believed that no instance writes.
#include "fake_timer.h"

#define CONTROL_HAS_PHASES
#include "fake_control.h"

#include "clock.h"
#include "history.h"
#include "request.h"
#include "test.h"
#include "ticket.h"

enum { FIGURES = 72, COUNTER = 27, BUCKET = 34, PURCHASE_ROW = 1, SAMPLE_SIZE = 160, NAME_SIZE = 8 };

static struct sk_history *history;
static struct sk_sampler *sampler;
static struct sk_routes_options routes;
static struct sk_context context;
static struct sk_metrics *own;
static char shown[1 << 17]; // the last answer
static struct sk_request request_asked;

bool sk_tickets_on(const struct sk_tickets *tickets)
{
    return tickets == NULL;
}

const char *sk_request_query(const struct sk_request *request, const char *name, unsigned *count)
{
    (void)request;
    (void)name;
    if (count != NULL)
        *count = 0;
    return NULL;
}

void sk_answer_text(const struct sk_answers *answers, struct sk_request *request, struct sk_buf *text)
{
    (void)answers;
    (void)request;
    ck_assert(!text->failed);
    (void)snprintf(shown, sizeof shown, "%s", text->data);
    sk_buf_free(text);
}

static void setup(void)
{
    control_setup();
    history = sk_history_open();
    sale.instance = "127.0.0.1:1";
    routes = (struct sk_routes_options){.history = history};
    context = (struct sk_context){.options = &routes, .control = &control};
    own = sk_metrics_open();
    sampler = sk_sampler_open(history, &context);
    ck_assert(history != NULL && own != NULL && sampler != NULL);
}

static void teardown(void)
{
    sk_sampler_stop(sampler);
    sk_sampler_close(sampler);
    sk_metrics_close(own);
    sk_history_close(history);
    control_teardown();
}

// Another instance: since 1 ms after 1970, all figures 0 but the counter of orders placed, and the last, which is 1 and
// what follows it here.
static const char *other(uint64_t placed, const char *last)
{
    static char text[4 * FIGURES + 64];
    size_t len = (size_t)snprintf(text, sizeof text, "1.0 1");
    for (int i = 1; i < FIGURES - 1; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, " %llu", i == COUNTER ? (unsigned long long)placed : 0);
    (void)snprintf(text + len, sizeof text - len, " 1%s", last);
    return text;
}

static void heard(const char *name, int64_t age_ms, const char *text)
{
    const struct sk_reply items[] = {TEXT(name), NUMBER(age_ms), TEXT(text)};
    const struct sk_reply reply = LIST_OF(items);
    time_comes();
    const struct asked *asked = &fake_redis.asked[fake_redis.answered];
    ck_assert_int_eq(asked->what, SK_SCRIPT_SHARE_FIGURES);
    ck_assert_str_eq(asked->argv[0], "seckill:{shared}:figures");
    redis_answers(&reply);
    sk_handle_history(&context, &request_asked);
}

// What the newest sample has after its time.
static void must_be_sampled(const char *columns)
{
    const char *last = strrchr(shown, '[');
    char wanted[SAMPLE_SIZE];
    ck_assert_ptr_nonnull(last);
    ck_assert_ptr_nonnull(strchr(last, ','));
    (void)snprintf(wanted, sizeof wanted, "%s]]}", columns);
    ck_assert_str_eq(strchr(last, ',') + 1, wanted);
}

TEST(samples_are_the_sums_of_what_was_added)
{
    heard("b:1", 100, other(7, ""));
    must_be_sampled("2,0,0,0,0,0,0,0,null,null,null,null"); // what was before belongs to no sample
    sk_metrics_answered(own, PURCHASE_ROW, SK_VERDICT_PLACED);
    sk_metrics_answered(own, PURCHASE_ROW, SK_VERDICT_SOLD_OUT);
    sk_metrics_answered(own, PURCHASE_ROW, SK_VERDICT_UNAVAILABLE);
    sk_metrics_answered(own, PURCHASE_ROW, SK_VERDICT_ENDED);
    sk_metrics_took(own, PURCHASE_ROW, 300000, 4); // in the bucket from 0.2 to 0.4 ms
    sk_metrics_add(own, SK_METRIC_ORDERS_PLACED, 1);
    heard("b:1", 200, other(12, ""));
    must_be_sampled("2,6,0,1,0,1,1,1,300,400,null,null");
    heard("b:1", 300, other(12, ""));
    must_be_sampled("2,0,0,0,0,0,0,0,null,null,null,null");
    heard("b:1", 400, other(3, "")); // it cannot have unsold
    must_be_sampled("2,0,0,0,0,0,0,0,null,null,null,null");
    ck_assert_ptr_nonnull(strstr(shown, "\"shared\":true"));
    ck_assert_ptr_nonnull(
        strstr(shown, "{\"name\":\"b:1\",\"version\":\"1.0\",\"started_at\":\"1970-01-01T00:00:00.001Z\""));
}

TEST(what_no_instance_writes_is_left_out)
{
    static const struct {
        const char *name, *last;
        int64_t age_ms;
        bool good;
    } rows[] = {{"b:1", "", 0, true},
                {"b:1", " 0", 0, false},
                {"b:1", "x", 0, false},
                {"b:1", "9", 0, true},
                {"b:1", "99999999999999999", 0, false},
                {"b:1", "", -1, false},
                {"b:1", "", 900001, false},
                {"b\"1", "", 0, false},
                {"b 1", "", 0, false},
                {"", "", 0, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        heard(rows[i].name, rows[i].age_ms, other(1, rows[i].last));
        ck_assert_msg((strstr(shown, "\"version\":\"1.0\"") != NULL) == rows[i].good, "row %zu: %s", i, shown);
    }
    heard("c:1", 0, "1.0 1");
    ck_assert_ptr_null(strstr(shown, "c:1"));
}

// As many others as are shown, each with this number in every bucket.
static void all_heard(uint64_t each)
{
    enum { OTHERS = SK_HISTORY_INSTANCES - 1, COLUMNS = 3 };
    char names[OTHERS][NAME_SIZE], text[20 * FIGURES] = "1.0 1";
    struct sk_reply items[OTHERS * COLUMNS];
    size_t len = strlen(text);
    for (int i = 1; i < FIGURES; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, " %llu", i < BUCKET ? 0 : (unsigned long long)each);
    for (int i = 0; i < OTHERS; i++) {
        (void)snprintf(names[i], NAME_SIZE, "b:%d", i);
        items[i * COLUMNS] = (struct sk_reply)TEXT(names[i]);
        items[i * COLUMNS + 1] = (struct sk_reply)NUMBER(0);
        items[i * COLUMNS + 2] = (struct sk_reply)TEXT(text);
    }
    const struct sk_reply reply = LIST_OF(items);
    time_comes();
    redis_answers(&reply);
    sk_handle_history(&context, &request_asked);
}

// Each bucket of each other instance has the largest figure that is believed.
TEST(quantiles_do_not_overflow)
{
    all_heard(0);
    all_heard(SK_TIME_MAX_MS);
    must_be_sampled("64,0,0,0,0,0,0,0,38400,13107200,38400,13107200");
}

TEST(one_that_is_not_heard_is_missed)
{
    heard("b:1", 15001, other(1, ""));
    must_be_sampled("1,0,0,0,0,0,0,0,null,null,null,null");
    ck_assert_ptr_nonnull(strstr(shown, "\"missed\":true"));
}

// A sample each time: without Redis, and while it does not answer. A late answer makes none.
TEST(without_redis_samples_go_on)
{
    heard("b:1", 0, other(1, ""));
    fake_redis.down = true;
    time_comes();
    sk_handle_history(&context, &request_asked);
    ck_assert_ptr_nonnull(strstr(shown, "\"shared\":false"));
    ck_assert_ptr_nonnull(strstr(shown, "\"name\":\"b:1\"")); // it was there when Redis was
    fake_redis.down = false;
    time_comes();
    time_comes(); // not answered
    sk_metrics_answered(own, PURCHASE_ROW, SK_VERDICT_PLACED);
    time_comes();
    sk_handle_history(&context, &request_asked);
    must_be_sampled("2,1,0,0,0,0,0,0,null,null,null,null");
    redis_answers(NULL);
    sk_handle_history(&context, &request_asked);
    must_be_sampled("2,1,0,0,0,0,0,0,null,null,null,null");
}

// Also while Redis is away. (A machine that is up for less than that time has no such instance.)
TEST(one_that_is_missed_for_long_is_forgotten)
{
    static const uint64_t kept_ms = 15 * 60 * 1000;
    heard("b:1", (int64_t)kept_ms, other(1, ""));
    uint64_t heard_at_ms = sk_monotonic_ms(); // or a moment before
    ck_assert_ptr_nonnull(strstr(shown, "\"name\":\"b:1\""));
    fake_redis.down = true;
    while (sk_monotonic_ms() < heard_at_ms + 2)
        ;
    time_comes();
    sk_handle_history(&context, &request_asked);
    ck_assert((strstr(shown, "\"name\":\"b:1\"") == NULL) == (heard_at_ms > kept_ms));
}

SUITE(.setup = setup, .teardown = teardown);
