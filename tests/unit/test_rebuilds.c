// Which vouchers are rebuilt, and when: a few at a time, those that buyers wait for first. The rebuild itself, the
// stores and the time are fakes.
#include "fake_timer.h"
#include "maintenance.h"
#include "rebuilds.h"
#include "stage.h"
#include "test.h"

enum { ACTIVE_MAX = 4, RUNS_MAX = 64, WAITERS_MAX = 16, RETIRE_PAUSE_MS = 60000 };

static struct sk_rebuilds *rebuilds;

// ---- the rebuild ----

static struct run {
    struct sk_voucher *voucher;
    enum sk_rebuild_why why;
    sk_rebuild_run_cb *done;
    void *arg;
} runs[RUNS_MAX];
static size_t run_count;
static enum sk_status run_status;

enum sk_status sk_rebuild_run(const struct sk_sale *its_sale, struct sk_voucher *voucher, enum sk_rebuild_why why,
                              sk_rebuild_run_cb *done, void *arg)
{
    ck_assert_ptr_eq(its_sale, &sale);
    ck_assert_uint_gt(voucher->pins, 0);
    if (run_status != SK_OK)
        return run_status;
    ck_assert_uint_lt(run_count, RUNS_MAX);
    runs[run_count++] = (struct run){voucher, why, done, arg};
    return SK_OK;
}

static void ends_so(size_t run, enum sk_rebuild_end end)
{
    ck_assert_uint_lt(run, run_count);
    runs[run].done(runs[run].arg, end);
    runs[run].done = NULL;
}

static void ends(size_t run, bool ok)
{
    ends_so(run, ok ? SK_REBUILD_OPENED : SK_REBUILD_FAILED);
}

static void must_run(size_t run, int64_t voucher_id)
{
    ck_assert_uint_eq(run_count, run + 1);
    ck_assert_int_eq(runs[run].voucher->id, voucher_id);
}

// ---- waiting callers ----

static int ended[WAITERS_MAX], good[WAITERS_MAX];
static struct sk_voucher *ask_again; // from the callback

static struct sk_voucher *voucher_of(int64_t voucher_id)
{
    return a_voucher(sale.catalogue, voucher_id);
}

static void on_done(void *arg, bool ok)
{
    ended[(int *)arg - ended]++;
    good[(int *)arg - ended] += ok;
    if (ask_again != NULL)
        ck_assert_int_eq(sk_rebuild(rebuilds, ask_again, SK_REBUILD_DOUBT, NULL, NULL), ok ? SK_OK : SK_FULL);
}

static void must_be_told(int i, bool ok)
{
    ck_assert_int_eq(ended[i], 1);
    ck_assert_int_eq(good[i], ok);
    ended[i] = good[i] = 0;
}

static enum sk_status doubt(int64_t voucher_id)
{
    return sk_rebuild(rebuilds, voucher_of(voucher_id), SK_REBUILD_DOUBT, NULL, NULL);
}

// The first vouchers, up to this one.
static void doubt_all(int64_t last)
{
    for (int64_t id = 1; id <= last; id++)
        ck_assert_int_eq(doubt(id), SK_OK);
}

// The same as doubt(); the result is recorded at place `i`.
static enum sk_status wait_for(int64_t voucher_id, enum sk_rebuild_why why, int i)
{
    return sk_rebuild(rebuilds, voucher_of(voucher_id), why, on_done, &ended[i]);
}

// ---- fixture ----

static void setup(void)
{
    now_ms = 1000;
    run_status = SK_OK;
    stage_open((struct sk_sale_options){0}, sizeof(struct sk_maintenance), 0);
    rebuilds = sk_rebuilds_open(&sale);
    ck_assert_ptr_nonnull(rebuilds);
}

static void teardown(void)
{
    for (size_t i = 0; i < run_count; i++) {
        if (runs[i].done != NULL)
            ends(i, false);
    }
    sk_rebuilds_close(rebuilds);
    stage_close();
}

// ---- number and order ----

