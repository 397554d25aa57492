// The audit: which vouchers a round checks, its reaction to findings, and the vouchers it knows to be busy. The stores,
// the sessions, the rebuilds and the time are fakes.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit.h"
#include "entry.h"
#include "fake_living.h"
#include "fake_timer.h"
#include "journal_sweep.h"
#include "line_upkeep.h"
#include "maintenance.h"
#include "recovery.h"
#include "stage.h"
#include "test.h"

enum { DONE_MAX = 256, IDLE_ROUNDS = 4, ENOUGH_MS = 2000, RETIRE_AFTER_MS = 60000 };

#define OWN   "00000000-0000-7000-8000-000000000001"
#define OTHER "00000000-0000-7000-8000-000000000002"
#define DEAD  "00000000-0000-7000-8000-000000000003"

static struct sk_audit *audit;

// ---- sessions ----

const char *sk_session_id(const struct sk_session *session)
{
    (void)session;
    return OWN;
}

bool sk_session_lives(const struct sk_session *session, const char *id)
{
    (void)session;
    for (size_t i = 0; i < fake_living.count; i++) {
        if (strcmp(fake_living.ids[i], id) == 0)
            return true;
    }
    return false;
}

static int64_t waiting; // as it was told
static bool promotes;

bool sk_line_upkeep(const struct sk_sale *of, struct sk_voucher *voucher, const struct sk_account *account,
                    const struct sk_snapshot *seen)
{
    (void)of;
    (void)voucher;
    (void)seen;
    waiting = account->waiting;
    return promotes;
}

static void another_session_comes(void)
{
    fake_living.count = 2;
}

// ---- reactions ----

static struct {
    int64_t voucher_id;
    enum sk_rebuild_why why;
} rebuilt[DONE_MAX];
static size_t rebuilt_count, swept_count;

enum sk_status sk_rebuild(struct sk_rebuilds *rebuilds, struct sk_voucher *voucher, enum sk_rebuild_why why,
                          sk_rebuild_cb *done, void *arg)
{
    (void)rebuilds;
    (void)arg;
    ck_assert(done == NULL);
    rebuilt[rebuilt_count].voucher_id = voucher->id;
    rebuilt[rebuilt_count++].why = why;
    return SK_OK;
}

enum sk_status sk_sweep_voucher(struct sk_sweeper *sweeper, struct sk_voucher *voucher)
{
    (void)sweeper;
    ck_assert_ptr_nonnull(voucher);
    swept_count++;
    return SK_OK;
}

// ---- fixture ----

// The state of all vouchers in Redis and PostgreSQL.
static const char *state, *epoch, *last, *stock, *pg_epoch, *pg_stock, *pg_buyers, *change, *pg_change, *letters;
static const char *pg_newest_ms;    // of the newest journal id
static const char *pg_waiting;      // orders in the line
static const char *to_refund = "3"; // payments
static const char *phase;           // of the sale, as it was noted; its window is over
static int64_t buyers, journal, age_ms;

static void setup(void)
{
    now_ms = 100000;
    fake_living_are(OWN, OTHER, 1);
    rebuilt_count = swept_count = 0;
    memset(&metrics, 0, sizeof metrics);
    state = "open";
    epoch = pg_epoch = "3";
    last = "epoch-3";
    stock = pg_stock = "5";
    change = pg_change = "9";
    letters = pg_newest_ms = pg_waiting = "0";
    phase = "ended";
    pg_buyers = "2";
    buyers = 2;
    journal = age_ms = 0;
    stage_open((struct sk_sale_options){.retire_after_ms = RETIRE_AFTER_MS}, sizeof(struct sk_maintenance), 0);
    audit = sk_audit_open(&sale, NULL, NULL);
    ck_assert_ptr_nonnull(audit);
}

static void teardown(void)
{
    while (fake_redis.answered < fake_redis.count)
        redis_answers(NULL);
    sk_audit_close(audit);
    stage_close();
}

