// Which vouchers are checked for due orders, and when; the walk over one, its pace, and what stops it. The stores, the
// locks, the returns and the time are fakes.
#include "failing_memory.h"

#include <stdio.h>
#include <string.h>

#include "course.h"
#include "expiry.h"
#include "fake_living.h"
#include "fake_named_locks.h"
#include "fake_session.h"
#include "fake_timer.h"
#include "listening.h"
#include "recovery.h"
#include "stage.h"
#include "test.h"

enum { VOUCHER = 7, TICK_MS = 100, AGAIN_MS = 1000, SELDOM_MS = 60000, RUNS_MAX = 144, CALLS_MAX = 1024 };

#define OTHER "018bcfe5-6800-7000-8000-0000000000b2"
#define A     "018bcfe5-6800-7000-8000-000000000001"
#define B     "018bcfe5-6800-7000-8000-000000000002"
#define C     "018bcfe5-6800-7000-8000-000000000003"

static struct sk_expiry *expiry;
static struct sk_voucher *voucher;

// ---- fakes ----

static void lock_is(bool held)
{
    lock_answers(locks.count - 1, held);
}

static struct call {
    struct sk_voucher *voucher;
    size_t count;
    char first[SK_UUID_SIZE];
    sk_returns_cb *done;
    void *arg;
} calls[CALLS_MAX];
static size_t call_count, call_ended, order_count;
static enum sk_status calls_status;

enum sk_status sk_return_orders(struct sk_returns *returns, struct sk_voucher *its_voucher, const char *ids,
                                enum sk_return_move move, const char *by, sk_returns_cb *done, void *arg)
{
    ck_assert_ptr_eq((void *)returns, &calls);
    ck_assert_int_eq(move, SK_RETURN_EXPIRED);
    ck_assert_str_eq(by, "expiry");
    if (calls_status != SK_OK)
        return calls_status;
    ck_assert_uint_lt(call_count, CALLS_MAX);
    struct call *call = &calls[call_count++];
    *call = (struct call){.voucher = its_voucher, .count = (strlen(ids) + 1) / SK_UUID_SIZE, .done = done, .arg = arg};
    ck_assert_uint_eq(strlen(ids), call->count * SK_UUID_SIZE - 1);
    (void)snprintf(call->first, sizeof call->first, "%.*s", SK_UUID_CHARS, ids);
    order_count += call->count;
    return SK_OK;
}

static void call_ends(enum sk_return_end end, size_t ended)
{
    ck_assert_uint_lt(call_ended, call_count);
    const struct call *call = &calls[call_ended++];
    call->done(call->arg, end, ended);
}

// ---- fixture ----

static void new_terms(int64_t pay_within_s, enum sk_voucher_state state)
{
    static int64_t change = VOUCHER;
    struct sk_catalogue_row row = {.change = ++change,
                                   .voucher_id = VOUCHER,
                                   .state = state,
                                   .tag = "7",
                                   .user_limit = 1,
                                   .pay_within_s = pay_within_s};
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
}

// Makes it the first of so many.
static void vouchers(int count)
{
    for (int id = VOUCHER + 1; id < VOUCHER + count; id++)
        (void)a_voucher(sale.catalogue, id);
}

static void setup(void)
{
    stage_open((struct sk_sale_options){0}, sizeof(struct sk_maintenance), 0);
    course_links(&sale);
    voucher = a_voucher(sale.catalogue, VOUCHER);
    fake_living_are(FAKE_SESSION, OTHER, 1);
    now_ms = 5000000;
    expiry = sk_expiry_open(&sale);
    ck_assert_ptr_nonnull(expiry);
    shards[0].returns = (struct sk_returns *)(void *)&calls;
}

static void teardown(void)
{
    sk_expiry_close(expiry);
    ck_assert_uint_eq(locks.released, locks.count);
    stage_close();
}

static void tick(void)
{
    now_ms += TICK_MS;
    time_comes();
}

