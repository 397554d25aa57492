// Which entries a sweep settles and which it leaves: those of dead sessions and orphans are settled; those of living
// sessions are read once and left alone. The stores, the sessions, the writer and the time are fakes.
#include <stdio.h>
#include <string.h>

#include "fake_named_locks.h"
#include "fake_session.h"
#include "fake_timer.h"
#include "journal_sweep.h"
#include "lock.h"
#include "recovery.h"
#include "stage.h"
#include "test.h"

enum { POOL = 100, TAKEN_MAX = 32, ENTRIES_MAX = 64, ROUND_MS = 1000 };

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

static bool locks_are_others;
static size_t locks_answered;

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
    ck_assert_ptr_null((void *)on_time);
    ck_assert_uint_eq(locks.released, locks.count);
    stage_close();
}

// Answers the current read, which must start after `after`, with those entries 1 to `count` that exist and follow it.
// sessions[i] is the session of entry <i + 1>-0; NULL: it is gone, "": it has none.
static void journal_shows(const char *after, size_t count, const char *const sessions[])
{
    static struct sk_reply fields[ENTRIES_MAX][6], parts[ENTRIES_MAX][2], elements[ENTRIES_MAX];
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
        const struct sk_reply entry[] = {TEXT("epoch"),    TEXT("7"),       TEXT("orders"),
                                         TEXT(A " alice"), TEXT("session"), TEXT(sessions[i])};
        memcpy(fields[shown], entry, sizeof entry);
        parts[shown][0] = (struct sk_reply)TEXT(ids[shown]);
        parts[shown][1] =
            (struct sk_reply){.kind = REPLY_LIST, .count = sessions[i][0] == '\0' ? 4 : 6, .items = fields[shown]};
        elements[shown] = (struct sk_reply){.kind = REPLY_LIST, .count = 2, .items = parts[shown]};
        shown++;
    }
    const struct sk_reply reply = {.kind = REPLY_LIST, .count = shown, .items = elements};
    redis_answers(&reply);
    for (; locks_answered < locks.count; locks_answered++) {
        ck_assert_str_eq(locks.key, "seckill:lock:recover:{1}");
        lock_answers(locks_answered, !locks_are_others);
    }
}

#define SHOWS(after, ...)                                                                   \
    journal_shows(after, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), \
                  (const char *const[]){__VA_ARGS__})

static void sweep(void)
{
    ck_assert_int_eq(sk_sweep_voucher(sweeper, voucher), SK_OK);
}

static bool is_over(void)
{
    return voucher->maintenance->swept.sweep == NULL && fake_redis.count == fake_redis.answered;
}

// The check for orphans comes. Returns the number of calls to Redis that wait for an answer.
static size_t go_round(void)
{
    now_ms += ROUND_MS;
    time_comes();
    return fake_redis.count - fake_redis.answered;
}

// ---- whose entries ----

TEST(entries_of_living_sessions_are_read_once_and_left_alone)
{
    uint64_t *const changes[] = {&deaths,                           // now any of them may belong to a dead session
                                 &fake_redis.run_number,            // another Redis, another journal
                                 (uint64_t *)&voucher->seen.epoch}; // another may have taken its place meanwhile
    sweep();
    ck_assert_int_eq(sk_sweep_voucher(sweeper, voucher), SK_FULL); // one at a time
    SHOWS("-", LIVING, LIVING);
    ck_assert(is_over());
    ck_assert_uint_eq(locks.count, 0); // not even the lock is requested
    for (int i = 0; i < 2; i++) {
        sweep();
        SHOWS(i == 0 ? "(2-0" : "(3-0", LIVING, LIVING, LIVING);
        ck_assert(is_over());
    }
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        ++*changes[i];
        sweep();
        SHOWS("-", LIVING, LIVING, LIVING);
    }
    ck_assert_uint_eq(taken_count, 0);
}

TEST(entries_of_dead_sessions_are_settled_under_the_lock)
{
    sweep();
    SHOWS("-", LIVING, OTHER, LIVING, OTHER);
    ck_assert_uint_eq(judged, 1);
    SHOWS("(1-0", LIVING, OTHER, LIVING, OTHER); // read again once judged ...
    ck_assert_uint_eq(locks.count, 1);
    SHOWS("(1-0", LIVING, OTHER, LIVING, OTHER); // ... and again under the lock
    ck_assert_uint_eq(taken_count, 2);
    ck_assert_str_eq(taken[0]->journal_id, "2-0");
    ck_assert_str_eq(taken[1]->journal_id, "4-0");
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_ENTRIES_SWEPT), 2);
    ck_assert(fake_redis.count == fake_redis.answered && locks.released == 0); // until they are settled
    settle();
    SHOWS("(4-0", LIVING, NULL, LIVING, NULL);
    ck_assert(is_over());
    ck_assert_uint_eq(locks.released, 1);
    sweep();
    SHOWS("(1-0", LIVING, NULL, LIVING, NULL); // settled entries may still be there: it reads again
    ck_assert(is_over());
}

// Another session settles it, or it was settled while the lock was taken.
TEST(what_another_settles_is_left_to_it)
{
    locks_are_others = true;
    sweep();
    SHOWS("-", "");
    ck_assert(is_over());
    locks_are_others = false;
    sweep();
    SHOWS("-", "");
    SHOWS("-", NULL);
    ck_assert(is_over());
    ck_assert_uint_eq(taken_count, 0);
}