// Makes the vouchers 1 to `count`, whose sales are on. Returns the last one.
static struct sk_voucher *on_sale(int64_t count)
{
    struct sk_voucher *voucher = NULL;
    for (int64_t id = 1; id <= count; id++) {
        voucher = a_voucher(sale.catalogue, id);
        voucher->end_ms = INT64_MAX / 2;
    }
    return voucher;
}

// ---- rounds ----

static size_t checked; // checks of vouchers in this round
static int64_t checked_ids[DONE_MAX];

static void answer_accounts(const struct asked *asked)
{
    static char texts[DONE_MAX][2][24];
    static const char *rows[DONE_MAX][ROW_COLUMNS];
    size_t count = 0;
    const char *slots = asked->argv[0] + 1, *vouchers = asked->argv[1] + 1;
    for (; *vouchers != '\0'; count++) {
        char *end;
        ck_assert_uint_lt(count, DONE_MAX);
        (void)snprintf(texts[count][0], 24, "%ld", strtol(slots, &end, 10));
        slots = end + 1;
        (void)snprintf(texts[count][1], 24, "%ld", strtol(vouchers, &end, 10));
        vouchers = end + 1;
        const char *row[] = {texts[count][0], texts[count][1], pg_epoch, pg_newest_ms, "0",    pg_stock,
                             pg_buyers,       pg_change,       "open",   "1000",       "2000", letters};
        memcpy((void *)rows[count], (void *)row, sizeof row);
        rows[count][13] = phase;
        rows[count][14] = pg_waiting;
    }
    pg_answers(&(const struct sk_rows){count, (const char *const(*)[ROW_COLUMNS])rows});
}

static void answer_snapshot(void)
{
    const struct sk_reply items[] = {TEXT(state),    TEXT(epoch),     TEXT(last), TEXT(stock),  TEXT("run-1"),
                                     NUMBER(buyers), NUMBER(journal), TEXT(""),   TEXT(change), TEXT("1000"),
                                     TEXT("2000"),   NUMBER(age_ms),  TEXT("0")};
    const struct sk_reply reply = LIST_OF(items);
    checked_ids[checked++] = strtol(strchr(fake_redis.asked[fake_redis.answered].argv[0], '{') + 1, NULL, 10);
    redis_answers(&reply);
}

// The oldest call to PostgreSQL that waits for its answer. NULL: none does.
static const struct asked *asked_pg(void)
{
    return fake_pg.answered < fake_pg.count ? &fake_pg.asked[fake_pg.answered] : NULL;
}

// Answers a round's calls, up to its report to the other sessions.
static void answer_round(void)
{
    for (;;) {
        const struct asked *pg = asked_pg();
        if (pg != NULL && pg->what == SK_STATEMENT_VOUCHER_ACCOUNTS)
            answer_accounts(pg);
        else if (pg != NULL && pg->what == SK_STATEMENT_COUNT_TO_REFUND)
            pg_answers(&(const struct sk_rows){1, (const char *const[][ROW_COLUMNS]){{to_refund}}});
        else if (pg != NULL)
            pg_answers(&(const struct sk_rows){0}); // letters
        else if (fake_redis.answered < fake_redis.count &&
                 fake_redis.asked[fake_redis.answered].what == SK_SCRIPT_READ_VOUCHER)
            answer_snapshot();
        else
            return;
    }
}

// `down`: of the store that is away; NULL: none is.
static void begin_round_without(bool *down)
{
    ck_assert_uint_ne(due_ms, 0);
    ck_assert_uint_le(due_ms, now_ms + ENOUGH_MS);
    now_ms = due_ms;
    checked = 0;
    fake_stores_forget();
    if (down != NULL)
        *down = true;
    time_comes();
}

static void begin_round(void)
{
    begin_round_without(NULL);
}

// Runs the next round: it checks and reports. Returns the number of vouchers checked.
static size_t go_round(void)
{
    begin_round();
    answer_round();
    ck_assert_uint_eq(fake_redis.count - fake_redis.answered, 2); // the report, and the read of the others' reports
    return checked;
}

// Returns the number of checks in so many rounds.
static size_t go_rounds(int rounds)
{
    size_t checks = 0;
    while (rounds-- > 0)
        checks += go_round();
    return checks;
}

