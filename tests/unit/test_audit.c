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
static int64_t swept[DONE_MAX];

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
    swept[swept_count++] = voucher->id;
    return SK_OK;
}

// ---- fixture ----

static void setup(void)
{
    now_ms = 100000;
    fake_living_are(OWN, OTHER, 1);
    rebuilt_count = swept_count = 0;
    memset(&metrics, 0, sizeof metrics);
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

// Makes a voucher whose sale is on.
static struct sk_voucher *on_sale(int64_t id)
{
    struct sk_voucher *voucher = a_voucher(sale.catalogue, id);
    voucher->end_ms = INT64_MAX / 2;
    return voucher;
}

// ---- rounds ----

// The state of all vouchers in Redis and PostgreSQL.
static const char *state, *epoch, *last, *stock, *pg_epoch, *pg_stock, *pg_buyers, *change, *pg_change, *letters;
static const char *pg_newest_ms;    // of the newest journal id
static const char *to_refund = "3"; // payments
static int64_t buyers, journal, age_ms;
static size_t checked; // checks of vouchers in this round
static int64_t checked_ids[DONE_MAX];

static void all_is_well(void)
{
    state = "open";
    epoch = pg_epoch = "3";
    last = "epoch-3";
    stock = pg_stock = "5";
    change = pg_change = "9";
    letters = pg_newest_ms = "0";
    pg_buyers = "2";
    buyers = 2;
    journal = age_ms = 0;
}

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

// Answers a round's calls, up to its report to the other sessions.
static void answer_round(void)
{
    bool more = true;
    while (more) {
        if (fake_pg.answered < fake_pg.count && fake_pg.asked[fake_pg.answered].what == SK_STATEMENT_VOUCHER_ACCOUNTS)
            answer_accounts(&fake_pg.asked[fake_pg.answered]);
        else if (fake_pg.answered < fake_pg.count &&
                 fake_pg.asked[fake_pg.answered].what == SK_STATEMENT_COUNT_TO_REFUND)
            pg_answers(&(const struct sk_rows){1, (const char *const[][ROW_COLUMNS]){{to_refund}}});
        else if (fake_pg.answered < fake_pg.count)
            pg_answers(&(const struct sk_rows){0}); // letters
        else if (fake_redis.answered < fake_redis.count &&
                 fake_redis.asked[fake_redis.answered].what == SK_SCRIPT_READ_VOUCHER)
            answer_snapshot();
        else
            more = false;
    }
}

// Runs the next round: it checks and reports. Returns the number of vouchers checked.
static size_t go_round(void)
{
    ck_assert_uint_ne(due_ms, 0);
    ck_assert_uint_le(due_ms, now_ms + ENOUGH_MS);
    now_ms = due_ms;
    checked = 0;
    fake_stores_forget();
    time_comes();
    answer_round();
    ck_assert_uint_eq(fake_redis.count - fake_redis.answered, 2); // the report, and the read of the others' reports
    return checked;
}

// Idle vouchers take turns. Returns the number of checks until each had its turn.
static size_t go_until_each_had_its_turn(void)
{
    size_t checks = 0;
    for (int i = 0; i < IDLE_ROUNDS; i++)
        checks += go_round();
    return checks;
}

static void others_tell(const char *session, const char *busy)
{
    const struct sk_reply ok = NUMBER(1), items[] = {TEXT(session), TEXT(busy)}, reply = LIST_OF(items);
    redis_answers(&ok);
    ck_assert_str_eq(fake_redis.asked[fake_redis.answered].argv[0], "HGETALL");
    redis_answers(&reply);
}

// ---- which vouchers ----

TEST(at_rest_a_voucher_is_checked_every_five_seconds)
{
    all_is_well();
    (void)on_sale(1);
    ck_assert_uint_eq(go_round(), 1);
    for (int i = 0; i < 5; i++) {
        uint64_t since_ms = now_ms;
        ck_assert_uint_eq(go_until_each_had_its_turn(), 1);
        ck_assert_uint_ge(now_ms, since_ms + 4000);
        ck_assert_uint_le(now_ms, since_ms + 6000);
    }
    journal = 1;
    while (go_round() == 0) {}
    ck_assert_uint_eq(go_round(), 1); // busy: checked in each round
    ck_assert_uint_eq(go_round(), 1);
    ck_assert_uint_eq(rebuilt_count, 0);
}

TEST(a_voucher_that_sells_to_no_one_is_not_at_rest)
{
    all_is_well();
    (void)on_sale(1);
    state = "retired";
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(go_round(), 1);
}

TEST(a_store_that_came_back_is_checked_as_a_whole)
{
    all_is_well();
    for (int64_t id = 1; id <= 150; id++)
        (void)on_sale(id);
    ck_assert_uint_eq(go_round(), 150); // in pages
    ck_assert_uint_eq(go_until_each_had_its_turn(), 150);
    sk_audit_hurry(audit);
    ck_assert_uint_eq(due_ms, now_ms);
    ck_assert_uint_eq(go_round(), 150);
    ck_assert_uint_lt(go_round(), 75); // idle again
}

// The number of vouchers in one query to PostgreSQL.
static size_t asked_about(void)
{
    const struct asked *asked = &fake_pg.asked[fake_pg.answered];
    size_t count = 1;
    ck_assert_int_eq(asked->what, SK_STATEMENT_VOUCHER_ACCOUNTS);
    for (const char *at = asked->argv[1]; (at = strchr(at, ',')) != NULL; at++)
        count++;
    return count;
}

TEST(a_page_is_full)
{
    enum { PAGE = 100, MANY = 150 };
    all_is_well();
    for (int64_t id = 1; id <= MANY; id++)
        (void)on_sale(id);
    now_ms = due_ms;
    time_comes();
    ck_assert_uint_eq(asked_about(), PAGE);
    answer_accounts(&fake_pg.asked[fake_pg.answered]);
    while (fake_redis.answered < fake_redis.count)
        redis_answers(NULL);
    ck_assert_uint_eq(asked_about(), MANY - PAGE);
    answer_round();
}

// One that hangs: its statement fails after a deadline, and the link is soon back. Of its vouchers only Redis is asked.
TEST(a_shard_whose_statements_fail_is_left_out_of_the_round)
{
    enum { PAGE = 100, OF_THE_SHARD = 110, OF_THE_OTHER = OF_THE_SHARD + 1 };
    all_is_well();
    state = "loading"; // so those that are judged are rebuilt
    sale.shard_count = 2;
    for (int64_t id = 1; id <= OF_THE_SHARD; id++)
        on_sale(id)->shard = 1;
    (void)on_sale(OF_THE_OTHER);
    for (int round = 0; round < 2; round++) {
        now_ms = due_ms;
        checked = 0;
        fake_stores_forget();
        time_comes();
        ck_assert_uint_eq(asked_about(), PAGE);
        pg_answers(NULL);
        while (fake_redis.answered < PAGE)
            answer_snapshot();
        ck_assert_uint_eq(asked_about(), 1);
        answer_round();
        ck_assert_uint_eq(checked, OF_THE_OTHER);
        ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_ROUND_AT), 0); // the round was not complete
        sk_audit_hurry(audit);
    }
    ck_assert_uint_eq(rebuilt_count, 2);
    ck_assert_int_eq(rebuilt[0].voucher_id, OF_THE_OTHER);
    ck_assert_int_eq(rebuilt[1].voucher_id, OF_THE_OTHER);
    state = "open";
    ck_assert_uint_eq(go_round(), OF_THE_OTHER);
}