// Ticks for this many ms; no run begins.
static void nothing_for(uint64_t ms)
{
    size_t before = locks.count;
    for (uint64_t passed = 0; passed + TICK_MS < ms; passed += TICK_MS)
        tick();
    ck_assert_uint_eq(locks.count, before);
}

// No run is in progress, and the next one begins this many ms from now.
static void must_begin_again_in(uint64_t ms)
{
    size_t before = locks.count;
    ck_assert(!course_waits());
    ck_assert_uint_eq(locks.released, before);
    nothing_for(ms);
    tick();
    ck_assert_uint_eq(locks.count, before + 1);
}

// ---- the course of a run ----

// The time by both clocks.
#define REDIS_S "1000000"
#define PG_MS   "1000000000"

static const struct sk_reply redis_time = REPLY_ITEMS(TEXT(REDIS_S), TEXT("0"));

#define SCAN_FROM(from) "ask-pg due_orders 1716 7 " from " 128"

// PostgreSQL's answer: the due orders, where to continue, and when the next is due.
#define DUE(due, walked_to, next) PG_ANSWERS(1, {due, walked_to, next, PG_MS})

// A run begins, and has compared the clocks.
static void begin(void)
{
    tick();
    ck_assert_str_eq(locks.key, "seckill:lock:expire:{7}");
    lock_is(true);
    ck_assert_str_eq(course_question(), "ask-redis TIME");
    redis_answers(&redis_time);
    ck_assert_str_eq(course_question(), SCAN_FROM("null"));
}

TEST(what_is_due_is_ended)
{
    begin();
    DUE("{" A "," B "}", NULL, NULL);
    ck_assert(!course_waits());
    ck_assert_uint_eq(call_count, 0); // the last batch of a walk waits for a tick
    tick();
    ck_assert_uint_eq(call_count, 1);
    ck_assert_ptr_eq(calls[0].voucher, voucher);
    ck_assert_uint_eq(calls[0].count, 2);
    ck_assert_str_eq(calls[0].first, A);
    nothing_for(5000); // no other run begins until they have ended
    ck_assert_uint_eq(locks.released, 0);
    call_ends(SK_RETURN_DONE, 1); // one was paid meanwhile
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_ORDERS_EXPIRED), 1);
    must_begin_again_in(SELDOM_MS);
}

TEST(a_walk_goes_on_where_it_got_to)
{
    begin();
    DUE("{" A "}", B, NULL);
    call_ends(SK_RETURN_DONE, 1);
    ck_assert_str_eq(course_question(), SCAN_FROM(B));
    DUE("{}", C, NULL); // nothing is due in that part
    ck_assert_str_eq(course_question(), SCAN_FROM(C));
    DUE("{}", NULL, NULL);
    ck_assert_uint_eq(call_count, 1);
    must_begin_again_in(SELDOM_MS);
    lock_is(true);
    redis_answers(&redis_time);
    ck_assert_str_eq(course_question(), SCAN_FROM("null")); // from the beginning
    DUE("{}", NULL, NULL);
}

// ---- the time of the next check ----

static const struct {
    const char *name;
    int64_t pay_within_s;
    const char *next[2]; // of two parts
    uint64_t again_in_ms;
} scans[] = {
    {"nothing waits", 900, {NULL, NULL}, SELDOM_MS},
    {"nothing waits, and what comes may be due soon", 10, {NULL, NULL}, 10000},
    {"one waits", 900, {NULL, "1000030000"}, 30000},
    {"the first of two", 900, {"1000020000", "1000030000"}, 20000},
    {"the second of two", 900, {"1000030000", "1000020000"}, 20000},
    {"only in the first part", 900, {"1000030000", NULL}, 30000},
    {"one that is far away", 900, {"1000800000", NULL}, SELDOM_MS},
    {"one that is due by now", 900, {NULL, PG_MS}, TICK_MS},
    {"one that was due", 900, {NULL, "999999000"}, TICK_MS},
};
enum { SCANS = sizeof scans / sizeof scans[0] };

