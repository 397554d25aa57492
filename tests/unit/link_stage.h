// A link to a store under test, with a server under the test's control (stub.h); and what every link promises:
// deadlines, the queue's bound, and that each callback runs exactly once. Included by one source of a program, whose
// tests these are.
#ifndef UNIT_LINK_STAGE_H
#define UNIT_LINK_STAGE_H

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "status.h"
#include "stub.h"
#include "test.h"

enum { TIMEOUT_MS = 300, CALLS_MAX = 64, QUEUED = 8 };

static uv_loop_t loop;
static uv_prepare_t turn;
static struct stub stub;

static struct {
    uv_timer_t answer;
    uint32_t delay_ms; // before the answer to a call
    bool silent;       // there is none
    int asked;         // calls received
} server;

static struct {
    int ready, lost;        // changes
    int results[CALLS_MAX]; // of each call
    int total, good;        // results; those whose outcome is known
    bool in_call, close;
} seen;

// The source has these.
static size_t receive(struct stub *of, const char *bytes, size_t n);
static void answer_calls(void);
static void connect_link(size_t most_waiting);
static enum sk_status send_call(int *result);
static void flush_link(void); // runs in each turn of the loop
static void close_link(void); // NULL from then on

static void on_answer(uv_timer_t *timer)
{
    (void)timer;
    if (stub.client != NULL)
        answer_calls();
}

// The server has received a call.
static void take_call(void)
{
    server.asked++;
    if (!server.silent)
        (void)uv_timer_start(&server.answer, on_answer, server.delay_ms, 0);
}

static void on_change(void *arg, bool ready)
{
    (void)arg;
    ++*(ready ? &seen.ready : &seen.lost);
}

// Of a call's callback.
static void note_result(int *result, bool good)
{
    ck_assert(!seen.in_call);
    ++*result;
    seen.total++;
    seen.good += good;
    if (seen.close) {
        seen.close = false;
        close_link();
    }
}

static enum sk_status call(int i)
{
    seen.in_call = true;
    enum sk_status status = send_call(&seen.results[i]);
    seen.in_call = false;
    return status;
}

// `n` calls are accepted; the first has the number `from`.
static void must_take(int from, int n)
{
    for (int i = from; i < from + n; i++)
        ck_assert_int_eq(call(i), SK_OK);
}

static void must_have_each_once(int n)
{
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(seen.results[i], 1);
}

static void on_turn(uv_prepare_t *prepare)
{
    (void)prepare;
    flush_link();
}

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    stub_open(&stub, &loop, receive);
    (void)uv_timer_init(&loop, &server.answer);
    (void)uv_prepare_init(&loop, &turn);
    (void)uv_prepare_start(&turn, on_turn);
}

static void teardown(void)
{
    close_link();
    stub_close(&stub);
    uv_close((uv_handle_t *)&server.answer, NULL);
    uv_close((uv_handle_t *)&turn, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

// ---- every link ----

// The time in the queue does not count.
TEST(a_queue_costs_no_connection)
{
    connect_link(QUEUED);
    server.delay_ms = TIMEOUT_MS * 2 / 3;
    must_take(0, 1);
    flush_link();
    must_take(1, QUEUED - 1);
    RUN_UNTIL(seen.total == QUEUED);
    ck_assert_int_eq(seen.good, QUEUED);
    ck_assert_int_eq(seen.lost, 0);
    must_have_each_once(QUEUED);
}

TEST(an_overdue_answer_costs_the_connection)
{
    connect_link(QUEUED);
    server.silent = true;
    uint64_t since_ms = sk_monotonic_ms();
    must_take(0, 1);
    flush_link();
    must_take(1, QUEUED - 1); // never sent
    RUN_UNTIL(seen.lost == 1);
    ck_assert_uint_ge(sk_monotonic_ms() - since_ms, TIMEOUT_MS);
    RUN_UNTIL(seen.total == QUEUED);
    ck_assert_int_eq(seen.good, 0);
    must_have_each_once(QUEUED);
    ck_assert_int_eq(server.asked, 1);
    server.silent = false;
    RUN_UNTIL(seen.ready == 2);
    must_take(QUEUED, 1);
    RUN_UNTIL(seen.good == 1);
}

TEST(no_more_wait_than_the_options_allow)
{
    connect_link(2);
    must_take(0, 2);
    ck_assert_int_eq(call(2), SK_FULL);
    RUN_UNTIL(seen.total > 0);
    must_take(3, 1);
    RUN_UNTIL(seen.total == 3);
    ck_assert_int_eq(seen.results[2], 0);
}

TEST(a_callback_may_close)
{
    connect_link(3);
    seen.close = true;
    must_take(0, 3);
    RUN_UNTIL(seen.total == 3);
    ck_assert_int_eq(seen.good, 1);
}

// The socket is full and the server gone: calls are accepted, and their callbacks still run, later.
TEST(calls_on_a_dead_connection_are_lost)
{
    connect_link(3);
    stub_hang_up(&stub);
    must_take(0, 2);
    RUN_UNTIL(seen.total == 2);
    ck_assert_int_eq(seen.good, 0);
    RUN_UNTIL(seen.ready == 2);
}

SUITE(.timeout_s = 60, .setup = setup, .teardown = teardown);

#endif
