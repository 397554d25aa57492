// Which entries a sweep settles and which it leaves: those of dead sessions and orphans are settled; those of living
// sessions are read once and left alone. The stores, the sessions and the writer are fakes.
#include <stdio.h>
#include <string.h>

#include "fake_session.h"
#include "journal_sweep.h"
#include "lock.h"
#include "recovery.h"
#include "stage.h"
#include "test.h"
#include "wait.h"

enum { POOL = 100, TAKEN_MAX = 32, ENTRIES_MAX = 64 };

#define LIVING "018bcfe5-6800-7000-8000-0000000000a1"
#define OTHER  "018bcfe5-6800-7000-8000-0000000000b2"
#define A      "018bcfe5-6800-7000-8000-00000000000a"

static struct sk_sweeper *sweeper;
static struct sk_voucher *voucher;

// ---- fakes ----

static uint64_t deaths;
static bool may_judge;
static enum sk_life life; // of OTHER
static size_t judged;

bool sk_session_lives(const struct sk_session *session, const char *id)
{
    (void)session;
    return strcmp(id, LIVING) == 0;
}

uint64_t sk_session_deaths(const struct sk_session *session)
{
    (void)session;
    return deaths;
}

enum sk_status sk_sessions_judge(struct sk_session *session, size_t n, const char (*ids)[SK_UUID_SIZE],
                                 sk_sessions_judged_cb *done, void *arg)
{
    (void)session;
    if (!may_judge)
        return SK_DOWN;
    ck_assert_uint_eq(n, 1);
    ck_assert_str_eq(ids[0], OTHER);
    judged++;
    done(arg, &life, 1);
    return SK_OK;
}

static struct {
    bool busy;
    size_t taken, released;
    sk_named_lock_cb *asked; // NULL: already answered
    void *arg;
} recover_lock;

struct sk_named_lock *sk_named_lock_take(struct sk_named_locks *locks, const char *key, sk_named_lock_cb *taken,
                                         void *arg)
{
    (void)locks;
    ck_assert_str_eq(key, "seckill:lock:recover:{1}");
    recover_lock.taken++;
    recover_lock.asked = taken;
    recover_lock.arg = arg;
    return (struct sk_named_lock *)(void *)&recover_lock;
}

void sk_named_lock_release(struct sk_named_lock *lock)
{
    recover_lock.released += lock != NULL;
}

static struct sk_entry *taken[TAKEN_MAX];
static size_t taken_count;

void sk_writer_add(struct sk_entry *entry, struct sk_order *order)
{
    ck_assert_int_eq(entry->kind, SK_ENTRY_RECOVERED);
    ck_assert_int_eq(order->epoch, 7);
    taken[taken_count++] = entry;
    sk_order_give(sale.orders, order);
}

enum sk_status sk_rebuild(struct sk_rebuilds *its_rebuilds, struct sk_voucher *its_voucher, enum sk_rebuild_why why,
                          sk_rebuild_cb *done, void *arg)
{
    (void)its_rebuilds;
    (void)its_voucher;
    (void)done;
    (void)arg;
    ck_assert_int_eq(why, SK_REBUILD_ORDERED);
    return SK_OK;
}

// The writer has settled all its orders.
static void settle(void)
{
    size_t count = taken_count;
    taken_count = 0;
    for (size_t i = 0; i < count; i++) {
        sk_entry_forget(taken[i]);
        sk_sweep_settled(sweeper, voucher);
    }
}

// ---- fixture ----

static void setup(void)
{
    stage_open((struct sk_sale_options){.orders_max = POOL}, sizeof(struct sk_maintenance), POOL);
    sweeper = sk_sweeper_open(&sale, NULL);
    voucher = a_voucher(sale.catalogue, 1);
    may_judge = true;
    life = SK_LIFE_DEAD;
}

static void teardown(void)
{
    for (size_t i = 0; i < taken_count; i++)
        sk_entry_forget(taken[i]);
    sk_sweeper_close(sweeper);
    ck_assert_uint_eq(recover_lock.released, recover_lock.taken);
    stage_close();
}