TEST_EACH(the_next_scan_is_when_one_is_due, SCANS)
{
    new_terms(scans[_i].pay_within_s, SK_VOUCHER_OPEN);
    begin();
    DUE("{}", A, scans[_i].next[0]);
    ck_assert_str_eq(course_question(), SCAN_FROM(A));
    DUE("{}", NULL, scans[_i].next[1]);
    must_begin_again_in(scans[_i].again_in_ms);
}

// ---- which vouchers ----

// Without a time to pay it is left alone.
TEST(new_terms_are_scanned_at_once)
{
    new_terms(0, SK_VOUCHER_OPEN);
    nothing_for(SELDOM_MS * 2);
    new_terms(900, SK_VOUCHER_OPEN);
    begin();
    DUE("{}", NULL, NULL);
    nothing_for(1000);
    new_terms(60, SK_VOUCHER_OPEN);
    tick();
    ck_assert_uint_eq(locks.count, 2);
}

// An order committed after the audit's query is due a whole payment time after that query began.
TEST(what_the_watch_saw_empty_is_left_alone)
{
    static const struct {
        int64_t pay_within_s;
        uint64_t from_ms;
    } rows[] = {{900, 840000}, {120, 60000}, {10, 5000}, {1, 500}};
    struct sk_audited *audited = &voucher->maintenance->audited;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        new_terms(rows[i].pay_within_s, SK_VOUCHER_OPEN);
        audited->empty_at_ms = now_ms;
        nothing_for(rows[i].from_ms / 2);
        audited->empty_at_ms = now_ms; // again
        must_begin_again_in(rows[i].from_ms);
        lock_is(false);
    }
    new_terms(900, SK_VOUCHER_OPEN);
    audited->empty_at_ms = now_ms;
    nothing_for(1000);
    audited->empty_at_ms = 0; // orders exist: checked at once
    must_begin_again_in(TICK_MS);
    lock_is(false);
}

TEST(each_session_has_its_share)
{
    enum { MANY = 100 };
    size_t own = 0;
    fake_living.count = 2;
    vouchers(MANY);
    for (int id = VOUCHER; id < VOUCHER + MANY; id++)
        own += sk_assignment_has(NULL, 0, a_voucher(sale.catalogue, id)->tag);
    ck_assert_uint_gt(own, MANY / 4);
    ck_assert_uint_lt(own, MANY * 3 / 4);
    for (fake_living.count = 2; fake_living.count > 0; fake_living.count--) { // then the other dies
        for (int i = 0; i < MANY; i++) {
            size_t before = locks.count;
            tick();
            for (size_t lock = before; lock < locks.count; lock++)
                lock_answers(lock, false);
            now_ms -= TICK_MS; // a checked voucher is not checked again
        }
        ck_assert_uint_eq(locks.count, fake_living.count == 2 ? own : MANY);
    }
    fake_living.count = 1;
}

TEST(runs_have_their_bound_and_all_have_their_turn)
{
    enum { MANY = 2 * RUNS_MAX + 5 };
    vouchers(MANY);
    tick();
    ck_assert_uint_eq(locks.count, RUNS_MAX);
    tick();
    ck_assert_uint_eq(locks.count, RUNS_MAX);
    for (size_t i = 0; i < MANY; i++) { // the end of one run begins the next without a tick
        lock_answers(i, false);
        ck_assert_uint_eq(locks.count, i + 1 + RUNS_MAX < MANY ? i + 1 + RUNS_MAX : MANY);
    }
    ck_assert_uint_eq(locks.released, MANY);
}

// Its runs do not end before it is back.
TEST(a_shard_that_is_away_keeps_no_run_of_another)
{
    sale.shard_count = 2;
    vouchers(RUNS_MAX + 6);
    for (int id = VOUCHER; id < VOUCHER + RUNS_MAX + 5; id++)
        a_voucher(sale.catalogue, id)->shard = 1;
    tick();
    ck_assert_uint_eq(locks.count, RUNS_MAX + 1);
    lock_answers(0, false);
    tick();
    ck_assert_uint_eq(locks.count, RUNS_MAX + 2); // the shard's next voucher
}