TEST(a_few_run_at_a_time)
{
    doubt_all(7);
    ck_assert_uint_eq(run_count, ACTIVE_MAX);
    for (int64_t id = 1; id <= 7; id++)
        ck_assert_int_eq(doubt(id), SK_FULL); // they run or are queued
    time_comes();
    ck_assert_uint_eq(run_count, ACTIVE_MAX);
    for (size_t i = 0; i < 3; i++) {
        ends((const size_t[]){1, 0, 4}[i], true);
        must_run(4 + i, 5 + (int64_t)i); // at once, and in order
    }
    ends(2, true);
    ck_assert_uint_eq(run_count, 7);
    ck_assert_int_eq(doubt(1), SK_OK); // may be requested again after success
    must_run(7, 1);
}

// Urgent ones, too: buyers of the other shard wait for theirs.
TEST(a_shard_that_hangs_holds_no_place_of_another)
{
    sale.shard_count = 2;
    for (int64_t id = 1; id <= 7; id++)
        ck_assert_int_eq(wait_for(id, SK_REBUILD_DOUBT, (int)id), SK_OK);
    ck_assert_uint_eq(run_count, ACTIVE_MAX);
    for (int64_t id = 8; id <= 12; id++) {
        voucher_of(id)->shard = 1;
        ck_assert_int_eq(doubt(id), SK_OK);
    }
    ck_assert_uint_eq(run_count, 2 * ACTIVE_MAX);
    ends(ACTIVE_MAX, true);
    must_run(2 * ACTIVE_MAX, 12);
    ends(0, true);
    ck_assert_uint_eq(run_count, 2 * ACTIVE_MAX + 2);
    ck_assert_uint_eq(runs[2 * ACTIVE_MAX + 1].voucher->shard, 0);
}

TEST(those_that_are_waited_for_go_first)
{
    doubt_all(7);
    ck_assert_int_eq(wait_for(8, SK_REBUILD_ORDERED, 8), SK_OK);
    ck_assert_int_eq(wait_for(6, SK_REBUILD_ORDERED, 6), SK_OK); // from the middle of the other queue
    ck_assert_int_eq(wait_for(6, SK_REBUILD_DOUBT, 7), SK_FULL); // one caller already waits for it
    for (size_t i = 0; i < 4; i++) {
        ends(i, true);
        must_run(4 + i, (const int64_t[]){8, 6, 5, 7}[i]);
        ck_assert_int_eq(runs[4 + i].why, i < 2 ? SK_REBUILD_ORDERED : SK_REBUILD_DOUBT);
    }
    ends(5, true);
    must_be_told(6, true);
    ends(4, false);
    must_be_told(8, false);
    ck_assert_uint_eq(run_count, 8);
}

TEST(buyers_may_ask_again_and_again)
{
    for (int i = 0; i < 3; i++)
        sk_rebuild_soon(rebuilds, voucher_of(1), SK_DOUBT_CLOSED);
    must_run(0, 1);
    ck_assert_int_eq(runs[0].why, SK_REBUILD_DOUBT);
    for (int64_t id = 2; id <= 6; id++)
        ck_assert_int_eq(doubt(id), SK_OK);
    for (int i = 0; i < 3; i++)
        sk_rebuild_soon(rebuilds, voucher_of(6), SK_DOUBT_CLOSED);
    ends(0, true);
    must_run(4, 6);
    ends(4, true);
    must_run(5, 5);
}

// ---- joining ----

TEST(who_comes_while_it_runs_may_wait_for_its_end)
{
    ck_assert_int_eq(doubt(1), SK_OK);
    ck_assert_int_eq(wait_for(1, SK_REBUILD_ORDERED, 0), SK_FULL); // the running one may find all well and do nothing
    ck_assert_int_eq(wait_for(1, SK_REBUILD_RETIRE, 0), SK_FULL);
    ck_assert_int_eq(wait_for(1, SK_REBUILD_DOUBT, 1), SK_OK);
    ck_assert_int_eq(wait_for(1, SK_REBUILD_DOUBT, 2), SK_FULL); // one at most
    ck_assert_uint_eq(run_count, 1);
    ends(0, true);
    must_be_told(1, true);
    ck_assert_int_eq(ended[0] + ended[2], 0);
    ck_assert_int_eq(sk_rebuild(rebuilds, voucher_of(1), SK_REBUILD_ORDERED, NULL, NULL), SK_OK);
    ck_assert_int_eq(wait_for(1, SK_REBUILD_DOUBT, 0), SK_FULL);
}