// Each voucher belongs to one of the living sessions; a new session takes over about half.
TEST(sessions_share_the_vouchers)
{
    enum { MANY = 200 };
    all_is_well();
    for (int64_t id = 1; id <= MANY; id++)
        (void)on_sale(id);
    another_session_comes();
    size_t mine = go_round();
    ck_assert_uint_gt(mine, MANY / 4);
    ck_assert_uint_lt(mine, MANY * 3 / 4);
    int64_t first[MANY];
    memcpy(first, checked_ids, sizeof first);
    sk_audit_hurry(audit);
    ck_assert_uint_eq(go_round(), mine);
    ck_assert_mem_eq(first, checked_ids, mine * sizeof first[0]); // always the same ones
    fake_living.reads = 0;
    (void)go_round();
    ck_assert_uint_lt(fake_living.reads, MANY / 10); // the assignment is not computed again
    fake_living.count = 1;                           // the other session is gone
    sk_audit_hurry(audit);
    ck_assert_uint_eq(go_round(), MANY);
    another_session_comes();
    sk_audit_hurry(audit);
    ck_assert_uint_eq(go_round(), mine);
}

static uint64_t gauge(enum sk_metric metric)
{
    return sk_metrics_read(&metrics, metric);
}

// A round reports the previous checks of its vouchers, so a check is reported one round later.
static void check_all_twice(void)
{
    for (int i = 0; i < 2; i++) {
        sk_audit_hurry(audit);
        (void)go_round();
    }
}