// A run that cannot begin does not start another: the next tick retries.
TEST(without_locks_nothing_goes_round_in_circles)
{
    enum { MANY = 2 * RUNS_MAX + 5 };
    vouchers(MANY);
    tick();
    locks.cannot = true;
    for (size_t i = 0; i < RUNS_MAX; i++)
        lock_answers(i, false);
    ck_assert_uint_eq(locks.count, RUNS_MAX);
    locks.cannot = false;
    nothing_for(AGAIN_MS);
    tick();
    ck_assert_uint_eq(locks.count, 2 * RUNS_MAX);
}

TEST(nothing_begins_without_session_or_stores)
{
    bool *const lacks[] = {&fake_session.lost, &fake_redis.down, &fake_redis.orders_down, &fake_pg.down};
    for (size_t i = 0; i < sizeof lacks / sizeof lacks[0]; i++) {
        *lacks[i] = true;
        nothing_for(SELDOM_MS);
        *lacks[i] = false;
    }
    tick();
    ck_assert_uint_eq(locks.count, 1);
}

// ---- several vouchers in one query ----

// Three vouchers need a check; the first one's query is sent. The link's replies may come in any order.
static void begin_three(void)
{
    vouchers(3);
    tick();
    ck_assert_uint_eq(locks.count, 3);
    for (size_t i = 0; i < 3; i++)
        lock_answers(i, true);
    for (size_t i = 0; i < 3; i++)
        redis_answers(&redis_time);
    ck_assert_uint_eq(fake_pg.count, 1);
}

TEST(scans_that_wait_go_together)
{
    begin_three();
    DUE("{" A "}", NULL, NULL);
    ck_assert_str_eq(course_question(), "ask-pg due_batches {10106,14171} {9,8} {null,null} 128");
    PG_ANSWERS(2, {"{" B "}", NULL, NULL, PG_MS}, {"{" C "}", A, NULL, PG_MS});
    ck_assert_uint_eq(call_count, 1); // its walk continues
    tick();
    ck_assert_uint_eq(call_count, 3);
    for (size_t i = 0; i < 3; i++) {
        static const char *const first[] = {C, A, B};
        static const int64_t ids[] = {VOUCHER + 1, VOUCHER, VOUCHER + 2};
        ck_assert_int_eq(calls[i].voucher->id, ids[i]);
        ck_assert_str_eq(calls[i].first, first[i]);
    }
    for (int i = 0; i < 3; i++)
        call_ends(SK_RETURN_DONE, 1);
    ck_assert_str_eq(course_question(), "ask-pg due_orders 14171 8 " A " 128"); // it continues
    DUE("{}", NULL, NULL);
    ck_assert_uint_eq(locks.released, 3);
}

TEST_EACH(scans_that_fail_together_are_tried_again, 2)
{
    begin_three();
    DUE("{}", NULL, NULL);
    if (_i == 0)
        pg_fails(SK_RESULT_LOST);
    else
        DUE("{" B "}", NULL, NULL); // too few
    ck_assert_uint_eq(call_count, 0);
    ck_assert_uint_eq(locks.released, 3);
    nothing_for(AGAIN_MS);
    tick();
    ck_assert_uint_eq(locks.count, 5);
}

// ---- the clocks ----

static const char *const agreeing[] = {"999995000", "1000000000", "1000005000"};
static const char *const differing[] = {"0", "999994999", "1000005001", "2000000000"};

TEST_EACH(while_the_clocks_agree_orders_expire, sizeof agreeing / sizeof agreeing[0])
{
    begin();
    PG_ANSWERS(1, {"{" A "}", NULL, NULL, agreeing[_i]});
    tick();
    ck_assert_uint_eq(call_count, 1);
    call_ends(SK_RETURN_DONE, 1);
}

