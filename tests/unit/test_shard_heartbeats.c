// Beats: when a shard opens, and when it is found to be older than it was.
#include <string.h>

#include "assignment.h"
#include "embedded.h"
#include "fake_session.h"
#include "fake_stores.h"
#include "fake_timer.h"
#include "shard_heartbeats.h"
#include "test.h"

static uv_loop_t loop;
static struct sk_shard shards[SK_SHARDS_MAX];
static struct sk_sale sale;
static struct sk_heartbeats *heartbeats;
static char links[6];
static size_t dropped[2];
static unsigned links_held[2];
static bool assigned; // the heartbeats to this session

bool sk_assignment_has(const struct sk_session *session, size_t shard, const char *name)
{
    (void)session;
    ck_assert_uint_lt(shard, 2);
    ck_assert_str_eq(name, "beat");
    return assigned;
}

static size_t shard_of(const struct sk_pg *pg)
{
    return pg == sale.shards[1].orders || pg == sale.shards[1].queries || pg == sale.shards[1].reports;
}

void sk_pg_drop(struct sk_pg *pg, const char *why)
{
    ck_assert_ptr_nonnull(why);
    dropped[shard_of(pg)]++;
}

// Orders and queries; the heartbeats come through the third link.
void sk_pg_hold(struct sk_pg *pg, bool held)
{
    size_t shard = shard_of(pg);
    unsigned bit = pg == sale.shards[shard].orders ? 1 : 2;
    ck_assert_ptr_ne(pg, sale.shards[shard].reports);
    links_held[shard] = (links_held[shard] & ~bit) | (held ? bit : 0);
}

static bool is_open(size_t shard)
{
    ck_assert(links_held[shard] == (shards[shard].closed ? 3U : 0U));
    return !shards[shard].closed;
}

static void setup(void)
{
    sale = (struct sk_sale){.loop = &loop, .shards = shards, .shard_count = 2};
    for (int i = 0; i < 2; i++) {
        sale.shards[i].orders = (struct sk_pg *)(void *)&links[i];
        sale.shards[i].queries = (struct sk_pg *)(void *)&links[2 + i];
        sale.shards[i].reports = (struct sk_pg *)(void *)&links[4 + i];
    }
    memset(dropped, 0, sizeof dropped);
    memset(links_held, 0, sizeof links_held);
    now_ms = 100000;
    assigned = true;
    heartbeats = sk_heartbeats_open(&sale);
    ck_assert_ptr_nonnull(heartbeats);
}

static void teardown(void)
{
    sk_heartbeats_close(heartbeats);
    fake_stores_forget();
    fake_pg.down = false;
}

// The shard's own heartbeat (NULL: it does not answer), and what it knows of the other's (NULL: nothing).
static void answers(const char *shard, const char *heartbeat, const char *of_other)
{
    const char *rows[2][ROW_COLUMNS] = {{shard, heartbeat}, {shard[0] == '0' ? "1" : "0", of_other}};
    const struct sk_rows given = {of_other == NULL ? 1 : 2, (const char *const(*)[ROW_COLUMNS])rows};
    pg_answers(heartbeat == NULL ? NULL : &given);
}

// One round: what the first shard knows of itself and of the second, and the second of itself. Whether each was asked
// to raise its heartbeat.
static const char *knowing_round(const char *first, const char *of_second, const char *second)
{
    static char raised[3];
    time_comes();
    ck_assert_uint_eq(fake_pg.count - fake_pg.answered, 2);
    for (size_t i = 0; i < 2; i++)
        raised[i] = fake_pg.asked[fake_pg.answered + i].argv[1][0];
    answers("0", first, of_second);
    answers("1", second, NULL);
    return raised;
}

static const char *round_of(const char *first, const char *second)
{
    return knowing_round(first, NULL, second);
}

static void open_both(void)
{
    (void)round_of("1000", "2000");
    (void)round_of("1001", "2001");
    ck_assert(is_open(0) && is_open(1));
}

TEST(a_shard_opens_once_all_have_told_what_they_know)
{
    ck_assert(!is_open(0) && !is_open(1));
    time_comes();
    ck_assert_str_eq(fake_pg.asked[0].argv[1], "0"); // raised, a copy's heartbeat would be new
    ck_assert_str_eq(fake_pg.asked[1].argv[1], "0");
    answers("0", "1000", NULL);
    ck_assert(!is_open(0) && !is_open(1));
    answers("1", "2000", NULL);
    ck_assert(!is_open(0) && !is_open(1)); // their own heartbeats were read before what the other knows
    time_comes();
    ck_assert_str_eq(fake_pg.asked[2].argv[0], "{1000,2000}");
    ck_assert_str_eq(fake_pg.asked[2].argv[1], "1");
    answers("0", "1001", NULL);
    ck_assert(is_open(0) && !is_open(1));
    answers("1", "2001", NULL);
    ck_assert(is_open(1));
}