static size_t check_all(void)
{
    sk_audit_hurry(audit);
    return go_round();
}

// A round reports the previous checks of its vouchers, so a check is reported one round later.
static void check_all_twice(void)
{
    (void)check_all();
    (void)check_all();
}

// ---- which vouchers ----

// A unit may come that nobody has taken for them.
TEST(where_users_wait_a_voucher_is_checked_in_each_round)
{
    (void)on_sale(1);
    pg_waiting = "2";
    ck_assert_uint_eq(go_rounds(5), 5);
    ck_assert_int_eq(waiting, 2);
}

TEST(at_rest_a_voucher_is_checked_every_five_seconds)
{
    (void)on_sale(1);
    ck_assert_uint_eq(go_round(), 1);
    for (int i = 0; i < 5; i++) {
        uint64_t since_ms = now_ms;
        ck_assert_uint_eq(go_rounds(IDLE_ROUNDS), 1);
        ck_assert_uint_ge(now_ms, since_ms + 4000);
        ck_assert_uint_le(now_ms, since_ms + 6000);
    }
}

TEST_EACH(a_voucher_that_is_not_at_rest_is_checked_every_second, 2)
{
    if (_i == 0)
        journal = 1; // it is busy
    else
        state = "retired"; // it sells to no one
    (void)on_sale(1);
    ck_assert_uint_eq(go_rounds(3), 3);
    ck_assert_uint_eq(rebuilt_count, _i == 0 ? 0 : 3);
}

// The number of vouchers in one query to PostgreSQL.
static size_t asked_about(void)
{
    const struct asked *asked = asked_pg();
    size_t count = 1;
    ck_assert_int_eq(asked->what, SK_STATEMENT_VOUCHER_ACCOUNTS);
    for (const char *at = asked->argv[1]; (at = strchr(at, ',')) != NULL; at++)
        count++;
    return count;
}

TEST(a_store_that_came_back_is_checked_as_a_whole_in_pages)
{
    enum { PAGE = 100, MANY = 150 };
    (void)on_sale(MANY);
    begin_round();
    ck_assert_uint_eq(asked_about(), PAGE);
    answer_accounts(asked_pg());
    while (fake_redis.answered < fake_redis.count)
        answer_snapshot();
    ck_assert_uint_eq(asked_about(), MANY - PAGE);
    answer_round();
    ck_assert_uint_eq(checked, MANY);
    ck_assert_uint_eq(go_rounds(IDLE_ROUNDS), MANY);
    sk_audit_hurry(audit);
    ck_assert_uint_eq(due_ms, now_ms);
    ck_assert_uint_eq(go_round(), MANY);
    ck_assert_uint_lt(go_round(), MANY / 2); // idle again
}

// One that hangs: its statement fails after a deadline, and the link is soon back. Of its vouchers only Redis is asked.
TEST(a_shard_whose_statements_fail_is_left_out_of_the_round)
{
    enum { PAGE = 100, OF_THE_SHARD = 110, OF_THE_OTHER = OF_THE_SHARD + 1 };
    state = "loading"; // so those that are judged are rebuilt
    sale.shard_count = 2;
    (void)on_sale(OF_THE_OTHER);
    for (int64_t id = 1; id <= OF_THE_SHARD; id++)
        a_voucher(sale.catalogue, id)->shard = 1;
    for (size_t round = 0; round < 2; round++) {
        begin_round();
        ck_assert_uint_eq(asked_about(), PAGE);
        pg_answers(NULL);
        while (fake_redis.answered < PAGE)
            answer_snapshot();
        ck_assert_uint_eq(asked_about(), 1);
        answer_round();
        ck_assert_uint_eq(checked, OF_THE_OTHER);
        ck_assert_uint_eq(counted(SK_METRIC_ROUND_AT), 0); // the round was not complete
        ck_assert_uint_eq(rebuilt_count, round + 1);
        ck_assert_int_eq(rebuilt[round].voucher_id, OF_THE_OTHER);
        sk_audit_hurry(audit);
    }
    state = "open";
    ck_assert_uint_eq(go_round(), OF_THE_OTHER);
}