// Answers a scan, and returns whether that was logged.
static bool is_logged(const char *pg_ms, const char *line)
{
    begin_listening();
    PG_ANSWERS(1, {"{" A "}", NULL, NULL, pg_ms});
    end_listening();
    return strstr(heard, line) != NULL;
}

static void begin_again_in(uint64_t ms)
{
    must_begin_again_in(ms);
    lock_is(true);
    redis_answers(&redis_time);
}

// Each change is logged once.
TEST_EACH(while_the_clocks_differ_nothing_expires, sizeof differing / sizeof differing[0])
{
    begin();
    for (int i = 0; i < 3; i++) {
        bool logged =
            is_logged(differing[_i], "level=warn msg=\"expiry pauses: the clocks of PostgreSQL and Redis differ\"");
        ck_assert_int_eq(logged, i == 0);
        if (i == 0 && _i == 2)
            ck_assert_ptr_nonnull(strstr(heard, " apart_ms=5001\n"));
        ck_assert_uint_eq(call_count, 0);
        begin_again_in(AGAIN_MS);
    }
    for (size_t i = 0; i < 2; i++) {
        bool logged = is_logged(PG_MS, "level=info msg=\"expiry goes on: the clocks of PostgreSQL and Redis agree\"");
        ck_assert_int_eq(logged, i == 0);
        tick();
        ck_assert_uint_eq(call_count, i + 1);
        call_ends(SK_RETURN_DONE, 1);
        begin_again_in(SELDOM_MS);
    }
    DUE("{}", NULL, NULL);
}

// A walk queries Redis once, but PostgreSQL with each part.
TEST(a_long_walk_compares_with_the_time_that_has_passed)
{
    const struct sk_rows later = ROWS(1, {"{" A "}", B, NULL, "1000020000"});
    begin();
    now_ms += 20000;
    pg_answers(&later);
    ck_assert_uint_eq(call_count, 1);
    call_ends(SK_RETURN_DONE, 1);
    now_ms += 20000;
    pg_answers(&later); // by then its clock has not advanced
    ck_assert_uint_eq(call_count, 1);
    ck_assert(!course_waits());
}

// ---- pace ----

// A voucher's due orders, and how many have been ended.
struct load {
    int64_t voucher;
    size_t left, ended;
};

static const char *ids_of(size_t count)
{
    static char text[SK_RETURNS_MAX * SK_UUID_SIZE + 3];
    size_t len = 1;
    text[0] = '{';
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s018bcfe5-6800-7000-8000-%012d", i == 0 ? "" : ",",
                                (int)i);
    (void)snprintf(text + len, sizeof text - len, "}");
    return text;
}

// Answers the oldest scan, for one voucher or for several, "{7,8}".
static void answer_scan(struct load *loads, size_t part)
{
    static char due[RUNS_MAX][SK_RETURNS_MAX * SK_UUID_SIZE + 3];
    const char *cells[RUNS_MAX][ROW_COLUMNS] = {{NULL}};
    const struct asked *asked = &fake_pg.asked[fake_pg.answered];
    const char *at = asked->argv[1] + (asked->what == SK_STATEMENT_DUE_BATCHES);
    size_t count = 0;
    for (char *end; *at >= '0' && *at <= '9'; at = end + (*end == ',')) {
        struct load *load = loads;
        int64_t id = strtoll(at, &end, 10);
        while (load->voucher != id)
            load++;
        size_t n = load->left < part ? load->left : part;
        load->left -= n;
        (void)snprintf(due[count], sizeof due[count], "%s", ids_of(n));
        cells[count][0] = due[count];
        cells[count][1] = load->left > 0 ? A : NULL;
        cells[count][3] = PG_MS;
        count++;
    }
    const struct sk_rows rows = {count, (const char *const(*)[ROW_COLUMNS])cells};
    pg_answers(&rows);
}