// Answers the current read, which must start after `after`, with those entries 1 to `count` that exist and follow it.
// sessions[i] is the session of entry <i + 1>-0; NULL: it is gone, "": it has none.
static void journal_shows(const char *after, size_t count, const char *const sessions[])
{
    static struct sk_reply fields[ENTRIES_MAX][6], lists[ENTRIES_MAX], parts[ENTRIES_MAX][2], elements[ENTRIES_MAX];
    static char ids[ENTRIES_MAX][8];
    size_t shown = 0;
    ck_assert_uint_eq(fake_redis.count, fake_redis.answered + 1);
    const struct asked *asked = &fake_redis.asked[fake_redis.answered];
    ck_assert_str_eq(asked->argv[0], "XRANGE");
    ck_assert_str_eq(asked->argv[1], "seckill:{1}:journal");
    ck_assert_str_eq(asked->argv[2], after);
    size_t first = after[0] == '(' ? strtoul(after + 1, NULL, 10) : 0, most = strtoul(asked->argv[5], NULL, 10);
    for (size_t i = first; i < count && shown < most; i++) {
        if (sessions[i] == NULL)
            continue;
        (void)snprintf(ids[shown], sizeof ids[shown], "%zu-0", i + 1);
        fields[shown][0] = (struct sk_reply)TEXT("epoch");
        fields[shown][1] = (struct sk_reply)TEXT("7");
        fields[shown][2] = (struct sk_reply)TEXT("orders");
        fields[shown][3] = (struct sk_reply)TEXT(A " alice");
        fields[shown][4] = (struct sk_reply)TEXT("session");
        fields[shown][5] = (struct sk_reply)TEXT(sessions[i]);
        lists[shown] =
            (struct sk_reply){.kind = REPLY_LIST, .count = sessions[i][0] == '\0' ? 4 : 6, .items = fields[shown]};
        parts[shown][0] = (struct sk_reply)TEXT(ids[shown]);
        parts[shown][1] = lists[shown];
        elements[shown] = (struct sk_reply){.kind = REPLY_LIST, .count = 2, .items = parts[shown]};
        shown++;
    }
    const struct sk_reply reply = {.kind = REPLY_LIST, .count = shown, .items = elements};
    redis_answers(&reply);
    sk_named_lock_cb *lock_asked = recover_lock.asked;
    recover_lock.asked = NULL;
    if (lock_asked != NULL)
        lock_asked(recover_lock.arg, !recover_lock.busy);
}

static void sweep(void)
{
    ck_assert_int_eq(sk_sweep_voucher(sweeper, voucher), SK_OK);
}

static bool is_over(void)
{
    return voucher->maintenance->swept.sweep == NULL && fake_redis.count == fake_redis.answered;
}

// ---- tests ----

TEST(entries_of_living_sessions_are_read_once_and_left_alone)
{
    static const char *const sessions[] = {LIVING, LIVING, LIVING};
    sweep();
    ck_assert_int_eq(sk_sweep_voucher(sweeper, voucher), SK_FULL); // one at a time
    journal_shows("-", 2, sessions);
    ck_assert(is_over());
    ck_assert_uint_eq(recover_lock.taken, 0); // not even the lock is requested
    sweep();
    journal_shows("(2-0", 3, sessions);
    ck_assert(is_over());
    sweep();
    journal_shows("(3-0", 3, sessions);
    ck_assert(is_over());
    deaths++; // now any of them may belong to a dead session
    sweep();
    journal_shows("-", 3, sessions);
    fake_redis.run_number++; // another Redis, another journal
    sweep();
    journal_shows("-", 3, sessions);
    voucher->seen.epoch++; // another may have taken its place meanwhile
    sweep();
    journal_shows("-", 3, sessions);
    ck_assert_uint_eq(taken_count, 0);
}

TEST(entries_of_dead_sessions_are_settled_under_the_lock)
{
    static const char *const before[] = {LIVING, OTHER, LIVING, OTHER}, *const after[] = {LIVING, NULL, LIVING, NULL};
    sweep();
    journal_shows("-", 4, before);
    ck_assert_uint_eq(judged, 1);
    journal_shows("(1-0", 4, before); // read again once judged ...
    ck_assert_uint_eq(recover_lock.taken, 1);
    journal_shows("(1-0", 4, before); // ... and again under the lock
    ck_assert_uint_eq(taken_count, 2);
    ck_assert_str_eq(taken[0]->journal_id, "2-0");
    ck_assert_str_eq(taken[1]->journal_id, "4-0");
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_ENTRIES_SWEPT), 2);
    ck_assert(fake_redis.count == fake_redis.answered && recover_lock.released == 0); // until they are settled
    settle();
    journal_shows("(4-0", 4, after);
    ck_assert(is_over());
    ck_assert_uint_eq(recover_lock.released, 1);
    sweep();
    journal_shows("(1-0", 4, after); // settled entries may still be there: it reads again
    ck_assert(is_over());
}