// Each voucher belongs to one of the living sessions; a new session takes over about half. A session reports its own.
TEST(sessions_share_the_vouchers)
{
    enum { MANY = 200 };
    int64_t first[MANY];
    journal = 1;
    (void)on_sale(MANY);
    check_all_twice();
    ck_assert_uint_eq(counted(SK_METRIC_JOURNAL_ENTRIES), MANY);
    another_session_comes();
    size_t mine = check_all();
    ck_assert_uint_gt(mine, MANY / 4);
    ck_assert_uint_lt(mine, MANY * 3 / 4);
    ck_assert_uint_eq(counted(SK_METRIC_JOURNAL_ENTRIES), mine);
    memcpy(first, checked_ids, sizeof first);
    fake_living.reads = 0;
    ck_assert_uint_eq(check_all(), mine);
    ck_assert_mem_eq(first, checked_ids, mine * sizeof first[0]); // always the same ones
    ck_assert_uint_lt(fake_living.reads, MANY / 10);              // the assignment is not computed again
    fake_living.count = 1;                                        // the other session is gone
    ck_assert_uint_eq(check_all(), MANY);
    another_session_comes();
    ck_assert_uint_eq(check_all(), mine);
    fake_living.count = 0; // as before the first list of living sessions
    ck_assert_uint_eq(check_all(), MANY);
}

static void changes_to(int64_t id, int64_t number)
{
    struct sk_catalogue_row row = {
        .change = number, .voucher_id = id, .tag = sk_catalogue_find(sale.catalogue, id)->tag, .end_ms = INT64_MAX / 2};
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
}

// A voucher changed by an operator is checked soon, also by a session that it does not belong to, since its own may
// have died. It is checked until Redis is up to date.
TEST(what_was_changed_is_checked_soon)
{
    (void)on_sale(8);
    another_session_comes();
    while (go_round() > 0) {}
    for (int64_t id = 1; id <= 8; id++) {
        char number[8], key[SK_KEY_SIZE];
        bool seen = false, asked = false;
        (void)snprintf(number, sizeof number, "%d", 20 + (int)id);
        (void)snprintf(key, sizeof key, "seckill:{%" PRId64 "}:voucher", id);
        changes_to(id, 20 + id);
        sk_audit_soon(audit);
        ck_assert_uint_eq(due_ms, now_ms + 100); // the changing session may still be applying it
        pg_change = number;
        begin_round();
        answer_round();
        for (size_t i = 0; i < fake_redis.count; i++) {
            const struct asked *one = &fake_redis.asked[i];
            seen = seen || (one->what == SK_SCRIPT_READ_VOUCHER && strcmp(one->argv[0], key) == 0);
            asked = asked || strcmp(one->argv[0], "HMGET") == 0;
        }
        ck_assert(seen);
        ck_assert(asked); // outdated: voucher_changes.c reads it
        while (fake_redis.answered < fake_redis.count)
            redis_answers(NULL);
        change = pg_change;
        ck_assert_uint_ge(go_round(), 1); // now up to date
        while (go_round() > 0) {}
        change = pg_change = "20";
    }
    ck_assert_uint_eq(rebuilt_count, 0);
}

// ---- what is told ----

TEST(what_it_saw_is_told)
{
    struct sk_remaining_rows left = {.count = 0};
    on_sale(3)->state = SK_VOUCHER_PAUSED;
    check_all_twice();
    ck_assert_uint_eq(counted(SK_METRIC_VOUCHERS_ON_SALE), 2);
    ck_assert_uint_eq(counted(SK_METRIC_JOURNAL_ENTRIES), 0);
    ck_assert_uint_eq(counted(SK_METRIC_JOURNAL_OLDEST), 0);
    ck_assert_uint_eq(counted(SK_METRIC_LETTERS_WAITING), 0);
    ck_assert_uint_eq(counted(SK_METRIC_FINDING_AGREE), 6);
    ck_assert_uint_ne(counted(SK_METRIC_ROUND_AT), 0);
    sk_remaining_read(&metrics.remaining, &left);
    ck_assert_uint_eq(left.count, 2);
    ck_assert_int_eq(left.rows[0].voucher_id, 2);
    ck_assert_int_eq(left.rows[0].units, 5);
    journal = 4;
    age_ms = 700;
    letters = "2";
    check_all_twice();
    ck_assert_uint_eq(counted(SK_METRIC_JOURNAL_ENTRIES), 12);
    ck_assert_uint_le(counted(SK_METRIC_JOURNAL_OLDEST), now_ms - 700);
    ck_assert_uint_ge(counted(SK_METRIC_JOURNAL_OLDEST), now_ms - 700 - ENOUGH_MS);
    ck_assert_uint_eq(counted(SK_METRIC_LETTERS_WAITING), 6);
    age_ms = INT64_C(1) << 40; // longer than the machine has run
    check_all_twice();
    ck_assert_uint_eq(counted(SK_METRIC_JOURNAL_OLDEST), 1);
}

