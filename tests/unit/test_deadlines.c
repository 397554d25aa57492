// Deadlines, checked against a plain list: none fires early, none late by more than a tick, each fires once.

#include "deadlines.h"
#include "draw.h"
#include "test.h"

enum { MANY = 300, STEPS = 4000, START_MS = 123456789, FAR_MS = 200000, PERIOD = 7 };

struct thing {
    struct sk_deadline deadline; // first
    uint64_t at_ms;
    bool set;
};

static struct thing things[MANY];
static struct sk_deadlines *deadlines;

static void setup(void)
{
    deadlines = sk_deadlines_open(START_MS);
    ck_assert_ptr_nonnull(deadlines);
}

static void teardown(void)
{
    sk_deadlines_close(deadlines);
}

static void set(size_t i, uint64_t at_ms)
{
    sk_deadlines_set(deadlines, &things[i].deadline, at_ms);
    things[i].at_ms = at_ms;
    things[i].set = true;
}

static void clear(size_t i)
{
    sk_deadlines_clear(&things[i].deadline);
    things[i].set = false;
}

// Takes all expired ones. Each may move or clear another.
static size_t take(uint64_t now_ms, bool meddle)
{
    struct thing *thing;
    size_t count = 0;
    while ((thing = (struct thing *)(void *)sk_deadlines_next(deadlines, now_ms)) != NULL) {
        ck_assert(thing->set);
        ck_assert_uint_le(thing->at_ms, now_ms);
        thing->set = false;
        count++;
        if (meddle && draw(4) == 0)
            clear((size_t)draw(MANY));
        if (meddle && draw(4) == 0)
            set((size_t)draw(MANY), now_ms + draw(FAR_MS));
    }
    size_t late = 0; // checked once: each assertion of Check is a system call
    for (size_t i = 0; i < MANY; i++)
        late += things[i].set && things[i].at_ms + SK_DEADLINES_TICK_MS <= now_ms;
    ck_assert_uint_eq(late, 0);
    return count;
}

TEST(one_comes_when_it_is_time)
{
    set(0, START_MS + 1000);
    ck_assert_uint_eq(take(START_MS + 999, false), 0);
    ck_assert_uint_eq(take(START_MS + 1000 + SK_DEADLINES_TICK_MS, false), 1);
    ck_assert_uint_eq(take(START_MS + FAR_MS, false), 0);
}

TEST(one_is_moved)
{
    set(0, START_MS + 1000);
    set(0, START_MS + 30000); // later
    ck_assert_uint_eq(take(START_MS + 5000, false), 0);
    set(0, START_MS + 6000); // earlier
    ck_assert_uint_eq(take(START_MS + 6050, false), 1);
    set(0, START_MS); // already expired
    ck_assert_uint_eq(take(START_MS + 6100, false), 1);
    set(0, START_MS + 7000);
    clear(0);
    clear(0);
    ck_assert_uint_eq(take(START_MS + 8000, false), 0);
}

// Deadlines beyond the wheel's span, and a pause longer than that.
TEST(far_ones)
{
    set(0, START_MS + FAR_MS);
    set(1, START_MS + 10 * FAR_MS);
    for (uint64_t ms = 0; ms < FAR_MS; ms += SK_DEADLINES_TICK_MS)
        ck_assert_uint_eq(take(START_MS + ms, false), 0);
    ck_assert_uint_eq(take(START_MS + FAR_MS + SK_DEADLINES_TICK_MS, false), 1);
    set(2, START_MS + 9 * FAR_MS);
    ck_assert_uint_eq(take(START_MS + 9 * FAR_MS + SK_DEADLINES_TICK_MS, false), 1);
    ck_assert_uint_eq(take(START_MS + 10 * FAR_MS + SK_DEADLINES_TICK_MS, false), 1);
}

TEST_EACH(many_at_random, 20)
{
    uint64_t now_ms = START_MS;
    size_t came = 0;
    draw_seed = (uint64_t)_i + 1;
    for (int step = 0; step < STEPS; step++) {
        for (uint64_t n = draw(PERIOD); n > 0; n--)
            set((size_t)draw(MANY), now_ms + draw(draw(2) == 0 ? FAR_MS : 2000));
        if (draw(PERIOD) == 0)
            clear((size_t)draw(MANY));
        now_ms += draw(draw(100) == 0 ? FAR_MS / 2 : 60);
        came += take(now_ms, true);
    }
    ck_assert_uint_gt(came, 0);
    (void)take(now_ms + FAR_MS + SK_DEADLINES_TICK_MS, false);
    for (size_t i = 0; i < MANY; i++)
        ck_assert(!things[i].set);
}

SUITE(.setup = setup, .teardown = teardown);