// Another session settles it, or it was settled while the lock was taken.
TEST(what_another_settles_is_left_to_it)
{
    static const char *const before[] = {""}, *const after[] = {NULL};
    recover_lock.busy = true;
    sweep();
    journal_shows("-", 1, before);
    ck_assert(is_over());
    recover_lock.busy = false;
    sweep();
    journal_shows("-", 1, before);
    journal_shows("-", 1, after);
    ck_assert(is_over());
    ck_assert_uint_eq(taken_count, 0);
}

// Too early after a restart of Redis, or Redis does not know: nothing is settled and nothing skipped.
TEST_EACH(without_a_judgement_the_cursor_stays, 2)
{
    static const char *const sessions[] = {LIVING, OTHER, LIVING};
    may_judge = _i == 1;
    life = SK_LIFE_UNKNOWN;
    for (int i = 0; i < 2; i++) {
        sweep();
        journal_shows(i == 0 ? "-" : "(1-0", 3, sessions);
        if (may_judge)
            journal_shows("(1-0", 3, sessions);
        ck_assert(is_over());
    }
    ck_assert_uint_eq(recover_lock.taken, 0);
    ck_assert_uint_eq(taken_count, 0);
}

// It lives but is not listed yet: if it ended before it was listed, its end would not be counted.
TEST(a_session_that_is_not_listed_yet_keeps_the_cursor)
{
    static const char *const sessions[] = {LIVING, OTHER, LIVING};
    life = SK_LIFE_LIVING;
    sweep();
    journal_shows("-", 3, sessions);
    journal_shows("(1-0", 3, sessions);
    ck_assert(is_over());
    ck_assert_uint_eq(taken_count, 0);
    life = SK_LIFE_DEAD;
    sweep();
    journal_shows("(1-0", 3, sessions);
    journal_shows("(1-0", 3, sessions);
    journal_shows("(1-0", 3, sessions);
    ck_assert_uint_eq(taken_count, 1);
}

TEST(only_what_is_not_held_is_an_orphan)
{
    static const char *const sessions[] = {FAKE_SESSION, FAKE_SESSION, FAKE_SESSION};
    struct sk_entry *first = own_entry(voucher, 7, "1-0");
    struct sk_entry *third = own_entry(voucher, 7, "3-0");
    sweep();
    journal_shows("-", 3, sessions);
    journal_shows("(1-0", 3, sessions);
    ck_assert_uint_eq(taken_count, 1);
    ck_assert_str_eq(taken[0]->journal_id, "2-0");
    sk_entry_forget(first);
    sk_entry_forget(third);
}

// An entry that it held when read, but could not drop later, is found from the start of the journal.
TEST(orphans_are_searched_for_from_the_start)
{
    static const char *const sessions[] = {FAKE_SESSION};
    struct sk_entry *entry = own_entry(voucher, 7, "1-0");
    sweep();
    journal_shows("-", 1, sessions);
    ck_assert(is_over());
    sk_entry_forget(entry);
    sk_sweep_orphans(sweeper, voucher);
    WAIT_FOR((uv_run(&loop, UV_RUN_NOWAIT), fake_redis.count > fake_redis.answered)); // by itself
    journal_shows("-", 1, sessions);
    journal_shows("-", 1, sessions);
    ck_assert_uint_eq(taken_count, 1);
}

// While Redis cannot be read, the time in which orphans may come does not pass.
TEST(orphans_are_searched_for_once_redis_is_back)
{
    enum { TWO_ROUNDS_MS = 1900, LONG_MS = 600000 };
    static const struct sk_reply nothing = {.kind = REPLY_LIST};
    const uint64_t *until_ms = &voucher->maintenance->swept.orphans_until_ms;
    fake_session.lost = true;
    sk_sweep_orphans(sweeper, voucher);
    voucher->maintenance->swept.orphans_until_ms = uv_now(&loop) + TWO_ROUNDS_MS; // nearly over
    WAIT_FOR((uv_run(&loop, UV_RUN_NOWAIT), *until_ms > uv_now(&loop) + LONG_MS));
    fake_session.lost = false;
    WAIT_FOR((uv_run(&loop, UV_RUN_NOWAIT), fake_redis.count > fake_redis.answered));
    redis_answers(&nothing);
}