// Every fifth round, by one of the sessions: their gauges are added up.
TEST(payments_to_refund_are_counted_by_one_session)
{
    enum { ROUNDS = 5 };
    static const char *const counts[] = {"3", "0", "4"};
    (void)on_sale(1);
    for (int i = 0; i < 3; i++) {
        to_refund = counts[i];
        (void)go_rounds(ROUNDS);
        ck_assert_uint_eq(counted(SK_METRIC_TO_REFUND), (uint64_t)atoi(counts[i]));
    }
    another_session_comes();
    (void)go_rounds(ROUNDS);
    ck_assert_uint_eq(counted(SK_METRIC_TO_REFUND), sk_assignment_has(sale.session, 0, "payments") ? 4 : 0);
}

// The time of the query to PostgreSQL counts, not of the replies: expiry depends on it.
TEST(that_there_was_no_live_order_is_remembered)
{
    const struct sk_audited *audited = &on_sale(1)->maintenance->audited;
    (void)check_all();
    ck_assert_uint_eq(audited->empty_at_ms, 0);
    pg_buyers = "0";
    buyers = 0;
    for (int i = 0; i < 2; i++) {
        begin_round();
        uint64_t asked_at_ms = now_ms++;
        answer_round();
        ck_assert_uint_eq(audited->empty_at_ms, checked > 0 ? asked_at_ms : 0);
        sk_audit_hurry(audit);
    }
    ck_assert_uint_ne(audited->empty_at_ms, 0);
    pg_buyers = "1"; // an order was committed; Redis is queried later
    (void)go_round();
    ck_assert_uint_eq(audited->empty_at_ms, 0);
}

// Runs a round in which PostgreSQL is away, or its statement fails.
static void go_round_without_postgresql(bool fails)
{
    sk_audit_hurry(audit);
    begin_round_without(fails ? NULL : &fake_pg.down);
    if (fails)
        pg_answers(NULL);
    answer_round();
    fake_pg.down = false;
}

// The journal grows while PostgreSQL is away, and an alert depends on its gauges. The books are not judged: the last
// judgement stays, and grows old.
TEST(journals_are_read_without_postgresql)
{
    struct sk_remaining_rows left = {.count = 0};
    (void)on_sale(1);
    letters = "2";
    check_all_twice();
    metrics.values[SK_METRIC_ROUND_AT] = 1;
    journal = 7;
    age_ms = 90000;
    state = ""; // it is missing in Redis, which a judge would have rebuilt
    stock = "3";
    for (int i = 0; i < 4; i++) {
        go_round_without_postgresql(i % 2 == 1);
        ck_assert_uint_eq(checked, 1);
        ck_assert_str_eq(fake_redis.asked[fake_redis.answered].argv[0], "HSET"); // it is busy
    }
    ck_assert_uint_eq(counted(SK_METRIC_JOURNAL_ENTRIES), 7);
    ck_assert_uint_le(counted(SK_METRIC_JOURNAL_OLDEST), now_ms - 90000);
    ck_assert_uint_eq(counted(SK_METRIC_VOUCHERS_ON_SALE), 1);
    ck_assert_uint_eq(counted(SK_METRIC_LETTERS_WAITING), 2);
    ck_assert_uint_eq(counted(SK_METRIC_ROUND_AT), 1);
    ck_assert_uint_eq(counted(SK_METRIC_FINDING_MISSING), 0);
    ck_assert_uint_eq(rebuilt_count + swept_count, 0);
    state = "open";
    go_round_without_postgresql(false);
    go_round_without_postgresql(false);
    sk_remaining_read(&metrics.remaining, &left);
    ck_assert_int_eq(left.rows[0].units, 3);
    stock = pg_stock;
    check_all_twice();
    ck_assert_uint_ne(counted(SK_METRIC_ROUND_AT), 1);
    ck_assert_uint_eq(swept_count, 2);
    ck_assert_uint_eq(rebuilt_count, 0);
}

