// The assignment of background work: when a session is able, who owns which work, and when an instance is alone in its
// trouble. The links, the session's lists and the time are fakes.
#include <stdio.h>
#include <string.h>

#include "assignment.h"
#include "fake_stores.h"
#include "fake_timer.h"
#include "maintenance.h"
#include "test.h"

enum { SHARDS = 2, NAMES = 200, OTHERS = 2 };

#define OWN   "018bcfe5-6800-7000-8000-0000000000a1"
#define OTHER "018bcfe5-6800-7000-8000-0000000000b2"
#define THIRD "018bcfe5-6800-7000-8000-0000000000c3"

static uv_loop_t loop;
static struct sk_shard links_of[SK_SHARDS_MAX];
static struct sk_sale sale;
static struct sk_assignments *assignments;
static char links[SHARDS * 2];
static unsigned changes; // reported to the hook

// ---- fakes ----

static struct {
    bool unheld;
    bool able[SHARDS];     // this session, as it was set
    size_t others[SHARDS]; // so many of OTHER and THIRD are able
    bool elsewhere;        // ... and belong to another process
    size_t living;         // so many of OWN, OTHER and THIRD live
    uint64_t lists;
} fake;

static const char sessions[][SK_UUID_SIZE] = {OWN, OTHER, THIRD};

const char *sk_session_id(const struct sk_session *session)
{
    (void)session;
    return OWN;
}

bool sk_session_held(const struct sk_session *session)
{
    (void)session;
    return !fake.unheld;
}

const char (*sk_session_living(const struct sk_session *session, size_t *count))[SK_UUID_SIZE]
{
    (void)session;
    *count = fake.living;
    return sessions;
}

const char (*sk_session_others_able(const struct sk_session *session, size_t shard, size_t *count))[SK_UUID_SIZE]
{
    (void)session;
    *count = fake.others[shard];
    return sessions + 1;
}

bool sk_session_able_elsewhere(const struct sk_session *session, size_t shard)
{
    (void)session;
    return fake.others[shard] > 0 && fake.elsewhere;
}

bool sk_session_is_able(const struct sk_session *session, size_t shard)
{
    (void)session;
    return fake.able[shard];
}

void sk_session_set_able(struct sk_session *session, size_t shard, bool able)
{
    (void)session;
    fake.lists += fake.able[shard] != able;
    fake.able[shard] = able;
}

uint64_t sk_session_lists(const struct sk_session *session)
{
    (void)session;
    return fake.lists;
}

static unsigned yielded[SHARDS]; // how often the locks of a shard were

void sk_named_locks_yield(struct sk_named_locks *locks, size_t shard, size_t shards)
{
    (void)locks;
    ck_assert_uint_eq(shards, SHARDS);
    yielded[shard]++;
}

static bool incomplete[SHARDS]; // the catalogue

bool sk_catalogue_sync_complete(const struct sk_catalogue_sync *sync)
{
    return !*(const bool *)(const void *)sync;
}

// ---- fixture ----

static void on_changed(void *arg)
{
    ck_assert_ptr_eq(arg, &changes);
    changes++;
}

static struct sk_catalogue_sync *syncs[SHARDS];

static void setup(void)
{
    now_ms = 100000;
    changes = 0;
    memset(&fake, 0, sizeof fake);
    memset(yielded, 0, sizeof yielded);
    fake.lists = 1;
    fake.living = 1;
    sale = (struct sk_sale){.loop = &loop, .shards = links_of, .shard_count = SHARDS};
    for (size_t i = 0; i < SHARDS; i++) {
        incomplete[i] = false;
        syncs[i] = (struct sk_catalogue_sync *)(void *)&incomplete[i];
        sale.shards[i].orders = (struct sk_pg *)(void *)&links[2 * i];
        sale.shards[i].queries = (struct sk_pg *)(void *)&links[2 * i + 1];
    }
    assignments = sk_assignments_open(&sale, syncs, on_changed, &changes);
    ck_assert_ptr_nonnull(assignments);
}

static void teardown(void)
{
    sk_assignments_close(assignments);
    fake_stores_forget();
}

// Checks ten times a second.
static void run_for(uint64_t ms)
{
    for (uint64_t until_ms = now_ms + ms; now_ms < until_ms; now_ms += 100)
        on_time(on_time_arg);
    on_time(on_time_arg);
}

static bool is_able(size_t shard)
{
    return fake.able[shard];
}

static void become_able(void)
{
    run_for(SK_ABLE_AFTER_MS);
    ck_assert(is_able(0) && is_able(1));
}

// ---- ability ----

TEST(a_session_is_able_after_two_seconds_without_a_break)
{
    run_for(SK_ABLE_AFTER_MS - 100);
    ck_assert(!is_able(0) && !is_able(1));
    run_for(100);
    ck_assert(is_able(0) && is_able(1));
    ck_assert_uint_gt(changes, 0);
}