TEST(what_it_saw_is_told)
{
    struct sk_remaining_rows left = {.count = 0};
    all_is_well();
    (void)on_sale(1);
    (void)on_sale(2);
    on_sale(3)->state = SK_VOUCHER_PAUSED;
    check_all_twice();
    ck_assert_uint_eq(gauge(SK_METRIC_VOUCHERS_ON_SALE), 2);
    ck_assert_uint_eq(gauge(SK_METRIC_JOURNAL_ENTRIES), 0);
    ck_assert_uint_eq(gauge(SK_METRIC_JOURNAL_OLDEST), 0);
    ck_assert_uint_eq(gauge(SK_METRIC_LETTERS_WAITING), 0);
    ck_assert_uint_eq(gauge(SK_METRIC_FINDING_AGREE), 6);
    ck_assert_uint_ne(gauge(SK_METRIC_ROUND_AT), 0);
    sk_remaining_read(&metrics.remaining, &left);
    ck_assert_uint_eq(left.count, 2);
    ck_assert_int_eq(left.rows[0].voucher_id, 2);
    ck_assert_int_eq(left.rows[0].units, 5);
    journal = 4;
    age_ms = 700;
    letters = "2";
    check_all_twice();
    ck_assert_uint_eq(gauge(SK_METRIC_JOURNAL_ENTRIES), 12);
    ck_assert_uint_le(gauge(SK_METRIC_JOURNAL_OLDEST), now_ms - 700);
    ck_assert_uint_ge(gauge(SK_METRIC_JOURNAL_OLDEST), now_ms - 700 - ENOUGH_MS);
    ck_assert_uint_eq(gauge(SK_METRIC_LETTERS_WAITING), 6);
    age_ms = INT64_C(1) << 40; // longer than the machine has run
    check_all_twice();
    ck_assert_uint_eq(gauge(SK_METRIC_JOURNAL_OLDEST), 1);
}

// Every fifth round, by one of the sessions: their gauges are added up.
TEST(payments_to_refund_are_counted_by_one_session)
{
    enum { ROUNDS = 5 };
    static const char *const counts[] = {"3", "0", "4"};
    all_is_well();
    (void)on_sale(1);
    for (int i = 0; i < 3; i++) {
        to_refund = counts[i];
        for (int round = 0; round < ROUNDS; round++)
            (void)go_round();
        ck_assert_uint_eq(gauge(SK_METRIC_TO_REFUND), (uint64_t)atoi(counts[i]));
    }
    another_session_comes();
    for (int round = 0; round < ROUNDS; round++)
        (void)go_round();
    ck_assert_uint_eq(gauge(SK_METRIC_TO_REFUND), sk_assignment_has(sale.session, 0, "payments") ? 4 : 0);
}

// The time of the query to PostgreSQL counts, not of the replies: expiry depends on it.
TEST(that_there_was_no_live_order_is_remembered)
{
    all_is_well();
    const struct sk_audited *audited = &on_sale(1)->maintenance->audited;
    check_all_twice();
    ck_assert_uint_eq(audited->empty_at_ms, 0);
    pg_buyers = "0";
    buyers = 0;
    check_all_twice();
    ck_assert_uint_ne(audited->empty_at_ms, 0);
    ck_assert_uint_le(audited->empty_at_ms, now_ms);
    uint64_t before = audited->empty_at_ms;
    (void)go_until_each_had_its_turn();
    ck_assert_uint_gt(audited->empty_at_ms, before);
    pg_buyers = "1"; // an order was committed; Redis is queried later
    (void)go_until_each_had_its_turn();
    ck_assert_uint_eq(audited->empty_at_ms, 0);
}