// Answers every call and ends every return; each answer has at most `part` orders.
static void play(struct load *loads, size_t count, size_t part)
{
    static size_t locked;
    while (locked < locks.count || call_ended < call_count || fake_redis.answered < fake_redis.count ||
           fake_pg.answered < fake_pg.count) {
        if (locked < locks.count) {
            lock_answers(locked++, true);
        }
        while (fake_redis.answered < fake_redis.count)
            redis_answers(&redis_time);
        while (call_ended < call_count) {
            const struct call *call = &calls[call_ended];
            for (size_t i = 0; i < count; i++)
                loads[i].ended += loads[i].voucher == call->voucher->id ? call->count : 0;
            call_ends(SK_RETURN_DONE, call->count);
        }
        while (fake_pg.answered < fake_pg.count)
            answer_scan(loads, part);
    }
}

static const struct {
    const char *name;
    size_t vouchers, part, ticks;
} paces[] = {
    {"one voucher", 1, SK_RETURNS_MAX, 40}, {"two", 2, SK_RETURNS_MAX, 40},
    {"many", 8, SK_RETURNS_MAX, 40},        {"parts that do not fill the pace", 4, 100, 40},
    {"... nor a half of it", 3, 50, 20},
};
enum { PACES = sizeof paces / sizeof paces[0] };

// 128 orders in a tick, over all vouchers, and each voucher gets its turn.
TEST_EACH(all_runs_together_have_one_pace, PACES)
{
    struct load loads[16] = {0};
    for (size_t i = 0; i < paces[_i].vouchers; i++) {
        loads[i] = (struct load){.voucher = VOUCHER + (int64_t)i, .left = 1000000};
        (void)a_voucher(sale.catalogue, loads[i].voucher);
    }
    for (size_t i = 1; i <= paces[_i].ticks; i++) {
        tick();
        play(loads, paces[_i].vouchers, paces[_i].part);
        ck_assert_msg(order_count <= i * SK_RETURNS_MAX + paces[_i].part, "%zu orders in %zu ticks", order_count, i);
    }
    ck_assert_uint_ge(order_count, paces[_i].ticks * SK_RETURNS_MAX - SK_RETURNS_MAX);
    for (size_t i = 0; i < paces[_i].vouchers; i++)
        ck_assert_msg(loads[i].ended >= order_count / paces[_i].vouchers / 2, "%zu of %zu orders are of voucher %zu",
                      loads[i].ended, order_count, i);
}

// ---- failures ----

static const struct sk_reply no_times[] = {ERROR("LOADING"), REPLY_ITEMS(TEXT("x"), TEXT("0")),
                                           REPLY_ITEMS(NUMBER(-1), NUMBER(0))};
static const struct sk_rows no_rows = {0, NULL};

// Where a run fails: at its lock, Redis's time, the scan, or the return.
static const struct failure {
    enum { NO_LOCK, OTHERS_LOCK, NO_TIME, NO_QUESTION, NO_SCAN, NO_RETURN, RETURN_FAILS } at;
    int how;
} failures[] = {
    {NO_LOCK, 0},
    {OTHERS_LOCK, 0},
    {NO_TIME, -1}, // no reply
    {NO_TIME, 0},
    {NO_TIME, 1},
    {NO_TIME, 2},
    {NO_QUESTION, 1},
    {NO_QUESTION, 2},
    {NO_SCAN, SK_RESULT_LOST},
    {NO_SCAN, SK_RESULT_FAILED},
    {NO_SCAN, SK_RESULT_LOCKED},
    {NO_SCAN, SK_RESULT_REFUSED},
    {NO_SCAN, SK_RESULT_ROWS}, // none
    {NO_RETURN, SK_DOWN},
    {NO_RETURN, SK_NO_MEM},
    {RETURN_FAILS, SK_RETURN_LOADING},
    {RETURN_FAILS, SK_RETURN_UNAVAILABLE},
};