// A round that has not seen all of Redis reports nothing: the old values stay, and grow old.
TEST(what_it_could_not_see_is_not_told)
{
    (void)on_sale(1);
    journal = 4;
    check_all_twice();
    metrics.values[SK_METRIC_ROUND_AT] = 1;
    journal = 0;
    for (int i = 0; i < 3; i++) {
        sk_audit_hurry(audit);
        begin_round_without(i == 0 ? &fake_redis.down : NULL);
        if (i == 1)
            pg_answers(NULL);
        if (i == 2)
            answer_accounts(asked_pg());
        while (fake_redis.answered < fake_redis.count)
            redis_answers(NULL);
        fake_redis.down = false;
        ck_assert_uint_eq(counted(SK_METRIC_JOURNAL_ENTRIES), 4);
        ck_assert_uint_eq(counted(SK_METRIC_ROUND_AT), 1);
    }
    check_all_twice();
    ck_assert_uint_eq(counted(SK_METRIC_JOURNAL_ENTRIES), 0);
    ck_assert_uint_ne(counted(SK_METRIC_ROUND_AT), 1);
}

// ---- findings ----

TEST(without_an_account_nothing_is_judged_and_the_round_is_incomplete)
{
    (void)on_sale(1);
    state = "";
    metrics.values[SK_METRIC_ROUND_AT] = 1;
    begin_round();
    pg_answers(&(const struct sk_rows){0});
    answer_round();
    ck_assert_uint_eq(checked, 1);
    ck_assert_uint_eq(rebuilt_count, 0);
    ck_assert_uint_eq(counted(SK_METRIC_ROUND_AT), 1);
}

// What has lost one voucher may have lost others, so all are checked at once. What is being rebuilt has lost none.
TEST_EACH(what_redis_has_lost_is_rebuilt, 4)
{
    static const struct {
        const char *state, *epoch;
        bool hurries;
    } rows[] = {{"", "3", true}, {"open", "2", true}, {"loading", "3", false}, {"retired", "3", false}};
    (void)on_sale(1);
    (void)go_rounds(3 * IDLE_ROUNDS);
    state = rows[_i].state;
    epoch = rows[_i].epoch;
    while (go_round() == 0) {}
    ck_assert_uint_eq(rebuilt_count, 1);
    ck_assert_int_eq(rebuilt[0].why, SK_REBUILD_DOUBT);
    ck_assert_int_eq(due_ms == now_ms, rows[_i].hurries);
}

TEST(what_postgresql_has_redis_must_have)
{
    static const struct {
        const char *epoch, *pg_epoch, *pg_newest_ms;
        int64_t seen;
        const char *last;
    } rows[] = {{"3", "3", "77", 3, "77-0"},
                {"3", "3", "76", 3, "77-0"}, // more has been seen since
                {"2", "4", "0", 4, "0-0"}};
    const struct sk_seen *seen = &on_sale(1)->seen;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        epoch = rows[i].epoch;
        pg_epoch = rows[i].pg_epoch;
        pg_newest_ms = rows[i].pg_newest_ms;
        (void)check_all();
        ck_assert_int_eq(rebuilt[i].why, SK_REBUILD_DOUBT);
        ck_assert_int_eq(seen->epoch, rows[i].seen);
        ck_assert_str_eq(seen->last, rows[i].last);
    }
}