TEST(of_the_others_vouchers_they_tell)
{
    enum { MANY = 50 };
    all_is_well();
    for (int64_t id = 1; id <= MANY; id++)
        (void)on_sale(id);
    journal = 1;
    check_all_twice();
    ck_assert_uint_eq(gauge(SK_METRIC_JOURNAL_ENTRIES), MANY);
    another_session_comes();
    check_all_twice();
    ck_assert_uint_gt(gauge(SK_METRIC_JOURNAL_ENTRIES), 0);
    ck_assert_uint_lt(gauge(SK_METRIC_JOURNAL_ENTRIES), MANY);
    ck_assert_uint_eq(gauge(SK_METRIC_JOURNAL_ENTRIES), checked);
}

TEST(books_that_differ_are_told)
{
    all_is_well();
    (void)on_sale(1);
    check_all_twice();
    stock = "6";
    check_all_twice();
    check_all_twice();
    ck_assert_uint_eq(gauge(SK_METRIC_BOOKS_DIFFER), 1);
    ck_assert_uint_ge(gauge(SK_METRIC_FINDING_DIFFER), 2);
    stock = "5";
    check_all_twice();
    ck_assert_uint_eq(gauge(SK_METRIC_BOOKS_DIFFER), 0);
}

// Runs a round in which PostgreSQL is away, or its statement fails.
static void go_round_without_postgresql(bool fails)
{
    sk_audit_hurry(audit);
    now_ms = due_ms;
    fake_stores_forget();
    checked = 0;
    fake_pg.down = !fails;
    time_comes();
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
    all_is_well();
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
    ck_assert_uint_eq(gauge(SK_METRIC_JOURNAL_ENTRIES), 7);
    ck_assert_uint_le(gauge(SK_METRIC_JOURNAL_OLDEST), now_ms - 90000);
    ck_assert_uint_eq(gauge(SK_METRIC_VOUCHERS_ON_SALE), 1);
    ck_assert_uint_eq(gauge(SK_METRIC_LETTERS_WAITING), 2);
    ck_assert_uint_eq(gauge(SK_METRIC_ROUND_AT), 1);
    ck_assert_uint_eq(gauge(SK_METRIC_FINDING_MISSING), 0);
    ck_assert_uint_eq(rebuilt_count + swept_count, 0);
    state = "open";
    go_round_without_postgresql(false);
    go_round_without_postgresql(false);
    sk_remaining_read(&metrics.remaining, &left);
    ck_assert_int_eq(left.rows[0].units, 3);
    stock = pg_stock;
    check_all_twice();
    ck_assert_uint_ne(gauge(SK_METRIC_ROUND_AT), 1);
    ck_assert_uint_eq(swept_count, 2);
    ck_assert_uint_eq(rebuilt_count, 0);
}

// A round that has not seen all of Redis reports nothing: the old values stay, and grow old.
TEST(what_it_could_not_see_is_not_told)
{
    all_is_well();
    (void)on_sale(1);
    journal = 4;
    check_all_twice();
    metrics.values[SK_METRIC_ROUND_AT] = 1;
    journal = 0;
    for (int i = 0; i < 3; i++) {
        sk_audit_hurry(audit);
        now_ms = due_ms;
        fake_stores_forget();
        fake_redis.down = i == 0;
        time_comes();
        if (i == 1)
            pg_answers(NULL);
        if (i == 2)
            answer_accounts(&fake_pg.asked[fake_pg.answered]);
        if (i > 0)
            redis_answers(NULL);
        ck_assert_uint_eq(gauge(SK_METRIC_JOURNAL_ENTRIES), 4);
        ck_assert_uint_eq(gauge(SK_METRIC_ROUND_AT), 1);
        while (fake_redis.answered < fake_redis.count)
            redis_answers(NULL); // its report to the others
    }
    check_all_twice();
    ck_assert_uint_eq(gauge(SK_METRIC_JOURNAL_ENTRIES), 0);
    ck_assert_uint_ne(gauge(SK_METRIC_ROUND_AT), 1);
}