TEST(a_shard_that_is_away_keeps_no_other_from_opening_for_long)
{
    (void)round_of("1000", NULL);
    (void)round_of("1001", NULL);
    ck_assert(!is_open(0));
    now_ms += 5000;
    (void)round_of("1002", NULL);
    ck_assert(is_open(0) && !is_open(1));
    ck_assert_uint_eq(due_ms, now_ms + 1000); // it is not asked for in a hurry
}

TEST(what_a_shard_knows_that_was_away_counts_when_it_is_back)
{
    now_ms += 5000;
    (void)round_of(NULL, "2000");
    ck_assert(!is_open(0) && is_open(1));
    ck_assert_str_eq(knowing_round("1000", "2500", "2000"), "00");
    ck_assert_str_eq(knowing_round("1001", "2500", "2000"), "11"); // the statement raises none below {...,2500}
    ck_assert(is_open(0) && !is_open(1));
    ck_assert_uint_eq(dropped[1], 3);
}

TEST(an_older_beat_than_another_shard_has_seen_keeps_it_closed)
{
    (void)knowing_round("1000", "2500", "2000");
    (void)knowing_round("1001", "2500", "2000");
    ck_assert(is_open(0) && !is_open(1));
    ck_assert_uint_eq(dropped[1], 3); // all links
    ck_assert_uint_eq(dropped[0], 0);
    ck_assert(!sk_heartbeats_fit(heartbeats, 1, 2499) && sk_heartbeats_fit(heartbeats, 1, 2500));
}

TEST(a_shard_that_comes_back_older_is_not_used)
{
    open_both();
    ck_assert(sk_heartbeats_fit(heartbeats, 1, 2001) && !sk_heartbeats_fit(heartbeats, 1, 2000));
    (void)round_of("1002", "2000");
    ck_assert(is_open(0) && !is_open(1));
    ck_assert(sk_heartbeats_is_restored(heartbeats, 1));
    (void)round_of("1003", "2001"); // its own data, or its owner accepts what there is
    ck_assert(is_open(1));
    ck_assert(!sk_heartbeats_is_restored(heartbeats, 1));
}

// A connection reads the heartbeat, and then another session raises it before the answer is handled.
TEST(a_beat_that_was_read_before_it_was_raised_closes_nothing)
{
    open_both();
    (void)round_of("1002", "2002");
    ck_assert(!sk_heartbeats_fit(heartbeats, 1, 2001)); // it connects again
    ck_assert(is_open(1) && !sk_heartbeats_is_restored(heartbeats, 1));
    ck_assert_uint_eq(dropped[1], 0);
}

TEST(one_without_a_session_raises_none)
{
    open_both();
    fake_session.lost = true;
    ck_assert_str_eq(round_of("1002", "2002"), "00");
    fake_session.lost = false;
    ck_assert_str_eq(round_of("1002", "2002"), "11");
}

// Its session's link is busy with a report, or down.
TEST(a_beat_that_stands_still_is_raised_by_another_session)
{
    static const char *const beats[][3] = {{"1002", "2001", "00"}, {"1003", "2001", "00"}, {"1004", "2001", "01"},
                                           {"1005", "2001", "01"}, {"1006", "2002", "01"}, // it grows again
                                           {"1007", "2003", "00"}};
    open_both();
    assigned = false;
    for (size_t i = 0; i < sizeof beats / sizeof beats[0]; i++) {
        now_ms += 1000;
        ck_assert_str_eq(round_of(beats[i][0], beats[i][1]), beats[i][2]);
    }
}

// Whether it has grown meanwhile is not known, and the database may be another one.
TEST(a_beat_that_could_not_be_read_does_not_stand_still)
{
    open_both();
    assigned = false;
    fake_pg.down = true;
    for (int second = 1; second <= 4; second++) {
        now_ms += 1000;
        time_comes();
    }
    fake_pg.down = false;
    now_ms += 1000;
    ck_assert_str_eq(round_of("1002", "2001"), "00");
}

TEST(one_shard_alone_has_none)
{
    struct sk_shard shard = {NULL};
    struct sk_sale alone = {.loop = &loop, .shards = &shard, .shard_count = 1};
    struct sk_heartbeats *none = sk_heartbeats_open(&alone);
    ck_assert(!shard.closed);
    ck_assert(sk_heartbeats_fit(none, 0, 0));
    sk_heartbeats_hurry(none);
    free(none); // it has no timer, which the fake would miss
}

SUITE(.setup = setup, .teardown = teardown);
