// Readers that wait for the feed's next event: one statement for all of them, and each is woken when there is something
// behind its own position.
#include "fake_timer.h"

#include "fake_control.h"

#include "feed.h"
#include "test.h"

enum { TICK_MS = 100 };

static struct sk_feed *feed;

static void setup(void)
{
    now_ms = 1000000;
    control_setup();
    control.feed = feed = sk_feed_open(&control);
    ck_assert_ptr_nonnull(feed);
}

static void teardown(void)
{
    sk_feed_close(feed);
    control_teardown();
}

static void wait_for_kind(const char *kind, uint64_t tx, uint64_t seq, uint64_t handle)
{
    const struct sk_position after[SK_SHARDS_MAX] = {{tx, seq}, {tx, seq}};
    ck_assert(sk_feed_add(feed, after, kind == NULL ? NULL : sk_feed_kind(kind), handle));
}

static void wait_behind(uint64_t tx, uint64_t seq, uint64_t handle)
{
    wait_for_kind(NULL, tx, seq, handle);
}

// The next answer of a shard. NULL: it has no event.
static void ends_at(const char *tx, const char *seq)
{
    const char *const rows[][ROW_COLUMNS] = {{"placed", tx, seq}};
    (void)the_statement(SK_STATEMENT_FEED_END);
    pg_answers(tx == NULL ? &no_rows : &(struct sk_rows){1, rows});
}

static void must_wait(uint64_t handle)
{
    ck_assert_int_eq(told[handle].count, 0);
}

static void must_be_at_rest(void)
{
    if (due_ms != 0)
        time_comes();
    ck_assert(!stores_wait());
    ck_assert_uint_eq(due_ms, 0);
}

TEST(a_reader_is_woken_by_what_is_behind_it)
{
    ck_assert_uint_eq(due_ms, 0);
    wait_behind(741, 128, 1);
    wait_behind(741, 130, 2);
    wait_behind(742, 1, 3);
    ck_assert_uint_eq(due_ms, now_ms + TICK_MS);
    time_comes();
    ends_at("741", "128");
    ck_assert_uint_eq(told_count, 0);
    ck_assert_uint_eq(due_ms, now_ms + TICK_MS);
    time_comes();
    ends_at("741", "129");
    must_be_told(1, SK_VERDICT_FOUND);
    must_wait(2);
    time_comes();
    ends_at("742", "1");
    must_be_told(2, SK_VERDICT_FOUND);
    must_wait(3);
    time_comes();
    ends_at("743", "0"); // of a later transaction, whatever its number
    must_be_told(3, SK_VERDICT_FOUND);
    ck_assert_uint_eq(told_count, 3);
    must_be_at_rest();
}

TEST(a_reader_of_one_kind_sleeps_through_the_others)
{
    const char *const rows[][ROW_COLUMNS] = {{"moves", "742", "128"}, {"placed", "743", "1"}, {"sales", "740", "5"}};
    ck_assert_ptr_null(sk_feed_kind("sale"));
    wait_for_kind("sales", 741, 1, 1);
    wait_for_kind("moves", 741, 1, 2);
    wait_for_kind("placed", 743, 1, 3);
    time_comes();
    pg_answers(&(struct sk_rows){3, rows});
    must_be_told(2, SK_VERDICT_FOUND);
    must_wait(1);
    must_wait(3);
    ck_assert(sk_feed_leave(feed, 1) && sk_feed_leave(feed, 3));
    must_be_at_rest();
}

TEST(any_shard_may_have_the_next_event)
{
    sk_feed_close(feed);
    sale.shard_count = 2;
    feed = sk_feed_open(&control);
    wait_behind(741, 128, 1);
    time_comes();
    ends_at("741", "128");
    ends_at("741", "256");
    must_be_told(1, SK_VERDICT_FOUND);
    must_be_at_rest();
}

// One that does not answer is asked no second time, and holds the others back no longer than its own link does.
TEST(an_answer_is_late_or_lost)
{
    wait_behind(0, 0, 1);
    time_comes();
    time_comes();
    ends_at(NULL, NULL); // nothing has ever happened
    ck_assert(!stores_wait());
    time_comes();
    pg_answers(NULL);
    must_wait(1);
    time_comes();
    ends_at("741", "1");
    must_be_told(1, SK_VERDICT_FOUND);
    must_be_at_rest();
}

TEST(readers_leave)
{
    wait_behind(741, 1, 1);
    wait_behind(741, 1, 2);
    ck_assert(sk_feed_leave(feed, 1));
    ck_assert(!sk_feed_leave(feed, 1));
    time_comes();
    ck_assert(sk_feed_leave(feed, 2)); // during the statement
    ends_at("742", "1");
    ck_assert_uint_eq(told_count, 0);
    must_be_at_rest();
}

TEST(memory_is_short)
{
    const struct sk_position after = {0};
    allocations_left = 1;
    ck_assert(!sk_feed_add(feed, &after, NULL, 1));
    allocations_left = 0;
    must_be_at_rest();
}

TEST(the_end)
{
    wait_behind(741, 1, 1);
    time_comes();
    pg_answers(NULL); // as the links do when they are closed
    sk_feed_close(feed);
    feed = NULL;
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
}

SUITE(.setup = setup, .teardown = teardown);