// The number of concurrent sweeps is limited; the others run in the next round.
TEST(many_vouchers_with_orphans_take_turns)
{
    enum { MANY = 20, AT_A_TIME = 16 };
    static const struct sk_reply nothing = {.kind = REPLY_LIST};
    bool seen[MANY + 1] = {false};
    for (int id = 1; id <= MANY; id++)
        sk_sweep_orphans(sweeper, a_voucher(sale.catalogue, id));
    for (int round = 0; round < 2; round++) {
        WAIT_FOR((uv_run(&loop, UV_RUN_NOWAIT), fake_redis.count > fake_redis.answered));
        ck_assert_uint_eq(fake_redis.count - fake_redis.answered, AT_A_TIME);
        while (fake_redis.answered < fake_redis.count) {
            seen[strtol(strchr(fake_redis.asked[fake_redis.answered].argv[1], '{') + 1, NULL, 10)] = true;
            redis_answers(&nothing);
        }
    }
    for (int id = 1; id <= MANY; id++)
        ck_assert_msg(seen[id], "voucher %d was not checked", id);
}

// The vouchers of the sessions' node wait for it, and delay no others.
TEST(orphans_of_a_node_that_is_away_delay_no_others)
{
    enum { MANY = 8 };
    size_t odd = 0;
    fake_session.away = true;
    for (int id = 1; id <= MANY; id++) {
        sk_sweep_orphans(sweeper, a_voucher(sale.catalogue, id));
        odd += a_voucher(sale.catalogue, id)->slot % 2;
    }
    ck_assert(odd > 0 && odd < MANY);
    WAIT_FOR((uv_run(&loop, UV_RUN_NOWAIT), fake_redis.count > fake_redis.answered));
    ck_assert_uint_eq(fake_redis.count, odd);
    while (fake_redis.answered < fake_redis.count)
        redis_answers(NULL);
    fake_session.away = false;
}

// Its entries are in the writer until it is back, so its sweeps do not end.
TEST(a_shard_that_is_away_keeps_no_sweep_of_another)
{
    enum { MANY = 20, AT_A_TIME = 16 };
    for (int id = 2; id <= MANY; id++) {
        struct sk_voucher *away = a_voucher(sale.catalogue, id);
        away->shard = 1;
        sk_sweep_orphans(sweeper, away);
    }
    sk_sweep_orphans(sweeper, voucher);
    WAIT_FOR((uv_run(&loop, UV_RUN_NOWAIT), fake_redis.count > 0));
    ck_assert_uint_eq(fake_redis.count, AT_A_TIME + 1);
    ck_assert_ptr_nonnull(strstr(fake_redis.asked[AT_A_TIME].argv[1], "{1}"));
    ck_assert_int_eq(sk_sweep_voucher(sweeper, a_voucher(sale.catalogue, MANY)), SK_FULL);
}

TEST(without_a_session_of_its_own_nothing_is_swept)
{
    fake_session.lost = true;
    ck_assert_int_eq(sk_sweep_voucher(sweeper, voucher), SK_DOWN);
    ck_assert_uint_eq(fake_redis.count, 0);
}

TEST(a_reading_without_an_answer_ends_the_sweep)
{
    static const char *const sessions[] = {LIVING};
    sweep();
    redis_answers(NULL);
    ck_assert(is_over());
    sweep();
    journal_shows("-", 1, sessions);
}

// It becomes a dead letter first. In another Redis process, or under a newer epoch, its id may be another entry's.
TEST(an_unreadable_entry_is_dropped_from_the_process_that_had_it)
{
    static const char *const sessions[] = {"no session"};
    static const char *const row[][ROW_COLUMNS] = {{""}};
    const struct sk_rows kept = {1, row};
    enum { STAYS, RESTARTS, WAS_REPLACED, WAYS };
    for (int way = STAYS; way < WAYS; way++) {
        sweep();
        journal_shows("-", 1, sessions);
        journal_shows("-", 1, sessions); // under the lock
        ck_assert(is_over());
        fake_redis.run_number += way == RESTARTS;
        voucher->seen.epoch += way == WAS_REPLACED;
        pg_answers(&kept);
        ck_assert_uint_eq(fake_redis.count - fake_redis.answered, way == STAYS);
        ck_assert_int_eq(orphans, way); // it is searched for
        if (way == STAYS)
            redis_answers(&(struct sk_reply)NUMBER(1));
    }
}

SUITE(.timeout_s = 30, .setup = setup, .teardown = teardown);