static void changes_to(int64_t id, int64_t number)
{
    struct sk_catalogue_row row = {.change = number,
                                   .voucher_id = id,

                                   .tag = sk_catalogue_find(sale.catalogue, id)->tag,
                                   .end_ms = INT64_MAX / 2};
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
}

// A voucher changed by an operator is checked soon, also by a session that it does not belong to, since its own may
// have died. It is checked until Redis is up to date.
TEST(what_was_changed_is_checked_soon)
{
    all_is_well();
    for (int64_t id = 1; id <= 8; id++)
        (void)on_sale(id);
    another_session_comes();
    while (go_round() > 0) {}
    for (int64_t id = 1; id <= 8; id++) {
        static char numbers[9][8];
        (void)snprintf(numbers[id], sizeof numbers[id], "%d", 20 + (int)id);
        changes_to(id, 20 + id);
        sk_audit_soon(audit);
        ck_assert_uint_eq(due_ms, now_ms + 100); // the changing session may still be applying it
        pg_change = numbers[id];
        now_ms = due_ms;
        fake_stores_forget();
        time_comes();
        checked = 0;
        answer_round();
        char key[SK_KEY_SIZE];
        bool seen = false, asked = false;
        (void)snprintf(key, sizeof key, "seckill:{%" PRId64 "}:voucher", id);
        for (size_t i = 0; i < fake_redis.count; i++) {
            const struct asked *one = &fake_redis.asked[i];
            seen = seen || (one->what == SK_SCRIPT_READ_VOUCHER && strcmp(one->argv[0], key) == 0);
            asked = asked || strcmp(one->argv[0], "HMGET") == 0;
        }
        ck_assert(seen);
        ck_assert(asked); // outdated: changes.c reads it
        while (fake_redis.answered < fake_redis.count)
            redis_answers(NULL);
        change = pg_change;
        ck_assert_uint_ge(go_round(), 1); // now up to date
        while (go_round() > 0) {}
    }
    ck_assert_uint_eq(rebuilt_count, 0);
}

// Before the first list of living sessions, every voucher is checked.
TEST(a_session_that_knows_of_none_checks_all)
{
    all_is_well();
    (void)on_sale(1);
    fake_living.count = 0;
    ck_assert_uint_eq(go_round(), 1);
}

TEST(without_a_store_a_round_ends)
{
    all_is_well();
    (void)on_sale(1);
    go_round_without_postgresql(false);
    ck_assert_uint_ne(due_ms, 0);
    due_ms = 0;
    fake_stores_forget();
    time_comes();
    pg_answers(NULL);
    answer_round();
    ck_assert_uint_ne(due_ms, 0);
    sk_audit_hurry(audit);
    fake_stores_forget();
    time_comes();
    pg_answers(&(const struct sk_rows){0}); // without an account nothing can be judged
    answer_round();
    ck_assert_uint_ne(due_ms, 0);
    fake_redis.down = true;
    time_comes();
    ck_assert_uint_ne(due_ms, 0);
    ck_assert_uint_eq(rebuilt_count, 0);
    fake_redis.down = false;
}

// ---- findings ----

TEST(what_redis_has_lost_is_rebuilt)
{
    static const struct {
        const char *state, *epoch;
    } rows[] = {{"", "3"}, {"loading", "3"}, {"open", "2"}};
    (void)on_sale(1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        all_is_well();
        state = rows[i].state;
        epoch = rows[i].epoch;
        rebuilt_count = 0;
        sk_audit_hurry(audit);
        (void)go_round();
        ck_assert_uint_eq(rebuilt_count, 1);
        ck_assert_int_eq(rebuilt[0].why, SK_REBUILD_DOUBT);
    }
}

// What has lost one voucher may have lost others. What is being rebuilt has not.
TEST_EACH(what_redis_has_lost_is_looked_for_at_once, 2)
{
    static const struct {
        const char *state;
        bool hurries;
    } rows[] = {{"", true}, {"retired", false}};
    all_is_well();
    (void)on_sale(1);
    for (int i = 0; i < 3; i++)
        (void)go_until_each_had_its_turn();
    state = rows[_i].state;
    while (go_round() == 0) {}
    ck_assert_int_eq(rebuilt[0].why, SK_REBUILD_DOUBT);
    ck_assert_int_eq(due_ms == now_ms, rows[_i].hurries);
}