// Too early after a restart of Redis, Redis does not know, or the session lives but is not listed yet: if it ended
// before it was listed, its end would not be counted. Nothing is settled and nothing skipped.
TEST_EACH(without_a_judgement_the_cursor_stays, 3)
{
    may_judge = _i > 0;
    life = _i == 1 ? SK_LIFE_UNKNOWN : SK_LIFE_LIVING;
    for (int i = 0; i < 2; i++) {
        sweep();
        SHOWS(i == 0 ? "-" : "(1-0", LIVING, OTHER, LIVING);
        if (may_judge)
            SHOWS("(1-0", LIVING, OTHER, LIVING);
        ck_assert(is_over());
    }
    ck_assert_uint_eq(locks.count + taken_count, 0);
    may_judge = true;
    life = SK_LIFE_DEAD;
    sweep();
    for (int i = 0; i < 3; i++)
        SHOWS("(1-0", LIVING, OTHER, LIVING);
    ck_assert_uint_eq(taken_count, 1);
}

// It becomes a dead letter first. In another Redis process, or under a newer epoch, its id may be another entry's.
TEST(an_unreadable_entry_is_dropped_from_the_process_that_had_it)
{
    static const char *const row[][ROW_COLUMNS] = {{""}};
    const struct sk_rows kept = {1, row};
    enum { STAYS, RESTARTS, WAS_REPLACED, WAYS };
    for (int way = STAYS; way < WAYS; way++) {
        sweep();
        SHOWS("-", "no session");
        SHOWS("-", "no session"); // under the lock
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

TEST(without_a_session_or_an_answer_nothing_is_swept)
{
    fake_session.lost = true;
    ck_assert_int_eq(sk_sweep_voucher(sweeper, voucher), SK_DOWN);
    ck_assert_uint_eq(fake_redis.count, 0);
    fake_session.lost = false;
    sweep();
    redis_answers(NULL);
    ck_assert(is_over());
    sweep();
    SHOWS("-", LIVING);
}

// ---- orphans ----

TEST(only_what_is_not_held_is_an_orphan)
{
    struct sk_entry *first = own_entry(voucher, 7, "1-0"), *third = own_entry(voucher, 7, "3-0");
    sweep();
    SHOWS("-", FAKE_SESSION, FAKE_SESSION, FAKE_SESSION);
    SHOWS("(1-0", FAKE_SESSION, FAKE_SESSION, FAKE_SESSION);
    ck_assert_uint_eq(taken_count, 1);
    ck_assert_str_eq(taken[0]->journal_id, "2-0");
    sk_entry_forget(first);
    sk_entry_forget(third);
}

// An entry that it held when read, but could not drop later, is found from the start of the journal.
TEST(orphans_are_searched_for_from_the_start)
{
    struct sk_entry *entry = own_entry(voucher, 7, "1-0");
    sweep();
    SHOWS("-", FAKE_SESSION);
    ck_assert(is_over());
    sk_entry_forget(entry);
    sk_sweep_orphans(sweeper, voucher);
    ck_assert_uint_eq(go_round(), 1); // by itself
    SHOWS("-", FAKE_SESSION);
    SHOWS("-", FAKE_SESSION);
    ck_assert_uint_eq(taken_count, 1);
}

// They may come for twenty minutes. While Redis cannot be read, that time does not pass.
TEST(orphans_are_searched_for_once_redis_is_back)
{
    enum { ROUNDS = 20 * 60 };
    static const struct sk_reply nothing = {.kind = REPLY_LIST};
    sk_sweep_orphans(sweeper, voucher);
    fake_session.lost = true;
    for (int i = 0; i < 2 * ROUNDS; i++)
        ck_assert_uint_eq(go_round(), 0);
    fake_session.lost = false;
    for (int i = 1; i < ROUNDS; i++) {
        ck_assert_uint_eq(go_round(), 1);
        redis_answers(&nothing);
        fake_stores_forget();
    }
    ck_assert_uint_eq(go_round(), 0);
    ck_assert_uint_eq(voucher->pins, 0);
}

// Makes so many vouchers that may have orphans.
static void may_have_orphans(int count)
{
    for (int id = 1; id <= count; id++)
        sk_sweep_orphans(sweeper, a_voucher(sale.catalogue, id));
}

enum { MANY = 20, AT_A_TIME = 16 };

// The number of concurrent sweeps is limited; the others run in the next round.
TEST(many_vouchers_with_orphans_take_turns)
{
    static const struct sk_reply nothing = {.kind = REPLY_LIST};
    bool seen[MANY + 1] = {false};
    may_have_orphans(MANY);
    for (int round = 0; round < 2; round++) {
        ck_assert_uint_eq(go_round(), AT_A_TIME);
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
    size_t odd = 0;
    fake_session.away = true;
    may_have_orphans(8);
    for (int id = 1; id <= 8; id++)
        odd += a_voucher(sale.catalogue, id)->slot % 2;
    ck_assert(odd > 0 && odd < 8);
    ck_assert_uint_eq(go_round(), odd);
    while (fake_redis.answered < fake_redis.count)
        redis_answers(NULL);
    fake_session.away = false;
}

// Its entries are in the writer until it is back, so its sweeps do not end.
TEST(a_shard_that_is_away_keeps_no_sweep_of_another)
{
    for (int id = 2; id <= MANY; id++) {
        struct sk_voucher *away = a_voucher(sale.catalogue, id);
        away->shard = 1;
        sk_sweep_orphans(sweeper, away);
    }
    sk_sweep_orphans(sweeper, voucher);
    ck_assert_uint_eq(go_round(), AT_A_TIME + 1);
    ck_assert_ptr_nonnull(strstr(fake_redis.asked[AT_A_TIME].argv[1], "{1}"));
    ck_assert_int_eq(sk_sweep_voucher(sweeper, a_voucher(sale.catalogue, MANY)), SK_FULL);
}

SUITE(.setup = setup, .teardown = teardown);