TEST(books_that_differ_are_believed_the_second_time_and_told)
{
    (void)on_sale(1);
    stock = "4"; // differs from PostgreSQL
    (void)go_round();
    (void)check_all();
    ck_assert_uint_eq(rebuilt_count, 0);
    (void)go_round();
    ck_assert_uint_eq(rebuilt_count, 1);
    ck_assert_int_eq(rebuilt[0].why, SK_REBUILD_ORDERED);
    ck_assert_uint_eq(counted(SK_METRIC_BOOKS_DIFFER), 0);
    (void)go_round();
    ck_assert_uint_eq(rebuilt_count, 2); // one that failed is repeated
    ck_assert_uint_eq(counted(SK_METRIC_BOOKS_DIFFER), 1);
    ck_assert_uint_eq(counted(SK_METRIC_FINDING_DIFFER), 3);
    stock = "5";
    check_all_twice();
    ck_assert_uint_eq(counted(SK_METRIC_BOOKS_DIFFER), 0);
}

TEST(a_difference_that_a_rebuild_left_waits_a_minute)
{
    struct sk_audited *audited = &on_sale(1)->maintenance->audited;
    stock = "4";
    audited->rebuilt_at_ms = now_ms; // as after a rebuild that ended well
    sk_audit_hurry(audit);
    (void)go_rounds(5);
    ck_assert_uint_eq(rebuilt_count, 0);
    due_ms = now_ms += 60000;
    (void)go_round();
    ck_assert_uint_eq(rebuilt_count, 1);
}

TEST(a_difference_after_the_stores_have_agreed_is_a_new_one)
{
    struct sk_audited *audited = &on_sale(1)->maintenance->audited;
    audited->rebuilt_at_ms = now_ms;
    sk_audit_hurry(audit);
    (void)go_rounds(3);
    ck_assert_uint_eq(audited->rebuilt_at_ms, 0);
    stock = "4";
    sk_audit_hurry(audit);
    (void)go_rounds(4);
    ck_assert_uint_gt(rebuilt_count, 0);
}

TEST(a_sale_that_is_long_over_is_retired)
{
    struct sk_voucher *voucher = a_voucher(sale.catalogue, 1); // it ended in 1970
    voucher->maintenance->retire_at_ms = now_ms + 20000;       // the last attempt was recent
    (void)check_all();
    ck_assert_uint_eq(rebuilt_count, 0);
    due_ms = now_ms += 20000;
    journal = 1; // work is pending
    (void)go_round();
    ck_assert_uint_eq(rebuilt_count, 0);
    journal = 0;
    (void)go_round();
    ck_assert_uint_eq(rebuilt_count, 1);
    ck_assert_int_eq(rebuilt[0].why, SK_REBUILD_RETIRE);
}

// ---- busy vouchers ----

static struct sk_voucher *out[8];

// The busy vouchers, `most` at most: the first one, how many, and whether these are all.
static void must_be_busy(size_t most, int64_t first, size_t count, bool all)
{
    bool complete;
    ck_assert_uint_eq(sk_audit_busy(audit, out, most, &complete), count);
    ck_assert_int_eq(out[0]->id, first);
    ck_assert_int_eq(complete, all);
}

// What sessions have reported: "session", "voucher,voucher", ...
#define OTHERS_TELL(...)                                                            \
    do {                                                                            \
        const struct sk_reply ok_ = NUMBER(1), items_[] = {__VA_ARGS__};            \
        const struct sk_reply reply_ = LIST_OF(items_);                             \
        redis_answers(&ok_);                                                        \
        ck_assert_str_eq(fake_redis.asked[fake_redis.answered].argv[0], "HGETALL"); \
        redis_answers(&reply_);                                                     \
    } while (0)

// The oldest call that waits for Redis.
static void must_say(const char *const *words, int count)
{
    const struct asked *asked = &fake_redis.asked[fake_redis.answered];
    ck_assert_int_eq(asked->argc, count);
    for (int i = 0; i < count; i++)
        ck_assert_str_eq(asked->argv[i], words[i]);
}