TEST(what_postgresql_has_redis_must_have)
{
    struct sk_voucher *voucher = on_sale(1);
    all_is_well();
    pg_newest_ms = "77";
    (void)go_round();
    ck_assert_int_eq(rebuilt[0].why, SK_REBUILD_DOUBT);
    ck_assert_int_eq(voucher->seen.epoch, 3);
    ck_assert_str_eq(voucher->seen.last, "77-0");
    pg_newest_ms = "76"; // more has been seen since
    sk_audit_hurry(audit);
    (void)go_round();
    ck_assert_str_eq(voucher->seen.last, "77-0");
    epoch = "2";
    pg_epoch = "4";
    pg_newest_ms = "0";
    sk_audit_hurry(audit);
    (void)go_round();
    ck_assert_int_eq(voucher->seen.epoch, 4);
    ck_assert_str_eq(voucher->seen.last, "0-0");
}

TEST(books_that_differ_are_believed_the_second_time)
{
    all_is_well();
    (void)on_sale(1);
    stock = "4";      // differs from PostgreSQL
    (void)go_round(); // the first check
    sk_audit_hurry(audit);
    (void)go_round();
    ck_assert_uint_eq(rebuilt_count, 0);
    (void)go_round();
    ck_assert_uint_eq(rebuilt_count, 1);
    ck_assert_int_eq(rebuilt[0].why, SK_REBUILD_ORDERED);
    (void)go_round();
    ck_assert_uint_eq(rebuilt_count, 2); // one that failed is repeated
}

TEST(a_difference_that_a_rebuild_left_waits_a_minute)
{
    all_is_well();
    struct sk_audited *audited = &on_sale(1)->maintenance->audited;
    stock = "4";
    audited->rebuilt_at_ms = now_ms; // as after a rebuild that ended well
    sk_audit_hurry(audit);
    for (int i = 0; i < 5; i++)
        (void)go_round();
    ck_assert_uint_eq(rebuilt_count, 0);
    now_ms += 60000;
    due_ms = now_ms;
    (void)go_round();
    ck_assert_uint_eq(rebuilt_count, 1);
}

TEST(a_difference_after_the_stores_have_agreed_is_a_new_one)
{
    all_is_well();
    struct sk_audited *audited = &on_sale(1)->maintenance->audited;
    audited->rebuilt_at_ms = now_ms;
    sk_audit_hurry(audit);
    for (int i = 0; i < 3; i++)
        (void)go_round();
    ck_assert_uint_eq(audited->rebuilt_at_ms, 0);
    stock = "4";
    sk_audit_hurry(audit);
    for (int i = 0; i < 4; i++)
        (void)go_round();
    ck_assert_uint_gt(rebuilt_count, 0);
}

