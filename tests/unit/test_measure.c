// The results and times of requests: each is counted once, under its route, and never with too short a time.
#include <string.h>
#include <uv.h>

#include "measure.h"
#include "metrics.h"
#include "request.h"
#include "test.h"

enum { BUY = 1, ORDER = 3, MANY = 1000 };
enum { PLACED, SOLD_OUT, FOUND, BAD_REQUEST }; // codes

static uint64_t now_ns;
static unsigned clock_reads;
static struct sk_metrics metrics;
static struct sk_measure *measure;
static struct sk_distributed took;

uint64_t uv_hrtime(void)
{
    clock_reads++;
    return now_ns;
}

static void setup(void)
{
    memset(&metrics, 0, sizeof metrics);
    now_ns = UINT64_C(5000000000);
    clock_reads = 0;
    measure = sk_measure_open(&metrics);
    ck_assert_ptr_nonnull(measure);
}

static void teardown(void)
{
    sk_measure_close(measure);
}

static struct sk_request request_of(unsigned route)
{
    struct sk_request request = {.row = route};
    sk_measure_began(measure, &request);
    return request;
}

static uint64_t times_of(unsigned route, size_t bucket)
{
    memset(&took, 0, sizeof took);
    sk_distribution_read(&metrics.durations[route], &took);
    return took.counts[bucket];
}

TEST(answers_are_counted_by_route_and_code)
{
    struct sk_request buy = request_of(BUY), order = request_of(ORDER);
    sk_measure_answered(&buy, SOLD_OUT, NULL);
    sk_measure_answered(&buy, SOLD_OUT, NULL);
    sk_measure_answered(&order, SOLD_OUT, NULL);
    struct sk_request none = request_of(0);
    sk_measure_answered(&none, BAD_REQUEST, NULL);
    ck_assert_uint_eq(metrics.answers[BUY][SOLD_OUT], 2);
    ck_assert_uint_eq(metrics.answers[BUY][PLACED], 0);
    ck_assert_uint_eq(metrics.answers[ORDER][SOLD_OUT], 1);
    ck_assert_uint_eq(metrics.answers[0][BAD_REQUEST], 1);
}

// Answers are sent in the turn in which they are given, and a turn's time starts with its first request.
TEST(time_is_that_up_to_the_turns_end)
{
    struct sk_request waits = request_of(BUY);
    now_ns += 100000;
    struct sk_request at_once = request_of(BUY);
    sk_measure_answered(&at_once, SOLD_OUT, NULL);
    now_ns += 50000;
    sk_measure_turn(measure);
    ck_assert_uint_eq(times_of(BUY, 1), 1); // 0.15 ms
    now_ns += 2000000;
    sk_measure_answered(&waits, PLACED, NULL);
    sk_measure_turn(measure);
    ck_assert_uint_eq(times_of(BUY, 5), 1); // 2.15 ms
    ck_assert_uint_eq(times_of(BUY, 1), 1);
    ck_assert_uint_eq(took.sum, 150000 + 2150000);
    sk_measure_turn(measure);
    ck_assert_uint_eq(took.sum, 150000 + 2150000);
}

TEST(a_turn_reads_the_clock_twice)
{
    struct sk_request request;
    for (int i = 0; i < MANY; i++) {
        request = request_of(BUY);
        sk_measure_answered(&request, SOLD_OUT, NULL);
    }
    sk_measure_turn(measure);
    ck_assert_uint_eq(clock_reads, 2);
    ck_assert_uint_eq(times_of(BUY, 0), MANY);
    sk_measure_turn(measure); // nothing happened
    ck_assert_uint_eq(clock_reads, 2);
}

// Some kinds of answers have reserved room in each turn; others are recorded at once.
TEST(none_is_lost_for_want_of_room)
{
    struct sk_request buy = request_of(BUY), order = request_of(ORDER);
    for (int i = 0; i < MANY; i++) {
        sk_measure_answered(&buy, SOLD_OUT, NULL);
        sk_measure_answered(&order, FOUND, NULL);
    }
    sk_measure_turn(measure);
    ck_assert_uint_eq(times_of(BUY, 0), MANY);
    ck_assert_uint_eq(times_of(ORDER, 0), MANY);
}

TEST(a_traced_request_is_an_exemplar)
{
    static const char trace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
    struct sk_request request = request_of(BUY);
    sk_measure_answered(&request, PLACED, trace);
    sk_measure_answered(&request, PLACED, NULL); // of the same kind, but without a trace
    now_ns += 10000000;
    sk_measure_turn(measure);
    ck_assert_uint_eq(times_of(BUY, 7), 2);
    ck_assert_uint_ne(took.exemplars[7].at_ms, 0);
    ck_assert_uint_eq(took.exemplars[7].value, 10000000);
    ck_assert_str_eq(took.exemplars[7].trace_id, trace);
    request = request_of(BUY);
    now_ns += 100000000;
    sk_measure_answered(&request, PLACED, NULL);
    sk_measure_turn(measure);
    ck_assert_uint_eq(times_of(BUY, 10), 1);
    ck_assert_uint_eq(took.exemplars[10].at_ms, 0);
}

TEST(without_one_nothing_is_counted)
{
    struct sk_request request = {0};
    sk_measure_began(NULL, &request);
    sk_measure_answered(&request, PLACED, NULL);
    sk_measure_turn(NULL);
    ck_assert_uint_eq(request.began_ns, 0);
    sk_measure_turn(measure);
    ck_assert_uint_eq(metrics.answers[0][PLACED], 0);
    ck_assert_uint_eq(clock_reads, 0);
}

SUITE(.setup = setup, .teardown = teardown);