TEST(what_is_busy_is_told_and_read)
{
    static const char *const none[] = {"HDEL", SK_KEY_BUSY, OWN}, *const three[] = {"HSET", SK_KEY_BUSY, OWN, "1,2,3"};
    (void)on_sale(3);
    (void)go_round();
    must_say(none, 3);
    journal = 1;
    (void)check_all();
    ck_assert_uint_eq(swept_count, 3);
    must_say(three, 4);
    another_session_comes();
    OTHERS_TELL(TEXT(OTHER), TEXT("2,3,99"));
    must_be_busy(8, 2, 3, true); // busy ones come first; a voucher not in the catalogue is gone
    ck_assert_int_eq(out[1]->id, 3);
    ck_assert_int_eq(out[2]->id, 1);
    must_be_busy(1, 2, 1, false);
    ck_assert_uint_eq(swept_count, 3); // the reporting session sweeps its own findings
    journal = 0;
    (void)check_all();
    must_say(none, 3); // a round reports what it has found itself
}

// Otherwise its report would stay as long as any other session lives.
TEST(a_dead_session_tells_nothing_and_is_removed)
{
    static const char *const removal[] = {"HDEL", SK_KEY_BUSY, DEAD};
    (void)on_sale(1);
    (void)go_round();
    (void)on_sale(2);
    OTHERS_TELL(TEXT(DEAD), TEXT("2"));
    must_be_busy(1, 1, 1, false); // 2 does not come first
    ck_assert_uint_eq(fake_redis.count, fake_redis.answered + 1);
    must_say(removal, 3);
    redis_answers(NULL); // the next round removes it
    another_session_comes();
    (void)go_round();
    OTHERS_TELL(TEXT(OTHER), TEXT("2"));
    ck_assert_uint_eq(fake_redis.count, fake_redis.answered); // this session lives
    must_be_busy(1, 2, 1, false);
}

// It depends on the vouchers queried, not reported: another session may have pending orders not found yet.
TEST(it_is_complete_if_all_vouchers_have_room)
{
    const struct sk_reply error = ERROR("WRONGTYPE");
    const struct sk_reply *const answers[] = {NULL, &error};
    (void)on_sale(3);
    for (size_t i = 0; i < 2; i++) {
        (void)go_round();
        redis_answers(NULL);
        redis_answers(answers[i]);
        must_be_busy(3, 1, 3, true);
        must_be_busy(2, 1, 2, false);
    }
    (void)go_round();
    OTHERS_TELL(TEXT(OWN), TEXT("3"));
    must_be_busy(2, 3, 2, false); // the reported vouchers had room, but not all vouchers
}

// Two sessions may report one for a moment when the list of the living changes, and it may have own orders.
TEST(a_voucher_is_listed_once)
{
    struct sk_voucher *voucher = on_sale(2);
    another_session_comes();
    (void)go_round();
    OTHERS_TELL(TEXT(OWN), TEXT("1,2"), TEXT(OTHER), TEXT("2,1"));
    must_be_busy(8, 1, 2, true);
    must_be_busy(2, 1, 2, true); // that is all of them
    struct sk_entry *entry = own_entry(voucher, 7, "10-1");
    must_be_busy(8, 2, 2, true);
    sk_entry_forget(entry);
}

TEST(own_orders_are_busy_before_any_check)
{
    struct sk_entry *entry = own_entry(on_sale(2), 7, "10-1");
    must_be_busy(8, 2, 2, true);
    sk_entry_forget(entry);
}

// ---- the sale's events ----

static size_t noted(void)
{
    size_t count = 0;
    for (size_t i = 0; i < fake_pg.count; i++)
        count += fake_pg.asked[i].what == SK_STATEMENT_NOTE_PHASE;
    return count;
}

// Of a voucher that cannot be relied on nothing is noted.
TEST(what_a_sale_has_come_to_is_noted)
{
    (void)on_sale(1);
    (void)check_all();
    ck_assert_uint_eq(noted(), 0);
    phase = NULL;
    (void)check_all();
    ck_assert_uint_eq(noted(), 1);
    promotes = true; // the units go to the line, not on sale
    (void)check_all();
    ck_assert_uint_eq(noted(), 0);
    state = "loading";
    (void)check_all();
    ck_assert_uint_eq(noted(), 0);
}

SUITE(.setup = setup, .teardown = teardown);