TEST(who_is_told_may_ask_again)
{
    ask_again = voucher_of(1);
    ck_assert_int_eq(wait_for(1, SK_REBUILD_DOUBT, 0), SK_OK);
    ends(0, true);
    must_be_told(0, true);
    must_run(1, 1);
    ends(1, true);
    ck_assert_int_eq(wait_for(1, SK_REBUILD_DOUBT, 0), SK_OK);
    ends(2, false); // not repeated at once
    must_be_told(0, false);
    ck_assert_uint_eq(run_count, 3);
}

// ---- failures ----

// It doubles with each failure, and a success ends that. Missing the lock is no failure: another instance holds it, and
// should that die, the pause must not have grown meanwhile.
TEST(after_a_failure_there_is_a_pause)
{
    static const struct {
        enum sk_rebuild_end end;
        uint64_t pause_ms;
    } walk[] = {
        {SK_REBUILD_MISSED, 500},  {SK_REBUILD_MISSED, 500},  {SK_REBUILD_MISSED, 500},  {SK_REBUILD_FAILED, 500},
        {SK_REBUILD_MISSED, 500},  {SK_REBUILD_FAILED, 1000}, {SK_REBUILD_FAILED, 2000}, {SK_REBUILD_FAILED, 2000},
        {SK_REBUILD_OPENED, 0},    {SK_REBUILD_FAILED, 500},  {SK_REBUILD_FAILED, 1000}, {SK_REBUILD_MISSED, 500},
        {SK_REBUILD_FAILED, 2000}, {SK_REBUILD_OPENED, 0},    {SK_REBUILD_FAILED, 500},
    };
    for (size_t i = 0; i < sizeof walk / sizeof walk[0]; i++) {
        ck_assert_int_eq(wait_for(1, SK_REBUILD_DOUBT, 1), SK_OK);
        ends_so(run_count - 1, walk[i].end);
        must_be_told(1, walk[i].end == SK_REBUILD_OPENED);
        if (walk[i].pause_ms == 0)
            continue;
        now_ms += walk[i].pause_ms - 1;
        ck_assert_int_eq(doubt(1), SK_FULL);
        ck_assert_int_eq(wait_for(1, SK_REBUILD_ORDERED, 0), SK_FULL);
        ck_assert_int_eq(doubt(2), SK_OK); // only that voucher pauses
        ends(run_count - 1, true);
        now_ms++;
    }
}

// Whether it failed, was opened again, since work was open by then, or was never closed.
TEST(what_cannot_be_retired_is_left_alone_for_a_minute)
{
    static const enum sk_rebuild_end refused[] = {SK_REBUILD_FAILED, SK_REBUILD_OPENED, SK_REBUILD_KEPT};
    struct sk_voucher *voucher = voucher_of(1);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(sk_rebuild(rebuilds, voucher, SK_REBUILD_RETIRE, NULL, NULL), SK_OK);
        ck_assert_int_eq(runs[i].why, SK_REBUILD_RETIRE);
        ends_so(i, refused[i]);
        ck_assert_uint_eq(voucher->maintenance->retire_at_ms, now_ms + RETIRE_PAUSE_MS);
        now_ms += RETIRE_PAUSE_MS;
    }
    voucher->maintenance->retire_at_ms = 0;
    ck_assert_int_eq(doubt(1), SK_OK); // this waits for nothing
    ends(3, false);
    ck_assert_uint_eq(voucher->maintenance->retire_at_ms, 0);
}