TEST(a_sale_that_is_long_over_is_retired)
{
    all_is_well();
    struct sk_voucher *voucher = a_voucher(sale.catalogue, 1); // it ended in 1970
    voucher->maintenance->retire_at_ms = now_ms + 20000;       // the last attempt was recent
    sk_audit_hurry(audit);
    (void)go_round();
    ck_assert_uint_eq(rebuilt_count, 0);
    now_ms += 20000;
    due_ms = now_ms;
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
static bool complete;

static size_t busy(size_t most)
{
    return sk_audit_busy(audit, out, most, &complete);
}

TEST(what_is_busy_is_told_and_read)
{
    all_is_well();
    for (int64_t id = 1; id <= 3; id++)
        (void)on_sale(id);
    (void)go_round();
    ck_assert_str_eq(fake_redis.asked[fake_redis.answered].argv[0], "HDEL"); // no voucher is busy
    journal = 1;
    sk_audit_hurry(audit);
    (void)go_round();
    ck_assert_uint_eq(swept_count, 3);
    const struct asked *asked = &fake_redis.asked[fake_redis.answered];
    ck_assert_str_eq(asked->argv[0], "HSET");
    ck_assert_str_eq(asked->argv[1], SK_KEY_BUSY);
    ck_assert_str_eq(asked->argv[2], OWN);
    ck_assert_str_eq(asked->argv[3], "1,2,3");
    another_session_comes();
    others_tell(OTHER, "2,3,99");
    ck_assert_uint_eq(busy(8), 3); // a voucher not in the catalogue is gone
    ck_assert(complete);
    ck_assert_int_eq(out[0]->id, 2); // busy ones come first
    ck_assert_int_eq(out[1]->id, 3);
    ck_assert_int_eq(out[2]->id, 1);
    ck_assert_uint_eq(swept_count, 3); // the reporting session sweeps its own findings
    ck_assert_uint_eq(busy(1), 1);
    ck_assert(!complete);
}

// Otherwise its report would stay as long as any other session lives.
TEST(a_dead_session_tells_nothing_and_is_removed)
{
    all_is_well();
    (void)on_sale(1);
    (void)go_round();
    (void)on_sale(2);
    others_tell(DEAD, "2");
    ck_assert_uint_eq(busy(1), 1);
    ck_assert_int_eq(out[0]->id, 1); // 2 does not come first
    ck_assert_uint_eq(fake_redis.count, fake_redis.answered + 1);
    const struct asked *asked = &fake_redis.asked[fake_redis.answered];
    ck_assert_int_eq(asked->argc, 3);
    ck_assert_str_eq(asked->argv[0], "HDEL");
    ck_assert_str_eq(asked->argv[1], SK_KEY_BUSY);
    ck_assert_str_eq(asked->argv[2], DEAD);
    redis_answers(NULL); // the next round removes it
    another_session_comes();
    (void)go_round();
    others_tell(OTHER, "2");
    ck_assert_uint_eq(fake_redis.count, fake_redis.answered); // this session lives
    ck_assert_uint_eq(busy(1), 1);
    ck_assert_int_eq(out[0]->id, 2);
}

// It depends on the vouchers queried, not reported: another session may have pending orders not found yet.
TEST(it_is_complete_if_all_vouchers_have_room)
{
    const struct sk_reply error = ERROR("WRONGTYPE");
    const struct sk_reply *const answers[] = {NULL, &error};
    all_is_well();
    for (int64_t id = 1; id <= 3; id++)
        (void)on_sale(id);
    for (size_t i = 0; i < 2; i++) {
        (void)go_round();
        redis_answers(NULL);
        redis_answers(answers[i]);
        ck_assert_uint_eq(busy(3), 3);
        ck_assert(complete);
        ck_assert_uint_eq(busy(2), 2);
        ck_assert(!complete);
    }
    (void)go_round();
    others_tell(OWN, "3");
    ck_assert_uint_eq(busy(2), 2);
    ck_assert(!complete); // the reported vouchers had room, but not all vouchers
    ck_assert_int_eq(out[0]->id, 3);
}

// This happens briefly when the list of the living changes; an order must not be listed twice.
TEST(two_sessions_may_tell_of_the_same_voucher)
{
    const struct sk_reply ok = NUMBER(1), items[] = {TEXT(OWN), TEXT("1,2"), TEXT(OTHER), TEXT("2,1")},
                          reply = LIST_OF(items);
    all_is_well();
    (void)on_sale(1);
    (void)on_sale(2);
    another_session_comes();
    (void)go_round();
    redis_answers(&ok);
    redis_answers(&reply);
    ck_assert_uint_eq(busy(8), 2);
    ck_assert(complete);
    ck_assert_uint_eq(busy(2), 2); // that is all of them
    ck_assert(complete);
}

TEST(own_orders_are_busy_before_any_check)
{
    struct sk_voucher *voucher = on_sale(1);
    struct sk_entry *entry = own_entry(voucher, 7, "10-1");
    ck_assert_uint_eq(busy(8), 1);
    ck_assert_ptr_eq(out[0], voucher);
    ck_assert(complete);
    all_is_well();
    (void)go_round();
    others_tell(OWN, "1");
    ck_assert_uint_eq(busy(8), 1); // only once
    sk_entry_forget(entry);
}

SUITE(.setup = setup, .teardown = teardown);