TEST_EACH(any_trouble_ends_it_at_once, 4)
{
    become_able();
    if (_i == 0)
        fake_pg.down = true;
    else if (_i == 1)
        fake_lagging = sale.shards[0].orders;
    else if (_i == 2)
        fake_lagging = sale.shards[0].queries;
    else
        incomplete[0] = true;
    sk_assignments_check(assignments);
    run_for(500);
    ck_assert(!is_able(0));
    ck_assert_int_eq(is_able(1), _i > 0); // each shard by itself
    ck_assert_uint_eq(yielded[0], 1);     // so that others can do what it has begun
    ck_assert_uint_eq(yielded[1], _i == 0);
    fake_pg.down = false;
    fake_lagging = NULL;
    incomplete[0] = false;
    sk_assignments_check(assignments);
    run_for(SK_ABLE_AFTER_MS - 100);
    ck_assert(!is_able(0)); // two seconds again
    run_for(100);
    ck_assert(is_able(0) && is_able(1));
}

TEST(who_ends_is_not_able)
{
    become_able();
    sk_assignments_stop(assignments);
    ck_assert(!is_able(0) && !is_able(1));
    run_for(2 * SK_ABLE_AFTER_MS);
    ck_assert(!is_able(0));
}

TEST(without_a_node_of_redis_others_do_the_work)
{
    become_able();
    fake.others[0] = 1;
    fake_redis.down = true;
    run_for(900);
    ck_assert(is_able(0));
    run_for(200);
    ck_assert(!is_able(0));
    ck_assert(is_able(1)); // nobody else is
    fake.others[0] = 0;    // they have left, too
    run_for(100);
    ck_assert(is_able(0));
    fake.others[0] = fake.others[1] = 1;
    run_for(100);
    ck_assert(!is_able(0) && !is_able(1));
    fake_redis.down = false;
    run_for(100);
    ck_assert(is_able(0) && is_able(1));
}

// ---- owners ----

static size_t owned(size_t shard)
{
    char name[16];
    size_t count = 0;
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        count += sk_assignment_has(NULL, shard, name);
    }
    return count;
}

TEST(the_able_share_the_work)
{
    fake.living = 3;
    fake.able[0] = true;
    ck_assert_uint_eq(owned(0), NAMES); // the others live, but are not able
    fake.others[0] = 1;
    ck_assert_uint_gt(owned(0), NAMES / 4);
    ck_assert_uint_lt(owned(0), NAMES * 3 / 4);
    fake.others[0] = 2;
    ck_assert_uint_gt(owned(0), NAMES / 6);
    ck_assert_uint_lt(owned(0), NAMES / 2);
    fake.able[0] = false;
    ck_assert_uint_eq(owned(0), 0);
    ck_assert_uint_gt(owned(1), NAMES / 6); // nobody is able there: all living share it
    ck_assert_uint_lt(owned(1), NAMES / 2);
    fake.living = 1;
    ck_assert_uint_eq(owned(1), NAMES);
    fake.living = 0; // before the first list
    ck_assert_uint_eq(owned(1), NAMES);
}

TEST(a_vouchers_owner_is_computed_once_for_each_list)
{
    struct sk_maintenance maintenance = {.assignment = {.version = 0}};
    struct sk_voucher voucher = {.shard = 1, .tag = "7", .maintenance = &maintenance};
    fake.living = 1;
    ck_assert(sk_assignment_has_voucher(NULL, &voucher));
    fake.others[1] = 1;
    ck_assert(sk_assignment_has_voucher(NULL, &voucher)); // the lists have the same version
    fake.lists++;
    ck_assert(!sk_assignment_has_voucher(NULL, &voucher));
}

// ---- alone ----

TEST_EACH(who_alone_has_lost_postgresql_is_not_ready_after_three_seconds, 3)
{
    become_able();
    fake.others[1] = 1;
    for (int i = 0; i < 2; i++) { // another reactor of the process has the same trouble, and is no other instance
        fake_lagging = i == 0 ? sale.shards[1].queries : NULL;
        fake.elsewhere = i == 1;
        run_for(5000);
        ck_assert(!sk_assignments_is_alone(assignments));
    }
    fake_lagging = sale.shards[1].queries;
    run_for(2900);
    ck_assert(!sk_assignments_is_alone(assignments));
    run_for(200);
    ck_assert(sk_assignments_is_alone(assignments));
    if (_i == 0)
        fake.others[1] = 0; // the other has lost it, too
    else if (_i == 1)
        fake.unheld = true; // nothing is known
    else
        fake_lagging = NULL; // it is back
    run_for(100);
    ck_assert(!sk_assignments_is_alone(assignments));
    fake.others[1] = 1;
    fake.unheld = false;
    fake_lagging = sale.shards[1].queries;
    run_for(2900);
    ck_assert(!sk_assignments_is_alone(assignments)); // three seconds again
}

SUITE(.setup = setup, .teardown = teardown);