TEST(a_retired_voucher_goes_with_its_last_pin)
{
    struct sk_catalogue_row row = {.change = 99, .voucher_id = 1, .state = SK_VOUCHER_RETIRED, .tag = "1"};
    struct sk_voucher *voucher = voucher_of(1);
    ck_assert_int_eq(sk_rebuild(rebuilds, voucher_of(1), SK_REBUILD_RETIRE, NULL, NULL), SK_OK);
    sk_voucher_pin(voucher); // someone else's pin
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
    ends(0, true);
    ck_assert_uint_eq(voucher->pins, 1);
    ck_assert_int_eq(sk_rebuild(rebuilds, voucher, SK_REBUILD_DOUBT, NULL, NULL), SK_FULL);
    sk_voucher_unpin(voucher);
}

TEST(without_the_stores_nothing_begins)
{
    fake_redis.down = true;
    ck_assert_int_eq(doubt(1), SK_DOWN);
    fake_redis.down = false;
    fake_pg.down = true;
    ck_assert_int_eq(wait_for(1, SK_REBUILD_DOUBT, 1), SK_DOWN);
    fake_pg.down = false;
    doubt_all(6);
    ck_assert_int_eq(wait_for(7, SK_REBUILD_DOUBT, 7), SK_OK);
    fake_pg.down = true;
    for (size_t i = 0; i < ACTIVE_MAX; i++)
        ends(i, false);
    time_comes();
    ck_assert_uint_eq(run_count, ACTIVE_MAX);
    fake_pg.down = false;
    time_comes();
    ck_assert_uint_eq(run_count, 7);
    ck_assert_int_eq(runs[4].voucher->id, 7);
    ck_assert_int_eq(ended[1], 0);
}

// Its link for queries is ready, but a rebuild needs both.
TEST(a_node_without_its_order_link_delays_no_other)
{
    int64_t first[2], second = 0, at = 0;
    fake_redis.cluster = true;
    for (int64_t id = 1; at < 2 || second == 0; id++) {
        if (sk_nodes_number(sale.nodes, voucher_of(id)->slot) == 2)
            second = id;
        else if (at < 2)
            first[at++] = id;
    }
    fake_redis.orders_down = true;
    ck_assert_int_eq(doubt(first[0]), SK_OK);
    ck_assert_int_eq(wait_for(first[1], SK_REBUILD_DOUBT, 1), SK_OK);
    ck_assert_int_eq(doubt(second), SK_OK);
    must_run(0, second);
    fake_redis.orders_down = false;
    time_comes();
    ck_assert_uint_eq(run_count, 3);
}

TEST(what_cannot_begin_stays_in_line)
{
    run_status = SK_NO_MEM;
    ck_assert_int_eq(doubt(1), SK_OK);
    ck_assert_int_eq(wait_for(2, SK_REBUILD_ORDERED, 2), SK_OK);
    ck_assert_int_eq(doubt(1), SK_FULL);
    ck_assert_uint_eq(voucher_of(1)->pins, 1);
    time_comes();
    run_status = SK_OK;
    time_comes();
    ck_assert_uint_eq(run_count, 2);
    ck_assert_int_eq(runs[0].voucher->id, 2);
    ck_assert_int_eq(runs[0].why, SK_REBUILD_ORDERED);
    ends(0, true);
    must_be_told(2, true);
}

TEST(closing_tells_those_in_line)
{
    doubt_all(ACTIVE_MAX + 1);
    ck_assert_int_eq(wait_for(6, SK_REBUILD_DOUBT, 6), SK_OK);
    ck_assert_int_eq(wait_for(7, SK_REBUILD_DOUBT, 7), SK_OK);
    fake_redis.down = fake_pg.down = true; // the links are closed first, which ends running rebuilds
    for (size_t i = 0; i < ACTIVE_MAX; i++)
        ends(i, false);
    sk_rebuilds_close(rebuilds);
    must_be_told(6, false);
    must_be_told(7, false);
    ck_assert_ptr_null((void *)on_time);
    for (int64_t id = 1; id <= 7; id++)
        ck_assert_uint_eq(voucher_of(id)->pins, 0);
    ck_assert_uint_eq(run_count, ACTIVE_MAX);
    sk_rebuilds_close(NULL);
    rebuilds = sk_rebuilds_open(&sale); // for the teardown
}

SUITE(.setup = setup, .teardown = teardown);