TEST_EACH(a_run_that_fails_is_tried_again, sizeof failures / sizeof failures[0])
{
    const struct failure *failure = &failures[_i];
    locks.cannot = failure->at == NO_LOCK;
    fake_no_memory = failure->at == NO_QUESTION ? course_call_fails : NULL;
    calls_left = (size_t)failure->how; // of NO_QUESTION
    tick();
    locks.cannot = false;
    if (failure->at > NO_LOCK)
        lock_is(failure->at != OTHERS_LOCK);
    if (failure->at < NO_TIME)
        ck_assert_uint_eq(fake_redis.count + fake_pg.count, 0);
    else if (failure->at == NO_TIME)
        redis_answers(failure->how < 0 ? NULL : &no_times[failure->how]);
    else if (failure->at != NO_QUESTION || failure->how == 2)
        redis_answers(&redis_time);
    if (failure->at == NO_SCAN)
        pg_gives((struct sk_result){.kind = (enum sk_result_kind)failure->how,
                                    .rows = failure->how == SK_RESULT_ROWS ? &no_rows : NULL});
    if (failure->at >= NO_RETURN) {
        calls_status = failure->at == NO_RETURN ? (enum sk_status)failure->how : SK_OK;
        DUE("{" A "}", B, failure->at == NO_RETURN ? NULL : PG_MS);
    }
    if (failure->at == RETURN_FAILS)
        call_ends((enum sk_return_end)failure->how, 0);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_ORDERS_EXPIRED), 0);
    must_begin_again_in(AGAIN_MS);
    fake_no_memory = NULL;
}

TEST(short_memory_only_delays)
{
    allocations_left = 1;
    tick();
    ck_assert_uint_eq(locks.count, 0);
    tick();
    ck_assert_uint_eq(locks.count, 1);
    allocations_left = 1;
    ck_assert_ptr_null(sk_expiry_open(&sale));
}

// ---- the end ----

TEST(at_the_stop_a_walk_does_not_go_on_and_none_begins)
{
    begin();
    DUE("{" A "}", B, NULL);
    sk_expiry_stop(expiry);
    call_ends(SK_RETURN_DONE, 1); // these are counted
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_ORDERS_EXPIRED), 1);
    ck_assert(!course_waits());
    ck_assert_uint_eq(locks.released, 1);
    nothing_for(SELDOM_MS);
}

// The second has found due orders, and waits for its turn.
TEST(at_the_stop_what_waits_for_its_turn_is_left)
{
    vouchers(2);
    tick();
    for (size_t i = 0; i < 2; i++) {
        lock_answers(i, true);
        redis_answers(&redis_time);
        DUE(ids_of(SK_RETURNS_MAX), A, NULL);
    }
    ck_assert_uint_eq(call_count, 1);
    sk_expiry_stop(expiry);
    call_ends(SK_RETURN_DONE, SK_RETURNS_MAX);
    tick();
    ck_assert_uint_eq(call_count, 1);
    ck_assert(!course_waits());
    ck_assert_uint_eq(locks.released, 2);
}

TEST_EACH(closing_in_every_state_leaks_nothing, 5)
{
    tick();
    if (_i > 0)
        lock_is(true);
    if (_i > 1)
        redis_answers(&redis_time);
    if (_i > 2)
        DUE(ids_of(SK_RETURNS_MAX), A, NULL);
    if (_i == 3)
        call_ends(SK_RETURN_DONE, SK_RETURNS_MAX); // it waits for its turn
    if (_i == 4)
        call_ends(SK_RETURN_UNAVAILABLE, 0); // as the returns report when they are closed
    sk_expiry_close(expiry);
    ck_assert_uint_eq(locks.released, 1);
    sk_expiry_close(NULL);
    expiry = sk_expiry_open(&sale); // for the teardown
}

TEST(a_voucher_that_leaves_ends_its_walk_first)
{
    begin();
    new_terms(900, SK_VOUCHER_RETIRED);
    ck_assert_ptr_null(sk_catalogue_find(sale.catalogue, VOUCHER));
    DUE("{" A "}", NULL, NULL);
    tick();
    call_ends(SK_RETURN_UNAVAILABLE, 0);
    ck_assert_uint_eq(locks.released, 1);
    nothing_for(SELDOM_MS);
}

SUITE(.setup = setup, .teardown = teardown);
